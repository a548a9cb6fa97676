package coordinator_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"ralph/coordinator"
	"ralph/coordinator/loop"
	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/memory/feature"
	"ralph/workers/agent"
	"ralph/workers/model/modeltest"
)

// finished is an agent's word that its task is complete.
func finished(summary string) modeltest.Reply {
	return calls(call("finish", m{"status": "done", "summary": summary, "confidence": 0.9}))
}

// planned is a project with a plan in RALPH_TASKS.md and a session for its runs.
func planned(t *testing.T, tasks string) (*project, *cast) {
	t.Helper()
	p := newProject(t)
	p.session = "new"
	p.write("RALPH_TASKS.md", "# Tasks\n\nMy own words.\n\n"+tasks)
	return p, played(p)
}

func (p *project) snapshot(name string) feature.Snapshot {
	p.Helper()
	var s feature.Snapshot
	if err := json.Unmarshal([]byte(p.read(filepath.Join(".ralph", "sessions", name+".json"))), &s); err != nil {
		p.Fatal(err)
	}
	return s
}

func TestARunWorksThroughThePlan(t *testing.T) {
	t.Parallel()
	p, k := planned(t, "- [ ] **T-1** Write one\n  - check: grep -q good one.txt\n- [ ] **T-2** Write two\n  - after: T-1\n  - check: grep -q good two.txt && test -e one.txt\n")
	k.part("write_one", put("one.txt", "bad\n"), finished("wrote one.txt"), put("one.txt", "good\n"), finished("mended one.txt"))
	k.part("write_two", put("two.txt", "good\n"), finished("wrote two.txt"))
	out := p.run(coordinator.Job{Loop: &loop.Settings{Feature: "play"}})
	p.want(out, result.Completed)
	if p.read("one.txt") != "good\n" || p.read("two.txt") != "good\n" {
		t.Error("the files are not there")
	}
	tasks := p.read("RALPH_TASKS.md")
	if strings.Count(tasks, "[x]") != 2 || !strings.Contains(tasks, "My own words.") {
		t.Errorf("the plan is\n%s", tasks)
	}
	if !out.Verified || out.Tasks != (result.TaskCount{Done: 2}) {
		t.Errorf("verified %v, %+v", out.Verified, out.Tasks)
	}
	if got := p.git("log", "--format=%s"); strings.Count(got, "Write") != 2 {
		t.Errorf("the commits are\n%s", got)
	}
	if heard := k.heard("write_one"); !strings.Contains(heard, "The check of this task failed") || !strings.Contains(heard, "Task T-1: Write one") {
		t.Errorf("it was told\n%s", heard)
	}
	s := p.snapshot("play")
	if s.Status != feature.Completed || s.Iteration != 2 || s.Tasks.Completed != 2 {
		t.Errorf("the snapshot is %+v", s)
	}
	pages, err := filepath.Glob(p.path(".ralph/sessions/session-001-*/iterations/*.md"))
	if err != nil || len(pages) != 2 {
		t.Errorf("the iterations are %v, %v", pages, err)
	}
}

// TestWorkThatPassesAloneOnly has two tasks side by side whose check passes in the tree of
// each and fails where both are merged: that goes back to an agent.
func TestWorkThatPassesAloneOnly(t *testing.T) {
	t.Parallel()
	const check = "\n  - check: test ! -e one.txt || test ! -e two.txt\n"
	p, k := planned(t, "- [ ] **T-1** Write one"+check+"- [ ] **T-2** Write two"+check)
	k.part("write_one", put("one.txt", "x\n"), finished("one"))
	k.part("write_two", put("two.txt", "x\n"), finished("two"))
	for _, again := range []string{"write_one_1", "write_two_1"} {
		k.part(again, calls(shell("rm one.txt")), finished("only two is left"))
	}
	var both sync.WaitGroup
	both.Add(2)
	begun := map[string]func(){"write_one": sync.OnceFunc(both.Done), "write_two": sync.OnceFunc(both.Done)}
	p.model.Handle(func(r modeltest.Request) modeltest.Reply {
		if began := begun[speaker(r)]; began != nil {
			began()
			both.Wait()
		}
		return k.answer(r)
	})
	out := p.run(coordinator.Job{Loop: &loop.Settings{Parallel: 2}})
	p.want(out, result.Completed)
	if p.read("one.txt") != "" || p.read("two.txt") != "x\n" || !out.Verified || out.Tasks.Done != 2 {
		t.Errorf("one %q, two %q, verified %v, %+v", p.read("one.txt"), p.read("two.txt"), out.Verified, out.Tasks)
	}
	if heard := k.heard("write_one_1") + k.heard("write_two_1"); !strings.Contains(heard, "failed with exit code 1") {
		t.Errorf("nobody was told:\n%s", heard)
	}
}

func TestAnAgentHasToDeclareTheEnd(t *testing.T) {
	t.Parallel()
	p, k := planned(t, "- [ ] **T-1** Write one\n  - check: grep -q good one.txt\n")
	k.part("write_one", put("one.txt", "good\n"), text("I think that is all."), finished("it is"))
	out := p.run(coordinator.Job{Loop: &loop.Settings{}})
	p.want(out, result.Completed)
	if heard := k.heard("write_one"); !strings.Contains(heard, "without calling finish") {
		t.Errorf("it was told\n%s", heard)
	}
}

func TestAFailedTaskHoldsItsDependants(t *testing.T) {
	t.Parallel()
	p, k := planned(t, "- [ ] **T-1** Write one\n  - check: \"false\"\n- [ ] **T-2** Write two\n  - after: T-1\n- [ ] **T-3** Write three\n  - check: test -e three.txt\n")
	p.flags["check_retries"] = []string{"0"}
	k.part("write_one", put("one.txt", "x\n"), finished("one"))
	k.part("write_three", put("three.txt", "x\n"), finished("three"))
	out := p.run(coordinator.Job{Loop: &loop.Settings{OnError: "skip", Retries: -1}})
	p.want(out, result.Failed)
	if p.read("three.txt") != "x\n" || p.read("one.txt") != "" {
		t.Error("the wrong work is merged")
	}
	if out.Tasks.Done != 1 || out.Tasks.Done+out.Tasks.Failed+out.Tasks.Skipped+out.Tasks.Open != 3 {
		t.Errorf("%+v", out.Tasks)
	}
}

func TestAStoppedRunGoesOnWithGo(t *testing.T) {
	t.Parallel()
	p, k := planned(t, "- [ ] **T-1** Write one\n  - check: grep -q good one.txt\n- [ ] **T-2** Write two\n  - after: T-1\n  - check: test -e two.txt\n")
	k.part("write_one", calls(shell("sleep 60")), put("one.txt", "good\n"), finished("one"))
	k.part("write_two", put("two.txt", "x\n"), finished("two"))
	c := p.open()
	defer p.shut(c)
	done := started(c, t.Context(), coordinator.Job{Chat: true, Loop: &loop.Settings{Feature: "play"}})
	p.until("the tool runs", func(e agent.Event) bool { return e.Type == agent.EventToolStart })
	c.Stop(&interrupts.Stop{})
	out := <-done
	p.want(out, result.Interrupted)
	if s := p.snapshot("play"); s.Status != feature.Interrupted && s.Status != feature.Running {
		t.Errorf("the snapshot is %+v", s)
	}
	out = c.Run(t.Context(), coordinator.Job{Chat: true, Go: true})
	p.want(out, result.Completed)
	if p.read("one.txt") != "good\n" || p.read("two.txt") != "x\n" {
		t.Error("the files are not there")
	}
	if s := p.snapshot("play"); s.Status != feature.Completed || s.Iteration != 2 {
		t.Errorf("the snapshot is %+v", s)
	}
}

// What is said during a run is answered beside it, and heard by what begins later.
func TestARunIsSteered(t *testing.T) {
	t.Parallel()
	p, k := planned(t, "- [ ] **T-1** Write one\n  - check: test -e one.txt\n- [ ] **T-2** Write two\n  - after: T-1\n  - check: test -e two.txt\n")
	k.part("write_one", calls(shell("until test -e ../../../go; do sleep 0.01; done")), put("one.txt", "x\n"), finished("one"))
	k.part("write_two", put("two.txt", "x\n"), finished("two"))
	k.part("ralph", text("I tell the others."))
	c := p.open()
	defer p.shut(c)
	done := started(c, t.Context(), coordinator.Job{Chat: true, Loop: &loop.Settings{Feature: "play"}})
	p.until("the tool runs", func(e agent.Event) bool { return e.Type == agent.EventToolStart })
	m := say(c, interrupts.ClassSteer, "write in capitals")
	p.until("it is answered", func(e agent.Event) bool { return e.Type == agent.EventMessage && e.Agent == "ralph" })
	p.until("delivered", inbox(m.ID(), "delivered"))
	if v := c.Live().Loop; v == nil || len(v.Active) != 1 || v.Active[0].ID != "T-1" {
		t.Errorf("the run is %+v", v)
	}
	p.write("go", "")
	out := <-done
	p.want(out, result.Completed)
	if heard := k.heard("ralph"); !strings.Contains(heard, "write in capitals") || !strings.Contains(heard, "At work: T-1 Write one") {
		t.Errorf("ralph heard\n%s", heard)
	}
	if heard := k.heard("write_two"); !strings.Contains(heard, "write in capitals") {
		t.Errorf("the next one heard\n%s", heard)
	}
}

// A Ralph that is killed after the work of a task has come, and before it knows so,
// does not have it done again.
func TestWorkThatHasComeIsNotDoneAgain(t *testing.T) {
	t.Parallel()
	p, k := planned(t, "- [ ] **T-1** Write one\n  - check: grep -q good one.txt\n")
	k.part("write_one", put("one.txt", "good\n"), finished("one"))
	p.want(p.run(coordinator.Job{Loop: &loop.Settings{Feature: "play"}}), result.Completed)
	landed := p.git("rev-parse", "HEAD")

	path := filepath.Join(".ralph", "sessions", "play.json")
	var s map[string]any
	if err := json.Unmarshal([]byte(p.read(path)), &s); err != nil {
		t.Fatal(err)
	}
	s["status"], s["endedAt"], s["activeTaskIds"] = "running", nil, []string{"T-1"}
	s["iterations"].([]any)[0].(map[string]any)["endedAt"] = nil
	state := s["run"].(map[string]any)
	state["tasks"], state["active"] = m{}, []any{m{"task": "T-1", "title": "Write one", "iteration": 1, "attempt": 1, "since": s["startedAt"]}}
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	p.write(path, string(data))
	p.write("RALPH_TASKS.md", strings.NewReplacer("[x]", "[ ]", "status: done", "status: in_progress").Replace(p.read("RALPH_TASKS.md")))

	p.session = "001"
	out := p.run(coordinator.Job{Loop: &loop.Settings{Feature: "play", Continue: true}})
	p.want(out, result.Completed)
	if now := p.git("rev-parse", "HEAD"); now != landed {
		t.Errorf("HEAD was %s and is %s:\n%s", landed, now, p.git("log", "--format=%s"))
	}
	if got := p.snapshot("play"); got.Iteration != 1 || got.Tasks.Completed != 1 || !strings.Contains(p.read("RALPH_TASKS.md"), "[x]") || !out.Verified {
		t.Errorf("verified %v: %+v\n%s", out.Verified, got, p.read("RALPH_TASKS.md"))
	}
	if dirs, err := filepath.Glob(p.path(".ralph/sessions/session-001-*/agents/*")); err != nil || len(dirs) != 1 {
		t.Errorf("agents: %v, %v", dirs, err)
	}
}

// An expectation alone may change where the plan asks for that test, and nowhere
// else.
func TestAnExpectationChangesWhenAskedFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		task string
		want result.Status
	}{
		"asked for": {"Mend the wrong sum in sum_test.py", result.Completed},
		"not":       {"Make the tests pass", result.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, k := planned(t, "- [ ] **T-1** "+c.task+"\n  - check: \"true\"\n")
			p.flags["check_retries"] = []string{"0"}
			p.write("sum_test.py", "def test_sum():\n    assert sum_of(1, 1) == 3\n")
			p.git("add", "sum_test.py")
			p.git("commit", "-qm", "tests")
			who := strings.ToLower(strings.NewReplacer(" ", "_", ".", "_").Replace(c.task))
			k.part(who, put("sum_test.py", "def test_sum():\n    assert sum_of(1, 1) == 2\n"), finished("mended"))
			out := p.run(coordinator.Job{Loop: &loop.Settings{Retries: -1, OnError: "skip"}})
			p.want(out, c.want)
			if got := strings.Contains(p.read("sum_test.py"), "== 2"); got != (c.want == result.Completed) {
				t.Errorf("merged: %v", got)
			}
		})
	}
}

// Of those who tried a task before it was done the branches stay, and no trees.
func TestEarlierAttemptsLeaveNoTrees(t *testing.T) {
	t.Parallel()
	p, k := planned(t, "- [ ] **T-1** Make it pass\n  - check: \"true\"\n")
	p.flags["check_retries"] = []string{"0"}
	p.write("sum_test.py", "def test_sum():\n    assert 1 + 1 == 2\n\n\ndef test_more():\n    assert 2 + 2 == 4\n")
	p.git("add", "sum_test.py")
	p.git("commit", "-qm", "tests")
	k.part("make_it_pass", put("sum_test.py", "def test_sum():\n    assert True\n"), finished("all green"))
	k.part("make_it_pass_1", put("one.txt", "x\n"), finished("honestly"))
	out := p.run(coordinator.Job{Loop: &loop.Settings{}})
	p.want(out, result.Completed)
	if got := p.git("worktree", "list"); strings.Count(got, "\n") != 0 {
		t.Errorf("the trees are\n%s", got)
	}
	if got := p.git("branch", "--list", "ralph/*"); !strings.Contains(got, "ralph/make_it_pass") || strings.Contains(got, "make_it_pass_1") {
		t.Errorf("the branches are\n%s", got)
	}
}

// A run that goes on elsewhere than where it began says so.
func TestARunKnowsItsBaseline(t *testing.T) {
	t.Parallel()
	for _, moved := range []bool{false, true} {
		p, k := planned(t, "- [ ] **T-1** Write one\n  - check: test -e one.txt\n- [ ] **T-2** Write two\n  - after: T-1\n  - check: test -e two.txt\n")
		k.part("write_one", put("one.txt", "x\n"), finished("one"))
		k.part("write_two", put("two.txt", "x\n"), finished("two"))
		p.want(p.run(coordinator.Job{Loop: &loop.Settings{Feature: "play", MaxIterations: 1}}), result.Limit)
		began := p.snapshot("play").Git
		if moved {
			p.git("checkout", "-q", "--orphan", "other")
			p.git("commit", "-qm", "anew")
		}
		p.session = "last"
		out := p.run(coordinator.Job{Loop: &loop.Settings{Feature: "play", Continue: true, MaxIterations: 9}})
		p.want(out, result.Completed)
		if said := strings.Contains(strings.Join(out.Warnings, "\n"), "the run began with commit "+began.Baseline[:12]); said != moved {
			t.Errorf("moved %v: %q", moved, out.Warnings)
		}
		if now := p.snapshot("play").Git; now.Baseline != began.Baseline || now.Branch != began.Branch {
			t.Errorf("it began with %+v, and says %+v", began, now)
		}
	}
}
