package coordinator_test

import (
	"testing"

	"ralph/coordinator"
	"ralph/coordinator/loop"
	"ralph/coordinator/result"
)

// TestCostWithoutPrice refuses a cost limit that cannot be kept before the first
// request, in a one-shot and in a run, and leaves no tree behind.
func TestCostWithoutPrice(t *testing.T) {
	t.Parallel()
	for name, job := range map[string]coordinator.Job{"one-shot": {Task: "do it"}, "run": {Loop: &loop.Settings{}}} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t)
			p.session = "new"
			p.write("RALPH_TASKS.md", "# Tasks\n\n- [ ] **T-1** Write a\n")
			p.flags["max_cost"] = []string{"1"}
			out := p.run(job)
			if out.Status != result.ConfigError || out.Failure == nil || out.Failure.Kind != "price_unknown" {
				t.Errorf("%s: %+v", out.Status, out.Failure)
			}
			if n := len(p.model.Requests()); n != 0 {
				t.Errorf("%d requests were made", n)
			}
		})
	}
}
