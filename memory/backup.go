package memory

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"ralph/memory/durable"
)

// maxBackups is how many good copies of each file are kept.
const maxBackups = 5

// backup is a copy that is still to be written.
type backup struct {
	name string
	data []byte
}

// kept is one backup on disk, such as RALPH_TASKS.12.md.
type kept struct {
	n    int
	name string
}

func (s *Store) backupDir() string { return filepath.Join(s.StateDir(), "backups") }

// backups lists the copies of a file, oldest first.
func (s *Store) backups(name string) ([]kept, error) {
	d, err := s.fs.Open(s.backupDir())
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, &durable.Error{Op: "list", Path: s.backupDir(), Err: err}
	}
	defer func() { _ = d.Close() }()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, &durable.Error{Op: "list", Path: s.backupDir(), Err: err}
	}
	stem, ext := strings.TrimSuffix(name, ".md")+".", ".md"
	var out []kept
	for _, file := range names {
		mid, ok := strings.CutPrefix(file, stem)
		mid, ok2 := strings.CutSuffix(mid, ext)
		if n, err := strconv.Atoi(mid); ok && ok2 && err == nil && n > 0 {
			out = append(out, kept{n, file})
		}
	}
	slices.SortFunc(out, func(a, b kept) int { return a.n - b.n })
	return out, nil
}

// readBackup returns a copy's content; what is no text is none.
func (s *Store) readBackup(name string) ([]byte, error) {
	if name == "" || name != filepath.Base(name) {
		return nil, fmt.Errorf("%q is no backup: %w", name, fs.ErrNotExist)
	}
	data, err := durable.ReadFile(s.fs, filepath.Join(s.backupDir(), name), maxStateBytes)
	if err == nil {
		err = wholesome(data, true, false) // in whatever encoding it was good
	}
	return data, err
}

// planBackup makes sure that a copy of data will be there before the file is
// written next, and returns its name: the newest one's when that is the same.
// mu is held.
func (s *Store) planBackup(f *file, data []byte) (string, error) {
	all, err := s.backups(f.name)
	if err != nil {
		return "", err
	}
	n := 0
	if len(all) > 0 {
		last := all[len(all)-1]
		if have, err := s.readBackup(last.name); err == nil && bytes.Equal(have, data) {
			f.backup = nil
			return last.name, nil
		}
		n = last.n
	}
	f.backup = &backup{name: fmt.Sprintf("%s.%d.md", strings.TrimSuffix(f.name, ".md"), n+1), data: data}
	return f.backup.name, nil
}

// writeBackup writes a copy. Those that are too many go when the Store is
// closed: whoever is about to restore one still finds it.
func (s *Store) writeBackup(name string, b *backup) error {
	if err := durable.MkdirAll(s.fs, s.backupDir(), 0o700); err != nil {
		return err
	}
	if err := durable.Replace(s.fs, filepath.Join(s.backupDir(), b.name), b.data, 0o600); err != nil {
		return err
	}
	s.copied.Store(true)
	return s.dropBackups(name, 2*maxBackups)
}

// dropBackups removes all copies of a file but the newest.
func (s *Store) dropBackups(name string, but int) error {
	all, err := s.backups(name)
	errs := []error{err}
	for _, old := range all[:max(0, len(all)-but)] {
		if err := s.fs.Remove(filepath.Join(s.backupDir(), old.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, &durable.Error{Op: "remove old backup", Path: filepath.Join(s.backupDir(), old.name), Err: err})
		}
	}
	return errors.Join(errs...)
}
