package loop

import (
	"errors"
	"strings"
	"testing"

	"ralph/coordinator/plan"
	"ralph/memory/feature"
)

const stuck = `name: P
tasks:
  - {task_id: T-1, name: Done, description: d, status: done}
  - {task_id: T-2, name: Failed, description: d, status: failed}
  - {task_id: T-3, name: Needs it, description: d, dependencies: [T-2]}
  - {task_id: T-4, name: Left behind, description: d, status: in_progress}
  - {task_id: T-5, name: Skipped, description: d, status: skipped}
`

// TestRetry works anew what the flags name and nothing else of what has ended, in a
// new run and in one that goes on, and changes nothing for a task that is not there.
func TestRetry(t *testing.T) {
	for _, c := range []struct {
		name   string
		set    func(*Settings)
		worked string
		status feature.Status
	}{
		{"nothing", func(*Settings) {}, "", feature.Failed},
		{"failed", func(s *Settings) { s.RetryFailed = true }, "T-2/1 T-3/1 T-5/1", feature.Failed}, // T-4 has not failed
		{"one that failed", func(s *Settings) { s.Retry = []string{"T-2"} }, "T-2/1 T-3/1", feature.Failed},
		{"one with nobody at work", func(s *Settings) { s.Retry = []string{"T-4"} }, "T-4/1", feature.Failed},
		{"one that is done", func(s *Settings) { s.Retry = []string{"T-1"} }, "T-1/1", feature.Failed},
		{"all", func(s *Settings) { s.RetryFailed, s.Retry = true, []string{"T-4"} }, "T-2/1 T-3/1 T-4/1 T-5/1", feature.Completed},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.yaml(stuck)
				c.set(&r.o.Settings)
				out := r.make().Run(t.Context()) // the rig's own check knows of no task that is another's
				want(t, "status", out.Status, c.status)
				want(t, "worked", r.worked(), c.worked)
				if !strings.Contains(c.worked, "T-4") {
					contains(t, "reason", out.Reason, "--retry T-4 takes it over")
				}
			})
		})
	}
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B"))
		r.o.Settings.Retry = []string{"A", "X"}
		out := r.make().Run(t.Context())
		if !errors.Is(out.Err, plan.ErrNoTask) {
			t.Errorf("a task that is not there: %v", out.Err)
		}
		want(t, "worked", r.worked(), "")
	})
	bubble(t, func(t *testing.T) { // the hint is one word of a shell
		r := newRig(t)
		r.yaml(strings.ReplaceAll(stuck, "T-4", "Story 4"))
		out := r.make().Run(t.Context())
		contains(t, "reason", out.Reason, "--retry 'Story 4' takes it over")
	})
	bubble(t, func(t *testing.T) { // what failed in the run that goes on
		r := newRig(t, st("A"), st("B"), st("C"))
		r.o.Settings.OnError, r.o.Settings.MaxIterations = "skip", 2
		r.acts["A"] = []act{broke("execution", "it crashed"), well}
		want(t, "status", r.run().Status, feature.Paused)
		r.o.Settings.RetryFailed, r.o.Settings.MaxIterations = true, 0
		r.acts["A"] = nil
		out := r.resume()
		want(t, "status", out.Status, feature.Completed)
		want(t, "worked", r.worked(), "A/1 B/1 A/1 C/1")
	})
}
