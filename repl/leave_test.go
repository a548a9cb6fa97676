package repl

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"ralph/workers/agent"
)

// with makes f the coordinator.
func with(f *fake) func(*Options) {
	return func(o *Options) {
		o.Open = func(_ context.Context, l Link) (Mind, error) { return f.attach(l), nil }
	}
}

// TestLeavingTellsWhatWasNotSent: nothing that was accepted, or waited here,
// vanishes without a word, and the farewell counts a turn that its stop ended.
func TestLeavingTellsWhatWasNotSent(t *testing.T) {
	f := &fake{turn: listen(nil), model: "gpt-large"}
	f.closing = func(f *fake) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.totals.Turns++ // a coordinator adds up what a stopped turn did beside the conversation
	}
	c := open(t, nil, with(f))
	c.idle()
	c.Type("work\r")
	c.Has("on work")
	c.Type("three\r/later four\r/diff\r")
	c.Has("3 queued ❯ ▏")
	c.Type("\x04")
	c.left(0)
	for _, want := range []string{"not sent: three\n· not sent: /later four\n· not sent: /diff\n", "2 turns,", "ralph chat --resume"} {
		c.Has(want)
	}
	if s := c.Screen(); strings.Contains(s, "❯ three") || strings.Index(s, "not sent") > strings.Index(s, "2 turns,") {
		t.Errorf("the screen is\n%s", s)
	}
}

// TestInterruptsWhileClosing: a coordinator that hangs in Close holds nobody.
func TestInterruptsWhileClosing(t *testing.T) {
	hung := make(chan struct{})
	closes := make(chan struct{})
	f := &fake{turn: echo, closing: func(*fake) { close(closes); <-hung }}
	c := open(t, nil, with(f))
	c.idle()
	c.Type("\x04")
	<-closes
	c.Type("\x03\x03\x03")
	c.left(130)
	if n := f.kills.Load(); n != 1 {
		t.Errorf("%d kills", n)
	}
	close(hung)
	f.release()
}

// TestHintsAreNotRepeatedForEver: what can be done after a stop is said twice; the
// prompt says it from then on.
func TestHintsAreNotRepeatedForEver(t *testing.T) {
	c := open(t, hang)
	c.idle()
	for i, task := range []string{"one\r", "/go\r", "/go\r"} {
		c.Type(task)
		c.began(i + 1)
		c.Type("\x03")
		c.idle()
	}
	s := c.Has("! stopped (")
	if n := strings.Count(s, "only talk from here"); n != 2 {
		t.Errorf("said %d times:\n%s", n, s)
	}
	c.Type("\x04")
	c.left(0)
}

// TestGoWithoutAStop: it does not wait for a turn that it has nothing to do with.
func TestGoWithoutAStop(t *testing.T) {
	c := open(t, hang)
	c.idle()
	c.Type("/go\r")
	c.Has("nothing was stopped; say what you want done")
	c.Type("work\r")
	c.Has("thinking")
	c.Type("/go\r")
	c.Has("nothing was stopped; the work goes on")
	c.Lacks("queued")
	c.Type("/go something else\r")
	c.Has("/go waits until the turn ends")
	c.Type("\x03")
	c.Has("talk ❯ /go something else▏")
	c.Type("\x03\x04")
	c.left(0)
}

// TestAskIsShownOnce: a question at an idle prompt stands there as accepted, and
// above its answer.
func TestAskIsShownOnce(t *testing.T) {
	c := open(t, echo)
	c.idle()
	c.Type("/ask how far?\r")
	c.Has("┃ m-1 ask: how far?")
	c.idle()
	if s := c.Screen(); strings.Count(s, "how far?") != 2 {
		t.Errorf("the screen is\n%s", s)
	}
	c.Type("\x04")
	c.left(0)
}

// TestFitted: in a narrow prompt whole facts are left out, the least telling
// first; none is cut in the middle.
func TestFitted(t *testing.T) {
	s := &Shell{o: Options{Getenv: func(string) string { return "" }}}
	facts, spent := []string{"2 queued", "1 in background"}, []string{"20k tok"}
	for room, want := range map[int]string{
		80: "ralph ⠋ shell go test ./... · 2 queued · 1 in background · 20k tok",
		60: "ralph ⠋ shell go tes… · 2 queued · 1 in background · 20k tok",
		50: "ralph ⠋ shell go tes… · 2 queued · 1 in background",
		40: "ralph ⠋ shell go test ./... · 2 queued",
		20: "ralph ⠋ 2 queued",
		12: "ralph ⠋",
	} {
		got := s.fitted("ralph ⠋", "shell go test ./...", facts, spent, room)
		if got != want || len([]rune(got)) > room {
			t.Errorf("room %d: %q, want %q", room, got, want)
		}
	}
}

// TestManyReturnedOneByOne: what a stop gives back is named up to a number, also
// when it comes in many parts.
func TestManyReturnedOneByOne(t *testing.T) {
	c := open(t, hang)
	c.idle()
	c.Type("work\r")
	c.Has("thinking")
	c.Type("\x03")
	c.idle()
	for i := range shownReturned + 3 {
		c.f.link.Eyes(agent.Event{Type: agent.EventInbox, Status: "returned", Class: "steer", From: "chat", Ref: fmt.Sprintf("m-%d", 100+i), Text: fmt.Sprintf("line %d", i)})
		c.Has(fmt.Sprintf("line %d▏", i))
	}
	if s := c.Screen(); strings.Count(s, "not sent") != shownReturned+1 || !strings.Contains(s, "not sent: more lines") {
		t.Errorf("the screen is\n%s", s)
	}
	c.Type("\x03\x04")
	c.left(0)
}
