package analysis

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestCover holds the union against a list of all moments, for intervals in any
// order.
func TestCover(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c cover
		var moments [400]bool
		for range rapid.IntRange(0, 60).Draw(t, "n") {
			from := rapid.IntRange(0, 399).Draw(t, "from")
			to := rapid.IntRange(0, 399).Draw(t, "to")
			c.add(at(float64(from)), at(float64(to)))
			for i := from; i < to; i++ {
				moments[i] = true
			}
		}
		want := 0
		for _, covered := range moments {
			if covered {
				want++
			}
		}
		if got := c.seconds(); got != float64(want) {
			t.Fatalf("%v seconds are covered, not %d", got, want)
		}
	})
}

// TestCoverIsBounded sees that many intervals neither grow a cover nor lose
// time, and that a long one that comes last covers them whole.
func TestCoverIsBounded(t *testing.T) {
	var c cover
	const n = 10 * maxSegments
	for i := range n {
		c.add(at(float64(2*i)), at(float64(2*i+1)))
		if len(c.segments) > maxSegments {
			t.Fatalf("there are %d segments", len(c.segments))
		}
	}
	if got := c.seconds(); got != n {
		t.Errorf("%v seconds are covered, not %d", got, n)
	}
	if c.add(at(-1), at(2*n)); c.seconds() != 2*n+1 || len(c.segments) != 1 {
		t.Errorf("after all was covered: %v seconds in %d segments", c.seconds(), len(c.segments))
	}
	c.add(at(0), at(0).Add(maxInterval+time.Second))
	c.add(time.Time{}, at(1e6))
	if c.seconds() != 2*n+1 {
		t.Error("what cannot be is believed")
	}
}

func TestSample(t *testing.T) {
	for _, n := range []int{1, 2, 3, 20, 1000, maxExact, 3 * maxExact} {
		var s sample
		values := make([]float64, n)
		r := rand.New(rand.NewPCG(1, uint64(n)))
		for i := range values {
			values[i] = math.Exp(r.NormFloat64()*3 + 2)
			s.add(values[i])
		}
		s.add(math.NaN())
		s.add(math.Inf(1))
		s.add(-1)
		slices.Sort(values)
		d := s.distribution()
		within := 0.0011
		if n > maxExact {
			within = 0.011
		}
		near := func(what string, got *float64, want float64) {
			if math.Abs(*got-want) > max(0.0006, want*within) {
				t.Errorf("%d values: %s is %v, not %v", n, what, *got, want)
			}
		}
		near("median", d.Median, (values[(n-1)/2]+values[n/2])/2)
		near("p95", d.P95, values[int(math.Ceil(0.95*float64(n)))-1])
		near("max", d.Max, values[n-1])
		if d.N != n || len(s.values) > maxExact {
			t.Errorf("%d values: n is %d, %d are kept", n, d.N, len(s.values))
		}
	}
	if d := (&sample{}).distribution(); d != (Distribution{}) {
		t.Errorf("of nothing: %+v", d)
	}
}

func TestCalibration(t *testing.T) {
	var c calibration
	for _, x := range []struct {
		claimed float64
		well    bool
	}{{0.9, true}, {0.9, false}, {0.7, true}, {0.3, false}, {1, true}, {0, false}, {-0.1, true}, {1.1, true}, {math.NaN(), true}} {
		c.add(x.claimed, x.well)
	}
	r := c.result()
	// The squares are .01 .81 .09 .09 0 0; the tenth bin holds .9 .9 1 of which
	// two came true, the eighth .7 of one, the fourth .3 of none, the first 0.
	is(t, "Brier", r.Brier, 0.1667)
	is(t, "ECE", r.ECE, math.Round((math.Abs(2.8-2)+0.3+0.3)/6*1e4)/1e4)
	is(t, "mean", r.MeanConfidence, 0.6333)
	is(t, "success", r.SuccessRate, 0.5)
	if r.N != 6 || len(r.Bins) != 10 || r.Bins[9].N != 3 || r.Bins[7].N != 1 || r.Bins[3].N != 1 || r.Bins[0].N != 1 {
		t.Errorf("%+v", r)
	}
	// What computes to a bit less than a tenth belongs to it all the same.
	for i := range 10 {
		var c calibration
		if c.add(float64(i)/10, true); c.bins[i].n != 1 {
			t.Errorf("%d tenths are in another bin: %+v", i, c.bins)
		}
	}
}

func TestWordsAreBounded(t *testing.T) {
	w := words{}
	for i := range 1000 {
		w.add(string(rune('a'+i%26))+string(rune('a'+i/26)), 1)
	}
	w.add("", 1)
	w.add("\x1b[31m"+string(make([]byte, 1<<20)), 2)
	sum := 0
	for word, n := range w {
		if sum += n; len(word) > 4*maxWord {
			t.Errorf("a word has %d bytes", len(word))
		}
	}
	if len(w) > maxWords+1 || sum != 1003 {
		t.Errorf("%d words, %d in all", len(w), sum)
	}
	top := words{"a": 5, "b": 3, "c": 3, "d": 1}.top(2)
	if len(top) != 3 || top["a"] != 5 || top["b"] != 3 || top[others] != 4 {
		t.Errorf("top is %v", top)
	}
}
