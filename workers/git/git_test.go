package git

import (
	"context"
	"errors"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ralph/workers/exec"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a temporary project with an isolated home.
type world struct {
	t    *testing.T
	root string
	home string
	proc *exec.Runner
}

func newWorld(t *testing.T) *world {
	t.Helper()
	base := realPath(t.TempDir())
	w := &world{t: t, root: filepath.Join(base, "project"), home: filepath.Join(base, "home"), proc: exec.New(exec.Options{})}
	for _, dir := range []string{w.root, w.home} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", w.home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(w.home, ".config"))
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	t.Cleanup(func() {
		if err := w.proc.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return w
}

// repo makes a repository with a user and gives the world in it.
func newRepo(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.write("home:.gitconfig", "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n[protocol \"file\"]\n\tallow = always\n")
	w.git("init", "-q")
	return w
}

// commitAll makes a first commit of what there is.
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

// git runs the real git, not through the package under test.
func (w *world) git(args ...string) string {
	w.t.Helper()
	return w.gitIn(w.root, args...)
}

func (w *world) gitIn(dir string, args ...string) string {
	w.t.Helper()
	cmd := osexec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = exec.Environ(os.Environ())
	cmd.Env = append(cmd.Env, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimRight(string(out), "\n")
}

func (w *world) open() *Repo {
	w.t.Helper()
	loc, err := Find(w.root)
	if err != nil {
		w.t.Fatal(err)
	}
	return Open(w.proc, loc)
}

func (w *world) checkpoints() *Checkpoints {
	w.t.Helper()
	loc, err := Find(w.root)
	if errors.Is(err, ErrNoRepository) {
		return OpenCheckpoints(w.proc, w.root, w.path(".ralph"), w.path("home:state"), nil)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return OpenCheckpoints(w.proc, w.root, w.path(".ralph"), w.path("home:state"), &loc)
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func TestFind(t *testing.T) {
	w := newRepo(t)
	w.write("dir/sub/file", "x")
	w.commitAll("one")
	base := filepath.Dir(w.root)
	w.git("worktree", "add", "-q", filepath.Join(base, "linked"))
	w.git("init", "-q", "--bare", filepath.Join(base, "bare.git"))
	w.git("init", "-q", filepath.Join(base, "lib"))
	w.gitIn(filepath.Join(base, "lib"), "commit", "-q", "--allow-empty", "-m", "lib")
	w.git("submodule", "--quiet", "add", filepath.Join(base, "lib"), "lib")
	if err := os.Symlink(w.path("dir"), filepath.Join(base, "link")); err != nil {
		t.Fatal(err)
	}
	w.write("broken/.git", "gitdir: /nowhere\n")
	w.write("empty/.git/x", "")
	both := filepath.Join(base, "both")
	w.git("clone", "-q", "--bare", ".", both)
	w.git("init", "-q", "other")
	if err := os.Rename(w.path("other/.git"), filepath.Join(both, ".git")); err != nil {
		t.Fatal(err)
	}
	gitDir := w.path(".git")
	main := Location{Root: w.root, GitDir: gitDir, CommonDir: gitDir}
	tests := map[string]struct {
		dir  string
		want Location
	}{
		"root":          {w.root, main},
		"subdirectory":  {w.path("dir/sub"), main},
		"symlink":       {filepath.Join(base, "link", "sub"), main},
		"broken file":   {w.path("broken"), main},
		"empty .git":    {w.path("empty"), main},
		"worktree":      {filepath.Join(base, "linked", "dir"), Location{Root: filepath.Join(base, "linked"), GitDir: filepath.Join(gitDir, "worktrees", "linked"), CommonDir: gitDir, Worktree: true}},
		"submodule":     {w.path("lib"), Location{Root: w.path("lib"), GitDir: filepath.Join(gitDir, "modules", "lib"), CommonDir: filepath.Join(gitDir, "modules", "lib"), Submodule: true}},
		"bare":          {filepath.Join(base, "bare.git"), Location{}},
		"bare and .git": {both, Location{Root: both, GitDir: filepath.Join(both, ".git"), CommonDir: filepath.Join(both, ".git")}},
		"inside bare":   {filepath.Join(base, "bare.git", "refs"), Location{}},
		"inside .git":   {filepath.Join(gitDir, "refs"), Location{}},
		"no repository": {w.home, Location{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Find(tt.dir)
			if tt.want.Root == "" {
				if !errors.Is(err, ErrNoRepository) {
					t.Fatalf("got %+v, %v; want ErrNoRepository", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "location", got, tt.want)
		})
	}
	if _, err := Find(w.path("not there")); err == nil || errors.Is(err, ErrNoRepository) {
		t.Errorf("missing directory: %v", err)
	}
}

func TestHeadAndBranch(t *testing.T) {
	w := newRepo(t)
	r := w.open()
	ctx := t.Context()
	check := func(what, commit, branch string) {
		t.Helper()
		equal(t, what+" head", must(r.Head(ctx))(t), commit)
		equal(t, what+" branch", must(r.Branch(ctx))(t), branch)
	}
	check("unborn", "", "main")
	w.write("a", "1")
	one := w.commitAll("one")
	check("one commit", one, "main")
	w.git("checkout", "-q", "-b", "feature/x")
	w.git("pack-refs", "--all")
	check("packed", one, "feature/x")
	w.git("checkout", "-q", "--detach")
	check("detached", one, "")
	w.git("symbolic-ref", "refs/heads/alias", "refs/heads/main")
	w.git("symbolic-ref", "HEAD", "refs/heads/alias")
	equal(t, "alias", must(r.Head(ctx))(t), one)
	w.git("checkout", "-q", "main")
	w.git("worktree", "add", "-q", "-b", "other", "../linked")
	loc := must(Find(filepath.Join(filepath.Dir(w.root), "linked")))(t)
	equal(t, "worktree branch", must(Open(w.proc, loc).Branch(ctx))(t), "other")
	equal(t, "worktree head", must(Open(w.proc, loc).Head(ctx))(t), one)
}

func TestStatus(t *testing.T) {
	w := newRepo(t)
	for _, f := range []string{"mod", "del", "old name", "staged", "both"} {
		w.write(f, "content of "+f+"\nsecond line\nthird line\n")
	}
	w.commitAll("one")
	w.write("mod", "changed")
	w.remove("del")
	w.git("mv", "old name", "new name")
	w.write("staged", "changed")
	w.git("add", "staged")
	w.write("both", "1")
	w.git("add", "both")
	w.write("both", "2")
	w.write("dir/un tracked\n\"é", "x")
	w.write("added", "x")
	w.git("add", "added")
	w.write(".ralph/secret", "x")
	w.write(".gitignore", "ignored\n")
	w.write("ignored", "x")
	got := must(w.open().Status(t.Context()))(t)
	equal(t, "status", got, []Change{
		{Path: ".gitignore", Kind: Untracked},
		{Path: "added", Kind: Added},
		{Path: "both", Kind: Modified},
		{Path: "del", Kind: Deleted},
		{Path: "dir/un tracked\n\"é", Kind: Untracked},
		{Path: "mod", Kind: Modified},
		{Path: "new name", OldPath: "old name", Kind: Renamed},
		{Path: "staged", Kind: Modified},
	})
}

func TestStatusConflict(t *testing.T) {
	w := newRepo(t)
	w.conflict()
	equal(t, "status", must(w.open().Status(t.Context()))(t), []Change{{Path: "f", Kind: Conflicted}})
	if _, err := w.open().Commit(t.Context(), CommitOptions{Message: "x"}); err == nil || !strings.Contains(err.Error(), "MERGE_HEAD") {
		t.Errorf("commit in a merge: %v", err)
	}
}

// conflict leaves a merge of f open.
func (w *world) conflict() {
	w.t.Helper()
	w.write("f", "base\n")
	w.commitAll("base")
	w.git("checkout", "-q", "-b", "other")
	w.write("f", "other\n")
	w.commitAll("other")
	w.git("checkout", "-q", "main")
	w.write("f", "main\n")
	w.commitAll("main")
	cmd := osexec.Command("git", "merge", "-q", "other")
	cmd.Dir = w.root
	if err := cmd.Run(); err == nil {
		w.t.Fatal("the merge has no conflict")
	}
}

func TestDiff(t *testing.T) {
	w := newRepo(t)
	w.write("a", "1\n2\n3\n")
	w.write("-b", "1\n")
	one := w.commitAll("one")
	w.write("a", "1\n2\n4\n")
	w.write("-b", "2\n")
	w.git("add", "a")
	r, ctx := w.open(), t.Context()
	has := func(what string, o DiffOptions, want ...string) {
		t.Helper()
		got := must(r.Diff(ctx, o))(t)
		for _, s := range want {
			if s, not := strings.CutPrefix(s, "!"); strings.Contains(got, s) == not {
				t.Errorf("%s: %q present=%v in\n%s", what, s, not, got)
			}
		}
	}
	has("work tree", DiffOptions{}, "+++ b/-b", "!+++ b/a")
	has("staged", DiffOptions{Staged: true}, "+++ b/a", "!+++ b/-b")
	has("from", DiffOptions{From: one}, "+++ b/a", "+++ b/-b")
	has("paths", DiffOptions{From: one, Paths: []string{"-b"}}, "+++ b/-b", "!+++ b/a")
	has("context", DiffOptions{From: one, Paths: []string{"a"}, Context: 1}, " 2", "! 1\n")
	for _, bad := range []DiffOptions{
		{From: "--output=x"}, {To: "-p"}, {From: "a b"}, {Paths: []string{"../x"}}, {Paths: []string{"/etc/passwd"}}, {Paths: []string{""}},
	} {
		if _, err := r.Diff(ctx, bad); !errors.Is(err, ErrBadName) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if w.exists("x") {
		t.Error("an option was taken for a revision")
	}
}

func TestLog(t *testing.T) {
	w := newRepo(t)
	r, ctx := w.open(), t.Context()
	equal(t, "unborn", must(r.Log(ctx, LogOptions{}))(t), nil)
	equal(t, "unborn", must(r.CommitsSince(ctx, ""))(t), nil)
	w.write("a", "1")
	one := w.commitAll("one: é\n\nbody\n\nmore")
	w.write("b", "1")
	two := w.commitAll("two")
	w.write("c", "1")
	three := w.commitAll("three")
	log := must(r.Log(ctx, LogOptions{}))(t)
	if len(log) != 3 || log[0].Hash != three || log[2].Hash != one {
		t.Fatalf("log: %+v", log)
	}
	equal(t, "subject", log[2].Subject, "one: é")
	equal(t, "body", log[2].Body, "body\n\nmore")
	equal(t, "author", log[2].Author, "Ada <ada@example.org>")
	if log[2].Time.IsZero() {
		t.Error("no time")
	}
	equal(t, "n", len(must(r.Log(ctx, LogOptions{N: 1}))(t)), 1)
	equal(t, "paths", must(r.Log(ctx, LogOptions{Paths: []string{"b"}}))(t)[0].Hash, two)
	equal(t, "range", len(must(r.Log(ctx, LogOptions{Range: one + "..HEAD"}))(t)), 2)
	equal(t, "all", must(r.CommitsSince(ctx, ""))(t), []string{one, two, three})
	equal(t, "since", must(r.CommitsSince(ctx, one))(t), []string{two, three})
	equal(t, "none", must(r.CommitsSince(ctx, three))(t), nil)
	for _, bad := range []string{"-n1", "--all", "a\nb"} {
		if _, err := r.Log(ctx, LogOptions{Range: bad}); !errors.Is(err, ErrBadName) {
			t.Errorf("range %q: %v", bad, err)
		}
		if _, err := r.CommitsSince(ctx, bad); !errors.Is(err, ErrBadName) {
			t.Errorf("base %q: %v", bad, err)
		}
	}
	if _, err := r.Log(ctx, LogOptions{Range: "nowhere"}); err == nil {
		t.Error("an unknown revision was accepted")
	}
}

func TestExclude(t *testing.T) {
	w := newRepo(t)
	r := w.open()
	w.write(".git/info/exclude", "x")
	for range 2 {
		if err := r.Exclude(".ralph/"); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, "exclude", w.read(".git/info/exclude"), "x\n.ralph/\n")
	w.remove(".git/info")
	if err := r.Exclude("y"); err != nil {
		t.Fatal(err)
	}
	equal(t, "new file", w.read(".git/info/exclude"), "y\n")
	if err := r.Exclude("a\nb"); !errors.Is(err, ErrBadName) {
		t.Errorf("line end: %v", err)
	}
	w.remove(".git/info/exclude")
	config := w.read(".git/config")
	if err := os.Symlink("../config", w.path(".git/info/exclude")); err != nil {
		t.Fatal(err)
	}
	if err := r.Exclude("[alias]"); err == nil {
		t.Error("wrote through a link")
	}
	equal(t, "config", w.read(".git/config"), config)
}

func TestDubiousOwnership(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to give files away")
	}
	w := newRepo(t)
	w.write("a", "1")
	w.commitAll("one")
	for _, p := range []string{w.root, w.path(".git")} {
		if err := os.Chown(p, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	_, err := w.open().Status(t.Context())
	var ge *Error
	if !errors.As(err, &ge) || !strings.Contains(ge.Hint, "safe.directory "+w.root) {
		t.Fatalf("foreign repository: %v", err)
	}
	w.gitIn(w.home, "config", "--global", "--add", "safe.directory", w.root)
	if _, err := w.open().Status(t.Context()); err != nil {
		t.Errorf("after safe.directory: %v", err)
	}
}

func TestNoGit(t *testing.T) {
	w := newRepo(t)
	r := w.open()
	t.Setenv("PATH", w.home)
	_, err := r.Status(t.Context())
	var ge *Error
	if !errors.As(err, &ge) || !strings.Contains(ge.Hint, "git") {
		t.Fatalf("without git: %v", err)
	}
}

func TestCheckID(t *testing.T) {
	for id, ok := range map[string]bool{
		"r-20261121-1/2.before": true, "a": true, "": false, "-a": false, "a/": false, "/a": false, "a..b": false,
		"a.lock": false, "a.lock/b": false, ".a": false, "a b": false, "a\n": false, "a@{1}": false, "é": false, "a~1": false, "a.": false,
	} {
		if err := checkID(id); (err == nil) != ok {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func FuzzParsers(f *testing.F) {
	f.Add([]byte("1 M. N... 100644 100644 100644 0 0 a b\x00? c\x002 R. N... 1 1 1 0 0 R100 new\x00old\x00"))
	f.Add([]byte(":100644 100644 a b M\x00p\x001\t2\tp\x00-\t-\t\x00o\x00n\x00"))
	f.Add([]byte("local\x00filter.a=b.clean\nx\x00global\x00filter.a=b.clean\ny\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		// Errors are fine; a change without a path or a panic is not.
		if cs, err := parseStatus(b); err == nil {
			for _, c := range cs {
				if c.Kind == "" {
					t.Errorf("no kind: %+v", c)
				}
			}
		}
		if es, err := parseDiffTree(b); err == nil {
			_ = fileChanges(es)
		}
		_ = parseConfig(b, false)
	})
}

func TestParseConfig(t *testing.T) {
	list := strings.Join([]string{
		"global", "filter.lfs.clean\ngit-lfs clean", "global", "filter.lfs.required\ntrue",
		"local", "filter.lfs.clean\nevil", "local", "filter.a=b.c.smudge\nevil", "global", "filter.mine.clean\nok",
		"local", "hook.x.command\nevil", "local", "core.bare\nfalse", "",
	}, "\x00")
	h := parseConfig([]byte(list), false)
	for _, s := range []setting{
		{"filter.lfs.clean", "git-lfs clean"}, {"filter.lfs.required", "true"}, {"filter.a=b.c.smudge", ""}, {"filter.a=b.c.required", "false"},
		{"hook.x.enabled", "false"},
	} {
		if !slices.Contains(h.settings, s) {
			t.Errorf("no setting %v in %v", s, h.settings)
		}
	}
	equal(t, "switched off", h.filters, map[string]bool{"a=b.c": true})
}

// try runs the real git, whatever comes of it.
func (w *world) try(args ...string) {
	w.t.Helper()
	env := append(exec.Environ(os.Environ()), "GIT_CONFIG_NOSYSTEM=1")
	res, err := w.proc.Run(w.t.Context(), exec.Spec{Argv: append([]string{"git"}, args...), Dir: w.root, Env: env, Timeout: 2 * time.Second})
	if err != nil {
		w.t.Fatal(err)
	}
	if res.ExitCode != 0 {
		w.t.Logf("git %v: exit %d: %.200s", args, res.ExitCode, res.Stdout)
	}
}
