package crew

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"ralph/workers"
	"ralph/workers/tools"
)

// Order asks for one agent that works for a plan and for no other agent: what it
// comes to is told to whoever waits with Settled, and is no news for anybody.
type Order struct {
	// Name is what it is called, as far as that is free; Label says in a few words
	// what it does, Task all of it.
	Name, Label, Task string
	// Errand is kept in its Agent, for Equip and Prove to know it by.
	Errand string
	// Limit is what it may use of the whole budget.
	Limit workers.Limit
}

// Assign asks for an agent and gives its id. It begins when there is room.
func (c *Crew) Assign(ctx context.Context, o Order) (string, error) {
	taken := c.taken(ctx)
	now := c.o.Now().UTC()
	c.mu.Lock()
	if c.ctx == nil || c.ctx.Err() != nil {
		c.mu.Unlock()
		return "", errors.New("assign an agent: no work is going on")
	}
	id := freeName(nameFor(tools.SpawnAgent{Name: o.Name, Task: o.Label}), taken)
	m := newMember(Agent{ID: id, Depth: 1, Label: label(o.Label), Task: strings.TrimSpace(o.Task), Errand: o.Errand, State: Waiting, Since: now, Beat: now})
	m.limit, m.budget, m.round = o.Limit, c.o.Budget().Share(o.Limit), c.round
	c.members = append(c.members, m)
	c.mu.Unlock()
	c.keep(m)
	if c.o.Trees == nil {
		c.sayOneTree()
	}
	c.schedule()
	return id, nil
}

// Again has an agent that did not get there try once more: in its own tree, with
// what it did there, with a new conversation and the Task of the order.
func (c *Crew) Again(id string, o Order) error {
	return c.goOn(id, func(m *member) {
		m.Task, m.Label, m.Errand, m.limit, m.fresh = strings.TrimSpace(o.Task), label(o.Label), o.Errand, o.Limit, true
	})
}

// Continue has an agent that was interrupted go on with its own conversation; text
// is what it is told.
func (c *Crew) Continue(id, text string, o Order) error {
	return c.goOn(id, func(m *member) {
		m.goText, m.Label, m.Errand, m.limit, m.fresh = text, label(o.Label), o.Errand, o.Limit, false
	})
}

// Bearer is the agent that had an errand last, and not one that resolves a
// conflict of its work.
func (c *Crew) Bearer(errand string) (Agent, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range slices.Backward(c.members) {
		if m.Errand == errand && m.mends == "" {
			return c.shown(m), true
		}
	}
	return Agent{}, false
}

// Settled waits until an agent has ended and nobody resolves a conflict of its
// work any more, and tells how it stands then. The error is the cause of ctx, or
// that there is no such agent.
func (c *Crew) Settled(ctx context.Context, id string) (Agent, error) {
	for {
		c.mu.Lock()
		m, pulse := c.find(id), c.pulse
		if m == nil {
			c.mu.Unlock()
			return Agent{}, fmt.Errorf("wait for %s: %w", id, ErrNoAgent)
		}
		a, busy := c.shown(m), m.busy() || c.mending(id)
		c.mu.Unlock()
		if !busy {
			return a, nil
		}
		select {
		case <-pulse:
		case <-ctx.Done():
			return a, context.Cause(ctx)
		}
	}
}

// Fault is what ended an agent, nil when it ended by itself.
func (c *Crew) Fault(id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.find(id); m != nil {
		return m.fault
	}
	return nil
}

// Shelve removes the tree of an agent that has ended and whose work is not merged;
// what it did stays on its branch.
func (c *Crew) Shelve(ctx context.Context, id string) {
	c.mu.Lock()
	m := c.find(id)
	idle := m != nil && c.o.Trees != nil && !m.busy() && m.Worktree != "" && m.Commit != "" && m.Landing == Unmerged
	c.mu.Unlock()
	if idle {
		c.drop(ctx, m, true)
		c.keep(m)
		c.shut(m)
	}
}
