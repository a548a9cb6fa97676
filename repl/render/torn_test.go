package render

import (
	"strings"
	"testing"

	"ralph/workers/agent"
)

// An address that has no room in its column stands below, in one piece; a check
// that was not allowed is told as such.
func TestAnAddressIsNotTorn(t *testing.T) {
	rows := [][]string{{"model", "play at http://127.0.0.1:18377/v1"}, {"commands end by", "pid namespaces"}}
	if got := New(Options{Width: 40}).Table(rows); !strings.Contains(got, "http://127.0.0.1:18377/v1\n") || !strings.HasPrefix(got, "  model\n    play at http") {
		t.Errorf("it is\n%s", got)
	}
	if got := New(Options{Width: 80}).Table(rows); !strings.HasPrefix(got, "  model            play at http://127.0.0.1:18377/v1\n") {
		t.Errorf("it is\n%s", got)
	}
	e := agent.Event{Type: agent.EventPermission, Status: "denied", Tool: "check", Text: "touch x; echo checked", Rule: "a check that the repository proposes always asks"}
	if got := New(Options{Width: 120}).Event(e); got != "⊘ check not run: `touch x; echo checked`: a check that the repository proposes always asks\n" {
		t.Errorf("it is %q", got)
	}
}
