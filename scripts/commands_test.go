package scripts

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"go.uber.org/goleak"

	"ralph/coordinator"
	"ralph/coordinator/permission"
	"ralph/coordinator/result"
	"ralph/memory/config"
	"ralph/memory/session"
	"ralph/workers/agent"
	"ralph/workers/exec"
	"ralph/workers/git"
	"ralph/workers/model"
)

func TestMain(m *testing.M) {
	exec.Init()
	goleak.VerifyTestMain(m)
}

func TestConfigCommand(t *testing.T) {
	b := newBench(t)
	b.env["XDG_CONFIG_HOME"] = b.dir
	b.env["RALPH_API_KEY"] = "sk-very-secret-key-1234"
	b.file("ralph/config.yaml", "max_turns: 7\ndeny: ['tool == \"x\"', 'tool == \"y\"']\n")
	if code := b.run("config", "--model", "gpt-x"); code != 0 {
		t.Fatalf("exit %d: %s", code, b.err.String())
	}
	rows := map[string]string{}
	for line := range strings.Lines(b.out.String()) {
		key, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		rows[key] = strings.TrimSpace(rest)
	}
	if !strings.Contains(rows["model"], "gpt-x") || !strings.Contains(rows["model"], "flag --model") ||
		!strings.HasPrefix(rows["max_turns"], "7 ") || !strings.Contains(rows["max_turns"], "config.yaml:1") ||
		!strings.Contains(rows["output"], "default") || !strings.Contains(rows["deny"], `tool == "x", tool == "y"`) {
		t.Errorf("config:\n%s", b.out.String())
	}
	if strings.Contains(b.out.String(), "very-secret") {
		t.Error("the key is shown")
	}
	if code := b.run("config", "--json"); code != 0 {
		t.Fatalf("exit %d", code)
	}
	doc := b.document()
	if doc["schema"] != "ralph.config/1" || len(doc["entries"].([]any)) != len(config.Keys()) || strings.Contains(b.out.String(), "very-secret") {
		t.Errorf("document: %s", b.out.String())
	}
	if b.fake.opened > 0 {
		t.Error("the coordinator was opened")
	}
}

// Settings that are named are the only ones; what is none is said, all at once.
func TestConfigOfKeys(t *testing.T) {
	b := newBench(t)
	b.env["RALPH_MAX_TURNS"] = "7"
	for _, args := range [][]string{{"max_turns"}, {"max-turns"}, {"--", "--max-turns"}, {"max_turns", "max_turns"}} {
		if code := b.run(append([]string{"config"}, args...)...); code != 0 || b.out.String() != "max_turns  7  env RALPH_MAX_TURNS\n" {
			t.Errorf("%q: exit %d: %s%s", args, code, b.out.String(), b.err.String())
		}
	}
	if code := b.run("config", "history", "model"); code != 0 || strings.Count(b.out.String(), "\n") != 3 || !strings.Contains(b.out.String(), "history.max_bytes") {
		t.Errorf("exit %d: %s", code, b.out.String())
	}
	if code := b.run("config", "max_turns", "--output", "json"); code != 0 {
		t.Fatalf("exit %d", code)
	}
	entries := b.document()["entries"].([]any)
	if e := entries[0].(map[string]any); len(entries) != 1 || e["key"] != "max_turns" || e["value"] != "7" {
		t.Errorf("document: %s", b.out.String())
	}
	if code := b.run("config", "max_turn", "nonsense", "model=x"); code != 2 || b.out.String() != "" {
		t.Errorf("exit %d: %s", code, b.out.String())
	}
	for _, want := range []string{`"max_turn" (did you mean max_turns?)`, `"nonsense"`, `"model=x" (ralph config set changes one)`, "hint: ralph config alone"} {
		if !strings.Contains(b.err.String(), want) {
			t.Errorf("no %q in %s", want, b.err.String())
		}
	}
}

func TestChatCommand(t *testing.T) {
	for _, c := range []struct {
		args    []string
		session string
	}{
		{[]string{"chat"}, ""}, {[]string{"chat", "--continue"}, "last"}, {[]string{"chat", "--new", "-m", "x"}, "new"},
		{[]string{"chat", "--resume", "003"}, "003"}, {[]string{"chat", "--resume=003"}, "003"}, {[]string{"chat", "--resume", "003", "-m", "x"}, "003"}, {[]string{"--session", "work", "chat"}, "work"}, {[]string{"-C", ".", "chat", "--edit-mode", "vi"}, ""},
	} {
		b := newBench(t)
		b.file(".ralph/sessions/session-003-x/session-metadata.yaml", "session_id: \"003\"\nsession_name: x\nstart_time: 2026-11-21T09:00:00Z\nend_time: null\nstatus: completed\n")
		var got ChatOptions
		b.chat = func(_ context.Context, o ChatOptions) (int, error) { got = o; return 5, nil }
		if code := b.run(c.args...); code != 5 {
			t.Errorf("%q: exit %d: %s", c.args, code, b.err.String())
		}
		if got.Begin == nil || got.Past == nil || got.Choose {
			t.Errorf("%q: nothing begins a session: %+v", c.args, got)
			continue
		}
		if o, err := got.Begin(t.Context(), ""); err != nil || o.Session != cmp.Or(c.session, "new") || o.Root != b.dir || o.Holder != "chat" {
			t.Errorf("%q begins with %+v, %v", c.args, o, err)
		}
		if got.Session != c.session || got.Root != b.dir || got.Config == nil || got.RunID == "" {
			t.Errorf("%q: %+v", c.args, got)
		}
	}
	for want, args := range map[string][]string{"fix it now": {"chat", "fix it", "now"}, "go on": {"chat", "--new", "go on"}} {
		b, first := newBench(t), ""
		b.chat = func(_ context.Context, o ChatOptions) (int, error) { first = o.First; return 0, nil }
		if code := b.run(args...); code != 0 || first != want {
			t.Errorf("%q: exit %d, the first line is %q", args, code, first)
		}
	}
	b := newBench(t)
	b.chat = func(context.Context, ChatOptions) (int, error) {
		return 0, &result.Error{Op: "open", Path: "p", Err: errors.New("held"), Status: result.Locked}
	}
	if code := b.run("chat"); code != 8 {
		t.Errorf("exit %d", code)
	}
	if code := newBench(t).run("chat"); code != 1 {
		t.Errorf("a build without a chat: exit %d", code)
	}
}

// Without an ID --resume asks which session; where nobody can be asked it says so.
func TestChatAsksWhichSession(t *testing.T) {
	for _, args := range [][]string{{"chat", "--resume"}, {"chat", "--resume", "--new"}, {"chat", "--resume", "--continue"}, {"chat", "--resume="}, {"chat", "--resume", " "}, {"chat", "--resume", "1", "2"},
		{"chat", "--resume=1", "2"}, {"chat", "--resume", "nope"}, {"chat", "--resume=nope"}} {
		b := newBench(t)
		b.chat = func(context.Context, ChatOptions) (int, error) { return 0, nil }
		if code := b.run(args...); code != 2 {
			t.Errorf("%q: exit %d: %s", args, code, b.err.String())
		}
	}
	master, slave, err := pty.Open()
	if err != nil {
		t.Skip("no terminals here: ", err)
	}
	defer master.Close()
	defer slave.Close()
	b := newBench(t)
	b.stdin, b.stdout = slave, slave
	var got ChatOptions
	b.chat = func(_ context.Context, o ChatOptions) (int, error) { got = o; return 0, nil }
	if code := b.run("chat", "--resume"); code != 0 || !got.Choose || got.Session != "" {
		t.Errorf("exit %d: %+v", code, got)
	}
	rows, err := got.Past.List(t.Context(), false)
	if err != nil || len(rows) != 0 {
		t.Errorf("a project without sessions has %v, %v", rows, err)
	}
	for picked, want := range map[string]string{"new": "new", "": "new"} {
		if o, err := got.Begin(t.Context(), picked); err != nil || o.Session != want || o.Recovery != nil {
			t.Errorf("%q begins with %+v, %v", picked, o, err)
		}
	}
	if _, err := got.Begin(t.Context(), "404"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("a session that is not there: %v", err)
	}
}

func TestUndo(t *testing.T) {
	b := newBench(t)
	n := 0
	b.fake.undo = func(k int) (coordinator.Undone, error) {
		n = k
		return coordinator.Undone{Files: []git.FileChange{{Path: "a.go", Kind: git.Modified, Added: 1, Removed: 2}, {Path: "b.go", Kind: git.Deleted}}}, nil
	}
	if code := b.run("undo", "3"); code != 0 || n != 3 || b.out.String() != "modified a.go\ndeleted b.go\n" {
		t.Errorf("exit %d, n %d: %q", code, n, b.out.String())
	}
	if code := b.run("undo", "--json"); code != 0 || n != 1 {
		t.Errorf("exit %d, n %d", code, n)
	}
	checkResult(t, b.out.String())
	if len(b.document()["files_changed"].([]any)) != 2 || len(b.fake.records) != 0 {
		t.Errorf("document: %s", b.out.String())
	}
	if !b.fake.opts.NoModel {
		t.Error("an undo asks for a model")
	}
	b.wantErr("commits: the branch goes back")
	if code := b.run("redo", "2"); code != 0 || n != -2 {
		t.Errorf("redo: exit %d, n %d", code, n)
	}
	// What the user changed is kept and listed, and is no failure.
	b.fake.undo = func(int) (coordinator.Undone, error) {
		return coordinator.Undone{Files: []git.FileChange{{Path: "b.go", Kind: git.Modified}}, Kept: []string{"a.go"}}, nil
	}
	if code := b.run("undo"); code != 0 || b.out.String() != "modified b.go\nkept a.go\n" {
		t.Errorf("kept: exit %d, %q", code, b.out.String())
	}
	b.wantErr("changed it or may have: a.go")
	b.fake.undo = func(int) (coordinator.Undone, error) {
		return coordinator.Undone{Files: []git.FileChange{{Path: "b.go", Kind: git.Modified}}}, coordinator.ErrNothingToUndo
	}
	if code := b.run("undo", "2", "--json"); code != 1 || !strings.Contains(b.out.String(), `"path":"b.go"`) {
		t.Errorf("a half undo: code %d, %s", code, b.out.String())
	}
}

// client is a scripted endpoint.
type client struct {
	names  []string
	answer error
}

func (c client) Models(context.Context) ([]string, error) { return c.names, nil }

func (c client) Complete(context.Context, agent.Request, func(agent.Delta)) (agent.Reply, error) {
	return agent.Reply{Model: "m-1"}, c.answer
}

func TestDoctor(t *testing.T) {
	b := newBench(t)
	endpoint := model.Endpoint{Provider: "test", BaseURL: "http://127.0.0.1:1/v1", Model: "m-1", Source: "--base-url"}
	b.connect = func(context.Context, *config.Config) (model.Endpoint, Client, error) {
		return endpoint, client{names: []string{"m-1", "m-2"}}, nil
	}
	checks := func(doc map[string]any) map[string]string {
		got := map[string]string{}
		for _, c := range doc["checks"].([]any) {
			m := c.(map[string]any)
			got[m["name"].(string)] = m["status"].(string)
		}
		return got
	}
	if code := b.run("doctor", "--json", "--agents"); code != 0 {
		t.Fatalf("exit %d: %s%s", code, b.out.String(), b.err.String())
	}
	doc := b.document()
	got := checks(doc)
	for name, want := range map[string]string{"config": "ok", "endpoint": "ok", "model": "ok", "shell": "ok", "project": "warn", "state": "ok", "terminal": "ok", "processes": "ok", "agents": "ok"} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if doc["ok"] != true || got["git"] == "" || b.fake.opened > 0 {
		t.Errorf("document: %v", doc)
	}
	if _, err := os.Lstat(filepath.Join(b.dir, ".ralph")); err == nil {
		t.Error("the doctor left something behind")
	}

	b.connect = func(context.Context, *config.Config) (model.Endpoint, Client, error) {
		return endpoint, client{names: []string{"m-2"}, answer: errors.New("no such model")}, nil
	}
	b.env["PATH"] = ""
	if code := b.run("doctor"); code != 1 {
		t.Errorf("exit %d", code)
	}
	for _, line := range []string{"fail  model     no such model", "warn  git       not found in PATH", "fail  shell", "warn  endpoint"} {
		if !strings.Contains(b.out.String(), line) {
			t.Errorf("lacks %q:\n%s", line, b.out.String())
		}
	}
	b.file(".ralph", "not a directory")
	if code := b.run("doctor"); code != 1 || !strings.Contains(b.out.String(), "fail  state     "+b.dir+"/.ralph is not a directory") {
		t.Errorf("state: exit %d:\n%s", code, b.out.String())
	}
	if err := os.Remove(filepath.Join(b.dir, ".ralph")); err != nil {
		t.Fatal(err)
	}
	b.env["RALPH_MAX_TURNS"] = "many"
	if code := b.run("doctor", "--json"); code != 1 || checks(b.document())["config"] != "fail" {
		t.Errorf("broken config: exit %d: %s", code, b.out.String())
	}
	if code := b.run("doctor", "--max-turns", "many"); code != 2 {
		t.Errorf("bad flag: exit %d", code)
	}
}

// TestTerminal runs a one-shot whose streams are a real terminal.
func TestTerminal(t *testing.T) {
	ptmx, tty, err := pty.Open()
	if err != nil {
		t.Skip("no pseudo-terminal here: ", err)
	}
	defer ptmx.Close()
	defer tty.Close()
	if err := pty.Setsize(ptmx, &pty.Winsize{Rows: 24, Cols: 40}); err != nil {
		t.Fatal(err)
	}
	shown := make(chan string)
	go func() { // ends when the terminal is closed
		var all []byte
		buf := make([]byte, 4096)
		for {
			n, err := ptmx.Read(buf)
			all = append(all, buf[:n]...)
			if strings.Contains(string(all), "answer [no]: ") && !strings.Contains(string(all), "y\r\n") {
				if _, werr := ptmx.WriteString("y\n"); werr != nil {
					err = werr
				}
			}
			if err != nil || strings.Contains(string(all), "THE END") {
				shown <- string(all)
				return
			}
		}
	}()
	f := &fake{t: t}
	answer := ""
	f.work = func(ctx context.Context, _ coordinator.Job) result.Outcome {
		f.emit(agent.Event{Type: agent.EventStart})
		f.emit(agent.Event{Type: agent.EventTurnStart, Turn: 1})
		time.Sleep(300 * time.Millisecond) // the live line has its own pace
		var err error
		answer, err = f.opts.Ask(ctx, permission.Question{Kind: "permission", Text: "run \x1b[1mrm -rf x\x1b[0m?", Options: []string{"no", "yes"}})
		if err != nil {
			t.Error(err)
		}
		return result.Outcome{Status: result.Completed, Answer: "esc \x1b[31m here\nTHE END", Turns: 1}
	}
	dir := t.TempDir()
	env := map[string]string{"HOME": dir, "TERM": "xterm"}
	app := App{Stdin: tty, Stdout: tty, Stderr: tty, Getenv: func(k string) string { return env[k] }, Dir: dir, Open: f.open}
	if code := Main(t.Context(), app, []string{"x"}); code != 0 {
		t.Errorf("exit %d", code)
	}
	out := <-shown
	// The live line is gone when the answer comes, which has a line of its own.
	if i := strings.LastIndex(out, "\x1b[K"); i < 0 || strings.Contains(out[i:], "thinking") || !strings.Contains(out[i:], "\nesc ␛") {
		t.Errorf("the answer does not stand alone: %q", out)
	}
	if answer != "yes" {
		t.Errorf("answer %q", answer)
	}
	for _, want := range []string{"\rthinking · 0.", "run ␛[1mrm -rf x␛[0m?", "1. no", "esc ␛[31m here"} {
		if !strings.Contains(out, want) {
			t.Errorf("the terminal lacks %q:\n%q", want, out)
		}
	}
}

func BenchmarkVersion(b *testing.B) {
	for b.Loop() {
		Main(b.Context(), App{Stdout: writerFunc(func(p []byte) (int, error) { return len(p), nil }), Stderr: os.Stderr}, []string{"version"})
	}
}
