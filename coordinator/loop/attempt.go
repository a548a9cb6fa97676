package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ralph/coordinator/plan"
	"ralph/coordinator/policy/breaker"
	"ralph/coordinator/policy/decide"
	"ralph/memory/feature"
	"ralph/memory/text"
	"ralph/workers/agent"
)

// worker is a task that is at work.
type worker struct {
	order  Order
	task   plan.Task
	since  time.Time
	cancel context.CancelCauseFunc
	// gone is why it is stopped by itself; "" when it is not.
	gone string
}

// result is what came of an attempt.
type result struct {
	task   string
	report Report
}

// takenTime is for how long a task is left alone that somebody else has claimed,
// or that could not be claimed.
const takenTime = 30 * time.Second

// maxFeedbackBytes bounds what an attempt is told of the last one.
const maxFeedbackBytes = 16 << 10

// begin weighs a task and has it worked, unless the breaker, a doubt or somebody
// else is against it.
func (e *engine) begin(ctx context.Context, t *plan.Task) {
	now := e.now()
	if e.s.Settings.RequireCheck && len(e.checks(t)) == 0 {
		e.giveUp(t, "no check is known for it, and --require-check asks for one")
		return
	}
	if ok, wait := e.breaker.Allow(now, t.ID); !ok {
		if wait > 0 {
			e.waitFor("breaker", "", now.Add(wait))
		}
		return
	}
	began, probe := false, e.breaker.Position(now) == breaker.HalfOpen
	defer func() {
		if probe && !began { // it was none after all
			for _, trip := range e.breaker.Record(e.now(), breaker.Result{Task: t.ID, Void: true}, e.metrics(t.ID)) {
				e.tripped(trip, "")
			}
		}
	}()
	choice, ok := e.weigh(ctx, t)
	if !ok || ctx.Err() != nil {
		return
	}
	o := e.order(t)
	if choice.Action == decide.Delegate && e.s.Settings.Fallback != "" && o.Attempt == 1 {
		o.Agent, o.Model, o.Resume = e.s.Settings.Fallback, "", ""
	}
	text, err := e.o.Hands.Prompt(ctx, o)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		e.end = &ending{status: feature.Failed, reason: "the prompt cannot be made", err: fmt.Errorf("make the prompt of %s: %w", t.ID, err)}
		return
	}
	o.Prompt = text
	if !e.claim(ctx, t) {
		return
	}
	began = true
	e.launch(ctx, t, o, choice)
}

// claim tells the plan that a task is being worked.
func (e *engine) claim(ctx context.Context, t *plan.Task) bool {
	err := e.tracker.Mark(ctx, t.ID, e.mark(plan.InProgress, ""))
	k := e.s.task(t.ID)
	switch {
	case err == nil:
		delete(e.marks, t.ID)
		e.s.quit(t.ID)
		return true
	case ctx.Err() != nil:
	case errors.Is(err, plan.ErrTaken):
		k.NotBefore, e.dirty = e.now().Add(takenTime), true
		e.o.Warn(fmt.Sprintf("task %s is left alone: %v", t.ID, err))
	case errors.Is(err, plan.ErrNoTask):
		e.p.Stamp, e.dirty = "", true // it is read again
	default:
		k.NotBefore, e.dirty = e.now().Add(takenTime), true
		e.cannotMark(t.ID, err)
	}
	return false
}

// mark is one of this run.
func (e *engine) mark(s plan.Status, result string) plan.Mark {
	return plan.Mark{Status: s, Actor: e.o.Actor, Session: e.o.SessionID, Result: result}
}

// order says what is to be done for a task now.
func (e *engine) order(t *plan.Task) Order {
	k := e.s.known(t.ID)
	who, _ := e.worker(t, k)
	o := Order{Iteration: k.Iteration, Attempt: k.Attempts + 1, Task: *t, Agent: who, Model: e.s.Settings.Model, Whole: e.p,
		Phase: e.phaseOf(t), MaxIterations: e.s.Settings.MaxIterations, Feedback: k.Feedback, Checks: e.checks(t)}
	if o.Cut = o.Iteration > 0; !o.Cut {
		o.Iteration = e.s.Iteration + 1
	}
	if who != e.s.Settings.Agent {
		o.Model = "" // the fallback, and the agent of a task, have their own
	}
	if k.Worker == who {
		o.Resume = k.Agent
	}
	o.Guidance = append(slices.Clone(e.s.Guidance), k.Guidance...)
	for _, id := range e.needs[t.ID] {
		if need, ok := e.find(id); ok && e.stands[id] == plan.Done {
			o.Needs = append(o.Needs, Merged{ID: id, Title: need.Title, Result: text.Clip(need.Result, 2<<10)})
		}
	}
	return o
}

// checks are what the work of a task has to pass.
func (e *engine) checks(t *plan.Task) []plan.Check {
	var list []plan.Check
	add := func(command string, clean bool) {
		if command = strings.TrimSpace(command); command == "" {
			return
		}
		if i := slices.IndexFunc(list, func(c plan.Check) bool { return c.Command == command }); i >= 0 {
			list[i].Clean = list[i].Clean || clean
			return
		}
		list = append(list, plan.Check{Command: command, Clean: clean})
	}
	add(t.Check, t.Clean)
	if own := e.s.Settings.Check; own != CheckNone {
		add(own, false)
	}
	for _, g := range e.p.Gates {
		if g.Task == t.ID || g.Task == "" && g.Phase == "" {
			add(g.Check, g.Clean)
		}
	}
	return list
}

// planned are the checks of all tasks that are to be worked, and of the gates.
func (e *engine) planned() []string {
	var list []string
	for i := range e.p.Tasks {
		if t := &e.p.Tasks[i]; e.scope[t.ID] && e.stands[t.ID].Open() {
			list = append(list, plan.Commands(e.checks(t))...)
		}
	}
	for _, g := range e.p.Gates {
		list = append(list, strings.TrimSpace(g.Check))
	}
	slices.Sort(list)
	return slices.DeleteFunc(slices.Compact(list), func(c string) bool { return c == "" })
}

// launch notes that an attempt begins, durably, and has it done.
func (e *engine) launch(ctx context.Context, t *plan.Task, o Order, choice decide.Choice) {
	k := e.s.task(t.ID)
	now := e.now()
	claimed := *t
	claimed.Status = plan.InProgress // as the plan has it by now, which is read again later
	e.s.Iteration = max(e.s.Iteration, o.Iteration)
	k.Attempts, k.Iteration, k.Worker, k.NotBefore = o.Attempt, 0, o.Agent, time.Time{}
	e.s.Active = append(e.s.Active, active{Task: t.ID, Title: t.Title, Iteration: o.Iteration, Attempt: o.Attempt, Agent: o.Resume, Worker: o.Agent, Since: now})
	e.noteIteration(feature.Iteration{Iteration: o.Iteration, Status: string(feature.Running), TaskID: t.ID, TaskTitle: t.Title, StartedAt: now})
	o.Begun = func(agentID string) {
		e.l.mu.Lock()
		e.l.begun = append(e.l.begun, begun{t.ID, agentID, o.Iteration})
		e.l.mu.Unlock()
		e.l.nudge()
	}
	e.stale = true
	e.stands[t.ID] = plan.InProgress
	e.save(feature.Running)
	e.tellBegin(t, o, choice)
	work, cancel := context.WithCancelCause(ctx)
	e.at[t.ID] = &worker{order: o, task: claimed, since: now, cancel: cancel}
	e.workers.Add(1)
	go func() {
		defer e.workers.Done()
		defer cancel(nil)
		e.reports <- result{t.ID, e.do(work, o)}
	}()
}

// do has an order done; a panic of the hands is a failure of the attempt.
func (e *engine) do(ctx context.Context, o Order) (r Report) {
	defer func() {
		if p := recover(); p != nil {
			r = Report{Status: saidFailed, Kind: "execution", Problem: fmt.Sprintf("a panic: %v", p)}
		}
	}()
	return e.o.Hands.Do(ctx, o)
}

// noteIteration keeps how an iteration stands, in place of what was known of it.
func (e *engine) noteIteration(it feature.Iteration) {
	for i := len(e.finished) - 1; i >= 0; i-- {
		if old := e.finished[i]; old.Iteration == it.Iteration {
			if !old.StartedAt.IsZero() {
				it.StartedAt = old.StartedAt
			}
			e.finished[i] = it
			return
		}
	}
	e.finished = append(e.finished, it)
}

// settle takes what came of an attempt.
func (e *engine) settle(ctx context.Context, r result) {
	w := e.at[r.task]
	delete(e.at, r.task)
	e.ended = true
	e.obey(ctx) // its agent may be known by now
	rep := r.report
	e.s.spend(rep)
	k := e.s.task(r.task)
	if k.Agent = rep.Agent; k.Agent == "" {
		for _, a := range e.s.Active {
			if a.Task == r.task {
				k.Agent = a.Agent
			}
		}
	}
	e.s.rest(r.task)
	e.stale, e.dirty = true, true
	j := judge(w.order, rep, e.s.Settings.RequireCheck)
	if w.gone != "" {
		j = judgement{end: endGone, why: w.gone}
	} else if ctx.Err() != nil && j.end != endDone { // what it says of itself is not its fault
		j = judgement{end: endInterrupted, why: "the run was stopped"}
	}
	var limit *agent.LimitError
	if j.end == endFailed && errors.As(rep.Err, &limit) && e.usedUp() != nil { // of the run, and not of this attempt
		j = judgement{end: endInterrupted, why: limit.Error(), limit: true}
	}
	j.sure = rep.Confidence
	e.apply(ctx, w, rep, j)
	if ctx.Err() != nil {
		return // what is owed is paid once the stop is over
	}
	e.report()
	// The outcome is durable before the plan is told of it: whatever is cut off
	// between the two is made up for at the next start.
	e.save(e.status)
	e.payUp(ctx)
}

// pay tells the plan what it is owed; what it does not take stays owed.
func (e *engine) pay(ctx context.Context) error {
	for len(e.s.Owed) > 0 {
		o := e.s.Owed[0]
		err := e.tracker.Mark(ctx, o.Task, o.Mark)
		switch {
		case err == nil, errors.Is(err, plan.ErrNoTask):
		case errors.Is(err, plan.ErrTaken):
			e.o.Warn(fmt.Sprintf("task %s is not marked %s: %v", o.Task, o.Mark.Status, err))
		default:
			return fmt.Errorf("mark task %s %s: %w", o.Task, o.Mark.Status, err)
		}
		delete(e.marks, o.Task)
		e.s.Owed, e.dirty = slices.Delete(e.s.Owed, 0, 1), true
	}
	return nil
}

// payUp is pay, and what is done when that fails.
func (e *engine) payUp(ctx context.Context) {
	if e.unread != nil || len(e.s.Owed) == 0 {
		return
	}
	if err := e.pay(ctx); err != nil && ctx.Err() == nil {
		e.cannotMark(e.s.Owed[0].Task, err)
	}
}
