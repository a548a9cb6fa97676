package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/afero"

	"ralph/coordinator/policy"
	"ralph/interrupts"
	"ralph/memory/config"
	"ralph/memory/history"
	"ralph/memory/project"
	"ralph/memory/redact"
	"ralph/workers/agent"
	"ralph/workers/git"
	"ralph/workers/model"
	"ralph/workers/tools"
)

// Coordinator works on one project. Its methods are safe for concurrent use;
// Run runs one piece of work at a time, a second caller waits. Whoever opened
// it closes it.
type Coordinator struct {
	opt      Options
	cfg      *config.Config
	now      func() time.Time
	redactor *redact.Redactor

	cassette cassette

	loc      *git.Location
	repo     *git.Repo
	changes  *changes
	book     *book
	events   *emitter
	gate     *gate
	work     *tools.Workspace
	epochs   interrupts.Epochs
	estimate history.Estimate

	// closing bounds what Close does; it is the context of Open without its end.
	closing context.Context

	// running is held by the one piece of work that runs.
	running chan struct{}

	// mu guards what follows; it is held for moments only.
	mu           sync.Mutex
	endpoint     model.Endpoint
	modelOptions model.Options
	client       *model.Client
	started      bool // the start event is out
	system       string
	transcript   []agent.Message
	totals       Totals
	warnings     []string
	project      func() (project.Project, error)
}

// Totals sums up a session.
type Totals struct {
	Turns        int
	Usage        agent.Usage
	CostUSD      *float64 // nil: not known
	FilesChanged []git.FileChange
	Commits      []string
	Started      time.Time
}

// Open makes the project ready for work: it compiles the rules, chooses the
// endpoint, takes the project's lock and opens the session that was asked for.
// Nothing is scanned, and in a directory that Ralph never worked in nothing is
// written until a model has answered. Fail explains its errors.
func Open(ctx context.Context, o Options) (*Coordinator, error) {
	if o.FS == nil {
		o.FS = afero.NewOsFs()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	c := &Coordinator{opt: o, cfg: o.Config, now: o.Now, running: make(chan struct{}, 1), closing: context.WithoutCancel(ctx), redactor: redact.New(o.Config.Secrets())}
	c.totals.Started = o.Now()
	c.project = sync.OnceValues(func() (project.Project, error) { return project.Detect(context.WithoutCancel(ctx), o.Root) })
	for _, w := range o.Config.Warnings {
		c.warn(w)
	}
	rules, err := policy.Compile(policy.Rules{Allow: o.Config.Allow, Deny: o.Config.Deny, Sandbox: policy.Sandbox(o.Config.Sandbox)})
	if err != nil {
		return nil, c.ruleError(err)
	}
	if err := c.openModel(ctx); err != nil {
		return nil, err
	}
	if err := c.openTree(); err != nil {
		return nil, errors.Join(err, c.cassette.close())
	}
	c.book = newBook(c)
	c.events = &emitter{run: o.RunID, now: o.Now, eyes: o.Eyes, keep: c.book.keepEvent}
	c.gate = newGate(rules, o.Config.OnAsk, o.Ask, c.events.emit)
	if err := c.book.openEarly(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
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
	for _, key := range []string{"allow", "deny"} {
		origin := c.cfg.Origin(key)
		if origin.File != "" {
			return &Error{Op: "read rules of", Path: origin.String(), Err: err, Status: StatusConfigError,
				Hint: "a rule is an expression over tool, command, argv, path and network"}
		}
	}
	return err
}

// openTree opens what touches the user's files.
func (c *Coordinator) openTree() error {
	work, err := tools.OpenWorkspace(c.opt.Root)
	if err != nil {
		return &Error{Op: "open project", Path: c.opt.Root, Err: err, Status: StatusUsage, Hint: "name a directory that you can read with -C"}
	}
	c.work = work
	loc, err := git.Find(c.opt.Root)
	switch {
	case err == nil:
		c.loc = &loc
		c.repo = git.Open(c.opt.Proc, loc)
	case !errors.Is(err, git.ErrNoRepository):
		c.warn("the git repository is left alone: " + err.Error())
	}
	c.changes = &changes{points: git.OpenCheckpoints(c.opt.Proc, c.opt.Root, c.stateDir(), c.loc), repo: c.repo, root: c.opt.Root, run: c.opt.RunID, warn: c.warn}
	return nil
}

func (c *Coordinator) stateDir() string { return filepath.Join(c.opt.Root, ".ralph") }

// Close ends what is still running, closes the session and releases the
// project. It is called once, after the last Run has returned.
func (c *Coordinator) Close() error {
	var errs []error
	if c.book != nil {
		errs = append(errs, c.book.close())
	}
	errs = append(errs, c.cassette.close())
	if client := c.answers(); client != nil {
		client.Close()
	}
	if c.work != nil {
		errs = append(errs, c.work.Close())
	}
	ctx, cancel := context.WithTimeout(c.closing, settleTime)
	defer cancel()
	return errors.Join(append(errs, c.opt.Proc.Close(ctx))...)
}

// Record appends a result document to .ralph/runs.jsonl. A run that changed
// nothing because no model ever answered leaves no line.
func (c *Coordinator) Record(doc json.RawMessage) error {
	if !c.book.isOpen() {
		return nil
	}
	return c.book.appendRun(doc)
}

// Endpoint is where the model answers.
func (c *Coordinator) Endpoint() model.Endpoint {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.endpoint
}

// Models asks the endpoint which models it has.
func (c *Coordinator) Models(ctx context.Context) ([]string, error) { return c.answers().Models(ctx) }

// SetModel chooses the model, at the same endpoint, for the runs to come.
func (c *Coordinator) SetModel(name string) {
	c.mu.Lock()
	old := c.client
	c.endpoint.Model = name
	c.modelOptions.Endpoint = c.endpoint
	c.client = model.New(c.modelOptions)
	c.mu.Unlock()
	old.Close()
}

// answers is the client of the present endpoint.
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

// Undo takes back what the last n turns changed, newest first, also turns of
// earlier sessions. The error matches ErrNothingToUndo, or is a
// *git.EditedError when a file was edited since; what was already taken back is
// returned with it.
func (c *Coordinator) Undo(ctx context.Context, n int) ([]git.FileChange, error) {
	c.running <- struct{}{}
	defer func() { <-c.running }()
	return c.changes.undo(ctx, max(n, 1))
}

// Diff is what the last turn changed, as a unified diff; empty when there is
// nothing.
func (c *Coordinator) Diff(ctx context.Context) (string, error) { return c.changes.diff(ctx) }

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

// Clear begins a new conversation; the old one stays on disk.
func (c *Coordinator) Clear() error {
	c.mu.Lock()
	c.transcript, c.system = nil, ""
	c.mu.Unlock()
	return c.book.markCleared()
}

// Stop ends the work that is running, at once, in the caller's goroutine: every
// context of it is cancelled before Stop returns. It waits for nothing.
func (c *Coordinator) Stop(cause *interrupts.Stop) { c.epochs.Raise(cause) }

// warn keeps a warning for the outcome and shows it when work is going on.
func (c *Coordinator) warn(text string) {
	text = c.redactor.String(text)
	c.mu.Lock()
	known := false
	for _, w := range c.warnings {
		known = known || w == text
	}
	if !known {
		c.warnings = append(c.warnings, text)
	}
	show := c.started && !known
	c.mu.Unlock()
	if show {
		c.events.emit(agent.Event{Type: agent.EventWarning, Text: text})
	}
}

// start announces the run once, with every warning from before it.
func (c *Coordinator) start() {
	c.mu.Lock()
	first := !c.started
	c.started = true
	early := append([]string(nil), c.warnings...)
	c.mu.Unlock()
	if !first {
		return
	}
	c.events.emit(agent.Event{Type: agent.EventStart, Model: c.Endpoint().Model, Root: c.opt.Root, Sandbox: c.sandbox(), SessionID: c.SessionID()})
	for _, w := range early {
		c.events.emit(agent.Event{Type: agent.EventWarning, Text: w})
	}
}

// sandbox says how commands run, in words for a person.
func (c *Coordinator) sandbox() string {
	if c.cfg.Sandbox == string(policy.SandboxOff) {
		return "off: commands run unsandboxed"
	}
	return fmt.Sprintf("%s: this version has no sandbox for commands, so each asks first", c.cfg.Sandbox)
}
