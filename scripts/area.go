package scripts

import (
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// area is a block of whole lines at the bottom of a terminal that is drawn over
// in place, and text that goes above it. The cursor stays at the end of the
// block, so that a block of one line is a line that is written over. Each change
// is one write, which starts at the block and erases only what is left over:
// nothing flickers. It is not safe for concurrent use.
type area struct {
	w      io.Writer
	width  func() int // of the terminal, in columns; nil: there is none
	height func() int // in rows; nil: not known
	drawn  []string   // the lines on the screen, nil for none
	at     int        // the width for which they were cut
}

// columns is how wide a line may be, or 0 when there is no place for a block: one
// column stays free, since a full line would wrap on some terminals.
func (a *area) columns() int {
	if a.width == nil {
		return 0
	}
	if w := a.width(); w >= 10 {
		return w - 1
	}
	return 0
}

// rows is how many lines a block may have: the screen keeps a few for what is
// above, and a block that is higher than the screen could not be drawn over.
func (a *area) rows(most int) int {
	if a.height == nil {
		return most
	}
	h := a.height()
	if h <= 0 {
		return most
	}
	return max(1, min(most, h-3))
}

// draw makes lines the block; none takes it away.
func (a *area) draw(lines []string) { a.put("", lines) }

// above writes text, which ends with a line end, above the block.
func (a *area) above(text string) { a.put(text, a.drawn) }

// clear takes the block away.
func (a *area) clear() { a.put("", nil) }

func (a *area) put(text string, lines []string) {
	columns := a.columns()
	if columns == 0 {
		lines = nil
		text = hung(text, columnsOf(a.w), hanging) // a terminal without a block has a width, too
	}
	text = hung(text, columns, hanging)
	was := a.height0()
	var b strings.Builder
	if was > 0 {
		b.WriteByte('\r')
		if was > 1 {
			fmt.Fprintf(&b, "\x1b[%dA", was-1)
		}
		if a.at != columns { // rows that the terminal has wrapped are not to be joined again
			b.WriteString("\x1b[J")
		}
		// What the text does not cover of the old block is erased line by line.
		text = strings.ReplaceAll(text, "\n", "\x1b[K\n")
	}
	b.WriteString(text)
	cut := make([]string, len(lines))
	for i, l := range lines {
		cut[i] = ansi.Truncate(l, columns, "…")
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString("\r" + cut[i] + "\x1b[K")
	}
	switch {
	case was > 1:
		b.WriteString("\x1b[J") // what is left over below
	case was == 1 && len(lines) == 0 && text == "":
		b.WriteString("\x1b[K")
	}
	a.drawn, a.at = nil, columns
	if len(cut) > 0 {
		a.drawn = cut
	}
	if b.Len() > 0 {
		_, _ = io.WriteString(a.w, b.String()) // a terminal that is gone takes nothing
	}
}

// height0 is how many rows of the screen the block takes now. A terminal that
// became narrower has wrapped its lines.
func (a *area) height0() int {
	columns := a.columns()
	if columns == 0 || columns >= a.at {
		return len(a.drawn)
	}
	rows := 0
	for _, l := range a.drawn {
		rows += max(1, (ansi.StringWidth(l)+columns)/(columns+1))
	}
	return rows
}
