package tools

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ralph/workers/git"
	"ralph/workers/proc"
)

// repository makes the bench's project a part of a real repository: the whole
// of it, or its directory "app".
func repository(t *testing.T, part string) (b *bench, run func(args ...string) string) {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	run = func(args ...string) string {
		t.Helper()
		c := exec.Command("git", args...)
		c.Dir = top
		c.Env = append(proc.Environ(os.Environ()), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	run("init", "-q", "-b", "main")
	run("config", "user.name", "A")
	run("config", "user.email", "a@example.com")
	if err := os.MkdirAll(filepath.Join(top, part), 0o755); err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(top, part)
	files, err := OpenWorkspace(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	b = newBench(t, func(e *Env) {
		loc, err := git.Find(root)
		if err != nil {
			t.Fatal(err)
		}
		e.Root, e.Files, e.Git = root, files, git.Open(e.Proc, loc)
	})
	b.root = root
	return b, run
}

func TestGit(t *testing.T) {
	b, run := repository(t, "")
	b.put("a.go", "one\n")
	b.put("b.go", "one\n")
	r := b.run("git", "action", "status")
	if r.Head != "on branch main: 2 files changed" || r.Text != "untracked\ta.go\nuntracked\tb.go\n" {
		t.Errorf("%+v", r)
	}
	r = b.run("git", "action", "commit", "msg", "add a\n\nbecause", "paths", "a.go")
	if !strings.HasSuffix(r.Head, ": add a") || r.Failed {
		t.Errorf("%+v", r)
	}
	if got := run("show", "--stat", "--format=%s|%b", "HEAD"); !strings.Contains(got, "a.go") || strings.Contains(got, "b.go") || !strings.Contains(got, "add a|because") {
		t.Error(got)
	}
	b.run("git", "action", "commit", "message", "the rest")
	b.put("a.go", "two\n")
	r = b.run("git", "action", "diff")
	if !strings.Contains(r.Text, "-one\n+two\n") {
		t.Errorf("%+v", r)
	}
	if r := b.run("git", "action", "diff", "paths", "b.go"); r.Text != "" || r.Head == "" {
		t.Errorf("%+v", r)
	}
	if r := b.run("git", "action", "diff", "staged", true); r.Text != "" {
		t.Errorf("%+v", r)
	}
	run("add", "a.go")
	if r := b.run("git", "action", "diff", "staged", true); !strings.Contains(r.Text, "+two") {
		t.Errorf("%+v", r)
	}
	r = b.run("git", "action", "log")
	if lines := strings.Split(r.Text, "\n"); len(lines) != 3 || !strings.HasSuffix(lines[0], ": the rest") || r.Head != "2 commits" {
		t.Errorf("%+v", r)
	}
	if r := b.run("git", "action", "log", "limit", 1); strings.Count(r.Text, "\n") != 1 {
		t.Errorf("%+v", r)
	}
	b.run("git", "action", "commit", "message", "two", "paths", []string{"."})
	if r, err := b.try("git", "action", "commit", "message", "none"); err != nil || !r.Failed || r.Head != "nothing to commit" {
		t.Errorf("%+v %v", r, err)
	}
	for _, bad := range [][]any{{"action", "commit"}, {"action", "commit", "message", " "}, {"action", "diff", "paths", "../x"}, {"action", "push"}} {
		if r, err := b.try("git", bad...); err == nil {
			t.Errorf("%v: %+v", bad, r)
		}
	}
}

func TestGitInAPartOfARepository(t *testing.T) {
	b, run := repository(t, "app")
	b.put("a.go", "one\n")
	b.put("../other.go", "one\n")
	r := b.run("git", "action", "status")
	if !strings.Contains(r.Text, "untracked\ta.go\n") || !strings.Contains(r.Text, "untracked\t../other.go\n") {
		t.Errorf("%+v", r)
	}
	b.run("git", "action", "commit", "message", "all of it")
	if got := run("ls-files"); got != "app/a.go\n" {
		t.Errorf("committed outside the project: %s", got)
	}
	b.put("a.go", "two\n")
	if r := b.run("git", "action", "diff", "paths", "a.go"); !strings.Contains(r.Text, "+two") {
		t.Errorf("%+v", r)
	}
}

func TestGitWithoutARepository(t *testing.T) {
	b := newBench(t)
	if _, err := b.try("git", "action", "status"); err == nil || !strings.Contains(err.Error(), "no git repository") {
		t.Errorf("%v", err)
	}
}
