package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"ralph/coordinator/crew"
	"ralph/interrupts"
	"ralph/workers/agent"
)

// errNotPaused says that there is nothing to go on with.
var errNotPaused = errors.New("nothing is paused")

// pause holds the work at its next boundary until the user lets it go on.
type pause struct {
	// mu guards what follows; it is not held while something waits.
	mu      sync.Mutex
	wanted  chan struct{} // closed when the work may go on; nil when it is not to pause
	reached bool
	waiting bool // the coordinator waits for its children
	still   int  // so many of them are held at a boundary
}

// Pause has the work stop at its next boundary, before the next request, until
// Proceed; a tool that runs is finished. It does not wait.
func (c *Coordinator) Pause() {
	if run := c.planning.loop(); run != nil { // it pauses between two iterations
		run.Pause()
		return
	}
	if c.pausing.begin() {
		c.start()
		c.events.emit(agent.Event{Type: agent.EventInterrupt, Status: livePausing, Text: "the work pauses before the next request"})
	}
}

// Proceed ends a pause. Its error says that there is none.
func (c *Coordinator) Proceed() error {
	if run := c.planning.loop(); run != nil && c.pausing.state() == "" {
		return run.Proceed()
	}
	if !c.pausing.end() {
		return fmt.Errorf("resume: %w", errNotPaused)
	}
	c.events.emit(agent.Event{Type: agent.EventInterrupt, Status: "resumed", Text: "the work goes on"})
	return nil
}

// end ends a pause, as a stop does too; false says that there was none.
func (p *pause) end() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted := p.wanted
	p.wanted, p.reached = nil, false
	if wanted != nil {
		close(wanted)
	}
	return wanted != nil
}

// begin begins a pause that is not there yet.
func (p *pause) begin() (first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if first = p.wanted == nil; first {
		p.wanted = make(chan struct{})
	}
	return first
}

// held is closed when the pause ends; nil when there is none.
func (p *pause) held() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wanted
}

// state is "", pausing or paused.
func (p *pause) state() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.wanted == nil:
		return ""
	case p.reached:
		return livePaused
	}
	return livePausing
}

// await notes whether the coordinator waits for its children.
func (p *pause) await(waiting bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = waiting
}

// hush notes that n more children are held.
func (p *pause) hush(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.still += n
}

// reach says whether a pause is reached just now: the coordinator waits for its
// children, of which busy are at work, and they are held.
func (p *pause) reach(busy int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wanted == nil || p.reached || !p.waiting || p.still < busy {
		return false
	}
	p.reached = true
	return true
}

// calm tells that the work is paused once all that is at work is held. Who waits
// for children of its own is not at work.
func (c *Coordinator) calm() {
	if c.pausing.state() != livePausing {
		return
	}
	list := c.crew.List()
	busy := 0
	for _, a := range list {
		if a.State == crew.Running && !slices.ContainsFunc(list, func(b crew.Agent) bool { return b.Parent == a.ID && b.AtWork() }) {
			busy++
		}
	}
	if c.pausing.reach(busy) {
		c.events.emit(agent.Event{Type: agent.EventInterrupt, Status: livePaused, Text: "paused"})
	}
}

// holdChild holds a child at a boundary: while the work is paused, and while
// something urgent is handled.
func (c *Coordinator) holdChild(ctx context.Context) error {
	for {
		wait := c.pausing.held()
		if wait == nil {
			wait = c.quiet.held()
		}
		if wait == nil {
			return nil
		}
		c.pausing.hush(+1)
		c.calm()
		select {
		case <-wait:
		case <-ctx.Done():
		}
		c.pausing.hush(-1)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// hold is the loop's: a pause is for work, talk goes by.
func (p *piece) hold(ctx context.Context) error {
	if p.talking {
		return nil
	}
	if err := p.c.purse().Turn(); err != nil {
		return err
	}
	return p.c.hold(ctx)
}

// hold waits at a boundary while the work is paused. What is urgent goes by.
func (c *Coordinator) hold(ctx context.Context) error {
	p := c.pausing
	for {
		p.mu.Lock()
		wanted, first := p.wanted, !p.reached
		p.reached = wanted != nil
		p.mu.Unlock()
		if wanted == nil {
			return nil
		}
		if first {
			c.events.emit(agent.Event{Type: agent.EventInterrupt, Status: livePaused, Text: "paused"})
		}
		if slices.ContainsFunc(c.mail.queue.Waiting(), func(m interrupts.Message) bool { return m.Class == interrupts.ClassUrgent && c.mine(m) }) {
			return nil
		}
		select {
		case <-wanted:
			return nil
		case <-c.mail.queue.Changed():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
