package repl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ralph/coordinator/permission"
	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/repl/ttytest"
	"ralph/workers/agent"
	"ralph/workers/exec"
)

// update rewrites the golden files (make update).
var update = os.Getenv("RALPH_TEST_UPDATE") != ""

func TestMain(m *testing.M) {
	exec.Init()
	if name := os.Getenv("RALPH_TEST_CHAT"); name != "" {
		os.Exit(child(name))
	}
	// The race detector lets a program sleep for a second before it exits. The
	// chats that the tests start need no more than a moment.
	if err := os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=20")); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// chat is a running conversation on a pseudo-terminal.
type chat struct {
	*ttytest.TTY
	t    *testing.T
	f    *fake
	code chan int
	err  error
	// waiting is what an earlier process left in the queue.
	waiting []interrupts.Message
}

type turnFunc = func(context.Context, *fake, string) result.Outcome

func open(t *testing.T, turn turnFunc, change ...func(*Options)) *chat {
	t.Helper()
	return openSized(t, 70, 20, turn, change...)
}

func openSized(t *testing.T, cols, rows int, turn turnFunc, change ...func(*Options)) *chat {
	t.Helper()
	c := &chat{TTY: ttytest.New(t, cols, rows), t: t, f: &fake{turn: turn, model: "gpt-large"}, code: make(chan int, 1)}
	o := Options{
		In: c.Slave, Out: c.Slave, Version: "1.2", History: filepath.Join(t.TempDir(), "history"),
		Getenv: func(k string) string {
			return map[string]string{"TERM": "xterm", "LANG": "C.UTF-8", "NO_COLOR": "1"}[k]
		},
		Open: func(_ context.Context, l Link) (Mind, error) {
			return c.f.attach(l, c.waiting...), nil
		},
	}
	for _, f := range change {
		f(&o)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		code, err := Run(t.Context(), o)
		c.err = err
		c.code <- code
	}()
	t.Cleanup(func() {
		c.Close()
		<-done
		c.f.release() // a chat that was left at once did not close it
	})
	return c
}

func (c *chat) idle() string {
	c.t.Helper()
	return c.Until("the idle prompt", func(s string) bool {
		return strings.Contains(s, "ralph ❯ ▏") || strings.Contains(s, "ralph talk ❯ ▏")
	})
}

func (c *chat) left(want int) {
	c.t.Helper()
	select {
	case code := <-c.code:
		if code != want || c.err != nil {
			c.t.Errorf("left with %d, %v, want %d", code, c.err, want)
		}
	case <-time.After(ttytest.Patience):
		c.t.Fatalf("did not leave; the screen is\n%s", c.Screen())
	}
}

// steady replaces what differs from run to run.
func steady(screen string) string {
	screen = regexp.MustCompile(`\d+ ms|\d+\.\d s`).ReplaceAllString(screen, "N ms")
	return regexp.MustCompile(`[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]`).ReplaceAllString(screen, "⠋")
}

func golden(t *testing.T, name, screen string) {
	t.Helper()
	ttytest.Golden(t, update, name+".screen", steady(screen))
}

func TestTurn(t *testing.T) {
	c := open(t, echo)
	golden(t, "greeting", c.idle())
	c.Type("hello\r")
	c.Has("You said **hello**.")
	c.Has("1k tok")
	golden(t, "turn", c.idle())
	c.Type("/exit\r")
	c.left(0)
	bye := c.Until("the farewell alone", func(s string) bool {
		return strings.Contains(s, "--resume") && !strings.Contains(s, "ralph ❯")
	})
	// Where the cursor goes last is the terminal's affair, not the farewell's.
	golden(t, "farewell", strings.TrimRight(strings.ReplaceAll(bye, "▏", ""), " \n"))
	if !c.f.closed {
		t.Error("the coordinator was not closed")
	}
}

func TestStopKeepsTheLineAndIsImmediate(t *testing.T) {
	c := open(t, hang)
	c.idle()
	c.Type("work\r")
	c.Has("thinking about it")
	c.Type("half a line")
	golden(t, "busy", c.Until("the half line", func(s string) bool { return strings.Contains(s, "❯ half a line▏") }))
	c.Type("\x03")
	golden(t, "stopped", c.Until("the prompt", func(s string) bool { return strings.Contains(s, "ralph talk ❯ half a line▏") }))
	if n := c.f.stopped(); n != 1 {
		t.Errorf("Stop was called %d times", n)
	}
	c.Type("\x03")
	c.idle()
	c.Type("\x04")
	c.left(0)
}

// listen works on a task and on what is said meanwhile, until it is stopped or let go.
func listen(release <-chan struct{}) turnFunc {
	return func(ctx context.Context, f *fake, task string) result.Outcome {
		f.say(1, "on "+task)
		for {
			select {
			case <-ctx.Done():
				return result.Outcome{}
			case <-release:
			}
			said := f.inbox(false)
			if len(said) == 0 {
				return result.Outcome{}
			}
			f.say(2, "and on "+strings.Join(said, ", "))
		}
	}
}

func TestLinesAreDeliveredAndNotSentAfterAStop(t *testing.T) {
	release := make(chan struct{})
	c := open(t, listen(release))
	c.idle()
	c.Type("one\r")
	c.Has("on one")
	c.Type("two\r")
	c.Has("m-1 queued: two")
	c.Has("1 queued ❯")
	release <- struct{}{}
	c.Has("\n❯ two  m-1\nand on two\n")
	c.Lacks("1 queued ❯")
	c.Type("three\r/later four\r/diff\r")
	c.Has("m-3 later queued: four")
	c.Has("3 queued ❯")
	c.Type("half")
	c.Has("❯ half▏")
	c.Type("\x03")
	c.Has("not sent: three")
	c.Until("the lines back in the prompt", func(s string) bool {
		return strings.Contains(s, "ralph talk ❯ three\n/later four\n/diff\nhalf▏")
	})
	if got := strings.Join(c.f.said(), " "); got != "one" {
		t.Errorf("sent %s", got)
	}
	c.Type("\x03\x04")
	c.left(0)
}

func TestThirdInterruptLeavesAtOnce(t *testing.T) {
	release := make(chan struct{})
	c := open(t, func(context.Context, *fake, string) result.Outcome {
		<-release
		return result.Outcome{}
	})
	c.idle()
	c.Type("deaf\r")
	c.Has("ralph ⠋")
	c.Type("\x03")
	c.Has("stopping")
	c.Type("\x03")
	c.Has("what has not ended is killed")
	c.Type("\x03")
	c.left(130)
	if c.f.kills.Load() != 1 || c.f.stopped() != 1 {
		t.Errorf("%d stops and %d kills", c.f.stopped(), c.f.kills.Load())
	}
	close(release)
}

func TestQuestions(t *testing.T) {
	answers := make(chan string, 1)
	c := open(t, func(ctx context.Context, f *fake, task string) result.Outcome {
		a, err := f.link.Ask(ctx, permission.Question{Kind: "permission", Text: "run\nrm -rf \x1b]0;x\x07 build", Options: []string{"no", "yes", "always"}})
		answers <- fmt.Sprint(a, " ", err)
		return result.Outcome{}
	})
	for _, step := range []struct{ keys, want string }{
		{"\r", "no <nil>"},
		{"y\r", "yes <nil>"},
		{"what\rALWAYS\r", "always <nil>"},
		{"what\r", ""},
		{"\x03", " interrupted by SIGINT"},
	} {
		c.idle()
		c.Type("go\r")
		s := c.Has("answer [no] ?")
		if step.want == "no <nil>" {
			golden(t, "question", s)
		}
		c.Type(step.keys)
		if step.want == "" {
			c.Has("answer with one of: no, yes, always")
			c.Type("\x03")
			step.want = " interrupted by SIGINT"
		}
		select {
		case got := <-answers:
			if got != step.want {
				t.Errorf("%q answered %q, want %q", step.keys, got, step.want)
			}
		case <-time.After(ttytest.Patience):
			t.Fatalf("%q was no answer; the screen is\n%s", step.keys, c.Screen())
		}
		c.Lacks("answer [no] ?")
		c.Type("\x0c")
	}
	c.idle()
	c.Type("\x04")
	c.left(0)
}

func TestCommands(t *testing.T) {
	c := open(t, echo)
	for _, step := range []struct{ line, want string }{
		{"/help", "Ctrl-C stops the"},
		{"/help undo", "It takes back what Ralph changed"},
		{"/statu", "did you mean /status?"},
		{"/xyzzy", "/help lists the commands"},
		{"/help xyzzy", "/help lists the commands"},
		{"/", "begin a new conversation"},
		{"/diff main.go", "there is no agent \"main.go\""},
		{"/cost main.go", "/cost takes no argument"},
		{"/status", "gpt-large at"},
		{"/cost", "cost unknown"},
		{"/model llama-tiny", "model is now llama-tiny"},
		{"/undo", "taken back: main.go is as before (+1 −2)"},
		{"/undo 3", "kept as it is, because you changed it or may have: edited.go"},
		{"/undo 2", "commits: the branch goes back"},
		{"/redo", "there is nothing to redo"},
		{"/undo x", "not a number of turns"},
		{"/diff", "+y"},
		{"/clear", "a new conversation begins"},
		{"/etc/passwd is a path", "You said **/etc/passwd is a path**."},
	} {
		c.idle()
		c.Type("\x0c" + step.line + "\r")
		c.Has(step.want)
	}
	c.idle()
	c.Type("\x0c/help\r")
	c.Has("what all the keys do")
	golden(t, "help", c.idle())
	c.Type("\x04")
	c.left(0)
}

// What is kept can be looked at, also while a turn runs.
func TestStateCommands(t *testing.T) {
	c := open(t, hang)
	c.idle()
	for _, step := range [][2]string{{"/tasks", "it works"}, {"/goals", "no goals"}, {"/context", "in brackets"}} {
		c.Type(step[0] + "\r")
		c.Has(step[1])
	}
	golden(t, "context", c.idle())
	c.Type("/compact\r")
	c.Has("90 messages became 12")
	c.idle()
	c.Type("/trace\r")
	c.Has("had\n  said")
	c.Type("/trace a.go\r")
	c.Has("fix the retry")
	c.Type("/trace b.go\r")
	c.Has("on record changed b.go")
	c.Type("/sessions\r")
	c.Has("/sessions ID tells more")
	golden(t, "state", c.idle())
	c.Type("work\r")
	c.Has("thinking about it")
	c.Type("/context\r")
	c.Has("in brackets")
	c.Type("/compact\r")
	c.Has("waits")
	c.Type("\x03")
	c.Has("ralph talk ❯ /compact▏")
	c.Type("\x03")
	c.idle()
	c.Type("\x04")
	c.left(0)
}

func TestModelFromAList(t *testing.T) {
	c := open(t, echo)
	c.idle()
	c.Type("/model\r")
	c.Has("number or name")
	golden(t, "models", c.Has("answer ? ▏"))
	c.Type("2\r")
	c.Has("model is now gpt-small")
	c.idle()
	c.Type("/model\r")
	c.Until("another list", func(s string) bool { return strings.Count(s, "number or name") == 2 })
	c.Type("\r")
	c.Has("model stays gpt-small")
	c.idle()
	c.Type("\x04")
	c.left(0)
}

func TestBusyCommands(t *testing.T) {
	c := open(t, hang)
	c.idle()
	c.Type("work\r")
	c.Has("thinking")
	c.Type("/undo\r")
	c.Has("/undo waits until the turn ends (1 waiting)")
	c.Type("/status\r")
	c.Has("1 waits until the turn ends")
	c.Type("/exit\r")
	c.left(0)
	if len(c.f.undone) != 0 {
		t.Error("the command ran after leaving")
	}
}

func TestToolsAndMarkdownWhileTyping(t *testing.T) {
	step := make(chan struct{})
	yes, ms := true, int64(1200)
	c := open(t, func(_ context.Context, f *fake, _ string) result.Outcome {
		f.link.Eyes(agent.Event{Type: agent.EventTurnStart, Turn: 1})
		for _, text := range []string{"# Plan\n\nFirst", " I look.\n\nThen `te", "st` it."} {
			f.link.Eyes(agent.Event{Type: agent.EventMessageDelta, Turn: 1, Text: text})
			<-step
		}
		f.link.Eyes(agent.Event{Type: agent.EventMessage, Turn: 1})
		f.link.Eyes(agent.Event{Type: agent.EventToolStart, CallID: "1", Tool: "shell", Args: json.RawMessage(`{"command":"go test ./..."}`)})
		f.link.Eyes(agent.Event{Type: agent.EventUsage, Usage: &agent.Usage{Total: 14000}})
		<-step
		f.link.Eyes(agent.Event{Type: agent.EventToolEnd, CallID: "1", Tool: "shell", Text: "exit 0", OK: &yes, DurationMS: &ms})
		return result.Outcome{}
	})
	c.idle()
	c.Type("plan\r")
	c.Has("First")
	c.Type("typ")
	step <- struct{}{}
	c.Has("Then `te")
	c.Type("ing")
	golden(t, "streaming", c.Until("the live tail", func(s string) bool {
		return strings.Contains(s, "❯ typing▏") && strings.Contains(s, "First I look.") && strings.Contains(s, "\nThen `te\n")
	}))
	step <- struct{}{}
	c.Has("Then `test` it.")
	step <- struct{}{}
	golden(t, "tool", c.Has("shell go test .… · 14k tok"))
	step <- struct{}{}
	c.Has("exit 0 · ")
	c.Until("idle", func(s string) bool { return strings.Contains(s, "ralph ❯ typing▏") })
	c.Type("\x03\x04")
	c.left(0)
}

func TestPanicOfAWorkerIsTold(t *testing.T) {
	c := open(t, func(context.Context, *fake, string) result.Outcome { panic("boom") })
	c.idle()
	c.Type("x\r")
	c.Has("goroutine")
	c.idle()
	c.Type("\x04")
	c.left(0)
}

func TestVanishedTerminal(t *testing.T) {
	c := open(t, hang)
	c.idle()
	c.Type("work\r")
	c.Has("thinking")
	c.Master.Close()
	c.left(129)
	if !c.f.closed {
		t.Error("the coordinator was not closed")
	}
}

func TestOpenFails(t *testing.T) {
	want := errors.New("no model")
	c := open(t, echo, func(o *Options) {
		o.Open = func(context.Context, Link) (Mind, error) { return Mind{}, want }
	})
	<-c.code
	if !errors.Is(c.err, want) {
		t.Errorf("got %v", c.err)
	}
}

func TestInterruptWhileOpening(t *testing.T) {
	c := open(t, echo, func(o *Options) {
		o.Open = func(ctx context.Context, _ Link) (Mind, error) {
			<-ctx.Done()
			return Mind{}, context.Cause(ctx)
		}
	})
	c.Has("opening")
	c.Type("\x03")
	c.left(130)
}

func TestContextEnds(t *testing.T) {
	f := &fake{turn: hang}
	y := ttytest.New(t, 60, 10)
	ctx, cancel := context.WithCancelCause(t.Context())
	code := make(chan int, 1)
	go func() {
		n, _ := Run(ctx, Options{In: y.Slave, Out: y.Slave, Getenv: func(string) string { return "xterm" }, Open: func(_ context.Context, l Link) (Mind, error) {
			return f.attach(l), nil
		}})
		code <- n
	}()
	y.Has("> ▏")
	y.Type("work\r")
	y.Has("thinking")
	cancel(&interrupts.Stop{Signal: syscall.SIGTERM})
	if n := <-code; n != 143 || strings.Join(f.how, "|") != "ended by SIGTERM" {
		t.Errorf("left with %d, and the session is told %q", n, f.how)
	}
}

// TestPiped proves that lines of a pipe are taken one after the other and that
// no control character comes out.
func TestPiped(t *testing.T) {
	in, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	f := &fake{model: "m", turn: func(ctx context.Context, f *fake, task string) result.Outcome {
		if task != "ask" {
			return echo(ctx, f, task)
		}
		a, err := f.link.Ask(ctx, permission.Question{Kind: "question", Text: "which?"})
		f.say(1, fmt.Sprint("answer ", a, " ", err))
		return result.Outcome{}
	}}
	io.WriteString(w, "one\n/undo\nask\nblue\n/cost\ntwo \x1b[2J\nask\n")
	w.Close()
	code, err := Run(t.Context(), Options{In: in, Out: out, Getenv: func(string) string { return "xterm" }, Open: func(_ context.Context, l Link) (Mind, error) {
		return f.attach(l), nil
	}})
	if code != 0 || err != nil {
		t.Fatalf("left with %d, %v", code, err)
	}
	data, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	at := 0
	for _, want := range []string{"\n> one\nYou said **one**.", "\n> /undo\n", "taken back", "answer blue <nil>", "2 turns", "You said **two ␛[2J**.", ErrNobody.Error(), "4 turns"} {
		i := strings.Index(text[at:], want)
		if i < 0 {
			t.Fatalf("%q is missing or out of order in\n%s", want, text)
		}
		at += i
	}
	if strings.ContainsAny(text, "\x1b\r") {
		t.Errorf("control characters in %q", text)
	}
}

// TestStopIsQuick measures from the Ctrl-C to a prompt that takes text again,
// while output streams as fast as it can.
func TestStopIsQuick(t *testing.T) {
	c := open(t, func(ctx context.Context, f *fake, _ string) result.Outcome {
		f.link.Eyes(agent.Event{Type: agent.EventTurnStart, Turn: 1})
		for i := 0; ctx.Err() == nil; i++ {
			f.link.Eyes(agent.Event{Type: agent.EventMessageDelta, Turn: 1, Text: fmt.Sprintf("paragraph %d\n\n", i)})
			if i%50 == 0 {
				time.Sleep(time.Millisecond) // a model is slower than this
			}
		}
		return result.Outcome{}
	})
	c.idle()
	var worst time.Duration
	for i := range 10 {
		c.Type("go\r")
		c.Has("paragraph")
		c.Type(fmt.Sprintf("kept %d", i))
		c.Has(fmt.Sprintf("❯ kept %d▏", i))
		begin := time.Now()
		c.Type("\x03")
		c.Has(fmt.Sprintf("ralph talk ❯ kept %d▏", i))
		worst = max(worst, time.Since(begin))
		c.Has("! stopped") // the turn's last line: what comes after it is cleared away
		c.Type("\x15\x0c")
		c.Until("an empty prompt", func(s string) bool { return strings.HasPrefix(s, "\nralph talk ❯ ▏") })
	}
	t.Logf("worst of 10: %v", worst)
	if worst > 10*time.Second {
		t.Errorf("a stop took %v to the prompt", worst)
	}
	c.Type("\x04")
	c.left(0)
}

// TestLongParagraphGrows: a paragraph that is not complete yet is shown over
// several rows, the last ones, and is seen once when it is complete.
func TestLongParagraphGrows(t *testing.T) {
	step := make(chan struct{})
	c := open(t, func(_ context.Context, f *fake, _ string) result.Outcome {
		f.link.Eyes(agent.Event{Type: agent.EventTurnStart, Turn: 1})
		for i := range 80 {
			f.link.Eyes(agent.Event{Type: agent.EventMessageDelta, Turn: 1, Text: fmt.Sprintf("word%d ", i)})
		}
		<-step
		f.link.Eyes(agent.Event{Type: agent.EventMessageDelta, Turn: 1, Text: "end.\n\n"})
		<-step
		return result.Outcome{}
	})
	c.idle()
	c.Type("go\r")
	s := c.Has("word79")
	if strings.Contains(s, "word0 ") || !strings.Contains(s, "word50\n") {
		t.Errorf("the tail is\n%s", s)
	}
	step <- struct{}{}
	s = c.Until("the whole paragraph", func(s string) bool { return strings.Contains(s, "word0 ") && strings.Contains(s, "end.") })
	if n := strings.Count(s, "word79"); n != 1 {
		t.Errorf("the end of the paragraph is seen %d times:\n%s", n, s)
	}
	close(step)
	c.idle()
	c.Type("\x04")
	c.left(0)
}

// TestOneLineForAnAnswer: a permission is told once, and so is a question of the
// model.
func TestOneLineForAnAnswer(t *testing.T) {
	yes, ms := true, int64(3)
	c := open(t, func(ctx context.Context, f *fake, _ string) result.Outcome {
		args := json.RawMessage(`{"command":"ls","question":"which?"}`)
		f.link.Eyes(agent.Event{Type: agent.EventToolStart, CallID: "1", Tool: "shell", Args: args})
		f.link.Eyes(agent.Event{Type: agent.EventPermission, CallID: "1", Tool: "shell", Text: "ls", Status: "asked"})
		_, _ = f.link.Ask(ctx, permission.Question{Kind: "permission", Text: "May it?\nls", Options: []string{"no", "yes"}})
		f.link.Eyes(agent.Event{Type: agent.EventPermission, CallID: "1", Tool: "shell", Text: "ls", Status: "allowed"})
		f.link.Eyes(agent.Event{Type: agent.EventToolEnd, CallID: "1", Tool: "shell", Text: "exit 0", OK: &yes, DurationMS: &ms})
		f.link.Eyes(agent.Event{Type: agent.EventToolStart, CallID: "2", Tool: "ask_user", Args: args})
		_, _ = f.link.Ask(ctx, permission.Question{Kind: "question", Text: "which?"})
		f.link.Eyes(agent.Event{Type: agent.EventToolEnd, CallID: "2", Tool: "ask_user", Text: "answered", OK: &yes, DurationMS: &ms})
		f.link.Eyes(agent.Event{Type: agent.EventInterrupt, Reason: "interrupted by SIGINT"})
		return result.Outcome{Status: result.Interrupted}
	})
	c.idle()
	c.Type("\x0cgo\r")
	c.Has("answer [no] ?")
	c.Type("y\r")
	c.Has("which?")
	c.Type("\r")
	c.Has("type an answer")
	c.Type("blue\r")
	golden(t, "answers", c.Has("ralph ❯ ▏")) // nothing was stopped, and the shell has looked
	c.Type("\x04")
	c.left(0)
}

// TestManyReturned: of many lines that were not sent only some are named, and all
// are in the prompt.
func TestManyReturned(t *testing.T) {
	c := open(t, listen(nil))
	c.idle()
	c.Type("one\r")
	c.Has("on one")
	for i := range 7 {
		c.Type(fmt.Sprintf("line %d\r", i))
		c.Has(fmt.Sprintf("m-%d queued: line %d", i+1, i))
	}
	c.Type("\x0c\x03")
	c.Has("ralph talk ❯ line 0\nline 1\n")
	c.Has("line 6▏")
	c.Type("\x03\x04")
	c.left(0)
}

// TestPlainTerminal: whole lines and no prompt below the farewell.
func TestPlainTerminal(t *testing.T) {
	c := open(t, echo, func(o *Options) { o.Plain = true })
	c.Has("ralph> ▏")
	c.Type("hello\n")
	c.Has("1k tok")
	c.Has("ralph> ▏")
	c.Type("/exit\n")
	c.left(0)
	c.Until("the farewell at the end", func(s string) bool {
		_, after, ok := strings.Cut(s, "cost unknown")
		return ok && strings.Contains(after, "--resume") && !strings.Contains(after, "ralph>")
	})
	if s := c.Screen(); strings.Contains(s, "\n> hello") {
		t.Errorf("what was typed is repeated:\n%s", s)
	}
}
