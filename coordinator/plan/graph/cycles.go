package graph

import "slices"

// maxCycles bounds what Cycles tells: a knot of many tasks has more cycles than
// anybody could read.
const maxCycles = 100

// Cycles are the circles in the dependencies: each begins and ends with its
// smallest id, each id comes before the next ("b depends on a, c on b, a on c" is
// a b c a), the smallest circle first. A task that depends on itself is a a.
// Every task that is in some circle is in one of them, up to 100 of them; they
// are the shortest that there are for it, not all.
func (g *Graph) Cycles() [][]string { return clone(g.cycles()) }

func clone(lists [][]string) [][]string {
	if lists == nil {
		return nil
	}
	out := make([][]string, len(lists))
	for i, l := range lists {
		out[i] = slices.Clone(l)
	}
	return out
}

func (g *Graph) findCycles() [][]string {
	var found [][]string
	for i, s := range g.self {
		if s {
			found = append(found, []string{g.nodes[i].ID, g.nodes[i].ID})
		}
	}
	for _, c := range g.components() {
		if len(c) > 1 && len(found) < maxCycles {
			found = append(found, g.circles(c)...)
		}
	}
	slices.SortFunc(found, func(a, b []string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return slices.Compare(a, b)
	})
	return found[:min(len(found), maxCycles)]
}

// circles finds, in one component, short circles until each of its nodes is in
// one.
func (g *Graph) circles(component []int) [][]string {
	slices.SortFunc(component, func(a, b int) int { return compareIDs(g.nodes[a].ID, g.nodes[b].ID) })
	in := make(map[int]bool, len(component))
	for _, i := range component {
		in[i] = true
	}
	covered := make(map[int]bool, len(component))
	var found [][]string
	for _, start := range component {
		if covered[start] || len(found) >= maxCycles {
			continue
		}
		circle := g.shortestCircle(start, in)
		for _, i := range circle {
			covered[i] = true
		}
		found = append(found, g.closed(circle))
	}
	return found
}

// shortestCircle walks from a node along its dependants, within its component,
// until it is back. The component is strongly connected: it always gets there.
func (g *Graph) shortestCircle(start int, in map[int]bool) []int {
	parent := map[int]int{}
	queue := []int{start}
	for len(queue) > 0 {
		v := queue[0]
		queue = queue[1:]
		next := slices.Clone(g.before[v])
		slices.SortFunc(next, func(a, b int) int { return compareIDs(g.nodes[a].ID, g.nodes[b].ID) })
		for _, w := range next {
			if w == start {
				return trail(parent, start, v)
			}
			if _, seen := parent[w]; !seen && in[w] {
				parent[w] = v
				queue = append(queue, w)
			}
		}
	}
	return []int{start}
}

func trail(parent map[int]int, start, end int) []int {
	var path []int
	for v := end; v != start; v = parent[v] {
		path = append(path, v)
	}
	path = append(path, start)
	slices.Reverse(path)
	return path
}

// closed names a circle from its smallest id back to it.
func (g *Graph) closed(circle []int) []string {
	ids := g.names(circle)
	least := 0
	for i := range ids {
		if compareIDs(ids[i], ids[least]) < 0 {
			least = i
		}
	}
	ids = append(slices.Clone(ids[least:]), ids[:least]...)
	return append(ids, ids[0])
}
