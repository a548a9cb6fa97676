// Package memory owns what Ralph knows of a project: five Markdown files in
// its root, which people may edit at any time, and `.ralph/`, which says what
// happened.
//
// A Store reads a file again before each change, changes only the lines that
// it is about, and replaces the file durably; what cannot be written is held
// and said to be. The package calls no model, starts no process, and writes
// outside the project's root only git's info/exclude and its own lock. Nothing
// is scanned when a Store is opened.
//
//	s, recovery, err := memory.Open(ctx, memory.Options{Root: root, Holder: "chat"})
//	…
//	defer s.Close()
//	task, err := s.AddTask(memory.Task{Title: "Retry the upload on 503"})
package memory

import (
	"context"
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
	"ralph/memory/markdown"
	"ralph/memory/visible"
)

// The five files in a project's root.
const (
	GoalsFile    = "RALPH_GOALS.md"
	TasksFile    = "RALPH_TASKS.md"
	TodoFile     = "RALPH_TODO.md"
	ProgressFile = "RALPH_PROGRESS.md"
	AgentFile    = "AGENT.md"
)

// maxStateBytes bounds a state file that is read whole.
const maxStateBytes = 32 << 20

// Options says which project to open and how.
type Options struct {
	// FS holds the project; nil means the real disk. Only there is a lock taken.
	FS afero.Fs
	// Root is the project's root, absolute.
	Root string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Holder says what kind of Ralph this is: "chat", "one-shot", "run".
	Holder string
	// SessionID is told to whoever finds the project locked; may be empty.
	SessionID string
	// LockWait is how long to wait for another holder; 0 does not wait.
	LockWait time.Duration
	// ReadOnly takes no lock and writes nothing: what is recorded is held.
	ReadOnly bool
	// Redact takes secrets out of every text before it is kept; nil keeps all.
	Redact func(string) string
}

// Store is an open project. It is safe for concurrent use; whoever opens it
// closes it.
type Store struct {
	fs       afero.Fs
	root     string
	now      func() time.Time
	redact   func(string) string // takes secrets out
	words    func(string) string // redact, and controls made visible: for what people read
	readOnly bool                // from Open on: nothing is written
	lock     *projectLock

	mu      sync.Mutex
	changed map[string]bool
	held    map[string][]change // by file, oldest first
	runs    [][]byte            // records of runs.jsonl that are not written yet
	runLog  *durable.Log        // opened with the first record
}

// change is one edit of a Markdown file; it may run again on newer content.
type change func(*markdown.Document) error

// Recovery says what Open found that the user should know.
type Recovery struct {
	// Warnings are whole sentences.
	Warnings []string
	// Crashed is the last holder when it ended without closing the project.
	Crashed *Holder
	// ReadOnly says that nothing can be saved: what is recorded is held in
	// memory and lost when Ralph ends.
	ReadOnly bool
}

// Open takes the project's lock and returns its Store. It reads no state file
// and makes `.ralph/` when there is none.
//
// A live holder gives a *LockedError. A project that cannot be written, or a
// filesystem without locks, is no error: the Recovery says what is missing.
func Open(ctx context.Context, o Options) (*Store, Recovery, error) {
	var rec Recovery
	s := &Store{fs: o.FS, root: o.Root, now: o.Now, redact: o.Redact, changed: map[string]bool{}, held: map[string][]change{}}
	if s.fs == nil {
		s.fs = afero.NewOsFs()
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.redact == nil {
		s.redact = func(t string) string { return t }
	}
	s.words = func(t string) string { return visible.Text(s.redact(t)) }
	if !filepath.IsAbs(o.Root) {
		return nil, rec, fmt.Errorf("open project %q: the path is not absolute", o.Root)
	}
	if info, err := s.fs.Stat(o.Root); err != nil || !info.IsDir() {
		if err == nil {
			err = errors.New("not a directory")
		}
		return nil, rec, fmt.Errorf("open project %q: %w", o.Root, unpath(err))
	}
	if s.readOnly = o.ReadOnly; s.readOnly {
		rec.ReadOnly = true
		return s, rec, nil
	}
	git := findGit(s.fs, s.root)
	if err := s.prepare(git, &rec); err != nil {
		s.readOnly, rec.ReadOnly = true, true
		rec.Warnings = append(rec.Warnings, fmt.Sprintf("nothing can be saved in this project: %v; what is recorded is held in memory", err))
	}
	lock, err := takeLock(ctx, s, o, git, &rec)
	if err != nil {
		return nil, rec, err
	}
	s.lock = lock
	if lock != nil && rec.Crashed != nil && !s.readOnly {
		s.sweep(&rec)
	}
	return s, rec, nil
}

// sweep removes the temporary files of a holder that was killed; the lock is
// ours.
func (s *Store) sweep(rec *Recovery) {
	err := errors.Join(durable.Sweep(s.fs, s.root, GoalsFile, TasksFile, TodoFile, ProgressFile, AgentFile),
		durable.Sweep(s.fs, s.StateDir()), durable.Sweep(s.fs, s.Quarantine()))
	if err != nil {
		rec.Warnings = append(rec.Warnings, "temporary files of the last Ralph stay behind: "+err.Error())
	}
}

func unpath(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// StateDir returns the absolute path of `.ralph/`.
func (s *Store) StateDir() string { return filepath.Join(s.root, ".ralph") }

// Quarantine returns the absolute path of the directory for torn tails and
// corrupt files; it is made when something goes there.
func (s *Store) Quarantine() string { return filepath.Join(s.StateDir(), "quarantine") }

// ReadOnly reports whether the project could not be opened for writing.
func (s *Store) ReadOnly() bool { return s.readOnly }

// Changed returns the state files written since Open, relative to the root,
// sorted.
func (s *Store) Changed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, 0, len(s.changed))
	for name := range s.changed {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Held returns the files, relative to the root, for which something is
// recorded but not saved, sorted. Faces show them as "held, not saved".
func (s *Store) Held() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name := range s.held {
		names = append(names, name)
	}
	if len(s.runs) > 0 {
		names = append(names, runsFile)
	}
	slices.Sort(names)
	return names
}

// Flush tries again to write what is held. It does nothing in a read-only
// Store.
func (s *Store) Flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flush()
}

func (s *Store) flush() error {
	if s.readOnly {
		return nil
	}
	var errs []error
	for name := range s.held {
		errs = append(errs, s.apply(name, nil))
	}
	return errors.Join(append(errs, s.flushRuns())...)
}

// Close tries to write what is held and gives the lock back. The Store must
// not be used afterwards; a second Close does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.flush()
	if s.runLog != nil {
		err = errors.Join(err, s.runLog.Close())
		s.runLog = nil
	}
	lock := s.lock
	s.lock = nil
	return errors.Join(err, lock.release())
}

// document returns a state file as it is on disk, with what is held applied;
// header is the content of one that does not exist yet.
func (s *Store) document(name string) (*markdown.Document, error) {
	data, err := s.read(name)
	if err != nil {
		return nil, err
	}
	return s.replay(name, data), nil
}

// read returns a state file's content; nil when there is none.
func (s *Store) read(name string) ([]byte, error) {
	data, err := durable.ReadFile(s.fs, filepath.Join(s.root, name), maxStateBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err == nil && data == nil:
		data = []byte{}
	}
	return data, err
}

// replay applies what is held to a file's content.
func (s *Store) replay(name string, data []byte) *markdown.Document {
	if data == nil {
		data = []byte(header(name))
	}
	d := markdown.Parse(data)
	for _, c := range s.held[name] {
		// What does not apply any more was overtaken by the user's edit.
		_ = c(d)
	}
	return d
}

func header(name string) string {
	switch name {
	case GoalsFile:
		return "# Goals\n\nWhat this project is after. Edit it at any time; Ralph reads it before each task.\n"
	case TasksFile:
		return "# Tasks\n\nWhat Ralph works on. Edit it at any time; Ralph picks your changes up and keeps your words.\n"
	case TodoFile:
		return "# Todo\n\nWhat comes next but is no task yet. Edit it at any time.\n"
	case ProgressFile:
		return "# Progress\n\nWhat was done, newest first.\n"
	case AgentFile:
		return "# Agent notes\n\nWhat was learned about this project. Edit or remove anything that is wrong.\n"
	}
	return ""
}

// update makes a change to a state file.
func (s *Store) update(name string, c change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.apply(name, c)
}

// maxMerges bounds how often a change is merged anew into a file that somebody
// else writes all the time.
const maxMerges = 8

// apply reads the file again, applies what is held and then c, and writes it.
// An error of c changes nothing. When the file cannot be written, c is held:
// in a read-only Store that is no error. What the user writes meanwhile is
// merged.
func (s *Store) apply(name string, c change) error {
	disk, err := s.read(name)
	if err != nil {
		return err
	}
	d := s.replay(name, disk)
	if c != nil {
		if err := c(d); err != nil {
			return err
		}
		s.held[name] = append(s.held[name], c)
	}
	if s.readOnly {
		return nil
	}
	path := filepath.Join(s.root, name)
	for range maxMerges {
		if disk != nil && d.String() == string(disk) {
			delete(s.held, name)
			return nil
		}
		written := d.Bytes()
		late, err := durable.Swap(s.fs, path, disk, written, 0o644)
		switch {
		case errors.Is(err, durable.ErrChanged):
			if disk, err = s.read(name); err != nil {
				return err
			}
			d = s.replay(name, disk)
		case err != nil:
			return err
		default:
			s.changed[name] = true
			if late == nil {
				delete(s.held, name)
				return nil
			}
			disk, d = written, s.replay(name, late)
		}
	}
	return fmt.Errorf("replace %q: %w, again and again", path, durable.ErrChanged)
}

// clip bounds a text to n bytes, at a rune's border.
func clip(text string, n int) string {
	text = strings.TrimSpace(text)
	if len(text) <= n {
		return text
	}
	return strings.TrimSpace(strings.ToValidUTF8(text[:n], "")) + " …"
}
