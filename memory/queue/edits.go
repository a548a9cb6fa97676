package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ralph/memory/durable"
)

// Edits returns what the user did to queue.md since the last call; nothing when
// that is being written just now. The file is not written over until each edit
// was kept, by Keep, or two seconds have passed. It costs a look at the
// directory when nothing changed.
func (l *Log) Edits() []Edit {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	edits := l.view.late
	l.view.late = nil
	if l.view.writing {
		return edits
	}
	at, there := look(l.o.FS, l.o.path(ViewFile))
	switch {
	case !there && l.view.there:
		l.view.there, l.view.data, l.view.seen = false, nil, stamp{}
		if l.table.shown() > 0 {
			l.warn(ViewFile + " was deleted: it is written again, and nothing is dropped")
			l.view.dirty = true
			l.wake()
		}
	case there && at != l.view.seen && at.quiet():
		edits = append(edits, l.read(at)...)
	}
	return edits
}

// read reads the file that at was the stamp of; mu is held.
func (l *Log) read(at stamp) []Edit {
	var data []byte
	var err error = durable.ErrTooLarge
	if at.size <= maxReadBytes {
		data, err = durable.ReadFile(l.o.FS, l.o.path(ViewFile), maxReadBytes)
	}
	switch {
	case errors.Is(err, durable.ErrSymlink), errors.Is(err, durable.ErrNotRegular), errors.Is(err, durable.ErrTooLarge):
		l.ruined(err.Error())
		return nil
	case err != nil:
		l.warn(fmt.Sprintf("%s cannot be read: %v", ViewFile, err))
		return nil
	}
	if now, there := look(l.o.FS, l.o.path(ViewFile)); !there || now != at {
		return nil // written meanwhile
	}
	if cut(data, l.view.data, at) {
		return nil // it is looked at again
	}
	d, ok := parse(data)
	if !ok || !d.known && len(bytes.TrimSpace(data)) > 0 {
		l.ruined("it is no list of messages")
		return nil
	}
	l.view.there, l.view.data, l.view.seen = true, data, at
	if d.through <= l.table.last+maxHint {
		l.table.last = max(l.table.last, d.through) // the log may have been deleted
	}
	return l.take(d)
}

// pickUp takes up a version of the file that was put there while ours was
// written, or keeps it in quarantine; mu is held.
func (l *Log) pickUp(data []byte) {
	if d, ok := parse(data); ok && d.known {
		l.view.late = append(l.view.late, l.take(d)...)
		return
	}
	if len(data) == 0 {
		return // somebody is about to fill it
	}
	to, err := l.vacant(ViewFile)
	if err == nil {
		err = durable.Replace(l.o.FS, to, data, 0o600)
	}
	if err != nil {
		l.warn(fmt.Sprintf("%s was overwritten, and what stood there cannot be kept: %v", ViewFile, err))
		return
	}
	l.warn(fmt.Sprintf("%s was no list of messages: what stood there is %s now", ViewFile, l.relative(to)))
}

// ruined moves a file away that cannot be used, and has it written anew; mu is
// held.
func (l *Log) ruined(why string) {
	moved, err := l.quarantine(ViewFile)
	if err != nil {
		l.warn(fmt.Sprintf("%s is not used (%s), and is in the way: %v", ViewFile, why, err))
		return
	}
	l.warn(fmt.Sprintf("%s is not used (%s): it is %s now, and is written again", ViewFile, why, moved))
	l.view.there, l.view.data, l.view.seen, l.view.dirty = false, nil, stamp{}, true
	l.wake()
}

// take compares what the file says with what waits; mu is held.
func (l *Log) take(d document) []Edit {
	v := &l.view
	v.dirty = true
	l.wake()
	if d.pure {
		v.rest = l.userLines(d)
		return nil // nobody edited it, it may only be old
	}
	if !d.known {
		l.warn(ViewFile + " was empty: it is written again, and nothing is dropped")
		return nil
	}
	edits := l.compare(d)
	if rest := l.userLines(d); !slices.Equal(rest, v.rest) {
		if len(rest) > 0 {
			l.warn(fmt.Sprintf("%s: what has no id of a message is not taken (%q): ralph send accepts one", ViewFile, clip(rest[0])))
		}
		v.rest = rest
	}
	for _, e := range edits {
		if v.pending == nil {
			v.pending = map[string]time.Time{}
		}
		v.pending[e.ID] = time.Now().Add(decideTime)
	}
	return edits
}

func clip(s string) string {
	s = strings.TrimSpace(s)
	if runes := []rune(s); len(runes) > 60 {
		s = string(runes[:60]) + "…"
	}
	return s
}

// userLines are the lines of a file that stay in it: what is no item, and items
// that name no message there is or was, or one that is there already.
func (l *Log) userLines(d document) []string {
	waits, seen := map[uint64]bool{}, map[uint64]bool{}
	for k := range l.table.open {
		waits[k.n] = true
	}
	rest := slices.Clone(d.rest)
	for _, it := range d.items {
		if it.n > l.table.last || seen[it.n] && waits[it.n] {
			rest = append(rest, it.lines...)
		}
		seen[it.n] = true
	}
	return trimBlank(rest)
}

// compare finds the edits.
func (l *Log) compare(d document) []Edit {
	found := map[uint64]item{}
	for _, it := range d.items {
		if _, twice := found[it.n]; !twice {
			found[it.n] = it
		}
	}
	var edits []Edit
	for _, m := range l.table.messages() {
		it, there := found[m.N]
		switch {
		case m.Class == "stop":
		case !there && m.N <= d.through:
			edits = append(edits, Edit{ID: m.ID, Drop: true})
		case there:
			if e, ok := l.edit(m, it); ok {
				edits = append(edits, e)
			}
		}
	}
	return edits
}

// edit compares one message with its item.
func (l *Log) edit(m *message, it item) (e Edit, changed bool) {
	e.ID = m.ID
	base := version{m.Rev, m.Class, m.Text}
	if it.rev < m.Rev {
		// The file is older than the last change of the message.
		i := slices.IndexFunc(m.past, func(p version) bool { return p.rev == it.rev })
		if i < 0 {
			return e, false
		}
		base = m.past[i]
	}
	if it.class != "" && it.class != base.class {
		if slices.Contains(classes(), it.class) {
			e.Class, changed = it.class, true
		} else {
			l.warn(fmt.Sprintf("%s: %s keeps its class, as there is no %q (%s)", ViewFile, m.ID, clip(it.class), strings.Join(classes(), ", ")))
		}
	}
	text, same := rejoin(base.text, it.text)
	switch {
	case same:
	case strings.TrimSpace(text) == "":
		l.warn(fmt.Sprintf("%s: %s keeps its text; to drop it delete its line", ViewFile, m.ID))
	default:
		e.Text, changed = &text, true
	}
	return e, changed
}

// rejoin makes of what an item says the whole text of a message: what was not
// shown of a long one still belongs to it.
func rejoin(base, shown string) (text string, same bool) {
	if shown == plain(base) {
		return base, true
	}
	at := strings.LastIndexByte(shown, '\n')
	n, ok := more(shown[at+1:])
	if !ok || n >= len(base) {
		return shown, false
	}
	begin, rest := base[:len(base)-n], base[len(base)-n:]
	if shown == plain(begin+"\n"+moreLine(n)) {
		return base, true
	}
	return shown[:max(at, 0)] + rest, false
}

// firstLook reads the file when the queue is opened, and returns the messages
// as the user changed them.
func (l *Log) firstLook(ctx context.Context) []Entry {
	path := l.o.path(ViewFile)
	at, there := look(l.o.FS, path)
	if !there {
		l.view.dirty = l.table.shown() > 0
		return nil
	}
	if !l.isPure(at) {
		for i := 0; i < maxLooks && !at.quiet() && ctx.Err() == nil; i++ {
			l.rest(quietTime / 4)
			at, _ = look(l.o.FS, path)
		}
		if !at.quiet() {
			return nil // Edits reads it
		}
	}
	edits := l.read(at)
	var changed []Entry
	for _, m := range l.table.messages() {
		i := slices.IndexFunc(edits, func(e Edit) bool { return e.ID == m.ID })
		if i < 0 {
			continue
		}
		e := m.Entry
		if edits[i].Drop {
			e.State = "cancelled"
		}
		if edits[i].Class != "" {
			e.Class, e.Edited = edits[i].Class, true
		}
		if edits[i].Text != nil {
			e.Text, e.Edited = *edits[i].Text, true
		}
		changed = append(changed, e)
	}
	return changed
}

// isPure says that queue.md is as some Ralph wrote it, or nothing that has to be
// let settle.
func (l *Log) isPure(at stamp) bool {
	if at.size > maxReadBytes {
		return true
	}
	data, err := durable.ReadFile(l.o.FS, l.o.path(ViewFile), maxReadBytes)
	return err != nil || isPure(data)
}
