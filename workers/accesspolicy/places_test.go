package accesspolicy_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ralph/workers/accesspolicy"
	"ralph/workers/git"
)

func TestSecretsAreOutOfSight(t *testing.T) {
	w := newWorld(t, true)
	w.env["PATH"] = "/usr/local/bin:/usr/bin:/bin" // no other home is on it, and all of them stay hidden
	places := []string{".ssh/id_ed25519", ".aws/credentials", ".config/gh/hosts.yml", ".config/gcloud/x", ".netrc", ".git-credentials", ".npmrc", ".pypirc", ".cargo/credentials.toml", ".m2/settings.xml",
		".docker/config.json", ".kube/config", ".gnupg/private", ".bash_history", ".mozilla/firefox/x", ".config/ralph/config.yaml", ".local/share/keyrings/login", ".vault-token", ".password-store/x", ".config/google-chrome/Cookies"}
	for _, p := range places {
		w.file(filepath.Join(w.home, p), "s3cret-value")
	}
	elsewhere := filepath.Join(w.home, "dotfiles", "azure")
	w.file(filepath.Join(elsewhere, "token"), "s3cret-value")
	if err := os.Symlink(elsewhere, filepath.Join(w.home, ".azure")); err != nil {
		t.Fatal(err)
	}
	s := w.open(nil)
	for _, p := range append(places, ".azure/token", "dotfiles/azure/token") {
		if o := w.run(s, w.root, "cat ~/"+p+" ; ls -A ~/"+filepath.Dir(p), accesspolicy.Call{}); strings.Contains(o.out, "s3cret") {
			t.Errorf("~/%s can be read:\n%s", p, o.out)
		}
	}
	if o := w.run(s, w.root, "grep -rs s3cret-value ~ /home /root /etc 2>/dev/null", accesspolicy.Call{}); strings.Contains(o.out, "s3cret") {
		t.Errorf("found:\n%s", o.out)
	}
	w.works(s, "git config user.email | grep -q ann")
	w.fails(s, "echo x > ~/notes.txt", "write only in the project")
	w.fails(s, "touch ~/.bashrc", "write only in the project")
	w.fails(s, "echo x > /etc/hosts", "/etc/hosts")
	w.works(s, "echo x > /tmp/a && cat /tmp/a && test -w /var/tmp && cd \"$TMPDIR\" && ls")
	w.works(s, "test -e /tmp/a") // the same for all commands of the agent
}

// A link in the repository opens nothing: neither for reading, by what is
// protected and so shown, nor for writing, by what git needs.
func TestLinksOfTheRepositoryOpenNothing(t *testing.T) {
	w := newWorld(t, true)
	w.file(filepath.Join(w.home, ".ssh", "id"), "s3cret-value")
	link := func(to, at string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, at); err != nil {
			t.Fatal(err)
		}
	}
	link(filepath.Join(w.home, ".ssh"), filepath.Join(w.root, ".vscode"))
	link(filepath.Join(w.home, ".ssh", "id"), filepath.Join(w.root, ".envrc"))
	tree := filepath.Join(w.root, ".ralph", "worktrees", "one")
	w.git("worktree", "add", "-q", "-b", "topic", tree)
	link(filepath.Join(w.home, ".ssh"), filepath.Join(w.root, ".git", "refs", "heads", "ralph"))
	link(filepath.Join(w.home, ".ssh"), filepath.Join(w.root, ".git", "logs", "refs", "heads", "ralph"))
	s := w.open(nil)
	w.fails(s, "cat .envrc", "")
	w.fails(s, "cat .vscode/id ~/.ssh/id", "")
	w.fails(s, "echo x > .vscode/id", "")
	loc, err := git.Find(tree)
	if err != nil {
		t.Fatal(err)
	}
	child := w.open(func(o *accesspolicy.Options) { o.Root, o.Agent, o.Git = tree, "one", &loc })
	if o := w.run(child, tree, "cat ~/.ssh/id || echo x > ~/.ssh/id", accesspolicy.Call{}); o.code == 0 {
		t.Errorf("%+v", o)
	}
	if text, err := os.ReadFile(filepath.Join(w.home, ".ssh", "id")); err != nil || string(text) != "s3cret-value" {
		t.Errorf("%q, %v", text, err)
	}
}

// A project that lies in a hidden place stays visible.
func TestProjectInAHiddenPlace(t *testing.T) {
	w := newWorld(t, true)
	moved := filepath.Join(w.home, ".config", "ralph", "project")
	if err := os.MkdirAll(filepath.Dir(moved), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(w.root, moved); err != nil {
		t.Fatal(err)
	}
	w.root = moved
	s := w.open(nil)
	w.works(s, "cat a.txt && echo b > b && git add b && git commit -qm b")
}

func TestNetwork(t *testing.T) {
	w := newWorld(t, false)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	s := w.open(nil)
	connect := "exec 3<>/dev/tcp/127.0.0.1/" + port
	w.fails(s, connect, "")
	w.fails(s, "python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80), 1)'", "no network")
	w.fails(s, "git ls-remote https://example.invalid/x", "--allow 'network'")
	w.works(s, `python3 - <<'E'
import socket, threading
s = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=lambda: s.accept()[0].sendall(b"hi"), daemon=True).start()
assert socket.create_connection(s.getsockname()).recv(2) == b"hi"
E`)
	if o := w.run(s, w.root, connect, accesspolicy.Call{Network: true}); o.code != 0 {
		t.Errorf("with the network: exit %d\n%s", o.code, o.out)
	}
	if o := w.run(s, w.root, "echo x > ~/x", accesspolicy.Call{Network: true}); o.code == 0 {
		t.Error("the network opens the home")
	}
}

func TestChildStaysInItsTree(t *testing.T) {
	w := newWorld(t, true)
	tr := w.treesOf()
	w.file(filepath.Join(w.root, "node_modules", "x", "index.js"), "x")
	two, _ := w.agentOf(tr, "two", nil)
	one, s := w.agentOf(tr, "one", nil)
	in := func(command string) outcome { return w.run(s, one.Dir, command, accesspolicy.Call{}) }
	if o := in("cat ../../../node_modules/x/index.js ../../../a.txt"); o.code != 0 {
		t.Errorf("%+v", o)
	}
	for _, command := range []string{
		"echo x > ../../../a.txt", "echo x > ../two/a.txt", "cat ../two/a.txt", "rm -rf ../../../node_modules", "echo x > ../../FORMAT", "cat ../../../.git/HEAD", "cat ../.ralph/lock",
		"echo x > ../.ralph/agent-one.json", "touch ../.objects-*/x", "git -C ../../.. log", "rmdir ../two || mv ../two ../three",
	} {
		if o := in(command); o.code == 0 {
			t.Errorf("%s: succeeds\n%s", command, o.out)
		}
	}
	if text := must(os.ReadFile(filepath.Join(two.Dir, "a.txt"))); string(text) != "a\n" {
		t.Errorf("a.txt of the other is %q", text)
	}
	// What git would run for whoever enters the tree does not stay.
	for command, name := range map[string]string{
		"git config core.fsmonitor ./x": "config", "printf '[core]\\n\\tfsmonitor = ./x\\n' >> .git/config": "config", "printf '[include]\\n\\tpath = x\\n' >> .git/config": "config",
		"mkdir -p .git/hooks && echo x > .git/hooks/post-checkout": "hooks", "echo ../../../../.git > .git/commondir": "commondir",
		"printf '[core]\\n\\tfsmonitor = ./x\\n' > .git/config.worktree": "config.worktree",
	} {
		was, err := os.ReadFile(filepath.Join(one.Dir, ".git", name))
		if o := in(command); o.code != 0 || len(o.rep.Reverted) == 0 {
			t.Errorf("%s: %+v", command, o)
		}
		now, gone := os.ReadFile(filepath.Join(one.Dir, ".git", name))
		if string(was) != string(now) || (err == nil) != (gone == nil) {
			t.Errorf("%s: %q and then %q (%v)", command, was, now, gone)
		}
	}
}

// A branch with a slash in its name and a repository without commits.
func TestUnbornAndSubmodule(t *testing.T) {
	w := newWorld(t, false)
	w.git("init", "-q")
	s := w.open(nil)
	w.works(s, "git checkout -q -b a/b/c && git add a.txt && git commit -qm first && git switch -qc d/e")

	other := filepath.Join(w.home, "lib")
	w.file(filepath.Join(other, "l.txt"), "l")
	w.gitIn(other, "init", "-q")
	w.gitIn(other, "add", "-A")
	w.gitIn(other, "-c", "commit.gpgSign=false", "commit", "-qm", "lib")
	w.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", other, "lib")
	w.git("-c", "commit.gpgSign=false", "commit", "-qm", "with lib")
	w.works(s, "git -C lib log --oneline && git submodule status")
	config := func() string {
		text, err := os.ReadFile(filepath.Join(w.root, ".git", "modules", "lib", "config"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	before := config()
	for _, command := range []string{"echo x > .git/modules/lib/config", "echo x > .git/modules/lib/hooks/pre-commit", "mv .git/modules .git/m", "git -C lib config a.b c"} {
		w.run(s, w.root, command, accesspolicy.Call{})
	}
	w.fails(s, "echo x > lib/.git", "")
	w.gone(filepath.Join(w.root, ".git", "modules", "lib", "hooks", "pre-commit"))
	if now := config(); now != before {
		t.Errorf("the configuration of the submodule is %q, was %q", now, before)
	}
}

func TestReadOnly(t *testing.T) {
	w := newWorld(t, true)
	s := w.open(func(o *accesspolicy.Options) { o.ReadOnly = true })
	w.works(s, "cat a.txt && git status --short && git log -1 && echo x > /tmp/x")
	w.fails(s, "echo x > a.txt", "a.txt")
	w.fails(s, "git commit --allow-empty -m x", "")
}

func TestOutsideAndOff(t *testing.T) {
	w := newWorld(t, true)
	w.env["GITHUB_TOKEN"] = "ghp_0123456789abcdefghij"
	s := w.open(nil)
	o := w.run(s, w.root, "echo x > ~/outside && echo \"${GITHUB_TOKEN:-none}\" && git config x.y z", accesspolicy.Call{Outside: true})
	if o.code != 0 || !strings.Contains(o.out, "none") || len(o.rep.Reverted) > 0 {
		t.Errorf("outside: %+v", o)
	}
	off := w.open(func(o *accesspolicy.Options) { o.Off = true })
	if o := w.run(off, w.root, "cat ~/outside && echo \"${GITHUB_TOKEN:-none}\" && echo \"${GOCACHE:-own}\"", accesspolicy.Call{}); o.code != 0 || !strings.Contains(o.out, "none\nown") {
		t.Errorf("off: %+v", o)
	}
}

// The tools that people build with must work: they read what the user has, and
// write into the caches of the project.
func TestToolchains(t *testing.T) {
	// start skips where a program does not work outside either.
	start := func(t *testing.T, programs ...string) (*world, *accesspolicy.Sandbox) {
		w := newWorld(t, true)
		// The user's real home, read-only, is what tools find modules and toolchains in.
		for _, name := range []string{"HOME", "GOFLAGS", "GOPATH", "GOMODCACHE", "GOPROXY", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "PYENV_ROOT", "NVM_DIR"} {
			if v, set := os.LookupEnv(name); set {
				w.env[name] = v
			}
		}
		w.env["XDG_CACHE_HOME"] = filepath.Join(w.home, "cache")
		for _, p := range programs {
			cmd := exec.Command("/bin/sh", "-c", p)
			cmd.Dir, cmd.Env = w.root, w.environ()
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Skipf("%s does not work here: %v\n%s", p, err, out)
			}
		}
		return w, w.open(nil)
	}
	t.Run("go", func(t *testing.T) {
		w, s := start(t, "go version")
		sum, err := os.ReadFile(filepath.Join("..", "..", "go.sum"))
		if err != nil {
			t.Fatal(err)
		}
		mod, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		own := "module m\n\n"
		for line := range strings.Lines(string(mod)) {
			if f := strings.Fields(line); len(f) == 2 && (f[0] == "go" || f[0] == "golang.org/x/sys") {
				own += strings.Replace(strings.TrimSpace(line), "golang.org", "require golang.org", 1) + "\n"
			}
		}
		w.file(filepath.Join(w.root, "go.mod"), own)
		w.file(filepath.Join(w.root, "go.sum"), string(sum))
		w.file(filepath.Join(w.root, "m.go"), "package m\n\n// F is built without the standard library, which would take its time.\nfunc F() int { return 42 }\n")
		w.file(filepath.Join(w.root, "m_test.go"), "package m\n\nimport (\n\t\"testing\"\n\n\t\"golang.org/x/sys/unix\"\n)\n\nfunc Test(t *testing.T) { t.Log(unix.Getpid(), t.TempDir()) }\n")
		build := "go build -mod=mod ./... && go list -test -deps ./... | grep -q x/sys/unix"
		if os.Getenv("RALPH_TEST_SWEEP") != "" {
			build += " && go test -count=1 ./... && go vet ./..."
		}
		w.works(s, build)
		w.works(s, "case $GOCACHE in "+filepath.Join(w.home, "cache", "ralph")+"/*/go-build) test -d $GOCACHE/00 ;; *) false ;; esac")
		if o := w.run(s, w.root, "go get example.invalid/x", accesspolicy.Call{}); o.code == 0 || len(o.rep.Denied) == 0 {
			t.Errorf("a module that is not there: %+v", o)
		}
		// After a command with the network the store is the project's, fed from the user's.
		if o := w.run(s, w.root, "GOFLAGS=-mod=mod GONOSUMDB='*' GONOSUMCHECK=1 GOPROXY=${GOPROXY%%,*} go mod download golang.org/x/sys", accesspolicy.Call{Network: true}); o.code != 0 {
			t.Errorf("download from the user's store: %+v", o)
		}
		w.works(s, build+" && go env GOMODCACHE | grep go/pkg/mod")
		// go writes there what it has seen of the checksum database; programs stay where scripts look for them.
		bin := w.works(s, `at=$(go env GOPATH) && mkdir -p "$at/pkg/sumdb/sum.golang.org" && echo x > "$at/pkg/sumdb/sum.golang.org/latest" && readlink "$at/bin" || true`)
		home := filepath.Join(w.env["HOME"], "go", "bin")
		if _, err := os.Stat(home); err == nil && w.env["GOPATH"] == "" && !strings.Contains(bin, home) {
			t.Errorf("GOPATH/bin leads to %q", bin)
		}
	})
	t.Run("npm", func(t *testing.T) {
		w, s := start(t, "npm --version")
		w.file(filepath.Join(w.root, "package.json"), `{"name":"m","version":"1.0.0","scripts":{"test":"node -e 'console.log(6*7)'"}}`)
		if out := w.works(s, "npm test && npm install --offline --no-audit"); !strings.Contains(out, "42") {
			t.Error(out)
		}
	})
	t.Run("yarn", func(t *testing.T) {
		w := newWorld(t, true)
		s := w.open(nil)
		w.works(s, `mkdir "$YARN_GLOBAL_FOLDER" && echo x > "$YARN_GLOBAL_FOLDER/x" && echo x > .pnp.cjs && echo x > .pnp.loader.mjs`)
	})
	t.Run("package managers of projects", func(t *testing.T) {
		w := newWorld(t, true)
		corepack := filepath.Join(w.home, ".cache", "node", "corepack")
		w.file(filepath.Join(corepack, "v1", "pnpm", "9.15.0", "x"), "data\n")
		w.file(filepath.Join(w.home, ".local", "share", "pnpm", ".tools", "pnpm", "9.15.0", "x"), "data\n")
		s := w.open(nil)
		w.works(s, `cat "$COREPACK_HOME/v1/pnpm/9.15.0/x" ~/.local/share/pnpm/.tools/pnpm/9.15.0/x`)
		// What a project asks for is installed by the tool itself.
		for _, network := range []bool{true, false} {
			if o := w.run(s, w.root, `mkdir -p "$COREPACK_HOME/v1/yarn/4.0.0" "$PNPM_HOME/.tools/pnpm/10.0.0"`, accesspolicy.Call{Network: network}); o.code != 0 {
				t.Errorf("network %v: %+v", network, o)
			}
		}
	})
	t.Run("husky", func(t *testing.T) {
		w := newWorld(t, true)
		w.file(filepath.Join(w.root, ".husky", "_", "husky.sh"), "")
		s := w.open(nil)
		// As its manual has it, with which it fails otherwise.
		w.works(s, `test "$HUSKY" = 0 || rm .husky/_/husky.sh`)
	})
	t.Run("python", func(t *testing.T) {
		w, s := start(t, "python3 --version")
		w.works(s, "python3 -m venv --without-pip .venv && .venv/bin/python -c 'import tempfile; tempfile.NamedTemporaryFile()'")
	})
	t.Run("make and cc", func(t *testing.T) {
		w, s := start(t, "make --version", "cc --version")
		w.file(filepath.Join(w.root, "m.c"), "int main(void) { return 0; }\n")
		w.file(filepath.Join(w.root, "Makefile"), "m: m.c\n\tcc -o m m.c\n\t./m\n")
		w.works(s, "make -j2")
	})
	t.Run("cargo", func(t *testing.T) {
		if testing.Short() {
			t.Skip("it compiles")
		}
		w, s := start(t, "cargo --version")
		w.file(filepath.Join(w.root, "Cargo.toml"), "[package]\nname = \"m\"\nversion = \"0.1.0\"\nedition = \"2021\"\n")
		w.file(filepath.Join(w.root, "src", "lib.rs"), "pub fn f() -> i32 { 42 }\n")
		w.works(s, "cargo check --offline -q")
	})
}

// What is hidden may go away at any moment, as the sockets of programs that end.
func TestPlacesThatGoAway(t *testing.T) {
	w := newWorld(t, false)
	w.file(filepath.Join(w.home, ".netrc"), "x")
	s := w.open(nil)
	w.works(s, "true")
	stop, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		for path := filepath.Join(w.home, ".netrc"); ; {
			select {
			case <-stop:
				return
			case <-time.After(500 * time.Microsecond):
			}
			if os.Remove(path) != nil {
				_ = os.WriteFile(path, nil, 0o600) // it is there half of the time
			}
		}
	}()
	for range 20 {
		w.works(s, "true")
	}
	close(stop)
	<-gone
}

// A program that has settings of its own sees and changes them, and no others.
func TestStateIsOpen(t *testing.T) {
	w := newWorld(t, true)
	w.file(filepath.Join(w.home, ".ssh", "id"), "key\n")
	w.file(filepath.Join(w.home, ".codex", "auth.json"), "login\n")
	w.file(filepath.Join(w.home, ".gemini", "auth.json"), "login\n")
	s := w.open(nil)
	call := accesspolicy.Call{State: []string{filepath.Join(w.home, ".codex"), filepath.Join(w.home, ".absent")}}
	if o := w.run(s, w.root, `cat "$HOME/.codex/auth.json" && echo more >> "$HOME/.codex/auth.json"`, call); o.code != 0 || !strings.Contains(o.out, "login") {
		t.Errorf("%+v", o)
	}
	for _, command := range []string{`cat "$HOME/.ssh/id"`, `echo x > "$HOME/.gemini/auth.json"`, `echo x > "$HOME/.absent"`} {
		if o := w.run(s, w.root, command, call); o.code == 0 {
			t.Errorf("%s: %+v", command, o)
		}
	}
	if o := w.run(s, w.root, `echo x >> "$HOME/.codex/auth.json"`, accesspolicy.Call{}); o.code == 0 {
		t.Errorf("without it: %+v", o)
	}
}

// TestDevicesKeepTheirAttributes has a command change the mode and the times of a
// device that it may write to: they are the system's.
func TestDevicesKeepTheirAttributes(t *testing.T) {
	w := newWorld(t, true)
	before, err := os.Stat("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	w.run(w.open(nil), w.root, "chmod 644 /dev/null; touch -d 2001-01-01 /dev/null; chown 1 /dev/null", accesspolicy.Call{})
	after, err := os.Stat("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	if after.Mode() != before.Mode() || after.ModTime() != before.ModTime() {
		t.Errorf("%v %v became %v %v", before.Mode(), before.ModTime(), after.Mode(), after.ModTime())
	}
}
