package trees

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ralph/workers/git"
)

func TestCleanTree(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("a.txt", "1\n2\n3\n")
	w.write("b.txt", "b\n")
	first := w.commitAll("one")
	tr := w.trees()
	tree := w.add(tr, "fix_a")
	equal(t, "branch", tree.Branch, "refs/heads/ralph/fix_a")
	equal(t, "base", tree.Base, first)
	equal(t, "content", w.read(filepath.Join(tree.Dir, "a.txt")), "1\n2\n3\n")
	equal(t, "status of the user", w.git("status", "--porcelain"), "")
	equal(t, "status of the child", w.gitIn(tree.Dir, "status", "--porcelain", "--branch"), "## ralph/fix_a")
	w.write(filepath.Join(tree.Dir, "a.txt"), "1\n2\n3\n4\n")
	w.write(filepath.Join(tree.Dir, "new/c.txt"), "c\n")
	w.remove(filepath.Join(tree.Dir, "b.txt"))
	diff, err := tr.Diff(t.Context(), "fix_a")
	if err != nil || !strings.Contains(diff, "+4\n") {
		t.Fatal(diff, err)
	}
	work := w.commit(tr, "fix_a")
	equal(t, "files", len(work.Files), 3)
	equal(t, "trailer", w.git("log", "-1", "--format=%an %(trailers:key=Ralph-Agent,valueonly)", work.Hash), "Ada fix_a")
	equal(t, "status of the child", w.gitIn(tree.Dir, "status", "--porcelain"), "")
	if _, err := tr.Commit(t.Context(), "fix_a", "again"); !errors.Is(err, git.ErrNothingToCommit) {
		t.Error(err)
	}
	equal(t, "the user's tree", w.git("status", "--porcelain"), "")
	m := w.merge(tr, "fix_a")
	if !m.Landed || !m.Committed || len(m.Held)+len(m.Conflicts) > 0 {
		t.Fatalf("%+v", m)
	}
	equal(t, "fast-forward", m.Commit, work.Hash)
	equal(t, "head", w.git("rev-parse", "HEAD"), work.Hash)
	equal(t, "integration", w.git("rev-parse", "refs/ralph/integration"), work.Hash)
	equal(t, "status of the user", w.git("status", "--porcelain"), "")
	equal(t, "a.txt", w.read("a.txt"), "1\n2\n3\n4\n")
	equal(t, "b.txt is there", w.exists("b.txt"), false)
	if err := tr.Remove(t.Context(), "fix_a", false); err != nil {
		t.Fatal(err)
	}
	equal(t, "dir", w.exists(tree.Dir), false)
	equal(t, "branches", w.git("for-each-ref", "--format=%(refname)", "refs/heads", "refs/ralph/base"), "refs/heads/main")
	if list, err := tr.List(t.Context()); err != nil || len(list) != 0 {
		t.Error(list, err)
	}
	again := w.add(tr, "next")
	equal(t, "reused", w.exists(again.Dir), true)
	equal(t, "spares", len(tr.spares()), 0)
	equal(t, "status of the next child", w.gitIn(again.Dir, "status", "--porcelain", "--branch"), "## ralph/next")
}

// Two agents that began at the same time and changed different things both land,
// as one commit each.
func TestTwoAgents(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("a.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
	w.commitAll("one")
	tr := w.trees()
	x, y, z := w.add(tr, "x"), w.add(tr, "y"), w.add(tr, "z")
	w.write(filepath.Join(x.Dir, "a.txt"), "1 x\n2\n3\n4\n5\n6\n7\n8\n9\n")
	w.write(filepath.Join(y.Dir, "a.txt"), "1\n2\n3\n4\n5\n6\n7\n8\n9 y\n")
	w.write(filepath.Join(z.Dir, "a.txt"), "1 z\n2\n3\n4\n5\n6\n7\n8\n9\n")
	for _, agent := range []string{"x", "y", "z"} {
		w.commit(tr, agent)
	}
	w.merge(tr, "x")
	m := w.merge(tr, "y")
	equal(t, "landed", m.Landed && m.Committed, true)
	equal(t, "parents", len(strings.Fields(w.git("log", "-1", "--format=%P"))), 1)
	before := w.git("rev-parse", "HEAD")
	m = w.merge(tr, "z")
	equal(t, "conflicts", m.Conflicts, []Conflict{{"a.txt", "contents"}})
	equal(t, "landed", m.Landed, false)
	equal(t, "head", w.git("rev-parse", "HEAD"), before)
	equal(t, "status", w.git("status", "--porcelain"), "")
	// One who resolves it begins with the markers, and fits.
	r, err := tr.Add(t.Context(), AddOptions{Agent: "resolve_z", Content: m.ConflictCommit})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "base", r.Base, before)
	marked := w.read(filepath.Join(r.Dir, "a.txt"))
	if !strings.Contains(marked, "<<<<<<<") || !strings.Contains(marked, "1 z") {
		t.Fatalf("no markers in %q", marked)
	}
	w.write(filepath.Join(r.Dir, "a.txt"), "1 x z\n2\n3\n4\n5\n6\n7\n8\n9 y\n")
	w.commit(tr, "resolve_z")
	m = w.merge(tr, "resolve_z")
	equal(t, "landed", m.Landed && m.Committed, true)
	equal(t, "a.txt", w.read("a.txt"), "1 x z\n2\n3\n4\n5\n6\n7\n8\n9 y\n")
	equal(t, "status", w.git("status", "--porcelain"), "")
}

// The user's uncommitted, staged and untracked work goes to the agent and is not
// in its commit.
func TestDirtyTree(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("a.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
	w.write("staged.txt", "s\n")
	w.commitAll("one")
	w.write("a.txt", "1 user\n2\n3\n4\n5\n6\n7\n8\n9\n")
	w.write("staged.txt", "s user\n")
	w.git("add", "staged.txt")
	w.write("untracked.txt", "u\n")
	w.write(".env", "TOKEN=1\n")
	before := w.git("status", "--porcelain")
	tr := w.trees()
	tree := w.add(tr, "x")
	equal(t, "left out", tree.LeftOut[:1], []string{".env (a secret by its name)"})
	equal(t, "untracked", w.read(filepath.Join(tree.Dir, "untracked.txt")), "u\n")
	equal(t, "secret", w.exists(filepath.Join(tree.Dir, ".env")), false)
	equal(t, "edited", w.read(filepath.Join(tree.Dir, "a.txt")), "1 user\n2\n3\n4\n5\n6\n7\n8\n9\n")
	w.write(filepath.Join(tree.Dir, "a.txt"), "1 user\n2\n3\n4\n5\n6\n7\n8\n9 x\n")
	w.write(filepath.Join(tree.Dir, "new.txt"), "n\n")
	w.commit(tr, "x")
	m := w.merge(tr, "x")
	equal(t, "landed", m.Landed && m.Committed, true)
	equal(t, "in the commit", w.git("show", "HEAD:a.txt"), "1\n2\n3\n4\n5\n6\n7\n8\n9 x")
	equal(t, "names", w.git("show", "--name-only", "--format=%s"), "work of x\n\na.txt\nnew.txt")
	equal(t, "in the tree", w.read("a.txt"), "1 user\n2\n3\n4\n5\n6\n7\n8\n9 x\n")
	equal(t, "status", w.git("status", "--porcelain"), before)

	// What cannot be told from the user's own work lands without a commit.
	m = w.child(tr, "y", map[string]string{"untracked.txt": "u\ny\n", "other.txt": "o\n"})
	equal(t, "landed", m.Landed, true)
	equal(t, "committed", m.Committed, false)
	equal(t, "why", m.Why, "it goes together with uncommitted work of yours")
	equal(t, "untracked", w.read("untracked.txt"), "u\ny\n")
	equal(t, "other", w.read("other.txt"), "o\n")
	equal(t, "status", w.git("status", "--porcelain"), " M a.txt\nM  staged.txt\n?? .env\n?? other.txt\n?? untracked.txt")
}

// What conflicts with the user's own changes is held, and lands when that is over.
func TestHeld(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("a.txt", "1\n")
	w.write("b.txt", "1\n")
	base := w.commitAll("one")
	tr := w.trees()
	tree := w.add(tr, "x")
	w.write(filepath.Join(tree.Dir, "a.txt"), "x\n")
	w.write(filepath.Join(tree.Dir, "b.txt"), "x\n")
	w.commit(tr, "x")
	w.write("a.txt", "user\n")
	m := w.merge(tr, "x")
	equal(t, "held", m.Held, []string{"a.txt"})
	equal(t, "landed", m.Landed, false)
	equal(t, "b.txt", w.read("b.txt"), "1\n")
	equal(t, "head", w.git("rev-parse", "HEAD"), base)
	equal(t, "integration", w.git("show", "refs/ralph/integration:a.txt"), "x")
	w.write("a.txt", "1\n")
	w.write("c.txt", "user's new commit\n")
	w.git("add", "c.txt")
	w.git("commit", "-q", "-m", "user")
	m, err := w.trees().Land(t.Context())
	if err != nil || !m.Landed || !m.Committed {
		t.Fatalf("%+v, %v", m, err)
	}
	equal(t, "a.txt", w.read("a.txt"), "x\n")
	equal(t, "c.txt", w.read("c.txt"), "user's new commit\n")
	equal(t, "status", w.git("status", "--porcelain"), "")
	m, err = tr.Land(t.Context())
	if err != nil || !m.Landed {
		t.Fatalf("%+v, %v", m, err)
	}
}

func TestLeftOut(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("a.txt", "1\n")
	w.write(".gitignore", "node_modules/\n.env\nbuild/\n")
	w.commitAll("one")
	w.write("node_modules/lib/index.js", "x")
	w.write(".env", "TOKEN=1")
	w.write("build/out", "o")
	tr := w.trees()
	tree := w.add(tr, "x")
	equal(t, "linked", tree.Linked, []string{"node_modules"})
	equal(t, "through the link", w.read(filepath.Join(tree.Dir, "node_modules/lib/index.js")), "x")
	equal(t, "left out", tree.LeftOut, []string{".env (ignored)", "build/ (ignored)"})
	equal(t, "secret", w.exists(filepath.Join(tree.Dir, ".env")), false)
	for name, data := range map[string]string{"ok.txt": "1", "RALPH_TASKS.md": "x", "server.pem": "k", "sub/id_rsa": "k", ".env.example": "A=", ".ralph/x": "y", "AGENT.md": "z"} {
		w.write(filepath.Join(tree.Dir, name), data)
	}
	big, err := os.Create(filepath.Join(tree.Dir, "big.bin"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(big.Truncate(1<<30), big.Close()); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"out": "/etc/passwd", "up": "../../x", "in": "a.txt"} {
		if err := os.Symlink(target, filepath.Join(tree.Dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	w.gitIn(tree.Dir, "init", "-q", "nested")
	w.gitIn(tree.Dir, "add", "-f", "server.pem") // staging does not help
	work := w.commit(tr, "x")
	equal(t, "files", paths(work.Files), []string{"added .env.example", "added in", "added ok.txt"})
	equal(t, "left out", work.LeftOut, []string{
		"AGENT.md (Ralph's own state)", "RALPH_TASKS.md (Ralph's own state)", "big.bin (larger than 100 MiB)", "nested/ (a repository of its own)",
		"out (a link that leads out of the tree)", "server.pem (a secret by its name)", "sub/id_rsa (a secret by its name)", "up (a link that leads out of the tree)"})
	// A commit by the agent itself does not help either, not even in the history.
	w.write(filepath.Join(tree.Dir, "b.txt"), "b")
	w.gitIn(tree.Dir, "add", "-f", "server.pem", "b.txt", "node_modules")
	w.gitIn(tree.Dir, "commit", "-q", "-m", "mine")
	w.gitIn(tree.Dir, "rm", "-q", "--cached", "server.pem")
	w.gitIn(tree.Dir, "commit", "-q", "-m", "gone")
	w.commit(tr, "x")
	m := w.merge(tr, "x")
	equal(t, "landed", m.Landed && m.Committed, true)
	equal(t, "names on the user's branch", w.git("log", "--name-only", "--format=", "main"), ".env.example\nb.txt\nin\nok.txt\n.gitignore\na.txt")
	equal(t, "b.txt", w.read("b.txt"), "b")
	if err := tr.Remove(t.Context(), "x", false); err != nil {
		t.Fatal(err)
	}
	equal(t, "the user's modules", w.read("node_modules/lib/index.js"), "x")
	next := w.add(tr, "y")
	equal(t, "big file", w.exists(filepath.Join(next.Dir, "big.bin")), false)
	equal(t, "nested", w.exists(filepath.Join(next.Dir, "nested")), false)
}

// What an agent did with git in its worktree is not lost.
func TestChildUsesGit(t *testing.T) {
	for name, do := range map[string]func(w *world, dir string){
		"own commit": func(w *world, d string) { w.gitIn(d, "add", "-A"); w.gitIn(d, "commit", "-q", "-m", "own") },
		"other branch": func(w *world, d string) {
			w.gitIn(d, "checkout", "-q", "-b", "other")
			w.gitIn(d, "add", "-A")
			w.gitIn(d, "commit", "-q", "-m", "own")
		},
		"detached": func(w *world, d string) {
			w.gitIn(d, "checkout", "-q", "--detach")
			w.gitIn(d, "add", "-A")
			w.gitIn(d, "commit", "-q", "-m", "own")
		},
		"branch deleted": func(w *world, d string) {
			w.gitIn(d, "checkout", "-q", "--detach")
			w.gitIn(d, "branch", "-q", "-D", "ralph/x")
		},
		"work, then away": func(w *world, d string) {
			w.gitIn(d, "add", "-A")
			w.gitIn(d, "commit", "-q", "-m", "own")
			w.gitIn(d, "checkout", "-q", "--detach", "HEAD~1")
			w.write(filepath.Join(d, "later.txt"), "later\n")
		},
		"orphan":     func(w *world, d string) { w.gitIn(d, "checkout", "-q", "--orphan", "fresh") },
		"hidden":     func(w *world, d string) { w.gitIn(d, "update-index", "--assume-unchanged", "a.txt") },
		"no index":   func(w *world, d string) { w.remove(filepath.Join(d, ".git", "index")) },
		"stale lock": func(w *world, d string) { w.write(filepath.Join(d, ".git", "index.lock"), "") },
		"broken .git": func(w *world, d string) {
			w.remove(filepath.Join(d, ".git"))
			w.write(filepath.Join(d, ".git"), "gitdir: /nowhere\n")
		},
		"a merge of its own": func(w *world, d string) {
			w.gitIn(d, "add", "-A")
			w.gitIn(d, "commit", "-q", "-m", "own")
			w.gitIn(d, "checkout", "-q", "-b", "side", "HEAD~1")
			w.write(filepath.Join(d, "a.txt"), "side\n")
			w.gitIn(d, "commit", "-q", "-am", "side")
			w.gitIn(d, "checkout", "-q", "ralph/x")
			_, _ = w.tryIn(d, "merge", "side")
			w.write(filepath.Join(d, "a.txt"), "x\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRepo(t)
			w.write("a.txt", "1\n")
			w.commitAll("zero")
			w.write("z.txt", "1\n")
			w.commitAll("one")
			tr := w.trees()
			tree := w.add(tr, "x")
			w.write(filepath.Join(tree.Dir, "a.txt"), "x\n")
			w.write(filepath.Join(tree.Dir, "new.txt"), "n\n")
			do(w, tree.Dir)
			w.commit(tr, "x")
			equal(t, "branch", w.read(filepath.Join(tree.Dir, ".git", "HEAD")), "ref: refs/heads/ralph/x\n")
			m := w.merge(tr, "x")
			equal(t, "landed", m.Landed && m.Committed, true)
			equal(t, "a.txt", w.read("a.txt"), "x\n")
			equal(t, "new.txt", w.read("new.txt"), "n\n")
			equal(t, "z.txt", w.read("z.txt"), "1\n")
			equal(t, "status", w.git("status", "--porcelain"), "")
			equal(t, "later.txt", w.exists("later.txt"), name == "work, then away")
			w.git("fsck", "--connectivity-only")
		})
	}
}

func (t *Trees) mustRecord(tb testing.TB, agent string) record {
	tb.Helper()
	r, err := t.recordOf(agent)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// However many commits an agent made, with merges too, its task is one commit, also when
// it goes on and is merged again.
func TestOneCommitATask(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("a.txt", "1\n2\n3\n4\n5\n")
	base := w.commitAll("one")
	tr := w.trees()
	x, y := w.add(tr, "x"), w.add(tr, "y")
	work := func(tree Tree, text string) {
		w.write(filepath.Join(tree.Dir, "a.txt"), text)
		w.gitIn(tree.Dir, "-c", "user.name=A", "-c", "user.email=a@a", "commit", "-qam", "by the agent")
	}
	work(x, "1 x\n2\n3\n4\n5\n")
	w.gitIn(x.Dir, "checkout", "-q", "-b", "side")
	work(x, "1 x side\n2\n3\n4\n5\n")
	w.gitIn(x.Dir, "checkout", "-q", "ralph/x")
	w.gitIn(x.Dir, "-c", "user.name=A", "-c", "user.email=a@a", "merge", "-q", "--no-ff", "-m", "by the agent", "side")
	work(y, "1\n2\n3\n4\n5 y\n")
	log := func() string { return w.git("log", "--format=%s %an", base+"..HEAD") }
	for _, c := range []struct{ agent, text, log string }{
		{"x", "1 x side\n2\n3\n4\n5\n", "work of x Ada"},
		{"y", "1 x side\n2\n3\n4\n5 y\n", "work of y Ada\nwork of x Ada"},
	} {
		_, err := tr.Commit(t.Context(), c.agent, "work of "+c.agent)
		if err != nil && !errors.Is(err, git.ErrNothingToCommit) {
			t.Fatal(err)
		}
		if m := w.merge(tr, c.agent); !m.Landed || !m.Committed {
			t.Fatalf("%+v", m)
		}
		equal(t, "log", log(), c.log)
		equal(t, "a.txt", w.read("a.txt"), c.text)
	}
	// What was merged once does not come again, nor stand in the way of what the user made of it.
	w.write("a.txt", "1 user\n2\n3\n4\n5 y\n")
	w.commitAll("user")
	work(x, "1 x side\n2\n3 x\n4\n5\n")
	w.commit(tr, "x")
	m := w.merge(tr, "x")
	equal(t, "conflicts", len(m.Conflicts), 0)
	equal(t, "a.txt", w.read("a.txt"), "1 user\n2\n3 x\n4\n5 y\n")
	equal(t, "log", log(), "work of x Ada\nuser Ada\nwork of y Ada\nwork of x Ada")
	w.git("fsck", "--strict")
}

func TestUnland(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("a.txt", "1\n")
	w.write("staged.txt", "1\n")
	base := w.commitAll("one")
	tr := w.trees()
	x, y := w.add(tr, "x"), w.add(tr, "y")
	w.write(filepath.Join(x.Dir, "a.txt"), "x\n")
	w.write(filepath.Join(y.Dir, "new.txt"), "y\n")
	w.commit(tr, "x")
	w.commit(tr, "y")
	one, two := w.merge(tr, "x").Commit, w.merge(tr, "y").Commit
	equal(t, "commits", w.git("rev-list", "--count", base+".."+two), "2")
	w.write("staged.txt", "user\n")
	w.git("add", "staged.txt")
	if err := tr.Unland(t.Context(), base, one); !errors.Is(err, ErrMoved) {
		t.Fatal(err)
	}
	if err := tr.Unland(t.Context(), base, two); err != nil {
		t.Fatal(err)
	}
	equal(t, "head", w.git("rev-parse", "HEAD"), base)
	equal(t, "status", w.git("status", "--porcelain"), " M a.txt\nM  staged.txt\n?? new.txt")
	if err := tr.Unland(t.Context(), base, two); !errors.Is(err, ErrMoved) {
		t.Fatal(err)
	}
	if _, err := tr.Land(t.Context()); err != nil {
		t.Fatal(err)
	}
	equal(t, "head", w.git("rev-parse", "HEAD"), base)
}
