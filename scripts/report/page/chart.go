package page

import (
	"math"
	"strconv"
	"strings"

	"ralph/memory/text"
)

// tokens is what was used, over time and by what used it.
type tokens struct {
	Total   []cells
	Over    *columns
	Sum     *curve
	Tables  []spentTable
	Ticks   []tick
	Folds   []rect
	Unknown bool // no cost is known
}

type spentTable struct {
	By   string
	Rows []spentRow
	More string
	// Cost and Requests say that some are known.
	Cost, Requests bool
}

type spentRow struct {
	Name, Requests, Input, Cached, Output, Cost string
	Share                                       string // of all tokens
}

// columns are amounts by slots of time.
type columns struct {
	Title  string
	Top    string // what the top of the picture stands for
	Rects  []rect
	Height int
	Rows   []cells
	More   string
}

// curve is a sum over time, in a box of 1000 by Height.
type curve struct {
	Title, Top string
	Path       string
	Height     int
}

const chartHeight = 96

func newTokens(in Input) *tokens {
	g := in.Figures
	if g.Tokens.Total == 0 && g.Tokens.Requests == 0 && len(in.Timeline.used) == 0 {
		return nil
	}
	v := &tokens{Unknown: g.Tokens.Cost == nil}
	for _, x := range []struct {
		name string
		n    int64
	}{{"input", g.Tokens.Input}, {"of it cached", g.Tokens.Cached}, {"output", g.Tokens.Output}, {"of it reasoning", g.Tokens.Reasoning}, {"total", g.Tokens.Total}} {
		if x.n > 0 {
			v.Total = append(v.Total, cells{x.name, text.Grouped(x.n)})
		}
	}
	if s := in.Timeline.axis(); len(s.parts) > 0 && len(in.Timeline.used) > 0 {
		v.Ticks = s.ticks()
		for _, p := range s.parts {
			if p.folded {
				v.Folds = append(v.Folds, rect{X: pct(p.x0), W: pct(p.x1 - p.x0)})
			}
		}
		v.Over = newColumns(in.Timeline, s)
		v.Sum = newCurve(in.Timeline, s)
	}
	for _, t := range []struct {
		by   string
		list []Spent
	}{{"model", g.ByModel}, {"agent", g.ByAgent}, {"task", g.ByTask}} {
		if len(t.list) > 0 {
			v.Tables = append(v.Tables, spentOn(t.by, t.list))
		}
	}
	return v
}

func spentOn(by string, list []Spent) spentTable {
	const most = 40
	t := spentTable{By: by}
	all := int64(0)
	for _, s := range list {
		all += s.Total
		t.Cost, t.Requests = t.Cost || s.Cost != nil, t.Requests || s.Requests > 0
	}
	for _, s := range list[:min(len(list), most)] {
		r := spentRow{Name: line(s.Name, maxTitle), Requests: text.Grouped(s.Requests), Input: brief(s.Input), Cached: brief(s.Cached), Output: brief(s.Output), Cost: dollars(s.Cost)}
		if r.Name == "" {
			r.Name = "–"
		}
		if s.Requests == 0 {
			r.Requests = "–"
		}
		r.Share = pct(0)
		if all > 0 {
			r.Share = pct(100 * float64(s.Total) / float64(all))
		}
		t.Rows = append(t.Rows, r)
	}
	t.More = beyond(len(list), len(t.Rows), by)
	return t
}

// slot is what fell into a round stretch of time.
type slot struct {
	from int64
	amount
}

// slots sums up amounts over stretches of a round time, of which about 60 make
// the axis. width is how exact the times are.
func slots(list []timed, width int64, s scale) (out []slot, every, most int64) {
	every, most = max(step(s.active(), 60), width), 1
	for _, u := range list {
		from := s.from() + (u.at-s.from())/every*every
		if k := len(out) - 1; k < 0 || out[k].from != from {
			out = append(out, slot{from: from})
		}
		x := &out[len(out)-1]
		x.add(u.amount)
		most = max(most, x.tokens())
	}
	return out, every, most
}

// heaped draws the parts of a slot on top of each other. What there is at all
// is seen.
func (x slot) heaped(s scale, every, most int64, height int, classes [3]string, tip string) (list []rect) {
	y := height
	for i, n := range [...]int64{x.output, x.fresh, x.cached} {
		h := int(math.Round(float64(n) / float64(most) * float64(height)))
		if n > 0 {
			h = max(h, 1)
		}
		if h = min(h, y); h > 0 {
			y -= h
			list = append(list, s.rect(x.from, x.from+every*9/10, y, h, classes[i], tip))
		}
	}
	return list
}

// newColumns sums up what was used by slots of a round time.
func newColumns(t Timeline, s scale) *columns {
	all, every, most := slots(t.used, t.usedWidth, s)
	v := &columns{Height: chartHeight, Title: "Tokens per " + exactly(every), Top: brief(most)}
	for _, x := range all {
		tip := clock(x.from).Format("15:04:05") + ": " + text.Grouped(x.fresh) + " input, " + text.Grouped(x.cached) + " cached, " + text.Grouped(x.output) + " output"
		v.Rects = append(v.Rects, x.heaped(s, every, most, chartHeight, [3]string{"output", "fresh", "cached"}, tip)...)
		if len(v.Rows) < maxRows {
			cost := "–"
			if x.priced && !x.unpriced {
				cost = dollars(&x.cost)
			}
			v.Rows = append(v.Rows, cells{short(clock(x.from)), text.Grouped(x.fresh), text.Grouped(x.cached), text.Grouped(x.output), cost})
		}
	}
	v.More = beyond(len(all), len(v.Rows), "slot")
	return v
}

// exactly words a round time: 200 ms, 5 s, 1 min, 6 h.
func exactly(ms int64) string {
	for _, u := range []struct {
		n    int64
		name string
	}{{day, "d"}, {3_600_000, "h"}, {60_000, "min"}, {1000, "s"}} {
		if ms%u.n == 0 {
			return text.Grouped(ms/u.n) + " " + u.name
		}
	}
	return text.Grouped(ms) + " ms"
}

// newCurve sums up the cost, or the tokens when it is not known of all.
func newCurve(t Timeline, s scale) *curve {
	sum, total := amount{}, 0.0
	for _, u := range t.used {
		sum.add(u.amount)
	}
	priced := sum.priced && !sum.unpriced
	value := func(a amount) float64 {
		if priced {
			return a.cost
		}
		return float64(a.tokens())
	}
	for _, u := range t.used {
		total += value(u.amount)
	}
	if total <= 0 {
		return nil
	}
	v := &curve{Height: chartHeight, Title: "Tokens, summed up", Top: brief(int64(min(total, 1e18)))}
	if priced {
		v.Title, v.Top = "Cost, summed up", dollars(&total)
	}
	var b strings.Builder
	at := func(verb string, x, y float64) {
		b.WriteString(verb + strconv.FormatFloat(10*x, 'f', 1, 64) + " " + strconv.FormatFloat(chartHeight*(1-y), 'f', 1, 64))
	}
	at("M", axisBegin, 0)
	reached, lastX := 0.0, -1.0
	for i, u := range t.used {
		x := s.x(u.at + t.usedWidth)
		before := reached
		reached += value(u.amount)
		if x-lastX < 0.1 && i < len(t.used)-1 {
			continue // what cannot be seen apart is one step
		}
		at("L", x, before/total)
		at("L", x, reached/total)
		lastX = x
	}
	at("L", axisEnd, 1)
	v.Path = b.String()
	return v
}

// reliability is declared confidence against what came of it, in a box of 320
// by 300.
type reliability struct {
	Of, Words string
	Dots      []dot
	Rows      []cells
}

type dot struct {
	X, Y, Even, R float64
	N, Tip        string
}

func newReliability(c Calibration) *reliability {
	if c.N == 0 {
		return nil
	}
	v := &reliability{Of: line(c.Of, 60), Words: text.Count(c.N, "outcome")}
	if c.Error != nil {
		v.Words += "; expected calibration error " + fraction(c.Error)
	}
	if c.Brier != nil {
		v.Words += "; Brier score " + fraction(c.Brier)
	}
	v.Words += "."
	within := func(f float64) float64 {
		if math.IsNaN(f) {
			return 0
		}
		return min(max(f, 0), 1)
	}
	for _, b := range head(c.Bins) {
		if b.N <= 0 {
			continue
		}
		conf, ok := within(b.Confidence), within(b.Success)
		v.Dots = append(v.Dots, dot{X: round(40 + 250*conf), Y: round(260 - 240*ok), Even: round(260 - 240*conf), R: round(4 + 12*math.Sqrt(float64(b.N)/float64(c.N))), N: text.Grouped(b.N),
			Tip: "confidence " + fraction(&conf) + ", success " + fraction(&ok) + ", " + text.Count(b.N, "outcome")})
		v.Rows = append(v.Rows, cells{fraction(&b.Low) + " – " + fraction(&b.High), text.Grouped(b.N), fraction(&conf), rate(ok)})
	}
	return v
}

func round(f float64) float64 { return math.Round(10*f) / 10 }
