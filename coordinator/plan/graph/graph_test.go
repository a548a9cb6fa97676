package graph_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/graph/network"
	"gonum.org/v1/gonum/graph/simple"
	"pgregory.net/rapid"

	"ralph/coordinator/plan/graph"
)

// chart makes nodes of "a<b,c" (a depends on b and c); marks before a name:
// "+" done, "!" out, "-" not to be picked; "name=2" has priority 2.
func chart(lines ...string) []graph.Node {
	var nodes []graph.Node
	for _, l := range lines {
		head, deps, _ := strings.Cut(l, "<")
		n := graph.Node{Pick: true}
		for {
			rest, ok := strings.CutPrefix(head, "+")
			if ok {
				n.Done, n.Pick, head = true, false, rest
				continue
			}
			if rest, ok = strings.CutPrefix(head, "!"); ok {
				n.Out, n.Pick, head = true, false, rest
				continue
			}
			if rest, ok = strings.CutPrefix(head, "-"); ok {
				n.Pick, head = false, rest
				continue
			}
			break
		}
		name, prio, _ := strings.Cut(head, "=")
		n.ID = name
		if prio != "" {
			fmt.Sscan(prio, &n.Priority)
		}
		if deps != "" {
			n.After = strings.Split(deps, ",")
		}
		nodes = append(nodes, n)
	}
	return nodes
}

func TestWhatIsReady(t *testing.T) {
	for _, c := range []struct {
		name    string
		nodes   []graph.Node
		ready   string
		order   string
		layers  string
		chain   string
		waiting map[string]string
	}{
		{"nothing", nil, "", "", "", "", nil},
		{"all done", chart("+a", "+b<a"), "", "", "", "", nil},
		{"a chain", chart("c<b", "b<a", "a"), "a", "a b c", "a|b|c", "a b c", map[string]string{"b": "a", "c": "b"}},
		{"side by side", chart("+a", "b<a", "c<a", "d<b,c"), "b c", "b c d", "b c|d", "b d", nil},
		{"unknown", chart("a<ghost", "b<a", "c"), "c", "c", "c", "a b", map[string]string{"a": "ghost", "b": "a"}},
		{"failed", chart("!a", "b<a", "c<b", "d"), "d", "d", "d", "b c", map[string]string{"b": "a"}},
		{"failed that was done", chart("+!a", "b<a"), "b", "b", "b", "b", nil},
		{"at work", chart("-a", "b<a", "c"), "c", "c b", "c b", "a b", map[string]string{"b": "a"}},
		{"itself", chart("a<a", "b"), "b", "", "", "", map[string]string{"a": "a"}},
		{"a circle", chart("a<b", "b<a", "c<a", "d"), "d", "", "", "", map[string]string{"a": "b", "c": "a"}},
		{"named twice", chart("a", "b<a,a"), "a", "a b", "a|b", "a b", nil},
		{"an id twice", append(chart("a", "b<a"), graph.Node{ID: "a", Done: true}), "a", "a b", "a|b", "a b", nil},
		{"order of counting", chart("t10", "t9", "t2<t10"), "t10 t9", "t10 t9 t2", "t10 t9|t2", "t10 t2", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := graph.New(c.nodes)
			if got := strings.Join(g.Ready(), " "); got != c.ready {
				t.Errorf("ready %q, want %q", got, c.ready)
			}
			if got := strings.Join(g.Order(), " "); got != c.order {
				t.Errorf("order %q, want %q", got, c.order)
			}
			var layers []string
			for _, l := range g.Layers() {
				layers = append(layers, strings.Join(l, " "))
			}
			if got := strings.Join(layers, "|"); got != c.layers {
				t.Errorf("layers %q, want %q", got, c.layers)
			}
			if got := strings.Join(g.Critical(), " "); got != c.chain {
				t.Errorf("critical %q, want %q", got, c.chain)
			}
			for _, r := range g.Ranks() {
				if want, ok := c.waiting[r.ID]; ok && strings.Join(r.BlockedBy, " ") != want {
					t.Errorf("%s waits for %v, want %s", r.ID, r.BlockedBy, want)
				}
			}
		})
	}
}

func TestRanking(t *testing.T) {
	scored := chart("a=1", "b=1", "c=1")
	scored[2].Score = 0.9
	for _, c := range []struct {
		name  string
		nodes []graph.Node
		way   graph.Way
		want  string
	}{
		{"the most urgent first", chart("a=2", "b=0", "c=1"), graph.ByPriority, "b c a"},
		{"urgent work behind it makes it urgent", chart("low=4", "mid=2", "top=0<low"), graph.ByPriority, "low mid top"},
		{"but not more than what is urgent itself", chart("low=4", "bug=0", "top=0<low"), graph.ByPriority, "bug low top"},
		{"not by what is failed, done or not to be picked", chart("low=4", "mid=2", "!x=0<low", "+y=0<low", "-z=0<low"), graph.ByPriority, "mid low z x"},
		{"equal priority: the structure", chart("a", "b", "c<b", "d<c"), graph.ByPriority, "b a c d"},
		{"equal priority: the score of the plan before the structure", scored, graph.ByPriority, "c a b"},
		{"all equal: as given", chart("z", "y", "x"), graph.ByPriority, "z y x"},
		{"ready before waiting before not to be picked", chart("-a=0", "c=0<d", "d=4"), graph.ByStructure, "d c a"},
		{"structure before priority", chart("bug=0", "base=3", "x=3<base", "y=3<base", "z=3<x"), graph.ByStructure, "base bug x y z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ids []string
			for _, r := range graph.New(c.nodes, c.way).Ranks() {
				ids = append(ids, r.ID)
			}
			if got := strings.Join(ids, " "); got != c.want {
				t.Errorf("ranked %q, want %q", got, c.want)
			}
		})
	}
}

func TestReasons(t *testing.T) {
	g := graph.New(chart("low=4", "top=0<low", "x<top", "free=2", "stuck<free,ghost"))
	want := map[string]string{
		"low":   "priority 4, work of priority 0 waits for it; on the critical path, a chain of 3 begins with it; unblocks top; 2 wait for it in all",
		"top":   "priority 0; on the critical path, a chain of 2 begins with it; unblocks x; lies between others (betweenness 1); waits for low",
		"free":  "priority 2, work of priority 0 waits for it; a chain of 2 begins with it, slack 1; 1 wait for it in all",
		"stuck": "priority 0; waits for free, ghost",
	}
	for _, r := range g.Ranks() {
		if w, ok := want[r.ID]; ok && strings.Join(r.Reasons, "; ") != w {
			t.Errorf("%s: %s\nwant %s", r.ID, strings.Join(r.Reasons, "; "), w)
		}
	}
}

// TestAnswersAreTheCallers: what is handed out can be changed without harm.
func TestAnswersAreTheCallers(t *testing.T) {
	g := graph.New(chart("a", "b<a", "c<d", "d<c"))
	g.Cycles()[0][0] = "x"
	g.Ranks()[0].Reasons[0] = "x"
	g.Whole().PageRank["a"] = 7
	if g.Cycles()[0][0] == "x" || g.Ranks()[0].Reasons[0] == "x" || g.Whole().PageRank["a"] == 7 {
		t.Error("the graph has changed")
	}
}

func TestCycles(t *testing.T) {
	for _, c := range []struct {
		name, want string
		nodes      []graph.Node
	}{
		{"none", "", chart("a", "b<a")},
		{"itself", "a a", chart("a<a", "b<a")},
		{"two", "a b a", chart("b<a", "a<b")},
		{"direction: each comes before the next", "a b c a", chart("b<a", "c<b", "a<c")},
		{"smallest id first, as people count", "t2 t10 t2", chart("t10<t2", "t2<t10")},
		{"shortest first", "x x|p q p|a b c a", chart("b<a", "c<b", "a<c", "p<q", "q<p", "x<x")},
		{"an eight: all in it are told", "a b a|b c b", chart("a<b", "b<a,c", "c<b")},
		{"done tasks too", "a b a", chart("+a<b", "b<a")},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, ids := range graph.New(c.nodes).Cycles() {
				got = append(got, strings.Join(ids, " "))
			}
			if s := strings.Join(got, "|"); s != c.want {
				t.Errorf("%q, want %q", s, c.want)
			}
		})
	}
	var knot []graph.Node // everything depends on everything
	for i := range 300 {
		n := graph.Node{ID: fmt.Sprint(i)}
		for j := range 300 {
			n.After = append(n.After, fmt.Sprint(j))
		}
		knot = append(knot, n)
	}
	if n := len(graph.New(knot).Cycles()); n != 100 {
		t.Errorf("%d cycles of a knot, want the bound", n)
	}
}

func TestReduced(t *testing.T) {
	g := graph.New(chart("a", "b<a", "c<a,b", "d<a,b,c", "e<a,ghost"))
	want := map[string][]string{"b": {"a"}, "c": {"b"}, "d": {"c"}, "e": {"a"}}
	if got := g.Reduced(); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// random draws a graph: without cycles, a node only depends on earlier ones.
func random(t *rapid.T, cycles bool) []graph.Node {
	n := rapid.IntRange(0, 25).Draw(t, "n")
	nodes := make([]graph.Node, n)
	for i := range nodes {
		nodes[i] = graph.Node{
			ID: fmt.Sprintf("n%d", i), Priority: rapid.IntRange(0, 4).Draw(t, "priority"),
			Done: rapid.IntRange(0, 4).Draw(t, "done") == 0, Out: rapid.IntRange(0, 9).Draw(t, "out") == 0,
			Pick: rapid.IntRange(0, 4).Draw(t, "pick") != 0,
		}
		limit := i - 1
		if cycles {
			limit = n - 1
		}
		for range rapid.IntRange(0, 3).Draw(t, "deps") {
			if limit >= 0 {
				nodes[i].After = append(nodes[i].After, fmt.Sprintf("n%d", rapid.IntRange(0, limit).Draw(t, "dep")))
			}
		}
	}
	rand.New(rand.NewSource(int64(n))).Shuffle(n, func(a, b int) { nodes[a], nodes[b] = nodes[b], nodes[a] })
	return nodes
}

// reach is the plain answer: who is reached from a node along its dependants.
func reach(nodes []graph.Node, from string, through func(graph.Node) bool) map[string]bool {
	seen := map[string]bool{}
	stack := []string{from}
	for len(stack) > 0 {
		id := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, n := range nodes {
			if slices.Contains(n.After, id) && !seen[n.ID] && through(n) {
				seen[n.ID] = true
				stack = append(stack, n.ID)
			}
		}
	}
	return seen
}

func live(n graph.Node) bool { return !n.Done && !n.Out }

func TestAgainstPlainAnswers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := random(t, false)
		g := graph.New(nodes)
		if c := g.Cycles(); c != nil {
			t.Fatalf("cycles %v in a graph without", c)
		}
		byID := map[string]graph.Node{}
		for _, n := range nodes {
			byID[n.ID] = n
		}
		var depth func(id string) int
		depth = func(id string) int {
			d := 0
			for _, n := range nodes {
				if live(n) && slices.Contains(n.After, id) {
					d = max(d, depth(n.ID))
				}
			}
			return d + 1
		}
		ready := map[string]bool{}
		for _, id := range g.Ready() {
			ready[id] = true
		}
		ranks, longest := g.Ranks(), 0
		for _, r := range ranks {
			n := byID[r.ID]
			if n.Done {
				t.Fatalf("%s is done and ranked", r.ID)
			}
			if want := reach(nodes, r.ID, live); len(want) != r.Transitive {
				t.Fatalf("%d wait for %s, want %v", r.Transitive, r.ID, want)
			}
			free := true
			for _, on := range n.After {
				free = free && byID[on].Done
			}
			if want := free && n.Pick && !n.Out; r.Ready != want || ready[r.ID] != want {
				t.Fatalf("%s ready %v, want %v", r.ID, r.Ready, want)
			}
			if live(n) {
				longest = max(longest, r.Depth)
				if want := depth(r.ID); r.Depth != want {
					t.Fatalf("depth of %s is %d, want %d", r.ID, r.Depth, want)
				}
			}
		}
		if c := g.Critical(); len(c) != longest {
			t.Fatalf("critical path %v, longest chain %d", c, longest)
		}
		for k, id := range g.Critical() {
			if c := g.Critical(); k > 0 && !slices.Contains(byID[id].After, c[k-1]) {
				t.Fatalf("no chain: %v", c)
			}
		}
		simulate(t, nodes, g)
		inOrderRapid(t, nodes, g.Whole().Order)
	})
}

// simulate works a plan by its order: each must be ready when its turn comes,
// once what is done by others is done; and what is left over never gets ready.
func simulate(t *rapid.T, nodes []graph.Node, g *graph.Graph) {
	nodes = slices.Clone(nodes)
	at := map[string]int{}
	for i, n := range nodes {
		at[n.ID] = i
	}
	others := func() { // the rest of the world does its part as soon as it can
		for changed := true; changed; {
			changed = false
			for i, n := range nodes {
				free := true
				for _, on := range n.After {
					free = free && nodes[at[on]].Done
				}
				if live(n) && !n.Pick && free {
					nodes[i].Done, changed = true, true
				}
			}
		}
	}
	layer := map[string]int{}
	for k, l := range g.Layers() {
		for _, id := range l {
			layer[id] = k
		}
	}
	for _, id := range g.Order() {
		others()
		if !slices.Contains(graph.New(nodes).Ready(), id) {
			t.Fatalf("%s is not ready at its turn in %v", id, g.Order())
		}
		for _, on := range nodes[at[id]].After {
			if k, ok := layer[on]; ok && k >= layer[id] {
				t.Fatalf("%s is in layer %d, %s that it needs in %d", id, layer[id], on, k)
			}
		}
		nodes[at[id]].Done = true
	}
	others()
	if left := graph.New(nodes).Ready(); len(left) > 0 {
		t.Fatalf("%v could still be done after %v", left, g.Order())
	}
	if len(layer) != len(g.Order()) {
		t.Fatalf("%d in layers, %d in order", len(layer), len(g.Order()))
	}
}

func inOrderRapid(t *rapid.T, nodes []graph.Node, order []string) {
	at := map[string]int{}
	for k, id := range order {
		at[id] = k
	}
	for _, n := range nodes {
		for _, on := range n.After {
			if at[on] > at[n.ID] || len(order) != len(nodes) {
				t.Fatalf("order %v: %s before %s", order, n.ID, on)
			}
		}
	}
}

// TestAgainstGonum holds the two measures that are computed here, because gonum's
// are random or too slow, against gonum's own, with cycles too.
func TestAgainstGonum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := random(t, true)
		if len(nodes) == 0 {
			return
		}
		at := map[string]int64{}
		other := simple.NewDirectedGraph()
		for i, n := range nodes {
			at[n.ID] = int64(i)
			other.AddNode(simple.Node(i))
		}
		for i, n := range nodes {
			kept := n.After[:0:0]
			for _, on := range n.After {
				if on != n.ID { // gonum's simple graphs have no self-loops
					other.SetEdge(simple.Edge{F: simple.Node(i), T: simple.Node(at[on])})
					kept = append(kept, on)
				}
			}
			nodes[i].After = kept
		}
		ours := graph.New(nodes).Whole()
		ranks, between := network.PageRankSparse(other, 0.85, 1e-12), network.Betweenness(other)
		for _, n := range nodes {
			if a, b := ours.PageRank[n.ID], ranks[at[n.ID]]; math.Abs(a-b) > 1e-9 {
				t.Fatalf("PageRank of %s is %v, gonum says %v", n.ID, a, b)
			}
			if a, b := ours.Betweenness[n.ID], between[at[n.ID]]; math.Abs(a-b) > 1e-9 {
				t.Fatalf("betweenness of %s is %v, gonum says %v", n.ID, a, b)
			}
		}
		if ours.Sampled {
			t.Fatal("sampled a small graph")
		}
	})
}

func TestCyclesAreCyclesAndAllOfThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := random(t, true)
		g := graph.New(nodes)
		byID, told := map[string]graph.Node{}, map[string]bool{}
		for _, n := range nodes {
			byID[n.ID] = n
		}
		for _, c := range g.Cycles() {
			if c[0] != c[len(c)-1] || len(c) < 2 {
				t.Fatalf("%v is not closed", c)
			}
			for k := 1; k < len(c); k++ {
				if !slices.Contains(byID[c[k]].After, c[k-1]) {
					t.Fatalf("%v: %s does not depend on %s", c, c[k], c[k-1])
				}
				told[c[k]] = true
			}
		}
		for _, n := range nodes {
			if in := reach(nodes, n.ID, func(graph.Node) bool { return true })[n.ID]; in != told[n.ID] {
				t.Fatalf("%s is in a cycle: %v, told: %v", n.ID, in, told[n.ID])
			}
		}
		if w := g.Whole(); (w.Order == nil) != (len(told) > 0 || len(nodes) == 0) && len(nodes) > 0 {
			t.Fatalf("order %v with cycles %v", w.Order, g.Cycles())
		}
		shuffled := slices.Clone(nodes)
		slices.Reverse(shuffled)
		if len(shuffled) > 0 && !slices.EqualFunc(graph.New(nodes).Cycles(), g.Cycles(), slices.Equal) {
			t.Fatal("another answer to the same question")
		}
	})
}

// layered is a plan as large ones are: each task depends on some of the fifty
// before it.
func layered(n int) []graph.Node {
	r := rand.New(rand.NewSource(1))
	nodes := make([]graph.Node, n)
	for i := range nodes {
		nodes[i] = graph.Node{ID: fmt.Sprintf("T-%d", i), Priority: r.Intn(5), Done: i < n/10, Pick: i >= n/10}
		for range min(i, 1+r.Intn(3)) {
			nodes[i].After = append(nodes[i].After, fmt.Sprintf("T-%d", i-1-r.Intn(min(i, 50))))
		}
	}
	return nodes
}

// TestLargeIsSampledAndSteady: estimates are always the same, and near the
// exact values where these are large.
func TestLargeIsSampledAndSteady(t *testing.T) {
	a, b := graph.New(layered(4000)).Whole(), graph.New(layered(4000)).Whole()
	if !a.Sampled {
		t.Fatal("4,000 tasks, each of which leads to most before it, were not sampled")
	}
	if !maps.Equal(a.Betweenness, b.Betweenness) || !maps.Equal(a.PageRank, b.PageRank) {
		t.Error("two answers to one question")
	}
	sum := 0.0
	for _, v := range a.PageRank {
		sum += v
	}
	if math.Abs(sum-1) > 1e-9 {
		t.Errorf("PageRank sums up to %v", sum)
	}
}

func BenchmarkPick(b *testing.B) {
	for _, n := range []int{10, 1000, 10000} {
		nodes := layered(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if len(graph.New(nodes).Ready()) == 0 {
					b.Fatal("nothing is ready")
				}
			}
		})
	}
}

func BenchmarkEverything(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		nodes := layered(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				g := graph.New(nodes)
				if len(g.Cycles()) > 0 || len(g.Order()) == 0 || len(g.Layers()) == 0 || len(g.Critical()) == 0 {
					b.Fatal("no answer")
				}
			}
		})
	}
}
