package loop

import (
	"context"
	"slices"
	"strings"
	"time"

	"ralph/coordinator/permission"

	"ralph/coordinator/plan"
	"ralph/coordinator/plan/graph"
	"ralph/coordinator/policy/breaker"
	"ralph/memory/feature"
)

// View is a run as others see it. Times are UTC.
type View struct {
	Feature       string               `json:"feature"`
	Status        feature.Status       `json:"status"`
	Reason        string               `json:"reason,omitempty"`
	Phase         string               `json:"phase"`
	Iteration     int                  `json:"iteration"`
	MaxIterations int                  `json:"max_iterations"`
	Tracker       string               `json:"tracker"`
	Plan          string               `json:"plan"`
	Epics         []string             `json:"epics"`
	Counts        Counts               `json:"tasks"`
	Active        []Row                `json:"active"`
	Next          []Row                `json:"next"`   // at most ten
	Recent        []Row                `json:"recent"` // at most ten, the newest first
	Waiting       *Wait                `json:"waiting,omitempty"`
	Question      *permission.Question `json:"question,omitempty"`
	Breaker       string               `json:"breaker,omitempty"` // open, half_open; "" when it is closed
	Tokens        int                  `json:"tokens"`
	CostUSD       *float64             `json:"cost_usd"` // nil: not known
	StartedAt     time.Time            `json:"started_at"`
	Worked        float64              `json:"worked_seconds"` // in all processes
	Recovery      *Recovery            `json:"recovery,omitempty"`
}

// Row is a task in a View.
type Row struct {
	ID      string    `json:"id"`
	Title   string    `json:"title"`
	Status  string    `json:"status"`
	Agent   string    `json:"agent,omitempty"`
	Attempt int       `json:"attempt,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	Reason  string    `json:"reason,omitempty"`
}

// Who is the agent's name where that says more than the title: most are made of
// its first words. With a number behind it, it is still the same.
func (r Row) Who() string {
	bare := func(text string) string {
		return strings.Map(func(c rune) rune {
			if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
				return c
			}
			return -1
		}, strings.ToLower(text))
	}
	title, name := bare(r.Title), bare(r.Agent)
	first := bare(strings.TrimRight(r.Agent, "_0123456789"))
	if title != "" && (strings.HasPrefix(title, name) || first != "" && title == first) {
		return ""
	}
	return r.Agent
}

// Wait is what a run waits for that comes by itself.
type Wait struct {
	For   string    `json:"for"` // rate_limit, backoff, breaker
	Agent string    `json:"agent,omitempty"`
	Until time.Time `json:"until"`
}

// Recovery is what a run took up that had been cut off or paused.
type Recovery struct {
	From      string   `json:"from"` // the session it went on from
	Iteration int      `json:"iteration"`
	Tasks     []string `json:"tasks"` // that were being worked
	// Lost says in words what could not be taken up; "" for nothing.
	Lost string `json:"lost"`
}

// Step is one task of a run that is only shown.
type Step struct {
	Order    int      `json:"order"` // from 1
	Layer    int      `json:"layer"` // those of one layer can be worked side by side, from 1
	ID       string   `json:"id"`
	Title    string   `json:"title"`
	Phase    string   `json:"phase"`
	Reasons  []string `json:"reasons"`
	After    []string `json:"after"` // what of its dependencies is not done yet
	Unblocks []string `json:"unblocks"`
	// Left says why the task would not be worked; "" when it would.
	Left string `json:"left,omitempty"`
}

// breakerOpen is View.Breaker when nothing begins.
const breakerOpen = string(breaker.Open)

// show publishes how the run stands.
func (e *engine) show() {
	if e.p == nil || e.ranked.graph == nil {
		return
	}
	set := e.s.Settings
	v := View{Feature: set.Feature, Status: e.status, Reason: e.reason, Phase: e.phaseNow(), Iteration: e.s.Iteration, MaxIterations: set.MaxIterations,
		Tracker: e.p.Tracker, Plan: first(set.Plan, e.p.Path), Epics: append([]string{}, set.Epics...), Counts: e.counts, Active: []Row{}, Next: []Row{},
		Recent: slices.Clone(e.recent), Waiting: e.wait, Question: e.s.Question, Tokens: e.s.Usage.Total, CostUSD: e.s.cost(), StartedAt: e.started,
		Worked: e.worked().Seconds(), Recovery: e.recovery}
	if p := e.breaker.Position(e.now()); p != breaker.Closed {
		v.Breaker = string(p)
	}
	if v.Recent == nil {
		v.Recent = []Row{}
	}
	for _, a := range e.s.Active {
		if w := e.at[a.Task]; w != nil {
			v.Active = append(v.Active, Row{ID: a.Task, Title: a.Title, Status: string(plan.InProgress), Agent: first(a.Agent, a.Worker), Attempt: a.Attempt, Since: a.Since, Reason: w.gone})
		}
	}
	for _, id := range e.ranked.ready() {
		if len(v.Next) == maxRecent {
			break
		}
		if t, ok := e.find(id); ok && e.at[id] == nil {
			v.Next = append(v.Next, Row{ID: id, Title: t.Title, Status: string(e.stands[id]), Reason: first(e.s.known(id).Held, e.s.known(id).Refused)})
		}
	}
	g := e.ranked.graph
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	e.l.view = v
	e.l.reasons = func(id string) string { return reasonsOf(g(), id) }
}

// reasonsOf says what the graph says of a task.
func reasonsOf(g *graph.Graph, id string) string {
	for _, r := range g.Ranks() {
		if r.ID == id {
			return rankText(r)
		}
	}
	return ""
}

func rankText(r graph.Rank) string {
	text := r.ID + ": "
	switch {
	case r.Ready:
		text += "ready"
	case len(r.BlockedBy) > 0:
		text += "waits for " + strings.Join(r.BlockedBy, ", ")
	default:
		text += "not to be worked now"
	}
	if len(r.Reasons) > 0 {
		text += "\nits place: " + strings.Join(r.Reasons, "; ")
	}
	return text
}

// Preview is the order in which the tasks would be worked, and why. Nothing is
// written, and nobody is asked.
func (l *Loop) Preview(ctx context.Context) ([]Step, error) {
	e := newEngine(l)
	e.dry = true
	e.s = newState(l.o.Settings)
	if l.o.Resume != nil {
		s, _, err := restored(l.o.Resume)
		if err != nil {
			return nil, err
		}
		e.s, e.s.Settings = s, l.o.Settings
	}
	p, err := e.tracker.Load(ctx)
	if err != nil {
		return nil, err
	}
	if e.s.Settings, err = e.s.Settings.complete(p); err != nil {
		return nil, err
	}
	if err := e.adopt(p); err != nil {
		return nil, err
	}
	e.recount()
	g := e.ranked.graph()
	layer := map[string]int{}
	for i, ids := range g.Layers() {
		for _, id := range ids {
			layer[id] = i + 1
		}
	}
	ranks := map[string]graph.Rank{}
	for _, r := range g.Ranks() {
		ranks[r.ID] = r
	}
	var steps, left []Step
	known := map[string]string{}
	order := g.Order()
	for i := range e.p.Tasks { // what the order leaves out comes last
		order = append(order, e.p.Tasks[i].ID)
	}
	seen := map[string]bool{}
	for _, id := range order {
		t, ok := e.find(id)
		if !ok || seen[id] || !e.scope[id] || !e.stands[id].Open() {
			continue
		}
		seen[id] = true
		r := ranks[id]
		s := Step{ID: id, Title: t.Title, Phase: e.phaseOf(t), Layer: layer[id], Reasons: orEmpty(r.Reasons), After: orEmpty(r.BlockedBy), Unblocks: orEmpty(r.Unblocks)}
		if s.Left = e.leftWhy(t, known); s.Left != "" {
			left = append(left, s)
			continue
		}
		steps = append(steps, s)
	}
	steps = append(steps, left...)
	for i := range steps {
		steps[i].Order = i + 1
	}
	return steps, nil
}

// leftWhy says why a task would not be worked at all; "" when it would.
func (e *engine) leftWhy(t *plan.Task, known map[string]string) string {
	if why := e.hopeless(t.ID, known); why != "" {
		return why
	}
	if !e.pickable(t, e.stands[t.ID], e.now()) {
		if t.DeferUntil.After(e.now()) {
			return "put off until " + t.DeferUntil.Format(time.DateOnly)
		}
		return e.whyNot(t)
	}
	for _, id := range e.needs[t.ID] {
		if e.stands[id] != plan.Done && !e.scope[id] {
			if need, ok := e.find(id); ok && need.Kind != epicKind {
				return "needs " + id + ", which is not part of this run"
			}
		}
	}
	return ""
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
