package markdown

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"ralph/memory/text"
)

// Escape makes foreign text a part of a line, of at most that many characters:
// what is invisible is shown, white space is one space, and what Markdown would
// obey is escaped.
func Escape(s string, most int) string {
	s = text.ClipRunes(text.VisibleLine(strings.Join(strings.Fields(text.ClipRunes(s, 8*most)), " ")), most)
	var b strings.Builder
	for i, r := range s {
		switch {
		case strings.ContainsRune("\\`*[]<~&", r),
			i == 0 && strings.ContainsRune(">#+-=", r),
			r == '_' && !(wordAt(s[:i], true) && wordAt(s[i+1:], false)):
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// EscapeCell is Escape for a cell of a table.
func EscapeCell(s string, most int) string { return strings.ReplaceAll(Escape(s, most), "|", `\|`) }

// wordAt says that a text ends, or begins, with a letter or a digit: an
// underscore between such begins no emphasis.
func wordAt(s string, last bool) bool {
	r, _ := utf8.DecodeRuneInString(s)
	if last {
		r, _ = utf8.DecodeLastRuneInString(s)
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}
