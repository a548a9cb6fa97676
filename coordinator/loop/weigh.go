package loop

import (
	"context"
	"fmt"

	"ralph/coordinator/plan"
	"ralph/coordinator/policy/decide"
)

// weigh decides about a task that is ready, and says whether it is to be worked
// now.
func (e *engine) weigh(ctx context.Context, t *plan.Task) (decide.Choice, bool) {
	k := e.s.known(t.ID)
	f := e.facts(ctx, t, k)
	c := decide.Choose(f)
	if ctx.Err() != nil {
		return c, false
	}
	if c.Action == decide.Wait && len(e.at) > 0 {
		return c, false // it is weighed again when something has ended
	}
	count := &e.s.Tally
	count.Confidence, count.Confidences, count.Decided = c.Sum.Value, count.Confidences+c.Sum.Value, count.Decided+1
	k = e.s.task(t.ID)
	k.Sure, e.dirty = c.Sum.Value, true
	answer, why := decide.Verdict(c.Sum, e.rules(k, c))
	switch {
	case k.Permitted:
		answer, why = decide.Act, "the user said so"
	case k.Attempts > 0 || k.Iteration > 0:
		answer, why = decide.Act, "it was begun before"
	case answer == decide.Ask && e.merelyShort(k, f):
		answer, why = decide.Act, why+", but only because the task is short, which the approval of the plan covers"
	case answer == decide.Act && c.Action == decide.Escalate && !e.alone():
		answer = decide.Ask
	}
	switch answer {
	case decide.Ask:
		e.tellChoice(t, c, string(decide.Escalate), why)
		e.unsure(t, c, why)
		return c, false
	case decide.Refuse:
		e.tellChoice(t, c, string(decide.Wait), why)
		k.Refused = why
		for _, trip := range e.breaker.Refused(e.now(), t.ID, e.metrics(t.ID)) {
			e.tripped(trip, "")
		}
		return c, false
	}
	action := c.Action
	switch action {
	case decide.Wait, decide.Skip, decide.Escalate: // nothing else is at work, and nobody said to leave it
		action = decide.Execute
	}
	if action == decide.Delegate && e.s.Settings.Fallback == "" {
		action = decide.Execute
	}
	c.Action = action
	e.tellChoice(t, c, string(action), why)
	return c, true
}

// rules returns what the verdict about a task depends on besides its confidence.
func (e *engine) rules(k *taskState, c decide.Choice) decide.Rules {
	return decide.Rules{Mode: decide.Mode(e.s.Settings.HumanIntervention), Threshold: max(0, e.s.Settings.ConfidenceThreshold),
		Asked: k.Asked, Risk: c.Risk, RiskTolerance: max(0, e.s.Settings.RiskTolerance)}
}

// merelyShort reports whether a task would be worked unasked if it said more of
// itself. With ask_first the plan was approved as it is, so that is not asked about.
func (e *engine) merelyShort(k *taskState, f decide.Facts) bool {
	if e.s.Settings.HumanIntervention != askFirst {
		return false
	}
	f.Description, f.Criteria, f.Check, f.Bounded = true, true, true, true
	full := decide.Choose(f)
	answer, _ := decide.Verdict(full.Sum, e.rules(k, full))
	return answer == decide.Act
}

// facts are what can be seen of a task, with what the loop knows itself.
func (e *engine) facts(ctx context.Context, t *plan.Task, k *taskState) decide.Facts {
	f := e.o.Hands.Facts(ctx, *t)
	f.Task = t.ID
	f.Dependencies, f.Merged = len(e.needs[t.ID]), 0
	for _, id := range e.needs[t.ID] {
		if e.stands[id] == plan.Done {
			f.Merged++
		}
	}
	f.History, f.Like = e.s.History.Like(t.Kind, e.phaseOf(t), t.Labels)
	f.Attempts, f.Agents, f.RiskTolerance = k.Failures, 1, max(0, e.s.Settings.RiskTolerance)
	if other := e.s.Settings.Fallback; other != "" && other != e.s.Settings.Agent {
		f.Agents++
	}
	return f
}

// unsure asks whether a task is to be worked that the loop does not dare alone.
func (e *engine) unsure(t *plan.Task, c decide.Choice, why string) {
	id, title := t.ID, t.Title
	text := fmt.Sprintf("Work %s (%s)? %s", id, title, why)
	e.raise(askConfidence, id, text, []string{sayGo, saySkip, sayStop}, func(_ context.Context, option, said string) {
		k := e.s.task(id)
		k.Asked, k.Refused = false, ""
		if option == saySkip {
			if now, ok := e.find(id); ok {
				e.leave(now, "the user left it out")
			}
			return
		}
		if k.Permitted = true; said != "" {
			k.Guidance = say(k.Guidance, said)
		}
	})
}
