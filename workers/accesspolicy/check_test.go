package accesspolicy_test

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ralph/workers/accesspolicy"
	"ralph/workers/exec"
	"ralph/workers/git"
)

// Names that were absent are taken away when a command made them, whatever it
// made, and nothing is lost.
func TestAbsentProtectedNames(t *testing.T) {
	cases := []struct{ name, command, path string }{
		{"a directory", "mkdir -p .vscode && echo '{}' > .vscode/tasks.json", ".vscode"},
		{"in capitals", "mkdir .VSCode && echo x > .VSCode/x", ".VSCode"},
		{"with a dot at the end", "mkdir .idea. && touch .idea./x", ".idea."},
		{"with characters that some systems ignore", "mkdir $'.gi\\u200ct' .i\u200cdea; touch .i\u200cdea/x; rmdir $'.gi\\u200ct'", ".i\u200cdea"},
		{"a link", "ln -s /etc .vscode", ".vscode"},
		{"an empty directory", "mkdir .idea", ".idea"},
		{"a file", "echo 'evil' > .envrc", ".envrc"},
		{"a fifo", "mkfifo .bashrc", ".bashrc"},
		{"a hard link", "ln a.txt .profile", ".profile"},
		{"a renamed one", "echo x > x && mv x .zshrc", ".zshrc"},
		{"CI", "mkdir -p .github/workflows && echo 'on: push' > .github/workflows/x.yml", ".github/workflows"},
		{"CI of another kind", "echo x > .gitlab-ci.yml", ".gitlab-ci.yml"},
		{"in a deep directory of the name", "mkdir -p .circleci/a/b && echo x > .circleci/a/b/c", ".circleci"},
		{"without rights", "mkdir .vscode && touch .vscode/x && chmod 0 .vscode", ".vscode"},
		{"hooks", "mkdir .git/hooks && printf '#!/bin/sh\\n' > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit", ".git/hooks"},
		{"configuration of the work tree", "printf '[core]\\n' > .git/config.worktree", ".git/config.worktree"},
		{"another common directory", "echo /x > .git/commondir", ".git/commondir"},
		{"alternates", "mkdir -p .git/objects/info && echo /x > .git/objects/info/alternates", ".git/objects/info/alternates"},
		{"attributes", "mkdir -p .git/info && echo '* filter=x' > .git/info/attributes", ".git/info/attributes"},
		{"from a process that stays behind", "(setsid sh -c 'echo x > .npmrc' &) ; sleep 0.2", ".npmrc"},
	}
	w := newWorld(t, true)
	for _, name := range []string{"hooks", "info"} { // as with an empty template
		if err := os.RemoveAll(filepath.Join(w.root, ".git", name)); err != nil {
			t.Fatal(err)
		}
	}
	s := w.open(nil)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := w.run(s, w.root, c.command, accesspolicy.Call{})
			said := o.rep.Denied // it could not be made
			if strings.HasPrefix(c.path, ".git/") {
				said = o.rep.Reverted
			}
			if len(said) != 1 || !strings.Contains(said[0], strings.TrimPrefix(c.path, ".git/")) {
				t.Errorf("reported: %+v\n%s", o.rep, o.out)
			}
			w.gone(filepath.Join(w.root, c.path))
			if o := w.run(s, w.root, "true", accesspolicy.Call{}); len(o.rep.Reverted) > 0 {
				t.Errorf("said again: %q", o.rep.Reverted)
			}
		})
	}
	w.git("fsck")
	w.works(s, "echo b > b && git add b && git commit -qm b")
}

// What is there is the user's: it is read-only, and stays.
func TestExistingProtectedNames(t *testing.T) {
	w := newWorld(t, true)
	w.file(filepath.Join(w.root, ".vscode", "settings.json"), "{}")
	w.file(filepath.Join(w.root, ".github", "workflows", "ci.yml"), "on: push\n")
	w.file(filepath.Join(w.root, ".github", "dependabot.yml"), "x")
	w.file(filepath.Join(w.root, ".npmrc"), "x=y\n")
	w.file(filepath.Join(w.root, "githooks", "pre-commit"), "#!/bin/sh\n")
	w.file(filepath.Join(w.root, "more.gitconfig"), "[x]\n")
	w.git("config", "core.hooksPath", "githooks")
	w.git("config", "include.path", "../more.gitconfig")
	if err := os.Symlink("a.txt", filepath.Join(w.root, ".envrc")); err != nil {
		t.Fatal(err)
	}
	s := w.open(nil)
	for _, command := range []string{
		"echo x > .vscode/settings.json", "rm -r .vscode", "mv .vscode v", "touch .vscode/tasks.json", "echo x >> .github/workflows/ci.yml", "mv .github g", "mv .github g; mkdir -p .github/workflows && echo x > .github/workflows/ci.yml",
		"rm -r .github/workflows", "echo x > .npmrc", "mv a.txt .npmrc", "ln -f a.txt .npmrc", "echo x > githooks/pre-commit", "echo x > more.gitconfig", "mv githooks h",
	} {
		w.fails(s, command, "")
	}
	w.fails(s, "echo x > .vscode/settings.json", "editors")
	w.works(s, "echo y > .github/dependabot.yml && cat .vscode/settings.json .npmrc .envrc")
	if o := w.run(s, w.root, "rm .envrc && echo evil > .envrc", accesspolicy.Call{}); len(o.rep.Reverted) == 0 {
		t.Errorf("a link that was replaced: %+v", o)
	}
	if to, err := os.Readlink(filepath.Join(w.root, ".envrc")); err != nil || to != "a.txt" {
		t.Errorf("the link is %q, %v", to, err)
	}
	if o := w.run(s, w.root, "rm .envrc", accesspolicy.Call{}); len(o.rep.Reverted) == 0 {
		t.Errorf("a link that was removed: %+v", o)
	}
	if _, err := os.Readlink(filepath.Join(w.root, ".envrc")); err != nil {
		t.Error(err)
	}
}

// Repositories that a command makes may stay, but not with what git would run.
func TestRepositoriesOfCommands(t *testing.T) {
	w := newWorld(t, false)
	s := w.open(nil)
	o := w.run(s, w.root, "git init -q . && git add a.txt && git commit -qm first", accesspolicy.Call{})
	if o.code != 0 || len(o.rep.Reverted) > 0 {
		t.Fatalf("git init: %+v", o)
	}
	w.works(s, "echo b > b && git add b && git commit -qm second")
	if o := w.run(s, w.root, "git config core.pager x", accesspolicy.Call{}); len(o.rep.Reverted) != 1 || !strings.Contains(o.rep.Reverted[0], "config") {
		t.Errorf("a configuration: %+v", o)
	}
	if o := w.run(s, w.root, "mkdir sub && cd sub && git init -q && git config user.name x && git commit -q --allow-empty -m x", accesspolicy.Call{}); o.code != 0 || len(o.rep.Reverted) > 0 {
		t.Errorf("a repository below: %+v", o)
	}
	for command, path := range map[string]string{
		"git -C sub config core.fsmonitor ./x":                                                                                       "sub/.git/config",
		"mkdir -p three && git init -q three && git -C three config core.hooksPath .":                                                "three/.git/config",
		"mkdir -p four && echo 'gitdir: /etc' > four/.git":                                                                           "four/.git",
		"mkdir -p five && git init -q five && git -C five config alias.st '!x'":                                                      "five/.git/config",
		"mkdir -p six && git init -q six && printf '[include]\\npath = x\\n' >> six/.git/config":                                     "six/.git/config",
		"mkdir -p seven && git init -q seven && git -C seven config remote.o.url 'ext::sh -c x'":                                     "seven/.git/config",
		"git init -q --separate-git-dir=odd eight && printf '[core]\\nsshCommand = x\\n' >> odd/config":                              "odd/config",
		"mkdir -p nine && git init -q nine && rm nine/.git/config && ln -s /etc/passwd nine/.git/config":                             "nine/.git/config",
		"mkdir -p ten && git init -q ten && printf '[co\\\\\\nre]\\nfsmonitor=x' > ten/.git/config":                                  "ten/.git/config",
		"mkdir -p elf && git init -q elf && rm -r elf/.git/hooks; ln -s ../../githooks elf/.git/hooks":                               "elf/.git/hooks",
		"mkdir -p zw && git init -q zw && printf '[core] fsmonitor = x\\n' > zw/.git/config":                                         "zw/.git/config",
		"mkdir -p dr && git init -q dr && printf '[filter \"x\"]\\nsmudge = x\\n' >> dr/.git/config":                                 "dr/.git/config",
		"mkdir -p vi && git init -q vi && printf '[submodule \"x\"]\\nupdate = !x\\n' >> vi/.git/config":                             "vi/.git/config",
		"mkdir -p fu && git init -q fu && printf '[remote \"x\"]\\nuploadpack = x\\n' >> fu/.git/config":                             "fu/.git/config",
		"mkdir -p se && git init -q se && echo /x > se/.git/commondir":                                                               "se/.git/commondir",
		"mkdir -p si && git init -q si && printf '[extensions]\\nworktreeConfig=1\\n[diff \"x\"]\\ntextconv=x\\n' >> si/.git/config": "si/.git/config",
	} {
		o := w.run(s, w.root, command, accesspolicy.Call{})
		if told := append(o.rep.Reverted, o.rep.Denied...); len(told) != 1 || !strings.Contains(told[0], path) {
			t.Errorf("%s: %+v", command, o)
		}
		w.tamed(filepath.Join(w.root, path))
	}
}

// tamed demands that a file is gone, or a configuration with nothing in it but what
// git itself writes into that of a new repository.
func (w *world) tamed(path string) {
	w.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		w.gone(path)
		return
	}
	for line := range strings.Lines(string(text)) {
		key, _, set := strings.Cut(strings.TrimSpace(line), " = ")
		switch key {
		case "repositoryformatversion", "filemode", "bare", "logallrefupdates", "name", "email", "worktreeConfig=1":
		default:
			if set || !strings.HasPrefix(key, "[") {
				w.t.Errorf("%s has %q", path, line)
			}
		}
	}
}

// The first repository of a project must not come with what git would run.
func TestHostileInit(t *testing.T) {
	w := newWorld(t, false)
	s := w.open(nil)
	o := w.run(s, w.root, "git init -q && git config core.fsmonitor ./evil && echo x > .git/hooks/pre-commit", accesspolicy.Call{})
	if len(o.rep.Reverted)+len(o.rep.Denied) != 2 {
		t.Errorf("%+v", o)
	}
	w.tamed(filepath.Join(w.root, ".git", "config"))
	w.gone(filepath.Join(w.root, ".git", "hooks", "pre-commit"))
}

// The user's own repositories below the root are guarded as they are.
func TestNestedRepositoriesOfTheUser(t *testing.T) {
	w := newWorld(t, true)
	w.file(filepath.Join(w.root, "vendor", "x"), "x")
	w.gitIn(filepath.Join(w.root, "vendor"), "init", "-q")
	w.gitIn(filepath.Join(w.root, "vendor"), "config", "core.pager", "mine")
	s := w.open(nil)
	w.fails(s, "mv vendor v; mv vendor/.git vendor/g", "")
	w.works(s, "cd vendor && git add -A && git commit -qm x")
}

func TestJobsAreCheckedAtTheirEnd(t *testing.T) {
	w := newWorld(t, true)
	w.env["TMPDIR"] = t.TempDir()
	s := w.open(nil)
	start := func(command string) *exec.Job {
		t.Helper()
		j, err := s.Start(t.Context(), exec.Spec{Argv: []string{exec.Shell(""), "-c", command}, Dir: w.root}, accesspolicy.Call{})
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	j := start("echo x > .envrc; echo x > ~/x; exit 3")
	<-j.Done()
	rep := s.Ended(j)
	if len(rep.Reverted) != 0 || len(rep.Denied) != 1 || !strings.Contains(rep.Denied[0], ".envrc") {
		t.Errorf("%+v", rep)
	}
	w.gone(filepath.Join(w.root, ".envrc"))

	j = start("mkdir n; git init -q n; git -C n config core.fsmonitor x; touch made; sleep 60")
	w.shell("while [ ! -e made ]; do sleep 0.02; done", w.root)
	if rep := s.Ended(j); len(rep.Reverted) != 0 {
		t.Errorf("it runs still: %+v", rep)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	w.tamed(filepath.Join(w.root, "n", ".git", "config"))
	if _, err := s.Start(t.Context(), exec.Spec{Argv: []string{"true"}}, accesspolicy.Call{}); err == nil {
		t.Error("a closed sandbox starts something")
	}
	if left, err := filepath.Glob(filepath.Join(w.env["TMPDIR"], "ralph-main-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// What was agreed to is not taken for the doing of a command that runs at the time.
func TestGrantedNamesStay(t *testing.T) {
	w := newWorld(t, true)
	s := w.open(nil)
	j, err := s.Start(t.Context(), exec.Spec{Argv: []string{exec.Shell(""), "-c", "until test -e go; do sleep 0.01; done; mkdir .idea; touch .idea/x"}, Dir: w.root}, accesspolicy.Call{})
	if err != nil {
		t.Fatal(err)
	}
	w.file(filepath.Join(w.root, ".github", "workflows", "ci.yml"), "on: push\n")
	s.Grant(".github/workflows/ci.yml", nil, nil)
	if o := w.run(s, w.root, "mkdir .vscode && touch .vscode/x", accesspolicy.Call{Outside: true}); o.code != 0 || len(o.rep.Reverted) > 0 {
		t.Errorf("%+v", o)
	}
	w.file(filepath.Join(w.root, "go"), "")
	<-j.Done()
	if rep := s.Ended(j); len(rep.Denied) != 1 || !strings.Contains(rep.Denied[0], ".idea") {
		t.Errorf("%+v", rep)
	}
	for _, name := range []string{".github/workflows/ci.yml", ".vscode/x"} {
		if _, err := os.Lstat(filepath.Join(w.root, name)); err != nil {
			t.Error(err)
		}
	}
}

// Without mounts the protected files are put back.
func TestWithoutMounts(t *testing.T) {
	w := newWorld(t, true)
	w.file(filepath.Join(w.root, ".vscode", "settings.json"), "{}")
	w.runner = exec.New(exec.Options{Method: "session"})
	defer func() {
		if err := w.runner.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	st := accesspolicy.Check(w.runner)
	if st.Complete || len(st.Missing) == 0 {
		t.Errorf("complete without namespaces: %s", st)
	}
	if st.None() || !st.Active("Landlock") {
		t.Skip("nothing confines commands without namespaces here: ", st)
	}
	s, err := accesspolicy.Open(accesspolicy.Options{Proc: w.runner, Root: w.root, Agent: "main", Getenv: func(k string) string { return w.env[k] }, Environ: w.environ()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	config := filepath.Join(w.root, ".git", "config")
	before, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	for command, path := range map[string]string{
		"git config core.fsmonitor ./evil":                   ".git/config",
		"rm .git/config":                                     ".git/config",
		"mv .git/config .git/c; mkdir .git/config":           ".git/config",
		"rm .git/config; ln -s ../a.txt .git/config":         ".git/config",
		"echo x > .git/hooks/pre-commit":                     ".git/hooks/pre-commit",
		"rm -rf .vscode":                                     ".vscode/settings.json",
		"echo '{\"x\":1}' > .vscode/settings.json":           ".vscode/settings.json",
		"mv .vscode v; mkdir .vscode; echo x > .vscode/evil": ".vscode",
	} {
		o := w.run(s, w.root, command, accesspolicy.Call{})
		if len(o.rep.Reverted) == 0 || !strings.Contains(strings.Join(o.rep.Reverted, "\n"), path) {
			t.Errorf("%s: %+v", command, o)
		}
		if after, err := os.ReadFile(config); err != nil || string(after) != string(before) {
			t.Errorf("%s: the configuration is %q, %v", command, after, err)
		}
		if text, err := os.ReadFile(filepath.Join(w.root, ".vscode", "settings.json")); err != nil || string(text) != "{}" {
			t.Errorf("%s: the settings are %q, %v", command, text, err)
		}
	}
	w.gone(filepath.Join(w.root, ".git", "hooks", "pre-commit"))
	w.gone(filepath.Join(w.root, ".vscode", "evil"))
	w.fails(s, "echo x > ~/x", "")
	w.fails(s, "python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80), 1)'", "")
	if o := w.run(s, w.root, "echo b > b && git add b && git commit -qm b", accesspolicy.Call{}); o.code != 0 || len(o.rep.Reverted) > 0 {
		t.Errorf("a commit: %+v", o)
	}
}

// BenchmarkCommand is what a confined command costs, against a plain one.
func BenchmarkCommand(b *testing.B) {
	root := b.TempDir()
	for i := range 200 {
		if err := os.MkdirAll(filepath.Join(root, "dir"+strings.Repeat("x", i%7)+string(rune('a'+i%26))), 0o755); err != nil {
			b.Fatal(err)
		}
	}
	runner := exec.New(exec.Options{Init: exec.Self()})
	defer runner.Close(b.Context())
	env := map[string]string{"HOME": os.Getenv("HOME"), "PATH": os.Getenv("PATH"), "XDG_CACHE_HOME": b.TempDir()}
	s, err := accesspolicy.Open(accesspolicy.Options{Proc: runner, Root: root, Agent: "bench", Getenv: func(k string) string { return env[k] }, Environ: []string{"PATH=" + env["PATH"]}})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	spec := exec.Spec{Argv: []string{"/bin/true"}, Dir: root}
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			if _, err := runner.Run(b.Context(), spec); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("confined", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := s.Run(b.Context(), spec, accesspolicy.Call{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("prepare", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Prepare(spec, accesspolicy.Call{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// What a command of a child cannot reach is not put back after it: the user goes
// on working in the project.
func TestWorkBesideAChildStays(t *testing.T) {
	w := newWorld(t, true)
	tree := filepath.Join(w.root, ".ralph", "worktrees", "one")
	w.git("worktree", "add", "-q", "-b", "ralph/one", tree)
	loc, err := git.Find(tree)
	if err != nil {
		t.Fatal(err)
	}
	w.runner = exec.New(exec.Options{Method: "session"})
	if st := accesspolicy.Check(w.runner); st.None() {
		t.Skip("nothing confines commands without namespaces here: ", st)
	}
	s, err := accesspolicy.Open(accesspolicy.Options{Proc: w.runner, Root: tree, Project: w.root, Git: &loc, Agent: "one", Getenv: func(k string) string { return w.env[k] }, Environ: w.environ()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	j, err := s.Start(t.Context(), exec.Spec{Argv: []string{exec.Shell(""), "-c", "touch began; while [ ! -e go ]; do sleep 0.02; done"}, Dir: tree, Timeout: time.Minute}, accesspolicy.Call{})
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Lstat(filepath.Join(tree, "began")); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the command does not begin")
		}
	}
	w.file(filepath.Join(w.root, "a.txt"), "the user goes on\n")
	w.file(filepath.Join(w.root, "new.txt"), "new\n")
	w.file(filepath.Join(tree, "go"), "")
	<-j.Done()
	if rep := s.Ended(j); len(rep.Reverted) > 0 {
		t.Errorf("%+v", rep)
	}
	if text, err := os.ReadFile(filepath.Join(w.root, "a.txt")); err != nil || string(text) != "the user goes on\n" {
		t.Errorf("the user's file: %q, %v", text, err)
	}
}

// Where another program makes the namespaces, Ralph's sandbox has no hole: else the
// tests of it would be left out in silence.
func TestCompleteWhereItCanBe(t *testing.T) {
	if out, err := osexec.Command("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount", "--net", "--ipc", "true").CombinedOutput(); err != nil {
		t.Skipf("unshare makes no namespaces here: %v: %s", err, out)
	}
	r := exec.New(exec.Options{Init: exec.Self()})
	defer func() {
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	st := accesspolicy.Check(r)
	for _, layer := range []string{"mount namespace", "network namespace", "process namespace"} {
		if !st.Active(layer) {
			t.Errorf("no %s: %+v", layer, st)
		}
	}
}
