package graph

import (
	"container/heap"
	"math/bits"
)

// sorted is a topological order of all nodes, the first given first where the
// dependencies leave the choice; nil with cycles.
func (g *Graph) sorted() []int {
	if len(g.cycles()) > 0 {
		return nil
	}
	return g.walk(func(int) bool { return true }, func(a, b int) bool { return a < b })
}

// walk takes the nodes that take wants, each after those of its dependencies
// that take wants, by less where there is a choice. Nodes in a circle or behind
// one are left out.
func (g *Graph) walk(take func(int) bool, less func(a, b int) bool) []int {
	waits := make([]int, len(g.nodes))
	h := &ordered{less: less}
	for i := range g.nodes {
		if !take(i) {
			continue
		}
		if g.self[i] {
			waits[i]++
		}
		for _, j := range g.after[i] {
			if take(j) {
				waits[i]++
			}
		}
		if waits[i] == 0 {
			h.list = append(h.list, i)
		}
	}
	heap.Init(h)
	var out []int
	for h.Len() > 0 {
		i := heap.Pop(h).(int)
		out = append(out, i)
		for _, k := range g.before[i] {
			if !take(k) {
				continue
			}
			if waits[k]--; waits[k] == 0 {
				heap.Push(h, k)
			}
		}
	}
	return out
}

// ordered is a heap of nodes.
type ordered struct {
	list []int
	less func(a, b int) bool
}

func (o *ordered) Len() int           { return len(o.list) }
func (o *ordered) Less(a, b int) bool { return o.less(o.list[a], o.list[b]) }
func (o *ordered) Swap(a, b int)      { o.list[a], o.list[b] = o.list[b], o.list[a] }
func (o *ordered) Push(x any)         { o.list = append(o.list, x.(int)) }
func (o *ordered) Pop() any {
	x := o.list[len(o.list)-1]
	o.list = o.list[:len(o.list)-1]
	return x
}

// chains are the longest chains that end (up) and begin (down) with each node,
// counted in nodes; 0 for those that are no part.
type chains struct {
	up, down []int
	longest  int
}

// chains measures the part of the graph that counts names.
func (g *Graph) chains(order []int, counts func(int) bool) chains {
	c := chains{up: make([]int, len(g.nodes)), down: make([]int, len(g.nodes))}
	for _, i := range order {
		if !counts(i) {
			continue
		}
		for _, j := range g.after[i] {
			c.up[i] = max(c.up[i], c.up[j])
		}
		c.up[i]++
	}
	for k := len(order) - 1; k >= 0; k-- {
		i := order[k]
		if !counts(i) {
			continue
		}
		for _, j := range g.before[i] {
			c.down[i] = max(c.down[i], c.down[j])
		}
		c.down[i]++
		c.longest = max(c.longest, c.down[i])
	}
	return c
}

func (c chains) slack(i int) int { return c.longest - (c.up[i] + c.down[i] - 1) }

// openWork is what can be said of the work that is still to be done.
type openWork struct {
	chains
	// behind is how many open nodes wait for a node, directly or not.
	behind []int
	// urgent is the priority of the most urgent pickable node that waits for a
	// node, or its own.
	urgent []int
}

// openWork is nil with cycles.
func (g *Graph) openWork() *openWork {
	order := g.topo()
	if order == nil && len(g.nodes) > 0 {
		return nil
	}
	w := &openWork{chains: g.chains(order, g.live), behind: g.countBehind(order)}
	w.urgent = make([]int, len(g.nodes))
	for k := len(order) - 1; k >= 0; k-- {
		i := order[k]
		w.urgent[i] = g.nodes[i].Priority
		for _, j := range g.before[i] {
			if g.live(j) && g.nodes[j].Pick {
				w.urgent[i] = min(w.urgent[i], w.urgent[j])
			}
		}
	}
	return w
}

// countBehind counts for each node the open ones that it holds up. The sets are
// bits, a strip of 4,096 nodes at a time, so that memory grows with the nodes
// and not with their square.
func (g *Graph) countBehind(order []int) []int {
	const words = 64
	n := len(g.nodes)
	behind := make([]int, n)
	sets := make([][words]uint64, n)
	for low := 0; low < n; low += words * 64 {
		for k := len(order) - 1; k >= 0; k-- {
			i := order[k]
			set := &sets[i]
			*set = [words]uint64{}
			for _, j := range g.before[i] {
				if !g.live(j) {
					continue
				}
				for w := range set {
					set[w] |= sets[j][w]
				}
				if p := j - low; p >= 0 && p < words*64 {
					set[p/64] |= 1 << (p % 64)
				}
			}
			for _, w := range set {
				behind[i] += bits.OnesCount64(w)
			}
		}
	}
	return behind
}
