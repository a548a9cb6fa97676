package repl

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ralph/coordinator/crew"
	"ralph/coordinator/loop"
	"ralph/coordinator/plan"
	"ralph/coordinator/result"
	"ralph/memory/feature"
	"ralph/workers/agent"
)

// shelf is a plan with two epics, a chain and words of many widths.
func shelf() *plan.Plan {
	return &plan.Plan{Tracker: "json", Path: "prd.json", Name: "Upload", Tasks: []plan.Task{
		{ID: "EPIC-1", Title: "Network", Kind: "epic", Status: plan.Pending},
		{ID: "US-1", Title: "Store the parts", Epic: "EPIC-1", Status: plan.Done, Result: "parts are on disk"},
		{ID: "US-2", Title: "Retry the upload", Epic: "EPIC-1", Status: plan.InProgress, After: []string{"US-1"}},
		{ID: "US-3", Title: "ログイン画面を直す", Epic: "EPIC-2", Status: plan.Pending, Priority: 1, Check: "make test"},
		{ID: "US-4", Title: "Show the progress", Epic: "EPIC-2", Status: plan.Pending, Priority: 2, After: []string{"US-3", "US-2"}},
		{ID: "US-5", Title: "Describe the keys", Epic: "EPIC-2", Status: plan.Failed},
	}, Warnings: []plan.Problem{{File: "prd.json", Line: 12, Text: "id 5 was read as \"5\""}}}
}

// course1 is a run in the middle of its work.
func course1(now time.Time) *loop.View {
	return &loop.View{Feature: "upload", Status: feature.Running, Phase: "implementation", Iteration: 8, MaxIterations: 300, Tracker: "json", Plan: "prd.json", Epics: []string{"EPIC-1"},
		Counts: loop.Counts{Done: 5, Failed: 1, Skipped: 1, Open: 5, Total: 12},
		Active: []loop.Row{
			{ID: "US-2", Title: "Retry the upload", Agent: "auth", Attempt: 2, Since: now.Add(-65 * time.Second)},
			{ID: "US-3", Title: "日本語の長い題名を持つ仕事、端末の幅よりも長いかもしれない", Agent: "codex", Attempt: 1, Since: now.Add(-65 * time.Second)},
		},
		Next:   []loop.Row{{ID: "US-4", Title: "Show the progress"}},
		Recent: []loop.Row{{ID: "US-5", Title: "Describe the keys", Status: "failed", Reason: "check `make test` exits 2"}}}
}

// working is a run that works until it is stopped.
func working(ctx context.Context, f *fake, _ string) result.Outcome {
	f.team()
	defer f.alone()
	f.mu.Lock()
	last := f.jobs[len(f.jobs)-1]
	f.run = course1(time.Now())
	f.mu.Unlock()
	if last.Loop == nil {
		return echo(ctx, f, last.Task)
	}
	ok := true
	f.link.Eyes(agent.Event{Type: agent.EventDecision, TaskID: "US-2", Status: "execute", Text: "0.86 ≥ 0.7"})
	f.link.Eyes(agent.Event{Type: agent.EventTaskStart, TaskID: "US-2", Text: "Retry the upload", Attempt: 2})
	f.link.Eyes(agent.Event{Type: agent.EventChildStart, TaskID: "US-2", Agent: "auth", Text: "US-2 Retry the upload", Reason: "ralph"})
	f.link.Eyes(agent.Event{Type: agent.EventTaskEnd, TaskID: "US-1", Status: "done", Text: "parts are on disk", OK: &ok})
	<-ctx.Done()
	return result.Outcome{}
}

// loops are the settings of the runs that were asked for.
func (f *fake) loops() []loop.Settings {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []loop.Settings
	for _, j := range f.jobs {
		if j.Loop != nil {
			list = append(list, *j.Loop)
		}
	}
	return list
}

func sized(minutes string) *strings.Replacer {
	return strings.NewReplacer("1m06s", minutes, "1m07s", minutes, "1m08s", minutes, "1m09s", minutes)
}

// TestRunInTheChat begins a run, talks to it, pauses it, stops it at once and goes
// on with it, on terminals of three widths.
func TestRunInTheChat(t *testing.T) {
	for cols, name := range map[int]string{40: "run-40", 80: "run-80", 200: "run-200"} {
		c := wide(t, cols, 34, working)
		c.Type("\x0c/run --epic EPIC-1 --parallel 2 --max-iterations 300\r")
		s := c.Until("the tasks at work", func(s string) bool {
			return strings.Contains(s, "US-2  Retry the uplo") && strings.Contains(s, "next: US-4") && strings.Contains(s, "US-1 done")
		})
		for _, row := range strings.Split(s, "\n") {
			if n := len([]rune(row)); n > cols {
				t.Errorf("%d columns: a row of %d", cols, n)
			}
		}
		c.Type("half")
		c.Has("❯ half▏")
		golden(t, name, sized("1m05s").Replace(c.Until("the agents", func(s string) bool { return strings.Contains(s, "❯ half▏") })))
		began := time.Now()
		c.Type("\x03")
		c.Has("talk ❯ half▏")
		t.Logf("%d columns: ^C to the prompt: %v", cols, time.Since(began))
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the prompt took %v", took)
		}
		c.Until("the end of the live rows", func(s string) bool { return !strings.Contains(s, "next: US-4") })
		c.Type("\x15\x04")
		c.left(0)
	}
}

func TestRunIsHeldByTheCollar(t *testing.T) {
	c := wide(t, 100, 40, working)
	c.Type("/run --feature upload\r")
	c.Has("next: US-4")
	c.Type("\x0cuse tabs\r")
	c.waits("steer - use tabs")
	c.Type("@auth: and no spaces\r")
	c.waits("steer auth and no spaces")
	c.Type("\x0c/run\r")
	c.Has("a run is under way: the run upload over prd.json")
	c.Type("\x0c/pause\r")
	c.Has("paused · 5/12 done")
	c.Has("ralph ")
	c.Type("\x0c/status\r")
	s := c.Has("commands end by")
	for _, want := range []string{"the run upload over prd.json is paused at iteration 8 of 300: 5 of 12 tasks done, 1 failed", "prd.json (json), EPIC-1", "US-2 Retry the upload, auth, try 2", "failed US-5 Describe the keys: check"} {
		if !strings.Contains(strings.Join(strings.Fields(s), " "), want) {
			t.Errorf("/status lacks %q:\n%s", want, s)
		}
	}
	c.Type("\x0c/resume\r")
	c.Has("the work goes on")
	c.Lacks("paused · 5/12")
	c.Type("\x0c/stop\r")
	c.Has("ralph talk ❯")
	s = c.Has("was interrupted at iteration 8 of 300")
	if !strings.Contains(s, "/go goes on") {
		t.Errorf("nobody says how to go on:\n%s", s)
	}
	c.Has("ralph talk ❯ use tabs") // what was not delivered is back
	c.Type("\x15\x0c/go\r")
	c.Has("next: US-4")
	c.Type("\x03")
	c.Has("ralph talk ❯")
	c.Type("\x15\x0c/run --continue\r")
	c.Has("next: US-4")
	c.Type("\x03")
	c.Has("ralph talk ❯")
	want := []loop.Settings{{Feature: "upload"}, {Feature: "upload", Continue: true}, {Continue: true}}
	if diff := cmp.Diff(want, c.f.loops()); diff != "" {
		t.Error(diff)
	}
	for _, j := range c.f.jobs[1:] {
		if !j.Go || !j.Chat {
			t.Errorf("after a stop the work was begun with %+v", j)
		}
	}
	if n := c.f.stopped(); n != 3 {
		t.Errorf("Stop was called %d times", n)
	}
	c.Type("\x15\x04")
	c.left(0)
}

// What stands in /run is what is asked for, and what cannot be is refused.
func TestRunIsAskedFor(t *testing.T) {
	c := wide(t, 100, 30, func(_ context.Context, f *fake, _ string) result.Outcome {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.run != nil {
			f.run.Status, f.run.Counts = feature.Completed, loop.Counts{Done: 12, Total: 12}
		}
		return result.Outcome{Answer: "1. US-3: most urgent"}
	})
	for line, want := range map[string]string{
		"/run prd.json":         `"prd.json" is none`,
		"/run --paralel 3":      "did you mean --parallel?",
		"/run --parallel some":  "is not a whole number",
		"/run --new --continue": "contradicts",
		"/run --output json":    "on the command line",
	} {
		c.Type("\x0c" + line + "\r")
		c.Has(want)
	}
	if n := len(c.f.loops()); n != 0 {
		t.Fatalf("%d runs were begun", n)
	}
	c.Type("\x0c/run --plan prd.json --tracker json --epic A --epic B --select 'priority < 2' --agent codex --dry-run\r")
	c.Has("US-3: most urgent")
	c.f.mu.Lock()
	c.f.run = course1(time.Now())
	c.f.run.Status = feature.Interrupted
	c.f.mu.Unlock()
	// A run that can go on is not forgotten, and none is begun by a slip.
	for _, step := range []struct{ answer, want string }{{"", "no run was begun"}, {"continue", "is completed at iteration 8"}, {"new", "is completed at iteration 8"}} {
		c.f.mu.Lock()
		c.f.run.Status = feature.Interrupted
		c.f.mu.Unlock()
		c.Type("\x0c/run\r")
		c.Has("Go on with it, or begin a new run?")
		c.Has("answer [nothing]")
		c.Type(step.answer + "\r")
		c.Has(step.want)
		c.idle()
	}
	want := []loop.Settings{{Plan: "prd.json", Tracker: "json", Epics: []string{"A", "B"}, Select: "priority < 2", Agent: "codex", DryRun: true}, {Feature: "upload", Continue: true}, {New: true}}
	if diff := cmp.Diff(want, c.f.loops()); diff != "" {
		t.Error(diff)
	}
	c.Type("\x04")
	c.left(0)
}

func TestPlanInTheChat(t *testing.T) {
	c := wide(t, 80, 34, echo)
	c.Type("/plan\r")
	c.Has("there is no plan: ralph plan create talks one into being")
	c.f.mu.Lock()
	c.f.plan = shelf()
	c.f.mu.Unlock()
	c.Type("\x0c/plan show\r")
	golden(t, "plan", c.Until("the plan", func(s string) bool { return strings.Contains(s, "id 5 was read") && strings.Contains(s, "❯ ▏") }))
	// So does /tasks, whatever file it is from, and what RALPH_TASKS.md has after it.
	c.Type("\x0c/tasks\r")
	golden(t, "tasks", c.Until("the tasks", func(s string) bool { return strings.Contains(s, "it works") && strings.Contains(s, "❯ ▏") }))
	c.Type("\x0c/plan next\r")
	c.Has("next  US-3 ログイン画面を直す")
	c.Has("/why US-3 shows the sum")
	c.Type("\x0c/plan graph\r")
	s := c.Until("the graph", func(s string) bool { return strings.Contains(s, "waits") && strings.Contains(s, "❯ ▏") })
	for _, want := range []string{"the longest chain: US-3 → US-4", "1  US-2  at work", "after US-3, US-2"} {
		if !strings.Contains(s, want) {
			t.Errorf("the graph lacks %q:\n%s", want, s)
		}
	}
	if strings.Contains(s, "US-1") || strings.Contains(s, "US-5") || strings.Contains(s, "EPIC") {
		t.Errorf("what is not open is in the order:\n%s", s)
	}
	for line, want := range map[string]string{
		"/plan nxet":      "did you mean /plan next?",
		"/plan show more": "takes nothing more",
		"/why US-2":       "┃   execute   0.75",
		"/why US-3":       "nothing was decided about US-3 yet",
		"/why nothing":    `there is no task "nothing" in the plan`,
		"/why US-22":      "did you mean /why US-2?",
	} {
		c.Type("\x0c" + line + "\r")
		c.Has(want)
	}
	c.Type("\x0c/why\r")
	c.Has("why task (number or name, empty for none)")
	c.Type("Retry\r")
	c.Has("┃   execute   0.75")
	c.Has("ralph ❯ ▏")
	c.Type("\x0c/why US-\t\t")
	c.Has("US-4")
	c.Type("\x15\x04")
	c.left(0)
}

// library makes a project with plans of many kinds, and things that are none.
func library(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"prd.json":               `{"project":"P","userStories":[{"id":"US-1","title":"t","description":"d","acceptanceCriteria":["a"],"priority":1,"passes":false}]}`,
		"RALPH_TASKS.md":         "# Tasks\n\n- [ ] **T-1** one\n",
		"package.json":           `{"name":"x"}`,
		"plans/other-plan.yaml":  "tasks:\n  - task_id: T1\n    name: n\n    phase: p\n",
		".beads/issues.jsonl":    "",
		"plans/deeper/plan.yaml": "x",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func withRoot(root string) func(*Options) {
	return func(o *Options) {
		before := o.Open
		o.Open = func(ctx context.Context, l Link) (Mind, error) {
			m, err := before(ctx, l)
			f := m.Turns.(*fake)
			f.root, f.plan = root, shelf()
			return m, err
		}
	}
}

func TestSwitchPlan(t *testing.T) {
	root := library(t)
	c := wide(t, 80, 30, working, withRoot(root))
	for _, step := range []struct{ line, want string }{
		{"/plan switch EPIC-1 EPIC-2", "prd.json (json), EPIC-1, EPIC-2; /plan"},
		{"/plan switch nothing_of_that_name", "there is no plan and no epic"},
		{"/plan switch prd.jsno", "did you mean prd.json?"},
		{"/plan switch all EPIC-1", "exclude each other"},
		{"/plan switch prd.json RALPH_TASKS.md", "is a second plan"},
		{"/plan switch beads", "the plan is beads, all of it"},
		{"/plan switch RALPH_TASKS.md", "the plan is RALPH_TASKS.md (markdown), all of it"},
	} {
		c.Type("\x0c" + step.line + "\r")
		c.Has(step.want)
		c.idle()
	}
	// The next run is that of what was chosen, and what goes on is told at once.
	c.Type("\x0c/run --parallel 3\r")
	c.Has("next: US-4")
	c.Type("\x0c/plan switch prd.json EPIC-1\r")
	c.Has("the run goes on with prd.json (json), EPIC-1, at its next boundary")
	c.Type("\x03")
	c.Has("ralph talk ❯")
	if diff := cmp.Diff([]loop.Settings{{Plan: "RALPH_TASKS.md", Tracker: "markdown", Parallel: 3}}, c.f.loops()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]loop.Settings{{Plan: "prd.json", Tracker: "json", Epics: []string{"EPIC-1"}}}, c.f.swaps); diff != "" {
		t.Error(diff)
	}
	c.Type("\x15\x04")
	c.left(0)
}

// TestPlanPicker chooses a plan and epics with the menu, and nothing with Escape.
func TestPlanPicker(t *testing.T) {
	t.Parallel()
	p := begin(t, 80, 24, append(os.Environ(), "RALPH_TEST_CHAT=plans", "RALPH_TEST_MARK="+library(t), "TERM=xterm", "LANG=C.UTF-8", "NO_COLOR=1", "TMUX="))
	p.Has("ralph ❯ ▏")
	p.Type("\x0c/plan switch\r")
	s := p.Until("the menu", func(s string) bool { return strings.Contains(s, "plan or epic:") && strings.Contains(s, "EPIC-2") })
	if strings.Contains(s, "package.json") || strings.Contains(s, "deeper") {
		t.Errorf("a file that is no plan is offered:\n%s", s)
	}
	golden(t, "switch", s)
	p.Type("EPIC-2\r")
	p.Has("the plan is prd.json (json), EPIC-2; /plan shows it")
	p.Type("\x0c/plan switch\r")
	p.Has("plan or epic:")
	p.Type("\x1b")
	p.Has("the plan stays as it is")
	// In the middle of a run Ctrl-C is for the run, whatever is picked.
	p.Type("\x0c/run\r")
	p.Has("next: US-4")
	p.Type("\x0c/plan switch\r")
	p.Has("plan or epic (number or name, empty for none)")
	p.Type("EPIC-1\r")
	p.Has("the run goes on with prd.json (json), EPIC-1, at its next boundary")
	p.Type("\x0c/plan switch\r")
	p.Has("plan or epic (number or name, empty for none)")
	p.Type("/status\r")
	p.Has("commands end by")
	began := time.Now()
	p.Type("\x03")
	p.Has("ralph talk ❯ ▏")
	t.Logf("^C to the prompt: %v", time.Since(began))
	p.Type("\x15\x04")
	p.exited(0)
}

// On a plain terminal, or in a pipe, a plan is picked from a numbered list, and a
// run tells its progress in lines.
func TestRunInPlainMode(t *testing.T) {
	c := open(t, func(ctx context.Context, f *fake, task string) result.Outcome {
		f.mu.Lock()
		f.run = course1(time.Now())
		f.mu.Unlock()
		f.link.Eyes(agent.Event{Type: agent.EventTaskStart, TaskID: "US-2", Text: "Retry the upload", Attempt: 2})
		f.link.Eyes(agent.Event{Type: agent.EventChildStart, TaskID: "US-2", Agent: "auth", Text: "US-2 Retry the upload", Reason: "ralph"})
		<-ctx.Done()
		return result.Outcome{}
	}, func(o *Options) { o.Plain = true }, withRoot(library(t)))
	c.Has("ralph> ▏")
	c.Type("/plan switch\n")
	c.Has("plan or epic (number or name, empty for none)")
	c.Has("prd.json  json, in use")
	c.Type("EPIC-1\n")
	c.Has("the plan is prd.json (json), EPIC-1")
	c.Type("/run\n")
	s := c.Has("run: 5 of 12 done, 1 failed, 1 skipped, 2 at work; next US-4")
	if strings.Contains(s, "█") || !strings.Contains(s, "US-2 begins: Retry the upload  auth - try 2") {
		t.Errorf("a plain terminal shows\n%s", s)
	}
	c.f.mu.Lock()
	c.f.run.Counts.Done, c.f.run.Counts.Open = 6, 4
	c.f.mu.Unlock()
	c.Has("run: 6 of 12 done")
	c.Type("/stop\n")
	c.Has("ralph talk>")
	if n := strings.Count(c.Screen(), "run: 5 of 12"); n != 1 {
		t.Errorf("the same progress is told %d times", n)
	}
	c.Type("/exit\n")
	c.left(0)
}

// The greeting names a run that can go on, and stays short whatever there is.
func TestGreetingOfALeftRun(t *testing.T) {
	c := openSized(t, 80, 24, echo, func(o *Options) {
		before := o.Open
		o.Open = func(ctx context.Context, l Link) (Mind, error) {
			m, err := before(ctx, l)
			f := m.Turns.(*fake)
			f.run = course1(time.Now())
			f.run.Status = feature.Interrupted
			f.crew = []crew.Agent{{ID: "old", Parent: "ralph", Depth: 1, Task: "an old task", State: crew.Interrupted, Branch: "ralph/old"}}
			f.facts = []string{"sandbox: workspace (namespaces, Landlock (ABI 7), system call filter, limits)", "5 open tasks", "session 004 goes on after 12 messages; you said last: retry the upload when the connection breaks off", "note: the last Ralph here ended without closing the project"}
			return m, err
		}
	})
	s := c.idle()
	flat := strings.Join(strings.Fields(s), " ")
	for _, want := range []string{"the run upload over prd.json was interrupted at iteration 8 of 300, 5 of 12 tasks open", "/run --continue --feature upload goes on with it", "the last Ralph here ended without closing"} {
		if !strings.Contains(flat, want) {
			t.Errorf("the greeting lacks %q:\n%s", want, s)
		}
	}
	head, _, _ := strings.Cut(s, "ralph ❯")
	if n := strings.Count(strings.TrimSpace(head), "\n") + 1; n > greetRows {
		t.Errorf("the greeting has %d rows:\n%s", n, s)
	}
	golden(t, "greeting-run", s)
	c.Type("\x0c/resume\r")
	c.Until("the run to go on", func(string) bool { return len(c.f.loops()) == 1 })
	if got := c.f.loops(); !cmp.Equal(got, []loop.Settings{{Feature: "upload", Continue: true}}, cmpopts.EquateEmpty()) {
		t.Errorf("it went on with %+v", got)
	}
	c.idle()
	c.Type("\x04")
	c.left(0)
}

func TestOpening(t *testing.T) {
	c := open(t, echo, func(o *Options) { o.Opening = "/ask what the product is for.\nThen write it down." })
	c.Has("· /ask what the product is for. …")
	c.Has("You said **/ask what")
	c.idle()
	if got := c.f.said(); !slices.Equal(got, []string{"/ask what the product is for.\nThen write it down."}) {
		t.Errorf("it was opened with %q", got)
	}
	c.Type("\x04")
	c.left(0)
}
