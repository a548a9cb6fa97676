package crew

import (
	"context"
	"errors"
	"os"
	osexec "os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"ralph/workers"
	"ralph/workers/exec"
	"ralph/workers/git"
	"ralph/workers/git/trees"
)

// A stop that comes when the work of an agent is in the user's tree does not leave the
// agent's tree behind.
func TestAStopLeavesNoTreeOfMergedWork(t *testing.T) {
	root := filepath.Join(t.TempDir(), "project")
	for _, args := range [][]string{{"init", "-q", root}, {"-C", root, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"}} {
		if out, err := osexec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	proc := exec.New(exec.Options{})
	defer func() {
		if err := proc.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	loc, err := git.Find(root)
	if err != nil {
		t.Fatal(err)
	}
	var warned []string
	c := New(Options{Pool: workers.New(workers.Options{}), Now: time.Now, Trees: trees.OpenTrees(proc, loc, filepath.Join(root, ".ralph"), nil), Warn: func(s string) { warned = append(warned, s) }})
	tree, err := c.o.Trees.Add(t.Context(), trees.AddOptions{Agent: "look"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tree.Root, "new"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := c.o.Trees.Commit(t.Context(), "look", "look"); err != nil {
		t.Fatal(err)
	}
	if got, err := c.o.Trees.Merge(t.Context(), "look", "look"); err != nil || !got.Landed {
		t.Fatalf("%+v %v", got, err)
	}
	m := newMember(Agent{ID: "look", Worktree: tree.Dir})
	c.members = append(c.members, m)
	// Another Ralph looks after its trees at that moment.
	locks, err := filepath.Glob(filepath.Join(root, ".ralph", "*", "*", "lock"))
	if err != nil || len(locks) != 1 {
		t.Fatalf("the locks are %v %v", locks, err)
	}
	lock, err := os.Open(locks[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	released := make(chan error)
	time.AfterFunc(20*time.Millisecond, func() { released <- lock.Close() })
	stopped, stop := context.WithCancelCause(t.Context())
	stop(errors.New("stopped"))
	c.drop(stopped, m, false)
	if err := <-released; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(tree.Dir); !errors.Is(err, os.ErrNotExist) || len(warned) > 0 || m.Worktree != "" {
		t.Errorf("the tree %s is there (%v), warned of %q", tree.Dir, err, warned)
	}
}
