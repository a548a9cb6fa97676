package scripts

import (
	"context"
	"os"
	"path/filepath"

	"ralph/coordinator/plan"
	"ralph/coordinator/prompt/work"
	"ralph/coordinator/result"
	"ralph/workers/external"
)

// unfit is why a new run would be refused, found before anything of it is on
// disk: a refused run leaves nothing behind. The coordinator looks again once it
// holds the project.
func (inv *invocation) unfit(ctx context.Context) error {
	v, err := inv.readPlan(ctx)
	switch {
	case err != nil && inv.mendable(err):
		return nil
	case err != nil:
		return planFault(err)
	}
	if faults := conditions(v.Plan); len(faults) > 0 {
		return planFault(&plan.Problems{Op: "open plan", Path: v.Path, List: faults, Hint: "put it right and check it with: ralph plan check"})
	}
	if err := work.CheckTemplate(inv.promptFlag()); err != nil {
		return promptFault(err)
	}
	if err := inv.unknownAgent(); err != nil {
		return err
	}
	if inv.form != outputJSONL || v.chosen() { // else the events tell what is done
		inv.note("the plan: " + v.found())
	}
	if told := inv.actingTasks(v.Plan.Tasks); told != "" {
		inv.note(told)
	}
	return nil
}

// mendable says that the plan is Ralph's own Markdown, which is brought back from
// the log of changes or a backup when the project is opened.
func (inv *invocation) mendable(err error) bool {
	if _, ok := err.(*fault); ok {
		return false // the arguments are wrong, not the plan
	}
	if _, err := os.Lstat(filepath.Join(inv.stateDir(), formatFile)); err != nil {
		return false
	}
	tracker, _, _, err := plan.Detect(inv.planOptions())
	return err != nil || tracker == "markdown"
}

// formatFile is the stamp of a state directory.
const formatFile = "FORMAT"

// unknownAgent is the error of a run whose agents are not all known.
func (inv *invocation) unknownAgent() error {
	custom := make([]external.Custom, len(inv.cfg.Agents))
	for i, a := range inv.cfg.Agents {
		custom[i] = external.Custom(a)
	}
	all, err := external.Adapters(custom)
	for _, name := range []string{inv.cfg.Run.Agent, inv.cfg.Run.FallbackAgent} {
		if err == nil && name != "" && name != "ralph" && name != "builtin" {
			_, err = external.Find(all, name)
		}
	}
	if err != nil {
		return &fault{status: result.ConfigError, kind: "config_error", text: "run: " + err.Error(),
			hint: "ralph doctor --agents lists those that are there; `agents:` in the user's config adds others"}
	}
	return nil
}
