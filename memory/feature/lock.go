package feature

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"ralph/memory/durable"
)

const (
	// lockWait bounds how long a lock is tried: who only looks has it for a
	// moment.
	lockWait = 250 * time.Millisecond
	lockPoll = 10 * time.Millisecond
)

const lockHint = "Ralph keeps a file there: see what it is, and move it away"

// lock is the kernel's lock on a feature; nil holds nothing.
type lock struct{ flock *flock.Flock }

// holder is what the lock file says of who has it; it only informs.
type holder struct {
	PID        int       `json:"pid"`
	AcquiredAt time.Time `json:"acquiredAt"`
}

// lockPath is beside the snapshot: that one is replaced, a lock stays.
func (o Options) lockPath(name string) string { return filepath.Join(o.dir(), "."+name+".lock") }

// take locks a feature. It returns nil where there are no processes to lock out.
func take(o Options, name string) (*lock, error) {
	if !durable.OnDisk(o.FS) {
		return nil, nil
	}
	path := o.lockPath(name)
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, &durable.Error{Op: "lock feature", Path: path, Err: durable.ErrNotRegular, Hint: lockHint}
	}
	for deadline := time.Now().Add(lockWait); ; time.Sleep(lockPoll) {
		l := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK), flock.SetPermissions(0o600))
		ok, err := l.TryLock()
		if ok && err == nil && inPlace(l) {
			if note, err := json.Marshal(holder{os.Getpid(), time.Now().UTC().Truncate(time.Second)}); err == nil {
				writeNote(path, append(note, '\n'))
			}
			return &lock{l}, nil
		}
		_ = l.Close()
		if err != nil {
			return nil, &durable.Error{Op: "lock feature", Path: path, Err: err, Hint: lockHint}
		}
		if time.Now().After(deadline) {
			return nil, &durable.Error{Op: "lock feature", Path: o.path(name), Err: fmt.Errorf("%w%s", ErrLocked, who(o, path)),
				Hint: "ralph status says what it does, ralph stop ends it; --feature gives other work another name"}
		}
	}
}

// writeNote says who has the lock, in place: a rename would put another file where
// the lock is. It only informs, so that a failure is none of the lock.
func writeNote(path string, data []byte) {
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	if _, err := f.WriteAt(data, 0); err == nil {
		_ = f.Truncate(int64(len(data)))
	}
	_ = f.Close() // the lock is another's open file
}

// who names the holder of a lock, when its note does.
func who(o Options, path string) string {
	data, err := durable.ReadFile(o.FS, path, 4096)
	var h holder
	if err != nil || json.Unmarshal(data, &h) != nil || h.PID == 0 {
		return ""
	}
	return fmt.Sprintf(" (pid %d, since %s)", h.PID, h.AcquiredAt.Local().Format("15:04"))
}

// inPlace says that a locked file still stands in its place.
func inPlace(l *flock.Flock) bool {
	held, err := l.Stat()
	there, err2 := os.Lstat(l.Path())
	return err == nil && err2 == nil && os.SameFile(held, there)
}

// held says that a process has the feature. It looks by taking a shared lock for
// a moment.
func held(o Options, name string) bool {
	if !durable.OnDisk(o.FS) {
		return false
	}
	path := o.lockPath(name)
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return false
	}
	l := flock.New(path, flock.SetFlag(os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK))
	ok, err := l.TryRLock()
	_ = l.Close()
	return !ok && err == nil
}

// release empties the note and unlocks. The file stays.
func (l *lock) release() error {
	if l == nil {
		return nil
	}
	writeNote(l.flock.Path(), nil)
	if err := l.flock.Close(); err != nil {
		return fmt.Errorf("unlock %q: %w", l.flock.Path(), err)
	}
	return nil
}
