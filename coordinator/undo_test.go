package coordinator_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"ralph/coordinator"
	"ralph/coordinator/result"
	"ralph/workers/model/modeltest"
)

// threeTurns changes a.txt in three turns of one session.
func threeTurns(p *project) *coordinator.Coordinator {
	p.Helper()
	p.session = "new"
	c := p.open()
	for range 3 {
		p.want(c.Run(p.Context(), coordinator.Job{Task: "go", Chat: true}), result.Completed)
	}
	return c
}

func undoable(t *testing.T, make func(*testing.T, *project), more ...modeltest.Reply) *project {
	p := bareProject(t, append([]modeltest.Reply{
		calls(write("a.txt", "one\n"), write("new/b.txt", "b\n")), text("done"),
		calls(shell("echo two >> a.txt; rm old.txt")), text("done"),
		calls(shell("echo three >> a.txt")), text("done")}, more...)...)
	make(t, p)
	p.write("old.txt", "old\n")
	return p
}

func withGit(_ *testing.T, p *project) {
	p.git("init", "-q", ".")
	p.git("config", "user.name", "Test")
	p.git("config", "user.email", "test@localhost")
}

func TestUndo(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(*testing.T, *project){"git": withGit, "no git": func(*testing.T, *project) {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := undoable(t, make)
			c := threeTurns(p)
			diff, err := c.Diff(t.Context())
			if err != nil || !strings.Contains(diff, "+three") || strings.Contains(diff, "+two") {
				t.Errorf("diff of the last turn (%v):\n%s", err, diff)
			}
			if done, err := c.Undo(t.Context(), 1, nil); err != nil || len(done.Files) != 1 || done.Files[0].Path != "a.txt" {
				t.Errorf("undo 1: %+v, %v", done, err)
			}
			if p.read("a.txt") != "one\ntwo\n" {
				t.Errorf("a.txt reads %q", p.read("a.txt"))
			}
			p.shut(c)
			// Another process takes back the rest, and needs no model for it.
			o := p.options()
			o.NoModel = true
			if c, err = coordinator.Open(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			defer p.shut(c)
			if _, err := c.Undo(t.Context(), 9, nil); err != nil {
				t.Errorf("undo the rest: %v", err)
			}
			if p.read("a.txt") != "" || p.read("new/b.txt") != "" || p.read("old.txt") != "old\n" {
				t.Errorf("after undoing all: a.txt %q, b.txt %q, old.txt %q", p.read("a.txt"), p.read("new/b.txt"), p.read("old.txt"))
			}
			if _, err := os.Stat(p.path("new")); err == nil {
				t.Error("an empty directory is left")
			}
			if _, err := c.Undo(t.Context(), 1, nil); !errors.Is(err, coordinator.ErrNothingToUndo) {
				t.Errorf("undo of nothing: %v", err)
			}
			if diff, err := c.Diff(t.Context()); err != nil || diff != "" {
				t.Errorf("diff of nothing: %q, %v", diff, err)
			}
			out := c.Run(t.Context(), coordinator.Job{Task: "go"})
			p.want(out, result.Failed, "no model")
			if _, err := c.Models(t.Context()); err == nil {
				t.Error("lists models without a model")
			}
		})
	}
}

func TestUndoKeepsWhatTheUserEdited(t *testing.T) {
	t.Parallel()
	p := undoable(t, withGit)
	c := threeTurns(p)
	defer p.shut(c)
	p.write("a.txt", "mine\n")
	p.write("other.txt", "also mine\n")
	done, err := c.Undo(t.Context(), 2, nil)
	if err != nil || len(done.Files) != 1 || done.Files[0].Path != "old.txt" || !slices.Equal(done.Kept, []string{"a.txt"}) {
		t.Errorf("undo: %+v, %v", done, err)
	}
	if p.read("a.txt") != "mine\n" || p.read("old.txt") != "old\n" || p.read("other.txt") != "also mine\n" {
		t.Errorf("a.txt %q, old.txt %q, other.txt %q", p.read("a.txt"), p.read("old.txt"), p.read("other.txt"))
	}
}

// Redo brings back what undo took back, in its order, until other work changes files.
func TestRedo(t *testing.T) {
	t.Parallel()
	p := undoable(t, withGit, calls(write("c.txt", "c\n")), text("done"))
	c := threeTurns(p)
	defer p.shut(c)
	if _, err := c.Redo(t.Context(), 1, nil); !errors.Is(err, coordinator.ErrNothingToRedo) {
		t.Errorf("redo of nothing: %v", err)
	}
	for range 3 {
		if _, err := c.Undo(t.Context(), 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"one\n", "one\ntwo\n", "one\ntwo\nthree\n"} {
		if done, err := c.Redo(t.Context(), 1, nil); err != nil || len(done.Files) == 0 || p.read("a.txt") != want {
			t.Errorf("redo %d: %+v, %v; a.txt %q", i, done, err, p.read("a.txt"))
		}
	}
	if p.read("new/b.txt") != "b\n" || p.read("old.txt") != "" {
		t.Errorf("b.txt %q, old.txt %q", p.read("new/b.txt"), p.read("old.txt"))
	}
	// All of it in one step, and over an edit of the user's.
	if _, err := c.Undo(t.Context(), 3, nil); err != nil || p.read("a.txt") != "" {
		t.Fatalf("undo of three: %v", err)
	}
	p.write("new/b.txt", "mine\n")
	if done, err := c.Redo(t.Context(), 3, nil); err != nil || !slices.Equal(done.Kept, []string{"new/b.txt"}) || p.read("a.txt") != "one\ntwo\nthree\n" || p.read("new/b.txt") != "mine\n" {
		t.Errorf("redo of three: %+v, %v; a.txt %q, b.txt %q", done, err, p.read("a.txt"), p.read("new/b.txt"))
	}
	if _, err := c.Undo(t.Context(), 1, nil); err != nil {
		t.Fatal(err)
	}
	p.want(c.Run(p.Context(), coordinator.Job{Task: "go", Chat: true}), result.Completed)
	if _, err := c.Redo(t.Context(), 1, nil); !errors.Is(err, coordinator.ErrNothingToRedo) {
		t.Errorf("redo after other work: %v", err)
	}
}

// A commit is not taken back, only the files are.
func TestUndoAfterACommit(t *testing.T) {
	t.Parallel()
	p := newProject(t, calls(write("a.txt", "new\n"), call("git", m{"action": "commit", "message": "a", "paths": []string{"a.txt"}})), text("done"))
	p.write("a.txt", "old\n")
	p.git("add", "-A")
	p.git("commit", "-q", "-m", "before")
	c := p.open()
	defer p.shut(c)
	out := c.Run(t.Context(), coordinator.Job{Task: "go"})
	head := p.git("rev-parse", "HEAD")
	if len(out.Commits) != 1 || out.Commits[0] != head {
		t.Errorf("commits %v", out.Commits)
	}
	if _, err := c.Undo(t.Context(), 1, nil); err != nil {
		t.Fatal(err)
	}
	if p.read("a.txt") != "old\n" || p.git("rev-parse", "HEAD") != head || p.git("status", "--porcelain", "a.txt") != "M a.txt" {
		t.Errorf("a.txt %q, status %q", p.read("a.txt"), p.git("status", "--porcelain"))
	}
}

// A turn that changed nothing is none to undo, even when it ran commands.
func TestATurnWithoutChangesLeavesNoCheckpoint(t *testing.T) {
	t.Parallel()
	p := newProject(t, calls(shell("true")), text("done"))
	p.want(p.run(coordinator.Job{}), result.Completed)
	if refs := p.git("for-each-ref", "refs/ralph"); refs != "" {
		t.Errorf("refs left behind:\n%s", refs)
	}
}

func TestAHomeDirectoryIsTooWideForACheckpoint(t *testing.T) {
	p := bareProject(t, calls(write("a.txt", "x")), text("done"))
	t.Setenv("HOME", p.root)
	out := p.run(coordinator.Job{})
	p.want(out, result.Completed)
	if !p.warned("too wide") || len(out.Warnings) != 1 || p.read("a.txt") != "x" {
		t.Errorf("warnings %q", out.Warnings)
	}
}

// A command that keeps the checkpoint after its turn from being taken does not keep the turn
// from being undone, once what hinders it is gone.
func TestUndoOfATurnWithoutARecord(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ hinders, remove string }{
		"encoding":  {`printf '* working-tree-encoding=UTF-99\n' > .gitattributes`, ".gitattributes"},
		"a pipe":    {"mkfifo .gitattributes", ".gitattributes"},
		"very much": {"truncate -s 8M .gitignore", ".gitignore"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			p := newProject(t, calls(shell(c.hinders+"; echo ruined > b.txt")), text("done"))
			p.write("b.txt", "not committed\n")
			p.session = "new"
			k := p.open()
			defer p.shut(k)
			p.want(k.Run(t.Context(), coordinator.Job{Task: "go", Chat: true}), result.Completed)
			if !p.warned("not listed") {
				t.Skip("it does not hinder the checkpoint")
			}
			if _, err := k.Undo(t.Context(), 1, nil); err == nil || errors.Is(err, coordinator.ErrNothingToUndo) {
				t.Errorf("with the obstacle: %v", err)
			}
			if err := os.Remove(p.path(c.remove)); err != nil {
				t.Fatal(err)
			}
			if _, err := k.Undo(t.Context(), 1, nil); err != nil {
				t.Error(err)
			}
			if got := p.read("b.txt"); got != "not committed\n" {
				t.Errorf("b.txt has %q", got)
			}
		})
	}
}
