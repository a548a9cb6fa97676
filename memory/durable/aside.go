package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/afero"
)

// SetAside moves a log that has more than MaxDamage to quarantine and begins it anew
// with the records before that: the lines that are valid.
func SetAside(fsys afero.Fs, path, quarantine string, valid func(line []byte) bool) (Damage, error) {
	const op = "set aside"
	info, err := Lstat(fsys, path)
	if err != nil {
		return Damage{}, fail(op, path, fsys, err)
	}
	temp := path + ".new"
	if err := fsys.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Damage{}, fail(op, path, fsys, err)
	}
	anew, _, err := OpenLog(fsys, temp, LogOptions{Perm: info.Mode().Perm()})
	if err != nil {
		return Damage{}, err
	}
	err = copyValid(fsys, path, anew, valid)
	if err = errors.Join(err, anew.Close()); err != nil {
		_ = fsys.Remove(temp) // the first error is the one to report
		return Damage{}, fail(op, path, fsys, err)
	}
	d := Damage{TornBytes: info.Size(), Whole: true}
	if d.Moved, err = moveTo(fsys, path, quarantine, fmt.Sprintf("%s.large-%d", filepath.Base(path), info.Size())); err == nil {
		err = fsys.Rename(temp, path)
	}
	if err == nil {
		err = errors.Join(SyncDir(fsys, quarantine), SyncDir(fsys, filepath.Dir(path)))
	}
	return d, fail(op, path, fsys, err)
}

// copyValid appends the valid lines of the log at path to another, until there is more
// than MaxDamage.
func copyValid(fsys afero.Fs, path string, to *Log, valid func(line []byte) bool) error {
	const batch = 4 << 20
	var records [][]byte
	size := 0
	err := ReadLines(fsys, path, func(line []byte, _ bool) error {
		if !valid(line) {
			return nil
		}
		records, size = append(records, bytes.Clone(line)), size+len(line)
		if size < batch {
			return nil
		}
		err := to.Append(records...)
		records, size = nil, 0
		return err
	})
	if err != nil && !errors.Is(err, ErrTooLarge) {
		return err
	}
	return to.Append(records...)
}

// moveTo moves a file into a directory, which is made when needed, under a name like
// base that nothing there has.
func moveTo(fsys afero.Fs, path, dir, base string) (moved string, err error) {
	if err := MkdirAll(fsys, dir, 0o700); err != nil {
		return "", err
	}
	moved = filepath.Join(dir, base)
	for n := 2; ; n++ {
		_, err := Lstat(fsys, moved)
		if errors.Is(err, fs.ErrNotExist) {
			return moved, fsys.Rename(path, moved)
		}
		if err != nil {
			return "", err
		}
		moved = filepath.Join(dir, fmt.Sprintf("%s.%d", base, n))
	}
}
