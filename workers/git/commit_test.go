package git

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"
)

func TestCommitAll(t *testing.T) {
	w := newRepo(t)
	r, ctx := w.open(), t.Context()
	if _, err := r.Commit(ctx, CommitOptions{Message: "x"}); !errors.Is(err, ErrNothingToCommit) {
		t.Fatalf("empty project: %v", err)
	}
	w.write("a", "1")
	w.write("gone", "1")
	w.write(".ralph/state", "x")
	w.write(".gitignore", "*.log\n")
	w.write("x.log", "x")
	one := must(r.Commit(ctx, CommitOptions{Message: "  one\n\nbody  \n\n", All: true}))(t)
	equal(t, "head", w.git("rev-parse", "HEAD"), one)
	equal(t, "files", w.git("ls-files"), ".gitignore\na\ngone")
	equal(t, "tree", w.git("ls-tree", "-r", "--name-only", "HEAD"), ".gitignore\na\ngone")
	equal(t, "message", w.git("log", "-1", "--format=%an %ae %cn|%B"), "Ada ada@example.org Ada|one\n\nbody")
	equal(t, "reflog", w.git("log", "-g", "-1", "--format=%gs"), "commit: one")
	if _, err := r.Commit(ctx, CommitOptions{Message: "again"}); !errors.Is(err, ErrNothingToCommit) {
		t.Fatalf("nothing new: %v", err)
	}
	w.write("a", "2")
	w.remove("gone")
	w.write("new dir/b", "1")
	two := must(r.Commit(ctx, CommitOptions{Message: "two"}))(t)
	equal(t, "parent", w.git("rev-parse", two+"^"), one)
	equal(t, "tree", w.git("ls-tree", "-r", "--name-only", "HEAD"), ".gitignore\na\nnew dir/b")
	equal(t, "status", w.git("status", "--porcelain"), "?? .ralph/")
}

func TestCommitPaths(t *testing.T) {
	w := newRepo(t)
	for _, f := range []string{"mine", "theirs", "half", "dir/x", "dir/y", "gone"} {
		w.write(f, "1\n")
	}
	w.commitAll("one")
	w.write("mine", "2\n")
	w.write("theirs", "2\n")
	w.write("half", "staged\n")
	w.git("add", "theirs", "half")
	w.write("half", "work tree\n")
	w.write("dir/x", "2\n")
	w.write("dir/new", "1\n")
	w.write("new", "1\n")
	w.write("*", "star\n")
	w.remove("gone")
	w.write("untouched", "1\n")
	r, ctx := w.open(), t.Context()
	must(r.Commit(ctx, CommitOptions{Message: "two", Paths: []string{"mine", "dir", "new", "gone", "*", "half"}}))(t)
	equal(t, "commit", w.git("show", "--name-status", "--format=", "--no-renames", "HEAD"), "A\t*\nA\tdir/new\nM\tdir/x\nD\tgone\nM\thalf\nM\tmine\nA\tnew")
	equal(t, "content", w.git("show", "HEAD:half"), "work tree")
	equal(t, "left staged", w.git("status", "--porcelain"), "M  theirs\n?? untouched")
	if _, err := r.Commit(ctx, CommitOptions{Message: "x", Paths: []string{"mine"}}); !errors.Is(err, ErrNothingToCommit) {
		t.Errorf("nothing new: %v", err)
	}
	equal(t, "still staged", w.git("status", "--porcelain"), "M  theirs\n?? untouched")
	for _, bad := range []string{".ralph", ".ralph/x", "../x"} {
		if _, err := r.Commit(ctx, CommitOptions{Message: "x", Paths: []string{bad}}); err == nil {
			t.Errorf("committed %q", bad)
		}
	}
	if _, err := r.Commit(ctx, CommitOptions{Message: "x", Paths: []string{}}); !errors.Is(err, ErrNothingToCommit) {
		t.Errorf("no paths: %v", err)
	}
	if _, err := r.Commit(ctx, CommitOptions{Message: " \n"}); err == nil {
		t.Error("empty message")
	}
}

// What the user staged for deletion or addition stays so when it is not named.
func TestCommitPathsUnborn(t *testing.T) {
	w := newRepo(t)
	w.write("a", "1")
	w.write("b", "1")
	w.git("add", "b")
	must(w.open().Commit(t.Context(), CommitOptions{Message: "one", Paths: []string{"a"}}))(t)
	equal(t, "tree", w.git("ls-tree", "-r", "--name-only", "HEAD"), "a")
	equal(t, "status", w.git("status", "--porcelain"), "A  b")
}

func TestCommitLeavesOwnFilesOut(t *testing.T) {
	w := newRepo(t)
	w.write("a", "1")
	w.commitAll("one")
	w.write(".ralph/x", "1")
	w.git("add", ".ralph")
	w.write("a", "2")
	must(w.open().Commit(t.Context(), CommitOptions{Message: "two", All: true}))(t)
	equal(t, "tree", w.git("ls-tree", "-r", "--name-only", "HEAD"), "a")
	equal(t, "status", w.git("status", "--porcelain"), "A  .ralph/x")
}

func TestCommitIdentity(t *testing.T) {
	w := newWorld(t)
	w.git("init", "-q")
	w.write("a", "1")
	r, ctx := w.open(), t.Context()
	must(r.Commit(ctx, CommitOptions{Message: "one"}))(t)
	equal(t, "nobody", w.git("log", "-1", "--format=%an <%ae> %cn <%ce>"), "Ralph <ralph@localhost> Ralph <ralph@localhost>")
	w.write("home:.gitconfig", "[user]\n\tname = Ada\n[author]\n\temail = author@example.org\n")
	w.write("a", "2")
	must(r.Commit(ctx, CommitOptions{Message: "two"}))(t)
	equal(t, "half", w.git("log", "-1", "--format=%an <%ae> %cn <%ce>"), "Ada <author@example.org> Ada <ralph@localhost>")
}

func TestCommitLocked(t *testing.T) {
	w := newRepo(t)
	w.write("a", "1")
	w.commitAll("one")
	w.write("a", "2")
	w.write(".git/index.lock", "")
	_, err := w.open().Commit(t.Context(), CommitOptions{Message: "two"})
	var ge *Error
	if !errors.As(err, &ge) || !strings.Contains(ge.Hint, "index.lock") {
		t.Fatalf("locked: %v", err)
	}
	if !w.exists(".git/index.lock") {
		t.Error("removed the lock of another")
	}
	w.remove(".git/index.lock")
	must(w.open().Commit(t.Context(), CommitOptions{Message: "two"}))(t)
	left, err := os.ReadDir(w.path(".git"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		if strings.HasPrefix(e.Name(), "index-") || e.Name() == "index.lock" {
			t.Errorf("left %s behind", e.Name())
		}
	}
}

// TestLockIsWhole reads Ralph's lock of the index at every moment: what kill -9
// leaves has its owner in it, or the next Ralph could not take it over.
func TestLockIsWhole(t *testing.T) {
	w := newRepo(t)
	r, lock := w.open(), w.path(".git/index.lock")
	want := fmt.Sprintf("%s%d\n", lockOwner, os.Getpid())
	done := make(chan struct{})
	var seen int
	go func() {
		defer close(done)
		for range 2000 {
			unlock, err := r.lockIndex()
			if err != nil {
				t.Error(err)
				return
			}
			unlock()
		}
	}()
	for {
		select {
		case <-done:
			if seen == 0 {
				t.Error("the lock was never seen")
			}
			return
		default:
		}
		text, err := os.ReadFile(lock)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if seen++; err != nil || string(text) != want {
			t.Fatalf("the lock holds %q, %v", text, err)
		}
	}
}

// A stash can leave conflicts without a merge in progress.
func TestCommitUnmerged(t *testing.T) {
	w := newRepo(t)
	w.conflict()
	w.remove(".git/MERGE_HEAD")
	r := w.open()
	if _, err := r.Commit(t.Context(), CommitOptions{Message: "x"}); err == nil || !strings.Contains(err.Error(), "conflicts") {
		t.Errorf("unmerged: %v", err)
	}
	w.write("other", "1")
	must(r.Commit(t.Context(), CommitOptions{Message: "x", Paths: []string{"other"}}))(t)
	equal(t, "still unmerged", must(r.Status(t.Context()))(t), []Change{{Path: "f", Kind: Conflicted}})
}

func TestCommitRefusesSwitchedOffFilter(t *testing.T) {
	w := newRepo(t)
	w.write(".gitattributes", "*.key filter=crypt\n")
	w.write("a", "1")
	w.commitAll("one")
	w.git("config", "filter.crypt.clean", "tr a-z b-za")
	w.write("s.key", "secret")
	w.write("a", "2")
	r, ctx := w.open(), t.Context()
	if _, err := r.Commit(ctx, CommitOptions{Message: "x", All: true}); err == nil || !strings.Contains(err.Error(), "s.key") {
		t.Fatalf("recorded in the clear: %v", err)
	}
	must(r.Commit(ctx, CommitOptions{Message: "x", Paths: []string{"a"}}))(t)
	// The user's own filter is run.
	w.git("config", "--unset", "filter.crypt.clean")
	w.git("config", "--global", "filter.crypt.clean", "tr a-z b-za")
	must(r.Commit(ctx, CommitOptions{Message: "y", All: true}))(t)
	equal(t, "filtered", w.git("show", "HEAD:s.key"), "tfdsfu")
}

func TestCommitsSideBySide(t *testing.T) {
	w := newRepo(t)
	r := w.open()
	var wg sync.WaitGroup
	names := []string{"a", "b", "c", "d"}
	for _, n := range names {
		w.write(n, n)
	}
	for _, n := range names {
		wg.Go(func() {
			if _, err := r.Commit(t.Context(), CommitOptions{Message: n, Paths: []string{n}}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	equal(t, "commits", len(must(r.CommitsSince(t.Context(), ""))(t)), len(names))
	equal(t, "status", w.git("status", "--porcelain"), "")
}
