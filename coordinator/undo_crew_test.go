package coordinator_test

import (
	"slices"
	"strings"
	"testing"

	"ralph/coordinator"
	"ralph/coordinator/result"
)

// Whatever agents commit themselves, their work is one commit each, which an undo takes
// off the branch.
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
	p.want(c.Run(p.Context(), coordinator.Job{Task: "write two files", Chat: true}), result.Completed)
	if log := strings.Split(p.git("log", "--format=%s", before+"..HEAD"), "\n"); len(log) != 2 || !slices.Contains(log, "Write one") || !slices.Contains(log, "Write two") {
		t.Fatalf("the agents' work is not one commit each:\n%q", log)
	}
	if _, err := c.Undo(p.Context(), 1, nil); err != nil {
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

// What becomes of the commits is told before: the user has committed on top of them.
func TestUndoBelowACommitOfTheUser(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.session = "new"
	k := played(p)
	k.part("ralph", spawn(m{"name": "one", "task": "write one"}), text("I wait."), text("all done"))
	k.part("one", put("one.txt", "1\n"), text("one is written"))
	c := p.open()
	defer p.shut(c)
	p.want(c.Run(p.Context(), coordinator.Job{Task: "do it", Chat: true}), result.Completed)
	p.git("commit", "-q", "--allow-empty", "-m", "mine")
	head := p.git("rev-parse", "HEAD")
	var told []string
	done, err := c.Undo(p.Context(), 1, func(notes []string) {
		if told = notes; p.read("one.txt") == "" {
			t.Error("told afterwards")
		}
	})
	if err != nil || len(done.Files) != 1 || len(done.Commits) != 0 || len(told) != 1 || !strings.Contains(told[0], "stays where it is") {
		t.Errorf("undo: %+v, %v; told %q", done, err, told)
	}
	if got := p.git("rev-parse", "HEAD"); got != head || p.read("one.txt") != "" {
		t.Errorf("head %s, want %s; one.txt %q", got, head, p.read("one.txt"))
	}
}

// Undo and redo move the branch and the index with the files, and agents say so.
func TestRedoOfAgents(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.session = "new"
	before := p.git("rev-parse", "HEAD")
	k := played(p)
	k.part("ralph", spawn(m{"name": "one", "task": "write one"}), text("I wait."), text("all done"))
	k.part("one", put("one.txt", "1\n"), text("one is written"))
	c := p.open()
	defer p.shut(c)
	p.want(c.Run(p.Context(), coordinator.Job{Task: "do it", Chat: true}), result.Completed)
	landed := p.git("rev-parse", "HEAD")
	for range 2 {
		var told []string
		if done, err := c.Undo(p.Context(), 1, func(n []string) { told = n }); err != nil || len(done.Commits) != 1 || len(told) != 1 || !strings.Contains(told[0], "goes back") {
			t.Errorf("undo: %+v, %v; told %q", done, err, told)
		}
		if got := p.git("rev-parse", "HEAD"); got != before || p.read("one.txt") != "" {
			t.Errorf("after undo: head %s, want %s", got, before)
		}
		if a, err := c.Agents(p.Context()); err != nil || len(a) == 0 || string(a[0].Landing) != "undone" {
			t.Errorf("after undo: %+v", a)
		}
		if done, err := c.Redo(p.Context(), 1, func(n []string) { told = n }); err != nil || len(done.Commits) != 1 || !strings.Contains(told[0], "again") {
			t.Errorf("redo: %+v, %v; told %q", done, err, told)
		}
		if got := p.git("rev-parse", "HEAD"); got != landed || p.read("one.txt") != "1\n" || p.git("status", "--porcelain", "--", "*.txt") != "" {
			t.Errorf("after redo: head %s, want %s; status %q", got, landed, p.git("status", "--porcelain"))
		}
		if a, err := c.Agents(p.Context()); err != nil || len(a) == 0 || string(a[0].Landing) != "merged" {
			t.Errorf("after redo: %+v", a)
		}
	}
}
