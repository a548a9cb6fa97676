package tools

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ralph/workers/exec"
	"ralph/workers/git"
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
		c := osexec.Command("git", args...)
		c.Dir = top
		c.Env = append(exec.Environ(os.Environ()), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
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

// A child works in a linked worktree, in which .git is a file.
func TestGitInAWorktree(t *testing.T) {
	main, run := repository(t, "")
	main.put("a.go", "one\n")
	run("add", ".")
	run("commit", "-q", "-m", "first")
	tree := filepath.Join(main.root, ".ralph", "worktrees", "parser")
	run("worktree", "add", "-q", "-b", "ralph/parser", tree)
	files, err := OpenWorkspace(tree)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	b := newBench(t, func(e *Env) {
		loc, err := git.Find(tree)
		if err != nil {
			t.Fatal(err)
		}
		e.Root, e.Files, e.Git, e.OutputDir = tree, files, git.Open(e.Proc, loc), ""
	})
	b.root = tree
	main.put("a.go", "by the user\n")
	main.put("user.go", "user\n")
	if r := b.run("git", "action", "status"); r.Head != "on branch ralph/parser: nothing changed" {
		t.Errorf("%+v", r)
	}
	b.run("edit", "path", "a.go", "old_string", "one", "new_string", "two")
	b.run("write", "path", tree+"/sub/b.go", "content", "new\n")
	if r := b.run("git", "action", "status"); r.Text != "modified\ta.go\nuntracked\tsub/b.go\n" {
		t.Errorf("%+v", r)
	}
	if r := b.run("git", "action", "diff"); !strings.Contains(r.Text, "-one\n+two\n") || strings.Contains(r.Text, "user") {
		t.Errorf("%+v", r)
	}
	r := b.run("git", "action", "commit", "message", "parser: two")
	if r.Failed || !strings.HasPrefix(r.Head, "committed ") {
		t.Fatalf("%+v", r)
	}
	if r := b.run("git", "action", "log"); strings.Count(r.Text, "\n") != 2 || !strings.Contains(r.Text, "parser: two") {
		t.Errorf("%+v", r)
	}
	if got := run("log", "--format=%s", "ralph/parser"); got != "parser: two\nfirst\n" {
		t.Errorf("the branch has %q", got)
	}
	if got := run("log", "--format=%s", "main"); got != "first\n" {
		t.Errorf("main has %q", got)
	}
	if got := run("status", "--porcelain"); got != " M a.go\n?? .ralph/\n?? user.go\n" || main.get("a.go") != "by the user\n" {
		t.Errorf("the user's tree: %q", got)
	}
	pointer := b.get(".git")
	for _, name := range []string{".git", ".GIT", ".git/config", "sub/../.git", main.root + "/a.go", "../../../a.go", ".ralph/x"} {
		if r, err := b.try("write", "path", name, "content", "gitdir: /tmp\n"); err == nil {
			t.Errorf("write %s: %+v", name, r)
		}
	}
	if b.get(".git") != pointer || main.get("a.go") != "by the user\n" {
		t.Error("written all the same")
	}
	if r := b.run("list"); r.Text != "a.go\nsub/\n  b.go\n" {
		t.Errorf("%q", r.Text)
	}
	if _, err := b.try("read", "path", main.root+"/user.go"); err == nil {
		t.Error("the user's tree can be read")
	}
}
