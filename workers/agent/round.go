package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// stoppedText answers a call that a stop kept from running.
const stoppedText = "stopped by the user before it ran"

// maxSide is how many reading tools run side by side.
const maxSide = 8

// maxEventOutput bounds the tool output that an event carries, in bytes; the
// transcript and the log keep it whole.
const maxEventOutput = 4 << 10

// answered is a call with what came of it.
type answered struct {
	call   Call
	result Result
	took   time.Duration
	ran    bool
}

// endedText answers a call that the end of the run kept from running.
const endedText = "not run: the run ended before it"

// round runs the calls of one reply in the order of the model and appends one
// answer each, in that order. Neighbouring calls that only read run side by
// side. Once ctx ends, Halt says so or a record fails, nothing more is begun:
// the calls that are left are answered as not run.
func (l *Loop) round(ctx context.Context, end *End, calls []Call) {
	turn := end.Spent.Turns
	for len(calls) > 0 {
		n := l.sideBySide(calls)
		for _, a := range l.runAll(ctx, turn, calls[:n]) {
			l.file(end, a)
		}
		calls = calls[n:]
		switch {
		case ctx.Err() != nil:
			// The stop is why it ends, whatever else went wrong meanwhile.
			end.Err = context.Cause(ctx)
			l.skip(end, calls, stoppedText)
			return
		case end.Err == nil && l.Halt != nil:
			end.Err = l.Halt()
		}
		if end.Err != nil {
			l.skip(end, calls, endedText)
			return
		}
	}
}

// sideBySide says how many calls from the front may run at once, at least one.
func (l *Loop) sideBySide(calls []Call) int {
	n := 0
	for n < len(calls) && n < maxSide {
		t, ok := l.tool(calls[n].Name)
		if !ok || t.Effect != EffectRead {
			break
		}
		n++
	}
	return max(n, 1)
}

func (l *Loop) runAll(ctx context.Context, turn int, calls []Call) []answered {
	out := make([]answered, len(calls))
	if len(calls) == 1 {
		out[0] = l.run(ctx, turn, calls[0])
		return out
	}
	var wg sync.WaitGroup
	for i, c := range calls {
		wg.Go(func() { out[i] = l.run(ctx, turn, c) })
	}
	wg.Wait()
	return out
}

// run decides about one call, runs it and tells about it.
func (l *Loop) run(ctx context.Context, turn int, c Call) answered {
	a := answered{call: c}
	if ctx.Err() != nil {
		a.result = Result{Text: stoppedText, Failed: true}
		return a
	}
	args := json.RawMessage(strings.TrimSpace(c.Args))
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	shown := args
	if !json.Valid(args) {
		shown, _ = json.Marshal(c.Args) // a string always encodes
	}
	l.emit(Event{Type: EventToolStart, Turn: turn, CallID: c.ID, Tool: c.Name, Args: shown})
	a.ran = true
	a.result, a.took = l.decide(ctx, c, args)
	l.emit(toolEnd(turn, a))
	return a
}

// decide answers what cannot run and runs what can. took is the time of the run
// alone: how long a human thought about the permission is not the tool's.
func (l *Loop) decide(ctx context.Context, c Call, args json.RawMessage) (r Result, took time.Duration) {
	t, ok := l.tool(c.Name)
	switch {
	case !ok:
		return Result{Failed: true, Text: fmt.Sprintf("there is no tool %q; the tools are: %s", c.Name, l.names())}, 0
	case !json.Valid(args):
		return Result{Failed: true, Text: fmt.Sprintf("the arguments of %s are not valid JSON: %v; send the call again with one JSON object", c.Name, jsonProblem(args))}, 0
	case args[0] != '{':
		return Result{Failed: true, Text: fmt.Sprintf("the arguments of %s must be one JSON object", c.Name)}, 0
	}
	if t.Canonical != nil {
		canonical, err := t.Canonical(args)
		if err != nil {
			return Result{Brief: "bad arguments"}.With(err), 0
		}
		c.Args = string(canonical)
	}
	if l.Permit != nil {
		if v := l.Permit(ctx, t, c); v.Denied != "" {
			return Result{Failed: true, Denied: v.Denied, Text: v.Text, Brief: "denied"}, 0
		}
	}
	if ctx.Err() != nil {
		return Result{Text: stoppedText, Failed: true}, 0
	}
	began := time.Now()
	r = guarded(ctx, t, args)
	return r, time.Since(began)
}

// guarded runs a tool so that its panic is its result.
func guarded(ctx context.Context, t Tool, args json.RawMessage) (r Result) {
	defer func() {
		if p := recover(); p != nil {
			r = Result{Failed: true, Brief: "panic", Text: fmt.Sprintf("the tool %s broke: %v\n%s", t.Name, p, debug.Stack())}
		}
	}()
	r, err := t.Run(ctx, args)
	return r.With(err)
}

// file counts an answered call and appends its answer to the transcript.
func (l *Loop) file(end *End, a answered) {
	if a.ran {
		end.Calls++
	}
	switch {
	case a.result.Denied != "":
		end.Denied++
		end.Refused = append(end.Refused, Refusal{Call: a.call, Rule: a.result.Denied})
	case a.ran && a.result.Failed:
		end.Failed++
	}
	if a.result.Command != nil {
		end.Commands = append(end.Commands, *a.result.Command)
	}
	if a.result.Finish != nil && !a.result.Failed {
		end.Finish = a.result.Finish
	}
	if err := l.add(end, Message{Role: RoleTool, CallID: a.call.ID, Text: a.result.Answer()}); err != nil && end.Err == nil {
		end.Err = err
	}
}

// skip answers calls that are not run at all.
func (l *Loop) skip(end *End, calls []Call, why string) {
	for _, c := range calls {
		l.file(end, answered{call: c, result: Result{Text: why, Failed: true}})
	}
}

// Repair makes a transcript valid that was cut off anywhere: each call without
// an answer gets one that says outcome, and answers to no call are left out.
func Repair(transcript []Message, outcome string) []Message {
	out := make([]Message, 0, len(transcript))
	var open []Call
	closeOpen := func() {
		for _, c := range open {
			out = append(out, Message{Role: RoleTool, CallID: c.ID, Text: outcome})
		}
		open = nil
	}
	for _, m := range transcript {
		if m.Role == RoleTool {
			i := indexCall(open, m.CallID)
			if i < 0 {
				continue
			}
			open = append(open[:i:i], open[i+1:]...)
			out = append(out, m)
			continue
		}
		closeOpen()
		out = append(out, m)
		open = append(open, m.Calls...)
	}
	closeOpen()
	return out
}

func indexCall(calls []Call, id string) int {
	for i, c := range calls {
		if c.ID == id {
			return i
		}
	}
	return -1
}

func toolEnd(turn int, a answered) Event {
	ok, took := !a.result.Failed, a.took.Milliseconds()
	e := Event{Type: EventToolEnd, Turn: turn, CallID: a.call.ID, Tool: a.call.Name, Text: a.result.Brief,
		Output: clip(a.result.Answer(), maxEventOutput), OK: &ok, Denied: a.result.Denied != "", Rule: a.result.Denied, DurationMS: &took}
	if a.result.Command != nil {
		code := a.result.Command.ExitCode
		e.ExitCode = &code
	}
	return e
}

// clip cuts s to at most n bytes without splitting a rune.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n]
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return clip(line, 100)
}

func jsonProblem(b []byte) error {
	var v any
	return json.Unmarshal(b, &v)
}

func (l *Loop) tool(name string) (Tool, bool) {
	for _, t := range l.Tools {
		if t.Name == name {
			return t, true
		}
	}
	return Tool{}, false
}

func (l *Loop) names() string {
	names := make([]string, len(l.Tools))
	for i, t := range l.Tools {
		names[i] = t.Name
	}
	return strings.Join(names, ", ")
}
