package render

import (
	"strings"

	"ralph/memory/text"
)

// Safe makes text from a model, a tool, a file or a name harmless to a
// terminal, as text.Visible does, but for the joiners that a picture or a script
// needs. The stand-ins of this package are shown too, so that foreign text cannot
// bring them along.
func Safe(content string) string {
	if strings.Contains(content, standIns) {
		content = strings.NewReplacer(string(ampersand), `\uf8f0`, string(lessThan), `\uf8f1`, string(itemMark), `\uf8f2`,
			string(joinMark), `\uf8f3`, string(apartMark), `\uf8f4`).Replace(content)
	}
	kept := keepJoiners(content)
	if content = text.Visible(kept); kept != content || strings.Contains(kept, standIns) {
		content = strings.ReplaceAll(content, string(joinMark), string(joiner))
		content = strings.ReplaceAll(content, string(apartMark), string(nonJoiner))
	}
	return content
}

// SafeLine is Safe for text that must stay on one row: line breaks become ␊ and
// tabs become spaces.
func SafeLine(content string) string { return text.VisibleLine(Safe(content)) }

// These stand for & and < while Markdown is rendered: so that no character
// reference (&#27;) can bring back what Safe took out, and no text that looks
// like a tag (map<string>, <!-- … -->) is dropped.
const (
	ampersand = '\uf8f0'
	lessThan  = '\uf8f1'
)

const (
	// itemMark stands behind the mark of a list's item while its rows are broken.
	itemMark = '\uf8f2'
	// joinMark and apartMark stand for joiners that are kept.
	joinMark, apartMark = '\uf8f3', '\uf8f4'
	// standIns are the bytes with which all of these begin.
	standIns = "\xef\xa3"
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
// except colour sequences, puts the hidden characters back, and leaves out the
// colours that change nothing that is seen: most of what chroma and glamour write.
// So does the colour plain, which is the one of text that has none. Rows end
// without a colour.
func keepColours(text, plain string) string {
	p := painter{plain: plain}
	p.out.Grow(len(text))
	for {
		i := strings.IndexByte(text, 0x1b)
		if i < 0 {
			break
		}
		p.text(text[:i])
		text = text[i:]
		n := colourLength(text)
		if n == 0 {
			p.text("␛")
			n = 1
		} else {
			p.want = added(p.want, text[:n])
		}
		text = text[n:]
	}
	p.text(text)
	p.end()
	return p.out.String()
}

// added is what colours are on behind a sequence, as its numbers.
func added(colours, sequence string) string {
	more := sequence[2 : len(sequence)-1]
	rest, again := strings.CutPrefix(more, "0;")
	switch {
	case more == "" || more == "0":
		return ""
	case again || colours == "":
		return rest
	}
	return colours + ";" + more
}

// turned is the sequence from some colours to others.
func turned(from, to string) string {
	switch {
	case from == to:
		return ""
	case to == "":
		return reset
	case from == "" || ink(from) && ink(to):
		return "\x1b[" + to + "m"
	}
	return "\x1b[0;" + to + "m"
}

// ink says that colours are one of 256 for text and nothing else.
func ink(colours string) bool {
	n, ok := strings.CutPrefix(colours, "38;5;")
	return ok && !strings.Contains(n, ";")
}

// painter writes text in the colours that are wanted.
type painter struct {
	out             strings.Builder
	want, is, plain string
}

func (p *painter) text(text string) {
	for {
		row, rest, more := strings.Cut(text, "\n")
		p.row(row)
		if !more {
			return
		}
		p.end()
		p.out.WriteByte('\n')
		text = rest
	}
}

func (p *painter) row(text string) {
	if text == "" {
		return
	}
	want := p.want
	if p.plain != "" && want == p.plain {
		want = ""
	}
	if strings.Trim(text, " \t") != "" || shows(want) || shows(p.is) {
		p.out.WriteString(turned(p.is, want))
		p.is = want
	}
	for i, part := range strings.Split(restore(text), string(itemMark)) {
		if i > 0 {
			p.out.WriteRune(itemMark)
		}
		p.out.WriteString(Safe(part))
	}
}

func (p *painter) end() {
	p.out.WriteString(turned(p.is, ""))
	p.is = ""
}

// shows says that colours are seen on a blank: a line under or through it, a
// ground.
func shows(colours string) bool {
	list := strings.Split(colours, ";")
	for i := 0; i < len(list); i++ {
		switch list[i] {
		case "38":
			i += 2
		case "4", "7", "9", "21", "48", "53":
			return true
		}
	}
	return false
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
