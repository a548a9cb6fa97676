package loop_test

import (
	"testing"

	"ralph/coordinator/loop"
)

// An agent that is named after its task is not named beside it.
func TestWhoSaysMore(t *testing.T) {
	for _, x := range []struct{ title, agent, who string }{
		{"Document Reverse", "document_reverse", ""},
		{"Document Reverse, and what it does with marks", "document_reverse_and_what", ""},
		{"Document Reverse", "document_reverse_1", ""},
		{"Retry the upload", "auth", "auth"},
		{"Retry", "retry_the_upload", "retry_the_upload"},
		{"日本語の題名", "agent_2", "agent_2"},
		{"", "auth", "auth"},
		{"Step 2", "step_2", ""},
		{"Step 2", "step_3", "step_3"},
		{"Retry", "", ""},
	} {
		if got := (loop.Row{Title: x.title, Agent: x.agent}).Who(); got != x.who {
			t.Errorf("%q by %q is done by %q, want %q", x.title, x.agent, got, x.who)
		}
	}
}
