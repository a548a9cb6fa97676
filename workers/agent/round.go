package agent

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"ralph/memory/text"
)

// stoppedText answers a call that a stop kept from running.
const stoppedText = "stopped by the user before it ran"

// maxSide is how many reading tools run side by side.
const maxSide = 8

// maxEventOutput bounds the tool output that an event carries, in bytes; the
// transcript and the log keep it whole.
const maxEventOutput = 4 << 10

// endedText answers a call that the end of the run kept from running.
const endedText = "not run: the run ended before it"

// urgentText answers a call that an urgent message kept from running.
const urgentText = "not run: an urgent message came first"

// unknownText answers a call that had not ended when the run did.
const unknownText = "interrupted, outcome unknown"

// What answers a question that a stop or an urgent message closed.
const (
	deniedByStop = "denied by stop"
	deniedText   = "denied by stop: an urgent message came first"
)

// The statuses of the tool_end of a call that goes on in the background, and of
// the one that tells its real end.
const (
	statusBackground = "background"
	statusEnded      = "ended"
)

// settleTime is how long a preempted step waits for calls that are about to end
// anyway, before they go to the background.
const settleTime = 5 * time.Millisecond

// answered is a call with what came of it.
type answered struct {
	call   Call
	result Result
	ran    bool
}

// round runs the calls of one reply in the order of the model and appends one
// answer each, in that order. Neighbouring calls that only read run side by
// side. Once the step ends, Halt says so or a record fails, nothing more is
// begun: the calls that are left are answered as not run. It returns those that ran.
func (r *run) round(ctx, step context.Context, calls []Call) (ran []answered) {
	for len(calls) > 0 {
		n := r.sideBySide(calls)
		for _, a := range r.runAll(ctx, step, calls[:n]) {
			r.file(a)
			ran = append(ran, a)
		}
		calls = calls[n:]
		switch {
		case ctx.Err() != nil:
			// The stop is why it ends, whatever else went wrong meanwhile.
			r.end.Err = context.Cause(ctx)
			r.skip(calls, stoppedText)
			return ran
		case r.end.Err == nil && r.Halt != nil:
			r.end.Err = r.Halt()
		}
		if r.end.Err != nil {
			r.skip(calls, endedText)
			return ran
		}
	}
	return ran
}

// guard tells the model when it goes in circles, and ends the run when it goes on.
func (r *run) guard(round []answered) {
	if r.end.Err != nil || r.end.Finish != nil {
		return
	}
	note, stuck := r.repeats.saw(round)
	switch {
	case stuck:
		r.end.Err = ErrRepeats
	case note != "":
		r.end.Err = r.add(r.note(note))
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

// runAll runs calls at once and returns when each has its answer: its result, or
// that the end of the step came before it.
func (r *run) runAll(ctx, step context.Context, calls []Call) []answered {
	out := make([]answered, 0, len(calls))
	if step.Err() != nil {
		why := urgentText
		if ctx.Err() != nil {
			why = stoppedText
		}
		for _, c := range calls {
			out = append(out, answered{call: c, result: Result{Text: why, Failed: true}})
		}
		return out
	}
	begun := make([]*call, len(calls))
	for i, c := range calls {
		begun[i] = r.begin(ctx, step, r.end.Spent.Turns, c)
	}
	r.settle(ctx, step, begun)
	for _, k := range begun {
		a := answered{call: k.Call, ran: true}
		switch {
		case k.over():
			a.result = k.result
		case ctx.Err() != nil:
			a.result = r.giveUp(k)
		default:
			a.result = r.leave(k)
		}
		out = append(out, a)
	}
	return out
}

// settle waits until the calls have ended. When the step ends it waits only a
// moment more, and a little longer for the end of all work, which ends the calls
// too.
func (r *run) settle(ctx, step context.Context, calls []*call) {
	if allOver(calls, step.Done()) {
		return
	}
	if ctx.Err() == nil {
		soon := time.NewTimer(settleTime)
		defer soon.Stop()
		if allOver(calls, soon.C) || ctx.Err() == nil {
			return
		}
	}
	end := time.NewTimer(r.grace.left())
	defer end.Stop()
	allOver(calls, end.C)
}

// allOver waits for calls until something comes from until, and says whether all
// have ended.
func allOver[T any](calls []*call, until <-chan T) bool {
	for _, k := range calls {
		select {
		case <-k.done:
		case <-until:
			return false
		}
	}
	return true
}

// leave answers a call that its step does not wait for.
func (r *run) leave(k *call) Result {
	answer, now := k.leave()
	switch now {
	case finished:
		<-k.done
	case void:
		r.aside.abandon(k)
	}
	return answer
}

// giveUp answers a call that did not end with the run, and leaves it to aside.
func (r *run) giveUp(k *call) Result {
	r.aside.abandon(k)
	answer, now := k.giveUp()
	if now == finished {
		<-k.done
	}
	return answer
}

// close ends the run for the calls in the background, whose contexts have ended:
// their results, or that they brought none in time, are the last words of the
// transcript. Where the work ended by itself there are none.
func (r *run) close() {
	list := r.aside.calls()
	if len(list) == 0 {
		return
	}
	end := time.NewTimer(r.grace.left())
	defer end.Stop()
	allOver(list, end.C)
	for _, k := range list {
		// A failure to record is not told, as with partial text: what ended the
		// run stands.
		if k.over() {
			_ = r.bring(k)
			continue
		}
		answer := r.giveUp(k)
		r.count(answer)
		_ = r.add(r.note(k.title() + ": " + answer.Answer()))
	}
	r.aside.ended()
}

// bringAll appends the results of calls that have ended in the background.
func (r *run) bringAll(list []*call) error {
	var first error
	for _, k := range list {
		if err := r.bring(k); first == nil {
			first = err
		}
	}
	if first == nil && r.Halt != nil {
		first = r.Halt()
	}
	return first
}

// bring appends the result of a call that has ended in the background.
func (r *run) bring(k *call) error {
	r.count(k.result)
	return r.add(r.note(k.title() + " has ended:\n" + k.result.Answer()))
}

// title names a call in the background for the model.
func (k *call) title() string {
	return k.ref + " (" + k.Name + " " + text.Head(text.FirstLine(string(k.shown)), 100) + ")"
}

// file counts an answered call and appends its answer to the transcript.
func (r *run) file(a answered) {
	if a.ran {
		r.end.Calls++
	}
	if a.result.Denied != "" {
		r.end.Denied++
		r.end.Refused = append(r.end.Refused, Refusal{Call: a.call, Rule: a.result.Denied})
	} else if a.ran {
		r.count(a.result)
	}
	if err := r.add(Message{Role: RoleTool, CallID: a.call.ID, Text: a.result.Answer()}); err != nil && r.end.Err == nil {
		r.end.Err = err
	}
}

// count notes what the result of a call means for the run.
func (r *run) count(res Result) {
	if res.Failed {
		r.end.Failed++
	}
	if res.Command != nil {
		r.end.Commands = append(r.end.Commands, *res.Command)
	}
	if res.Finish != nil && !res.Failed {
		r.end.Finish = res.Finish
	}
}

// skip answers calls that are not run at all.
func (r *run) skip(calls []Call, why string) {
	for _, c := range calls {
		r.file(answered{call: c, result: Result{Text: why, Failed: true}})
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
