package loop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ralph/coordinator/permission"

	"ralph/coordinator/plan"
	"ralph/memory/feature"
	"ralph/memory/session/folder"
	"ralph/workers/agent"
)

const phased = `name: P
phases:
  - {id: discovery, name: Discovery}
  - {id: writing, name: Writing}
tasks:
  - {task_id: find, name: Find, phase: discovery, description: look, priority_score: 0.2}
  - {task_id: list, name: List, phase: discovery, description: look, priority_score: 0.1}
  - {task_id: write, name: Write, phase: Writing, description: write, priority_score: 0.9}
milestones:
  - {name: All found, tasks: [find, list]}
  - {name: Writing complete}
  - {name: All of it, target: 2026-12-01}
quality_gates:
  - {name: enough, metric: features_discovered, operator: ">=", threshold: 50, phase: discovery}
  - {name: sound, condition: error_rate < 0.5}
  - {name: tests, check: go test ./...}
`

func TestPhasesGatesMilestones(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"))
		r.yaml(phased)
		found := 30
		r.o.Settings.Parallel = 3
		r.o.Settings.HumanIntervention = askError
		r.o.Features = func() (int, int) { return found, 0 }
		var asked []string
		r.o.Ask = func(_ context.Context, q permission.Question) (string, error) {
			asked = append(asked, q.Kind+": "+q.Text)
			found = 60
			return "retry", nil
		}
		out := r.run()
		want(t, "status", out.Status, feature.Completed)
		want(t, "worked", r.worked(), "find/1 list/1 write/1")
		if len(asked) != 1 || !strings.Contains(asked[0], "features_discovered is 30, to be >= 50") {
			t.Errorf("asked: %q", asked)
		}
		want(t, "checks", strings.Join(plan.Commands(r.orders[0].Checks), ","), "go test ./...")
		s := r.last()
		var phases []string
		for _, p := range s.Phases {
			phases = append(phases, p.ID+" "+p.Status)
			if p.StartedAt == nil || p.EndedAt == nil {
				t.Errorf("phase %s has no times", p.ID)
			}
		}
		want(t, "phases", strings.Join(phases, ", "), "discovery completed, writing completed")
		d := r.data()
		want(t, "phase", d.Progress.Progress.CurrentPhase, 2)
		want(t, "phase name", d.Progress.Progress.PhaseName, "Writing")
		want(t, "phase progress", d.Progress.Progress.PhaseProgress, 100.0)
		for _, m := range d.Progress.Milestones {
			want(t, m.Name, m.Achieved, true)
		}
		want(t, "milestones", len(d.Progress.Milestones), 3)
		want(t, "gates", len(d.Progress.QualityGates), 3)
		for _, g := range d.Progress.QualityGates {
			want(t, g.Name, g.Is(true), true)
		}
		want(t, "phase ends", d.Log.ByType[folder.PhaseComplete], 2)
		// At each phase transition a snapshot was kept.
		seen := map[string]bool{}
		for _, s := range r.saves {
			seen[s.Phase] = true
		}
		want(t, "phases kept", len(seen), 2)
	})
}

func TestGateFails(t *testing.T) {
	for mode, status := range map[string]feature.Status{AskNever: feature.Failed, askFirst: feature.Paused} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, st("A"))
			r.yaml("name: P\ntasks:\n  - {task_id: a, name: A, description: d, check: make}\nquality_gates:\n  - {name: tests, check: go test ./...}\n")
			r.checks["go test ./..."] = 1
			r.o.Settings.HumanIntervention = mode
			out := r.run()
			want(t, mode+": status", out.Status, status)
			contains(t, "reason", out.Reason, `quality gate "tests" failed: "go test ./..." failed with exit code 1`)
			want(t, "done", len(out.Done), 1)
			r.checks["go test ./..."] = 0
			if status == feature.Paused {
				out = r.resume()
				want(t, "status", out.Status, feature.Completed)
				want(t, "worked", r.worked(), "a/1")
			}
		})
	}
}

func TestBreakerActions(t *testing.T) {
	for _, c := range []struct {
		action, condition string
		status            feature.Status
		question          string
		worked            string
	}{
		{"pause_and_request_help", "errors >= 2", feature.Paused, askBreaker, "a/1 a/2"},
		{"pause_and_review", "errors >= 2", feature.Paused, askBreaker, "a/1 a/2"},
		{"pause_and_review_methodology", "check_failures >= 2", feature.Paused, askBreaker, "a/1 a/2"},
		{"alert_and_continue", "errors >= 2", feature.Failed, "", "a/1 a/2 a/3 a/4 b/1"},
		{"adjust_prompt_and_retry", "errors >= 4", feature.Failed, "", "a/1 a/2 a/3 a/4 a/5 b/1"},
	} {
		t.Run(c.action, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, st("A"))
				r.yaml(fmt.Sprintf("name: P\ntasks:\n  - {task_id: a, name: A, description: d, check: make, priority_score: 0.9}\n  - {task_id: b, name: B, description: d, check: make}\n"+
					"circuit_breaker:\n  triggers:\n    - {condition: '%s', action: %s}\n", c.condition, c.action))
				r.acts["a"] = []act{badCheck}
				r.o.Settings.HumanIntervention = askFirst
				out := r.run()
				want(t, "status", out.Status, c.status)
				want(t, "worked", r.worked(), c.worked)
				d := r.data()
				if len(d.Trips) == 0 || d.Trips[0].ActionTaken != c.action || d.Trips[0].Condition != c.condition {
					t.Errorf("trips: %+v", d.Trips)
				}
				if c.question != "" && (out.Question == nil || out.Question.Kind != c.question) {
					t.Errorf("question: %+v", out.Question)
				}
				if c.action == "adjust_prompt_and_retry" {
					contains(t, "prompt", r.orders[4].Prompt, "take a different way")
				}
				if c.question == "" {
					return
				}
				// To resume it is the word of a human: what failed gets its other attempts.
				r.acts["a"] = nil
				out = r.resume()
				want(t, "status", out.Status, feature.Completed)
			})
		})
	}
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name, limit string
		set         func(*Settings)
		worked      string
	}{
		{"iterations", limitIterations, func(s *Settings) { s.MaxIterations = 2 }, "A/1 B/1"},
		{"tokens", limitTokens, func(s *Settings) { s.MaxTokens = 30 }, "A/1 B/1"},
		{"turns", limitTurns, func(s *Settings) { s.MaxTurns = 3 }, "A/1 B/1"},
		{"cost", "", func(s *Settings) { s.MaxCostUSD = 0.10 }, "A/1"}, // no price is known
		{"time", limitTime, func(s *Settings) { s.Timeout = 90 * time.Second }, "A/1 B/1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, st("A"), st("B"), st("C"))
				before := r.o.Settings
				c.set(&r.o.Settings)
				out := r.run()
				want(t, "status", out.Status, feature.Paused)
				want(t, "limit", out.Limit, c.limit)
				want(t, "worked", r.worked(), c.worked)
				if unknown := new(agent.LimitError); (c.limit == "") != (errors.As(out.Err, &unknown) && unknown.Unknown) {
					t.Errorf("the error is %v", out.Err)
				}
				if !strings.Contains(strings.Join(out.Open, " "), "C") {
					t.Errorf("open: %v", out.Open)
				}
				// It is kept as used up; the time is that of one process.
				out = r.resume()
				if c.limit == limitTime {
					c.worked += " B/1 C/1"
				}
				want(t, "limit of the second", out.Limit, c.limit)
				want(t, "worked by the second", r.worked(), c.worked)
				r.o.Settings = before
				out = r.resume()
				want(t, "status of the third", out.Status, feature.Completed)
				want(t, "iterations", out.Iterations, 3)
			})
		})
	}
}

// TestLimitWhileAtWork begins nothing once a limit of the whole run is used up by
// what is at work: that ends without being to blame, and goes on when the run does.
// An attempt that uses up its own turns has failed, and the next task begins.
func TestLimitWhileAtWork(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B"), st("C"), st("D"), st("E"), st("F"))
		r.o.Settings.Parallel = 2
		used := &agent.LimitError{What: limitTurns, Used: "3", Max: "3", Flag: "--max-turns"}
		var out atomic.Bool
		r.o.Exhausted = func() error {
			if out.Load() {
				return used
			}
			return nil
		}
		r.acts["A"] = []act{func(context.Context, Order) Report {
			out.Store(true)
			return Report{Status: saidFailed, Problem: used.Error(), Err: used, Turns: 1}
		}}
		r.acts["B"] = r.acts["A"]
		got := r.run()
		want(t, "status", got.Status, feature.Paused)
		want(t, "limit", got.Limit, limitTurns)
		begun := r.worked()
		want(t, "begun, in any order", begun == "A/1 B/1" || begun == "B/1 A/1", true)
		want(t, "open", len(got.Open), 6)
		want(t, "errors", len(r.data().Failures), 0)
		out.Store(false)
		r.acts, r.o.Settings.Parallel = map[string][]act{}, 1
		got = r.resume()
		want(t, "status after more is given", got.Status, feature.Completed)
		want(t, "attempts", r.worked(), begun+" A/1 B/1 C/1 D/1 E/1 F/1")
	})
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B"))
		r.o.Settings.Retries = -1
		own := &agent.LimitError{What: limitTurns, Used: "200", Max: "200", Flag: "--max-turns"}
		r.acts["A"] = []act{func(context.Context, Order) Report {
			return Report{Status: saidFailed, Problem: own.Error(), Err: own, Kind: "execution"}
		}}
		out := r.run()
		want(t, "failed", strings.Join(out.Failed, " "), "A")
		want(t, "done", strings.Join(out.Done, " "), "B")
	})
}

func TestLimitWithNothingLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B"))
		r.o.Settings.MaxIterations, r.o.Settings.MaxTokens = 2, 30
		want(t, "status", r.run().Status, feature.Completed)
	})
}

// flaky is a tracker whose Mark fails for a while.
type flaky struct {
	plan.Tracker
	fails int
}

func (f *flaky) Mark(ctx context.Context, id string, m plan.Mark) error {
	if f.fails > 0 {
		f.fails--
		return errors.New("bd: exit status 1")
	}
	return f.Tracker.Mark(ctx, id, m)
}

func TestMarkFails(t *testing.T) {
	for _, n := range []int{1, 2, 50} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, st("A"), st("B", "A"))
			tr := &flaky{Tracker: r.tracker()}
			r.o.Tracker = tr
			r.o.Settings.HumanIntervention = askFirst
			r.acts["A"] = []act{func(ctx context.Context, o Order) Report { tr.fails = n; return well(ctx, o) }}
			out := r.run()
			if n < 3 {
				want(t, "status", out.Status, feature.Completed)
				want(t, "worked", r.worked(), "A/1 B/1")
				return
			}
			want(t, "status", out.Status, feature.Paused)
			if out.Err == nil {
				t.Error("that the plan does not know is no error")
			}
			want(t, "in the plan", r.status()["A"], plan.InProgress)
			tr.fails = 0
			out = r.resume()
			want(t, "status", out.Status, feature.Completed)
			want(t, "worked", r.worked(), "A/1 B/1")
			want(t, "merged", r.merged["A"], 1)
		})
	}
}

func TestSaveFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B"), st("C"), st("D"))
		r.o.Settings.HumanIntervention = askFirst
		r.onSave = func(n int, _ feature.Snapshot) error {
			if n >= 3 {
				return errors.New("no space left on device")
			}
			return nil
		}
		out := r.make().Run(t.Context())
		want(t, "status", out.Status, feature.Paused)
		if out.Question == nil || out.Question.Kind != askSave {
			t.Errorf("question: %+v", out.Question)
		}
		if n := len(r.orders); n > 3 {
			t.Errorf("%d attempts began although nothing is kept", n)
		}
	})
}

func TestNothingToDo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := st("A")
		a.Passes = true
		r := newRig(t, a)
		out := r.run()
		want(t, "status", out.Status, feature.Completed)
		want(t, "verified", out.Verified, false)
		r.write(`{"project":"p","userStories":[]}`)
		out = r.make().Run(t.Context())
		want(t, "empty plan", out.Status, feature.Failed)
		if !errors.Is(out.Err, plan.ErrEmpty) {
			t.Errorf("empty plan: %v", out.Err)
		}
	})
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B"))
		r.o.Settings.Select = `id == "X"`
		out := r.run()
		want(t, "status", out.Status, feature.Failed)
		contains(t, "reason", out.Reason, "no task of the plan is selected")
		r.o.Settings.Select, r.o.Settings.Epics = "", []string{"E-1"}
		out = r.make().Run(t.Context())
		if out.Err == nil || !strings.Contains(out.Reason, "E-1") {
			t.Errorf("unknown epic: %+v", out)
		}
	})
}

func TestSelectAndWhatIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b, c := st("A"), st("B", "A"), st("C")
		b.Labels, c.Labels = []string{"x"}, []string{"x"}
		r := newRig(t, a, b, c)
		r.o.Settings.Select = `"x" in labels`
		steps, err := r.make().Preview(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var text []string
		for _, s := range steps {
			text = append(text, fmt.Sprintf("%d %s %q", s.Order, s.ID, s.Left))
		}
		want(t, "preview", strings.Join(text, "; "), `1 C ""; 2 B "needs A, which is not part of this run"`)
		want(t, "saved by a preview", len(r.saves), 0)
		out := r.run()
		want(t, "status", out.Status, feature.Failed)
		want(t, "worked", r.worked(), "C/1")
		contains(t, "reason", out.Reason, "B needs A, which is not part of this run")
	})
}

func TestBadSettings(t *testing.T) {
	r := newRig(t, st("A"))
	r.folder, _ = folder.Open(folder.Options{FS: r.files, Dir: "/s"})
	for name, change := range map[string]func(*Settings){
		"select":   func(s *Settings) { s.Select = "nope > 1" },
		"mode":     func(s *Settings) { s.HumanIntervention = "sometimes" },
		"on error": func(s *Settings) { s.OnError = "panic" },
		"parallel": func(s *Settings) { s.Parallel = -1 },
		"rate":     func(s *Settings) { s.LearningRate = 2 },
	} {
		o := r.o
		o.Tracker, o.Hands, o.Files, o.Save = r.tracker(), r, r.folder, r.save
		change(&o.Settings)
		if _, err := New(o); err == nil {
			t.Errorf("%s: it was taken", name)
		}
	}
	// A condition of the plan that does not compile is known before anything begins.
	r.yaml("name: P\ntasks:\n  - {task_id: a, name: A, description: d}\ncircuit_breaker:\n  triggers:\n    - {condition: 'nope > 1', action: alert_and_continue}\n")
	out := r.make().Run(t.Context())
	if out.Err == nil || len(r.orders) > 0 || len(r.saves) > 0 {
		t.Errorf("a bad trigger: %+v", out)
	}
}

func TestPanickingHands(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B"))
		r.acts["A"] = []act{func(context.Context, Order) Report { panic("boom") }, well}
		out := r.run()
		want(t, "status", out.Status, feature.Completed)
		want(t, "worked", r.worked(), "A/1 B/1 A/2")
	})
}
