package loop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"ralph/coordinator/plan"
	"ralph/memory/feature"
)

// stubborn is a tracker that does not take some changes.
type stubborn struct {
	plan.Tracker
	refuses func(id string, m plan.Mark) bool
}

func (s stubborn) Mark(ctx context.Context, id string, m plan.Mark) error {
	if s.refuses(id, m) {
		return errors.New("the disk says no")
	}
	return s.Tracker.Mark(ctx, id, m)
}

// TestRefusedMarksAreForgottenOnceTaken: that a change is not taken now and then
// is no reason to stop a run, however long it is.
func TestRefusedMarksAreForgottenOnceTaken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B", "A"), st("C", "B"), st("D", "C"), st("E", "D"))
		r.o.Settings.HumanIntervention = AskNever
		seen := map[string]bool{}
		r.o.Tracker = stubborn{r.tracker(), func(id string, m plan.Mark) bool {
			first := m.Status == plan.InProgress && !seen[id]
			seen[id] = seen[id] || first
			return first
		}}
		out := r.run()
		want(t, "status", out.Status, feature.Completed)
		want(t, "worked", r.worked(), "A/1 B/1 C/1 D/1 E/1")
	})
}

// TestTaskThatCannotBeMarked: a task whose state the plan never takes ends in a
// question, whatever else goes well.
func TestTaskThatCannotBeMarked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B"), st("C", "B"))
		r.o.Settings.HumanIntervention = AskNever
		r.o.Tracker = stubborn{r.tracker(), func(id string, _ plan.Mark) bool { return id == "A" }}
		out := r.make().Run(t.Context())
		want(t, "status", out.Status, feature.Paused)
		if out.Question == nil || !strings.Contains(out.Question.Text, "the disk says no") {
			t.Errorf("the question is %+v", out.Question)
		}
		want(t, "worked", r.worked(), "B/1 C/1")
	})
}

// warned is a tracker whose plan has more to warn about with every change.
type warned struct {
	plan.Tracker
	loads *int
}

func (w warned) Load(ctx context.Context) (*plan.Plan, error) {
	p, err := w.Tracker.Load(ctx)
	if err == nil {
		*w.loads++
		p.Warnings = append(p.Warnings, plan.Problem{File: "prd.json", Line: *w.loads, Task: "A", Text: "the ranking takes A next, bv would take B"})
		for i := range 30 * (*w.loads - 1) {
			p.Warnings = append(p.Warnings, plan.Problem{File: "prd.json", Line: i + 1, Text: fmt.Sprintf("odd %d", i)})
		}
	}
	return p, err
}

// TestWarningsOfAPlan: what is to be said of a plan is said in its run, each once,
// and no more than a person reads.
func TestWarningsOfAPlan(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B", "A"))
		loads := 0
		r.o.Tracker = warned{r.tracker(), &loads}
		want(t, "status", r.run().Status, feature.Completed)
		if loads < 2 {
			t.Fatalf("the plan was read %d times", loads)
		}
		text := strings.Join(r.warnings, "\n")
		want(t, "opinions", strings.Count(text, "bv would take B"), 1)
		want(t, "others", strings.Count(text, "odd "), mostRemarks-1)
		want(t, "the rest", strings.Count(text, "ralph plan check"), 1)
	})
}

// TestReasonIsNotedOnce: why a task was given up stands in the plan once.
func TestReasonIsNotedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B", "A"))
		r.acts["A"] = []act{badCheck}
		want(t, "status", r.run().Status, feature.Failed)
		text := r.read()
		want(t, "why A failed", strings.Count(text, "failed with exit code"), 1)
		want(t, "why B was left", strings.Count(text, notBegun), 1)
	})
}
