package interrupts_test

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"ralph/interrupts"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		watchChild()
	}
	// A shell's background job ignores some signals, and so would the children of
	// the tests: what is handled here has its default action there.
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	goleak.VerifyTestMain(m)
}

func TestStopNames(t *testing.T) {
	for want, s := range map[string]*interrupts.Stop{
		"interrupted by SIGINT":      {Signal: syscall.SIGINT},
		"interrupted by signal 10":   {Signal: syscall.SIGUSR1},
		"stopped by the user: wrong": {Text: "wrong"},
		"stopped by the user":        {},
		"interrupted by SIGTERM":     {Signal: syscall.SIGTERM, Text: "x"},
	} {
		if s.Error() != want {
			t.Errorf("%#v reads %q, want %q", s, s.Error(), want)
		}
	}
	if _, ok := interrupts.AsStop(errors.New("other")); ok {
		t.Error("found a stop in a plain error")
	}
}

func TestPreemptNames(t *testing.T) {
	cause := &interrupts.Preempt{Message: interrupts.Message{N: 17, Text: "look"}}
	if cause.Error() != "pre-empted by m-17" {
		t.Errorf("reads %q", cause)
	}
	if p, ok := interrupts.AsPreempt(fmt.Errorf("request: %w", cause)); !ok || p.Message.Text != "look" {
		t.Errorf("found %v, %v", p, ok)
	}
	if _, ok := interrupts.AsPreempt(&interrupts.Stop{}); ok {
		t.Error("a stop reads as a pre-emption")
	}
}

func TestClassesAreFiveWords(t *testing.T) {
	for want, word := range []string{"stop", "urgent", "ask", "steer", "later"} {
		c, err := interrupts.ParseClass(word)
		if err != nil || c != interrupts.Class(want) || c.String() != word {
			t.Errorf("%s: %v %v", word, c, err)
		}
	}
	for _, word := range []string{"", "Stop", "later ", "class 5"} {
		if c, err := interrupts.ParseClass(word); err == nil {
			t.Errorf("%q reads as %v", word, c)
		}
	}
	if s := interrupts.Class(9).String(); s != "class 9" {
		t.Errorf("class 9 is called %q", s)
	}
}
