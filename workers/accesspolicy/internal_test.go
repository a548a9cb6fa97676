package accesspolicy

import (
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

// What a command has removed with its directory, since it was found, is not reported.
func TestGoneWithItsDirectory(t *testing.T) {
	dir := t.TempDir()
	s := &Sandbox{o: Options{Root: dir, Project: dir}}
	s.takeAway(filepath.Join(dir, "gone", ".git"), "acts", func(format string, args ...any) { t.Errorf(format, args...) })
}
