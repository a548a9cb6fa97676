package page

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"ralph/memory/session"
	"ralph/memory/session/folder"
)

// Collector gathers what the timeline shows from the events of a log and the
// records of a journal, in memory that does not grow with them. It is for one
// goroutine and one session.
type Collector struct {
	log     order // as execution-log.json tells it
	journal story // as the journal tells it; drawn when there is no log
	agents  crew
	tokens  flow // of each request, from the journal
	spent   flow // of each task, from the log
}

// New returns a Collector that has seen nothing.
func New() *Collector {
	return &Collector{log: order{story: newStory()}, journal: newStory(), agents: crew{known: map[string]*worker{}, bars: bars{limit: maxAgentBars}}}
}

// Event takes the next event of the log; its id is not kept.
func (c *Collector) Event(_ string, e folder.Event) {
	at, ok := millis(e.Time)
	if !ok {
		return
	}
	c.log.add(at, e)
	if e.Type == folder.TaskComplete {
		used := e.Within("usage", "tokens")
		get := func(keys ...string) float64 { n, _ := used.Number(keys...); return n }
		a := amountOf(get("input", "input_tokens", "prompt_tokens"), get("cached_input", "cachedInput", "cached"), get("output", "output_tokens", "completion_tokens"))
		if cost, _ := e.Number("cost_usd", "cost"); cost > 0 {
			a.cost, a.priced = cost, true
		}
		a.unpriced = !a.priced && a.tokens() > 0
		if a != (amount{}) {
			c.spent.add(timed{at, a})
		}
	}
}

// amountOf takes the cached tokens as a part of the input, as endpoints do.
func amountOf(input, cached, output float64) amount {
	whole := func(n float64) int64 { return int64(min(max(n, 0), 1e15)) }
	a := amount{fresh: whole(input), cached: whole(cached), output: whole(output)}
	a.cached = min(a.cached, a.fresh)
	a.fresh -= a.cached
	return a
}

// payload is what the timeline needs of an event in the journal.
type payload struct {
	Type   string
	Agent  string
	Text   string
	Tool   string
	TaskID string `json:"task_id"`
	Status string
	Reason string
	OK     *bool
	Millis *float64 `json:"duration_ms"`
	Turn   int
	Usage  *struct {
		Input  float64
		Cached float64 `json:"cached_input"`
		Output float64
	}
	Cost *float64 `json:"cost_usd"`
}

// wanted tells by its first bytes that an event may be needed, so that the most
// frequent others are not decoded. What begins otherwise than Ralph writes is.
func wanted(payload []byte) bool {
	kind, ok := bytes.CutPrefix(payload, []byte(`{"type":"`))
	if !ok {
		return true
	}
	kind, _, _ = bytes.Cut(kind, []byte{'"'})
	switch string(kind) {
	case "tool_start", "inbox", "reasoning", "message_delta", "permission", "decision", "checkpoint", "warning", "result", "ask":
		return false
	}
	return true
}

// Record takes the next record of the journal.
func (c *Collector) Record(r session.Record) {
	at, ok := millis(r.Time)
	if !ok || r.Kind != "event" || !wanted(r.Payload) {
		return
	}
	var p payload
	if json.Unmarshal(r.Payload, &p) != nil {
		return
	}
	c.agents.event(at, &p)
	if p.Type == "usage" && p.Usage != nil {
		a := amountOf(p.Usage.Input, p.Usage.Cached, p.Usage.Output)
		if p.Cost != nil && *p.Cost >= 0 {
			a.cost, a.priced = c.agents.of(cmp.Or(p.Agent, "ralph")).meter.Cost(p.Turn, *p.Cost), true
		}
		a.unpriced = !a.priced && a.tokens() > 0
		c.tokens.add(timed{at, a})
	}
	if e, ok := retell(r.Time, &p); ok {
		c.journal.event(at, e)
	}
}

// retell gives the event that the log would hold of one of the journal.
func retell(at time.Time, p *payload) (folder.Event, bool) {
	e := folder.Event{Time: at, TaskID: p.TaskID, Details: map[string]any{}}
	if p.Millis != nil {
		e.Duration = time.Duration(min(max(*p.Millis, 0), 1e12)) * time.Millisecond
	}
	switch p.Type {
	case "start":
		e.Type = folder.SessionStart
	case "task_start":
		e.Type, e.TaskName = folder.TaskStart, p.Text
	case "task_end":
		e.Type, e.TaskName, e.Result = folder.TaskComplete, p.Text, p.Status
	case "retry":
		e.Type, e.Result = folder.Retried, p.Reason
	case "breaker":
		e.Type, e.Result = folder.Tripped, p.Text
	case "gate":
		e.Type, e.Result = folder.GateChecked, "failed"
		if p.OK != nil && *p.OK {
			e.Result = "passed"
		}
		e.Details["check"] = p.Text
	case "interrupt":
		if !slices.Contains([]string{"stopped", "paused", "late"}, p.Status) {
			return e, false
		}
		e.Type, e.Result = folder.Interrupted, p.Reason
	default:
		return e, false
	}
	return e, true
}

// Result gives the timeline of what was taken and of what the other files say.
// It is called once, at the end.
func (c *Collector) Result(d folder.Data) Timeline {
	s := c.log.all()
	if s.n == 0 {
		s = &c.journal
	}
	running := strings.Contains(strings.ToLower(d.Meta.Status), "progress")
	f := &c.tokens
	if f.n == 0 {
		f = &c.spent
	}
	samples, width := f.samples()
	t := Timeline{sittings: slices.Clone(s.sittings), marks: slices.Clone(s.marks.list), waits: slices.Clone(s.waits.list), counts: s.marks.count,
		used: samples, usedWidth: width, phases: slices.Clone(s.phases.list)}
	t.tasks, t.taskBars, t.manyTasks = s.result(d, running)
	t.agents, t.agentBars, t.manyAgents = c.agents.result(running)
	if s.bars.merged > 0 && t.manyTasks > 0 {
		t.ended, t.endedWidth = s.ended.samples()
	}
	t.merged = s.bars.merged + s.marks.merged + s.waits.merged + c.agents.bars.merged
	t.running = running
	return t
}

// Timeline is what happened when, bounded: at most 400 bars and 1,000 marks;
// beyond that what lies next to each other is drawn as one, and says so. It is
// a value for Write.
type Timeline struct {
	tasks, agents         []row
	taskBars, agentBars   []bar
	waits, phases         []bar
	marks                 []mark
	counts                [lanes]int
	sittings              []sitting
	used                  []timed
	usedWidth, endedWidth int64
	ended                 []timed // of tasks that are too many for bars
	merged                int
	manyTasks, manyAgents int // how many there are, when there are more than rows
	running               bool
}

// millis gives a time as milliseconds since 1970; years that no calendar has
// are no times.
func millis(t time.Time) (int64, bool) {
	if t.IsZero() || t.Year() < 1 || t.Year() > 9999 {
		return 0, false
	}
	return t.UnixMilli(), true
}
