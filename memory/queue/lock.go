package queue

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"ralph/memory/durable"
)

// lockPoll is how often a held lock is tried again.
const lockPoll = 10 * time.Millisecond

// lockName is locked where the system locks no directories.
const lockName = "queue.lock"

// holder is the lock on a queue. What is locked is the state directory itself:
// the log's file is replaced when it is written anew, and with it a lock on it
// would be lost; a file of its own would stand in every project.
type holder struct{ f *flock.Flock }

// take takes the lock. It is nil, without an error, where nothing can be locked.
func take(ctx context.Context, o Options) (*holder, error) {
	if !durable.OnDisk(o.FS) {
		return nil, nil
	}
	deadline := time.Now().Add(o.Wait)
	for {
		h, busy, err := try(o.StateDir)
		if err != nil {
			return nil, fmt.Errorf("lock the queue in %q: %w", o.StateDir, err)
		}
		if !busy {
			return h, nil
		}
		left := time.Until(deadline)
		if left <= 0 {
			return nil, fmt.Errorf("%w in %q", ErrLocked, o.StateDir)
		}
		t := time.NewTimer(min(left, lockPoll))
		select {
		case <-ctx.Done():
			t.Stop()
			return nil, fmt.Errorf("lock the queue in %q: %w", o.StateDir, context.Cause(ctx))
		case <-t.C:
		}
	}
}

func try(dir string) (h *holder, busy bool, err error) {
	h, busy, err = lockNow(dir, os.O_RDONLY|syscall.O_DIRECTORY)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h, busy, err = lockNow(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	return h, busy, err
}

// lockNow locks what stands at path.
func lockNow(path string, flag int) (h *holder, busy bool, err error) {
	for {
		l := flock.New(path, flock.SetFlag(flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK), flock.SetPermissions(0o600))
		ok, err := l.TryLock()
		h := &holder{f: l}
		if ok && err == nil && h.inPlace() {
			return h, false, nil
		}
		_ = l.Close()
		if err != nil || !ok {
			return nil, err == nil, err
		}
	}
}

// inPlace says that what is locked still stands where others would look.
func (h *holder) inPlace() bool {
	if h == nil {
		return true
	}
	held, err := h.f.Stat()
	there, err2 := os.Lstat(h.f.Path())
	return err == nil && err2 == nil && os.SameFile(held, there)
}

func (h *holder) release() error {
	if h == nil {
		return nil
	}
	if err := h.f.Close(); err != nil {
		return fmt.Errorf("unlock the queue: %w", err)
	}
	return nil
}
