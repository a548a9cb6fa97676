package analysis

import (
	"cmp"
	"time"

	"ralph/memory/session/folder"
)

// Collector takes in events and records. What it holds does not grow with them,
// but with the tasks, agents, tools and words that they name, up to a bound. It
// is for one goroutine.
type Collector struct {
	tasks   tasks
	journal journal
	busy    cover // model, tools, checks and human
	atWork  cover // tasks, agents and runs

	events      int
	first, last time.Time
	starts      int
	since       time.Time // when the Ralph that works now began, if it is not the first
	breaks      float64
	open        map[string]time.Time // phases that began
	said        struct{ kind, models, run, answer string }
	retries     words
	retried     int
	failures    words
	severities  words
	failed      int
	roles       words
	messages    int
	deeds       struct {
		n             int
		types, action words
	}
	checks    checks
	check     share
	human     share
	waits     sample
	stops     stops
	claims    calibration // of agents
	choices   calibration // of decisions
	compacted int
	trips     int
	runs      usage // as the ends of runs tell
	ends      usage // as the ends of tasks tell
	workers   map[string]*agent
	working   map[*task]struct{} // begun and not ended
	apiMS     float64
	estimated bool
}

// New begins an analysis.
func New() *Collector {
	return &Collector{
		tasks: tasks{most: maxTasks, byID: map[string]*task{}, kinds: newTable("task"), stand: statuses()},
		journal: journal{agents: map[string]*agent{}, asking: map[*agent]struct{}{}, models: map[string]usage{}, tools: map[string]*Runs{}, roles: words{},
			checks: newChecks(), stops: newStops()},
		workers: map[string]*agent{}, working: map[*task]struct{}{}, open: map[string]time.Time{}, retries: words{}, failures: words{}, severities: words{}, roles: words{},
		checks: newChecks(), stops: newStops(), deeds: struct {
			n             int
			types, action words
		}{types: words{}, action: words{}},
	}
}

// Event takes the next event of the log. Its id is not kept.
func (c *Collector) Event(_ string, e folder.Event) {
	c.events++
	switch e.Type {
	case folder.SessionStart:
		c.begins(e)
	case folder.TaskStart, "task_started":
		c.taskStart(e)
	case folder.TaskComplete, "task_completed", "task_end":
		c.taskEnd(e)
	case "task_failed":
		e.Result = string(folder.TaskError)
		c.taskEnd(e)
	case folder.Errored:
		c.erred(e)
	case folder.Retried:
		c.retry(e)
	case folder.Decided:
		c.decided(e)
	case folder.GateChecked:
		well, _ := outcomeOf(e.Result)
		c.check.add(began(e), e.Time)
		c.busy.add(began(e), e.Time)
		c.checks.add(e.Text("check", "name", "gate", "command"), well, took(e))
	case folder.Interrupted:
		how := e.Text("how")
		s := took(e)
		if e.Duration <= 0 {
			s = -1
		}
		c.stops.add(e.Result, cmp.Or(how, "stopped"), s)
	case folder.Message:
		if e.Text("class") == "" { // else the queue tells of what was said to it
			c.messages++
			c.roles.add(e.Text("role", "from", "sender"), 1)
		}
	case folder.Checkpoint:
		if e.Result == "compacted" {
			c.compacted++
		}
	case folder.Tripped:
		c.trips++
	case folder.PhaseStart:
		if name := phase(e); len(c.open) < maxWords {
			c.open[name] = e.Time
		}
	case folder.PhaseComplete:
		c.phaseEnd(e)
	}
	c.reached(e.Time)
}

func (c *Collector) reached(t time.Time) {
	if t.IsZero() {
		return
	}
	if c.first.IsZero() || t.Before(c.first) {
		c.first = t
	}
	if t.After(c.last) {
		c.last = t
	}
}

// began is when what the event tells of began; zero when it does not say.
func began(e folder.Event) time.Time {
	if e.Duration <= 0 || e.Duration > maxInterval || e.Time.IsZero() {
		return time.Time{}
	}
	return e.Time.Add(-e.Duration)
}

// took is how many seconds what the event tells of took.
func took(e folder.Event) float64 {
	if e.Duration <= 0 || e.Duration > maxInterval {
		return 0
	}
	return e.Duration.Seconds()
}

// begins notes that a Ralph began to work in the session. What lies between the
// last event before and this is a break, whether the one before ended or died.
func (c *Collector) begins(e folder.Event) {
	if c.starts++; c.starts > 1 {
		c.close()
		c.since = e.Time
		if !c.last.IsZero() && e.Time.After(c.last) {
			c.breaks += e.Time.Sub(c.last).Seconds()
		}
	}
	c.said.kind = cmp.Or(c.said.kind, clip(e.Text("kind")))
	c.said.run = cmp.Or(clip(e.Text("run_id")), c.said.run)
	c.model(clip(e.Text("model")))
}

// model notes a model that the session was begun or gone on with.
func (c *Collector) model(name string) {
	switch {
	case name == "":
	case c.said.models == "":
		c.said.models = name
	case len(c.said.models) < maxWord && !listHas(c.said.models, name):
		c.said.models += ", " + name
	}
}

// close ends what is open with the last event: phases and the tasks in them.
func (c *Collector) close() {
	for _, from := range c.open {
		c.atWork.add(from, c.last)
	}
	clear(c.open)
	for k := range c.working {
		c.atWork.add(k.start.time(), c.last)
	}
	clear(c.working)
}

func phase(e folder.Event) string { return clip(e.Text("phase", "name")) }

func (c *Collector) phaseEnd(e folder.Event) {
	from := began(e)
	if from.IsZero() {
		from = c.open[phase(e)]
	}
	if from.Before(c.since) && !from.IsZero() { // a phase may go on with another Ralph; the break is not at work
		from = c.since
	}
	delete(c.open, phase(e))
	c.atWork.add(from, e.Time)
	u := usageIn(e)
	c.runs.add(u)
	c.estimates(e)
	if ms, ok := e.Number("api_ms"); ok && ms > 0 {
		c.apiMS += ms
	}
	if answer := e.Text("answer"); answer != "" {
		c.said.answer = whole(answer)
	}
}

func (c *Collector) estimates(e folder.Event) {
	if e.Within("usage").Text("estimated") == "true" {
		c.estimated = true
	}
}

func (c *Collector) taskStart(e folder.Event) {
	if k := c.tasks.get(e.TaskID); k != nil {
		c.tasks.names(k, e)
		if k.started(e); k.status == inProgress {
			c.working[k] = struct{}{}
		}
	}
}

func (c *Collector) taskEnd(e folder.Event) {
	k := c.tasks.get(e.TaskID)
	if k == nil {
		return
	}
	c.tasks.names(k, e)
	c.atWork.add(k.ended(e))
	delete(c.working, k)
	if n, ok := e.Number("attempts"); ok && n > float64(k.attempts) && n < 1e6 {
		k.attempts = int32(n)
	}
	well, known := k.status == completed, k.status == completed || k.status == failed
	if k.claimed >= 0 && known {
		c.choices.add(rounded32(k.claimed), well)
		k.claimed = -1
	}
	if said, ok := e.Number("confidence"); ok && known && !(k.missed && !well) {
		c.claims.add(said, well)
	}
	if u := usageIn(e); !u.none() {
		c.estimates(e)
		c.spends(e, k, u)
	}
}

// erred counts a failure. The confidence that it states is that of the attempt
// that failed.
func (c *Collector) erred(e folder.Event) {
	c.failed++
	c.failures.add(e.Text("kind", "error_type", "type"), 1)
	c.severities.add(e.Text("severity"), 1)
	k := c.tasks.get(e.TaskID)
	if k == nil {
		return
	}
	c.tasks.names(k, e)
	if k.start != 0 {
		c.atWork.add(k.start.time(), e.Time)
	}
	if said, ok := e.Number("confidence"); ok && !k.missed {
		c.claims.add(said, false)
		k.missed = true
	}
}

func (c *Collector) retry(e folder.Event) {
	c.retried++
	c.retries.add(e.Text("kind", "error_type", "type"), 1)
	if k := c.tasks.get(e.TaskID); k != nil {
		c.tasks.names(k, e)
		k.retries++
	}
}

// decided counts a decision. One that took time is a wait for the human.
func (c *Collector) decided(e folder.Event) {
	kind := e.Text("decision_type", "type")
	c.deeds.n++
	c.deeds.types.add(kind, 1)
	c.deeds.action.add(cmp.Or(e.Result, e.Text("action", "decision")), 1)
	if k := c.tasks.get(e.TaskID); k != nil {
		c.tasks.names(k, e)
		if said, ok := e.Number("confidence"); ok && predicts(kind) {
			k.claimed = float32(said)
		}
	}
	by := e.Text("by")
	if from := began(e); !from.IsZero() && (by == "" || by == "user" || by == "human") {
		c.human.add(from, e.Time)
		c.waits.add(took(e))
		c.busy.add(from, e.Time)
	}
}

// predicts says that decisions of a kind foretell an outcome. What the human
// decides does not: its confidence is no one's.
func predicts(kind string) bool {
	return kind != folder.DecisionHelp && kind != folder.DecisionAction && kind != "help_request" && kind != "permission"
}
