package workers

import (
	"fmt"
	"sync"
	"time"

	"ralph/workers/agent"
)

// Limit is what an agent and all below it may use. A zero field sets no bound; a
// negative number allows nothing.
type Limit struct {
	Turns, Tokens int
	CostUSD       float64
	Until         time.Time
}

// nothing is a Limit's word for a bound with nothing left below it.
const nothing = -1

// Budget is a node in a tree of limits: what it spends is spent by all above it
// too, so that children share what is left. It is safe for concurrent use.
type Budget struct {
	up    *Budget // nil for the root
	limit Limit
	began time.Time
	// mu is one for the whole tree, so that what is spent by many at once is seen
	// by all nodes or none. It guards spent.
	mu    *sync.Mutex
	spent agent.Spent
}

// NewBudget returns the root of a tree, of which nothing is spent.
func NewBudget(l Limit) *Budget {
	return &Budget{limit: l, began: time.Now(), mu: &sync.Mutex{}}
}

// Share returns a child of b: it may use as much as l says, and never more than b
// has left.
func (b *Budget) Share(l Limit) *Budget {
	return &Budget{up: b, limit: l, began: time.Now(), mu: b.mu}
}

// Turn takes a turn for one request, or returns the error of Check and takes
// none: of children that ask at the same time no more get through than there are
// turns. What the request costs is spent afterwards, without the turn.
func (b *Budget) Turn() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.check(); err != nil {
		return err
	}
	b.spend(agent.Spent{Turns: 1})
	return nil
}

// Spend adds what was used. A usage without a price makes the cost unknown, here
// and above.
func (b *Budget) Spend(s agent.Spent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spend(s)
}

func (b *Budget) spend(s agent.Spent) {
	unknown := s.CostUnknown || s.CostUSD == nil && s.Usage.Total > 0
	for n := b; n != nil; n = n.up {
		have := &n.spent
		have.Turns += s.Turns
		have.Usage = have.Usage.Add(s.Usage)
		have.APITime += s.APITime
		have.CostUnknown = have.CostUnknown || unknown
		switch {
		case have.CostUnknown:
			have.CostUSD = nil
		case s.CostUSD != nil:
			sum := *s.CostUSD
			if have.CostUSD != nil {
				sum += *have.CostUSD
			}
			have.CostUSD = &sum
		}
	}
}

// Spent is what b and all below it used.
func (b *Budget) Spent() agent.Spent {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.spent
}

// Check returns a *agent.LimitError that names what is used up here or above, nil
// while there is something left of everything. Of several limits of one sort it
// names the smallest.
func (b *Budget) Check() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.check()
}

func (b *Budget) check() error {
	now := time.Now()
	for _, over := range [...]func(*Budget) (float64, *agent.LimitError){
		func(n *Budget) (float64, *agent.LimitError) { return n.overTurns() },
		func(n *Budget) (float64, *agent.LimitError) { return n.overTokens() },
		func(n *Budget) (float64, *agent.LimitError) { return n.overCost() },
		func(n *Budget) (float64, *agent.LimitError) { return n.overTime(now) },
	} {
		var worst *agent.LimitError
		var least float64
		for n := b; n != nil; n = n.up {
			bound, e := over(n)
			if e != nil && (worst == nil || bound < least) {
				e.Shared = n.spent.Turns != b.spent.Turns
				worst, least = e, bound
			}
		}
		if worst != nil {
			return worst
		}
	}
	return nil
}

func (b *Budget) overTurns() (float64, *agent.LimitError) {
	l, s := b.limit.Turns, b.spent.Turns
	if l == 0 || s < l {
		return 0, nil
	}
	return float64(l), &agent.LimitError{What: "turns", Used: fmt.Sprint(s), Max: fmt.Sprint(max(l, 0)), Flag: "--max-turns"}
}

func (b *Budget) overTokens() (float64, *agent.LimitError) {
	l, s := b.limit.Tokens, b.spent.Usage.Total
	if l == 0 || s < l {
		return 0, nil
	}
	return float64(l), &agent.LimitError{What: "tokens", Used: fmt.Sprint(s), Max: fmt.Sprint(max(l, 0)), Flag: "--max-tokens"}
}

// overCost leaves the words to agent.Limits, which has the same limit.
func (b *Budget) overCost() (float64, *agent.LimitError) {
	l := b.limit.CostUSD
	if l == 0 {
		return 0, nil
	}
	if l < 0 {
		return l, &agent.LimitError{What: "cost", Used: "$0.0000", Max: "$0.0000", Flag: "--max-cost"}
	}
	e, _ := agent.Limits{MaxCostUSD: l}.Check(b.spent).(*agent.LimitError)
	return l, e
}

func (b *Budget) overTime(now time.Time) (float64, *agent.LimitError) {
	until := b.limit.Until
	if until.IsZero() || now.Before(until) {
		return 0, nil
	}
	whole := max(until.Sub(b.began), 0)
	return whole.Seconds(), &agent.LimitError{What: "time", Used: now.Sub(b.began).Round(time.Second).String(), Max: whole.Round(time.Second).String(), Flag: "--timeout"}
}

// Left is what may still be used here: the least of what is left at b and at each
// node above it. Zero means no bound, -1 that nothing is left; so Share(b.Left())
// is always as tight as b.
func (b *Budget) Left() Limit {
	b.mu.Lock()
	defer b.mu.Unlock()
	var l Limit
	for n := b; n != nil; n = n.up {
		l.Turns = tighter(l.Turns, n.limit.Turns, n.spent.Turns)
		l.Tokens = tighter(l.Tokens, n.limit.Tokens, n.spent.Usage.Total)
		switch cost := n.spent.CostUSD; {
		case n.limit.CostUSD != 0 && n.spent.CostUnknown:
			l.CostUSD = nothing
		case cost != nil:
			l.CostUSD = tighter(l.CostUSD, n.limit.CostUSD, *cost)
		default:
			l.CostUSD = tighter(l.CostUSD, n.limit.CostUSD, 0)
		}
		if t := n.limit.Until; !t.IsZero() && (l.Until.IsZero() || t.Before(l.Until)) {
			l.Until = t
		}
	}
	return l
}

// tighter is the smaller of what is left so far and of limit - spent.
func tighter[N int | float64](left, limit, spent N) N {
	if limit == 0 {
		return left
	}
	here := limit - spent
	if here <= 0 {
		here = nothing
	}
	if left == 0 {
		return here
	}
	return min(left, here)
}
