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
// sockets, in the home, in the project and elsewhere in the system: the command reaches
// none, as a stream or by datagrams.
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
				base := plainPlace(t)
				w.home, w.root = filepath.Join(base, "home"), filepath.Join(base, "project")
				w.file(filepath.Join(w.root, "late.py"), script)
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
				places := []string{base, w.root, w.root + "/run", "/var/lib/ralph-test", "/opt/ralph-test"}
				if network && method == "" {
					places = nil // who has the network may reach them
				}
				for _, dir := range append(places, w.home, w.home+"/.gnupg", w.home+"/.ssh", w.home+"/.docker/run", w.home+"/.local/share/containers/podman", w.home+"/.local/bin", w.home+"/.cache", "/run", "/run/user/0", "/tmp", "/tmp/.X11-unix", "/tmp/ssh-x", "/var/tmp", "/dev/shm", "@") {
					name := dir + "/ralph-late"
					if dir == "@" {
						name = "@ralph-late-" + fmt.Sprint(os.Getpid())
					} else if os.MkdirAll(dir, 0o700) != nil {
						continue
					}
					if strings.HasSuffix(dir, "/ralph-test") {
						defer os.Remove(dir)
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
				if !network && method == "" && !st.Active("guard of sockets") {
					t.Skip("no guard of sockets")
				}
				t.Logf("%d sockets", len(made))
				if out := res.Stdout.String(); len(made) < 6 || res.ExitCode != 0 || strings.Contains(out, "reached") {
					t.Errorf("exit %d, %d reached:\n%s", res.ExitCode, strings.Count(out, "reached"), out)
				}
			})
		}
	}
}

// TestOwnSockets has commands use sockets of their own in all the ways that servers and
// their clients do.
func TestOwnSockets(t *testing.T) {
	w := newWorld(t, false)
	if w.shell("command -v python3 || true", w.root) == "" {
		t.Skip("no python3")
	}
	w.file(filepath.Join(w.root, "own.py"), `
import asyncio, os, socket, socketserver, sys, tempfile, threading
deep = os.path.join(os.getcwd(), *["a" * 50] * 4)
os.makedirs(deep)
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        open("handled", "a").close()  # while others wait for their connection
        self.request.sendall(self.request.recv(100))
class Server(socketserver.ThreadingUnixStreamServer):
    request_queue_size = 1
def ask(name, kind=socket.SOCK_STREAM, family=socket.AF_UNIX):
    s = socket.socket(family, kind)
    s.connect(name)
    s.sendall(b"x")
    assert s.recv(10) == b"x", name
    s.close()
os.symlink("s", "link")
os.symlink(os.path.join(os.getcwd(), "dir"), "dirlink")
os.mkdir("dir")
for bind, names in (("s", ["s", "./s", os.path.abspath("s"), "link"]), ("dir/s", ["dirlink/s", "dir/../dir/s"]), (tempfile.mkdtemp() + "/s", None), ("\0own", None)):
    server = Server(bind, Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name in names or [bind]:
        clients = [threading.Thread(target=ask, args=(name,)) for i in range(20)]
        for c in clients: c.start()
        for c in clients: c.join()
fd = os.open(deep, os.O_RDONLY)
server = Server("/proc/self/fd/%d/s" % fd, Echo)
threading.Thread(target=server.serve_forever, daemon=True).start()
ask("/proc/self/fd/%d/s" % fd)
packet = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
packet.bind("packet"); packet.listen()
threading.Thread(target=lambda: (lambda c: c.send(c.recv(10)))(packet.accept()[0]), daemon=True).start()
ask("packet", socket.SOCK_SEQPACKET)
tcp = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo)
threading.Thread(target=tcp.serve_forever, daemon=True).start()
ask(tcp.server_address, family=socket.AF_INET)
six = socket.socket(socket.AF_INET6); six.bind(("::1", 0)); six.listen()
socket.create_connection(six.getsockname()[:2]).close()
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.connect(("127.0.0.1", 9)); udp.send(b"x")
async def main():
    async def serve(r, w): w.write(await r.read(1)); await w.drain(); w.close()
    await asyncio.start_unix_server(serve, "async")
    async def one():
        r, w = await asyncio.open_unix_connection("async"); w.write(b"x"); assert await r.read(1) == b"x"; w.close()
    await asyncio.gather(*[one() for i in range(50)])
asyncio.run(main())
a, b = socket.socketpair(); a.sendall(b"x"); assert b.recv(1) == b"x"
for name, want in (("absent", FileNotFoundError), ("own.py", ConnectionRefusedError), ("dir", ConnectionRefusedError), ("own.py/x", NotADirectoryError)):
    try: ask(name)
    except want: continue
    raise Exception(name)
dead = socket.socket(socket.AF_UNIX); dead.bind("dead"); dead.listen(); dead.close()
try: ask("dead"); raise Exception("dead")
except ConnectionRefusedError: pass
try: ask(("127.0.0.1", 9), family=socket.AF_INET); raise Exception("closed port")
except ConnectionRefusedError: pass
print("all")
`)
	s := w.open(nil)
	w.works(s, "timeout 60 python3 own.py | grep -q all")
}

// TestSocketsOfOthers has a command try to reach a socket of the user's by another name, and
// by exchanging what it has named while it connects. The result names the socket.
func TestSocketsOfOthers(t *testing.T) {
	w := newWorld(t, false)
	if w.shell("command -v python3 || true", w.root) == "" {
		t.Skip("no python3")
	}
	base := plainPlace(t)
	w.root = filepath.Join(base, "project")
	w.file(filepath.Join(w.root, "race.py"), `
import os, socket, threading, time
own = socket.socket(socket.AF_UNIX); own.bind("own"); own.listen(100)
os.symlink("theirs", "link")
try: os.link("theirs", "hard")
except OSError: pass
names = ["theirs", "./theirs", os.path.abspath("theirs"), "link", "hard", "/proc/self/cwd/theirs", "/proc/%d/cwd/theirs" % os.getpid(), "/proc/self/fd/%d/theirs" % os.open(".", os.O_RDONLY)]
for name in names:
    try: socket.socket(socket.AF_UNIX).connect(name); print("reached", name)
    except OSError: pass
os.symlink("own", "swap")
done = False
def swap():
    i = 0
    while not done:
        i += 1
        os.symlink(["own", "theirs"][i % 2], "next"); os.rename("next", "swap")
threading.Thread(target=swap).start()
n = tries = 0
while tries < 3000 or n == 0:
    tries += 1
    s = socket.socket(socket.AF_UNIX); s.settimeout(1)
    try:
        s.connect("swap"); n += 1
        if s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 4) != os.getpid().to_bytes(4, "little"): print("reached by a race")
        own.accept()[0].close()
    except OSError: pass
    s.close()
done = True
print("connected", n, "of", tries)
`)
	listener, err := net.Listen("unix", filepath.Join(w.root, "theirs"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	s := w.open(func(o *accesspolicy.Options) { o.Root, o.Project = w.root, w.root })
	if !accesspolicy.Check(w.runner).Active("guard of sockets") {
		t.Skip("no guard of sockets")
	}
	o := w.run(s, w.root, "python3 race.py", accesspolicy.Call{})
	if o.code != 0 || strings.Contains(o.out, "reached") {
		t.Errorf("exit %d: %.1000s", o.code, o.out)
	}
	t.Log(o.out)
	if !strings.Contains(strings.Join(o.rep.Denied, "\n"), "no connection to theirs") {
		t.Errorf("%q", o.rep.Denied)
	}
}

// TestNamesOfSockets has servers bind sockets in the project and beside it: each has the address
// that its program gave, by which Python's multiprocessing hands it on.
func TestNamesOfSockets(t *testing.T) {
	w := newWorld(t, false)
	if w.shell("command -v python3 || true", w.root) == "" {
		t.Skip("no python3")
	}
	w.file(filepath.Join(w.root, "serve.py"), `
import multiprocessing, os, socket
os.makedirs("d/e", exist_ok=True)
for name in "a.sock", "d/b.sock", os.getcwd() + "/d/e/c.sock", "d/../f.sock":
    s = socket.socket(socket.AF_UNIX); s.bind(name); s.listen()
    assert s.getsockname() == name, (s.getsockname(), name)
    socket.socket(socket.AF_UNIX).connect(name)
if __name__ == "__main__":
    with multiprocessing.Manager() as m:
        d = m.dict(); d[1] = 2
        print(dict(d))
`)
	s := w.open(nil)
	for _, command := range []string{"python3 serve.py", "rm -rf *.sock d; mkdir t; TMPDIR=$PWD/t python3 serve.py"} {
		if o := w.run(s, w.root, command, accesspolicy.Call{}); o.code != 0 || o.out != "{1: 2}\n" {
			t.Errorf("%s: exit %d\n%s", command, o.code, o.out)
		}
	}
}
