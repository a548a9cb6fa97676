// Package regular opens and reads files in directories that others write to: no open
// waits for the other end of a named pipe, nothing but a regular file is read, and of that
// no more than a bound.
//
//	text, err := regular.Read(filepath.Join(gitDir, "config"), 4<<20)
package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Error is the error of a file that cannot be read to its end within bounds.
type Error struct {
	Path string
	Why  string
}

// Error names the file, the fault and the way out.
func (e *Error) Error() string {
	return fmt.Sprintf("%q %s: remove it, or put there what belongs there", e.Path, e.Why)
}

// Endless is the error of a file that a reader waits for.
func Endless(path string) *Error {
	return &Error{path, "is a named pipe, socket or device, which has no end"}
}

// Large is the error of a file with more bytes than are read of it.
func Large(path string, size, most int64) *Error {
	return &Error{path, fmt.Sprintf("has %d bytes, more than the %d that are read of it", size, most)}
}

// Open opens a regular file for reading, also by a link. Flags are added, as
// syscall.O_NOFOLLOW.
func Open(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY|flags, 0)
	if errors.Is(err, syscall.ENXIO) { // a socket
		return nil, Endless(path)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = &fs.PathError{Op: "read", Path: path, Err: syscall.EISDIR}
	case !info.Mode().IsRegular():
		err = Endless(path)
	}
	if err != nil {
		_ = f.Close() // nothing was read
		return nil, err
	}
	return f, nil
}

// Read returns the content of a regular file of at most so many bytes.
func Read(path string, most int64) ([]byte, error) {
	f, err := Open(path, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > most {
		return nil, Large(path, info.Size(), most)
	}
	return io.ReadAll(io.LimitReader(f, most))
}
