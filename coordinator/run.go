package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"ralph/coordinator/prompt"
	"ralph/workers/agent"
	"ralph/workers/git"
)

// settleTime bounds what is done after the work has ended: the last checkpoint
// and the last lines of state.
const settleTime = time.Minute

// unknownOutcome answers a call whose result was lost in an interruption.
const unknownOutcome = "interrupted, outcome unknown"

// piece is one piece of work while it runs.
type piece struct {
	c       *Coordinator
	job     Job
	out     Outcome
	loop    *agent.Loop
	talk    []agent.Message // the transcript
	schema  *answerSchema
	refused []agent.Refusal
}

// Run works on one job until it is done, fails, or ctx ends. The cause of ctx
// says why it ended: an *interrupts.Stop, or anything else for a time-out. Run
// returns soon after that with nothing left running but background jobs of the
// session, and its Outcome is complete on every path.
func (c *Coordinator) Run(parent context.Context, j Job) Outcome {
	p := &piece{c: c, job: j, out: Outcome{StartedAt: c.now().UTC()}}
	select {
	case c.running <- struct{}{}:
		defer func() { <-c.running }()
	case <-parent.Done():
		p.fail(context.Cause(parent))
		return p.finish()
	}
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
	if err := p.prepare(); err != nil {
		p.fail(err)
		return
	}
	for tries := 0; ; tries++ {
		end := p.loop.Run(ctx, p.talk)
		p.take(end)
		if end.Err != nil {
			p.ended(end.Err, tries)
			return
		}
		again, err := p.judge(ctx, end, tries)
		if err != nil {
			p.fail(err)
			return
		}
		if again == "" {
			return
		}
		if err := p.say(agent.Message{Role: agent.RoleUser, Text: again}); err != nil {
			p.fail(err)
			return
		}
	}
}

// prepare makes the transcript and the loop.
func (p *piece) prepare() error {
	c := p.c
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
	text, err := prompt.Task(p.job.Task, along)
	if err != nil {
		return err
	}
	c.gate.reset()
	c.book.begin(p.job)
	p.talk = append([]agent.Message{{Role: agent.RoleSystem, Text: system}}, agent.Repair(c.History(), unknownOutcome)...)
	view := window{Model: c.answers(), estimate: &c.estimate, maxTokens: c.cfg.ContextWindow}
	p.loop = &agent.Loop{
		Agent:           agentName,
		Model:           view,
		Tools:           c.cassette.wrap(c.toolbox(p.job)),
		Emit:            c.events.emit,
		Permit:          p.permit,
		Record:          c.book.record,
		Compact:         view.compact,
		Overflow:        overflow,
		Halt:            func() error { return errors.Join(c.gate.halted(), c.cassette.halted()) },
		Limits:          agent.Limits{MaxTurns: c.cfg.MaxTurns, MaxTokens: c.cfg.MaxTokens, MaxCostUSD: c.cfg.MaxCostUSD},
		Price:           c.price,
		Schema:          p.job.Schema,
		MaxOutputTokens: c.cfg.MaxOutputTokens,
	}
	return p.say(agent.Message{Role: agent.RoleUser, Text: text})
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

// say records a message of Ralph or the human and appends it.
func (p *piece) say(m agent.Message) error {
	p.talk = append(p.talk, m)
	return p.c.book.record(m)
}

// take adds what a run of the loop brought to the outcome.
func (p *piece) take(end agent.End) {
	p.talk = agent.Repair(end.Transcript, unknownOutcome)
	p.loop.Spent = end.Spent
	o := &p.out
	o.Turns, o.Usage, o.CostUSD, o.APITime = end.Spent.Turns, end.Spent.Usage, end.Spent.CostUSD, end.Spent.APITime
	o.ToolCalls.Total += end.Calls
	o.ToolCalls.Failed += end.Failed
	o.ToolCalls.Denied += end.Denied
	o.Commands = append(o.Commands, end.Commands...)
	p.refused = append(p.refused, end.Refused...)
	o.Answer = strings.TrimSpace(end.Final.Text)
	if o.Answer == "" && end.Finish != nil {
		o.Answer = end.Finish.Summary
	}
}

// judge says what a loop that ended by itself is worth: "" when the outcome
// stands, or what the model must be told to go on.
func (p *piece) judge(ctx context.Context, end agent.End, tries int) (again string, err error) {
	if f := end.Finish; f != nil && f.Status != agent.FinishDone {
		p.declared(*f)
		return "", nil
	}
	if again, err = p.judgeSchema(tries); again != "" || err != nil || p.out.Status != "" {
		return again, err
	}
	if again, err = p.judgeCheck(ctx, tries); again != "" || err != nil || p.out.Status != "" {
		return again, err
	}
	if unanswered, _ := p.c.gate.missed(); unanswered > 0 {
		p.out.Status = StatusDenied
		p.out.Failure = &Failure{Kind: "denied", Hint: hintPermission,
			Message: fmt.Sprintf("the model answered, but %s needed a permission and nobody was there to give it", count(unanswered, "call"))}
		return "", nil
	}
	p.out.Status = StatusCompleted
	p.out.Reason = "the model answered"
	if end.Finish != nil {
		p.out.Reason = "the model declared it done: " + end.Finish.Summary
	}
	if p.out.Verified {
		p.out.Reason += ", and it was checked"
	}
	return "", nil
}

// declared takes the model's word that it did not get there.
func (p *piece) declared(f agent.Finish) {
	p.out.Status = StatusFailed
	fail := &Failure{Kind: "gave_up", Message: fmt.Sprintf("the model ended with %s: %s", f.Status, f.Summary), Hint: "see the answer for what is missing"}
	switch f.Status {
	case agent.FinishPartial:
		fail.Kind = "partial"
	case agent.FinishNeedsInput:
		p.out.Status, fail.Kind, fail.Hint = StatusNeedsInput, "needs_input", "answer it in the task text, or use `ralph chat`"
	}
	p.out.Failure = fail
}

// ended explains a loop that did not end by itself. When the endpoint breaks
// while a failed check or answer is being mended, the failed check or answer is
// what is told.
func (p *piece) ended(err error, tries int) {
	status, failure := Fail(err)
	if _, question := p.c.gate.missed(); status == StatusNeedsInput && question != "" {
		failure.Message = "the model needs an answer: " + question
		if p.out.Answer == "" {
			p.out.Answer = question
		}
	}
	if tries > 0 && status == StatusProviderError && p.out.Failure != nil {
		p.c.warn("the work could not go on: " + failure.Message)
		p.out.Status = StatusFailed
		if p.out.Failure.Kind == "schema" {
			p.out.Status = StatusSchemaMismatch
		}
		return
	}
	p.out.Status, p.out.Failure = status, failure
	p.signal(err)
}

func (p *piece) fail(err error) {
	p.out.Status, p.out.Failure = Fail(err)
	p.signal(err)
}

// settle does what is left when the work has ended, also after a stop: what
// changed, what is to be told in the state files.
func (p *piece) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	c := p.c
	p.out.FilesChanged, p.out.Commits = c.changes.end(ctx)
	if p.out.Status == StatusCompleted && !p.job.Chat {
		if err := c.cassette.played(); err != nil {
			p.out.Status = StatusFailed
			p.out.Failure = &Failure{Kind: kindReplay, Message: err.Error(), Hint: hintReplay}
		}
	}
	for _, w := range c.cassette.warnings() {
		c.warn(w)
	}
	p.denials()
	c.mu.Lock()
	if len(p.talk) > 0 {
		c.transcript = p.talk[1:] // the system prompt is made anew when need be
	}
	c.totals.add(p.out)
	c.mu.Unlock()
	if err := c.book.settle(&p.out, p.job); err != nil {
		c.warn("state: " + err.Error())
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
	return *o
}

func (p *piece) denials() {
	for _, r := range p.refused {
		args := json.RawMessage(r.Call.Args)
		if !json.Valid(args) {
			args, _ = json.Marshal(r.Call.Args) // a string always encodes
		}
		p.out.Denials = append(p.out.Denials, Denial{Tool: r.Call.Name, Args: args, Rule: r.Rule})
	}
}

func (t *Totals) add(o Outcome) {
	t.Turns++
	t.Usage = t.Usage.Add(o.Usage)
	switch {
	case o.CostUSD != nil && t.CostUSD != nil:
		sum := *t.CostUSD + *o.CostUSD
		t.CostUSD = &sum
	case t.Turns == 1:
		t.CostUSD = o.CostUSD
	case o.Usage.Total > 0:
		t.CostUSD = nil
	}
	t.FilesChanged = mergeChanges(t.FilesChanged, o.FilesChanged)
	t.Commits = append(t.Commits, o.Commits...)
}

// mergeChanges adds up changes by path, in the order in which they first came.
func mergeChanges(have, more []git.FileChange) []git.FileChange {
	out := append([]git.FileChange(nil), have...)
	for _, m := range more {
		i := 0
		for i < len(out) && out[i].Path != m.Path {
			i++
		}
		if i == len(out) {
			out = append(out, m)
			continue
		}
		out[i].Added += m.Added
		out[i].Removed += m.Removed
		if out[i].Kind != "added" || m.Kind == "deleted" {
			out[i].Kind = m.Kind
		}
	}
	return out
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
