package trees

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What waits is the change of an agent. When the user goes to another branch, or
// amends, it must not bring the commits along that were there before.
func TestWaitingWorkOnAnotherBranch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		move func(w *world)
		want string
	}{
		"another branch": {func(w *world) { w.git("checkout", "-q", "main") }, "child\none"},
		"amended":        {func(w *world) { w.git("commit", "-q", "--amend", "-m", "better") }, "child\nbetter\none"},
		"reset":          {func(w *world) { w.git("reset", "-q", "--hard", "HEAD~1") }, "child\none"},
		"went on":        {func(w *world) { w.write("z", "1"); w.git("add", "z"); w.git("commit", "-q", "-m", "next") }, "next\nfeature\none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRepo(t)
			w.write("a.txt", "1\n")
			w.commitAll("one")
			w.git("checkout", "-q", "-b", "feature")
			w.write("secret-feature.txt", "1\n")
			w.commitAll("feature")
			tr := w.trees()
			x := w.add(tr, "x")
			w.write(filepath.Join(x.Dir, "new.txt"), "x\n")
			w.commit(tr, "x")
			w.write(".git/index.lock", "")
			m := w.merge(tr, "x")
			equal(t, "landed", m.Landed, false)
			w.remove(".git/index.lock")
			c.move(w)
			m, err := tr.Land(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "landed", m.Landed && m.Committed, true)
			log := w.git("log", "--format=%s", "--first-parent")
			want := strings.ReplaceAll(c.want, "child", "work of x")
			if name == "went on" {
				_, log, _ = strings.Cut(log, "\n")
			}
			equal(t, "log", log, want)
			if strings.Contains(w.git("log", "--format=%s"), "feature") != (name == "went on") {
				t.Error("the commits of another branch came along:\n" + w.git("log", "--graph", "--oneline"))
			}
			equal(t, "status", w.git("status", "--porcelain"), "")
			equal(t, "the work", w.exists("new.txt"), true)
		})
	}
}

// git clean -fdx takes the records with it and leaves the worktrees.
func TestCleanWhileAgentsWork(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("a.txt", "1\n")
	w.commitAll("one")
	tr := w.trees()
	x := w.add(tr, "x")
	w.write(filepath.Join(x.Dir, "new.txt"), "x\n")
	w.git("clean", "-fdxq")
	if err := tr.note(t.Context(), "x", func(*record) {}); err != nil {
		t.Error(err)
	}
	w.git("clean", "-fdxq")
	w.commit(tr, "x")
	m := w.merge(tr, "x")
	equal(t, "landed", m.Landed && m.Committed, true)
	equal(t, "the work", w.read("new.txt"), "x\n")
	equal(t, "status", w.git("status", "--porcelain"), "")
}

// Two worktrees of one repository share its refs, and not their agents.
func TestTwoProjectsOfOneRepository(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("a.txt", "1\n")
	w.commitAll("one")
	other := filepath.Join(filepath.Dir(w.root), "other")
	w.git("worktree", "add", "-q", "-b", "other", other)
	tr := w.trees()
	x := w.add(tr, "x")
	w.write(filepath.Join(x.Dir, "new.txt"), "x\n")
	head := w.commit(tr, "x").Hash
	w2 := &world{t: t, root: other, home: w.home, proc: w.proc}
	w2.write("b.txt", "1\n")
	w2.commitAll("two")
	tr2 := w2.trees()
	if list, err := tr2.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("agents of the other project: %+v %v", list, err)
	}
	y := w2.add(tr2, "x")
	equal(t, "base", y.Base, w2.git("rev-parse", "HEAD"))
	if y.Branch == x.Branch {
		t.Error("one branch in two worktrees")
	}
	if err := tr2.Remove(t.Context(), "x", false); err != nil {
		t.Error(err)
	}
	equal(t, "branch", w.git("rev-parse", x.Branch), head)
	m := w.merge(tr, "x")
	equal(t, "landed", m.Landed && m.Committed, true)
}

// A worktree is used again, and not what its agent made of the index.
func TestIndexOfAHostileAgent(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("a.txt", "good\n")
	w.write("b.txt", "1\n")
	w.commitAll("one")
	tr := w.trees()
	x := w.add(tr, "x")
	good := w.git("rev-parse", "HEAD:a.txt")
	w.write(filepath.Join(x.Dir, "a.txt"), "evil\n")
	w.gitIn(x.Dir, "add", "a.txt")
	evil := w.gitIn(x.Dir, "rev-parse", ":a.txt")
	index := filepath.Join(tr.admin(tr.mustRecord(t, "x").Admin), "index")
	forgeIndex(t, index, evil, good)
	equal(t, "the forged index hides the change", w.gitIn(x.Dir, "status", "--porcelain"), "")
	if err := tr.Remove(t.Context(), "x", false); err != nil {
		t.Fatal(err)
	}
	y := w.add(tr, "y")
	equal(t, "a.txt of the next agent", w.read(filepath.Join(y.Dir, "a.txt")), "good\n")
}

// Locks of refs and other things that a child that was killed leaves, or a hostile one.
func TestRefsOfAHostileAgent(t *testing.T) {
	t.Parallel()
	for name, hurt := range map[string]func(w *world, tr *Trees, x Tree){
		"a lock": func(w *world, _ *Trees, x Tree) { w.write(".git/"+x.Branch+".lock", "") },
		"HEAD.lock": func(w *world, tr *Trees, x Tree) {
			w.write(filepath.Join(tr.admin(tr.mustRecord(w.t, "x").Admin), "HEAD.lock"), "")
		},
		"a symref":     func(w *world, _ *Trees, x Tree) { w.write(".git/"+x.Branch, "ref: refs/heads/main\n") },
		"garbage":      func(w *world, _ *Trees, x Tree) { w.write(".git/"+x.Branch, "garbage\n") },
		"empty":        func(w *world, _ *Trees, x Tree) { w.write(".git/"+x.Branch, "") },
		"a wrong hash": func(w *world, _ *Trees, x Tree) { w.write(".git/"+x.Branch, strings.Repeat("1", 40)+"\n") },
		"gone":         func(w *world, _ *Trees, x Tree) { w.remove(".git/" + x.Branch) },
		"a blob":       func(w *world, _ *Trees, x Tree) { w.write(".git/"+x.Branch, w.git("rev-parse", "HEAD:a.txt")+"\n") },
		"a directory": func(w *world, _ *Trees, x Tree) {
			w.remove(".git/" + x.Branch)
			w.write(".git/"+x.Branch+"/deep", w.git("rev-parse", "HEAD")+"\n")
		},
		"HEAD is dir": func(w *world, tr *Trees, x Tree) {
			h := filepath.Join(tr.admin(tr.mustRecord(w.t, "x").Admin), "HEAD")
			w.remove(h)
			w.write(h+"/x", "")
		},
		"HEAD elsewhere": func(w *world, tr *Trees, x Tree) {
			w.write(filepath.Join(tr.admin(tr.mustRecord(w.t, "x").Admin), "HEAD"), "ref: refs/heads/main\n")
		},
		"HEAD wrong": func(w *world, tr *Trees, x Tree) {
			w.write(filepath.Join(tr.admin(tr.mustRecord(w.t, "x").Admin), "HEAD"), strings.Repeat("1", 40)+"\n")
		},
		"index garbage": func(w *world, tr *Trees, x Tree) {
			w.write(filepath.Join(tr.admin(tr.mustRecord(w.t, "x").Admin), "index"), "garbage")
		},
		"index empty": func(w *world, tr *Trees, x Tree) {
			w.write(filepath.Join(tr.admin(tr.mustRecord(w.t, "x").Admin), "index"), "")
		},
		"admin gone": func(w *world, tr *Trees, x Tree) { w.remove(tr.admin(tr.mustRecord(w.t, "x").Admin)) },
		".git gone":  func(w *world, tr *Trees, x Tree) { w.remove(filepath.Join(x.Dir, ".git")) },
		".git own": func(w *world, tr *Trees, x Tree) {
			w.remove(filepath.Join(x.Dir, ".git"))
			w.gitIn(x.Dir, "init", "-q")
			w.gitIn(x.Dir, "add", "-A")
			w.gitIn(x.Dir, "commit", "-qm", "x")
		},
		"a FIFO in the tree": func(w *world, tr *Trees, x Tree) { mkfifo(w.t, filepath.Join(x.Dir, "fifo")) },
		"a link for a branch": func(w *world, tr *Trees, x Tree) {
			w.remove(".git/" + x.Branch)
			_ = os.Symlink("/etc/passwd", w.path(".git/"+x.Branch))
		},
		"branch to other history": func(w *world, tr *Trees, x Tree) {
			w.git("update-ref", x.Branch, w.git("commit-tree", "-m", "alien", "HEAD^{tree}"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRepo(t)
			w.write("a.txt", "1\n")
			main := w.commitAll("one")
			tr := w.trees()
			x := w.add(tr, "x")
			w.write(filepath.Join(x.Dir, "new.txt"), "x\n")
			hurt(w, tr, x)
			work, err := tr.Commit(t.Context(), "x", "work")
			if err != nil {
				t.Errorf("commit: %v", err)
			}
			equal(t, "main", w.git("rev-parse", "refs/heads/main"), main)
			equal(t, "work", paths(work.Files), []string{"added new.txt"})
			m, err := tr.Merge(t.Context(), "x", "merge")
			if err != nil {
				t.Errorf("merge: %v", err)
			}
			equal(t, "landed", m.Landed && m.Committed, true)
			equal(t, "status", w.git("status", "--porcelain"), "")
			if err := tr.Remove(t.Context(), "x", false); err != nil {
				t.Errorf("remove: %v", err)
			}
			if list, err := tr.List(t.Context()); err != nil || len(list) != 0 {
				t.Errorf("left: %+v %v", list, err)
			}
			if err := tr.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if out, err := w.tryIn(w.root, "fsck", "--no-dangling"); err != nil || strings.Contains(out, "error") {
				t.Errorf("fsck: %v %s", err, out)
			}
			equal(t, "refs", w.git("for-each-ref", "--format=%(refname)", "refs/heads"), "refs/heads/main")
			equal(t, "worktrees", strings.Count(w.git("worktree", "list", "--porcelain"), "worktree "), 1)
		})
	}
}

// A clone that an agent added to its work by accident is not a submodule: it is
// left out, and the rest goes on.
func TestCloneInside(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("a.txt", "1\n")
	w.commitAll("one")
	tr := w.trees()
	x := w.add(tr, "x")
	w.gitIn(x.Dir, "clone", "-q", w.root, "copy")
	w.write(filepath.Join(x.Dir, "new.txt"), "x\n")
	w.gitIn(x.Dir, "add", "-A")
	w.gitIn(x.Dir, "commit", "-q", "-m", "all")
	equal(t, "left out", w.commit(tr, "x").LeftOut, []string{"copy (a repository of its own)"})
	m := w.merge(tr, "x")
	equal(t, "landed", m.Landed && m.Committed, true)
	equal(t, "files", paths(m.Files), []string{"added new.txt"})
}
