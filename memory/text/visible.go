package text

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible keeps printable characters, newlines and tabs, and shows everything else
// (ESC as ␛, U+202E as \u202e, a stray byte as \x9b). A joiner is kept where it
// belongs to the writing: between two emoji, and between two letters of a script
// that joins its letters. A carriage return before a
// newline is dropped. The result is valid UTF-8, and Visible(Visible(s)) is Visible(s).
// Text that is harmless already is returned as it is.
func Visible(s string) string {
	if isHarmless(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + len(s)/8)
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\r' && strings.HasPrefix(s[i+n:], "\n"):
		case Harmless(r), joins(s, i, n):
			b.WriteRune(r)
		default:
			b.WriteString(show(r))
		}
		i += n
	}
	return b.String()
}

// VisibleLine is Visible for what must stay on one row: line breaks become ␊ and tabs
// become spaces.
func VisibleLine(s string) string {
	s = Visible(s)
	if strings.ContainsAny(s, "\n\t") {
		s = strings.NewReplacer("\n", "␊", "\t", " ").Replace(s)
	}
	return s
}

func isHarmless(s string) bool {
	for i := 0; i < len(s); {
		if c := s[i]; c >= ' ' && c < 0x7f || c == '\n' || c == '\t' {
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if !Harmless(r) && !joins(s, i, n) || r == utf8.RuneError && n == 1 {
			return false
		}
		i += n
	}
	return true
}

// The joiners, which are not seen themselves.
const (
	zeroWidthNonJoiner = '\u200c'
	zeroWidthJoiner    = '\u200d'
)

// joins reports whether the n bytes at i are a joiner in its right place.
func joins(s string, i, n int) bool {
	r, _ := utf8.DecodeRuneInString(s[i : i+n])
	if r != zeroWidthJoiner && r != zeroWidthNonJoiner || i == 0 || i+n == len(s) {
		return false
	}
	before, _ := utf8.DecodeLastRuneInString(s[:i])
	after, _ := utf8.DecodeRuneInString(s[i+n:])
	return r == zeroWidthJoiner && emoji(before) && emoji(after) || joining(before) && joining(after)
}

// emoji reports whether r is, or ends, an emoji.
func emoji(r rune) bool {
	return r >= 0x1f300 && r <= 0x1faff || r >= 0x2600 && r <= 0x27bf || r == 0x2b1b || r >= 0x2190 && r <= 0x21ff || r == 0xfe0f
}

// joining reports whether r belongs to a script in which joiners change the form
// of the letters beside them.
func joining(r rune) bool {
	return unicode.In(r, unicode.Arabic, unicode.Syriac, unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi, unicode.Gujarati, unicode.Oriya,
		unicode.Tamil, unicode.Telugu, unicode.Kannada, unicode.Malayalam, unicode.Sinhala, unicode.Khmer, unicode.Myanmar) && !invisible(r)
}

// Harmless reports whether Visible keeps r in any place.
func Harmless(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return true
	case r < 0x20 || r >= 0x7f && r < 0xa0:
		return false
	case r < 0x7f:
		return true
	}
	return !invisible(r)
}

// invisible names what takes no room or reorders: the format characters (bidi
// controls, zero-width characters, tags), line and paragraph separators, the
// letters that are drawn as nothing, and noncharacters.
func invisible(r rune) bool {
	switch {
	case r >= 0x600 && r <= 0x605, r == 0x6dd, r == 0x70f, r == 0x8e2, r == 0x110bd, r == 0x110cd:
		return false // format characters that are drawn
	case r == 0x34f, r == 0x115f, r == 0x1160, r == 0x17b4, r == 0x17b5, r == 0x3164, r == 0xffa0, r == 0x2028, r == 0x2029:
		return true
	case r >= 0xe0000 && r <= 0xe0fff, r >= 0x180b && r <= 0x180f:
		return true
	case r&0xfffe == 0xfffe, r >= 0xfdd0 && r <= 0xfdef:
		return true
	}
	return unicode.Is(unicode.Cf, r)
}

func show(r rune) string {
	switch {
	case r < 0x20:
		return string('\u2400' + r)
	case r == 0x7f:
		return "␡"
	case r > 0xffff:
		return fmt.Sprintf(`\U%08x`, r)
	}
	return fmt.Sprintf(`\u%04x`, r)
}
