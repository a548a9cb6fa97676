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
	"ralph/coordinator/plan/graph"
	"ralph/coordinator/policy/breaker"
	"ralph/memory/feature"
	"ralph/memory/session/folder"
	"ralph/workers/agent"
)

const (
	// look is how often a plan is looked at while nothing happens.
	look = time.Second
	// leastSleep keeps a clock that stands still from turning a wait into a spin.
	leastSleep = 10 * time.Millisecond
	// afterTime bounds what is done once the context of a run has ended.
	afterTime = 30 * time.Second
)

// errTime ends what is at work when the time of a run is used up.
var errTime = errors.New("the time of the run is used up")

// engine is the state of a run, which the goroutine of Run owns.
type engine struct {
	l *Loop
	o *Options
	s state

	kept      *Granted // as Options.Grant has it; nil: nothing yet
	grantLost bool     // that it is not kept was warned about

	tracker  plan.Tracker
	p        *plan.Plan          // as it was read last
	remarked map[string]bool     // what was warned about in plans
	scope    map[string]bool     // the tasks of this run
	nodes    []graph.Node        // of the plan as it was read
	needs    map[string][]string // what each task waits for
	stands   map[string]plan.Status
	stale    bool           // how the tasks stand is to be seen anew
	deferred bool           // some are put off
	index    map[string]int // of its tasks
	ranked   ranking
	listed   []feature.Task
	counts   Counts
	breaker  *breaker.Breaker
	gates    []gate
	phases   []phase
	own      bool           // they are the plan's
	phaseAt  map[string]int // the phase of each task
	shown    struct {       // what the files say of the phase
		phase string
		part  float64
	}
	dry bool // nothing is written, nobody is asked

	at        map[string]*worker // at work, by task
	reports   chan result
	answers   chan answer
	workers   sync.WaitGroup
	asked     *question // that is being asked
	questions []*question
	end       *ending

	status   feature.Status
	reason   string
	next     *Settings // to go on with, once what is at work has ended
	halted   bool      // a human wants nothing to begin, as was heard last
	paused   time.Time // since when nothing is at work because of a pause
	started  time.Time // of the run
	since    time.Time // of this process
	rested   time.Duration
	dirty    bool // something is not in the snapshot
	unsaved  int  // how often in a row that could not be written
	unread   error
	reads    int            // how often in a row the plan could not be read
	marks    map[string]int // how often in a row it took no change of a task
	retryAt  time.Time
	known    map[string]folder.TaskStatus // what the files say of tasks
	recent   []Row
	finished []feature.Iteration
	ends     []TaskEnd // that are to be told
	recovery *Recovery
	ended    bool             // an attempt has, since the plan was looked at last
	choices  map[string]int   // open decisions of the files, by task
	failures map[string][]int // open failures of the files, by task
	trips    []int            // the open trips of the files
	wait     *Wait
	stopped  context.CancelCauseFunc
}

// ending is how a run ends once nothing is at work.
type ending struct {
	status   feature.Status
	reason   string
	limit    string
	after    time.Duration
	question *permission.Question
	err      error
	told     bool // by the errors of the tasks
}

func newEngine(l *Loop) *engine {
	return &engine{l: l, o: &l.o, tracker: l.o.Tracker, at: map[string]*worker{}, reports: make(chan result), answers: make(chan answer, 1),
		remarked: map[string]bool{}, marks: map[string]int{}, known: map[string]folder.TaskStatus{}, choices: map[string]int{}, failures: map[string][]int{}, status: feature.Initializing}
}

func (e *engine) now() time.Time { return e.o.Now().UTC() }

// run is Loop.Run.
func (e *engine) run(ctx context.Context) Outcome {
	ctx, e.stopped = context.WithCancelCause(ctx)
	defer e.stopped(nil)
	if err := e.start(ctx); err != nil {
		return e.refuse(ctx, err)
	}
	for {
		e.boundary(ctx)
		if len(e.at) == 0 && (e.end != nil || ctx.Err() != nil) {
			break
		}
		e.await(ctx)
	}
	e.withdraw(nil)
	e.workers.Wait()
	return e.finish(ctx)
}

// start reads everything that a run begins with; nothing was changed when it
// fails.
func (e *engine) start(ctx context.Context) error {
	e.since = e.now()
	e.started = e.since
	s := newState(e.o.Settings)
	lost, was := "", 0.0
	if from := e.o.Resume; from != nil {
		var err error
		if s, lost, err = restored(from); err != nil {
			return err
		}
		was, s.Settings = s.Settings.LearningRate, e.o.Settings
		s.regrant(e.o.Granted)
		e.kept = e.o.Granted
		e.started, e.finished = from.StartedAt, slices.Clone(from.Iterations)
	}
	p, err := e.tracker.Load(ctx)
	if err != nil {
		return err
	}
	if s.Settings, err = s.Settings.complete(p); err != nil {
		return err
	}
	e.s = s
	e.learnAt(was)
	if err := e.adopt(p); err != nil {
		return err
	}
	if err := e.agreed(); err != nil {
		return err
	}
	if e.breaker, err = breaker.New(breaker.Settings{Alone: e.alone()}, e.triggers(), e.s.Breaker); err != nil {
		return fmt.Errorf("read the breaker's triggers: %w", err)
	}
	var left []active
	if e.o.Resume != nil {
		left = e.takeUp(lost)
	}
	if err := e.giveBack(ctx); err != nil {
		return err
	}
	e.forsake(left)
	e.status, e.dirty = feature.Running, true
	e.recount()
	e.o.Checks(e.planned())
	e.listGates()
	e.advance(ctx)
	e.approve(ctx)
	return nil
}

// learnAt begins to learn at the rate of the settings. A rate that outcomes have
// moved goes on as it is, unless the setting is another than it was.
func (e *engine) learnAt(was float64) {
	if rate := e.s.Settings.LearningRate; e.s.History.LearningRate == nil || rate != was {
		rate = max(0, rate)
		e.s.History.LearningRate = &rate
	}
}

// alone says that no human is ever asked.
func (e *engine) alone() bool { return e.s.Settings.HumanIntervention == AskNever }

// takeUp goes on where a run was cut off, paused or stopped. What it cannot go on
// with is left.
func (e *engine) takeUp(lost string) (left []active) {
	r := Recovery{From: e.o.Resume.SessionID, Iteration: e.s.Iteration, Tasks: []string{}, Lost: lost}
	for _, a := range e.s.Active {
		r.Tasks = append(r.Tasks, a.Task)
		t := e.s.task(a.Task)
		if t.Iteration, t.Agent, t.Worker = a.Iteration, a.Agent, a.Worker; a.Attempt > 0 {
			t.Attempts = a.Attempt - 1
		}
	}
	for _, t := range e.o.Resume.Tracker.Tasks {
		e.known[t.ID] = "" // it may have been removed meanwhile
	}
	e.s.Active = []active{}
	for _, id := range slices.Sorted(maps.Keys(e.s.Tasks)) { // those that were stopped in order
		k := e.s.Tasks[id]
		if k.Iteration > 0 && !slices.Contains(r.Tasks, id) {
			r.Tasks = append(r.Tasks, id)
		}
		if _, ok := e.find(id); !ok && slices.Contains(r.Tasks, id) {
			r.Lost = join(r.Lost, "task "+id+" is not in the plan any more")
			left = append(left, active{Task: id, Iteration: k.Iteration, Attempt: k.Attempts + 1, Agent: k.Agent, Worker: k.Worker})
		}
	}
	for i, it := range e.finished {
		if it.EndedAt.IsZero() {
			e.finished[i].Status, e.finished[i].EndedAt = interrupted, e.o.Resume.UpdatedAt
		}
	}
	for id, k := range e.s.Tasks { // that it is resumed is the human's word
		k.Held, k.Refused = "", ""
		t, ok := e.find(id)
		switch {
		case !ok || k.Question == "" || !t.Status.Open():
		case e.o.Ask != nil:
			e.handOn(id, t.Title, k)
		default:
			k.Question = "" // its agent is told to decide itself
		}
	}
	for name, stands := range e.s.Gates {
		if stands != gatePassed && stands != gateAccepted {
			delete(e.s.Gates, name)
		}
	}
	e.s.Question = nil
	e.failures, e.trips = e.o.Files.Unresolved()
	e.breaker.Resume()
	e.recovery = &r
	return left
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// boundary is between two things that happen: everything is decided here.
func (e *engine) boundary(ctx context.Context) {
	defer e.show()
	e.obey(ctx)
	if ctx.Err() != nil {
		e.status = feature.Stopping
		return
	}
	if s := e.next; s != nil && (len(e.at) == 0 || s.Plan == e.s.Settings.Plan && s.Tracker == e.s.Settings.Tracker) {
		e.next = nil
		e.replan(ctx, *s)
	}
	if !e.sync(ctx) {
		e.ask(ctx)
		e.settleStatus()
		e.persist()
		return
	}
	e.stale = e.stale || e.deferred
	e.recount()
	e.advance(ctx)
	e.limit()
	if e.mayBegin() {
		e.choose(ctx)
	}
	if len(e.at) == 0 && e.end == nil && ctx.Err() == nil {
		e.rest(ctx)
	}
	e.ask(ctx)
	e.settleStatus()
	e.persist()
}

// mayBegin says that attempts may begin at all.
func (e *engine) mayBegin() bool {
	unanswerable := e.o.Ask == nil && len(e.questions) > 0
	return e.end == nil && !e.halted && e.next == nil && !e.blocked() && !unanswerable && e.unread == nil
}

// settleStatus says how the run stands now, and keeps the time of its pauses.
func (e *engine) settleStatus() {
	was, now := e.status, e.now()
	switch {
	case !e.halted:
		e.status = feature.Running
	case len(e.at) > 0:
		e.status = feature.Pausing
	default:
		e.status = feature.Paused
	}
	switch {
	case e.status == feature.Paused && e.paused.IsZero():
		e.paused = now
	case e.status != feature.Paused && !e.paused.IsZero():
		e.rested += now.Sub(e.paused)
		e.paused = time.Time{}
	}
	e.dirty = e.dirty || was != e.status
}

// worked is for how long the run was at it, in all processes.
func (e *engine) worked() time.Duration {
	now := e.now()
	d := e.s.Worked + now.Sub(e.since) - e.rested
	if !e.paused.IsZero() {
		d -= now.Sub(e.paused)
	}
	return max(0, d)
}

// obey takes what others have said.
func (e *engine) obey(ctx context.Context) {
	o := e.l.heard()
	e.halted = o.pausing
	for _, b := range o.begun {
		for i, a := range e.s.Active {
			if a.Task == b.task && a.Iteration == b.iteration {
				e.s.Active[i].Agent, e.dirty = b.agent, true
			}
		}
	}
	for _, text := range o.guide {
		e.s.Guidance, e.dirty = say(e.s.Guidance, text), true
	}
	if o.nudged {
		e.breaker.Resume()
		e.drop(func(q *question) bool { return q.Kind == askBreaker })
	}
	if o.replan != nil {
		e.next = o.replan
	}
}

// replan goes on with other settings, and with another plan if they name one:
// nothing of the old one is at work then. What
// cannot be is warned about, and the run keeps what it had.
func (e *engine) replan(ctx context.Context, s Settings) {
	old, tracker, p := e.s.Settings, e.tracker, e.p
	err := func() (err error) {
		if e.o.Open != nil && (s.Plan != old.Plan || s.Tracker != old.Tracker) {
			if tracker, err = e.o.Open(ctx, s); err != nil {
				return err
			}
			if err = e.pay(ctx); err != nil { // the other plan knows nothing of it
				return err
			}
		}
		if p, err = tracker.Load(ctx); err != nil {
			return err
		}
		s, err = s.complete(p)
		return err
	}()
	if err == nil {
		e.s.Settings = s
		was := e.p
		if err = e.adopt(p); err == nil {
			before := e.tracker
			e.tracker, e.dirty = tracker, true
			e.learnAt(old.LearningRate)
			e.compare(was, p)
			if before != tracker {
				if _, err := before.Release(ctx, e.o.Actor); err != nil {
					e.o.Warn("the tasks of the plan that was left are not given back: " + err.Error())
				}
			}
			return
		}
		e.s.Settings = old
	}
	if ctx.Err() == nil {
		e.o.Warn("the run keeps its plan and settings: " + err.Error())
	}
}

// limit ends the run when something is used up that it needs more of.
func (e *engine) limit() {
	if e.end != nil {
		return
	}
	if left, bound := e.timeLeft(); bound && left <= 0 {
		e.end = &ending{status: feature.Paused, limit: limitTime, reason: fmt.Sprintf("the time of %s is used up", e.s.Settings.Timeout)}
		e.stopped(errTime)
		return
	}
	if len(e.at) > 0 || e.remaining() > 0 {
		e.end = e.usedUp()
	}
}

// usedUp returns how a run ends of which a limit is used up, nil as long as
// something is left of all. What is at work counts as Options.Exhausted has it.
func (e *engine) usedUp() *ending {
	s, set, cost := &e.s, e.s.Settings, e.s.cost()
	var over *agent.LimitError
	if e.o.Exhausted != nil && errors.As(e.o.Exhausted(), &over) && !over.Unknown {
		return &ending{status: feature.Paused, limit: over.What, reason: over.Error()}
	}
	switch {
	case set.MaxTokens > 0 && s.Usage.Total >= set.MaxTokens:
		return &ending{status: feature.Paused, limit: limitTokens, reason: fmt.Sprintf("%d of %d tokens are used up", s.Usage.Total, set.MaxTokens)}
	case set.MaxCostUSD > 0 && s.CostUnknown:
		unknown := &agent.LimitError{What: "cost", Max: fmt.Sprintf("$%.2f", set.MaxCostUSD), Flag: "--max-cost", Unknown: true}
		return &ending{status: feature.Paused, reason: unknown.Error(), err: unknown}
	case set.MaxCostUSD > 0 && cost != nil && *cost >= set.MaxCostUSD:
		return &ending{status: feature.Paused, limit: limitCost, reason: fmt.Sprintf("$%.4f of $%.2f are used up", *cost, set.MaxCostUSD)}
	case set.MaxTurns > 0 && s.Turns >= set.MaxTurns:
		return &ending{status: feature.Paused, limit: limitTurns, reason: fmt.Sprintf("%d of %d turns are used up", s.Turns, set.MaxTurns)}
	}
	return nil
}

// timeLeft returns what this process has left of the time that --timeout gives each.
func (e *engine) timeLeft() (left time.Duration, bound bool) {
	t := e.s.Settings.Timeout
	return t - (e.worked() - e.s.Worked), t > 0
}

// await waits until something happens.
func (e *engine) await(ctx context.Context) {
	done, sleep := ctx.Done(), e.sleep()
	if ctx.Err() != nil { // what is at work is at rest soon
		done, sleep = nil, time.Hour
	}
	timer := time.NewTimer(sleep)
	defer timer.Stop()
	select {
	case r := <-e.reports:
		e.settle(ctx, r)
	case a := <-e.answers:
		e.answered(ctx, a)
	case <-e.l.wake:
	case <-timer.C:
	case <-done:
	}
}

// sleep is for how long nothing can happen by itself.
func (e *engine) sleep() time.Duration {
	d := look
	if e.wait != nil {
		d = min(d, e.wait.Until.Sub(e.now()))
	}
	if !e.retryAt.IsZero() {
		d = min(d, e.retryAt.Sub(e.now()))
	}
	if left, bound := e.timeLeft(); bound && e.status != feature.Paused {
		d = min(d, left)
	}
	return max(d, leastSleep)
}
