package line

import (
	"strconv"
	"strings"
)

// pen makes the bytes that change a few rows. It knows where the cursor is: at
// (row, col) of the frame, of which so many rows exist on the screen.
type pen struct {
	b              strings.Builder
	row, col, rows int
	// anew says that a row that becomes shorter is drawn from its start: tmux takes
	// a row for as long as it ever was since it was empty when it rewraps it.
	anew bool
	// simple says that characters of several runes are drawn as simpler ones.
	simple bool
}

// move puts the cursor into a cell; rows that do not exist yet are made.
func (p *pen) move(row, col int) {
	switch bottom := p.rows - 1; {
	case row < p.row:
		p.b.WriteString("\x1b[" + times(p.row-row) + "A")
	case row > bottom:
		if p.row < bottom {
			p.b.WriteString("\x1b[" + times(bottom-p.row) + "B")
		}
		p.b.WriteString("\r" + strings.Repeat("\n", row-bottom))
		p.col, p.rows = 0, row+1
	case row > p.row:
		p.b.WriteString("\x1b[" + times(row-p.row) + "B")
	}
	p.row = row
	switch {
	case col == p.col:
	case col == 0:
		p.b.WriteByte('\r')
	default:
		p.column(col)
	}
	p.col = col
}

// column puts the cursor into a column of its row.
func (p *pen) column(col int) { p.b.WriteString("\x1b[" + strconv.Itoa(col+1) + "G") }

func times(n int) string {
	if n == 1 {
		return ""
	}
	return strconv.Itoa(n)
}

// change turns the cells of a row into others: what both have in common at the
// start and, when nothing moves, at the end is left alone.
func (p *pen) change(row int, old, next []cell) {
	if p.anew && span(next) < span(old) {
		p.move(row, 0)
		p.b.WriteString("\x1b[K")
		old = nil
	}
	head := 0
	for head < len(old) && head < len(next) && old[head] == next[head] {
		head++
	}
	at := span(next[:head])
	old, next = old[head:], next[head:]
	tail := 0
	if span(old) == span(next) {
		for tail < len(old) && tail < len(next) && old[len(old)-1-tail] == next[len(next)-1-tail] {
			tail++
		}
	}
	if anyRisky(old[:len(old)-tail]) || anyRisky(next[:len(next)-tail]) {
		tail = 0 // it may be covered by what is drawn wider than it should be
	}
	shorter := span(next) < span(old) || anyRisky(old)
	next = next[:len(next)-tail]
	if len(next) == 0 && !shorter {
		return
	}
	p.move(row, at)
	p.cells(next)
	if shorter && tail == 0 {
		p.b.WriteString("\x1b[K")
	}
}

// cells draws cells at the cursor. Around one of which the width is not sure the
// cursor is set, over blanks, and the terminal kept from wrapping: whatever it
// draws, the next cell stands in its place.
func (p *pen) cells(cells []cell) {
	style, wraps := "", true
	for _, c := range cells {
		if c.style != style {
			rest, more := strings.CutPrefix(c.style, style)
			if !more {
				p.b.WriteString(resetSGR)
				rest = c.style
			}
			p.b.WriteString(rest)
			style = c.style
		}
		if !c.risky {
			p.b.WriteString(c.text)
			p.col += c.width
			continue
		}
		if wraps {
			p.b.WriteString("\x1b[?7l")
			wraps = false
		}
		if c.width > 0 {
			p.b.WriteString(strings.Repeat(" ", c.width))
			p.column(p.col)
		}
		if p.simple {
			c.text = simpler(c)
		}
		p.b.WriteString(c.text)
		p.col += c.width
		p.column(p.col)
	}
	if style != "" {
		p.b.WriteString(resetSGR)
	}
	if !wraps {
		p.b.WriteString("\x1b[?7h")
	}
}

// span is how many columns cells take.
func span(cells []cell) int {
	n := 0
	for _, c := range cells {
		n += c.width
	}
	return n
}

func anyRisky(cells []cell) bool {
	for _, c := range cells {
		if c.risky {
			return true
		}
	}
	return false
}
