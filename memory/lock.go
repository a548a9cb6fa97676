package memory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"github.com/spf13/afero"

	"ralph/memory/durable"
)

// ErrLocked is matched when another Ralph holds the project.
var ErrLocked = errors.New("another Ralph is running here")

// lockPoll is how often a held lock is tried again.
const lockPoll = 25 * time.Millisecond

// Holder is what the holder of a project says of itself. It only informs: the
// lock is the kernel's.
type Holder struct {
	PID        int       `json:"pid"`
	StartTime  uint64    `json:"startTime"` // clock ticks after boot; 0 unknown
	BootID     string    `json:"bootId"`
	Hostname   string    `json:"hostname"`
	SessionID  string    `json:"sessionId"`
	AcquiredAt time.Time `json:"acquiredAt"`
	Cwd        string    `json:"cwd"`
	Kind       string    `json:"kind"` // "chat", "one-shot", "run"
}

// LockedError says who holds the project. It matches ErrLocked.
type LockedError struct {
	Holder Holder // PID 0: it does not say
	Path   string // the locked file
}

// Error names the holder.
func (e *LockedError) Error() string {
	h := e.Holder
	if h.PID == 0 {
		return fmt.Sprintf("%v (%s is locked)", ErrLocked, e.Path)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%v (pid %d", ErrLocked, h.PID)
	if h.Hostname != "" {
		b.WriteString(" on " + h.Hostname)
	}
	if h.Kind != "" {
		b.WriteString(", " + h.Kind)
	}
	if !h.AcquiredAt.IsZero() {
		b.WriteString(", since " + h.AcquiredAt.Local().Format("15:04"))
	}
	return b.String() + ")"
}

// Is reports whether target is ErrLocked.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// Hint says what the user can do.
func (e *LockedError) Hint() string {
	return "ralph attach | ralph send | ralph stop, or wait until it is done"
}

// projectLock is a held lock; nil holds nothing.
type projectLock struct {
	flock *flock.Flock
	notes []string // files that name the holder
}

// takeLock takes the kernel's lock on the project. It returns nil where there
// is nothing to lock with, and says so in rec.
func takeLock(ctx context.Context, s *Store, o Options, git gitDirs, rec *Recovery) (*projectLock, error) {
	if _, real := s.fs.(*afero.OsFs); !real {
		return nil, nil
	}
	note := filepath.Join(s.StateDir(), "lock")
	path := note
	if git.common != "" {
		path = filepath.Join(git.common, "ralph.lock")
	} else if err := realDir(s.fs, s.StateDir()); err != nil {
		rec.Warnings = append(rec.Warnings, fmt.Sprintf("no lock could be taken (%v): do not start a second Ralph in this project", err))
		return nil, nil
	}
	l := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK), flock.SetPermissions(0o600))
	ok, err := tryLock(ctx, l, o.LockWait)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("lock %q: %w", path, context.Cause(ctx))
	case err != nil:
		_ = l.Close()
		rec.Warnings = append(rec.Warnings, fmt.Sprintf("no lock could be taken (%s: %v): do not start a second Ralph in this project", path, unpath(err)))
		return nil, nil
	case !ok:
		_ = l.Close()
		return nil, &LockedError{Holder: readHolder(s.fs, path, note), Path: path}
	}
	if last := readHolder(s.fs, path, note); last.PID != 0 {
		rec.Crashed = &last
	}
	pl := &projectLock{flock: l, notes: []string{path}}
	if note != path && !s.readOnly && ours(s.fs, note) {
		pl.notes = append(pl.notes, note)
	}
	pl.write(describe(s, o))
	return pl, nil
}

// realDir makes sure that a lock in dir is in the project, not where a link
// leads.
func realDir(fsys afero.Fs, dir string) error {
	info, err := fsys.Stat(dir)
	if l, ok := fsys.(afero.Lstater); ok {
		info, _, err = l.LstatIfPossible(dir)
	}
	if err == nil && !info.IsDir() {
		err = errors.New("not a directory")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", dir, unpath(err))
	}
	return nil
}

// tryLock tries until it has the lock, wait is over or ctx ends.
func tryLock(ctx context.Context, l *flock.Flock, wait time.Duration) (bool, error) {
	deadline := time.Now().Add(wait)
	for {
		ok, err := l.TryLock()
		if ok || err != nil {
			return ok, err
		}
		left := time.Until(deadline)
		if left <= 0 {
			return false, nil
		}
		t := time.NewTimer(min(left, lockPoll))
		select {
		case <-ctx.Done():
			t.Stop()
			_ = l.Close()
			return false, ctx.Err()
		case <-t.C:
		}
	}
}

// describe says who this process is.
func describe(s *Store, o Options) []byte {
	host, _ := os.Hostname() // only informs
	cwd, _ := os.Getwd()
	h := Holder{PID: os.Getpid(), StartTime: startTime(), BootID: bootID(), Hostname: host, SessionID: o.SessionID,
		AcquiredAt: s.now().UTC().Truncate(time.Second), Cwd: cwd, Kind: o.Holder}
	data, err := json.Marshal(h)
	if err != nil {
		return nil
	}
	return append(data, '\n')
}

// write puts the holder's note into the lock files, in place: a rename would
// put another file where the lock is. What it says only informs, so that a
// failure is none of the lock.
func (l *projectLock) write(data []byte) {
	for _, path := range l.notes {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
		if err != nil {
			continue
		}
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			if _, err := f.WriteAt(data, 0); err == nil {
				_ = f.Truncate(int64(len(data)))
			}
		}
		_ = f.Close()
	}
}

// release empties the notes, so that an empty note means a clean end, and
// unlocks. The files stay.
func (l *projectLock) release() error {
	if l == nil {
		return nil
	}
	l.write(nil)
	if err := l.flock.Close(); err != nil {
		return fmt.Errorf("unlock %q: %w", l.flock.Path(), err)
	}
	return nil
}

// ours reports whether a lock file is ours to write: absent, empty, or with a
// note in our form.
func ours(fsys afero.Fs, path string) bool {
	data, err := durable.ReadFile(fsys, path, 64<<10)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return len(bytes.TrimSpace(data)) == 0 || bytes.Contains(data, []byte(`"acquiredAt"`))
}

// readHolder returns the first readable note; the zero Holder when there is
// none: empty or garbage files say nothing.
func readHolder(fsys afero.Fs, paths ...string) Holder {
	for _, path := range paths {
		data, err := durable.ReadFile(fsys, path, 64<<10)
		if err != nil {
			continue
		}
		var h Holder
		if json.Unmarshal(data, &h) == nil && h.PID > 0 {
			return h
		}
	}
	return Holder{}
}

// startTime reads when this process began, in clock ticks after boot: with the
// pid it names a process for good.
func startTime() uint64 {
	data, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0
	}
	// The command's name, in parentheses, may hold anything.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 {
		return 0
	}
	n, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func bootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
