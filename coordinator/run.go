package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"ralph/coordinator/prompt"
	"ralph/interrupts"
	"ralph/workers/agent"
)

// settleTime bounds what is done after the work has ended: the last checkpoint
// and the last lines of state.
const settleTime = time.Minute

// unknownOutcome answers a call whose result was lost in an interruption.
const unknownOutcome = "interrupted, outcome unknown"

// piece is one piece of work while it runs.
type piece struct {
	c      *Coordinator
	job    Job
	out    Outcome
	loop   *agent.Loop
	talk   []agent.Message // the transcript
	schema *answerSchema
	// unfit and unproven count how often the answer did not fit the schema, and
	// how often the check failed.
	unfit, unproven int
}

// Run works on one job until it is done, fails, or parent ends. The cause of
// parent says what its end means: an *interrupts.Stop or context.Canceled is a
// stop, context.DeadlineExceeded a time-out, anything else a failure of its own.
// Run returns soon after that with nothing left running but background jobs of
// the session, and its Outcome is complete on every path.
func (c *Coordinator) Run(parent context.Context, j Job) Outcome {
	p := &piece{c: c, job: j, out: Outcome{StartedAt: c.now().UTC()}}
	if err := c.take(parent); err != nil {
		c.start()
		p.fail(err)
		return p.finish()
	}
	defer c.free()
	ctx, _, release := c.epochs.Guard(parent)
	defer release()
	if limit := c.cfg.Timeout; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, errTimeout)
		defer cancel()
	}
	c.start()
	p.work(ctx)
	p.settle(context.WithoutCancel(ctx))
	return p.finish()
}

// work prepares the loop and drives it until an answer stands.
func (p *piece) work(ctx context.Context) {
	if err := p.prepare(ctx); err != nil {
		p.fail(err)
		return
	}
	for {
		end := p.loop.Run(ctx, p.talk)
		p.add(end)
		if end.Err != nil {
			p.ended(end.Err)
			return
		}
		again, err := p.judge(ctx, end)
		if err == nil && again != "" {
			err = p.say(ctx, again)
		}
		if err != nil {
			p.ended(err)
			return
		}
		if again == "" {
			return
		}
	}
}

// prepare makes the transcript and the loop.
func (p *piece) prepare(ctx context.Context) error {
	c := p.c
	client := c.answers()
	if client == nil {
		return errNoModel
	}
	if p.job.Schema != nil {
		schema, err := newAnswerSchema(p.job.Schema)
		if err != nil {
			return &Error{Op: "read schema", Err: err, Status: StatusUsage, Hint: "--schema takes a file with a JSON Schema (draft 2020-12)"}
		}
		p.schema = schema
	}
	system, err := c.systemPrompt(p.job)
	if err != nil {
		return err
	}
	var along []prompt.Document
	for _, f := range p.job.Files {
		along = append(along, prompt.Document{Name: "The file " + f.Path, Text: f.Text})
	}
	if p.job.Context != "" {
		along = append(along, prompt.Document{Name: "Standard input", Text: p.job.Context})
	}
	if news := c.edits.news(); news != "" {
		along = append(along, prompt.Document{Name: "A note from Ralph", Text: news})
	}
	text, err := prompt.Task(p.job.Task, along)
	if err != nil {
		return err
	}
	c.gate.reset()
	c.book.begin(p.job)
	p.talk = append([]agent.Message{{Role: agent.RoleSystem, Text: system}}, agent.Repair(c.History(), unknownOutcome)...)
	view := c.window(client, p.job, text)
	p.loop = &agent.Loop{
		Agent:           agentName,
		Model:           view,
		Tools:           c.cassette.wrap(c.toolbox(p.job)),
		Emit:            view.tell(c.events.emit),
		Permit:          p.permit,
		Record:          func(m agent.Message) error { return c.book.record(ctx, m) },
		Inbox:           c.edits.inbox,
		Compact:         view.compact,
		Overflow:        overflow,
		Halt:            func() error { return errors.Join(c.gate.halted(), c.cassette.halted()) },
		Limits:          agent.Limits{MaxTurns: c.cfg.MaxTurns, MaxTokens: c.cfg.MaxTokens, MaxCostUSD: c.cfg.MaxCostUSD},
		Price:           c.price,
		Schema:          p.job.Schema,
		MaxOutputTokens: c.cfg.MaxOutputTokens,
	}
	if err := p.recall(ctx, text); err != nil {
		return err
	}
	return p.say(ctx, text)
}

// permit decides about a call and takes the checkpoint before the first that
// can change something.
func (p *piece) permit(ctx context.Context, t agent.Tool, call agent.Call) agent.Verdict {
	v := p.c.gate.permit(ctx, t, call)
	if v.Denied == "" && t.Effect == agent.EffectChange {
		p.c.changes.begin(ctx)
	}
	return v
}

// say records a message to the model and appends it.
func (p *piece) say(ctx context.Context, text string) error {
	m := agent.Message{Role: agent.RoleUser, Text: text}
	p.talk = append(p.talk, m)
	return p.c.book.record(ctx, m)
}

// add adds what a run of the loop brought to the outcome. A run that ended
// before the model said anything leaves the answer that there was.
func (p *piece) add(end agent.End) {
	p.talk = agent.Repair(end.Transcript, unknownOutcome)
	p.loop.Spent = end.Spent
	o := &p.out
	o.Turns, o.Usage, o.CostUSD, o.APITime = end.Spent.Turns, end.Spent.Usage, end.Spent.CostUSD, end.Spent.APITime
	o.ToolCalls.Total += end.Calls
	o.ToolCalls.Failed += end.Failed
	o.ToolCalls.Denied += end.Denied
	o.Commands = append(o.Commands, end.Commands...)
	for _, r := range end.Refused {
		o.Denials = append(o.Denials, denial(r))
	}
	answer := strings.TrimSpace(end.Final.Text)
	if answer == "" && end.Finish != nil {
		answer = end.Finish.Summary
	}
	if answer != "" || end.Err == nil {
		o.Answer = answer
	}
}

func denial(r agent.Refusal) Denial {
	args := json.RawMessage(r.Call.Args)
	if !json.Valid(args) {
		args, _ = json.Marshal(r.Call.Args) // a string always encodes
	}
	return Denial{Tool: r.Call.Name, Args: args, Rule: r.Rule}
}

// ended explains work that did not come to its own end. When the endpoint breaks
// while a failed check or answer is being mended, the failed check or answer is
// what is told; otherwise it is told beside what ended the work.
func (p *piece) ended(err error) {
	before := p.out.Failure
	p.fail(err)
	failure := p.out.Failure
	if _, question := p.c.gate.missed(); p.out.Status == StatusNeedsInput && question != "" {
		failure.Message = "the model needs an answer: " + question
		if p.out.Answer == "" {
			p.out.Answer = question
		}
	}
	switch {
	case before == nil:
	case p.out.Status == StatusProviderError:
		p.c.warn("the work could not go on: " + failure.Message)
		p.out.Status, p.out.Failure = StatusFailed, before
		if before.Kind == kindSchema {
			p.out.Status = StatusSchemaMismatch
		}
	default:
		failure.Message += "; before that, " + before.Message
	}
}

// fail ends the outcome with an error.
func (p *piece) fail(err error) {
	p.out.Status, p.out.Failure = Fail(err)
	if p.out.Status != StatusInterrupted {
		return
	}
	if stop, ok := interrupts.AsStop(err); ok {
		p.out.Signal = int(stop.Signal)
	}
	p.c.events.emit(agent.Event{Type: agent.EventInterrupt, Reason: p.out.Failure.Message})
}

// settle does what is left when the work has ended, also after a stop: what
// changed, what is to be told in the state files.
func (p *piece) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	c := p.c
	p.out.FilesChanged, p.out.Commits = c.changes.end(ctx)
	if !p.job.Chat {
		// What a run that failed did not come to is no difference of its own.
		if err := c.cassette.played(); err != nil && p.out.Status == StatusCompleted {
			p.out.Status, p.out.Reason = StatusFailed, ""
			p.out.Failure = &Failure{Kind: kindReplay, Message: err.Error(), Hint: hintReplay}
		}
	}
	if p.out.Reason == "" && p.out.Failure != nil {
		p.out.Reason = p.out.Failure.Message
	}
	for _, w := range c.cassette.warnings() {
		c.warn(w)
	}
	c.mu.Lock()
	if len(p.talk) > 0 {
		c.transcript = p.talk[1:] // the system prompt is made anew when need be
	}
	c.totals.add(p.out)
	turn := c.totals.Turns
	c.mu.Unlock()
	c.book.keepChanges(c.changes.trace(ctx, turn, p.out.Commits))
	c.keepCalibration()
	if err := c.book.settle(&p.out, p.job); err != nil {
		c.warn("state: " + hinted(err))
	}
}

// finish completes the outcome.
func (p *piece) finish() Outcome {
	o := &p.out
	if o.Failure != nil && o.Reason == "" {
		o.Reason = o.Failure.Message
	}
	if o.Failure != nil {
		o.Verified = false
	}
	o.Duration = p.c.now().Sub(o.StartedAt)
	o.SessionID = p.c.SessionID()
	p.c.mu.Lock()
	o.Warnings = append([]string(nil), p.c.warnings...)
	p.c.mu.Unlock()
	return p.c.masked(*o)
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
