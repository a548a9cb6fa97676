package loop

import (
	"testing"
	"time"

	"ralph/memory/feature"
)

func TestOrderOneByOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("C", "B"), st("A"), st("B", "A"), st("D"))
		out := r.run()
		want(t, "status", out.Status, feature.Completed)
		want(t, "worked", r.worked(), "A/1 B/1 C/1 D/1")
		want(t, "done", len(out.Done), 4)
		want(t, "verified", out.Verified, true)
		want(t, "iterations", out.Iterations, 4)
		want(t, "reason", out.Reason, "4 of 4 tasks are done")
	})
}

func TestSideBySide(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B"), st("C"), st("D"), st("E", "A", "B", "C", "D"))
		r.o.Settings.Parallel = 3
		began := time.Now()
		out := r.run()
		want(t, "status", out.Status, feature.Completed)
		want(t, "most at once", r.mostBusy, 3)
		if took := time.Since(began); took > 3*time.Minute+time.Second {
			t.Errorf("it took %s: the tasks were not worked side by side", took)
		}
		want(t, "last", r.orders[4].Task.ID, "E")
		want(t, "needs", len(r.orders[4].Needs), 4)
	})
}

func TestRetryWithTheCheck(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"))
		r.acts["A"] = []act{badCheck, well}
		out := r.run()
		want(t, "status", out.Status, feature.Completed)
		want(t, "worked", r.worked(), "A/1 A/2")
		contains(t, "what it is told", r.orders[1].Prompt, "FAIL A attempt 1")
		want(t, "goes on with", r.orders[1].Resume, "a_a_1")
		d := r.data()
		want(t, "failures", len(d.Failures), 1)
		want(t, "resolved", d.Failures[0].Resolved, true)
		want(t, "kind", d.Failures[0].ErrorType, "validation")
	})
}

func TestFailedForGood(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B", "A"), st("C", "B"), st("D"))
		r.acts["A"] = []act{badCheck}
		out := r.run()
		want(t, "status", out.Status, feature.Failed)
		want(t, "worked", r.worked(), "A/1 A/2 A/3 A/4 D/1")
		want(t, "failed", len(out.Failed), 1)
		want(t, "skipped", len(out.Skipped), 2)
		d := r.data()
		for _, s := range d.Progress.Tasks {
			if s.TaskID == "C" {
				contains(t, "C", s.Details, "not begun: it needs B, which was not begun either")
			}
			if s.TaskID == "B" {
				contains(t, "B", s.Details, "it needs A, which has failed")
			}
		}
		contains(t, "reason", out.Reason, "failed: A; left out: B, C")
	})
}

func TestBackoff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B"))
		r.acts["A"] = []act{broke("network", "no route"), broke("network", "no route"), well}
		r.takes = 0
		began := time.Now()
		out := r.run()
		want(t, "status", out.Status, feature.Completed)
		want(t, "worked", r.worked(), "A/1 B/1 A/2 A/3")
		if took := time.Since(began); took < 3*time.Second || took > 4*time.Second {
			t.Errorf("it took %s, and 1 s and 2 s are to be waited", took)
		}
	})
}
