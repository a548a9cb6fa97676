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

// ErrHeld is matched when a change was made and is saved nowhere yet: it is in
// memory and tried again.
var ErrHeld = errors.New("held, not saved")

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
	// Tag is what the holder's commands carry, by which those that outlive it can
	// be found.
	Tag string `json:"tag,omitempty"`
}

// LockedError says who holds the project. It matches ErrLocked.
type LockedError struct {
	Holder Holder // PID 0: it does not say
	Path   string // the locked file
}

// Error names the holder and what can be done about it.
func (e *LockedError) Error() string {
	who := e.Holder.String()
	if e.Holder.PID == 0 {
		who = e.Path + " is locked"
	}
	return fmt.Sprintf("%v (%s): ralph attach | ralph send | ralph stop", ErrLocked, who)
}

// String is who a holder is, for people: "pid 4242 on host, chat, since 10:02".
func (h Holder) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "pid %d", h.PID)
	if h.Hostname != "" {
		b.WriteString(" on " + h.Hostname)
	}
	if h.Kind != "" {
		b.WriteString(", " + h.Kind)
	}
	if !h.AcquiredAt.IsZero() {
		b.WriteString(", since " + h.AcquiredAt.Local().Format("15:04"))
	}
	return b.String()
}

// Is reports whether target is ErrLocked.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// projectLock is a held lock; nil holds nothing.
type projectLock struct {
	flocks []*flock.Flock
	notes  []string // files that name the holder
	text   []byte   // what they say
}

// takeLock takes the kernel's lock on the project: of the repository, when
// there is one, and of the project's `.ralph/lock`, which holds also while a
// repository is made around it. It returns nil where there is nothing to lock
// with, and says so in rec. home says that `.ralph/` can be used.
func takeLock(ctx context.Context, s *Store, o Options, home bool, rec *Recovery) (*projectLock, error) {
	if !s.real() {
		return nil, nil
	}
	note := filepath.Join(s.StateDir(), "lock")
	mine := home && ours(s.fs, note)
	var paths []string
	if s.repo.common != "" {
		paths = append(paths, filepath.Join(s.repo.common, "ralph.lock"))
	}
	if home {
		paths = append(paths, note) // also another tool's: then nothing is written to it
	}
	pl, busy, err := lockAll(ctx, paths, time.Now().Add(o.LockWait), rec)
	if err != nil {
		return nil, err
	}
	if busy != "" {
		return nil, &LockedError{Holder: readHolder(s.fs, append(paths, note)...), Path: busy}
	}
	if len(pl.flocks) == 0 {
		if !home {
			return nil, nil // which is said already
		}
		rec.Warnings = append(rec.Warnings, "the project could not be locked: nothing is saved, what is recorded is held in memory")
		return nil, nil
	}
	if last := readHolder(s.fs, append(paths, note)...); last.PID != 0 {
		rec.Crashed = &last
	}
	for _, path := range paths {
		if info, err := durable.Lstat(s.fs, path); err == nil && info.Mode().IsRegular() && (path != note || mine) {
			pl.notes = append(pl.notes, path)
		}
	}
	pl.text = describe(s, o)
	pl.write(pl.text)
	return pl, nil
}

// lockAll locks all that can be locked of paths, or nothing: busy is what
// somebody else has until the deadline. It holds none while it waits for
// another, as the holder may have to take it anew.
func lockAll(ctx context.Context, paths []string, deadline time.Time, rec *Recovery) (pl *projectLock, busy string, err error) {
	for {
		var cannot []string
		pl, busy = &projectLock{}, ""
		for _, path := range paths {
			l, err := lockNow(path)
			if err != nil {
				cannot = append(cannot, fmt.Sprintf("%s cannot be locked: %v", path, rootCause(err)))
			} else if l == nil {
				busy = path
				break
			} else {
				pl.flocks = append(pl.flocks, l)
			}
		}
		if busy == "" {
			rec.Warnings = append(rec.Warnings, cannot...)
			return pl, "", nil
		}
		_ = pl.drop() // the one that is held counts
		left := time.Until(deadline)
		if left <= 0 {
			return nil, busy, nil
		}
		t := time.NewTimer(min(left, lockPoll))
		select {
		case <-ctx.Done():
			t.Stop()
			return nil, "", fmt.Errorf("lock %q: %w", busy, context.Cause(ctx))
		case <-t.C:
		}
	}
}

// lockNow locks the file at path, or the directory that stands there; nil when
// somebody else has it. What is locked is what stands at path: a file that was
// deleted meanwhile does not count.
func lockNow(path string) (*flock.Flock, error) {
	for {
		flag := os.O_CREATE | os.O_RDWR
		if info, err := os.Lstat(path); err == nil && info.IsDir() {
			flag = os.O_RDONLY
		}
		l := flock.New(path, flock.SetFlag(flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK), flock.SetPermissions(0o600))
		ok, err := l.TryLock()
		if ok && err == nil && inPlace(l) {
			return l, nil
		}
		_ = l.Close()
		if err != nil || !ok {
			return nil, err
		}
	}
}

// inPlace says that a locked file still stands in its place.
func inPlace(l *flock.Flock) bool {
	held, err := l.Stat()
	there, err2 := os.Lstat(l.Path())
	return err == nil && err2 == nil && os.SameFile(held, there)
}

// errLockLost is why nothing is written any more, errLockBusy why nothing is
// written now.
var (
	errLockLost = errors.New("the lock of this project was deleted, and another Ralph has taken it")
	errLockBusy = errors.New("the lock of this project was deleted, and somebody has it just now")
)

// guard sees before anything is written that the lock is still ours: who
// deletes its file lets another Ralph in. It is taken anew where that is
// possible, and no other was in meanwhile. mu is held.
func (s *Store) guard() error {
	if s.fenced != nil || s.lock == nil {
		return s.fenced
	}
	for i, l := range s.lock.flocks {
		if inPlace(l) {
			continue
		}
		s.awaitLog()
		if filepath.Dir(l.Path()) == s.StateDir() {
			if err := s.home(); err != nil {
				return err
			}
		}
		again, err := lockNow(l.Path())
		switch {
		case err != nil:
			continue // nobody else can take it either
		case again == nil && !readHolder(s.fs, l.Path()).alive():
			return errLockBusy // one who tries has it for a moment, and writes no note
		case again == nil || s.overtaken():
			s.fenced = errLockLost
			return s.fenced
		}
		_ = l.Close()
		s.lock.flocks[i] = again
		s.lock.write(s.lock.text)
	}
	return nil
}

// overtaken says that somebody else wrote to the log; mu is held.
func (s *Store) overtaken() bool {
	info, err := durable.Lstat(s.fs, s.logPath())
	return err == nil && (info.Size() != s.logAt.Size || stampOf(info).Ino != s.logAt.Ino)
}

// realDir makes sure that a lock in dir is in the project, not where a link
// leads.
func realDir(fsys afero.Fs, dir string) error {
	info, err := durable.Lstat(fsys, dir)
	if err == nil && !info.IsDir() {
		err = errors.New("not a directory")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", dir, unpath(err))
	}
	return nil
}

// describe says who this process is.
func describe(s *Store, o Options) []byte {
	host, _ := os.Hostname() // only informs
	cwd, _ := os.Getwd()
	h := Holder{PID: os.Getpid(), StartTime: startTime(os.Getpid()), BootID: bootID(), Hostname: host, SessionID: o.SessionID,
		AcquiredAt: s.now().UTC().Truncate(time.Second), Cwd: cwd, Kind: o.Holder, Tag: o.Tag}
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
	return l.drop()
}

func (l *projectLock) drop() error {
	var errs []error
	for i := len(l.flocks) - 1; i >= 0; i-- {
		if err := l.flocks[i].Close(); err != nil {
			errs = append(errs, fmt.Errorf("unlock %q: %w", l.flocks[i].Path(), err))
		}
	}
	return errors.Join(errs...)
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

// startTime reads when a process began, in clock ticks after boot: with the pid
// it names a process for good. 0: there is none, or it is dead but not reaped.
func startTime(pid int) uint64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The command's name, in parentheses, may hold anything.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
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

// Locked tells who holds the project at root, without touching the lock. It is
// true only for a process that is proven to be the one that wrote the note: it
// lives, since the same boot of this machine, and began when the note says. A
// holder on another machine, or where there is no /proc, is told but not
// proven. fsys nil means the real disk.
func Locked(fsys afero.Fs, root string) (Holder, bool) {
	if fsys == nil {
		fsys = durable.Disk()
	}
	note := filepath.Join(root, ".ralph", "lock")
	paths := []string{note}
	if git := findGit(fsys, root); git.common != "" {
		paths = []string{filepath.Join(git.common, "ralph.lock"), note}
	}
	var first Holder
	for _, path := range paths {
		h := readHolder(fsys, path)
		if h.PID == 0 {
			continue
		}
		if h.alive() {
			return h, true
		}
		if first.PID == 0 {
			first = h
		}
	}
	return first, false
}

// alive proves that a holder is a process that lives on this machine.
func (h Holder) alive() bool {
	return h.StartTime != 0 && h.BootID != "" && h.BootID == bootID() && startTime(h.PID) == h.StartTime
}
