package trees

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// What a git leaves locked that was killed with its Ralph is free again at the
// next start; what somebody else has locked stays.
func TestFinishBreaksOurLocks(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("a.txt", "1\n")
	w.commitAll("one")
	tr := w.trees()
	w.add(tr, "x")
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	theirs := filepath.Join(w.root, ".git/packed-refs.lock")
	w.write(theirs, "")
	if past := time.Now().Add(-time.Minute); os.Chtimes(theirs, past, past) != nil {
		t.Fatal("no such time")
	}
	note := filepath.Join(tr.private(), fmt.Sprintf(".ralph-refs-%d-%s", dead.Process.Pid, rand.Text()))
	w.write(note, "refs/heads/main\nrefs/heads/other\n")
	ours := filepath.Join(w.root, ".git/refs/heads/main.lock")
	w.write(ours, "")
	busy := filepath.Join(w.root, ".git/refs/heads/other.lock")
	w.write(busy, "")
	done := make(chan struct{})
	go func() {
		defer close(done)
		time.Sleep(lockWait / 4)
		_ = os.WriteFile(busy, []byte("somebody is at work\n"), 0o600)
	}()
	err := tr.Finish(t.Context())
	<-done
	if err != nil {
		t.Fatal(err)
	}
	if w.exists(ours) || w.exists(note) || !w.exists(busy) || !w.exists(theirs) {
		t.Errorf("main.lock %v, the note %v, a lock that changes %v, an older one %v", w.exists(ours), w.exists(note), w.exists(busy), w.exists(theirs))
	}
}

// A branch that others wait with is not withdrawn alone; a lone one is, and what
// it had does not come later.
func TestRemoveWithdrawsWhatWaits(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("a.txt", "1\n")
	w.write("b.txt", "1\n")
	w.commitAll("one")
	tr := w.trees()
	for _, name := range []string{"x", "y"} {
		tree := w.add(tr, name)
		w.write(filepath.Join(tree.Dir, "a.txt"), "2\n")
		w.write(filepath.Join(tree.Dir, name+".txt"), "2\n")
		w.commit(tr, name)
	}
	w.write("a.txt", "mine\n")
	for n, name := range []string{"x", "y"} {
		m, err := tr.Merge(t.Context(), name, "merge "+name)
		if err != nil || m.Landed {
			t.Fatalf("%+v %v", m, err)
		}
		err = tr.Remove(t.Context(), "x", false)
		if n == 0 {
			if err != nil {
				t.Fatal(err)
			}
			if l, err := tr.Land(t.Context()); err != nil || w.exists("x.txt") {
				t.Errorf("what was removed comes: %+v %v", l, err)
			}
		}
	}
	list, err := tr.List(t.Context())
	if err != nil || len(list) != 1 || !list[0].Waits {
		t.Fatalf("%+v %v", list, err)
	}
	w.write("a.txt", "1\n")
	if _, err := tr.Land(t.Context()); err != nil || !w.exists("y.txt") || w.exists("x.txt") {
		t.Errorf("y is there: %v, x: %v (%v)", w.exists("y.txt"), w.exists("x.txt"), err)
	}
	if list, err = tr.List(t.Context()); err != nil || len(list) != 1 || list[0].Waits || list[0].Into == "" {
		t.Errorf("%+v %v", list, err)
	}
}

// A landing that was cut off when its files and the index were there goes forward,
// though the user has edited one of the files since: put back, the index would
// have what no file has, and the user's next commit with it.
func TestALandingThatWasPastItsFiles(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"branch", "moved", "queue", "end"} {
		w := newRepo(t)
		w.write("a.txt", "1\n2\n3\n4\n5\n")
		w.commitAll("one")
		tr := w.trees()
		tree := w.add(tr, "x")
		w.write(filepath.Join(tree.Dir, "a.txt"), "1\n2\n3\n4\n5 x\n")
		w.write(filepath.Join(tree.Dir, "x.txt"), "x\n")
		w.commit(tr, "x")
		runHelper(t, w.root, step)
		w.write("a.txt", "1 user\n2\n3\n4\n5 x\n")
		if err := tr.Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := w.read("a.txt"); got != "1 user\n2\n3\n4\n5 x\n" || !w.exists("x.txt") {
			t.Errorf("killed before %q: a.txt %q, x.txt %v", step, got, w.exists("x.txt"))
		}
		if got := w.git("status", "--porcelain"); got != "M a.txt" && got != " M a.txt" && got != " M a.txt\n" {
			t.Errorf("killed before %q: git status %q", step, got)
		}
		list, err := tr.List(t.Context())
		if err != nil || len(list) != 1 || list[0].Into == "" || list[0].Waits {
			t.Errorf("killed before %q: %+v %v", step, list, err)
		}
	}
}
