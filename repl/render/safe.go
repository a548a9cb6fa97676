package render

import (
	"strings"

	"ralph/memory/visible"
)

// Safe makes text from a model, a tool, a file or a name harmless to a
// terminal, as visible.Text does. The stand-ins of this package are shown too,
// so that foreign text cannot bring them along.
func Safe(text string) string {
	if strings.ContainsAny(text, string(ampersand)+string(lessThan)) {
		text = strings.NewReplacer(string(ampersand), `\uf8f0`, string(lessThan), `\uf8f1`).Replace(text)
	}
	return visible.Text(text)
}

// SafeLine is Safe for text that must stay on one row: line breaks become ␊ and
// tabs become spaces.
func SafeLine(text string) string { return visible.Line(Safe(text)) }

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
