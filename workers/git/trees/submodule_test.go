package trees

import (
	"path/filepath"
	"testing"
)

// An agent adds a submodule, and removes one: the user's status is clean as after a
// git merge, and git submodule update --init needs no network.
func TestSubmoduleOfAnAgent(t *testing.T) {
	t.Parallel()
	for _, committed := range []bool{true, false} {
		w := newRepo(t)
		for _, name := range []string{"lib", "old"} {
			lib := filepath.Join(filepath.Dir(w.root), name)
			w.git("init", "-q", lib)
			w.write(filepath.Join(lib, "l.txt"), "1\n")
			w.gitIn(lib, "add", "-A")
			w.gitIn(lib, "commit", "-q", "-m", "lib")
		}
		w.git("submodule", "add", "-q", "../old", "deep/old")
		w.commitAll("one")
		w.git("submodule", "deinit", "-q", "deep/old")
		tr := w.trees()
		x := w.add(tr, "x")
		w.gitIn(x.Dir, "submodule", "add", "-q", filepath.Join(filepath.Dir(w.root), "lib"), "deep/lib")
		w.gitIn(x.Dir, "rm", "-q", "deep/old")
		if committed {
			w.gitIn(x.Dir, "commit", "-q", "-m", "submodules")
		}
		work := w.commit(tr, "x")
		equal(t, "left out", work.LeftOut, nil)
		m := w.merge(tr, "x")
		equal(t, "landed", m.Landed && m.Committed, true)
		equal(t, "status", w.git("status", "--porcelain"), "")
		equal(t, "the old one", w.exists("deep/old"), false)
		w.remove(filepath.Join(filepath.Dir(w.root), "lib"))
		w.git("submodule", "update", "-q", "--init")
		equal(t, "file", w.read("deep/lib/l.txt"), "1\n")
		equal(t, "status after an update", w.git("status", "--porcelain"), "")
		equal(t, "submodule", w.git("submodule", "status")[:1], " ")
		if err := tr.Remove(t.Context(), "x", false); err != nil {
			t.Fatal(err)
		}
	}
}

// A file of the user is where the submodule of an agent has to go.
func TestSubmoduleInTheWay(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	lib := filepath.Join(filepath.Dir(w.root), "lib")
	w.git("init", "-q", lib)
	w.gitIn(lib, "commit", "-q", "--allow-empty", "-m", "lib")
	w.write("a.txt", "1\n")
	w.commitAll("one")
	tr := w.trees()
	x := w.add(tr, "x")
	w.gitIn(x.Dir, "submodule", "add", "-q", lib, "sub")
	w.commit(tr, "x")
	w.write("sub", "mine\n")
	m := w.merge(tr, "x")
	equal(t, "landed", m.Landed, false)
	equal(t, "file", w.read("sub"), "mine\n")
}
