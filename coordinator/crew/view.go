package crew

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ralph/coordinator/prompt"
	"ralph/memory/session"
	"ralph/memory/text"
	"ralph/workers"
	"ralph/workers/agent"
)

// shown is a member as others see it; mu is held.
func (c *Crew) shown(m *member) Agent {
	a := m.Agent
	a.After, a.Files = slices.Clone(m.After), slices.Clone(m.Files)
	if m.dir != "" {
		a.Transcript = filepath.Join(m.dir, m.ID, session.JournalFile)
	}
	return a
}

// List returns all agents, in the order of a tree: each followed by its children,
// those that were asked for first before the others. What the pool knows of those
// at work is in it.
func (c *Crew) List() []Agent {
	at := map[string]workers.Status{}
	for _, s := range c.o.Pool.List() {
		at[s.ID] = s
	}
	c.mu.Lock()
	below := map[string][]Agent{}
	known := map[string]bool{}
	for _, m := range c.members {
		known[m.ID] = true
	}
	for _, m := range c.members {
		a := c.shown(m)
		if s, ok := at[m.ID]; ok && !m.settled() {
			a.Stalled = s.Stalled
			switch s.State {
			case workers.Stopping:
				a.State = Stopping
			case workers.Queued:
				a.State = Queued
			}
		}
		parent := a.Parent
		if !known[parent] {
			parent = ""
		}
		below[parent] = append(below[parent], a)
	}
	c.mu.Unlock()
	var list []Agent
	var walk func(parent string)
	walk = func(parent string) {
		for _, a := range below[parent] {
			list = append(list, a)
			walk(a.ID)
		}
	}
	walk("")
	return list
}

// Find is the agent of an id.
func (c *Crew) Find(id string) (Agent, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.find(id); m != nil {
		return c.shown(m), true
	}
	return Agent{}, false
}

// Round lists those that were begun or resumed for the present work.
func (c *Crew) Round() []Agent {
	var list []Agent
	c.mu.Lock()
	in := map[string]bool{}
	for _, m := range c.members {
		in[m.ID] = m.round == c.round && c.round > 0
	}
	c.mu.Unlock()
	for _, a := range c.List() {
		if in[a.ID] {
			list = append(list, a)
		}
	}
	return list
}

// End ends all that are at work with a cause, and waits until they have ended.
func (c *Crew) End(ctx context.Context, cause error) {
	c.mu.Lock()
	var ids []string
	for _, m := range c.members {
		if m.busy() {
			ids = append(ids, m.ID)
		}
	}
	c.mu.Unlock()
	for _, id := range ids {
		_ = c.Stop(id, cause) // one that has ended meanwhile is no matter
	}
	for _, id := range ids {
		c.waitFor(ctx, id, afterTime)
	}
}

// Rest waits until nobody is at work. The error is the cause of ctx.
func (c *Crew) Rest(ctx context.Context) error {
	for {
		c.mu.Lock()
		pulse := c.pulse
		c.mu.Unlock()
		if !c.AtWork() {
			return nil
		}
		select {
		case <-pulse:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Tally adds up what agents used and did.
type Tally struct {
	agent.Spent
	// Calls, Failed and Denied count tool calls.
	Calls, Failed, Denied int
	Commands              []agent.CommandRun
	Refused               []agent.Refusal
}

// add adds what a run of a loop did.
func (t *Tally) add(end agent.End) {
	t.Calls, t.Failed, t.Denied = t.Calls+end.Calls, t.Failed+end.Failed, t.Denied+end.Denied
	t.Commands, t.Refused = append(t.Commands, end.Commands...), append(t.Refused, end.Refused...)
}

// Used is what the agents of the present work have used and done for it.
func (c *Crew) Used() Tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	var sum Tally
	for _, m := range c.members {
		if m.round != c.round || c.round == 0 {
			continue
		}
		d := m.did
		sum.Calls, sum.Failed, sum.Denied = sum.Calls+d.Calls, sum.Failed+d.Failed, sum.Denied+d.Denied
		sum.Commands, sum.Refused = append(sum.Commands, d.Commands...), append(sum.Refused, d.Refused...)
		sum.Turns += m.Turns - m.before.Turns
		sum.APITime += d.APITime
		sum.Usage = sum.Usage.Add(minus(m.Usage, m.before.Usage))
		switch cost := Grown(m.CostUSD, m.before.CostUSD); {
		case cost != nil && sum.CostUSD != nil:
			total := *sum.CostUSD + *cost
			sum.CostUSD = &total
		case cost != nil:
			sum.CostUSD = cost
		default:
			sum.CostUnknown = sum.CostUnknown || m.Usage.Total > m.before.Usage.Total
		}
	}
	return sum
}

func minus(u, v agent.Usage) agent.Usage {
	u.Input, u.CachedInput, u.Output = u.Input-v.Input, u.CachedInput-v.CachedInput, u.Output-v.Output
	u.Reasoning, u.Total = u.Reasoning-v.Reasoning, u.Total-v.Total
	return u
}

// Place is the project's root in the tree of an agent, and the directories of the
// user's tree that are there as links, absolute.
func (c *Crew) Place(id string) (root string, linked []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.find(id); m != nil {
		return m.root, slices.Clone(m.linked)
	}
	return "", nil
}

// AtWork says whether agents are at work, or wait to be.
func (c *Crew) AtWork() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.members, (*member).busy)
}

// Asked is what was asked of an agent beside its task: the command that its work
// has to pass, "" for none, and the files that it should stay in.
func (c *Crew) Asked(id string) (check string, files []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.find(id); m != nil {
		return m.check, slices.Clone(m.files)
	}
	return "", nil
}

// News are the messages for an agent since it was last asked: what it was told by
// other agents, and what its children came to. They are data, and fenced so.
func (c *Crew) News(id string) []agent.Message {
	var list []agent.Message
	add := func(text string, err error) {
		if err == nil && text != "" {
			list = append(list, agent.Message{Role: agent.RoleUser, Text: text})
		}
	}
	c.mu.Lock()
	var said []prompt.Said
	if m := c.find(id); m != nil {
		said, m.news = m.news, nil
	}
	var over []Agent
	for _, m := range c.members {
		if m.Parent == id && m.untold {
			m.untold = false
			over = append(over, c.shown(m))
		}
	}
	left := 0
	for _, m := range c.members {
		if m.Parent == id && !m.settled() {
			left++
		}
	}
	c.mu.Unlock()
	if len(said) > 0 {
		add(prompt.FromAgents(said))
	}
	if len(over) > 0 {
		slices.SortStableFunc(over, func(a, b Agent) int { return cmp.Compare(a.ID, b.ID) })
		var told []prompt.Child
		for _, a := range over {
			told = append(told, prompt.Child{ID: a.ID, Standing: a.standing(), Problem: a.Problem, Files: a.Files, Branch: a.Branch, Result: a.Result, Cut: a.Cut, Commit: short(a.Commit)})
		}
		add(prompt.Children(told, left))
	}
	return list
}

func short(hash string) string { return hash[:min(len(hash), 12)] }

// Status tells how one agent stands, or all, for a model. With a wait it returns
// when one of them ends, at most after it.
func (c *Crew) Status(ctx context.Context, id string, wait time.Duration) (content string, alive bool, err error) {
	if id != "" {
		if _, ok := c.Find(id); !ok {
			c.mu.Lock()
			defer c.mu.Unlock()
			return "", false, fmt.Errorf("status of %s: %w; there are: %s", id, ErrNoAgent, names(c.members))
		}
	}
	if wait > 0 {
		c.waitFor(ctx, id, wait)
	}
	var b strings.Builder
	now := c.o.Now()
	for _, a := range c.List() {
		if id != "" && a.ID != id {
			continue
		}
		fmt.Fprintf(&b, "%s%s: %s", strings.Repeat("  ", max(a.Depth-1, 0)), a.ID, a.standing())
		if a.settled() {
			fmt.Fprintf(&b, " after %s", a.Ended.Sub(a.Since).Round(time.Second))
		} else {
			alive = true
			fmt.Fprintf(&b, " for %s", now.Sub(a.Since).Round(time.Second))
		}
		if len(a.After) > 0 && a.State == Waiting {
			fmt.Fprintf(&b, ", after %s", strings.Join(a.After, ", "))
		}
		fmt.Fprintf(&b, ", %d turns, %d tokens", a.Turns, a.Usage.Total)
		if a.Doing != "" && !a.settled() {
			fmt.Fprintf(&b, ", now: %s (%s ago)", a.Doing, now.Sub(a.Beat).Round(time.Second))
		}
		if a.Stalled {
			b.WriteString(", no sign of life")
		}
		if a.Problem != "" {
			fmt.Fprintf(&b, "\n  problem: %s", text.FirstLine(strings.TrimSpace(a.Problem)))
		}
		if a.Result != "" && (id != "" || a.settled()) {
			fmt.Fprintf(&b, "\n  says: %s", text.FirstLine(strings.TrimSpace(a.Result)))
		}
		b.WriteByte('\n')
	}
	if b.Len() == 0 {
		return "there are no agents", false, nil
	}
	return b.String(), alive, nil
}

// Waited says why a wait for children is over.
type Waited int

// Why a wait is over.
const (
	Idle Waited = iota // none is at work, and all that they came to was told
	Came               // something else came
	Due                // News has what should not wait
)

// Await waits while children of an agent are at work, until there is something
// that should not wait: trouble, something in came, or the end of the last one.
func (c *Crew) Await(ctx context.Context, parent string, came <-chan struct{}) (Waited, error) {
	for {
		c.mu.Lock()
		ours, at, fresh, urgent, pulse := false, false, false, false, c.pulse
		for _, m := range c.members {
			if m.Parent != parent {
				continue
			}
			ours = ours || m.round == c.round
			at = at || m.busy()
			fresh = fresh || m.untold
			urgent = urgent || m.untold && m.trouble() && !c.mending(m.ID)
		}
		c.mu.Unlock()
		if !ours && !at && !fresh {
			return Idle, nil
		}
		if ctx.Err() != nil { // what came, or who ended, may be the stop's doing
			return Idle, context.Cause(ctx)
		}
		if urgent || fresh && !at {
			return Due, nil
		}
		if !at {
			return Idle, nil
		}
		select {
		case <-pulse:
		case <-came:
			if ctx.Err() == nil {
				return Came, nil
			}
		case <-ctx.Done():
		}
	}
}

// trouble says that somebody should see to an agent that has ended; mu is held.
func (m *member) trouble() bool {
	return m.State != Done || m.Landing == Conflict || m.Landing == Held
}

// waitFor waits until an agent ends, any for "", or nobody is at work.
func (c *Crew) waitFor(ctx context.Context, id string, wait time.Duration) {
	late := time.NewTimer(wait)
	defer late.Stop()
	c.mu.Lock()
	pulse := c.pulse
	at := slices.ContainsFunc(c.members, func(m *member) bool { return (id == "" || m.ID == id) && m.busy() })
	c.mu.Unlock()
	for at {
		select {
		case <-pulse:
		case <-late.C:
			return
		case <-ctx.Done():
			return
		}
		c.mu.Lock()
		pulse = c.pulse
		at = id != "" && slices.ContainsFunc(c.members, func(m *member) bool { return m.ID == id && m.busy() })
		c.mu.Unlock()
	}
}

// Doing is a tool call in a few words: the tool and what it works on.
func Doing(e agent.Event) string {
	var args map[string]any
	_ = json.Unmarshal(e.Args, &args) // what does not decode has nothing to show
	for _, key := range []string{"command", "path", "url", "pattern", "question", "id"} {
		if text, ok := args[key].(string); ok && text != "" {
			return e.Tool + " " + label(text)
		}
	}
	return e.Tool
}
