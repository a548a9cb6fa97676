package coordinator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ralph/coordinator/result"
	"ralph/coordinator/transcript"
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
	root    string // of the project
	files   *folder.Folder
	now     func() time.Time

	window  int64           // of the model's context, in tokens
	context int64           // that the last request of the conversation took
	task    string          // the one that was begun last
	started map[string]bool // tasks that are being worked on
	given   map[string]bool // tasks that were given up
	asked   asked           // the question that is open
	failing int             // the open failure of an endpoint that is tried again
	tries   int
	began   time.Time         // of the run
	learned []string          // in this run
	calls   map[string]string // the paths that calls write now, and the commands that they run
	// testCommands finds the project's own test commands.
	testCommands func() []string
	proved       map[string]bool // the checks that the metadata lists
}

// asked is a question that the human has before them.
type asked struct {
	what, call string
	at         time.Time // zero: none is open
}

func newChronicle(s *session.Session, root string, now func() time.Time) *chronicle {
	return &chronicle{session: s, root: root, files: s.Folder(), now: now, started: map[string]bool{}, given: map[string]bool{}, calls: map[string]string{}, proved: map[string]bool{}}
}

// maxToldBytes bounds a text that is repeated in a session's files.
const maxToldBytes = 400

const (
	// maxToldFiles bounds how many changed files of a run its last event names.
	maxToldFiles = 200
	// maxAnswerBytes bounds what the log keeps of an answer; the transcript has it
	// whole.
	maxAnswerBytes = 4 << 10
)

// opened begins the story of this process in the session.
func (t *chronicle) opened(kind, run, model, sandbox string, window int64) {
	t.window = window
	t.files.Begin()
	t.files.Log(folder.Event{Type: folder.SessionStart, Details: map[string]any{"kind": kind, "run_id": run, "model": model, "sandbox": sandbox, "context_window": window}})
}

// message tells that somebody spoke, and what.
func (t *chronicle) message(m agent.Message) {
	if m.Role == agent.RoleTool || m.Role == agent.RoleSystem {
		return
	}
	who := string(m.Role)
	if _, ok := transcript.Said(m); !ok && m.Role == agent.RoleUser {
		who = "ralph"
	}
	t.session.Say(who, m.Text)
	details := map[string]any{"role": who, "text": head(m.Text, maxToldBytes), "bytes": len(m.Text), "calls": len(m.Calls)}
	if m.Role == agent.RoleAssistant {
		t.sized(details)
	}
	t.files.Log(folder.Event{Type: folder.Message, TaskID: t.task, Details: details})
}

// sized says how much of the model's context the last request took.
func (t *chronicle) sized(details map[string]any) {
	if t.context > 0 {
		details["context_tokens"], details["context_window"] = t.context, t.window
	}
}

// event tells what an event means for the session's files.
func (t *chronicle) event(e agent.Event) {
	switch e.Type {
	case agent.EventUsage:
		if e.Agent == agentName && e.Usage != nil {
			t.context = int64(e.Usage.Input)
		}
		t.answered()
	case agent.EventToolStart, agent.EventToolEnd:
		t.called(e)
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
		details := map[string]any{"text": e.Text, "agent": e.Agent}
		if e.Agent == agentName {
			t.sized(details)
		}
		t.files.Log(folder.Event{Time: e.Time, Type: folder.Checkpoint, TaskID: cmp.Or(e.TaskID, t.task), Result: "compacted", Details: details})
	}
}

// interrupted tells of a stop once it is at rest, and of what holds the work up.
func (t *chronicle) interrupted(e agent.Event) {
	switch e.Status {
	case "stopped", livePaused, "late":
		t.unanswered(e.Time)
		details := map[string]any{"how": e.Status, "report": e.Text}
		took := time.Duration(0)
		if e.DurationMS != nil {
			took = time.Duration(*e.DurationMS) * time.Millisecond
		}
		t.files.Log(folder.Event{Time: e.Time, Type: folder.Interrupted, TaskID: t.task, Result: cmp.Or(e.Reason, e.Status), Duration: took, Details: details})
	}
}

// called links a file that a tool wrote to the task that is worked on, and keeps the
// result of tests that were run.
func (t *chronicle) called(e agent.Event) {
	if e.Type == agent.EventToolStart {
		var args struct{ Path, Command string }
		if slices.Contains([]string{"write", "edit", "shell"}, e.Tool) && json.Unmarshal(e.Args, &args) == nil {
			t.calls[e.CallID] = cmp.Or(args.Command, args.Path)
		}
		return
	}
	if e.Status == "background" {
		return // its end is still to come
	}
	name, known := t.calls[e.CallID]
	delete(t.calls, e.CallID)
	if known && e.Tool == "shell" {
		t.tested(name, e)
		return
	}
	if !known || t.task == "" || e.OK == nil || !*e.OK {
		return
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(t.root, name)
	}
	if rel, err := filepath.Rel(t.root, name); err == nil && filepath.IsLocal(rel) {
		t.files.Task(folder.TaskState{TaskID: t.task, Artifacts: []string{filepath.ToSlash(rel)}})
	}
}

const (
	// providerError is the type of the errors of an endpoint.
	providerError = string(result.ProviderError)
	// plainTask is the kind of a task of RALPH_TASKS.md, which has none of its own.
	plainTask = "task"
)

// retry tells of a try that failed and is made again: one error with its
// retries, however often.
func (t *chronicle) retry(e agent.Event) {
	t.files.Log(folder.Event{Time: e.Time, Type: folder.Retried, TaskID: cmp.Or(e.TaskID, t.task), Result: e.Reason,
		Details: map[string]any{"kind": providerError, "task_kind": plainTask, "attempt": e.Attempt, "wait_ms": e.WaitMS, "agent": e.Agent}})
	t.tries = e.Attempt
	if t.failing == 0 {
		t.failing = t.files.Fail(folder.Failure{Time: e.Time, TaskID: cmp.Or(e.TaskID, t.task), ErrorType: providerError, ErrorMessage: e.Reason, Severity: folder.Low,
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

// worked tells that a task stands otherwise than before.
func (t *chronicle) worked(task memory.Task) {
	e := folder.Event{TaskID: task.ID, TaskName: task.Title, Result: string(task.Status), Details: map[string]any{"task_kind": plainTask}}
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
	e.Duration = t.files.Task(folder.TaskState{TaskID: task.ID, Status: trackedAs(task.Status), Details: task.Result})
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

// begun tells that a piece of work begins, which is no phase of a plan and has no
// name; ended how it ended.
func (t *chronicle) begun(j Job, checks ...string) {
	t.began = t.now()
	t.validates(false, checks...)
	if j.Loop == nil { // a run lists the gates of its plan
		for _, c := range checks {
			t.files.Planned(checkGate(c))
		}
	}
	details := map[string]any{"kind": "task"}
	if j.Loop != nil {
		details["kind"] = "run"
	}
	if j.Task != "" {
		details["task"] = head(j.Task, maxToldBytes)
	}
	t.files.Log(folder.Event{Type: folder.PhaseStart, Details: details})
}

func (t *chronicle) ended(o result.Outcome) {
	if f := o.Failure; f != nil && !f.Recorded && o.Status != result.Interrupted {
		severity := folder.Medium
		if o.Status == result.ProviderError || o.Status == result.ConfigError {
			severity = folder.High
		}
		t.files.Fail(folder.Failure{TaskID: t.task, ErrorType: f.Kind, ErrorMessage: f.Message, Severity: severity, RetryCount: t.tries, RecoveryAction: f.Hint})
		t.files.Log(folder.Event{Type: folder.Errored, TaskID: t.task, Result: f.Message, Details: map[string]any{"kind": f.Kind, "task_kind": plainTask, "retryable": f.Retryable}})
		t.failing, t.tries = 0, 0
	}
	for _, f := range o.FilesChanged {
		how := string(f.Kind)
		if f.Added > 0 || f.Removed > 0 {
			how = fmt.Sprintf("%s +%d −%d", f.Kind, f.Added, f.Removed)
		}
		t.session.NoteChange(f.Path, how)
	}
	details := map[string]any{"status": o.Status, "reason": o.Reason, "turns": o.Turns, "usage": o.Usage, "cost_usd": o.CostUSD,
		"api_ms": o.APITime.Milliseconds(), "tool_calls": o.ToolCalls, "files_changed": len(o.FilesChanged), "commits": o.Commits, "answer": head(o.Answer, maxAnswerBytes), "next_steps": t.nextSteps(o)}
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
	took := time.Duration(0)
	if !t.began.IsZero() { // else nothing was begun
		took = t.now().Sub(t.began)
	}
	t.files.Log(folder.Event{Type: folder.PhaseComplete, Result: string(o.Status), Duration: took, Details: details})
}

// nextSteps is what a run left to be done.
func (t *chronicle) nextSteps(o result.Outcome) []string {
	steps := []string{}
	switch f := o.Failure; {
	case f == nil || f.Hint == "":
	case strings.Contains(f.Hint, "`"): // it names the command, and the summary says the rest
		steps = append(steps, f.Hint)
	default:
		steps = append(steps, head(firstLine(f.Message), maxToldBytes)+": "+f.Hint)
	}
	return steps
}

// closed ends the story of this process in the session.
func (t *chronicle) closed() {
	m := t.session.Meta()
	if m.Status == session.InProgress {
		m.Status = session.Completed // as Close has it
	}
	t.files.Log(folder.Event{Type: folder.SessionEnd, Result: string(m.Status), Details: map[string]any{"reason": m.ExitReason}})
}
