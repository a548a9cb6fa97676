package workers

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"ralph/workers/agent"
)

func cents(n int) *float64 { v := float64(n) / 100; return &v }

func used(turns, tokens int, cost *float64) agent.Spent {
	return agent.Spent{Turns: turns, Usage: agent.Usage{Input: tokens, Total: tokens}, CostUSD: cost}
}

func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := NewBudget(Limit{Turns: 10, Tokens: 1000, CostUSD: 1, Until: time.Now().Add(time.Hour)})
		a, b := root.Share(Limit{Turns: 4}), root.Share(Limit{Tokens: 500, Until: time.Now().Add(time.Minute)})
		check := func(n *Budget, want string, shared bool) {
			t.Helper()
			err := n.Check()
			if want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var e *agent.LimitError
			if !errors.As(err, &e) || fmt.Sprintf("%s %s of %s %s", e.What, e.Used, e.Max, e.Flag) != want || e.Shared != shared {
				t.Errorf("check %+v, want %s", e, want)
			}
			if shared && !strings.Contains(err.Error(), "all agents share") {
				t.Error(err)
			}
		}
		left := func(n *Budget, want string) {
			t.Helper()
			l := n.Left()
			if got := fmt.Sprintf("%d %d %.2f %v", l.Turns, l.Tokens, l.CostUSD, time.Until(l.Until)); got != want {
				t.Errorf("left %s, want %s", got, want)
			}
		}
		left(a, "4 1000 1.00 1h0m0s")
		left(b, "10 500 1.00 1m0s")
		a.Spend(used(3, 600, cents(40)))
		left(a, "1 400 0.60 1h0m0s")
		left(b, "7 400 0.60 1m0s")
		check(a, "", false)
		a.Spend(used(1, 0, nil))
		check(a, "turns 4 of 4 --max-turns", false)
		check(root, "", false)
		left(a, "-1 400 0.60 1h0m0s")
		// What is left of nothing is nothing for a child too.
		if err := a.Share(a.Left()).Check(); err == nil {
			t.Error("a share of nothing")
		}
		b.Spend(used(1, 400, cents(1)))
		check(b, "tokens 1000 of 1000 --max-tokens", true)
		check(root, "tokens 1000 of 1000 --max-tokens", false)
		b.Spend(used(0, 100, cents(1)))
		check(b, "tokens 500 of 500 --max-tokens", false) // the tighter of the two
		b.Spend(used(5, 0, nil))
		check(b, "turns 10 of 10 --max-turns", true)
		check(a, "turns 4 of 4 --max-turns", false)
		if s := root.Spent(); s.Turns != 10 || s.Usage.Total != 1100 || math.Abs(*s.CostUSD-0.42) > 1e-9 {
			t.Errorf("spent %+v", s)
		}

		root = NewBudget(Limit{CostUSD: 2, Until: time.Now().Add(time.Hour)})
		c := root.Share(Limit{CostUSD: 5})
		c.Spend(used(1, 10, cents(200)))
		check(c, "cost $2.0000 of $2.0000 --max-cost", false)
		c.Spend(used(1, 10, nil))
		var e *agent.LimitError
		if err := root.Check(); !errors.As(err, &e) || !e.Unknown {
			t.Errorf("a cost that is not known: %v", err)
		}
		left(c, "0 0 -1.00 1h0m0s")
		root = NewBudget(Limit{Until: time.Now().Add(time.Hour)})
		d := root.Share(Limit{Until: time.Now().Add(90 * time.Second)})
		time.Sleep(2 * time.Minute)
		check(d, "time 2m0s of 1m30s --timeout", false)
		check(root, "", false)
		time.Sleep(2 * time.Hour)
		check(d, "time 2h2m0s of 1m30s --timeout", false)
		if s := NewBudget(Limit{}).Left(); s != (Limit{}) {
			t.Errorf("no bound leaves %+v", s)
		}
	})
}

// TestTurnsAreExact: of a hundred that ask at once no more get a turn than there
// are.
func TestTurnsAreExact(t *testing.T) {
	root := NewBudget(Limit{Turns: 60})
	var got atomic.Int32
	var wg sync.WaitGroup
	for i := range 100 {
		child := root.Share(Limit{Turns: 1 + i%2})
		wg.Go(func() {
			for child.Turn() == nil {
				got.Add(1)
				child.Spend(used(0, 1, nil))
				_, _ = child.Left(), child.Check()
			}
		})
	}
	wg.Wait()
	if s := root.Spent(); got.Load() != 60 || s.Turns != 60 || s.Usage.Total != 60 {
		t.Errorf("%d got a turn, spent %+v", got.Load(), s)
	}
}

// TestBudgetIsItsModel compares a tree with sums over lists of what was spent.
func TestBudgetIsItsModel(t *testing.T) {
	type entry struct {
		at int
		s  agent.Spent
	}
	rapid.Check(t, func(rt *rapid.T) {
		limit := func(label string) Limit {
			return Limit{Turns: rapid.IntRange(-1, 20).Draw(rt, label+" turns"), Tokens: rapid.IntRange(-1, 200).Draw(rt, label+" tokens"),
				CostUSD: float64(rapid.IntRange(-1, 8).Draw(rt, label+" cost")) / 4}
		}
		limits, up := []Limit{limit("root")}, []int{-1}
		nodes := []*Budget{NewBudget(limits[0])}
		var spent []entry
		path := func(i int) (list []int) {
			for ; i >= 0; i = up[i] {
				list = append(list, i)
			}
			return list
		}
		rt.Repeat(map[string]func(*rapid.T){
			"share": func(rt *rapid.T) {
				of := rapid.IntRange(0, len(nodes)-1).Draw(rt, "of")
				l := limit("share")
				limits, up, nodes = append(limits, l), append(up, of), append(nodes, nodes[of].Share(l))
			},
			"spend": func(rt *rapid.T) {
				at := rapid.IntRange(0, len(nodes)-1).Draw(rt, "at")
				s := used(rapid.IntRange(0, 2).Draw(rt, "turns"), rapid.IntRange(0, 20).Draw(rt, "tokens"), cents(25*rapid.IntRange(0, 2).Draw(rt, "cents")))
				if rapid.IntRange(0, 15).Draw(rt, "no price") == 0 {
					s.CostUSD = nil
				}
				nodes[at].Spend(s)
				spent = append(spent, entry{at, s})
			},
			"": func(rt *rapid.T) {
				turns, tokens, cost, unknown := make([]int, len(nodes)), make([]int, len(nodes)), make([]float64, len(nodes)), make([]bool, len(nodes))
				for _, e := range spent {
					for _, n := range path(e.at) {
						turns[n] += e.s.Turns
						tokens[n] += e.s.Usage.Total
						if e.s.CostUSD != nil {
							cost[n] += *e.s.CostUSD
						} else if e.s.Usage.Total > 0 {
							unknown[n] = true
						}
					}
				}
				for i, n := range nodes {
					if have := n.Spent(); have.CostUnknown != unknown[i] || unknown[i] && have.CostUSD != nil {
						rt.Fatalf("node %d: spent %+v, price unknown: %v", i, have, unknown[i])
					}
					over, un := "", false
					least := math.Inf(1)
					name := func(what string, unknown bool, bound float64) {
						if over == "" || over == what && bound < least {
							over, un, least = what, unknown, bound
						}
					}
					wt, wk, wc := math.Inf(1), math.Inf(1), math.Inf(1)
					for _, a := range path(i) {
						if l := limits[a].Turns; l != 0 {
							wt = min(wt, float64(l-turns[a]))
						}
						if l := limits[a].Tokens; l != 0 {
							wk = min(wk, float64(l-tokens[a]))
						}
						if l := limits[a].CostUSD; l != 0 {
							wc = min(wc, l-cost[a])
							if unknown[a] {
								wc = min(wc, 0)
							}
						}
					}
					if wt <= 0 {
						name("turns", false, 0)
					}
					if wk <= 0 {
						name("tokens", false, 0)
					}
					for _, a := range path(i) {
						if l := limits[a].CostUSD; l != 0 && (unknown[a] || cost[a] >= l) {
							name("cost", unknown[a] && l > 0, l)
						}
					}
					var e *agent.LimitError
					got := ""
					if errors.As(n.Check(), &e) {
						got = e.What
					}
					if got != over || e != nil && e.Unknown != un {
						rt.Fatalf("node %d: %+v, want %q (unknown %v)", i, e, over, un)
					}
					word := func(v float64) float64 {
						switch {
						case math.IsInf(v, 1):
							return 0
						case v <= 0:
							return -1
						}
						return v
					}
					if l := n.Left(); float64(l.Turns) != word(wt) || float64(l.Tokens) != word(wk) || math.Abs(l.CostUSD-word(wc)) > 1e-9 {
						rt.Fatalf("node %d: left %+v, want %v %v %v", i, l, word(wt), word(wk), word(wc))
					}
				}
			},
		})
	})
}
