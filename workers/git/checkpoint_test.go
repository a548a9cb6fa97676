package git

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ralph/workers/exec"
)

// untouched gives what a checkpoint must not change.
func (w *world) untouched() string {
	w.t.Helper()
	index, err := os.ReadFile(w.path(".git/index"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	return strings.Join([]string{string(index), w.read(".git/HEAD"), w.git("stash", "list"), w.git("status", "--porcelain=v2", "-uall")}, "\n--\n")
}

func take(t *testing.T, c *Checkpoints, id string) Checkpoint {
	t.Helper()
	return must(c.Take(t.Context(), id))(t)
}

// both runs a test with and without a repository.
func both(t *testing.T, test func(t *testing.T, w *world)) {
	t.Run("repository", func(t *testing.T) { test(t, newRepo(t)) })
	t.Run("no repository", func(t *testing.T) { test(t, newWorld(t)) })
}

func TestCheckpointRoundTrip(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		c, ctx := w.checkpoints(), t.Context()
		w.write("keep", "1\n")
		w.write("mod", "1\n2\n3\n")
		w.write("gone", "first\nsecond\n")
		w.write("dir/deep/gone", "deep\n")
		w.write("to be moved", strings.Repeat("line\n", 20))
		w.write("file or dir", "1\n")
		w.write("script", "#!/bin/sh\n")
		w.write("mode", "1\n")
		w.write("bin", "a\x00b")
		if err := errors.Join(os.Chmod(w.path("script"), 0o755), os.Chmod(w.path("mod"), 0o600), os.Symlink("keep", w.path("link"))); err != nil {
			t.Fatal(err)
		}
		before := take(t, c, "r-20261121-1/2.before")
		w.write("mod", "1\nchanged\n3\n4\n")
		w.remove("gone")
		w.remove("dir")
		if err := os.Rename(w.path("to be moved"), w.path("moved")); err != nil {
			t.Fatal(err)
		}
		w.remove("file or dir")
		w.write("file or dir/now/dir", "now a directory\n")
		w.write("new/file", "four\nfive\nsix\n")
		w.write("script", "#!/bin/bash\n")
		w.write("bin", "a\x00c")
		w.remove("link")
		if err := errors.Join(os.Symlink("mod", w.path("link")), os.Chmod(w.path("mode"), 0o755)); err != nil {
			t.Fatal(err)
		}
		w.write("RALPH_TASKS.md", "state")
		w.write("AGENT.md", "state")
		w.write(".ralph/x", "state")
		after := take(t, c, "r-20261121-1/2.after")
		equal(t, "changes", must(c.Changes(ctx, before, after))(t), []FileChange{
			{Path: "bin", Kind: Modified, Added: -1, Removed: -1},
			{Path: "dir/deep/gone", Kind: Deleted, Removed: 1},
			{Path: "file or dir", Kind: Deleted, Removed: 1},
			{Path: "file or dir/now/dir", Kind: Added, Added: 1},
			{Path: "gone", Kind: Deleted, Removed: 2},
			{Path: "link", Kind: Modified, Added: 1, Removed: 1},
			{Path: "mod", Kind: Modified, Added: 2, Removed: 1},
			{Path: "mode", Kind: Modified},
			{Path: "moved", OldPath: "to be moved", Kind: Renamed},
			{Path: "new/file", Kind: Added, Added: 3},
			{Path: "script", Kind: Modified, Added: 1, Removed: 1},
		})
		diff := must(c.Diff(ctx, before, after))(t)
		if !strings.Contains(diff, "+changed") || !strings.Contains(diff, "rename from to be moved") || strings.Contains(diff, "state") {
			t.Errorf("diff:\n%s", diff)
		}
		done := must(c.Restore(ctx, before, after, nil))(t).Files
		if len(done) != 12 { // the move counts twice
			t.Errorf("restored %d: %+v", len(done), done)
		}
		again := take(t, c, "again")
		equal(t, "same as before", must(c.Changes(ctx, before, again))(t), []FileChange{})
		for _, name := range []string{"RALPH_TASKS.md", "AGENT.md", ".ralph/x"} {
			if !w.exists(name) {
				t.Errorf("%s was restored away", name)
			}
		}
		for _, name := range []string{"moved", "new", "file or dir/now"} {
			if w.exists(name) {
				t.Errorf("%s is still there", name)
			}
		}
		for name, want := range map[string]os.FileMode{"script": 0o755, "mod": 0o600, "mode": 0o644} {
			info, err := os.Stat(w.path(name))
			if err != nil || info.Mode().Perm() != want {
				t.Errorf("mode of %s: %v, %v", name, info, err)
			}
		}
		if target, err := os.Readlink(w.path("link")); err != nil || target != "keep" {
			t.Errorf("link: %q, %v", target, err)
		}
		left, err := filepath.Glob(w.path("home:state/files.git/.ralph-*"))
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %v %v", left, err)
		}
	})
}

func TestCheckpointLeavesTheUserAlone(t *testing.T) {
	w := newRepo(t)
	for _, f := range []string{"a", "b", "c"} {
		w.write(f, "1\n")
	}
	w.commitAll("one")
	w.write("b", "stashed\n")
	w.git("stash")
	w.write("a", "staged\n")
	w.git("add", "a")
	w.write("a", "work tree\n")
	w.write("untracked", "1\n")
	w.git("rm", "-q", "--cached", "c")
	w.write(".git/info/exclude", ".ralph/\n")
	w.write(".git/index.lock", "") // a git of the user at work
	was := w.untouched()
	c := w.checkpoints()
	cp := take(t, c, "x.before")
	equal(t, "index, HEAD, stash and status", w.untouched(), was)
	store := func(args ...string) string {
		return w.git(append([]string{"--git-dir=" + w.path("home:state/files.git")}, args...)...)
	}
	equal(t, "content", store("show", cp.Commit+":a"), "work tree")
	equal(t, "files", store("ls-tree", "--name-only", cp.Commit), "a\nb\nc\nuntracked")
	equal(t, "head", cp.Head, w.git("rev-parse", "HEAD"))
	equal(t, "refs of the user", w.git("for-each-ref", "--format=%(refname)"), "refs/heads/main\nrefs/stash")
	equal(t, "history of all refs", w.git("log", "--all", "--format=%H", "--grep=ralph"), "")
	store("fsck", "--strict", "--full")
	w.write("a", "by Ralph\n")
	after := take(t, c, "x.after")
	must(c.Restore(t.Context(), cp, after, nil))(t)
	equal(t, "after the undo", w.untouched(), was)
}

func TestCheckpointEdited(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		c, ctx := w.checkpoints(), t.Context()
		w.write("a", "1\n")
		w.write("b", "1\n")
		w.write("gone", "1\n")
		w.write("other", "1\n")
		before := take(t, c, "b")
		w.write("a", "2\n")
		w.write("b", "2\n")
		w.write("new", "2\n")
		w.remove("gone")
		after := take(t, c, "a")
		w.write("a", "3\n")
		w.write("new", "3\n")
		w.write("gone", "back\n")
		w.write("other", "2\n") // not among what is put back
		got := must(c.Restore(ctx, before, after, nil))(t)
		equal(t, "kept", got.Kept, []string{"a", "gone", "new"})
		equal(t, "restored", got.Files, []FileChange{{Path: "b", Kind: Modified, Added: 1, Removed: 1}})
		equal(t, "a", w.read("a"), "3\n")
		equal(t, "gone", w.read("gone"), "back\n")
		equal(t, "b", w.read("b"), "1\n")
		w.write("a", "2\n")
		w.write("new", "2\n")
		w.remove("gone")
		must(c.Restore(ctx, before, after, nil))(t)
		equal(t, "b", w.read("b"), "1\n")
		equal(t, "gone", w.read("gone"), "1\n")
		equal(t, "other", w.read("other"), "2\n")
	})
}

// Files that no checkpoint knows are in the way of some restored ones.
func TestRestoreObstacles(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		outside := filepath.Join(w.home, "outside")
		if err := os.Mkdir(outside, 0o755); err != nil {
			t.Fatal(err)
		}
		c, ctx := w.checkpoints(), t.Context()
		w.write(".gitignore", "")
		for _, f := range []string{"plain", "dir/x", "sub/y", "tree"} {
			w.write(f, "1\n")
		}
		before := take(t, c, "b")
		for _, f := range []string{"plain", "dir", "sub", "tree"} {
			w.remove(f)
		}
		w.write(".gitignore", "plain\ndir\nsub\ntree\n")
		after := take(t, c, "a")
		w.write("plain", "ignored\n")
		w.write("dir", "ignored\n")
		w.write("tree/ignored", "ignored\n")
		if err := os.Symlink(outside, w.path("sub")); err != nil {
			t.Fatal(err)
		}
		got := must(c.Restore(ctx, before, after, nil))(t)
		equal(t, "kept", got.Kept, []string{"dir/x", "plain", "sub/y", "tree"})
		if left, _ := os.ReadDir(outside); len(left) > 0 {
			t.Errorf("wrote outside: %v", left)
		}
	})
}

// A directory that the agent replaced by a link to another place comes back as
// a directory, and nothing is written through the link.
func TestRestoreDoesNotFollowLinks(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		outside := filepath.Join(w.home, "outside")
		if err := os.MkdirAll(outside, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(outside, "x"), []byte("precious"), 0o644); err != nil {
			t.Fatal(err)
		}
		c := w.checkpoints()
		w.write("dir/x", "1\n")
		w.write("dir/y", "1\n")
		before := take(t, c, "b")
		w.remove("dir")
		if err := os.Symlink(outside, w.path("dir")); err != nil {
			t.Fatal(err)
		}
		after := take(t, c, "a")
		equal(t, "changes", must(c.Changes(t.Context(), before, after))(t), []FileChange{
			{Path: "dir", Kind: Added, Added: 1}, {Path: "dir/x", Kind: Deleted, Removed: 1}, {Path: "dir/y", Kind: Deleted, Removed: 1},
		})
		must(c.Restore(t.Context(), before, after, nil))(t)
		equal(t, "x", w.read("dir/x"), "1\n")
		b, err := os.ReadFile(filepath.Join(outside, "x"))
		if err != nil || string(b) != "precious" {
			t.Errorf("outside: %q %v", b, err)
		}
	})
}

func TestCheckpointList(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		c, ctx := w.checkpoints(), t.Context()
		equal(t, "none", must(c.List(ctx))(t), nil)
		if err := c.Drop(ctx, "nothing"); err != nil {
			t.Error(err)
		}
		w.write("a", "1")
		start := time.Now()
		one := take(t, c, "r-1/1.before")
		w.write("a", "2")
		two := take(t, c, "r-1/1.after")
		list := must(c.List(ctx))(t)
		if len(list) != 2 || list[0].ID != two.ID || list[1].ID != one.ID || list[0].Commit != two.Commit || list[1].Tree != one.Tree {
			t.Fatalf("list: %+v", list)
		}
		if list[1].Time.Before(start) || !list[1].Time.Before(list[0].Time) || !list[1].Time.Equal(one.Time) {
			t.Errorf("times: %v %v", list[0].Time, list[1].Time)
		}
		// Another process finds the same and can use it.
		other := w.checkpoints()
		equal(t, "changes", must(other.Changes(ctx, list[1], list[0]))(t), []FileChange{{Path: "a", Kind: Modified, Added: 1, Removed: 1}})
		must(other.Restore(ctx, list[1], list[0], nil))(t)
		equal(t, "a", w.read("a"), "1")
		take(t, c, "r-1/1.after")
		equal(t, "replaced", len(must(c.List(ctx))(t)), 2)
		if err := c.Drop(ctx, one.ID, "r-9/9.before"); err != nil {
			t.Fatal(err)
		}
		equal(t, "dropped", len(must(c.List(ctx))(t)), 1)
		if _, err := c.Take(ctx, "../x"); !errors.Is(err, ErrBadName) {
			t.Errorf("bad id: %v", err)
		}
		if err := c.Drop(ctx, "a\ndelete HEAD"); !errors.Is(err, ErrBadName) {
			t.Errorf("bad id: %v", err)
		}
		if _, err := c.Changes(ctx, Checkpoint{Commit: "--output=x"}, two); !errors.Is(err, ErrBadName) {
			t.Errorf("bad commit: %v", err)
		}
	})
}

// Content that changes without size and within the granularity of the clock is
// seen: the copy of the index must not look younger than the index.
func TestCheckpointQuickEdits(t *testing.T) {
	w := newRepo(t)
	c, ctx := w.checkpoints(), t.Context()
	w.write("a", "0")
	w.commitAll("one")
	last := take(t, c, "x0")
	for i := range 10 {
		w.write("a", string(rune('a'+i)))
		w.git("add", "a")
		w.write("a", string(rune('A'+i)))
		next := take(t, c, "x1")
		if len(must(c.Changes(ctx, last, next))(t)) != 1 {
			t.Fatalf("round %d: the change was not seen", i)
		}
		last = next
	}
}

func TestCheckpointStates(t *testing.T) {
	roundTrip := func(t *testing.T, w *world, name string) {
		t.Helper()
		c, ctx := w.checkpoints(), t.Context()
		before := take(t, c, "b")
		was := w.untouched()
		w.write(name, "by Ralph\n")
		after := take(t, c, "a")
		if got := must(c.Changes(ctx, before, after))(t); len(got) != 1 || got[0].Path != name {
			t.Fatalf("changes: %+v", got)
		}
		must(c.Restore(ctx, before, after, nil))(t)
		equal(t, "untouched", w.untouched(), was)
	}
	t.Run("merge", func(t *testing.T) {
		w := newRepo(t)
		w.conflict()
		roundTrip(t, w, "f")
	})
	t.Run("detached", func(t *testing.T) {
		w := newRepo(t)
		w.write("f", "1")
		w.commitAll("one")
		w.git("checkout", "-q", "--detach")
		roundTrip(t, w, "f")
	})
	t.Run("rebase", func(t *testing.T) {
		w := newRepo(t)
		w.write("f", "1")
		w.commitAll("one")
		w.write("f", "2")
		w.commitAll("two")
		w.git("-c", "sequence.editor=sed -i s/pick/edit/", "rebase", "-q", "-i", "HEAD^")
		roundTrip(t, w, "f")
	})
	t.Run("sparse", func(t *testing.T) {
		w := newRepo(t)
		w.write("in/f", "1")
		w.write("out/f", "1")
		w.commitAll("one")
		w.git("sparse-checkout", "set", "in")
		roundTrip(t, w, "in/f")
		cp := take(t, w.checkpoints(), "x")
		equal(t, "files", w.git("--git-dir="+w.path("home:state/files.git"), "ls-tree", "-r", "--name-only", cp.Commit), "in/f")
	})
	t.Run("worktree", func(t *testing.T) {
		w := newRepo(t)
		w.write("f", "1")
		w.commitAll("one")
		linked := filepath.Join(filepath.Dir(w.root), "linked")
		w.git("worktree", "add", "-q", linked)
		main := w.untouched()
		loc := must(Find(linked))(t)
		c := OpenCheckpoints(w.proc, linked, filepath.Join(linked, ".ralph"), w.path("home:linked"), &loc)
		before := take(t, c, "b")
		if err := os.WriteFile(filepath.Join(linked, "f"), []byte("2"), 0o644); err != nil {
			t.Fatal(err)
		}
		must(c.Restore(t.Context(), before, take(t, c, "a"), nil))(t)
		b, err := os.ReadFile(filepath.Join(linked, "f"))
		if err != nil || string(b) != "1" {
			t.Errorf("restored %q %v", b, err)
		}
		equal(t, "main work tree", w.untouched(), main)
	})
	t.Run("line ends", func(t *testing.T) {
		w := newRepo(t)
		w.write(".gitattributes", "* text=auto eol=crlf\n")
		w.write("f", "1\r\n2\r\n")
		w.commitAll("one")
		roundTrip(t, w, "f")
		equal(t, "content", w.read("f"), "1\r\n2\r\n")
	})
	t.Run("sha256", func(t *testing.T) {
		w := newRepo(t)
		w.remove(".git")
		w.git("init", "-q", "--object-format=sha256")
		w.write("f", "1")
		w.commitAll("one")
		roundTrip(t, w, "f")
	})
}

func TestCheckpointSubdirectory(t *testing.T) {
	w := newRepo(t)
	w.write("sub/f", "1\n")
	w.write("top", "1\n")
	w.commitAll("one")
	loc := must(Find(w.path("sub")))(t)
	c := OpenCheckpoints(w.proc, w.path("sub"), w.path("sub/.ralph"), w.path("home:state"), &loc)
	ctx := t.Context()
	before := take(t, c, "b")
	w.write("sub/f", "2\n")
	w.write("sub/new", "2\n")
	w.write("sub/AGENT.md", "state\n")
	w.write("top", "2\n")
	after := take(t, c, "a")
	equal(t, "changes", must(c.Changes(ctx, before, after))(t), []FileChange{
		{Path: "f", Kind: Modified, Added: 1, Removed: 1}, {Path: "new", Kind: Added, Added: 1},
	})
	if d := must(c.Diff(ctx, before, after))(t); !strings.Contains(d, "+++ b/f") || strings.Contains(d, "AGENT") {
		t.Errorf("diff:\n%s", d)
	}
	must(c.Restore(ctx, before, after, nil))(t)
	equal(t, "f", w.read("sub/f"), "1\n")
	equal(t, "top", w.read("top"), "2\n")
}

func TestCheckpointNestedRepositories(t *testing.T) {
	w := newRepo(t)
	lib := filepath.Join(filepath.Dir(w.root), "lib")
	w.git("init", "-q", lib)
	w.gitIn(lib, "commit", "-q", "--allow-empty", "-m", "lib")
	w.git("submodule", "--quiet", "add", lib, "lib")
	w.write("f", "1\n")
	w.commitAll("one")
	w.git("init", "-q", w.path("nested"))
	w.write("nested/x", "1")
	w.git("init", "-q", w.path("born"))
	w.write("born/x", "1")
	w.gitIn(w.path("born"), "add", "-A")
	w.gitIn(w.path("born"), "commit", "-q", "-m", "born")
	c, ctx := w.checkpoints(), t.Context()
	before := take(t, c, "b")
	w.write("lib/dirty", "1")
	w.gitIn(w.path("lib"), "commit", "-q", "--allow-empty", "-m", "new")
	moved := w.gitIn(w.path("lib"), "rev-parse", "HEAD")
	w.write("nested/x", "2")
	w.write("f", "2\n")
	after := take(t, c, "a")
	equal(t, "changes", must(c.Changes(ctx, before, after))(t), []FileChange{{Path: "f", Kind: Modified, Added: 1, Removed: 1}})
	must(c.Restore(ctx, before, after, nil))(t)
	equal(t, "f", w.read("f"), "1\n")
	equal(t, "submodule", w.gitIn(w.path("lib"), "rev-parse", "HEAD"), moved)
	equal(t, "nested", w.read("nested/x"), "2")
}

func TestWithoutRepositoryLeavesOut(t *testing.T) {
	w := newWorld(t)
	w.write("f", "1")
	w.write("node_modules/a/b", "1")
	w.write("sub/node_modules/b", "1")
	w.write("target/x", "1")
	w.write(".env", "SECRET=1")
	w.write("big", strings.Repeat("x", maxFileBytes+1))
	w.write("fits", strings.Repeat("x", maxFileBytes))
	w.write(".ralph/x", "1")
	if err := os.Mkdir(w.path("secret"), 0); err != nil {
		t.Fatal(err)
	}
	c := w.checkpoints()
	cp := take(t, c, "x")
	equal(t, "files", w.gitIn(w.root, "--git-dir="+w.path("home:state/files.git"), "ls-tree", "-r", "--name-only", cp.Commit), "f\nfits")
	if w.exists(".git") {
		t.Error("made a repository in the project")
	}
	w.write("fits", strings.Repeat("y", maxFileBytes+1))
	after := take(t, c, "y")
	// What is too large now is not known, so it is not overwritten.
	if got := must(c.Restore(t.Context(), cp, after, nil))(t); len(got.Kept) != 1 || len(got.Files) != 0 {
		t.Errorf("overwrote: %v", got)
	}
}

func TestCheckpointCancelled(t *testing.T) {
	w := newRepo(t)
	w.write("f", "1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.checkpoints().Take(ctx, "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func BenchmarkTake(b *testing.B) {
	root := b.TempDir()
	p := exec.New(exec.Options{})
	if err := os.MkdirAll(filepath.Join(root, ".ralph"), 0o755); err != nil {
		b.Fatal(err)
	}
	run := func(args ...string) {
		res, err := p.Run(b.Context(), exec.Spec{Argv: append([]string{"git"}, args...), Dir: root})
		if err != nil || res.ExitCode != 0 {
			b.Fatal(err, res.Stdout)
		}
	}
	for i := range 5000 {
		dir := filepath.Join(root, "d"+string(rune('a'+i%26)))
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "f"+time.Duration(i).String()), []byte(strings.Repeat("line\n", 1800)), 0o644)); err != nil {
			b.Fatal(err)
		}
	}
	run("init", "-q")
	run("add", "-A")
	run("-c", "user.name=x", "-c", "user.email=x", "commit", "-q", "-m", "x")
	loc, err := Find(root)
	if err != nil {
		b.Fatal(err)
	}
	c := OpenCheckpoints(p, root, filepath.Join(root, ".ralph"), b.TempDir(), &loc)
	n := 0
	for b.Loop() {
		n++
		if err := os.WriteFile(filepath.Join(root, "edited"), []byte(time.Now().String()), 0o644); err != nil {
			b.Fatal(err)
		}
		if _, err := c.Take(b.Context(), "x"); err != nil {
			b.Fatal(err)
		}
	}
	if err := p.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}
