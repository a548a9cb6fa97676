package loop

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ralph/coordinator/permission"

	"ralph/coordinator/plan"
	"ralph/memory/feature"
)

// going runs a loop beside the test, which gets at its outcome with end.
func (r *rig) going(ctx context.Context) (l *Loop, end func() Outcome) {
	r.t.Helper()
	l = r.make()
	done := make(chan Outcome, 1)
	go func() { done <- l.Run(ctx) }()
	return l, func() Outcome {
		r.t.Helper()
		out := <-done
		r.agree(out)
		return out
	}
}

func at(list []map[string]any, id string) map[string]any {
	for _, s := range list {
		if s["id"] == id {
			return s
		}
	}
	return nil
}

func TestNewTaskIsPickedUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B", "A"))
		_, end := r.going(t.Context())
		time.Sleep(30 * time.Second)
		r.edit(func(list []map[string]any) []map[string]any {
			return append(list, map[string]any{"id": "N", "title": "new", "acceptanceCriteria": []string{"x"}, "priority": 0, "passes": false})
		})
		out := end()
		want(t, "status", out.Status, feature.Completed)
		want(t, "worked", r.worked(), "A/1 N/1 B/1")
	})
}

func TestDeletedTaskIsStopped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B"))
		r.takes = time.Hour
		_, end := r.going(t.Context())
		began := time.Now()
		time.Sleep(time.Minute)
		r.edit(func(list []map[string]any) []map[string]any { return list[1:] })
		out := end()
		want(t, "status", out.Status, feature.Completed)
		want(t, "worked", r.worked(), "A/1 B/1")
		want(t, "total", out.Counts.Total, 1)
		if took := time.Since(began); took > time.Hour+2*time.Minute {
			t.Errorf("it took %s: what was deleted was worked to its end", took)
		}
		want(t, "merged", r.merged["A"], 0)
	})
}

func TestDoneByHandStopsIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B", "A"))
		r.takes = time.Hour
		_, end := r.going(t.Context())
		time.Sleep(time.Minute)
		r.edit(func(list []map[string]any) []map[string]any {
			at(list, "A")["passes"], at(list, "A")["status"] = true, "done"
			return list
		})
		out := end()
		want(t, "status", out.Status, feature.Completed)
		want(t, "done", strings.Join(out.Done, " "), "A B")
		want(t, "merged", r.merged["A"], 0)
	})
}

func TestReopenedTaskIsWorkedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B", "A"))
		_, end := r.going(t.Context())
		time.Sleep(90 * time.Second) // B is at work
		r.edit(func(list []map[string]any) []map[string]any {
			at(list, "A")["passes"] = false
			delete(at(list, "A"), "status")
			return list
		})
		out := end()
		want(t, "status", out.Status, feature.Completed)
		want(t, "worked", r.worked(), "A/1 B/1 A/1")
		want(t, "merged", r.merged["A"], 2)
		want(t, "iterations", out.Iterations, 3)
	})
}

// TestFailedTaskIsOpenedAgain: an edit of a task that was given up opens it again,
// and what was left out because of it.
func TestFailedTaskIsOpenedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B", "A"), st("C"))
		r.acts["A"] = []act{func(ctx context.Context, o Order) Report {
			if o.Task.Description == "" {
				return badCheck(ctx, o)
			}
			return well(ctx, o)
		}}
		_, end := r.going(t.Context())
		time.Sleep(4*time.Minute + 30*time.Second) // C is at work
		r.edit(func(list []map[string]any) []map[string]any {
			at(list, "A")["description"] = "how to do it"
			return list
		})
		out := end()
		want(t, "status", out.Status, feature.Completed)
		want(t, "worked", r.worked(), "A/1 A/2 A/3 A/4 C/1 A/1 B/1")
	})
}

func TestBrokenPlanPausesAndGoesOnWhenMended(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B", "A"))
		r.o.Settings.HumanIntervention = askError
		asked := 0
		r.o.Ask = func(ctx context.Context, q permission.Question) (string, error) {
			want(t, "kind", q.Kind, askPlan)
			asked++
			<-ctx.Done()
			return "", ctx.Err()
		}
		l, end := r.going(t.Context())
		time.Sleep(30 * time.Second)
		good := r.read()
		r.write(good[:len(good)/2])
		time.Sleep(10 * time.Minute)
		want(t, "worked", r.worked(), "A/1")
		if q := l.View().Question; q == nil || q.Kind != askPlan {
			t.Errorf("question: %+v", q)
		}
		r.write(good)
		out := end()
		want(t, "status", out.Status, feature.Completed)
		want(t, "worked", r.worked(), "A/1 B/1")
		want(t, "asked", asked, 1)
	})
}

func TestBrokenPlanWithoutAHuman(t *testing.T) {
	for _, c := range []struct {
		name   string
		break_ func(r *rig)
	}{
		{"truncated", func(r *rig) { r.write(r.read()[:40]) }},
		{"deleted", func(r *rig) {
			if err := os.Remove(r.path()); err != nil {
				r.t.Fatal(err)
			}
		}},
		{"emptied", func(r *rig) { r.write(`{"project":"p","userStories":[]}`) }},
		{"a circle", func(r *rig) {
			r.edit(func(list []map[string]any) []map[string]any {
				at(list, "A")["dependsOn"] = []string{"B"}
				return list
			})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, st("A"), st("B", "A"))
				r.o.Settings.HumanIntervention = askFirst
				_, end := r.going(t.Context())
				time.Sleep(30 * time.Second)
				good := r.read()
				c.break_(r)
				out := end()
				want(t, "status", out.Status, feature.Paused)
				if out.Question == nil || out.Question.Kind != askPlan {
					t.Fatalf("question: %+v", out.Question)
				}
				want(t, "worked", r.worked(), "A/1")
				r.write(good)
				out = r.resume()
				want(t, "status", out.Status, feature.Completed)
				want(t, "worked", r.worked(), "A/1 B/1")
				want(t, "merged", r.merged["A"], 1)
			})
		})
	}
}

func TestPauseProceed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B"), st("C"))
		r.o.Settings.Parallel = 2
		l, end := r.going(t.Context())
		time.Sleep(10 * time.Second)
		l.Pause()
		synctest.Wait()
		want(t, "status", l.View().Status, feature.Pausing)
		time.Sleep(time.Hour)
		want(t, "status", l.View().Status, feature.Paused)
		want(t, "kept", r.last().Status, feature.Paused)
		want(t, "worked", r.worked(), "A/1 B/1")
		l.Guide("mind the gap")
		if err := l.Proceed(); err != nil {
			t.Fatal(err)
		}
		want(t, "status at once", l.View().Status, feature.Running)
		out := end()
		want(t, "status", out.Status, feature.Completed)
		contains(t, "prompt", r.orders[2].Prompt, "mind the gap")
		if w := l.View().Worked; w > 130 {
			t.Errorf("%v s were worked: the pause is not work", w)
		}
		if err := l.Proceed(); !errors.Is(err, ErrNotPaused) {
			t.Errorf("proceed after the end: %v", err)
		}
	})
}

func TestStopAndResume(t *testing.T) {
	for _, behind := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, st("A"), st("B"), st("C", "A", "B"))
			r.o.Settings.Parallel = 2
			var late []func(context.Context)
			if behind {
				r.o.Behind = func(f func(context.Context)) { late = append(late, f) }
			}
			ctx, cancel := context.WithCancel(t.Context())
			l := r.make()
			done := make(chan Outcome, 1)
			go func() { done <- l.Run(ctx) }()
			time.Sleep(30 * time.Second)
			cancel()
			out := <-done
			if behind {
				want(t, "in the plan before", r.status()["A"], plan.InProgress)
			}
			for _, f := range late {
				f(t.Context())
			}
			r.agree(out)
			want(t, "status", out.Status, feature.Interrupted)
			want(t, "in the plan", r.status()["A"], plan.Pending)
			want(t, "kept", r.last().Status, feature.Interrupted)
			out = r.resume()
			want(t, "status", out.Status, feature.Completed)
			want(t, "iterations", out.Iterations, 3)
			want(t, "attempts", len(r.orders), 5)
			want(t, "goes on with", r.ordersOf("A")[1].Resume, "a_a_1")
			want(t, "its attempt", r.ordersOf("A")[1].Attempt, 1)
			v := r.loop.View()
			if v.Recovery == nil || v.Recovery.From != "001" || v.Recovery.Iteration != 2 || strings.Join(v.Recovery.Tasks, " ") != "A B" {
				t.Errorf("recovery: %+v", v.Recovery)
			}
		})
	}
}

func TestStoppedAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B"), st("C", "A"))
		r.acts["A"] = []act{func(context.Context, Order) Report {
			return Report{Status: interrupted, Problem: "stopped by the user"}
		}}
		out := r.run()
		want(t, "status", out.Status, feature.Paused)
		want(t, "worked", r.worked(), "A/1 B/1")
		contains(t, "reason", out.Reason, "A (stopped by the user)")
		r.acts["A"] = nil
		out = r.resume()
		want(t, "status", out.Status, feature.Completed)
		want(t, "goes on with", r.ordersOf("A")[1].Resume, "a_a_1")
	})
}

func TestReplan(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b, c := st("A"), st("B"), st("C")
		a.Labels, b.Labels, c.Labels = []string{"x"}, []string{"y"}, []string{"x"}
		r := newRig(t, a, b, c)
		l, end := r.going(t.Context())
		time.Sleep(30 * time.Second)
		if err := l.Replan(Settings{Select: "nope"}); err == nil {
			t.Error("an expression that does not compile was taken")
		}
		s := r.o.Settings
		s.Select = `"x" in labels`
		if err := l.Replan(s); err != nil {
			t.Fatal(err)
		}
		r.o.Settings.Select = s.Select
		out := end()
		want(t, "status", out.Status, feature.Completed)
		want(t, "worked", r.worked(), "A/1 C/1")
		want(t, "total", out.Counts.Total, 2)
	})
}

func TestAnotherPlanWaitsForWhatIsAtWork(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, other := newRig(t, st("A"), st("B")), newRig(t, st("X"))
		r.o.Open = func(context.Context, Settings) (plan.Tracker, error) { return other.tracker(), nil }
		l := r.make()
		done := make(chan Outcome, 1)
		go func() { done <- l.Run(t.Context()) }()
		time.Sleep(30 * time.Second)
		s := r.o.Settings
		s.Plan = "other.json"
		if err := l.Replan(s); err != nil {
			t.Fatal(err)
		}
		out := <-done
		want(t, "status", out.Status, feature.Completed)
		want(t, "worked", r.worked(), "A/1 X/1") // A to its end, B not at all
		want(t, "merged", r.merged["A"], 1)
		want(t, "in the plan that was left", r.status()["A"], plan.Done)
		want(t, "in the plan that was left", r.status()["B"], plan.Pending)
		want(t, "in the other", other.status()["X"], plan.Done)
	})
}

func TestWhyTasksFailed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B"))
		r.acts["A"] = []act{func(context.Context, Order) Report { return Report{Status: "failed", Problem: "there is no compiler"} }}
		for range 5 {
			r.acts["A"] = append(r.acts["A"], r.acts["A"][0])
		}
		out := r.run()
		want(t, "failed", strings.Join(out.Failed, " "), "A")
		if len(out.Why) != 1 {
			t.Fatalf("why: %q", out.Why)
		}
		contains(t, "why", out.Why[0], "there is no compiler")
	})
}
