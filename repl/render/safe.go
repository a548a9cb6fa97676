package render

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Safe makes text from a model, a tool, a file or a name harmless to a
// terminal: printable characters, newlines and tabs stay, everything that would
// move the cursor, change a mode, reorder the text or hide in it becomes
// visible (ESC as ␛, U+202E as \u202e, a stray byte as \x9b). A carriage return
// before a newline is dropped. The result is valid UTF-8; Safe(Safe(s)) is
// Safe(s).
func Safe(text string) string {
	if isSafe(text) {
		return text
	}
	var b strings.Builder
	b.Grow(len(text) + len(text)/8)
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r == '\r' && strings.HasPrefix(text[i+n:], "\n"):
		case harmless(r):
			b.WriteRune(r)
		default:
			b.WriteString(show(r))
		}
		i += n
	}
	return b.String()
}

// SafeLine is Safe for text that must stay on one row: line breaks become ␊ and
// tabs become spaces.
func SafeLine(text string) string {
	text = Safe(text)
	if strings.ContainsAny(text, "\n\t") {
		text = strings.NewReplacer("\n", "␊", "\t", " ").Replace(text)
	}
	return text
}

func isSafe(text string) bool {
	for i, r := range text {
		if !harmless(r) || r == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD") {
			return false
		}
	}
	return true
}

// harmless reports whether r can be sent to a terminal as it is.
func harmless(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return true
	case r < 0x20 || r >= 0x7f && r < 0xa0:
		return false
	case r < 0x7f:
		return true
	case r == ampersand, r == lessThan:
		return false
	case invisible(r):
		return false
	}
	return true
}

// invisible names what takes no room or reorders: the format characters (bidi
// controls, zero-width characters, tags), line and paragraph separators, and
// the letters that are drawn as nothing.
func invisible(r rune) bool {
	switch {
	case r >= 0x600 && r <= 0x605, r == 0x6dd, r == 0x70f, r == 0x8e2, r == 0x110bd, r == 0x110cd:
		return false // format characters that are drawn
	case r == 0x34f, r == 0x115f, r == 0x1160, r == 0x17b4, r == 0x17b5, r == 0x3164, r == 0xffa0, r == 0x2028, r == 0x2029:
		return true
	case r >= 0xe0000 && r <= 0xe0fff, r >= 0x180b && r <= 0x180f:
		return true
	case r&0xfffe == 0xfffe, r >= 0xfdd0 && r <= 0xfdef:
		return true // noncharacters
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

// These stand for & and < while Markdown is rendered: so that no character
// reference (&#27;) can bring back what Safe took out, and no text that looks
// like a tag (map<string>, <!-- … -->) is dropped.
const (
	ampersand = '\uf8f0'
	lessThan  = '\uf8f1'
)

// hideMarkup keeps the renderer from seeing HTML: tags, and character
// references other than the few common, harmless ones.
func hideMarkup(text string) string {
	if !strings.ContainsAny(text, "&<") {
		return text
	}
	var b strings.Builder
	for {
		i := strings.IndexAny(text, "&<")
		if i < 0 {
			break
		}
		b.WriteString(text[:i])
		text = text[i:]
		switch {
		case text[0] == '<':
			b.WriteRune(lessThan)
		case plainReference(text):
			b.WriteByte('&')
		default:
			b.WriteRune(ampersand)
		}
		text = text[1:]
	}
	b.WriteString(text)
	return b.String()
}

// plainReference reports whether text starts with a reference that decodes to
// one visible character and cannot be the start of another.
func plainReference(text string) bool {
	end := strings.IndexByte(text, ';')
	if end < 0 || end > 8 {
		return false
	}
	switch text[1:end] {
	case "lt", "gt", "quot", "apos", "nbsp", "copy", "hellip", "mdash", "ndash", "times", "rarr", "larr":
		return true
	}
	return false
}

// keepColours makes everything visible that a renderer may have let through,
// except colour sequences, puts the hidden characters back, and drops colours
// that colour nothing.
func keepColours(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	pending := ""
	write := func(part string) {
		if part != "" {
			b.WriteString(pending + part)
			pending = ""
		}
	}
	for {
		i := strings.IndexByte(text, 0x1b)
		if i < 0 {
			break
		}
		write(Safe(restore(text[:i])))
		text = text[i:]
		n := colourLength(text)
		switch {
		case n == 0:
			write("␛")
			n = 1
		case pending != "" && text[:n] == reset:
			pending = ""
		case text[:n] == reset:
			b.WriteString(reset)
		default:
			pending += text[:n]
		}
		text = text[n:]
	}
	write(Safe(restore(text)))
	return b.String()
}

func restore(text string) string {
	text = strings.ReplaceAll(text, string(ampersand), "&")
	return strings.ReplaceAll(text, string(lessThan), "<")
}

// colourLength measures a colour sequence at the start of text, 0 for anything
// else.
func colourLength(text string) int {
	if !strings.HasPrefix(text, "\x1b[") {
		return 0
	}
	for i := 2; i < len(text) && i < 40; i++ {
		c := text[i]
		if c == 'm' {
			return i + 1
		}
		if (c < '0' || c > '9') && c != ';' {
			return 0
		}
	}
	return 0
}
