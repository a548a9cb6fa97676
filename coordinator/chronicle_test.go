package coordinator

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ralph/memory"
	"ralph/memory/markdown"
	"ralph/memory/session"
	"ralph/memory/session/folder"
	"ralph/workers/agent"
)

// A session that is worked in, stopped and gone on with: its files agree with
// each other at every point.
func TestTheChronicleAgreesWithItself(t *testing.T) {
	o := session.Options{StateDir: filepath.Join(t.TempDir(), ".ralph"), Kind: "chat"}
	now := func() time.Time { return time.Now().UTC() }
	agrees := func(when string, s *session.Session, tasks int) folder.Data {
		t.Helper()
		d, err := folder.Read(nil, s.Dir())
		if err != nil {
			t.Fatal(err)
		}
		if found := d.Differences(); len(found) > 0 || len(d.Problems) > 0 || d.Meta.Total != tasks {
			t.Errorf("%s: %v %v, %d tasks", when, found, d.Problems, d.Meta.Total)
		}
		return d
	}
	s, err := session.Resume(o, "work")
	if err != nil {
		t.Fatal(err)
	}
	story := newChronicle(s, filepath.Dir(o.StateDir), now)
	story.opened("chat", "r-1", "m", "workspace", 128000)
	agrees("begun", s, 0)
	story.worked(memory.Task{ID: "T-1", Title: "A", Status: markdown.InProgress})
	story.event(agent.Event{Type: agent.EventToolStart, CallID: "c", Tool: "write", Args: json.RawMessage(`{"path":"sub/../a.txt"}`)})
	yes := true
	story.event(agent.Event{Type: agent.EventToolEnd, CallID: "c", Tool: "write", OK: &yes})
	story.worked(memory.Task{ID: "T-2", Title: "B", Status: markdown.Failed, Result: "no way"})
	story.event(agent.Event{Type: agent.EventRetry, Reason: "502", Attempt: 1})
	agrees("at work", s, 2) // and here it is killed

	again, err := session.Resume(o, "1")
	if err != nil {
		t.Fatal(err)
	}
	d := agrees("gone on", again, 2)
	if x := d.Progress.Tasks[0]; x.Status != folder.TaskPaused || len(x.Artifacts) != 1 || x.Artifacts[0] != "a.txt" {
		t.Errorf("%+v", x)
	}
	story = newChronicle(again, filepath.Dir(o.StateDir), now)
	story.opened("chat", "r-2", "m", "workspace", 128000)
	inventory := `[{"feature_id":"F001","name":"x","documented":true,"assumptions_count":2}]`
	if err := os.WriteFile(filepath.Join(again.Dir(), "feature-inventory.json"), []byte(inventory), 0o600); err != nil {
		t.Fatal(err)
	}
	again.Features([]string{"hard"})
	story.worked(memory.Task{ID: "T-2", Title: "B", Status: markdown.Done})
	story.closed()
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	d = agrees("closed", again, 2)
	if m := d.Meta; m.Status != "completed" || m.Errors != 2 || m.Completed != 1 || len(m.Discovered) != 1 || len(m.Documented) != 1 || d.Log.End != "completed" {
		t.Errorf("%+v %q", m, d.Log.End)
	}
	if c := again.Meta().Context; c.AssumptionsIdentified != 2 || len(c.ChallengesGenerated) != 1 {
		t.Errorf("%+v", c)
	}
	if f := d.Failures; len(f) != 2 || !f[0].Resolved || f[0].ErrorType != "task_failed" {
		t.Errorf("%+v", f)
	}
	if err := s.Close(); err != nil { // of the one that was killed: what it held goes
		t.Log(err)
	}
}

// The tests that an agent runs by itself are kept as measurements: what the project's own
// test command is, however much of it was run, and what is a check.
func TestRunsOfTestsAreKept(t *testing.T) {
	s, err := session.Create(session.Options{StateDir: filepath.Join(t.TempDir(), ".ralph"), Kind: "chat"}, "")
	if err != nil {
		t.Fatal(err)
	}
	story := newChronicle(s, t.TempDir(), time.Now)
	story.testCommands = func() []string { return []string{"go test ./...", "npm test", "python3 -m pytest", "./run-tests.sh"} }
	story.validates(false, "grep -q good one.txt | cat")
	var want []string
	for command, kept := range map[string]bool{
		"go test ./...": true, " go test ./pkg -run 'A(B)' -count=1 2>&1": true, "cd sub && go test ./...": true, "npm test": true, "python3 -m pytest -q": true, "./run-tests.sh": true,
		"grep -q good one.txt | cat": true, // a check
		"go test ./... | tail":       false, "go test ./...; true": false, "go build ./...": false, "go vet ./test": false, "python3 test.py": false, "echo go test": false, "npm run test": false,
		"cat go.mod": false, "": false,
	} {
		data, err := json.Marshal(map[string]string{"command": command})
		if err != nil {
			t.Fatal(err)
		}
		code := len(want) % 2
		story.event(agent.Event{Type: agent.EventToolStart, CallID: command, Tool: "shell", Args: data})
		story.event(agent.Event{Type: agent.EventToolEnd, CallID: command, Tool: "shell", ExitCode: &code})
		if kept {
			want = append(want, strings.TrimSpace(command))
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	d, err := folder.Read(nil, s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, m := range d.Metrics {
		if got = append(got, m.Source); m.Name != "test_exit_code" || m.Value != float64(i%2) || m.Target == nil {
			t.Errorf("%+v", m)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	ran := slices.Clone(s.Meta().Context.ValidationsExecuted)
	slices.Sort(ran)
	if !slices.Equal(got, want) || !slices.Equal(ran, want) {
		t.Errorf("kept are %q, executed %q, want %q", got, ran, want)
	}
}
