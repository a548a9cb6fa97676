package iteration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/afero"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"

	"ralph/memory/durable/faultfs"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ticking is a clock that goes on a second at each look.
func ticking() func() time.Time {
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	return func() time.Time { at = at.Add(time.Second); return at }
}

func read(t *testing.T, w *Writer) string {
	t.Helper()
	data, err := os.ReadFile(w.Path())
	must(t, err)
	return string(data)
}

func TestWriter(t *testing.T) {
	dir := t.TempDir()
	w := Begin(Options{Dir: dir, Now: ticking(), Redact: func(s string) string { return strings.ReplaceAll(s, "hunter2", "[redacted]") }},
		Head{Number: 7, Attempt: 2, Task: "T-12", Title: "Retry the\nupload", Agent: "ralph", Model: "m-1", Phase: "implementation"})
	if w.Path() != filepath.Join(dir, "iterations", "007-T-12.md") {
		t.Error(w.Path())
	}
	if got := read(t, w); !strings.Contains(got, "# Iteration 7: T-12: Retry the␊upload\n") || !strings.Contains(got, "- attempt: 2\n") {
		t.Errorf("%s", got)
	}
	w.Prompt("do it, the password is hunter2\n````\nnot the end\n## Outcome\n")
	w.Tool("edit", `{"path":"up.go"}`, true)
	// It is streamed: what was done stands there before the end.
	if got := read(t, w); !strings.Contains(got, "- edit `{\"path\":\"up.go\"}`\n") || strings.Contains(got, "hunter2") {
		t.Errorf("%s", got)
	}
	w.Tool("bash", "echo `x`\x1b[31m", false)
	w.Check(Check{Command: "go test ./...", Output: "FAIL\n```\nup_test.go:3", ExitCode: 1, Took: 1200 * time.Millisecond})
	w.Check(Check{Command: "make lint", TimedOut: true, ExitCode: -1, Took: time.Minute})
	w.Note("rate limit: waits 30s")
	w.Final("it is\ndone")
	confidence, cost := 0.85, 0.0123
	must(t, w.End(Outcome{Status: "done", Verified: true, Confidence: &confidence, Landing: "merged", Commit: "abc", Files: []string{"up.go"}, Tokens: 1200, CostUSD: &cost, Turns: 3, ToolCalls: 2}))
	got := read(t, w)
	for _, want := range []string{"## Tool calls\n\n- edit", "- bash ``echo `x`␛[31m`` (failed)\n", "- `go test ./...`: exit code 1, 1.2s\n", "  up_test.go:3\n", "- `make lint`: timed out, 1m0s\n", "rate limit: waits 30s",
		"## Final message\n\n```text\nit is\ndone\n```\n", "- status: done\n- verified: true\n- confidence: 0.85\n- merge: merged\n- commit: abc\n", "- spent: 3 turns, 2 tool calls, 1200 tokens\n- cost: $0.0123\n- file: up.go\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if h := headings(got); !equal(h, "Iteration 7: T-12: Retry the␊upload", "Prompt", "Tool calls", "Checks", "Notes", "Final message", "Outcome") {
		t.Errorf("%q\n%s", h, got)
	}
	w.Tool("late", "", true)
	must(t, w.Close())
	if read(t, w) != got {
		t.Error("it was written to after its end")
	}
	if info, err := os.Stat(w.Path()); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
}

func equal(got []string, want ...string) bool {
	return fmt.Sprint(got) == fmt.Sprint(want) && len(got) == len(want)
}

// headings are those that a reader of Markdown sees.
func headings(markdown string) []string {
	var found []string
	src := []byte(markdown)
	doc := goldmark.DefaultParser().Parse(text.NewReader(src))
	_ = ast.Walk(doc, func(n ast.Node, enter bool) (ast.WalkStatus, error) {
		if h, ok := n.(*ast.Heading); ok && enter {
			found = append(found, string(h.Lines().Value(src)))
		}
		return ast.WalkContinue, nil
	})
	return found
}

// FuzzText: no prompt, message or output ends its quotation.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "```", "# x\n~~~", "````\n## Outcome\n", "\r\n```\r\n# a", "`", "\x00\xff", "<!--", "- a\n\n# b", strings.Repeat("`", 100)} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		fsys := afero.NewMemMapFs()
		w := Begin(Options{FS: fsys, Dir: "/s", Now: ticking()}, Head{Number: 1, Task: a, Title: b})
		w.Prompt(a)
		w.Check(Check{Command: b, Output: a})
		w.Final(b)
		must(t, w.End(Outcome{Status: "done"}))
		data, err := afero.ReadFile(fsys, w.Path())
		must(t, err)
		if h := headings(string(data)); len(h) != 5 || h[1] != "Prompt" || h[2] != "Checks" || h[3] != "Final message" || h[4] != "Outcome" {
			t.Fatalf("%q\n%s", h, data)
		}
	})
}

func TestBounds(t *testing.T) {
	w := Begin(Options{Dir: t.TempDir(), Now: ticking()}, Head{Number: 1, Task: "x"})
	w.Prompt("BEGIN" + strings.Repeat("a", 5<<20) + "END")
	w.Check(Check{Command: "c", Output: "BEGIN" + strings.Repeat("é", 1<<20) + "LAST", ExitCode: 1})
	for range maxTools + 5 {
		w.Tool("read", strings.Repeat("p", 10_000), true)
	}
	must(t, w.End(Outcome{Status: "failed"}))
	got := read(t, w)
	if len(got) > 1<<20 || !strings.Contains(got, "BEGIN") || strings.Contains(got, "END\n") || !strings.Contains(got, "LAST") || !strings.Contains(got, "bytes are left out") || !strings.Contains(got, "- and 5 more\n") {
		t.Errorf("%d bytes", len(got))
	}
}

// An iteration that was cut off goes on in the same file, and both stand there.
func TestGoOn(t *testing.T) {
	o := Options{Dir: t.TempDir(), Now: ticking()}
	w := Begin(o, Head{Number: 3, Task: "T-1"})
	w.Prompt("first")
	w = Begin(o, Head{Number: 3, Task: "T-1"})
	w.Prompt("second")
	must(t, w.End(Outcome{Status: "done"}))
	got := read(t, w)
	if strings.Count(got, "# Iteration 3: T-1\n") != 2 || strings.Index(got, "first") > strings.Index(got, "second") || !strings.Contains(got, "\n\n---\n\n") {
		t.Errorf("%s", got)
	}
}

func TestName(t *testing.T) {
	for task, want := range map[string]string{"T-12": "012-T-12.md", "../../etc/passwd": "012-etc-passwd.md", "": "012-task.md", "US 001: log in": "012-US-001-log-in.md", "…": "012-task.md", ".x": "012-x.md",
		strings.Repeat("é", 100): "012-" + strings.Repeat("é", 25) + ".md", "日本": "012-日本.md", "a\x00b": "012-a-b.md"} {
		if got := Name(12, task); got != want {
			t.Errorf("%q: %q, want %q", task, got, want)
		}
	}
}

// A disk that takes nothing for a while costs nothing; one that never does is said.
func TestFaults(t *testing.T) {
	ff := faultfs.New(afero.NewMemMapFs())
	ff.Inject(faultfs.Fault{At: 1, Sticky: true, Ops: []string{"write"}, Err: syscall.ENOSPC})
	w := Begin(Options{FS: ff, Dir: "/s", Now: ticking()}, Head{Number: 1, Task: "x"})
	w.Prompt("the prompt")
	ff.Heal()
	w.Final("the end")
	must(t, w.End(Outcome{Status: "done"}))
	data, err := afero.ReadFile(ff, w.Path())
	must(t, err)
	if got := string(data); strings.Count(got, "# Iteration 1") != 1 || strings.Count(got, "the prompt") != 1 || strings.Count(got, "the end") != 1 {
		t.Errorf("%s", got)
	}
	ff.Inject(faultfs.Fault{At: 1, Sticky: true, Ops: []string{"open"}, Err: syscall.EROFS})
	w = Begin(Options{FS: ff, Dir: "/t", Now: ticking()}, Head{Number: 1, Task: "x"})
	w.Prompt(strings.Repeat("a", 2*maxWaiting))
	if err := w.End(Outcome{Status: "done"}); !errors.Is(err, syscall.EROFS) {
		t.Errorf("%v", err)
	}
}

func TestLinkIsRefused(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	must(t, os.WriteFile(victim, []byte("mine"), 0o600))
	must(t, os.MkdirAll(filepath.Join(dir, "iterations"), 0o700))
	must(t, os.Symlink(victim, filepath.Join(dir, "iterations", "001-x.md")))
	w := Begin(Options{Dir: dir}, Head{Number: 1, Task: "x"})
	if err := w.End(Outcome{}); err == nil {
		t.Error("it was written")
	}
	if data, _ := os.ReadFile(victim); string(data) != "mine" {
		t.Errorf("%q", data)
	}
}

func TestConcurrent(t *testing.T) {
	w := Begin(Options{Dir: t.TempDir()}, Head{Number: 1, Task: "x"})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 20 {
				w.Tool(fmt.Sprint("tool", i), "{}", true)
			}
		})
	}
	wg.Wait()
	must(t, w.End(Outcome{Status: "done"}))
	if n := strings.Count(read(t, w), "\n- tool"); n != 160 {
		t.Errorf("%d calls", n)
	}
}
