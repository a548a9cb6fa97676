package loop

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"ralph/coordinator/plan"
)

// giveBack writes the marks into the plan that it lacks, then opens the tasks that an
// ended session of Ralph still claims, and those that the settings name. After that
// order an open task for which a mark is still due was opened by a human.
func (e *engine) giveBack(ctx context.Context) error {
	e.overtaken()
	if err := e.pay(ctx); err != nil {
		return err
	}
	back, err := e.tracker.Release(ctx, e.o.Former)
	if err != nil {
		return fmt.Errorf("give back the tasks of an earlier session: %w", err)
	}
	if e.recovery != nil {
		for _, id := range back {
			if !slices.Contains(e.recovery.Tasks, id) {
				e.recovery.Tasks = append(e.recovery.Tasks, id)
			}
		}
	}
	if err := e.retryAsked(ctx); err != nil {
		return err
	}
	p, err := e.tracker.Load(ctx)
	if err != nil {
		return err
	}
	if err := e.adopt(p); err != nil {
		return err
	}
	e.compare(nil, p)
	return nil
}

// retryAsked opens again, in the plan and for this run, the tasks that the settings
// name, whatever became of them. Nothing is changed when one is not in the plan.
func (e *engine) retryAsked(ctx context.Context) error {
	ids := slices.Clone(e.o.Settings.Retry)
	for _, id := range ids {
		if _, ok := e.find(id); !ok {
			return fmt.Errorf("retry task %q: %w", id, plan.ErrNoTask)
		}
	}
	if e.o.Settings.RetryFailed {
		for i := range e.p.Tasks {
			t := &e.p.Tasks[i]
			if s := e.standing(t); e.scope[t.ID] && (s == plan.Failed || s == plan.Skipped) {
				ids = append(ids, t.ID)
			}
		}
	}
	for _, id := range ids {
		t, _ := e.find(id)
		if k := e.s.Tasks[id]; k != nil {
			*k = taskState{Guidance: k.Guidance, Permitted: k.Permitted}
		}
		e.s.quit(id)
		if t.Status == plan.Pending && t.Assignee == "" {
			continue
		}
		m := e.mark(plan.Pending, "")
		m.Actor = cmp.Or(t.Assignee, m.Actor) // it is taken over from whoever has it
		if err := e.tracker.Mark(ctx, id, m); err != nil {
			return fmt.Errorf("retry task %s: %w", id, err)
		}
	}
	return nil
}
