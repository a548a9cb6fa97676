package coordinator

import (
	"context"
	"errors"
	"strings"

	"ralph/coordinator/crew"
	"ralph/coordinator/result"
	"ralph/workers/agent"
)

// await waits for the children of the work, and adds to the conversation what
// should not wait. It answers false when none is left, and all was told.
func (p *piece) await(ctx context.Context) (more bool, err error) {
	c := p.c
	if p.talking || c.crew == nil {
		return false, nil
	}
	if c.crew.AtWork() {
		p.urgent = false // it was answered just now
		c.quiet.end()
	}
	c.pausing.await(true)
	defer c.pausing.await(false)
	for {
		c.calm()
		why, err := c.crew.Await(ctx, c.name, c.mail.queue.Changed())
		if err != nil || why == crew.Idle {
			return false, err
		}
		list := p.came(ctx)
		if why == crew.Due || len(list) > 0 {
			list = append(c.crew.News(c.name), list...)
		}
		for _, m := range list {
			p.talk = append(p.talk, m)
			if err := p.record(ctx, m); err != nil {
				return false, err
			}
		}
		if len(list) > 0 {
			return true, nil
		}
		c.quiet.end() // what was urgent is withdrawn
	}
}

// resumeAgent goes on with one child that was stopped: its end is that of the
// work.
func (p *piece) resumeAgent(ctx context.Context) error {
	c, id := p.c, p.job.Agent
	if err := errors.Join(c.settled(ctx), c.crew.Adopt(ctx, c.agentDirs())); err != nil {
		return err
	}
	if _, err := c.systemPrompt(p.job); err != nil {
		return err
	}
	c.approver.Reset()
	c.book.begin(p.job)
	if err := c.book.ready(ctx); err != nil {
		return err
	}
	c.crew.Begin(ctx)
	if err := c.crew.Resume(id, p.job.Task); err != nil {
		hint := "/agents shows who there is"
		return &result.Error{Op: "resume", Path: id, Err: err, Status: result.Usage, Hint: hint}
	}
	if err := c.crew.Rest(ctx); err != nil {
		return err
	}
	a, _ := c.crew.Find(id)
	p.out.Answer, p.out.Reason = a.Result, "agent "+id+" ended: "+string(a.State)
	if a.Landing != crew.Unmerged {
		p.out.Reason += ", " + string(a.Landing)
	}
	p.out.Status = result.Completed
	if a.State != crew.Done || a.Landing == crew.Conflict || a.Landing == crew.Held {
		p.out.Status = result.Failed
		p.out.Failure = &result.Failure{Kind: "agent", Message: strings.TrimSpace(p.out.Reason + ". " + a.Problem), Hint: "/agents " + id + " shows it"}
	}
	return nil
}

// children completes the outcome with those that worked for the run, and what
// they used.
func (p *piece) children() {
	c := p.c
	if c.crew == nil {
		return
	}
	p.out.Children = c.crew.Round()
	c.mu.Lock()
	p.out.Messages = append(p.out.Messages, c.heard...)
	c.heard = nil
	c.mu.Unlock()
	used := c.crew.Used()
	unknown := p.out.CostUSD == nil && p.out.Usage.Total > 0 || used.CostUnknown
	p.out.Turns += used.Turns
	p.out.APITime += used.APITime
	p.out.ToolCalls.Total += used.Calls
	p.out.ToolCalls.Failed += used.Failed
	p.out.ToolCalls.Denied += used.Denied
	p.out.Commands = append(p.out.Commands, used.Commands...)
	for _, r := range used.Refused {
		p.out.Denials = append(p.out.Denials, denial(r))
	}
	p.out.Usage = p.out.Usage.Add(used.Usage)
	switch {
	case unknown:
		p.out.CostUSD = nil
	case used.CostUSD != nil && p.out.CostUSD != nil:
		sum := *used.CostUSD + *p.out.CostUSD
		p.out.CostUSD = &sum
	case used.CostUSD != nil:
		p.out.CostUSD = used.CostUSD
	}
}

// dismiss ends the children that are still at work when the work has ended
// without waiting for them, as at a limit; what they did is kept.
func (p *piece) dismiss(ctx context.Context) {
	if !p.c.crew.AtWork() {
		return
	}
	why := "the work that it was for has ended"
	if f := p.out.Failure; f != nil {
		why += ": " + f.Message
	}
	p.c.crew.End(ctx, errors.New(why))
}

// pay adds what the coordinator's own requests use to the budget.
func (p *piece) pay(emit func(agent.Event)) func(agent.Event) {
	var before *float64
	return func(e agent.Event) {
		var s agent.Spent
		switch e.Type {
		case agent.EventUsage:
			s.CostUSD, s.CostUnknown = crew.Grown(e.CostUSD, before), e.CostUSD == nil
			before = e.CostUSD
			if e.Usage != nil {
				s.Usage = *e.Usage
			}
		}
		if s != (agent.Spent{}) {
			p.c.purse().Spend(s)
		}
		emit(e)
	}
}
