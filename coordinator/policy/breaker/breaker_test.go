package breaker_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"ralph/coordinator/policy/breaker"
	"ralph/coordinator/policy/condition"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func after(d time.Duration) time.Time { return t0.Add(d) }

func open(t *testing.T, s breaker.Settings, triggers []breaker.Trigger, from breaker.State) *breaker.Breaker {
	t.Helper()
	b, err := breaker.New(s, triggers, from)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func allow(t *testing.T, b *breaker.Breaker, now time.Time, task string, want bool, wait time.Duration) {
	t.Helper()
	if ok, w := b.Allow(now, task); ok != want || w != wait {
		t.Fatalf("allow %s: %v after %v, want %v after %v", task, ok, w, want, wait)
	}
}

func stands(t *testing.T, b *breaker.Breaker, now time.Time, want breaker.Position) {
	t.Helper()
	if got := b.Position(now); got != want {
		t.Fatalf("it is %s, want %s", got, want)
	}
}

var calm = condition.Metrics{Confidence: 1}

func fail(task string) breaker.Result { return breaker.Result{Task: task, Ended: true} }
func done(task string) breaker.Result { return breaker.Result{Task: task, OK: true, Ended: true} }

func TestThresholdRecoveryProbes(t *testing.T) {
	b := open(t, breaker.Settings{}, nil, breaker.State{})
	for i := range 4 {
		if trips := b.Record(t0, fail("a"), calm); trips != nil {
			t.Fatalf("failure %d: %v", i+1, trips)
		}
	}
	b.Record(t0, done("b"), calm) // the row is broken
	for range 4 {
		b.Record(t0, fail("a"), calm)
	}
	b.Record(t0, breaker.Result{Task: "q", Void: true}, calm) // counts neither way
	stands(t, b, t0, breaker.Closed)
	trips := b.Record(t0, fail("a"), calm)
	if len(trips) != 1 || !trips[0].Opened || trips[0].Held || trips[0].Action != breaker.AlertAndContinue || !trips[0].At.Equal(t0) {
		t.Fatalf("the fifth in a row: %+v", trips)
	}
	stands(t, b, t0, breaker.Open)
	allow(t, b, t0, "c", false, 60*time.Second)
	allow(t, b, after(59*time.Second), "c", false, time.Second)
	stands(t, b, after(59*time.Second), breaker.Open)
	stands(t, b, after(60*time.Second), breaker.HalfOpen)
	now := after(60 * time.Second)
	for _, task := range []string{"c", "d", "e"} {
		allow(t, b, now, task, true, 0)
	}
	allow(t, b, now, "f", false, 0) // three probes and no more
	b.Record(now, done("old"), calm)
	b.Record(now, fail("older"), calm) // they began before it opened
	b.Record(now, done("c"), calm)
	b.Record(now, done("d"), calm)
	stands(t, b, now, breaker.HalfOpen)
	allow(t, b, now, "f", false, 0)
	b.Record(now, breaker.Result{Task: "e", Void: true}, calm) // gives its probe back
	allow(t, b, now, "f", true, 0)
	b.Record(now, done("f"), calm)
	stands(t, b, now, breaker.Closed)
	if d := cmp.Diff(breaker.State{Position: breaker.Closed}, b.State()); d != "" {
		t.Error(d)
	}
	allow(t, b, now, "g", true, 0)
}

func TestAFailedProbeOpensAgain(t *testing.T) {
	b := open(t, breaker.Settings{Threshold: 2, Recovery: time.Second, Probes: 1}, nil, breaker.State{})
	b.Record(t0, fail("a"), calm)
	b.Record(t0, fail("a"), calm)
	now := after(time.Second)
	allow(t, b, now, "p", true, 0)
	trips := b.Record(now, fail("p"), calm)
	if len(trips) != 1 || !trips[0].Opened || trips[0].Held || !strings.Contains(trips[0].Reason, "p") {
		t.Fatalf("%+v", trips)
	}
	allow(t, b, now, "p", false, time.Second)
	allow(t, b, after(2*time.Second), "p", true, 0)
	b.Record(after(2*time.Second), done("p"), calm)
	stands(t, b, after(2*time.Second), breaker.Closed)
}

func TestTriggers(t *testing.T) {
	for _, c := range []struct {
		action       breaker.Action
		opened, held bool
	}{
		{breaker.PauseAndRequestHelp, true, true}, {breaker.PauseAndReview, true, true}, {breaker.PauseAndReviewMethodology, true, true},
		{breaker.AlertAndContinue, false, false}, {breaker.AdjustPromptAndRetry, false, false},
	} {
		b := open(t, breaker.Settings{}, []breaker.Trigger{{Condition: "error_rate > 0.5", Action: c.action}}, breaker.State{})
		if trips := b.Record(t0, done("a"), condition.Metrics{ErrorRate: .5}); trips != nil {
			t.Fatalf("%s: %v", c.action, trips)
		}
		trips := b.Record(t0, done("b"), condition.Metrics{ErrorRate: .6})
		if len(trips) != 1 || trips[0].Opened != c.opened || trips[0].Held != c.held || trips[0].Action != c.action || trips[0].Condition != "error_rate > 0.5" || c.action.Pauses() != c.opened {
			t.Fatalf("%s: %+v", c.action, trips)
		}
		if b.Held() != c.held {
			t.Fatalf("%s: held %v", c.action, b.Held())
		}
		if trips := b.Record(t0, done("c"), condition.Metrics{ErrorRate: .7}); trips != nil {
			t.Fatalf("%s: fired again while it still holds: %+v", c.action, trips)
		}
		b.Record(t0, done("d"), condition.Metrics{ErrorRate: .1})
		if trips := b.Record(t0, done("e"), condition.Metrics{ErrorRate: .7}); len(trips) != 1 {
			t.Fatalf("%s: did not fire when it held again", c.action)
		}
	}
}

func TestAHeldOneWaitsForAHuman(t *testing.T) {
	triggers := []breaker.Trigger{{Condition: "check_failures >= 1", Action: breaker.PauseAndRequestHelp}}
	b := open(t, breaker.Settings{Probes: 1}, triggers, breaker.State{})
	bad := condition.Metrics{CheckFailures: 1}
	b.Record(t0, fail("a"), bad)
	allow(t, b, after(time.Hour), "b", false, 0)
	stands(t, b, after(time.Hour), breaker.Open)
	b.Resume()
	stands(t, b, after(time.Hour), breaker.HalfOpen)
	allow(t, b, after(time.Hour), "b", true, 0)
	trips := b.Record(after(time.Hour), fail("b"), bad)
	if len(trips) != 1 || !trips[0].Held || trips[0].Condition != "check_failures >= 1" || !b.Held() {
		t.Fatalf("after a failed probe: %+v", trips)
	}
	b.Resume()
	allow(t, b, after(time.Hour), "b", true, 0)
	if trips := b.Record(after(time.Hour), done("b"), bad); trips != nil {
		t.Fatalf("what a human let go on stopped again: %+v", trips)
	}
	stands(t, b, after(time.Hour), breaker.Closed)

	alone := open(t, breaker.Settings{Alone: true}, triggers, breaker.State{})
	alone.Record(t0, fail("a"), bad)
	allow(t, alone, t0, "b", false, time.Minute)
	allow(t, alone, after(time.Minute), "b", true, 0)
}

func TestConsecutive(t *testing.T) {
	const source = "confidence < 0.3 for 3 consecutive tasks"
	type step struct {
		r          breaker.Result
		confidence float64
		fires      bool
	}
	retry := func(task string) breaker.Result { return breaker.Result{Task: task} }
	for name, steps := range map[string][]step{
		"three tasks":                    {{done("a"), .2, false}, {done("b"), .2, false}, {done("c"), .2, true}},
		"the row is broken":              {{done("a"), .2, false}, {done("b"), .3, false}, {done("c"), .2, false}, {done("d"), .2, false}, {done("e"), .1, true}},
		"attempts are not tasks":         {{retry("a"), .2, false}, {retry("a"), .2, false}, {retry("a"), .2, false}, {done("a"), .2, false}, {done("b"), .2, false}, {done("c"), .2, true}},
		"one task is counted once":       {{fail("a"), .2, false}, {fail("a"), .2, false}, {fail("a"), .2, false}, {done("b"), .2, false}, {done("c"), .2, true}},
		"void ones are not counted":      {{done("a"), .2, false}, {breaker.Result{Task: "v", Ended: true, Void: true}, .9, false}, {done("b"), .2, false}, {done("c"), .2, true}},
		"then it begins anew":            {{done("a"), .2, false}, {done("b"), .2, false}, {done("c"), .2, true}, {done("d"), .2, false}, {done("e"), .2, false}, {done("f"), .2, true}},
		"the last word of a task counts": {{done("a"), .2, false}, {done("b"), .2, false}, {done("b"), .9, false}, {done("c"), .2, false}},
	} {
		b := open(t, breaker.Settings{Threshold: 100}, []breaker.Trigger{{Condition: source, Action: breaker.AlertAndContinue}}, breaker.State{})
		for i, s := range steps {
			if trips := b.Record(t0, s.r, condition.Metrics{Confidence: s.confidence}); (len(trips) > 0) != s.fires {
				t.Errorf("%s: step %d: %+v", name, i+1, trips)
			}
		}
	}
	b := open(t, breaker.Settings{}, []breaker.Trigger{{Condition: "errors > 0 for 2 consecutive attempts", Action: breaker.AlertAndContinue}, {Condition: "retries > 0 for 2 consecutive checks", Action: breaker.AlertAndContinue}}, breaker.State{})
	m := condition.Metrics{Errors: 1, Retries: 1}
	var fired []string
	for i, r := range []breaker.Result{{Task: "a", Checked: true}, {Task: "a"}, {Task: "a", Checked: true}} {
		for _, trip := range b.Record(t0, r, m) {
			fired = append(fired, fmt.Sprint(i, " ", trip.Condition))
		}
	}
	if d := cmp.Diff([]string{"1 errors > 0 for 2 consecutive attempts", "2 retries > 0 for 2 consecutive checks"}, fired); d != "" {
		t.Error(d)
	}
}

func TestRefusals(t *testing.T) {
	low := condition.Metrics{Confidence: .1}
	b := open(t, breaker.Settings{}, breaker.Defaults(), breaker.State{})
	for i := range 2 {
		if trips := b.Refused(t0, "a", low); trips != nil {
			t.Fatalf("refusal %d: %+v", i+1, trips)
		}
	}
	trips := b.Refused(t0, "a", low)
	if len(trips) != 1 || !trips[0].Held || trips[0].Action != breaker.PauseAndRequestHelp || !b.Held() {
		t.Fatalf("the same task three times: %+v", trips)
	}
	b = open(t, breaker.Settings{}, breaker.Defaults(), breaker.State{})
	b.Refused(t0, "a", low)
	b.Refused(t0, "b", low)
	if trips := b.Refused(t0, "c", low); len(trips) != 1 || trips[0].Condition != breaker.Defaults()[0].Condition {
		t.Fatalf("three tasks: %+v", trips)
	}
	b = open(t, breaker.Settings{}, nil, breaker.State{})
	b.Refused(t0, "a", low)
	b.Refused(t0, "b", low)
	b.Record(t0, done("c"), calm)
	if trips := b.Refused(t0, "d", low); trips != nil {
		t.Fatalf("not in a row: %+v", trips)
	}
}

func TestNoProgress(t *testing.T) {
	b := open(t, breaker.Settings{}, breaker.Defaults(), breaker.State{})
	for i, want := range []int{0, 0, 1} {
		if trips := b.Record(t0, done("a"), condition.Metrics{Confidence: 1, NoProgress: i + 1}); len(trips) != want {
			t.Fatalf("%d without progress: %+v", i+1, trips)
		}
	}
}

func TestAnErroredTriggerIsToldOnce(t *testing.T) {
	b := open(t, breaker.Settings{}, []breaker.Trigger{{Condition: "tasks_failed / tasks_done > 0.5", Action: breaker.PauseAndReview}}, breaker.State{})
	trips := b.Record(t0, done("a"), calm)
	if len(trips) != 1 || trips[0].Opened || trips[0].Action != breaker.AlertAndContinue || !strings.Contains(trips[0].Reason, "division by zero") {
		t.Fatalf("%+v", trips)
	}
	if trips := b.Record(t0, done("b"), calm); trips != nil {
		t.Fatalf("told twice: %+v", trips)
	}
	if trips := b.Record(t0, done("b"), condition.Metrics{TasksDone: 1, TasksFailed: 1}); len(trips) != 1 || !trips[0].Opened {
		t.Fatalf("%+v", trips)
	}
}

func TestWhatNewRefuses(t *testing.T) {
	_, err := breaker.New(breaker.Settings{}, []breaker.Trigger{{Condition: "eror_rate > 1", Action: breaker.PauseAndReview}}, breaker.State{})
	if e, ok := errors.AsType[*condition.Error](err); !ok || e.Hint != "did you mean error_rate?" {
		t.Errorf("%v", err)
	}
	_, err = breaker.New(breaker.Settings{}, []breaker.Trigger{{Condition: "error_rate > 1", Action: "panic"}}, breaker.State{})
	if err == nil || !strings.Contains(err.Error(), "pause_and_review_methodology") {
		t.Errorf("%v", err)
	}
	if _, err = breaker.New(breaker.Settings{}, nil, breaker.State{Position: "ajar"}); err == nil {
		t.Error("an unknown position was taken")
	}
	b := open(t, breaker.Settings{}, []breaker.Trigger{{Condition: "error_rate > 1", Action: " Pause_And_Review "}}, breaker.State{Failures: -3, Counts: map[string]breaker.Run{"gone": {N: 2}}})
	if s := b.State(); s.Failures != 0 || len(s.Counts) != 0 {
		t.Errorf("%+v", s)
	}
}

func TestGates(t *testing.T) {
	for _, c := range []struct {
		source string
		m      condition.Metrics
		want   string
	}{
		{"features_discovered >= 50", condition.Metrics{FeaturesDiscovered: 50}, "passed"},
		{"features_discovered >= 50", condition.Metrics{FeaturesDiscovered: 49}, "failed"},
		{"cost_usd / tasks_done < 1", condition.Metrics{}, "errored"},
		{"cost_usd / tasks_done < 1", condition.Metrics{TasksDone: 3, CostUSD: 2}, "passed"},
	} {
		g, err := breaker.NewGate("g", c.source)
		if err != nil {
			t.Fatal(err)
		}
		r := g.Eval(c.m)
		if r.Status != c.want || r.Passed() != (c.want == "passed") || (r.Error != "") != (c.want == "errored") || r.Name != "g" || r.Condition != c.source {
			t.Errorf("%+v, want %s", r, c.want)
		}
	}
	for _, source := range []string{"features_dicovered > 1", "confidence < 1 for 2 consecutive tasks", ""} {
		if _, err := breaker.NewGate("g", source); err == nil {
			t.Errorf("%q is a gate", source)
		} else if _, ok := errors.AsType[*condition.Error](err); !ok {
			t.Errorf("%q: %T", source, err)
		}
	}
}

// The machine: whatever is done with it in whatever order, also across restarts
// and with a clock that jumps, it stays within its states, and begins nothing
// that its state does not let.
func TestMachine(t *testing.T) {
	triggers := []breaker.Trigger{
		{Condition: "error_rate > 0.5", Action: breaker.PauseAndReview}, {Condition: "confidence < 0.3 for 2 consecutive tasks", Action: breaker.PauseAndRequestHelp},
		{Condition: "errors / tasks_done > 3", Action: breaker.AdjustPromptAndRetry},
	}
	rapid.Check(t, func(t *rapid.T) {
		s := breaker.Settings{Threshold: rapid.IntRange(0, 4).Draw(t, "threshold"), Recovery: time.Minute, Probes: rapid.IntRange(1, 3).Draw(t, "probes"), Alone: rapid.Bool().Draw(t, "alone")}
		threshold := s.Threshold
		if threshold == 0 {
			threshold = 5
		}
		b, err := breaker.New(s, triggers, breaker.State{})
		if err != nil {
			t.Fatal(err)
		}
		now, row := t0, 0
		task := rapid.SampledFrom([]string{"a", "b", "c"})
		metrics := func() condition.Metrics {
			return condition.Metrics{ErrorRate: rapid.SampledFrom([]float64{0, .6}).Draw(t, "rate"), Confidence: rapid.SampledFrom([]float64{.2, .9}).Draw(t, "confidence"), TasksDone: rapid.IntRange(0, 1).Draw(t, "done")}
		}
		check := func(trips []breaker.Trip, was breaker.Position) {
			opened := false
			for _, trip := range trips {
				opened = opened || trip.Opened
			}
			is := b.State().Position
			if is == breaker.Open && was != breaker.Open && !opened || is == breaker.Closed && was == breaker.Open {
				t.Fatalf("%s → %s with %+v", was, is, trips)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"allow": func(t *rapid.T) {
				was := b.State()
				pos := b.Position(now)
				ok, wait := b.Allow(now, task.Draw(t, "task"))
				if ok && pos == breaker.Open || ok && wait != 0 || pos == breaker.Closed && !ok || wait < 0 || wait > time.Minute || was.Held && !s.Alone && was.Position == breaker.Open && ok {
					t.Fatalf("%v after %v while %s: %+v", ok, wait, pos, was)
				}
			},
			"record": func(t *rapid.T) {
				was := b.State()
				r := breaker.Result{Task: task.Draw(t, "task"), OK: rapid.Bool().Draw(t, "ok"), Ended: rapid.Bool().Draw(t, "ended"), Void: rapid.Bool().Draw(t, "void")}
				trips := b.Record(now, r, metrics())
				check(trips, was.Position)
				switch {
				case r.Void || was.Position != breaker.Closed:
				case r.OK:
					row = 0
				default:
					if row++; row >= threshold && b.State().Position != breaker.Open {
						t.Fatalf("%d failures in a row, and it is %s", row, b.State().Position)
					}
				}
				if b.State().Position != breaker.Closed || was.Position != breaker.Closed && b.State().Position == breaker.Closed {
					row = 0
				}
			},
			"refuse": func(t *rapid.T) {
				was := b.State()
				check(b.Refused(now, task.Draw(t, "task"), metrics()), was.Position)
				if b.State().Position == breaker.Open {
					row = 0
				}
			},
			"resume": func(*rapid.T) { b.Resume(); row = 0 },
			"time":   func(t *rapid.T) { now = now.Add(time.Duration(rapid.IntRange(-90, 90).Draw(t, "s")) * time.Second) },
			"restart": func(t *rapid.T) {
				data, err := json.Marshal(b.State())
				var from breaker.State
				if err != nil || json.Unmarshal(data, &from) != nil {
					t.Fatal(err)
				}
				if b, err = breaker.New(s, triggers, from); err != nil {
					t.Fatal(err)
				}
			},
			"": func(t *rapid.T) {
				st := b.State()
				if st.Position != breaker.Closed && st.Position != breaker.Open && st.Position != breaker.HalfOpen {
					t.Fatalf("it stands at %q", st.Position)
				}
				if len(st.Probing)+st.Succeeded > s.Probes || st.Position != breaker.HalfOpen && (len(st.Probing) > 0 || st.Succeeded > 0) || st.Failures < 0 || st.Refusals > 2 {
					t.Fatalf("%+v", st)
				}
				if st.Position == breaker.Open && st.Cause == nil || st.Position == breaker.Closed && (st.Cause != nil || st.Held) {
					t.Fatalf("%+v", st)
				}
			},
		})
	})
}

// Exactly the N-th in a row fires, and then the next N-th.
func TestConsecutiveProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 5).Draw(t, "n")
		b, err := breaker.New(breaker.Settings{Threshold: 1000}, []breaker.Trigger{{Condition: fmt.Sprintf("confidence < 0.3 for %d consecutive tasks", n), Action: breaker.AlertAndContinue}}, breaker.State{})
		if err != nil {
			t.Fatal(err)
		}
		row := 0
		for i, low := range rapid.SliceOfN(rapid.Bool(), 0, 40).Draw(t, "low") {
			m := condition.Metrics{Confidence: .9}
			want := false
			if low {
				m.Confidence = .2
				row++
				want = row%n == 0
			} else {
				row = 0
			}
			if got := len(b.Record(t0, done(fmt.Sprint(i)), m)) > 0; got != want {
				t.Fatalf("task %d, %d in a row of %d: fired %v", i, row, n, got)
			}
		}
	})
}
