package accesspolicy

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ralph/workers/exec"
)

func TestDeniedNamesThePath(t *testing.T) {
	root := t.TempDir()
	s, err := Open(Options{Root: root, Getenv: func(k string) string { return map[string]string{"HOME": "/home/ann"}[k] }})
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct{ line, want string }{
		{"/usr/bin/bash: line 1: /etc/hosts: Read-only file system", "/etc/hosts"},
		{"touch: cannot touch '/home/ann/x y': Read-only file system", "/home/ann/x y"},
		{"mkdir: cannot create directory ‘/opt/x’: Read-only file system", "/opt/x"},
		{"OSError: [Errno 30] Read-only file system: '/var/lib/x'", "/var/lib/x"},
		{"npm ERR! Error: EROFS: read-only file system, open '/usr/lib/node_modules/x'", "/usr/lib/node_modules/x"},
		{"open /home/ann/go/bin/x: read-only file system", "/home/ann/go/bin/x"},
		{"error: could not lock config file .git/config: Read-only file system", "git's own"},
		{"error: could not write config file .git/config: Device or resource busy", "git's own"},
		{"fatal: Unable to create '" + root + "/.git/modules/x/index.lock': Read-only file system", "git's own"},
		{"cp: cannot create regular file '.vscode/settings.json': Read-only file system", "editors"},
		{"sh: 1: cannot create .github/workflows/x.yml: Read-only file system", "continuous integration"},
		{"rm: cannot remove '/home/ann/.bashrc': Permission denied", "/home/ann/.bashrc"},
		{"something is a read-only filesystem", "write only in the project"},
		{"curl: (6) Could not resolve host: example.com", "no network"},
		{"fatal: unable to access 'https://x.invalid/': Could not resolve host: x.invalid", "--allow 'network'"},
		{"dial tcp: lookup proxy.golang.org on 127.0.0.53:53: dial udp 127.0.0.53:53: connect: network is unreachable", "no network"},
		{"npm ERR! code ENOTFOUND", "no network"},
		{"requests.exceptions.ConnectionError: Failed to establish a new connection: [Errno 101] Network is unreachable", "no network"},
		{"Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?", "outside=true"},
		{"bash: fork: retry: Resource temporarily unavailable", "limits"},
		{"rm: cannot remove 'build/x': Permission denied", ""},
		{"bash: ./run.sh: Permission denied", ""},
		{"FAIL: TestX", ""},
	}
	for _, c := range cases {
		got := strings.Join(s.denied(exec.Result{ExitCode: 1, Stdout: exec.Capture{Head: []byte("x\n" + c.line + "\ny\n")}}, exec.Refusals{}, Call{}, false), "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", c.line, got)
		}
	}
	if got := s.denied(exec.Result{Stdout: exec.Capture{Head: []byte(cases[0].line)}}, exec.Refusals{}, Call{}, false); got != nil {
		t.Errorf("a command that succeeded: %q", got)
	}
	if got := s.denied(exec.Result{ExitCode: 1, Stdout: exec.Capture{Head: []byte("Could not resolve host: x")}}, exec.Refusals{}, Call{Network: true}, false); got != nil {
		t.Errorf("with the network: %q", got)
	}
}

// FuzzUnsafeKey holds the reader of configurations against git's own: what it
// passes must hold nothing but harmless keys for git.
func FuzzUnsafeKey(f *testing.F) {
	for _, s := range []string{
		"[core]\n\tbare = false\n", "[core]\nfsmonitor = x", "[CORE]\nFsMonitor=x", "[core]bare=true\nfsmonitor=x", "[core] fsmonitor=x", "[user]\nname=a\\\n[core]\nfsmonitor=x", "[branch \"a]\"]\nremote=x", "[branch \"a\\\"]\"]\nremote=x",
		"[include]\npath=/x", "\ufeff[core]\nfsmonitor=x", "[core]\rfsmonitor=x", "[core]\n;x\n#y\nfsmonitor", "[core.x]\ny=z", "[remote \"x\"]\nurl=ext::sh", "[remote \"x\"]\nurl = \"ext:\":x", "[user]\nname = \"a\n[core]\nfsmonitor=x\"", "[core]\n\tfilemode = true # x \\\nfsmonitor=x",
		"[remote \"a\"] url=x\n", "[user]\n name=x [core] fsmonitor=y\n", "[a", "x=y", "[extensions]\nworktreeconfig=true", "[lfs]\nrepositoryformatversion=0\n",
	} {
		f.Add(s)
	}
	path := filepath.Join(f.TempDir(), "config")
	f.Fuzz(func(t *testing.T, text string) {
		if unsafeKey([]byte(text), nil) != "" {
			return
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := osexec.Command("git", "config", "--no-includes", "-z", "--list", "-f", path).Output()
		if err != nil {
			return // git does not take it either
		}
		for entry := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			key, value, _ := strings.Cut(entry, "\n")
			section, rest, ok := strings.Cut(key, ".")
			if !ok {
				continue
			}
			name := rest[strings.LastIndexByte(rest, '.')+1:]
			if !harmlessKey(section+"."+name) || strings.HasSuffix(name, "url") && strings.Contains(value, "::") {
				t.Errorf("%q passes, but git reads %q = %q", text, key, value)
			}
		}
	})
}

// What a command has removed with its directory, since it was found, is not reported.
func TestGoneWithItsDirectory(t *testing.T) {
	dir := t.TempDir()
	s := &Sandbox{o: Options{Root: dir, Project: dir}}
	s.takeAway(filepath.Join(dir, "gone", ".git"), "acts", func(format string, args ...any) { t.Errorf(format, args...) })
}
