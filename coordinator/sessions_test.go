package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ralph/memory"
	"ralph/memory/config"
	"ralph/memory/markdown"
	"ralph/memory/registry"
	"ralph/memory/retention"
	"ralph/memory/session"
	"ralph/memory/session/folder"
	"ralph/workers/agent"
)

// sessionsOf opens the sessions of a fresh project with so many sessions in it.
func sessionsOf(t *testing.T, names ...string) (*Sessions, *[]string) {
	t.Helper()
	root := t.TempDir()
	for _, name := range names {
		s, err := session.Create(session.Options{StateDir: filepath.Join(root, ".ralph")}, name)
		if err == nil {
			err = s.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var warnings []string
	s := OpenSessions(Options{Root: root, Config: &config.Config{}}, func(w string) { warnings = append(warnings, w) })
	return s, &warnings
}

func TestFindSession(t *testing.T) {
	s, _ := sessionsOf(t, "alpha one", "alpha two", "beta")
	st, err := s.scan(false)
	if err != nil {
		t.Fatal(err)
	}
	for which, want := range map[string]string{"1": "001", "002": "002", "Beta": "003", "alpha t": "002", "session-003": "003", " b ": "003"} {
		if x, err := find(st.Sessions, which); err != nil || x.ID != want {
			t.Errorf("%q: %s %v", which, x.ID, err)
		}
	}
	for which, says := range map[string]string{"alpha": "several fit", "": "no such", "gamma": "no such", "9": "no such"} {
		_, err := find(st.Sessions, which)
		var e *Error
		if !errors.As(err, &e) || e.Status != StatusUsage || e.Hint == "" || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", which, err)
		}
	}
	_, err = find(st.Sessions, "btea")
	if status, f := Fail(err); status != StatusUsage || !strings.Contains(f.Hint, `"beta"`) {
		t.Errorf("%v %+v", status, f)
	}
}

// TestHolderWorksInOneSession: of all that say they are at work only one can be.
func TestHolderWorksInOneSession(t *testing.T) {
	came := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	at := func(id string, changed time.Duration, status session.Status) retention.Session {
		return retention.Session{ID: id, Status: status, Changed: came.Add(changed)}
	}
	for name, tc := range map[string]struct {
		holder   string
		sessions []retention.Session
		live     string
	}{
		"the newest":  {"", []retention.Session{at("001", time.Second, session.InProgress), at("002", time.Minute, session.InProgress), at("003", time.Hour, session.Completed)}, "002"},
		"the named":   {"001", []retention.Session{at("001", -time.Hour, session.InProgress), at("002", time.Minute, session.InProgress)}, "001"},
		"none":        {"r-1", []retention.Session{at("001", -time.Hour, session.InProgress)}, ""},
		"not at work": {"", []retention.Session{at("001", time.Hour, session.Paused)}, ""},
	} {
		markLive(tc.sessions, memory.Holder{SessionID: tc.holder, AcquiredAt: came})
		got := ""
		for _, s := range tc.sessions {
			if s.Live {
				got += s.ID
			}
		}
		if got != tc.live {
			t.Errorf("%s: %q is live", name, got)
		}
	}
}

func TestSessionsOfAHeldProject(t *testing.T) {
	s, warnings := sessionsOf(t, "one", "two")
	store, _, err := memory.Open(t.Context(), memory.Options{Root: s.o.Root, Holder: "chat"})
	if err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func(dry bool) error{
		"archive":   func(dry bool) error { _, err := s.Archive(t.Context(), []string{"1"}, dry); return err },
		"prune":     func(dry bool) error { _, _, err := s.Prune(t.Context(), false, dry); return err },
		"summarize": func(dry bool) error { _, err := s.Summarize(t.Context(), dry); return err },
		"handoff":   func(dry bool) error { _, err := s.Handoff(t.Context(), "1", "2", dry); return err },
		"merge":     func(dry bool) error { _, err := s.Merge(t.Context(), "1", "2", "", dry); return err },
	} {
		if status, _ := Fail(do(false)); status != StatusLocked {
			t.Errorf("%s: %s", name, status)
		}
		if err := do(true); err != nil {
			t.Errorf("%s, dry: %v", name, err)
		}
	}
	if rows, err := s.List(t.Context(), false); err != nil || len(rows) != 2 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if done, err := s.Archive(t.Context(), []string{"1"}, false); err != nil || len(done) != 1 {
		t.Errorf("%v %v %q", done, err, *warnings)
	}
	if rows, err := s.List(t.Context(), true); err != nil || len(rows) != 2 || !rows[0].Archived {
		t.Errorf("%+v %v", rows, err)
	}
}

// TestPruneKeepsWhatIsNotSummedUp: raw files of which the summary could not say
// everything stay.
func TestPruneKeepsWhatIsNotSummedUp(t *testing.T) {
	s, warnings := sessionsOf(t, "old")
	s.o.Now = func() time.Time { return time.Now().Add(1000 * 24 * time.Hour) }
	s.policy = retention.Policy{ArchiveAfter: time.Hour, DeleteRawAfter: 2 * time.Hour, Summaries: true}
	if done, err := s.Archive(t.Context(), nil, false); err != nil || len(done) != 1 {
		t.Fatal(done, err)
	}
	dir := filepath.Join(s.stateDir(), "sessions", "archive", "session-001-old")
	journal := filepath.Join(dir, session.JournalFile)
	bad := filepath.Join(dir, "decision-history.json")
	if err := os.WriteFile(bad, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Prune(t.Context(), false, false); err != nil || len(*warnings) == 0 {
		t.Errorf("%v %q", err, *warnings)
	}
	if _, err := os.Stat(journal); err != nil {
		t.Errorf("the journal is gone: %v", err)
	}
	if err := os.Remove(bad); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Prune(t.Context(), false, false); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(journal); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the journal is there: %v", err)
	}
}

// TestRegister: the registry is never necessary.
func TestRegister(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ralph", "sessions.json")
	r := registry.New(registry.Options{Path: path})
	if w := register(context.Background(), r, "/p", "001", os.Getpid(), registry.Running, nil); w != "" {
		t.Error(w)
	}
	listed, _, err := r.List(t.Context())
	if err != nil || len(listed) != 1 || listed[0].Status != registry.Running || !listed[0].Gone {
		t.Errorf("%+v %v", listed, err)
	}
	if w := register(context.Background(), registry.New(registry.Options{}), "/p", "001", 1, registry.Running, nil); w != "" {
		t.Errorf("no home: %q", w)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(`{"version":99}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if w := register(context.Background(), r, "/p", "001", 1, registry.Running, nil); !strings.Contains(w, "newer Ralph") {
		t.Errorf("%q", w)
	}
}

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
