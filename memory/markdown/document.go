// Package markdown reads and edits task files without disturbing them. A
// Document keeps every byte; an edit changes only the lines of the task or the
// entry that it is about, in the file's own line ending.
//
// Reading is tolerant: Ralph's own form, checkbox lists, headings with ids,
// `Key: value` bullets and tables, in several languages, with CRLF, BOM and
// tabs. Boxes in code fences and comments are no tasks. The package does no
// I/O and refuses to guess: an unknown id is an error.
//
//	d := markdown.Parse(data)
//	err := d.Edit("T-12", markdown.Edit{Status: markdown.Done})
//	os.WriteFile(name, d.Bytes(), 0o644)
package markdown

import (
	"bytes"
	"strings"
)

// Document is a Markdown file in lines. It is not safe for concurrent use.
type Document struct {
	lines lines
	bytes int    // length of all of it
	eol   string // of the file: what new lines end with

	tasks  []*node
	starts []int            // line on which each task begins
	index  map[string]*node // by id in lower case; nil until one is asked for
	marks  int              // tasks with a mark other than a tick
	entry  int              // line of the first heading of level 2, or -1

	stories bool      // headings with ids of stories are tasks, and no others
	other   []Heading // those with other ids

	open   int    // where a fence or comment begins that never ends, or -1
	closer string // what would end it

	numbers map[string]int // highest number by prefix in lower case; nil until asked for
}

// line is one line of a file.
type line struct {
	text string // without the line end; the first may begin with a BOM
	eol  string // "\n", "\r\n" or "" at the end of the file
	kind lineKind
}

type lineKind uint8

const (
	lineText    lineKind = iota
	lineFence            // the first or last line of a code fence
	lineCode             // inside a code fence
	lineComment          // inside an HTML comment
)

const bom = "\ufeff"

// Parse reads a document. It accepts any bytes.
func Parse(data []byte) *Document {
	d := &Document{eol: "\n", bytes: len(data)}
	if i := bytes.IndexByte(data, '\n'); i > 0 && data[i-1] == '\r' {
		d.eol = "\r\n"
	}
	d.lines = newLines(cutLines(string(data)))
	d.refresh()
	return d
}

// cutLines splits a text into its lines.
func cutLines(rest string) []line {
	all := make([]line, 0, strings.Count(rest, "\n")+1)
	for rest != "" {
		text, eol := rest, ""
		if i := strings.IndexByte(rest, '\n'); i >= 0 {
			text, eol = rest[:i], "\n"
			rest = rest[i+1:]
			if strings.HasSuffix(text, "\r") {
				text, eol = text[:len(text)-1], "\r\n"
			}
		} else {
			rest = ""
		}
		all = append(all, line{text: text, eol: eol})
	}
	return all
}

// Bytes returns the document's content.
func (d *Document) Bytes() []byte {
	out := make([]byte, 0, d.bytes)
	for _, leaf := range d.lines.leaves {
		for i := range leaf {
			out = append(append(out, leaf[i].text...), leaf[i].eol...)
		}
	}
	return out
}

// String returns the document's content.
func (d *Document) String() string {
	var b strings.Builder
	b.Grow(d.bytes)
	for _, leaf := range d.lines.leaves {
		for i := range leaf {
			b.WriteString(leaf[i].text)
			b.WriteString(leaf[i].eol)
		}
	}
	return b.String()
}

// refresh finds out anew what each line is and which tasks there are.
func (d *Document) refresh() {
	d.classify()
	d.findTasks()
}

// classify marks code fences and comments.
func (d *Document) classify() {
	fence := ""
	d.open, d.closer = -1, ""
	ends := commentEnds{d: d}
	for i := 0; i < d.lines.n; i++ {
		l := d.lines.at(i)
		text := strings.TrimPrefix(l.text, bom)
		l.kind = lineText
		if fence == "" && !suspicious(text) {
			continue
		}
		switch mark := fenceMark(text); {
		case fence != "":
			l.kind = lineCode
			if closes(text, fence) {
				l.kind, fence, d.open = lineFence, "", -1
			}
		case mark != "":
			l.kind, fence, d.open, d.closer = lineFence, mark, i, mark
		default:
			from, end := d.comment(i, text, &ends)
			for k := from; k < end; k++ {
				d.lines.at(k).kind = lineComment
			}
			if end > i {
				i = end - 1
			}
		}
	}
}

// suspicious reports whether a line may begin or end a fence or a comment.
func suspicious(text string) bool {
	for i := range len(text) {
		switch text[i] {
		case '`', '~':
			return true
		case '-':
			if strings.HasPrefix(text[i:], "-->") {
				return true
			}
		case '<':
			if strings.HasPrefix(text[i:], "<!--") {
				return true
			}
		}
	}
	return false
}

// fenceMark returns the run of backticks or tildes that opens a code fence,
// also in a list item, or "".
func fenceMark(text string) string {
	s := strings.TrimLeft(text, " \t")
	if b, rest := cutBullet(s); b != "" {
		s = strings.TrimLeft(rest, " \t")
	}
	for _, c := range []string{"`", "~"} {
		n := len(s) - len(strings.TrimLeft(s, c))
		// An info string with a backtick makes it inline code.
		if n >= 3 && !(c == "`" && strings.Contains(s[n:], "`")) {
			return s[:n]
		}
	}
	return ""
}

func closes(text, fence string) bool {
	s := strings.TrimSpace(text)
	return len(s) >= len(fence) && strings.Trim(s, fence[:1]) == ""
}

// comment returns the lines that a comment which begins on line i hides; end
// is exclusive, and 0 means none. A comment that begins a line hides it too
// and goes to its end or the file's, as in CommonMark; one behind other text
// hides only the lines after, and only if it ends before a blank line.
func (d *Document) comment(i int, text string, ends *commentEnds) (from, end int) {
	at := commentStart(text)
	if at < 0 {
		return 0, 0
	}
	from = i + 1
	first := strings.TrimSpace(text[:at]) == ""
	if first {
		from = i
	}
	if strings.Contains(text[at+4:], "-->") {
		return i, i + 1
	}
	j, blank := ends.behind(i)
	switch {
	case j < d.lines.n && (first || j < blank):
		return from, j + 1
	case !first:
		return 0, 0
	}
	d.open, d.closer = i, "-->"
	return from, d.lines.n
}

// commentEnds finds where comments may end, each line looked at once: it is
// asked about lines further and further down.
type commentEnds struct {
	d           *Document
	mark, blank int // what was found last
}

// behind returns the first line behind line i with the end of a comment, and
// the first blank one; the number of lines when there is none.
func (e *commentEnds) behind(i int) (mark, blank int) {
	if e.mark <= i {
		for e.mark = i + 1; e.mark < e.d.lines.n && !strings.Contains(e.d.lines.at(e.mark).text, "-->"); {
			e.mark++
		}
	}
	if e.blank <= i {
		for e.blank = i + 1; e.blank < e.d.lines.n && strings.TrimSpace(e.d.lines.at(e.blank).text) != ""; {
			e.blank++
		}
	}
	return e.mark, e.blank
}

// commentStart finds a "<!--" that is not closed on the line and is in no code
// span, or one that is all of the line; -1 when there is none.
func commentStart(text string) int {
	from, counted, ticks := 0, 0, 0
	for {
		i := strings.Index(text[from:], "<!--")
		if i < 0 {
			return -1
		}
		at := from + i
		ticks += strings.Count(text[counted:at], "`")
		if counted = at; ticks%2 == 1 {
			from = at + 4
			continue
		}
		end := strings.Index(text[at+4:], "-->")
		if end < 0 {
			return at
		}
		after := at + 4 + end + 3
		if strings.TrimSpace(text[:at]) == "" && strings.TrimSpace(text[after:]) == "" {
			return at
		}
		from = after
	}
}

// insert puts new lines before line i, with the file's line end. At the end of
// a file without a final line end, the file stays without one.
func (d *Document) insert(i int, texts ...string) {
	if len(texts) == 0 {
		return
	}
	added := make([]line, len(texts))
	for k, t := range texts {
		added[k] = line{text: t, eol: d.eol}
		d.bytes += len(t) + len(d.eol)
		d.note(t)
	}
	if i > 0 && i == d.lines.n {
		if last := d.lines.at(i - 1); last.eol == "" {
			last.eol = d.eol
			added[len(added)-1].eol = ""
		}
	}
	d.lines.insert(i, added)
}

// remove takes out line i.
func (d *Document) remove(i int) {
	gone := *d.lines.at(i)
	d.bytes -= len(gone.text) + len(gone.eol)
	if i > 0 && i == d.lines.n-1 && gone.eol == "" {
		last := d.lines.at(i - 1)
		d.bytes -= len(last.eol)
		last.eol = ""
	}
	d.lines.remove(i)
}

// cutBullet splits a line without indentation into its list marker with the
// blanks behind it, and the rest; bullet is "" when it is no list item.
func cutBullet(s string) (bullet, rest string) {
	n := 0
	switch {
	case s == "":
		return "", s
	case s[0] == '-' || s[0] == '*' || s[0] == '+':
		n = 1
	default:
		for n < len(s) && n < 9 && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		if n == 0 || n == len(s) || s[n] != '.' && s[n] != ')' {
			return "", s
		}
		n++
	}
	m := n
	for m < len(s) && (s[m] == ' ' || s[m] == '\t') {
		m++
	}
	if m == n {
		return "", s
	}
	return s[:m], s[m:]
}

// indent returns the width of the blanks that begin a line, tabs to the next
// multiple of four, and the rest.
func indent(s string) (width int, rest string) {
	for i := range len(s) {
		switch s[i] {
		case ' ':
			width++
		case '\t':
			width += 4 - width%4
		default:
			return width, s[i:]
		}
	}
	return width, ""
}

// heading returns the level of an ATX heading and its text, or 0.
func heading(s string) (level int, text string) {
	width, s := indent(s)
	if width > 3 {
		return 0, ""
	}
	for level < len(s) && s[level] == '#' {
		level++
	}
	if level == 0 || level > 6 || level < len(s) && s[level] != ' ' && s[level] != '\t' {
		return 0, ""
	}
	return level, strings.TrimSpace(s[level:])
}

// Fence returns text in a code fence that is longer than any run of backticks
// in it, so that foreign text cannot end it.
func Fence(text, info string) string {
	longest, run := 2, 0
	for _, c := range []byte(text) {
		if c != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	mark := strings.Repeat("`", longest+1)
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return mark + oneLine(info) + "\n" + text + mark + "\n"
}

// oneLine makes foreign text safe as part of a line: no line ends, no control
// characters, no begin of a comment.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029' || r == '\u0085' {
			return ' '
		}
		return r
	}, s)
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "<!--", "<! --")
}
