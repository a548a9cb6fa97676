package loop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"ralph/coordinator/permission"

	"ralph/coordinator/plan"
	"ralph/coordinator/policy/condition"
	"ralph/memory/feature"
	"ralph/memory/session/folder"
	"ralph/workers/agent"
)

// Options say what a Loop works with. Tracker, Hands, Files and Save are needed.
type Options struct {
	Settings Settings
	Tracker  plan.Tracker
	// Open opens another plan, when Replan names one; nil: a run keeps its plan.
	Open  func(ctx context.Context, s Settings) (plan.Tracker, error)
	Hands Hands
	// Files are those of the session. What is told through Emit is in them already:
	// whoever keeps events must not tell it there again.
	Files *folder.Folder
	// Save keeps the snapshot durably. It is never called twice at a time.
	Save func(feature.Snapshot) error
	// Base has the fields of the snapshot that the loop does not know: session
	// directory, git, cwd, ui.
	Base feature.Snapshot
	// Resume is the snapshot of a run that goes on; nil begins a new one.
	Resume *feature.Snapshot
	// Granted is what the human granted the run that goes on; nil: nothing.
	Granted *Granted
	// Grant keeps what the human granted, outside of the project; nil: it is not
	// kept. It is never called twice at a time.
	Grant func(Granted) error
	// Ask asks the human, tells the session's files so, and returns the answer; it
	// ends with ctx. nil: nobody is there, and a question pauses the run.
	Ask func(ctx context.Context, q permission.Question) (string, error)
	// Emit tells what happens; it must not block. nil: nobody is told.
	Emit func(agent.Event)
	Warn func(string)
	// Behind does something once a stop is over, with a context that the stop did
	// not end. nil: Run does it before it returns.
	Behind func(func(ctx context.Context))
	// Progress is called on Run's goroutine when a task is over; after a stop,
	// within Behind. An error is warned about.
	Progress func(TaskEnd) error
	// Left is told of an attempt that was cut off and that nobody goes on with, and
	// why; its order has no prompt and no more of its task than id and title. nil:
	// nobody is told.
	Left func(o Order, why string)
	// Exhausted returns a *agent.LimitError when a limit of the whole run is used up,
	// with what running attempts have used so far. nil counts ended attempts only.
	Exhausted func() error
	// Features counts what the run has discovered and documented; nil: nothing.
	Features func() (discovered, documented int)
	// Checks is told which commands the work will have to pass, once the plan is
	// read; nil: nobody is told.
	Checks func(commands []string)
	Now    func() time.Time
	// MaxAgents bounds the tasks that are worked side by side; 0: twenty.
	MaxAgents int
	// Actor is who claims tasks, and names the session. Former is the prefix of those
	// whose tasks are given back when a run begins; "" is Actor.
	Actor, Former string
	SessionID     string
}

// defaultAgents bounds the tasks side by side when nothing else does.
const defaultAgents = 20

// Loop is one run over a plan. Run is called once; everything else is safe for
// concurrent use.
type Loop struct {
	o Options

	// wake interrupts what Run waits for.
	wake chan struct{}

	// mu guards what follows; it is held for moments only, and nothing is called
	// with it held.
	mu      sync.Mutex
	began   bool
	over    bool
	pausing bool // a human wants no further attempt to begin
	nudged  bool // and has said since that it may
	replan  *Settings
	guide   []string
	begun   []begun
	view    View
	why     map[string]string
	reasons func(id string) string // of what was not decided yet; nil at first
}

// begun is an agent that has an id now.
type begun struct {
	task, agent string
	iteration   int
}

// New makes a run. A setting that cannot be is an error, and so is a condition
// that does not compile; those of the plan itself are found when Run has loaded
// it, before anything begins.
func New(o Options) (*Loop, error) {
	switch {
	case o.Tracker == nil, o.Hands == nil, o.Files == nil, o.Save == nil:
		return nil, errors.New("make loop: it needs a tracker, hands, files and a place for its snapshot")
	}
	if _, err := o.Settings.complete(nil); err != nil {
		return nil, fmt.Errorf("make loop: %w", err)
	}
	if _, err := selection(o.Settings.Select); err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Emit == nil {
		o.Emit = func(agent.Event) {}
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	if o.Progress == nil {
		o.Progress = func(TaskEnd) error { return nil }
	}
	if o.Left == nil {
		o.Left = func(Order, string) {}
	}
	if o.Features == nil {
		o.Features = func() (int, int) { return 0, 0 }
	}
	if o.Checks == nil {
		o.Checks = func([]string) {}
	}
	if o.MaxAgents <= 0 {
		o.MaxAgents = defaultAgents
	}
	if o.Former == "" {
		o.Former = o.Actor
	}
	l := &Loop{o: o, wake: make(chan struct{}, 1), why: map[string]string{}}
	l.view = View{Feature: o.Settings.Feature, Status: feature.Idle, Tracker: o.Tracker.Name(), Plan: o.Settings.Plan, Epics: o.Settings.Epics,
		MaxIterations: o.Settings.MaxIterations}
	return l, nil
}

// selection compiles --select; nil selects all.
func selection(source string) (*condition.Condition[condition.Task], error) {
	if source == "" {
		return nil, nil
	}
	c, err := condition.Compile(source, condition.Task{})
	if err != nil {
		return nil, fmt.Errorf("select tasks: %w", err)
	}
	return c, nil
}

// Restored are the settings that a snapshot gives back: none that lets a run do
// more than a new one. A snapshot that another tool made gives those that it
// states.
func Restored(s feature.Snapshot) (Settings, error) {
	st, _, err := restored(&s)
	return st.Settings, err
}

// Run works the plan until nothing is left that can be worked, a limit is used
// up, or a question needs a human who is not there; when ctx ends it stops what is
// at work and returns once that is at rest. It is called once.
func (l *Loop) Run(ctx context.Context) Outcome {
	l.mu.Lock()
	twice := l.began
	l.began = true
	l.mu.Unlock()
	if twice {
		return Outcome{Status: feature.Failed, Reason: "it has run already", Err: errors.New("run loop: it has run already")}
	}
	out := newEngine(l).run(ctx)
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	return out
}

// Pause lets what is at work end its attempt, and begins nothing more until
// Proceed.
func (l *Loop) Pause() {
	l.mu.Lock()
	l.pausing = true
	l.mu.Unlock()
	l.nudge()
}

// ErrNotPaused is matched when there is nothing to proceed with.
var ErrNotPaused = errors.New("it is not paused")

// Proceed goes on after Pause, and is the human's word that an open breaker may
// be tried again.
func (l *Loop) Proceed() error {
	l.mu.Lock()
	paused := l.pausing || l.view.Breaker == breakerOpen
	ok := l.began && !l.over && paused
	if ok {
		l.pausing, l.nudged = false, true
	}
	l.mu.Unlock()
	if !ok {
		return fmt.Errorf("proceed: %w", ErrNotPaused)
	}
	l.nudge()
	return nil
}

// Replan changes the settings of the run at its next boundary: what is at work
// goes on as it was begun.
func (l *Loop) Replan(s Settings) error {
	if _, err := s.complete(nil); err != nil {
		return fmt.Errorf("replan: %w", err)
	}
	if _, err := selection(s.Select); err != nil {
		return err
	}
	l.mu.Lock()
	l.replan = &s
	l.mu.Unlock()
	l.nudge()
	return nil
}

// Guide puts a text of the human into the prompts of what begins from now on.
func (l *Loop) Guide(text string) {
	l.mu.Lock()
	l.guide = append(l.guide, text)
	l.mu.Unlock()
	l.nudge()
}

// View is the run as it stands.
func (l *Loop) View() View {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.view
	switch paused := v.Status == feature.Pausing || v.Status == feature.Paused; { // whoever asked for it is not told otherwise
	case l.pausing && v.Status == feature.Running:
		v.Status = feature.Pausing
	case !l.pausing && paused && v.Reason == "": // one with a reason has ended so
		v.Status = feature.Running
	}
	v.Epics, v.Active, v.Next, v.Recent = slices.Clone(v.Epics), slices.Clone(v.Active), slices.Clone(v.Next), slices.Clone(v.Recent)
	return v
}

// Why says how a task was decided about last, with the scores and the sum, or what
// it waits for; false: the plan has no such task.
func (l *Loop) Why(id string) (string, bool) {
	l.mu.Lock()
	decided, reasons := l.why[id], l.reasons
	l.mu.Unlock()
	now := ""
	if reasons != nil {
		now = reasons(id)
	}
	switch {
	case decided == "":
		return now, now != ""
	case now == "":
		return decided, true
	}
	return now + "\n" + decided, true
}

// nudge wakes Run.
func (l *Loop) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// orders are what others have said since the last boundary.
type orders struct {
	pausing, nudged bool
	replan          *Settings
	guide           []string
	begun           []begun
}

// heard takes what was said.
func (l *Loop) heard() orders {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := orders{pausing: l.pausing, nudged: l.nudged, replan: l.replan, guide: l.guide, begun: l.begun}
	l.nudged, l.replan, l.guide, l.begun = false, nil, nil, nil
	return o
}

// explain notes why a task was decided about as it was.
func (l *Loop) explain(id, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.why = maps.Clone(l.why)
	l.why[id] = text
}
