package loop

import (
	"context"
	"errors"
	"strings"
	"testing"

	"ralph/coordinator/permission"

	"ralph/memory/feature"
)

// A task that nothing can check is not begun where a check is required: there is
// nothing that its agent could do about it, and its work would be merged.
func TestATaskWithoutACheckIsNotBegunWhereOneIsRequired(t *testing.T) {
	bubble(t, func(t *testing.T) {
		checked := st("B")
		checked.Check = "make test"
		r := newRig(t, st("A"), checked, st("C", "A"))
		r.o.Settings.RequireCheck = true
		out := r.run()
		want(t, "status", out.Status, feature.Failed)
		want(t, "worked", r.worked(), "B/1")
		want(t, "failed", strings.Join(out.Failed, " "), "A")
		want(t, "done", strings.Join(out.Done, " "), "B")
		if w := strings.Join(r.warnings, "\n"); !strings.Contains(w, "no check is known for it") {
			t.Errorf("warnings: %s", w)
		}
	})
}

// A breaker that opens with the last task keeps nothing from being begun, so
// nobody is asked about it.
func TestABreakerAsksNothingWhenNothingIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"))
		r.yaml(`name: P
phases: [{id: work, name: Work}]
tasks:
  - {task_id: A, name: A, phase: work, description: a, check: make test}
circuit_breaker:
  triggers: [{condition: error_rate > 0.5, action: pause_and_review}]
`)
		r.o.Settings.HumanIntervention, r.o.Settings.OnError = askFirst, "skip"
		r.acts["A"] = []act{badCheck}
		out := r.run()
		want(t, "status", out.Status, feature.Failed)
		if out.Question != nil {
			t.Errorf("it asks %q", out.Question.Text)
		}
		want(t, "trips", len(r.data().Trips), 1)
	})
}

// Work that waits for the user's own change is not done again: that is asked.
func TestHeldWorkIsNotDoneAgain(t *testing.T) {
	held := func(_ context.Context, o Order) Report {
		rep := well(context.Background(), o)
		rep.Landing, rep.Problem = landedHeld, "you changed a.txt"
		return rep
	}
	for mode, status := range map[string]feature.Status{askFirst: feature.Paused, AskNever: feature.Failed} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, st("A"))
			r.acts["A"] = []act{held}
			r.o.Settings.HumanIntervention = mode
			out := r.run()
			want(t, mode, out.Status, status)
			want(t, "worked", r.worked(), "A/1")
			if mode == askFirst && (out.Question == nil || !strings.Contains(out.Question.Text, "you changed a.txt")) {
				t.Errorf("it asks %+v", out.Question)
			}
		})
	}
}

// An endpoint that cannot be asked is no fault of a task, and ends the run once
// that was tried again.
func TestAnEndpointThatIsDown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gone := errors.New("connection refused")
		r := newRig(t, st("A"), st("B"))
		r.acts["A"] = []act{func(context.Context, Order) Report {
			return Report{Status: saidFailed, Kind: "network", Problem: "no connection", Err: gone, Down: true}
		}}
		r.o.Settings.HumanIntervention, r.o.Settings.Retries = askFirst, 4
		out := r.run()
		want(t, "status", out.Status, feature.Paused)
		if !errors.Is(out.Err, gone) || out.Question != nil {
			t.Errorf("%v, asks %+v", out.Err, out.Question)
		}
		if n := strings.Count(r.worked(), "A/"); n != 5 {
			t.Errorf("worked: %s", r.worked())
		}
		want(t, "failed", len(out.Failed), 0)
		want(t, "trips", len(r.data().Trips), 0)
	})
}

// What an agent has asked is asked again when the run goes on where somebody is.
func TestAnAgentsQuestionOutlivesTheRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"))
		r.o.Settings.HumanIntervention = askFirst
		r.acts["A"] = []act{func(context.Context, Order) Report {
			return Report{Status: needsInput, Question: "which colour?"}
		}, well}
		out := r.run()
		want(t, "status", out.Status, feature.Paused)
		if out.Question == nil || !strings.Contains(out.Question.Text, "which colour?") {
			t.Fatalf("it asks %+v", out.Question)
		}
		asked := ""
		r.o.Ask = func(_ context.Context, q permission.Question) (string, error) {
			asked += q.Kind + ": " + q.Text + "\n"
			return "blue", nil
		}
		out = r.resume()
		want(t, "status", out.Status, feature.Completed)
		want(t, "asked", asked, "agent: A (do A) asks: which colour?\n")
		if told := strings.Join(r.orders[len(r.orders)-1].Guidance, "\n"); !strings.Contains(told, "blue") {
			t.Errorf("the agent is told %q", told)
		}
	})
}
