package agent

import (
	"encoding/json"
	"time"
)

// EventType names what happened. The names are a public contract: they are the
// type field of each line of --output jsonl.
type EventType string

// All event types, in the order of the public list.
const (
	EventStart        EventType = "start"
	EventTurnStart    EventType = "turn_start"
	EventMessageDelta EventType = "message_delta"
	EventMessage      EventType = "message"
	EventReasoning    EventType = "reasoning"
	EventToolStart    EventType = "tool_start"
	EventToolEnd      EventType = "tool_end"
	EventChildStart   EventType = "child_start"
	EventChildEnd     EventType = "child_end"
	EventTaskStart    EventType = "task_start"
	EventTaskEnd      EventType = "task_end"
	EventInbox        EventType = "inbox"
	EventAsk          EventType = "ask"
	EventPermission   EventType = "permission"
	EventRetry        EventType = "retry"
	EventCompact      EventType = "compact"
	EventCheckpoint   EventType = "checkpoint"
	EventDecision     EventType = "decision"
	EventGate         EventType = "gate"
	EventBreaker      EventType = "breaker"
	EventUsage        EventType = "usage"
	EventInterrupt    EventType = "interrupt"
	EventWarning      EventType = "warning"
	EventResult       EventType = "result"
)

// Event is one thing that happened, flat, so that one schema and one writer
// serve the chat, the event stream and the journal. Seq, Time and RunID are
// set by the coordinator, which is the only one to number events; Seq has no
// gaps within a run. Fields that say nothing are left out of the JSON.
//
// Each tool_start has one tool_end, before the next request. That of a call
// which an urgent message sent to the background has the status background, no
// ok and its name there as ref; when the call really ends, a second tool_end with
// the same call_id and ref, the status ended and the arguments tells how.
type Event struct {
	Type  EventType `json:"type"`
	Seq   int64     `json:"seq"`
	Time  time.Time `json:"time"`
	RunID string    `json:"run_id"`
	Agent string    `json:"agent"`

	Turn       int             `json:"turn,omitempty"`
	Text       string          `json:"text,omitempty"`
	CallID     string          `json:"call_id,omitempty"`
	Tool       string          `json:"tool,omitempty"`
	Args       json.RawMessage `json:"args,omitempty"`
	Output     string          `json:"output,omitempty"`
	OK         *bool           `json:"ok,omitempty"`
	Denied     bool            `json:"denied,omitempty"`
	ExitCode   *int            `json:"exit_code,omitempty"`
	DurationMS *int64          `json:"duration_ms,omitempty"`
	WorkedMS   int64           `json:"worked_ms,omitempty"` // of a task that is over: in all its attempts
	Attempt    int             `json:"attempt,omitempty"`
	WaitMS     int64           `json:"wait_ms,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	Rule       string          `json:"rule,omitempty"`
	Model      string          `json:"model,omitempty"`
	Root       string          `json:"project_root,omitempty"`
	Sandbox    string          `json:"sandbox,omitempty"`
	SessionID  string          `json:"session_id,omitempty"`
	Ref        string          `json:"ref,omitempty"`
	TaskID     string          `json:"task_id,omitempty"`
	Status     string          `json:"status,omitempty"`
	Class      string          `json:"class,omitempty"` // of an inbox message: urgent, ask, steer, later
	From       string          `json:"from,omitempty"`  // who sent it
	Usage      *Usage          `json:"usage,omitempty"`
	CostUSD    *float64        `json:"cost_usd,omitempty"`
}
