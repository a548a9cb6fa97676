package graph

import (
	"slices"

	"gonum.org/v1/gonum/graph"
	"gonum.org/v1/gonum/graph/iterator"
	"gonum.org/v1/gonum/graph/simple"
	"gonum.org/v1/gonum/graph/topo"
)

var _ graph.Directed = directed{}

// directed shows a Graph to gonum: the id of a node is its place, an edge goes
// from a node to what it depends on. gonum's own graphs are maps, which it walks
// by chance; this one is walked in the order of the nodes, always.
type directed struct {
	nodes    []graph.Node
	from, to [][]graph.Node
	g        *Graph
}

func newDirected(g *Graph) directed {
	d := directed{nodes: make([]graph.Node, len(g.nodes)), g: g}
	for i := range d.nodes {
		d.nodes[i] = simple.Node(i)
	}
	pick := func(lists [][]int) [][]graph.Node {
		out := make([][]graph.Node, len(lists))
		for i, list := range lists {
			out[i] = make([]graph.Node, len(list))
			for k, j := range list {
				out[i][k] = d.nodes[j]
			}
		}
		return out
	}
	d.from, d.to = pick(g.after), pick(g.before)
	return d
}

// Node is the node with an id, nil when there is none.
func (d directed) Node(id int64) graph.Node {
	if id < 0 || id >= int64(len(d.nodes)) {
		return nil
	}
	return d.nodes[id]
}

// Nodes are all nodes.
func (d directed) Nodes() graph.Nodes { return list(d.nodes) }

// From is what a node depends on.
func (d directed) From(id int64) graph.Nodes { return list(d.from[id]) }

// To is what depends on a node.
func (d directed) To(id int64) graph.Nodes { return list(d.to[id]) }

// HasEdgeFromTo says that u depends on v.
func (d directed) HasEdgeFromTo(u, v int64) bool {
	return slices.Contains(d.g.after[u], int(v))
}

// HasEdgeBetween says that one of two depends on the other.
func (d directed) HasEdgeBetween(x, y int64) bool {
	return d.HasEdgeFromTo(x, y) || d.HasEdgeFromTo(y, x)
}

// Edge is the dependency of u on v, nil when there is none.
func (d directed) Edge(u, v int64) graph.Edge {
	if !d.HasEdgeFromTo(u, v) {
		return nil
	}
	return simple.Edge{F: d.nodes[u], T: d.nodes[v]}
}

func list(nodes []graph.Node) graph.Nodes {
	if len(nodes) == 0 {
		return graph.Empty
	}
	return iterator.NewOrderedNodes(nodes)
}

// components are the strongly connected components, dependencies first: those
// with more than one node are cycles.
func (g *Graph) components() [][]int {
	found := topo.TarjanSCC(newDirected(g))
	out := make([][]int, len(found))
	for k, c := range found {
		out[k] = make([]int, len(c))
		for i, n := range c {
			out[k][i] = int(n.ID())
		}
	}
	return out
}
