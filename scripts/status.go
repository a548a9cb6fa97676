package scripts

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ralph/coordinator"
	"ralph/coordinator/crew"
	"ralph/coordinator/loop"
	"ralph/coordinator/ownership"
	"ralph/coordinator/permission"
	"ralph/coordinator/recovery"
	"ralph/coordinator/result"
	"ralph/memory"
	"ralph/memory/durable"
	"ralph/memory/markdown"
	"ralph/memory/queue"
	"ralph/memory/session"
	"ralph/memory/session/folder"
	"ralph/workers/agent"
)

// statusDocument is what `ralph status --json` prints: ralph.status/1.
type statusDocument struct {
	Type   string `json:"type"`
	Schema string `json:"schema"`
	Root   string `json:"project_root"`
	// State is idle, initializing, running, pausing, paused, stopping,
	// interrupted, completed, failed or cancelled.
	State string `json:"state"`
	// Live says that a running Ralph answered; the rest is read from files.
	Live bool `json:"live"`
	// Foreign says that the files are not of this user's Ralph.
	Foreign bool          `json:"foreign"`
	Holder  *statusHolder `json:"holder"`
	Session *string       `json:"session"`
	RunID   *string       `json:"run_id"`
	Task    *string       `json:"task"`
	Since   *time.Time    `json:"since"`
	Turn    int           `json:"turn"`
	Tool    *string       `json:"tool"`
	Mode    *string       `json:"mode"`
	Model   *string       `json:"model"`
	Method  *string       `json:"method"`

	Agents     []crew.Agent             `json:"agents"`
	Background []coordinator.Background `json:"background"`
	Queue      []coordinator.Waiting    `json:"queue"`
	Tasks      result.TaskCount         `json:"tasks"`
	// Usage is null where the files of a session do not tell it.
	Usage   *agent.Usage `json:"usage"`
	CostUSD *float64     `json:"cost_usd"`

	// Run is the run of a plan that goes on, or the last one.
	Run *loop.View `json:"run"`
	// Question waits for a human at the terminal of the running Ralph, or for the
	// paused run to go on; nil for none.
	Question *permission.Question `json:"question"`
	Last     *statusLast          `json:"last"`
	Recovery *statusRecovery      `json:"recovery"`
	// About is the session that was named; nil when none was.
	About    *statusSession `json:"about"`
	Warnings []string       `json:"warnings"`
}

// statusHolder is who holds the project now.
type statusHolder struct {
	PID     int        `json:"pid"`
	Kind    *string    `json:"kind"`
	Host    *string    `json:"host"`
	Since   *time.Time `json:"since"`
	Session *string    `json:"session"`
}

// statusLast is how the last work that ended did.
type statusLast struct {
	Status  string     `json:"status"`
	At      *time.Time `json:"at"`
	Reason  *string    `json:"reason"`
	Session *string    `json:"session"`
	RunID   *string    `json:"run_id"`
}

// statusRecovery is what was cut off and can be gone on with.
type statusRecovery struct {
	Verdict string   `json:"verdict"` // same session, fresh from state
	Why     string   `json:"why"`
	Session *string  `json:"session"`
	RunID   *string  `json:"run_id"`
	Said    *string  `json:"said"`
	Call    *string  `json:"call"` // whose outcome is not known
	Tasks   []string `json:"tasks"`
	Stopped *string  `json:"stopped"`
	Torn    []string `json:"torn"`
	// Of a run: the session it went on from or can go on from, its feature, how
	// many iterations had begun, and what was lost, in words.
	From      *string `json:"from"`
	Feature   *string `json:"feature"`
	Iteration int     `json:"iteration"`
	Lost      string  `json:"lost"`
}

// The state words of a project in which nothing runs, or whose Ralph does not
// answer.
const (
	stateIdle        = "idle"
	stateRunning     = "running"
	statePausing     = "pausing"
	statePaused      = "paused"
	stateInterrupted = "interrupted"
	stateCompleted   = "completed"
	stateFailed      = "failed"
)

func (inv *invocation) statusCommand() *cobra.Command {
	var exit bool
	c := &cobra.Command{
		Use:   "status [SESSION] [--json] [--exit-status]",
		Short: "say what Ralph is doing here, or how the last work ended",
		Long: "Say what Ralph is doing in this project: state, task, agents, what waits in the queue, tasks, tokens and cost. With no Ralph running the files say how the last work ended and what can be gone on with; work whose Ralph is dead reads interrupted.\n" +
			"With SESSION (or --session SESSION) it says how that session stands, also an archived or imported one: a number, a name, a unique beginning of one, or the path of a session's folder.\n" +
			"Exits with 0 whatever it says; with --exit-status 0 for completed or idle, 1 for running or paused, 2 for failed or interrupted.\n" +
			"`ralph schema status` prints the JSON Schema of the document.\n" +
			"Example: ralph status\nExample: ralph status --json | jq -r .state\nExample: while ralph status --exit-status > /dev/null; [ $? = 1 ]; do sleep 5; done",
		Args: wordsOf(0, 1),
	}
	c.Flags().BoolVar(&exit, "exit-status", false, "let the exit code tell the state")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := inv.lightly(c); err != nil {
			return err
		}
		d, err := inv.statusOf(c, args)
		if err != nil {
			return err
		}
		if exit {
			inv.code = stateCode(d.State)
		}
		if inv.form != outputText {
			return inv.out.printJSON(d)
		}
		return inv.out.print(statusReport(d, inv.Now()))
	}
	return c
}

// statusOf is the status of the project, or of the session that was named.
func (inv *invocation) statusOf(c *cobra.Command, args []string) (statusDocument, error) {
	if len(args) == 0 && !c.Flags().Changed("session") {
		d, err := inv.status(c.Context())
		d.Foreign = d.Holder == nil && inv.markForeign()
		d.Warnings = orEmpty(inv.result.Warnings)
		return d, err
	}
	which, err := inv.sessionNamed(c, args)
	if err != nil {
		return statusDocument{}, err
	}
	w, err := inv.watch(which)
	if err != nil {
		return statusDocument{}, err
	}
	d, err := inv.sessionStatus(c.Context(), w)
	d.Foreign = d.Holder == nil && inv.markForeign()
	return d, err
}

// stateCode maps a state to the exit code of --exit-status.
func stateCode(state string) int {
	switch state {
	case stateIdle, stateCompleted:
		return 0
	case stateFailed, stateInterrupted, "cancelled":
		return 2
	}
	return 1
}

// status asks the running Ralph how things stand, and the files when none
// answers.
func (inv *invocation) status(ctx context.Context) (statusDocument, error) {
	d := statusDocument{Type: "status", Schema: "ralph.status/1", Root: inv.root, State: stateIdle, Usage: &agent.Usage{}}
	holder, alive := memory.Locked(nil, inv.root)
	if alive {
		d.Holder = holderOf(holder)
	}
	// Who holds the project and does not listen, or not yet, is not waited for.
	var caller *caller
	err := errNobody
	if inv.listening() {
		caller, err = inv.reach(ctx)
	}
	switch {
	case err == nil:
		defer caller.close()
		d.fill(caller.live)
		if d.Holder == nil {
			d.Holder = &statusHolder{PID: caller.live.PID, Kind: optional(caller.live.Kind), Since: instant(caller.live.StartedAt)}
		}
	case ctx.Err() != nil:
		return d, context.Cause(ctx)
	case !errors.Is(err, errNobody):
		inv.warning(err.Error())
	}
	inv.tasks(&d)
	if err := inv.unlinked(); err != nil {
		inv.warning(err.Error())
	} else if err := inv.recorded(ctx, &d, alive); err != nil {
		return d, err
	}
	d.Agents, d.Background, d.Queue = orEmpty(d.Agents), orEmpty(d.Background), orEmpty(d.Queue)
	d.Warnings = orEmpty(inv.result.Warnings)
	return d, nil
}

// recorded adds what the project's state says.
func (inv *invocation) recorded(ctx context.Context, d *statusDocument, alive bool) error {
	if !d.Live {
		inv.waiting(d)
	}
	if err := inv.history(ctx, d, alive); err != nil {
		return err
	}
	inv.planRun(d, alive)
	if gone, err := memory.Gone(memory.Options{Root: inv.root}); err != nil {
		inv.warning(err.Error())
	} else if len(gone) > 0 && !alive {
		inv.warning(strings.Join(gone, ", ") + " was deleted since Ralph wrote it: ralph recover brings it back")
	}
	return nil
}

// fill takes over what the running Ralph says.
func (d *statusDocument) fill(l coordinator.Live) {
	d.Live, d.State = true, l.State
	d.Session, d.RunID, d.Task, d.Tool = optional(l.SessionID), optional(l.RunID), optional(l.Task), optional(l.Tool)
	d.Mode, d.Model, d.Method = optional(l.Mode), optional(l.Model), optional(l.Method)
	d.Since, d.Turn = instant(l.Since), l.Turn
	d.Agents, d.Background, d.Queue, d.Question = l.Agents, l.Background, l.Queue, l.Question
	d.Usage, d.CostUSD, d.Tasks, d.Run = &l.Usage, l.CostUSD, l.Tasks, l.Loop
	if l.Loop != nil && l.Loop.Recovery != nil {
		r := l.Loop.Recovery
		d.Recovery = &statusRecovery{Verdict: verdictSame, Why: "the run " + l.Loop.Feature + " went on where it was", Session: optional(l.SessionID),
			Tasks: orEmpty(r.Tasks), Torn: []string{}, From: optional(r.From), Feature: optional(l.Loop.Feature), Iteration: r.Iteration, Lost: r.Lost}
	}
}

func holderOf(h memory.Holder) *statusHolder {
	return &statusHolder{PID: h.PID, Kind: optional(h.Kind), Host: optional(h.Hostname), Since: instant(h.AcquiredAt), Session: optional(h.SessionID)}
}

// instant returns nil for no time.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// waiting reads what waits in the queue.
func (inv *invocation) waiting(d *statusDocument) {
	entries, err := queue.Peek(ownership.Project{Root: inv.root, Getenv: inv.Getenv}.Queue())
	if err != nil {
		inv.warning("the queue cannot be read: " + err.Error())
	}
	for _, e := range entries {
		d.Queue = append(d.Queue, coordinator.Waiting{ID: e.ID, Class: e.Class, Text: e.Text, From: e.From, To: e.To, At: e.At, State: e.State, Saved: true})
	}
}

// maxTasksBytes bounds the task file that is read.
const maxTasksBytes = 32 << 20

// tasks counts the project's tasks where no running Ralph did.
func (inv *invocation) tasks(d *statusDocument) {
	if d.Live {
		return
	}
	data, err := durable.ReadFile(durable.Disk(), filepath.Join(inv.root, memory.TasksFile), maxTasksBytes)
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			inv.warning("the tasks cannot be read: " + err.Error())
		}
		return
	}
	for _, t := range markdown.Parse(data).Tasks() {
		switch t.Status {
		case markdown.Done:
			d.Tasks.Done++
		case markdown.Failed:
			d.Tasks.Failed++
		case markdown.Skipped:
			d.Tasks.Skipped++
		default:
			d.Tasks.Open++
		}
	}
}

// history says how the last work ended, and what of it can be gone on with.
func (inv *invocation) history(ctx context.Context, d *statusDocument, alive bool) error {
	s, err := recovery.Assess(ctx, recovery.Options{Project: ownership.Project{Root: inv.root}, Now: inv.Now})
	if err != nil {
		return err
	}
	for _, w := range s.Warnings {
		inv.warning(w)
	}
	last, run := endedSession(s, alive || d.Live), inv.lastRun()
	if run != nil && (last == nil || last.At == nil || run.At != nil && run.At.After(*last.At)) {
		last = &run.statusLast
	}
	d.Last = last
	if d.Live {
		return nil
	}
	if run != nil && last == &run.statusLast {
		d.Usage, d.CostUSD, d.Model = &run.Usage, run.CostUSD, run.Model
	}
	switch {
	case alive:
		d.State = stateRunning // it does not answer, but it is there
		return nil
	case last != nil:
		d.State = stateOf(last.Status)
		d.Session, d.RunID, d.Since = last.Session, last.RunID, last.At
	}
	if s.Verdict != "" && s.Verdict != verdictRefused {
		d.Recovery = &statusRecovery{Verdict: s.Verdict, Why: s.Why, Session: optional(s.Session), RunID: optional(s.Run), Said: optional(s.Said),
			Call: optional(s.Call), Tasks: []string{}, Stopped: optional(s.Stopped), Torn: orEmpty(s.Torn)}
		for _, t := range s.Tasks {
			d.Recovery.Tasks = append(d.Recovery.Tasks, t.ID)
		}
		if d.Task == nil {
			d.Task = optional(oneLine(s.Said, 200))
		}
	}
	return nil
}

// endedSession is how the last session ended, or a one-shot that left no
// document; nil when there is none, or it goes on. alive says that a Ralph runs.
func endedSession(s recovery.Report, alive bool) *statusLast {
	l := &statusLast{At: instant(s.At), Reason: optional(s.Reason), Session: optional(s.Session)}
	switch {
	case s.Run != "" && alive:
		return nil // it is the one that runs
	case s.Run != "":
		l.Status, l.Session, l.RunID, l.Reason = stateInterrupted, nil, optional(s.Run), optional("it was cut off")
		if s.Ended == string(session.Paused) {
			l.At = nil // that is the session's
		}
		return l
	case s.Session == "" || s.Ended == "running":
		return nil
	case s.Ended == string(session.Completed):
		l.Status = stateCompleted
	case s.Ended == string(session.Failed):
		l.Status = stateFailed
	default:
		l.Status = stateInterrupted
		if s.Ended != string(session.Paused) {
			l.Reason = optional("it was cut off")
		}
	}
	return l
}

// lastRun is the part of a result document that tells how a run ended.
type lastRun struct {
	statusLast
	Usage   agent.Usage
	CostUSD *float64
	Model   *string
}

// runTail is how much of the end of runs.jsonl is read for its last document.
const runTail = 4 << 20

// lastRun reads the last document of runs.jsonl; nil when there is none.
func (inv *invocation) lastRun() *lastRun {
	tail, _, err := durable.ReadTail(durable.Disk(), filepath.Join(inv.stateDir(), "runs.jsonl"), runTail)
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			inv.warning("the runs cannot be read: " + err.Error())
		}
		return nil
	}
	var r struct {
		Type       string      `json:"type"`
		Status     string      `json:"status"`
		Reason     *string     `json:"reason"`
		RunID      *string     `json:"run_id"`
		SessionID  *folder.ID  `json:"session_id"`
		Model      *string     `json:"model"`
		StartedAt  time.Time   `json:"started_at"`
		DurationMS int64       `json:"duration_ms"`
		Usage      agent.Usage `json:"usage"`
		CostUSD    *float64    `json:"cost_usd"`
	}
	for line := range linesBackward(tail) {
		if json.Unmarshal(line, &r) == nil && r.Type == string(agent.EventResult) {
			at := instant(r.StartedAt.Add(time.Duration(r.DurationMS) * time.Millisecond))
			return &lastRun{statusLast{r.Status, at, r.Reason, (*string)(r.SessionID), r.RunID}, r.Usage, r.CostUSD, r.Model}
		}
	}
	return nil
}

// stateOf is the state in which work of this status leaves a project.
func stateOf(status string) string {
	switch status {
	case stateCompleted, stateInterrupted:
		return status
	}
	return stateFailed
}
