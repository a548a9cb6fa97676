package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/workers"
	"ralph/workers/agent"
	"ralph/workers/exec"
	"ralph/workers/exec/supervise"
)

// guest makes a coordinator for a task that another terminal handed over. It has
// a conversation, a journal and totals of its own, and shares all that there is
// one of: the store, the hands, the queue, the human, and the right to work,
// which one piece of work has at a time.
func (c *Coordinator) guest(h handed, from string) (*Coordinator, error) {
	c.mu.Lock()
	c.visits++
	name := fmt.Sprintf("task-%d", c.visits)
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
	opt.Config, opt.Holder, opt.Session, opt.Recovery = &cfg, "one-shot", "", nil
	opt.RunID = c.opt.RunID + "-" + name
	if h.RunID != "" {
		opt.RunID = h.RunID
	}
	g := &Coordinator{name: name, host: c, opt: opt, cfg: &cfg, now: c.now, redactor: c.redactor, loc: c.loc, repo: c.repo, trees: c.trees, approver: c.approver, station: c.station, stations: c.stations, granted: c.granted, writes: c.writes,
		running: c.running, closing: c.closing, project: c.project, userState: c.userState, mail: c.mail, pool: c.pool, asides: c.asides, pausing: c.pausing, quiet: c.quiet,
		visit: visit{task: firstLine(h.Task), from: from, since: c.now().UTC()}}
	c.mu.Lock()
	g.endpoint, g.modelOptions, g.client = c.endpoint, c.modelOptions, c.client
	c.mu.Unlock()
	g.totals.Started = c.now()
	g.book, g.edits, g.eyes, g.errands = newBook(g), newEdits(g), &eyes{}, c.errands
	if err := c.book.lend(g.book); err != nil {
		return nil, err
	}
	g.events = &emitter{run: opt.RunID, now: c.now, eyes: g.eyes.see, keep: g.book.keepEvent, mask: mask{redactor: c.redactor}}
	g.changes = &changes{points: c.changes.points, repo: c.repo, root: opt.Root, run: opt.RunID, warn: g.warn, trees: c.trees, homeless: c.book.homeless, writes: c.writes, left: g.noteLeft}
	g.crew = g.newCrew()
	return g, nil
}

// visit is what a guest came for.
type visit struct {
	task  string // in a few words
	from  string // whose it is
	since time.Time
	jobs  []*exec.Job // that were there before it began
}

// do does the guest's task when it is its turn. The error says why it was not
// begun.
func (c *Coordinator) do(ctx context.Context, h handed) (out result.Outcome, err error) {
	defer func() {
		if r := recover(); r != nil { // of the guest's work: the Ralph that it visits goes on
			err = fmt.Errorf("the task broke: %v", r)
		}
	}()
	host := c.host
	host.mu.Lock()
	host.guests = append(host.guests, c)
	host.mu.Unlock()
	defer func() {
		host.mu.Lock()
		defer host.mu.Unlock()
		host.guests = slices.DeleteFunc(host.guests, func(g *Coordinator) bool { return g == c })
	}()
	guard := c.mail.queue.Guard(ctx, c.name)
	defer guard.Release()
	if err := c.take(guard.Context()); err != nil {
		return result.Outcome{}, err
	}
	defer c.free()
	c.visit.jobs = c.opt.Proc.Jobs()
	host.start()
	host.events.emit(agent.Event{Type: agent.EventChildStart, Agent: c.name, From: c.visit.from, Text: "a task from another terminal: " + c.visit.task})
	p := &piece{c: c, out: result.Outcome{StartedAt: c.now().UTC()},
		job: Job{Task: h.Task, Context: h.Context, Schema: h.Schema, Files: h.Files, DryRun: h.DryRun}}
	out = c.run(ctx, guard.Context(), p)
	rest, cancel := context.WithTimeout(c.closing, restTime)
	defer cancel()
	for _, s := range c.endJobs(rest).Survivors {
		out.Warnings = append(out.Warnings, fmt.Sprintf("still running: %s (pid %d)", s.Command, s.PID))
	}
	ok := out.Status == result.Completed
	host.mu.Lock()
	host.totals.spend(agent.Spent{Usage: out.Usage, CostUSD: out.CostUSD})
	host.mu.Unlock()
	host.events.emit(agent.Event{Type: agent.EventChildEnd, Agent: c.name, From: c.visit.from, OK: &ok, Status: string(out.Status), Text: firstLine(out.Answer)})
	return out, nil
}

// endJobs ends what the guest has in the background, and nothing else, and looks
// what is left.
func (c *Coordinator) endJobs(ctx context.Context) workers.StopReport {
	began := c.now()
	r := workers.StopReport{Ended: []string{c.name}, Checked: true}
	for _, j := range c.opt.Proc.Jobs() {
		if _, ended := j.Result(); ended || slices.Contains(c.visit.jobs, j) {
			continue
		}
		r.Processes++
		_ = j.Stop(ctx) // what it leaves is found by the look
	}
	r.Survivors = supervise.Leaks()
	r.Took = c.now().Sub(began)
	return r
}

// guestAtWork is the work of the guest whose turn it is, nil for none.
func (c *Coordinator) guestAtWork() *piece {
	c.mu.Lock()
	guests := slices.Clone(c.guests)
	c.mu.Unlock()
	for _, g := range guests {
		g.mu.Lock()
		p := g.piece
		g.mu.Unlock()
		if p != nil {
			return p
		}
	}
	return nil
}

// guestsInLine are those that wait for their turn.
func (c *Coordinator) guestsInLine() []workers.Status {
	c.mu.Lock()
	guests := slices.Clone(c.guests)
	c.mu.Unlock()
	var line []workers.Status
	at := c.guestAtWork()
	for _, g := range guests {
		if at == nil || at.c != g {
			line = append(line, workers.Status{ID: g.name, Label: g.visit.task, State: "waiting", Since: g.visit.since, Beat: g.visit.since})
		}
	}
	return line
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
