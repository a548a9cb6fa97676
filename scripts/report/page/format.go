package page

import (
	"math"
	"strconv"
	"strings"

	"ralph/memory/text"
)

func maybe(s *float64) string {
	if s == nil {
		return "–"
	}
	return text.Length(*s)
}

// brief writes a count in few letters: 9,999, 12.3 k, 4.56 M.
func brief(n int64) string {
	f := float64(n)
	switch {
	case f < 1e4:
		return text.Grouped(n)
	case f < 999_500:
		return digits(f/1e3) + " k"
	case f < 999.5e6:
		return digits(f/1e6) + " M"
	}
	return digits(f/1e9) + " G"
}

// digits writes a number with three digits.
func digits(f float64) string {
	p := 0
	if f < 9.995 {
		p = 2
	} else if f < 99.95 {
		p = 1
	}
	return strconv.FormatFloat(f, 'f', p, 64)
}

func dollars(c *float64) string {
	switch {
	case c == nil || math.IsNaN(*c) || math.IsInf(*c, 0) || *c < 0:
		return "unknown"
	case *c == 0:
		return "$0"
	case *c < 0.00995:
		return "$" + strconv.FormatFloat(*c, 'g', 2, 64)
	case *c < 9.995:
		return "$" + strconv.FormatFloat(*c, 'f', 3, 64)
	}
	return "$" + strconv.FormatFloat(*c, 'f', 2, 64)
}

func percent(part, whole int) string {
	if whole <= 0 {
		return "–"
	}
	return rate(float64(part) / float64(whole))
}

// rate writes a rate as a percentage, and never calls what is not all 100 %.
func rate(r float64) string {
	switch {
	case math.IsNaN(r) || math.IsInf(r, 0):
		return "–"
	case r > 0.995 && r < 1:
		return ">99 %"
	case r > 0 && r < 0.005:
		return "<1 %"
	}
	return strconv.FormatFloat(100*r, 'f', 0, 64) + " %"
}

func fraction(r *float64) string {
	if r == nil || math.IsNaN(*r) {
		return "–"
	}
	return strconv.FormatFloat(*r, 'f', 2, 64)
}

// How much of a foreign text stands on the page.
const (
	maxTitle = 120
	maxText  = 400
	maxLong  = 4000
)

// line makes foreign text a bounded part of a line.
func line(s string, limit int) string {
	return cut(text.VisibleLine(strings.Join(strings.Fields(crop(s, limit)), " ")), limit, len(s) > 4*limit)
}

// block makes foreign text bounded, with its lines.
func block(s string, limit int) string {
	return cut(strings.TrimSpace(text.Visible(crop(s, limit))), limit, len(s) > 4*limit)
}

// crop bounds the work for what will be cut anyway: no letter has more than
// four bytes.
func crop(s string, limit int) string {
	if len(s) > 4*limit {
		s = strings.ToValidUTF8(s[:4*limit], "")
	}
	return s
}

func cut(s string, limit int, more bool) string {
	r := []rune(s)
	switch {
	case len(r) > limit:
		return strings.TrimSpace(string(r[:limit-1])) + "…"
	case more:
		return s + "…"
	}
	return s
}

// piece is a part of a line: a command, or what stands around it.
type piece struct {
	Code bool
	Text string
}

// rich tells the commands within a line, between backticks, from the rest.
func rich(s string) (list []piece) {
	parts := strings.Split(s, "`")
	if len(parts)%2 == 0 {
		return []piece{{Text: s}} // one stands alone
	}
	for i, p := range parts {
		if p != "" {
			list = append(list, piece{i%2 == 1, p})
		}
	}
	return list
}
