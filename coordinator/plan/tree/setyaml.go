package tree

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// A value in YAML is changed where it stands on one line; everything else is
// refused with ErrPlace rather than written anew.

// offset turns a line and a column in characters into an offset, or -1.
func (t *Tree) offset(line, column int) int {
	at := t.lineStart(line)
	if at < 0 {
		return -1
	}
	for ; column > 1; column-- {
		_, size := utf8.DecodeRune(t.Data[at:])
		if size == 0 || t.Data[at] == '\n' {
			return -1
		}
		at += size
	}
	return at
}

// lineStart returns where a line begins, or -1. A byte order mark is no part of
// the first.
func (t *Tree) lineStart(line int) int {
	at := 0
	if bytes.HasPrefix(t.Data, []byte(bom)) {
		at = len(bom)
	}
	for ; line > 1; line-- {
		i := bytes.IndexByte(t.Data[at:], '\n')
		if i < 0 {
			return -1
		}
		at += i + 1
	}
	return at
}

// lineEnd returns where the line of an offset ends, without its line end.
func lineEnd(data []byte, at int) int {
	end := len(data)
	if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
		end = at + i
	}
	if end > at && data[end-1] == '\r' {
		end--
	}
	return end
}

// plainWord matches what needs no quotes in YAML, unless it is a word that YAML
// reads as something else.
var plainWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_./-]*$`) })

func yamlText(v any) string {
	s, ok := v.(string)
	if !ok {
		return quoted(v)
	}
	switch strings.ToLower(s) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		return quoted(v)
	}
	if plainWord().MatchString(s) {
		return s
	}
	return quoted(v)
}

func (t *Tree) replaceYAML(p Pair, c Change) (edit, error) {
	fault := fmt.Errorf("the value of %q on line %d: %w: write it on one line", p.Key, p.Line, ErrPlace)
	v := p.Value
	if v.shared || v.Kind == Map || v.Kind == List || v.Line != p.Line {
		return edit{}, fault
	}
	from := t.offset(v.Line, v.Column)
	if from < 0 {
		return edit{}, fault
	}
	end := lineEnd(t.Data, from)
	text := string(t.Data[from:end])
	switch {
	case v.Kind == Null && (text == "" || text[0] == '#'):
		// "status:" and nothing behind it.
		return t.emptyYAML(p, c, fault)
	case v.style == styleOther && text != "" && (text[0] == '|' || text[0] == '>'):
		return edit{from, t.blockValue(end, p.Column-1), yamlText(c.Value)}, nil
	case v.style == styleOther:
		return edit{}, fault
	case v.style == styleQuoted:
		end = quoteEnd(text)
	default:
		end = plainEnd(text, v.Text)
	}
	if end >= 0 {
		return edit{from, from + end, yamlText(c.Value)}, nil
	}
	end = t.blockValue(from, p.Column-1)
	if bytes.IndexByte(t.Data[from:end], '#') >= 0 {
		return edit{}, fault // it may be a comment, which is the user's
	}
	return edit{from, end, yamlText(c.Value)}, nil
}

// blockValue returns where a value ends that goes on on the lines below: those
// that are indented deeper than its key.
func (t *Tree) blockValue(at, width int) int {
	end := lineEnd(t.Data, at)
	for next := end; ; {
		i := bytes.IndexByte(t.Data[next:], '\n')
		if i < 0 {
			return end
		}
		from := next + i + 1
		next = lineEnd(t.Data, from)
		line := t.Data[from:next]
		body := bytes.TrimLeft(line, " ")
		switch {
		case len(body) == 0:
			if next == len(t.Data) {
				return end
			}
		case len(line)-len(body) <= width:
			return end
		default:
			end = next
		}
	}
}

// emptyYAML puts a value behind a key that has none.
func (t *Tree) emptyYAML(p Pair, c Change, fault error) (edit, error) {
	at := t.offset(p.Line, p.Column)
	if at < 0 {
		return edit{}, fault
	}
	i := bytes.IndexByte(t.Data[at:lineEnd(t.Data, at)], ':')
	if i < 0 {
		return edit{}, fault
	}
	return edit{at + i + 1, at + i + 1, " " + yamlText(c.Value)}, nil
}

// quoteEnd returns the length of the quoted text that s begins with, or -1 when
// it does not end on the line.
func quoteEnd(s string) int {
	if s == "" {
		return -1
	}
	q := s[0]
	for i := 1; i < len(s); i++ {
		switch {
		case q == '"' && s[i] == '\\':
			i++
		case s[i] != q:
		case q == '\'' && i+1 < len(s) && s[i+1] == '\'':
			i++
		default:
			return i + 1
		}
	}
	return -1
}

// plainEnd returns the length of the plain scalar that s begins with, or -1
// when it goes on on the next line.
func plainEnd(s, text string) int {
	if strings.HasPrefix(s, text) && text != "" {
		return len(text)
	}
	word := s
	if i := strings.Index(word, " #"); i >= 0 {
		word = word[:i]
	}
	word = strings.TrimRight(word, " \t")
	switch strings.ToLower(word) {
	case "null", "~":
		return len(word)
	}
	return -1
}

// insertYAML puts keys on lines of their own below the first of an object's, or
// behind the brace of one in flow style.
func (t *Tree) insertYAML(n *Node, changes []Change) (edit, error) {
	fault := fmt.Errorf("the object on line %d: %w: write its keys on lines of their own", n.Line, ErrPlace)
	if n.style == styleFlow {
		at := t.offset(n.Line, n.Column)
		if at < 0 || at >= len(t.Data) || t.Data[at] != '{' || len(n.Pairs) == 0 {
			return edit{}, fault
		}
		var b strings.Builder
		for _, c := range changes {
			b.WriteString(quoted(c.Key) + ": " + quoted(c.Value) + ", ")
		}
		return edit{at + 1, at + 1, b.String()}, nil
	}
	if n.style != styleBlock {
		return edit{}, fault
	}
	// Below a key whose value is on its own line whole: a scalar that does not
	// go on further down.
	for i := range n.Pairs {
		p := n.Pairs[i]
		v := p.Value
		if p.merged || v.Kind == Map || v.Kind == List || v.style == styleOther || v.Line != p.Line {
			continue
		}
		from := t.offset(v.Line, v.Column)
		if from < 0 {
			continue
		}
		end := lineEnd(t.Data, from)
		if text := string(t.Data[from:end]); v.style == styleQuoted && quoteEnd(text) < 0 || v.style == styleBlock && v.Kind != Null && plainEnd(text, v.Text) < 0 {
			continue
		}
		eol := t.eol()
		var b strings.Builder
		for _, c := range changes {
			b.WriteString(eol + strings.Repeat(" ", p.Column-1) + c.Key + ": " + yamlText(c.Value))
		}
		return edit{end, end, b.String()}, nil
	}
	return edit{}, fault
}

func (t *Tree) eol() string {
	if i := bytes.IndexByte(t.Data, '\n'); i > 0 && t.Data[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// settleYAML proves the edits by reading only the object's lines again, where
// they stand alone, and moves the rest of the tree along; else by reading all.
// Reading 10,000 tasks takes a tenth of a second, which is too long for each
// change.
func (t *Tree) settleYAML(n, want *Node, data []byte, edits []edit) (*Tree, error) {
	if fresh, added, ok := t.alone(n, want, edits); ok {
		if added != 0 {
			// All that is below its first line and no part of it is behind it.
			shift(t.Root, n, n.Line, added, map[*Node]bool{})
		}
		n.Pairs = fresh.Pairs
		return &Tree{Root: t.Root, Data: data, yaml: true}, nil
	}
	next, faults := YAML(data)
	return proven(t, next, faults, n, want)
}

// alone reads the lines of one object before and after the edits. It reports
// ok when they are the object, whole and nothing else, and became what is
// wanted.
func (t *Tree) alone(n, want *Node, edits []edit) (fresh *Node, added int, ok bool) {
	if n.style != styleBlock || tangled(n) {
		return nil, 0, false
	}
	from, at := t.lineStart(n.Line), t.offset(n.Line, n.Column)
	if from < 0 || at < 0 {
		return nil, 0, false
	}
	to := blockEnd(t.Data, from, n.Column-1)
	for _, e := range edits {
		if e.from < at || e.to > to {
			return nil, 0, false
		}
	}
	lead := strings.Repeat(" ", utf8.RuneCount(t.Data[from:at]))
	before, faults := YAML([]byte(lead + string(t.Data[at:to])))
	if before == nil || len(faults) > 0 || !Equal(before.Root, n) {
		return nil, 0, false
	}
	moved := make([]edit, len(edits))
	for i, e := range edits {
		moved[i] = edit{e.from - at, e.to - at, e.text}
		added += strings.Count(e.text, "\n") - bytes.Count(t.Data[e.from:e.to], []byte("\n"))
	}
	after, faults := YAML(append([]byte(lead), splice(t.Data[at:to], moved)...))
	if after == nil || len(faults) > 0 || after.Root.Kind != Map || !sameKeys(want, after.Root) {
		return nil, 0, false
	}
	shift(after.Root, nil, 0, n.Line-1, map[*Node]bool{})
	return after.Root, added, true
}

// tangled reports whether a part of an object is met elsewhere too.
func tangled(n *Node) bool {
	for i := range n.Pairs {
		if p := &n.Pairs[i]; p.merged || p.Value.shared || tangled(p.Value) {
			return true
		}
	}
	return slices.ContainsFunc(n.Items, func(i *Node) bool { return i.shared || tangled(i) })
}

// blockEnd returns where the lines end that are indented as deep as a block.
func blockEnd(data []byte, from, width int) int {
	at := lineEnd(data, from)
	for {
		i := bytes.IndexByte(data[at:], '\n')
		if i < 0 {
			return len(data)
		}
		next := at + i + 1
		line := data[next:lineEnd(data, next)]
		body := bytes.TrimLeft(line, " ")
		if len(body) > 0 && len(line)-len(body) < width {
			return next
		}
		if len(body) == 0 && next == len(data) {
			return next
		}
		at = next
	}
}

// shift moves everything below a line down, but for what is in one node.
func shift(n, but *Node, line, by int, done map[*Node]bool) {
	if n == but {
		return
	}
	if n.shared {
		if done[n] {
			return
		}
		done[n] = true
	}
	if n.Line > line {
		n.Line += by
	}
	for i := range n.Pairs {
		if n.Pairs[i].Line > line {
			n.Pairs[i].Line += by
		}
		shift(n.Pairs[i].Value, but, line, by, done)
	}
	for _, item := range n.Items {
		shift(item, but, line, by, done)
	}
}
