package breaker

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"ralph/coordinator/policy/condition"
)

// Position is where the breaker stands at now: an open one that waits for nobody
// is half-open once its recovery time has passed.
func (b *Breaker) Position(now time.Time) Position {
	if b.state.Position == Open && b.left(now) == 0 && !b.held() {
		return HalfOpen
	}
	return b.state.Position
}

// Held says that the breaker is open until a human says to go on (Resume).
func (b *Breaker) Held() bool { return b.state.Position == Open && b.held() }

func (b *Breaker) held() bool { return b.state.Held && !b.settings.Alone }

// left is how long an open breaker still waits; a clock that went back does not
// make that longer than the recovery time.
func (b *Breaker) left(now time.Time) time.Duration {
	return min(b.settings.Recovery, max(0, b.state.OpenedAt.Add(b.settings.Recovery).Sub(now)))
}

// Allow says whether an attempt at task may begin now, and notes it as a probe
// where the breaker is half-open; each attempt that was allowed is to be given to
// Record when it ends. When it may not, wait is how long until it is worth asking
// again; 0 means that only Resume, or the end of a probe, changes that.
func (b *Breaker) Allow(now time.Time, task string) (ok bool, wait time.Duration) {
	switch {
	case b.state.Position == Closed:
		return true, 0
	case b.Held():
		return false, 0
	case b.state.Position == Open:
		if wait = b.left(now); wait > 0 {
			return false, wait
		}
		b.halfOpen()
	}
	if len(b.state.Probing)+b.state.Succeeded >= b.settings.Probes {
		return false, 0
	}
	b.state.Probing = append(b.state.Probing, task)
	return true, 0
}

// Resume is the word of a human to go on: an open breaker is half-open at once.
// What was counted towards a trip begins anew; a trigger that has fired stays lit.
func (b *Breaker) Resume() {
	b.state.Refusals, b.state.Failures = 0, 0
	maps.DeleteFunc(b.state.Counts, func(_ string, r Run) bool { return !r.Lit })
	if b.state.Position == Open {
		b.halfOpen()
	}
}

func (b *Breaker) halfOpen() {
	b.state.Position, b.state.Held, b.state.Succeeded, b.state.Probing = HalfOpen, false, 0, nil
}

// Record takes the end of an attempt that was allowed and the metrics after it,
// with the confidence of that task, and returns what fired. An attempt that began
// before the breaker opened counts for the triggers only.
func (b *Breaker) Record(now time.Time, r Result, m condition.Metrics) []Trip {
	probe := slices.Index(b.state.Probing, r.Task)
	if probe >= 0 {
		b.state.Probing = slices.Delete(b.state.Probing, probe, probe+1)
	}
	if r.Void {
		return b.observe(now, r, m)
	}
	b.state.Refusals = 0
	var trips []Trip
	switch {
	case b.state.Position == Closed && r.OK:
		b.state.Failures = 0
	case b.state.Position == Closed:
		if b.state.Failures++; b.state.Failures >= b.settings.Threshold {
			trips = append(trips, b.open(Trip{
				At: now, Condition: fmt.Sprintf("consecutive failures >= %d", b.settings.Threshold), Action: AlertAndContinue,
				Reason: fmt.Sprintf("%d attempts in a row have failed, the last at %s", b.state.Failures, r.Task),
			}))
		}
	case b.state.Position == HalfOpen && probe >= 0 && r.OK:
		if b.state.Succeeded++; b.state.Succeeded >= b.settings.Probes {
			b.closed()
		}
	case b.state.Position == HalfOpen && probe >= 0:
		trips = append(trips, b.reopen(now, r.Task))
	}
	return append(trips, b.observe(now, r, m)...)
}

// reopen is what a failed probe does: what the breaker first opened for holds on.
func (b *Breaker) reopen(now time.Time, task string) Trip {
	t := Trip{At: now, Condition: "a probe failed", Action: AlertAndContinue, Reason: fmt.Sprintf("the probe %s has failed", task)}
	if c := b.state.Cause; c != nil {
		t.Condition, t.Action, t.Held = c.Condition, c.Action, c.Held
	}
	return b.open(t)
}

// Refused takes a task that was not begun for want of confidence, with the
// metrics that hold its confidence. Three in a row, of whatever tasks, open the
// breaker.
func (b *Breaker) Refused(now time.Time, task string, m condition.Metrics) []Trip {
	trips := b.observe(now, Result{Task: task, Ended: true}, m)
	if b.state.Refusals++; b.state.Refusals < maxRefusals {
		return trips
	}
	b.state.Refusals = 0
	if b.Held() {
		return trips
	}
	return append(trips, b.open(Trip{
		At: now, Condition: fmt.Sprintf("tasks refused in a row >= %d", maxRefusals), Action: PauseAndRequestHelp, Held: true,
		Reason: fmt.Sprintf("the confidence was too low %d times in a row, the last time for %s", maxRefusals, task),
	}))
}

// closed ends the recovery. Triggers stay lit while their conditions hold: what a
// human has let go on does not stop the run again by itself.
func (b *Breaker) closed() {
	b.state.Position, b.state.Held, b.state.Failures, b.state.Succeeded = Closed, false, 0, 0
	b.state.Probing, b.state.Cause, b.state.OpenedAt = nil, nil, time.Time{}
}

func (b *Breaker) open(t Trip) Trip {
	t.Opened = true
	cause := t
	b.state.Position, b.state.OpenedAt, b.state.Held, b.state.Cause = Open, t.At, t.Held, &cause
	b.state.Probing, b.state.Succeeded = nil, 0
	return t
}

// observe evaluates the triggers after r.
func (b *Breaker) observe(now time.Time, r Result, m condition.Metrics) []Trip {
	var trips []Trip
	for _, t := range b.triggers {
		if trip, fired := b.count(now, t, r, m); fired {
			trips = append(trips, trip)
		}
	}
	return trips
}

// count moves the run of one trigger. One that asks for several in a row begins
// anew when it has fired; one that does not fires again only after its condition
// was false.
func (b *Breaker) count(now time.Time, t trigger, r Result, m condition.Metrics) (Trip, bool) {
	run, several := b.state.Counts[t.Condition], t.when.Consecutive() > 1
	if several && !counted(t.when.Unit(), r) {
		return Trip{}, false
	}
	holds, err := t.when.Holds(m)
	switch {
	case err != nil:
		told := run.Err == err.Error()
		b.remember(t, Run{Err: err.Error()})
		return Trip{At: now, Condition: t.Condition, Action: AlertAndContinue, Reason: "the condition has no answer: " + err.Error()}, !told
	case !holds:
		b.remember(t, Run{})
		return Trip{}, false
	case run.Lit, several && t.when.Unit() == "tasks" && run.N > 0 && run.Task == r.Task:
		return Trip{}, false
	}
	run.N, run.Task, run.Err = run.N+1, r.Task, ""
	if run.N < t.when.Consecutive() {
		b.remember(t, run)
		return Trip{}, false
	}
	b.remember(t, Run{Lit: !several, N: 0})
	return b.fire(now, t, r), true
}

// counted says that the end of an attempt is one of what is counted.
func counted(unit string, r Result) bool {
	switch {
	case r.Void:
		return false
	case unit == "tasks":
		return r.Ended
	case unit == "checks":
		return r.Checked
	}
	return true
}

func (b *Breaker) remember(t trigger, run Run) {
	if run == (Run{}) {
		delete(b.state.Counts, t.Condition)
		return
	}
	if b.state.Counts == nil {
		b.state.Counts = map[string]Run{}
	}
	b.state.Counts[t.Condition] = run
}

func (b *Breaker) fire(now time.Time, t trigger, r Result) Trip {
	trip := Trip{At: now, Condition: t.Condition, Action: t.Action, Reason: fmt.Sprintf("%s holds after %s", t.Condition, r.Task)}
	if r.Task == "" {
		trip.Reason = t.Condition + " holds"
	}
	if !t.Action.Pauses() || b.Held() {
		return trip
	}
	trip.Held = true
	return b.open(trip)
}
