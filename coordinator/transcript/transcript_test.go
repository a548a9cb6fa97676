package transcript_test

import (
	"testing"

	"ralph/coordinator/transcript"
	"ralph/workers/agent"
)

func TestSaid(t *testing.T) {
	for _, c := range []struct {
		role agent.Role
		text string
		want string
		ok   bool
	}{
		{agent.RoleUser, "go on", "go on", true},
		{agent.RoleUser, "go on\n\n" + transcript.NoteTitle + "\nthe plan has three tasks", "go on", true},
		{agent.RoleUser, transcript.NoteTitle + "\nan agent ended", "", false},
		{agent.RoleUser, transcript.RecallTitle + "\n…", "", false},
		{agent.RoleUser, transcript.SummaryTitle + "\n…", "", false},
		{agent.RoleAssistant, "done", "", false},
	} {
		if got, ok := transcript.Said(agent.Message{Role: c.role, Text: c.text}); got != c.want || ok != c.ok {
			t.Errorf("%s %q: %q, %v", c.role, c.text, got, ok)
		}
	}
}
