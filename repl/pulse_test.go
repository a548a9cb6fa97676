package repl

import (
	"context"
	"strings"
	"testing"
	"time"

	"ralph/coordinator/result"
	"ralph/workers/agent"
)

// TestPulse: the words come at growing intervals, and not among others.
func TestPulse(t *testing.T) {
	start := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	var p pulse
	if p.due(start, start) {
		t.Error("due before any work")
	}
	p.beat(start, 0)
	var told []time.Duration
	for at := time.Duration(0); at <= 30*time.Minute; at += time.Second {
		if p.due(start.Add(at), start) {
			told = append(told, at)
		}
	}
	want := []time.Duration{10 * time.Second, 30 * time.Second, 70 * time.Second, 150 * time.Second, 310 * time.Second, 610 * time.Second, 910 * time.Second}
	for i, w := range want {
		if i >= len(told) || told[i] != w {
			t.Fatalf("told at %v, want %v …", told, want)
		}
	}
	// Something is printed each second: nothing is said until it is quiet.
	p.beat(start, 0)
	for at := time.Duration(0); at <= time.Minute; at += time.Second {
		if now := start.Add(at); p.due(now, now.Add(-time.Second)) {
			t.Errorf("told after %v among other words", at)
		}
	}
	if now := start.Add(61*time.Second + quietBefore); !p.due(now, start.Add(time.Minute)) {
		t.Error("not told when it was quiet again")
	}
}

// TestPlainWords: where nothing moves, words say what goes on; no row is written
// twice, and there is no spinner.
func TestPlainWords(t *testing.T) {
	release := make(chan struct{})
	c := open(t, func(_ context.Context, f *fake, _ string) result.Outcome {
		f.link.Eyes(agent.Event{Type: agent.EventTurnStart, Turn: 1})
		f.link.Eyes(agent.Event{Type: agent.EventToolStart, CallID: "1", Tool: "shell", Args: []byte(`{"command":"go test ./..."}`)})
		<-release
		return result.Outcome{}
	}, func(o *Options) { o.Plain, o.pulseFirst = true, 50*time.Millisecond })
	c.Has("ralph> ▏")
	c.Type("hello\n")
	c.Has("working")
	c.Has("still working: shell go test ./... (")
	close(release)
	c.Has("done: ")
	c.Has("ralph> ▏")
	c.Type("/exit\n")
	c.left(0)
	s := c.Screen()
	if strings.ContainsAny(s, "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏") || c.Received("\x1b") > 0 {
		t.Errorf("something moves:\n%s", s)
	}
}
