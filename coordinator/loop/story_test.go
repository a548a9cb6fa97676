package loop

import (
	"context"
	"testing"
	"time"

	"ralph/coordinator/policy/decide"
	"ralph/memory/feature"
	"ralph/memory/session/folder"
	"ralph/workers/agent"
)

// logged are the events of a kind in the session's log.
func (r *rig) logged(kind folder.EventType) (list []folder.Event) {
	r.t.Helper()
	r.data()
	if _, err := folder.Events(r.files, "/session-001-f", func(e folder.Event) error {
		if e.Type == kind {
			list = append(list, e)
		}
		return nil
	}); err != nil {
		r.t.Fatal(err)
	}
	return list
}

// learned is what the last snapshot has of the history.
func (r *rig) learned() decide.History {
	r.t.Helper()
	s := r.last()
	st, _, err := restored(&s)
	if err != nil {
		r.t.Fatal(err)
	}
	return st.History
}

// killed runs until a task begins, and kills the process there.
func (r *rig) killed(task string) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	var kept *world
	r.at = func(place string) {
		if place == "begin "+task && kept == nil {
			w := r.world()
			kept = &w
			cancel()
		}
	}
	r.make().Run(ctx)
	if err := r.folder.Close(); err != nil {
		r.t.Error(err)
	}
	r.at = nil
	if kept == nil {
		r.t.Fatalf("%s never began", task)
	}
	r.restore(*kept)
}

// The time of a phase is what was worked in it, and not that in which no Ralph was
// there.
func TestAPhaseTakesAsLongAsWasWorked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B"), st("C"))
		r.killed("B")
		time.Sleep(time.Hour)
		want(t, "status", r.resume().Status, feature.Completed)
		var took time.Duration
		for _, e := range r.logged(folder.PhaseComplete) {
			if e.Text("phase") == implementation {
				took += e.Duration
			}
		}
		if took < 170*time.Second || took > 190*time.Second {
			t.Errorf("the phase took %v, want the three minutes that were worked", took)
		}
	})
}

// The end of a task says how long was worked on it in all its attempts.
func TestTheEndOfATaskTellsAllAttempts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"))
		r.acts["A"] = []act{badCheck, badCheck, well}
		r.run()
		var ends []agent.Event
		for _, e := range r.events {
			if e.Type == agent.EventTaskEnd {
				ends = append(ends, e)
			}
		}
		if len(ends) != 3 || ends[0].WorkedMS != 0 || ends[2].Attempt != 3 || ends[2].WorkedMS < 175_000 || ends[2].WorkedMS > 190_000 || *ends[2].DurationMS > 65_000 {
			t.Errorf("the ends are %+v", ends)
		}
	})
}

// A run says whether its failure is told by the errors of its tasks.
func TestAFailureThatIsToldAlready(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*rig)
		want    bool
	}{
		"all is done":                      {func(*rig) {}, false},
		"a task failed, and one needs it":  {func(r *rig) { r.acts["A"] = []act{badCheck} }, true},
		"a task is left out by its errors": {func(r *rig) { r.acts["A"], r.o.Settings.OnError = []act{badCheck}, "skip" }, true},
		"a task was not begun":             {func(r *rig) { r.o.Settings.RequireCheck = true }, false},
		"the plan has it as failed": {func(r *rig) {
			failed := st("A")
			failed.Status = "failed"
			r.plan(failed, st("B", "A"))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, st("A"), st("B", "A"))
				c.prepare(r)
				out := r.run()
				want(t, "told", out.Told, c.want)
				want(t, "errors", len(r.data().Failures) > 0, c.want)
				want(t, "completed", out.Status == feature.Completed, name == "all is done")
			})
		})
	}
}

// Outcomes move the learning rate that was set, and a resume goes on with it, unless
// another is set. That nothing is learned can be said, too.
func TestTheLearningRateThatIsSet(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B"))
		r.o.Settings.LearningRate = 0.2
		r.killed("B")
		moved := r.learned()
		if got := moved.Rate(); got < 0.2199 || got > 0.2201 {
			t.Fatalf("after a success the rate is %v, want .22", got)
		}
		if like, n := moved.Like("", "", nil); n != 1 || like < 0.599 || like > 0.601 {
			t.Fatalf("tasks succeed at %v of %d, want .6", like, n)
		}
		r.resume()
		last := r.learned()
		if got := last.Rate(); got < 0.2419 || got > 0.2421 {
			t.Errorf("after a resume and a success the rate is %v, want .242", got)
		}
		r.plan(st("C"))
		r.o.Settings.LearningRate = 0.4
		r.resume()
		last = r.learned()
		if got := last.Rate(); got < 0.4399 || got > 0.4401 {
			t.Errorf("with another setting the rate is %v, want .44", got)
		}
	})
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"))
		r.o.Settings.LearningRate, r.o.Settings.RiskTolerance, r.o.Settings.ConfidenceThreshold = explicitZero, explicitZero, explicitZero
		want(t, "status", r.run().Status, feature.Completed)
		h := r.learned()
		want(t, "rate", h.Rate(), 0)
		like, _ := h.Like("", "", nil)
		want(t, "learned", like, 0.5)
	})
}
