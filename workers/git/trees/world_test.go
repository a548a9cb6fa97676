package trees

import (
	"context"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ralph/workers/exec"
	"ralph/workers/git"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv("RALPH_TREES_KILL") != "" {
		os.Exit(killedHelper())
	}
	home, err := os.MkdirTemp("", "ralph-trees-home-")
	if err == nil {
		err = os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(gitconfig), 0o644)
	}
	for key, value := range map[string]string{"HOME": home, "XDG_CONFIG_HOME": filepath.Join(home, ".config"), "GIT_CONFIG_NOSYSTEM": "1"} {
		err = errors.Join(err, os.Setenv(key, value))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(home)
		os.Exit(code)
	}))
}

const gitconfig = "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n[protocol \"file\"]\n\tallow = always\n[commit]\n\tgpgSign = false\n"

// world is a temporary project with an isolated home.
type world struct {
	t    testing.TB
	root string
	home string
	proc *exec.Runner
}

func newRepo(t testing.TB, initArgs ...string) *world {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, root: filepath.Join(base, "project"), home: filepath.Join(base, "home"), proc: exec.New(exec.Options{})}
	for _, dir := range []string{w.root, w.home} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := w.proc.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	w.git(append([]string{"init", "-q"}, initArgs...)...)
	return w
}

func (w *world) commitAll(msg string) string {
	w.t.Helper()
	w.git("add", "-A")
	w.git("commit", "-q", "-m", msg)
	return w.git("rev-parse", "HEAD")
}

func (w *world) path(name string) string {
	if rest, ok := strings.CutPrefix(name, "home:"); ok {
		return filepath.Join(w.home, rest)
	}
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(w.root, name)
}

func (w *world) write(name, data string) {
	w.t.Helper()
	p := w.path(name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(data), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) read(name string) string {
	w.t.Helper()
	b, err := os.ReadFile(w.path(name))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

func (w *world) exists(name string) bool {
	_, err := os.Lstat(w.path(name))
	return err == nil
}

func (w *world) remove(name string) {
	w.t.Helper()
	if err := os.RemoveAll(w.path(name)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) git(args ...string) string { w.t.Helper(); return w.gitIn(w.root, args...) }

func (w *world) gitIn(dir string, args ...string) string {
	w.t.Helper()
	out, err := w.tryIn(dir, args...)
	if err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return out
}

// tryIn runs the real git, not through the package under test.
func (w *world) tryIn(dir string, args ...string) (string, error) {
	cmd := osexec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(exec.Environ(os.Environ()), "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	return strings.TrimRight(string(out), "\n"), err
}

func (w *world) trees() *Trees {
	w.t.Helper()
	return w.treesAt("")
}

func (w *world) treesAt(sub string) *Trees {
	w.t.Helper()
	loc, err := git.Find(w.path(sub))
	if err != nil {
		w.t.Fatal(err)
	}
	return OpenTrees(w.proc, loc, filepath.Join(w.path(sub), ".ralph"), testSign)
}

func (w *world) add(t *Trees, agent string) Tree {
	w.t.Helper()
	tree, err := t.Add(w.t.Context(), AddOptions{Agent: agent})
	if err != nil {
		w.t.Fatal(err)
	}
	return tree
}

func (w *world) commit(t *Trees, agent string) Work {
	w.t.Helper()
	work, err := t.Commit(w.t.Context(), agent, "work of "+agent)
	if err != nil {
		w.t.Fatal(err)
	}
	return work
}

func (w *world) merge(t *Trees, agent string) Merge {
	w.t.Helper()
	m, err := t.Merge(w.t.Context(), agent, "work of "+agent)
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

// child lets an agent change files, and commits and merges that.
func (w *world) child(t *Trees, agent string, files map[string]string) Merge {
	w.t.Helper()
	tree := w.add(t, agent)
	for name, data := range files {
		w.write(filepath.Join(tree.Dir, name), data)
	}
	w.commit(t, agent)
	return w.merge(t, agent)
}

func equal[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func paths(list []git.FileChange) []string {
	var out []string
	for _, c := range list {
		out = append(out, string(c.Kind)+" "+c.Path)
	}
	return out
}
