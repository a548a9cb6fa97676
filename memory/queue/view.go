package queue

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"github.com/spf13/afero"

	"ralph/memory/durable"
)

// How queue.md is written: soon, but not each time, and not more often than
// writing it takes.
const (
	gatherTime = 20 * time.Millisecond
	viewTime   = 100 * time.Millisecond
	viewFactor = 4
	maxRest    = 2 * time.Second
	retryTime  = time.Second

	// quietTime is how long a file must not have been written to be read: an
	// editor that writes in place is not done before.
	quietTime = 200 * time.Millisecond
	// emptyTime is the same for a file that became empty, or whose end looks cut
	// off: a program that is saving it may be held up on the way.
	emptyTime = time.Second
	// decideTime is how long an edit that was handed out keeps the file from being
	// written over before it is kept: it may be refused.
	decideTime = 2 * time.Second
)

// maxLooks bounds how long Open waits for a file that is being written.
const maxLooks = 20

// maxReadBytes bounds queue.md; what is longer was not written by Ralph.
const maxReadBytes = 64 << 20

// view is what is known of queue.md.
type view struct {
	dirty   bool
	there   bool // data was in it
	data    []byte
	seen    stamp                // of the file that has data; zero: look
	writing bool                 // it is being replaced just now: the rest is not so yet
	rest    []string             // lines of the user's that are no messages
	pending map[string]time.Time // ids of edits that are handed out, and until when they are waited for
	late    []Edit               // found while the file was written
}

// stamp is what the directory says of a file: while it is the same, so is the
// content.
type stamp struct {
	size, mtime int64
	ino         uint64
}

func stampOf(info fs.FileInfo) stamp {
	s := stamp{size: info.Size(), mtime: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.ino = uint64(st.Ino)
	}
	return s
}

// quiet says that nobody wrote the file for a while.
func (s stamp) quiet() bool {
	if s.size == 0 {
		return s.rested(emptyTime)
	}
	return s.rested(quietTime)
}

func (s stamp) rested(long time.Duration) bool {
	age := time.Since(time.Unix(0, s.mtime))
	return age > long || age < 0
}

// cut says that data, which at is the stamp of, may be the beginning of what a
// program is just writing over before.
func cut(data, before []byte, at stamp) bool {
	const block = 4096
	return len(data) > 0 && !at.rested(emptyTime) &&
		(len(data)%block == 0 || data[len(data)-1] != '\n' || len(data) < len(before) && bytes.HasPrefix(before, data))
}

// look returns the stamp of queue.md; there is false when there is none.
func look(fsys afero.Fs, path string) (s stamp, there bool) {
	info, err := durable.Lstat(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return stamp{}, false
	}
	if err != nil {
		return stamp{}, true
	}
	return stampOf(info), true
}

// wake has the goroutine write queue.md; mu is held.
func (l *Log) wake() {
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
		again, err := l.write(begun)
		if err != nil {
			again = max(again, retryTime)
		}
		l.rest(min(maxRest, max(viewTime, viewFactor*time.Since(begun))))
		if again > 0 {
			l.rest(again)
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

// write writes queue.md when it is not as it should be. A file that the user
// has changed stays until that was picked up; again is when to look for that.
// now zero is the last time.
func (l *Log) write(now time.Time) (again time.Duration, err error) {
	l.mu.Lock()
	v := &l.view
	if !v.dirty {
		l.mu.Unlock()
		return 0, nil
	}
	at, there := look(l.o.FS, l.o.path(ViewFile))
	if there && at != v.seen {
		l.mu.Unlock()
		return viewTime, nil // Edits reads it
	}
	if !there {
		v.there, v.data = false, nil
	}
	for id, until := range v.pending {
		if !now.IsZero() && now.After(until) {
			delete(v.pending, id) // refused
		}
	}
	if len(v.pending) > 0 {
		l.mu.Unlock()
		return viewTime, nil
	}
	if !there && l.table.shown() == 0 && len(v.rest) == 0 {
		v.dirty = false
		l.mu.Unlock()
		return 0, nil
	}
	// Who keeps a message meanwhile does not wait for this.
	waiting, last, rest, was := l.table.records(), l.table.last, v.rest, v.data
	v.dirty, v.writing = false, true
	l.mu.Unlock()
	data := render(waiting, last, rest)
	var late []byte
	if !there || !bytes.Equal(data, was) {
		late, at, err = l.swap(was, data)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	v.writing = false
	if late != nil {
		defer l.pickUp(late) // also after an error: it is nowhere else
	}
	if err != nil {
		v.dirty, v.seen = true, stamp{}
		if errors.Is(err, durable.ErrChanged) {
			return viewTime, nil
		}
		l.warn(fmt.Sprintf("%s is not up to date: %v", ViewFile, err))
		l.reseat(was)
		return retryTime, err
	}
	v.there, v.data, v.seen = true, data, at
	return 0, nil
}

// swap puts data in the place of was.
func (l *Log) swap(was, data []byte) (late []byte, at stamp, err error) {
	path := l.o.path(ViewFile)
	late, err = durable.Swap(l.o.FS, path, was, data, 0o600)
	if err != nil {
		return late, stamp{}, err
	}
	info, err := durable.Lstat(l.o.FS, path)
	if err != nil {
		return late, stamp{}, nil
	}
	if info.Mode().Perm() != 0o600 && info.Mode().IsRegular() {
		_ = l.o.FS.Chmod(path, 0o600) // an editor may have made it anew
	}
	// What stands there must be ours for its stamp to say so.
	if now, err := durable.ReadFile(l.o.FS, path, maxReadBytes); err == nil && bytes.Equal(now, data) {
		at = stampOf(info)
	}
	return late, at, nil
}

// reseat finds out, after a write that failed, whether the file is as it was;
// mu is held.
func (l *Log) reseat(was []byte) {
	path := l.o.path(ViewFile)
	at, there := look(l.o.FS, path)
	if !there || was == nil {
		return
	}
	if now, err := durable.ReadFile(l.o.FS, path, maxReadBytes); err == nil && bytes.Equal(now, was) {
		l.view.seen = at
	}
}

// shown counts the messages that are in queue.md.
func (t *table) shown() int {
	n := 0
	for _, m := range t.open {
		if m.Class != "stop" {
			n++
		}
	}
	return n
}
