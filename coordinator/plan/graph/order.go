package graph

import "slices"

// Order is the order in which one worker would do all that can be picked: each
// node after what it depends on, the best ranked first. What is open but may not
// be picked (it is being worked, is an epic, was not selected) is taken as done
// by others in time; what waits for something out or unknown is left out. It is
// nil with cycles.
func (g *Graph) Order() []string {
	if len(g.cycles()) > 0 {
		return nil
	}
	place := g.places()
	order := g.walk(g.doable(), func(a, b int) bool {
		// What others do comes as soon as it can: it takes no turn.
		if p, q := g.nodes[a].Pick, g.nodes[b].Pick; p != q {
			return q
		}
		return place[a] < place[b]
	})
	return g.names(slices.DeleteFunc(order, func(i int) bool { return !g.nodes[i].Pick }))
}

// Layers are the same nodes as those of Order by what can be done side by side:
// each layer needs only those before it. Within a layer the best comes first. It
// is nil with cycles.
func (g *Graph) Layers() [][]string {
	if len(g.cycles()) > 0 {
		return nil
	}
	place, doable := g.places(), g.doable()
	depth := make([]int, len(g.nodes)) // of a node that others do: the layer after which it is done
	var layers [][]int
	for _, i := range g.topo() {
		if !doable(i) {
			continue
		}
		for _, j := range g.after[i] {
			if doable(j) {
				depth[i] = max(depth[i], depth[j])
			}
		}
		if !g.nodes[i].Pick {
			continue
		}
		if depth[i] == len(layers) {
			layers = append(layers, nil)
		}
		layers[depth[i]] = append(layers[depth[i]], i)
		depth[i]++
	}
	out := make([][]string, len(layers))
	for k, layer := range layers {
		slices.SortFunc(layer, func(a, b int) int { return place[a] - place[b] })
		out[k] = g.names(layer)
	}
	return out
}

// Critical is one longest chain of open work, from what comes first to what
// comes last; of several, the best ranked. It is nil with cycles and when nothing
// is open.
func (g *Graph) Critical() []string {
	open := g.open()
	if open == nil || open.longest == 0 {
		return nil
	}
	place := g.places()
	best := func(list []int, length int) int {
		found := -1
		for _, i := range list {
			if open.down[i] == length && (found < 0 || place[i] < place[found]) {
				found = i
			}
		}
		return found
	}
	all := make([]int, len(g.nodes))
	for i := range all {
		all[i] = i
	}
	var chain []int
	for i := best(all, open.longest); i >= 0; i = best(g.before[i], open.down[i]-1) {
		chain = append(chain, i)
		if open.down[i] == 1 {
			break
		}
	}
	return g.names(chain)
}

// places are the places of the nodes in the ranking.
func (g *Graph) places() []int {
	place := make([]int, len(g.nodes))
	for k, r := range g.ranks() {
		place[g.index[r.ID]] = k
	}
	return place
}

// doable says which open nodes can be done now or later, by us or by others.
// There must be no cycles.
func (g *Graph) doable() func(int) bool {
	lost := make([]bool, len(g.nodes)) // never gets ready
	for _, i := range g.topo() {
		n := &g.nodes[i]
		lost[i] = !n.Done && (n.Out || len(g.missing[i]) > 0)
		for _, j := range g.after[i] {
			lost[i] = lost[i] || (lost[j] && !n.Done)
		}
	}
	return func(i int) bool { return g.live(i) && !lost[i] }
}
