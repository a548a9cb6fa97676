package durable

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/spf13/afero"
)

// Whoever locks a directory writes one small file: a wait this long means that it
// is held by something else, which may never let go.
const (
	lockPatience = 10 * time.Second
	lockPause    = 5 * time.Millisecond
)

// LockDir waits, for seconds at most, until nobody else holds the directory, and
// keeps others from it until unlock is called: what is read and then written there
// is not written twice. A filesystem that has no locks, or is none of the disk, is
// not locked.
func LockDir(fsys afero.Fs, dir string) (unlock func(), err error) {
	if !OnDisk(fsys) {
		return func() {}, nil
	}
	d, err := open(dir, os.O_RDONLY, 0)
	if err != nil {
		return nil, fail("lock", dir, fsys, err)
	}
	for until := time.Now().Add(lockPatience); ; time.Sleep(lockPause) {
		err = syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if busy := errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR); !busy || time.Now().After(until) {
			break
		}
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errors.New("somebody else holds it")
	}
	if err != nil && !errors.Is(err, syscall.ENOTSUP) && !errors.Is(err, fs.ErrInvalid) {
		_ = d.Close() // nothing was written
		return nil, fail("lock", dir, fsys, err)
	}
	return func() { _ = d.Close() }, nil
}
