package coordinator_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ralph/coordinator"
	"ralph/coordinator/result"
)

// TestModelDecides follows a decision that the model records: to the decision history,
// the conversation, and /why.
func TestModelDecides(t *testing.T) {
	t.Parallel()
	p := newProject(t, calls(call("decide", m{"what": "keep the queue in a file", "why": "it outlives a crash", "alternatives": []string{"in memory", "a database"}})), text("done"))
	o := p.options()
	o.Session = "new"
	c, err := coordinator.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	p.want(c.Run(t.Context(), coordinator.Job{Task: "go", Chat: true}), result.Completed)
	for _, about := range []string{"", "Queue"} {
		why, err := c.Why(about)
		if err != nil || !strings.Contains(why, "keep the queue in a file\nit outlives a crash\n  instead of: in memory\n  instead of: a database") {
			t.Errorf("why %q: %q, %v", about, why, err)
		}
	}
	if why, err := c.Why("nothing of it"); err == nil {
		t.Errorf("why: %q", why)
	}
	p.shut(c)
	dirs, _ := filepath.Glob(filepath.Join(p.root, ".ralph/sessions/session-*"))
	if len(dirs) != 1 {
		t.Fatal(dirs)
	}
	data, err := os.ReadFile(filepath.Join(dirs[0], "decision-history.json"))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Decisions []struct {
			DecisionType string `json:"decision_type"`
			Context      struct {
				Available []string `json:"available_actions"`
			} `json:"context"`
			Decision struct {
				Action, Rationale string
				Alternatives      []struct{ Action string } `json:"alternative_actions"`
			} `json:"decision"`
		} `json:"decisions"`
	}
	if err := json.Unmarshal(data, &doc); err != nil || len(doc.Decisions) != 1 {
		t.Fatalf("%s, %v", data, err)
	}
	d := doc.Decisions[0]
	if d.DecisionType != "action_selection" || d.Decision.Action != "keep the queue in a file" || len(d.Context.Available) != 3 || len(d.Decision.Alternatives) != 2 || d.Decision.Alternatives[0].Action != d.Context.Available[1] {
		t.Errorf("%s", data)
	}
	if text, err := os.ReadFile(filepath.Join(dirs[0], "conversation.md")); err != nil || !strings.Contains(string(text), "decision: `keep the queue in a file` (it outlives a crash)") {
		t.Errorf("%s, %v", text, err)
	}
}
