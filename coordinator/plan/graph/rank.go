package graph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Rank is what is known of a node that is not done, and how good a choice it is.
type Rank struct {
	ID string `json:"id"`
	// Score is the weight of the structure, 0 to 1: parts of .25 PageRank, .20
	// betweenness, .20 depth, .15 what it unblocks at once, .10 what waits for it
	// in all, each relative to the largest of all open nodes, and .10 urgency.
	Score float64 `json:"score"`
	// PageRank and Betweenness are those of the whole graph; see Measures.
	PageRank    float64 `json:"pagerank"`
	Betweenness float64 `json:"betweenness"`
	// Depth is how many open tasks the longest chain has that begins with it: 1
	// when nothing open waits for it. 0 with cycles, and for what is out.
	Depth int `json:"depth"`
	// Slack is how many tasks shorter the longest chain of open work through it
	// is than the longest of all; Critical says that it is none. 0 and false
	// with cycles.
	Slack    int  `json:"slack"`
	Critical bool `json:"critical"`
	// Unblocks is what nothing stands before any more when it is done.
	Unblocks []string `json:"unblocks"`
	// Transitive is how many open tasks wait for it, directly or not.
	Transitive int `json:"transitive"`
	// Reasons for its place, in words, the weightiest first.
	Reasons []string `json:"reasons"`
	// Ready says that it can be worked now, BlockedBy what keeps it from that
	// (ids that are not done, or unknown).
	Ready     bool     `json:"ready"`
	BlockedBy []string `json:"blocked_by"`
}

// Ranks ranks the nodes that are not done: those that are ready first, then
// those that wait, then those that are not to be picked, each group best first.
// Equal ones keep the order in which they were given.
func (g *Graph) Ranks() []Rank {
	out := slices.Clone(g.ranks())
	for i := range out {
		r := &out[i]
		r.Unblocks, r.Reasons, r.BlockedBy = slices.Clone(r.Unblocks), slices.Clone(r.Reasons), slices.Clone(r.BlockedBy)
	}
	return out
}

// candidate is a rank with what only the comparison needs.
type candidate struct {
	Rank
	node   int
	group  int // 0 ready, 1 waiting, 2 not to be picked
	urgent int
}

func (g *Graph) rank() []Rank {
	var list []candidate
	ranks := g.whole()
	open := g.open()
	for i := range g.nodes {
		if g.nodes[i].Done {
			continue
		}
		list = append(list, g.candidate(i, ranks, open))
	}
	weigh(list)
	slices.SortFunc(list, g.compare)
	out := make([]Rank, len(list))
	for k := range list {
		list[k].Reasons = g.reasons(&list[k])
		out[k] = list[k].Rank
	}
	return out
}

func (g *Graph) candidate(i int, whole Measures, open *openWork) candidate {
	n := &g.nodes[i]
	c := candidate{node: i, urgent: n.Priority, Rank: Rank{
		ID: n.ID, PageRank: whole.PageRank[n.ID], Betweenness: whole.Betweenness[n.ID],
		Ready: g.ready(i), BlockedBy: g.blockers(i), Unblocks: g.names(g.unblocks(i)),
	}}
	switch {
	case !n.Pick || n.Out:
		c.group = 2
	case !c.Ready:
		c.group = 1
	}
	if open != nil {
		c.urgent, c.Transitive = open.urgent[i], open.behind[i]
		c.Depth = open.down[i]
		if g.live(i) {
			c.Slack = open.slack(i)
			c.Critical = c.Slack == 0 && open.longest > 1
		}
	}
	return c
}

// weigh gives each its score, relative to the largest values among them.
func weigh(list []candidate) {
	var pr, bt, depth, unblocks, behind float64
	low, high := 0, 0
	for k := range list {
		c := &list[k]
		pr, bt = max(pr, c.PageRank), max(bt, c.Betweenness)
		depth, behind = max(depth, float64(c.Depth)), max(behind, float64(c.Transitive))
		unblocks = max(unblocks, float64(len(c.Unblocks)))
		if k == 0 {
			low, high = c.urgent, c.urgent
		}
		low, high = min(low, c.urgent), max(high, c.urgent)
	}
	for k := range list {
		c := &list[k]
		urgency := 1.0
		if high > low {
			urgency = float64(high-c.urgent) / float64(high-low)
		}
		c.Score = .25*share(c.PageRank, pr) + .20*share(c.Betweenness, bt) +
			.20*share(float64(c.Depth), depth) + .15*share(float64(len(c.Unblocks)), unblocks) +
			.10*share(float64(c.Transitive), behind) + .10*urgency
	}
}

func share(v, of float64) float64 {
	if of == 0 {
		return 0
	}
	return v / of
}

// epsilon is what two scores must differ by to count as different: PageRank is
// only as exact as its last round.
const epsilon = 1e-9

func (g *Graph) compare(a, b candidate) int {
	na, nb := &g.nodes[a.node], &g.nodes[b.node]
	structure := 0
	if d := b.Score - a.Score; d > epsilon || d < -epsilon {
		structure = cmp.Compare(b.Score, a.Score)
	}
	urgency := cmp.Or(cmp.Compare(a.urgent, b.urgent), cmp.Compare(na.Priority, nb.Priority), cmp.Compare(nb.Score, na.Score))
	first, second := urgency, structure
	if g.way == ByStructure {
		first, second = structure, urgency
	}
	return cmp.Or(cmp.Compare(a.group, b.group), first, second, cmp.Compare(a.node, b.node))
}

// reasons puts a rank into words.
func (g *Graph) reasons(c *candidate) []string {
	var out []string
	own := g.nodes[c.node].Priority
	switch {
	case c.urgent < own:
		out = append(out, fmt.Sprintf("priority %d, work of priority %d waits for it", own, c.urgent))
	default:
		out = append(out, fmt.Sprintf("priority %d", own))
	}
	if c.Critical {
		out = append(out, fmt.Sprintf("on the critical path, a chain of %d begins with it", c.Depth))
	} else if c.Depth > 1 {
		out = append(out, fmt.Sprintf("a chain of %d begins with it, slack %d", c.Depth, c.Slack))
	}
	if n := len(c.Unblocks); n > 0 {
		out = append(out, "unblocks "+some(c.Unblocks))
	}
	if c.Transitive > len(c.Unblocks) {
		out = append(out, fmt.Sprintf("%d wait for it in all", c.Transitive))
	}
	if c.Betweenness > 0 {
		out = append(out, fmt.Sprintf("lies between others (betweenness %.4g)", c.Betweenness))
	}
	if len(c.BlockedBy) > 0 {
		out = append(out, "waits for "+some(c.BlockedBy))
	}
	return out
}

// some names the first few of many.
func some(ids []string) string {
	const shown = 5
	if len(ids) <= shown {
		return strings.Join(ids, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(ids[:shown], ", "), len(ids)-shown)
}
