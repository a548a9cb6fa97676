package agent

import "encoding/json"

// Role says who speaks in a Message. The values are those of the chat
// completions protocol.
type Role string

// The four roles of a transcript.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one entry of a transcript. It is a value: once appended to a
// transcript it is never changed, so that a request extends the bytes of the
// one before it.
type Message struct {
	Role      Role   `json:"role"`
	Text      string `json:"text,omitempty"`
	Reasoning string `json:"reasoning,omitempty"`
	// Calls are the tool calls of an assistant message, in the order in which
	// the model made them. Their IDs are unique within the transcript.
	Calls []Call `json:"calls,omitempty"`
	// CallID names the call that a RoleTool message answers.
	CallID string `json:"call_id,omitempty"`
	// Partial marks assistant text kept from a reply that was cut off.
	Partial bool `json:"partial,omitempty"`
	// Inbox names what the human said that this message brings ("m-17"), several
	// with spaces between; empty for a message that the human did not send. Models
	// are not told.
	Inbox string `json:"inbox,omitempty"`
}

// Call is one tool call as the model wrote it. Args is meant to be a JSON
// object but may be anything, also broken: the loop answers a broken call with
// an error that the model can read.
type Call struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Args string `json:"args"`
	// Extra is what the endpoint attached to the call and wants back unchanged,
	// such as Gemini's thought signature: a JSON object, nil for none.
	Extra json.RawMessage `json:"extra,omitempty"`
}

// Command returns the command of a call of the shell, and the name and arguments of any other.
func (c Call) Command() string {
	var a struct {
		Command string `json:"command"`
	}
	if json.Unmarshal([]byte(c.Args), &a) == nil && c.Name == "shell" && a.Command != "" {
		return a.Command
	}
	return c.Name + " " + c.Args
}

// Usage counts tokens. Estimated says that the endpoint reported none and the
// figures are Ralph's own estimate.
type Usage struct {
	Input       int  `json:"input"`
	CachedInput int  `json:"cached_input"`
	Output      int  `json:"output"`
	Reasoning   int  `json:"reasoning"`
	Total       int  `json:"total"`
	Estimated   bool `json:"estimated"`
}

// Add returns the sum of two usages; the sum is estimated if either part is.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Input:       u.Input + v.Input,
		CachedInput: u.CachedInput + v.CachedInput,
		Output:      u.Output + v.Output,
		Reasoning:   u.Reasoning + v.Reasoning,
		Total:       u.Total + v.Total,
		Estimated:   u.Estimated || v.Estimated,
	}
}
