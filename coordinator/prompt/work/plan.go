package work

import (
	"slices"
	"strings"

	"ralph/coordinator/plan"
)

// Of is what the prompt of a task says of the task and its plan; checks are
// those of the run. The rest (attempt, guidance, what the project remembers) is the
// run's to add.
func Of(p *plan.Plan, t plan.Task, checks ...string) Facts {
	w := Facts{Task: TaskOf(t), Phase: t.Phase, Plan: Plan{Name: p.Name, Description: p.Description, Branch: p.Branch, Tracker: p.Tracker, Path: p.Path}}
	for _, ph := range p.Phases {
		if ph.ID == t.Phase && ph.Name != "" {
			w.Phase = ph.Name
		}
	}
	if w.Plan.Name == "" {
		w.Plan.Name = p.Path
	}
	for _, other := range p.Tasks {
		if other.Kind == "epic" {
			continue
		}
		w.Plan.Total++
		if other.Status == plan.Done {
			w.Plan.Done++
		}
	}
	for _, id := range t.After {
		if d, ok := p.Find(id); ok && d.Status == plan.Done {
			w.Dependencies = append(w.Dependencies, Dependency{ID: d.ID, Title: d.Title, Result: d.Result})
		}
	}
	checks = append([]string{t.Check}, checks...)
	for _, g := range p.Gates {
		switch own := g.Task == t.ID || g.Task == "" && g.Phase == ""; {
		case own && g.Check != "" && g.Condition == "":
			checks = append(checks, g.Check)
		case own || g.Task == "" && g.Phase == t.Phase:
			w.Gates = append(w.Gates, Gate{Name: g.Name, Condition: g.Condition, Check: g.Check})
		}
	}
	for _, c := range checks {
		if c = strings.TrimSpace(c); c != "" && !slices.Contains(w.Checks, c) {
			w.Checks = append(w.Checks, c)
		}
	}
	return w
}

// TaskOf is a task of a plan as its prompt tells it.
func TaskOf(t plan.Task) Task {
	w := Task{ID: t.ID, Title: t.Title, Description: t.Description, Kind: t.Kind, Phase: t.Phase, Epic: t.Epic, Labels: t.Labels, Priority: t.Priority,
		Check: t.Check, Inputs: t.Inputs, Outputs: t.Outputs, Metrics: t.Metrics, Notes: t.Notes, System: t.System, Prompt: t.Prompt, Fallback: t.Fallback}
	for _, c := range t.Criteria {
		w.Criteria = append(w.Criteria, Criterion(c))
	}
	return w
}
