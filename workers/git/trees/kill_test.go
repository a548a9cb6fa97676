package trees

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ralph/workers/exec"
	"ralph/workers/git"
)

// killedHelper merges the agent x in a process of its own, which is killed with
// SIGKILL before the step that the environment names.
func killedHelper() int {
	root, at := os.Getenv("RALPH_TREES_ROOT"), os.Getenv("RALPH_TREES_KILL")
	loc, err := git.Find(root)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	runner := exec.New(exec.Options{})
	tr := OpenTrees(runner, loc, filepath.Join(root, ".ralph"), testSign)
	tr.step = func(name string) {
		fmt.Println("step", name)
		if edit := os.Getenv("RALPH_TREES_EDIT"); edit != "" && name == "journal" {
			if err := os.WriteFile(filepath.Join(root, edit), []byte("user\n"), 0o644); err != nil {
				fmt.Println(err)
			}
		}
		if name == at {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	ctx := context.Background()
	switch os.Getenv("RALPH_TREES_OP") {
	case "add":
		_, err = tr.Add(ctx, AddOptions{Agent: "x"})
	case "remove":
		err = tr.Remove(ctx, "x", false)
	default:
		_, err = tr.Merge(ctx, "x", "merge x")
	}
	fmt.Println(err)
	if err := runner.Close(ctx); err != nil {
		fmt.Println(err)
	}
	return 0
}

// testSign signs for all projects of these tests.
func testSign(purpose string, data []byte) string { return signed("key of the tests", purpose, data) }

func signed(key, purpose string, data []byte) string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%s %s %s", key, purpose, data)))
}

func runHelper(t *testing.T, root, step string) []string {
	t.Helper()
	return runHelperTo(t, "merge", root, step)
}

func runHelperTo(t *testing.T, op, root, step string) []string {
	t.Helper()
	cmd := osexec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "RALPH_TREES_KILL="+step, "RALPH_TREES_ROOT="+root, "RALPH_TREES_OP="+op)
	out, err := cmd.CombinedOutput()
	var exit *osexec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var steps []string
	for line := range strings.Lines(string(out)) {
		if s, ok := strings.CutPrefix(strings.TrimSpace(line), "step "); ok {
			steps = append(steps, s)
		}
	}
	if len(steps) == 0 {
		t.Fatalf("no steps: %s", out)
	}
	return steps
}

func copyWorld(t *testing.T, w *world, to string) *world {
	t.Helper()
	if out, err := osexec.Command("cp", "-a", w.root, to).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	c := *w
	c.root = to
	return &c
}

// Wherever Ralph is killed while work lands, the user can go on, and the next
// Ralph finishes it.
func TestKilledLanding(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("edited.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
	w.write("gone.txt", "1\n")
	w.write("plain.txt", "1\n")
	w.write("staged.txt", "1\n")
	base := w.commitAll("one")
	w.write("edited.txt", "1 user\n2\n3\n4\n5\n6\n7\n8\n9\n")
	w.write("staged.txt", "user\n")
	w.git("add", "staged.txt")
	tr := w.trees()
	tree := w.add(tr, "x")
	w.write(filepath.Join(tree.Dir, "edited.txt"), "1 user\n2\n3\n4\n5\n6\n7\n8\n9 x\n")
	w.write(filepath.Join(tree.Dir, "plain.txt"), "x\n")
	w.write(filepath.Join(tree.Dir, "dir/new.txt"), "x\n")
	w.remove(filepath.Join(tree.Dir, "gone.txt"))
	w.commit(tr, "x")
	parent := t.TempDir()
	steps := runHelper(t, copyWorld(t, w, filepath.Join(parent, "all")).root, "none")
	equal(t, "steps", steps, []string{"journal", "file 2", "look at gone.txt", "file 0", "file 1", "look at edited.txt", "file 3", "look at plain.txt", "index", "branch", "moved", "queue", "end"})
	files := []string{"edited.txt", "plain.txt", "dir/new.txt", "gone.txt", "staged.txt"}
	state := func(c *world) []string {
		var s []string
		for _, f := range files {
			if c.exists(f) {
				s = append(s, c.read(f))
			} else {
				s = append(s, "")
			}
		}
		return s
	}
	before := []string{"1 user\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n", "", "1\n", "user\n"}
	after := []string{"1 user\n2\n3\n4\n5\n6\n7\n8\n9 x\n", "x\n", "x\n", "", "user\n"}
	for i, step := range steps {
		c := copyWorld(t, w, filepath.Join(parent, fmt.Sprint(i)))
		runHelper(t, c.root, step)
		for i, s := range state(c) {
			if s != before[i] && s != after[i] {
				t.Errorf("killed before %q: %s is %q", step, files[i], s)
			}
		}
		edited := step == "file 3" // one time the user goes on before Ralph does
		if edited {
			c.write("plain.txt", "user\n")
		}
		next := c.trees()
		if _, err := next.Land(t.Context()); err != nil {
			t.Errorf("killed before %q: %v", step, err)
		}
		m, err := next.Merge(t.Context(), "x", "merge x")
		if err != nil {
			t.Fatalf("killed before %q: %v", step, err)
		}
		if edited {
			equal(t, "held", m.Held, []string{"plain.txt"})
			equal(t, "files", state(c), []string{before[0], "user\n", "", "1\n", "user\n"})
			equal(t, "head", c.git("rev-parse", "HEAD"), base)
			continue
		}
		if !m.Landed {
			t.Errorf("killed before %q: %+v", step, m)
		}
		equal(t, "killed before "+step, state(c), after)
		equal(t, "status", c.git("status", "--porcelain"), " M edited.txt\nM  staged.txt")
		equal(t, "parent", c.git("rev-parse", "HEAD^"), base)
		equal(t, "lock", c.exists(".git/index.lock"), false)
		names, err := os.ReadDir(next.private())
		if err != nil {
			t.Fatal(err)
		}
		names = slices.DeleteFunc(names, func(e os.DirEntry) bool {
			return slices.Contains([]string{"lock", "agent-x.json", "queue.json", "tree-x"}, e.Name())
		})
		equal(t, "left", len(names), 0)
	}
}

// TestKilledBeforeTheLook has a user save a file between the last look at it and
// its replacement, and Ralph killed before it sees what it has replaced.
func TestKilledBeforeTheLook(t *testing.T) {
	w := newRepo(t)
	w.write("edited.txt", "1\n")
	w.write("gone.txt", "1\n")
	base := w.commitAll("one")
	tr := w.trees()
	tree := w.add(tr, "x")
	w.write(filepath.Join(tree.Dir, "edited.txt"), "x\n")
	w.remove(filepath.Join(tree.Dir, "gone.txt"))
	w.commit(tr, "x")
	parent := t.TempDir()
	for _, file := range []string{"edited.txt", "gone.txt"} {
		c := copyWorld(t, w, filepath.Join(parent, file))
		t.Setenv("RALPH_TREES_EDIT", file)
		runHelper(t, c.root, "look at "+file)
		next := c.trees()
		if _, err := next.Land(t.Context()); err != nil {
			t.Fatal(err)
		}
		m, err := next.Merge(t.Context(), "x", "merge x")
		if err != nil {
			t.Fatal(err)
		}
		equal(t, file+" held", m.Held, []string{file})
		equal(t, file, c.read(file), "user\n")
		equal(t, "head", c.git("rev-parse", "HEAD"), base)
		names, err := filepath.Glob(filepath.Join(next.private(), "rescued-*"))
		if err != nil || len(names) > 0 {
			t.Errorf("%s: %v is left, %v", file, names, err)
		}
	}
}

// What a killed Ralph leaves of a worktree is found and mended.
func TestBrokenTrees(t *testing.T) {
	for name, harm := range map[string]func(w *world, tr *Trees, tree Tree, r record){
		"directory gone":    func(w *world, _ *Trees, tree Tree, _ record) { w.remove(tree.Dir) },
		"Ralph's part gone": func(w *world, tr *Trees, _ Tree, r record) { w.remove(tr.admin(r.Admin)) },
		"repository gone":   func(w *world, _ *Trees, tree Tree, _ record) { w.remove(filepath.Join(tree.Dir, ".git")) },
		"snapshot gone":     func(w *world, tr *Trees, _ Tree, _ record) { w.remove(filepath.Join(tr.home(), tr.snapshots()[0])) },
		"not finished": func(w *world, tr *Trees, tree Tree, r record) {
			w.remove(filepath.Join(tree.Dir, "a.txt"))
			w.remove(filepath.Join(tr.admin(r.Admin), "index"))
			r.Ready = false
			if err := tr.save(tr.recordPath(r.Agent), r); err != nil {
				w.t.Fatal(err)
			}
		},
		"record only": func(w *world, tr *Trees, tree Tree, r record) {
			w.remove(tree.Dir)
			w.remove(tr.admin(r.Admin))
			w.git("update-ref", "-d", r.Ref)
			r.Ready = false
			if err := tr.save(tr.recordPath(r.Agent), r); err != nil {
				w.t.Fatal(err)
			}
		},
		"index.lock": func(w *world, _ *Trees, tree Tree, _ record) {
			w.write(filepath.Join(tree.Dir, ".git", "index.lock"), "")
		},
		"state lost": func(w *world, tr *Trees, _ Tree, _ record) { w.remove(tr.private()) },
		"all but the branch lost": func(w *world, tr *Trees, tree Tree, r record) {
			w.remove(tr.stateDir)
			w.git("worktree", "prune")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRepo(t)
			w.write("a.txt", "1\n")
			w.commitAll("one")
			tr := w.trees()
			tree := w.add(tr, "x")
			w.write(filepath.Join(tree.Dir, "b.txt"), "b\n")
			work := w.commit(tr, "x")
			harm(w, tr, tree, tr.mustRecord(t, "x"))
			tr = w.trees()
			list, err := tr.List(t.Context())
			if err != nil || len(list) != 1 || list[0].Broken == "" {
				t.Fatalf("%+v %v", list, err)
			}
			again := w.add(tr, "x")
			if name != "record only" {
				equal(t, "head", again.Head, work.Hash)
				equal(t, "b.txt", w.read(filepath.Join(again.Dir, "b.txt")), "b\n")
			}
			equal(t, "a.txt", w.read(filepath.Join(again.Dir, "a.txt")), "1\n")
			equal(t, "status", w.gitIn(again.Dir, "status", "--porcelain", "--branch"), "## ralph/x")
			if list, err = tr.List(t.Context()); err != nil || len(list) != 1 || list[0].Broken != "" {
				t.Fatalf("%+v %v", list, err)
			}
			if err := tr.Remove(t.Context(), "x", true); err != nil {
				t.Fatal(err)
			}
			equal(t, "directory", w.exists(again.Dir), false)
			equal(t, "branch kept", w.git("for-each-ref", "--format=%(objectname)", "refs/heads/ralph"), again.Head)
			if err := tr.Remove(t.Context(), "x", false); err != nil {
				t.Fatal(err)
			}
			equal(t, "refs", w.git("for-each-ref", "--format=%(refname)"), "refs/heads/main")
			if list, err = tr.List(t.Context()); err != nil || len(list) != 0 {
				t.Fatalf("%+v %v", list, err)
			}
		})
	}
}

// What a Ralph that was killed left of Ralph's part of a tree goes with the next
// Close; what a tree uses stays.
func TestUnusedPartsGo(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("a.txt", "1\n")
	w.commitAll("one")
	tr := w.trees()
	w.add(tr, "kept")
	w.add(tr, "spare")
	if err := tr.Remove(t.Context(), "spare", false); err != nil {
		t.Fatal(err)
	}
	w.add(tr, "cut")
	r := tr.mustRecord(t, "cut")
	w.remove(tr.recordPath("cut"))
	w.remove(tr.dir("cut"))
	w.write(filepath.Join(tr.admin("empty"), "x"), "")
	w.remove(filepath.Join(tr.admin("empty"), "x"))
	w.remove(tr.recordPath("kept")) // adopted by its directory
	tr = w.trees()
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, there := range map[string]bool{r.Admin: false, "empty": false, "kept": true} {
		if _, err := os.Lstat(tr.admin(name)); (err == nil) != there {
			t.Errorf("%s: %v", name, err)
		}
	}
	equal(t, "kept", len(tr.adminsOf("kept")), 1)
}
