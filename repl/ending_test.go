package repl

import (
	"strings"
	"testing"
	"time"

	"ralph/memory/retention"
)

// A pipe presses no keys: nobody is told of them.
func TestNoKeysInAPipe(t *testing.T) {
	text := piped(t, echo, "hello\n")
	if strings.Contains(text, "Ctrl-") || !strings.Contains(text, "You said **hello**") {
		t.Errorf("it prints\n%s", text)
	}
}

// The session under way has taken as long as it has, whatever its file says.
func TestHowLongASessionTook(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	began, why := now.Add(-90*time.Second), "interrupted by SIGPIPE"
	took := func(r retention.Row, here bool) (took, status string) {
		for _, row := range sessionRows(r, here, now) {
			switch row[0] {
			case "took":
				took = row[1]
			case "status":
				status = row[1]
			}
		}
		return took, status
	}
	if got, _ := took(retention.Row{ID: "001", Started: &began}, true); got != "1m30s" {
		t.Errorf("under way it took %q", got)
	}
	got, status := took(retention.Row{ID: "001", Started: &began, DurationMS: 12, Status: "paused", Reason: &why}, false)
	if got != "under 1 s" || status != "paused: its output was closed" {
		t.Errorf("it took %q, %q", got, status)
	}
}
