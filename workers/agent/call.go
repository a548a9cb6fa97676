package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"ralph/memory/text"
)

// phase is how far a call is.
type phase int

const (
	deciding phase = iota // whether it may run
	running
	backgrounded // runs on, answered already
	finished     // its result stands
	givenUp      // answered without its result, which is late
	void         // answered without having run, and will not run
)

// call is one tool call, which a goroutine of its own decides about and runs. It
// is begun by begin and over when done is closed.
type call struct {
	Call
	loop  *Loop
	turn  int
	shown json.RawMessage // the arguments as events show them
	end   context.CancelCauseFunc
	done  chan struct{}

	// ref and ending are guarded by aside.mu; ref never changes once it is set.
	ref    string
	ending bool

	// mu guards what follows, and orders the events of the call: who changes the
	// phase tells it before mu is given back.
	mu     sync.Mutex
	phase  phase
	asks   bool      // it waits for the human
	since  time.Time // of the run, once it runs
	result Result    // of a finished call
	took   time.Duration
}

// begin tells of a call and starts it. ctx is what its work ends with; step is
// what a question to the human ends with.
func (l *Loop) begin(ctx, step context.Context, turn int, c Call) *call {
	args := json.RawMessage(strings.TrimSpace(c.Args))
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	k := &call{Call: c, loop: l, turn: turn, shown: args, done: make(chan struct{})}
	if !json.Valid(args) {
		k.shown, _ = json.Marshal(c.Args) // a string always encodes
	}
	l.emit(Event{Type: EventToolStart, Turn: turn, CallID: c.ID, Tool: c.Name, Args: k.shown})
	ctx, k.end = context.WithCancelCause(ctx)
	step, endStep := context.WithCancelCause(step)
	go func() {
		defer close(k.done)
		defer endStep(nil)
		defer k.end(nil)
		k.finish(k.decide(ctx, step, args))
	}()
	return k
}

// decide answers what cannot run and runs what can; a panic is its result.
func (k *call) decide(ctx, step context.Context, args json.RawMessage) (r Result) {
	defer func() {
		if p := recover(); p != nil {
			r = Result{Failed: true, Brief: "panic", Text: fmt.Sprintf("the tool %s broke: %v\n%s", k.Name, p, debug.Stack())}
		}
	}()
	l, c := k.loop, k.Call
	t, ok := l.tool(c.Name)
	switch {
	case !ok:
		return Result{Failed: true, Text: fmt.Sprintf("there is no tool %q; the tools are: %s", c.Name, l.names())}
	case !json.Valid(args):
		return Result{Failed: true, Text: fmt.Sprintf("the arguments of %s are not valid JSON: %v; send the call again with one JSON object", c.Name, jsonProblem(args))}
	case args[0] != '{':
		return Result{Failed: true, Text: fmt.Sprintf("the arguments of %s must be one JSON object", c.Name)}
	}
	if t.Canonical != nil {
		canonical, err := t.Canonical(args)
		if err != nil {
			return Result{Brief: "bad arguments"}.With(err)
		}
		c.Args = string(canonical)
	}
	if l.Permit != nil {
		if v := l.Permit(step, t, c); v.Denied != "" {
			return Result{Failed: true, Denied: v.Denied, Text: v.Text, Brief: "denied"}
		}
	}
	if why := k.run(ctx, step, t.Asks); why != "" {
		return Result{Failed: true, Text: why}
	}
	if t.Asks {
		ctx = step
	}
	r, err := t.Run(ctx, args)
	return r.With(err)
}

// run goes from deciding to running, or says why not.
func (k *call) run(ctx, step context.Context, asks bool) (why string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return stoppedText
	case step.Err() != nil:
		return urgentText
	}
	k.phase, k.asks, k.since = running, asks, time.Now()
	return ""
}

// finish takes in the result. How long a human thought about the permission is
// not the tool's time.
func (k *call) finish(r Result) {
	k.mu.Lock()
	if !k.since.IsZero() {
		k.took = time.Since(k.since)
	}
	was := k.phase
	if was == givenUp || was == void {
		k.mu.Unlock()
		if was == givenUp && k.loop.Late != nil {
			k.loop.Late(Message{Role: RoleTool, CallID: k.ID, Text: r.Answer()})
		}
		return
	}
	defer k.mu.Unlock()
	k.phase, k.result = finished, r
	k.loop.emit(k.endEvent(was, r))
}

// leave takes a call that has not ended away from its step, which was preempted:
// what runs goes on in the background, a question is answered with no. It returns
// the answer for the model; one that has just ended is left as it is.
func (k *call) leave() (answer Result, now phase) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.phase == finished:
		return k.result, finished
	case k.phase == deciding || k.asks:
		k.phase = void
		answer = Result{Failed: true, Denied: deniedByStop, Text: deniedText, Brief: "denied"}
		k.loop.emit(k.endEvent(deciding, answer))
		return answer, void
	}
	k.phase = backgrounded
	k.loop.aside.add(k)
	answer = Result{Brief: "in the background as " + k.ref,
		Text: fmt.Sprintf("still running in the background as %s, because an urgent message came first; its result arrives later", k.ref)}
	e := k.endEvent(running, answer)
	e.OK, e.Ref, e.Status = nil, k.ref, statusBackground
	k.loop.emit(e)
	return answer, backgrounded
}

// giveUp answers a call that did not end with its context. What it still brings
// is late. One that has just ended is left as it is.
func (k *call) giveUp() (answer Result, now phase) {
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.phase
	switch was {
	case finished:
		return k.result, finished
	case deciding:
		k.phase = void
		answer = Result{Failed: true, Text: stoppedText, Brief: "not run"}
	default:
		k.phase, k.took = givenUp, time.Since(k.since)
		answer = Result{Failed: true, Text: unknownText, Brief: "outcome unknown"}
	}
	k.loop.emit(k.endEvent(was, answer))
	return answer, k.phase
}

// endEvent tells the end of a call that was in a phase; mu is held. The end of
// one in the background comes long after its step and its first answer, so it
// says all about it.
func (k *call) endEvent(was phase, r Result) Event {
	ok, took := !r.Failed, k.took.Milliseconds()
	e := Event{Type: EventToolEnd, Turn: k.turn, CallID: k.ID, Tool: k.Name, Text: r.Brief,
		Output: text.Head(r.Answer(), maxEventOutput), OK: &ok, Denied: r.Denied != "", Rule: r.Denied, DurationMS: &took}
	if r.Command != nil {
		code := r.Command.ExitCode
		e.ExitCode = &code
	}
	if was == backgrounded {
		k.loop.aside.ending(k)
		e.Args, e.Ref, e.Status = k.shown, k.ref, statusEnded
	}
	return e
}
