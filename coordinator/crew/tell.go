package crew

import (
	"strings"

	"ralph/memory/text"
	"ralph/workers/agent"
)

// ended tells that a member has ended, and lets go of what it had.
func (c *Crew) ended(m *member) {
	c.mu.Lock()
	a := c.shown(m)
	c.mu.Unlock()
	c.keep(m)
	c.shut(m)
	c.o.Over(m.ID)
	c.tellEnd(a)
	c.mu.Lock()
	m.ended, m.untold, m.ending = true, true, false
	c.mu.Unlock()
	c.tellLanding(m)
}

// changed wakes those who wait for an end.
func (c *Crew) changed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.pulse)
	c.pulse = make(chan struct{})
}

// tellEnd emits how an agent ended.
func (c *Crew) tellEnd(a Agent) {
	ok := a.State == Done
	usage := a.Usage
	content := text.FirstLine(strings.TrimSpace(a.Result))
	if content == "" {
		content = text.FirstLine(strings.TrimSpace(a.Problem))
	}
	c.o.Emit(agent.Event{Type: agent.EventChildEnd, Agent: a.ID, TaskID: a.Errand, Status: string(a.State), OK: &ok, Text: content, Reason: text.FirstLine(strings.TrimSpace(a.Problem)), Usage: &usage, CostUSD: a.CostUSD, Ref: a.Branch})
}

// tellLanding emits how far the work of an agent has come into the user's tree,
// after its end was told, and each step once.
func (c *Crew) tellLanding(m *member) {
	c.mu.Lock()
	a := c.shown(m)
	step := a.Landing == Merged || a.Landing == Held || a.Landing == Conflict
	tell := m.ended && step && m.landed != a.Landing
	if tell {
		m.landed = a.Landing
	}
	c.mu.Unlock()
	if tell {
		ok := a.Landing == Merged
		c.o.Emit(agent.Event{Type: agent.EventChildEnd, Agent: a.ID, TaskID: a.Errand, Status: string(a.Landing), OK: &ok, Text: a.Problem, Ref: a.Commit})
	}
}
