package coordinator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ralph/memory"
	"ralph/memory/markdown"
	"ralph/memory/session"
	"ralph/memory/session/folder"
	"ralph/workers/agent"
)

// chronicle tells in a session's files what happens, as it happens: it turns
// events, tasks and outcomes into their entries. It belongs to the book, whose
// mutex guards it.
type chronicle struct {
	session *session.Session
	files   *folder.Folder
	now     func() time.Time

	task     string          // the one that was begun last
	started  map[string]bool // tasks that are being worked on
	given    map[string]bool // tasks that were given up
	question string          // the one that is open
	failing  int             // the open failure of an endpoint that is tried again
	tries    int
	began    time.Time         // of the run
	learned  []string          // in this run
	writing  map[string]string // the paths that calls write now
}

func newChronicle(s *session.Session, now func() time.Time) *chronicle {
	return &chronicle{session: s, files: s.Folder(), now: now, started: map[string]bool{}, given: map[string]bool{}, writing: map[string]string{}}
}

// maxToldBytes bounds a text that is repeated in a session's files.
const maxToldBytes = 400

// maxToldFiles bounds how many changed files of a run its last event names.
const maxToldFiles = 200

// opened begins the story of this process in the session.
func (t *chronicle) opened(kind, run, model string) {
	t.files.Begin()
	t.files.Log(folder.Event{Type: folder.SessionStart, Details: map[string]any{"kind": kind, "run_id": run, "model": model}})
}

// message tells that somebody spoke, and what.
func (t *chronicle) message(m agent.Message) {
	if m.Role == agent.RoleTool || m.Role == agent.RoleSystem {
		return
	}
	who := string(m.Role)
	if _, ok := said(m); !ok && m.Role == agent.RoleUser {
		who = "ralph"
	}
	t.session.Say(who, m.Text)
	t.files.Log(folder.Event{Type: folder.Message, TaskID: t.task, Details: map[string]any{
		"role": who, "text": head(m.Text, maxToldBytes), "bytes": len(m.Text), "calls": len(m.Calls)}})
}

// event tells what an event means for the session's files.
func (t *chronicle) event(e agent.Event) {
	switch e.Type {
	case agent.EventUsage:
		t.answered()
	case agent.EventToolStart, agent.EventToolEnd:
		t.wrote(e)
	case agent.EventRetry:
		t.retry(e)
	case agent.EventGate:
		t.gate(e)
	case agent.EventPermission, agent.EventAsk:
		t.decision(e)
	case agent.EventInterrupt:
		t.interrupted(e)
	case agent.EventInbox:
		if e.Ref != "" {
			t.files.Log(folder.Event{Time: e.Time, Type: folder.Message, TaskID: t.task, Result: e.Status,
				Details: map[string]any{"id": e.Ref, "class": e.Class, "from": e.From, "text": head(e.Text, maxToldBytes)}})
		}
	case agent.EventCheckpoint:
		t.files.Log(folder.Event{Time: e.Time, Type: folder.Checkpoint, TaskID: t.task, Details: map[string]any{"ref": e.Ref}})
	case agent.EventCompact:
		t.files.Log(folder.Event{Time: e.Time, Type: folder.Checkpoint, TaskID: t.task, Result: "compacted", Details: map[string]any{"text": e.Text}})
	}
}

// interrupted tells of a stop once it is at rest, and of what holds the work up.
func (t *chronicle) interrupted(e agent.Event) {
	switch e.Status {
	case "stopped", livePaused, "late":
		details := map[string]any{"how": e.Status, "report": e.Text}
		took := time.Duration(0)
		if e.DurationMS != nil {
			took = time.Duration(*e.DurationMS) * time.Millisecond
		}
		t.files.Log(folder.Event{Time: e.Time, Type: folder.Interrupted, TaskID: t.task, Result: cmp.Or(e.Reason, e.Status), Duration: took, Details: details})
	}
}

// wrote links a file that a tool wrote to the task that is worked on.
func (t *chronicle) wrote(e agent.Event) {
	if e.Type == agent.EventToolStart {
		var args struct{ Path string }
		if (e.Tool == "write" || e.Tool == "edit") && json.Unmarshal(e.Args, &args) == nil {
			t.writing[e.CallID] = args.Path
		}
		return
	}
	if e.Status == "background" {
		return // its end is still to come
	}
	name, known := t.writing[e.CallID]
	if delete(t.writing, e.CallID); !known || t.task == "" || e.OK == nil || !*e.OK {
		return
	}
	root := filepath.Dir(filepath.Dir(filepath.Dir(t.session.Dir())))
	if !filepath.IsAbs(name) {
		name = filepath.Join(root, name)
	}
	if rel, err := filepath.Rel(root, name); err == nil && filepath.IsLocal(rel) {
		t.files.Task(folder.TaskState{TaskID: t.task, Artifacts: []string{filepath.ToSlash(rel)}})
	}
}

// found counts a feature that was recorded, and that it is documented.
func (t *chronicle) found(id string, documented bool) {
	add := func(to *[]string) {
		if !slices.Contains(*to, id) {
			*to = append(slices.Clone(*to), id)
		}
	}
	// The inventory holds it, and Close reports what cannot be written.
	_ = t.session.Update(func(m *session.Metadata) {
		if add(&m.Context.FeaturesDiscovered); documented {
			add(&m.Context.FeaturesDocumented)
		}
	})
}

// retry tells of a try that failed and is made again: one error with its
// retries, however often.
func (t *chronicle) retry(e agent.Event) {
	t.files.Log(folder.Event{Time: e.Time, Type: folder.Retried, TaskID: t.task, Result: e.Reason,
		Details: map[string]any{"attempt": e.Attempt, "wait_ms": e.WaitMS}})
	t.tries = e.Attempt
	if t.failing == 0 {
		t.failing = t.files.Fail(folder.Failure{Time: e.Time, TaskID: t.task, ErrorType: "provider_error", ErrorMessage: e.Reason, Severity: folder.Low,
			RetryCount: e.Attempt, RecoveryAction: "retry"})
		t.session.Count()
	}
}

// answered ends the trouble with the endpoint, if there was any.
func (t *chronicle) answered() {
	if t.failing != 0 {
		t.files.Resolve(t.failing, "retry", t.tries)
		t.failing, t.tries = 0, 0
	}
}

// gate tells what a check said.
func (t *chronicle) gate(e agent.Event) {
	code, passed := 0, e.OK != nil && *e.OK
	if e.ExitCode != nil {
		code = *e.ExitCode
	}
	result, target := "failed", 0.0
	if passed {
		result = "passed"
	}
	var took time.Duration
	if e.DurationMS != nil {
		took = time.Duration(*e.DurationMS) * time.Millisecond
	}
	t.files.Log(folder.Event{Time: e.Time, Type: folder.GateChecked, TaskID: t.task, Result: result, Duration: took,
		Details: map[string]any{"check": e.Text, "exit_code": code, "reason": e.Reason}})
	t.files.Gate(folder.Gate{Name: e.Text, Metric: "exit_code", Threshold: target, Operator: "==", Passed: passed})
	t.files.Measure(folder.Metric{Name: "check_exit_code", Value: float64(code), Unit: "exit code", Target: &target, Source: e.Text, MeasuredAt: e.Time})
}

// decision tells how a permission or a question was decided.
func (t *chronicle) decision(e agent.Event) {
	d := folder.Decision{Time: e.Time, TaskID: t.task, DecisionType: "permission", Outcome: e.Status}
	d.Context.CurrentTask = t.task
	d.Context.AvailableActions = []string{"allow", "deny"}
	d.Decision.Action, d.Decision.Confidence, d.Decision.Rationale = e.Status, 1, e.Rule
	what := strings.TrimSpace(e.Tool + ": " + e.Text)
	switch {
	case e.Type == agent.EventAsk && e.Status == "asked":
		t.question = e.Text
		return
	case e.Type == agent.EventAsk:
		d.DecisionType, what = folder.DecisionHelp, t.question
		d.Context.AvailableActions, d.Decision.Action, d.Decision.Rationale = nil, head(e.Text, maxToldBytes), "the user answered"
	case e.Status != "allowed" && e.Status != "denied":
		return // it is being asked
	case e.Rule == "":
		d.Decision.Rationale = "the user was asked"
	}
	d.Context.CurrentTask = head(strings.TrimSpace(d.Context.CurrentTask+" "+what), maxToldBytes)
	t.files.Decide(d)
	t.session.Note(fmt.Sprintf("decision: %s: %s (%s)", d.Decision.Action, "`"+strings.ReplaceAll(head(what, maxToldBytes), "`", "'")+"`", d.Decision.Rationale))
	t.files.Log(folder.Event{Time: e.Time, Type: folder.Decided, TaskID: t.task, Result: d.Decision.Action, Details: map[string]any{"decision_type": d.DecisionType, "about": head(what, maxToldBytes)}})
}

// worked tells that a task stands otherwise than before.
func (t *chronicle) worked(task memory.Task) {
	e := folder.Event{TaskID: task.ID, TaskName: task.Title, Result: string(task.Status)}
	switch task.Status {
	case markdown.InProgress:
		if !t.started[task.ID] {
			e.Type, e.Result = folder.TaskStart, ""
		}
		t.started[task.ID], t.task = true, task.ID
	case markdown.Done, markdown.Failed, markdown.Skipped:
		e.Type = folder.TaskComplete
	}
	if task.Status != markdown.InProgress {
		delete(t.started, task.ID)
		if t.task == task.ID {
			t.task = ""
		}
	}
	e.Duration = t.files.Task(folder.TaskState{TaskID: task.ID, Status: trackedAs(task.Status), Result: task.Result})
	if e.Type != "" {
		t.files.Log(e)
	}
	t.tried(task)
	t.session.Count()
}

// tried tells of a task that was given up, and that one came right after all.
func (t *chronicle) tried(task memory.Task) {
	switch {
	case task.Status == markdown.Failed && !t.given[task.ID]:
		t.given[task.ID] = true
		t.files.GivenUp(task.ID, task.Title, cmp.Or(task.Result, "it was given up without a result"))
	case task.Status == markdown.Done && t.session.Meta().Performance.ErrorCount > 0:
		delete(t.given, task.ID)
		t.files.Recovered(task.ID)
	}
}

// trackedAs is a task's status in the words of progress-tracking.yaml.
func trackedAs(s markdown.Status) folder.TaskStatus {
	switch s {
	case markdown.InProgress:
		return folder.TaskInProgress
	case markdown.Interrupted:
		return folder.TaskPaused
	case markdown.Done:
		return folder.TaskCompleted
	case markdown.Failed:
		return folder.TaskError
	case markdown.Skipped:
		return folder.TaskSkipped
	}
	return folder.TaskPending
}

// begun tells that a run begins; ended how it ended.
func (t *chronicle) begun(task string) {
	t.began = t.now()
	t.files.Log(folder.Event{Type: folder.PhaseStart, Details: map[string]any{"task": head(task, maxToldBytes)}})
}

func (t *chronicle) ended(o Outcome) {
	if f := o.Failure; f != nil && o.Status != StatusInterrupted {
		severity := folder.Medium
		if o.Status == StatusProviderError || o.Status == StatusConfigError {
			severity = folder.High
		}
		t.files.Fail(folder.Failure{TaskID: t.task, ErrorType: f.Kind, ErrorMessage: f.Message, Severity: severity, RetryCount: t.tries, RecoveryAction: f.Hint})
		t.files.Log(folder.Event{Type: folder.Errored, TaskID: t.task, Result: f.Message, Details: map[string]any{"kind": f.Kind, "retryable": f.Retryable}})
		t.failing, t.tries = 0, 0
	}
	for _, f := range o.FilesChanged {
		how := string(f.Kind)
		if f.Added > 0 || f.Removed > 0 {
			how = fmt.Sprintf("%s +%d −%d", f.Kind, f.Added, f.Removed)
		}
		t.session.NoteChange(f.Path, how)
	}
	t.session.Facts(t.facts(o))
	details := map[string]any{"status": o.Status, "reason": o.Reason, "turns": o.Turns, "usage": o.Usage, "cost_usd": o.CostUSD,
		"api_ms": o.APITime.Milliseconds(), "tool_calls": o.ToolCalls, "files_changed": len(o.FilesChanged), "commits": o.Commits}
	if data, err := json.Marshal(details); err == nil {
		var plain map[string]any
		if json.Unmarshal(data, &plain) == nil {
			details = plain
		}
	}
	var paths []string
	for _, f := range o.FilesChanged[:min(len(o.FilesChanged), maxToldFiles)] {
		paths = append(paths, f.Path)
	}
	if paths != nil {
		details["files"] = paths
	}
	if t.learned != nil {
		details["learned"] = t.learned
	}
	t.learned = nil
	t.files.Log(folder.Event{Type: folder.PhaseComplete, Result: string(o.Status), Duration: t.now().Sub(t.began), Details: details})
}

// facts are what the report tells beyond what the files hold.
func (t *chronicle) facts(o Outcome) folder.Facts {
	f := folder.Facts{Summary: o.Answer}
	if o.Failure != nil {
		f.NextSteps = append(f.NextSteps, strings.TrimSpace(o.Failure.Message+"; "+o.Failure.Hint))
	}
	for _, id := range slices.Sorted(maps.Keys(t.started)) {
		f.NextSteps = append(f.NextSteps, "go on with "+id)
	}
	return f
}

// closed ends the story of this process in the session.
func (t *chronicle) closed() {
	m := t.session.Meta()
	if m.Status == session.InProgress {
		m.Status = session.Completed // as Close has it
	}
	t.files.Log(folder.Event{Type: folder.SessionEnd, Result: string(m.Status), Details: map[string]any{"reason": m.ExitReason}})
}
