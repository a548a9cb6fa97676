// Package tempdir makes temporary directories that a later start of Ralph removes when
// the process that made them was killed.
//
//	d, err := tempdir.Make("", "beads")
//	defer d.Remove()
//
// A directory is locked as long as its process lives; Sweep removes those that nobody
// has locked. It imports no package of Ralph.
package tempdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// prefix begins the name of each directory.
const prefix = "ralph-tmp-"

// settleTime is the age below which a directory is not swept: it may not be locked yet.
const settleTime = time.Minute

// Dir is a temporary directory. Its methods are not safe for concurrent use.
type Dir struct {
	// Path is its absolute path.
	Path string
	lock *os.File
}

// Make makes a directory in base, or where base is "" in the system's directory for
// temporary files. name is a part of its name, for people.
func Make(base, name string) (*Dir, error) {
	dir, err := os.MkdirTemp(base, prefix+name+"-")
	if err != nil {
		return nil, fmt.Errorf("make a temporary directory: %w", err)
	}
	lock, err := os.Open(dir)
	if err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	}
	if err != nil {
		if lock != nil {
			err = errors.Join(err, lock.Close())
		}
		return nil, errors.Join(fmt.Errorf("lock the temporary directory %q: %w", dir, err), os.Remove(dir))
	}
	return &Dir{Path: dir, lock: lock}, nil
}

// Release gives up the directory without removing it; the caller has removed it.
func (d *Dir) Release() error {
	if err := d.lock.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
		return fmt.Errorf("release the temporary directory %q: %w", d.Path, err)
	}
	return nil
}

// Remove removes the directory with all that is in it.
func (d *Dir) Remove() error {
	return errors.Join(Clear(d.Path), d.Release())
}

// Clear removes a tree in which directories may have lost their rights.
func Clear(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700) // what cannot be changed is told by the removal
		}
		return nil
	})
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove %q: %w", dir, err)
	}
	return nil
}

// Sweep removes the directories in base that processes of this user left behind. What
// cannot be removed stays; the error names all of it.
func Sweep(base string) error {
	if base == "" {
		base = os.TempDir()
	}
	entries, err := os.ReadDir(base)
	if err != nil {
		return fmt.Errorf("look for temporary directories: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) < settleTime || !mine(info) {
			continue
		}
		errs = append(errs, sweep(filepath.Join(base, e.Name())))
	}
	return errors.Join(errs...)
}

// sweep removes a directory unless it is locked.
func sweep(dir string) error {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil // it went meanwhile
	}
	defer func() { _ = f.Close() }()
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return nil // its process lives
	}
	return Clear(dir)
}

func mine(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}
