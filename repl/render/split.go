package render

import (
	"strings"
	"unicode/utf8"
)

// Splitter cuts streamed Markdown into blocks that can be rendered by
// themselves: a paragraph, a heading, a list with all its items, a table, a
// fence. Each byte is looked at a constant number of times. The zero Splitter
// is ready. Not safe for concurrent use.
type Splitter struct {
	block strings.Builder // whole lines of the unfinished block
	line  []byte          // the unfinished line
	kind  blockKind
	fence fence
	blank bool // the last line of an open list was blank
}

type blockKind int

const (
	blockNone blockKind = iota
	blockText           // paragraph, table, quote, indented code: up to a blank line
	blockList           // up to a line at the margin after a blank one
	blockFence
)

// fence is an open code fence.
type fence struct {
	mark   byte
	length int
	inList bool
}

// maxListBytes bounds a list that waits for its end; a longer one is cut at the
// next blank line.
const maxListBytes = maxBlockBytes / 2

// Write takes the next piece of text and returns the blocks that it completes.
// Together with Close they are the whole text, but for blank lines between
// blocks.
func (s *Splitter) Write(text string) []string {
	var out []string
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

// maxTail bounds how much of an unfinished block Tail looks at; tailStep is how
// far what is cut off grows at once, so that rows broken from it stay put.
const (
	maxTail  = 4 << 10
	tailStep = 1 << 10
)

// Tail returns the last lines, at most n, of the unfinished block, without blank
// ones around them. Its cost does not grow with the block.
func (s *Splitter) Tail(n int) []string {
	done := s.block.String()
	text := lastBytes(done, maxTail) + lastBytes(string(s.line[cutAt(len(s.line)):]), len(s.line))
	rows := strings.Split(text, "\n")
	for len(rows) > 0 && strings.TrimSpace(rows[len(rows)-1]) == "" {
		rows = rows[:len(rows)-1]
	}
	rows = rows[max(0, len(rows)-n):]
	for len(rows) > 0 && strings.TrimSpace(rows[0]) == "" {
		rows = rows[1:]
	}
	return rows
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

// Close returns what is left as the last block, "" for nothing. The Splitter is
// then ready for another text.
func (s *Splitter) Close() string {
	if len(s.line) > 0 {
		s.block.Write(s.line)
		s.block.WriteByte('\n')
		s.line = s.line[:0]
	}
	return s.end()
}

func (s *Splitter) end() string {
	text := s.block.String()
	s.block.Reset()
	s.kind, s.blank, s.fence = blockNone, false, fence{}
	if strings.TrimSpace(text) == "" {
		return ""
	}
	return text
}

func (s *Splitter) flush(out []string) []string {
	if text := s.end(); text != "" {
		out = append(out, text)
	}
	return out
}

func (s *Splitter) add(line string) {
	s.block.WriteString(line)
	s.block.WriteByte('\n')
}

// take adds one whole line.
func (s *Splitter) take(line string, out []string) []string {
	trimmed := strings.TrimSpace(line)
	if s.kind == blockFence || s.fence.mark != 0 {
		s.add(line)
		if s.fence.closes(trimmed) {
			if !s.fence.inList {
				return s.flush(out)
			}
			s.fence = fence{}
		}
		return out
	}
	if trimmed == "" {
		return s.takeBlank(line, out)
	}
	indented := strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "\t")
	if s.kind == blockList {
		return s.takeInList(line, trimmed, indented, out)
	}
	return s.start(line, trimmed, out)
}

func (s *Splitter) takeBlank(line string, out []string) []string {
	switch s.kind {
	case blockNone:
		return out
	case blockList:
		if s.block.Len() > maxListBytes {
			return s.flush(out)
		}
		s.blank = true
		s.add(line)
		return out
	}
	return s.flush(out)
}

func (s *Splitter) takeInList(line, trimmed string, indented bool, out []string) []string {
	if !indented && !isItem(trimmed) {
		_, opens := openFence(trimmed)
		if s.blank || opens || isHeading(trimmed) || isRule(trimmed) {
			return s.start(line, trimmed, s.flush(out))
		}
	}
	s.blank = false
	if f, ok := openFence(trimmed); ok && indented {
		f.inList = true
		s.fence = f
	}
	s.add(line)
	return out
}

// start begins a block, or goes on with a paragraph.
func (s *Splitter) start(line, trimmed string, out []string) []string {
	indent := len(line) - len(strings.TrimLeft(line, " "))
	code := s.kind == blockNone && (indent >= 4 || strings.HasPrefix(line, "\t"))
	if f, ok := openFence(trimmed); ok && !code {
		out = s.flush(out)
		s.kind, s.fence = blockFence, f
		s.add(line)
		return out
	}
	if isHeading(trimmed) && !code {
		out = s.flush(out)
		s.add(line)
		return s.flush(out)
	}
	if isItem(trimmed) && !isRule(trimmed) && !code && (s.kind == blockNone || interrupts(trimmed)) {
		out = s.flush(out)
		s.kind = blockList
		s.add(line)
		return out
	}
	if isRule(trimmed) && s.kind == blockNone && !code {
		s.add(line)
		return s.flush(out)
	}
	s.kind = blockText
	s.add(line)
	return out
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
	return fence{mark: trimmed[0], length: n}, true
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
