package coordinator

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"ralph/coordinator/ownership"
	"ralph/coordinator/recovery"
	"ralph/memory"
	"ralph/memory/durable"
	"ralph/memory/feature"
	"ralph/memory/identity"
	"ralph/memory/markdown"
	"ralph/memory/session"
	"ralph/memory/text"
	"ralph/workers/accesspolicy"
	"ralph/workers/git"
)

const (
	// maxNamed bounds how many things of a kind are named in a line.
	maxNamed = 3
	// afterForce is how long the lock of a holder that is gone is waited for.
	afterForce = 3 * time.Second
)

// crashed says that an earlier Ralph was cut off: its note in the lock was left,
// its session or run has no end, or all that could tell is gone.
func (b *book) crashed(found memory.Recovery) bool {
	s := b.c.opt.Recovery
	return found.Crashed != nil || s != nil && (s.Cut() || s.Verdict == recovery.FreshState)
}

// takeOver marks the tasks of a Ralph that died as interrupted, when work is
// taken up again: nobody works on them any more. A plain one-shot takes nothing
// up and leaves them. mu is held, and the project's lock.
func (b *book) takeOver(found memory.Recovery, tasks []memory.Task) error {
	if b.c.opt.Session == "" || found.ReadOnly || !b.crashed(found) {
		return nil
	}
	var errs []error
	for _, t := range tasks {
		if t.Status != markdown.InProgress {
			continue
		}
		if _, err := b.store.SetTask(t.ID, memory.TaskEdit{Status: markdown.Interrupted}); !errors.Is(err, markdown.ErrNoTask) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// tidy puts in order what a Ralph that was killed left in git: stale locks of
// our own commands, and turns without a checkpoint after them, which get one, so
// that they can be undone. The project's lock is held and nothing works yet.
func (c *Coordinator) tidy(ctx context.Context) {
	if c.opt.Getenv != nil {
		c.byHand.Go(func() { _ = accesspolicy.SweepTemp(c.opt.Getenv) }) // what stays is looked at by the next start
	}
	if c.book.locked() {
		for _, text := range c.station.cage.Recover(ctx) {
			c.warn(text)
		}
		c.changes.adopt(ctx)
		c.changes.compact(c.closing, c.now())
	}
	if !c.book.mustTidy() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkpointTime)
	defer cancel()
	s := c.opt.Recovery
	for _, text := range c.changes.mend(ctx, s != nil && cutRun(c.features(), s.Session)) {
		c.warn(text)
	}
	if s != nil && s.Session != "" && s.Session == c.SessionID() {
		c.book.keepChanges(c.changes.lateTrace())
	}
}

// lateTrace makes the records of what the turn changed that was cut off.
func (c *changes) lateTrace() []session.Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	return traceOf(c.made, 0, c.cutOff, nil)
}

// locked reports whether this Ralph may change the project.
func (b *book) locked() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.store != nil && !b.readOnly
}

func (b *book) mustTidy() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.store != nil && !b.readOnly && b.untidy
}

// cutRun says that a session was working through a plan when it was cut off.
func cutRun(o feature.Options, session string) bool {
	list, err := feature.List(o)
	return err == nil && slices.ContainsFunc(list, func(l feature.Listed) bool {
		return l.Err == nil && session != "" && l.SessionID == session && l.Snapshot.Status.Resumable()
	})
}

// mend sweeps stale locks and pairs lone checkpoints; it says what it did. Of a
// run it does not tell what changed since it began: those are its merged tasks
// too, and nothing to take back.
func (c *changes) mend(ctx context.Context, run bool) (told []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if tooWide(c.root) != "" {
		return nil
	}
	removed, err := c.points.SweepLocks()
	if err != nil {
		told = append(told, "stale locks of git stay behind: "+err.Error())
	}
	if removed = append(removed, c.writes.removeLocks()...); len(removed) > 0 {
		told = append(told, "removed "+text.Count(len(removed), "stale lock")+" of git commands that were killed with the last Ralph")
	}
	list, err := c.points.List(ctx)
	var content string
	if before, ok := git.CutTurn(list); err == nil && ok {
		content, err = c.pair(ctx, before)
	}
	switch {
	case err != nil:
		told = append(told, "a turn that was cut off cannot be undone: "+err.Error())
	case content != "" && !run:
		told = append(told, content)
	}
	return told
}

// taken says what is gone on with, and how to begin anew.
func (c *Coordinator) taken(s recovery.Report) []string {
	lines := s.Lines(c.now())
	for i, line := range lines {
		if line == s.GitLine() || line == s.LeftLine() {
			lines[i] = "aside: " + line
		}
	}
	id := c.SessionID()
	switch n := len(c.History()); {
	case id == "":
	case id == s.Session:
		lines = append(lines, fmt.Sprintf("session %s goes on after %s; ralph chat --new, or /clear, begins anew", id, text.Count(n, "message")))
	case s.Session != "" && s.Resumable():
		lines = append(lines, fmt.Sprintf("session %s is new; to go on with the other: ralph resume %s", id, s.Session))
	default:
		lines = append(lines, fmt.Sprintf("session %s is new", id))
	}
	return lines
}

// openStore opens the store, with Force after the end of who holds it; mu is
// held.
func (b *book) openStore(ctx context.Context, o memory.Options) (*memory.Store, memory.Recovery, error) {
	if b.c.opt.Force {
		o.LockWait = 0
	}
	store, found, err := memory.Open(ctx, o)
	var locked *memory.LockedError
	if !b.c.opt.Force || !errors.As(err, &locked) {
		return store, found, err
	}
	b.note("the Ralph that held the project was asked to end (" + locked.Holder.String() + ")")
	if err := recovery.EndHolder(ctx, locked); err != nil {
		return nil, found, err
	}
	o.LockWait = afterForce
	return memory.Open(ctx, o)
}

// Recover puts the state of a project in order: files that are lost or corrupt
// come back from the newest valid of file, backup, log and git, and what a crash
// left is swept and paired. from names a kind of source ("file", "backup",
// "log", "git") that is put in place of the named files instead, or of those
// that are not well; what stood there goes to the quarantine. It returns how the
// files stand after it, and in sentences what was done. With Config.DryRun it
// only looks. Another Ralph in the project gives an error that matches
// memory.ErrLocked; what could not be done is in the error too.
func Recover(ctx context.Context, o Options, names []string, from string) (files []memory.FileState, told []string, err error) {
	if o.FS == nil {
		o.FS = durable.Disk()
	}
	r := newRecovering(ctx, o)
	before, err := memory.Inspect(ctx, r.memory)
	if err != nil || o.Config.DryRun {
		return before, nil, err
	}
	s, err := recovery.Assess(ctx, recovery.Options{Project: o.owned(), Session: o.Session, Proc: o.Proc, Now: o.Now})
	if err != nil {
		return before, nil, err
	}
	store, found, err := memory.Open(ctx, r.memory)
	if err != nil {
		return before, nil, err
	}
	told = found.Warnings
	var errs []error
	for i, f := range before {
		if from == "" || len(names) == 0 && well(f) || len(names) > 0 && !slices.Contains(names, f.Name) {
			continue
		}
		text, err := putFrom(store, f, from)
		if errs = append(errs, err); err == nil {
			before[i].Restored = from
			told = append(told, text)
		}
	}
	if !found.ReadOnly {
		if found.Crashed != nil || s.Cut() || len(s.Locks) > 0 || len(s.Turns) > 0 {
			told = append(told, r.changes.mend(ctx, cutRun(feature.Options{FS: r.o.FS, StateDir: store.StateDir(), Key: store.Key(), Now: r.o.Now}, s.Session))...)
		}
		text, err := r.endSessions(store, s, found.Crashed != nil)
		told, errs = append(told, text...), append(errs, err)
	}
	errs = append(errs, store.Close())
	after, err := memory.Inspect(ctx, r.memory)
	errs = append(errs, err)
	if len(after) == 0 {
		after = before
	}
	return reported(after, before, found.Files), told, errors.Join(errs...)
}

// recovering is what Recover works with.
type recovering struct {
	o       Options
	memory  memory.Options
	changes *changes
}

func newRecovering(ctx context.Context, o Options) recovering {
	r := recovering{o: o, memory: memory.Options{FS: o.FS, Root: o.Root, Now: o.Now, Holder: o.Holder, SessionID: o.RunID, LockWait: ownership.LockWait, Owner: o.owned().Owner()}}
	loc, err := git.Find(o.Root)
	var at *git.Location
	if err == nil {
		at = &loc
		repo := git.Open(o.Proc, loc)
		r.memory.Git = func(name string) ([]byte, error) {
			rel, err := filepath.Rel(loc.Root, filepath.Join(o.Root, name))
			if err != nil {
				return nil, err
			}
			return repo.Content(ctx, "HEAD", filepath.ToSlash(rel))
		}
	}
	r.changes = &changes{points: o.openCheckpoints(o.Proc, at), root: o.Root, warn: func(string) {}, writes: newWriteLog(o.Root, identity.CheckpointDir(o.owned().Home(), o.Root))}
	return r
}

// well says that nothing is wrong with a state file.
func well(f memory.FileState) bool { return f.State == "ok" || f.State == "absent" }

// putFrom puts the newest source of a kind in the place of a file.
func putFrom(store *memory.Store, f memory.FileState, from string) (string, error) {
	i := slices.IndexFunc(f.Sources, func(s memory.Source) bool { return s.Kind == from })
	if i < 0 {
		return "", fmt.Errorf("recover %q: there is nothing of it in %s", f.Name, from)
	}
	if from == "file" {
		return f.Name + " stays as it is", nil
	}
	moved, err := store.Restore(f.Name, f.Sources[i])
	if err != nil {
		return "", fmt.Errorf("recover %q from %s: %w", f.Name, from, err)
	}
	text := fmt.Sprintf("%s is now as in %s", f.Name, from)
	if at := f.Sources[i].Time; !at.IsZero() {
		text += at.UTC().Format(" (2006-01-02 15:04:05 UTC)")
	}
	if moved != "" {
		text += "; what stood there is in " + moved
	}
	return text, nil
}

// endSessions marks the sessions that were cut off, and what they were working
// on, as interrupted.
func (r recovering) endSessions(store *memory.Store, s recovery.Report, crashed bool) (told []string, err error) {
	ended, err := recovery.EndSessions(session.Options{FS: r.o.FS, StateDir: store.StateDir(), Now: r.o.Now, Key: store.Key()}, "", &s)
	if !crashed && !s.Cut() && s.Verdict != recovery.FreshState && len(ended) == 0 {
		return nil, err
	}
	errs := []error{err}
	tasks, err := store.Interrupted()
	errs = append(errs, err)
	for _, t := range tasks {
		if t.Status == markdown.InProgress {
			_, err := store.SetTask(t.ID, memory.TaskEdit{Status: markdown.Interrupted})
			errs = append(errs, err)
			told = append(told, "task "+t.ID+" is interrupted now")
		}
	}
	return append(told, ended...), errors.Join(errs...)
}

// reported tells of the files as they stand what became of them.
func reported(after, before, opened []memory.FileState) []memory.FileState {
	for i, f := range after {
		for _, was := range slices.Concat(opened, before) {
			if was.Name != f.Name {
				continue
			}
			if after[i].Restored == "" {
				after[i].Restored = was.Restored
			}
			if after[i].Quarantined == "" {
				after[i].Quarantined = was.Quarantined
			}
		}
	}
	return after
}

// endCutOff notes in the sessions that were cut off and do not go on that they
// were interrupted. mu is held, and the project's lock.
func (b *book) endCutOff(o session.Options) error {
	if !b.untidy {
		return nil
	}
	_, err := recovery.EndSessions(o, b.session.ID(), b.c.opt.Recovery)
	return err
}
