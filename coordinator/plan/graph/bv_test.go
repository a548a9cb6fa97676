package graph_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"os"
	"slices"
	"testing"

	"ralph/coordinator/plan/graph"
)

// insights is what bv 0.11.3 answers to --robot-insights.
type insights struct {
	Bottlenecks, Keystones, Slack []struct {
		ID    string
		Value float64
	}
	Cycles [][]string
	Stats  struct {
		OutDegree, InDegree map[string]int
		TopologicalOrder    []string
		NodeCount           int
		EdgeCount           int
	}
	Full struct {
		PageRank    map[string]float64 `json:"pagerank"`
		Betweenness map[string]float64 `json:"betweenness"`
		Chain       map[string]int     `json:"critical_path_score"`
		Slack       map[string]int     `json:"slack"`
	} `json:"full_stats"`
}

// issues reads what bv has read: all issues, closed ones and epics too, with
// their blocks edges.
func issues(t *testing.T, path string) []graph.Node {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var nodes []graph.Node
	scan := bufio.NewScanner(bytes.NewReader(data))
	for scan.Scan() {
		var i struct {
			ID, Status   string
			Priority     int
			Kind         string `json:"issue_type"`
			Dependencies []struct {
				On   string `json:"depends_on_id"`
				Type string
			}
		}
		if err := json.Unmarshal(scan.Bytes(), &i); err != nil {
			t.Fatal(err)
		}
		n := graph.Node{ID: i.ID, Priority: i.Priority, Done: i.Status == "closed", Pick: i.Status == "open" && i.Kind != "epic"}
		for _, d := range i.Dependencies {
			if d.Type == "blocks" {
				n.After = append(n.After, d.On)
			}
		}
		nodes = append(nodes, n)
	}
	return nodes
}

func answers(t *testing.T, path string) (a insights) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// bvTolerance is where bv's PageRank stops: gonum's iteration from a random
// start, until the 2-norm of a round is below 1e-6. Ours goes on to 1e-10, so the
// two differ by what bv left undone and by nothing else.
const bvTolerance = 1e-6

// TestMeasuresAreThoseOfBV holds the measures of the whole graph against bv's own
// answers.
//
// All are equal but two, and these for a reason. PageRank differs below 1e-6, see
// bvTolerance. TopologicalOrder cannot be repeated: bv takes what a depth-first
// walk over a map of Go's gives, which begins anywhere (the fixture's begins with
// demo-2 and ends with demo-1, which nothing asks for). There both must be an
// order of the same nodes that each edge agrees with.
func TestMeasuresAreThoseOfBV(t *testing.T) {
	for _, name := range []string{"", "-cycle"} {
		t.Run("issues"+name, func(t *testing.T) {
			nodes := issues(t, "testdata/issues"+name+".jsonl")
			theirs := answers(t, "testdata/bv-insights"+name+".json")
			g := graph.New(nodes)
			ours := g.Whole()

			if g.Len() != theirs.Stats.NodeCount {
				t.Errorf("%d nodes, bv has %d", g.Len(), theirs.Stats.NodeCount)
			}
			edges := 0
			for _, n := range nodes {
				edges += len(n.After)
				if len(n.After) != theirs.Stats.OutDegree[n.ID] {
					t.Errorf("%s depends on %d, bv says %d", n.ID, len(n.After), theirs.Stats.OutDegree[n.ID])
				}
			}
			if edges != theirs.Stats.EdgeCount {
				t.Errorf("%d edges, bv has %d", edges, theirs.Stats.EdgeCount)
			}
			if len(ours.PageRank) != len(theirs.Full.PageRank) {
				t.Errorf("PageRank of %d nodes, bv has %d", len(ours.PageRank), len(theirs.Full.PageRank))
			}
			for id, v := range theirs.Full.PageRank {
				if math.Abs(ours.PageRank[id]-v) > bvTolerance {
					t.Errorf("PageRank of %s is %.9f, bv says %.9f", id, ours.PageRank[id], v)
				}
			}
			if !maps.Equal(ours.Betweenness, theirs.Full.Betweenness) {
				t.Errorf("betweenness %v, bv says %v", ours.Betweenness, theirs.Full.Betweenness)
			}
			if !maps.Equal(ours.Chain, theirs.Full.Chain) {
				t.Errorf("chains %v, bv says %v", ours.Chain, theirs.Full.Chain)
			}
			if !maps.Equal(ours.Slack, theirs.Full.Slack) {
				t.Errorf("slack %v, bv says %v", ours.Slack, theirs.Full.Slack)
			}
			if got := g.Cycles(); !slices.EqualFunc(got, theirs.Cycles, slices.Equal) {
				t.Errorf("cycles %v, bv says %v", got, theirs.Cycles)
			}
			if (ours.Order == nil) != (theirs.Stats.TopologicalOrder == nil) {
				t.Fatalf("order %v, bv says %v", ours.Order, theirs.Stats.TopologicalOrder)
			}
			if ours.Order != nil {
				inOrder(t, "ours", nodes, ours.Order)
				inOrder(t, "bv's", nodes, theirs.Stats.TopologicalOrder)
			}
		})
	}
}

// inOrder checks that an order has all nodes, each after all that it depends on.
func inOrder(t *testing.T, whose string, nodes []graph.Node, order []string) {
	t.Helper()
	at := map[string]int{}
	for k, id := range order {
		at[id] = k
	}
	if len(at) != len(nodes) || len(order) != len(nodes) {
		t.Fatalf("%s order %v is not one of all %d nodes", whose, order, len(nodes))
	}
	for _, n := range nodes {
		for _, on := range n.After {
			if at[on] > at[n.ID] {
				t.Errorf("%s order has %s before %s, which it depends on", whose, n.ID, on)
			}
		}
	}
}

// TestPickIsReady is what bv 0.11.3 gets wrong on the same issues: its next is
// demo-5, which waits for two others.
func TestPickIsReady(t *testing.T) {
	for _, way := range []graph.Way{graph.ByPriority, graph.ByStructure} {
		g := graph.New(issues(t, "testdata/issues.jsonl"), way)
		ready := g.Ready()
		want := []string{"demo-7", "demo-3", "demo-8"} // a bug of priority 0 first
		if way == graph.ByStructure {
			want = []string{"demo-3", "demo-7", "demo-8"}
		}
		if !slices.Equal(ready, want) {
			t.Errorf("way %d: ready %v, want %v", way, ready, want)
		}
	}
	// With the cycle 3 → 6 → 5 → 3 none of the three is ever ready.
	if got := graph.New(issues(t, "testdata/issues-cycle.jsonl")).Ready(); !slices.Equal(got, []string{"demo-7", "demo-8"}) {
		t.Errorf("ready with a cycle: %v", got)
	}
}
