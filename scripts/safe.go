package scripts

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// safe returns text that a terminal shows and does not obey: printable runes,
// newline and tab stay; escape and control characters, bidirectional and
// zero-width controls and broken UTF-8 become visible. A CR before LF is
// dropped. Text that is safe already is returned as it is.
func safe(text string) string {
	i := 0
	for i < len(text) && (text[i] >= ' ' && text[i] < 0x7f || text[i] == '\n' || text[i] == '\t') {
		i++
	}
	if i == len(text) {
		return text
	}
	var b strings.Builder
	b.Grow(len(text) + 16)
	b.WriteString(text[:i])
	for i < len(text) {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, "\\x%02x", text[i])
		case r == '\r' && strings.HasPrefix(text[i+1:], "\n"):
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r < ' ':
			b.WriteRune('^')
			b.WriteRune(r + '@')
		case r == 0x7f:
			b.WriteString("^?")
		case hidden(r):
			fmt.Fprintf(&b, "<U+%04X>", r)
		default:
			b.WriteString(text[i : i+n])
		}
		i += n
	}
	return b.String()
}

// hidden says that r changes how a terminal shows its neighbours, or shows
// nothing. The joiners inside emoji and Indic words (U+200C, U+200D) are among
// them: a name that differs by one from another must not look the same.
func hidden(r rune) bool {
	switch {
	case r < 0x80:
		return false
	case r <= 0x9f, r == 0xad, r == 0x61c, r == 0x180e, r == 0xfeff:
		return true
	case r >= 0x200b && r <= 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2060 && r <= 0x206f:
		return true
	case r >= 0xfff9 && r <= 0xfffb, r >= 0xe0000 && r <= 0xe007f:
		return true
	}
	return unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Co, r) && r >= 0xf0000
}

// oneLine returns the first line of text that says something, made safe and
// cut to max runes.
func oneLine(text string, max int) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		line = strings.ReplaceAll(safe(line), "\t", " ")
		if utf8.RuneCountInString(line) > max {
			line = string([]rune(line)[:max-1]) + "…"
		}
		return line
	}
	return ""
}
