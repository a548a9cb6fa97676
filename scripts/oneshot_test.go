package scripts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/workers/agent"
	"ralph/workers/git"
)

func full() result.Outcome {
	cost := 0.25
	return result.Outcome{
		Status: result.Completed, Verified: true, Reason: "the model answered, and it was checked",
		Answer: "done <b> & \u2028 ok", Turns: 3, Usage: agent.Usage{Input: 10, CachedInput: 4, Output: 5, Reasoning: 1, Total: 15},
		CostUSD: &cost, APITime: 1500 * time.Millisecond, ToolCalls: result.ToolCount{Total: 4, Failed: 1, Denied: 1},
		FilesChanged: []git.FileChange{{Path: "a.go", Kind: git.Modified, Added: 3, Removed: 1}, {Path: "b.png", Kind: git.Added, Added: -1, Removed: -1}},
		Commands:     []agent.CommandRun{{Command: "go test ./...", ExitCode: 1, Duration: 2 * time.Second, TimedOut: true}},
		Commits:      []string{"0123456789012345678901234567890123456789"},
		Denials:      []result.Denial{{Tool: "shell", Args: json.RawMessage(`{"command":`), Rule: "no"}, {Tool: "fetch", Args: json.RawMessage("{\"url\":\"\xff\"}"), Rule: "x"}},
		Check:        &result.Check{Command: "make test", ExitCode: 0, Source: "flag", Tree: "worktree"}, Tasks: result.TaskCount{Done: 1, Open: 2},
		Warnings: []string{"careful"}, StateFiles: []string{"RALPH_TASKS.md"}, LogFile: ".ralph/sessions/x/journal.jsonl", SessionID: "session-001-x",
	}
}

func TestResultDocument(t *testing.T) {
	b := newBench(t)
	b.fake.work = func(context.Context, coordinator.Job) result.Outcome { return full() }
	if code := b.run("--json", "--session", "new", "do it"); code != 0 {
		t.Fatalf("exit %d: %s", code, b.err.String())
	}
	text := b.out.String()
	if strings.Count(text, "\n") != 1 || strings.Contains(text, `\u003c`) || strings.Contains(text, "\xff") {
		t.Errorf("not one line of plain JSON: %q", text)
	}
	checkResult(t, text)
	var r Result
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	if !r.OK || !r.Verified || *r.Result != "done <b> & \u2028 ok" || *r.Model != "m-1" || *r.Provider != "test" || *r.ProjectRoot != b.dir ||
		r.APIMS != 1500 || *r.CostUSD != 0.25 || r.Commands[0].DurationMS != 2000 || r.Files[1].Added != -1 || *r.SessionID != "session-001-x" ||
		r.Check.Command != "make test" || r.Tasks.Open != 2 || *r.LogFile != ".ralph/sessions/x/journal.jsonl" || len(r.Warnings) != 1 {
		t.Errorf("document: %s", text)
	}
	if string(r.Denials[0].Args) != `"{\"command\":"` {
		t.Errorf("broken arguments became %s", r.Denials[0].Args)
	}
	if string(b.fake.records[0]) != strings.TrimSuffix(text, "\n") {
		t.Error("the recorded document differs from the printed one")
	}
	if b.fake.opts.Session != "new" || b.fake.opts.Holder != "one-shot" || b.fake.opts.RunID != r.RunID || b.fake.opts.Ask != nil {
		t.Errorf("options: %+v", b.fake.opts)
	}
	b.wantErr("ralph: warning: careful", "ralph: completed", "$0.2500", "verified")
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		status result.Status
		signal int
		code   int
	}{
		{result.Completed, 0, 0}, {result.Failed, 0, 1}, {result.Usage, 0, 2}, {result.ConfigError, 0, 3},
		{result.ProviderError, 0, 4}, {result.NeedsInput, 0, 5}, {result.Denied, 0, 5}, {result.Limit, 0, 6},
		{result.SchemaMismatch, 0, 7}, {result.Locked, 0, 8}, {result.RetryLater, 0, 75}, {result.Timeout, 0, 124},
		{result.Interrupted, 1, 129}, {result.Interrupted, 2, 130}, {result.Interrupted, 15, 143}, {result.Interrupted, 0, 130},
		{"odd", 0, 1},
	} {
		for _, form := range []string{"text", "json", "jsonl"} {
			b := newBench(t)
			b.fake.work = func(context.Context, coordinator.Job) result.Outcome {
				o := result.Outcome{Status: c.status, Signal: c.signal, Answer: "so far", Reason: "because"}
				if c.status != result.Completed {
					o.Failure = &result.Failure{Kind: "k", Message: "it broke", Hint: "mend it", Retryable: true, HTTPStatus: 503, RetryAfter: 1500 * time.Millisecond}
				}
				return o
			}
			if code := b.run("--output", form, "do it"); code != c.code {
				t.Errorf("%s %d %s: exit %d, want %d", c.status, c.signal, form, code, c.code)
			}
			if c.code != 0 {
				b.wantErr("ralph: error: it broke\nralph: hint: mend it\n")
			}
			if form == "text" {
				if b.out.String() != "so far\n" {
					t.Errorf("%s: standard output %q", c.status, b.out.String())
				}
				continue
			}
			if c.status != "odd" {
				checkResult(t, lastLine(b.out.String()))
			}
			doc := b.document()
			if doc["exit_code"] != float64(c.code) || doc["status"] != string(c.status) || doc["result"] != "so far" {
				t.Errorf("document: %v", doc)
			}
			if e, _ := doc["error"].(map[string]any); c.code != 0 && (e["retry_after_s"] != 1.5 || e["http_status"] != 503.0) {
				t.Errorf("error: %v", e)
			}
		}
	}
}

// TestErrorsHaveAWayOut checks that no error comes without a hint.
func TestErrorsHaveAWayOut(t *testing.T) {
	for _, s := range []result.Status{
		result.Failed, result.ConfigError, result.ProviderError, result.NeedsInput, result.Limit,
		result.SchemaMismatch, result.Locked, result.RetryLater, result.Timeout, result.Interrupted,
	} {
		for _, kind := range []string{"internal", "server", "rejected", "incomplete", "io"} {
			b := newBench(t)
			b.fake.work = func(context.Context, coordinator.Job) result.Outcome {
				return result.Outcome{Status: s, Failure: &result.Failure{Kind: kind, Message: "it broke"}}
			}
			b.run("--json", "x")
			b.wantErr("ralph: hint: ")
			if e, _ := b.document()["error"].(map[string]any); e["hint"] == nil {
				t.Errorf("%s, %s: %v", s, kind, e)
			}
		}
	}
}

func TestOpenErrors(t *testing.T) {
	b := newBench(t)
	b.fake.openErr = &result.Error{Op: "open state", Path: "x", Err: errors.New("held"), Hint: "wait", Status: result.Locked}
	if code := b.run("--output", "jsonl", "do it"); code != 8 {
		t.Errorf("exit %d", code)
	}
	events := checkEvents(t, b.out.String())
	if len(events) != 2 || events[1]["status"] != "locked" || events[0]["run_id"] != events[1]["run_id"] {
		t.Errorf("events: %s", b.out.String())
	}
	b.wantErr(`ralph: error: open state "x": held`, "ralph: hint: wait")
}

func TestConfigError(t *testing.T) {
	b := newBench(t)
	b.env["XDG_CONFIG_HOME"] = b.dir
	b.file("ralph/config.yaml", "output: json\nmax_turn: 3\n")
	if code := b.run("do it"); code != 3 {
		t.Errorf("exit %d", code)
	}
	doc := b.document() // the file asks for JSON, and is obeyed as far as it goes
	if doc["status"] != "config_error" {
		t.Errorf("document: %v", doc)
	}
	b.wantErr("config.yaml:2", "max_turn")
}

func TestProjectRoot(t *testing.T) {
	b := newBench(t)
	if err := os.MkdirAll(filepath.Join(b.dir, "repo/.git/objects"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.file("repo/.git/HEAD", "ref: refs/heads/main\n")
	if err := os.MkdirAll(filepath.Join(b.dir, "repo/.git/refs"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.file("repo/sub/a.txt", "A")
	b.file("repo/b.txt", "B")
	b.file("schema.json", `{"type":"object"}`)
	args := []string{"-C", "repo/sub", "--files", "*.txt", "--files", "../b.txt", "--schema", "schema.json",
		"--result-file", "r.json", "--last-message", "m.txt", "do it"}
	if code := b.run(args...); code != 0 {
		t.Fatalf("exit %d: %s", code, b.err.String())
	}
	if b.fake.opts.Root != filepath.Join(b.dir, "repo") {
		t.Errorf("root %q", b.fake.opts.Root)
	}
	j := b.fake.jobs[0]
	if fmt.Sprint(j.Files) != "[{sub/a.txt A} {b.txt B}]" || string(j.Schema) != `{"type":"object"}` {
		t.Errorf("job: %+v", j)
	}
	// The files that flags name lie where the command was given.
	if data, err := os.ReadFile(filepath.Join(b.dir, "m.txt")); err != nil || string(data) != "done" {
		t.Errorf("last message: %q, %v", data, err)
	}
	data, err := os.ReadFile(filepath.Join(b.dir, "r.json"))
	if err != nil {
		t.Fatal(err)
	}
	checkResult(t, string(data))
}

func TestPlacesThatAreNoProject(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"r/.git/HEAD", "r/.git/objects/x", "r/.git/refs/x", "bare.git/HEAD", "bare.git/objects/x", "bare.git/refs/x", "bare.git/tree/.git"} {
		b.file(name, "gitdir: ..\n")
	}
	for dir, want := range map[string]string{
		"r/.git": "belongs to git itself", "r/.git/objects": "belongs to git itself", "bare.git": "belongs to git itself", "r/.git/HEAD": "is not a directory",
	} {
		if code := b.run("--json", "-C", dir, "x"); code != 2 || b.fake.opened > 0 {
			t.Errorf("%s: exit %d, opened %d times", dir, code, b.fake.opened)
		}
		b.wantErr(want, "ralph: hint: ")
	}
	// A work tree below a bare repository is a place to work in.
	if code := b.run("-C", "bare.git/tree", "x"); code != 0 {
		t.Errorf("a work tree: exit %d: %s", code, b.err.String())
	}
	// A command may make a repository's files in a project: it stays one.
	for _, project := range []string{"a/.git", "b/.ralph/x"} {
		dir := filepath.Dir(strings.TrimSuffix(project, "/x"))
		for _, name := range []string{project, dir + "/HEAD", dir + "/objects/x", dir + "/refs/x"} {
			b.file(name, "gitdir: ..\n")
		}
		if code := b.run("-C", dir, "x"); code != 0 {
			t.Errorf("%s: exit %d: %s", project, code, b.err.String())
		}
	}
	// A directory that is gone has no path.
	b = newBench(t)
	b.dir = "."
	if code := b.run("--json", "x"); code != 2 || b.fake.opened > 0 {
		t.Errorf("gone: exit %d, opened %d times", code, b.fake.opened)
	}
	b.wantErr("the current directory is gone", "ralph: hint: ")
	if b.document()["project_root"] != nil || strings.Contains(b.err.String(), "warning") {
		t.Errorf("gone: %s%s", b.out.String(), b.err.String())
	}
}

func TestResultFileOnEveryPath(t *testing.T) {
	for name, args := range map[string][]string{
		"usage":  {"--result-file", "r.json", "--bogus"},
		"parsed": {"--result-file", "r.json", "-C", "nowhere", "x"},
		"equals": {"--bogus", "--result-file=r.json"},
		"panic":  {"--result-file", "r.json", "x"},
	} {
		b := newBench(t)
		t.Setenv("TMPDIR", t.TempDir()) // for the stack
		b.fake.work = func(context.Context, coordinator.Job) result.Outcome { panic("boom") }
		b.run(args...)
		data, err := os.ReadFile(filepath.Join(b.dir, "r.json"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		checkResult(t, string(data))
	}
}

func TestFilesThatCannotBeWritten(t *testing.T) {
	// What can be seen to be no file to write is refused before any work.
	for _, flag := range []string{"--result-file", "--last-message"} {
		b := newBench(t)
		b.file("dir/x", "")
		if err := os.Symlink("dir/x", filepath.Join(b.dir, "link")); err != nil {
			t.Fatal(err)
		}
		for path, why := range map[string]string{
			"no/such/dir/f": "no such file or directory", "dir": "is a directory", "dir/x/f": "not a directory", "link": "symbolic link",
		} {
			if code := b.run("--json", flag, path, "x"); code != 2 || b.fake.opened > 0 {
				t.Errorf("%s %s: exit %d, opened %d times", flag, path, code, b.fake.opened)
			}
			checkResult(t, b.out.String())
			b.wantErr("ralph: error: "+flag, path, why, "ralph: hint: ")
			if strings.Contains(b.err.String(), "warning") {
				t.Errorf("told twice: %s", b.err.String())
			}
		}
	}
	// What comes up later fails the run.
	gone := func(b *bench, o result.Outcome) {
		b.file("out/x", "")
		b.fake.work = func(context.Context, coordinator.Job) result.Outcome {
			if err := os.RemoveAll(filepath.Join(b.dir, "out")); err != nil {
				t.Error(err)
			}
			return o
		}
	}
	for _, flag := range []string{"--result-file", "--last-message"} {
		b := newBench(t)
		gone(b, result.Outcome{Status: result.Completed, Answer: "done"})
		if code := b.run("--json", flag, "out/f", "x"); code != 1 {
			t.Errorf("%s: exit %d", flag, code)
		}
		checkResult(t, b.out.String())
		if doc := b.document(); doc["status"] != "failed" || doc["exit_code"] != 1.0 || doc["result"] != "done" {
			t.Errorf("%s: document %v", flag, doc)
		}
		b.wantErr("ralph: error: write ", "out/f\": no such file or directory\n")
	}
	b := newBench(t)
	gone(b, result.Outcome{Status: result.Limit, Failure: &result.Failure{Kind: "limit", Message: "used up"}})
	if code := b.run("--json", "--result-file", "out/f", "x"); code != 6 {
		t.Errorf("what went wrong first keeps its code: exit %d", code)
	}
	b.wantErr("ralph: warning: write result file", "ralph: error: used up")
}

// TestResultGoesToAPipe writes the document where no file is to be replaced.
func TestResultGoesToAPipe(t *testing.T) {
	b := newBench(t)
	name := filepath.Join(b.dir, "fifo")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if code := b.run("--result-file", "fifo", "x"); code != 0 {
		t.Fatalf("exit %d: %s", code, b.err.String())
	}
	buf := make([]byte, 64<<10)
	n, err := r.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	checkResult(t, string(buf[:n]))
	if info, err := os.Lstat(name); err != nil || info.Mode().IsRegular() {
		t.Errorf("the pipe was replaced: %v, %v", info, err)
	}
	if code := b.run("--result-file", os.DevNull, "x"); code != 0 {
		t.Errorf("%s: exit %d: %s", os.DevNull, code, b.err.String())
	}
}

func TestPanic(t *testing.T) {
	b := newBench(t)
	t.Setenv("TMPDIR", t.TempDir())
	b.fake.work = func(context.Context, coordinator.Job) result.Outcome { panic("boom") }
	if code := b.run("--output", "jsonl", "x"); code != 1 {
		t.Errorf("exit %d", code)
	}
	events := checkEvents(t, b.out.String())
	doc := events[len(events)-1]
	if doc["error"].(map[string]any)["kind"] != "internal" || doc["status"] != "failed" {
		t.Errorf("document: %v", doc)
	}
	if strings.Contains(b.err.String(), "goroutine") {
		t.Errorf("a stack on standard error: %s", b.err.String())
	}
	stack, err := os.ReadFile(doc["log_file"].(string))
	if err != nil || !bytes.Contains(stack, []byte("goroutine")) {
		t.Errorf("stack: %v", err)
	}
	if b.fake.closed != 1 {
		t.Error("the coordinator was not closed")
	}
	b.run("--verbose", "x")
	b.wantErr("goroutine", "boom")
	// After the result is out there is no second one.
	b = newBench(t)
	b.fake.closePanics = true
	if code := b.run("--json", "x"); code != 1 || strings.Count(b.out.String(), "\n") != 1 || b.document()["status"] != "completed" {
		t.Errorf("a panic while closing: exit %d: %s", code, b.out.String())
	}
	b.wantErr("internal error: closing")
}

func TestSignals(t *testing.T) {
	for sig, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129} {
		b := newBench(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(&interrupts.Stop{Signal: sig})
		b.fake.work = func(ctx context.Context, _ coordinator.Job) result.Outcome {
			<-ctx.Done()
			status, failure := coordinator.Fail(context.Cause(ctx))
			return result.Outcome{Status: status, Signal: int(sig), Failure: failure, Answer: "half"}
		}
		if got := b.runCtx(ctx, "--json", "x"); got != code {
			t.Errorf("%s: exit %d, want %d", sig, got, code)
		}
		if doc := b.document(); doc["status"] != "interrupted" || doc["exit_code"] != float64(code) || doc["result"] != "half" {
			t.Errorf("document: %v", doc)
		}
		// The signal may come before the work begins.
		b.fake.openErr = &interrupts.Stop{Signal: sig}
		if got := b.runCtx(ctx, "--json", "x"); got != code {
			t.Errorf("%s while opening: exit %d, want %d", sig, got, code)
		}
		checkResult(t, b.out.String())
	}
}

func TestTimeout(t *testing.T) {
	b := newBench(t)
	b.fake.work = func(ctx context.Context, _ coordinator.Job) result.Outcome {
		<-ctx.Done()
		status, failure := coordinator.Fail(context.Cause(ctx))
		return result.Outcome{Status: status, Failure: failure}
	}
	if code := b.run("--timeout", "20ms", "--json", "x"); code != 124 {
		t.Errorf("exit %d", code)
	}
	r, w := pipe(t)
	defer w.Close()
	b.stdin = r
	if code := b.run("--timeout", "20ms", "--json", "-"); code != 124 {
		t.Errorf("waiting for the task: exit %d: %s", code, b.err.String())
	}
	checkResult(t, b.out.String())
}

// brokenPipe is a standard output whose reader goes away after some bytes.
type brokenPipe struct {
	left int
	err  error
	buf  bytes.Buffer
}

func (p *brokenPipe) Write(b []byte) (int, error) {
	if p.left -= len(b); p.left < 0 {
		return 0, p.err
	}
	return p.buf.Write(b)
}

func TestBrokenOutput(t *testing.T) {
	b := newBench(t)
	b.stdout = &brokenPipe{left: 400, err: syscall.EPIPE}
	b.fake.work = func(ctx context.Context, _ coordinator.Job) result.Outcome {
		b.fake.emit(agent.Event{Type: agent.EventStart})
		for range 100 {
			b.fake.emit(agent.Event{Type: agent.EventWarning, Text: "more"})
		}
		status, failure := coordinator.Fail(context.Cause(ctx))
		var stop *interrupts.Stop
		if !errors.As(context.Cause(ctx), &stop) {
			t.Fatal("the work was not ended")
		}
		return result.Outcome{Status: status, Signal: int(stop.Signal), Failure: failure}
	}
	if code := b.run("--output", "jsonl", "--result-file", "r.json", "x"); code != 128+13 {
		t.Errorf("exit %d", code)
	}
	left, _ := os.ReadFile(filepath.Join(b.dir, "r.json"))
	if doc := decode(t, string(left)); doc["reason"] != "the reader of standard output went away" {
		t.Errorf("reason: %v", doc["reason"])
	}
	if strings.Contains(b.err.String(), "error") || strings.Contains(b.err.String(), "hint") {
		t.Errorf("not quiet: %s", b.err.String())
	}
	// A full disk is no reader that went away.
	b = newBench(t)
	b.stdout = &brokenPipe{err: syscall.ENOSPC}
	if code := b.run("--json", "--result-file", "r.json", "x"); code != 1 {
		t.Errorf("full disk: exit %d", code)
	}
	b.wantErr("ralph: error: write standard output: no space left on device")
	data, _ := os.ReadFile(filepath.Join(b.dir, "r.json"))
	if doc := decode(t, string(data)); doc["exit_code"] != 1.0 {
		t.Errorf("the result file says %v", doc["exit_code"])
	}
	// Nor is it in a stream of events, where it ends the work.
	b = newBench(t)
	b.stdout = &brokenPipe{left: 100, err: syscall.ENOSPC}
	b.fake.work = func(ctx context.Context, _ coordinator.Job) result.Outcome {
		b.fake.emit(agent.Event{Type: agent.EventStart})
		b.fake.emit(agent.Event{Type: agent.EventWarning, Text: strings.Repeat("x", 100)})
		status, failure := coordinator.Fail(context.Cause(ctx))
		return result.Outcome{Status: status, Failure: failure}
	}
	if code := b.run("--output", "jsonl", "--result-file", "r.json", "x"); code != 1 {
		t.Errorf("full disk, events: exit %d", code)
	}
	const full = "write standard output: no space left on device"
	if strings.Count(b.err.String(), full) != 1 {
		t.Errorf("not told once: %s", b.err.String())
	}
	data, _ = os.ReadFile(filepath.Join(b.dir, "r.json"))
	if e, _ := decode(t, string(data))["error"].(map[string]any); e["kind"] != "io" || e["message"] != full || e["hint"] == nil {
		t.Errorf("the result file says %v", e)
	}
	if code := b.run("version"); code != 1 || strings.Count(b.err.String(), full) != 1 {
		t.Errorf("version on a full disk: exit %d: %s", code, b.err.String())
	}
	// The answer that nobody reads any more changes nothing.
	b = newBench(t)
	b.stdout = &brokenPipe{err: syscall.EPIPE}
	if code := b.run("x"); code != 0 {
		t.Errorf("closed pipe at the end: exit %d", code)
	}
	if strings.Contains(b.err.String(), "error") {
		t.Errorf("not quiet: %s", b.err.String())
	}
}

func TestTextAnswer(t *testing.T) {
	for _, c := range []struct{ answer, structured, want string }{
		{"plain", "", "plain\n"},
		{"with newline\n", "", "with newline\n"},
		{"", "", ""},
		{"esc \x1b[31m and \u202e stay in a pipe", "", "esc \x1b[31m and \u202e stay in a pipe\n"},
		{"Here you are: {\"a\":1}", `{"a":1}`, "{\"a\":1}\n"},
	} {
		b := newBench(t)
		b.fake.work = func(context.Context, coordinator.Job) result.Outcome {
			return result.Outcome{Status: result.Completed, Answer: c.answer, Structured: json.RawMessage(c.structured)}
		}
		b.run("x")
		if b.out.String() != c.want {
			t.Errorf("%q: standard output %q", c.answer, b.out.String())
		}
	}
}

func TestEventStream(t *testing.T) {
	b := newBench(t)
	b.fake.work = func(context.Context, coordinator.Job) result.Outcome {
		yes, no, ms, code := true, false, int64(1200), 1
		f := b.fake
		f.emit(agent.Event{Type: agent.EventStart, Model: "m-1", Root: b.dir, Sandbox: "off"})
		f.emit(agent.Event{Type: agent.EventTurnStart, Turn: 1})
		f.emit(agent.Event{Type: agent.EventMessageDelta, Turn: 1, Text: "hel<lo>\xff"})
		f.emit(agent.Event{Type: agent.EventReasoning, Turn: 1, Text: "hm"})
		f.emit(agent.Event{Type: agent.EventMessage, Turn: 1, Text: "hello"})
		f.emit(agent.Event{Type: agent.EventToolStart, Turn: 1, CallID: "c1", Tool: "shell", Args: json.RawMessage(`{"command":"x`)})
		f.emit(agent.Event{Type: agent.EventToolEnd, Turn: 1, CallID: "c1", Tool: "shell", Text: "exit 1", Output: "o", OK: &no, ExitCode: &code, DurationMS: &ms})
		f.emit(agent.Event{Type: agent.EventRetry, Attempt: 1, WaitMS: 10, Reason: "503"})
		f.emit(agent.Event{Type: agent.EventGate, Text: "make", OK: &yes, DurationMS: &ms})
		f.emit(agent.Event{Type: agent.EventUsage, Turn: 1, Usage: &agent.Usage{Total: 5}})
		f.emit(agent.Event{Type: agent.EventWarning, Text: "careful"})
		return full()
	}
	if code := b.run("--output", "jsonl", "x"); code != 0 {
		t.Fatalf("exit %d: %s", code, b.err.String())
	}
	events := checkEvents(t, b.out.String())
	if len(events) != 12 || events[2]["text"] != "hel<lo>\uFFFD" || events[5]["args"] != `{"command":"x` {
		t.Errorf("events: %s", b.out.String())
	}
	if !strings.HasPrefix(lastLine(b.out.String()), `{"type":"result","seq":12,"time":"`) || events[11]["agent"] != "ralph" {
		t.Errorf("last line: %s", lastLine(b.out.String()))
	}
	if strings.Count(b.err.String(), "careful") != 1 {
		t.Errorf("standard error: %q", b.err.String())
	}
}

func TestProgress(t *testing.T) {
	work := func(b *bench) {
		yes, no, ms, code := true, false, int64(2500), 2
		f := b.fake
		f.emit(agent.Event{Type: agent.EventStart, Model: "m-1", Sandbox: "off"})
		f.emit(agent.Event{Type: agent.EventReasoning, Text: "I think\ntherefore"})
		f.emit(agent.Event{Type: agent.EventToolStart, CallID: "1", Tool: "read", Args: json.RawMessage(`{"path":"a\u001b[2Jb.go"}`)})
		f.emit(agent.Event{Type: agent.EventToolEnd, CallID: "1", Tool: "read", Text: "12 lines", Output: "package a\nfunc", OK: &yes})
		f.emit(agent.Event{Type: agent.EventToolStart, CallID: "2", Tool: "shell", Args: json.RawMessage(`{"command":"go test ./..."}`)})
		f.emit(agent.Event{Type: agent.EventToolEnd, CallID: "2", Tool: "shell", Text: "exit 2", OK: &no, ExitCode: &code, DurationMS: &ms})
		f.emit(agent.Event{Type: agent.EventToolEnd, CallID: "3", Tool: "nosuch", Output: "there is no tool \"nosuch\"\nthe tools are: …", OK: &no})
		f.emit(agent.Event{Type: agent.EventRetry, Attempt: 1, WaitMS: 2000, Reason: "503"})
		f.emit(agent.Event{Type: agent.EventGate, Text: "make test", OK: &yes})
		f.emit(agent.Event{Type: agent.EventGate, Text: "make slow", OK: &no, ExitCode: &code, Reason: "timed out"})
		f.emit(agent.Event{Type: agent.EventPermission, Tool: "shell", Text: "git push", Rule: "push", Status: "denied"})
	}
	for flag, want := range map[string]string{
		"--quiet=false": "  read a␛[2Jb.go: 12 lines\n  shell go test ./...: exit 2, 2.5s\n  nosuch: there is no tool \"nosuch\", failed\nralph: try 1 failed: 503; next in 2.0s\n" +
			"ralph: check make test: ok\nralph: check make slow: timed out\nralph: denied shell: git push (push)\nralph: completed · 0.0s · 1 turn\n",
		"--quiet": "",
		"--verbose": "ralph: model m-1, sandbox off, run RUN\n  | I think\n  | therefore\n  read a␛[2Jb.go: 12 lines\n    package a\n    func\n" +
			"  shell go test ./...: exit 2, 2.5s\n  nosuch: there is no tool \"nosuch\", failed\n    there is no tool \"nosuch\"\n    the tools are: …\nralph: try 1 failed: 503; next in 2.0s\n" +
			"ralph: check make test: ok\nralph: check make slow: timed out\nralph: denied shell: git push (push)\nralph: completed · 0.0s · 1 turn\n",
	} {
		b := newBench(t)
		b.fake.work = func(context.Context, coordinator.Job) result.Outcome {
			work(b)
			return result.Outcome{Status: result.Completed, Answer: "ok", Turns: 1}
		}
		b.run(flag, "x")
		if got := strings.ReplaceAll(b.err.String(), b.fake.opts.RunID, "RUN"); got != want {
			t.Errorf("%s:\n%s\nwant:\n%s", flag, got, want)
		}
		if b.out.String() != "ok\n" {
			t.Errorf("standard output %q", b.out.String())
		}
	}
}

func TestDeltasAreCheapAndTimely(t *testing.T) {
	var out bytes.Buffer
	writes := 0
	w := newEventWriter(writerFunc(func(p []byte) (int, error) { writes++; return out.Write(p) }), "r", time.Now)
	began := time.Now()
	for i := range 20000 {
		if err := w.event(agent.Event{Type: agent.EventMessageDelta, Seq: int64(i + 1), Text: "word "}); err != nil {
			t.Fatal(err)
		}
	}
	spent := time.Since(began)
	if err := w.result(newResult("r", began)); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(out.Bytes(), []byte("\n")); n != 20001 {
		t.Errorf("%d lines", n)
	}
	t.Logf("20,000 deltas in %v, %d writes", spent, writes)
	if most := int(spent/flushDelay) + out.Len()/(32<<10) + 8; writes > most {
		t.Errorf("%d writes, want at most %d", writes, most)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestDryRun(t *testing.T) {
	b := newBench(t)
	if code := b.run("--dry-run", "x"); code != 0 || !b.fake.jobs[0].DryRun || len(b.fake.records) != 0 {
		t.Errorf("exit %d, job %+v, %d records", code, b.fake.jobs[0], len(b.fake.records))
	}
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

var _ io.Writer = (*brokenPipe)(nil)
