package coordinator_test

import (
	"strings"
	"testing"

	"ralph/coordinator"
	"ralph/coordinator/crew"
	"ralph/workers/model/modeltest"
)

// spawnsOnce has the coordinator ask for agents, and then wait for them.
func (k *cast) spawnsOnce(agents ...m) {
	asked := false
	k.mu.Lock()
	defer k.mu.Unlock()
	k.always["ralph"] = func(modeltest.Request) modeltest.Reply {
		if asked {
			return text("I see.")
		}
		asked = true
		return spawn(agents...)
	}
}

// A commit that the user's branch did not take stays on the agent's.
func TestWhatLandsWithoutACommitKeepsItsBranch(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.write("kept.txt", "1\n")
	p.git("add", "-A")
	p.git("commit", "-qm", "second")
	p.write("kept.txt", "staged\n")
	p.git("add", "-A")
	p.write("kept.txt", "1\n")
	k := played(p)
	k.spawnsOnce(m{"name": "one", "task": "change it"})
	k.part("one", put("kept.txt", "2\n"), text("changed"))
	a := childOf(t, p.run(coordinator.Job{}), "one")
	if got := p.read("kept.txt"); a.Landing != crew.Merged || got != "2\n" || a.Branch == "" {
		t.Fatalf("kept.txt %q, %+v", got, a)
	}
	if got := p.git("for-each-ref", "--format=%(refname:short)", "--contains", a.Commit); got != a.Branch {
		t.Errorf("%s of %+v is in %q", a.Commit, a, got)
	}
	if got := p.git("show", ":kept.txt"); got != "staged" {
		t.Errorf("the user staged %q", got)
	}
}

// Whoever says that a conflict is resolved is not believed while its markers are
// there; and a merge that conflicts when no work is going on has nobody to resolve
// it, which is told.
func TestAConflictThatIsNotResolved(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.flags["check_retries"] = []string{"0"}
	p.write("same.txt", "0\n")
	p.git("add", "-A")
	p.git("commit", "-qm", "second")
	k := played(p)
	k.spawnsOnce(m{"name": "one", "task": "1"}, m{"name": "two", "task": "2"})
	for _, name := range []string{"one", "two"} {
		k.part(name, put("same.txt", name+"\n"), text("changed"))
		k.part("resolve_"+name, text("resolved"))
	}
	out := p.run(coordinator.Job{})
	if got := p.read("same.txt"); got != "one\n" && got != "two\n" {
		t.Errorf("same.txt holds %q", got)
	}
	loser := ""
	for _, a := range out.Children {
		if a.Landing == crew.Conflict {
			loser = a.ID
		}
	}
	if loser == "" {
		t.Fatalf("nobody is in conflict: %+v", out.Children)
	}
	if a := childOf(t, out, "resolve_"+loser); a.State != crew.Failed || !strings.Contains(a.Problem, "conflict markers") {
		t.Errorf("%+v", a)
	}
	c := p.open()
	defer p.shut(c)
	if text, err := c.Merge(t.Context(), "resolve_"+loser); err == nil || !strings.Contains(err.Error(), "markers") {
		t.Errorf("the markers are merged: %s, %v", text, err)
	}
	if text, err := c.Merge(t.Context(), loser); err != nil || !strings.Contains(text, "conflict") {
		t.Errorf("%s, %v", text, err)
	}
}
