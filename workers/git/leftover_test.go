package git

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBlobs(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		c := w.checkpoints()
		w.write("mod", "1\n")
		w.write("gone", "first\n")
		w.write("from", strings.Repeat("line\n", 20))
		before := take(t, c, "r-1/1.before")
		w.write("mod", "2\n")
		w.remove("gone")
		if err := os.Rename(w.path("from"), w.path("to")); err != nil {
			t.Fatal(err)
		}
		w.write("new", "n\n")
		after := take(t, c, "r-1/1.after")
		const one, two, first = "d00491fd7e5bb6fa28c517a0bb32b8b506539d4d", "0cfbf08886fca9a91cb753ec8734c84fcbe52c9f",
			"9c59e24b8393179a5d712de4f990178df5734d99"
		list := must(c.Blobs(t.Context(), before, after))(t)
		moved := list[3].Before
		if len(list) != 4 || moved == "" {
			t.Fatalf("blobs %+v", list)
		}
		equal(t, "blobs", list, []BlobChange{
			{FileChange{Path: "gone", Kind: Deleted, Removed: 1}, first, ""},
			{FileChange{Path: "mod", Kind: Modified, Added: 1, Removed: 1}, one, two},
			{FileChange{Path: "new", Kind: Added, Added: 1}, "", list[2].After},
			{FileChange{Path: "to", OldPath: "from", Kind: Renamed}, moved, moved},
		})
		for _, b := range list {
			if b.After == "" {
				continue
			}
			out := must(c.run(t.Context(), call{args: []string{"cat-file", "blob", b.After}}))(t)
			if string(out) != w.read(b.Path) {
				t.Errorf("blob of %s holds %q", b.Path, out)
			}
		}
	})
}

func TestCommitOf(t *testing.T) {
	w := newRepo(t)
	r := w.open()
	w.write("a", "1\n")
	first := w.commitAll("first")
	w.write("a", "2\n")
	w.write("dir/odd name\nwith a line", "x")
	second := w.commitAll("second")
	w.write("b", "b")
	third := w.commitAll("third")
	got := must(r.CommitOf(t.Context(), []string{first, second, third}))(t)
	equal(t, "commits", got, map[string]string{"a": second, "dir/odd name\nwith a line": second, "b": third})
	if _, err := r.CommitOf(t.Context(), []string{"--all"}); err == nil {
		t.Error("an option is taken for a commit")
	}
	equal(t, "none", must(r.CommitOf(t.Context(), nil))(t), map[string]string(nil))
}

// Only locks where nobody but Ralph writes are swept, and an index.lock that names one
// that is no more.
func TestStaleLocks(t *testing.T) {
	w := newRepo(t)
	c := w.checkpoints()
	w.write("a", "1\n")
	ours := []string{w.path(".git/refs/ralph/base/one.lock"), w.path(".git/refs/heads/ralph/one.lock")}
	theirs := []string{w.path("uv.lock"), w.path(".git/index.lock"), w.path(".git/refs/heads/main.lock"), w.path(".git/ralph.lock")}
	for _, p := range append(append([]string(nil), ours...), theirs...) {
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, "stale locks", c.StaleLocks(), ours)
	equal(t, "removed", must(c.SweepLocks())(t), ours)
	index := w.path(".git/index.lock")
	w.write(".git/index.lock", fmt.Sprintf("%s%d\n", lockOwner, os.Getpid()))
	equal(t, "of a Ralph at work", c.StaleLocks(), []string(nil))
	w.write(".git/index.lock", fmt.Sprintf("%s%d\n", lockOwner, 1<<30))
	equal(t, "of a Ralph that is no more", must(c.SweepLocks())(t), []string{index})
	w.write(".git/index.lock", "")
	for _, p := range theirs {
		if _, err := os.Lstat(p); err != nil {
			t.Errorf("a lock that is not ours: %v", err)
		}
	}
}

func TestLeftoverWorktrees(t *testing.T) {
	w := newRepo(t)
	c := w.checkpoints()
	w.write("a", "1\n")
	w.commitAll("first")
	equal(t, "none", c.Worktrees(), []string(nil))
	w.git("worktree", "add", "-q", "-b", "child", w.path(".ralph/worktrees/one"))
	w.git("worktree", "add", "-q", "-b", "mine", filepath.Join(t.TempDir(), "mine"))
	if err := os.MkdirAll(w.path(".ralph/worktrees/two"), 0o755); err != nil {
		t.Fatal(err)
	}
	equal(t, "worktrees", c.Worktrees(), []string{w.path(".ralph/worktrees/one"), w.path(".ralph/worktrees/two")})
	lock := filepath.Join(w.path(".git/worktrees/one"), "index.lock")
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	equal(t, "its lock", c.StaleLocks(), []string{lock})
}
