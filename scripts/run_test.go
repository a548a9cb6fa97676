package scripts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/spf13/afero"

	"ralph/coordinator"
	"ralph/coordinator/loop"
	"ralph/coordinator/result"
	"ralph/memory/feature"
	"ralph/memory/identity"
	"ralph/memory/session"
	"ralph/workers/agent"
)

// snapshot leaves the snapshot of a run in the bench's project, with a session.
func (b *bench) snapshot(name string, edit func(*feature.Snapshot)) feature.Snapshot {
	b.Helper()
	s, err := session.Create(session.Options{StateDir: filepath.Join(b.dir, ".ralph"), Kind: "run"}, name)
	if err != nil {
		b.Fatal(err)
	}
	settings := loop.Settings{Feature: name, Plan: "prd.json", Tracker: "json", MaxIterations: 40, Parallel: 4, Model: "m-old", Sandbox: "read-only", HumanIntervention: "never", MaxTokens: 900}
	raw, err := json.Marshal(map[string]any{"version": 1, "settings": settings})
	if err != nil {
		b.Fatal(err)
	}
	at := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	snap := feature.Snapshot{SessionID: s.ID(), SessionDir: ".ralph/sessions/" + filepath.Base(s.Dir()), Status: feature.Running, Phase: "implementation", Iteration: 7, MaxIterations: 40,
		Tasks: feature.Count{Completed: 2, Total: 5}, ActiveTaskIDs: []string{"US-3", "US-4"}, SkippedTaskIDs: []string{"US-5"},
		Iterations: []feature.Iteration{{Iteration: 6, Status: "completed", TaskID: "US-2", TaskTitle: "Two", TaskCompleted: true, DurationMS: 2500, StartedAt: at, EndedAt: at.Add(time.Second)}},
		Tokens:     feature.Tokens{Input: 1000, Output: 200}, Agent: feature.Agent{Plugin: "ralph", Model: "m-old"},
		Tracker: feature.Tracker{Plugin: "json", PlanPath: "prd.json", TotalTasks: 5, Tasks: []feature.Task{{ID: "US-1", Title: "One", Status: "done"}, {ID: "US-2", Title: "Two", Status: "done"},
			{ID: "US-3", Title: "Three", Status: "in_progress"}, {ID: "US-4", Title: "Four", Status: "in_progress"}, {ID: "US-5", Title: "Five", Status: "skipped"}}},
		StartedAt: at, Cwd: b.dir, Run: raw}
	if edit != nil {
		edit(&snap)
	}
	snap.Feature = name
	b.grant(snap)
	store, err := feature.Open(feature.Options{StateDir: filepath.Join(b.dir, ".ralph")}, name)
	if err == nil {
		err = store.Save(snap)
	}
	if err == nil {
		err = store.Close()
	}
	switch snap.Status {
	case feature.Completed:
		s.End(session.Completed, "")
	case feature.Failed:
		s.End(session.Failed, snap.ExitReason)
	case feature.Paused:
		s.End(session.Paused, "paused")
	}
	if !snap.Status.Live() { // a killed one closes nothing
		if cerr := s.Close(); err == nil {
			err = cerr
		}
	}
	if err != nil {
		b.Fatal(err)
	}
	return snap
}

// grant puts the settings of a snapshot's run on record on the user's side.
func (b *bench) grant(snap feature.Snapshot) {
	b.Helper()
	var run struct {
		Settings json.RawMessage `json:"settings"`
	}
	b.own()
	home := filepath.Join(b.env["HOME"], ".local", "state", "ralph")
	found, err := identity.Examine(afero.NewOsFs(), home, filepath.Join(b.dir, ".ralph"))
	if err != nil || found.Record.ID == "" || json.Unmarshal(snap.Run, &run) != nil || run.Settings == nil {
		return
	}
	text := fmt.Sprintf(`{"feature":%q,"sessionId":%q,"granted":{"settings":%s,"approved":true}}`, snap.Feature, snap.SessionID, run.Settings)
	path := filepath.Join(identity.Dir(home, found.Record.ID), "grants", snap.Feature+".json")
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) job() coordinator.Job {
	b.Helper()
	if len(b.fake.jobs) != 1 || b.fake.jobs[0].Loop == nil {
		b.Fatalf("%d jobs: %+v\n%s", len(b.fake.jobs), b.fake.jobs, b.err.String())
	}
	return b.fake.jobs[0]
}

// planBench is a bench in a project with plans: a run looks at its plan before it
// opens anything.
func planBench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	plan := `[{"id": "T-1", "title": "one", "priority": 1, "epic": "E-1"}, {"id": "T-2", "title": "two", "epic": "E-2"}, {"id": "T-3", "title": "three", "epic": "E-9"}]`
	b.file("prd.json", plan)
	b.file("other.json", plan)
	b.file("RALPH_TASKS.md", "- [ ] **T-1** one\n")
	return b
}

func TestRunSettings(t *testing.T) {
	b := planBench(t)
	b.env["RALPH_FALLBACK_AGENT"] = "codex"
	if code := b.run("run", "--plan", "prd.json", "--epic", "E-1", "--epic", "E-2", "--feature", "auth", "--parallel", "3", "--max-iterations", "9", "--agent", "claude",
		"--on-error", "skip", "--require-check", "--select", "priority <= 2", "--risk-tolerance", "0.3", "--max-cost", "1.5", "--timeout", "10m", "--check", "make test", "--json"); code != 0 {
		t.Fatalf("exit %d: %s", code, b.err.String())
	}
	got := *b.job().Loop
	want := loop.Settings{Feature: "auth", Plan: "prd.json", Epics: []string{"E-1", "E-2"}, Select: "priority <= 2", Parallel: 3, MaxIterations: 9, RiskTolerance: 0.3, Agent: "claude",
		Fallback: "codex", OnError: "skip", RequireCheck: true, MaxCostUSD: 1.5, Timeout: 10 * time.Minute, Check: "make test", Sandbox: "workspace"}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if o := b.fake.opts; o.Holder != "run" || o.Session != "new" || o.Recovery != nil {
		t.Errorf("%+v", o)
	}
	checkResult(t, lastLine(b.out.String()))
	// What nobody set is left to the plan.
	b = planBench(t)
	b.run("run")
	if s := b.job().Loop; s.ConfidenceThreshold != 0 || s.LearningRate != 0 || s.RiskTolerance != 0 || s.HumanIntervention != "" || s.MaxIterations != 300 || s.MaxTurns != 0 {
		t.Errorf("%+v", s)
	}
	// A path of a flag is where the user stands, of the project where the work is.
	b = planBench(t)
	b.file("sub/plan.json", `[{"id": "T-1", "title": "one"}]`)
	at := b.dir
	b.dir = filepath.Join(at, "sub")
	b.run("-C", at, "run", "--plan", "plan.json")
	if p := b.job().Loop.Plan; p != "sub/plan.json" {
		t.Errorf("the plan is %q", p)
	}
}

func TestRunUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"run", "fix", "it"}, `ralph run takes no "fix"`}, {[]string{"run", "--continue", "--new"}, "exclude each other"}, {[]string{"run", "--feature", "../x"}, "--feature"},
		{[]string{"run", "--feature", "session-001"}, "--feature"}, {[]string{"run", "--feature", "///"}, "--feature"}, {[]string{"run", "--epic", " "}, "the value is empty"}, {[]string{"run", "--plan", ""}, "--plan"}, {[]string{"run", "--schema", "x.json"}, "does not fit a run"},
		{[]string{"run", "--paralel", "3"}, "did you mean --parallel?"}, {[]string{"run", "--max-iterations", "many"}, "many"}, {[]string{"run", "--human-intervention", "sometimes"}, "sometimes"},
		{[]string{"run", "--confidence-threshold", "7"}, "confidence_threshold"},
	} {
		b := planBench(t)
		if code := b.run(c.args...); code != 2 {
			t.Errorf("%q: exit %d", c.args, code)
		}
		if !strings.Contains(strings.ReplaceAll(b.err.String(), "confidence-threshold", "confidence_threshold"), c.says) || !strings.Contains(b.err.String(), "ralph: hint: ") || b.fake.opened > 0 {
			t.Errorf("%q: opened %d times\n%s", c.args, b.fake.opened, b.err.String())
		}
	}
}

func TestResumeOrNew(t *testing.T) {
	paused := func(s *feature.Snapshot) { s.Status = feature.Paused }
	completed := func(s *feature.Snapshot) { s.Status = feature.Completed }
	for name, c := range map[string]struct {
		edit    func(*feature.Snapshot) // of the run auth; nil: cut off
		none    bool
		args    []string
		code    int
		goOn    bool
		feature string
	}{
		"nothing was":            {none: true, code: 0},
		"nothing, new":           {none: true, args: []string{"--new"}},
		"nothing, continue":      {none: true, args: []string{"--continue"}, code: 1},
		"cut off":                {code: 5},
		"paused":                 {edit: paused, code: 5},
		"completed":              {edit: completed},
		"completed, continue":    {edit: completed, args: []string{"--continue"}, code: 1},
		"continue":               {args: []string{"--continue"}, goOn: true, feature: "auth"},
		"paused, continue":       {edit: paused, args: []string{"--continue"}, goOn: true, feature: "auth"},
		"new":                    {args: []string{"--new"}},
		"named":                  {args: []string{"--feature", "auth"}, code: 5},
		"named, continue":        {args: []string{"--feature", "auth", "--continue"}, goOn: true, feature: "auth"},
		"another one":            {args: []string{"--feature", "docs"}, feature: "docs"},
		"another one, continue":  {args: []string{"--feature", "docs", "--continue"}, code: 1},
		"the same plan":          {args: []string{"--plan", "prd.json"}, code: 5},
		"another plan":           {args: []string{"--plan", "other.json"}},
		"another tracker":        {args: []string{"--tracker", "markdown"}},
		"other epics":            {args: []string{"--epic", "E-9"}},
		"only shown, cut off":    {args: []string{"--dry-run"}},
		"named, new":             {args: []string{"--feature", "auth", "--new"}, feature: "auth"},
		"named, new, same plan":  {args: []string{"--feature", "auth", "--new", "--plan", "prd.json"}, feature: "auth"},
		"named, other plan only": {args: []string{"--feature", "auth", "--plan", "other.json"}, code: 5},
	} {
		t.Run(name, func(t *testing.T) {
			b := planBench(t)
			var snap feature.Snapshot
			if !c.none {
				snap = b.snapshot("auth", c.edit)
			}
			code := b.run(append([]string{"run", "--json"}, c.args...)...)
			if code != c.code {
				t.Fatalf("exit %d, want %d\n%s", code, c.code, b.err.String())
			}
			checkResult(t, lastLine(b.out.String()))
			if code != 0 {
				if b.fake.opened > 0 {
					t.Error("the coordinator was opened")
				}
				if code == 5 {
					b.wantErr("ralph run --continue", "--new", "7 of 40 iterations, 2 of 5 tasks done", "US-3, US-4")
				}
				return
			}
			s := b.job().Loop
			if s.Continue != c.goOn || s.New != slices.Contains(c.args, "--new") || s.Feature != c.feature {
				t.Errorf("%+v", s)
			}
			if c.goOn && (b.fake.opts.Session != snap.SessionID || s.Parallel != 4 || s.MaxIterations != 40 || s.Model != "m-old" || s.Sandbox != "read-only" || s.HumanIntervention != "never" || s.MaxTokens != 900) {
				t.Errorf("not what it was begun with: session %q, %+v", b.fake.opts.Session, s)
			}
			if cfg := b.fake.opts.Config; c.goOn && (cfg.Run.MaxIterations != 40 || cfg.Sandbox != "read-only" || cfg.Model != "m-old") {
				t.Errorf("the configuration brings back other settings: %+v", cfg.Run)
			}
		})
	}
}

// A setting that is given now counts before that of the run that goes on.
func TestGoOnWithOtherSettings(t *testing.T) {
	b := planBench(t)
	b.snapshot("auth", nil)
	b.env["RALPH_MODEL"] = "m-env"
	b.env["RALPH_MAX_TOKENS"] = "0"
	if code := b.run("run", "--continue", "--max-iterations", "80", "--parallel", "0"); code != 0 {
		t.Fatalf("exit %d: %s", code, b.err.String())
	}
	s := b.job().Loop
	if s.MaxIterations != 80 || s.Parallel != 0 || s.Model != "m-env" || s.MaxTokens != 0 || s.Sandbox != "read-only" || s.Tracker != "json" {
		t.Errorf("%+v", s)
	}
	b.wantErr(`the run "auth" goes on`, "7 of 80 iterations", "begun and not finished: US-3, US-4")
}

// The session of a run may be gone: the plan and git know what is done.
func TestGoOnWithoutSession(t *testing.T) {
	b := planBench(t)
	snap := b.snapshot("auth", nil)
	if err := os.RemoveAll(filepath.Join(b.dir, filepath.FromSlash(snap.SessionDir))); err != nil {
		t.Fatal(err)
	}
	if code := b.run("resume", "auth"); code != 0 {
		t.Fatalf("exit %d: %s", code, b.err.String())
	}
	if b.fake.opts.Session != "new" || !b.job().Loop.Continue {
		t.Errorf("session %q", b.fake.opts.Session)
	}
	b.wantErr("is gone: it goes on in a new one")
}

func TestRunAsks(t *testing.T) {
	for answer, goOn := range map[string]bool{"\n": true, "resume\n": true, "new\n": false, "2\n": false} {
		b := planBench(t)
		b.snapshot("auth", nil)
		ptmx, tty, err := pty.Open()
		if err != nil {
			t.Skip("no pseudo-terminal here: ", err)
		}
		shown := make(chan string, 1)
		go func() { // ends when the terminal is closed
			var all []byte
			buf := make([]byte, 4096)
			asked := false
			for {
				n, err := ptmx.Read(buf)
				all = append(all, buf[:n]...)
				if !asked && strings.Contains(string(all), "answer [resume]: ") {
					asked = true
					_, _ = ptmx.WriteString(answer)
				}
				if err != nil {
					shown <- string(all)
					return
				}
			}
		}()
		b.own()
		env := map[string]string{"HOME": b.env["HOME"], "TERM": "xterm"}
		app := App{Stdin: tty, Stdout: tty, Stderr: tty, Getenv: func(k string) string { return env[k] }, Dir: b.dir, Open: b.fake.open}
		code := Main(t.Context(), app, []string{"run"})
		_ = tty.Close()
		_ = ptmx.Close()
		out := <-shown
		if code != 0 || len(b.fake.jobs) != 1 || b.fake.jobs[0].Loop.Continue != goOn {
			t.Errorf("%q: exit %d, %+v\n%s", answer, code, b.fake.jobs, out)
		}
		wantText(t, out, `go on with the run "auth", or begin a new one?`, "was interrupted ", "(session 001): 7 of 40 iterations", "1. resume", "2. new")
	}
}

func TestSecondRun(t *testing.T) {
	b := planBench(t)
	b.snapshot("auth", nil)
	b.held()
	for _, args := range [][]string{{"resume"}, {"resume", "auth"}, {"run"}, {"run", "--continue"}, {"run", "--new", "--json"}} {
		if code := b.run(args...); code != 8 {
			t.Errorf("%q: exit %d", args, code)
		}
		b.wantErr("another Ralph is running here (pid ", "ralph: hint: ", "ralph attach", "ralph stop")
		if n := strings.Count(b.err.String(), "ralph attach"); n != 1 {
			t.Errorf("%q: the ways out are said %d times\n%s", args, n, b.err.String())
		}
		if b.fake.opened > 0 {
			t.Error("the coordinator was opened")
		}
	}
	if d := b.document(); d["status"] != "locked" || d["exit_code"] != 8.0 {
		t.Errorf("%v", d)
	}
}

func TestForeignSnapshot(t *testing.T) {
	b := planBench(t)
	text := `{"tool":"another","feature":"auth"}`
	path := b.file(".ralph/sessions/auth.json", text)
	for _, args := range [][]string{{"run", "--feature", "auth"}, {"run", "--feature", "auth", "--continue"}, {"run", "--feature", "auth", "--new"}, {"resume", "auth"}} {
		if code := b.run(args...); code != 1 || b.fake.opened > 0 {
			t.Errorf("%q: exit %d", args, code)
		}
		b.wantErr("is no snapshot of Ralph's", "ralph sessions import")
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != text {
		t.Errorf("%q %v", now, err)
	}
	// It is in nobody's way who does not mean it.
	if code := b.run("run"); code != 0 {
		t.Errorf("exit %d: %s", code, b.err.String())
	}
	if code := b.run("status", "--json"); code != 0 || b.document()["run"] != nil {
		t.Errorf("exit %d: %s", code, b.out.String())
	}
}

func TestRunOutcomes(t *testing.T) {
	for status, want := range map[result.Status]int{result.Completed: 0, result.Failed: 1, result.ConfigError: 3, result.NeedsInput: 5,
		result.Limit: 6, result.RetryLater: 75, result.Timeout: 124, result.Interrupted: 130} {
		for _, form := range []string{"text", "json", "jsonl"} {
			b := planBench(t)
			took := int64(1500)
			b.fake.work = func(_ context.Context, j coordinator.Job) result.Outcome {
				b.fake.emit(agent.Event{Type: agent.EventStart, Root: b.dir})
				b.fake.emit(agent.Event{Type: agent.EventTaskStart, TaskID: "T-1", Text: "one"})
				b.fake.emit(agent.Event{Type: agent.EventTaskEnd, TaskID: "T-1", Status: "done", Text: "one", Output: "merged 01234567, check passed", DurationMS: &took})
				return result.Outcome{Status: status, Reason: "2 tasks remain", Answer: "2 tasks remain\nopen (2): T-2, T-3", Tasks: result.TaskCount{Done: 1, Open: 2}, SessionID: "001"}
			}
			if code := b.run("run", "--output", form); code != want {
				t.Errorf("%s %s: exit %d, want %d\n%s", status, form, code, want, b.err.String())
			}
			switch form {
			case "text":
				if b.out.String() != "2 tasks remain\nopen (2): T-2, T-3\n" {
					t.Errorf("%q", b.out.String())
				}
				b.wantErr("ralph: T-1 done: one (merged 01234567, check passed, 1.5s)")
			case "jsonl":
				checkEvents(t, b.out.String())
			default:
				checkResult(t, lastLine(b.out.String()))
				if tasks := b.document()["tasks"].(map[string]any); tasks["open"] != 2.0 {
					t.Errorf("%v", tasks)
				}
			}
			if len(b.fake.records) != 1 || b.fake.closed != 1 {
				t.Errorf("%d records, closed %d times", len(b.fake.records), b.fake.closed)
			}
		}
	}
}

func TestRunDryRun(t *testing.T) {
	b := planBench(t)
	steps := []loop.Step{{Order: 1, Layer: 1, ID: "T-1", Title: "Lay the ground", Phase: "planning", Reasons: []string{"on the critical path", "priority 0"}, Unblocks: []string{"T-2", "T-3"}},
		{Order: 2, Layer: 2, ID: "T-2", Title: "Build 日本語\x1b[31m", After: []string{"T-1"}, Reasons: []string{"priority 2"}}, {ID: "T-9", Title: "Old", Left: "it needs T-8, which failed"}}
	b.fake.work = func(_ context.Context, j coordinator.Job) result.Outcome {
		raw, err := json.Marshal(steps)
		if err != nil {
			t.Error(err)
		}
		return result.Outcome{Status: result.Completed, Structured: raw}
	}
	if code := b.run("run", "--dry-run"); code != 0 || !b.job().DryRun || !b.job().Loop.DryRun || b.fake.opts.Session != "" {
		t.Fatalf("exit %d, %+v", code, b.fake.jobs)
	}
	if want := "1.\n   T-1  Lay the ground  [planning]\n      on the critical path; priority 0; unblocks T-2, T-3\n2.\n   T-2  Build 日本語␛[31m\n      priority 2; after T-1\nnot worked:\n   T-9  Old: it needs T-8, which failed\n"; b.out.String() != want {
		t.Errorf("%s", b.out.String())
	}
	if len(b.fake.records) > 0 {
		t.Error("a run that is only shown was recorded")
	}
	if b.run("run", "--dry-run", "--json"); len(b.document()["structured"].([]any)) != 3 || !strings.Contains(b.document()["result"].(string), "T-9") {
		t.Errorf("%s", b.out.String())
	}
	checkResult(t, lastLine(b.out.String()))
}

func TestResumeRun(t *testing.T) {
	paused := func(s *feature.Snapshot) { s.Status = feature.Paused }
	for name, c := range map[string]struct {
		edit func(*feature.Snapshot)
		word string
		code int
	}{
		"by feature": {word: "auth"}, "by id": {word: "001"}, "by a beginning": {word: "au"}, "paused": {edit: paused, word: "auth"},
		"not named": {code: 5}, "completed": {edit: func(s *feature.Snapshot) { s.Status = feature.Completed }, word: "auth", code: 1}, "unknown": {word: "nosuch", code: 2}, "outside": {word: "../auth", code: 2},
	} {
		t.Run(name, func(t *testing.T) {
			b := planBench(t)
			b.snapshot("auth", c.edit)
			args := []string{"resume"}
			if c.word != "" {
				args = append(args, c.word)
			}
			if code := b.run(args...); code != c.code {
				t.Fatalf("exit %d, want %d\n%s", code, c.code, b.err.String())
			}
			if c.code != 0 {
				if b.fake.opened > 0 {
					t.Error("the coordinator was opened")
				}
				return
			}
			if s := b.job().Loop; !s.Continue || s.Feature != "auth" || s.MaxIterations != 40 || b.fake.opts.Session != "001" {
				t.Errorf("%+v, session %q", s, b.fake.opts.Session)
			}
		})
	}
}

func TestRunStatus(t *testing.T) {
	for name, c := range map[string]struct {
		edit  func(*feature.Snapshot)
		state string
		again bool // it can go on
	}{
		"stopped": {func(s *feature.Snapshot) {
			s.Status, s.ActiveTaskIDs = feature.Interrupted, nil
			for _, id := range []string{"US-3", "US-4", "US-1"} {
				s.Iterations = append(s.Iterations, feature.Iteration{Iteration: 7, Status: "interrupted", TaskID: id})
			}
			s.Iterations = append(s.Iterations, feature.Iteration{Iteration: 8, Status: "completed", TaskID: "US-1"})
		}, "interrupted", true},
		"cut off":   {nil, "interrupted", true},
		"pausing":   {func(s *feature.Snapshot) { s.Status = feature.Pausing }, "interrupted", true},
		"paused":    {func(s *feature.Snapshot) { s.Status, s.ExitReason = feature.Paused, "40 iterations are used up" }, "paused", true},
		"completed": {func(s *feature.Snapshot) { s.Status, s.ActiveTaskIDs = feature.Completed, nil }, "completed", false},
		"failed": {func(s *feature.Snapshot) {
			s.Status, s.ActiveTaskIDs, s.ExitReason = feature.Failed, nil, "US-3 failed"
		}, "failed", false},
	} {
		t.Run(name, func(t *testing.T) {
			b := planBench(t)
			b.snapshot("auth", c.edit)
			if code := b.run("status", "--json"); code != 0 {
				t.Fatalf("exit %d: %s", code, b.err.String())
			}
			d := b.document()
			if err := statusChecker().Validate(d); err != nil {
				t.Errorf("%v\n%s", err, b.out.String())
			}
			run := d["run"].(map[string]any)
			if d["state"] != c.state || run["status"] != c.state || run["feature"] != "auth" || run["iteration"] != 7.0 || d["live"] != false || d["session"] != "001" {
				t.Errorf("%s", b.out.String())
			}
			r, _ := d["recovery"].(map[string]any)
			if (r != nil) != c.again {
				t.Fatalf("recovery: %v", d["recovery"])
			}
			if c.again && (r["from"] != "001" || r["iteration"] != 7.0 || len(r["tasks"].([]any)) != 2 || r["feature"] != "auth" || (r["lost"] != "") != (c.state == "interrupted" && name != "stopped")) {
				t.Errorf("%v", r)
			}
			if n := run["tasks"].(map[string]any); n["done"] != 2.0 || n["skipped"] != 1.0 || n["total"] != 5.0 || n["open"] != 2.0 {
				t.Errorf("%v", n)
			}
			want := map[string]int{"interrupted": 2, "paused": 1, "completed": 0, "failed": 2}[c.state]
			if code := b.run("status", "--exit-status"); code != want {
				t.Errorf("exit status %d, want %d", code, want)
			}
			wantText(t, b.out.String(), "state      "+c.state, "run        auth, "+c.state+", phase implementation, iteration 7/40, prd.json", "2 of 5 done, 0 failed, 1 skipped, 2 open")
			if c.again {
				wantText(t, b.out.String(), "ralph resume auth")
			}
		})
	}
}

// What was done after a run says how the project stands; the run can still go on.
func TestStatusAfterAnotherTask(t *testing.T) {
	b := planBench(t)
	b.snapshot("auth", func(s *feature.Snapshot) { s.Status = feature.Paused })
	line := fmt.Sprintf(`{"type":"result","status":"completed","reason":"done","run_id":"r-9","started_at":%q,"duration_ms":10}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	b.file(".ralph/runs.jsonl", line+"\n")
	b.run("status", "--json")
	d := b.document()
	if r := d["recovery"].(map[string]any); d["state"] != "completed" || r["from"] != "001" || d["run"].(map[string]any)["status"] != "paused" {
		t.Errorf("%s", b.out.String())
	}
}

func TestStatusOfALiveRun(t *testing.T) {
	b := planBench(t)
	since := time.Now().Add(-time.Minute).UTC()
	view := &loop.View{Feature: "auth", Status: feature.Running, Phase: "implementation", Iteration: 8, MaxIterations: 40, Tracker: "json", Plan: "prd.json", Epics: []string{}, StartedAt: since,
		Counts: loop.Counts{Done: 2, Open: 3, Total: 5}, Active: []loop.Row{{ID: "US-3", Title: "Three", Status: "in_progress", Agent: "three", Attempt: 2, Since: since}}, Next: []loop.Row{}, Recent: []loop.Row{},
		Waiting: &loop.Wait{For: "rate_limit", Until: time.Now().Add(time.Minute)}, Recovery: &loop.Recovery{From: "001", Iteration: 7, Tasks: []string{"US-3"}, Lost: "one reply"}}
	b.other(&other{live: coordinator.Live{Kind: "run", State: "running", SessionID: "001", RunID: "r-1", Loop: view}})
	b.run("status", "--json")
	d := b.document()
	if err := statusChecker().Validate(d); err != nil {
		t.Errorf("%v\n%s", err, b.out.String())
	}
	r := d["recovery"].(map[string]any)
	if d["live"] != true || d["state"] != "running" || r["from"] != "001" || r["iteration"] != 7.0 || r["lost"] != "one reply" || !slices.Equal(r["tasks"].([]any), []any{"US-3"}) {
		t.Errorf("%s", b.out.String())
	}
	b.run("status")
	wantText(t, b.out.String(), "US-3 in_progress three 1m00s Three", "waiting: rate limit")
}
