package feature

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/afero"

	"ralph/memory/durable"
	"ralph/memory/identity"
)

// ErrForeign is matched when the file of a feature's name is no snapshot that
// Ralph wrote.
var ErrForeign = errors.New("is no snapshot of Ralph's")

// ErrLocked is matched when another process runs the feature.
var ErrLocked = errors.New("is being run by another Ralph")

// maxBytes bounds a snapshot that is read.
const maxBytes = 64 << 20

// Options says where snapshots are.
type Options struct {
	// FS holds them; nil means the real disk. Only there other processes are
	// locked out, and seen to be dead.
	FS afero.Fs
	// StateDir is the project's `.ralph`, absolute.
	StateDir string
	// Key authenticates the snapshots; nil takes them as they are.
	Key identity.Key
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Warn is told in a line what was odd about the file; nil drops it.
	Warn func(string)
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = durable.Disk()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	return o
}

func (o Options) dir() string              { return filepath.Join(o.StateDir, "sessions") }
func (o Options) path(name string) string  { return filepath.Join(o.dir(), name+".json") }
func (o Options) spare(name string) string { return filepath.Join(o.StateDir, "backups", name+".json") }

// Store is the snapshot of one feature, held by this process. It is safe for
// concurrent use; whoever opens it closes it.
type Store struct {
	o    Options
	name string
	lock *lock

	mu     sync.Mutex // guards what follows
	found  *Snapshot  // at Open
	was    []byte     // what the file holds, as far as we know; nil: there is none
	tried  []byte     // what the last write that failed was to leave there
	more   *more
	spared string // the phase of the copy in backups
	closed bool
}

// Open takes the lock of a feature and reads its snapshot. The name must be one
// that Name gives. A process that has the feature gives ErrLocked, a file that is
// no snapshot of ours ErrForeign; of one that broke the copy in backups counts.
// The directory of the sessions is made when there is none.
func Open(o Options, name string) (*Store, error) {
	o = o.withDefaults()
	if clean, err := Name(name); err != nil {
		return nil, err
	} else if clean != name {
		return nil, fmt.Errorf("open feature %q: it is no name of a feature; %q is", name, clean)
	}
	if err := durable.MkdirAll(o.FS, o.dir(), 0o700); err != nil {
		return nil, fmt.Errorf("open feature %q: %w", name, err)
	}
	l, err := take(o, name)
	if err != nil {
		return nil, err
	}
	s := &Store{o: o, name: name, lock: l}
	if err := s.read(); err != nil {
		return nil, errors.Join(err, l.release())
	}
	if err := durable.Sweep(o.FS, o.dir(), name+".json"); err != nil {
		o.Warn(err.Error())
	}
	return s, nil
}

// read reads what is there when the feature is opened.
func (s *Store) read() error {
	snap, data, err := load(s.o, s.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	s.was, s.more = data, snap.more
	snap = snap.Cut() // the lock is ours: nobody runs it
	s.found = &snap
	return nil
}

// Found is the snapshot as it was when the feature was opened; one that said
// running is interrupted. false: there was none.
func (s *Store) Found() (Snapshot, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found == nil {
		return Snapshot{}, false
	}
	return *s.found, true
}

// Name is the name of the feature.
func (s *Store) Name() string { return s.name }

// Path is the file.
func (s *Store) Path() string { return s.o.path(s.name) }

// Save makes snap what the file holds; it is on disk when Save returns. The
// version, the name and the time of the change are set here. Keys that are not
// ours stay. After an error the old or the new snapshot is there, whole, and the
// next Save can be tried. A file that somebody edited meanwhile is kept in
// quarantine: what the run knows counts.
func (s *Store) Save(snap Snapshot) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("save feature %q: %w", s.name, fs.ErrClosed)
	}
	snap.Version, snap.Feature, snap.UpdatedAt = version, s.name, s.o.Now()
	data, err := s.encode(snap)
	for range maxTries {
		if err != nil {
			return fmt.Errorf("save feature %q: %w", s.name, err)
		}
		var late []byte
		late, err = durable.Swap(s.o.FS, s.Path(), s.was, data, 0o600)
		if late != nil {
			s.keep(late)
		}
		switch {
		case err == nil:
			s.was, s.tried = data, nil
			s.spareCopy(snap.Phase, false)
			return nil
		case !errors.Is(err, durable.ErrChanged):
			s.tried = data
			return fmt.Errorf("save feature %q: %w", s.name, err)
		}
		if err = s.reread(); err == nil {
			data, err = s.encode(snap)
		}
	}
	return fmt.Errorf("save feature %q: somebody writes it all the time: %w", s.name, durable.ErrChanged)
}

// maxTries is how often a file that changes meanwhile is read again.
const maxTries = 4

func (s *Store) encode(snap Snapshot) ([]byte, error) {
	if snap.more == nil {
		snap.more = s.more
	}
	data, err := snap.MarshalJSON() // json.Marshal would look through it all once more
	if err != nil {
		return nil, err
	}
	return s.o.signed(s.name, lines(data)), nil
}

// reread looks at a file that is not as we left it.
func (s *Store) reread() error {
	data, err := durable.ReadFile(s.o.FS, s.Path(), maxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		s.was = nil
		return nil
	}
	if err != nil {
		return err
	}
	if !bytes.Equal(data, s.tried) {
		s.keep(data)
		if snap, err := parse(data); err == nil && snap.more != nil {
			s.more = snap.more
		}
	}
	s.was = data
	return nil
}

// keep puts what somebody else wrote aside.
func (s *Store) keep(data []byte) {
	dir := filepath.Join(s.o.StateDir, "quarantine")
	to := filepath.Join(dir, fmt.Sprintf("%s.%s.json", s.name, s.o.Now().UTC().Format("20060102T150405.000000000")))
	err := durable.MkdirAll(s.o.FS, dir, 0o700)
	if err == nil {
		err = durable.Replace(s.o.FS, to, data, 0o600)
	}
	if err != nil {
		s.o.Warn(fmt.Sprintf("%s was edited while it runs, and the edit could not be kept: %v", s.Path(), err))
		return
	}
	s.o.Warn(fmt.Sprintf("%s was edited while it runs: the run's own state counts, the edit is in %s", s.Path(), to))
}

// spareCopy keeps a good copy at each phase and at the end: the one to fall back
// on when the file breaks. It only helps: what fails is told.
func (s *Store) spareCopy(phase string, end bool) {
	if s.was == nil || s.spared == phase && !end {
		return
	}
	to := s.o.spare(s.name)
	err := durable.MkdirAll(s.o.FS, filepath.Dir(to), 0o700)
	if err == nil {
		err = durable.Replace(s.o.FS, to, s.was, 0o600)
	}
	if err != nil {
		s.o.Warn("the copy of the snapshot: " + err.Error())
		return
	}
	s.spared = phase
}

// Close gives the lock back. A second Close does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.spareCopy("", true)
	return s.lock.release()
}

// Listed is a feature as it reads now.
type Listed struct {
	Snapshot
	// Name is that of the file.
	Name string
	// Live says that a process runs it.
	Live bool
	// Err says why the snapshot could not be read, or that it is not ours.
	Err error
}

// Load reads the snapshot of a feature without holding it: one that says running
// and has no process reads interrupted. None gives an error that matches
// fs.ErrNotExist, one that is not ours ErrForeign.
func Load(o Options, name string) (Listed, error) {
	o = o.withDefaults()
	if clean, err := Name(name); err != nil || clean != name {
		return Listed{Name: name}, fmt.Errorf("read feature %q: %w", name, fs.ErrNotExist)
	}
	snap, _, err := load(o, name)
	l := Listed{Snapshot: snap, Name: name, Err: err}
	if err != nil {
		return l, err
	}
	if l.Live = held(o, name); !l.Live {
		l.Snapshot = snap.Cut()
	}
	return l, nil
}

// List returns the features of a project, the one that was changed last first.
// Files that are no snapshot of ours have an Err, and come last.
func List(o Options) ([]Listed, error) {
	o = o.withDefaults()
	d, err := o.FS.Open(o.dir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &durable.Error{Op: "list", Path: o.dir(), Err: err}
	}
	names, err := d.Readdirnames(-1)
	if err = errors.Join(err, d.Close()); err != nil {
		return nil, &durable.Error{Op: "list", Path: o.dir(), Err: err}
	}
	slices.Sort(names)
	var list []Listed
	for _, file := range names {
		name, ok := strings.CutSuffix(file, ".json")
		if !ok || strings.HasPrefix(name, ".") {
			continue
		}
		l, err := Load(o, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // gone meanwhile, or no name of a feature
		}
		l.Err = err
		list = append(list, l)
	}
	slices.SortStableFunc(list, func(a, b Listed) int { return b.UpdatedAt.Compare(a.UpdatedAt) })
	return list, nil
}
