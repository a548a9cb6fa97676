package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"ralph/coordinator/crew"
	"ralph/coordinator/permission"
	"ralph/coordinator/policy"
	"ralph/coordinator/prompt"
	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/memory/config"
	"ralph/memory/durable"
	"ralph/memory/history"
	"ralph/memory/identity"
	"ralph/memory/project"
	"ralph/memory/session/folder"
	"ralph/memory/text"
	"ralph/workers"
	"ralph/workers/accesspolicy"
	"ralph/workers/agent"
	"ralph/workers/exec"
	"ralph/workers/git"
	"ralph/workers/git/trees"
	"ralph/workers/model"
)

// Coordinator works on one project. Its methods are safe for concurrent use;
// Run runs one piece of work at a time, a second caller waits. Whoever opened
// it closes it.
type Coordinator struct {
	opt      Options
	cfg      *config.Config
	now      func() time.Time
	redactor *text.Redactor

	cassette cassette

	loc      *git.Location
	repo     *git.Repo
	trees    *trees.Trees // of the agents; nil without a repository
	changes  *changes
	writes   *writeLog // of the host, for its guests too
	book     *book
	edits    *edits
	events   *emitter
	approver *permission.Approver
	station  *station // where the coordinator itself works
	stations *stations
	granted  *accesspolicy.Grants // to the tools of children; the host's
	filling  sync.Mutex           // held while the caches of checks are filled
	proposal proposal
	// detection is of the project's own tests, which are the check where none is named.
	detection detection
	// userState returns the user's directory for Ralph's state, which is tried once.
	userState func() string
	// unguarded warns of checks without a sandbox.
	unguarded sync.Once
	crew      *crew.Crew
	mail      *mail
	asides    *asides
	pool      *workers.Pool
	own       *exec.Runner // for git, of which a stop ends no more than the work asked for
	eyes      *eyes
	pausing   *pause // one for all that work here
	quiet     *pause // holds the children while something urgent is handled
	server    *server
	visitors  sync.WaitGroup // tasks of other terminals
	estimate  history.Estimates
	past      past
	errands   *errands
	planning  planning
	typed     ownCommands
	byHand    sync.WaitGroup // counts the user's commands and the sweep at the start, for Close

	// name is what this one is called among the agents; host is the coordinator
	// in which a guest works, nil for a Ralph of its own.
	name  string
	host  *Coordinator
	visit visit

	// closing bounds what Close does; it is the context of Open without its end.
	closing context.Context

	// running is held by the one piece of work that runs.
	running chan struct{}

	project func() (project.Project, error)

	// telling orders the start event and the warnings, so that each is emitted
	// once and none before the start; it is held while they are emitted.
	telling sync.Mutex

	// mu guards what follows; it is held for moments only, and no other mutex is
	// taken with it.
	mu           sync.Mutex
	endpoint     model.Endpoint
	modelOptions model.Options
	client       *model.Client // nil without a model
	chosen       bool          // the model was, after Open
	system       systemPrompt
	facts        prompt.Facts      // that system was made of
	rules        []prompt.Document // of the repository, as the model was told last
	transcript   []agent.Message
	totals       Totals
	warnings     []string
	told         int  // how many of the warnings were shown
	started      bool // the start event is out
	piece        *piece
	stopped      *interruption // what was stopped, while the user and Ralph only talk
	after        *afterwork
	guests       []*Coordinator // that are at work here, or wait for their turn
	visits       int            // how many there were
	budget       *workers.Budget
	heard        []interrupts.Message // that were delivered to children
}

// Open makes the project ready for work: it compiles the rules, chooses the
// endpoint, takes the project's lock and opens the session that was asked for.
// Nothing is scanned, and in a directory that Ralph never worked in nothing is
// written until a model has answered. Fail explains its errors.
func Open(ctx context.Context, o Options) (*Coordinator, error) {
	if o.FS == nil {
		o.FS = durable.Disk()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	method := ""
	if o.Getenv != nil {
		method = o.Getenv("RALPH_PROC")
	}
	if o.Proc != nil {
		o.Proc.Bound(exec.Bounds{Memory: o.Config.SessionMemory, Output: o.Config.SessionOutput})
	}
	c := &Coordinator{own: exec.New(exec.Options{Method: method, Project: o.Root}), name: agentName, opt: o, cfg: o.Config, now: o.Now, running: make(chan struct{}, 1), closing: context.WithoutCancel(ctx), redactor: text.NewRedactor(o.Config.Secrets()), stations: &stations{}, granted: &accesspolicy.Grants{}}
	c.totals.Started = o.Now()
	c.userState = sync.OnceValue(o.owned().WritableHome)
	c.project = sync.OnceValues(func() (project.Project, error) { return project.Detect(context.WithoutCancel(ctx), o.Root) })
	for _, w := range o.Config.Warnings {
		c.warn(w)
	}
	held := c.confined()
	if held.NoRoom != nil {
		return nil, &result.Error{Op: "try out the sandbox of", Path: o.Root, Err: held.NoRoom, Hint: held.WaysOut(), Status: result.Failed}
	}
	rules, err := policy.Compile(policy.Rules{Allow: o.Config.Allow, Deny: o.Config.Deny, Sandbox: policy.Sandbox(o.Config.Sandbox), Confined: held.Complete, Missing: lacking(held)})
	if err != nil {
		return nil, c.ruleError(err)
	}
	c.book, c.edits, c.errands = newBook(c), newEdits(c), newErrands()
	c.pool = workers.New(workers.Options{Proc: o.Proc, Now: o.Now, MaxAgents: o.Config.MaxAgents, MaxDepth: o.Config.MaxDepth, MaxChildren: o.Config.MaxChildrenPerAgent, Alarm: c.stalled})
	c.eyes, c.asides = &eyes{face: o.Eyes}, newAsides(c)
	c.pausing, c.quiet = &pause{}, &pause{}
	c.events = &emitter{run: o.RunID, now: o.Now, eyes: c.eyes.see, keep: c.book.keepEvent, mask: mask{redactor: c.redactor}}
	if !o.NoModel {
		if err := c.openModel(ctx); err != nil && !c.spared(err) {
			return nil, err
		}
	}
	if err := c.openTree(); err != nil {
		return nil, errors.Join(err, c.cassette.close())
	}
	c.approver = permission.New(permission.Options{Rules: rules, OnAsk: o.Config.OnAsk, Ask: o.Ask, Emit: c.events.emit, Withdrawn: c.book.withdrawn, Now: c.now})
	if err := c.book.openEarly(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.crew = c.newCrew()
	c.mail = openMail(c)
	c.takeUp(ctx)
	if o.Session != "" {
		c.lastRun()
	}
	c.tidy(ctx)
	c.serve()
	c.asides.resume()
	if o.Session != "" {
		c.edits.watch()
	}
	return c, nil
}

// ruleError says whether a rule that does not compile was a bad flag or a bad
// setting.
func (c *Coordinator) ruleError(err error) error {
	var re *policy.RuleError
	if !errors.As(err, &re) {
		return err
	}
	key := "allow"
	if slices.Contains(c.cfg.Deny, re.Rule) {
		key = "deny"
	}
	origin := c.cfg.Origin(key)
	if origin.File == "" {
		return err
	}
	return &result.Error{Op: "read rules of", Path: origin.String(), Err: err, Status: result.ConfigError, Hint: hintRule}
}

// openTree opens what touches the user's files.
func (c *Coordinator) openTree() error {
	c.writes = newWriteLog(c.opt.Root, identity.CheckpointDir(c.opt.owned().Home(), c.opt.Root))
	st, err := c.openStation(c.name, c.opt.Root)
	if err != nil {
		return &result.Error{Op: "open project", Path: c.opt.Root, Err: err, Status: result.Usage, Hint: "name a directory that you can read with -C"}
	}
	c.station, c.repo = st, st.repo
	if st.repo != nil {
		if loc, err := git.Find(c.opt.Root); err == nil {
			c.loc = &loc
		}
	}
	c.changes = &changes{points: c.opt.openCheckpoints(c.own, c.loc), repo: c.repo, root: c.opt.Root, run: c.opt.RunID, warn: c.warn, began: c.began, homeless: c.book.homeless, writes: c.writes, left: c.noteLeft}
	if c.loc != nil {
		c.trees = trees.OpenTrees(c.own, *c.loc, c.stateDir(), c.sign())
		c.trees.OnWrite = c.writes.writing
		c.trees.Refuse = c.refuses
		c.changes.trees = c.trees
	}
	return nil
}

// committed is what a state file held in the last commit; nil when there is none.
func (c *Coordinator) committed(name string) ([]byte, error) {
	if c.repo == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(c.closing, askGit)
	defer cancel()
	return c.repo.Content(ctx, "HEAD", name)
}

func (c *Coordinator) stateDir() string { return filepath.Join(c.opt.Root, ".ralph") }

// Close ends what is still running, then closes the session and releases the
// project: nothing of ours works in it any more when another Ralph may. It is
// called once, after the last Run has returned.
func (c *Coordinator) Close() error {
	ctx, cancel := context.WithTimeout(c.closing, settleTime)
	defer cancel()
	errs := []error{c.server.close(ctx), c.pool.Close(ctx)}
	c.visitors.Wait()
	c.asides.close()
	c.edits.close()
	errs = append(errs, c.opt.Proc.Close(ctx), c.settled(ctx))
	c.byHand.Wait() // which has ended with the processes
	c.changes.stop()
	if c.trees != nil {
		errs = append(errs, c.trees.Close(ctx))
	}
	for _, text := range c.station.cage.Settle(ctx) {
		c.warn(text)
	}
	errs = append(errs, c.own.Close(ctx), c.cassette.close())
	if c.mail != nil {
		errs = append(errs, c.mail.close(ctx))
	}
	errs = append(errs, c.book.close(ctx), c.station.close())
	if client := c.answers(); client != nil {
		client.Close()
	}
	return errors.Join(errs...)
}

// Record appends a result document to .ralph/runs.jsonl. A run that changed
// nothing because no model ever answered leaves no line.
func (c *Coordinator) Record(doc json.RawMessage) error { return c.book.appendRun(doc) }

// Endpoint is where the model answers.
func (c *Coordinator) Endpoint() model.Endpoint {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.endpoint
}

// Models asks the endpoint which models it has.
func (c *Coordinator) Models(ctx context.Context) ([]string, error) {
	client := c.answers()
	if client == nil {
		return nil, errNoModel
	}
	return client.Models(ctx)
}

// SetModel chooses the model, at the same endpoint, for the runs to come; one
// that is under way keeps its own.
func (c *Coordinator) SetModel(name string) {
	c.mu.Lock()
	old := c.client
	c.endpoint.Model, c.chosen = name, true
	c.modelOptions.Endpoint = c.endpoint
	c.client = model.New(c.modelOptions)
	c.mu.Unlock()
	if old != nil {
		old.Close()
	}
}

// answers is the client of the present endpoint, nil without one.
func (c *Coordinator) answers() *model.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.client
}

// Totals sums up what this Coordinator did so far.
func (c *Coordinator) Totals() Totals {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.totals
}

func pathsOf(files []git.FileChange) []string {
	var list []string
	for _, f := range files {
		if !slices.Contains(list, f.Path) {
			list = append(list, f.Path)
		}
	}
	return list
}

// take waits for the work that is under way to end, and keeps other work from
// beginning until free. Its error is the cause of ctx.
func (c *Coordinator) take(ctx context.Context) error {
	select {
	case c.running <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Coordinator) free() { <-c.running }

// Diff is what the last turn changed, as a unified diff; empty when there is
// nothing.
func (c *Coordinator) Diff(ctx context.Context) (string, error) {
	if err := c.settled(ctx); err != nil {
		return "", fmt.Errorf("diff: %w", err)
	}
	return c.changes.diff(ctx)
}

// Project describes the project; it is read at the first call.
func (c *Coordinator) Project() project.Project {
	p, err := c.project()
	if err != nil {
		c.warn("the project was only partly read: " + err.Error())
	}
	return p
}

// SessionID names the session directory, empty without one.
func (c *Coordinator) SessionID() string { return c.book.sessionID() }

// History is the conversation so far.
func (c *Coordinator) History() []agent.Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]agent.Message(nil), c.transcript...)
}

// Clear begins a new conversation; the old one stays on disk. While work is
// under way it is refused with ErrBusy.
func (c *Coordinator) Clear() error {
	select {
	case c.running <- struct{}{}:
		defer c.free()
	default:
		return fmt.Errorf("clear the conversation: %w", ErrBusy)
	}
	c.mu.Lock()
	c.transcript, c.system, c.stopped = nil, systemPrompt{}, nil
	c.mu.Unlock()
	c.resetPast()
	c.book.markCleared()
	return nil
}

// warn keeps a warning for the outcome and shows it when work is going on. The
// same words are said once. It is not called with a mutex of the book held, nor
// by Eyes.
func (c *Coordinator) warn(text string) {
	text = c.redactor.String(text)
	c.mu.Lock()
	if !slices.Contains(c.warnings, text) {
		c.warnings = append(c.warnings, text)
	}
	started := c.started
	c.mu.Unlock()
	if started {
		c.tell()
	}
}

// start announces the run once, with every warning from before it.
func (c *Coordinator) start() {
	c.telling.Lock()
	c.mu.Lock()
	first := !c.started
	c.started = true
	c.mu.Unlock()
	if first {
		c.events.emit(agent.Event{Type: agent.EventStart, Model: c.Endpoint().Model, Root: c.opt.Root, Sandbox: c.sandbox(), SessionID: folder.SessionID(c.SessionID())})
	}
	c.telling.Unlock()
	c.tell()
}

// tell emits the warnings that were not shown yet.
func (c *Coordinator) tell() {
	c.telling.Lock()
	defer c.telling.Unlock()
	for _, w := range c.untold() {
		c.events.emit(agent.Event{Type: agent.EventWarning, Text: w})
	}
}

// untold returns the warnings that were not shown yet, and counts them as shown.
func (c *Coordinator) untold() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	fresh := c.warnings[c.told:]
	c.told = len(c.warnings)
	return fresh
}

// sandbox says how commands run, in words for a person.
func (c *Coordinator) sandbox() string {
	if c.cfg.Sandbox == string(policy.SandboxOff) {
		return "off: commands run unsandboxed"
	}
	s := c.confined()
	return fmt.Sprintf("%s: %s", c.cfg.Sandbox, s)
}
