package coordinator

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"ralph/coordinator/loop"
	"ralph/coordinator/plan"
	"ralph/coordinator/result"
	"ralph/memory/session/folder"
)

// Plan is the plan that a run would work now, with the ranks of its tasks.
func (c *Coordinator) Plan(ctx context.Context, s loop.Settings) (*plan.Plan, error) {
	t, _, err := c.openPlan(ctx, c.runSettings(s))
	if err != nil {
		return nil, planError(err)
	}
	p, err := t.Load(ctx)
	if err != nil {
		return nil, planError(err)
	}
	return p, nil
}

// Replan has the run that goes on take another plan, or other epics of it, at its
// next boundary.
func (c *Coordinator) Replan(s loop.Settings) error {
	l := c.planning.loop()
	if l == nil {
		return &result.Error{Op: "switch the plan", Err: errors.New("no run goes on"), Status: result.Usage, Hint: "/run --plan FILE begins one"}
	}
	l.Replan(s)
	return nil
}

// Why says how it was decided about a task of a plan, by the run that goes on, or by
// the last session that decided about it; or what the model decided of which task is
// a part. With "" it is all that the model decided in the last session that has such a
// decision.
func (c *Coordinator) Why(task string) (string, error) {
	if l := c.planning.loop(); l != nil {
		if text, ok := l.Why(task); ok {
			return text, nil
		}
	}
	dirs, err := filepath.Glob(filepath.Join(c.stateDir(), "sessions", "session-*"))
	if err != nil {
		return "", err // the pattern is good
	}
	slices.Sort(dirs)
	for _, dir := range slices.Backward(dirs) {
		data, err := folder.Read(c.opt.FS, dir)
		if err != nil {
			continue // of a session that cannot be read nothing is known
		}
		if text := decided(data.Decisions, task); text != "" {
			return text, nil
		}
	}
	what := "nothing was decided about such a task"
	if task == "" {
		what = "no decision is on record"
	}
	return "", &result.Error{Op: "why", Path: task, Err: errors.New(what), Status: result.Usage, Hint: "/plan lists the tasks; a decision is made before a task is worked, or recorded by the model with its reason"}
}

// about reports whether a decision is about a task, or is one of the model whose text
// holds it.
func about(d folder.Decision, task string) bool {
	if own := d.DecisionType == folder.DecisionAction && d.Outcome == folder.OutcomeDecided; own && strings.Contains(strings.ToLower(d.Decision.Action), strings.ToLower(task)) {
		return true
	}
	return task != "" && strings.EqualFold(d.TaskID, task)
}

// decided tells the decisions about a task, the last first.
func decided(list []folder.Decision, task string) string {
	var b strings.Builder
	for _, d := range slices.Backward(list) {
		if !about(d, task) {
			continue
		}
		own := d.Outcome == folder.OutcomeDecided
		fmt.Fprintf(&b, "%s %s", d.Time.Local().Format("2006-01-02 15:04:05"), strings.TrimPrefix(d.TaskID+": "+d.Decision.Action, ": "))
		if !own {
			fmt.Fprintf(&b, " (confidence %.2f)", d.Decision.Confidence)
		}
		if d.Outcome != "" && !own {
			fmt.Fprintf(&b, " → %s", d.Outcome)
		}
		b.WriteString("\n")
		if d.Decision.Rationale != "" {
			b.WriteString(d.Decision.Rationale + "\n")
		}
		for _, a := range d.Decision.Alternatives {
			if own {
				fmt.Fprintf(&b, "  instead of: %s\n", a.Action)
				continue
			}
			fmt.Fprintf(&b, "  %-9s %.2f\n", a.Action, a.Score)
		}
	}
	return strings.TrimSpace(b.String())
}
