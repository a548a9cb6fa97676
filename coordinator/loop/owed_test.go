package loop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ralph/coordinator/plan"
	"ralph/memory/feature"
)

// diesAt runs until a place is reached, and kills the process there.
func (r *rig) diesAt(place string) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	var kept *world
	r.at = func(where string) {
		if kept == nil && where == place {
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
		r.t.Fatalf("it never came to %q", place)
	}
	r.restore(*kept)
}

// TestWordAfterTheLastMark: Ralph is killed beside the moment at which the plan is
// told what a task came to, before its snapshot knows that it was. What a human then
// writes into the plan counts, and what nobody wrote is not taken for a human's.
func TestWordAfterTheLastMark(t *testing.T) {
	set := func(key string, value any) func(map[string]any) {
		return func(s map[string]any) { s[key] = value }
	}
	reopen := func(s map[string]any) {
		s["passes"] = false
		delete(s, "status")
	}
	given := []act{badCheck, badCheck, badCheck, badCheck, well} // of an attempt after it was opened again, the first
	for _, c := range []struct {
		name, place string
		acts        []act
		edit        func(map[string]any)
		worked      string
		status      plan.Status
	}{
		{"done, and nobody said anything", "after mark A done", nil, nil, "A/1 B/1", plan.Done},
		{"done, and the plan not told", "before mark A done", nil, nil, "A/1 B/1", plan.Done},
		{"opened again", "after mark A done", nil, reopen, "A/1 A/1 B/1", plan.Done},
		{"opened again as something else", "after mark A done", nil, func(s map[string]any) { reopen(s); s["title"] = "other" }, "A/1 A/1 B/1", plan.Done},
		{"named otherwise once it was done", "after mark A done", nil, set("title", "other"), "A/1 B/1", plan.Done},
		{"changed before the plan was told", "before mark A done", nil, set("description", "more of it"), "A/1 A/1 B/1", plan.Done},
		{"opened before the plan was told", "before mark A done", nil, func(s map[string]any) { s["status"] = "open" }, "A/1 A/1 B/1", plan.Done},
		{"given up, and nobody said anything", "after mark A failed", given, nil, "A/1 A/2 A/3 A/4", plan.Pending},
		{"given up, and the plan not told", "before mark A failed", given, nil, "A/1 A/2 A/3 A/4", plan.Pending},
		{"given up, then explained", "after mark A failed", given, set("description", "how to"), "A/1 A/2 A/3 A/4 A/1 A/2 A/3 A/4 A/5 B/1", plan.Done},
		{"given up, and explained before the plan was told", "before mark A failed", given, set("description", "how to"), "A/1 A/2 A/3 A/4 A/1 A/2 A/3 A/4 A/5 B/1", plan.Done},
		{"given up, then done by hand", "after mark A failed", given, func(s map[string]any) { s["passes"], s["status"] = true, "done" }, "A/1 A/2 A/3 A/4 B/1", plan.Done},
		{"given up, then done by hand before the plan was told", "before mark A failed", given, func(s map[string]any) { s["passes"], s["status"] = true, "done" }, "A/1 A/2 A/3 A/4 B/1", plan.Done},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, st("A"), st("B", "A"))
				if c.acts != nil {
					r.acts["A"] = c.acts
				}
				r.diesAt(c.place)
				if c.edit != nil {
					r.edit(func(list []map[string]any) []map[string]any { c.edit(at(list, "A")); return list })
				}
				if c.acts != nil && strings.Count(c.worked, "A/1") > 1 {
					r.o.Settings.Retries = 5
				}
				out := r.resume()
				wanted := feature.Completed
				if c.status != plan.Done {
					wanted = feature.Failed
				}
				want(t, "status", out.Status, wanted)
				want(t, "worked", r.worked(), c.worked)
				want(t, "in the plan", r.status()["A"], c.status)
				merged := strings.Count(c.worked, "A/1")
				if c.acts != nil {
					merged = strings.Count(c.worked, "A/5")
				}
				want(t, "merged", r.merged["A"], merged)
			})
		})
	}
}

// TestRemovedWhileCutOff: what was being worked when Ralph was killed, or stopped, and
// is not in the plan any more, has an end, and whoever knows where its work is hears
// of it.
func TestRemovedWhileCutOff(t *testing.T) {
	for _, place := range []string{"begin B", ""} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, st("A"), st("B"), st("C"))
			if place != "" {
				r.diesAt(place)
			} else {
				ctx, cancel := context.WithCancel(t.Context())
				_, end := r.going(ctx)
				time.Sleep(90 * time.Second)
				cancel()
				want(t, "stopped", end().Status, feature.Interrupted)
			}
			r.edit(func(list []map[string]any) []map[string]any {
				return slices.DeleteFunc(list, func(s map[string]any) bool { return s["id"] == "B" })
			})
			told := ""
			r.o.Left = func(o Order, why string) {
				told += fmt.Sprintf("%d %s %s %s: %s", o.Iteration, o.Task.ID, o.Task.Title, o.Resume, why)
			}
			out := r.resume()
			want(t, "status", out.Status, feature.Completed)
			want(t, "done", strings.Join(out.Done, " "), "A C")
			if place != "" { // its agent had no name yet
				want(t, "told", told, "2 B do B : it was taken out of the plan while its work was cut off")
			} else {
				want(t, "told", told, "2 B do B a_b_2: it was taken out of the plan while its work was cut off")
			}
			for _, it := range r.last().Iterations {
				if it.TaskID == "B" {
					want(t, "its iteration", it.Status, string(endGone))
				}
			}
			if v := r.loop.View(); v.Recovery == nil || !strings.Contains(v.Recovery.Lost, "task B is not in the plan any more") {
				t.Errorf("recovery: %+v", v.Recovery)
			}
			told = ""
			r.resume()
			want(t, "told again", told, "")
		})
	}
}
