package trees

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// owned demands that each branch, ref, directory and part of Ralph belongs to a tree
// that List names, and that a tree has what it says.
func (w *world) owned(t *testing.T, tr *Trees) []Tree {
	t.Helper()
	list, err := tr.List(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	refs := strings.Fields(w.git("for-each-ref", "--format=%(refname)"))
	mine := map[string]bool{"lock": true, "queue.json": true}
	for _, x := range list {
		mine[x.Branch], mine["refs/ralph/base/"+x.Agent], mine["agent-"+x.Agent+".json"] = true, true, true
		if x.Branch == "" || !slices.Contains(refs, x.Branch) {
			t.Errorf("%s has the branch %q; there are %q", x.Agent, x.Branch, refs)
		}
		if x.Dir != "" {
			mine[filepath.Base(x.Dir)] = true
		}
	}
	for _, ref := range refs {
		if (strings.HasPrefix(ref, "refs/heads/ralph") || strings.HasPrefix(ref, "refs/ralph/base")) && !mine[ref] {
			t.Errorf("%s belongs to nobody", ref)
		}
	}
	for _, name := range tr.spares() { // until Close
		mine[filepath.Base(tr.spareDir(name))], mine[filepath.Base(tr.admin(name))] = true, true
	}
	for _, dir := range []string{tr.home(), tr.private()} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			at, _ := readSmall(filepath.Join(dir, e.Name(), "gitdir"))
			if e.Name() != ".ralph" && !mine[e.Name()] && !mine[filepath.Base(filepath.Dir(at))] && !strings.HasPrefix(e.Name(), ".objects-") {
				t.Errorf("%s belongs to nobody", filepath.Join(dir, e.Name()))
			}
		}
	}
	return list
}

// TestKilledAddAndRemove kills a Ralph at each step of making a tree, of making one
// again and of removing one. After the next start nothing is there without an owner,
// and the agent gets its tree, and loses it, as ever.
func TestKilledAddAndRemove(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, op := range map[string]string{"add": "add", "add again": "add", "remove": "remove"} {
		w := newRepo(t)
		w.write("a.txt", "1\n")
		w.commitAll("one")
		head := ""
		if name != "add" {
			tr := w.trees()
			tree := w.add(tr, "x")
			w.write(filepath.Join(tree.Root, "x.txt"), "x\n")
			head = w.commit(tr, "x").Hash
			if name == "add again" {
				if err := tr.Remove(ctx, "x", true); err != nil {
					t.Fatal(err)
				}
			}
		}
		dry := copyWorld(t, w, filepath.Join(t.TempDir(), "dry"))
		steps := runHelperTo(t, op, dry.root, "none")
		t.Log(name, steps)
		for _, step := range steps {
			v := copyWorld(t, w, filepath.Join(t.TempDir(), "v"))
			runHelperTo(t, op, v.root, step)
			tr := v.trees()
			if err := tr.Finish(ctx); err != nil {
				t.Errorf("%s killed at %s: finish: %v", name, step, err)
			}
			list := v.owned(t, tr)
			if op == "remove" && len(list) > 0 {
				t.Errorf("%s killed at %s: %+v stays", name, step, list)
			}
			if op == "add" && (len(list) != 1 || head != "" && list[0].Head != head) {
				t.Errorf("%s killed at %s: there is %+v, want one at %s", name, step, list, head)
			}
			v.add(tr, "x")
			v.owned(t, tr)
			if err := tr.Remove(ctx, "x", false); err != nil {
				t.Errorf("%s killed at %s: remove: %v", name, step, err)
			}
			if err := tr.Close(ctx); err != nil {
				t.Error(err)
			}
			if list := v.owned(t, tr); len(list) > 0 {
				t.Errorf("%s killed at %s: after the removal there is %+v", name, step, list)
			}
			if t.Failed() {
				t.Fatalf("%s killed at %s", name, step)
			}
		}
	}
}

// TestStoppedAdd has a stop come at each step of making a tree: the branch that is
// there is in the answer.
func TestStoppedAdd(t *testing.T) {
	t.Parallel()
	for at := 0; ; at++ {
		w := newRepo(t)
		w.write("a.txt", "1\n")
		w.commitAll("one")
		tr := w.trees()
		ctx, cancel := context.WithCancel(context.Background())
		n := 0
		tr.step = func(string) {
			if n++; n > at {
				cancel()
			}
		}
		tree, err := tr.Add(ctx, AddOptions{Agent: "x"})
		cancel()
		list := w.owned(t, tr)
		if len(list) != 1 || list[0].Branch != tree.Branch || (err == nil) != (list[0].Dir != "") {
			t.Errorf("stopped at step %d: %+v, %v; there is %+v", at, tree, err, list)
		}
		if n <= at {
			return
		}
	}
}
