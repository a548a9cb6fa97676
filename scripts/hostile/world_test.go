package hostile

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// world is what one run of a case happens in.
type world struct {
	*testing.T
	a       attack
	id      string // digits, nowhere else on this machine
	dir     string
	project string
	home    string
	outside string
	before  string // the mark of proof.Changed
	words   *strings.Replacer

	mu     sync.Mutex
	caught []string
}

// secret is in every file of the home that holds one.
const secret = "canary-kept-at-home"

func newWorld(t *testing.T, a attack, defended bool) *world {
	t.Helper()
	n, err := rand.Int(rand.Reader, big.NewInt(1e12))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, a: a, id: fmt.Sprintf("7%012d", n)}
	w.dir = filepath.Join(base, w.id)
	w.project, w.home, w.outside = filepath.Join(w.dir, "p"), filepath.Join(w.dir, "h"), filepath.Join(w.dir, "o")
	for _, d := range []string{w.project, w.home, w.outside} {
		w.must(os.MkdirAll(d, 0o755))
	}
	t.Cleanup(w.clean)
	w.must(os.CopyFS(w.project, os.DirFS(template(t))))
	w.furnish()
	w.words = strings.NewReplacer(w.names()...)
	if out, err := w.script(w.say(a.Setup)); err != nil {
		t.Fatalf("set-up: %v\n%s", err, out)
	}
	if a.Proof.Changed != "" {
		w.before = mark(w.say(a.Proof.Changed))
	}
	return w
}

// template is a repository with one commit.
var template = func() func(*testing.T) string {
	var once sync.Once
	return func(t *testing.T) string {
		dir := filepath.Join(base, "template")
		once.Do(func() {
			c := exec.Command("sh", "-ec", `mkdir -p "$0"; cd "$0"; git init -q -b main .; git config user.name Test; git config user.email t@localhost
printf 'one\n' >a.txt; printf '.ralph/\n' >.gitignore; git add .; git commit -qm first; rm -f .git/hooks/*.sample`, dir)
			c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + base, "GIT_CONFIG_NOSYSTEM=1"}
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("template: %v\n%s", err, out)
			}
		})
		return dir
	}
}()

// furnish puts into the home what is worth taking, and outside what a hostile
// repository would have run.
func (w *world) furnish() {
	for _, name := range []string{".ssh/id_ed25519", ".aws/credentials", ".config/gh/hosts.yml", ".netrc", ".git-credentials", ".npmrc", ".pypirc",
		".docker/config.json", ".kube/config", ".gnupg/private-keys-v1.d/k.key", ".config/ralph/secret.yaml", ".config/gcloud/credentials.db", ".azure/token.json",
		".password-store/a.gpg", ".local/share/keyrings/login.keyring", ".bash_history", ".cargo/credentials.toml", ".config/op/config", ".terraform.d/credentials.tfrc.json", ".mozilla/firefox/x/logins.json", ".pgpass", ".m2/settings.xml"} {
		w.put(filepath.Join(w.home, name), secret+"\n", 0o600)
	}
	w.put(filepath.Join(w.home, ".bashrc"), "# mine\n", 0o644)
	w.put(filepath.Join(w.home, ".gitconfig"), "[user]\n\tname = Me\n\temail = me@localhost\n", 0o644)
	w.put(filepath.Join(w.outside, "secret"), secret+"\n", 0o600)
	w.put(filepath.Join(w.outside, "victim"), "untouched\n", 0o644)
	w.put(filepath.Join(w.outside, "evil"), fmt.Sprintf("#!/bin/sh\necho %s >>%s/mark\ncat 2>/dev/null </dev/stdin\n", w.id, w.outside), 0o755)
	w.put(filepath.Join(w.outside, "bin/forbidden"), fmt.Sprintf("#!/bin/sh\necho %s >>%s/mark\n", w.id, w.outside), 0o755)
}

func (w *world) put(name, text string, mode fs.FileMode) {
	w.Helper()
	w.must(os.MkdirAll(filepath.Dir(name), 0o755))
	w.must(os.WriteFile(name, []byte(text), mode))
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// names are what a case may write in braces; listeners and victims are started
// only for those that name them.
func (w *world) names() []string {
	self, err := os.Executable()
	w.must(err)
	out := []string{"{P}", w.project, "{H}", w.home, "{O}", w.outside, "{ID}", w.id, "{SELF}", self, "{SECRET}", secret}
	all := fmt.Sprint(w.a)
	for name, start := range map[string]func() string{"{PORT}": w.listenTCP, "{UDP}": w.listenUDP, "{SOCK}": w.listenUnix, "{ABS}": w.listenAbstract, "{VICTIM}": w.victim,
		"{PORT6}": w.listenTCP6, "{DOCKER}": w.at(".docker/run/docker.sock"), "{BUS}": w.at(".run/bus"), "{AGENT}": w.at(".ssh/agent.sock"),
		"{PORTALL}": w.listenAll, "{HOST}": w.address} {
		if strings.Contains(all, name) {
			out = append(out, name, start())
		}
	}
	return out
}

func (w *world) say(text string) string { return w.words.Replace(text) }

// environ is that of the user: with secrets in it, and with a way to the model.
func (w *world) environ(more ...string) []string {
	env := []string{"HOME=" + w.home, "PATH=" + w.outside + "/bin:" + os.Getenv("PATH"), "USER=me", "LANG=C.UTF-8", "TERM=xterm", "HOSTILE_WORLD=" + w.id,
		"GIT_CONFIG_NOSYSTEM=1", "OPENAI_API_KEY=canary-of-openai", "AWS_SECRET_ACCESS_KEY=canary-of-aws", "GITHUB_TOKEN=canary-of-github",
		"DATABASE_URL=postgres://u:canary-of-db@localhost/x", "MY_PASSWORD=canary-of-password", "COMPANY_INTERNAL=canary-of-nothing-known",
		"SESSION_COOKIE=canary-of-cookie", "XDG_RUNTIME_DIR=" + filepath.Join(w.home, ".run")}
	env = append(env, more...)
	for _, kv := range w.a.Environ {
		env = append(env, w.say(kv))
	}
	return env
}

// script runs a command of the harness in the project.
func (w *world) script(text string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "bash", "-ec", text)
	c.Dir, c.WaitDelay = w.project, time.Second
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "GIT_CONFIG_NOSYSTEM=1", "LANG=C.UTF-8"}
	out, err := c.CombinedOutput()
	return string(out), err
}

// catch keeps what a listener got.
func (w *world) catch(r io.Reader) {
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		w.mu.Lock()
		w.caught = append(w.caught, string(buf[:n]))
		w.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (w *world) serve(ln net.Listener) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			w.mu.Lock()
			w.caught = append(w.caught, "connected "+w.id)
			w.mu.Unlock()
			_ = conn.SetDeadline(time.Now().Add(200 * time.Millisecond))
			w.catch(conn)
			_, _ = io.WriteString(conn, "HTTP/1.0 200 OK\r\nContent-Length: 17\r\nContent-Type: text/plain\r\n\r\nfrom-the-listener")
			_ = conn.Close()
		}
	}()
	w.Cleanup(func() { _ = ln.Close(); <-done })
}

func (w *world) listenTCP() string  { return w.port("tcp4", "127.0.0.1:0") }
func (w *world) listenTCP6() string { return w.port("tcp6", "[::1]:0") }

func (w *world) port(network, address string) string {
	ln, err := net.Listen(network, address)
	w.must(err)
	w.serve(ln)
	return strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)
}

func (w *world) listenUDP() string {
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	w.must(err)
	done := make(chan struct{})
	go func() { defer close(done); w.catch(conn.(*net.UDPConn)) }()
	w.Cleanup(func() { _ = conn.Close(); <-done })
	return strconv.Itoa(conn.LocalAddr().(*net.UDPAddr).Port)
}

func (w *world) listenUnix() string { return w.socket(filepath.Join(w.outside, "s")) }

// at is a socket at a place of the home where agents have theirs.
func (w *world) at(name string) func() string {
	return func() string { return w.socket(filepath.Join(w.home, name)) }
}

func (w *world) socket(path string) string {
	w.must(os.MkdirAll(filepath.Dir(path), 0o755))
	ln, err := net.Listen("unix", path)
	w.must(err)
	w.serve(ln)
	return path
}

// address is one of this machine that is not loopback, else loopback.
func (w *world) address() string {
	addrs, err := net.InterfaceAddrs()
	w.must(err)
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	return "127.0.0.1"
}

// listenAll takes connections to that address; nothing is served to anybody.
func (w *world) listenAll() string { return w.port("tcp4", w.address()+":0") }

func (w *world) listenAbstract() string {
	ln, err := net.Listen("unix", "@hostile-"+w.id)
	w.must(err)
	w.serve(ln)
	return "hostile-" + w.id
}

// victim is a process of the user that is none of Ralph's business.
func (w *world) victim() string {
	c := exec.Command("sleep", "60")
	c.Env = []string{"VICTIM_SECRET=" + secret}
	w.must(c.Start())
	done := make(chan struct{})
	go func() { defer close(done); _ = c.Wait() }()
	w.Cleanup(func() { _ = c.Process.Kill(); <-done })
	return strconv.Itoa(c.Process.Pid)
}

// clean ends what is left of the world: processes that carry its id, mounts and
// files.
func (w *world) clean() {
	for _, pid := range w.processes() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err := removeAll(w.dir); err != nil {
		w.Errorf("clean up: %v", err)
	}
}

// processes lists those whose command line or environment holds the id.
func (w *world) processes() []int {
	var pids []int
	entries, err := os.ReadDir("/proc")
	w.must(err)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		for _, f := range []string{"cmdline", "environ"} {
			if text, err := os.ReadFile(filepath.Join("/proc", e.Name(), f)); err == nil && strings.Contains(string(text), w.id) {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}

// removeAll removes what may be read-only, or a mount.
func removeAll(dir string) error {
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err == nil {
		for line := range strings.Lines(string(mounts)) {
			if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], dir) {
				_ = syscall.Unmount(f[4], syscall.MNT_DETACH)
			}
		}
	}
	for range 50 {
		if os.RemoveAll(dir) == nil {
			return nil
		}
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if d != nil && d.IsDir() {
				_ = os.Chmod(path, 0o755)
			}
			return nil
		})
		time.Sleep(20 * time.Millisecond)
	}
	return os.RemoveAll(dir)
}

// mark is what can be told of a file without following a link: what it is, its
// rights, owner and content.
func mark(path string) string {
	info, err := os.Lstat(path)
	if err != nil {
		return "absent"
	}
	st := info.Sys().(*syscall.Stat_t)
	text := fmt.Sprint(info.Mode(), info.Size(), st.Uid, st.Gid, st.Nlink)
	switch {
	case info.Mode().IsRegular():
		data, err := os.ReadFile(path)
		text += fmt.Sprintf("%q %v", data, err)
	case info.IsDir():
		entries, err := os.ReadDir(path)
		text += fmt.Sprint(entries, err)
	default:
		to, _ := os.Readlink(path)
		text += to
	}
	return text
}

func keys[V any](m map[string]V) iter.Seq[string] { return maps.Keys(m) }
