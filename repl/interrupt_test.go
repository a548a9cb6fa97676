package repl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/crew"
	"ralph/coordinator/permission"
	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/repl/ttytest"
	"ralph/workers/agent"
)

// longTask is a turn that works until it is stopped, and goes on when told so.
func longTask(ctx context.Context, f *fake, task string) result.Outcome {
	if task == "" {
		f.say(1, "I go on where I was: the second of two tests.")
		return result.Outcome{}
	}
	f.link.Eyes(agent.Event{Type: agent.EventTurnStart, Turn: 1})
	f.link.Eyes(agent.Event{Type: agent.EventMessageDelta, Turn: 1, Text: "I run the tests.\n\n"})
	f.link.Eyes(agent.Event{Type: agent.EventToolStart, CallID: "1", Tool: "shell", Args: []byte(`{"command":"go test ./..."}`)})
	<-ctx.Done()
	no, ms := false, int64(1200)
	f.link.Eyes(agent.Event{Type: agent.EventToolEnd, CallID: "1", Tool: "shell", Text: "stopped", OK: &no, DurationMS: &ms})
	return result.Outcome{}
}

// TestStopTalkAndGo is what Ralph is for: work is stopped in the middle of a line
// that the user types, nothing runs on, the user is answered first, and then the
// work goes on.
func TestStopTalkAndGo(t *testing.T) {
	c := open(t, longTask)
	c.f.talk = func(_ context.Context, f *fake, _ string) result.Outcome {
		f.say(1, "I was running `go test ./...` when you stopped me; one of two tests had passed. Nothing runs now.")
		return result.Outcome{}
	}
	c.idle()
	c.Type("fix the tests\r")
	c.Has("shell go test")
	c.Type("what were you do")
	golden(t, "story-1-running", c.Has("❯ what were you do▏"))
	began := time.Now()
	c.Type("\x03")
	stopped := c.Has("ralph talk ❯ what were you do▏")
	t.Logf("^C to the prompt: %v", time.Since(began))
	golden(t, "story-2-stopped", stopped)
	c.Type("ing?\r")
	c.Has("Nothing runs now.\n· ")
	golden(t, "story-3-answered", c.Has("ralph talk ❯ ▏"))
	c.Type("/go\r")
	c.Has("the second of two tests.\n· ")
	golden(t, "story-4-gone-on", c.Has("ralph ❯ ▏"))
	c.f.mu.Lock()
	jobs := fmt.Sprintf("%+v", c.f.jobs)
	c.f.mu.Unlock()
	for i, want := range []coordinator.Job{{Task: "fix the tests", Chat: true}, {Task: "what were you doing?", Chat: true}, {Go: true, Chat: true}} {
		if !strings.Contains(jobs, fmt.Sprintf("%+v", want)) {
			t.Errorf("job %d is not %+v in %s", i+1, want, jobs)
		}
	}
	c.Type("\x04")
	c.left(0)
}

// TestTalkInASCII: the mode is seen without Unicode and without a cursor, too.
func TestTalkInASCII(t *testing.T) {
	for name, plain := range map[string]bool{"ralph talk > ▏": false, "ralph talk> ▏": true} {
		c := open(t, hang, func(o *Options) {
			o.Plain = plain
			o.Getenv = func(k string) string { return map[string]string{"TERM": "xterm", "LANG": "C"}[k] }
		})
		c.Has("> ▏")
		c.Type("work\r")
		c.began(1)
		c.Type("/stop\r")
		c.Has(name)
		c.Type("/exit\r")
		c.left(0)
	}
}

// began waits until the fake has begun n turns.
func (c *chat) began(n int) {
	c.t.Helper()
	for end := time.Now().Add(ttytest.Patience); len(c.f.said()) < n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("%d turns were begun, want %d; the screen is\n%s", len(c.f.said()), n, c.Screen())
		}
	}
}

func TestSayWhileBusy(t *testing.T) {
	release := make(chan struct{})
	c := open(t, listen(release))
	c.idle()
	c.Type("work\r")
	c.Has("on work")
	c.Type("/ask how far are you?\r")
	c.Has("┃ • one is done")
	c.Type("/later tell me more \x1b[200~\x1b]0;x\x07\x1b[2J\x1b[201~\r")
	c.Has("m-2 later queued: tell me more")
	c.Type("/now drop it\r")
	c.Has("m-3 urgent queued: drop it")
	c.Type("/now\r/ask \r")
	c.Has("/ask needs what you want to say")
	golden(t, "said", c.Has("2 queued ❯ ▏"))
	release <- struct{}{}
	c.Has("❯ drop it  m-3")
	c.Has("and on drop it")
	c.Has("1 queued ❯ ▏")
	close(release)
	c.Has("❯ tell me more ") // when the work has ended
	c.idle()
	c.Type("/now as a turn\r")
	c.Has("on as a turn")
	c.idle()
	c.Type("\x04")
	c.left(0)
}

func TestAskWhileIdle(t *testing.T) {
	c := open(t, echo)
	c.idle()
	c.Type("/ask what is left?\r")
	c.Has("┃ I am in the **middle** of it.")
	c.idle()
	c.Type("/ask silence\r")
	c.Has("asked")
	c.Type("half")
	c.Has("half▏")
	c.Type("\x03")
	c.Has("ralph ❯ /ask silence\nhalf▏") // at rest: the next Ctrl-C clears the line
	if n := c.f.stopped(); n != 1 || len(c.f.said()) != 0 {
		t.Errorf("%d stops, %d turns", n, len(c.f.said()))
	}
	c.Type("\x03\x04")
	c.left(0)
}

func TestHeldNotSaved(t *testing.T) {
	c := open(t, hang)
	c.idle()
	c.Type("work\r")
	c.Has("thinking")
	c.f.mu.Lock()
	c.f.full = true
	c.f.mu.Unlock()
	c.Type("obeyed all the same\r")
	c.Has("! m-1 held, not saved: obeyed all the same")
	c.Type("/queue\r")
	c.Has("held, not saved  obeyed")
	c.Type("\x03")
	c.Has("talk ❯ obeyed all the same▏")
	c.f.mu.Lock()
	c.f.full = false
	c.f.mu.Unlock()
	c.Type("\x03\x04")
	c.left(0)
}

// TestWhatWaits: what an earlier Ralph left, and what another terminal says while
// nothing runs, is delivered by itself.
func TestWhatWaits(t *testing.T) {
	c := open(t, echo, func(o *Options) {
		mind := o.Open
		o.Open = func(ctx context.Context, l Link) (Mind, error) { return mind(ctx, l) }
	})
	c.idle()
	c.f.Say(interrupts.Message{Class: interrupts.ClassSteer, Text: "from elsewhere", From: "term-2"})
	c.Has("m-1 from term-2 queued: from elsewhere")
	c.Has("❯ from elsewhere  m-1 from term-2")
	c.Has("You said **from elsewhere**.")
	c.idle()
	c.f.Say(interrupts.Message{Class: interrupts.ClassAsk, Text: "how far?", From: "term-2"})
	c.Has("┃ m-2 from term-2 ask: how far?")
	c.Type("\x04")
	c.left(0)
}

func TestWhatWaitsFromLastTime(t *testing.T) {
	left := []interrupts.Message{{N: 3, Class: interrupts.ClassLater, Text: "then lint", From: "chat", State: interrupts.Queued, Kept: true},
		{N: 4, Class: interrupts.ClassSteer, Text: "use tabs", From: "chat", State: interrupts.Queued, Kept: true}}
	f := &fake{turn: echo}
	c := open(t, echo, func(o *Options) {
		o.Open = func(_ context.Context, l Link) (Mind, error) { return f.attach(l, left...), nil }
	})
	s := c.Has("You said **use tabs, then lint**.")
	for _, want := range []string{"m-3 later, from last time: then lint", "m-4 steer, from last time: use tabs"} {
		if !strings.Contains(s, want) {
			t.Errorf("%q is missing:\n%s", want, s)
		}
	}
	c.idle()
	c.Type("\x04")
	c.left(0)
}

// TestUndeliverableDoesNotSpin: a turn for what waits is not begun again and again
// when it fails.
func TestUndeliverableDoesNotSpin(t *testing.T) {
	c := open(t, func(context.Context, *fake, string) result.Outcome {
		return result.Outcome{Status: result.ProviderError, Failure: &result.Failure{Kind: "server", Message: "the endpoint is down"}}
	})
	c.f.deaf = true
	c.idle()
	c.f.Say(interrupts.Message{Class: interrupts.ClassSteer, Text: "hear me", From: "term-2"})
	c.Has("the endpoint is down")
	c.Has("ralph · 1 queued ❯ ▏")
	time.Sleep(3 * spinEvery)
	if n := len(c.f.said()); n != 1 {
		t.Errorf("%d turns were begun", n)
	}
	c.f.Say(interrupts.Message{Class: interrupts.ClassSteer, Text: "and me", From: "term-2"})
	c.Until("another try", func(s string) bool { return strings.Count(s, "the endpoint is down") == 2 })
	c.Type("\x04")
	c.left(0)
}

func TestQueueCommand(t *testing.T) {
	c := open(t, hang)
	c.idle()
	c.Type("/queue\r")
	c.Has("nothing waits")
	c.Type("/queue drop m-1\r")
	c.Has(`there is no message "m-1"`)
	c.Type("work\r")
	c.Has("thinking")
	c.Type("one\r/later two\r/undo\r")
	c.Has("m-2 later queued")
	c.Type("/queue edit m-1 ONE\r")
	c.Has("m-1 edited: ONE")
	c.Type("/queue urgent m-2\r")
	c.Has("m-2 urgent edited: two")
	c.Type("\x0c/queue\r")
	c.Has("c-3")
	golden(t, "queue", steadyAges(c.Has("3 queued ❯ ▏")))
	for _, step := range [][2]string{
		{"/queue drop m-9", "hint: these wait: m-2, m-1"},
		{"/queue drop", "/queue drop needs the id"},
		{"/queue burn m-1", "/queue burn: there is no such thing"},
		{"/queue edit c-3 x", "c-3 is a command"},
		{"/queue drop c-3", "taken out: /undo"},
		{"/queue drop c-3", `there is no command "c-3"`},
		{"/queue drop m-2", "m-2 urgent cancelled: two"},
		{"/queue drop m-2", "m-2 waits no longer"},
	} {
		c.Type("\x0c" + step[0] + "\r")
		c.Has(step[1])
	}
	c.Type("/queue edit m-1\r")
	c.Has("❯ /queue edit m-1 ONE▏")
	c.Type("!\r")
	c.Has("m-1 edited: ONE!")
	c.Type("\x03")
	c.Has("talk ❯ ONE!▏")
	c.Type("\x03\x04")
	c.left(0)
}

func steadyAges(s string) string { return strings.NewReplacer("1 s", "0 s", "2 s", "0 s").Replace(s) }

// TestCommandsWhileAsked: what works while a turn runs works while it waits for an
// answer; everything else is the answer; what is urgent closes the question.
func TestCommandsWhileAsked(t *testing.T) {
	answers := make(chan string, 1)
	c := open(t, func(ctx context.Context, f *fake, task string) result.Outcome {
		if task != "go" {
			return echo(ctx, f, task)
		}
		step, release := f.queue.Step(ctx, "")
		defer release()
		a, err := f.link.Ask(step, permission.Question{Kind: "question", Text: "which?"})
		if _, ok := interrupts.AsPreempt(err); ok {
			err = errors.New("denied by an urgent message")
		}
		answers <- fmt.Sprint(a, " ", err)
		return result.Outcome{}
	})
	ask := func() {
		c.idle()
		c.Type("\x0cgo\r")
		c.Has("which?\n\nanswer ? ▏")
	}
	answer := func(want string) {
		t.Helper()
		select {
		case got := <-answers:
			if got != want {
				t.Errorf("answered %q, want %q", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("no answer; the screen is\n%s", c.Screen())
		}
	}
	ask()
	c.Type("/later and then\r/status\r/queue\r/ask how?\r")
	c.Has("one is done")
	c.Has("m-2 ask queued")
	c.Type("/queue drop m-1\r")
	c.Has("m-1 later cancelled")
	c.Has("answer ? ▏")
	c.Type("/undo it\r") // a command is no answer, also when it does not work while a turn runs
	c.Has("/undo waits until the turn ends")
	c.Type("/queue\r")
	c.Has("/undo it\n")
	c.Type("/queue drop c-3\r")
	c.Has("taken out: /undo it")
	c.Type("/tmp/it\r") // a path is one
	answer("/tmp/it <nil>")
	ask()
	c.Type("/now leave it\r")
	answer(" denied by an urgent message")
	c.Has("You said **leave it**.")
	ask()
	c.Type("half an ans")
	c.Has("half an ans▏")
	c.Type("\x03")
	answer(" interrupted by SIGINT")
	c.Has("talk ❯ half an ans▏")
	c.Type("\x15")
	ask()
	c.Type("/stop\r")
	answer(" stopped by the user: /stop")
	c.idle()
	c.Type("\x04")
	c.left(0)
}

func TestPauseAndResume(t *testing.T) {
	c := open(t, hang)
	c.idle()
	c.f.mu.Lock()
	c.f.crew = []crew.Agent{{ID: "helper", Parent: "ralph", Depth: 1, Task: "help", State: crew.Interrupted}}
	c.f.mu.Unlock()
	c.Type("/resume\r")
	c.Has("nothing to go on with")
	c.Type("/go\r")
	c.Has("nothing was stopped")
	c.Type("/stop\r")
	c.Has("nothing runs")
	c.Type("work\r")
	c.Has("thinking")
	c.Type("/pause\r")
	c.Has("ralph ⠋ paused")
	c.Type("/resume\r")
	c.Has("the work goes on")
	c.Lacks("paused ❯")
	c.Type("/pause\r")
	c.Has("paused ❯")
	c.Type("/go\r")
	c.Lacks("paused ❯")
	c.Type("/stop bg-9\r")
	c.Has("there is bg-1")
	c.Type("/stop bg-1\r")
	c.Has("bg-1 is stopped")
	c.Type("/stop\r")
	c.Has("ralph talk ❯ ▏")
	c.Type("/go instead this\r")
	c.Has("thinking")
	c.Lacks("talk ❯")
	c.Type("\x03")
	c.Has("ralph talk ❯ ▏")
	c.Type("/resume helpre\r")
	c.Has("did you mean helper?")
	c.Type("/resume helper\r")
	c.began(3)
	c.f.mu.Lock()
	last := c.f.jobs[len(c.f.jobs)-1]
	c.f.mu.Unlock()
	if last.Agent != "helper" || !last.Go {
		t.Errorf("the job is %+v", last)
	}
	c.Type("/exit\r")
	c.left(0)
}

// TestStopOfSomebodyElsesWork: the chat stops what the coordinator does for
// another terminal as well.
func TestStopOfSomebodyElsesWork(t *testing.T) {
	c := open(t, hang)
	c.idle()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.f.Run(t.Context(), coordinator.Job{Task: "for term-2"})
	}()
	c.Has("ralph ⠋ ❯ ▏")
	c.Type("half")
	c.Has("half▏")
	c.Type("\x03")
	<-ended
	c.Has("stopped; 2 commands ended")
	c.Has("talk ❯ half▏")
	c.Type("\x03\x04")
	c.left(0)
}

// TestMuchIsSaid: a message of a megabyte and ten thousand lines do not slow the
// shell, and none is lost.
func TestMuchIsSaid(t *testing.T) {
	t.Parallel()
	c := open(t, hang)
	c.idle()
	c.Type("work\r")
	c.Has("thinking")
	big := strings.Repeat("0123456789abcde\n", 1<<16)
	go c.Type("\x1b[200~" + big + "\x1b[201~\r")
	c.Has("m-1 queued: 0123456789abcde …")
	many := 2_500
	if os.Getenv("RALPH_TEST_SWEEP") != "" {
		many = 10_000
	}
	began := time.Now()
	go func() {
		var some strings.Builder // what a terminal passes on at a time
		for i := range many {
			// Marked as pasted: so many lines in one read are else taken for one paste.
			fmt.Fprintf(&some, "\x1b[200~line %d\x1b[201~\r", i)
			if some.Len() > 1<<10 || i == many-1 {
				c.Type(some.String())
				some.Reset()
			}
		}
	}()
	c.Until("the last line", func(s string) bool { return strings.Contains(s, fmt.Sprintf("m-%d queued: line %d", many+1, many-1)) })
	t.Logf("%d lines in %v", many, time.Since(began))
	waiting := c.f.queue.Waiting()
	if len(waiting) != many+1 || waiting[0].Text != strings.TrimSpace(big) || waiting[many].Text != fmt.Sprintf("line %d", many-1) {
		t.Errorf("%d messages wait", len(waiting))
	}
	c.Has(fmt.Sprintf("%d queued", many+1))
	began = time.Now()
	c.Type("\x03")
	c.Has("not sent: more lines")
	c.Has("talk ❯ [pasted")
	t.Logf("given back in %v", time.Since(began))
	c.Type("\x03\x04")
	c.left(0)
}
