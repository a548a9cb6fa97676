package loop

import (
	"context"
	"strings"
	"testing"
	"time"

	"ralph/coordinator/permission"

	"ralph/coordinator/plan"
	"ralph/coordinator/policy/decide"
	"ralph/memory/feature"
	"ralph/memory/session/folder"
)

func TestStrategies(t *testing.T) {
	for _, c := range []struct {
		name, strategy, fallback string
		mode                     string
		status                   feature.Status
		worked                   string
		failed, skipped          string
		question                 string
	}{
		{name: "skip", strategy: "skip", status: feature.Failed, worked: "A/1 C/1", skipped: "A B"},
		{name: "abort", strategy: "abort", status: feature.Failed, worked: "A/1", failed: "A", skipped: "B"},
		{name: "retry", strategy: "retry", status: feature.Failed, worked: "A/1 C/1 A/2 A/3 A/4", failed: "A", skipped: "B"},
		{name: "alternative", strategy: "alternative", fallback: "codex", status: feature.Failed, worked: "A/1 A/2 C/1 A/3 A/4", failed: "A", skipped: "B"},
		{name: "escalate without a human", strategy: "escalate", mode: askFirst, status: feature.Paused, worked: "A/1", question: askAboutError},
		{name: "escalate and never ask", strategy: "escalate", status: feature.Failed, worked: "A/1 C/1", failed: "A", skipped: "B"},
		{name: "on_error", strategy: "skip", mode: askError, status: feature.Paused, worked: "A/1", question: askAboutError},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, st("A"), st("B", "A"), st("C"))
				r.acts["A"] = []act{broke("execution", "it crashed")}
				r.o.Settings.OnError, r.o.Settings.Fallback = c.strategy, c.fallback
				if c.mode != "" {
					r.o.Settings.HumanIntervention = c.mode
				}
				out := r.run()
				want(t, "status", out.Status, c.status)
				want(t, "worked", r.worked(), c.worked)
				want(t, "failed", strings.Join(out.Failed, " "), c.failed)
				want(t, "skipped", strings.Join(out.Skipped, " "), c.skipped)
				if c.fallback != "" {
					want(t, "second agent", r.ordersOf("A")[1].Agent, c.fallback)
					want(t, "goes on with", r.ordersOf("A")[1].Resume, "")
				}
				if c.question != "" && (out.Question == nil || out.Question.Kind != c.question || out.Question.TaskID != "A") {
					t.Errorf("question: %+v", out.Question)
				}
			})
		})
	}
}

func TestQuotaWaitsAndGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B"))
		limited := func(context.Context, Order) Report {
			return Report{Status: saidFailed, Quota: true, RetryAfter: time.Hour, Problem: "429"}
		}
		calls := 0
		r.acts["A"] = []act{func(ctx context.Context, o Order) Report {
			if calls++; calls == 1 {
				return limited(ctx, o)
			}
			return well(ctx, o)
		}}
		began := time.Now()
		done := make(chan Outcome, 1)
		l := r.make()
		go func() { done <- l.Run(t.Context()) }()
		time.Sleep(10 * time.Minute)
		v := l.View()
		if v.Waiting == nil || v.Waiting.For != "rate_limit" || v.Waiting.Until.Sub(began) < time.Hour {
			t.Errorf("waiting: %+v", v.Waiting)
		}
		out := <-done
		r.agree(out)
		want(t, "status", out.Status, feature.Completed)
		want(t, "worked", r.worked(), "A/1 A/1 B/1")
		want(t, "iterations", out.Iterations, 2)
		if took := time.Since(began); took < time.Hour {
			t.Errorf("it took %s: the limit was not waited for", took)
		}
	})
}

func TestQuotaFallsBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B"))
		r.o.Settings.Agent, r.o.Settings.Fallback, r.o.Settings.Model = "claude", "codex", "opus"
		r.acts["A"] = []act{func(ctx context.Context, o Order) Report {
			if o.Agent == "claude" {
				return Report{Status: saidFailed, Quota: true, RetryAfter: time.Hour}
			}
			return well(ctx, o)
		}}
		began := time.Now()
		out := r.run()
		want(t, "status", out.Status, feature.Completed)
		want(t, "agents", r.orders[0].Agent+" "+r.orders[1].Agent+" "+r.orders[2].Agent, "claude codex codex")
		want(t, "its model", r.orders[1].Model, "")
		want(t, "goes on with", r.orders[1].Resume, "")
		if time.Since(began) > 10*time.Minute {
			t.Error("it waited although there is a fallback")
		}
	})
}

func TestEvidence(t *testing.T) {
	done := Report{Status: saidDone, Declared: true, Verified: true, Landing: landedMerged}
	with := func(change func(*Report)) Report { r := done; change(&r); return r }
	for _, c := range []struct {
		name     string
		r        Report
		require  bool
		end      end
		kind     string
		feedback string
	}{
		{name: "done", r: done, end: endDone},
		{name: "no check, no diff", r: with(func(r *Report) { r.Verified, r.Landing = false, landedUnchanged }), end: endDone},
		{name: "the same with --require-check", r: with(func(r *Report) { r.Verified, r.Landing = false, landedUnchanged }), require: true, end: endFailed, kind: "validation"},
		{name: "not declared", r: with(func(r *Report) { r.Declared = false }), end: endFailed, kind: "execution", feedback: "without saying"},
		{name: "check failed", r: with(func(r *Report) { r.Checks = []CheckRun{{Command: "t", ExitCode: 2, Output: "boom"}} }), end: endFailed, kind: "validation", feedback: "boom"},
		{name: "check hangs", r: with(func(r *Report) { r.Checks = []CheckRun{{Command: "t", TimedOut: true}} }), end: endFailed, kind: "resource", feedback: "did not end"},
		{name: "check weakened", r: with(func(r *Report) { r.Weakened = []string{"a_test.go:3: skipped"} }), end: endFailed, kind: "validation", feedback: "a_test.go:3"},
		{name: "not merged", r: with(func(r *Report) { r.Landing = "" }), end: endFailed, kind: "validation"},
		{name: "conflict", r: with(func(r *Report) { r.Landing = "conflict" }), end: endFailed, kind: "validation"},
		{name: "promised and exited 1", r: with(func(r *Report) { r.Err, r.Kind = errCrash, "execution" }), end: endFailed, kind: "execution"},
		{name: "partial", r: with(func(r *Report) { r.Status = saidPartial }), end: endFailed},
		{name: "asks", r: with(func(r *Report) { r.Status, r.Question = needsInput, "which?" }), end: endQuestion},
		{name: "quota", r: with(func(r *Report) { r.Quota = true }), end: endQuota, kind: "resource"},
		{name: "stopped", r: with(func(r *Report) { r.Status = interrupted }), end: endInterrupted},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := judge(Order{}, c.r, c.require)
			want(t, "end", j.end, c.end)
			if c.kind != "" {
				want(t, "kind", string(j.kind), c.kind)
			}
			contains(t, "feedback", j.feedback, c.feedback)
			if j.end != endDone && j.why == "" {
				t.Error("it does not say why")
			}
		})
	}
}

func TestNoProgressAsksForHelp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B"), st("C"), st("D"), st("E"), st("F"))
		r.o.Settings.HumanIntervention = askFirst
		idle := func(context.Context, Order) Report { return Report{Status: saidFailed, Kind: "execution"} }
		for _, id := range []string{"A", "B", "C", "D", "E", "F"} {
			r.acts[id] = []act{idle}
		}
		out := r.run()
		want(t, "status", out.Status, feature.Paused)
		if out.Question == nil || out.Question.Kind != askBreaker {
			t.Fatalf("question: %+v", out.Question)
		}
		contains(t, "question", out.Question.Text, "no_progress")
		d := r.data()
		want(t, "trips", len(d.Trips), 1)
		want(t, "resolved", d.Trips[0].Resolved, false)
		if n := len(r.orders); n > 5 {
			t.Errorf("%d attempts were made", n)
		}
	})
}

// TestBreakerRecovers opens the breaker by failures in a row: it waits, tries a few,
// and closes.
func TestBreakerRecovers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var list []story
		for _, id := range strings.Split("A B C D E F G H I J K L", " ") {
			list = append(list, st(id))
		}
		r := newRig(t, list...)
		r.o.Settings.OnError, r.takes = "skip", time.Second
		for _, id := range []string{"A", "B", "C", "D", "E", "F", "G", "H"} {
			r.acts[id] = []act{broke("execution", "crash of "+id)}
		}
		r.o.Settings.Parallel = 4
		began := time.Now()
		done := make(chan Outcome, 1)
		l := r.make()
		go func() { done <- l.Run(t.Context()) }()
		time.Sleep(30 * time.Second)
		v := l.View()
		want(t, "breaker", v.Breaker, "open")
		if v.Waiting == nil || v.Waiting.For != "breaker" {
			t.Errorf("waiting: %+v", v.Waiting)
		}
		out := <-done
		r.agree(out)
		if took := time.Since(began); took < time.Minute || took > 2*time.Minute {
			t.Errorf("it took %s", took)
		}
		want(t, "done", len(out.Done), 4)
		d := r.data()
		want(t, "trips", len(d.Trips), 1)
		want(t, "resolved", d.Trips[0].Resolved, true)
		if s := d.Trips[0].DurationSeconds; s < 60 {
			t.Errorf("the trip lasted %v s", s)
		}
	})
}

func TestLowConfidence(t *testing.T) {
	vague := func(id string) func(plan.Task) decide.Facts {
		return func(p plan.Task) decide.Facts {
			if p.ID == id {
				return decide.Facts{Named: []string{"a", "b"}, Missing: []string{"a", "b"}}
			}
			return decide.Facts{Description: true, Criteria: true, Check: true, Bounded: true}
		}
	}
	t.Run("nobody there", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			r := newRig(t, st("A"), st("B"))
			r.facts, r.o.Settings.HumanIntervention = vague("A"), askFirst
			out := r.run()
			want(t, "status", out.Status, feature.Paused)
			if out.Question == nil || out.Question.Kind != askConfidence || out.Question.TaskID != "A" {
				t.Fatalf("question: %+v", out.Question)
			}
			if q := Seen(r.last()).Question; q == nil || q.TaskID != "A" || q.Text != out.Question.Text {
				t.Errorf("the snapshot asks %+v", q)
			}
			want(t, "worked", r.worked(), "")
			want(t, "help", r.folder.Counts().HelpRequests, 1)
			r.o.Settings.HumanIntervention = AskNever
			out = r.resume()
			want(t, "status after never", out.Status, feature.Completed)
		})
	})
	t.Run("a human says how", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			r := newRig(t, st("A"), st("B"))
			r.facts, r.o.Settings.HumanIntervention = vague("A"), askUnsure
			r.o.Ask = func(_ context.Context, q permission.Question) (string, error) {
				time.Sleep(10 * time.Minute) // the others go on meanwhile
				return "use the other library", nil
			}
			out := r.run()
			want(t, "status", out.Status, feature.Completed)
			want(t, "worked", r.worked(), "B/1 A/1")
			contains(t, "prompt", r.orders[1].Prompt, "use the other library")
		})
	})
}

func TestRefusedThreeTimes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B"), st("C"), st("D"))
		r.o.Settings.HumanIntervention = askFirst
		r.facts = func(plan.Task) decide.Facts {
			return decide.Facts{Named: []string{"a"}, Missing: []string{"a"}, Denied: []string{"net"}, Dependencies: 1, Like: 3}
		}
		out := r.run()
		want(t, "status", out.Status, feature.Paused)
		want(t, "worked", r.worked(), "")
		if out.Question == nil {
			t.Fatal("no question")
		}
		t.Log(out.Question.Kind, out.Question.Text)
	})
}

func TestAgentAsks(t *testing.T) {
	asks := func(_ context.Context, o Order) Report {
		return Report{Status: needsInput, Question: "tabs or spaces?", Summary: "asked"}
	}
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B"))
		r.o.Settings.HumanIntervention = askError
		r.acts["A"] = []act{asks, well}
		r.o.Ask = func(_ context.Context, q permission.Question) (string, error) {
			contains(t, "question", q.Text, "tabs or spaces?")
			return "tabs", nil
		}
		out := r.run()
		want(t, "status", out.Status, feature.Completed)
		last := r.ordersOf("A")[1]
		contains(t, "prompt", last.Prompt, "The user answers: tabs")
		want(t, "goes on with", last.Resume, "a_a_1")
	})
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B"))
		r.o.Settings.HumanIntervention = askError
		r.acts["A"] = []act{asks, well}
		out := r.run()
		want(t, "status", out.Status, feature.Paused)
		if out.Question == nil || out.Question.Kind != askAgent {
			t.Fatalf("question: %+v", out.Question)
		}
		want(t, "A in the plan", r.status()["A"], plan.Pending)
		out = r.resume()
		want(t, "status", out.Status, feature.Completed)
		contains(t, "prompt", r.ordersOf("A")[1].Prompt, "was not answered")
	})
}

func TestLearns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, st("A"), st("B"))
		r.run()
		s, _, err := restored(&r.saves[len(r.saves)-1])
		if err != nil {
			t.Fatal(err)
		}
		if _, n := s.History.Like("", implementation, nil); n != 2 {
			t.Errorf("%d outcomes were learned from", n)
		}
		d := r.data()
		want(t, "decisions", len(d.Decisions), 2)
		for _, x := range d.Decisions {
			want(t, "outcome", x.Outcome, "success")
			if len(x.Decision.Alternatives) < 3 {
				t.Errorf("alternatives: %v", x.Decision.Alternatives)
			}
		}
		why, ok := r.loop.Why("A")
		contains(t, "why", why, "clarity")
		want(t, "known", ok, true)
		_, ok = r.loop.Why("X")
		want(t, "unknown", ok, false)
		want(t, "logged", d.Log.ByType[folder.TaskComplete], 2)
	})
}
