package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// maxStale is how often in a row a step may be over before it began although
// nothing came in: the next request is then made without one.
const maxStale = 3

// run is one Run of a Loop, on the goroutine that called it.
type run struct {
	*Loop
	end     End
	repeats repeatGuard
	cuts    int   // replies with calls that were cut off at the output limit
	stale   int   // steps in a row that were over before they began
	over    bool  // the last reply had no calls: the model has ended its work
	resume  bool  // the work was preempted, and has to go on
	grace   grace // what is left of the time for calls that do not listen
}

// drive goes from step to step until the work has ended or end.Err says why not.
//
// The next step is made before the one before it is released: whatever comes at
// any moment ends at least one of them, so that nothing urgent goes unseen.
func (r *run) drive(ctx context.Context) {
	step, release := ctx, func() {}
	defer func() { release() }()
	for more := true; more && r.end.Err == nil; {
		if r.Hold != nil {
			if r.end.Err = r.Hold(ctx); r.end.Err != nil {
				return
			}
		}
		next, releaseNext := r.newStep(ctx)
		if r.preempted(ctx, step) {
			r.repeats = repeatGuard{}
			r.resume = r.resume || !r.over
		}
		release()
		step, release = next, releaseNext
		more = r.step(ctx, step)
	}
}

func (r *run) newStep(ctx context.Context) (context.Context, func()) {
	if r.Step == nil {
		return ctx, func() {}
	}
	return r.Step(ctx)
}

// preempted says that something urgent ended the step, and no stop the run.
func (r *run) preempted(ctx, step context.Context) bool {
	return ctx.Err() == nil && step.Err() != nil && r.Preempted != nil && r.Preempted(context.Cause(step))
}

// step makes one request and runs the calls of its reply. It answers false when
// the work has ended; end.Err may be set either way.
func (r *run) step(ctx, step context.Context) (more bool) {
	came, err := r.ready(ctx)
	if err != nil {
		r.end.Err = err
		return false
	}
	if came > 0 {
		r.repeats = repeatGuard{} // it knows more than before
	}
	if r.preempted(ctx, step) {
		// What is urgent was taken in just now, or is still to come.
		if r.stale++; came > 0 {
			r.stale = 0
		}
		if r.stale < maxStale {
			return true
		}
		step = ctx
	}
	r.stale = 0
	reply, err := r.ask(step)
	if err != nil {
		if r.preempted(ctx, step) {
			r.over = false
			return true
		}
		r.end.Err = err
		return false
	}
	calls := reply.Message.Calls
	r.over = len(calls) == 0
	switch {
	case reply.Finish == finishLength:
		r.end.Err = r.cut(calls)
		return true
	case r.over:
		return r.ended(ctx, step)
	}
	r.end.Finish = nil
	r.guard(r.round(ctx, step, calls))
	if r.end.Finish != nil && r.end.Err == nil {
		r.over, r.resume = true, false
		return r.ended(ctx, step)
	}
	return true
}

// ended decides what follows when the model has ended its work: something urgent
// that came with the last word, the work that it was called away from, or calls
// in the background whose results it has to see.
func (r *run) ended(ctx, step context.Context) (more bool) {
	if r.preempted(ctx, step) {
		return true
	}
	if r.resume {
		r.resume = false
		if r.Resumed != nil {
			if text := r.Resumed(); text != "" {
				r.over = false
				r.end.Err = r.add(r.note(text))
				return true
			}
		}
	}
	return r.aside.wait(step)
}

// cut deals with a reply that the output limit cut off: its calls may be
// incomplete, so none is run; text alone is no answer.
func (r *run) cut(calls []Call) error {
	r.skip(calls, "not run: the reply was cut off at the output limit before it was complete; make smaller calls")
	r.cuts++
	if len(calls) == 0 || r.cuts > maxCut {
		return ErrCut
	}
	return nil
}

// ready checks whether another request may be made and takes in what arrived:
// results from the background first, so that the last word is the human's.
func (r *run) ready(ctx context.Context) (came int, err error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if err := r.Limits.Check(r.end.Spent); err != nil {
		return 0, err // what came stays where it is, for who can still answer it
	}
	if over := r.aside.ended(); len(over) > 0 {
		if err := r.bringAll(over); err != nil {
			return 0, err
		}
	}
	if r.Inbox == nil {
		return 0, nil
	}
	list := r.Inbox()
	for _, m := range list {
		if err := r.add(m); err != nil {
			return 0, err
		}
	}
	return len(list), nil
}

// ask makes one request and appends the reply, compacting when the window is
// full.
func (r *run) ask(ctx context.Context) (Reply, error) {
	r.end.Spent.Turns++
	turn := r.end.Spent.Turns
	r.emit(Event{Type: EventTurnStart, Turn: turn})
	for compactions := 0; ; compactions++ {
		reply, err := r.Model.Complete(ctx, Request{
			Agent:           r.Agent,
			Messages:        r.end.Transcript,
			Tools:           r.Tools,
			Schema:          r.Schema,
			MaxOutputTokens: r.MaxOutputTokens,
		}, func(d Delta) { r.stream(turn, d) })
		r.end.Spent.add(reply, r.Price)
		if err == nil {
			return reply, r.accept(turn, reply)
		}
		if ctx.Err() != nil || r.Compact == nil || r.Overflow == nil || !r.Overflow(err) || compactions == maxCompactions {
			r.keepPartial(turn, reply)
			return reply, err
		}
		shorter, cerr := r.Compact(ctx, r.end.Transcript)
		if cerr != nil {
			return reply, errors.Join(err, cerr)
		}
		r.emit(Event{Type: EventCompact, Turn: turn,
			Text: fmt.Sprintf("the conversation no longer fits the model's window: %d messages became %d", len(r.end.Transcript), len(shorter))})
		r.end.Transcript = shorter
	}
}

// accept records a whole reply before anything is done with it.
func (r *run) accept(turn int, reply Reply) error {
	r.end.Final = reply.Message
	if err := r.add(reply.Message); err != nil {
		return err
	}
	if reply.Message.Text != "" {
		r.emit(Event{Type: EventMessage, Turn: turn, Text: reply.Message.Text})
	}
	r.used(turn, reply)
	return nil
}

func (r *run) used(turn int, reply Reply) {
	usage := reply.Usage
	r.emit(Event{Type: EventUsage, Turn: turn, Usage: &usage, CostUSD: r.end.Spent.CostUSD, Model: reply.Model})
}

// keepPartial keeps the text of a reply that was cut off, and tells what it used.
// A failure to record it is not told: the error that cut the reply off is the one
// that counts, and a store that cannot record says so itself.
func (r *run) keepPartial(turn int, reply Reply) {
	if reply.Usage.Total > 0 {
		r.used(turn, reply)
	}
	if strings.TrimSpace(reply.Message.Text) == "" {
		return
	}
	m := reply.Message
	m.Role, m.Partial, m.Calls = RoleAssistant, true, nil
	r.end.Final = m
	_ = r.add(m)
}

// add records m and appends it.
func (r *run) add(m Message) error {
	r.end.Transcript = append(r.end.Transcript, m)
	if r.Record == nil {
		return nil
	}
	return r.Record(m)
}

// note is a text by Ralph itself as a message.
func (r *run) note(text string) Message {
	if r.Note == nil {
		return Message{Role: RoleUser, Text: text}
	}
	return r.Note(text)
}
