package coordinator_test

import (
	"context"
	"strings"
	"testing"

	"ralph/coordinator"
	"ralph/coordinator/loop"
	"ralph/coordinator/permission"
	"ralph/coordinator/result"
	"ralph/workers/model/modeltest"
)

// TestDoneWithLittleConfidence takes a declaration below .3 only when the human says
// so; where nobody can be asked it fails, and nothing is merged.
func TestDoneWithLittleConfidence(t *testing.T) {
	t.Parallel()
	guess := func(sure float64) modeltest.Reply {
		return calls(call("finish", m{"status": "done", "summary": "wrote one.txt, I guess", "confidence": sure}))
	}
	for _, c := range []struct {
		name   string
		sure   float64
		answer string // "" nobody is there
		run    bool
		status result.Status
	}{
		{"one-shot", .29, "", false, result.Failed},
		{"one-shot, sure enough", .3, "", false, result.Completed},
		{"one-shot, yes", .1, "yes", false, result.Completed},
		{"one-shot, no", .1, "no", false, result.Failed},
		{"run", .1, "", true, result.Failed},
		{"run, yes", .1, "yes", true, result.Completed},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, k := planned(t, "- [ ] **T-1** Write one\n  - check: test -e one.txt\n")
			who, job := "ralph", coordinator.Job{Task: "write one"}
			if c.run {
				who, job = "write_one", coordinator.Job{Loop: &loop.Settings{Retries: -1}}
			}
			k.part(who, put("one.txt", "good\n"), guess(c.sure))
			if c.answer != "" {
				p.ask = func(_ context.Context, q permission.Question) (string, error) {
					if !strings.Contains(q.Text, "I guess") {
						return "yes", nil
					}
					return c.answer, nil
				}
			}
			out := p.run(job)
			if out.Status != c.status {
				t.Errorf("%s: %+v", out.Status, out.Failure)
			}
			if c.status == result.Failed && (!strings.Contains(out.Failure.Message, "little confidence") || c.run && strings.Contains(p.git("log", "--format=%s"), "Write one")) {
				t.Errorf("%+v\n%s", out.Failure, p.git("log", "--format=%s"))
			}
		})
	}
}
