package loop

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"ralph/coordinator/permission"

	"ralph/coordinator/plan"
	"ralph/coordinator/policy/decide"
	"ralph/memory/feature"
)

// bare are the facts of a task that is no more than a title.
func bare(plan.Task) decide.Facts { return decide.Facts{} }

// TestBareTitles works tasks that are only titles without a terminal, also after
// like ones have failed, and asks about what is wrong beyond that.
func TestBareTitles(t *testing.T) {
	for _, c := range []struct {
		name, mode string
		facts      func(plan.Task) decide.Facts
		status     feature.Status
	}{
		{"ask_first", askFirst, bare, feature.Completed},
		{"what it needs is missing", askFirst, func(plan.Task) decide.Facts {
			return decide.Facts{Named: []string{"a", "b"}, Missing: []string{"a", "b"}}
		}, feature.Paused},
		{"on_low_confidence", askUnsure, bare, feature.Paused},
		{"always", askAlways, bare, feature.Paused},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, st("A"), st("B", "A"), st("C"))
				r.facts, r.o.Settings.HumanIntervention = c.facts, c.mode
				out := r.run()
				want(t, "status", out.Status, c.status)
				if c.status == feature.Paused && (out.Question == nil || out.Question.Kind != askConfidence) {
					t.Errorf("question: %+v", out.Question)
				}
			})
		})
	}
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B"), st("C"))
		r.facts, r.o.Settings.HumanIntervention, r.o.Settings.OnError = bare, askFirst, "skip"
		r.acts["A"] = []act{broke("execution", "it crashed")}
		out := r.run()
		want(t, "worked", r.worked(), "A/1 B/1 C/1")
		want(t, "done", len(out.Done), 2)
	})
}

// TestStartQuestion asks one question on a terminal, about all unclear tasks, and
// none where all are clear.
func TestStartQuestion(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		facts        func(plan.Task) decide.Facts
		mode         string
		asked        int
		status       feature.Status
	}{
		{"yes", "yes", bare, askFirst, 1, feature.Completed},
		{"instructions", "use tabs", bare, askFirst, 1, feature.Completed},
		{"no", "n", bare, askFirst, 1, feature.Cancelled},
		{"clear tasks", "n", nil, askFirst, 0, feature.Completed},
		{"a risk is approved with it", "y", func(plan.Task) decide.Facts {
			return decide.Facts{Named: []string{"a", "b"}, Missing: []string{"a", "b"}}
		}, askFirst, 1, feature.Completed},
		{"never", "n", bare, AskNever, 0, feature.Completed},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, st("A"), st("B", "A"), st("C"))
				r.facts, r.o.Settings.HumanIntervention = c.facts, c.mode
				var asked []string
				r.o.Ask = func(_ context.Context, q permission.Question) (string, error) {
					asked = append(asked, fmt.Sprintf("%s: %s", q.Kind, q.Text))
					return c.answer, nil
				}
				out := r.run()
				want(t, "status", out.Status, c.status)
				if len(asked) != c.asked {
					t.Fatalf("asked: %q", asked)
				}
				if c.asked > 0 {
					for _, id := range []string{"A (do A", "B (do B", "C (do C", "3 of them unclear"} {
						contains(t, "question", asked[0], id)
					}
				}
				if c.name == "instructions" {
					for _, o := range r.orders {
						if !strings.Contains(o.Prompt, "use tabs") {
							t.Errorf("%s is not told: %q", o.Task.ID, o.Prompt)
						}
					}
				}
			})
		})
	}
}
