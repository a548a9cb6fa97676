// Package transcript names the records of a session's journal and the marks by which the messages
// that Ralph writes into a conversation are known from the user's.
//
// It reads no files: package session keeps journals, and package recovery reads the end of one.
package transcript

import (
	"encoding/json"
	"strings"
	"time"

	"ralph/memory/exchange"
	"ralph/workers/agent"
)

// The kinds of journal records. Their payloads are JSON.
const (
	// Message holds an agent.Message, Event an agent.Event.
	Message = "message"
	Event   = "event"
	// Cleared forgets the conversation before it.
	Cleared = "cleared"
	// Outcome ends a turn.
	Outcome = "outcome"

	// Interrupted holds what was stopped: from there on the user and Ralph only talk.
	Interrupted = "interrupted"
	// Go ends that: the user said go.
	Go = "go"
	// Late holds a result that came after the stop; it never reaches the model.
	Late = "late"

	// Summary holds a summary of what was left out, or why there is none.
	Summary = "summary"
	// Compacted holds the conversation as the model sees it from there on.
	Compacted = "compacted"
	// Recalled holds a message of Ralph's with excerpts of older ones.
	Recalled = "recalled"
	// Calibrated holds what was learned about a model's tokens.
	Calibrated = "calibrated"

	// Change links a turn to a file it changed.
	Change = "change"
	// UserCommand holds a command that the user ran.
	UserCommand = "user_command"
)

// The first lines of the messages that Ralph writes about older ones.
const (
	SummaryTitle = "[Ralph: the earlier part of this conversation, compacted]"
	RecallTitle  = "[Ralph: from the earlier part of this conversation]"
)

// NoteTitle begins a note of Ralph's to the model, as a message or after what the user said.
const NoteTitle = "(Note from Ralph, not from the user)"

// Record is one line of a journal, without its checksum.
type Record struct {
	Time    time.Time       `json:"time"`
	Kind    string          `json:"kind"`
	Payload json.RawMessage `json:"payload"`
}

// IsRecall reports whether a message is Ralph's own about older ones.
func IsRecall(m agent.Message) bool {
	return m.Role == agent.RoleUser && (strings.HasPrefix(m.Text, RecallTitle) || strings.HasPrefix(m.Text, SummaryTitle))
}

// Said returns what the user said in a message; false for one that Ralph wrote under the user's
// role.
func Said(m agent.Message) (string, bool) {
	if m.Role != agent.RoleUser || IsRecall(m) || exchange.IsHanded(m.Text) || strings.HasPrefix(m.Text, NoteTitle) {
		return "", false
	}
	said, _, _ := strings.Cut(m.Text, "\n\n"+NoteTitle+"\n")
	return said, true
}
