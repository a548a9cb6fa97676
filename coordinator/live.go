package coordinator

import (
	"os"
	"strings"
	"time"

	"ralph/coordinator/crew"
	"ralph/coordinator/loop"
	"ralph/coordinator/permission"
	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/memory/feature"
	"ralph/memory/text"
	"ralph/workers/agent"
)

// Live is what is going on at one moment: the body of ralph.status/1 for a
// Ralph that runs. It is a value.
type Live struct {
	// State is idle, running, pausing, paused, stopping or interrupted.
	State string `json:"state"`
	// Mode is autonomous, or conversation after a stop: no tools until the user
	// says go.
	Mode string `json:"mode"`
	// Task is the first line of what is worked on, or of what was stopped; Since
	// is when that began or was stopped.
	Task  string    `json:"task,omitempty"`
	Since time.Time `json:"since,omitzero"`
	Turn  int       `json:"turn,omitempty"` // requests made so far in this piece of work
	Tool  string    `json:"tool,omitempty"` // that runs, with what it runs on
	// Agents are those at work, the coordinator first; Background are the calls
	// and jobs that run beside the conversation.
	Agents     []crew.Agent `json:"agents"`
	Background []Background `json:"background"`
	// Queue is what was said and not delivered yet, in the order of delivery.
	Queue   []Waiting        `json:"queue"`
	Tasks   result.TaskCount `json:"tasks"`
	Usage   agent.Usage      `json:"usage"`
	CostUSD *float64         `json:"cost_usd"`

	// Loop is the run of a plan that goes on, or was here last; nil for none.
	Loop *loop.View `json:"loop,omitempty"`
	// Question is the one that a human has before them, at the terminal of this
	// Ralph; nil for none.
	Question *permission.Question `json:"question,omitempty"`

	SessionID string    `json:"session_id,omitempty"`
	RunID     string    `json:"run_id"`
	Model     string    `json:"model,omitempty"`
	PID       int       `json:"pid"`
	Kind      string    `json:"kind"` // chat, one-shot
	Root      string    `json:"project_root"`
	Method    string    `json:"method"` // how trees of processes are ended
	StartedAt time.Time `json:"started_at"`
}

// Background is a call or a job that runs beside the conversation.
type Background struct {
	ID      string    `json:"id"` // "bg-1", "job-1"
	Command string    `json:"command"`
	Since   time.Time `json:"since,omitzero"`
}

// Waiting is a message that waits to be delivered.
type Waiting struct {
	ID    string    `json:"id"`
	Class string    `json:"class"`
	Text  string    `json:"text"`
	From  string    `json:"from"`
	To    string    `json:"to,omitempty"`
	At    time.Time `json:"at"`
	State string    `json:"state"`
	// Saved is false for one that is held in memory because the disk does not
	// take it.
	Saved bool `json:"saved"`
}

// The states of Live, in the words of a run.
const (
	liveIdle        = "idle"
	liveRunning     = "running"
	livePausing     = "pausing"
	livePaused      = "paused"
	liveStopping    = "stopping"
	liveInterrupted = "interrupted"
)

// The modes of Live.
const (
	modeAutonomous   = "autonomous"
	modeConversation = "conversation"
)

// Live says what is going on. It waits for nothing but moments.
func (c *Coordinator) Live() Live {
	c.mu.Lock()
	p, stopped, totals := c.piece, c.stopped, c.totals
	c.mu.Unlock()
	if g := c.guestAtWork(); p == nil && g != nil {
		p = g
	}
	l := Live{State: liveIdle, Mode: modeAutonomous, Agents: c.agents(), Background: c.background(), Queue: []Waiting{},
		Usage: totals.Usage, CostUSD: totals.CostUSD, SessionID: c.SessionID(), RunID: c.opt.RunID, Model: c.Endpoint().Model,
		PID: os.Getpid(), Kind: c.opt.Holder, Root: c.opt.Root, Method: c.opt.Proc.Method().Name, StartedAt: totals.Started.UTC()}
	if stopped != nil {
		l.State, l.Mode, l.Task, l.Since = liveInterrupted, modeConversation, firstLine(stopped.Task), stopped.At
	}
	if p != nil {
		var running []string
		running, l.Turn = p.c.eyes.now()
		l.State = liveRunning
		if !p.talks() {
			l.Task, l.Since = firstLine(p.about), p.out.StartedAt
		}
		if len(running) > 0 {
			l.Tool = running[0]
		}
		for _, a := range l.Agents {
			if a.ID == p.c.name && a.State == crew.Stopping {
				l.State = liveStopping
			}
		}
	}
	if held := c.pausing.state(); held != "" && l.State != liveStopping {
		l.State = held
	}
	l.Question = c.approver.Open()
	l.Tasks = c.book.tally()
	if l.Loop = c.planning.view(); l.Loop != nil && p != nil && p.job.Loop != nil {
		n := l.Loop.Counts
		l.Tasks = result.TaskCount{Done: n.Done, Failed: n.Failed, Skipped: n.Skipped, Open: n.Open}
	}
	if l.Loop != nil && p != nil && p.job.Loop != nil && l.State == liveRunning {
		switch l.Loop.Status {
		case feature.Pausing, feature.Paused, feature.Stopping, feature.Initializing:
			l.State = string(l.Loop.Status)
		}
	}
	for _, m := range c.mail.queue.Waiting() {
		l.Queue = append(l.Queue, waitingOf(m))
	}
	return l
}

func waitingOf(m interrupts.Message) Waiting {
	return Waiting{ID: m.ID(), Class: m.Class.String(), Text: m.Text, From: m.From, To: m.To, At: m.At, State: string(m.State), Saved: m.Kept}
}

func firstLine(content string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(content), "\n")
	return text.ClipRunes(line, 2*maxQuote)
}
