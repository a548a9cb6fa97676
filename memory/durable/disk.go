package durable

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/spf13/afero"
)

// disk is the real disk without what an open, a read or a write could wait for.
type disk struct{ afero.OsFs }

// Disk returns the real disk. It opens files and directories alone: a named pipe, a
// socket or a device, also behind a link, is refused with ErrNotRegular, and no open
// waits. Everything in the project and in the user's own directories is opened by it.
func Disk() afero.Fs { return disk{} }

// OnDisk reports whether fsys is the real disk, on which other processes can be locked out.
func OnDisk(fsys afero.Fs) bool {
	switch fsys.(type) {
	case disk, *afero.OsFs:
		return true
	}
	return false
}

// Open implements afero.Fs.
func (d disk) Open(name string) (afero.File, error) { return d.OpenFile(name, os.O_RDONLY, 0) }

// Create implements afero.Fs.
func (d disk) Create(name string) (afero.File, error) {
	return d.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// OpenFile implements afero.Fs.
func (disk) OpenFile(name string, flag int, perm fs.FileMode) (afero.File, error) {
	f, err := open(name, flag, perm)
	if err != nil {
		return nil, err // not a nil *os.File in an interface
	}
	return f, nil
}

// open opens a file or a directory and never waits.
func open(name string, flag int, perm fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(name, flag|syscall.O_NONBLOCK|syscall.O_NOCTTY, perm)
	if errors.Is(err, syscall.ENXIO) { // a socket, or a pipe that nobody reads
		err = &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return f, nil
}
