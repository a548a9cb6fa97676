package coordinator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ralph/coordinator/ownership"
	"ralph/coordinator/result"
	"ralph/coordinator/sessions"
	"ralph/coordinator/transcript"
	"ralph/memory"
	"ralph/memory/markdown"
	"ralph/memory/registry"
	"ralph/memory/session"
	"ralph/workers/agent"
	"ralph/workers/exec/supervise"
)

// book is the coordinator's hand on the state: it opens the store when there is
// something to keep, writes the journal, and turns what the tools report into
// the Markdown files.
//
// A one-shot in a project without `.ralph/` opens it with the model's first
// answer, so that a run that never got one leaves no trace.
type book struct {
	c *Coordinator

	named   atomic.Pointer[string]           // the id of the session, once there is one
	counted atomic.Pointer[result.TaskCount] // the tasks, as they were counted last

	// mu guards what follows. The emitter calls keepEvent with its own mutex
	// held, so nothing may be emitted while mu is held: see leave.
	mu       sync.Mutex
	store    *memory.Store
	session  *session.Session // nil for a one-shot without --session
	journal  *session.Journal // of the session, or of the one-shot; nil until it could be opened
	dry      bool             // nothing is kept in this run
	readOnly bool             // nothing can be kept in this project
	unknown  bool             // whose its state is cannot be known: nothing of it is gone on with
	held     bool             // the journal cannot be written, which was said
	slow     bool             // the disk is slow, which was said
	pending  []session.Record // kept back until the next message is written
	working  map[string]bool  // tasks that were begun here and not ended
	how      string           // what Ends was told
	untidy   bool             // the last Ralph was cut off: see tidy
	story    *chronicle       // of the session; nil without one
	run      *registry.Entry  // of the plan that the session works; nil for none
	notices  []string         // warnings to be told when mu is free
	fresh    bool             // the store was opened since mu was taken
}

// leave gives mu back and tells what came up meanwhile: a warning is an event,
// and events come back here to be kept. Whoever may have called note leaves by
// it.
func (b *book) leave() {
	notices, fresh := b.notices, b.fresh
	b.notices, b.fresh = nil, false
	b.mu.Unlock()
	if fresh && b.c.mail != nil { // else Open goes on to it
		b.c.serve()
	}
	for _, n := range notices {
		b.c.warn(n)
	}
}

// note keeps a warning for leave; mu is held.
func (b *book) note(text string) { b.notices = append(b.notices, text) }

func newBook(c *Coordinator) *book { return &book{c: c, working: map[string]bool{}} }

// openEarly opens the store of a project that Ralph already works in, and of
// every chat, so that a second Ralph is turned away before it costs anything.
func (b *book) openEarly(ctx context.Context) error {
	b.mu.Lock()
	defer b.leave()
	if b.dry = b.c.cfg.DryRun; b.dry {
		return nil
	}
	if _, err := b.c.opt.FS.Stat(b.c.stateDir()); err != nil && b.c.opt.Session == "" {
		// A worktree has no state of its own and the lock of its repository.
		if _, taken := memory.Locked(b.c.opt.FS, b.c.opt.Root); !taken {
			return nil
		}
	}
	return b.open(ctx)
}

// open opens the store and the journal; mu is held.
func (b *book) open(ctx context.Context) error {
	if b.store != nil {
		return nil
	}
	o := b.c.opt
	store, found, err := b.openStore(ctx, memory.Options{FS: o.FS, Root: o.Root, Now: o.Now, Holder: o.Holder,
		SessionID: o.RunID, Tag: supervise.Owner(), LockWait: ownership.LockWait, Redact: b.c.redactor.String, Git: b.c.committed, OnEdit: b.c.edits.notice, Owner: o.owned().Owner()})
	if err != nil {
		return err
	}
	b.store, b.untidy = store, b.crashed(found)
	b.fresh = true
	b.notices = append(b.notices, found.Warnings...)
	b.sweep(ctx, found)
	b.tellInterrupted(found)
	b.unknown = found.Unknown
	if b.readOnly = found.ReadOnly; b.readOnly {
		return nil
	}
	if o.Session == "" {
		return nil // its journal is opened with the first record
	}
	if err := b.store.Watch(); err != nil {
		b.note("your edits are picked up a little later: " + err.Error())
	}
	return b.openSession(ctx)
}

// tellInterrupted warns about work that an earlier Ralph left in the middle.
func (b *book) tellInterrupted(found memory.Recovery) {
	tasks, err := b.store.Interrupted()
	if err != nil {
		b.note("state: " + err.Error())
	}
	if err := b.takeOver(found, tasks); err != nil {
		b.note("state: " + err.Error())
	}
	var ids []string
	for _, t := range tasks {
		ids = append(ids, t.ID)
	}
	switch {
	case b.c.opt.Recovery != nil && b.c.opt.Recovery.Verdict != "": // it tells
	case len(ids) > 0:
		b.note(fmt.Sprintf("interrupted earlier and left as it is: %s (%s)", strings.Join(ids, ", "), memory.TasksFile))
	case found.Crashed != nil:
		b.note("the last Ralph here ended without closing the project; nothing was in progress")
	}
}

// openSession opens the session that was asked for and takes up its
// conversation; mu is held.
func (b *book) openSession(ctx context.Context) error {
	o := b.c.opt
	so := session.Options{FS: o.FS, StateDir: b.store.StateDir(), Now: o.Now, Kind: o.Holder, Redact: b.c.redactor.String, Lessons: o.Lessons, Key: b.store.Key(),
		Config: session.RuntimeConfig{MaxIterations: b.c.cfg.Run.MaxIterations, ConfidenceThreshold: b.c.cfg.Run.ConfidenceThreshold,
			HumanIntervention: b.c.cfg.Run.HumanIntervention, LearningRate: b.c.cfg.Run.LearningRate}}
	if o.Holder == "run" {
		so.Kind, so.Dir = cmp.Or(b.c.cfg.Run.Feature, so.Kind), b.c.cfg.Run.SessionDir
	}
	which := o.Session
	switch {
	case !b.unknown || which == "new":
	case which == "last":
		which = "new"
	default:
		return &result.Error{Op: "open session", Path: which, Err: errors.New("your own state directory cannot be used, so that no session can be gone on with"), Status: result.NeedsInput, Hint: "--state-dir DIR names another"}
	}
	s, err := session.Resume(so, which)
	if errors.Is(err, session.ErrNotEmpty) {
		return &result.Error{Op: "open session", Path: so.Dir, Err: session.ErrNotEmpty, Status: result.Usage, Hint: "--session-dir (RALPH_SESSION_DIR) names the directory of one session: name a new or empty one, or leave it out, and sessions are numbered; ralph run --continue goes on with one that was cut off"}
	}
	if err != nil {
		return err
	}
	b.session, b.journal = s, s.Journal()
	id := s.ID()
	b.named.Store(&id)
	if err := b.endCutOff(so); err != nil {
		b.note("the session that was cut off is not marked so: " + err.Error())
	}
	b.story = newChronicle(s, b.c.opt.Root, b.c.now)
	b.story.testCommands = b.c.testCommands
	b.story.opened(o.Holder, o.RunID, b.c.Endpoint().Model, b.c.cfg.Sandbox, int64(b.c.cfg.ContextWindow))
	b.enroll(ctx, registry.Running)
	skipped, err := b.c.loadPast(b.journal)
	if skipped != "" {
		b.note(skipped)
	}
	return err
}

// enroll notes in the registry of all projects how the session stands; it is
// never needed, so what does not work is only said. mu is held.
func (b *book) enroll(ctx context.Context, status registry.Status) {
	if b.c.opt.Getenv == nil {
		return
	}
	r := registry.New(registry.Options{Path: registry.Path(b.c.opt.Getenv), Now: b.c.now, Wait: enrollWait})
	if warning := sessions.Register(ctx, r, b.c.opt.Root, b.session.ID(), os.Getpid(), status, b.run); warning != "" {
		b.note(warning)
	}
}

// enrollWait is how long another Ralph that writes the registry is waited for.
const enrollWait = 500 * time.Millisecond

// sessionID waits for nothing: who asks how things stand is told so also while
// the disk hangs.
func (b *book) sessionID() string {
	if id := b.named.Load(); id != nil {
		return *id
	}
	return ""
}

// runDir is where a run without a session keeps its journal and the outputs of
// its commands.
func (b *book) runDir() string { return filepath.Join(b.c.stateDir(), "runs", b.c.opt.RunID) }

// outputDir is where tools put outputs that are too long to show.
func (b *book) outputDir() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.dry, b.readOnly:
		return ""
	case b.session != nil:
		return filepath.Join(b.session.Dir(), "outputs")
	}
	return filepath.Join(b.runDir(), "outputs")
}

// agentsDir is where the transcripts of agents are kept, "" when nothing is.
func (b *book) agentsDir() string {
	if dir := b.outputDir(); dir != "" {
		return filepath.Join(filepath.Dir(dir), "agents")
	}
	return ""
}

// ready opens the store, for work that begins without a word to the model.
func (b *book) ready(ctx context.Context) error {
	b.mu.Lock()
	defer b.leave()
	if b.dry {
		return nil
	}
	return b.open(ctx)
}

// begin makes ready for a job.
func (b *book) begin(j Job) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dry = b.c.cfg.DryRun || j.DryRun
	if b.story != nil {
		b.story.begun(j, b.c.provenBy(j)...)
	}
}

// record is the loop's Record: the message is on disk when it returns, or is
// held and said to be. What came before the model's first answer waits for it.
// ctx bounds the wait for another Ralph in the project.
func (b *book) record(ctx context.Context, m agent.Message) error {
	b.mu.Lock()
	defer b.leave()
	if b.dry {
		return nil
	}
	payload, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	b.keep(transcript.Message, payload)
	b.c.past.saw(m, b.c.now())
	if b.store == nil && m.Role != agent.RoleAssistant {
		return nil
	}
	if err := b.open(ctx); err != nil {
		return err
	}
	if b.story != nil {
		b.story.message(m)
	}
	b.flush()
	return nil
}

// keepEvent lets an event wait for the next message; it is not worth a sync of
// its own. The emitter calls it with its mutex held.
func (b *book) keepEvent(e agent.Event, filed bool) {
	payload, err := json.Marshal(e)
	if err != nil {
		return // an event of ours always encodes
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dry {
		return
	}
	b.keep(transcript.Event, payload)
	if b.story != nil && !filed {
		b.story.event(e)
	}
}

// withdrawn notes that the question before the human was taken back.
func (b *book) withdrawn() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.story != nil {
		b.story.unanswered(b.c.now())
	}
}

// keep lets a record wait for flush; mu is held.
func (b *book) keep(kind string, payload []byte) {
	if !b.readOnly {
		b.pending = append(b.pending, session.Record{Kind: kind, Time: b.c.now(), Payload: b.c.redactor.Bytes(payload)})
	}
}

// flush writes what waits in one append; mu is held. When the disk does not
// take it, the work goes on with the records held in memory until a later flush
// succeeds, and that is said once.
func (b *book) flush() {
	if b.store == nil || b.readOnly || len(b.pending) == 0 {
		return
	}
	err, began := errors.Join(b.store.Home(), b.openJournal()), b.c.now()
	if err == nil {
		err = b.journal.Append(b.c.epoch(), b.pending...)
	}
	if err == nil {
		b.pending, b.held = nil, false
		if took := b.c.now().Sub(began); took > slowDisk && !b.slow {
			b.slow = true
			b.note(fmt.Sprintf("the disk is slow: it took %.1f s to keep a message in %s; each answer and each tool waits for that", took.Seconds(), filepath.Dir(b.journal.Path())))
		}
		return
	}
	if !b.held {
		b.held = true
		b.note(heldText(err))
	}
}

// slowDisk is how long a message may take to be kept before that is said, once.
const slowDisk = time.Second

// openJournal opens the journal of a run without a session; mu is held.
func (b *book) openJournal() (err error) {
	if b.journal == nil {
		b.journal, err = session.OpenJournal(b.c.opt.FS, filepath.Join(b.runDir(), session.JournalFile), b.store.Quarantine(), b.store.Key())
	}
	return err
}

// appendRun keeps the result document of a run. Where no model ever answered
// nothing was opened and nothing is kept.
func (b *book) appendRun(doc json.RawMessage) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.store == nil || b.dry {
		return nil
	}
	return b.store.AppendRun(doc)
}

// markCleared begins a new conversation in the journal.
func (b *book) markCleared() {
	b.mu.Lock()
	defer b.leave()
	b.keep(transcript.Cleared, []byte("{}"))
	b.flush()
}

// settle writes what a run leaves in the state files, and completes the outcome
// with what they say.
func (b *book) settle(out *result.Outcome, j Job, planned *result.TaskCount) error {
	b.mu.Lock()
	defer b.leave()
	if b.store == nil || b.dry {
		return nil
	}
	var errs []error
	if out.Status != result.Completed || !j.Chat {
		errs = append(errs, b.interruptTasks())
	}
	if !j.Chat || len(out.FilesChanged) > 0 || out.Status == result.Interrupted {
		errs = append(errs, b.store.Progress(progressOf(*out, j, b.c.opt.RunID)))
	}
	if payload, err := json.Marshal(map[string]any{"status": out.Status, "reason": out.Reason}); err == nil {
		b.keep(transcript.Outcome, payload)
	}
	b.flush()
	// Whoever is told that a run has ended may read the files.
	saved := b.store.Flush()
	b.unsaved(out, j, saved)
	errs = append(errs, saved, b.countTasks(out))
	if planned != nil { // of the plan, wherever that is kept
		out.Tasks = *planned
	}
	if b.session != nil {
		b.story.ended(*out)
		errs = append(errs, b.session.Progress(len(out.Commits), out.Tasks.Done, out.Tasks.Done+out.Tasks.Failed+out.Tasks.Skipped+out.Tasks.Open))
		b.session.End(sessionEnd(*out, j))
	}
	out.StateFiles = b.store.Changed()
	if b.journal != nil {
		if rel, err := filepath.Rel(b.c.opt.Root, b.journal.Path()); err == nil {
			out.LogFile = filepath.ToSlash(rel)
		}
	}
	return errors.Join(errs...)
}

// interruptTasks marks what was begun here and not ended: nobody works on it any
// more. A task that the user took away, or set otherwise, stays as they have it.
func (b *book) interruptTasks() error {
	if len(b.working) == 0 {
		return nil
	}
	tasks, err := b.store.Tasks()
	errs := []error{err}
	for _, t := range tasks {
		if !b.working[t.ID] || t.Status != markdown.InProgress {
			continue
		}
		t, err := b.store.SetTask(t.ID, memory.TaskEdit{Status: markdown.Interrupted})
		if !errors.Is(err, markdown.ErrNoTask) {
			errs = append(errs, err)
		}
		if err == nil && b.story != nil {
			b.story.worked(t)
		}
	}
	clear(b.working)
	return errors.Join(errs...)
}

// sessionEnd is how a session stands if it ends after this run: a chat is
// complete whatever came of its turns, unless the last was interrupted.
func sessionEnd(out result.Outcome, j Job) (session.Status, string) {
	if j.Chat && out.Status != result.Interrupted {
		return session.InProgress, ""
	}
	return sessionStatus(out.Status), out.Reason
}

func sessionStatus(s result.Status) session.Status {
	switch s {
	case result.Completed:
		return session.Completed
	case result.Interrupted, result.Timeout, result.Limit, result.RetryLater, result.NeedsInput, result.Denied:
		return session.Paused
	}
	return session.Failed
}

func (b *book) countTasks(out *result.Outcome) error {
	tasks, err := b.store.Tasks()
	out.Tasks = tally(tasks)
	return err
}

func (b *book) close(ctx context.Context) error {
	b.mu.Lock()
	defer b.leave()
	b.flush()
	var errs []error
	if b.store != nil {
		errs = append(errs, b.store.Home(), b.interruptTasks())
	}
	switch {
	case b.session != nil:
		b.end()
		b.story.closed()
		errs = append(errs, b.session.Close())
		b.c.foundAt(b.session.Found())
		b.enroll(context.WithoutCancel(ctx), enrolled(b.session.Meta().Status))
	case b.journal != nil:
		errs = append(errs, b.journal.Close())
	}
	if b.store != nil {
		errs = append(errs, b.store.Close())
	}
	return stored(errors.Join(errs...))
}
