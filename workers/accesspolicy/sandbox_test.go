package accesspolicy_test

import (
	"context"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ralph/workers/accesspolicy"
	"ralph/workers/exec"
	"ralph/workers/git"
)

// world is a project of a user with a home of his own.
type world struct {
	t          *testing.T
	root, home string
	env        map[string]string
	runner     *exec.Runner
}

func newWorld(t *testing.T, repo bool) *world {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, root: filepath.Join(base, "project"), home: filepath.Join(base, "home"), runner: exec.New(exec.Options{Init: exec.Self()})}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := w.runner.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	w.env = map[string]string{"HOME": w.home, "PATH": os.Getenv("PATH"), "LANG": "C.UTF-8", "GIT_CONFIG_NOSYSTEM": "1"}
	w.file(filepath.Join(w.home, ".gitconfig"), "[user]\n\tname = Ann\n\temail = ann@example.com\n[init]\n\tdefaultBranch = main\n[commit]\n\tgpgSign = true\n")
	w.file(filepath.Join(w.root, "a.txt"), "a\n")
	w.file(filepath.Join(w.root, ".ralph", "FORMAT"), "ralph 1\n")
	if repo {
		w.git("init", "-q")
		w.file(filepath.Join(w.root, ".git", "info", "exclude"), ".ralph/\n")
		w.git("add", "-A")
		w.git("-c", "commit.gpgSign=false", "commit", "-qm", "first")
	}
	return w
}

func (w *world) file(path, text string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) environ() []string {
	var out []string
	for k, v := range w.env {
		out = append(out, k+"="+v)
	}
	return out
}

// git is run as the user does, outside.
func (w *world) git(args ...string) string {
	w.t.Helper()
	return w.gitIn(w.root, args...)
}

func (w *world) gitIn(dir string, args ...string) string {
	w.t.Helper()
	cmd := osexec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, w.environ()
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// shell runs a script with arguments as the user does, outside.
func (w *world) shell(script, dir string, args ...string) string {
	w.t.Helper()
	cmd := osexec.Command("sh", append([]string{"-ec", script, "sh", dir}, args...)...)
	cmd.Dir, cmd.Env = dir, w.environ()
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

// open opens a sandbox, or skips where the kernel confines nothing.
func (w *world) open(change func(*accesspolicy.Options)) *accesspolicy.Sandbox {
	w.t.Helper()
	if st := accesspolicy.Check(w.runner); !st.Active("mount namespace") || !st.Active("network namespace") {
		w.t.Skip("no namespaces here: ", st)
	}
	o := accesspolicy.Options{Proc: w.runner, Root: w.root, Project: w.root, Agent: "main", Getenv: func(k string) string { return w.env[k] }, Environ: w.environ(),
		UserConfig: filepath.Join(w.home, ".config", "ralph"), State: filepath.Join(filepath.Dir(w.home), "state")}
	if loc, err := git.Find(w.root); err == nil {
		o.Git = &loc
	}
	if change != nil {
		change(&o)
	}
	s, err := accesspolicy.Open(o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			w.t.Error(err)
		}
	})
	return s
}

// outcome is what came of a command.
type outcome struct {
	code int
	out  string
	rep  accesspolicy.Report
}

func (w *world) run(s *accesspolicy.Sandbox, dir, command string, call accesspolicy.Call) outcome {
	w.t.Helper()
	res, rep, err := s.Run(w.t.Context(), exec.Spec{Argv: []string{exec.Shell(""), "-c", command}, Dir: dir, Timeout: 2 * time.Minute}, call)
	if err != nil {
		w.t.Fatalf("%s: %v", command, err)
	}
	return outcome{res.ExitCode, res.Stdout.String(), rep}
}

// works runs a command that must succeed and leave nothing to say.
func (w *world) works(s *accesspolicy.Sandbox, command string) string {
	w.t.Helper()
	o := w.run(s, w.root, command, accesspolicy.Call{})
	if o.code != 0 || len(o.rep.Reverted)+len(o.rep.Denied) > 0 {
		w.t.Errorf("%s: exit %d, %+v\n%s", command, o.code, o.rep, o.out)
	}
	return o.out
}

// fails runs a command that must not succeed; what says who denied it is among
// words.
func (w *world) fails(s *accesspolicy.Sandbox, command, why string) {
	w.t.Helper()
	o := w.run(s, w.root, command, accesspolicy.Call{})
	if o.code == 0 {
		w.t.Errorf("%s: succeeds\n%s", command, o.out)
	}
	if why != "" && !slices.ContainsFunc(o.rep.Denied, func(d string) bool { return strings.Contains(d, why) }) {
		w.t.Errorf("%s: denied %q lacks %q\n%s", command, o.rep.Denied, why, o.out)
	}
}

func (w *world) gone(path string) {
	w.t.Helper()
	if _, err := os.Lstat(path); err == nil {
		w.t.Errorf("%s is there", path)
	}
}

func TestGitWorksInTheUsersTree(t *testing.T) {
	w := newWorld(t, true)
	s := w.open(nil)
	for _, command := range []string{
		`echo b > b.txt && git add -A && git commit -qm second`, `git status --short`, `git log --oneline | wc -l`, `git switch -qc topic`, `echo c >> a.txt && git commit -qam third`,
		`git switch -q main`, `git merge -q --no-ff -m merged topic`, `git branch -d topic`, `git tag v1`, `git stash list`, `echo d >> a.txt && git stash -q && git stash pop -q`, `git reset -q --hard`,
		`git checkout -q -b other && git rebase -q main && git checkout -q main`, `git commit -q --allow-empty -m x && git revert --no-edit -n HEAD~1 -m1 && git reset -q --hard`, `git pack-refs --all`, `git rm -q b.txt && git commit -qm gone`,
		`git notes add -m n`, `git fsck`,
	} {
		w.works(s, command)
	}
	if got := w.git("log", "-1", "--format=%an %s"); got != "Ann gone" {
		t.Errorf("the commit of the command: %q", got)
	}
}

// What a command does to its view of the repository reaches the user's only where
// git itself would have done it; the rest is named.
func TestProtectedPartsOfGit(t *testing.T) {
	w := newWorld(t, true)
	state := func() string {
		config, err := os.ReadFile(filepath.Join(w.root, ".git", "config"))
		if err != nil {
			t.Fatal(err)
		}
		return string(config) + w.git("for-each-ref") + w.git("ls-files", "-s") + w.git("fsck", "--full")
	}
	w.git("update-ref", "refs/ralph/checkpoints/1", "HEAD")
	before := state()
	s := w.open(nil)
	for _, command := range []string{
		`git update-ref -d refs/ralph/checkpoints/1`, `mv .git/refs .git/r`, `rm -rf .git/refs`, `git config core.fsmonitor ./evil`, `printf '[core]\n\tpager = evil\n' >> .git/config`, `rm .git/config`,
		`mv .git/config .git/c`, `cp a.txt .git/config`, `ln -sf ../a.txt .git/config`, `echo x > .git/hooks/pre-commit`, `mv .git/hooks .git/h`, `echo x > .git/info/attributes`,
		`echo x >> .git/info/exclude`, `rm -rf .git/objects/*; touch .git/objects/x`, `git remote add evil ext::sh`, `rm -rf .git/*`,
	} {
		o := w.run(s, w.root, command, accesspolicy.Call{})
		if len(o.rep.Reverted) == 0 && !strings.Contains(command, "objects/x") {
			t.Errorf("%s: nothing is reported\n%s", command, o.out)
		}
		if after := state(); after != before {
			t.Fatalf("%s: the repository is\n%s\nwas\n%s", command, after, before)
		}
	}
	for _, command := range []string{`mv .git .g`, `mv .git .g && cp -r .g .git && echo x > .git/hooks/pre-commit`, `echo x > .ralph/FORMAT`, `rm -rf .ralph`, `mv .ralph r`, `touch .ralph/x`,
		`mount --bind a.txt .git/config`, `umount .git`, `python3 -c 'import os; os.rename(".git", ".g")'`} {
		w.fails(s, command, "")
	}
	if after := state(); after != before {
		t.Errorf("the repository is\n%s\nwas\n%s", after, before)
	}
	w.gone(filepath.Join(w.root, ".git", "hooks", "pre-commit"))
}

// A background command sees the repository read-only, and is told so.
func TestGitInTheBackground(t *testing.T) {
	w := newWorld(t, true)
	s := w.open(nil)
	head := w.git("rev-parse", "HEAD")
	job, err := s.Start(t.Context(), exec.Spec{Argv: []string{"sh", "-c", "git commit -q --allow-empty -m job"}, Dir: w.root}, accesspolicy.Call{})
	if err != nil {
		t.Fatal(err)
	}
	<-job.Done()
	if denied := strings.Join(s.Ended(job).Denied, " "); !strings.Contains(denied, "read-only") || !strings.Contains(denied, "foreground") {
		t.Errorf("the job is told %q", denied)
	}
	if now := w.git("rev-parse", "HEAD"); now != head {
		t.Errorf("HEAD is %s, was %s", now, head)
	}
}
