package memory

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"

	"ralph/memory/durable"
	"ralph/memory/markdown"
	"ralph/memory/session"
)

// history is what the log says.
type history struct {
	chains map[string]*chain
	n      int64 // the last change
	bad    int   // lines that are no records
	large  bool  // what is behind more of those than are read is not in it
}

// chain is what the log says of one file: contents, and the changes made to
// each.
type chain []link

// link is one content of a file and what was changed of it until the next; the
// content of the first may be unknown, where the log was cut or damaged.
type link struct {
	content *content
	ops     []op
}

// recall reads the log. It is only read, also when its end is torn.
func (s *Store) recall() (history, error) {
	h := history{chains: map[string]*chain{}}
	bad, err := session.ReadRecords(s.fs, s.logPath(), nil, func(r session.Record) error {
		h.take(r)
		return nil
	})
	h.bad, h.large = bad, errors.Is(err, durable.ErrTooLarge)
	if h.large {
		err = nil
	}
	return h, err
}

func (h *history) take(r session.Record) {
	if c, ok := decodeContent(r); ok {
		ch := h.chain(c.File)
		*ch = append(*ch, link{content: &c})
		h.n = max(h.n, c.N)
		return
	}
	var o op
	if r.Kind != recordChange || json.Unmarshal(r.Payload, &o) != nil {
		return
	}
	ch := h.chain(o.File)
	if len(*ch) == 0 {
		*ch = chain{{}}
	}
	last := &(*ch)[len(*ch)-1]
	last.ops = append(last.ops, o)
	h.n = max(h.n, o.N)
}

func (h *history) chain(name string) *chain {
	if h.chains[name] == nil {
		h.chains[name] = &chain{}
	}
	return h.chains[name]
}

// onDisk is the last change that is known to be in the file, given what the
// note says.
func (c chain) onDisk(noted int64) int64 {
	for _, l := range c {
		if l.content != nil && l.content.Saved {
			noted = max(noted, l.content.N)
		}
	}
	return noted
}

// pending says that there are changes after the one with number n.
func (c chain) pending(n int64) bool {
	for _, l := range c {
		if len(l.ops) > 0 && l.ops[len(l.ops)-1].N > n {
			return true
		}
	}
	return false
}

// empty says that the log has nothing of the file.
func (c chain) empty() bool {
	for _, l := range c {
		if len(l.ops) > 0 || l.content != nil && l.content.Backup != "" {
			return false
		}
	}
	return true
}

// replayed is what a chain says a file held.
type replayed struct {
	final   []byte
	written []byte // as of the last change that is known to be in the file; nil: not known
	met     bool   // what is on disk is one of the states since then
	plain   bool   // final is a content that a backup has, with no change after it
}

// replay follows a chain. disk is what the file holds, nil when it is lost; ok
// is false when nothing is known to begin with.
func (s *Store) replay(name string, c chain, noted int64, disk []byte) (r replayed, ok bool, err error) {
	w := c.onDisk(noted)
	start, texts := -1, make([][]byte, len(c))
	for i := len(c) - 1; i >= 0; i-- {
		data, have, err := s.contents(name, c[i].content, disk)
		if err != nil {
			return r, false, err
		}
		if !have {
			continue
		}
		start, texts[i] = i, data
		if c[i].content.N <= w {
			break
		}
	}
	if start < 0 {
		return r, false, nil
	}
	d := markdown.Parse(texts[start])
	known := c[start].content.N <= w
	meet := func(n int64) {
		r.met = r.met || n >= w && disk != nil && d.String() == string(disk)
	}
	for i := start; i < len(c); i++ {
		if texts[i] != nil && (i == start || c[i].content.Backup != "") {
			d, r.plain = markdown.Parse(texts[i]), c[i].content.Backup != ""
			meet(c[i].content.N)
		}
		for _, o := range c[i].ops {
			if o.N > w && known && r.written == nil {
				r.written = d.Bytes()
			}
			// What could be done then can be done again, on the same content.
			if changed, err := apply(d, o, false); err == nil && changed {
				r.plain = false
			}
			if o.N >= w {
				meet(o.N)
			}
		}
	}
	r.final = d.Bytes()
	if known && r.written == nil {
		r.written = r.final
	}
	return r, true, nil
}

// contents is what a record of the log stands for: a backup, the file itself
// when it still is as it was, or the beginning of a new file. have is false for
// a backup that is gone or is not what it was; an error means that it could not
// be looked at.
func (s *Store) contents(name string, c *content, disk []byte) (data []byte, have bool, err error) {
	switch {
	case c == nil:
		return nil, false, nil
	case c.Backup == "":
		return []byte(header(name)), true, nil
	case disk != nil && c.fits(disk):
		return disk, true, nil
	}
	data, err = s.readBackup(c.Backup)
	if err != nil && (errors.Is(err, fs.ErrNotExist) || unusable(err)) {
		return nil, false, nil
	}
	return data, err == nil && c.fits(data), err
}

// unusable says that what stands somewhere is no text, whenever it is read.
func unusable(err error) bool {
	for _, e := range []error{errEmpty, errBinary, durable.ErrTooLarge, durable.ErrNotRegular, durable.ErrSymlink, fs.ErrPermission} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// redo returns what a file should hold, given what it does hold: its own
// content when it has all that the log says.
func (s *Store) redo(name string, c chain, noted int64, disk []byte) (out []byte, merged bool, conflicts []markdown.Conflict, err error) {
	r, ok, err := s.replay(name, c, noted, disk)
	switch {
	case err != nil:
		return nil, false, nil, err
	case ok && (r.met || bytes.Equal(r.final, disk)):
		return r.final, false, nil, nil
	case ok && r.written != nil:
		m := markdown.Merge(r.written, disk, r.final)
		return m.Data, true, m.Conflicts, nil
	}
	// What the changes were made to is not known: they are made to what is
	// there. Each is such that it does nothing where it was done already.
	d := markdown.Parse(disk)
	w := c.onDisk(noted)
	for _, l := range c {
		for _, o := range l.ops {
			if o.N > w {
				// What does not fit any more was overtaken by the user's edit.
				_, _ = apply(d, o, true)
			}
		}
	}
	return d.Bytes(), true, nil, nil
}

// newest is the newest content that is known of a lost file, and where it is
// from: "log", "backup" or "git"; "" when nothing is known.
func (s *Store) newest(name string) (data []byte, from string, err error) {
	h, err := s.recall()
	if err != nil {
		return nil, "", err
	}
	var c chain
	if p := h.chains[name]; p != nil && !p.empty() {
		c = *p
	}
	r, ok, err := s.replay(name, c, 0, nil)
	switch {
	case err != nil:
		return nil, "", err
	case ok && r.plain:
		return r.final, sourceBackup, nil
	case ok && len(c) > 0:
		return r.final, sourceLog, nil
	}
	if data, from, err = s.older(name); err != nil || len(c) == 0 {
		return data, from, err
	}
	if from == "" {
		data = []byte(header(name))
	}
	d := markdown.Parse(data)
	for _, l := range c {
		for _, o := range l.ops {
			// To what these changes were made is lost: what fits is made again.
			_, _ = apply(d, o, true)
		}
	}
	return d.Bytes(), sourceLog, nil
}

// older is the newest content of a file that does not need the log.
func (s *Store) older(name string) (data []byte, from string, err error) {
	all, err := s.backups(name)
	for i := len(all) - 1; i >= 0; i-- {
		data, rerr := s.readBackup(all[i].name)
		if rerr == nil {
			return data, sourceBackup, nil
		}
		if !unusable(rerr) {
			err = errors.Join(err, rerr)
		}
	}
	if err != nil {
		return nil, "", err
	}
	if data := s.committed(name); data != nil {
		return data, sourceGit, nil
	}
	return nil, "", nil
}

// committed is what git has of a file; nil when nothing useful.
func (s *Store) committed(name string) []byte {
	if s.git == nil {
		return nil
	}
	data, err := s.git(name)
	if err != nil || wholesome(data, true, true) != nil {
		return nil
	}
	return data
}
