package line

import (
	"strings"
	"unicode"

	"github.com/mattn/go-runewidth"
)

const (
	tabWidth = 4
	esc      = '\x1b'
	resetSGR = "\x1b[0m"
)

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
	case r >= 0x80 && r < 0xa0, r == '\u2028', r == '\u2029':
		return "\uFFFD", 1
	case unicode.Is(unicode.Cf, r) && r != '\u200d':
		return "\uFFFD", 1
	}
	return string(r), runewidth.RuneWidth(r)
}

// width is the number of columns of text that may hold colours.
func width(text string) int {
	if strings.IndexByte(text, esc) < 0 {
		return runewidth.StringWidth(text)
	}
	var plain strings.Builder
	for len(text) > 0 {
		n := sgrLength(text)
		if n == 0 {
			n = runeLength(text)
			plain.WriteString(text[:n])
		}
		text = text[n:]
	}
	return runewidth.StringWidth(plain.String())
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
		n := runeLength(text)
		r := []rune(text[:n])[0]
		text = text[n:]
		s, w := string(r), runewidth.RuneWidth(r)
		if r == '\t' || r < 0x20 || r == 0x7f {
			s, w = glyph(r)
		}
		if used+w > cols {
			break
		}
		b.WriteString(s)
		used += w
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

func runeLength(text string) int {
	for i := range text {
		if i > 0 {
			return i
		}
	}
	return len(text)
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
	for i, r := range text {
		s, w := glyph(r)
		if r == '\n' {
			s, w = "", 0
		}
		if used+w > cols && used > 0 {
			next()
		}
		if i == pos {
			cursorRow, cursorCol = len(rows), width(row.String())
		}
		if r == '\n' {
			next()
			continue
		}
		row.WriteString(s)
		used += w
	}
	if pos >= len(text) {
		if used >= cols {
			next()
		}
		cursorRow, cursorCol = len(rows), width(row.String())
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
