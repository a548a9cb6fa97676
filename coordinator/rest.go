package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/memory/text"
	"ralph/workers"
	"ralph/workers/agent"
	"ralph/workers/exec/supervise"
)

// restTime bounds the wait for everything to end after a stop; what has not
// ended then is named.
const restTime = 5 * time.Second

// Stop ends all work, at once, in the caller's goroutine: every context of it is
// cancelled and every process told to end before Stop returns. It waits for
// nothing, and takes no lock that work may hold for long.
func (c *Coordinator) Stop(cause *interrupts.Stop) {
	from := fromChat
	if cause.Signal != 0 {
		from = "signal"
	}
	c.Say(interrupts.Message{Class: interrupts.ClassStop, Text: cause.Text, From: from, To: c.box(), Signal: cause.Signal})
}

// catch notes what is in the middle of being done, before a stop ends it.
func (c *Coordinator) catch() {
	running, _ := c.eyes.now()
	running = append(running, c.atWork()...)
	background := commandsOf(c.background())
	var unsaid []string
	for _, m := range c.mail.queue.Waiting() {
		unsaid = append(unsaid, m.Text)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.piece != nil && !c.piece.caught {
		c.piece.caught, c.piece.open, c.piece.beside, c.piece.unsaid = true, running, background, unsaid
	}
}

// halted does what a stop does beside ending contexts: processes that belong to
// no context, such as background jobs, end as well. It runs inside Say.
func (c *Coordinator) halted(m interrupts.Message) {
	if m.To == "" {
		c.opt.Proc.Stop()
		c.pausing.end()
		c.quiet.end()
	}
	// Delivered means for a stop that it took effect, which it has: everything was
	// told to end. That everything is at rest is told as an interrupt.
	_ = c.mail.queue.Settle(m.ID(), interrupts.Delivered)
}

// Kill kills every process now, without the grace of a stop that asks first.
func (c *Coordinator) Kill() { c.opt.Proc.Kill() }

// StopAgent ends one agent, background call or job. The error names those that
// there are.
func (c *Coordinator) StopAgent(id string, cause *interrupts.Stop) error {
	var names []string
	if _, ok := c.crew.Find(id); ok {
		if err := c.crew.Stop(id, cause); err != nil {
			return &result.Error{Op: "stop", Path: id, Err: err, Status: result.Usage, Hint: "/agents shows who is at work"}
		}
		// What was said to it and not delivered has nobody to go to.
		c.Say(interrupts.Message{Class: interrupts.ClassStop, Text: cause.Text, From: fromChat, To: id})
		return nil
	}
	for _, s := range append(c.pool.List(), c.guestsInLine()...) {
		if s.ID == id {
			c.Say(interrupts.Message{Class: interrupts.ClassStop, Text: cause.Text, From: fromChat, To: id})
			c.pool.Cancel(id, cause)
			return nil
		}
		names = append(names, s.ID)
	}
	if loop := c.loop(); loop != nil && loop.Cancel(id, cause) {
		return nil
	}
	for _, j := range c.opt.Proc.Jobs() {
		if _, ended := j.Result(); ended {
			continue
		}
		if j.ID() == id {
			ctx, cancel := context.WithTimeout(c.closing, restTime)
			defer cancel()
			return j.Stop(ctx)
		}
		names = append(names, j.ID())
	}
	what := "nothing is at work"
	if len(names) > 0 {
		what = "at work: " + strings.Join(names, ", ")
	}
	return &result.Error{Op: "stop", Path: id, Err: errors.New("there is no such agent or job"), Status: result.Usage, Hint: what}
}

// rest brings everything to rest after a stop and says how that went.
func (p *piece) rest(ctx context.Context, stop *interrupts.Stop) workers.StopReport {
	ctx, cancel := context.WithTimeout(ctx, restTime)
	defer cancel()
	if p.c.host != nil {
		return p.c.endJobs(ctx)
	}
	return p.c.pool.Stop(ctx, stop)
}

// restText is a stop's report in words.
func restText(r workers.StopReport) string {
	var parts []string
	if r.Processes > 0 {
		parts = append(parts, text.Count(r.Processes, "command")+" ended")
	}
	if len(r.Killed) > 0 {
		parts = append(parts, fmt.Sprintf("%d killed", len(r.Killed)))
	}
	if len(r.Survivors) > 0 {
		parts = append(parts, "still running: "+processNames(r.Survivors))
	}
	if len(r.Stuck) > 0 {
		parts = append(parts, "not ended yet: "+strings.Join(r.Stuck, ", "))
	}
	if r.Rest() {
		parts = append(parts, "nothing is left running")
	}
	return strings.Join(parts, ", ")
}

func processNames(list []supervise.Process) string {
	var names []string
	for i, x := range list {
		if i == 5 {
			names = append(names, fmt.Sprintf("and %d more", len(list)-i))
			break
		}
		names = append(names, fmt.Sprintf("%s (pid %d)", x.Command, x.PID))
	}
	return strings.Join(names, ", ")
}

// stopped ends a piece of work that a stop ended: everything is brought to rest,
// and what was interrupted goes to disk in one flush, with which conversation
// mode begins in a chat.
func (p *piece) stopped(ctx context.Context, stop *interrupts.Stop) {
	c := p.c
	report := p.rest(ctx, stop)
	text := restText(report)
	p.out.Rest = text
	for _, s := range report.Survivors {
		c.warn(fmt.Sprintf("still running after SIGKILL: %s (pid %d)", s.Command, s.PID))
	}
	// While the user and Ralph only talk, the truth about the work is told already.
	begins := p.job.Chat && c.interruption() == nil
	if begins {
		c.mu.Lock()
		open, beside, unsaid := p.open, p.beside, p.unsaid
		c.mu.Unlock()
		s := interruption{At: c.now().UTC(), Task: p.about, Run: p.runName(), Requests: p.out.Turns, Report: text, By: by(stop), Open: open, Background: beside, Unsaid: unsaid}
		if n := len(p.talk); n > 0 && p.talk[n-1].Partial {
			s.Partial = p.talk[n-1].Text
		}
		c.converse(s)
	}
	took := report.Took.Milliseconds()
	c.events.emit(agent.Event{Type: agent.EventInterrupt, Status: "stopped", Reason: stop.Error(), Text: text, DurationMS: &took})
	c.book.flushEvents()
	if begins {
		c.events.emit(agent.Event{Type: agent.EventInterrupt, Status: modeConversation, Text: "Ralph only talks until /go"})
	}
}

// unbegun begins conversation mode for work that a stop ended before its turn came:
// the user stopped it as any other.
func (p *piece) unbegun(err error) {
	stop, stopped := interrupts.AsStop(err)
	if !stopped || !p.job.Chat || p.c.interruption() != nil {
		return
	}
	p.c.converse(interruption{At: p.c.now().UTC(), Task: p.job.Task, Report: "It had not begun: nothing was running.", By: by(stop)})
	p.c.book.flushEvents()
	p.c.events.emit(agent.Event{Type: agent.EventInterrupt, Status: modeConversation, Text: "Ralph only talks until /go"})
}

// runName names the run of a plan that the piece worked on.
func (p *piece) runName() string {
	if p.job.Loop == nil {
		return ""
	}
	return p.c.stoppedRun()
}

// by says who stopped, for people.
func by(stop *interrupts.Stop) string {
	switch {
	case stop.Signal == syscall.SIGINT:
		return "Ctrl-C"
	case stop.Signal != 0:
		return strings.TrimPrefix(stop.Error(), "interrupted by ")
	}
	return "the user"
}

// loop is that of the work that runs, nil for none.
func (c *Coordinator) loop() *agent.Loop {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.piece == nil {
		return nil
	}
	return c.piece.loop
}

// background names what runs beside the conversation.
func (c *Coordinator) background() []Background {
	list := []Background{}
	if loop := c.loop(); loop != nil {
		for _, call := range loop.Background() {
			list = append(list, Background{ID: call.Ref, Command: head(agent.Call{Name: call.Name, Args: call.Args}.Command(), maxToldBytes), Since: call.Since.UTC()})
		}
	}
	for _, j := range c.opt.Proc.Jobs() {
		if _, ended := j.Result(); !ended {
			list = append(list, Background{ID: j.ID(), Command: head(jobCommand(j.Command()), maxToldBytes), Since: j.Started().UTC()})
		}
	}
	return list
}

// jobCommand is a command line without the shell that runs it.
func jobCommand(line string) string {
	if _, rest, ok := strings.Cut(line, " -c "); ok {
		return rest
	}
	return line
}

func commandsOf(list []Background) []string {
	var out []string
	for _, b := range list {
		out = append(out, b.Command)
	}
	return slices.Clip(out)
}

// afterwork is what is done after a stop, beside the conversation: the
// checkpoint of what the work changed, the last lines of state. Work waits for
// it, talk does not.
type afterwork struct{ done chan struct{} }

// behind runs f beside the conversation, after what an earlier stop left to do.
func (c *Coordinator) behind(f func(context.Context)) {
	a := &afterwork{done: make(chan struct{})}
	c.mu.Lock()
	before := c.after
	c.after = a
	c.mu.Unlock()
	go func() {
		defer close(a.done)
		if before != nil {
			<-before.done
		}
		ctx, cancel := context.WithTimeout(c.closing, settleTime)
		defer cancel()
		f(ctx)
	}()
}

// settled waits for what is done after a stop.
func (c *Coordinator) settled(ctx context.Context) error {
	c.mu.Lock()
	a := c.after
	c.mu.Unlock()
	if a == nil {
		return nil
	}
	select {
	case <-a.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
