package scripts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/result"
	"ralph/interrupts/control"
	"ralph/memory/session/folder"
	"ralph/memory/text"
	"ralph/workers/agent"
)

// handedJob is a task as it is handed to the Ralph that runs in the project:
// the job, and the limits that it takes over for it; 0 and "" leave its own.
type handedJob struct {
	Task       string             `json:"task"`
	Context    string             `json:"context,omitempty"`
	Schema     json.RawMessage    `json:"schema,omitempty"`
	Files      []coordinator.File `json:"files,omitempty"`
	DryRun     bool               `json:"dry_run,omitempty"`
	RunID      string             `json:"run_id"`
	Check      string             `json:"check,omitempty"`
	MaxTurns   int                `json:"max_turns,omitempty"`
	MaxTokens  int                `json:"max_tokens,omitempty"`
	MaxCostUSD float64            `json:"max_cost,omitempty"`
	Events     bool               `json:"events"`
}

// handedResult is the last that the other Ralph says of it.
type handedResult struct {
	Outcome  *result.Outcome `json:"outcome"`
	Model    string          `json:"model"`
	Provider string          `json:"provider"`
}

// cancelWithin is how long a cancelled task has to tell what became of it.
const cancelWithin = 3 * time.Second

// socketName is where a running Ralph is reached, in the state directory.
const socketName = "control.sock"

// listening says that a Ralph listens in the project, or did.
func (inv *invocation) listening() bool {
	_, err := os.Lstat(filepath.Join(inv.stateDir(), socketName))
	return err == nil
}

// handOver has the Ralph that runs in the project do the job, as if it was done
// here. The error matches errNobody when none runs. Whoever has the caller
// closes it.
func (inv *invocation) handOver(ctx context.Context, job coordinator.Job, p *progress) (result.Outcome, *caller, error) {
	none := result.Outcome{}
	caller, err := inv.reach(ctx)
	if err != nil {
		return none, nil, err
	}
	lost, err := inv.fits(caller.live)
	if err := errors.Join(inv.human(), err); err != nil {
		caller.close()
		return none, nil, err
	}
	if at := caller.live; at.Task != "" && at.State != "idle" && at.State != "interrupted" {
		inv.note(lineText(at))
	}
	data, err := json.Marshal(inv.handedJob(job))
	if err != nil {
		caller.close()
		return none, nil, broken("internal", "", err, "encode the task")
	}
	h := &handed{inv: inv, eyes: inv.eyes(p), lost: lost, name: make(chan string, 1), out: result.Outcome{StartedAt: inv.Now().UTC()}}
	outcome, err := h.work(ctx, caller, data)
	if err != nil {
		caller.close()
		return none, nil, err
	}
	return outcome, caller, nil
}

// lineText says for what a task waits that was handed over: one piece of work is
// done at a time.
func lineText(l coordinator.Live) string {
	content := fmt.Sprintf("waiting for the Ralph that runs here (pid %d) to end its work: %s", l.PID, oneLine(l.Task, 80))
	if v := l.Loop; v != nil && v.Status.Live() {
		content += fmt.Sprintf(" (%d of %s done)", v.Counts.Done, text.Count(v.Counts.Total, "task"))
	}
	return content + "; ralph send --ask is answered beside it, Ctrl-C takes the task back"
}

// handedJob is the job with the limits that were set for it.
func (inv *invocation) handedJob(job coordinator.Job) handedJob {
	h := handedJob{Task: job.Task, Context: job.Context, Schema: job.Schema, Files: job.Files, DryRun: job.DryRun, RunID: inv.result.RunID, Events: true, Check: inv.cfg.Check}
	set := func(key string) bool { return inv.cfg.Origin(key).Source != "default" }
	if set("max_turns") {
		h.MaxTurns = inv.cfg.MaxTurns
	}
	if set("max_tokens") {
		h.MaxTokens = inv.cfg.MaxTokens
	}
	if set("max_cost") {
		h.MaxCostUSD = inv.cfg.MaxCostUSD
	}
	return h
}

// work has the other Ralph do the task and returns what came of it. When ctx
// ends that task is stopped there, and nothing else.
func (h *handed) work(ctx context.Context, caller *caller, job json.RawMessage) (result.Outcome, error) {
	// The end of ctx is told to the other Ralph, which then says what became of
	// the task; only if it does not is the line cut.
	line, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	over := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-over:
		case <-ctx.Done():
			h.cancel(line, over)
			hangUp()
		}
	})
	var final handedResult
	err := caller.do(line, control.Request{Op: "task", Job: job}, h.event, &final)
	close(over)
	watching.Wait()
	if final.Outcome != nil {
		h.warn()
	}
	r := h.inv.result
	r.Model, r.Provider = optional(orWord(final.Model, caller.live.Model)), optional(final.Provider)
	return h.outcome(ctx, final.Outcome, err)
}

// outcome is what came of the task, by what the other Ralph said last, if it
// did.
func (h *handed) outcome(ctx context.Context, told *result.Outcome, err error) (result.Outcome, error) {
	var refusal *control.Fault
	switch {
	case told != nil && (ctx.Err() == nil || told.Status != result.Interrupted):
		return *told, nil
	case ctx.Err() != nil:
		if told != nil {
			h.out = *told
		}
		return h.ended(context.Cause(ctx)), nil
	case errors.As(err, &refusal) && (refusal.Code != kindClosing || h.seq == 0):
		return result.Outcome{}, refused(err)
	case err == nil:
		err = errors.New("it gave no outcome")
	}
	return h.ended(&result.Error{Op: "have the running Ralph do the task", Err: fmt.Errorf("it has ended: %w", err), Status: result.Failed,
		Hint: "run it again: it runs here then; ralph status shows what is left"}), nil
}

// handed is a task that another Ralph does. But for cancel it is used by one
// goroutine.
type handed struct {
	inv  *invocation
	eyes func(agent.Event)
	seq  int64
	out  result.Outcome // what is known without the other end's word
	lost string         // what to warn of once it is begun there
	name chan string    // of the agent that does it there, once it was taken
}

// cancel stops the task where it is done, and waits for its end, for a while.
func (h *handed) cancel(ctx context.Context, over <-chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, cancelWithin)
	defer cancel()
	name := ""
	select {
	case name = <-h.name:
	case <-over:
		return
	case <-ctx.Done(): // it was not begun: to hang up is enough
		return
	}
	c, err := h.inv.call(ctx)
	if err != nil {
		return
	}
	defer c.close()
	if c.do(ctx, control.Request{Op: "stop", To: name}, nil, nil) != nil {
		return
	}
	select {
	case <-over:
	case <-ctx.Done():
	}
}

// event takes an event over, as one of this run.
func (h *handed) event(raw json.RawMessage) error {
	var e agent.Event
	if err := json.Unmarshal(raw, &e); err != nil {
		return fmt.Errorf("read an event: %w", err)
	}
	if e.Type == "" { // it was taken
		select {
		case h.name <- e.Agent:
		default:
		}
		return nil
	}
	h.warn()
	if h.seq == 0 && e.Type != agent.EventStart {
		h.show(agent.Event{Type: agent.EventStart, Time: e.Time, Agent: e.Agent, Root: h.inv.root})
	}
	if h.seq > 0 && e.Type == agent.EventStart {
		return nil
	}
	switch e.Type {
	case agent.EventTurnStart:
		h.out.Turns = max(h.out.Turns, e.Turn)
	case agent.EventMessageDelta:
		h.out.Answer += e.Text
	case agent.EventMessage:
		h.out.Answer = ""
	case agent.EventToolEnd:
		h.out.ToolCalls.Total++
		if e.Denied {
			h.out.ToolCalls.Denied++
		} else if e.OK != nil && !*e.OK {
			h.out.ToolCalls.Failed++
		}
	case agent.EventUsage:
		if e.Usage != nil {
			h.out.Usage = h.out.Usage.Add(*e.Usage)
		}
		h.out.CostUSD = e.CostUSD
	}
	h.show(e)
	return nil
}

// warn tells what was not taken over, once.
func (h *handed) warn() {
	if h.lost != "" {
		h.inv.warning(h.lost)
	}
	h.lost = ""
}

func (h *handed) show(e agent.Event) {
	h.seq++
	e.Seq, e.RunID = h.seq, h.inv.result.RunID
	h.eyes(e)
}

// ended is the outcome of a task whose end the other Ralph could not tell. To
// hang up is to cancel it there; that Ralph goes on.
func (h *handed) ended(cause error) result.Outcome {
	o := h.out
	status, signal, failure := ending(cause)
	o.Status, o.Signal, o.Failure = status, signal, failure
	o.Reason = failure.Message
	if status == result.Interrupted || status == result.Timeout {
		o.Reason += "; the task was cancelled, and the Ralph that did it goes on"
	}
	return o
}

// fits refuses to hand over a task with settings that the running Ralph does
// not have: what was to narrow the work would not, and what names a model would
// be disregarded. What would only widen it is left out, as the text tells.
func (inv *invocation) fits(l coordinator.Live) (text string, err error) {
	var lost []string
	for _, k := range inv.cfg.Entries() {
		source, _, _ := strings.Cut(k.Origin.Source, " ")
		if source != "flag" && source != "env" || k.Value == "" {
			continue
		}
		name := "--" + k.Key.Flag
		if source == "env" {
			name = k.Key.Env
		}
		switch verdictOn(k.Key.Name, k.Value, source == "flag", l) {
		case notTaken:
			return "", &fault{status: result.Locked, kind: "locked",
				text: fmt.Sprintf("another Ralph is running here (pid %d, %s), and cannot take over %s for one task", l.PID, orWord(l.Kind, "running"), name),
				hint: "leave it out, or wait until that Ralph has ended: ralph attach | ralph stop"}
		case leftOut:
			lost = append(lost, name)
		}
	}
	if len(lost) == 0 {
		return "", nil
	}
	return fmt.Sprintf("the task is done by the Ralph that runs here (pid %d), whose own settings count: not taken over: %s", l.PID, strings.Join(lost, ", ")), nil
}

// How a setting fares when a task is handed over.
const (
	taken = iota
	leftOut
	notTaken
)

// verdictOn says how a setting of the command line or the environment fares.
func verdictOn(key, value string, flag bool, l coordinator.Live) int {
	strict := func(same bool) int {
		switch {
		case same:
			return taken
		case flag:
			return notTaken
		}
		return leftOut
	}
	switch key {
	case "model":
		return strict(value == l.Model)
	case "base_url", "profile":
		// Which endpoint the other one talks to is not told.
		if flag {
			return notTaken
		}
	case "record", "replay", "deny":
		return notTaken
	case "session":
		if l.SessionID == "" || value != "last" && folder.Number(value) != l.SessionID {
			return notTaken
		}
	case "sandbox":
		if value != "off" {
			return notTaken
		}
		return strictly(flag)
	case "on_ask":
		if value != "ask" {
			return notTaken
		}
	case "allow", "sandbox_read", "sandbox_write", "command_memory", "session_memory", "session_output", "check_clean", "check_setup", "check_timeout", "check_retries", "command_timeout", "max_agents", "max_depth", "max_children_per_agent", "context_window", "max_output_tokens":
		return strictly(flag)
	}
	return taken
}

// strictly leaves out what a flag says; the environment is the same for all.
func strictly(flag bool) int {
	if flag {
		return leftOut
	}
	return taken
}
