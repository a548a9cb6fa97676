package analysis

import (
	"cmp"
	"iter"
	"slices"

	"ralph/memory/session/folder"
)

// usage is what was used, as it is added up.
type usage struct {
	input, cached, output, reasoning, total int64
	cost                                    float64
	priced                                  bool // at least a part has a price
	unpriced                                bool // at least a part has none: the sum is not known
}

func (u *usage) add(v usage) {
	u.input += v.input
	u.cached += v.cached
	u.output += v.output
	u.reasoning += v.reasoning
	u.total += v.total
	u.cost += v.cost
	u.priced = u.priced || v.priced
	u.unpriced = u.unpriced || v.unpriced
}

// since is what was used since before, when u is of a sum that goes on; else u.
func (u usage) since(before usage) usage {
	if u.input < before.input || u.output < before.output || u.total < before.total || u.cost < before.cost {
		return u
	}
	u.input, u.cached, u.output = u.input-before.input, max(0, u.cached-before.cached), u.output-before.output
	u.reasoning, u.total, u.cost = max(0, u.reasoning-before.reasoning), u.total-before.total, u.cost-before.cost
	if u.total == 0 && u.cost == 0 {
		return usage{}
	}
	return u
}

// addTo adds to a sum that is made when it is needed.
func addTo(sum **usage, u usage) {
	if *sum == nil {
		*sum = &usage{}
	}
	(*sum).add(u)
}

// none says that nothing is known of any use.
func (u usage) none() bool { return u == usage{} }

func (u usage) told() Usage {
	if u.none() {
		return Usage{}
	}
	t := Usage{Input: &u.input, Cached: &u.cached, Output: &u.output, Reasoning: &u.reasoning, Total: &u.total}
	if u.priced && !u.unpriced {
		t.Cost = rounded(u.cost, 1e6)
	}
	return t
}

// count is a number of tokens that can be believed.
func count(v float64) int64 {
	if v < 0 || v > 1e15 {
		return 0
	}
	return int64(v)
}

// usageIn reads the usage that an event's details state.
func usageIn(e folder.Event) usage {
	var u usage
	used := e.Within("usage", "tokens")
	get := func(keys ...string) int64 { n, _ := used.Number(keys...); return count(n) }
	u.input, u.cached = get("input", "input_tokens", "prompt_tokens"), get("cached_input", "cachedInput", "cached")
	u.output, u.reasoning = get("output", "output_tokens", "completion_tokens"), get("reasoning")
	if u.total = get("total", "total_tokens"); u.total == 0 {
		u.total = u.input + u.output
	}
	if cost, ok := e.Number("cost_usd", "cost"); ok && cost >= 0 && cost < 1e12 {
		u.cost, u.priced = cost, true
	}
	u.unpriced = !u.priced && u.total > 0
	return u
}

// maxListed bounds the tables of agents, tasks, models and tools; what is left
// out is summed up in a last entry.
const maxListed = 50

// listed lists the greatest uses; the rest is summed up in a last entry. The
// table may be very large and is not copied.
func listed(table iter.Seq2[string, usage]) []UsageOf {
	type entry struct {
		id string
		u  usage
	}
	var top []entry
	var rest usage
	for id, u := range table {
		switch {
		case u.none():
			continue
		case id == others:
			rest.add(u)
			continue
		}
		e := entry{id, u}
		at, _ := slices.BinarySearchFunc(top, e, func(a, b entry) int { return cmp.Or(cmp.Compare(b.u.total, a.u.total), cmp.Compare(a.id, b.id)) })
		if top = slices.Insert(top, at, e); len(top) > maxListed {
			rest.add(top[maxListed].u)
			top = top[:maxListed]
		}
	}
	list := []UsageOf{}
	for _, e := range top {
		list = append(list, UsageOf{e.id, e.u.told()})
	}
	if !rest.none() {
		list = append(list, UsageOf{others, rest.told()})
	}
	return list
}

// into adds to a table, which is bounded.
func into(table map[string]usage, key string, u usage) {
	if _, known := table[key]; !known && len(table) >= maxAgents {
		key = others
	}
	sum := table[key]
	sum.add(u)
	table[key] = sum
}
