package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"strconv"
	"strings"
	"time"

	"ralph/coordinator/plan"
	"ralph/coordinator/policy/breaker"
	"ralph/coordinator/policy/fault"
	"ralph/memory/feature"
	"ralph/memory/text"
)

// strategy is what is done about a failure.
type strategy string

func (s strategy) known() bool {
	_, ok := fault.ParseStrategy(string(s))
	return ok
}

const (
	// quotaWait is how long an agent is left alone that says it may not work and not
	// for how long; it doubles up to quotaMost.
	quotaWait = time.Minute
	quotaMost = 15 * time.Minute
	// patience is the longest that a run waits for an agent by itself.
	patience = 24 * time.Hour
)

// apply does what follows from what an attempt came to.
func (e *engine) apply(ctx context.Context, w *worker, r Report, j judgement) {
	k := e.s.task(w.task.ID)
	fails := e.remember(w, k, r, j)
	why := j.why
	switch j.end {
	case endDone:
		e.done(w, k, r, j)
	case endGone:
		e.over(w, k, r, plan.Skipped, j)
		e.s.quit(w.task.ID) // the plan has its own word on it
		delete(e.s.Tasks, w.task.ID)
	case endInterrupted:
		e.interrupt(ctx, w, k, j)
	case endQuota:
		e.limited(w, k, r)
	case endQuestion:
		k.Iteration = 0
		e.asksHuman(w, k, j)
	case endFailed:
		if fails && e.again(w, k) {
			e.retry(w, k, j, fault.Response{Strategy: fault.Retry, Reason: "the breaker asks for another way"})
			break
		}
		e.fail(ctx, w, k, r, j)
	}
	e.tellEnd(w, r, j, k)
	e.noteIteration(feature.Iteration{Iteration: w.order.Iteration, Status: string(j.end), TaskID: w.task.ID, TaskTitle: w.task.Title, TaskCompleted: j.end == endDone,
		DurationMS: float64(e.now().Sub(w.since).Milliseconds()), Error: why, StartedAt: w.since, EndedAt: e.now()})
}

// remember counts what an attempt came to, and lets the breaker and what is
// learned know. It says whether the breaker asks for another way.
func (e *engine) remember(w *worker, k *taskState, r Report, j judgement) (adjust bool) {
	if j.futile { // nothing was tried
		k.Failures++
		return false
	}
	c := &e.s.Tally
	void := j.end != endDone && j.end != endFailed || r.Down
	if !void {
		c.Ended++
		for _, check := range r.Checks {
			c.Checks++
			if check.Failed() {
				c.CheckFailures++
			}
		}
		print := resultPrint(r, j)
		if said := first(r.Summary, r.Final) != ""; len(r.Files) > 0 || r.Landing == landedMerged || said && print != k.Last {
			c.Idle = 0
		} else {
			c.Idle++
		}
		k.Last = print
	}
	checked := len(r.Checks) > 0
	switch {
	case r.Down:
		c.Errors++
		k.Failures++
	case j.end == endDone:
		c.InARow = 0
		e.s.Limits[w.order.Agent] = 0
	case j.end == endFailed:
		c.Failed++
		c.Errors++
		c.InARow++
		k.Failures++
	}
	again := false
	if j.end == endFailed {
		_, does := e.respond(&w.task, k, j.kind, j.futile, r.RetryAfter)
		again = does.Strategy == fault.Retry || does.Strategy == fault.Alternative
	}
	// A check that sends the work back is how the loop goes; it says nothing about
	// whether it should go on.
	trips := e.breaker.Record(e.now(), breaker.Result{Task: w.task.ID, OK: j.end == endDone, Ended: j.end == endDone || j.end == endFailed && !again,
		Void: void || again && j.kind == fault.Validation, Checked: checked}, e.metrics(w.task.ID))
	for _, t := range trips {
		why := ""
		if j.end == endFailed {
			why = j.why
		}
		e.tripped(t, why)
		adjust = adjust || t.Action == breaker.AdjustPromptAndRetry
	}
	e.closedAgain()
	if j.end == endDone || j.end == endFailed && !again && !r.Down {
		e.s.History.Learn(w.task.Kind, e.phaseOf(&w.task), w.task.Labels, j.end == endDone)
	}
	return adjust
}

// resultPrint tells results apart.
func resultPrint(r Report, j judgement) string {
	h := fnv.New64a()
	for _, s := range []string{string(j.end), j.why, r.Summary, r.Final, r.Problem} {
		_, _ = h.Write(append([]byte(s), 0)) // a hash takes all
	}
	for _, c := range r.Checks {
		_, _ = h.Write([]byte(c.Output + "\x00" + strconv.Itoa(c.ExitCode)))
	}
	return strconv.FormatUint(h.Sum64(), 36)
}

func (e *engine) retries() int {
	switch n := e.s.Settings.Retries; {
	case n == 0:
		return fault.DefaultRetries
	case n < 0:
		return 0
	default:
		return n
	}
}

// done closes a task.
func (e *engine) done(w *worker, k *taskState, r Report, j judgement) {
	if k.Mine, k.Commit = true, ""; r.Landing == landedMerged {
		k.Commit = r.Commit
	}
	if !j.verified {
		e.o.Warn(fmt.Sprintf("task %s is done, and nothing has checked it", w.task.ID))
	}
	e.over(w, k, r, plan.Done, j)
}

// over ends a task for this run, and owes the plan its end.
func (e *engine) over(w *worker, k *taskState, r Report, s plan.Status, j judgement) {
	id := w.task.ID
	k.Over, k.Why, k.Verified, k.Print = s, j.why, j.verified, "" // the print is taken once the plan has it
	k.Iteration, k.NotBefore, k.Held = 0, time.Time{}, ""
	m := e.mark(s, first(r.Summary, r.Final))
	m.Commit = r.Commit
	if s != plan.Done {
		m.Result = j.why
	}
	m.Result = text.Clip(text.FirstLine(strings.TrimSpace(m.Result)), 500)
	e.s.owe(&w.task, m)
	e.drop(func(q *question) bool { return q.TaskID == id })
}

// leave skips a task that was not begun.
func (e *engine) leave(t *plan.Task, why string) {
	k := e.s.task(t.ID)
	k.Over, k.Why, k.Print = plan.Skipped, why, ""
	e.s.owe(t, e.mark(plan.Skipped, why))
	e.stands[t.ID] = plan.Skipped
	e.tellLeft(t, plan.Skipped, why)
}

// giveUp fails a task that was not begun.
func (e *engine) giveUp(t *plan.Task, why string) {
	k := e.s.task(t.ID)
	k.Over, k.Why, k.Print = plan.Failed, why, ""
	m := e.mark(plan.Failed, why)
	m.Note = why
	e.s.owe(t, m)
	e.stands[t.ID], e.stale, e.dirty = plan.Failed, true, true
	e.o.Warn(fmt.Sprintf("task %s is not begun: %s", t.ID, why))
	e.tellLeft(t, plan.Failed, why)
}

// interrupt leaves an attempt as it is: it goes on with the same iteration.
func (e *engine) interrupt(ctx context.Context, w *worker, k *taskState, j judgement) {
	k.Iteration, k.Attempts = w.order.Iteration, w.order.Attempt-1
	e.s.owe(&w.task, e.mark(plan.Interrupted, ""))
	if ctx.Err() == nil && !j.limit { // somebody has stopped this one alone
		k.Held = first(j.why, "it was stopped")
	}
}

// limited takes an agent out until it may work again. The attempt did not count:
// it goes on with the same iteration.
func (e *engine) limited(w *worker, k *taskState, r Report) {
	who := w.order.Agent
	n := e.s.Limits[who]
	wait := r.RetryAfter
	if wait <= 0 {
		wait = min(quotaMost, quotaWait<<min(n, 6))
	}
	e.s.Limits[who] = n + 1
	until := e.now().Add(wait)
	if until.After(e.s.Limited[who]) {
		e.s.Limited[who] = until
	}
	k.Iteration, k.Attempts = w.order.Iteration, w.order.Attempt-1
	e.s.owe(&w.task, e.mark(plan.Pending, ""))
	next, free := e.worker(&w.task, k)
	if next != who && !free.After(e.now()) {
		wait = 0
	}
	e.tellRetry(w, string(fault.Resource), first(r.Problem, "the agent may not work now"), wait, next)
	if wait > patience && e.end == nil {
		e.end = &ending{status: feature.Paused, limit: limitRate, after: wait, reason: fmt.Sprintf("agent %s may not work for %s", first(who, "ralph"), wait.Round(time.Minute))}
	}
}

// asksHuman hands the question of an agent on.
func (e *engine) asksHuman(w *worker, k *taskState, j judgement) {
	id, content := w.task.ID, j.why
	k.Feedback = "Your question was not answered: " + text.Clip(content, maxFeedbackBytes) + "\nDecide yourself where you can."
	e.s.owe(&w.task, e.mark(plan.Interrupted, ""))
	if e.alone() {
		k.Failures++
		if k.Failures > e.retries() {
			e.over(w, k, Report{}, plan.Failed, judgement{why: "it asks, and nobody may be asked: " + content})
			return
		}
		return
	}
	k.Question = content
	e.handOn(id, w.task.Title, k)
}

// handOn asks the human what the agent of a task asks.
func (e *engine) handOn(id, title string, k *taskState) {
	content := k.Question
	e.raise(askAgent, id, fmt.Sprintf("%s (%s) asks: %s", id, title, content), nil, func(_ context.Context, _, said string) {
		k.Feedback, k.Question = "", ""
		k.Guidance = say(k.Guidance, "You asked: "+text.Clip(content, 2<<10)+"\nThe user answers: "+first(said, "go on as you think best"))
	})
}

// again says that a task gets one more attempt because a breaker asks for another
// way; once.
func (e *engine) again(w *worker, k *taskState) bool {
	if k.Adjusted {
		return false
	}
	k.Adjusted = true
	k.Guidance = say(k.Guidance, fmt.Sprintf("%d attempts at this came to nothing. Do not repeat them: take a different way, in smaller steps, and check each.", max(1, k.Failures)))
	return true
}

// respond is what was asked for about a failure, and what is done about it: a retry
// ends with the retries.
func (e *engine) respond(t *plan.Task, k *taskState, kind fault.Kind, futile bool, after time.Duration) (wanted, does fault.Response) {
	rules := fault.Rules{Flag: e.s.Settings.OnError, Task: t.OnFailure, Plan: e.p.Strategies, Retries: math.MaxInt,
		Alternative: !k.Tried && (t.Fallback != "" || e.s.Settings.Fallback != "")}
	wanted = fault.Respond(kind, rules, k.Failures, after)
	rules.Retries = e.retries()
	if futile {
		rules.Retries = 0
	}
	return wanted, fault.Respond(kind, rules, k.Failures, after)
}

// fail does about a failed attempt what was asked for.
func (e *engine) fail(ctx context.Context, w *worker, k *taskState, r Report, j judgement) {
	t := &w.task
	wanted, does := e.respond(t, k, j.kind, j.futile, r.RetryAfter)
	if r.Landing == landedHeld && (does.Strategy == fault.Retry || does.Strategy == fault.Alternative) {
		does.Strategy = fault.Escalate // it waits for the user's own change, and doing it again does not help
	}
	switch {
	case j.futile && does.Strategy != fault.Alternative && w.order.Agent == e.s.Settings.Agent:
		e.unable(w, k, r, j)
		return
	case does.Strategy == fault.Retry:
		e.retry(w, k, j, does)
		return
	case does.Strategy == fault.Alternative:
		k.Tried, k.Other = true, e.s.Settings.Fallback != ""
		if t.Fallback != "" {
			k.Guidance = say(k.Guidance, "What was tried first did not work. Do this instead: "+t.Fallback)
		}
		e.retry(w, k, j, does)
		return
	case r.Down:
		e.down(w, k, r, j)
		return
	case does.Strategy == fault.Escalate && !e.alone():
		e.escalate(w, k, j, wanted)
		return
	}
	mode := e.s.Settings.HumanIntervention
	if (mode == askError || mode == askAlways) && does.Strategy != fault.Abort {
		e.escalate(w, k, j, wanted)
		return
	}
	status := plan.Failed
	if wanted.Strategy == fault.Skip {
		status = plan.Skipped
	}
	e.tellFailure(w, k, j, cmp.Or(wanted.Strategy, fault.Skip), false)
	e.over(w, k, r, status, j)
	if does.Strategy == fault.Abort && e.end == nil {
		e.end = &ending{status: feature.Failed, reason: fmt.Sprintf("task %s failed, and that ends the run: %s", t.ID, j.why)}
	}
}

// unable ends a run whose agent cannot work at all: no task is to blame for that,
// so they stay open.
func (e *engine) unable(w *worker, k *taskState, r Report, j judgement) {
	e.tellFailure(w, k, j, fault.Abort, false)
	k.Attempts, k.Failures = w.order.Attempt-1, max(0, k.Failures-1)
	e.s.owe(&w.task, e.mark(plan.Pending, ""))
	if e.end == nil {
		e.end = &ending{status: feature.Paused, reason: j.why, err: cmp.Or(r.Err, errors.New(j.why))}
	}
}

// down ends a run, which can go on, because its agents cannot be asked: no other
// task would fare better.
func (e *engine) down(w *worker, k *taskState, r Report, j judgement) {
	e.tellFailure(w, k, j, fault.Abort, false)
	k.Failures, k.Iteration, k.Attempts = 0, w.order.Iteration, w.order.Attempt-1
	e.s.owe(&w.task, e.mark(plan.Interrupted, ""))
	if e.end == nil {
		e.end = &ending{status: feature.Paused, reason: "the model cannot be asked: " + j.why, err: r.Err}
	}
}

// retry has a task tried again after a wait.
func (e *engine) retry(w *worker, k *taskState, j judgement, does fault.Response) {
	e.s.Tally.Retries++
	k.Feedback = j.feedback
	if does.Wait > 0 {
		k.NotBefore = e.now().Add(does.Wait)
	}
	e.tellFailure(w, k, j, does.Strategy, true)
	e.tellRetry(w, string(j.kind), j.why, does.Wait, "")
	e.s.owe(&w.task, e.mark(plan.Pending, ""))
}

// escalate asks what is to be done about a task that has failed.
func (e *engine) escalate(w *worker, k *taskState, j judgement, does fault.Response) {
	id, t := w.task.ID, w.task
	e.tellFailure(w, k, j, fault.Escalate, false)
	e.s.owe(&w.task, e.mark(plan.Interrupted, ""))
	k.Feedback = j.feedback
	text := fmt.Sprintf("%s (%s) has failed: %s", id, t.Title, j.why)
	e.raise(askAboutError, id, text, []string{sayRetry, saySkip, sayFail, sayStop}, func(_ context.Context, option, said string) {
		switch option {
		case saySkip, sayFail:
			status := plan.Skipped
			if option == sayFail {
				status = plan.Failed
			}
			if now, ok := e.find(id); ok { // it was asked a while ago
				w.task = *now
			}
			e.over(w, k, Report{}, status, j)
			e.tellOver(w, k)
		default:
			if k.Failures = 0; said != "" {
				k.Guidance = say(k.Guidance, said)
			}
		}
	})
}

// tripped does what a breaker that fired asks for.
func (e *engine) tripped(t breaker.Trip, why string) {
	e.tellTrip(t)
	if !t.Held || !e.breaker.Held() {
		return
	}
	e.needHelp(t, why)
}

// maxWhyBytes bounds the failure in a question, which names the file at fault.
const maxWhyBytes = 500

// needHelp asks the human to look at what the breaker stopped; why is what the last attempt
// failed of, "" where it did not.
func (e *engine) needHelp(t breaker.Trip, why string) {
	what := "Go on?"
	switch t.Action {
	case breaker.PauseAndReview:
		what = "Look at what was done, then say go."
	case breaker.PauseAndReviewMethodology:
		what = "Look at how the tasks are worked, then say go, or how to go on."
	}
	if why != "" {
		what = "The last attempt failed: " + text.Clip(strings.TrimSuffix(why, "."), maxWhyBytes) + ". " + what
	}
	e.raise(askBreaker, "", fmt.Sprintf("The breaker is open: %s. %s", strings.TrimSuffix(t.Reason, "."), what), []string{sayGo, sayStop}, func(_ context.Context, _, said string) {
		e.breaker.Resume()
		for _, k := range e.s.Tasks {
			k.Refused = ""
		}
		if said != "" {
			e.s.Guidance = say(e.s.Guidance, said)
		}
	})
}

// closedAgain notes that the breaker has closed.
func (e *engine) closedAgain() {
	if e.breaker.Position(e.now()) == breaker.Closed {
		e.closeTrips()
	}
}

// triggers returns the conditions of the breaker: those of the plan, else the
// defaults.
func (e *engine) triggers() []breaker.Trigger {
	if len(e.p.Triggers) == 0 {
		return breaker.Defaults()
	}
	var list []breaker.Trigger
	for _, t := range e.p.Triggers {
		list = append(list, breaker.Trigger{Condition: t.Condition, Action: breaker.Action(t.Action)})
	}
	return list
}
