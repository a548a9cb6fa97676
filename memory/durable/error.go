package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/afero"
)

// ErrSymlink is matched when the file to read or write is a symbolic link:
// following it could write outside the project.
var ErrSymlink = errors.New("is a symbolic link")

// ErrNotRegular is matched when the file to read or write is a directory, a
// FIFO or another special file.
var ErrNotRegular = errors.New("is not a regular file")

// ErrTooLarge is matched when a file is larger than the reader's bound.
var ErrTooLarge = errors.New("is too large")

// Error is what every function of this package returns: what was done to
// which file, why it did not work, and what the user can do.
type Error struct {
	Op   string // "replace", "append to", "read", …
	Path string
	Err  error
	Hint string // may be empty
}

// Error returns the operation, the path and the cause.
func (e *Error) Error() string {
	cause := e.Err
	// The path is named already.
	if pe, ok := errors.AsType[*fs.PathError](cause); ok {
		cause = pe.Err
	} else if le, ok := errors.AsType[*os.LinkError](cause); ok {
		cause = le.Err
	}
	return fmt.Sprintf("%s %q: %v", e.Op, e.Path, cause)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func fail(op, path string, fsys afero.Fs, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Path: path, Err: err, Hint: hint(fsys, path, err)}
}

// hint says what can be done about err; it names the place that is full or
// locked, since that is what the user has to look at.
func hint(fsys afero.Fs, path string, err error) string {
	where := func() string {
		if m := MountPoint(fsys, path); m != "" {
			return "the filesystem mounted at " + m
		}
		return "the filesystem of " + filepath.Dir(path)
	}
	switch {
	case errors.Is(err, ErrSymlink):
		return "replace the link by a regular file; Ralph does not write through links"
	case errors.Is(err, ErrNotRegular):
		return "move it away; Ralph keeps a file there"
	case errors.Is(err, ErrTooLarge):
		return "move it away, or make it smaller"
	case errors.Is(err, syscall.ENOSPC):
		return where() + " has no space or no inodes left: free some (df -h, df -i)"
	case errors.Is(err, syscall.EDQUOT):
		return "your quota on " + where() + " is used up"
	case errors.Is(err, syscall.EROFS):
		return where() + " is read-only"
	case errors.Is(err, fs.ErrPermission):
		return "check the owner and the mode of " + filepath.Dir(path)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "too many files are open: raise the limit (ulimit -n)"
	case errors.Is(err, syscall.EIO):
		return where() + " reports I/O errors: check the disk (dmesg)"
	}
	return ""
}

// MountPoint returns where the filesystem that holds path is mounted, or ""
// when that cannot be told.
func MountPoint(fsys afero.Fs, path string) string {
	device := func(dir string) (uint64, bool) {
		info, err := fsys.Stat(dir)
		if err != nil {
			return 0, false
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return 0, false
		}
		return uint64(st.Dev), true
	}
	dir := filepath.Dir(path)
	if !filepath.IsAbs(dir) {
		return ""
	}
	dev, ok := device(dir)
	for ok {
		parent := filepath.Dir(dir)
		up, known := device(parent)
		if !known || parent == dir || up != dev {
			return dir
		}
		dir = parent
	}
	return ""
}
