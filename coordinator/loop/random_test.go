package loop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"ralph/coordinator/plan"
	"ralph/memory/feature"
)

// TestRandom runs random plans with hands that fail in every way, stops them at a
// random moment, and goes on until nothing is left. Each time a run ends, plan,
// files, snapshot and outcome agree; no task begins before what it needs is
// merged; nothing is merged twice; and in the end, when all goes well, all is done
// but what was given up.
func TestRandom(t *testing.T) {
	seeds := 6
	if os.Getenv("RALPH_TEST_SWEEP") != "" {
		seeds = 500
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) { randomRun(t, rand.New(rand.NewPCG(uint64(seed), 1))) })
		})
	}
}

func randomAct(rnd *rand.Rand) act {
	list := []act{well, well, well, badCheck, broke("network", "no route"), broke("execution", "crash"), broke("permission", "denied"), broke("dependency", "no make"),
		func(context.Context, Order) Report {
			return Report{Status: saidFailed, Quota: true, RetryAfter: time.Minute}
		},
		func(context.Context, Order) Report { return Report{Status: needsInput, Question: "what?"} },
		func(context.Context, Order) Report { return Report{Status: interrupted, Problem: "stopped alone"} },
		func(context.Context, Order) Report {
			return Report{Status: saidDone, Declared: true, Landing: "conflict"}
		},
		func(context.Context, Order) Report { return Report{Status: saidPartial, Summary: "half"} },
		func(context.Context, Order) Report { return Report{} },
		func(context.Context, Order) Report { panic("boom") },
	}
	return list[rnd.IntN(len(list))]
}

func randomRun(t *testing.T, rnd *rand.Rand) {
	var list []story
	n := 3 + rnd.IntN(7)
	for i := range n {
		s := st(fmt.Sprintf("T%d", i))
		for k := range i {
			if rnd.IntN(4) == 0 {
				s.After = append(s.After, fmt.Sprintf("T%d", k))
			}
		}
		s.Priority = rnd.IntN(4)
		list = append(list, s)
	}
	r := newRig(t, list...)
	for _, s := range list {
		for range 1 + rnd.IntN(3) {
			r.acts[s.ID] = append(r.acts[s.ID], randomAct(rnd))
		}
	}
	r.o.Settings.Parallel = 1 + rnd.IntN(4)
	r.o.Settings.HumanIntervention = []string{AskNever, askFirst, askError, askUnsure}[rnd.IntN(4)]
	if rnd.IntN(2) == 0 {
		r.o.Settings.Fallback = "codex"
	}
	r.o.Settings.OnError = []string{"", "", "retry", "skip", "escalate", "abort"}[rnd.IntN(6)]
	for round := 0; ; round++ {
		if round > 60 {
			t.Fatalf("it does not end: %s", r.last().ExitReason)
		}
		ctx, cancel := context.WithCancel(t.Context())
		timer := time.AfterFunc(time.Duration(rnd.IntN(600))*time.Second, cancel)
		if round > 2 { // from now on all goes well
			timer.Stop()
			r.acts = map[string][]act{}
			r.o.Settings.HumanIntervention = AskNever
		}
		out := r.make().Run(ctx)
		timer.Stop()
		cancel()
		r.agree(out)
		if out.Status == feature.Completed || out.Status == feature.Failed {
			break
		}
		if len(r.saves) > 0 {
			s := r.last().Cut()
			r.o.Resume = &s
		}
	}
	needs := map[string][]string{}
	for _, s := range list {
		needs[s.ID] = s.After
	}
	for id, n := range r.merged {
		if n != 1 {
			t.Errorf("%s was merged %d times", id, n)
		}
	}
	for _, o := range r.orders {
		for _, id := range needs[o.Task.ID] {
			if r.merged[id] == 0 || !slices.ContainsFunc(o.Needs, func(m Merged) bool { return m.ID == id }) {
				t.Errorf("%s began before %s was merged", o.Task.ID, id)
			}
		}
	}
	for id, s := range r.status() {
		if (s == plan.Done) != (r.merged[id] == 1) {
			t.Errorf("%s is %s in the plan, and was merged %d times", id, s, r.merged[id])
		}
	}
}
