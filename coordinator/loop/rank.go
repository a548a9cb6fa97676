package loop

import (
	"slices"
	"sync"

	"ralph/coordinator/plan/graph"
)

// Ranking a large plan takes longer than everything else between two attempts, and
// an attempt that ends changes little of it. So it is ranked anew when its
// structure has changed, and otherwise when so many tasks stand differently;
// smaller plans each time. What is ready is always seen anew.
const (
	smallPlan  = 2000
	rankedPart = 500 // of the tasks
)

// ranking is the order in which tasks are taken.
type ranking struct {
	nodes []graph.Node
	at    map[string]int // of nodes
	place map[string]int // in the order, of what was not done when it was ranked
	order []string
	moved int
	graph func() *graph.Graph // of the nodes, made when it is needed
}

// rank takes the nodes as they stand now; they are not changed any more.
func (r *ranking) rank(nodes []graph.Node, way graph.Way) {
	old := r.nodes
	r.nodes = nodes
	r.graph = sync.OnceValue(func() *graph.Graph { return graph.New(nodes, way) })
	same := len(old) == len(nodes) && r.order != nil
	for i := 0; same && i < len(nodes); i++ {
		a, b := &old[i], &nodes[i]
		same = a.ID == b.ID && a.Priority == b.Priority && a.Score == b.Score && slices.Equal(a.After, b.After)
		if a.Done != b.Done || a.Out != b.Out {
			r.moved++
		}
	}
	if !same {
		r.at = make(map[string]int, len(nodes))
		for i := range nodes {
			r.at[nodes[i].ID] = i
		}
	}
	if !same || len(nodes) <= smallPlan || r.moved > len(nodes)/rankedPart {
		r.renew()
	}
}

func (r *ranking) renew() {
	ranks := r.graph().Ranks()
	r.order, r.moved = make([]string, len(ranks)), 0
	r.place = make(map[string]int, len(ranks))
	for i := range ranks {
		r.order[i] = ranks[i].ID
		r.place[ranks[i].ID] = i
	}
}

// ready are the tasks that can be worked now, best first.
func (r *ranking) ready() []string {
	var ids []string
	known := true
	for i := range r.nodes {
		if n := &r.nodes[i]; n.Pick && !n.Done && !n.Out && r.free(n) {
			_, ranked := r.place[n.ID]
			known = known && ranked
			ids = append(ids, n.ID)
		}
	}
	if !known { // something was opened again
		r.renew()
	}
	slices.SortStableFunc(ids, func(a, b string) int { return r.place[a] - r.place[b] })
	return ids
}

func (r *ranking) free(n *graph.Node) bool {
	for _, id := range n.After {
		if i, ok := r.at[id]; !ok || !r.nodes[i].Done {
			return false
		}
	}
	return true
}
