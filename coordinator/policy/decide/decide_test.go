package decide_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"ralph/coordinator/policy/decide"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func clear(f decide.Facts) decide.Facts {
	f.Description, f.Criteria, f.Check, f.Bounded = true, true, true, true
	return f
}

func TestConfidence(t *testing.T) {
	two := []string{"make", "src/a.go"}
	for _, c := range []struct {
		name string
		f    decide.Facts
		want float64
	}{
		{"nothing but a title", decide.Facts{}, .3*0 + .2 + .2 + .15 + .15*.5},
		{"one of clarity", decide.Facts{Check: true}, .3*.25 + .2 + .2 + .15 + .15*.5},
		{"exactly the threshold", decide.Facts{Description: true}, .7},
		{"all clear", clear(decide.Facts{}), .3 + .2 + .2 + .15 + .15*.5},
		{"all clear and always good", clear(decide.Facts{History: 1, Like: 3}), 1},
		{"half of what it names is missing", clear(decide.Facts{Named: two, Missing: two[:1]}), .3 + .1 + .2 + .15 + .15*.5},
		{"what is missing is not named", clear(decide.Facts{Named: two, Missing: []string{"other"}}), .3 + .2 + .2 + .15 + .15*.5},
		{"one of four merged", clear(decide.Facts{Dependencies: 4, Merged: 1}), .3 + .2 + .05 + .15 + .15*.5},
		{"denied", clear(decide.Facts{Denied: []string{"network"}}), .3 + .2 + .2 + .15*.3 + .15*.5},
		{"like tasks fail", clear(decide.Facts{History: .2, Like: 9}), .3 + .2 + .2 + .15 + .15*.2},
		{"history without tasks is neutral", clear(decide.Facts{History: .9}), .3 + .2 + .2 + .15 + .15*.5},
		{"the worst", decide.Facts{Named: two, Missing: two, Dependencies: 1, Denied: two, Like: 1}, .15 * .3},
	} {
		s := decide.Confidence(c.f)
		if !near(s.Value, c.want) {
			t.Errorf("%s: %v, want %v\n%s", c.name, s.Value, c.want, s)
		}
	}
	if s := decide.Confidence(decide.Facts{Description: true}); s.Value < .7 {
		t.Errorf("what adds up to .7 is %v", s.Value)
	}
}

func TestSumIsShown(t *testing.T) {
	s := decide.Confidence(decide.Facts{Description: true, Check: true, Named: []string{"make", "x.go"}, Missing: []string{"x.go"}, Dependencies: 2, Merged: 2, Denied: []string{"network"}, History: .6, Like: 4})
	want := `confidence 0.58
  = .30 × 0.50 clarity       has a description, a runnable check; lacks acceptance criteria, bounded files
  + .20 × 0.50 resources     1 of 2 named tools and paths exist; not x.go
  + .20 × 1.00 dependencies  2 of 2 dependencies are merged
  + .15 × 0.30 permission    needs what the sandbox denies: network
  + .15 × 0.60 history       learned from 4 like tasks`
	if d := cmp.Diff(want, s.String()); d != "" {
		t.Error(d)
	}
}

func score(c decide.Choice, a decide.Action) float64 {
	for _, x := range c.Scores {
		if x.Action == a {
			return x.Score
		}
	}
	return -1
}

// Facts with chosen risks: resource and dependency by shares, execution from
// clarity, permission and history.
func TestScores(t *testing.T) {
	calm := clear(decide.Facts{History: 1, Like: 1}) // no risk at all
	ten := strings.Split("abcdefghij", "")
	for _, c := range []struct {
		name string
		f    decide.Facts
		want map[decide.Action]float64
	}{
		{"no risk, tolerance .5", with(calm, func(f *decide.Facts) { f.RiskTolerance = .5 }),
			map[decide.Action]float64{"execute": .95, "retry": .75, "delegate": .65, "wait": .55, "skip": .55, "escalate": .35}},
		{"two agents", with(calm, func(f *decide.Facts) { f.RiskTolerance = .5; f.Agents = 2 }),
			map[decide.Action]float64{"execute": .95, "retry": .75, "delegate": .85, "wait": .55, "skip": .55, "escalate": .35}},
		{"tolerance 1 is clamped", with(calm, func(f *decide.Facts) { f.RiskTolerance = 1 }),
			map[decide.Action]float64{"execute": 1, "retry": .9, "delegate": .8, "wait": .7, "skip": .7, "escalate": .5}},
		{"resource risk .3 is not below .3", with(calm, func(f *decide.Facts) { f.Named, f.Missing = ten, ten[:3] }),
			map[decide.Action]float64{"execute": .67, "retry": .57, "delegate": .47, "wait": .37, "skip": .37, "escalate": .17}},
		{"resource risk .2 is", with(calm, func(f *decide.Facts) { f.Named, f.Missing = ten, ten[:2] }),
			map[decide.Action]float64{"execute": .78, "retry": .58, "delegate": .48, "wait": .38, "skip": .38, "escalate": .18}},
		{"dependency risk .5 is not above .5", with(calm, func(f *decide.Facts) { f.Dependencies, f.Merged = 2, 1 }),
			map[decide.Action]float64{"execute": .75, "retry": .55, "delegate": .45, "wait": .35, "skip": .35, "escalate": .15}},
		{"dependency risk .6 is", with(calm, func(f *decide.Facts) { f.Dependencies, f.Merged = 5, 2 }),
			map[decide.Action]float64{"execute": .54, "retry": .54, "delegate": .44, "wait": .34, "skip": .24, "escalate": .14}},
		{"all risk, no tolerance", decide.Facts{Named: ten, Missing: ten, Dependencies: 1, Denied: ten, Like: 1},
			map[decide.Action]float64{"execute": .7 - .29 - .2, "retry": .6 - .29, "delegate": .5 - .29, "wait": .4 - .29, "skip": .3 - .29, "escalate": 0}},
	} {
		got := decide.Choose(c.f)
		for a, want := range c.want {
			if !near(score(got, a), want) {
				t.Errorf("%s: %s %v, want %v (risk %+v)", c.name, a, score(got, a), want, got.Risk)
			}
		}
	}
}

func with(f decide.Facts, change func(*decide.Facts)) decide.Facts {
	change(&f)
	return f
}

func TestRisk(t *testing.T) {
	r := decide.Facts{Description: true, Criteria: true, Named: []string{"a", "b"}, Missing: []string{"b"}, Dependencies: 4, Merged: 3, Denied: []string{"x"}, History: .6, Like: 1}.Risk()
	if !near(r.Execution, 1-(.5+.3+.6)/3) || !near(r.Resource, .5) || !near(r.Dependency, .25) || !near(r.Mean(), (r.Execution+.75)/3) {
		t.Errorf("%+v", r)
	}
}

func TestChoose(t *testing.T) {
	base := clear(decide.Facts{Task: "US-1", RiskTolerance: .5, Agents: 1})
	ten := strings.Split("abcdefghij", "")
	for _, c := range []struct {
		name string
		f    decide.Facts
		want decide.Action
	}{
		{"fresh", base, decide.Execute},
		{"failed before", with(base, func(f *decide.Facts) { f.Attempts = 1 }), decide.Retry},
		{"failed before, another agent", with(base, func(f *decide.Facts) { f.Attempts = 1; f.Agents = 2 }), decide.Delegate},
		{"fresh, another agent", with(base, func(f *decide.Facts) { f.Agents = 2 }), decide.Execute},
		{"equal scores keep the first", with(base, func(f *decide.Facts) { f.Agents = 2; f.Named, f.Missing = ten, ten[:5] }), decide.Execute},
		{"a dependency is not merged", with(base, func(f *decide.Facts) { f.Dependencies = 3; f.Merged = 2; f.Agents = 2 }), decide.Wait},
		{"nothing merged", with(base, func(f *decide.Facts) { f.Dependencies = 1 }), decide.Wait},
	} {
		got := decide.Choose(c.f)
		if got.Action != c.want || got.Task != "US-1" || len(got.Scores) != 6 {
			t.Errorf("%s: %s, want %s: %+v", c.name, got.Action, c.want, got)
		}
		if !strings.Contains(got.Rationale, string(c.want)) || !strings.Contains(got.Rationale, "Confidence") {
			t.Errorf("%s: %q", c.name, got.Rationale)
		}
	}
	for attempts, want := range map[int]string{
		0: "execute, with 0.93, has the best score of what can be done now",
		1: "retry, with 0.73, has the best score of what can be done now (execute has 0.93, but the task has been tried already)",
	} {
		f := with(base, func(f *decide.Facts) { f.Attempts = attempts })
		if got := decide.Choose(f).Rationale; !strings.HasPrefix(got, want) {
			t.Errorf("%d attempts: %s", attempts, got)
		}
	}
	data, err := json.Marshal(decide.Choose(base))
	var back decide.Choice
	if err != nil || json.Unmarshal(data, &back) != nil || !cmp.Equal(back, decide.Choose(base)) {
		t.Errorf("a choice is not the same after JSON: %v", err)
	}
}

func TestVerdict(t *testing.T) {
	calm, wild := decide.Risk{}, decide.Risk{Resource: .9}
	for _, c := range []struct {
		name  string
		value float64
		r     decide.Rules
		want  decide.Answer
	}{
		{"at the threshold", .7, decide.Rules{Threshold: .7}, decide.Act},
		{"just below", .699, decide.Rules{Threshold: .7}, decide.Ask},
		{"at the floor", .3, decide.Rules{Threshold: .7}, decide.Ask},
		{"below the floor", .299, decide.Rules{Threshold: .7}, decide.Refuse},
		{"no mode is ask_first", .5, decide.Rules{Mode: "", Threshold: .7}, decide.Ask},
		{"own threshold", .85, decide.Rules{Threshold: .9}, decide.Ask},
		{"own low threshold", .2, decide.Rules{Threshold: .1}, decide.Act},
		{"threshold 0", 0, decide.Rules{Threshold: 0}, decide.Act},
		{"asked before", .75, decide.Rules{Threshold: .7, Asked: true}, decide.Ask},
		{"asked before, sure enough", .8, decide.Rules{Threshold: .7, Asked: true}, decide.Act},
		{"asked before, own higher threshold", .85, decide.Rules{Threshold: .9, Asked: true}, decide.Ask},
		{"high risk", .9, decide.Rules{Threshold: .7, Risk: wild, RiskTolerance: .5}, decide.Ask},
		{"high risk tolerated", .9, decide.Rules{Threshold: .7, Risk: wild, RiskTolerance: .9}, decide.Act},
		{"half a risk is not high", .9, decide.Rules{Threshold: .7, Risk: decide.Risk{Execution: .5}}, decide.Act},
		{"an error", .9, decide.Rules{Threshold: .7, Failed: true, Risk: calm}, decide.Ask},

		{"never", .4, decide.Rules{Mode: decide.Never, Threshold: .7, Risk: wild, Failed: true}, decide.Act},
		{"never, asked", .4, decide.Rules{Mode: decide.Never, Threshold: .7, Asked: true}, decide.Act},
		{"never below the floor", .2, decide.Rules{Mode: decide.Never, Threshold: .7}, decide.Refuse},
		{"on_error without one", .4, decide.Rules{Mode: decide.OnError, Threshold: .7, Risk: wild}, decide.Act},
		{"on_error with one", .9, decide.Rules{Mode: decide.OnError, Threshold: .7, Failed: true}, decide.Ask},
		{"on_error, asked", .75, decide.Rules{Mode: decide.OnError, Threshold: .7, Asked: true}, decide.Ask},
		{"on_low_confidence", .5, decide.Rules{Mode: decide.OnLowConfidence, Threshold: .7}, decide.Ask},
		{"on_low_confidence, sure", .7, decide.Rules{Mode: decide.OnLowConfidence, Threshold: .7, Risk: wild, Failed: true}, decide.Act},
		{"always", 1, decide.Rules{Mode: decide.Always, Threshold: .7}, decide.Ask},
		{"always below the floor", .1, decide.Rules{Mode: decide.Always, Threshold: .7}, decide.Refuse},
	} {
		got, why := decide.Verdict(decide.Sum{Value: c.value}, c.r)
		if got != c.want || why == "" {
			t.Errorf("%s: %s (%s), want %s", c.name, got, why, c.want)
		}
	}
}

// history has learned nothing and begins with a learning rate.
func history(rate float64) decide.History { return decide.History{LearningRate: &rate} }

func TestLearningRate(t *testing.T) {
	h := history(.1)
	h.Learn("bug", "", nil, true)
	if !near(h.Rate(), .11) {
		t.Errorf("after a success %v", h.Rate())
	}
	h.Learn("bug", "", nil, false)
	if !near(h.Rate(), .099) {
		t.Errorf("after a failure %v", h.Rate())
	}
	for range 100 {
		h.Learn("bug", "", nil, true)
	}
	if h.Rate() != .5 {
		t.Errorf("the cap is %v", h.Rate())
	}
	for range 100 {
		h.Learn("bug", "", nil, false)
	}
	if h.Rate() != .01 {
		t.Errorf("the floor is %v", h.Rate())
	}
	var zero decide.History
	if zero.Rate() != .1 {
		t.Errorf("the default is %v", zero.Rate())
	}
	off := history(0)
	off.Learn("bug", "", nil, true)
	if rate, n := off.Like("bug", "", nil); rate != .5 || n != 1 || off.Rate() != 0 {
		t.Errorf("rate 0 has learned: %v of %d, rate %v", rate, n, off.Rate())
	}
}

func TestLike(t *testing.T) {
	h := history(.1)
	if rate, n := h.Like("bug", "planning", []string{"api"}); rate != .5 || n != 0 {
		t.Errorf("nothing learned: %v of %d", rate, n)
	}
	h.Learn("bug", "planning", []string{"api", "API ", ""}, true) // .5 + .5·.1 = .55
	if rate, n := h.Like(" Bug", "planning", []string{"api"}); !near(rate, .55) || n != 1 {
		t.Errorf("%v of %d", rate, n)
	}
	if rate, n := h.Like("feature", "", []string{"api"}); !near(rate, .55) || n != 1 {
		t.Errorf("by a label alone: %v of %d", rate, n)
	}
	if rate, n := h.Like("feature", "", []string{"ui"}); rate != .5 || n != 0 {
		t.Errorf("unlike: %v of %d", rate, n)
	}
	h.Learn("", "", nil, false) // kind task: .5 − .5·.11 = .445
	if rate, n := h.Like("task", "", []string{"api"}); !near(rate, (.445+.55)/2) || n != 1 {
		t.Errorf("mean of what is known: %v of %d", rate, n)
	}
	data, err := json.Marshal(h)
	var back decide.History
	if err != nil || json.Unmarshal(data, &back) != nil || !cmp.Equal(h, back) {
		t.Errorf("not the same after JSON: %s %v", data, err)
	}
}

func TestLearningStaysInBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := history(rapid.OneOf(rapid.Float64Range(0, 1), rapid.Float64(), rapid.Just(math.NaN())).Draw(t, "rate"))
		if rapid.Bool().Draw(t, "spoilt") {
			h.Rates = map[string]decide.Estimate{"kind:bug": {Rate: rapid.Float64().Draw(t, "r"), N: rapid.Int().Draw(t, "n")}}
		}
		word := rapid.SampledFrom([]string{"", "bug", "task", "Feature"})
		before, begun := h.Rate(), false
		for range rapid.IntRange(0, 40).Draw(t, "n") {
			ok := rapid.Bool().Draw(t, "ok")
			before = h.Rate()
			h.Learn(word.Draw(t, "kind"), word.Draw(t, "phase"), rapid.SliceOfN(word, 0, 3).Draw(t, "labels"), ok)
			begun = true
			if r := h.Rate(); r != 0 && (ok && r < before && before <= .5 || !ok && r > before && before >= .01) {
				t.Fatalf("rate %v → %v after %v", before, r, ok)
			}
		}
		if r := h.Rate(); begun && before != 0 && (r < .01 || r > .5) {
			t.Fatalf("learning rate %v", r)
		}
		rate, n := h.Like(word.Draw(t, "kind"), word.Draw(t, "phase"), nil)
		if !(rate >= 0 && rate <= 1) || n < 0 {
			t.Fatalf("%v of %d", rate, n)
		}
	})
}

func TestLabelsDoNotFillTheSnapshot(t *testing.T) {
	h := history(.1)
	for i := range 5000 {
		h.Learn("bug", "", []string{strings.Repeat("x", i%4000)}, true)
	}
	if len(h.Rates) > 600 {
		t.Errorf("%d estimates are kept", len(h.Rates))
	}
}

func TestScoresStayInBounds(t *testing.T) {
	names := rapid.SliceOf(rapid.SampledFrom([]string{"a", "b", "c", "d"}))
	rapid.Check(t, func(t *rapid.T) {
		f := decide.Facts{
			Task: "x", Description: rapid.Bool().Draw(t, "d"), Criteria: rapid.Bool().Draw(t, "c"), Check: rapid.Bool().Draw(t, "k"), Bounded: rapid.Bool().Draw(t, "b"),
			Named: names.Draw(t, "named"), Missing: names.Draw(t, "missing"), Denied: names.Draw(t, "denied"),
			Dependencies: rapid.IntRange(-2, 9).Draw(t, "deps"), Merged: rapid.IntRange(-2, 12).Draw(t, "merged"), History: rapid.Float64().Draw(t, "h"), Like: rapid.IntRange(-1, 5).Draw(t, "like"),
			Attempts: rapid.IntRange(0, 3).Draw(t, "attempts"), Agents: rapid.IntRange(0, 3).Draw(t, "agents"), RiskTolerance: rapid.Float64().Draw(t, "tolerance"),
		}
		c := decide.Choose(f)
		total, weights := 0.0, 0.0
		for _, term := range c.Sum.Terms {
			if !(term.Value >= 0 && term.Value <= 1) || term.Why == "" {
				t.Fatalf("%+v", term)
			}
			total += term.Weight * term.Value
			weights += term.Weight
		}
		if !near(weights, 1) || !near(total, c.Sum.Value) {
			t.Fatalf("weights %v, terms %v, value %v", weights, total, c.Sum.Value)
		}
		for i, a := range c.Scores {
			if !(a.Score >= 0 && a.Score <= 1) || i > 0 && a.Score > c.Scores[i-1].Score {
				t.Fatalf("%+v", c.Scores)
			}
			if slices.Contains(c.Available, a.Action) && a.Score > score(c, c.Action) {
				t.Fatalf("%s has a better score than %s", a.Action, c.Action)
			}
		}
		for _, r := range []float64{c.Risk.Execution, c.Risk.Resource, c.Risk.Dependency} {
			if !(r >= 0 && r <= 1) {
				t.Fatalf("%+v", c.Risk)
			}
		}
		if !slices.Contains(c.Available, c.Action) || f.Merged < f.Dependencies && (c.Action == decide.Execute || c.Action == decide.Retry || c.Action == decide.Delegate) {
			t.Fatalf("%s of %v", c.Action, c.Available)
		}
	})
}

// More confidence never makes a verdict more cautious.
func TestVerdictIsMonotonic(t *testing.T) {
	rank := map[decide.Answer]int{decide.Refuse: 0, decide.Ask: 1, decide.Act: 2}
	rapid.Check(t, func(t *rapid.T) {
		r := decide.Rules{
			Mode: rapid.SampledFrom([]decide.Mode{"", "never", "ask_first", "on_error", "on_low_confidence", "always"}).Draw(t, "mode"), Threshold: rapid.Float64Range(0, 1).Draw(t, "threshold"),
			Asked: rapid.Bool().Draw(t, "asked"), Failed: rapid.Bool().Draw(t, "failed"), Risk: decide.Risk{Execution: rapid.Float64Range(0, 1).Draw(t, "risk")}, RiskTolerance: rapid.Float64Range(0, 1).Draw(t, "tolerance"),
		}
		a, b := rapid.Float64Range(0, 1).Draw(t, "a"), rapid.Float64Range(0, 1).Draw(t, "b")
		low, _ := decide.Verdict(decide.Sum{Value: min(a, b)}, r)
		high, _ := decide.Verdict(decide.Sum{Value: max(a, b)}, r)
		if rank[low] > rank[high] {
			t.Fatalf("%v is %s, %v is %s", min(a, b), low, max(a, b), high)
		}
	})
}
