package coordinator

import (
	"path/filepath"

	"ralph/coordinator/loop"
	"ralph/coordinator/plan"
	"ralph/coordinator/prompt"
)

// workPrompt is what the agent of an order is told.
func (c *Coordinator) workPrompt(o loop.Order) (string, error) {
	progress, learned, err := prompt.Surroundings(c.opt.FS, c.opt.Root)
	if err != nil {
		c.warn("state: " + err.Error())
	}
	f := prompt.WorkFacts{
		Task: workTask(o.Task), Plan: prompt.WorkPlan{Name: o.Plan, Description: o.About}, Phase: o.Phase, Iteration: o.Iteration, Attempt: o.Attempt,
		LastProblem: o.Feedback, Checks: o.Checks, Guidance: o.Guidance, Progress: c.redactor.String(progress), Learned: c.redactor.String(learned),
		External: !builtin(o.Agent), OwnTree: c.loc != nil,
	}
	for _, n := range o.Needs {
		f.Dependencies = append(f.Dependencies, prompt.WorkDependency{ID: n.ID, Title: n.Title, Result: n.Result})
	}
	custom := c.cfg.Run.Prompt
	if custom != "" && !filepath.IsAbs(custom) {
		custom = filepath.Join(c.opt.Root, custom)
	}
	return prompt.Work(f, custom)
}

func workTask(t plan.Task) prompt.WorkTask {
	w := prompt.WorkTask{ID: t.ID, Title: t.Title, Description: t.Description, Kind: t.Kind, Phase: t.Phase, Epic: t.Epic, Labels: t.Labels, Priority: t.Priority,
		Check: t.Check, Inputs: t.Inputs, Outputs: t.Outputs, Metrics: t.Metrics, Notes: t.Notes, System: t.System, Prompt: t.Prompt, Fallback: t.Fallback}
	for _, x := range t.Criteria {
		w.Criteria = append(w.Criteria, prompt.WorkCriterion{Text: x.Text, Done: x.Done})
	}
	return w
}
