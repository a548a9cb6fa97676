package accesspolicy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ralph/workers/accesspolicy"
	"ralph/workers/exec"
)

// beside runs a command in the background, does something else once it has made
// the file began, lets it go on by the file go, and gives what is reported.
func (w *world) beside(s *accesspolicy.Sandbox, command string, do func()) accesspolicy.Report {
	w.t.Helper()
	command = "touch began; while [ ! -e go ]; do sleep 0.02; done; " + command
	j, err := s.Start(w.t.Context(), exec.Spec{Argv: []string{exec.Shell(""), "-c", command}, Dir: w.root, Timeout: time.Minute}, accesspolicy.Call{})
	if err != nil {
		w.t.Fatal(err)
	}
	began, start := filepath.Join(w.root, "began"), filepath.Join(w.root, "go")
	w.await(began)
	do()
	w.file(start, "")
	<-j.Done()
	rep := s.Ended(j)
	for _, path := range []string{began, start} {
		if err := os.Remove(path); err != nil {
			w.t.Error(err)
		}
	}
	return rep
}

// await waits for a file.
func (w *world) await(path string) {
	w.t.Helper()
	w.until(path+" does not come", func() bool { _, err := os.Lstat(path); return err == nil })
}

// awaitGone waits until nothing is at path.
func (w *world) awaitGone(path string) {
	w.t.Helper()
	w.until(path+" stays", func() bool { _, err := os.Lstat(path); return err != nil })
}

// until waits for a fact.
func (w *world) until(without string, fact func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !fact(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatal(without)
		}
	}
}

// Git puts a new file in the place of its configuration: what a running command
// writes there does not reach that file, and what the user set stays.
func TestConfigurationReplacedMeanwhile(t *testing.T) {
	w := newWorld(t, true)
	s := w.open(nil)
	for _, evil := range []string{`[core]\n\tfsmonitor = ./evil\n`, `[core] fsmonitor = ./evil\n`} {
		w.beside(s, "printf '"+evil+"' >> .git/config", func() { w.git("config", "user.signingkey", "one") })
		if after, err := os.ReadFile(filepath.Join(w.root, ".git", "config")); err != nil || strings.Contains(string(after), "evil") || w.git("config", "user.signingkey") != "one" {
			t.Errorf("%q: the configuration is %q, %v", evil, after, err)
		}
	}
	rep := w.beside(s, "true", func() { w.git("config", "branch.main.remote", "origin") })
	if len(rep.Reverted) != 0 || w.git("config", "branch.main.remote") != "origin" {
		t.Errorf("what the user set: %q", rep.Reverted)
	}
}

// The next `git rebase --continue` of the user runs nothing that a command has
// put into its list, and the user's own steps stay.
func TestRebaseList(t *testing.T) {
	w := newWorld(t, true)
	s := w.open(nil)
	list := filepath.Join(w.root, ".git", "rebase-merge", "git-rebase-todo")
	for _, name := range []string{"one", "two"} {
		w.file(filepath.Join(w.root, name), name)
		w.git("add", name)
		w.git("-c", "commit.gpgSign=false", "commit", "-qm", name)
	}
	w.git("-c", `sequence.editor=sed -i -e 1s/pick/edit/ -e '$aexec make test'`, "rebase", "-i", "HEAD~2")
	text, err := os.ReadFile(list)
	if err != nil || !strings.Contains(string(text), "exec make test\n") {
		t.Fatalf("%q %v", text, err)
	}
	own := string(text)
	for _, evil := range []string{`exec touch /tmp/x`, `x touch /tmp/x`, `  exec	touch /tmp/x`} {
		w.file(list, own)
		o := w.run(s, w.root, "echo '"+evil+"' >> .git/rebase-merge/git-rebase-todo", accesspolicy.Call{})
		if len(o.rep.Reverted) != 1 || !strings.Contains(o.rep.Reverted[0], "git-rebase-todo") {
			t.Errorf("%q: reported %q", evil, o.rep.Reverted)
		}
		if text, err := os.ReadFile(list); err != nil || string(text) != own {
			t.Errorf("%q: the list is %q, %v", evil, text, err)
		}
	}
	w.file(list, own)
	pick := "pick " + w.git("rev-parse", "HEAD") + " two"
	w.works(s, "echo '"+pick+"' >> .git/rebase-merge/git-rebase-todo")
	if text, err := os.ReadFile(list); err != nil || string(text) != own+pick+"\n" {
		t.Errorf("the list is %q, %v", text, err)
	}
}

// A pipe in the place of what is looked at afterwards is not waited for.
func TestPipesAreNotWaitedFor(t *testing.T) {
	w := newWorld(t, true)
	s := w.open(nil)
	done := make(chan outcome, 1)
	go func() {
		done <- w.run(s, w.root, "mkfifo .github .config && mkdir -p .git/rebase-merge x/.git && mkfifo .git/rebase-merge/git-rebase-todo x/.git/config x/.git/hooks", accesspolicy.Call{})
	}()
	select {
	case o := <-done:
		if o.code != 0 {
			t.Errorf("%+v", o)
		}
		w.works(s, "true")
	case <-time.After(time.Minute):
		t.Fatal("the check after the command hangs")
	}
}

// Where the tree holds the user's home, what the user's programs run and obey
// there is not left by a command.
func TestProjectThatIsTheHome(t *testing.T) {
	w := newWorld(t, true)
	w.env["HOME"] = w.root
	w.env["PATH"] = filepath.Join(w.root, "tools") + ":" + os.Getenv("PATH")
	own := filepath.Join(w.root, "tools", "own")
	if err := os.MkdirAll(filepath.Dir(own), 0o755); err != nil {
		t.Fatal(err)
	}
	w.file(own, "own")
	s := w.open(func(o *accesspolicy.Options) { o.UserConfig = filepath.Join(w.root, ".config", "ralph") })
	w.fails(s, "echo evil > tools/ls", "")
	w.fails(s, "mv tools t", "")
	for _, path := range []string{".config/ralph/config.yaml", ".local/bin/ls", "bin/ls", ".vimrc", ".gnupg/gpg.conf", ".config/nvim/init.lua", ".cargo/config.toml", ".aws/config"} {
		o := w.run(s, w.root, "mkdir -p $(dirname "+path+") && echo evil > "+path, accesspolicy.Call{})
		if len(o.rep.Reverted)+len(o.rep.Denied) != 1 {
			t.Errorf("%s: %+v", path, o)
		}
		w.gone(filepath.Join(w.root, path))
	}
	w.works(s, "mkdir -p src .venv && echo x > src/bin && echo x > notes.txt")
}

// The hooks that the repository's configuration takes from the tree are guarded
// for the tools too, whatever their name.
func TestHooksInTheTreeAreGuarded(t *testing.T) {
	w := newWorld(t, true)
	if err := os.MkdirAll(filepath.Join(w.root, "githooks", "_"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := w.open(nil)
	if why, _, _ := s.Guarded("githooks/pre-commit"); why != "" {
		t.Errorf("nothing runs it: %s", why)
	}
	w.git("config", "core.hooksPath", "githooks/_")
	for path, guarded := range map[string]bool{"githooks/pre-commit": true, "githooks/_/h": true, "GITHOOKS/new": true, ".vscode/x": true, "hooks": false, "githooks2/x": false} {
		if why, _, _ := s.Guarded(path); (why != "") != guarded {
			t.Errorf("%s: %q", path, why)
		}
	}
}
