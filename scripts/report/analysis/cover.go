package analysis

import (
	"slices"
	"sort"
	"time"
)

// cover is the union of intervals of time. It holds a bounded number of
// segments: beyond that, old neighbours become one that remembers how much of it
// is covered. It is exact as long as no later interval reaches into such a one
// without covering it whole.
type cover struct{ segments []segment }

// segment is a part of the time, in microseconds, of which covered is covered.
type segment struct{ from, to, covered int64 }

// maxSegments bounds a cover; when there are more, the older half is joined in
// pairs.
const maxSegments = 4096

// maxInterval is the longest interval that is believed.
const maxInterval = 10 * 365 * 24 * time.Hour

// add covers the time from one moment to another. What ends before it begins,
// or has no time, covers nothing.
func (c *cover) add(from, to time.Time) {
	if from.IsZero() || to.IsZero() || to.Sub(from) > maxInterval {
		return
	}
	s, e := from.UnixMicro(), to.UnixMicro()
	if e <= s {
		return
	}
	n := len(c.segments)
	if n == 0 || c.segments[n-1].to < s {
		c.segments = append(c.segments, segment{s, e, e - s})
		c.shrink()
		return
	}
	i := sort.Search(n, func(i int) bool { return c.segments[i].to >= s })
	j, merged := i, segment{s, e, e - s}
	for ; j < n && c.segments[j].from <= e; j++ {
		merged = merged.with(c.segments[j], s, e)
	}
	c.segments = slices.Replace(c.segments, i, j, merged)
	c.shrink()
}

// with takes in a segment that touches the interval from s to e, which is
// covered already.
func (m segment) with(g segment, s, e int64) segment {
	outside := max(0, s-g.from) + max(0, g.to-e)
	if length := g.to - g.from; g.covered == length {
		m.covered += outside
	} else {
		m.covered += int64(float64(g.covered) * float64(outside) / float64(length))
	}
	m.from, m.to = min(m.from, g.from), max(m.to, g.to)
	return m
}

func (c *cover) shrink() {
	if len(c.segments) <= maxSegments {
		return
	}
	kept := c.segments[:0]
	const half = maxSegments / 2
	for i := 0; i < half; i += 2 {
		a, b := c.segments[i], c.segments[i+1]
		kept = append(kept, segment{a.from, b.to, a.covered + b.covered})
	}
	c.segments = append(kept, c.segments[half:]...)
}

// seconds is how much is covered.
func (c *cover) seconds() float64 {
	sum := int64(0)
	for _, g := range c.segments {
		sum += g.covered
	}
	return float64(sum) / 1e6
}

// share is time of one sort as it is collected.
type share struct {
	n     int
	sum   float64
	union cover
}

// add takes in what took from one moment to another, if it did.
func (s *share) add(from, to time.Time) {
	took := to.Sub(from)
	if from.IsZero() || to.IsZero() || took < 0 || took > maxInterval {
		return
	}
	s.n++
	s.sum += took.Seconds()
	s.union.add(from, to)
}

// told gives what was collected; nothing is told when there was nobody to tell.
func (s *share) told(known bool) Spent {
	if !known && s.n == 0 {
		return Spent{}
	}
	return Spent{N: s.n, Sum: seconds(s.sum), Wall: seconds(s.union.seconds())}
}
