package graph

// Reduced are the dependencies of each node without those that others imply:
// when c is after b and a, and b is after a, then c is only after b. Unknown ids
// and the node itself are left out; nodes without dependencies too. With cycles
// nothing is implied and all are kept.
func (g *Graph) Reduced() map[string][]string {
	out := make(map[string][]string, len(g.nodes))
	acyclic := len(g.cycles()) == 0
	reached := make([]int, len(g.nodes)) // the node, plus one, from whose dependencies it was reached
	for i, deps := range g.after {
		if len(deps) == 0 {
			continue
		}
		if acyclic && len(deps) > 1 {
			deps = g.direct(i, reached)
		}
		out[g.nodes[i].ID] = g.names(deps)
	}
	return out
}

// direct are the dependencies of a node that none of its others leads to.
func (g *Graph) direct(i int, reached []int) []int {
	var stack []int
	for _, j := range g.after[i] {
		stack = append(stack, g.after[j]...)
	}
	for len(stack) > 0 {
		j := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if reached[j] == i+1 {
			continue
		}
		reached[j] = i + 1
		stack = append(stack, g.after[j]...)
	}
	var keep []int
	for _, j := range g.after[i] {
		if reached[j] != i+1 {
			keep = append(keep, j)
		}
	}
	return keep
}
