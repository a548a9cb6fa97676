package agent

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
)

// maxCut bounds how often in one run a reply with calls may be cut at the
// output limit and asked for again.
const maxCut = 2

// finishLength is the endpoint's word for a reply cut at the output limit.
const finishLength = "length"

// ErrCut ends a loop whose answer was cut off at the endpoint's output limit.
var ErrCut = errors.New("the answer was cut off at the endpoint's limit for one reply")

// maxCompactions bounds how often one overflow of the context may be answered
// by a compaction.
const maxCompactions = 3

// ErrRepeats ends a loop whose model goes in circles, and was told so.
var ErrRepeats = errors.New("repeats: the model makes the same calls over and over, with the same results")

// Loop runs one agent. Its fields are set before Run and not changed while it
// runs. One Loop runs once at a time.
type Loop struct {
	// Agent names the agent in events and requests.
	Agent string
	Model Model
	Tools []Tool
	// Emit receives every event of the loop, one call at a time; nil drops them.
	Emit func(Event)
	// Permit is asked before a call runs, on the goroutine of the call, with
	// arguments that are a JSON object in the tool's canonical form. A verdict
	// with Denied set is what the model is told. Nil permits everything.
	Permit func(ctx context.Context, t Tool, c Call) Verdict
	// Record is called with each message before its effects begin; its error
	// ends the loop. Nil records nothing.
	Record func(Message) error
	// Inbox returns what came in since it was last asked; it is asked before each
	// request, and before the next request once more when a step was preempted.
	// What ended the step must be among it, unless it was withdrawn meanwhile. Nil
	// means that nothing comes.
	Inbox func() []Message
	// Hold is asked at each boundary, before each request. It blocks while the run
	// is paused; its error ends the loop. Nil never holds.
	Hold func(ctx context.Context) error
	// Step makes the context of one step: a request and the calls of its reply. It
	// ends with ctx, or when something urgent came; then Preempted answers true
	// for its cause. release is called when the step is over. Nil: ctx itself.
	Step func(ctx context.Context) (step context.Context, release func())
	// Preempted says of the cause of a step that ended that something urgent came,
	// and not a stop. Nil: never.
	Preempted func(cause error) bool
	// Resumed gives the text of the note with which the work goes on, once the
	// first reply without calls after a preemption has answered what was urgent.
	// "" or nil ends the loop as usual.
	Resumed func() string
	// Note makes a message of a text by Ralph itself; nil makes one of RoleUser.
	Note func(text string) Message
	// Late is told, on a goroutine that Wait waits for, the result of a call that
	// came after the run had ended without it. It is never in a transcript. Nil
	// drops it.
	Late func(Message)
	// Compact is asked for a shorter transcript when the model's window is full.
	// It returns ErrNoCompaction when there is nothing left to give. Nil makes
	// an overflow final.
	Compact func(ctx context.Context, transcript []Message) ([]Message, error)
	// Overflow says whether an error of the model means that its window is full.
	Overflow func(error) bool
	// Halt is asked whenever calls have run; a non-nil error ends the loop with it,
	// and what is left of the round is not run. Nil never halts.
	Halt func() error
	// Limits bound the run, counting what Spent brings along.
	Limits Limits
	// Spent is what earlier runs of the same work used.
	Spent Spent
	// Price turns a usage into USD; nil or a false answer means unknown.
	Price func(Usage) (float64, bool)
	// Schema is passed to the model with each request.
	Schema json.RawMessage
	// MaxOutputTokens bounds each reply; 0 leaves it to the endpoint.
	MaxOutputTokens int

	// aside owns the calls that no step waits for.
	aside aside

	// mu orders the events of tools that run side by side.
	mu sync.Mutex
}

// Verdict is the answer to whether a call may run.
type Verdict struct {
	// Denied names the rule that refuses the call; empty allows it.
	Denied string
	// Text is what the model reads when it is refused.
	Text string
}

// ErrNoCompaction says that a transcript cannot be made shorter.
var ErrNoCompaction = errors.New("nothing left to leave out of the conversation")

// End is how a run of a loop ended. It is complete on every path. What came of a
// call in the background is counted when it has ended.
type End struct {
	// Transcript is the transcript given to Run with all that was added; it is
	// valid: every call has its answer.
	Transcript []Message
	// Final is the last assistant message.
	Final Message
	// Finish is the model's own declaration, nil when it ended with a message.
	Finish *Finish
	// Spent is what the loop was given as spent plus what this run used.
	Spent Spent
	// Calls, Failed and Denied count tool calls.
	Calls, Failed, Denied int
	Commands              []CommandRun
	Refused               []Refusal
	// Err is nil when the model ended its work by itself. Otherwise it matches
	// context.Cause of the context, a *LimitError, ErrRepeats, what Halt or
	// Record returned, or the model's error.
	Err error
}

// Refusal records a call that was not permitted.
type Refusal struct {
	Call Call
	Rule string
}

// Run drives the model from transcript until it ends its work, a limit is
// reached, Halt says so, or ctx ends. Calls that went to the background belong
// to it: it ends the work only when they have ended. transcript is not changed.
//
// Once ctx has ended, Run returns when its calls have, and waits at most 250 ms
// for one that does not listen: what comes of that is told to Late.
func (l *Loop) Run(ctx context.Context, transcript []Message) End {
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &run{Loop: l, end: End{Transcript: append([]Message(nil), transcript...), Spent: l.Spent}}
	r.drive(work)
	if r.end.Err != nil {
		cancel(r.end.Err)
	}
	r.close()
	return r.end
}

// Background lists the calls that go on in the background, in the order in which
// they went there. It may be called at any time.
func (l *Loop) Background() []Running { return l.aside.running() }

// Cancel ends the context of a call in the background; its result arrives as
// any other. It answers false when none has the name.
func (l *Loop) Cancel(ref string, cause error) bool { return l.aside.cancel(ref, cause) }

// Wait waits for the calls that earlier runs ended without, because they did not
// listen, and for what Late makes of their results, until ctx ends; then the
// error matches the cause of ctx.
func (l *Loop) Wait(ctx context.Context) error { return l.aside.rest(ctx) }

func (l *Loop) emit(e Event) {
	if l.Emit == nil {
		return
	}
	e.Agent = l.Agent
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Emit(e)
}

func (l *Loop) stream(turn int, d Delta) {
	switch d.Kind {
	case DeltaText:
		l.emit(Event{Type: EventMessageDelta, Turn: turn, Text: d.Text})
	case DeltaReasoning:
		l.emit(Event{Type: EventReasoning, Turn: turn, Text: d.Text})
	case DeltaRetry:
		l.emit(Event{Type: EventRetry, Turn: turn, Attempt: d.Attempt, WaitMS: d.Wait.Milliseconds(), Reason: d.Text})
	}
}
