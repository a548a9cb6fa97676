package repl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/loop"
	"ralph/coordinator/permission"
	"ralph/coordinator/result"
	"ralph/workers/agent"
)

// buffer is an output that is read while it is written.
type buffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// played runs a chat that play plays, and returns its exit code and what it said.
func played(t *testing.T, f *fake, play func(ctx context.Context, stage Stage, out *buffer) int) (code int, text string, ended []result.Outcome, events []agent.Event) {
	t.Helper()
	var mu sync.Mutex // guards ended and events
	out := &buffer{}
	t.Cleanup(f.release)
	code, err := Run(t.Context(), Options{Open: func(_ context.Context, l Link) (Mind, error) { return f.attach(l), nil }, Script: &Script{
		Out:  out,
		Play: func(ctx context.Context, stage Stage) int { return play(ctx, stage, out) },
		Eyes: func(e agent.Event) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, e)
		},
		Ended: func(o result.Outcome) {
			mu.Lock()
			defer mu.Unlock()
			ended = append(ended, o)
		},
	}})
	if err != nil {
		t.Errorf("the chat says %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	return code, out.String(), ended, events
}

// Each rest comes when all has ended that was typed before it: turns, commands
// that look beside the work, messages and side questions.
func TestScriptedRests(t *testing.T) {
	t.Parallel()
	f := &fake{model: "m", turn: echo}
	code, text, ended, events := played(t, f, func(ctx context.Context, stage Stage, out *buffer) int {
		for i, c := range []struct{ line, want string }{
			{"one", "You said **one**."}, {"/tasks", "Retry the upload"}, {"/status", "idle"}, {"two", "You said **two**."}, {"/undo", "taken back"},
			{"/ask how far?", "one is done"}, {"/later three", "You said **three**."}, {"/diff", "+y"}, {"/nosuch", "there is no command"}, {"/compact", "90 messages became 12"},
		} {
			if i == 0 {
				if err := stage.Rest(ctx); err != nil {
					t.Errorf("the chat does not open: %v", err)
				}
			}
			before := out.String()
			if err := errors.Join(stage.Say(ctx, c.line), stage.Rest(ctx)); err != nil {
				t.Errorf("%s: %v", c.line, err)
			}
			if got := strings.TrimPrefix(out.String(), before); !strings.Contains(got, c.want) {
				t.Errorf("%s printed %q until rest, want %q", c.line, got, c.want)
			}
		}
		return 7
	})
	if code != 7 || len(ended) != 3 || len(events) == 0 || strings.Contains(text, "\n> one\n") || strings.ContainsAny(text, "\x1b\r") {
		t.Errorf("left with %d after %d turns and %d events:\n%s", code, len(ended), len(events), text)
	}
	if !f.closed {
		t.Error("the coordinator is not closed")
	}
}

// What asks is rest: the next line answers, or nobody does.
func TestScriptedQuestions(t *testing.T) {
	t.Parallel()
	f := &fake{model: "m", turn: func(ctx context.Context, f *fake, task string) result.Outcome {
		a, err := f.link.Ask(ctx, permission.Question{Kind: "question", Text: "which " + task + "?"})
		f.say(1, fmt.Sprint("answer ", a, " ", err))
		return result.Outcome{Answer: a}
	}}
	_, text, ended, _ := played(t, f, func(ctx context.Context, stage Stage, _ *buffer) int {
		ask := func() string {
			_, q, err := stage.Look(ctx)
			if err != nil {
				t.Error(err)
			}
			return q
		}
		must := func(errs ...error) {
			if err := errors.Join(errs...); err != nil {
				t.Error(err)
			}
		}
		must(stage.Rest(ctx), stage.Say(ctx, "colour"), stage.Rest(ctx))
		if q := ask(); q != "which colour?" {
			t.Errorf("it asks %q", q)
		}
		must(stage.Say(ctx, "/tasks"), stage.Rest(ctx)) // no answer
		must(stage.Say(ctx, "blue"), stage.Rest(ctx))
		if q := ask(); q != "" {
			t.Errorf("it asks %q still", q)
		}
		must(stage.Say(ctx, "size"), stage.Rest(ctx), stage.Decline(ctx), stage.Rest(ctx), stage.Say(ctx, "end"), stage.Rest(ctx))
		return 0 // in the middle of a question
	})
	if len(ended) != 3 || ended[0].Answer != "blue" || !strings.Contains(text, "answer  "+ErrNobody.Error()) {
		t.Errorf("%+v\n%s", ended, text)
	}
}

// Lines are typed while work runs: some are said to it, one stops it, and paused
// work is rest.
func TestScriptedBesideWork(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 3)
	f := &fake{model: "m", talk: echo, turn: func(ctx context.Context, f *fake, task string) result.Outcome {
		begun <- struct{}{}
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(2 * time.Millisecond):
			}
			if heard := f.inbox(false); slices.Contains(heard, "end it") {
				f.say(1, "ended: "+strings.Join(heard, ","))
				return result.Outcome{Answer: "ended"}
			}
		}
		return result.Outcome{}
	}}
	code, text, ended, _ := played(t, f, func(ctx context.Context, stage Stage, _ *buffer) int {
		err := errors.Join(stage.Rest(ctx), stage.Say(ctx, "work"))
		<-begun
		err = errors.Join(err, stage.Say(ctx, "/pause"), stage.Rest(ctx))
		if live, _, e := stage.Look(ctx); live.State != statePaused || e != nil {
			t.Errorf("rest while the work is %s, %v", live.State, e)
		}
		err = errors.Join(err, stage.Say(ctx, "/resume"), stage.Say(ctx, "end it"), stage.Rest(ctx))
		if n := len(f.said()); n != 1 {
			t.Errorf("%d turns", n)
		}
		err = errors.Join(err, stage.Say(ctx, "more"))
		<-begun
		err = errors.Join(err, stage.Say(ctx, "/stop"), stage.Rest(ctx))
		if live, _, e := stage.Look(ctx); live.Mode != modeTalk || e != nil {
			t.Errorf("after the stop the mode is %s, %v", live.Mode, e)
		}
		err = errors.Join(err, stage.Say(ctx, "why?"), stage.Rest(ctx), stage.Say(ctx, "/go last"))
		<-begun
		if err != nil {
			t.Error(err)
		}
		return 3 // what runs is stopped
	})
	if code != 3 || len(ended) != 4 || ended[0].Answer != "ended" || ended[1].Status != result.Interrupted || ended[2].Status != result.Completed ||
		ended[3].Status != result.Interrupted || !strings.Contains(text, "You said **why?**.") {
		t.Errorf("left with %d, %+v\n%s", code, ended, text)
	}
}

// The chat may end before the script, which is told.
func TestScriptedIsLeft(t *testing.T) {
	t.Parallel()
	told := make(chan error, 1)
	code, _, _, _ := played(t, &fake{model: "m", turn: echo}, func(ctx context.Context, stage Stage, _ *buffer) int {
		err := errors.Join(stage.Rest(ctx), stage.Say(ctx, "/exit"))
		if err != nil {
			t.Error(err)
		}
		told <- stage.Rest(ctx)
		_, _, err = stage.Look(ctx)
		if err == nil || stage.Say(ctx, "anybody?") == nil || stage.Decline(ctx) == nil {
			t.Error("a chat that was left still takes lines")
		}
		return 9
	})
	if err := <-told; code != 0 || err == nil {
		t.Errorf("left with %d, %v", code, err)
	}
}

func TestScriptedPanic(t *testing.T) {
	t.Parallel()
	f := &fake{model: "m", turn: echo}
	defer f.release()
	defer func() {
		if p := recover(); !strings.Contains(fmt.Sprint(p), "the script is broken") {
			t.Errorf("panic: %v", p)
		}
	}()
	_, _ = Run(t.Context(), Options{Open: func(_ context.Context, l Link) (Mind, error) { return f.attach(l), nil }, Script: &Script{
		Out: &buffer{}, Play: func(context.Context, Stage) int { panic("the script is broken") }}})
	t.Error("the panic is lost")
}

// A run that was paused for a reason says so before it goes on and when it ends,
// and a script must not take that for rest.
func TestHeld(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		now  coordinator.Live
		want bool
	}{
		{coordinator.Live{State: stateRunning}, false},
		{coordinator.Live{State: statePaused}, true},
		{coordinator.Live{State: statePaused, Loop: &loop.View{}}, true},
		{coordinator.Live{State: statePaused, Loop: &loop.View{Reason: "it needs an answer: go on?"}}, false},
	} {
		if got := held(c.now); got != c.want {
			t.Errorf("%+v: %v", c.now, got)
		}
	}
}
