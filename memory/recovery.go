package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"
	"unicode/utf8"

	"ralph/memory/durable"
	"ralph/memory/markdown"
)

// How a file was found.
const (
	stateOK      = "ok"
	stateAbsent  = "absent"
	stateLost    = "lost"
	stateCorrupt = "corrupt"
	stateRefused = "refused"
)

// Where content of a file is.
const (
	sourceFile   = "file"
	sourceBackup = "backup"
	sourceLog    = "log"
	sourceGit    = "git"
)

// FileState says how one of the five files was found.
type FileState struct {
	// Name is the file's name, such as TasksFile.
	Name string
	// State is "ok"; "absent": there never was one; "lost": it is gone or
	// empty; "corrupt": what stands there is no text of a sane size; "refused":
	// a link, or something that could not be looked at, which was left alone.
	State string
	// Restored is where its new content is from: "log", "backup" or "git"; ""
	// when nothing was restored.
	Restored string
	// Quarantined is where what stood there was moved, relative to the root.
	Quarantined string
	// Err says what went wrong, or why the file was refused.
	Err error
	// Sources are all the versions that are known, the newest first.
	Sources []Source
}

// Source is one version of a file.
type Source struct {
	// Kind is "file", "backup", "log" (with it: the newest backup and what was
	// changed since) or "git".
	Kind string
	// Name tells it from others of its kind: the backup's file name.
	Name string
	// Time is when it was written; zero when that is not known.
	Time  time.Time
	Bytes int64
	// Tasks and Open count the tasks in it, and those that are not at an end.
	Tasks, Open int
}

// Inspect tells how the five files are and which versions of each are known. It
// reads only, and takes no lock: another Ralph may be at work meanwhile.
func Inspect(ctx context.Context, o Options) ([]FileState, error) {
	s, err := newStore(o)
	if err != nil {
		return nil, err
	}
	s.readOnly = true
	h, err := s.recall()
	if err != nil {
		return nil, fmt.Errorf("inspect project %q: %w", s.root, err)
	}
	note := s.readNote()
	var out []FileState
	for _, name := range order() {
		if err := context.Cause(ctx); err != nil {
			return out, err
		}
		st := FileState{Name: name, State: stateOK}
		c := h.chains[name]
		_, known := note.Files[name]
		all, err := s.backups(name)
		if err != nil {
			return out, err
		}
		known = known || c != nil && !c.empty() || len(all) > 0
		switch v := see(s.fs, s.files[name].path, known); v.kind {
		case sightAbsent:
			if st.State = stateAbsent; known {
				st.State = stateLost
			}
		case sightBroken:
			st.State, st.Err = stateCorrupt, v.err
			if errors.Is(v.err, errEmpty) {
				st.State = stateLost
			}
		case sightRefused, sightUnknown:
			st.State, st.Err = stateRefused, v.err
		}
		st.Sources = s.sources(name)
		out = append(out, st)
	}
	return out, nil
}

// Gone names the state files that Ralph wrote last and that are not there any more:
// Recover brings them back. It reads only, takes no lock, and looks at no content.
func Gone(o Options) ([]string, error) {
	s, err := newStore(o)
	if err != nil {
		return nil, err
	}
	note := s.readNote()
	var names []string
	for _, name := range order() {
		if _, known := note.Files[name]; known {
			if _, err := durable.Lstat(s.fs, s.files[name].path); errors.Is(err, fs.ErrNotExist) {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// sources lists what is known of a file.
func (s *Store) sources(name string) []Source {
	var out []Source
	add := func(kind, what string, at time.Time, data []byte) {
		src := Source{Kind: kind, Name: what, Time: at, Bytes: int64(len(data))}
		for _, t := range markdown.Parse(data).Tasks() {
			src.Tasks++
			if t.Status.Open() {
				src.Open++
			}
		}
		out = append(out, src)
	}
	mtime := func(path string) time.Time {
		info, err := durable.Lstat(s.fs, path)
		if err != nil {
			return time.Time{}
		}
		return info.ModTime()
	}
	path := filepath.Join(s.root, name)
	if v := see(s.fs, path, true); v.kind == sightWhole {
		add(sourceFile, name, mtime(path), v.data)
	}
	if data, err := s.read(name, Source{Kind: sourceLog}); err == nil {
		add(sourceLog, changesFile, mtime(s.logPath()), data)
	}
	all, _ := s.backups(name) // what cannot be listed is no source
	for i := len(all) - 1; i >= 0; i-- {
		if data, err := s.readBackup(all[i].name); err == nil {
			add(sourceBackup, all[i].name, mtime(filepath.Join(s.backupDir(), all[i].name)), data)
		}
	}
	if data := s.committed(name); data != nil {
		add(sourceGit, "HEAD", time.Time{}, data)
	}
	return out
}

// errNoSource is why a version cannot be had.
var errNoSource = errors.New("there is no such version")

// read returns the content of one version of a file.
func (s *Store) read(name string, from Source) ([]byte, error) {
	switch from.Kind {
	case sourceFile:
		v := see(s.fs, filepath.Join(s.root, name), true)
		if v.kind == sightWhole {
			return v.data, nil
		}
		return nil, errors.Join(errNoSource, v.err)
	case sourceLog:
		h, err := s.recall()
		if err != nil {
			return nil, err
		}
		if c := h.chains[name]; c != nil && !c.empty() {
			r, ok, err := s.replay(name, *c, 0, nil)
			if ok || err != nil {
				return r.final, err
			}
		}
	case sourceBackup:
		return s.readBackup(from.Name)
	case sourceGit:
		if data := s.committed(name); data != nil {
			return data, nil
		}
	}
	return nil, errNoSource
}

// Restore puts a version of one of the five files in its place, as Inspect or
// Recovery named it. What stands there is moved to quarantine first; the path
// there, relative to the root, is returned. Changes that are not in the file
// yet are given up with it.
func (s *Store) Restore(name string, from Source) (quarantined string, err error) {
	f := s.files[name]
	if f == nil {
		return "", fmt.Errorf("restore %q: it is no state file", name)
	}
	if s.readOnly {
		return "", fmt.Errorf("restore %q: nothing can be saved in this project", name)
	}
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.guard(); err != nil {
		return "", err
	}
	data, err := s.read(name, from)
	if err != nil {
		return "", fmt.Errorf("restore %q from %s %s: %w", name, from.Kind, from.Name, err)
	}
	v := see(s.fs, f.path, true)
	switch {
	case v.kind == sightRefused || v.kind == sightUnknown:
		return "", v.err
	case v.kind == sightWhole && bytes.Equal(v.data, data):
		quarantined = ""
	case v.kind == sightWhole:
		// A copy, so that at no time there is no file.
		to, err := s.vacant(name)
		if err == nil {
			err = durable.Replace(s.fs, to, v.data, 0o600)
		}
		if err != nil {
			return "", err
		}
		quarantined = s.rel(to)
	default:
		if quarantined, err = s.quarantine(f.path); err != nil {
			return "", err
		}
		v.data = nil
	}
	return quarantined, s.install(f, v.data, data)
}

// install makes data what is true of a file and what is on disk, and has the
// log and a backup say so. mu is held.
func (s *Store) install(f *file, was, data []byte) error {
	var late []byte
	if !bytes.Equal(was, data) || was == nil {
		var err error
		if late, err = durable.Swap(s.fs, f.path, was, data, 0o644); err != nil {
			return errors.Join(err, s.setAside(f, late))
		}
	}
	f.put(markdown.Parse(data))
	f.clean, f.base, f.saved, f.known, f.edited = f.gen, data, f.last, true, true
	f.broken, f.wait, f.stamp, f.tried, f.unmet, f.half = nil, nil, stamp{}, nil, false, false
	f.raw = !utf8.Valid(data)
	s.stale = true
	s.changed[f.name] = true
	s.keepEdits()
	err := s.drain()
	if b := f.backup; b != nil && err == nil {
		if err = s.writeBackup(f.name, b); err == nil {
			f.backup = nil
		}
	}
	if late != nil {
		s.late(f, was, late)
		s.wake()
	}
	return err
}
