package trees

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ralph/workers/git"
)

// round makes an agent in whatever repository there is, lets it add and change a
// file, and merges that.
func round(t *testing.T, w *world, tr *Trees, agent string) (Tree, Merge) {
	t.Helper()
	tree := w.add(tr, agent)
	w.write(filepath.Join(tree.Root, "child_"+agent+".txt"), "x\n")
	w.write(filepath.Join(tree.Root, "a.txt"), "1\n2 "+agent+"\n3\n")
	w.commit(tr, agent)
	return tree, w.merge(tr, agent)
}

func TestWeirdRepositories(t *testing.T) {
	type want struct {
		landed, committed bool
		status            string
	}
	done := want{true, true, ""}
	for name, c := range map[string]struct {
		init []string
		make func(w *world) *Trees
		want want
	}{
		"detached HEAD": {make: func(w *world) *Trees { w.git("checkout", "-q", "--detach"); return w.trees() }, want: want{true, false, " M a.txt\n?? child_x.txt"}},
		"sha256":        {init: []string{"--object-format=sha256"}, make: func(w *world) *Trees { return w.trees() }, want: done},
		"packed refs":   {make: func(w *world) *Trees { w.git("pack-refs", "--all"); w.git("gc", "-q"); return w.trees() }, want: done},
		"a split index": {make: func(w *world) *Trees {
			w.git("config", "core.splitIndex", "true")
			w.git("update-index", "--split-index")
			return w.trees()
		}, want: done},
		"a branch ralph":   {make: func(w *world) *Trees { w.git("branch", "ralph"); return w.trees() }, want: done},
		"a branch ralph/x": {make: func(w *world) *Trees { w.git("branch", "ralph/x"); return w.trees() }, want: done},
		"shallow clone": {make: func(w *world) *Trees {
			w.write("z", "1")
			w.commitAll("two")
			to := filepath.Join(filepath.Dir(w.root), "clone")
			w.git("clone", "-q", "--depth=1", "file://"+w.root, to)
			w.root = to
			return w.trees()
		}, want: done},
		"a linked worktree": {make: func(w *world) *Trees {
			to := filepath.Join(filepath.Dir(w.root), "linked")
			w.git("worktree", "add", "-q", "-b", "mine", to)
			w.root = to
			return w.trees()
		}, want: done},
		"a subdirectory": {make: func(w *world) *Trees {
			w.write("sub/a.txt", "1\n2\n3\n")
			w.commitAll("sub")
			tr := w.treesAt("sub")
			return tr
		}, want: done},
		"bisect": {make: func(w *world) *Trees {
			w.write("z", "1")
			w.commitAll("two")
			w.git("bisect", "start", "HEAD", "HEAD~1")
			return w.trees()
		}, want: want{true, false, " M a.txt\n?? child_x.txt"}},
		"merge in progress": {make: func(w *world) *Trees {
			w.git("checkout", "-q", "-b", "side")
			w.write("side", "1")
			w.commitAll("side")
			w.git("checkout", "-q", "main")
			w.write("z", "1")
			w.commitAll("two")
			w.git("merge", "--no-commit", "side")
			return w.trees()
		}, want: want{true, false, " M a.txt\nA  side\n?? child_x.txt"}},
		"conflict in progress": {make: func(w *world) *Trees {
			w.git("checkout", "-q", "-b", "side")
			w.write("z", "1\n")
			w.commitAll("side")
			w.git("checkout", "-q", "main")
			w.write("z", "2\n")
			w.commitAll("two")
			_, _ = w.tryIn(w.root, "merge", "side")
			return w.trees()
		}, want: want{true, false, " M a.txt\nAA z\n?? child_x.txt"}},
		"rebase in progress": {make: func(w *world) *Trees {
			w.git("checkout", "-q", "-b", "side")
			w.write("z", "1")
			w.commitAll("side")
			w.git("checkout", "-q", "main")
			w.write("z", "2")
			w.commitAll("two")
			_, _ = w.tryIn(w.root, "rebase", "side")
			w.write("z", "3")
			w.git("add", "z")
			return w.trees()
		}, want: want{false, false, "M  z"}},
		"sparse checkout": {make: func(w *world) *Trees {
			w.write("far/a", "1")
			w.commitAll("far")
			w.git("sparse-checkout", "set", "near")
			return w.trees()
		}, want: done},
		"names": {make: func(w *world) *Trees {
			for _, n := range []string{"-dash", "new\nline", "quo\"te", "b\xffyte", "README", "readme", "*", ":(top)x", "tab\t", "sp ace"} {
				w.write(n, "1\n")
			}
			w.commitAll("names")
			return w.trees()
		}, want: done},
		"a bare repository inside": {make: func(w *world) *Trees {
			w.git("init", "-q", "--bare", w.path("fixtures/bare.git"))
			w.commitAll("bare")
			return w.trees()
		}, want: done},
		"staged in the same file": {make: func(w *world) *Trees {
			w.write("a.txt", "1\n2\n3\n4\n5\n6\n7 user\n")
			w.git("add", "a.txt")
			return w.trees()
		}, want: want{true, false, "MM a.txt\n?? child_x.txt"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRepo(t, c.init...)
			w.write("a.txt", "1\n2\n3\n4\n5\n6\n7\n")
			w.commitAll("one")
			tr := c.make(w)
			refs := w.git("for-each-ref", "--format=%(refname) %(objectname)", "refs/heads/ralph")
			tree := w.add(tr, "x")
			w.write(filepath.Join(tree.Root, "child_x.txt"), "x\n")
			a := filepath.Join(tree.Root, "a.txt")
			w.write(a, strings.Replace(w.read(a), "1\n2\n", "1 x\n2\n", 1))
			w.commit(tr, "x")
			m := w.merge(tr, "x")
			got := want{m.Landed, m.Committed, w.git("status", "--porcelain")}
			if got != c.want {
				t.Errorf("got %+v, want %+v: %+v", got, c.want, m)
			}
			equal(t, "the child's file", w.exists(filepath.Join(w.root, tr.prefix, "child_x.txt")), c.want.landed)
			if refs != "" {
				equal(t, "the user's branch", w.git("for-each-ref", "--format=%(refname) %(objectname)", "--contains=HEAD~1", "--no-contains=HEAD", "refs/heads/ralph"), refs)
			}
			if err := tr.Remove(t.Context(), "x", false); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(w.path("near")); name == "sparse checkout" && err == nil || w.exists("far") && name == "sparse checkout" {
				t.Error("the sparse checkout is no longer sparse")
			}
		})
	}
}

func TestUnborn(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("a.txt", "1\n2\n3\n")
	tr := w.trees()
	_, m := round(t, w, tr, "x")
	equal(t, "landed", m.Landed, true)
	equal(t, "why", m.Why, "there is no commit yet")
	equal(t, "status", w.git("status", "--porcelain"), "?? a.txt\n?? child_x.txt")
	equal(t, "a.txt", w.read("a.txt"), "1\n2 x\n3\n")
	_, m = round(t, w, tr, "y")
	equal(t, "landed", m.Landed, true)
	equal(t, "a.txt", w.read("a.txt"), "1\n2 y\n3\n")
}

// Two agents that change the user's uncommitted file in the same place: that is
// for one who resolves it, not for the user.
func TestConflictWithoutCommits(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("a.txt", "1\n")
	tr := w.trees()
	x, y := w.add(tr, "x"), w.add(tr, "y")
	for agent, tree := range map[string]Tree{"x": x, "y": y} {
		w.write(filepath.Join(tree.Dir, "a.txt"), agent+"\n")
		w.commit(tr, agent)
	}
	equal(t, "x", w.merge(tr, "x").Landed, true)
	m := w.merge(tr, "y")
	equal(t, "conflicts", len(m.Conflicts), 1)
	r, err := tr.Add(t.Context(), AddOptions{Agent: "r", Content: m.ConflictCommit})
	if err != nil {
		t.Fatal(err)
	}
	w.write(filepath.Join(r.Dir, "a.txt"), "x and y\n")
	w.commit(tr, "r")
	equal(t, "resolved", w.merge(tr, "r").Landed, true)
	equal(t, "a.txt", w.read("a.txt"), "x and y\n")
}

// A lock of the user's git is waited for and not removed; a file that git ignores
// is not written over; flags of the index stay.
func TestUsersIndex(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("a.txt", "1\n2\n3\n")
	w.write("flag.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
	w.write(".gitignore", "*.log\n")
	w.commitAll("one")
	w.git("update-index", "--assume-unchanged", "flag.txt")
	w.write("flag.txt", "1 mine\n2\n3\n4\n5\n6\n7\n8\n9\n")
	w.write("ita.txt", "i\n")
	w.git("add", "-N", "ita.txt")
	tr := w.trees()
	tree := w.add(tr, "x")
	equal(t, "hidden from the child", w.read(filepath.Join(tree.Dir, "flag.txt")), "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
	w.write(filepath.Join(tree.Dir, "flag.txt"), "1\n2\n3\n4\n5\n6\n7\n8\n9 x\n")
	w.commit(tr, "x")
	w.write(".git/index.lock", "")
	start := time.Now()
	m := w.merge(tr, "x")
	equal(t, "landed", m.Landed, false)
	if took := time.Since(start); took < lockWait || len(m.Held) != 1 || !strings.Contains(m.Why, "index.lock") {
		t.Errorf("%v %+v", took, m)
	}
	equal(t, "lock", w.exists(".git/index.lock"), true)
	w.remove(".git/index.lock")
	m, err := tr.Land(t.Context())
	if err != nil || !m.Landed || !m.Committed {
		t.Fatalf("%+v %v", m, err)
	}
	equal(t, "flag.txt", w.read("flag.txt"), "1 mine\n2\n3\n4\n5\n6\n7\n8\n9 x\n")
	equal(t, "flags", w.git("ls-files", "-v", "flag.txt", "ita.txt"), "h flag.txt\nH ita.txt")
	equal(t, "status", w.git("status", "--porcelain"), " A ita.txt")

	tree = w.add(tr, "y")
	w.write(filepath.Join(tree.Dir, "out.log"), "child\n")
	w.gitIn(tree.Dir, "add", "-f", "out.log")
	w.write("out.log", "user\n")
	w.commit(tr, "y")
	m = w.merge(tr, "y")
	equal(t, "held", m.Held, []string{"out.log"})
	equal(t, "out.log", w.read("out.log"), "user\n")
}

func TestLineEndsAndModes(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write(".gitattributes", "* text=auto\n")
	w.write("a.txt", "1\n2\n3\n")
	w.write("run.sh", "#!/bin/sh\n")
	w.commitAll("one")
	w.write("a.txt", "1\r\n2\r\n3\r\n")
	if err := os.Chmod(w.path("run.sh"), 0o600); err != nil {
		t.Fatal(err)
	}
	tr := w.trees()
	tree := w.add(tr, "x")
	w.write(filepath.Join(tree.Dir, "a.txt"), "1\n2\n3 x\n")
	if err := errors.Join(os.Chmod(filepath.Join(tree.Dir, "run.sh"), 0o755), os.Symlink("a.txt", filepath.Join(tree.Dir, "ln"))); err != nil {
		t.Fatal(err)
	}
	w.commit(tr, "x")
	m := w.merge(tr, "x")
	equal(t, "landed", m.Landed && m.Committed, true)
	equal(t, "a.txt", w.read("a.txt"), "1\r\n2\r\n3 x\r\n")
	info, err := os.Stat(w.path("run.sh"))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "mode", info.Mode().Perm(), 0o700)
	equal(t, "link", w.read("ln"), "1\r\n2\r\n3 x\r\n")
	equal(t, "status", w.git("status", "--porcelain"), "")
}

// Commits in a submodule of a worktree outlast it, or it stays.
func TestSubmodule(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	lib := filepath.Join(filepath.Dir(w.root), "lib")
	w.git("init", "-q", lib)
	w.write(filepath.Join(lib, "l.txt"), "1\n")
	w.gitIn(lib, "add", "-A")
	w.gitIn(lib, "commit", "-q", "-m", "lib")
	w.git("submodule", "add", "-q", lib, "lib")
	w.commitAll("one")
	tr := w.trees()
	tree := w.add(tr, "x")
	w.gitIn(tree.Dir, "submodule", "update", "-q", "--init")
	w.write(filepath.Join(tree.Dir, "lib/l.txt"), "2\n")
	w.gitIn(filepath.Join(tree.Dir, "lib"), "commit", "-q", "-am", "in the submodule")
	hash := w.gitIn(filepath.Join(tree.Dir, "lib"), "rev-parse", "HEAD")
	w.gitIn(tree.Dir, "add", "lib")
	w.gitIn(tree.Dir, "commit", "-q", "-m", "moved")
	w.commit(tr, "x")
	modules := w.path(".git/modules/lib")
	w.remove(modules + ".away")
	if err := os.Rename(modules, modules+".away"); err != nil {
		t.Fatal(err)
	}
	if err := tr.Remove(t.Context(), "x", false); !errors.Is(err, ErrUnsaved) {
		t.Fatal(err)
	}
	equal(t, "still there", w.exists(tree.Dir), true)
	if err := os.Rename(modules+".away", modules); err != nil {
		t.Fatal(err)
	}
	m := w.merge(tr, "x")
	equal(t, "landed", m.Landed && m.Committed, true)
	if err := tr.Remove(t.Context(), "x", false); err != nil {
		t.Fatal(err)
	}
	equal(t, "kept", w.gitIn(w.path("lib"), "cat-file", "-t", hash), "commit")
	equal(t, "gitlink", w.git("rev-parse", "HEAD:lib"), hash)
	equal(t, "status", w.git("status", "--porcelain"), " M lib")
}

// Nothing that the repository or the user's own configuration defines is run.
func TestNothingIsRun(t *testing.T) {
	w := newRepo(t)
	t.Setenv("HOME", w.home) // what is configured there is for this test alone
	w.write("home:.gitconfig", gitconfig)
	marks := filepath.Join(filepath.Dir(w.root), "marks")
	if err := os.Mkdir(marks, 0o755); err != nil {
		t.Fatal(err)
	}
	script := func(name, then string) string {
		p := filepath.Join(w.home, name)
		w.write(p, "#!/bin/sh\ntouch '"+marks+"/"+name+"'\n"+then+"\n")
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
		return p
	}
	w.write(".gitattributes", "*.lfs filter=lfs -text\n*.evil filter=evil\n*.m merge=evil\n")
	w.write("p.lfs", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
	w.write("e.evil", "1\n")
	w.write("b.m", "1\n2\n3\n4\n5\n")
	w.commitAll("one")
	w.git("config", "--global", "filter.lfs.smudge", script("smudge", "echo smudged"))
	w.git("config", "--global", "filter.lfs.clean", script("clean", "echo cleaned"))
	w.git("config", "--global", "filter.lfs.required", "true")
	w.git("config", "filter.evil.smudge", script("evil-smudge", "cat"))
	w.git("config", "filter.evil.clean", script("evil-clean", "cat"))
	w.git("config", "merge.evil.driver", script("driver", "exit 0"))
	w.git("config", "core.fsmonitor", script("fsmonitor", "exit 0"))
	for _, hook := range []string{"post-checkout", "reference-transaction", "post-index-change", "pre-commit", "post-merge"} {
		p := w.path(".git/hooks/" + hook)
		w.write(p, "#!/bin/sh\ntouch '"+marks+"/"+hook+"'\nrm -rf '"+w.root+"/b.m'\n")
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	tr := w.trees()
	x, y := w.add(tr, "x"), w.add(tr, "y")
	equal(t, "pointer", w.read(filepath.Join(x.Dir, "p.lfs")), "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
	w.write(filepath.Join(x.Dir, "b.m"), "1 x\n2\n3\n4\n5\n")
	w.write(filepath.Join(y.Dir, "b.m"), "1\n2\n3\n4\n5 y\n")
	w.write(filepath.Join(x.Dir, "new.lfs"), "content")
	w.write(filepath.Join(x.Dir, "e.evil"), "2\n")
	// What an agent may write to in the repository leads to no other configuration.
	evil := filepath.Join(x.Dir, "evil.git")
	w.git("clone", "-q", "--bare", w.root, evil)
	w.gitIn(evil, "config", "filter.mine.clean", script("commondir", "cat"))
	w.gitIn(evil, "config", "core.bare", "false")
	w.write(filepath.Join(x.Dir, ".gitattributes"), w.read(".gitattributes")+"*.mine filter=mine\n")
	w.write(filepath.Join(x.Dir, "a.mine"), "1\n")
	w.write(filepath.Join(x.Dir, ".git", "commondir"), evil+"\n")
	w.gitIn(x.Dir, "hash-object", "--path=a.mine", "a.mine")
	if _, err := os.Stat(filepath.Join(marks, "commondir")); err != nil {
		t.Error("the plant commondir does not work")
	}
	w.remove(filepath.Join(marks, "commondir"))
	if _, err := tr.Diff(t.Context(), "x"); err != nil {
		t.Error(err)
	}
	w.remove(evil)
	work := w.commit(tr, "x")
	equal(t, "left out", work.LeftOut, []string{"e.evil (its content goes through a filter that is not run)", "new.lfs (its content goes through a filter that is not run)"})
	w.commit(tr, "y")
	w.merge(tr, "x")
	m := w.merge(tr, "y")
	equal(t, "landed", m.Landed && m.Committed, true)
	equal(t, "merged as text", w.read("b.m"), "1 x\n2\n3\n4\n5 y\n")
	for _, agent := range []string{"x", "y"} {
		if err := tr.Remove(t.Context(), agent, false); err != nil {
			t.Fatal(err)
		}
	}
	left, err := os.ReadDir(marks)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		t.Errorf("%s was run", e.Name())
	}
	// The plants work with the plain git, so that no marks means something.
	_, _ = w.tryIn(w.root, "checkout", "-q", "-b", "plain")
	for _, name := range []string{"post-checkout", "fsmonitor"} {
		if _, err := os.Stat(filepath.Join(marks, name)); err != nil {
			t.Errorf("the plant %s does not work", name)
		}
	}
}

func TestBadNames(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("a", "1")
	w.commitAll("one")
	tr := w.trees()
	for _, name := range []string{"", ".", "..", ".hidden", "-x", "a/b", "a b", "x.lock", "a..b", "a\x00", "ä", strings.Repeat("a", 101)} {
		if _, err := tr.Add(t.Context(), AddOptions{Agent: name}); !errors.Is(err, git.ErrBadName) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, base := range []string{"HEAD", "--upload-pack=x"} {
		if _, err := tr.Add(t.Context(), AddOptions{Agent: "x", Base: base}); !errors.Is(err, git.ErrBadName) {
			t.Errorf("%q: %v", base, err)
		}
	}
	if _, err := tr.Merge(t.Context(), "nobody", "m"); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	if err := tr.Remove(t.Context(), "nobody", false); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	if list, err := tr.List(t.Context()); err != nil || len(list) != 0 {
		t.Error(list, err)
	}
}
