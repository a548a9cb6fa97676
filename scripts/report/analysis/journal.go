package analysis

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"ralph/memory/session"
)

// maxAgents bounds the agents that are followed one by one.
const maxAgents = 4096

// entry is what matters here of an event in the journal.
type entry struct {
	Type       string    `json:"type"`
	Time       time.Time `json:"time"`
	Agent      string    `json:"agent"`
	Turn       int       `json:"turn"`
	Text       string    `json:"text"`
	CallID     string    `json:"call_id"`
	Tool       string    `json:"tool"`
	OK         *bool     `json:"ok"`
	ExitCode   *int      `json:"exit_code"`
	DurationMS *int64    `json:"duration_ms"`
	Reason     string    `json:"reason"`
	Status     string    `json:"status"`
	Model      string    `json:"model"`
	Sandbox    string    `json:"sandbox"`
	RunID      string    `json:"run_id"`
	TaskID     string    `json:"task_id"`
	Usage      *struct {
		Input     float64 `json:"input"`
		Cached    float64 `json:"cached_input"`
		Output    float64 `json:"output"`
		Reasoning float64 `json:"reasoning"`
		Total     float64 `json:"total"`
		Estimated bool    `json:"estimated"`
	} `json:"usage"`
	Cost *float64        `json:"cost_usd"`
	Args json.RawMessage `json:"args"`
}

// began is when the entry's duration began; zero when it has none.
func (e *entry) began() time.Time {
	if e.DurationMS == nil || *e.DurationMS < 0 || *e.DurationMS > maxInterval.Milliseconds() {
		return time.Time{}
	}
	return e.Time.Add(-time.Duration(*e.DurationMS) * time.Millisecond)
}

// span is from when to when.
type span struct{ from, to time.Time }

// agent is what is remembered of one agent.
type agent struct {
	turns, calls, tasks int
	task                string
	asked               time.Time // the request that is open
	there               time.Time // since when it works
	lived               float64
	alive               bool // lived is known
	meter               Meter
	spent               usage
	stated              usage   // by the ends of its attempts, each of all of them so far
	counted             bool    // by its requests
	claimed             float64 // the confidence of its last finish; -1: none
	waiting             time.Time
	call                string // the one that waits
	waits               []span // the last ones, which its calls did not work
}

// journal is what the records say.
type journal struct {
	records   int
	first     time.Time
	last      time.Time
	before    time.Time // the last record before the one that is taken
	starts    int
	breaks    float64
	agents    map[string]*agent
	asking    map[*agent]struct{} // who waits for the model
	models    map[string]usage
	requests  int
	estimated bool
	tools     map[string]*Runs
	model     share
	tool      share
	check     share
	human     share
	waits     sample
	checks    checks
	stops     stops
	claims    calibration
	compacted int
	roles     words
	said      struct{ model, sandbox, run string }
}

// typeOf finds the type of an event in its JSON, which begins with it, without
// reading the rest.
func typeOf(payload []byte) string {
	rest, ok := bytes.CutPrefix(payload, []byte(`{"type":"`))
	if !ok {
		return ""
	}
	word, _, _ := bytes.Cut(rest[:min(len(rest), 40)], []byte(`"`))
	return string(word)
}

// Record takes the next record of the journal.
func (c *Collector) Record(r session.Record) {
	j := &c.journal
	j.records++
	if r.Kind == "import" || r.Kind == "handoff" {
		return // that somebody brought the session here, or told it something, is none of its time
	}
	j.before = j.last
	if !r.Time.IsZero() {
		if j.first.IsZero() || r.Time.Before(j.first) {
			j.first = r.Time
		}
		if r.Time.After(j.last) {
			j.last = r.Time
		}
	}
	switch r.Kind {
	case "message":
		var m struct {
			Role string `json:"role"`
		}
		if json.Unmarshal(r.Payload, &m) == nil && m.Role != "" {
			j.roles.add(m.Role, 1)
		}
		return
	case "event":
	default:
		return
	}
	switch typeOf(r.Payload) {
	case "message", "reasoning", "inbox", "warning", "task_start", "decision", "checkpoint", "breaker", "retry":
		return // the log tells of these, or they tell nothing here
	}
	var e entry
	if json.Unmarshal(r.Payload, &e) != nil {
		return
	}
	if e.Time.IsZero() {
		e.Time = r.Time
	}
	c.entry(&e)
}

func (c *Collector) entry(e *entry) {
	j := &c.journal
	a := j.agent(e.Agent)
	switch e.Type {
	case "start":
		j.begins(e)
	case "turn_start":
		a.turns++
		a.asked = e.Time
		a.meter.Begins(e.Turn)
		j.asking[a] = struct{}{}
	case "usage":
		c.answered(a, e.Time)
		c.uses(a, e)
	case "tool_start":
		if e.Tool == "finish" {
			a.claims(e.Args)
		}
	case "tool_end":
		c.toolEnd(a, e)
	case "child_start":
		a.there = e.Time
		if e.TaskID != "" && e.TaskID != a.task {
			a.task = clip(e.TaskID)
			a.tasks++
		}
	case "child_end":
		c.childEnd(a, e)
	case "gate":
		j.check.add(e.began(), e.Time)
		c.busy.add(e.began(), e.Time)
		took := 0.0
		if from := e.began(); !from.IsZero() {
			took = e.Time.Sub(from).Seconds()
		}
		j.checks.add(e.Text, e.OK != nil && *e.OK, took)
	case "ask", "permission":
		c.wait(a, e)
	case "interrupt":
		if e.Status == "stopped" {
			for a := range j.asking {
				c.answered(a, e.Time)
			}
		}
		if e.Status == "stopped" || e.Status == "paused" || e.Status == "late" {
			took := -1.0
			if e.DurationMS != nil {
				took = float64(*e.DurationMS) / 1000
			}
			j.stops.add(e.Reason, e.Status, took)
		}
	case "compact":
		j.compacted++
	}
}

func (j *journal) agent(id string) *agent {
	id = cmp.Or(id, "ralph")
	if a := j.agents[id]; a != nil {
		return a
	}
	if id = clip(id); len(j.agents) >= maxAgents && j.agents[id] == nil {
		id = others
	}
	if j.agents[id] == nil {
		j.agents[id] = &agent{claimed: -1}
	}
	return j.agents[id]
}

// begins notes that another run of Ralph began: what was open before is not
// worked on any more.
func (j *journal) begins(e *entry) {
	if j.starts++; j.starts > 1 && e.Time.After(j.before) {
		j.breaks += e.Time.Sub(j.before).Seconds()
	}
	j.said.model, j.said.sandbox, j.said.run = cmp.Or(e.Model, j.said.model), cmp.Or(e.Sandbox, j.said.sandbox), cmp.Or(e.RunID, j.said.run)
	clear(j.asking)
	for _, a := range j.agents {
		a.asked, a.there, a.waiting = time.Time{}, time.Time{}, time.Time{}
	}
}

// answered ends the request that is open, if one is: with an answer, or because
// nobody waits for it any more.
func (c *Collector) answered(a *agent, to time.Time) {
	if _, asks := c.journal.asking[a]; !asks {
		return
	}
	c.journal.model.add(a.asked, to)
	c.busy.add(a.asked, to)
	a.asked = time.Time{}
	delete(c.journal.asking, a)
}

// uses counts a request. Its cost is what the agent's loop cost so far.
func (c *Collector) uses(a *agent, e *entry) {
	j := &c.journal
	j.requests++
	u := e.used()
	if e.Usage != nil {
		j.estimated = j.estimated || e.Usage.Estimated
	}
	if u.priced {
		u.cost = a.meter.Cost(e.Turn, u.cost)
	}
	a.counted = true
	a.spent.add(u)
	into(j.models, cmp.Or(clip(e.Model), clip(j.said.model), unknown), u)
	if k := c.tasks.get(a.task); k != nil {
		addTo(&k.spent, u)
	}
}

func (e *entry) used() usage {
	var u usage
	if e.Usage != nil {
		u = usage{input: count(e.Usage.Input), cached: count(e.Usage.Cached), output: count(e.Usage.Output),
			reasoning: count(e.Usage.Reasoning), total: count(e.Usage.Total)}
		if u.total == 0 {
			u.total = u.input + u.output
		}
	}
	if e.Cost != nil && *e.Cost >= 0 && *e.Cost < 1e12 {
		u.cost, u.priced = *e.Cost, true
	}
	u.unpriced = !u.priced && u.total > 0
	return u
}

// claims notes the confidence that an agent declares at the end of an attempt.
func (a *agent) claims(args json.RawMessage) {
	var said struct {
		Confidence *float64 `json:"confidence"`
	}
	if json.Unmarshal(args, &said) == nil && said.Confidence != nil {
		a.claimed = *said.Confidence
	}
}

// toolEnd counts a call. What it waited for the human is not its time.
func (c *Collector) toolEnd(a *agent, e *entry) {
	j := &c.journal
	if e.Status == "background" {
		return // its end is still to come
	}
	if !a.waiting.IsZero() && (a.call == e.CallID || a.call == "") {
		c.waited(a, e.Time)
	}
	a.calls++
	name := cmp.Or(clip(e.Tool), unknown)
	t := j.tools[name]
	if t == nil {
		if len(j.tools) >= maxWords {
			name = others
		}
		if t = j.tools[name]; t == nil {
			t = &Runs{Name: name}
			j.tools[name] = t
		}
	}
	t.N++
	if e.OK != nil && !*e.OK {
		t.Failed++
	}
	from := e.began()
	if from.IsZero() {
		j.tool.n++
		return
	}
	first := true
	for _, s := range without(span{from, e.Time}, a.waits) {
		if j.tool.add(s.from, s.to); !first {
			j.tool.n-- // one call, in parts
		}
		first = false
		c.busy.add(s.from, s.to)
		t.Seconds += s.to.Sub(s.from).Seconds()
	}
	if first {
		j.tool.n++
	}
}

// without takes spans, which are in order, out of one.
func without(s span, waits []span) (left []span) {
	for _, w := range waits {
		if !w.to.After(s.from) || !w.from.Before(s.to) {
			continue
		}
		if w.from.After(s.from) {
			left = append(left, span{s.from, w.from})
		}
		s.from = w.to
	}
	if s.to.After(s.from) || len(left) == 0 && s.to.Equal(s.from) {
		left = append(left, s)
	}
	return left
}

// childEnd ends the life of an agent. Of one that made no request through
// Ralph, it tells what was used.
func (c *Collector) childEnd(a *agent, e *entry) {
	from := a.there
	if from.IsZero() {
		from = e.began()
	}
	if !from.IsZero() && !e.Time.Before(from) {
		a.lived += e.Time.Sub(from).Seconds()
		a.alive = true
		c.atWork.add(from, e.Time)
	}
	a.there = time.Time{}
	c.answered(a, e.Time)
	if u := e.used().since(a.stated); !a.counted && !u.none() {
		a.stated = e.used()
		a.spent.add(u)
		into(c.journal.models, cmp.Or(clip(e.Model), unknown), u)
		if k := c.tasks.get(cmp.Or(clip(e.TaskID), a.task)); k != nil {
			addTo(&k.spent, u)
		}
	}
	if well, known := outcomeOf(e.Status); known && a.claimed >= 0 {
		c.journal.claims.add(a.claimed, well)
		a.claimed = -1
	}
}

// wait follows a question or a permission from the asking to the answer.
func (c *Collector) wait(a *agent, e *entry) {
	if e.Status == "asked" {
		a.waiting, a.call = e.Time, strings.Clone(e.CallID)
	} else if !a.waiting.IsZero() {
		c.waited(a, e.Time)
	}
}

// maxWaits bounds the waits that are taken out of the calls of an agent.
const maxWaits = 16

func (c *Collector) waited(a *agent, to time.Time) {
	j := &c.journal
	if to.Before(a.waiting) {
		a.waiting = time.Time{}
		return
	}
	j.human.add(a.waiting, to)
	j.waits.add(to.Sub(a.waiting).Seconds())
	c.busy.add(a.waiting, to)
	if len(a.waits) == maxWaits {
		a.waits = a.waits[1:]
	}
	a.waits = append(a.waits, span{a.waiting, to})
	a.waiting = time.Time{}
}
