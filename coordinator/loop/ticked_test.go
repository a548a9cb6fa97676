package loop

import (
	"context"
	"testing"

	"ralph/coordinator/plan"
	"ralph/memory/feature"
)

// TestTickedByAnAgent counts no task as done that became so in the plan while agents
// worked without a sandbox: its own, another one, just before an attempt ends. What a
// human ticks while nothing is at work, or beside a sandbox, is done.
func TestTickedByAnAgent(t *testing.T) {
	tick := func(r *rig, ids ...string) {
		r.edit(func(list []map[string]any) []map[string]any {
			for _, s := range list {
				for _, id := range ids {
					if s["id"] == id {
						s["passes"] = true
					}
				}
			}
			return list
		})
	}
	for _, c := range []struct {
		name, sandbox, worked string
		ids                   []string
	}{
		{"another task", "off", "A/1 B/1 C/1", []string{"B"}},
		{"its own", "off", "A/1 B/1 C/1", []string{"A"}},
		{"all", "off", "A/1 B/1 C/1", []string{"A", "B", "C"}},
		{"beside a sandbox", "workspace", "A/1 C/1", []string{"B"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, st("A"), st("B"), st("C"))
				r.o.Settings.Sandbox = c.sandbox
				r.acts["A"] = []act{func(ctx context.Context, o Order) Report {
					tick(r, c.ids...)
					return well(ctx, o)
				}}
				out := r.run()
				want(t, "status", out.Status, feature.Completed)
				want(t, "worked", r.worked(), c.worked)
			})
		})
	}
	bubble(t, func(t *testing.T) { // whose work then fails
		r := newRig(t, st("A"), st("B"))
		r.o.Settings.Sandbox, r.o.Settings.OnError = "off", "skip"
		r.acts["A"] = []act{func(ctx context.Context, o Order) Report {
			tick(r, "B")
			return well(ctx, o)
		}}
		r.acts["B"] = []act{broke("execution", "it crashed")}
		out := r.run()
		want(t, "status", out.Status, feature.Failed)
		want(t, "B in the plan", r.status()["B"], plan.Pending)
	})
}

// TestNothingInProgressAfterAStop leaves no task in progress in the snapshot of a run
// that was stopped in order.
func TestNothingInProgressAfterAStop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B"), st("C"))
		r.yaml("name: P\ntasks:\n  - {task_id: a, name: A, description: d}\n  - {task_id: b, name: B, description: d}\n")
		r.o.Settings.Parallel = 2
		ctx, cancel := context.WithCancel(t.Context())
		r.acts["a"] = []act{func(ctx context.Context, _ Order) Report { cancel(); <-ctx.Done(); return Report{Status: interrupted} }}
		r.acts["b"] = []act{func(ctx context.Context, _ Order) Report { <-ctx.Done(); return Report{Status: interrupted} }}
		out := r.make().Run(ctx)
		want(t, "status", out.Status, feature.Interrupted)
		for _, task := range r.last().Tracker.Tasks {
			want(t, task.ID, task.Status, string(plan.Interrupted))
		}
	})
}
