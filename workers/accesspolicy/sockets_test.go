package accesspolicy_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ralph/workers/accesspolicy"
	"ralph/workers/exec"
)

// TestLateSockets has programs of the user begin to listen while a command runs, where the
// manuals of ssh-agent, gpg-agent, docker, podman, D-Bus, X, tmux and screen put their
// sockets, and in the home: the command reaches none, as a stream or by datagrams.
func TestLateSockets(t *testing.T) {
	const script = `
import os, socket, sys, time
open("begun", "w").close()
while not os.path.exists("made"):
    time.sleep(0.01)
for name in open("made").read().split("\n"):
    for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET:
        for pair in False, True:
            try:
                s = socket.socketpair(socket.AF_UNIX, kind)[0] if pair else socket.socket(socket.AF_UNIX, kind)
                if kind == socket.SOCK_DGRAM: s.sendto(b"x", name.replace("@", "\0"))
                else: s.connect(name.replace("@", "\0"))
                print("reached", name, kind, pair)
            except OSError: pass
`
	for _, method := range []string{"", "session"} {
		for _, network := range []bool{false, true} {
			t.Run(fmt.Sprint(method, network), func(t *testing.T) {
				w := newWorld(t, false)
				if w.shell("command -v python3 || true", w.root) == "" {
					t.Skip("no python3")
				}
				w.file(filepath.Join(w.root, "late.py"), script)
				w.home = filepath.Join(plainPlace(t), "home")
				w.file(filepath.Join(w.home, ".gnupg", "x"), "")
				w.env["HOME"] = w.home
				w.runner = exec.New(exec.Options{Init: exec.Self(), Method: method})
				defer w.runner.Close(t.Context())
				st := accesspolicy.Check(w.runner)
				if method == "" && !st.Active("mount namespace") || !st.Active("Landlock") || !st.Active("system call filter") {
					t.Skip(st)
				}
				s, err := accesspolicy.Open(accesspolicy.Options{Proc: w.runner, Root: w.root, Agent: "main", Getenv: func(k string) string { return w.env[k] }, Environ: w.environ()})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				job, err := s.Start(t.Context(), exec.Spec{Argv: []string{"python3", "late.py"}, Dir: w.root, Timeout: time.Minute}, accesspolicy.Call{Network: network})
				if err != nil {
					t.Fatal(err)
				}
				for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
					if _, err := os.Stat(filepath.Join(w.root, "begun")); err == nil {
						break
					}
					if time.Now().After(deadline) {
						t.Fatal("the job does not begin")
					}
				}
				var made []string
				for _, dir := range []string{w.home, w.home + "/.gnupg", w.home + "/.ssh", w.home + "/.docker/run", w.home + "/.local/share/containers/podman", w.home + "/.local/bin", w.home + "/.cache", "/run", "/run/user/0", "/tmp", "/tmp/.X11-unix", "/tmp/ssh-x", "/var/tmp", "/dev/shm", "@"} {
					name := dir + "/ralph-late"
					if dir == "@" {
						name = "@ralph-late-" + fmt.Sprint(os.Getpid())
					} else if os.MkdirAll(dir, 0o700) != nil {
						continue
					}
					for i, kind := range []string{"unix", "unixgram", "unixpacket"} {
						at := &net.UnixAddr{Name: name + fmt.Sprint(i), Net: kind}
						if kind == "unixgram" {
							if c, err := net.ListenUnixgram(kind, at); err == nil {
								defer c.Close()
								made = append(made, at.Name)
								if dir != "@" {
									defer os.Remove(at.Name)
								}
							}
						} else if l, err := net.ListenUnix(kind, at); err == nil {
							defer l.Close()
							made = append(made, at.Name)
						}
					}
				}
				w.file(filepath.Join(w.root, "names"), strings.Join(made, "\n"))
				if err := os.Rename(filepath.Join(w.root, "names"), filepath.Join(w.root, "made")); err != nil {
					t.Fatal(err)
				}
				<-job.Done()
				res, _ := job.Result()
				t.Logf("%d sockets", len(made))
				if out := res.Stdout.String(); len(made) < 6 || res.ExitCode != 0 || strings.Contains(out, "reached") {
					t.Errorf("exit %d, %d reached:\n%s", res.ExitCode, strings.Count(out, "reached"), out)
				}
			})
		}
	}
}
