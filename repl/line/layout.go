package line

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
	"github.com/rivo/uniseg"
)

const (
	tabWidth = 4
	esc      = '\x1b'
	resetSGR = "\x1b[0m"
)

// cell is one character of a row, of however many runes, as it is drawn.
type cell struct {
	style string // the colour sequences in force
	text  string
	width int
	// risky says that terminals do not agree on the width.
	risky bool
}

// glyph returns what is drawn for a typed rune and its width. Controls and
// invisible characters become visible, so that the cursor never drifts.
func glyph(r rune) (string, int) {
	switch {
	case r == '\t':
		return strings.Repeat(" ", tabWidth), tabWidth
	case r < 0x20:
		return string('\u2400' + r), 1
	case r == 0x7f:
		return "\u2421", 1
	case r >= 0x20 && r < 0x7f:
		return string(r), 1
	}
	c := drawn(string(r))
	return c.text, c.width
}

// firstCell is the character at the start of text and how many bytes it takes.
func firstCell(text string) (cell, int) {
	c := text[0]
	if c >= 0x20 && c < 0x7f && (len(text) == 1 || text[1] < utf8.RuneSelf) {
		return cell{text: text[:1], width: 1}, 1
	}
	if c < 0x20 || c == 0x7f {
		s, w := glyph(rune(c))
		return cell{text: s, width: w}, 1
	}
	cluster, _, _, _ := uniseg.FirstGraphemeClusterInString(text, -1)
	return drawn(cluster), len(cluster)
}

// drawn is how a grapheme cluster is drawn. Of what has no width of its own, what
// joins or selects stays inside of a cluster; alone it becomes visible, a mark on a
// dotted circle.
func drawn(cluster string) cell {
	first, size := utf8.DecodeRuneInString(cluster)
	if size == len(cluster) {
		return alone(first)
	}
	if !fits(cluster) {
		return cell{text: "\uFFFD", width: 1}
	}
	w := uniseg.StringWidth(cluster)
	if strings.HasSuffix(cluster, "\ufe0f\u20e3") {
		w = 2 // a keycap: where it is drawn in one column, a blank follows
	}
	if w == 0 {
		return cell{text: "\u25cc" + cluster, width: 1, risky: true}
	}
	return cell{text: cluster, width: w, risky: unsure(cluster, w)}
}

// alone is how a rune is drawn that stands for itself.
func alone(r rune) cell {
	switch {
	case r == utf8.RuneError, r >= 0x80 && r < 0xa0, r == '\u2028', r == '\u2029', r == '\u200d', isFormat(r), isTag(r), unicode.Is(unicode.Variation_Selector, r):
		return cell{text: "\uFFFD", width: 1}
	}
	w := uniseg.StringWidth(string(r))
	if w == 0 {
		if runewidth.RuneWidth(r) > 0 { // the colour of a skin, by itself
			return cell{text: string(r), width: runewidth.RuneWidth(r), risky: true}
		}
		return cell{text: "\u25cc" + string(r), width: 1, risky: true}
	}
	return cell{text: string(r), width: w, risky: unsure(string(r), w)}
}

// isFormat reports whether r is an invisible format character by itself. Those of
// Arabic and Syriac that show, and the joiners, are not.
func isFormat(r rune) bool {
	switch {
	case r >= 0x0600 && r <= 0x0605, r == 0x06dd, r == 0x070f, r == 0x08e2, r == '\u200c', r == '\u200d':
		return false
	case isTag(r):
		return false
	}
	return unicode.Is(unicode.Cf, r)
}

// isTag reports whether r is one of the tags of which flags of regions are made.
func isTag(r rune) bool { return r >= 0xe0020 && r <= 0xe007f }

// fits reports whether nothing in a cluster could move the cursor or reorder what
// stands around it.
func fits(cluster string) bool {
	for _, r := range cluster {
		if r < 0x20 || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' || isFormat(r) {
			return false
		}
	}
	return true
}

// newEmoji is where the symbols begin that old terminals do not know.
const newEmoji = 0x1fa70

// unsure reports whether terminals differ in how wide they draw a cluster: what is
// joined of several, chosen by a selector, or newer than they are.
func unsure(cluster string, w int) bool {
	n, sum := 0, 0
	for _, r := range cluster {
		if n > 0 && !unicode.Is(unicode.Mn, r) || r >= newEmoji || unicode.Is(unicode.Variation_Selector, r) {
			return true
		}
		n++
		sum += runewidth.RuneWidth(r)
	}
	return sum != w
}

// rowCells takes a row apart.
func rowCells(text string) []cell {
	cells := make([]cell, 0, len(text))
	style := ""
	for len(text) > 0 {
		if n := sgrLength(text); n > 0 {
			style = restyled(style, text[:n])
			text = text[n:]
			continue
		}
		if rest, ok := strings.CutPrefix(text, lrm); ok && len(cells) > 0 {
			last := &cells[len(cells)-1]
			last.text, last.risky = last.text+lrm, true
			text = rest
			continue
		}
		c, n := firstCell(text)
		c.style = style
		cells = append(cells, c)
		text = text[n:]
	}
	return cells
}

// restyled is the colours in force after one more sequence.
func restyled(style, sequence string) string {
	if sequence == resetSGR || sequence == "\x1b[m" {
		return ""
	}
	if rest, ok := strings.CutPrefix(sequence, "\x1b[0;"); ok {
		return "\x1b[" + rest
	}
	return style + sequence
}

// width is the number of columns of text that may hold colours.
func width(text string) int {
	used := 0
	for len(text) > 0 {
		if n := sgrLength(text); n > 0 {
			text = text[n:]
			continue
		}
		c, n := firstCell(text)
		used += c.width
		text = text[n:]
	}
	return used
}

// cut shortens one row of text to at most cols columns, keeping colours whole
// and ending them.
func cut(text string, cols int) string {
	if cols <= 0 {
		return ""
	}
	var b strings.Builder
	used, coloured := 0, false
	for len(text) > 0 {
		if n := sgrLength(text); n > 0 {
			b.WriteString(text[:n])
			coloured = true
			text = text[n:]
			continue
		}
		c, n := firstCell(text)
		text = text[n:]
		if used+c.width > cols {
			break
		}
		b.WriteString(c.text)
		used += c.width
	}
	if coloured {
		b.WriteString(resetSGR)
	}
	return b.String()
}

// sgrLength measures a colour sequence at the start of text, 0 for none.
func sgrLength(text string) int {
	if !strings.HasPrefix(text, "\x1b[") {
		return 0
	}
	for i := 2; i < len(text); i++ {
		c := text[i]
		if c == 'm' {
			return i + 1
		}
		if (c < '0' || c > '9') && c != ';' && c != ':' {
			return 0
		}
	}
	return 0
}

// wrapInput lays the prompt and the edited line out in rows of at most cols
// columns and says where the cursor is.
func wrapInput(prompt string, text []rune, pos, cols int) (rows []string, cursorRow, cursorCol int) {
	cols = max(cols, 1)
	var row strings.Builder
	row.WriteString(prompt)
	used := width(prompt)
	next := func() {
		rows = append(rows, row.String())
		row.Reset()
		used = 0
	}
	placed := false
	place := func(at int) {
		if !placed && at >= pos {
			cursorRow, cursorCol, placed = len(rows), used, true
		}
	}
	rest := string(text)
	for i := 0; len(rest) > 0; {
		if rest[0] == '\n' {
			place(i)
			next()
			rest, i = rest[1:], i+1
			continue
		}
		c, n := firstCell(rest)
		runes := utf8.RuneCountInString(rest[:n])
		if c.width > cols {
			c = cell{text: "\uFFFD", width: 1}
		}
		if used+c.width > cols && used > 0 {
			next()
		}
		place(i + runes - 1) // also for a cursor inside of the character
		row.WriteString(c.text)
		used += c.width
		rest, i = rest[n:], i+runes
	}
	if !placed {
		if used >= cols {
			next()
		}
		place(pos)
	}
	rows = append(rows, row.String())
	return rows, cursorRow, cursorCol
}

// window returns the part of rows, at most n, that holds row at, and the index
// of its first row.
func window(rows []string, at, n int) (part []string, first int) {
	n = max(n, 1)
	if len(rows) <= n {
		return rows, 0
	}
	first = min(max(0, at-n/2), len(rows)-n)
	return rows[first : first+n], first
}

// rightToLeft reports whether text holds a letter of a script that is written so.
func rightToLeft(text string) bool {
	for _, r := range text {
		if r >= 0x590 && r <= 0x8ff || r >= 0xfb1d && r <= 0xfdff || r >= 0xfe70 && r <= 0xfeff || r >= 0x10800 && r <= 0x10fff || r >= 0x1e800 && r <= 0x1efff {
			return true
		}
	}
	return false
}
