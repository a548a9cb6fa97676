package repl

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"ralph/coordinator"
	"ralph/memory/config"
	"ralph/workers/exec"
	"ralph/workers/model/modeltest"
)

// whole is the chat over a real coordinator in a process of its own.
func whole(dir, session string) int {
	environ := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "RALPH_TEST_") })
	cfg, err := config.Load(config.Sources{Environ: environ})
	if err != nil {
		return 98
	}
	code, err := Run(context.Background(), Options{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv,
		Open: func(ctx context.Context, l Link) (Mind, error) {
			c, err := coordinator.Open(ctx, coordinator.Options{Root: dir, Config: cfg, Proc: exec.New(exec.Options{Init: exec.Self()}),
				RunID: "run", Holder: "chat", Session: session, Eyes: l.Eyes, Ask: l.Ask, Getenv: os.Getenv})
			if err != nil {
				return Mind{}, err
			}
			return Mind{Turns: c, Queue: c, Control: c, Models: c, Changes: c, About: c, State: c, Crew: c, Trees: c, Plans: c, Hands: c}, nil
		},
	})
	if err != nil {
		return 99
	}
	return code
}

// converse starts the whole chat in a project.
func converse(t *testing.T, srv *modeltest.Server, dir, session string, more ...string) *process {
	t.Helper()
	return begin(t, 70, 40, append(more, "RALPH_TEST_CHAT="+session, "RALPH_TEST_PROJECT="+dir, "RALPH_BASE_URL="+srv.URL(), "RALPH_MODEL=test", "RALPH_API_KEY=k",
		"HOME="+t.TempDir(), "RALPH_STATE_DIR="+dir+".state", "PATH="+os.Getenv("PATH"), "TERM=xterm", "LANG=C.UTF-8", "NO_COLOR=1"))
}

// TestWhole holds a conversation with the real coordinator and real tools: a
// question, a tool, a stop, the end of the process without warning, and the
// conversation again.
func TestWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	srv := modeltest.New(t,
		modeltest.Calls(modeltest.Call{Name: "shell", Args: `{"command":"echo out of the shell > made.txt","outside":true}`}).Saying("I make a file."),
		modeltest.Text("The file is made."),
		modeltest.Text("It begins well enough").HangAt(2),
		modeltest.Text("I hang again").HangAt(2),
		modeltest.Text("You asked for a file, and I made it."))
	p := converse(t, srv, dir, "new")
	p.Has("ralph ❯ ▏")
	p.Type("make a file\r")
	p.Has("│ echo out of the shell > made.txt")
	p.Type("yes\r")
	p.Has("The file is made.")
	p.Has("1 file changed")
	if text, err := os.ReadFile(dir + "/made.txt"); string(text) != "out of the shell\n" {
		t.Errorf("made.txt is %q, %v", text, err)
	}
	p.Type("and then\r")
	p.Has("It beg")
	p.Type("half a line")
	p.Has("half a line▏")
	began := time.Now()
	p.Type("\x03")
	p.Has("ralph talk ❯ half a line▏")
	t.Logf("^C to the prompt: %v", time.Since(began))
	if n := strings.Count(p.Screen(), "stopped, work kept"); n != 1 || strings.Contains(p.Screen(), "SIGINT") {
		t.Errorf("the stop is told %d times:\n%s", n, p.Screen())
	}
	p.Type("\x15/go more\r")
	p.Has("I hang")
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait()

	p = converse(t, srv, dir, "last")
	s := p.Has("ralph ❯ ▏")
	for _, want := range []string{"session 001 goes on after", "you said last: more", "! the last Ralph here ended without closing the project"} {
		if !strings.Contains(strings.Join(strings.Fields(s), " "), want) {
			t.Errorf("the greeting lacks %q:\n%s", want, s)
		}
	}
	p.Type("what was it?\r")
	p.Has("You asked for a file, and I made it.")
	requests := srv.Requests()
	var said []string
	for _, m := range requests[len(requests)-1].Messages[1:] {
		said = append(said, m.Role+" "+strings.TrimSpace(m.Content))
	}
	got := strings.Join(said, "\n")
	for _, want := range []string{"user make a file\nassistant I make a file.\ntool ", "assistant The file is made.\nuser and then\nassistant It beg", "(stopped here, before the reply was complete", "\nuser more\n", "The user stopped the work", "\nassistant (no answer was given: that turn ended before)\nuser what was it?"} {
		if !strings.Contains(got, want) {
			t.Errorf("the model was not sent %q but\n%s", want, got)
		}
	}
	p.Type("\x04")
	p.Has("ralph chat --resume 001")
	p.exited(0)
}
