package trees

import (
	"path/filepath"
	"strings"
	"testing"
)

// A tree that a former version registered as a linked worktree becomes a private
// clone with all that the agent did there, and the user's git forgets it.
func TestLinkedWorktreesAreConverted(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"commit", "finish", "add", "remove"} {
		w := newRepo(t)
		w.write("a.txt", "1\n")
		w.commitAll("one")
		tr := w.trees()
		base := w.git("rev-parse", "HEAD")
		dir := tr.dir("x")
		w.git("worktree", "add", "-q", "-b", "ralph/x", dir)
		spare := filepath.Join(tr.home(), sparePrefix+"old")
		w.git("worktree", "add", "-q", "--detach", spare)
		w.git("update-ref", tr.baseRef("x"), base)
		admin := filepath.Base(w.gitIn(dir, "rev-parse", "--git-dir"))
		w.write(filepath.Join(tr.private(), "placeholder"), "")
		if err := tr.save(tr.recordPath("x"), record{Agent: "x", Ref: "refs/heads/ralph/x", Admin: admin, Base: base, Head: base, Ready: true}); err != nil {
			t.Fatal(err)
		}
		w.write(filepath.Join(dir, "own.txt"), "own\n")
		w.gitIn(dir, "add", "own.txt")
		w.gitIn(dir, "commit", "-q", "-m", "own")
		w.write(filepath.Join(dir, "later.txt"), "later\n")
		var err error
		switch call {
		case "commit":
			_, err = tr.Commit(t.Context(), "x", "work")
		case "finish":
			err = tr.Finish(t.Context())
		case "add":
			_, err = tr.Add(t.Context(), AddOptions{Agent: "x"})
		case "remove":
			err = tr.Remove(t.Context(), "x", true)
		}
		if err != nil {
			t.Fatalf("%s: %v", call, err)
		}
		equal(t, call+": worktrees of the user", strings.Count(w.git("worktree", "list", "--porcelain"), "worktree "), 1)
		equal(t, call+": the spare", w.exists(spare), false)
		if call == "remove" {
			continue
		}
		equal(t, call+": a directory", w.exists(filepath.Join(dir, ".git", "HEAD")), true)
		if call != "commit" {
			equal(t, call+": status", w.gitIn(dir, "status", "--porcelain", "--branch"), "## ralph/x\n?? later.txt")
			w.commit(tr, "x")
		}
		m := w.merge(tr, "x")
		equal(t, call+": landed", m.Landed && m.Committed, true)
		equal(t, call+": own.txt", w.read("own.txt"), "own\n")
		equal(t, call+": later.txt", w.read("later.txt"), "later\n")
		w.git("fsck", "--strict")
	}
}

// The snapshot that a clone borrows from outlives what the user's git does with the
// objects, is shared by agents that start at the same time, and goes with the last.
func TestSnapshotOutlivesTheUsersObjects(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("a.txt", "1\n")
	w.commitAll("one")
	w.git("gc", "-q")
	w.write("b.txt", "1\n")
	w.commitAll("two")
	tr := w.trees()
	x, y := w.add(tr, "x"), w.add(tr, "y")
	equal(t, "snapshots of two agents", len(tr.snapshots()), 1)
	w.git("reset", "-q", "--hard", "HEAD~1")
	w.git("reflog", "expire", "--expire=now", "--all")
	w.git("repack", "-adq")
	w.git("gc", "-q", "--prune=now")
	for _, tree := range []Tree{x, y} {
		equal(t, "status", w.gitIn(tree.Dir, "status", "--porcelain"), "")
		w.gitIn(tree.Dir, "fsck", "--no-dangling")
		equal(t, "b.txt", w.gitIn(tree.Dir, "show", "main:b.txt"), "1")
	}
	z := w.add(tr, "z")
	equal(t, "snapshots after a repack", len(tr.snapshots()), 2)
	w.gitIn(z.Dir, "fsck", "--no-dangling")
	w.gitIn(x.Dir, "gc", "-q", "--prune=now")
	w.gitIn(y.Dir, "fsck", "--no-dangling")
	for _, agent := range []string{"x", "y"} {
		if err := tr.Remove(t.Context(), agent, false); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, "snapshots of one agent", len(tr.snapshots()), 1)
	if err := tr.Remove(t.Context(), "z", false); err != nil {
		t.Fatal(err)
	}
	equal(t, "snapshots of none", len(tr.snapshots()), 0)
	w.git("fsck", "--no-dangling")
}
