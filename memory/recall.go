package memory

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"ralph/memory/durable"
	"ralph/memory/markdown"
	"ralph/memory/session"
)

// history is what the log says.
type history struct {
	chains map[string]*chain
	n      int64 // the last change
	bad    int   // lines that are no records
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
	err := durable.ReadLines(s.fs, s.logPath(), func(line []byte, whole bool) error {
		r, ok := decodeRecord(line)
		switch {
		case ok:
			h.take(r)
		case whole: // a torn last line was being written when Ralph died
			h.bad++
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return h, err
}

// decodeRecord reads a line of a journal and checks it against its checksum:
// the last 16 digits, over what stands before them.
func decodeRecord(line []byte) (r session.Record, ok bool) {
	const key, digits = `,"sum":"`, 16
	at := len(line) - len(key) - digits - len(`"}`)
	if at < 1 || !bytes.HasPrefix(line[at:], []byte(key)) {
		return r, false
	}
	body := append(bytes.Clone(line[:at]), '}')
	sum := sha256.Sum256(body)
	if hex.EncodeToString(sum[:])[:digits] != string(line[at+len(key):at+len(key)+digits]) {
		return r, false
	}
	return r, json.Unmarshal(body, &r) == nil
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

// survey looks at the five files when a project is opened: it does again what
// the log has and they lack, and puts back those that were lost.
func (s *Store) survey(rec *Recovery) {
	s.mu.Lock()
	h, note, err := s.past()
	if err != nil {
		rec.Warnings = append(rec.Warnings, fmt.Sprintf("the log of changes cannot be read: %v", err))
	}
	if h.bad > 0 {
		rec.Warnings = append(rec.Warnings, fmt.Sprintf("%d lines of %s could not be read and were skipped", h.bad, changesFile))
	}
	write := false
	for _, name := range order() {
		f, st := s.files[name], FileState{Name: name, State: stateRefused, Err: err}
		if f.unmet = err != nil; !f.unmet {
			st = s.meet(f, h, note, rec)
		}
		rec.Files = append(rec.Files, st)
		write = write || f.dirty()
	}
	s.mu.Unlock()
	if !write || s.readOnly {
		return
	}
	if _, err = s.save(); err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range rec.Files {
		if st := &rec.Files[i]; s.files[st.Name].dirty() {
			st.Err = errors.Join(st.Err, s.files[st.Name].err)
		}
	}
	rec.Warnings = append(rec.Warnings, fmt.Sprintf("what was recorded before could not be written yet: %v", err))
}

// past reads what the note says and, where that is not all, what the log says.
// mu is held.
func (s *Store) past() (history, noted, error) {
	note := s.readNote()
	h := history{}
	info, err := lstat(s.fs, s.logPath())
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return h, note, err
	case !info.Mode().IsRegular(): // it is moved away before it is written
	case info.Size() != note.Log:
		if h, err = s.recall(); err != nil {
			return h, note, err
		}
	}
	s.n = max(s.n, note.N, h.n)
	return h, note, nil
}

// meetAgain is meet for a file that could not be looked at when the project was
// opened. mu is held.
func (s *Store) meetAgain(f *file) error {
	h, note, err := s.past()
	if err != nil {
		return err
	}
	var rec Recovery
	if st := s.meet(f, h, note, &rec); f.unmet {
		return st.Err
	}
	for _, w := range rec.Warnings {
		s.tell(Pickup{File: f.name, Lost: w})
	}
	return nil
}

// meet looks at one file when a project is opened. Where that is not possible
// now, the file is unmet.
func (s *Store) meet(f *file, h history, note noted, rec *Recovery) FileState {
	var c chain
	if p := h.chains[f.name]; p != nil {
		c = *p
	}
	st := FileState{Name: f.name, State: stateOK}
	noted, inNote := note.Files[f.name]
	f.unmet = false
	f.saved, f.last = c.onDisk(noted.N), max(noted.N, s.n)
	f.known = inNote || !c.empty()
	pending := c.pending(f.saved)
	v := glance(s.fs, f.path)
	if !f.known && (v.kind != sightWhole || v.stamp.Size == 0) {
		all, err := s.backups(f.name)
		if err != nil {
			return f.unseen(st, err)
		}
		f.known = len(all) > 0
	}
	if v.kind == sightUnknown || v.kind == sightWhole && (pending || f.known && !v.stamp.same(noted.stamp)) {
		f.edited = inNote && !pending
		v = s.view(f)
	}
	switch {
	case v.kind == sightUnknown:
		return f.unseen(st, v.err)
	case v.kind == sightAbsent && !f.known:
		st.State = stateAbsent
		return st
	case v.kind == sightAbsent && pending && f.saved == 0 && c[0].content != nil && c[0].content.Backup == "" && !inNote:
		if _, err := s.revive(f); err != nil { // it was never written: the last Ralph died before
			return f.unseen(st, err)
		}
		return st
	case v.kind == sightWhole && pending:
		if err := s.catchUp(f, c, noted.N, v, rec); err != nil {
			return f.unseen(st, err)
		}
		return st
	case v.kind == sightWhole:
		f.stamp = v.stamp
		return st
	}
	st.State = stateCorrupt
	switch {
	case v.kind == sightRefused:
		st.State, st.Err = stateRefused, v.err
		rec.Warnings = append(rec.Warnings, f.name+" is a symbolic link, which Ralph does not write through: what is recorded of it is held; replace the link by a regular file")
	case v.kind == sightAbsent || errors.Is(v.err, errEmpty):
		st.State = stateLost
	}
	return s.putBack(f, v, st, rec)
}

// unseen says that a file could not be looked at.
func (f *file) unseen(st FileState, err error) FileState {
	f.unmet = true
	st.State, st.Err = stateRefused, err
	return st
}

// catchUp does again what the log has and the file lacks.
func (s *Store) catchUp(f *file, c chain, noted int64, v sight, rec *Recovery) error {
	data, merged, conflicts, err := s.redo(f.name, c, noted, v.data)
	if err != nil {
		return err
	}
	f.base, f.stamp = v.data, v.stamp
	f.put(markdown.Parse(data))
	if bytes.Equal(data, v.data) {
		f.clean = f.gen
		return nil
	}
	f.edited = merged
	if len(conflicts) > 0 {
		s.tell(Pickup{File: f.name, Conflicts: conflicts})
		rec.Warnings = append(rec.Warnings, fmt.Sprintf("%s was edited while changes of the last Ralph were not in it yet: both are kept, %d of them differ", f.name, len(conflicts)))
	}
	return nil
}

// putBack fills a lost file from what else is known of it, and has what stands
// in its place moved away; a link is left where it is.
func (s *Store) putBack(f *file, v sight, st FileState, rec *Recovery) FileState {
	from, err := s.revive(f)
	if err != nil {
		return f.unseen(st, err)
	}
	f.broken = &v
	if v.kind == sightRefused {
		return st
	}
	st.Sources = s.sources(f.name)
	if s.readOnly {
		rec.Warnings = append(rec.Warnings, lostText(f.name, v, ""))
		return st
	}
	moved, err := s.quarantine(f.path)
	if err != nil {
		st.Err = err
		rec.Warnings = append(rec.Warnings, fmt.Sprintf("%s cannot be put right: %v", f.name, err))
		return st
	}
	f.broken, f.chained = nil, false
	st.Quarantined, st.Restored = moved, from
	text := lostText(f.name, v, moved)
	if from != "" {
		text += "; it was restored from " + fromText(from)
	}
	rec.Warnings = append(rec.Warnings, text)
	return st
}

func fromText(from string) string {
	switch from {
	case sourceLog:
		return "the log of changes"
	case sourceBackup:
		return "its newest backup"
	}
	return "the last commit"
}

// lostText says in one line what became of a file.
func lostText(name string, v sight, moved string) string {
	text := name + " is gone"
	if v.kind != sightAbsent {
		text = fmt.Sprintf("%s cannot be used (%v)", name, rootCause(v.err))
	}
	if moved != "" {
		text += "; what stood there is in " + filepath.ToSlash(moved)
	}
	return text
}

func rootCause(err error) error {
	if de, ok := errors.AsType[*durable.Error](err); ok {
		return unpath(de.Err)
	}
	return err
}
