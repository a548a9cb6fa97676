package analysis

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"ralph/memory/session/folder"
	"ralph/memory/text"
)

// checks counts runs of checks.
type checks struct {
	n, passed int
	by        map[string]*Runs
}

func newChecks() checks { return checks{by: map[string]*Runs{}} }

func (c *checks) add(name string, passed bool, took float64) {
	c.n++
	if name = cmp.Or(clip(name), unknown); c.by[name] == nil {
		if len(c.by) >= maxWords {
			name = others
		}
		if c.by[name] == nil {
			c.by[name] = &Runs{Name: name}
		}
	}
	r := c.by[name]
	r.N++
	r.Seconds += took
	if passed {
		c.passed++
	} else {
		r.Failed++
	}
}

func (c *checks) result() Gates {
	return Gates{N: c.n, Passed: c.passed, Failed: c.n - c.passed, ByCheck: runs(c.by)}
}

// runs turns a table into a list, what took longest first.
func runs(table map[string]*Runs) []Runs {
	list := make([]Runs, 0, len(table))
	for _, r := range table {
		r := *r
		r.Seconds = *seconds(r.Seconds)
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b Runs) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), b.N-a.N, cmp.Compare(a.Name, b.Name))
	})
	return list
}

// stops counts interrupts.
type stops struct {
	n           int
	reason, how words
	took        sample
}

func newStops() stops { return stops{reason: words{}, how: words{}} }

// add counts a stop; took is below 0 when it is not known.
func (s *stops) add(reason, how string, took float64) {
	s.n++
	s.reason.add(reason, 1)
	s.how.add(how, 1)
	s.took.add(took)
}

func (s *stops) result() Interrupts {
	return Interrupts{N: s.n, ByReason: s.reason, ByHow: s.how, Latency: s.took.distribution()}
}

// spends counts what the end of a task says was used.
func (c *Collector) spends(e folder.Event, k *task, u usage) {
	a := c.logged(e.Text("agent"))
	a.spent.add(u)
	a.tasks++
	if n, ok := e.Number("turns"); ok {
		a.turns += int(count(n))
	}
	if n, ok := e.Number("tool_calls"); ok {
		a.calls += int(count(n))
	}
	addTo(&k.told, u)
	c.ends.add(u)
}

// logged is the agent as the log alone tells of it.
func (c *Collector) logged(id string) *agent {
	if id = cmp.Or(clip(id), unknown); c.workers[id] == nil && len(c.workers) >= maxAgents {
		id = others
	}
	if c.workers[id] == nil {
		c.workers[id] = &agent{}
	}
	return c.workers[id]
}

// listHas says that a list with commas has an entry.
func listHas(list, entry string) bool { return slices.Contains(strings.Split(list, ", "), entry) }

// maxAnswer bounds the answer that is kept, in bytes.
const maxAnswer = 4000

// whole keeps a longer text with its lines.
func whole(s string) string {
	if len(s) > maxAnswer {
		s = strings.ToValidUTF8(s[:maxAnswer], "") + "…"
	}
	return strings.Clone(text.Visible(s))
}

// agentList turns a table into a list, who used most first.
func agentList(table map[string]*agent) []Agent {
	keys := slices.SortedFunc(maps.Keys(table), func(a, b string) int {
		return cmp.Or(cmp.Compare(table[b].spent.total, table[a].spent.total), cmp.Compare(table[b].turns, table[a].turns), cmp.Compare(a, b))
	})
	list := []Agent{}
	rest := agent{}
	for _, id := range keys {
		a := table[id]
		if a.idle() {
			continue
		}
		if len(list) < maxListed && id != others {
			list = append(list, a.told(id))
			continue
		}
		rest.turns += a.turns
		rest.calls += a.calls
		rest.tasks += a.tasks
		rest.spent.add(a.spent)
		rest.lived += a.lived
		rest.alive = rest.alive || a.alive
	}
	if !rest.idle() {
		list = append(list, rest.told(others))
	}
	return list
}

// idle says that nothing is known of the agent but its name.
func (a *agent) idle() bool {
	return a.turns == 0 && a.calls == 0 && a.tasks == 0 && !a.alive && a.spent.none()
}

func (a *agent) told(id string) Agent {
	t := Agent{ID: id, Turns: a.turns, ToolCalls: a.calls, Tasks: a.tasks, Tokens: a.spent.told().Total, Cost: a.spent.told().Cost}
	if a.alive {
		t.Seconds = seconds(a.lived)
	}
	return t
}
