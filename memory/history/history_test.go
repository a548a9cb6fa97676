package history_test

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ralph/memory/history"
)

func size(entries []history.Entry, fates []history.Fate, tokens func(int) int) int {
	sum := 0
	for i, f := range fates {
		switch f.Action {
		case history.Keep:
			sum += tokens(entries[i].Bytes)
		case history.Elide:
			sum += tokens(history.ElidedBytes)
		}
	}
	return sum
}

func bytes(n int) int { return n }

func TestPlanLeavesOutOldToolAnswersFirst(t *testing.T) {
	entries := []history.Entry{
		{Kind: history.KindSystem, Bytes: 100, Pinned: true},
		{Kind: history.KindUser, Bytes: 100, Pinned: true},
	}
	for range 6 {
		entries = append(entries, history.Entry{Kind: history.KindAssistant, Bytes: 50}, history.Entry{Kind: history.KindTool, Bytes: 1000}, history.Entry{Kind: history.KindTool, Bytes: 50})
	}
	fates := history.Plan(entries, bytes, 5900)
	want := map[int]history.Action{3: history.Elide, 4: history.Keep, 6: history.Keep}
	for i, a := range want {
		if fates[i].Action != a {
			t.Errorf("entry %d: %v, want %v (all: %v)", i, fates[i], a, fates)
		}
	}
	fates = history.Plan(entries, bytes, 4700)
	if fates[2].Action != history.Drop || fates[3].Action != history.Drop || fates[4].Action != history.Drop || fates[0].Action != history.Keep || fates[1].Action != history.Keep {
		t.Errorf("the oldest group is not dropped whole: %v", fates)
	}
	if fates := history.Plan(entries, bytes, 1_000_000); size(entries, fates, bytes) != 6*1100+200 {
		t.Errorf("something is left out though all fits: %v", fates)
	}
}

// Of old groups the relevant ones stay, however old they are.
func TestPlanKeepsWhatIsRelevant(t *testing.T) {
	entries := []history.Entry{{Kind: history.KindSystem, Bytes: 100, Pinned: true}}
	for i := range 40 {
		e := history.Entry{Kind: history.KindUser, Bytes: 100}
		switch i {
		case 0:
			e.Relevance = 3
		case 7:
			e.Relevance = 9.5
		}
		entries = append(entries, e, history.Entry{Kind: history.KindAssistant, Bytes: 100})
	}
	fates := history.Plan(entries, bytes, 1600)
	for i, want := range map[int]history.Action{1: history.Keep, 15: history.Keep, 3: history.Drop, 16: history.Drop, 80: history.Keep} {
		if fates[i].Action != want {
			t.Errorf("entry %d: %+v, want %v", i, fates[i], want)
		}
	}
	if !fates[15].Older || !strings.Contains(fates[15].Why, "9.5") || fates[80].Older || fates[80].Why != "recent" || !strings.Contains(fates[3].Why, "nothing to do") {
		t.Errorf("reasons: %+v, %+v, %+v", fates[15], fates[80], fates[3])
	}
}

func TestPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := []history.Entry{{Kind: history.KindSystem, Bytes: rapid.IntRange(0, 500).Draw(t, "system"), Pinned: true}}
		for range rapid.IntRange(0, 30).Draw(t, "n") {
			entries = append(entries, history.Entry{
				Kind:      history.Kind(rapid.IntRange(1, 3).Draw(t, "kind")),
				Bytes:     rapid.IntRange(0, 2000).Draw(t, "bytes"),
				Pinned:    rapid.IntRange(0, 9).Draw(t, "pin") == 0,
				Relevance: float64(rapid.IntRange(0, 3).Draw(t, "relevance")),
			})
		}
		budget := rapid.IntRange(0, 40_000).Draw(t, "budget")
		fates := history.Plan(entries, bytes, budget)
		if again := history.Plan(entries, bytes, budget); !reflect.DeepEqual(fates, again) {
			t.Fatal("the same question has two answers")
		}
		whole := size(entries, make([]history.Fate, len(entries)), bytes)
		got := size(entries, fates, bytes)
		if whole <= budget && got != whole {
			t.Fatalf("left out %d bytes though all fits", whole-got)
		}
		if least := floor(entries); got > max(budget, least) {
			t.Fatalf("%d bytes are kept, the budget is %d, what must stay takes %d", got, budget, least)
		}
		group := history.Keep
		for i, e := range entries {
			f := fates[i]
			if f.Why == "" {
				t.Fatalf("the fate of entry %d has no reason", i)
			}
			if e.Pinned && f.Action != history.Keep {
				t.Fatalf("entry %d is pinned and %v", i, f)
			}
			if e.Kind != history.KindTool && f.Action == history.Elide {
				t.Fatalf("entry %d is no tool answer and elided", i)
			}
			if e.Kind != history.KindTool || i == 1 {
				group = f.Action
				continue
			}
			if (f.Action == history.Drop) != (group == history.Drop) {
				t.Fatalf("entry %d is parted from its call: %v", i, fates)
			}
		}
	})
}

// floor is what no plan can leave out: the groups of what is pinned, and the
// last one, with the answers in them elided.
func floor(entries []history.Entry) int {
	sum, from := 0, 0
	for from < len(entries) {
		to := from + 1
		for to < len(entries) && entries[to].Kind == history.KindTool {
			to++
		}
		stays, n := to == len(entries), 0
		for _, e := range entries[from:to] {
			stays = stays || e.Pinned
			if e.Kind == history.KindTool && !e.Pinned {
				n += min(e.Bytes, history.ElidedBytes)
			} else {
				n += e.Bytes
			}
		}
		if stays {
			sum += n
		}
		from = to
	}
	return sum
}

func TestEstimateLearns(t *testing.T) {
	var e history.Estimate
	if got := e.Tokens(400); got != 100 {
		t.Errorf("400 bytes are %d tokens at first, want 100", got)
	}
	for range 30 {
		e.Learn(1000, 500, 0)
	}
	if got := e.Tokens(1000); got < 490 || got > 510 {
		t.Errorf("after reports of 2 bytes a token, 1000 bytes are %d tokens", got)
	}
	e.Learn(1000, 1, 0)
	e.Learn(1, 100_000, 0)
	e.Learn(0, 0, 0)
	e.Learn(-1, -1, -1)
	if got := e.Tokens(1000); got < 490 || got > 510 {
		t.Errorf("absurd reports moved the estimate to %d tokens", got)
	}
	if e.Tokens(0) != 0 || e.Tokens(1) != 1 {
		t.Error("nothing is nothing, and anything is at least one token")
	}
}

// Tokenizers of very different kinds, with what a request costs for itself, in
// conversations that grow, are known within 10 % after five reports; wrong
// reports and cached tokens counted beside the input do not matter.
func TestEstimateConverges(t *testing.T) {
	worst := map[string]float64{}
	random := rand.New(rand.NewPCG(1, 2))
	runs := 0
	for _, ratio := range []float64{1.2, 2.2, 3.1, 3.9, 5.5, 8} {
		for _, fixed := range []float64{0, 40, 900} {
			for _, kind := range []string{"plain", "cached inside", "cached beside", "one wrong report"} {
				runs++
				var e history.Estimate
				size := 9000.0
				for i := range 5 {
					tokens := fixed + size/ratio*(0.97+0.06*random.Float64())
					cached := 0.8 * tokens
					switch {
					case kind == "cached inside" && i > 0:
						e.Learn(int(size), int(tokens), int(cached))
					case kind == "cached beside" && i > 0:
						e.Learn(int(size), int(tokens-cached), int(cached))
					case kind == "one wrong report" && i == 2:
						e.Learn(int(size), int(tokens/3), 0)
					default:
						e.Learn(int(size), int(tokens), 0)
					}
					size *= 1.25
				}
				for _, at := range []float64{size, 2 * size} {
					real := fixed + at/ratio
					worst[kind] = max(worst[kind], math.Abs(float64(e.Request(int(at)))/real-1))
				}
			}
		}
	}
	for kind, off := range worst {
		t.Logf("%s: after 5 reports off by at most %.1f %% (%d runs in all)", kind, 100*off, runs)
		if off > 0.10 {
			t.Errorf("%s: off by %.1f %%", kind, 100*off)
		}
	}
}

func TestEstimatesAreKeptApart(t *testing.T) {
	var all history.Estimates
	first := all.For("a")
	first.Learn(1000, 500, 0)
	if all.For("b").Tokens(400) != 100 || all.For("a") != first {
		t.Error("models learn from each other")
	}
	line, reports := all.For("a").Learned()
	var next history.Estimate
	next.Seed(line)
	if reports != 1 || next.Tokens(1000) != all.For("a").Tokens(1000) {
		t.Errorf("what was learned (%+v) does not carry over", line)
	}
	next.Seed(history.Line{BytesPerToken: 1000})
	next.Seed(history.Line{BytesPerToken: 3, Fixed: math.Inf(1)})
	if next.Tokens(1000) != all.For("a").Tokens(1000) {
		t.Error("an absurd seed is taken")
	}
}

// A window is taken for no larger than what the endpoint refused, until it takes
// as much.
func TestEstimateLearnsTheWindow(t *testing.T) {
	var e history.Estimate
	if e.Window(1000) != 1000 || e.Window(0) != 0 {
		t.Error("a window is known before anything was refused")
	}
	e.Refuse(8000)
	e.Refuse(12_000)
	if got := e.Window(100_000); got != 2000 {
		t.Errorf("after a refusal of 8,000 bytes the window is %d", got)
	}
	if e.Window(1000) != 1000 || e.Window(0) != 2000 {
		t.Error("the smaller of the two counts")
	}
	e.Learn(7999, 2000, 0)
	if e.Window(100_000) == 100_000 {
		t.Error("a smaller request shows nothing")
	}
	e.Learn(8000, 2000, 0)
	if e.Window(100_000) != 100_000 {
		t.Error("the endpoint took as much as it had refused")
	}
}
