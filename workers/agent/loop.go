package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// maxRepeats is how often in a row the same call with the same arguments may be
// asked for; the call that reaches it is not run and ends the loop.
const maxRepeats = 3

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

// ErrRepeats ends a loop whose model asks for the same call over and over.
var ErrRepeats = errors.New("the model asked for the same call with the same arguments three times in a row")

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
	// request. Nil means that nothing comes.
	Inbox func() []Message
	// Compact is asked for a shorter transcript when the model's window is full.
	// It returns ErrNoCompaction when there is nothing left to give. Nil makes
	// an overflow final.
	Compact func(ctx context.Context, transcript []Message) ([]Message, error)
	// Overflow says whether an error of the model means that its window is full.
	Overflow func(error) bool
	// Halt is asked whenever calls of a round have run; a non-nil error ends the
	// loop with it, and what is left of the round is not run. Nil never halts.
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

// End is how a run of a loop ended. It is complete on every path.
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
	cut                   int // replies with calls that were cut off
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

// Run drives the model from transcript until it ends, a limit is reached, Halt
// says so, or ctx ends. It does not return before everything that it started
// has ended. transcript is not changed.
func (l *Loop) Run(ctx context.Context, transcript []Message) End {
	end := End{Transcript: append([]Message(nil), transcript...), Spent: l.Spent}
	repeats := repeatGuard{}
	for end.Err == nil {
		if err := l.ready(ctx, &end); err != nil {
			end.Err = err
			break
		}
		reply, err := l.ask(ctx, &end)
		if err != nil {
			end.Err = err
			break
		}
		if reply.Finish == finishLength {
			end.Err = l.cut(&end, reply.Message.Calls)
			continue
		}
		if len(reply.Message.Calls) == 0 {
			break
		}
		if repeats.seen(reply.Message.Calls) {
			l.skip(&end, reply.Message.Calls, "not run: the same call with the same arguments was asked for three times in a row")
			end.Err = ErrRepeats
			break
		}
		l.round(ctx, &end, reply.Message.Calls)
		if end.Finish != nil {
			break
		}
	}
	return end
}

// cut deals with a reply that the output limit cut off: its calls may be
// incomplete, so none is run; text alone is no answer.
func (l *Loop) cut(end *End, calls []Call) error {
	l.skip(end, calls, "not run: the reply was cut off at the output limit before it was complete; make smaller calls")
	end.cut++
	if len(calls) == 0 || end.cut > maxCut {
		return ErrCut
	}
	return nil
}

// ready takes in what arrived and checks whether another request may be made.
func (l *Loop) ready(ctx context.Context, end *End) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if l.Inbox != nil {
		for _, m := range l.Inbox() {
			if err := l.add(end, m); err != nil {
				return err
			}
		}
	}
	return l.Limits.check(end.Spent)
}

// ask makes one request and appends the reply, compacting when the window is
// full.
func (l *Loop) ask(ctx context.Context, end *End) (Reply, error) {
	end.Spent.Turns++
	turn := end.Spent.Turns
	l.emit(Event{Type: EventTurnStart, Turn: turn})
	for compactions := 0; ; compactions++ {
		reply, err := l.Model.Complete(ctx, Request{
			Agent:           l.Agent,
			Messages:        end.Transcript,
			Tools:           l.Tools,
			Schema:          l.Schema,
			MaxOutputTokens: l.MaxOutputTokens,
		}, func(d Delta) { l.stream(turn, d) })
		end.Spent.add(reply, l.Price)
		if err == nil {
			return reply, l.accept(end, turn, reply)
		}
		if l.Compact == nil || l.Overflow == nil || !l.Overflow(err) || compactions == maxCompactions {
			l.keepPartial(end, reply)
			return reply, err
		}
		shorter, cerr := l.Compact(ctx, end.Transcript)
		if cerr != nil {
			return reply, errors.Join(err, cerr)
		}
		l.emit(Event{Type: EventCompact, Turn: turn,
			Text: fmt.Sprintf("the conversation no longer fits the model's window: %d messages became %d", len(end.Transcript), len(shorter))})
		end.Transcript = shorter
	}
}

// accept records a whole reply before anything is done with it.
func (l *Loop) accept(end *End, turn int, reply Reply) error {
	end.Final = reply.Message
	if err := l.add(end, reply.Message); err != nil {
		return err
	}
	if reply.Message.Text != "" {
		l.emit(Event{Type: EventMessage, Turn: turn, Text: reply.Message.Text})
	}
	usage := reply.Usage
	l.emit(Event{Type: EventUsage, Turn: turn, Usage: &usage, CostUSD: end.Spent.CostUSD, Model: reply.Model})
	return nil
}

// keepPartial keeps the text of a reply that was cut off. A failure to record
// it is not told: the error that cut the reply off is the one that ends the
// run, and a store that cannot record says so itself.
func (l *Loop) keepPartial(end *End, reply Reply) {
	if strings.TrimSpace(reply.Message.Text) == "" {
		return
	}
	m := reply.Message
	m.Role, m.Partial, m.Calls = RoleAssistant, true, nil
	end.Final = m
	_ = l.add(end, m)
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

// add records m and appends it.
func (l *Loop) add(end *End, m Message) error {
	end.Transcript = append(end.Transcript, m)
	if l.Record == nil {
		return nil
	}
	return l.Record(m)
}

func (l *Loop) emit(e Event) {
	if l.Emit == nil {
		return
	}
	e.Agent = l.Agent
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Emit(e)
}

// Limits bound one run; a zero field sets no bound.
type Limits struct {
	MaxTurns   int
	MaxTokens  int
	MaxCostUSD float64
}

// Spent is what a run used.
type Spent struct {
	Turns   int
	Usage   Usage
	CostUSD *float64 // nil: not known
	// CostUnknown says that some usage had no price.
	CostUnknown bool
	APITime     time.Duration
}

func (s *Spent) add(r Reply, price func(Usage) (float64, bool)) {
	s.Usage = s.Usage.Add(r.Usage)
	s.APITime += r.Duration
	cost := r.CostUSD
	if cost == nil && price != nil && r.Usage.Total > 0 {
		if c, ok := price(r.Usage); ok {
			cost = &c
		}
	}
	switch {
	case cost != nil:
		sum := *cost
		if s.CostUSD != nil {
			sum += *s.CostUSD
		}
		s.CostUSD = &sum
	case r.Usage.Total > 0:
		s.CostUnknown = true
	}
	if s.CostUnknown {
		s.CostUSD = nil
	}
}

func (l Limits) check(s Spent) error {
	switch {
	case l.MaxTurns > 0 && s.Turns >= l.MaxTurns:
		return &LimitError{What: "turns", Used: fmt.Sprint(s.Turns), Max: fmt.Sprint(l.MaxTurns), Flag: "--max-turns"}
	case l.MaxTokens > 0 && s.Usage.Total >= l.MaxTokens:
		return &LimitError{What: "tokens", Used: fmt.Sprint(s.Usage.Total), Max: fmt.Sprint(l.MaxTokens), Flag: "--max-tokens"}
	case l.MaxCostUSD > 0 && s.CostUnknown:
		return &LimitError{What: "cost", Used: "unknown", Max: usd(l.MaxCostUSD), Flag: "--max-cost", Unknown: true}
	case l.MaxCostUSD > 0 && s.CostUSD != nil && *s.CostUSD >= l.MaxCostUSD:
		return &LimitError{What: "cost", Used: usd(*s.CostUSD), Max: usd(l.MaxCostUSD), Flag: "--max-cost"}
	}
	return nil
}

func usd(v float64) string { return fmt.Sprintf("$%.4f", v) }

// LimitError ends a run that used up what it was given.
type LimitError struct {
	What string // turns, tokens, cost
	Used string
	Max  string
	Flag string // the flag that set the limit
	// Unknown says that the limit cannot be kept because what was used is not
	// known.
	Unknown bool
}

// Error says which limit ended the run.
func (e *LimitError) Error() string {
	if e.Unknown {
		return fmt.Sprintf("the %s limit of %s cannot be kept: the price of this model is not known", e.What, e.Max)
	}
	return fmt.Sprintf("the limit of %s %s is used up (%s)", e.Max, e.What, e.Used)
}

// repeatGuard notices a model that goes in circles: the same call, or the same
// round of calls, over and over.
type repeatGuard struct {
	call, round streak
}

// streak counts how often the same thing came in a row.
type streak struct {
	last  string
	times int
}

func (s *streak) again(key string) int {
	if key != s.last {
		s.last, s.times = key, 0
	}
	s.times++
	return s.times
}

// seen reports whether a round is the third of its like in a row, or holds a
// call that is.
func (g *repeatGuard) seen(calls []Call) bool {
	var round strings.Builder
	for _, c := range calls {
		key := c.Name + "\x00" + compactJSON(c.Args) + "\x00"
		round.WriteString(key)
		if g.call.again(key) >= maxRepeats {
			return true
		}
	}
	return g.round.again(round.String()) >= maxRepeats
}

// compactJSON makes two spellings of the same arguments equal; text that is no
// JSON stands for itself.
func compactJSON(s string) string {
	var v any
	if json.Unmarshal([]byte(s), &v) != nil {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil {
		return s
	}
	return string(b)
}
