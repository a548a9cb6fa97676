package coordinator

import (
	"path/filepath"

	"ralph/coordinator/loop"
	"ralph/coordinator/prompt/work"
)

// workPrompt is what the agent of an order is told.
func (c *Coordinator) workPrompt(o loop.Order) (string, error) {
	progress, learned, err := work.Surroundings(c.opt.FS, c.opt.Root)
	if err != nil {
		c.warn("state: " + err.Error())
	}
	f := work.Of(o.Whole, o.Task)
	f.Iteration, f.Attempt, f.LastProblem, f.Checks, f.Guidance = o.Iteration, o.Attempt, o.Feedback, o.Checks, o.Guidance
	f.Progress, f.Learned = c.redactor.String(progress), c.redactor.String(learned)
	f.External, f.OwnTree = !builtin(o.Agent), c.loc != nil
	f.Dependencies = nil
	for _, n := range o.Needs {
		f.Dependencies = append(f.Dependencies, work.Dependency{ID: n.ID, Title: n.Title, Result: n.Result})
	}
	return work.Render(f, c.workTemplate())
}

// workTemplate is the file of the user's own template, "" for Ralph's.
func (c *Coordinator) workTemplate() string {
	custom := c.cfg.Run.Prompt
	if custom != "" && !filepath.IsAbs(custom) {
		custom = filepath.Join(c.opt.Root, custom)
	}
	return custom
}
