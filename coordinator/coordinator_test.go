package coordinator_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/afero"
	"go.uber.org/goleak"

	"ralph/coordinator"
	"ralph/coordinator/permission"
	"ralph/coordinator/result"
	"ralph/memory/config"
	"ralph/memory/feature"
	"ralph/memory/identity"
	"ralph/memory/session"
	"ralph/workers/agent"
	"ralph/workers/exec"
	"ralph/workers/model/modeltest"
)

// TestMain gives the tests a home of their own, which keeps the configuration of
// the user and of the system out.
func TestMain(m *testing.M) {
	exec.Init()
	if root := os.Getenv(historianEnv); root != "" {
		if err := historian(root); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	if root := os.Getenv(foremanEnv); root != "" {
		if err := foreman(root); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	home, err := os.MkdirTemp("", "ralph-home-")
	if err != nil {
		panic(err)
	}
	for name, value := range map[string]string{"HOME": home, "XDG_CONFIG_HOME": "", "GIT_CONFIG_NOSYSTEM": "1"} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(home); err != nil {
			panic(err)
		}
		os.Exit(code)
	}))
}

// project is a project on the real disk, with a model on loopback.
type project struct {
	*testing.T
	root  string
	model *modeltest.Server
	flags map[string][]string
	// projectConfig is the text of the repository's own configuration.
	projectConfig string
	userConfig    string
	fs            afero.Fs
	session       string
	method        string // how processes are ended: "session" has no complete sandbox
	ask           func(context.Context, permission.Question) (string, error)
	lessons       func(dir string) []string
	environ       []string
	runs          int
	home          string // as the environment names it; "" is none
	// eye sees each event after it was kept.
	eye func(agent.Event)

	mu     sync.Mutex
	events []agent.Event
}

// newProject makes an empty git repository with one commit.
func newProject(t *testing.T, replies ...modeltest.Reply) *project {
	t.Helper()
	p := bareProject(t, replies...)
	p.git("init", "-q", ".")
	p.git("config", "user.name", "Test")
	p.git("config", "user.email", "test@localhost")
	p.git("commit", "-q", "--allow-empty", "-m", "first")
	return p
}

// bareProject is a project without git.
func bareProject(t *testing.T, replies ...modeltest.Reply) *project {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &project{T: t, root: root, model: modeltest.New(t, replies...), flags: map[string][]string{"sandbox": {"off"}}}
}

func (p *project) git(args ...string) string {
	p.Helper()
	c := osexec.Command("git", args...)
	c.Dir = p.root
	out, err := c.CombinedOutput()
	if err != nil {
		p.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (p *project) path(name string) string { return filepath.Join(p.root, name) }

func (p *project) write(name, text string) {
	p.Helper()
	if err := os.MkdirAll(filepath.Dir(p.path(name)), 0o755); err != nil {
		p.Fatal(err)
	}
	if err := os.WriteFile(p.path(name), []byte(text), 0o644); err != nil {
		p.Fatal(err)
	}
}

// read returns a file's text, "" when it is not there.
func (p *project) read(name string) string {
	p.Helper()
	text, err := os.ReadFile(p.path(name))
	if err != nil && !os.IsNotExist(err) {
		p.Fatal(err)
	}
	return string(text)
}

func (p *project) wantFile(name string, parts ...string) {
	p.Helper()
	text := p.read(name)
	for _, part := range parts {
		if !strings.Contains(text, part) {
			p.Errorf("%s lacks %q:\n%s", name, part, text)
		}
	}
}

// journal is what all journals of one-shots hold.
func (p *project) journal() string {
	p.Helper()
	return p.all(".ralph/runs/*/journal.jsonl")
}

func (p *project) all(pattern string) string {
	p.Helper()
	names, err := filepath.Glob(p.path(pattern))
	if err != nil {
		p.Fatal(err)
	}
	var b strings.Builder
	for _, n := range names {
		text, err := os.ReadFile(n)
		if err != nil {
			p.Fatal(err)
		}
		b.Write(text)
	}
	return b.String()
}

// options are those of a face; each call is another process's.
func (p *project) options() coordinator.Options {
	p.Helper()
	flags := map[string][]string{"base_url": {p.model.URL()}, "model": {"test-model"}}
	for k, v := range p.flags {
		flags[k] = v
	}
	src := config.Sources{Flags: flags, Environ: append([]string{"RALPH_API_KEY=key-that-is-secret"}, p.environ...)}
	if p.projectConfig != "" {
		p.write(".ralph/config.yaml", p.projectConfig)
		src.ProjectFile = p.path(".ralph/config.yaml")
	}
	if p.userConfig != "" {
		src.UserFile = filepath.Join(p.TempDir(), "config.yaml")
		if err := os.WriteFile(src.UserFile, []byte(p.userConfig), 0o600); err != nil {
			p.Fatal(err)
		}
	}
	cfg, err := config.Load(src)
	if err != nil {
		p.Fatal(err)
	}
	p.runs++
	runner := exec.New(exec.Options{Method: p.method, Init: exec.Self()})
	p.Cleanup(func() { _ = runner.Close(context.Background()) }) // of one that could not be opened
	holder := "one-shot"
	if p.session != "" {
		holder = "chat"
	}
	p.own()
	return coordinator.Options{
		Root: p.root, FS: p.fs, Config: cfg, Proc: runner, RunID: fmt.Sprintf("r-%d", p.runs), Holder: holder,
		Session: p.session, Eyes: p.see, Ask: p.ask, Lessons: p.lessons, Getenv: p.getenv,
	}
}

// getenv is an environment that holds nothing but a state directory of the user's
// beside the project.
func getenv(root string) func(string) string {
	return func(name string) string {
		if name == "RALPH_STATE_DIR" {
			return filepath.Join(filepath.Dir(root), "state")
		}
		return ""
	}
}

func (p *project) getenv(name string) string {
	switch {
	case p.home != "" && name == "HOME":
		return p.home
	case p.home != "" && name == "PATH":
		return os.Getenv(name)
	}
	return getenv(p.root)(name)
}

func (p *project) see(e agent.Event) {
	p.mu.Lock()
	p.events = append(p.events, e)
	p.mu.Unlock()
	if p.eye != nil {
		p.eye(e)
	}
}

// seen returns the events so far.
func (p *project) seen() []agent.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.events)
}

// types is the sequence of events but for the pieces of streams.
func (p *project) types() string {
	var out []string
	for _, e := range p.seen() {
		if e.Type != agent.EventMessageDelta {
			out = append(out, string(e.Type))
		}
	}
	return strings.Join(out, " ")
}

func (p *project) open() *coordinator.Coordinator {
	p.Helper()
	c, err := coordinator.Open(p.Context(), p.options())
	if err != nil {
		p.Fatalf("open: %v", err)
	}
	return c
}

// shut closes a coordinator, which must go well.
func (p *project) shut(c *coordinator.Coordinator) {
	p.Helper()
	if err := c.Close(); err != nil {
		p.Errorf("close: %v", err)
	}
}

// run opens the project, does one job and closes it again.
func (p *project) run(j coordinator.Job) result.Outcome { return p.runCtx(p.Context(), j) }

func (p *project) runCtx(ctx context.Context, j coordinator.Job) result.Outcome {
	p.Helper()
	if j.Task == "" {
		j.Task = "do it"
	}
	c := p.open()
	out := c.Run(ctx, j)
	p.shut(c)
	p.gapless()
	return out
}

// gapless checks the rules of an event stream: start first, numbers without a
// gap, one run, UTC.
func (p *project) gapless() {
	p.Helper()
	seq, run := int64(0), ""
	for i, e := range p.seen() {
		if e.RunID != run {
			run, seq = e.RunID, 0
		}
		seq++
		first := seq == 1
		if e.Seq != seq || (e.Type == agent.EventStart) != first || e.Agent == "" || e.Time.Location() != time.UTC {
			p.Errorf("event %d is %s with seq %d, want %d (agent %q, time %v)", i, e.Type, e.Seq, seq, e.Agent, e.Time)
		}
	}
}

// want checks how an outcome ended, and that it is complete.
func (p *project) want(out result.Outcome, status result.Status, parts ...string) {
	p.Helper()
	if out.Status != status {
		p.Errorf("status %s, want %s: %+v", out.Status, status, out)
	}
	if out.Reason == "" || out.StartedAt.IsZero() || (out.Failure == nil) != (status == result.Completed) {
		p.Errorf("the outcome is not complete: %+v", out)
	}
	if out.Failure != nil && out.Verified {
		p.Error("a failure is called verified")
	}
	text := out.Reason
	if out.Failure != nil {
		text += "\n" + out.Failure.Message + "\n" + out.Failure.Kind + "\n" + out.Failure.Hint
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			p.Errorf("the outcome does not say %q:\n%s", part, text)
		}
	}
	seen := map[string]bool{}
	for _, w := range out.Warnings {
		if seen[w] {
			p.Errorf("the warning %q is told twice", w)
		}
		seen[w] = true
	}
}

// asked is the n-th request, from 1.
func (p *project) asked(n int) modeltest.Request {
	p.Helper()
	list := p.model.Requests()
	if n > len(list) {
		p.Fatalf("there were %d requests, want %d", len(list), n)
	}
	return list[n-1]
}

func (p *project) wantRequests(n int) {
	p.Helper()
	if got := len(p.model.Requests()); got != n {
		p.Errorf("%d requests, want %d", got, n)
	}
}

// last is the last message of the n-th request.
func (p *project) last(n int) modeltest.Message {
	p.Helper()
	m := p.asked(n).Messages
	return m[len(m)-1]
}

func (p *project) warned(part string) bool {
	for _, e := range p.seen() {
		if e.Type == agent.EventWarning && strings.Contains(e.Text, part) {
			return true
		}
	}
	return false
}

// hash is a digest of everything below the root: names, kinds and contents.
func (p *project) hash() string {
	p.Helper()
	h := sha256.New()
	err := filepath.WalkDir(p.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fmt.Fprintln(h, path, d.Type())
		if d.Type().IsRegular() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			h.Write(text)
		}
		return nil
	})
	if err != nil {
		p.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func call(name string, args any) modeltest.Call {
	text, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return modeltest.Call{Name: name, Args: string(text)}
}

type m = map[string]any

func shell(command string) modeltest.Call { return call("shell", m{"command": command}) }

func write(path, text string) modeltest.Call {
	return call("write", m{"path": path, "content": text})
}

func finish(status, summary string) modeltest.Reply {
	return modeltest.Calls(call("finish", m{"status": status, "summary": summary, "confidence": 0.5}))
}

func calls(list ...modeltest.Call) modeltest.Reply { return modeltest.Calls(list...) }

func text(s string) modeltest.Reply { return modeltest.Text(s) }

// own makes state that a test put there the user's.
func (p *project) own() {
	fsys := p.fs
	if fsys == nil {
		fsys = afero.NewOsFs()
	}
	dir, home := filepath.Join(p.root, ".ralph"), identity.Home(getenv(p.root))
	if found, err := identity.Examine(fsys, home, dir); err == nil && found.Standing == identity.Foreign {
		_, _ = identity.Establish(fsys, home, dir) // on a disk that fails nothing is anybody's
	}
	found, err := identity.Examine(fsys, home, dir)
	if err != nil || found.Standing != identity.Own {
		return
	}
	strange, _ := session.Strange(fsys, dir, found.Record.Key)
	for _, name := range strange {
		_ = session.Seal(fsys, dir, name, found.Record.Key)
	}
	_ = feature.Seal(feature.Options{FS: fsys, StateDir: dir, Key: found.Record.Key}, "sessions")
}
