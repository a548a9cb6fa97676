package scripts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"ralph/coordinator/plan"
	"ralph/coordinator/prompt/work"
	"ralph/memory/durable"
	"ralph/memory/text"
)

// promptOf shows what the agent of a task would be told.
func (inv *invocation) promptOf(c *cobra.Command, id string) error {
	v, err := inv.viewPlan(c)
	if err != nil {
		return err
	}
	t, err := inv.taskOf(v, id)
	if err != nil {
		return err
	}
	w := work.Of(v.Plan, *t, inv.cfg.Check)
	agent := t.Agent
	if inv.cfg.Run.Agent != "" {
		agent = inv.cfg.Run.Agent
	}
	w.External = agent != "" && agent != "ralph" && agent != "builtin"
	if _, err := os.Lstat(filepath.Join(inv.root, ".git")); err == nil {
		w.OwnTree = true
	} else if !errors.Is(err, fs.ErrNotExist) {
		return broken("io", "", err, "look at the project")
	}
	if w.Progress, w.Learned, err = work.Surroundings(durable.Disk(), inv.root); err != nil {
		inv.warning("state: " + err.Error()) // as a run does
	}
	path := inv.promptFlag()
	if path != "" && !filepath.IsAbs(path) {
		path = filepath.Join(inv.root, path)
	}
	content, err := work.Render(w, path)
	if err != nil {
		return promptFault(err)
	}
	if inv.form != outputText {
		d := inv.planDocument("prompt", v)
		d.Prompt = &planPrompt{Task: t.ID, Template: optional(path), Bytes: len(content), Text: content}
		return inv.out.printJSON(d)
	}
	if inv.out.terminal {
		content = text.Visible(content)
	}
	return inv.out.print(content + "\n")
}

// taskOf finds a task by its id, in any case.
func (inv *invocation) taskOf(v *planView, id string) (*plan.Task, error) {
	if t, ok := v.Find(id); ok {
		return t, nil
	}
	var names []string
	for i := range v.Tasks {
		if t := &v.Tasks[i]; strings.EqualFold(t.ID, id) {
			return t, nil
		}
		names = append(names, v.Tasks[i].ID)
	}
	hint := "ralph plan show lists the tasks"
	if best := text.Closest(id, names); best != "" {
		hint = fmt.Sprintf("did you mean %q? %s", best, hint)
	}
	return nil, usage(hint, "%s has no task %q", v.Path, id)
}
