package scripts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ralph/coordinator/plan"
	"ralph/coordinator/plan/graph"
	"ralph/coordinator/policy/condition"
	"ralph/memory/text"
	"ralph/workers/exec"
)

// planView is a plan with what of it is meant.
type planView struct {
	*plan.Plan
	why   string // how it was found
	meant map[string]bool
	graph *graph.Graph
	ranks map[string]graph.Rank
	order []graph.Rank // best first
}

// planOptions are where the plan is looked for.
func (inv *invocation) planOptions() plan.Options {
	r := inv.cfg.Run
	return plan.Options{Root: inv.root, Tracker: r.Tracker, Path: inv.planFlag(r.Plan), Epics: r.Epic, Proc: exec.New(exec.Options{Method: inv.Getenv("RALPH_PROC"), Init: inv.Init, Project: inv.root}),
		Getenv: inv.Getenv, Environ: inv.Environ, Now: inv.Now, Warn: inv.warning}
}

// viewPlan loads the configuration and the plan; nothing was worked on, so a
// result file is not for these commands.
func (inv *invocation) viewPlan(c *cobra.Command) (*planView, error) {
	if err := inv.load(c); err != nil {
		return nil, err
	}
	inv.out.resultFile = ""
	v, err := inv.readPlan(c.Context())
	if err != nil {
		return nil, planFault(err)
	}
	for _, w := range v.Warnings {
		inv.showWarning(w.String())
	}
	if v.chosen() {
		inv.note("the plan: " + v.found())
	}
	return v, nil
}

// chosen says that the plan was taken out of several.
func (v *planView) chosen() bool { return strings.Contains(v.why, "choose with --plan") }

// found names the plan for a person, with what else could have been meant.
func (v *planView) found() string {
	content := fmt.Sprintf("%s (%s), %s", oneLine(v.Path, 200), v.Tracker, text.Count(len(v.Tasks), "task"))
	if v.chosen() {
		content += "; " + v.why
	}
	return content
}

func (inv *invocation) readPlan(ctx context.Context) (*planView, error) {
	o := inv.planOptions()
	_, _, why, err := plan.Detect(o)
	if err != nil {
		return nil, err
	}
	t, err := plan.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	p, err := t.Load(ctx)
	if err != nil {
		return nil, err
	}
	v := &planView{Plan: p, why: why}
	if v.meant, err = inv.meantTasks(p); err != nil {
		return nil, err
	}
	nodes := p.Nodes()
	for i := range nodes {
		nodes[i].Pick = nodes[i].Pick && v.meant[nodes[i].ID]
	}
	way := graph.ByPriority
	if p.Tracker == "beads-bv" {
		way = graph.ByStructure
	}
	v.graph = graph.New(nodes, way)
	v.order = v.graph.Ranks()
	v.ranks = make(map[string]graph.Rank, len(v.order))
	for _, r := range v.order {
		v.ranks[r.ID] = r
	}
	return v, nil
}

// meantTasks are the tasks that --epic and --select choose.
func (inv *invocation) meantTasks(p *plan.Plan) (map[string]bool, error) {
	r := inv.cfg.Run
	ids, err := p.Within(r.Epic)
	if err != nil {
		var problems *plan.Problems
		hint := "ralph plan show lists the epics"
		if errors.As(err, &problems) && problems.Hint != "" {
			hint = problems.Hint
		}
		return nil, usage(hint, "--epic: %s", err)
	}
	if r.Select == "" {
		return ids, nil
	}
	c, err := condition.Compile(r.Select, condition.Task{})
	if err != nil {
		return nil, usage("ralph plan show --select 'priority <= 2 && \"backend\" in labels'", "--select: %s", err)
	}
	milestones := map[string]string{}
	for _, m := range p.Milestones {
		for _, id := range m.Tasks {
			if milestones[id] == "" {
				milestones[id] = m.Name
			}
		}
	}
	for _, t := range p.Tasks {
		if !ids[t.ID] {
			continue
		}
		ok, err := c.Holds(condition.Task{
			ID: t.ID, Title: t.Title, Description: t.Description, Status: string(t.Status), Priority: t.Priority, Score: t.Score, Kind: t.Kind, Epic: t.Epic,
			Phase: t.Phase, Labels: t.Labels, After: t.After, Check: t.Check, Agent: t.Agent, Assignee: t.Assignee, Effort: t.Effort,
			Files: append(slices.Clone(t.Inputs), t.Outputs...), Criteria: len(t.Criteria), Milestone: milestones[t.ID],
		})
		if err != nil {
			return nil, usage("ralph plan show lists the tasks", "--select: task %s: %s", t.ID, err)
		}
		if !ok {
			delete(ids, t.ID)
		}
	}
	return ids, nil
}

// conditions are the faults of the expressions of a plan: a run would not begin
// with them.
func conditions(p *plan.Plan) []plan.Problem {
	var faults []plan.Problem
	check := func(line int, what, source string) {
		if source == "" {
			return
		}
		if _, err := condition.Compile(source, condition.Metrics{}); err != nil {
			faults = append(faults, plan.Problem{File: p.Path, Line: line, Text: what + ": " + err.Error()})
		}
	}
	for _, g := range p.Gates {
		check(g.Line, "quality gate "+g.Name, g.Condition)
	}
	for _, t := range p.Triggers {
		check(t.Line, "circuit breaker trigger", t.Condition)
	}
	return faults
}

// standing is how a task stands for a person: its status, or for an open one
// whether it is ready or what it waits for.
func (v *planView) standing(t *plan.Task) string {
	switch r, ok := v.ranks[t.ID]; {
	case t.Kind == "epic" && t.Status.Open():
		return "epic"
	case t.Status != plan.Pending && t.Status != plan.Interrupted && t.Status != plan.Blocked:
		return string(t.Status)
	case ok && r.Ready && t.Status == plan.Interrupted:
		return string(t.Status)
	case ok && r.Ready:
		return "ready"
	case ok && len(r.BlockedBy) > 0:
		return "waiting"
	case !v.meant[t.ID]:
		return "left out"
	}
	return string(t.Status)
}

// planCounts counts tasks; epics stand for themselves.
type planCounts struct {
	Total       int `json:"total"`
	Open        int `json:"open"`
	InProgress  int `json:"in_progress"`
	Interrupted int `json:"interrupted"`
	Blocked     int `json:"blocked"`
	Done        int `json:"done"`
	Failed      int `json:"failed"`
	Skipped     int `json:"skipped"`
	Ready       int `json:"ready"`
	Waiting     int `json:"waiting"`
	Epics       int `json:"epics"`
}

func (v *planView) counts() planCounts {
	var n planCounts
	for i := range v.Tasks {
		t := &v.Tasks[i]
		if !v.meant[t.ID] {
			continue
		}
		if t.Kind == "epic" {
			n.Epics++
			continue
		}
		n.Total++
		switch t.Status {
		case plan.Pending:
			n.Open++
		case plan.InProgress:
			n.InProgress++
		case plan.Interrupted:
			n.Interrupted++
		case plan.Blocked:
			n.Blocked++
		case plan.Done:
			n.Done++
		case plan.Failed:
			n.Failed++
		case plan.Skipped:
			n.Skipped++
		}
		if r := v.ranks[t.ID]; r.Ready {
			n.Ready++
		} else if t.Status.Open() && len(r.BlockedBy) > 0 {
			n.Waiting++
		}
	}
	return n
}
