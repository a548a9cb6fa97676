package page

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"ralph/memory/text"
)

// scale maps times to places on the axis, in percent of its width. Long
// stretches in which nothing happened are folded to a narrow strip.
type scale struct {
	parts   []part
	instant bool // all happened at one time, in the middle
}

type part struct {
	from, to int64
	x0, x1   float64
	folded   bool
}

// The axis keeps a margin, so that what happened at its ends is drawn whole.
const (
	axisBegin = 0.6
	axisEnd   = 99.4
	foldWidth = 2.2
	maxFolds  = 8
)

// newScale lays out the axis for what lasted from one time to another.
func newScale(lasted []sitting) scale {
	if len(lasted) == 0 {
		return scale{}
	}
	slices.SortFunc(lasted, func(a, b sitting) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	from, to := lasted[0].from, lasted[0].to
	var gaps []sitting
	for _, l := range lasted {
		if l.from > to {
			gaps = append(gaps, sitting{to, l.from})
		}
		to = max(to, l.to)
	}
	if to == from {
		return scale{parts: []part{{from: from - 1, to: from + 1, x0: axisBegin, x1: axisEnd}}, instant: true}
	}
	return lay(from, to, folds(gaps, to-from))
}

// folds picks the gaps that are so long that the rest could not be read beside
// them, and leaves a little of each on both sides.
func folds(gaps []sitting, span int64) []sitting {
	slices.SortStableFunc(gaps, func(a, b sitting) int { return cmp.Compare(b.to-b.from, a.to-a.from) })
	var out []sitting
	rest := span
	for _, g := range gaps {
		if long := g.to - g.from; len(out) == maxFolds || long < 60_000 || long*5 < rest {
			break
		}
		out = append(out, g)
		rest -= g.to - g.from
	}
	if len(out) == 1 && (out[0].to-out[0].from)*5 < span*2 {
		return nil // two fifths may stand empty
	}
	pad := max(rest/50, 1)
	for i := range out {
		out[i].from += pad
		out[i].to -= pad
	}
	slices.SortFunc(out, func(a, b sitting) int { return cmp.Compare(a.from, b.from) })
	return slices.DeleteFunc(out, func(f sitting) bool { return f.to <= f.from })
}

func lay(from, to int64, folded []sitting) scale {
	active := to - from
	for _, f := range folded {
		active -= f.to - f.from
	}
	per := (axisEnd - axisBegin - foldWidth*float64(len(folded))) / float64(max(active, 1))
	var s scale
	x := axisBegin
	put := func(from, to int64, folded bool) {
		wide := foldWidth
		if !folded {
			wide = per * float64(to-from)
		}
		s.parts = append(s.parts, part{from, to, x, x + wide, folded})
		x += wide
	}
	for _, f := range folded {
		put(from, f.from, false)
		put(f.from, f.to, true)
		from = f.to
	}
	put(from, to, false)
	s.parts[len(s.parts)-1].x1 = axisEnd // a sum may be a hair beyond it
	return s
}

// x is where a time lies.
func (s scale) x(at int64) float64 {
	if len(s.parts) == 0 {
		return 50
	}
	for _, p := range s.parts {
		if at <= p.to {
			return min(p.x1, p.x0+(p.x1-p.x0)*float64(max(at, p.from)-p.from)/float64(max(p.to-p.from, 1)))
		}
	}
	return s.parts[len(s.parts)-1].x1
}

func (s scale) from() int64 { return s.parts[0].from }
func (s scale) to() int64   { return s.parts[len(s.parts)-1].to }

// active is how much time is drawn to scale.
func (s scale) active() int64 {
	n := int64(0)
	for _, p := range s.parts {
		if !p.folded {
			n += p.to - p.from
		}
	}
	return n
}

const day = 86_400_000

// step is a round time, in milliseconds, of which about n go into the span.
func step(span int64, n int64) int64 {
	want := max(span/max(n, 1), 1)
	for _, s := range []int64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000,
		1_800_000, 3_600_000, 7_200_000, 10_800_000, 21_600_000, 43_200_000, day, 2 * day, 7 * day, 14 * day, 28 * day, 91 * day, 182 * day, 365 * day} {
		if s >= want {
			return s
		}
	}
	return (want/(365*day) + 1) * 365 * day
}

// tick is a place on the axis that has a name.
type tick struct {
	X     float64
	Text  string
	Minor bool // left out where there is little room
	Fold  bool // time is left out here
}

// Anchor keeps the name of a tick within the axis.
func (t tick) Anchor() string {
	switch {
	case t.X < 7:
		return "start"
	case t.X > 93:
		return "end"
	}
	return "middle"
}

// ticks names places on the axis. Times are UTC; below a second, and in a
// session that is no longer, they count from the begin.
func (s scale) ticks() (list []tick) {
	if len(s.parts) == 0 || s.instant {
		return nil
	}
	every := step(s.active(), 6)
	last, date := -100.0, ""
	days := clock(s.from()).Format("2 Jan") != clock(s.to()).Format("2 Jan")
	for _, p := range s.parts {
		if p.folded {
			list = append(list, tick{X: (p.x0 + p.x1) / 2, Text: text.Length(float64(p.to-p.from) / 1000), Fold: true})
			continue
		}
		base := int64(0)
		if every < 1000 {
			base = s.from()
		}
		first := base + (p.from-base+every-1)/every*every
		for at := first; at <= p.to && len(list) < 40; at += every {
			x := s.x(at)
			content := label(at, base, every)
			d := clock(at).Format("2 Jan")
			if every < day && every >= 1000 && d != date && days {
				content = d + " " + content
			}
			if x-last < 9 || s.nearFold(x) {
				content = ""
			} else {
				if last, date = x, d; x < 7 {
					last += 4 // its name begins here, and is not around it
				}
			}
			list = append(list, tick{X: x, Text: content})
		}
	}
	thin(list)
	return list
}

// nearFold says that the name of a fold stands where a tick has its own.
func (s scale) nearFold(x float64) bool {
	return slices.ContainsFunc(s.parts, func(p part) bool { return p.folded && math.Abs(x-(p.x0+p.x1)/2) < 7 })
}

// thin marks every second name, for screens on which half of them fit.
func thin(list []tick) {
	n := 0
	for i := range list {
		if list[i].Text == "" || list[i].Fold {
			continue
		}
		list[i].Minor = n%2 == 1
		n++
	}
}

func label(at, base, every int64) string {
	t := clock(at)
	switch {
	case every < 1000:
		return "+" + strconv.FormatFloat(float64(at-base)/1000, 'f', -1, 64) + " s"
	case every < 60_000:
		return t.Format(time.TimeOnly)
	case every < day:
		return t.Format("15:04")
	case every < 91*day:
		return t.Format("2 Jan")
	}
	return t.Format("Jan 2006")
}
