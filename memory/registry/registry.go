// Package registry keeps the list of sessions of all projects of a user:
// `ralph/sessions.json` in the user's state directory.
//
// It only helps to find sessions again: each project knows its own sessions
// without it, so that every failure here is a warning and never ends work. The
// file is replaced durably under a lock of its own, which nobody holds for
// longer than one rewrite; keys that Ralph does not know stay. A file that is
// no registry is moved aside, never overwritten. The package opens no project
// and starts nothing.
//
//	r := registry.New(registry.Options{Path: registry.Path(os.Getenv)})
//	warning, err := r.Put(ctx, registry.Entry{SessionID: registry.ID(root, "001"), Cwd: root, PID: os.Getpid(), Status: registry.Running})
//	…
//	listed, warning, err := r.List(ctx)
package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"github.com/spf13/afero"

	"ralph/memory/durable"
	"ralph/memory/identity"
)

// ErrNoHome is matched when the environment names no place for the registry.
var ErrNoHome = errors.New("no home directory is known")

// ErrNewer is matched when a later Ralph wrote the registry: it is left alone.
var ErrNewer = errors.New("was written by a newer Ralph")

// ErrBusy is matched when others rewrote the registry all the time.
var ErrBusy = errors.New("is locked by other Ralphs")

// Status is how a session stands, in the words of runs.
type Status string

// The status words that this package itself gives or asks about.
const (
	Running     Status = "running"
	Paused      Status = "paused"
	Interrupted Status = "interrupted"
	Completed   Status = "completed"
	Failed      Status = "failed"
)

// live says that a status claims that somebody works.
func (s Status) live() bool {
	switch s {
	case Running, "initializing", "pausing", "stopping":
		return true
	}
	return false
}

// Entry is one session. Times are UTC.
type Entry struct {
	// SessionID is unique across projects; see ID.
	SessionID string `json:"sessionId"`
	Feature   string `json:"feature,omitempty"`
	// Cwd is the project's root, absolute, with symlinks resolved.
	Cwd           string    `json:"cwd"`
	PID           int       `json:"pid"`
	Status        Status    `json:"status"`
	StartedAt     time.Time `json:"startedAt"` // zero: as before, or now
	UpdatedAt     time.Time `json:"updatedAt"` // set by Put
	AgentPlugin   string    `json:"agentPlugin"`
	TrackerPlugin string    `json:"trackerPlugin"`
	PlanPath      string    `json:"planPath,omitempty"`
	EpicIDs       []string  `json:"epicIds,omitempty"`
}

// Listed is an entry as it reads now.
type Listed struct {
	Entry
	// Gone says that the project's directory does not exist any more.
	Gone bool
}

// Options says where the registry is. The zero value has no place: every call
// gives ErrNoHome.
type Options struct {
	// FS holds it; nil means the real disk. Only there other processes are
	// locked out.
	FS afero.Fs
	// Path is the file; see Path.
	Path string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Wait bounds how long to wait for others; 0 means two seconds.
	Wait time.Duration
	// Alive tells whether the process that wrote an entry at a time still
	// runs; nil means Alive.
	Alive func(pid int, wrote time.Time) bool
}

// Registry is a handle on the file. It holds nothing open and is safe for
// concurrent use.
type Registry struct {
	o Options

	mu sync.Mutex // keeps the goroutines of one process in order
}

// New returns a handle; it touches nothing.
func New(o Options) *Registry {
	if o.FS == nil {
		o.FS = durable.Disk()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Wait == 0 {
		o.Wait = 2 * time.Second
	}
	if o.Alive == nil {
		o.Alive = Alive
	}
	return &Registry{o: o}
}

// Path returns where the registry of the user is, in the user's own state
// directory; empty when the environment names none.
func Path(getenv func(string) string) string {
	home := identity.Home(getenv)
	if home == "" {
		return ""
	}
	return filepath.Join(home, "sessions.json")
}

// ID makes a session's number unique across projects: the last part of the
// project's root, eight hex digits of the root's SHA-256, and the number, such
// as shop-1f0e6a2b-007. The same session always has the same id.
func ID(root, session string) string {
	sum := sha256.Sum256([]byte(root))
	var name strings.Builder
	for _, r := range strings.ToLower(filepath.Base(root)) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			name.WriteRune(r)
		case name.Len() > 0 && !strings.HasSuffix(name.String(), "-"):
			name.WriteByte('-')
		}
		if name.Len() >= 24 {
			break
		}
	}
	parts := []string{strings.Trim(name.String(), "-"), hex.EncodeToString(sum[:4]), session}
	return strings.TrimPrefix(strings.Join(parts, "-"), "-")
}

// Put adds an entry or replaces the one of the same id; keys of it that Ralph
// does not know stay. The warning says that a damaged file was moved aside.
// After an error the file is as it was.
func (r *Registry) Put(ctx context.Context, e Entry) (warning string, err error) {
	if e.SessionID == "" || e.Cwd == "" {
		return "", errors.New("register session: it needs an id and a directory")
	}
	err = r.change(ctx, true, func(f *file) (bool, error) {
		warning = f.warning
		return true, f.put(e, r.o.Now())
	})
	return warning, wrap("register session", err)
}

// List returns the entries, the newest first, as they read now: an entry at
// work whose process is dead reads interrupted, and one whose project does not
// exist any more is marked. It writes nothing. Without a file there are none.
func (r *Registry) List(ctx context.Context) (listed []Listed, warning string, err error) {
	// A rename replaces the file whole: a reader needs no lock.
	f, err := r.read(ctx.Err)
	if err != nil {
		return nil, "", wrap("list sessions of all projects", err)
	}
	entries, bad := f.entries()
	warning = f.warning
	if bad > 0 && warning == "" {
		warning = fmt.Sprintf("the registry %s holds %d entries that cannot be read; they are left alone", r.o.Path, bad)
	}
	for _, e := range entries {
		listed = append(listed, r.now(e))
	}
	slices.SortFunc(listed, func(a, b Listed) int {
		if c := b.UpdatedAt.Compare(a.UpdatedAt); c != 0 {
			return c
		}
		return strings.Compare(a.SessionID, b.SessionID)
	})
	return listed, warning, nil
}

// Drop removes the entries whose project is gone and returns them. dry only
// returns them.
func (r *Registry) Drop(ctx context.Context, dry bool) (gone []Listed, warning string, err error) {
	err = r.change(ctx, !dry, func(f *file) (bool, error) {
		warning = f.warning
		entries, _ := f.entries()
		for id, e := range entries {
			if l := r.now(e); l.Gone {
				gone = append(gone, l)
				delete(f.sessions, id)
			}
		}
		return len(gone) > 0, nil
	})
	slices.SortFunc(gone, func(a, b Listed) int { return strings.Compare(a.SessionID, b.SessionID) })
	return gone, warning, wrap("drop sessions of projects that are gone", err)
}

// now is how an entry reads at this moment.
func (r *Registry) now(e Entry) Listed {
	l := Listed{Entry: e}
	if e.Status.live() && !r.o.Alive(e.PID, e.UpdatedAt) {
		l.Status = Interrupted
	}
	info, err := r.o.FS.Stat(e.Cwd)
	l.Gone = errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir()
	return l
}

// change reads the file, lets do change it, and replaces it. Without write
// nothing is locked, moved or written.
func (r *Registry) change(ctx context.Context, write bool, do func(*file) (bool, error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if write {
		unlock, err := r.lock(ctx)
		if err != nil {
			return err
		}
		defer unlock()
	}
	f, err := r.read(ctx.Err)
	if err != nil {
		return err
	}
	if write {
		if err := r.setAside(f); err != nil {
			return err
		}
	}
	changed, err := do(f)
	if err != nil || !changed || !write {
		return err
	}
	data, err := f.encode()
	if err != nil {
		return err
	}
	return durable.Replace(r.o.FS, r.o.Path, data, 0o600)
}

// lockPoll is how often a held lock is tried again.
const lockPoll = 5 * time.Millisecond

// lock keeps other Ralphs from rewriting the registry; the kernel takes the
// lock back from whoever dies. It waits no longer than Options.Wait.
func (r *Registry) lock(ctx context.Context) (unlock func(), err error) {
	if r.o.Path == "" {
		return nil, ErrNoHome
	}
	if err := durable.MkdirAll(r.o.FS, filepath.Dir(r.o.Path), 0o700); err != nil {
		return nil, err
	}
	if !durable.OnDisk(r.o.FS) {
		return func() {}, nil
	}
	path := r.o.Path + ".lock"
	l := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK), flock.SetPermissions(0o600))
	ctx, cancel := context.WithTimeout(ctx, r.o.Wait)
	defer cancel()
	ok, err := l.TryLockContext(ctx, lockPoll)
	if ok {
		return func() { _ = l.Close() }, nil // the file stays; closing unlocks
	}
	_ = l.Close()
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		err = ErrBusy
	}
	return nil, fmt.Errorf("lock %q: %w", path, err)
}

// wrap names what was tried.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// maxBytes bounds the file; some 50,000 sessions fit.
const maxBytes = 16 << 20

// read reads the registry; one that is damaged reads as empty, with a warning
// and what to set aside.
func (r *Registry) read(ended func() error) (*file, error) {
	if err := ended(); err != nil {
		return nil, err
	}
	if r.o.Path == "" {
		return nil, ErrNoHome
	}
	data, err := durable.ReadFile(r.o.FS, r.o.Path, maxBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return emptyFile(), nil
	case errors.Is(err, durable.ErrTooLarge):
		f := emptyFile()
		f.damaged, f.warning = true, fmt.Sprintf("the registry %s is too large to be one", r.o.Path)
		return f, nil
	case err != nil:
		return nil, err
	}
	f, err := decode(data)
	if errors.Is(err, ErrNewer) {
		return nil, fmt.Errorf("%q %w", r.o.Path, err)
	}
	if err != nil {
		f = emptyFile()
		f.damaged, f.raw = true, data
		f.warning = fmt.Sprintf("the registry %s is damaged (%v)", r.o.Path, err)
	}
	return f, nil
}

// setAside moves a damaged file out of the way, under a name that is free, and
// takes the rights of others from one that is whole.
func (r *Registry) setAside(f *file) error {
	if !f.damaged {
		if info, err := r.o.FS.Stat(r.o.Path); err == nil && info.Mode().Perm()&0o077 != 0 {
			return r.o.FS.Chmod(r.o.Path, 0o600)
		}
		return nil
	}
	sum := sha256.Sum256(f.raw)
	for n := 0; ; n++ {
		to := fmt.Sprintf("%s.damaged-%s", r.o.Path, hex.EncodeToString(sum[:4]))
		if n > 0 {
			to = fmt.Sprintf("%s-%d", to, n)
		}
		if _, err := r.o.FS.Stat(to); err == nil {
			continue
		}
		if err := r.o.FS.Rename(r.o.Path, to); err != nil {
			return err
		}
		f.warning += ": it was moved to " + to + " and begun anew"
		return durable.SyncDir(r.o.FS, filepath.Dir(r.o.Path))
	}
}

// file is the content of the registry. What is not understood stays raw.
type file struct {
	top      map[string]json.RawMessage
	sessions map[string]json.RawMessage
	damaged  bool
	raw      []byte
	warning  string
}

func emptyFile() *file {
	return &file{top: map[string]json.RawMessage{}, sessions: map[string]json.RawMessage{}}
}

const version = 1

func decode(data []byte) (*file, error) {
	f := emptyFile()
	if err := json.Unmarshal(data, &f.top); err != nil {
		return nil, err
	}
	var v int
	if err := json.Unmarshal(f.top["version"], &v); err != nil || v < 1 {
		return nil, errors.New("it has no version")
	}
	if v > version {
		return nil, ErrNewer
	}
	if raw, ok := f.top["sessions"]; ok {
		if err := json.Unmarshal(raw, &f.sessions); err != nil || f.sessions == nil {
			return nil, errors.New("its sessions are no object")
		}
	}
	return f, nil
}

func (f *file) encode() ([]byte, error) {
	sessions, err := json.Marshal(f.sessions)
	if err != nil {
		return nil, err
	}
	f.top["version"], f.top["sessions"] = json.RawMessage("1"), sessions
	data, err := json.MarshalIndent(f.top, "", "  ")
	return append(data, '\n'), err
}

// entries are those that can be read, by id, and how many cannot.
func (f *file) entries() (entries map[string]Entry, bad int) {
	entries = make(map[string]Entry, len(f.sessions))
	for id, raw := range f.sessions {
		var e Entry
		if err := json.Unmarshal(raw, &e); err != nil || e.Cwd == "" {
			bad++
			continue
		}
		e.SessionID = id
		entries[id] = e
	}
	return entries, bad
}

// put lays an entry over the one of the same id.
func (f *file) put(e Entry, now time.Time) error {
	now = now.UTC().Truncate(time.Second)
	var old Entry
	keys := map[string]json.RawMessage{}
	if raw, ok := f.sessions[e.SessionID]; ok {
		// What cannot be read is replaced: it says nothing about the session.
		if json.Unmarshal(raw, &keys) != nil || keys == nil {
			keys = map[string]json.RawMessage{}
		}
		_ = json.Unmarshal(raw, &old)
	}
	if e.StartedAt.IsZero() {
		e.StartedAt = old.StartedAt
	}
	if e.StartedAt.IsZero() {
		e.StartedAt = now
	}
	e.StartedAt, e.UpdatedAt = e.StartedAt.UTC(), now
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	fresh := map[string]json.RawMessage{}
	if err := json.Unmarshal(body, &fresh); err != nil {
		return err
	}
	for _, optional := range []string{"feature", "planPath", "epicIds"} {
		delete(keys, optional)
	}
	for k, v := range fresh {
		keys[k] = v
	}
	f.sessions[e.SessionID], err = json.Marshal(keys)
	return err
}
