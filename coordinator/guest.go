package coordinator

import (
	"context"
	"errors"
	"fmt"

	"ralph/interrupts"
	"ralph/workers/agent"
	"ralph/workers/git"
)

// guest makes a coordinator for a task that another terminal handed over. It has
// a conversation, a journal and totals of its own, and shares all that there is
// one of: the store, the hands, the queue, the human, and the right to work,
// which one piece of work has at a time.
func (c *Coordinator) guest(h handed, from string) (*Coordinator, error) {
	c.mu.Lock()
	c.guests++
	name := fmt.Sprintf("task-%d", c.guests)
	c.mu.Unlock()
	cfg := *c.cfg
	cfg.Timeout = 0 // the client keeps its own
	if h.Check != "" {
		cfg.Check = h.Check
	}
	if h.MaxTurns > 0 {
		cfg.MaxTurns = h.MaxTurns
	}
	if h.MaxTokens > 0 {
		cfg.MaxTokens = h.MaxTokens
	}
	if h.MaxCostUSD > 0 {
		cfg.MaxCostUSD = h.MaxCostUSD
	}
	opt := c.opt
	opt.Config, opt.Holder, opt.Session, opt.Situation = &cfg, "one-shot", "", nil
	opt.RunID = c.opt.RunID + "-" + name
	if h.RunID != "" {
		opt.RunID = h.RunID
	}
	g := &Coordinator{name: name, host: c, opt: opt, cfg: &cfg, now: c.now, redactor: c.redactor, loc: c.loc, repo: c.repo, gate: c.gate, work: c.work,
		running: c.running, closing: c.closing, project: c.project, mail: c.mail, pool: c.pool, asides: c.asides}
	c.mu.Lock()
	g.endpoint, g.modelOptions, g.client = c.endpoint, c.modelOptions, c.client
	c.mu.Unlock()
	g.totals.Started = c.now()
	g.pausing.c = g
	g.book, g.edits, g.eyes = newBook(g), newEdits(g), &eyes{}
	if err := c.book.lend(g.book); err != nil {
		return nil, err
	}
	g.events = &emitter{run: opt.RunID, now: c.now, eyes: g.eyes.see, keep: g.book.keepEvent, mask: mask{redactor: c.redactor}}
	g.changes = &changes{points: git.OpenCheckpoints(c.own, opt.Root, c.stateDir(), c.loc), repo: c.repo, root: opt.Root, run: opt.RunID, warn: g.warn}
	c.start()
	c.events.emit(agent.Event{Type: agent.EventChildStart, Agent: name, From: from, Text: "a task from another terminal: " + firstLine(h.Task)})
	return g, nil
}

// visit does the guest's task and ends the guest.
func (c *Coordinator) visit(ctx context.Context, h handed) Outcome {
	out := c.Run(ctx, Job{Task: h.Task, Context: h.Context, Schema: h.Schema, Files: h.Files, DryRun: h.DryRun})
	if err := c.leave(); err != nil {
		out.Warnings = append(out.Warnings, err.Error())
	}
	ok := out.Status == StatusCompleted
	c.host.mu.Lock()
	c.host.totals.spend(agent.Spent{Usage: out.Usage, CostUSD: out.CostUSD})
	c.host.mu.Unlock()
	c.host.events.emit(agent.Event{Type: agent.EventChildEnd, Agent: c.name, OK: &ok, Status: string(out.Status), Text: firstLine(out.Answer)})
	return out
}

// leave closes what is the guest's own.
func (c *Coordinator) leave() error {
	// What waits for the guest has nobody left to be delivered to.
	for _, m := range c.mail.queue.Take(func(m interrupts.Message) bool { return m.To == c.name }) {
		_ = c.mail.queue.Settle(m.ID(), interrupts.Cancelled) // it was taken here, so it is not settled
	}
	c.book.mu.Lock()
	defer c.book.leave()
	if c.book.journal != nil {
		return c.book.journal.Close()
	}
	return nil
}

// errNothingKept says that a guest finds no project to work in.
var errNothingKept = errors.New("this Ralph keeps nothing here")

// lend lets a guest write to the store that is open.
func (b *book) lend(to *book) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.store == nil {
		return errNothingKept
	}
	to.store, to.readOnly, to.dry = b.store, b.readOnly, b.dry
	return nil
}
