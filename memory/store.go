// Package memory owns what Ralph knows of a project: five Markdown files in
// its root, which people may edit at any time, and `.ralph/`, which says what
// happened.
//
// A Store keeps three things of each file: the text on disk, the document in
// memory, and a log of the changes (`.ralph/changes.jsonl`). What holds:
//
//   - A change is acknowledged (its call returns nil) when it is in the log, or
//     in the Markdown file, and synced. The file follows at once, in a burst
//     once for many changes; Flush and Close wait for it. What is in neither is
//     kept in memory, tried again, and named by Held.
//   - Nothing that somebody else wrote is overwritten unseen. A file is compared
//     byte for byte with what was last read or written, at the moment it is
//     replaced and for a while after; what differs is merged task by task, and
//     the user's words win. No time stamp decides that.
//   - A file that vanished, or became empty or no text, and stays so, was lost, not
//     edited: what stands there is moved to `.ralph/quarantine/`, the newest of log,
//     backups and git is put in its place, and the user is told.
//   - Without the project's lock, or where nothing can be made, nothing is
//     written: everything is held.
//   - RALPH_PROGRESS.md is written before RALPH_TASKS.md, both before the rest,
//     the log before all. Open does again what the log has and the files lack.
//     That writes nothing but the files, so that a crash in it ends the same.
//   - While the disk syncs the log or a file, what is in memory can be read and
//     changed; what is recorded meanwhile shares the next sync.
//   - Every text is redacted before it is logged.
//   - `.ralph/` may be deleted at any time: the files stand alone, and the log
//     and the backups are begun anew.
//
// What a person asks for is in notes.go; changes as data in change.go, their log
// in log.go, what it says in recall.go; one file and its user in file.go, late.go
// and watch.go; writing in save.go and saved.go; opening and putting right in
// survey.go and recovery.go; the directory in layout.go, its lock in lock.go.
//
// The package calls no model, starts no process, and writes outside the
// project's root only git's info/exclude and its own lock. Opening a project
// whose files are as Ralph left them reads none of them.
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
	"sync/atomic"
	"time"

	"github.com/spf13/afero"

	"ralph/memory/durable"
	"ralph/memory/identity"
	"ralph/memory/session"
	"ralph/memory/text"
)

// The five files in a project's root.
const (
	GoalsFile    = "RALPH_GOALS.md"
	TasksFile    = "RALPH_TASKS.md"
	TodoFile     = "RALPH_TODO.md"
	ProgressFile = "RALPH_PROGRESS.md"
	AgentFile    = "AGENT.md"
)

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
	// Tag is noted as Holder.Tag; may be empty.
	Tag string
	// LockWait is how long to wait for another holder; 0 does not wait.
	LockWait time.Duration
	// ReadOnly takes no lock and writes nothing: what is recorded is held.
	ReadOnly bool
	// Owner is the user who works; nil: the caller answers for what is in
	// `.ralph/`.
	Owner *Owner
	// Redact takes secrets out of every text before it is kept; nil keeps all.
	Redact func(string) string
	// Git returns the content of one of the five files as it was committed
	// last, nil when there is none; nil: there is no git. It is asked only for
	// a file that was lost and that nothing else has.
	Git func(name string) ([]byte, error)
	// OnEdit is called, from a goroutine of the Store, when Edits has something
	// new. It must not block and must not call the Store.
	OnEdit func()

	byHand bool // tests: nothing is written but by Flush and Close, and no program writes in steps
}

// Store is an open project. It is safe for concurrent use; whoever opens it
// closes it.
type Store struct {
	fs       afero.Fs
	root     string
	now      func() time.Time
	redact   func(string) string // takes secrets out
	words    func(string) string // redact, and controls made visible: for what people read
	git      func(string) ([]byte, error)
	onEdit   func()
	byHand   bool
	settle   time.Duration // settleTime
	loss     time.Duration // lossTime
	readOnly bool          // from Open on: nothing is written
	lock     *projectLock
	repo     gitDirs
	key      identity.Key // see Key
	userHome string       // Owner.Home, when mine is the record of the project
	mine     identity.Record

	copied  atomic.Bool   // a backup was written
	writing chan struct{} // held, by a send, by whoever writes state files
	kick    chan struct{} // there is something to write
	stop    chan struct{}
	done    chan struct{} // closed when the goroutine has ended

	mu       sync.Mutex
	files    map[string]*file
	log      *session.Journal // of changes; opened with the first
	logAt    stamp            // of the log's file, to see that it is still there
	logBytes int64            // its size, about
	kept     int64            // its size when it was last cut
	n        int64            // the last change
	unlogged []entry          // recorded, but not in the log
	logging  bool             // somebody works on a log's file, without mu
	idle     sync.Cond        // on mu: nobody does any more
	stale    bool             // the note of what is saved is not right any more
	changed  map[string]bool
	runs     [][]byte     // records of runs.jsonl that are not written yet
	runLog   *durable.Log // opened with the first record
	pickups  []Pickup
	told     bool // OnEdit was called for the pickups
	olds     []old
	running  bool // the goroutine
	watching bool
	closed   bool
	fenced   error // why nothing may be written any more
}

// Recovery says what Open found that the user should know.
type Recovery struct {
	// Warnings are whole sentences.
	Warnings []string
	// Crashed is the last holder when it ended without closing the project.
	Crashed *Holder
	// ReadOnly says that nothing can be saved: what is recorded is held in
	// memory and lost when Ralph ends.
	ReadOnly bool
	// SetAside and Adopted name what of `.ralph/` was somebody else's: what went to
	// the quarantine, and what was taken over as text.
	SetAside, Adopted []string
	// Unknown says that the user's own state directory cannot be used: nothing that
	// is written now will count as the user's own later.
	Unknown bool
	// Files says how each of the five files was found, and what became of those
	// that were lost. Sources are listed only for those.
	Files []FileState
}

// Open takes the project's lock and returns its Store. It makes `.ralph/` when
// there is none, does again what the log has and the files lack, and puts lost
// files back.
//
// A live holder gives a *LockedError. A project that cannot be written, or a
// filesystem without locks, is no error: the Recovery says what is missing.
func Open(ctx context.Context, o Options) (*Store, Recovery, error) {
	var rec Recovery
	s, err := newStore(o)
	if err != nil {
		return nil, rec, err
	}
	if s.readOnly = o.ReadOnly; s.readOnly {
		rec.ReadOnly = true
		s.survey(&rec)
		return s, rec, nil
	}
	s.repo = findGit(s.fs, s.root)
	home := s.makeHome()
	if home != nil {
		rec.Warnings = append(rec.Warnings, unsaved(home))
	}
	if s.lock, err = takeLock(ctx, s, o, home == nil, &rec); err != nil {
		return nil, rec, err
	}
	s.readOnly = home != nil || s.lock == nil && s.real()
	if !s.readOnly {
		if err := s.identify(o, &rec); err != nil {
			s.readOnly = true
			rec.Warnings = append(rec.Warnings, unsaved(err))
		}
	}
	if err := unlinked(s.fs, s.StateDir()); err != nil && !s.readOnly {
		s.readOnly = true
		rec.Warnings = append(rec.Warnings, unsaved(err))
	}
	rec.ReadOnly = s.readOnly
	if s.lock != nil && rec.Crashed != nil && !s.readOnly {
		s.sweep(&rec)
	}
	s.survey(&rec)
	s.lowSpace(&rec)
	return s, rec, nil
}

func unsaved(err error) string {
	return fmt.Sprintf("nothing can be saved in this project: %v; what is recorded is held in memory", err)
}

// newStore checks the options and makes a Store that has looked at nothing.
func newStore(o Options) (*Store, error) {
	s := &Store{fs: o.FS, root: o.Root, now: o.Now, redact: o.Redact, git: o.Git, onEdit: o.OnEdit, byHand: o.byHand,
		writing: make(chan struct{}, 1), kick: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		changed: map[string]bool{}, files: map[string]*file{}}
	s.idle.L = &s.mu
	if s.settle, s.loss = settleTime, lossTime; s.byHand {
		s.settle, s.loss = time.Microsecond, time.Microsecond
	}
	if s.fs == nil {
		s.fs = durable.Disk()
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.redact == nil {
		s.redact = func(t string) string { return t }
	}
	s.words = func(t string) string { return text.Visible(s.redact(t)) }
	if !filepath.IsAbs(o.Root) {
		return nil, fmt.Errorf("open project %q: the path is not absolute", o.Root)
	}
	if info, err := s.fs.Stat(o.Root); err != nil || !info.IsDir() {
		if err == nil {
			err = errors.New("not a directory")
		}
		return nil, fmt.Errorf("open project %q: %w", o.Root, unpath(err))
	}
	for _, name := range order() {
		s.files[name] = &file{name: name, path: filepath.Join(s.root, name)}
	}
	return s, nil
}

// real says that the project is on the real disk.
func (s *Store) real() bool {
	return durable.OnDisk(s.fs)
}

// sweep removes the temporary files of a holder that was killed; the lock is
// ours.
func (s *Store) sweep(rec *Recovery) {
	err := errors.Join(durable.Sweep(s.fs, s.root, order()...),
		durable.Sweep(s.fs, s.StateDir()), durable.Sweep(s.fs, s.Quarantine()), durable.Sweep(s.fs, s.backupDir()))
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

// Changed returns the state files changed since Open, relative to the root,
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
// recorded but saved nowhere, or only in the log because a link stands in the
// file's place; sorted. Faces show them as "held, not saved".
func (s *Store) Held() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, e := range s.unlogged {
		if e.op != nil {
			names = append(names, e.op.File)
		}
	}
	for name, f := range s.files {
		if f.broken != nil && f.broken.kind == sightRefused && f.dirty() {
			names = append(names, name)
		}
	}
	if len(s.runs) > 0 {
		names = append(names, runsFile)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// flushWait bounds how long Flush waits for somebody else who is writing a
// state file; a file that was lost is put back by then.
const flushWait = lossTime + time.Second

// Flush returns when all that is recorded is in the state files, or says why
// not: it tries what is held again. It does nothing in a read-only Store.
func (s *Store) Flush() error {
	if s.readOnly {
		return nil
	}
	deadline := time.Now().Add(flushWait)
	for {
		again, err := s.save()
		s.mu.Lock()
		rerr := s.flushRuns()
		s.mu.Unlock()
		if again <= 0 || time.Now().After(deadline) {
			return errors.Join(err, rerr)
		}
		time.Sleep(again)
	}
}

// Close writes what is recorded and gives the lock back. An error says what is
// in the log only, and will be written when the project is opened again, or
// held and lost. The Store must not be used afterwards; a second Close does
// nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	running := s.running
	s.mu.Unlock()
	close(s.stop)
	if running {
		<-s.done
	}
	err := s.Flush()
	if s.lookBack(true) {
		err = errors.Join(err, s.Flush())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awaitLog()
	if !s.readOnly && s.fenced == nil && s.copied.Load() {
		for _, name := range order() {
			_ = s.dropBackups(name, maxBackups) // the next Close tries again
		}
	}
	if s.runLog != nil {
		err = errors.Join(err, s.runLog.Close())
		s.runLog = nil
	}
	if s.log != nil {
		err = errors.Join(err, s.log.Close())
		s.log = nil
	}
	if s.fenced == nil {
		s.fenced = errClosed
	}
	lock := s.lock
	s.lock = nil
	return errors.Join(err, lock.release())
}

// errClosed is why nothing is written any more.
var errClosed = errors.New("the project's state is closed")

func header(name string) string {
	switch name {
	case GoalsFile:
		return "# Goals\n\nWhat this project is after. Edit it at any time; Ralph reads it before each task.\n"
	case TasksFile:
		return "# Tasks\n\nWhat Ralph works on. Edit it at any time; Ralph picks your changes up and keeps your words.\n\n" +
			"A task is a line like `- [ ] **T-N** Retry the upload`. Below it `  - after: T-M` makes it wait for another, `  - check: make test` proves it, and boxes are its criteria.\n"
	case TodoFile:
		return "# Todo\n\nWhat comes next but is no task yet. Edit it at any time.\n"
	case ProgressFile:
		return "# Progress\n\nWhat was done, newest first.\n"
	case AgentFile:
		return "# Agent notes\n\nWhat was learned about this project. Edit or remove anything that is wrong.\n"
	}
	return ""
}

// clip bounds a text to n bytes, at a rune's border.
func clip(text string, n int) string {
	text = strings.TrimSpace(text)
	if len(text) <= n {
		return text
	}
	return strings.TrimSpace(strings.ToValidUTF8(text[:n], "")) + " …"
}
