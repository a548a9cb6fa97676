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

// ErrSpawned reports that a turn has spawned as many agents as it may.
var ErrSpawned = errors.New("as many agents as one turn may have in all were spawned")

// turnOf returns the turn that a spawn by parent counts for: the attempt at a task
// that it works below, "" for the coordinator's own turn. mu is held.
func (c *Crew) turnOf(parent string) string {
	for m := c.find(parent); m != nil; m = c.find(m.Parent) {
		if m.Errand != "" {
			return m.Errand
		}
	}
	return ""
}

// Spawn asks for children of parent, all or none, and gives their ids in the
// order of the list. Those whose After is merged begin when there is room.
func (c *Crew) Spawn(ctx context.Context, parent string, list []tools.SpawnAgent) ([]string, error) {
	taken := c.taken(ctx)
	c.mu.Lock()
	if c.ctx == nil || c.ctx.Err() != nil {
		c.mu.Unlock()
		return nil, errors.New("spawn agents: no work is going on")
	}
	made, err := c.enlist(parent, list, taken)
	c.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("spawn agents: %w", err)
	}
	ids := make([]string, len(made))
	for i, m := range made {
		ids[i] = m.ID
		c.keep(m)
	}
	if c.o.Trees == nil {
		c.sayOneTree()
	}
	c.schedule()
	return ids, nil
}

// enlist makes the members; mu is held.
func (c *Crew) enlist(parent string, list []tools.SpawnAgent, taken map[string]bool) ([]*member, error) {
	turn := c.turnOf(parent)
	if most := c.o.MaxSpawned; most > 0 && c.spawned[turn]+len(list) > most {
		return nil, fmt.Errorf("%w: %d of %d; use those that there are (message_agent), or do the work yourself", ErrSpawned, c.spawned[turn], most)
	}
	depth, budget := 1, c.o.Budget()
	if p := c.find(parent); p != nil {
		depth, budget = p.Depth+1, p.budget
	}
	if err := c.o.Pool.Allows(parent, depth, len(list)+c.inLine(parent)); err != nil {
		return nil, err
	}
	var made []*member
	byName := map[string]string{}
	now := c.o.Now().UTC()
	for _, s := range list {
		id := freeName(nameFor(s), taken)
		taken[id] = true
		if s.Name != "" {
			byName[s.Name] = id
		}
		m := newMember(Agent{ID: id, Parent: parent, Depth: depth, Label: label(s.Task), Task: strings.TrimSpace(s.Task), After: slices.Clone(s.After), State: Waiting, Since: now, Beat: now})
		m.check, m.files, m.budget, m.round = s.Check, s.Files, budget.Share(workers.Limit{}), c.round
		made = append(made, m)
	}
	for _, m := range made {
		for i, name := range m.After {
			switch id, here := byName[name]; {
			case here:
				m.After[i] = id
			case c.find(name) == nil:
				return nil, fmt.Errorf("%s: after %q: %w; there are: %s", m.ID, name, ErrNoAgent, names(append(c.members, made...)))
			}
		}
	}
	if circle := circleIn(made, c.members); circle != "" {
		return nil, fmt.Errorf("the agents wait for each other in a circle: %s", circle)
	}
	c.members = append(c.members, made...)
	c.spawned[turn] += len(made)
	return made, nil
}
