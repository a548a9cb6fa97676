package analysis

import (
	"maps"
	"math"
	"slices"
)

// sample collects values of which the quantiles are wanted. Up to maxExact it
// keeps them all; beyond that it counts them in steps of one percent.
type sample struct {
	n        int
	sum, max float64
	values   []float64
	steps    map[int]int
}

const (
	maxExact = 1 << 16
	// step is the ratio of one step of a large sample to the next, and least the
	// smallest value that is told from 0 there.
	step  = 1.01
	least = 1e-6
)

// add takes in a value; what is no finite positive number or 0 is none.
func (s *sample) add(v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return
	}
	s.n++
	s.sum += v
	s.max = max(s.max, v)
	if s.steps == nil && s.n <= maxExact {
		s.values = append(s.values, v)
		return
	}
	if s.steps == nil {
		s.steps = map[int]int{}
		for _, old := range s.values {
			s.steps[stepOf(old)]++
		}
		s.values = nil
	}
	s.steps[stepOf(v)]++
}

func stepOf(v float64) int {
	if v < least {
		return math.MinInt32
	}
	return int(math.Round(math.Log(v) / math.Log(step)))
}

// at gives the value of a rank from 0.
func (s *sample) at(rank int) float64 {
	if s.steps == nil {
		return s.values[rank]
	}
	for _, k := range slices.Sorted(maps.Keys(s.steps)) {
		if rank -= s.steps[k]; rank < 0 {
			if k == math.MinInt32 {
				return 0
			}
			return min(s.max, math.Pow(step, float64(k)))
		}
	}
	return s.max
}

// distribution sums the values up: the median is the mean of the middle two
// when their number is even, the 95th percentile the smallest value that is no
// less than 95 in 100 of them.
func (s *sample) distribution() Distribution {
	if s.n == 0 {
		return Distribution{}
	}
	slices.Sort(s.values)
	median := (s.at((s.n-1)/2) + s.at(s.n/2)) / 2
	p95 := s.at(int(math.Ceil(0.95*float64(s.n))) - 1)
	return Distribution{N: s.n, Median: seconds(median), P95: seconds(p95), Mean: seconds(s.sum / float64(s.n)), Max: seconds(s.max)}
}

// seconds rounds to the millisecond.
func seconds(v float64) *float64 { return rounded(v, 1e3) }

// rounded32 gives a small number without what 32 bits add to it.
func rounded32(v float32) float64 { return math.Round(float64(v)*1e6) / 1e6 }

// rate is a share of 1; nil when there is no whole.
func rate(part, whole int) *float64 {
	if whole == 0 {
		return nil
	}
	return rounded(float64(part)/float64(whole), 1e4)
}

// rounded rounds to one part of unit; nil when that is no number that JSON has.
func rounded(v, unit float64) *float64 {
	if r := math.Round(v*unit) / unit; !math.IsInf(r, 0) {
		v = r
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
