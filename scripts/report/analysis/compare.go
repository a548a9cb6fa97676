package analysis

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"ralph/memory/text"
)

// Comparison puts sessions side by side: the first is what the others are
// held against.
type Comparison struct {
	Sessions []Session    `json:"sessions"`
	Figures  []Figure     `json:"figures"`
	Config   []Setting    `json:"config"`        // the settings that differ
	Tasks    []TaskChange `json:"tasks_changed"` // at most 200
	Changed  int          `json:"tasks_changed_n"`
	Only     []OnlyIn     `json:"tasks_only_in"` // one entry a session
	Common   int          `json:"tasks_common"`  // known to at least two
	Notes    []string     `json:"notes"`
}

// Figure is one number of every session; nil where it is unknown. Deltas and
// Percents are against the first session: nil for itself, where one of the two
// has none, and the percents of 0.
type Figure struct {
	Group    string     `json:"group"`
	Name     string     `json:"name"`
	Unit     string     `json:"unit"` // seconds, usd, rate (0 to 1), score; empty for a count
	Values   []*float64 `json:"values"`
	Deltas   []*float64 `json:"deltas"`
	Percents []*float64 `json:"percents"`
}

// Setting is a setting of the sessions; nil where it is unknown.
type Setting struct {
	Key    string `json:"key"`
	Values []any  `json:"values"`
}

// TaskChange is a task that stands otherwise in one session than in another. A
// session that does not know it has nil.
type TaskChange struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Outcomes []*string `json:"outcomes"`
}

// OnlyIn lists the tasks that only one session knows.
type OnlyIn struct {
	Session string   `json:"session"`
	N       int      `json:"n"`
	Tasks   []string `json:"tasks"` // at most 50
}

// outcome is how a task stands in a session.
type outcome struct{ id, name, status string }

const (
	maxChanges = 200
	maxOnly    = 50
)

// Compare puts sessions side by side, in the order given. It works for none and
// for one too.
func Compare(list []Analysis) Comparison {
	c := Comparison{Sessions: []Session{}, Figures: []Figure{}, Config: []Setting{}, Tasks: []TaskChange{}, Only: []OnlyIn{}, Notes: []string{}}
	for _, a := range list {
		c.Sessions = append(c.Sessions, a.Session)
	}
	for _, row := range figures() {
		c.Figures = append(c.Figures, row.of(list))
	}
	c.settings(list)
	c.tasks(list)
	seen := map[string]bool{}
	for _, a := range list {
		if id := fmt.Sprint(a.Session.ID, a.Session.Dir, a.Session.StartedAt, a.Events.N, a.Session.Records); seen[id] {
			c.Notes = append(c.Notes, fmt.Sprintf("session %s is given more than once", a.Session.ID))
		} else {
			seen[id] = true
		}
	}
	return c
}

// row is a figure and where it stands in an analysis.
type row struct {
	group, name, unit string
	value             func(Analysis) *float64
}

func whole64(n int) *float64 { f := float64(n); return &f }

// figures are the rows of a comparison, in their order.
func figures() []row {
	return []row{
		{"time", "total", "seconds", func(a Analysis) *float64 { return a.Time.Total }},
		{"time", "active", "seconds", func(a Analysis) *float64 { return a.Time.Active }},
		{"time", "model", "seconds", func(a Analysis) *float64 { return a.Time.Model.Sum }},
		{"time", "tools", "seconds", func(a Analysis) *float64 { return a.Time.Tools.Sum }},
		{"time", "checks", "seconds", func(a Analysis) *float64 { return a.Time.Checks.Sum }},
		{"time", "human", "seconds", func(a Analysis) *float64 { return a.Time.Human.Sum }},
		{"time", "idle", "seconds", func(a Analysis) *float64 { return a.Time.Idle }},
		{"tasks", "total", "", func(a Analysis) *float64 { return whole64(a.Tasks.Total) }},
		{"tasks", "done", "", func(a Analysis) *float64 { return whole64(a.Tasks.Done) }},
		{"tasks", "failed", "", func(a Analysis) *float64 { return whole64(a.Tasks.Failed) }},
		{"tasks", "success rate", "rate", func(a Analysis) *float64 { return a.Tasks.SuccessRate }},
		{"tasks", "median", "seconds", func(a Analysis) *float64 { return a.Tasks.Durations.Median }},
		{"tasks", "p95", "seconds", func(a Analysis) *float64 { return a.Tasks.Durations.P95 }},
		{"tasks", "slowest", "seconds", func(a Analysis) *float64 { return a.Tasks.Durations.Max }},
		{"tokens", "total", "", func(a Analysis) *float64 { return tokens64(a.Tokens.Total) }},
		{"tokens", "input", "", func(a Analysis) *float64 { return tokens64(a.Tokens.Input) }},
		{"tokens", "cached input", "", func(a Analysis) *float64 { return tokens64(a.Tokens.Cached) }},
		{"tokens", "output", "", func(a Analysis) *float64 { return tokens64(a.Tokens.Output) }},
		{"tokens", "per done task", "", func(a Analysis) *float64 { return a.Tokens.PerDoneTask }},
		{"cost", "total", "usd", func(a Analysis) *float64 { return a.Tokens.Cost }},
		{"cost", "per done task", "usd", func(a Analysis) *float64 { return a.Tokens.CostPerDone }},
		{"trouble", "errors", "", func(a Analysis) *float64 { return whole64(a.Errors.N) }},
		{"trouble", "retries", "", func(a Analysis) *float64 { return whole64(a.Retries.N) }},
		{"trouble", "checks failed", "", func(a Analysis) *float64 { return whole64(a.Gates.Failed) }},
		{"trouble", "breaker trips", "", func(a Analysis) *float64 { return whole64(a.Trips) }},
		{"trouble", "interrupts", "", func(a Analysis) *float64 { return whole64(a.Interrupts.N) }},
		{"trouble", "stop latency p95", "seconds", func(a Analysis) *float64 { return a.Interrupts.Latency.P95 }},
		{"confidence", "Brier, decisions", "score", func(a Analysis) *float64 { return a.Confidence.Decisions.Brier }},
		{"confidence", "Brier, agents", "score", func(a Analysis) *float64 { return a.Confidence.Agents.Brier }},
	}
}

// tokens64 is nil for nil.
func tokens64(n *int64) *float64 {
	if n == nil {
		return nil
	}
	f := float64(*n)
	return &f
}

func (r row) of(list []Analysis) Figure {
	f := Figure{Group: r.group, Name: r.name, Unit: r.unit, Values: []*float64{}, Deltas: []*float64{}, Percents: []*float64{}}
	for i, a := range list {
		v := r.value(a)
		var delta, percent *float64
		if base := r.value(list[0]); i > 0 && v != nil && base != nil {
			if delta = rounded(*v-*base, 1e6); *base != 0 {
				percent = rounded((*v-*base) / *base * 100, 10)
			}
		}
		f.Values, f.Deltas, f.Percents = append(f.Values, v), append(f.Deltas, delta), append(f.Percents, percent)
	}
	return f
}

// settings keeps the settings in which the sessions differ.
func (c *Comparison) settings(list []Analysis) {
	keys := map[string]bool{}
	all := make([]map[string]any, len(list))
	for i, a := range list {
		all[i] = maps.Clone(a.Session.Config)
		if all[i] == nil {
			all[i] = map[string]any{}
		}
		for k, v := range map[string]*string{"kind": a.Session.Kind, "model": a.Session.Model, "sandbox": a.Session.Sandbox} {
			if v != nil {
				all[i][k] = *v
			}
		}
		for k := range all[i] {
			keys[k] = true
		}
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		s := Setting{Key: k}
		for _, values := range all {
			s.Values = append(s.Values, values[k])
		}
		for _, v := range s.Values {
			if !same(v, s.Values[0]) {
				c.Config = append(c.Config, s)
				break
			}
		}
	}
}

// same says that two settings are equal, also when one file spells a number as
// a whole one.
func same(a, b any) bool { return reflect.DeepEqual(a, b) || fmt.Sprint(a) == fmt.Sprint(b) }

// tasks holds the outcomes of tasks with the same id against each other.
func (c *Comparison) tasks(list []Analysis) {
	all := map[string][]*outcome{}
	for i, a := range list {
		for _, o := range a.outcomes {
			if all[o.id] == nil {
				all[o.id] = make([]*outcome, len(list))
			}
			all[o.id][i] = &o
		}
		c.Only = append(c.Only, OnlyIn{Session: cmp.Or(a.Session.ID, a.Session.Dir), Tasks: []string{}})
	}
	renamed := 0
	for _, id := range slices.Sorted(maps.Keys(all)) {
		change, in, names, at := TaskChange{ID: id}, 0, map[string]bool{}, 0
		statuses := map[string]bool{}
		for i, o := range all[id] {
			if o == nil {
				change.Outcomes = append(change.Outcomes, nil)
				continue
			}
			in++
			at = i
			if o.name != "" {
				names[strings.ToLower(o.name)] = true
			}
			change.Name = cmp.Or(change.Name, o.name)
			change.Outcomes = append(change.Outcomes, &o.status)
			statuses[o.status] = true
		}
		if in == 1 {
			c.only(at, id)
			continue
		}
		c.Common++
		if len(names) > 1 {
			renamed++
		}
		c.changed(change, len(statuses) > 1)
	}
	if len(list) > 1 && c.Common == 0 {
		c.Notes = append(c.Notes, "the sessions have no task in common")
	} else if renamed > 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("%s the same id and another title; the plans may not be the same", text.Clause(renamed, "task", "has", "have")))
	}
}

func (c *Comparison) only(i int, id string) {
	o := &c.Only[i]
	if o.N++; len(o.Tasks) < maxOnly {
		o.Tasks = append(o.Tasks, id)
	}
}

func (c *Comparison) changed(t TaskChange, did bool) {
	if !did {
		return
	}
	if c.Changed++; len(c.Tasks) < maxChanges {
		c.Tasks = append(c.Tasks, t)
	}
}
