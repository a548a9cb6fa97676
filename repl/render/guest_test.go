package render

import (
	"strings"
	"testing"

	"ralph/workers/agent"
)

// Work of another terminal is told when it begins and when it has ended; a
// helper of the conversation is not.
func TestWorkOfAnotherTerminal(t *testing.T) {
	r := New(Options{Width: 80, Theme: ThemeNone, ASCII: true})
	for _, c := range []struct {
		e    agent.Event
		want string
	}{
		{agent.Event{Type: agent.EventChildStart, Agent: "task-1", From: "r-1-2-3", Text: "a task from another terminal: tidy\x1b[2J"}, "task-1: a task from another terminal: tidy"},
		{agent.Event{Type: agent.EventChildEnd, Agent: "task-1", From: "r-1-2-3", Status: "completed", Text: "done"}, "task-1 completed: done"},
		{agent.Event{Type: agent.EventChildStart, Agent: "helper", Text: "summarises"}, ""},
	} {
		got := r.Event(c.e)
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) || strings.Contains(got, "\x1b[2J") {
			t.Errorf("%+v is shown as %q, want %q", c.e, got, c.want)
		}
	}
}
