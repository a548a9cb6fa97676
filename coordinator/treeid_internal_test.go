package coordinator

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ralph/workers/exec"
	"ralph/workers/git"
)

// The same files have the same name, whatever became of Ralph's own; others do
// not.
func TestTheTreeOfACheck(t *testing.T) {
	t.Parallel()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) {
		t.Helper()
		cmd := osexec.Command("git", args...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=x", "GIT_AUTHOR_EMAIL=x@x", "GIT_COMMITTER_NAME=x", "GIT_COMMITTER_EMAIL=x@x")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	runner := exec.New(exec.Options{Init: exec.Self()})
	t.Cleanup(func() { _ = runner.Close(t.Context()) })
	s := &station{root: root}
	if got := s.tree(t.Context()); got != "" {
		t.Errorf("without a repository: %q", got)
	}
	run("init", "-q")
	loc, err := git.Find(root)
	if err != nil {
		t.Fatal(err)
	}
	s.repo = git.Open(runner, loc)
	if got := s.tree(t.Context()); got != "" {
		t.Errorf("without a commit: %q", got)
	}
	put("a.txt", "a")
	put(".gitignore", "cache\n")
	run("add", ".")
	run("commit", "-qm", "x")
	clean := s.tree(t.Context())
	if len(clean) != 40 {
		t.Errorf("the commit is %q", clean)
	}
	put("RALPH_TASKS.md", "- [ ] **T-1** x\n")
	put("cache", "built")
	if got := s.tree(t.Context()); got != clean {
		t.Errorf("state and what is ignored: %q", got)
	}
	seen := map[string]string{clean: "clean"}
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"changed", func() { put("a.txt", "b") }},
		{"changed otherwise", func() { put("a.txt", "c") }},
		{"untracked", func() { put("b.txt", "new") }},
		{"a mode", func() { _ = os.Chmod(filepath.Join(root, "b.txt"), 0o755) }},
		{"gone", func() { _ = os.Remove(filepath.Join(root, "a.txt")) }},
		{"a link", func() { _ = os.Symlink("b.txt", filepath.Join(root, "l")) }},
	} {
		step.do()
		got := s.tree(t.Context())
		if was, known := seen[got]; known || !strings.HasPrefix(got, clean+"+") {
			t.Errorf("%s is %q, as was %q", step.name, got, was)
		}
		if again := s.tree(t.Context()); again != got {
			t.Errorf("%s: %q, then %q", step.name, got, again)
		}
		seen[got] = step.name
	}
	put("big", strings.Repeat("x", maxTreeBytes+1))
	if got := s.tree(t.Context()); got != "" {
		t.Errorf("too much to read: %q", got)
	}
}

func BenchmarkTheTreeOfACheck(b *testing.B) {
	loc, err := git.Find("..")
	if err != nil {
		b.Skip(err)
	}
	runner := exec.New(exec.Options{Init: exec.Self()})
	defer func() { _ = runner.Close(b.Context()) }()
	s := &station{root: loc.Root, repo: git.Open(runner, loc)}
	for b.Loop() {
		if s.tree(b.Context()) == "" {
			b.Fatal("it has none")
		}
	}
}
