package queue

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"ralph/memory/durable"
	"ralph/memory/text"
)

// The delays of queue.md: it is written soon after a change, and never takes more
// than a fifth of the time.
const (
	gatherTime = 20 * time.Millisecond
	viewTime   = 100 * time.Millisecond
	viewFactor = 4
	maxRest    = 2 * time.Second
	retryTime  = time.Second
)

// The bounds of what queue.md shows.
const (
	maxShownBytes = 64 << 10 // of one message
	maxViewBytes  = 4 << 20  // of all, before each is cut to minShownBytes
	minShownBytes = 256
	maxFromRunes  = 40
)

const (
	heading     = "# Queue"
	explanation = "Accepted and not delivered yet. Ralph writes this file and never reads it: `/queue` changes what waits, `ralph send` adds to it."
	nothing     = "Nothing waits."
)

// wake has the goroutine write queue.md; mu is held.
func (l *Log) wake() {
	l.stale = true
	if l.closed {
		return
	}
	if !l.running {
		l.running = true
		go l.loop()
	}
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// loop writes queue.md after changes, until Close.
func (l *Log) loop() {
	defer close(l.done)
	for {
		select {
		case <-l.stop:
			return
		case <-l.kick:
		}
		l.rest(gatherTime)
		begun := time.Now()
		err := l.write()
		l.rest(min(maxRest, max(viewTime, viewFactor*time.Since(begun))))
		if err != nil {
			l.rest(retryTime)
			l.mu.Lock()
			l.wake()
			l.mu.Unlock()
		}
	}
}

// rest waits, unless the queue is closed meanwhile.
func (l *Log) rest(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-l.stop:
	case <-t.C:
	}
}

// write writes queue.md when it is not as it should be. A file is made only for
// what waits; one that is there is written over, whatever it holds.
func (l *Log) write() error {
	l.mu.Lock()
	if !l.stale {
		l.mu.Unlock()
		return nil
	}
	// Keep does not wait for this.
	l.stale = false
	waiting := slices.DeleteFunc(l.table.messages(), func(r record) bool { return r.Class == "stop" })
	l.mu.Unlock()
	err := l.show(waiting)
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.stale = true
		l.warn(fmt.Sprintf("%s is not up to date: %v", ViewFile, err))
	}
	return err
}

func (l *Log) show(waiting []record) error {
	path := l.o.path(ViewFile)
	info, err := durable.Lstat(l.o.FS, path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && len(waiting) == 0:
		return nil
	case err == nil && info.IsDir(): // nothing can be renamed over it
		l.mu.Lock()
		_, err := l.quarantine(ViewFile)
		l.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return durable.Rewrite(l.o.FS, path, render(waiting), 0o600)
}

// render returns the text of queue.md.
func render(waiting []record) []byte {
	var b bytes.Buffer
	b.WriteString(heading + "\n\n" + explanation + "\n\n")
	for _, m := range waiting {
		limit := maxShownBytes
		if b.Len() > maxViewBytes {
			limit = minShownBytes
		}
		m.show(&b, limit)
	}
	if len(waiting) == 0 {
		b.WriteString(nothing + "\n")
	}
	return b.Bytes()
}

// show writes one message as a list item: "- m-17 later (2026-11-21 10:02, chat):
// text".
func (r record) show(b *bytes.Buffer, limit int) {
	about := r.At.Local().Format("2006-01-02 15:04")
	if from := text.VisibleLine(r.From); from != "" {
		if runes := []rune(from); len(runes) > maxFromRunes {
			from = string(runes[:maxFromRunes]) + "…"
		}
		about += ", " + from
	}
	if r.Rev > 0 {
		about += ", edited"
	}
	content := r.Text
	if cut := cutAt(content, limit); cut < len(content) {
		content = fmt.Sprintf("%s\n[… %d more bytes]", content[:cut], len(content)-cut)
	}
	fmt.Fprintf(b, "- %s %s (%s):", r.ID, text.VisibleLine(r.Class), about)
	for i, line := range strings.Split(text.Visible(strings.ReplaceAll(content, "\r\n", "\n")), "\n") {
		switch {
		case line == "":
		case i == 0:
			b.WriteString(" " + line)
		default:
			b.WriteString("  " + line)
		}
		b.WriteByte('\n')
	}
}

// cutAt returns where a text of more than limit bytes is cut: between two
// characters.
func cutAt(text string, limit int) int {
	if len(text) <= limit+limit/4 {
		return len(text)
	}
	for n := limit; n > limit-utf8.UTFMax; n-- {
		if utf8.RuneStart(text[n]) {
			return n
		}
	}
	return limit
}
