package coordinator_test

import (
	"errors"
	"strings"
	"testing"

	"ralph/coordinator"
	"ralph/workers/git/trees"
)

// What agents committed themselves, and what a merge of them made, goes with what
// Ralph committed for them.
func TestUndoTakesBackWhatAgentsCommitted(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	k := played(p)
	before := p.git("rev-parse", "HEAD")
	k.part("ralph", spawn(m{"name": "one", "task": "Write one"}, m{"name": "two", "task": "Write two"}), text("Done."), text("Done."), text("Done."))
	for _, id := range []string{"one", "two"} {
		k.part(id, calls(shell("echo "+id+" > "+id+".txt && git add -A && git -c user.name=C -c user.email=c@c commit -q -m 'by hand' && echo more >> "+id+".txt && git -c user.name=C -c user.email=c@c commit -qam more")), text("done"))
	}
	p.session = "new"
	c := p.open()
	p.want(c.Run(p.Context(), coordinator.Job{Task: "write two files", Chat: true}), coordinator.StatusCompleted)
	if log := p.git("log", "--format=%s", before+"..HEAD"); strings.Count(log, "by hand") != 2 {
		t.Fatalf("the commits of the agents did not land:\n%s", log)
	}
	if _, err := c.Undo(p.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if got := p.git("rev-parse", "HEAD"); got != before {
		t.Errorf("the branch is at %s, want %s:\n%s", got, before, p.git("log", "--graph", "--oneline"))
	}
	if status := p.git("status", "--porcelain", "--", "*.txt"); status != "" {
		t.Errorf("status after the undo: %s", status)
	}
	p.shut(c)
}

// What cannot be taken back is said: the user has committed on top of it.
func TestUndoBelowACommitOfTheUser(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.session = "new"
	k := played(p)
	k.part("ralph", spawn(m{"name": "one", "task": "write one"}), text("I wait."), text("all done"))
	k.part("one", put("one.txt", "1\n"), text("one is written"))
	c := p.open()
	defer p.shut(c)
	p.want(c.Run(p.Context(), coordinator.Job{Task: "do it", Chat: true}), coordinator.StatusCompleted)
	p.git("commit", "-q", "--allow-empty", "-m", "mine")
	head := p.git("rev-parse", "HEAD")
	files, err := c.Undo(p.Context(), 1)
	if !errors.Is(err, trees.ErrMoved) || len(files) != 1 {
		t.Errorf("undo: %v, %v", files, err)
	}
	if got := p.git("rev-parse", "HEAD"); got != head || p.read("one.txt") != "" {
		t.Errorf("head %s, want %s; one.txt %q", got, head, p.read("one.txt"))
	}
}
