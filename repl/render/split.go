package render

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Block is a piece of Markdown that can be rendered by itself. Only this package
// looks inside.
type Block struct {
	// Text is its whole lines, as they were written.
	Text string
	// Joined says that no blank row stands between it and the block before.
	Joined bool

	margin int       // the columns of a list's text in which it stands
	number int       // what an item of an ordered list counts, -1 for none
	code   *codePart // nil for what is no fenced code
}

// codePart is some lines of fenced code.
type codePart struct {
	lang string
	body string // without the fences and the margin
	// inside opens the comment or the string in which it begins, outside ends the one
	// in which it ends; "" for none.
	inside, outside string
	first, last     bool
}

const (
	// maxListBytes bounds a list's item that waits for its end; a longer one is cut
	// at the next blank line.
	maxListBytes = maxBlockBytes / 2
	// leastCode and mostCode are how many lines of code wait for a good place to cut
	// (a line at the margin after a blank one), and for any: code that takes long to
	// write is seen while it is written.
	leastCode, mostCode = 6, 16
	// maxColoured bounds the code of a fence that is coloured, which takes its time.
	maxColoured = 64 << 10
	// maxMargin bounds how far a list moves what stands in it to the right.
	maxMargin = 16
)

// Splitter cuts streamed Markdown into blocks that can be rendered by
// themselves: a paragraph, a heading, an item of a list with what is below it, a
// table, some lines of a fence. Each byte is looked at a constant number of times,
// and where the text is cut does not depend on the pieces in which it came. The
// zero Splitter is ready. Not safe for concurrent use.
type Splitter struct {
	block strings.Builder // whole lines of the unfinished block
	line  []byte          // the unfinished line
	kind  blockKind
	blank bool // in a list: the last line was blank
	// joined, margin and number are those of the unfinished block.
	joined         bool
	margin, number int
	// counted is the number of the last item of the ordered list, -1 for none.
	counted int

	fence  fence
	body   strings.Builder // code of the unfinished part
	lines  int             // of it
	size   int             // bytes of the parts that are out
	gap    bool            // the last line of it is blank
	first  bool            // no part of this fence is out
	syntax syntax
	inside string // what is open where the part begins
	open   pair   // and where it ends so far
}

type blockKind int

const (
	blockNone blockKind = iota
	blockText           // paragraph, table, quote, indented code: up to a blank line
	blockList           // up to the next item, a fence, or a line at the margin after a blank one
	blockFence
)

// fence is an open code fence.
type fence struct {
	mark   byte
	length int
	indent int
	lang   string
	inList bool
}

// Write takes the next piece of text and returns the blocks that it completes.
// Together with those of Close their texts are the whole text, but for blank
// lines between blocks.
func (s *Splitter) Write(text string) []Block {
	var out []Block
	for {
		i := strings.IndexByte(text, '\n')
		if i < 0 {
			s.line = append(s.line, text...)
			return out
		}
		s.line = append(s.line, text[:i]...)
		text = text[i+1:]
		line := string(s.line)
		s.line = s.line[:0]
		out = s.take(line, out)
	}
}

// Close returns what is left. The Splitter is then ready for another text.
func (s *Splitter) Close() []Block {
	var out []Block
	if len(s.line) > 0 {
		line := string(s.line)
		s.line = s.line[:0]
		out = s.take(line, out)
	}
	if s.kind == blockFence {
		out = s.endCode(true, out)
	}
	out = s.flush(out)
	s.kind, s.blank, s.fence = blockNone, false, fence{}
	return out
}

// flush ends the unfinished block; a list goes on.
func (s *Splitter) flush(out []Block) []Block {
	text := s.block.String()
	s.block.Reset()
	b := Block{Text: text, Joined: s.joined, margin: s.margin, number: s.number}
	s.joined, s.margin, s.number = false, 0, -1
	if strings.TrimSpace(text) == "" {
		return out
	}
	return append(out, b)
}

// end is flush for whatever ends a list too.
func (s *Splitter) end(out []Block) []Block {
	out = s.flush(out)
	s.kind, s.blank = blockNone, false
	return out
}

func (s *Splitter) add(line string) {
	s.block.WriteString(line)
	s.block.WriteByte('\n')
}

// take adds one whole line.
func (s *Splitter) take(line string, out []Block) []Block {
	trimmed := strings.TrimSpace(line)
	switch {
	case s.kind == blockFence:
		return s.takeCode(line, trimmed, out)
	case trimmed == "":
		return s.takeBlank(line, out)
	case s.kind == blockList:
		return s.takeInList(line, trimmed, out)
	}
	return s.start(line, trimmed, out)
}

func (s *Splitter) takeBlank(line string, out []Block) []Block {
	switch s.kind {
	case blockNone:
		return out
	case blockList:
		if s.block.Len() > maxListBytes {
			return s.end(out)
		}
		s.blank = true
		if s.block.Len() > 0 {
			s.add(line)
		}
		return out
	}
	return s.end(out)
}

// takeInList adds a line that is not blank to a list. Each item at the margin is a
// block of its own, and so is a fence and what comes after it.
func (s *Splitter) takeInList(line, trimmed string, out []Block) []Block {
	indent := indentOf(line)
	f, opens := openFence(trimmed)
	switch {
	case indent < 2 && isItem(trimmed) && !isRule(trimmed):
		return s.item(trimmed, line, s.blank, out)
	case indent < 2 && (s.blank || opens || s.block.Len() == 0 || isHeading(trimmed) || isRule(trimmed)):
		return s.start(line, trimmed, s.end(out))
	case opens && indent >= 2:
		blank := s.blank
		out = s.flush(out)
		f.inList = true
		s.openCode(f, line, !blank)
		return out
	case s.block.Len() == 0: // after a fence
		s.joined, s.margin, s.number = !s.blank, min(indent, maxMargin), -1
	}
	s.blank = false
	s.add(line)
	return out
}

// item begins a block with an item at the margin of its list.
func (s *Splitter) item(trimmed, line string, blank bool, out []Block) []Block {
	if s.kind != blockList {
		s.counted = -1
	}
	out = s.flush(out)
	n := -1
	if digits := strings.IndexAny(trimmed, ".)"); trimmed[0] >= '0' && trimmed[0] <= '9' {
		n = s.counted + 1
		if s.counted < 0 {
			n, _ = strconv.Atoi(trimmed[:digits]) // at most nine digits
		}
	}
	s.joined, s.number, s.counted = s.kind == blockList && !blank, n, n
	s.kind, s.blank = blockList, false
	s.add(line)
	return out
}

// start begins a block, or goes on with a paragraph.
func (s *Splitter) start(line, trimmed string, out []Block) []Block {
	code := s.kind == blockNone && indentOf(line) >= 4
	if f, ok := openFence(trimmed); ok && !code {
		out = s.end(out)
		s.openCode(f, line, false)
		return out
	}
	if isHeading(trimmed) && !code {
		out = s.end(out)
		s.add(line)
		return s.end(out)
	}
	if isItem(trimmed) && !isRule(trimmed) && !code && (s.kind == blockNone || interrupts(trimmed)) {
		return s.item(trimmed, line, true, out)
	}
	if isRule(trimmed) && s.kind == blockNone && !code {
		s.add(line)
		return s.end(out)
	}
	if s.kind == blockNone {
		s.number = -1
	}
	s.kind = blockText
	s.add(line)
	return out
}

func (s *Splitter) openCode(f fence, line string, joined bool) {
	f.indent = indentOf(line)
	s.kind, s.fence, s.first, s.lines, s.size, s.gap = blockFence, f, true, 0, 0, false
	s.syntax, s.inside, s.open = syntaxOf(f.lang), "", pair{}
	s.body.Reset()
	s.joined, s.number = joined, -1
	if f.inList {
		s.margin = min(f.indent, maxMargin)
	}
	s.add(line)
}

// takeCode adds a line to a fence, and cuts before it where the part is long.
func (s *Splitter) takeCode(line, trimmed string, out []Block) []Block {
	if s.fence.closes(trimmed) {
		s.add(line)
		inList := s.fence.inList
		out = s.endCode(true, out)
		s.kind, s.blank = blockNone, false
		if inList {
			s.kind = blockList
		}
		return out
	}
	code := dedent(line, s.fence.indent)
	if s.lines >= mostCode || s.lines >= leastCode && s.gap && trimmed != "" && indentOf(code) == 0 {
		out = s.endCode(false, out)
	}
	s.lines++
	s.gap = trimmed == ""
	s.open = s.syntax.after(s.open, code)
	s.body.WriteString(code)
	s.body.WriteByte('\n')
	s.add(line)
	return out
}

// endCode ends a part of a fence.
func (s *Splitter) endCode(last bool, out []Block) []Block {
	body, margin := s.body.String(), s.margin
	part := &codePart{lang: s.fence.lang, body: body, inside: s.inside, outside: s.open.end, first: s.first, last: last}
	if s.size += len(body); s.size > maxColoured {
		part.lang = ""
	}
	out = append(out, Block{Text: s.block.String(), Joined: s.joined, margin: margin, number: -1, code: part})
	s.block.Reset()
	s.joined, s.margin = true, margin
	s.inside, s.lines, s.first = s.open.open, 0, s.first && strings.TrimSpace(body) == ""
	s.body.Reset()
	if last {
		s.joined, s.margin, s.fence = false, 0, fence{}
	}
	return out
}

// indentOf counts the columns before a line's text.
func indentOf(line string) int {
	n := 0
	for i := range len(line) {
		switch line[i] {
		case ' ':
			n++
		case '\t':
			n += 4 - n%4
		default:
			return n
		}
	}
	return n
}

// dedent takes up to n columns off the blanks before a line's text.
func dedent(line string, n int) string {
	for n > 0 && line != "" {
		switch {
		case line[0] == ' ':
			line, n = line[1:], n-1
		case line[0] == '\t' && n >= 4:
			line, n = line[1:], n-4
		default:
			return line
		}
	}
	return line
}

// maxTail bounds how much of an unfinished block Tail looks at; tailStep is how
// far what is cut off grows at once, so that rows broken from it stay put.
const (
	maxTail  = 4 << 10
	tailStep = 1 << 10
)

// Tail returns the last lines, at most n, of the unfinished block, without blank
// ones around them; code without its fence, and code says that it is that. Its
// cost does not grow with the block.
func (s *Splitter) Tail(n int) (rows []string, code bool) {
	done, code := s.block.String(), s.kind == blockFence
	line := lastBytes(string(s.line[cutAt(len(s.line)):]), len(s.line))
	if code {
		done, line = s.body.String(), dedent(line, s.fence.indent)
		if strings.Trim(line, string(s.fence.mark)) == "" {
			line = "" // it may become the end of the fence
		}
	}
	text := lastBytes(done, maxTail) + line
	rows = strings.Split(text, "\n")
	for len(rows) > 0 && strings.TrimSpace(rows[len(rows)-1]) == "" {
		rows = rows[:len(rows)-1]
	}
	rows = rows[max(0, len(rows)-n):]
	for len(rows) > 0 && strings.TrimSpace(rows[0]) == "" {
		rows = rows[1:]
	}
	return rows, code
}

// cutAt is how much of a line of n bytes is left out by Tail.
func cutAt(n int) int {
	if n <= maxTail {
		return 0
	}
	return (n - maxTail + tailStep - 1) / tailStep * tailStep
}

// lastBytes returns the last n bytes of text or a little less, whole runes.
func lastBytes(text string, n int) string {
	text = text[max(0, len(text)-n):]
	for len(text) > 0 && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return text
}

func (f fence) closes(trimmed string) bool {
	return len(trimmed) >= f.length && strings.Trim(trimmed, string(f.mark)) == ""
}

func openFence(trimmed string) (fence, bool) {
	if len(trimmed) < 3 || trimmed[0] != '`' && trimmed[0] != '~' {
		return fence{}, false
	}
	n := 0
	for n < len(trimmed) && trimmed[n] == trimmed[0] {
		n++
	}
	if n < 3 || trimmed[0] == '`' && strings.Contains(trimmed[n:], "`") {
		return fence{}, false
	}
	lang, _, _ := strings.Cut(strings.TrimSpace(trimmed[n:]), " ")
	return fence{mark: trimmed[0], length: n, lang: strings.ToLower(lang)}, true
}

func isHeading(trimmed string) bool {
	n := 0
	for n < len(trimmed) && trimmed[n] == '#' {
		n++
	}
	return n > 0 && n <= 6 && (n == len(trimmed) || trimmed[n] == ' ' || trimmed[n] == '\t')
}

func isRule(trimmed string) bool {
	mark := trimmed[0]
	if mark != '-' && mark != '*' && mark != '_' {
		return false
	}
	n := 0
	for i := range len(trimmed) {
		switch trimmed[i] {
		case mark:
			n++
		case ' ', '\t':
		default:
			return false
		}
	}
	return n >= 3
}

func isItem(trimmed string) bool {
	if strings.IndexByte("-*+", trimmed[0]) >= 0 {
		return len(trimmed) == 1 || trimmed[1] == ' ' || trimmed[1] == '\t'
	}
	n := 0
	for n < len(trimmed) && n < 9 && trimmed[n] >= '0' && trimmed[n] <= '9' {
		n++
	}
	if n == 0 || n == len(trimmed) || trimmed[n] != '.' && trimmed[n] != ')' {
		return false
	}
	return n+1 == len(trimmed) || trimmed[n+1] == ' ' || trimmed[n+1] == '\t'
}

// interrupts reports whether a list item may end a paragraph: a bullet or the
// number 1, and not an empty one.
func interrupts(trimmed string) bool {
	if len(trimmed) < 3 {
		return false
	}
	return strings.IndexByte("-*+", trimmed[0]) >= 0 || strings.HasPrefix(trimmed, "1.") || strings.HasPrefix(trimmed, "1)")
}
