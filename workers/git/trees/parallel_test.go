package trees

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Many agents at once, in two Ralphs, while the user's git prunes worktrees.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	for i := range 20 {
		w.write(fmt.Sprintf("f%d", i), "1\n")
	}
	w.commitAll("one")
	both := []*Trees{w.trees(), w.trees()}
	const n = 8
	errs := make(chan error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			tr, agent := both[i%2], fmt.Sprintf("agent_%d", i)
			errs <- func() error {
				tree, err := tr.Add(t.Context(), AddOptions{Agent: agent})
				if err != nil {
					return err
				}
				if _, err := w.tryIn(w.root, "worktree", "prune", "--expire=now"); err != nil {
					return err
				}
				if err := write(filepath.Join(tree.Dir, fmt.Sprintf("f%d", i)), agent); err != nil {
					return err
				}
				if _, err := tr.Commit(t.Context(), agent, agent); err != nil {
					return err
				}
				m, err := tr.Merge(t.Context(), agent, agent)
				if err == nil && !m.Committed {
					err = fmt.Errorf("%+v", m)
				}
				if err != nil {
					return err
				}
				return tr.Remove(t.Context(), agent, false)
			}()
		})
	}
	all.Wait()
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	for i := range n {
		equal(t, "file", w.read(fmt.Sprintf("f%d", i)), fmt.Sprintf("agent_%d", i))
	}
	equal(t, "status", w.git("status", "--porcelain"), "")
	equal(t, "branches", w.git("for-each-ref", "--format=%(refname)", "refs/heads", "refs/ralph/base"), "refs/heads/main")
	if spares := strings.Count(w.git("worktree", "list"), sparePrefix); spares > maxSpares {
		t.Errorf("%d spares", spares)
	}
	w.git("fsck", "--no-dangling")
}
