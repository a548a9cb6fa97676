package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"ralph/coordinator/loop"
	"ralph/coordinator/policy"
	"ralph/coordinator/prompt"
	"ralph/coordinator/result"
	"ralph/coordinator/transcript"
	"ralph/interrupts"
	"ralph/memory/text"
	"ralph/workers"
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
	out    result.Outcome
	loop   *agent.Loop
	talk   []agent.Message // the transcript
	schema *answerSchema
	// planned counts the tasks of the plan that was worked; nil for other work.
	planned *result.TaskCount
	// merged are the commits of the run of a plan that was worked, in all processes,
	// and since the commit with which it began.
	merged []string
	since  string
	about  string // what it is about, for people
	// talking says that the turn has no tools: the user stopped the work and did
	// not say go.
	talking bool // guarded by Coordinator.mu for those who look on, as is loop
	// heeding says that the model is answering what came while its work was judged.
	heeding bool
	// urgent says that an urgent message cut the work short and was not answered
	// yet. It belongs to the goroutine of the loop.
	urgent bool
	thrown *thrown // what work panicked with
	// What was in the middle of being done when a stop came; guarded by
	// Coordinator.mu.
	caught               bool
	open, beside, unsaid []string
	// unfit and unproven count how often the answer did not fit the schema, and
	// how often the check failed.
	unfit, unproven int
}

// Run works on one job until it is done, fails, or parent ends. The cause of
// parent says what its end means: an *interrupts.Stop or context.Canceled is a
// stop, context.DeadlineExceeded a time-out, anything else a failure of its own.
// Run returns soon after that with nothing left running but background jobs of
// the session, and its Outcome is complete on every path.
func (c *Coordinator) Run(parent context.Context, j Job) result.Outcome {
	p := &piece{c: c, job: j, out: result.Outcome{StartedAt: c.now().UTC()}}
	// A stop covers what waits for its turn, too.
	guard := c.mail.queue.Guard(parent, c.box())
	defer guard.Release()
	if err := c.take(guard.Context()); err != nil {
		c.start()
		p.fail(err)
		p.unbegun(err)
		return p.finish()
	}
	if !j.Last {
		defer c.free()
	}
	return c.run(parent, guard.Context(), p)
}

// run does a piece of work whose turn it is: ctx ends with parent or by a stop.
func (c *Coordinator) run(parent, ctx context.Context, p *piece) result.Outcome {
	// A signal ends the caller's context; the stop that it means concerns jobs and
	// waiting messages as well, but not the work that comes after this.
	told := make(chan struct{})
	untold := context.AfterFunc(parent, func() {
		defer close(told)
		if stop, ok := interrupts.AsStop(context.Cause(parent)); ok {
			c.Stop(stop)
		}
	})
	defer func() {
		if !untold() {
			<-told
		}
	}()
	if limit := c.cfg.Timeout; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, errTimeout)
		defer cancel()
	}
	if policy.Sandbox(c.cfg.Sandbox) != policy.SandboxOff {
		c.opt.Proc.Ready() // while the model thinks
	}
	p.goOnWithRun()
	p.about = p.subject()
	if client := c.answers(); client != nil && p.job.Chat {
		client.Again(agentName) // a person asks, and is told at once when it is too early
	}
	c.start()
	c.mu.Lock()
	c.budget = nil // each piece of work has its own
	c.mu.Unlock()
	c.begin(p)
	defer c.begin(nil)
	err := c.pool.Do(ctx, workers.Spec{ID: c.name, Label: text.ClipRunes(p.about, maxQuote)}, p.labour)
	switch {
	case p.thrown != nil:
		panic(*p.thrown)
	case err != nil:
		p.fail(err)
	}
	p.settle(ctx)
	return p.finish()
}

// thrown is a panic that is thrown on, with the stack of where it began: a person
// reads the value, a report the stack.
type thrown struct {
	value any
	stack []byte
}

func (t thrown) String() string { return fmt.Sprint(t.value) }

// Stack is where the panic began.
func (t thrown) Stack() []byte { return t.stack }

// labour is work for the pool. A panic is the face's to tell.
func (p *piece) labour(ctx context.Context) error {
	defer func() {
		if r := recover(); r != nil {
			p.thrown = &thrown{r, debug.Stack()}
		}
	}()
	p.work(ctx)
	return nil
}

// begin notes which piece of work runs, nil for none.
func (c *Coordinator) begin(p *piece) {
	c.eyes.rested()
	c.mu.Lock()
	c.piece = p
	c.mu.Unlock()
	c.quiet.end() // of what was urgent in other work
}

// epoch counts the stops.
func (c *Coordinator) epoch() uint64 {
	if c.mail == nil {
		return 0
	}
	return c.mail.queue.Epoch()
}

// goOnWithRun makes go mean the run of a plan that was stopped.
func (p *piece) goOnWithRun() {
	s := p.c.interruption()
	if p.job.Go && p.job.Loop == nil && p.job.Task == "" && p.job.Agent == "" && s != nil && s.Run != "" {
		p.job.Loop = &loop.Settings{Feature: s.Run, Continue: true}
	}
}

// subject is what a piece of work is about.
func (p *piece) subject() string {
	switch {
	case p.job.Loop != nil:
		return "work through the plan"
	case p.job.Task != "":
		return p.job.Task
	case p.job.Go:
		if s := p.c.interruption(); s != nil {
			return s.Task
		}
	}
	return "what was said"
}

// work prepares the loop and drives it until an answer stands.
func (p *piece) work(ctx context.Context) {
	if who := p.job.Agent; who != "" && who != agentName {
		if err := p.resumeAgent(ctx); err != nil {
			p.fail(err)
		}
		return
	}
	if p.job.Loop != nil {
		if err := p.plan(ctx); err != nil {
			p.fail(err)
		}
		if p.out.Status == result.Interrupted {
			p.out.Failure.Hint = hintRunGoesOn
		}
		return
	}
	if err := p.prepare(ctx); err != nil {
		p.fail(err)
		return
	}
	p.c.crew.Begin(ctx)
	for {
		end := p.loop.Run(ctx, p.talk)
		p.add(end)
		if end.Err != nil {
			p.ended(end.Err)
			return
		}
		more, err := p.await(ctx)
		if err != nil {
			p.ended(err)
			return
		}
		if more {
			continue
		}
		again, err := p.verdict(ctx, end)
		if err == nil && again != "" {
			err = p.say(ctx, again)
		}
		if err != nil {
			p.ended(err)
			return
		}
		if again != "" || p.heeding {
			continue
		}
		if p.out.Status != result.Completed || p.loop.Limits.Check(p.loop.Spent) != nil {
			return // what waits is for work that ends in order and could still hear it
		}
		late, ok := p.waiting(ctx)
		if !ok {
			return
		}
		p.out.Status, p.out.Reason, p.out.Structured = "", "", nil
		p.talk = append(p.talk, late)
		if err := p.record(ctx, late); err != nil {
			p.ended(err)
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
	if err := c.priced(c.cfg.MaxCostUSD); err != nil {
		return err
	}
	p.job.Go = p.job.Go || p.job.Agent != ""
	if p.job.Schema != nil {
		schema, err := newAnswerSchema(p.job.Schema)
		if err != nil {
			return &result.Error{Op: "read schema", Err: err, Status: result.Usage, Hint: "--schema takes a file with a JSON Schema (draft 2020-12)"}
		}
		p.schema = schema
	}
	about, talking, err := p.aboutStop()
	if err != nil {
		return err
	}
	c.mu.Lock()
	p.talking = talking
	c.mu.Unlock()
	if !talking {
		if err := c.settled(ctx); err != nil {
			return err
		}
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
	for _, m := range c.crew.News(c.name) {
		about += "\n\n" + m.Text
	}
	opening, err := p.opening(ctx, along, about)
	if err != nil {
		return err
	}
	c.approver.Reset()
	c.book.begin(p.job)
	p.talk = append([]agent.Message{{Role: agent.RoleSystem, Text: system}}, agent.Repair(c.History(), unknownOutcome)...)
	view := c.window(client, p.job, opening.Text)
	loop := p.newLoop(ctx, view)
	c.mu.Lock()
	p.loop = loop
	c.mu.Unlock()
	// What the human said is recorded whatever else goes wrong.
	err = p.recall(ctx, opening.Text)
	if p.job.Go {
		c.released()
	}
	p.talk = append(p.talk, opening)
	return errors.Join(err, p.record(ctx, opening))
}

// newLoop makes the loop of the work.
func (p *piece) newLoop(ctx context.Context, view *window) *agent.Loop {
	c := p.c
	return &agent.Loop{
		Agent:           agentName,
		Model:           view,
		Tools:           p.tools(),
		Emit:            p.pay(view.tell(c.events.emit)),
		Permit:          p.permit,
		Record:          func(m agent.Message) error { return p.record(ctx, m) },
		Inbox:           func() []agent.Message { return p.inbox(ctx) },
		Hold:            p.hold,
		Step:            func(ctx context.Context) (context.Context, func()) { return c.mail.queue.Step(ctx, c.box()) },
		Preempted:       func(cause error) bool { _, ok := interrupts.AsPreempt(cause); return ok },
		Resumed:         p.resumed,
		Note:            noteOf,
		Late:            c.late,
		Compact:         view.compact,
		Overflow:        overflow,
		Halt:            func() error { return errors.Join(c.approver.Halted(), c.cassette.halted()) },
		Limits:          agent.Limits{MaxTurns: c.cfg.MaxTurns, MaxTokens: c.cfg.MaxTokens, MaxCostUSD: c.cfg.MaxCostUSD},
		Price:           c.price,
		Schema:          p.job.Schema,
		MaxOutputTokens: c.cfg.MaxOutputTokens,
	}
}

// opening is the message that begins the work: the human's words, then what came
// along.
func (p *piece) opening(ctx context.Context, along []prompt.Document, about string) (agent.Message, error) {
	m := agent.Message{Role: agent.RoleUser}
	task := p.job.Task
	switch {
	case task != "" && p.job.Message != "":
		var ok bool
		m, ok = p.deliver(p.c.mail.queue.Take(func(x interrupts.Message) bool { return x.ID() == p.job.Message }))
		if !ok {
			return m, &interrupts.Stop{} // it was covered, or its author took it out
		}
		task = m.Text
	case task != "" && p.job.Chat:
		task += p.c.mentioned(task)
	case task != "":
	case p.job.Go:
		task = goText
	default:
		var ok bool
		if m, ok = p.waiting(ctx); !ok {
			return m, errNothingSaid
		}
		task = m.Text
	}
	text, err := prompt.Task(task, along)
	m.Text = text + about
	return m, err
}

// tools are those of the work; there are none while the user and Ralph only
// talk.
func (p *piece) tools() []agent.Tool {
	if p.talking {
		return nil
	}
	return p.c.cassette.wrap(p.c.toolbox(p.job, p.c.station, 0), agentName)
}

// late files a result that came after the run had ended: it never reaches the
// model.
func (c *Coordinator) late(m agent.Message) {
	if payload, err := json.Marshal(m); err == nil {
		c.book.keepRecord(transcript.Late, payload)
	}
	c.events.emit(agent.Event{Type: agent.EventInterrupt, Status: "late", CallID: m.CallID, Text: "a result came after the stop; it is filed and not used"})
}

// permit decides about a call and takes the checkpoint before the first that
// can change something.
func (p *piece) permit(ctx context.Context, t agent.Tool, call agent.Call) agent.Verdict {
	v := p.c.approver.Permit(ctx, p.c.station.requester(), t, call)
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

func denial(r agent.Refusal) result.Denial {
	args := json.RawMessage(r.Call.Args)
	if !json.Valid(args) {
		args, _ = json.Marshal(r.Call.Args) // a string always encodes
	}
	return result.Denial{Tool: r.Call.Name, Args: args, Rule: r.Rule}
}

// ended explains work that did not come to its own end. When the endpoint breaks
// while a failed check or answer is being mended, the failed check or answer is
// what is told; otherwise it is told beside what ended the work.
func (p *piece) ended(err error) {
	before := p.out.Failure
	p.fail(err)
	failure := p.out.Failure
	if _, question := p.c.approver.Missed(); p.out.Status == result.NeedsInput && question != "" {
		failure.Message = "the model needs an answer: " + question
		if p.out.Answer == "" {
			p.out.Answer = question
		}
	}
	switch {
	case before == nil:
	case p.out.Status == result.ProviderError:
		p.c.warn("the work could not go on: " + failure.Message)
		p.out.Status, p.out.Failure = result.Failed, before
		if before.Kind == kindSchema {
			p.out.Status = result.SchemaMismatch
		}
	default:
		failure.Message += "; before that, " + before.Message
	}
}

// fail ends the outcome with an error.
func (p *piece) fail(err error) {
	p.out.Status, p.out.Failure = Fail(err)
	if p.out.Status != result.Interrupted {
		return
	}
	if stop, ok := interrupts.AsStop(err); ok {
		p.out.Signal = int(stop.Signal)
	}
	p.c.events.emit(agent.Event{Type: agent.EventInterrupt, Status: liveStopping, Reason: p.out.Failure.Message})
}
