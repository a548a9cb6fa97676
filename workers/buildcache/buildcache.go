package buildcache

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/gofrs/flock"

	"ralph/workers/regular"
	"ralph/workers/tempdir"
)

const (
	viewDir    = "view"    // the mount point of the overlays; empty
	emptyDir   = "empty"   // the lower layer where there is none
	layersDir  = "layers"  // immutable, by number; beside each its lock
	privateDir = "private" // what commands write, one for each Cache; beside each its lock
	stateFile  = "state.json"
	lockSuffix = ".lock"
)

const (
	// leastRewritten is how much a check writes at least, in bytes, before the layer
	// counts as out of date: building less anew each time is cheaper than a fill.
	leastRewritten = 16 << 20
	// maxCopy bounds, in bytes, what is copied where the system has no overlays.
	maxCopy = 2 << 30
)

// Store keeps the caches of one project in a directory. It is safe for concurrent
// use, also by several processes.
type Store struct{ dir string }

// state is what the Store remembers between processes.
type state struct {
	// Base is the commit that the user began the newest session with.
	Base string `json:"base"`
	// Filled is the base that the last fill was made from, or tried with.
	Filled string `json:"filled"`
	// Bytes is the size of the layer.
	Bytes int64 `json:"bytes"`
	// Stale says that a check had to build much of what the layer should hold.
	Stale bool `json:"stale"`
}

// Open makes the directory, and removes what processes that are gone have left.
func Open(dir string) (*Store, error) {
	for _, d := range []string{viewDir, emptyDir, layersDir, privateDir} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			return nil, fmt.Errorf("open build cache: %w", err)
		}
	}
	s := &Store{dir: dir}
	s.sweep()
	return s, nil
}

// Dir returns the directory of the store.
func (s *Store) Dir() string { return s.dir }

// View is the path at which commands see the caches where overlays are mounted.
func (s *Store) View() string { return filepath.Join(s.dir, viewDir) }

// Checkout makes an empty directory for a tree that only a check sees. The caller
// calls remove.
func (s *Store) Checkout() (dir string, remove func() error, err error) {
	root, lock, err := s.private()
	if err != nil {
		return "", nil, err
	}
	dir = filepath.Join(root, "tree")
	if err = os.Mkdir(dir, 0o700); err != nil {
		return "", nil, errors.Join(fmt.Errorf("make a checkout: %w", err), discard(root, lock))
	}
	return dir, func() error { return discard(root, lock) }, nil
}

// SetBase records the commit with which the user begins a session: only from such
// a state, which no agent of the session has written, is the layer filled.
func (s *Store) SetBase(commit string) error {
	return s.change(func(st *state) { st.Base = commit })
}

// Measured takes note of how much a check had to write, in bytes.
func (s *Store) Measured(written int64) error {
	return s.change(func(st *state) { st.Stale = st.Stale || written >= leastRewritten && written > st.Bytes/2 })
}

// Due returns the commit from which the layer is to be filled anew; "" while it
// serves, or a fill from that commit was tried already.
func (s *Store) Due() string {
	st := s.state()
	if !st.Stale || st.Base == st.Filled {
		return ""
	}
	return st.Base
}

// Tried records that a fill from commit was tried, whatever came of it.
func (s *Store) Tried(commit string) error {
	return s.change(func(st *state) { st.Filled, st.Stale = commit, false })
}

// maxStateBytes bounds the state of a store, a few hundred bytes.
const maxStateBytes = 1 << 20

// newLock is the lock of a file; its open does not wait for a named pipe.
func newLock(path string) *flock.Flock {
	return flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDONLY|syscall.O_NONBLOCK))
}

func (s *Store) state() state {
	var st state
	data, err := regular.Read(filepath.Join(s.dir, stateFile), maxStateBytes)
	if err == nil {
		_ = json.Unmarshal(data, &st) // what cannot be read is as if nothing was known
	}
	return st
}

// change rewrites the state when f changes it.
func (s *Store) change(f func(*state)) error {
	lock := newLock(filepath.Join(s.dir, stateFile+lockSuffix))
	if err := lock.Lock(); err != nil {
		return fmt.Errorf("lock build cache: %w", err)
	}
	defer func() { _ = lock.Close() }() // it ends with the process at the latest
	st := s.state()
	was := st
	if f(&st); st == was {
		return nil
	}
	data, err := json.Marshal(st)
	if err != nil {
		return fmt.Errorf("write state of build cache: %w", err)
	}
	path := filepath.Join(s.dir, stateFile)
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return fmt.Errorf("write state of build cache: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write state of build cache: %w", err)
	}
	return nil
}

// layer locks the newest layer against removal; "" and nil without one.
func (s *Store) layer() (string, *flock.Flock, error) {
	const tries = 10
	for range tries {
		path := s.newest()
		if path == "" {
			return "", nil, nil
		}
		lock := newLock(path + lockSuffix)
		if ok, err := lock.TryRLock(); err != nil || !ok {
			_ = lock.Close() // nothing is held
			continue         // it is being removed
		}
		if info, err := os.Lstat(path); err == nil && info.IsDir() {
			return path, lock, nil
		}
		_ = lock.Close() // it was removed meanwhile
	}
	return "", nil, errors.New("open build cache: its layers are removed faster than they are opened")
}

// newest is the path of the layer of the highest number, "" without one.
func (s *Store) newest() string {
	n := 0
	for _, x := range s.layers() {
		n = max(n, x)
	}
	if n == 0 {
		return ""
	}
	return filepath.Join(s.dir, layersDir, strconv.Itoa(n))
}

func (s *Store) layers() []int {
	entries, _ := os.ReadDir(filepath.Join(s.dir, layersDir)) // without the directory there are none
	var list []int
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil && n > 0 && e.IsDir() {
			list = append(list, n)
		}
	}
	return list
}

// private makes a directory that the next Store.Open removes once this process is
// gone.
func (s *Store) private() (dir string, lock *flock.Flock, err error) {
	base := filepath.Join(s.dir, privateDir)
	const tries = 10
	for range tries {
		// The lock is held before the directory is there, so that nobody takes that
		// for a leftover.
		f, err := os.CreateTemp(base, "ralph-private-*"+lockSuffix)
		if err != nil {
			return "", nil, fmt.Errorf("make a build cache: %w", err)
		}
		_ = f.Close() // nothing was written
		lock = newLock(f.Name())
		if ok, err := lock.TryLock(); err != nil || !ok {
			_ = lock.Close() // a sweep of another process has it and removes it
			continue
		}
		dir = strings.TrimSuffix(f.Name(), lockSuffix)
		if err := os.Mkdir(dir, 0o700); err != nil {
			return "", nil, fmt.Errorf("make a build cache: %w", errors.Join(err, discard(dir, lock)))
		}
		return dir, lock, nil
	}
	return "", nil, fmt.Errorf("make a build cache: cannot lock a directory below %q", base)
}

// sweep removes older layers and private directories that nobody uses.
func (s *Store) sweep() {
	newest := s.newest()
	for _, dir := range []string{layersDir, privateDir} {
		locks, _ := filepath.Glob(filepath.Join(s.dir, dir, "*"+lockSuffix)) // the pattern is ours
		for _, path := range locks {
			of := strings.TrimSuffix(path, lockSuffix)
			if of == newest {
				continue
			}
			lock := newLock(path)
			if ok, err := lock.TryLock(); err == nil && ok {
				_ = discard(of, lock) // what stays is tried again by the next
				continue
			}
			_ = lock.Close() // nothing is held
		}
	}
}

// discard removes a directory and then its lock, which is held.
func discard(dir string, lock *flock.Flock) error {
	err := tempdir.Clear(dir)
	if err == nil {
		err = os.Remove(lock.Path())
	}
	if err = errors.Join(err, lock.Close()); err != nil {
		return fmt.Errorf("remove build cache: %w", err)
	}
	return nil
}
