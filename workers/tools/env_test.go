package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ralph/workers/agent"
	"ralph/workers/exec"
)

func TestMain(m *testing.M) {
	exec.Init()
	goleak.VerifyTestMain(m)
}

// fakeNotebook remembers what it was told.
type fakeNotebook struct {
	mu   sync.Mutex
	told []any
	err  error
}

func (n *fakeNotebook) tell(v any) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told = append(n.told, v)
	return fmt.Sprintf("stored %T", v), n.err
}

func (n *fakeNotebook) Task(_ context.Context, u TaskUpdate) (string, error) { return n.tell(u) }
func (n *fakeNotebook) Todo(_ context.Context, u TodoUpdate) (string, error) { return n.tell(u) }
func (n *fakeNotebook) Goal(_ context.Context, u GoalUpdate) (string, error) { return n.tell(u) }
func (n *fakeNotebook) Learn(_ context.Context, l Learning) (string, error)  { return n.tell(l) }
func (n *fakeNotebook) Decide(_ context.Context, c Choice) (string, error)   { return n.tell(c) }
func (n *fakeNotebook) Feature(_ context.Context, f Feature) (string, error) { return n.tell(f) }

// bench is a project to try tools in.
type bench struct {
	t    testing.TB
	root string
	env  *Env
	all  []agent.Tool
}

func newBench(t testing.TB, change ...func(*Env)) *bench {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	files, err := OpenWorkspace(root)
	if err != nil {
		t.Fatal(err)
	}
	runner := exec.New(exec.Options{Init: exec.Self()})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := runner.Close(ctx); err != nil {
			t.Error(err)
		}
		files.Close()
	})
	e := &Env{
		Root: root, Files: files, Proc: runner, Notebook: &fakeNotebook{},
		OutputDir: filepath.Join(root, ".ralph", "out"), OutputLabel: ".ralph/out",
	}
	for _, c := range change {
		c(e)
	}
	return &bench{t: t, root: root, env: e, all: All(e)}
}

func (b *bench) path(name string) string { return filepath.Join(b.root, name) }

func (b *bench) put(name, text string) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Dir(b.path(name)), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(b.path(name), []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) get(name string) string {
	b.t.Helper()
	data, err := os.ReadFile(b.path(name))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(data)
}

// args is a JSON object of pairs.
func args(pairs ...any) string {
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	data, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(data)
}

func (b *bench) try(tool string, pairs ...any) (agent.Result, error) {
	return b.tryCtx(context.Background(), tool, pairs...)
}

func (b *bench) tryCtx(ctx context.Context, tool string, pairs ...any) (agent.Result, error) {
	b.t.Helper()
	return b.tool(tool).Run(ctx, json.RawMessage(args(pairs...)))
}

func (b *bench) tool(name string) agent.Tool {
	b.t.Helper()
	for _, t := range b.all {
		if t.Name == name {
			return t
		}
	}
	b.t.Fatalf("no tool %q", name)
	return agent.Tool{}
}

// run expects the tool to work.
func (b *bench) run(tool string, pairs ...any) agent.Result {
	b.t.Helper()
	r, err := b.try(tool, pairs...)
	if err != nil {
		b.t.Fatalf("%s %v: %v", tool, pairs, err)
	}
	return r
}
