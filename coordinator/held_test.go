package coordinator_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/afero"

	"ralph/coordinator"
	"ralph/coordinator/loop"
	"ralph/coordinator/result"
	"ralph/workers/agent"
	"ralph/workers/model/modeltest"
)

// fullAtTurn is a project whose disk is full from a turn of the model on.
func fullAtTurn(t *testing.T, turn int) (*project, *fullDisk) {
	t.Helper()
	p := newProject(t, calls(call("list", m{"path": "."})),
		calls(call("task", m{"title": "mend the door", "status": "done"}), call("learn", m{"type": "fact", "what": "it rains", "learning": "wait"})), text("done"))
	disk := &fullDisk{Fs: afero.NewOsFs()}
	p.fs = disk
	p.write(".ralph/FORMAT", "ralph 1\n")
	p.eye = func(e agent.Event) {
		if e.Type == agent.EventTurnStart && e.Turn == turn {
			disk.full.Store(true)
		}
	}
	return p, disk
}

// What the disk does not take is made all the same: the model is told that it is
// held, not that it failed, and it is written when there is room again.
func TestAHeldChange(t *testing.T) {
	t.Parallel()
	p, disk := fullAtTurn(t, 2)
	c := p.open()
	out := c.Run(t.Context(), coordinator.Job{Task: "go", Chat: true})
	p.want(out, result.Completed)
	if out.ToolCalls.Failed != 0 {
		t.Errorf("%+v", out.ToolCalls)
	}
	if said := p.model.Requests()[2].Messages; !strings.Contains(said[len(said)-1].Content, "held in memory, not saved yet") {
		t.Errorf("the model was told %q", said[len(said)-1].Content)
	}
	for _, w := range out.Warnings {
		if strings.Contains(w, "\n") || strings.Contains(w, "no space") && !strings.Contains(w, "the filesystem mounted at /") {
			t.Errorf("a warning that is no line, or names no filesystem: %q", w)
		}
	}
	disk.full.Store(false)
	p.shut(c)
	p.wantFile("RALPH_TASKS.md", "mend the door")
	p.wantFile("AGENT.md", "it rains")
}

// A one-shot that ends while what the model had it record is saved nowhere did
// not do its work.
func TestAOneShotThatCannotSave(t *testing.T) {
	t.Parallel()
	p, disk := fullAtTurn(t, 2)
	c := p.open()
	out := c.Run(t.Context(), coordinator.Job{Task: "go"})
	if out.Status != result.Failed || out.Failure == nil || out.Failure.Kind != "unsaved" ||
		!strings.Contains(out.Reason, "AGENT.md") || !strings.Contains(out.Reason, "the filesystem mounted at /") || out.Answer != "done" {
		t.Errorf("%+v %+v", out, out.Failure)
	}
	disk.full.Store(false)
	p.shut(c)
	p.wantFile("AGENT.md", "it rains")
}

// TestARunThatCannotSave works a plan while the disk is full: how the run stands is
// nowhere, which no answer mends, and no exit code hides.
func TestARunThatCannotSave(t *testing.T) {
	t.Parallel()
	for _, tasks := range []int{1, 4, -3} { // few enough to end, and enough to ask before the next; and full from the start
		late := tasks > 0
		tasks = max(tasks, -tasks)
		plan := ""
		for n := range tasks {
			plan += fmt.Sprintf("- [ ] **T-%d** Write file %d\n", n+1, n+1)
		}
		p, _ := planned(t, plan)
		disk := &fullDisk{Fs: afero.NewOsFs()}
		p.fs = disk
		p.model.Handle(func(modeltest.Request) modeltest.Reply {
			disk.full.Store(true)
			return finished("nothing was to be done")
		})
		c := p.open()
		disk.full.Store(!late)
		out := c.Run(t.Context(), coordinator.Job{Loop: &loop.Settings{}})
		if out.Status != result.Failed || out.Failure == nil || out.Failure.Kind != "unsaved" {
			t.Errorf("%d tasks: %s %q %+v", tasks, out.Status, out.Reason, out.Failure)
		}
		disk.full.Store(false)
		p.shut(c)
	}
}
