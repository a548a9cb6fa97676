package coordinator_test

import (
	"strings"
	"testing"

	"github.com/spf13/afero"

	"ralph/coordinator"
	"ralph/workers/agent"
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
	p.want(out, coordinator.StatusCompleted)
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
	if out.Status != coordinator.StatusFailed || out.Failure == nil || out.Failure.Kind != "unsaved" ||
		!strings.Contains(out.Reason, "AGENT.md") || !strings.Contains(out.Reason, "the filesystem mounted at /") || out.Answer != "done" {
		t.Errorf("%+v %+v", out, out.Failure)
	}
	disk.full.Store(false)
	p.shut(c)
	p.wantFile("AGENT.md", "it rains")
}
