package accesspolicy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ralph/workers/accesspolicy"
)

// TestRemovedWorkTrees removes linked work trees by git-worktree(1): those that a command made,
// the last of them with the directory of all, and the record of those that are gone.
func TestRemovedWorkTrees(t *testing.T) {
	w := newWorld(t, true)
	s := w.open(nil)
	needGuard(t, w)
	entry := func(name string) string { return filepath.Join(w.root, ".git", "worktrees", name) }
	w.works(s, "git worktree add -q one && git worktree add -q two")
	w.works(s, "git worktree remove one")
	w.gone(entry("one"))
	w.works(s, "git worktree remove two")
	w.gone(entry("two"))
	if list := w.git("worktree", "list"); strings.Contains(list, "\n") {
		t.Errorf("work trees are left: %s", list)
	}

	away := filepath.Join(filepath.Dir(w.root), "away")
	w.git("worktree", "add", "-q", "here")
	w.git("worktree", "add", "-q", away)
	for _, dir := range []string{filepath.Join(w.root, "here"), away} {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	o := w.run(s, w.root, "git worktree prune --expire=now", accesspolicy.Call{})
	w.gone(entry("here"))
	if _, err := os.Stat(entry("away")); err != nil {
		t.Errorf("a command removed the record of a work tree outside the project: %v", err)
	}
	if said := strings.Join(append(o.rep.Denied, o.rep.Reverted...), "\n"); !strings.Contains(said, "worktrees/away") {
		t.Errorf("nothing says that worktrees/away is kept: %q", said)
	}
}

// TestHeldRepositories has commands move and remove what a command cannot: it learns why.
func TestHeldRepositories(t *testing.T) {
	for name, command := range map[string]string{
		"repository":            "rm -rf nested",
		"repository moved":      "mv nested other",
		"directory above":       "mv deep other",
		"work tree":             "git worktree remove tree",
		"work tree moved":       "git worktree move tree other",
		"submodule":             "git mv sub other",
		"submodule by its path": `mv "$PWD/sub" other`,
		"by a program":          `python3 -c 'import os; os.rename("nested", "other")'`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, true)
			for _, dir := range []string{"nested", "deep/er"} {
				w.git("init", "-q", dir)
				w.gitIn(filepath.Join(w.root, dir), "-c", "commit.gpgSign=false", "commit", "-q", "--allow-empty", "-m", "x")
			}
			w.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "./nested", "sub")
			w.git("worktree", "add", "-q", "tree")
			was := w.treeState(w.root)
			o := w.run(w.open(nil), w.root, command, accesspolicy.Call{})
			if o.code == 0 {
				t.Skip("nothing holds a repository here")
			}
			if said := strings.Join(o.rep.Denied, "\n"); !strings.Contains(said, "was there before") {
				t.Errorf("it said %q, and the sandbox %q", o.out, said)
			}
			if is := w.treeState(w.root); is != was {
				t.Errorf("the command left\n%s\nof\n%s", is, was)
			}
		})
	}
}
