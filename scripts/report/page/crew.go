package page

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"ralph/memory/session/folder"
	"ralph/scripts/report/analysis"
)

// worker is one agent while its events go by.
type worker struct {
	name   string
	task   string
	from   int64
	last   int64
	open   bool
	child  bool // its beginning and end are told
	state  state
	turns  int
	tools  int
	tokens int64
	worked int64
	meter  analysis.Meter
}

// crew follows the agents of a journal.
type crew struct {
	known map[string]*worker
	rows  []*worker // the first maxAgentRows+1
	total int
	bars  bars
	last  int64
}

func (c *crew) of(name string) *worker {
	name = shorten(name)
	w := c.known[name]
	if w == nil {
		if len(c.known) >= maxTracked {
			for _, x := range c.working() {
				c.close(x, x.last)
			}
			clear(c.known)
		}
		w = &worker{name: name, state: stateOpen}
		c.known[name] = w
		if c.total++; len(c.rows) <= maxAgentRows {
			c.rows = append(c.rows, w)
		}
	}
	return w
}

// event takes what an agent did. A child works from its start to its end; the
// main agent from a request to the last thing that came of it.
func (c *crew) event(at int64, p *payload) {
	switch p.Type {
	case "child_start", "child_end", "turn_start", "usage", "tool_end", "message", "compact":
	default:
		return
	}
	c.last = max(c.last, at)
	w := c.of(cmp.Or(p.Agent, "ralph"))
	switch p.Type {
	case "child_start":
		if w.open {
			c.close(w, w.last)
		}
		w.open, w.child, w.from, w.last, w.state, w.task = true, true, at, at, stateRunning, shorten(cmp.Or(p.TaskID, p.Text))
		return
	case "child_end":
		w.state = ending(folder.TaskStatus(p.Status).Meant())
		if p.OK != nil && !*p.OK && w.state == stateDone {
			w.state = stateFailed
		}
		if w.open {
			c.close(w, at)
		}
		return
	case "turn_start":
		w.turns++
		w.meter.Begins(p.Turn)
		if w.open && !w.child {
			c.close(w, w.last)
		}
		if !w.open {
			w.open, w.from, w.state = true, at, stateDone
		}
	case "usage":
		if p.Usage != nil {
			w.tokens += int64(min(max(p.Usage.Input, 0), 1e15)) + int64(min(max(p.Usage.Output, 0), 1e15))
		}
	case "tool_end":
		w.tools++
	}
	w.last = max(w.last, at)
}

// working are the agents that are open, the first first.
func (c *crew) working() []*worker {
	list := slices.DeleteFunc(slices.Collect(maps.Values(c.known)), func(w *worker) bool { return !w.open })
	slices.SortFunc(list, func(a, b *worker) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.name, b.name)) })
	return list
}

func (c *crew) close(w *worker, at int64) {
	w.open, w.last = false, max(w.from, at)
	w.worked += w.last - w.from
	text := w.name
	if w.task != "" {
		text = w.task + " · " + w.name
	}
	c.bars.mixed = c.total > maxAgentRows
	c.bars.add(bar{from: w.from, to: w.last, row: w.name, state: w.state, text: text})
}

// result gives the rows and bars of the agents, and how many there are when
// they are too many for a row each. What is still open is worked on, if
// anything is.
func (c *crew) result(running bool) (rows []row, list []bar, many int) {
	b := bars{limit: maxAgentBars, mixed: c.bars.mixed, list: slices.Clone(c.bars.list)}
	for _, w := range c.working() {
		x := bar{from: w.from, to: w.last, row: w.name, state: w.state, text: w.name}
		if w.child {
			if x.state = stateOpen; running {
				x.state = stateRunning
			}
		}
		b.add(x)
	}
	slices.SortStableFunc(b.list, func(a, b bar) int { return cmp.Or(cmp.Compare(a.from, b.from), strings.Compare(a.row, b.row)) })
	if c.total > maxAgentRows {
		return nil, b.list, c.total
	}
	for _, w := range c.rows {
		r := row{id: w.name, name: w.task, state: w.state, status: w.state.word(), turns: w.turns, tokens: w.tokens}
		worked := w.worked
		if w.open {
			worked += w.last - w.from
			if w.child && !running {
				r.state, r.status = stateOpen, stateOpen.word()
			}
		}
		if !w.child {
			r.status = ""
		}
		r.worked = ptr(float64(worked) / 1000)
		rows = append(rows, r)
	}
	return rows, b.list, 0
}
