package graph

import "sync"

// Node is a task as the graph sees it.
type Node struct {
	// ID names it. Of two nodes with the same ID the first counts.
	ID string
	// After are the ids that it depends on. One that no node has is never done:
	// it keeps the node from getting ready.
	After []string
	// Priority is its urgency, 0 the most urgent.
	Priority int
	// Score breaks ties between equal priorities, the higher first.
	Score float64
	// Done says that it is merged or closed.
	Done bool
	// Out says that it has failed or was skipped: what depends on it never gets
	// ready.
	Out bool
	// Pick says that it may be worked at all: it is open, not an epic, selected.
	Pick bool
}

// Way says what the ranking looks at first.
type Way int

const (
	// ByPriority takes the most urgent first: a node is as urgent as the most
	// urgent one that waits for it. The structure decides between equals.
	ByPriority Way = iota
	// ByStructure takes the node first that the structure makes most important;
	// its priority is one part of that sum.
	ByStructure
)

// Graph is a set of nodes with their dependencies. It never changes and is safe
// for concurrent use. What is costly is computed at the first question.
type Graph struct {
	way   Way
	nodes []Node
	index map[string]int
	// after are the known dependencies of each node, before what depends on it;
	// both without repetition and in the order of the nodes, but for self-loops.
	after, before [][]int
	// missing are the dependencies that no node has.
	missing [][]string
	self    []bool
	// cycles and open are computed once; open is nil when there are cycles.
	cycles func() [][]string
	topo   func() []int
	open   func() *openWork
	whole  func() Measures
	ranks  func() []Rank
}

// New makes the graph of nodes, ranked ByPriority unless another way is given.
// It keeps the nodes, which must not be changed then.
func New(nodes []Node, way ...Way) *Graph {
	g := &Graph{index: make(map[string]int, len(nodes))}
	if len(way) > 0 {
		g.way = way[0]
	}
	for _, n := range nodes {
		if _, twice := g.index[n.ID]; twice {
			continue
		}
		g.index[n.ID] = len(g.nodes)
		g.nodes = append(g.nodes, n)
	}
	g.link()
	g.cycles = sync.OnceValue(g.findCycles)
	g.topo = sync.OnceValue(g.sorted)
	g.open = sync.OnceValue(g.openWork)
	g.whole = sync.OnceValue(g.measure)
	g.ranks = sync.OnceValue(g.rank)
	return g
}

func (g *Graph) link() {
	n := len(g.nodes)
	g.after, g.before = make([][]int, n), make([][]int, n)
	g.missing, g.self = make([][]string, n), make([]bool, n)
	seen := make([]int, n) // the node, plus one, that has named it last
	for i, node := range g.nodes {
		for _, id := range node.After {
			j, known := g.index[id]
			switch {
			case !known:
				g.missing[i] = append(g.missing[i], id)
			case j == i:
				g.self[i] = true
			case seen[j] != i+1:
				seen[j] = i + 1
				g.after[i] = append(g.after[i], j)
				g.before[j] = append(g.before[j], i)
			}
		}
	}
}

// Len is the number of nodes.
func (g *Graph) Len() int { return len(g.nodes) }

// Ready are the nodes that can be worked now, best first: they may be picked, and
// everything that they depend on is done.
func (g *Graph) Ready() []string {
	var ids []string
	for _, r := range g.ranks() {
		if r.Ready {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// ready says that a node can be worked now.
func (g *Graph) ready(i int) bool {
	n := &g.nodes[i]
	return n.Pick && !n.Done && !n.Out && g.free(i)
}

// free says that nothing stands before a node.
func (g *Graph) free(i int) bool {
	if g.self[i] || len(g.missing[i]) > 0 {
		return false
	}
	for _, j := range g.after[i] {
		if !g.nodes[j].Done {
			return false
		}
	}
	return true
}

// blockers are the ids that keep a node from being ready, in the order in which
// it names them.
func (g *Graph) blockers(i int) []string {
	var ids []string
	if g.self[i] {
		ids = append(ids, g.nodes[i].ID)
	}
	for _, j := range g.after[i] {
		if !g.nodes[j].Done {
			ids = append(ids, g.nodes[j].ID)
		}
	}
	return append(ids, g.missing[i]...)
}

// live says that a node is work that is still to be done.
func (g *Graph) live(i int) bool { return !g.nodes[i].Done && !g.nodes[i].Out }

// unblocks are the nodes that would be free at once if i were done.
func (g *Graph) unblocks(i int) []int {
	var out []int
	for _, k := range g.before[i] {
		if g.live(k) && !g.self[k] && len(g.missing[k]) == 0 && g.waitsOnlyFor(k, i) {
			out = append(out, k)
		}
	}
	return out
}

func (g *Graph) waitsOnlyFor(k, i int) bool {
	for _, j := range g.after[k] {
		if j != i && !g.nodes[j].Done {
			return false
		}
	}
	return true
}

// names are the ids of nodes.
func (g *Graph) names(list []int) []string {
	if len(list) == 0 {
		return nil
	}
	ids := make([]string, len(list))
	for k, i := range list {
		ids[k] = g.nodes[i].ID
	}
	return ids
}
