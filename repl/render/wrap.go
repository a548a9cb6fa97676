package render

import (
	"strings"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
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

// cell measures what stands at the start of text, a colour sequence or one
// character: its bytes and its columns.
func cell(text string) (size, width int) {
	if n := colourLength(text); n > 0 {
		return n, 0
	}
	r, n := utf8.DecodeRuneInString(text)
	return n, runewidth.RuneWidth(r)
}

// wrap breaks one line of text, which may hold colours, between words into rows
// of at most limit columns; the rows after the first begin with indent blanks.
// A word that is longer than a row is broken.
func wrap(text string, limit, indent int) []string {
	limit = max(limit, indent+minWrap)
	var rows []string
	var row strings.Builder
	used, start, space := 0, 0, 0 // start is where the row's own text begins
	next := func() {
		rows = append(rows, row.String())
		row.Reset()
		row.WriteString(strings.Repeat(" ", indent))
		used, start, space = indent, indent, 0
	}
	for text != "" {
		if rest := strings.TrimLeft(text, " "); rest != text {
			space += len(text) - len(rest)
			text = rest
			continue
		}
		word, rest := text, ""
		if i := strings.IndexByte(text, ' '); i >= 0 {
			word, rest = text[:i], text[i:]
		}
		text = rest
		if used > start && used+space+columns(word) > limit {
			next()
		}
		space = min(space, max(limit-used-1, 0))
		row.WriteString(strings.Repeat(" ", space))
		used, space = used+space, 0
		for word != "" {
			n, w := cell(word)
			if used+w > limit && used > start {
				next()
			}
			row.WriteString(word[:n])
			used += w
			word = word[n:]
		}
	}
	return append(rows, row.String())
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
