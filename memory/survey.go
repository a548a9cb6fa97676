package memory

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"ralph/memory/durable"
	"ralph/memory/markdown"
)

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
	if h.large {
		rec.Warnings = append(rec.Warnings, fmt.Sprintf("%s is too large: more than %d MiB of it hold no record; what is before them is used, and with the next change the file is moved to quarantine", changesFile, durable.MaxDamage>>20))
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
	again, err := s.save()
	s.mu.Lock()
	defer s.mu.Unlock()
	if again > 0 {
		s.wake()
	}
	if err == nil {
		return
	}
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
	info, err := durable.Lstat(s.fs, s.logPath())
	if err == nil && s.log == nil {
		s.logAt = stampOf(info)
	}
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
		f.clean, f.saved, s.stale = f.gen, f.last, true
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
	s.rememberOld(f, s.moved(moved, v.stamp), f.doc.Bytes(), text) // somebody may be just saving it
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
