package trees

import (
	"encoding/hex"
	"errors"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ralph/workers/exec"
)

// What waits may be gone from the repository, by the user's git: others are merged all the
// same, and the branch that waited can be merged again.
func TestWaitingWorkThatIsGone(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("a.txt", "1\n")
	w.commitAll("one")
	tr := w.trees()
	for _, name := range []string{"x", "y"} {
		tree := w.add(tr, name)
		w.write(filepath.Join(tree.Dir, name+".txt"), "2\n")
		w.commit(tr, name)
	}
	w.write("b.txt", "the user goes on, so that a commit of its own is what waits\n")
	w.commitAll("two")
	w.write(".git/index.lock", "")
	equal(t, "landed", w.merge(tr, "x").Landed, false)
	w.remove(".git/index.lock")
	w.git("update-ref", "-d", "refs/ralph/integration")
	w.git("prune", "--expire=now")
	for _, name := range []string{"y", "x"} {
		m := w.merge(tr, name)
		equal(t, name+" landed", m.Landed && m.Committed, true)
		equal(t, name+" is there", w.exists(name+".txt"), true)
	}
	equal(t, "status", w.git("status", "--porcelain"), "")
}

// What is merged has no ref until it lands: the user's git gc does not come in between.
func TestGCInTheMiddleOfAMerge(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("a.txt", "1\n")
	w.commitAll("one")
	tr := w.trees()
	tree := w.add(tr, "x")
	w.write(filepath.Join(tree.Dir, "x.txt"), "2\n")
	w.commit(tr, "x")
	w.write("b.txt", "the user goes on, so that a commit of its own is what lands\n")
	w.commitAll("two")
	var steps []string
	tr.step = func(name string) {
		steps = append(steps, name)
		gc := osexec.CommandContext(t.Context(), "git", "gc", "--prune=now", "--quiet")
		gc.Dir = w.root
		_ = gc.Run() // it says that it must not run now
	}
	m := w.merge(tr, "x")
	if !m.Landed || !m.Committed || len(steps) == 0 {
		t.Errorf("%+v at %v", m, steps)
	}
	equal(t, "head", w.git("log", "-1", "--format=%s"), "work of x")
	w.git("fsck", "--strict")
	w.git("gc", "--prune=now", "--quiet")
}

// A queue never names work that is not there: where the user's git gc removed it before a
// ref kept it, nothing waits, and the merge can be tried again.
func TestAQueueNamesWhatIsKept(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("a.txt", "1\n")
	w.commitAll("one")
	tr := w.trees()
	tree := w.add(tr, "x")
	w.write(filepath.Join(tree.Dir, "x.txt"), "2\n")
	w.commit(tr, "x")
	w.write(".git/index.lock", "")
	w.write(".git/refs/ralph/integration.lock", "")
	if m, err := tr.Merge(t.Context(), "x", "work of x"); err == nil {
		t.Fatalf("merged without its ref: %+v", m)
	}
	equal(t, "a queue", w.exists(".ralph/worktrees/.ralph/queue.json"), false)
}

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
	if err := tr.note(t.Context(), "x", func(*record) error { return nil }); err != nil {
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
	index := filepath.Join(x.Dir, ".git", "index")
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
	hash := func(w *world, x Tree, kind, text string) string {
		w.write(filepath.Join(filepath.Dir(w.root), "object"), text)
		defer w.remove(filepath.Join(filepath.Dir(w.root), "object"))
		return w.gitIn(x.Dir, "hash-object", "-w", "--literally", "-t", kind, filepath.Join(filepath.Dir(w.root), "object"))
	}
	commitOf := func(w *world, x Tree, tree string) {
		c := hash(w, x, "commit", "tree "+tree+"\nparent "+x.Base+"\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nforged\n")
		w.write(filepath.Join(x.Dir, ".git", x.Branch), c+"\n")
	}
	for name, hurt := range map[string]func(w *world, git string, x Tree){
		"a lock":         func(w *world, git string, x Tree) { w.write(git+x.Branch+".lock", "") },
		"HEAD.lock":      func(w *world, git string, x Tree) { w.write(git+"HEAD.lock", "") },
		"a symref":       func(w *world, git string, x Tree) { w.write(git+x.Branch, "ref: refs/heads/main\n") },
		"garbage":        func(w *world, git string, x Tree) { w.write(git+x.Branch, "garbage\n") },
		"empty":          func(w *world, git string, x Tree) { w.write(git+x.Branch, "") },
		"a wrong hash":   func(w *world, git string, x Tree) { w.write(git+x.Branch, strings.Repeat("1", 40)+"\n") },
		"gone":           func(w *world, git string, x Tree) { w.remove(git + x.Branch) },
		"a blob":         func(w *world, git string, x Tree) { w.write(git+x.Branch, w.git("rev-parse", "HEAD:a.txt")+"\n") },
		"a directory":    func(w *world, git string, x Tree) { w.remove(git + x.Branch); w.write(git+x.Branch+"/deep", "x\n") },
		"HEAD is dir":    func(w *world, git string, x Tree) { w.remove(git + "HEAD"); w.write(git+"HEAD/x", "") },
		"HEAD elsewhere": func(w *world, git string, x Tree) { w.write(git+"HEAD", "ref: refs/heads/main\n") },
		"HEAD out":       func(w *world, git string, x Tree) { w.write(git+"HEAD", "ref: refs/../../../../../.git/HEAD\n") },
		"HEAD wrong":     func(w *world, git string, x Tree) { w.write(git+"HEAD", strings.Repeat("1", 40)+"\n") },
		"HEAD a FIFO":    func(w *world, git string, x Tree) { w.remove(git + "HEAD"); mkfifo(w.t, git+"HEAD") },
		"index garbage":  func(w *world, git string, x Tree) { w.write(git+"index", "garbage") },
		"index empty":    func(w *world, git string, x Tree) { w.write(git+"index", "") },
		"index a FIFO":   func(w *world, git string, x Tree) { w.remove(git + "index"); mkfifo(w.t, git+"index") },
		".git gone":      func(w *world, git string, x Tree) { w.remove(git) },
		".git a file": func(w *world, git string, x Tree) {
			w.remove(git)
			w.write(strings.TrimSuffix(git, "/"), "gitdir: ../../../.git\n")
		},
		".git a link": func(w *world, git string, x Tree) {
			w.remove(git)
			_ = os.Symlink("../../../.git", strings.TrimSuffix(git, "/"))
		},
		".git own": func(w *world, git string, x Tree) {
			w.remove(git)
			w.gitIn(x.Dir, "init", "-q")
			w.gitIn(x.Dir, "add", "-A")
			w.gitIn(x.Dir, "commit", "-qm", "x")
		},
		"a FIFO in the tree": func(w *world, git string, x Tree) { mkfifo(w.t, filepath.Join(x.Dir, "fifo")) },
		"a link for a branch": func(w *world, git string, x Tree) {
			w.remove(git + x.Branch)
			_ = os.Symlink("/etc/passwd", git+x.Branch)
		},
		"refs a link": func(w *world, git string, x Tree) {
			w.remove(git + "refs")
			_ = os.Symlink("../../../../.git/refs", git+"refs")
		},
		"objects a link": func(w *world, git string, x Tree) {
			w.remove(git + "objects")
			_ = os.Symlink("../../../../.git/objects", git+"objects")
		},
		"branch to other history": func(w *world, git string, x Tree) {
			w.gitIn(x.Dir, "update-ref", x.Branch, w.gitIn(x.Dir, "commit-tree", "-m", "alien", "HEAD^{tree}"))
		},
		"no alternates": func(w *world, git string, x Tree) { w.remove(git + "objects/info/alternates") },
		"other alternates": func(w *world, git string, x Tree) {
			w.write(git+"objects/info/alternates", w.path(".git/objects")+"\n")
		},
		"no objects": func(w *world, git string, x Tree) { w.remove(git + "objects") },
		"commondir":  func(w *world, git string, x Tree) { w.write(git+"commondir", w.path(".git")+"\n") },
		"configuration": func(w *world, git string, x Tree) {
			w.write(git+"config", "[core]\n\tfsmonitor = touch ../ran\n\tworktree = /\n[include]\n\tpath = /dev/zero\n")
		},
		"a shallow file": func(w *world, git string, x Tree) { w.write(git+"shallow", x.Base+"\n") },
		"grafts":         func(w *world, git string, x Tree) { w.write(git+"info/grafts", x.Base+"\n") },
		"a forged blob": func(w *world, git string, x Tree) {
			// The name of another content: what reads it by this name sees the forgery.
			good := w.git("rev-parse", "HEAD:a.txt")
			evil := hash(w, x, "blob", "evil\n")
			w.write(git+"objects/"+good[:2]+"/"+good[2:], w.read(git+"objects/"+evil[:2]+"/"+evil[2:]))
			w.gitIn(x.Dir, "commit", "-q", "--allow-empty", "-m", "own")
		},
		"a missing blob": func(w *world, git string, x Tree) {
			tree := hash(w, x, "tree", "100644 b.txt\x00"+strings.Repeat("\x11", 20))
			commitOf(w, x, tree)
		},
		"a tree with .git": func(w *world, git string, x Tree) {
			blob := hash(w, x, "blob", "evil\n")
			raw, _ := hex.DecodeString(blob)
			commitOf(w, x, hash(w, x, "tree", "100644 .git\x00"+string(raw)))
		},
		"a commit of nothing": func(w *world, git string, x Tree) { commitOf(w, x, strings.Repeat("1", 40)) },
		"a broken commit": func(w *world, git string, x Tree) {
			w.write(git+x.Branch, hash(w, x, "commit", "tree "+w.git("rev-parse", "HEAD^{tree}")+"\nauthor\n\n")+"\n")
		},
		"a missing parent": func(w *world, git string, x Tree) {
			w.write(git+x.Branch, hash(w, x, "commit", "tree "+w.git("rev-parse", "HEAD^{tree}")+"\nparent "+strings.Repeat("1", 40)+"\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nx\n")+"\n")
		},
		"a pack of garbage": func(w *world, git string, x Tree) {
			w.write(git+"objects/pack/pack-"+strings.Repeat("1", 40)+".pack", "PACK")
			w.write(git+"objects/pack/pack-"+strings.Repeat("1", 40)+".idx", "garbage")
			w.gitIn(x.Dir, "commit", "-q", "--allow-empty", "-m", "own")
		},
		"an object that is a FIFO": func(w *world, git string, x Tree) {
			w.remove(git + "objects/11")
			w.write(git+"objects/11/x", "")
			mkfifo(w.t, git+"objects/11/"+strings.Repeat("1", 38))
			w.write(git+x.Branch, strings.Repeat("1", 40)+"\n")
		},
		"replaced": func(w *world, git string, x Tree) {
			w.write(git+"refs/replace/"+x.Base, w.gitIn(x.Dir, "commit-tree", "-m", "alien", "HEAD^{tree}")+"\n")
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
			hurt(w, filepath.Join(x.Dir, ".git")+"/", x)
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
			equal(t, "a.txt", w.read("a.txt"), "1\n")
			status := w.gitIn(x.Dir, "status", "--porcelain", "--branch") // with complaints about what the agent left
			equal(t, "status of the agent", status[strings.LastIndexByte(status, '\n')+1:], "## ralph/x")
			equal(t, "ran", w.exists(filepath.Join(x.Dir, "..", "ran")), false)
			if err := tr.Remove(t.Context(), "x", false); err != nil {
				t.Errorf("remove: %v", err)
			}
			if list, err := tr.List(t.Context()); err != nil || len(list) != 0 {
				t.Errorf("left: %+v %v", list, err)
			}
			if err := tr.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if out, err := w.tryIn(w.root, "fsck", "--no-dangling", "--strict"); err != nil || strings.Contains(out, "error") {
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

// TestPlantedState has a repository bring along what a Ralph that was killed in a
// landing would have left: a journal that moves a branch, and a queue and a record
// that name the repository's commits.
func TestPlantedState(t *testing.T) {
	t.Parallel()
	for _, defence := range []bool{true, false} {
		w := newRepo(t)
		w.write("a.txt", "1\n")
		base := w.commitAll("one")
		w.write("a.txt", "evil\n")
		evil := w.commitAll("evil")
		blob := w.git("rev-parse", evil+":a.txt")
		old := w.git("rev-parse", base+":a.txt")
		w.git("reset", "-q", "--hard", base)
		w.git("branch", "release", base)
		mine, theirs := w.trees(), w.trees()
		theirs.sign = func(purpose string, data []byte) string { return signed("key of somebody else", purpose, data) }
		if !defence {
			mine.sign = theirs.sign
		}
		w.write(filepath.Join(theirs.private(), "placeholder"), "")
		change := []step{{Path: []byte("a.txt"), OldMode: "100644", OldHash: old, NewMode: "100644", NewHash: blob}}
		for path, v := range map[string]any{
			theirs.journalPath():   journal{From: base, To: evil, Branch: "refs/heads/release", Files: change, Index: change},
			theirs.queuePath():     queue{Integration: evil, Onto: base, Waits: []waiter{{Agent: "x", Head: evil}}},
			theirs.recordPath("x"): record{Agent: "x", Ref: "refs/heads/ralph/x", Admin: "x", Base: base, Head: evil, Ready: true},
		} {
			if err := theirs.save(path, v); err != nil {
				t.Fatal(err)
			}
		}
		err := mine.Finish(t.Context())
		if _, lerr := mine.Land(t.Context()); defence && (err != nil || lerr != nil) {
			t.Error(err, lerr)
		}
		equal(t, "a branch that was moved", w.git("rev-parse", "release") == evil, !defence)
		equal(t, "a file that was written", w.read("a.txt") == "evil\n", !defence)
		equal(t, "status", w.git("status", "--porcelain", "-uno") == "", defence)
		if _, err := mine.recordOf("x"); defence != errors.Is(err, ErrUnknown) {
			t.Errorf("the record: %v", err)
		}
	}
}

// A git that is killed while it removes a packed ref leaves a new file, which keeps every
// later one from packing refs.
func TestWhatAKilledGitLeftOfPackedRefs(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("a.txt", "1\n")
	w.commitAll("one")
	tr := w.trees()
	w.add(tr, "x")
	w.write(".ralph/worktrees/.ralph/killed", "refs/heads/main\n")
	w.write(".git/packed-refs.new", "half")
	if err := tr.breakLocks(w.path(".ralph/worktrees/.ralph/killed")); err != nil {
		t.Fatal(err)
	}
	w.git("pack-refs", "--all")
}

// A tree that was being made when Ralph was killed may have lost its base to the user's git
// gc: nothing of it is left, and it can be made again.
func TestAHalfMadeTreeWithoutItsBase(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("a.txt", "1\n")
	w.commitAll("one")
	w.write("a.txt", "not committed, so that the base is a commit of its own\n")
	tr := w.trees()
	w.add(tr, "x")
	r, err := tr.recordOf("x")
	if err != nil {
		t.Fatal(err)
	}
	r.Ready, r.Maker = false, strings.Replace(exec.TempName(making), strconv.Itoa(os.Getpid()), strconv.Itoa(1<<30), 1)
	if err := tr.save(tr.recordPath("x"), r); err != nil {
		t.Fatal(err)
	}
	w.git("update-ref", "-d", r.Ref)
	w.git("update-ref", "-d", tr.baseRef("x"))
	w.git("prune", "--expire=now")
	next := w.trees()
	if err := next.Finish(t.Context()); err != nil {
		t.Error(err)
	}
	w.add(next, "x")
}
