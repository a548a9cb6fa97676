package render

import (
	"strings"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
	"github.com/rivo/uniseg"
)

// minWrap is the narrowest a row gets, whatever its indent.
const minWrap = 8

// columns is the width of text that may hold colours.
func columns(text string) int {
	if strings.IndexByte(text, 0x1b) < 0 {
		return runewidth.StringWidth(text)
	}
	n := 0
	for text != "" {
		size, w := cell(text)
		n += w
		text = text[size:]
	}
	return n
}

// cell measures what stands at the start of text, a colour sequence or what a
// person takes for one character: its bytes and its columns.
func cell(text string) (size, width int) {
	if text[0] < utf8.RuneSelf && (len(text) == 1 || text[1] < utf8.RuneSelf) {
		if text[0] >= ' ' && text[0] < 0x7f {
			return 1, 1
		}
		return max(colourLength(text), 1), 0
	}
	if n := colourLength(text); n > 0 {
		return n, 0
	}
	cluster, _, _, _ := uniseg.FirstGraphemeClusterInString(text, -1)
	return len(cluster), runewidth.StringWidth(cluster)
}

// wrap breaks one line of text, which may hold colours, between words into rows
// of at most limit columns; the rows after the first begin with indent blanks.
// A word that is longer than a row is broken.
func wrap(text string, limit, indent int) []string {
	return wrapBelow(text, limit, strings.Repeat(" ", indent))
}

// wrapBelow is wrap with what the rows after the first begin with. A colour that
// goes on in the next row ends with the row and begins anew behind that.
func wrapBelow(text string, limit int, hang string) []string {
	indent := columns(hang)
	limit = max(limit, indent+minWrap)
	if len(text) <= limit && strings.IndexByte(text, 0x1b) < 0 {
		return []string{text} // no character has more columns than bytes
	}
	w := wrapper{limit: limit, hang: hang, indent: indent}
	for text != "" {
		if rest := strings.TrimLeft(text, " "); rest != text {
			w.space += len(text) - len(rest)
			text = rest
			continue
		}
		n, cols := word(text)
		w.word(text[:n], cols)
		text = text[n:]
	}
	return append(w.rows, w.end())
}

// wrapper fills rows.
type wrapper struct {
	limit, indent int
	hang          string
	rows          []string
	row           strings.Builder
	used, start   int // columns of the row, and of what stands before its own text
	space         int
	want, is      string // colours: of the text, and of the row so far
}

func (w *wrapper) next() {
	w.rows = append(w.rows, w.end())
	w.row.Reset()
	w.row.WriteString(w.hang)
	w.used, w.start, w.space = w.indent, w.indent, 0
}

// end is the row, without a colour that goes on.
func (w *wrapper) end() string {
	w.row.WriteString(turned(w.is, ""))
	w.is = ""
	return w.row.String()
}

func (w *wrapper) word(text string, cols int) {
	if over := w.used+w.space+cols > w.limit; over && w.used > w.start && (cols <= w.limit-w.indent || w.limit-w.used < minWrap) && cols > 0 {
		w.next() // what fits in no row is broken where it begins
	}
	w.space = min(w.space, max(w.limit-w.used-1, 0))
	if w.space > 0 && (shows(w.is) || shows(w.want)) {
		w.colour()
	}
	w.row.WriteString(strings.Repeat(" ", w.space))
	w.used, w.space = w.used+w.space, 0
	for text != "" {
		n, cols := cell(text)
		if w.used+cols > w.limit && w.used > w.start {
			w.next()
		}
		part := text[:n]
		text = text[n:]
		if part[0] == 0x1b {
			w.want = added(w.want, part)
			continue
		}
		w.colour()
		w.row.WriteString(part)
		w.used += cols
	}
}

// colour turns on the colours that are wanted.
func (w *wrapper) colour() {
	w.row.WriteString(turned(w.is, w.want))
	w.is = w.want
}

// word measures what stands at the start of text and is not to be broken: up to a
// blank, or to a place before or behind a wide character, which needs none.
func word(text string) (size, cols int) {
	wide := false
	last := ""
	for size < len(text) && text[size] != ' ' {
		n, w := cell(text[size:])
		part := text[size : size+n]
		if w == 0 || part[0] == 0x1b {
			size += n
			continue
		}
		if last != "" && (wide || w > 1) && !sticks(last, part) {
			break
		}
		last, wide = part, w > 1
		size, cols = size+n, cols+w
	}
	return size, cols
}

// sticks says that a row must not begin with b, or not end with a.
func sticks(a, b string) bool {
	return strings.Contains("、。，．：；！？）」』】〕》〉”’・ー々!?),.:;]}%", b) || strings.Contains("（「『【〔《〈“‘([{$", a)
}

// fold breaks one line of text into rows of exactly the columns there are, so
// that what is shown is what it says, blank for blank.
func fold(text string, limit int) []string {
	limit = max(limit, minWrap)
	var rows []string
	from, used := 0, 0
	for i := 0; i < len(text); {
		n, w := cell(text[i:])
		if used+w > limit {
			rows = append(rows, text[from:i])
			from, used = i, 0
		}
		used += w
		i += n
	}
	return append(rows, text[from:])
}

// clip shortens text to n columns, the last of them dots.
func clip(text string, n int, dots string) string {
	if columns(text) <= n {
		return text
	}
	room := max(n-columns(dots), 0)
	end := 0
	for used := 0; end < len(text); {
		size, w := cell(text[end:])
		if used+w > room {
			break
		}
		used += w
		end += size
	}
	return text[:end] + dots
}
