package coordinator_test

import (
	"strings"
	"testing"

	"ralph/coordinator"
	"ralph/coordinator/loop"
	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/workers/agent"
	"ralph/workers/model/modeltest"
)

func TestAllAttemptsOfAnAgentAreCounted(t *testing.T) {
	t.Parallel()
	p, k := planned(t, "- [ ] **T-1** Write one\n  - check: test -e one.txt\n")
	k.part("write_one", put("half.txt", "x\n"), finish("partial", "half of it"), put("one.txt", "x\n"), finished("one"))
	out := p.run(coordinator.Job{Loop: &loop.Settings{}})
	p.want(out, result.Completed)
	one := childOf(t, out, "write_one")
	if out.Turns != 4 || one.Turns != 4 || out.ToolCalls.Total != 4 || out.Usage.Total != one.Usage.Total {
		t.Errorf("%d turns, %d of the agent; %d calls; %d tokens, %d of the agent", out.Turns, one.Turns, out.ToolCalls.Total, out.Usage.Total, one.Usage.Total)
	}
}

func TestTheQuestionOfAnAgentIsThatOfTheRun(t *testing.T) {
	t.Parallel()
	p, k := planned(t, "- [ ] **T-1** Write one\n  - check: test -e one.txt\n")
	k.part("write_one", put("half.txt", "x\n"), finish("needs_input", "Which colour?"))
	out := p.run(coordinator.Job{Loop: &loop.Settings{}})
	p.want(out, result.NeedsInput)
	if out.Failure == nil || !strings.Contains(out.Failure.Message, "Which colour?") || out.Tasks != (result.TaskCount{Open: 1}) {
		t.Errorf("%+v, %+v", out.Failure, out.Tasks)
	}
}

func TestAModelThatRefusesEndsTheRun(t *testing.T) {
	t.Parallel()
	p, k := planned(t, "- [ ] **T-1** Write one\n  - check: test -e one.txt\n")
	k.part("write_one", modeltest.Status(401, `{"error":{"message":"no such key"}}`))
	out := p.run(coordinator.Job{Loop: &loop.Settings{Feature: "play"}})
	p.want(out, result.ConfigError)
	if out.Tasks != (result.TaskCount{Open: 1}) {
		t.Errorf("%+v", out.Tasks)
	}
	if s := p.snapshot("play"); !s.Status.Resumable() {
		t.Errorf("the run is %s", s.Status)
	}
}

func TestTheListNamesTheChild(t *testing.T) {
	t.Parallel()
	p, k := planned(t, "- [ ] **T-1** Write one\n  - check: test -e one.txt\n")
	k.part("write_one", calls(shell("sleep 60")), put("one.txt", "x\n"), finished("one"))
	c := p.open()
	done := started(c, t.Context(), coordinator.Job{Loop: &loop.Settings{Feature: "play"}})
	p.until("the tool runs", func(e agent.Event) bool { return e.Type == agent.EventToolStart })
	p.wantFile("RALPH_TASKS.md", "- status: in_progress", "- agent: write_one\n")
	was := p.read("RALPH_TASKS.md")
	c.Stop(&interrupts.Stop{})
	<-done
	p.shut(c)
	p.write("RALPH_TASKS.md", was) // as a crash would leave it
	p.session = "last"
	out := p.run(coordinator.Job{Loop: &loop.Settings{Feature: "play", Continue: true}})
	p.want(out, result.Completed)
	p.wantFile("RALPH_TASKS.md", "- [x] **T-1**", "- agent: write_one\n")
}

func TestARunWithoutGit(t *testing.T) {
	t.Parallel()
	p := bareProject(t)
	p.session = "new"
	p.write("RALPH_TASKS.md", "- [ ] **T-1** Write one\n  - check: test -e one.txt\n")
	k := played(p)
	k.part("write_one", put("one.txt", "x\n"), finished("one"))
	out := p.run(coordinator.Job{Loop: &loop.Settings{}})
	p.want(out, result.Completed)
	if p.read("one.txt") != "x\n" || !out.Verified {
		t.Errorf("%+v", out)
	}
}
