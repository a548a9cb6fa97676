package loop

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"ralph/coordinator/permission"

	"ralph/coordinator/plan"
	"ralph/coordinator/policy/breaker"
	"ralph/coordinator/policy/decide"
	"ralph/coordinator/policy/fault"
	"ralph/memory/feature"
	"ralph/memory/session/folder"
	"ralph/memory/text"
	"ralph/workers/agent"
)

// maxRecent bounds what a View shows of what is over, and of what is next.
const maxRecent = 10

// maxToldBytes bounds a text that is repeated in a session's files.
const maxToldBytes = 400

// emit tells what happens.
func (e *engine) emit(ev agent.Event) { e.o.Emit(ev) }

func yes(b bool) *bool { return &b }

func millis(d time.Duration) *int64 {
	n := d.Milliseconds()
	return &n
}

// kindOf is of what kind a task is, by the plan's own word or by a label.
func kindOf(t *plan.Task) string {
	if t.Kind != "" {
		return strings.ToLower(t.Kind)
	}
	for _, l := range t.Labels {
		switch l = strings.ToLower(l); l {
		case "bug", "feature", "chore":
			return l
		}
	}
	return "task"
}

// tracked is how a task stands in the words of the session's files.
func (e *engine) tracked(t *plan.Task) folder.TaskStatus {
	k := e.s.known(t.ID)
	switch e.stands[t.ID] {
	case plan.Done:
		return folder.TaskCompleted
	case plan.Failed:
		return folder.TaskError
	case plan.Skipped:
		return folder.TaskSkipped
	case plan.InProgress:
		if e.at[t.ID] != nil {
			return folder.TaskInProgress
		}
	case plan.Interrupted:
		return folder.TaskPaused
	}
	// What was begun rests; so does what was done and is to be done again.
	if k.Attempts > 0 || k.Iteration > 0 || k.Again {
		return folder.TaskPaused
	}
	return folder.TaskPending
}

// track brings the session's files up to how the tasks stand.
func (e *engine) track() {
	var list []folder.TaskState
	for i := range e.p.Tasks {
		t := &e.p.Tasks[i]
		now := folder.TaskStatus("")
		switch was := e.known[t.ID]; {
		case e.scope[t.ID]:
			now = e.tracked(t)
		case was == "" || was == folder.TaskCompleted || was == folder.TaskError:
			continue
		default:
			now = folder.TaskSkipped
		}
		if e.known[t.ID] != now {
			e.known[t.ID] = now
			list = append(list, folder.TaskState{TaskID: t.ID, Status: now, Details: first(text.Clip(e.s.known(t.ID).Why, maxToldBytes), text.Clip(t.Result, maxToldBytes))})
		}
	}
	if len(list) > 0 {
		e.o.Files.Tasks(list...)
	}
	var gone []string
	for id := range e.known {
		if _, ok := e.find(id); !ok && e.at[id] == nil {
			gone = append(gone, id)
			delete(e.known, id)
		}
	}
	if len(gone) > 0 {
		e.o.Files.Forget(gone...)
	}
}

// tellChoice records a decision about a task, and what it was decided from.
func (e *engine) tellChoice(t *plan.Task, c decide.Choice, action, why string) {
	d := folder.Decision{TaskID: t.ID, DecisionType: folder.DecisionTask}
	if action == string(decide.Retry) {
		d.DecisionType = folder.DecisionRetry
	}
	d.Context.CurrentTask = text.Clip(t.Title, maxToldBytes)
	for _, a := range c.Available {
		d.Context.AvailableActions = append(d.Context.AvailableActions, string(a))
	}
	d.Context.Risk.Execution, d.Context.Risk.Resource, d.Context.Risk.Dependency = c.Risk.Execution, c.Risk.Resource, c.Risk.Dependency
	d.Decision.Action, d.Decision.Confidence, d.Decision.Rationale = action, c.Sum.Value, join(c.Rationale, why)
	for _, s := range c.Scores {
		if string(s.Action) != action && slices.Contains(c.Available, s.Action) {
			d.Against(string(s.Action), s.Score)
		}
	}
	e.choices[t.ID] = e.o.Files.Decide(d)
	e.o.Files.Log(folder.Event{Type: folder.Decided, TaskID: t.ID, TaskName: t.Title, Result: action,
		Details: map[string]any{"decision_type": d.DecisionType, "confidence": c.Sum.Value, "why": text.Clip(why, maxToldBytes)}})
	e.emit(agent.Event{Type: agent.EventDecision, TaskID: t.ID, Text: fmt.Sprintf("%s %s: confidence %.2f", action, t.ID, c.Sum.Value), Status: action, Reason: why})
	e.l.explain(t.ID, fmt.Sprintf("decided: %s (%s)\nconfidence:\n%s\nscores: %s", action, d.Decision.Rationale, c.Sum.String(), scores(c.Scores)))
}

func scores(list []decide.Alternative) string {
	var parts []string
	for _, a := range list {
		parts = append(parts, fmt.Sprintf("%s %.2f", a.Action, a.Score))
	}
	return strings.Join(parts, ", ")
}

// tellOutcome says how the last decision about a task turned out.
func (e *engine) tellOutcome(id, outcome string) {
	if n := e.choices[id]; n != 0 {
		e.o.Files.Outcome(n, outcome)
		delete(e.choices, id)
	}
}

// tellBegin tells that an attempt begins.
func (e *engine) tellBegin(t *plan.Task, o Order, c decide.Choice) {
	e.known[t.ID] = folder.TaskInProgress
	e.o.Files.Task(folder.TaskState{TaskID: t.ID, Status: folder.TaskInProgress})
	e.o.Files.Log(folder.Event{Type: folder.TaskStart, TaskID: t.ID, TaskName: t.Title,
		Details: map[string]any{"task_kind": kindOf(t), "iteration": o.Iteration, "attempt": o.Attempt, "agent": o.Agent, "resume": o.Resume, "confidence": c.Sum.Value}})
	e.emit(agent.Event{Type: agent.EventTaskStart, TaskID: t.ID, Text: t.Title, Attempt: o.Attempt, Ref: o.Agent, Turn: o.Iteration})
}

// tellEnd tells what an attempt came to, and that its task is over if it is.
func (e *engine) tellEnd(w *worker, r Report, j judgement, k *taskState) {
	id, t := w.task.ID, &w.task
	status, how := folder.TaskPaused, string(j.end)
	switch {
	case j.end == endGone:
		status = folder.TaskSkipped
	case k.Over == plan.Done:
		status, how = folder.TaskCompleted, string(plan.Done)
	case k.Over == plan.Failed:
		status, how = folder.TaskError, string(plan.Failed)
	case k.Over == plan.Skipped:
		status, how = folder.TaskSkipped, string(plan.Skipped)
	case j.end == endFailed && k.NotBefore.After(e.now()), j.end == endFailed && !e.questioned(id):
		how = "retry"
	}
	e.tellOutcome(id, how)
	result := text.Clip(text.FirstLine(strings.TrimSpace(first(r.Summary, r.Final))), maxToldBytes)
	if j.end != endDone {
		result = text.Clip(j.why, maxToldBytes)
	}
	e.known[id] = status
	took := e.o.Files.Task(folder.TaskState{TaskID: id, Status: status, Details: result, Artifacts: r.Files})
	over := status != folder.TaskPaused
	if j.end == endDone {
		for _, n := range e.failures[id] {
			e.o.Files.Resolve(n, string(fault.Retry), k.Failures)
		}
		delete(e.failures, id)
	}
	if over {
		e.o.Files.Log(folder.Event{Type: folder.TaskComplete, TaskID: id, TaskName: t.Title, Result: how, Duration: took, Details: evidence(w, r, j)})
	}
	e.emit(agent.Event{Type: agent.EventTaskEnd, TaskID: id, Text: t.Title, Status: how, Reason: j.why, OK: yes(j.end == endDone), Attempt: w.order.Attempt,
		Output: proof(r, j), Ref: r.Agent, DurationMS: millis(e.now().Sub(w.since)), WorkedMS: took.Milliseconds(), Turn: w.order.Iteration})
	if over || j.end == endInterrupted {
		e.ends = append(e.ends, TaskEnd{ID: id, Title: t.Title, Status: how, Why: j.why, Verified: j.verified, Iteration: w.order.Iteration, Attempts: w.order.Attempt, Report: r})
	}
	e.note(Row{ID: id, Title: t.Title, Status: how, Agent: cmp.Or(r.Agent, w.order.Agent), Attempt: w.order.Attempt, Since: e.now(), Reason: j.why})
}

// proof says in a few words what became of the work of a task that is done, and
// what showed that it is.
func proof(r Report, j judgement) string {
	if j.end != endDone {
		return ""
	}
	landed, checked := "nothing changed", "not checked"
	if r.Landing == landedMerged {
		landed = strings.TrimSpace("merged " + r.Commit[:min(len(r.Commit), 8)])
	}
	switch {
	case j.verified && len(r.Checks) == 1:
		checked = "check passed"
	case len(r.Checks) > 0 && !j.verified:
		checked = "not verified: " + r.Checks[len(r.Checks)-1].Excused
	case j.verified:
		checked = fmt.Sprintf("%d checks passed", len(r.Checks))
	}
	return landed + ", " + checked
}

// note keeps what a View shows of what is over, the newest first.
func (e *engine) note(r Row) {
	e.recent = slices.Insert(e.recent, 0, r)
	e.recent = e.recent[:min(len(e.recent), maxRecent)]
}

// evidence is what proves an end, for the log.
func evidence(w *worker, r Report, j judgement) map[string]any {
	checks := []any{}
	for _, c := range r.Checks {
		checks = append(checks, map[string]any{"command": c.Command, "exit_code": c.ExitCode, "timed_out": c.TimedOut})
	}
	d := map[string]any{"task_kind": kindOf(&w.task), "iteration": w.order.Iteration, "attempts": w.order.Attempt, "verified": j.verified, "declared": r.Declared, "landing": r.Landing,
		"commit": r.Commit, "branch": r.Branch, "checks": checks, "files": len(r.Files), "turns": r.Turns, "tool_calls": r.ToolCalls, "usage": r.Usage, "agent": r.Agent}
	if j.why != "" {
		d["why"] = text.Clip(j.why, maxToldBytes)
	}
	if r.CostUSD != nil {
		d["cost_usd"] = *r.CostUSD
	}
	if r.Confidence != nil {
		d["confidence"] = *r.Confidence
	}
	if r.Context > 0 {
		d["context_tokens"] = r.Context
	}
	return d
}

// tellOver tells that a task is over without an attempt that ends.
func (e *engine) tellOver(w *worker, k *taskState) {
	e.ends = append(e.ends, TaskEnd{ID: w.task.ID, Title: w.task.Title, Status: string(k.Over), Why: k.Why, Iteration: w.order.Iteration, Attempts: w.order.Attempt})
	e.tellEnded(&w.task, k.Over, k.Why)
}

// tellLeft tells that a task is not begun because of another.
func (e *engine) tellLeft(t *plan.Task, s plan.Status, why string) {
	e.ends = append(e.ends, TaskEnd{ID: t.ID, Title: t.Title, Status: string(s), Why: why})
	e.tellEnded(t, s, why)
}

// tellGone tells that a task is not in the plan any more.
func (e *engine) tellGone(t *plan.Task, why string) { e.tellEnded(t, plan.Skipped, why) }

func (e *engine) tellEnded(t *plan.Task, s plan.Status, why string) {
	id, title := t.ID, t.Title
	status := folder.TaskSkipped
	if s == plan.Failed {
		status = folder.TaskError
	}
	if e.known[id] == folder.TaskCompleted {
		return // what was done stays so in the story of this session
	}
	e.known[id] = status
	e.o.Files.Task(folder.TaskState{TaskID: id, Status: status, Details: text.Clip(why, maxToldBytes)})
	e.o.Files.Log(folder.Event{Type: folder.TaskComplete, TaskID: id, TaskName: title, Result: string(s), Details: map[string]any{"task_kind": kindOf(t), "why": text.Clip(why, maxToldBytes)}})
	e.emit(agent.Event{Type: agent.EventTaskEnd, TaskID: id, Text: title, Status: string(s), Reason: why, OK: yes(false)})
	e.note(Row{ID: id, Title: title, Status: string(s), Since: e.now(), Reason: why})
}

// tellFailure records that an attempt has failed, and what is done about it.
func (e *engine) tellFailure(w *worker, k *taskState, j judgement, does fault.Strategy, again bool) {
	id := w.task.ID
	n := e.o.Files.Fail(folder.Failure{TaskID: id, ErrorType: string(j.kind), ErrorMessage: text.Clip(j.why, maxToldBytes), Severity: folder.Severity(fault.Severity(j.kind, does)),
		RetryCount: max(0, k.Failures-1), RecoveryAction: string(does)})
	e.failures[id] = append(e.failures[id], n)
	details := map[string]any{"kind": string(j.kind), "task_kind": kindOf(&w.task), "strategy": string(does), "again": again, "iteration": w.order.Iteration, "attempt": w.order.Attempt}
	if j.sure != nil {
		details["confidence"] = *j.sure
	}
	e.o.Files.Log(folder.Event{Type: folder.Errored, TaskID: id, TaskName: w.task.Title, Result: text.Clip(j.why, maxToldBytes), Details: details})
}

// tellRetry tells that a task is tried again after a wait, by another agent if one
// is named.
func (e *engine) tellRetry(w *worker, kind, why string, wait time.Duration, who string) {
	id := w.task.ID
	e.o.Files.Log(folder.Event{Type: folder.Retried, TaskID: id, TaskName: w.task.Title, Result: text.Clip(why, maxToldBytes),
		Details: map[string]any{"attempt": w.order.Attempt, "wait_ms": wait.Milliseconds(), "kind": kind, "task_kind": kindOf(&w.task), "agent": who}})
	e.emit(agent.Event{Type: agent.EventRetry, TaskID: id, Text: w.task.Title, Reason: why, Attempt: w.order.Attempt, WaitMS: wait.Milliseconds(), Status: kind, Ref: who})
}

// tellTrip tells that a breaker fired.
func (e *engine) tellTrip(t breaker.Trip) {
	n := e.o.Files.Trip(folder.Trip{Condition: t.Condition, ActionTaken: string(t.Action), Resolved: !t.Opened})
	if t.Opened {
		e.closeTrips()
		e.trips = []int{n}
	}
	e.o.Files.Log(folder.Event{Type: folder.Tripped, Result: string(t.Action), Details: map[string]any{"condition": t.Condition, "reason": t.Reason, "opened": t.Opened, "held": t.Held}})
	e.emit(agent.Event{Type: agent.EventBreaker, Text: t.Condition, Status: string(e.breaker.Position(e.now())), Reason: t.Reason, Rule: string(t.Action)})
	if t.Action == breaker.AlertAndContinue { // the others are seen by what they do
		e.o.Warn("the breaker: " + t.Reason)
	}
}

// closeTrips ends the trips that are open in the files.
func (e *engine) closeTrips() {
	for _, n := range e.trips {
		e.o.Files.Reset(n)
	}
	e.trips = nil
}

// overcome notes in the files what a run has overcome that comes to its end by itself:
// that it was paused, and a breaker that nothing has opened again since it was tried.
func (e *engine) overcome() {
	if e.end.status != feature.Completed && e.end.status != failedRun {
		return
	}
	for _, n := range e.failures[""] {
		e.o.Files.Resolve(n, "resume", 0)
	}
	delete(e.failures, "")
	if e.breaker.State().Position != breaker.Open {
		e.closeTrips()
	}
}

// tellQuestion records that a question has nobody to answer it; one that is asked
// is told by whoever asks.
func (e *engine) tellQuestion(q permission.Question) {
	d := folder.Decision{TaskID: q.TaskID, DecisionType: folder.DecisionHelp, Outcome: "nobody was there"}
	d.Context.CurrentTask, d.Context.AvailableActions = text.Clip(q.Text, maxToldBytes), q.Options
	for _, option := range q.Options {
		d.Against(option, 0)
	}
	d.Decision.Action, d.Decision.Rationale, d.Decision.Confidence = "pause", "a question of the kind "+q.Kind+" has nobody to answer it", 1
	e.o.Files.Decide(d)
	e.o.Files.Log(folder.Event{Type: folder.Decided, TaskID: q.TaskID, Result: "pause", Details: map[string]any{"decision_type": folder.DecisionHelp, "about": text.Clip(q.Text, maxToldBytes)}})
	e.emit(agent.Event{Type: agent.EventDecision, TaskID: q.TaskID, Text: q.Text, Status: "pause", Reason: "nobody is there to answer"})
}
