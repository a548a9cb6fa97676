package scripts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/afero"

	"ralph/coordinator"
	"ralph/coordinator/result"
	"ralph/memory/config"
	"ralph/memory/feature"
	"ralph/memory/identity"
	"ralph/memory/session"
	"ralph/workers/agent"
	"ralph/workers/model"
)

// fake is a scripted coordinator.
type fake struct {
	t       *testing.T
	opts    coordinator.Options
	openErr error
	work    func(context.Context, coordinator.Job) result.Outcome
	undo    func(int) (coordinator.Undone, error)

	opened  int
	jobs    []coordinator.Job
	records []json.RawMessage
	closed  int
	seq     int64

	closePanics bool
}

func (f *fake) open(_ context.Context, o coordinator.Options) (Coordinator, error) {
	f.opened++
	f.opts = o
	if f.openErr != nil {
		return nil, f.openErr
	}
	return f, nil
}

func (f *fake) Run(ctx context.Context, j coordinator.Job) result.Outcome {
	f.jobs = append(f.jobs, j)
	if f.work == nil {
		return result.Outcome{Status: result.Completed, Reason: "the model answered", Answer: "done", Turns: 1}
	}
	return f.work(ctx, j)
}

func (f *fake) Record(doc json.RawMessage) error {
	f.records = append(f.records, doc)
	return nil
}

func (f *fake) Undo(_ context.Context, n int, tell func([]string)) (coordinator.Undone, error) {
	tell([]string{"the branch goes back"})
	return f.undo(n)
}

func (f *fake) Redo(_ context.Context, n int, _ func([]string)) (coordinator.Undone, error) {
	return f.undo(-n)
}

func (f *fake) Endpoint() model.Endpoint {
	return model.Endpoint{Provider: "test", BaseURL: "http://127.0.0.1:1/v1", Model: "m-1"}
}

func (f *fake) Close() error {
	f.closed++
	if f.closePanics {
		panic("closing")
	}
	return nil
}

// emit sends an event as the coordinator does.
func (f *fake) emit(e agent.Event) {
	f.seq++
	e.Seq, e.RunID = f.seq, f.opts.RunID
	if e.Agent == "" {
		e.Agent = "ralph"
	}
	e.Time = f.opts.Now().UTC()
	f.opts.Eyes(e)
}

// bench runs the program in a directory of its own.
type bench struct {
	*testing.T
	dir    string
	env    map[string]string
	stdin  io.Reader
	stdout io.Writer // nil: out
	fake   *fake
	chat   func(context.Context, ChatOptions) (int, error)
	init   []string // of App; nil has no namespaces

	connect func(context.Context, *config.Config) (model.Endpoint, Client, error)
	out     bytes.Buffer
	err     bytes.Buffer
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	return &bench{T: t, dir: dir, env: map[string]string{"HOME": home, "PATH": os.Getenv("PATH")}, fake: &fake{t: t}}
}

func (b *bench) run(args ...string) int { return b.runCtx(b.Context(), args...) }

func (b *bench) runCtx(ctx context.Context, args ...string) int {
	b.Helper()
	return b.runWith(ctx, App{Open: b.fake.open}, args...)
}

// runWith runs the program with an App of which Open and Again are given.
func (b *bench) runWith(ctx context.Context, app App, args ...string) int {
	b.Helper()
	b.out.Reset()
	b.err.Reset()
	b.own()
	var environ []string
	for k, v := range b.env {
		environ = append(environ, k+"="+v)
	}
	stdout := b.stdout
	if stdout == nil {
		stdout = &b.out
	}
	return Main(ctx, App{
		Version: "1.2.3", Commit: "abc", Date: "2026-11-21", Stdin: b.stdin, Stdout: stdout, Stderr: &b.err,
		Getenv: func(k string) string { return b.env[k] }, Environ: environ, Dir: b.dir, Init: b.init,
		Open: app.Open, Again: app.Again, Chat: b.chat, Connect: b.connect,
	}, args)
}

// own makes state that a test put there the user's.
func (b *bench) own() {
	b.Helper()
	dir, home := filepath.Join(b.dir, ".ralph"), filepath.Join(b.env["HOME"], ".local", "state", "ralph")
	found, err := identity.Examine(afero.NewOsFs(), home, dir)
	if err == nil && found.Standing == identity.Foreign {
		_, err = identity.Establish(afero.NewOsFs(), home, dir)
	}
	if err == nil {
		found, err = identity.Examine(afero.NewOsFs(), home, dir)
	}
	if err == nil && found.Standing == identity.Own {
		var strange []string
		strange, err = session.Strange(afero.NewOsFs(), dir, found.Record.Key)
		for _, name := range strange {
			err = errors.Join(err, session.Seal(afero.NewOsFs(), dir, name, found.Record.Key))
		}
		err = errors.Join(err, feature.Seal(feature.Options{StateDir: dir, Key: found.Record.Key}, "sessions"))
	}
	if err != nil {
		b.Log(err)
	}
}

// file writes a file below the bench's directory and returns its path.
func (b *bench) file(name, text string) string {
	b.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		b.Fatal(err)
	}
	return path
}

// document decodes the last line of standard output.
func (b *bench) document() map[string]any {
	b.Helper()
	return decode(b.T, lastLine(b.out.String()))
}

func decode(t *testing.T, line string) map[string]any {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal([]byte(line), &doc); err != nil {
		t.Fatalf("not a JSON object: %v: %q", err, line)
	}
	return doc
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return lines[len(lines)-1]
}

func (b *bench) wantErr(parts ...string) {
	b.Helper()
	for _, p := range parts {
		if !strings.Contains(b.err.String(), p) {
			b.Errorf("standard error lacks %q:\n%s", p, b.err.String())
		}
	}
}
