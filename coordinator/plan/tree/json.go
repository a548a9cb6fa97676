package tree

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// JSON reads a text of one JSON value, also with a byte order mark. The faults
// are one of the grammar, with which reading ends and the tree is nil, or all
// keys that an object has twice.
func JSON(data []byte) (*Tree, []Fault) {
	if f, bad := foreign(data); bad {
		return nil, []Fault{f}
	}
	p := &jsonParser{s: string(data), line: 1}
	if strings.HasPrefix(p.s, bom) {
		p.at, p.start = len(bom), len(bom)
	}
	p.space()
	if p.at == len(p.s) {
		return nil, []Fault{{p.line, p.at - p.start + 1, "is empty"}}
	}
	root, ok := p.value(0)
	if ok {
		p.space()
		if p.at < len(p.s) {
			ok = p.fail(p.at, "there is more behind the end: "+p.found())
		}
	}
	if !ok {
		return nil, []Fault{p.fatal}
	}
	return &Tree{Root: root, Data: bytes.Clone(data)}, p.faults
}

const cutOff = "the file ends inside a text: it was cut off"

type jsonParser struct {
	s      string
	at     int
	line   int
	start  int // where the line begins
	slab   []Node
	open   []string // what is open, as a person says it
	faults []Fault
	fatal  Fault
}

// fail notes the fault that ends the reading.
func (p *jsonParser) fail(at int, text string) bool {
	p.fatal = Fault{p.line, at - p.start + 1, text}
	return false
}

func (p *jsonParser) space() {
	for p.at < len(p.s) {
		switch p.s[p.at] {
		case '\n':
			p.line++
			p.start = p.at + 1
		case ' ', '\t', '\r':
		default:
			return
		}
		p.at++
	}
}

// found says what stands here, for a message.
func (p *jsonParser) found() string {
	if p.at >= len(p.s) {
		return "the end of the file"
	}
	end := p.at
	for end < len(p.s) && end < p.at+24 && p.s[end] != '\n' {
		end++
	}
	return fmt.Sprintf("%q", strings.ToValidUTF8(p.s[p.at:end], ""))
}

// short is the message for a text that ends too early.
func (p *jsonParser) short() string {
	what := "the value"
	if n := len(p.open); n > 0 {
		what = p.open[n-1]
	}
	return "the file ends inside " + what + ": it was cut off"
}

func (p *jsonParser) node(kind Kind) *Node {
	if len(p.slab) == 0 {
		p.slab = make([]Node, min(1024, 8+len(p.s)/64))
	}
	n := &p.slab[0]
	p.slab = p.slab[1:]
	n.Kind, n.Line, n.Column, n.from, n.style = kind, p.line, p.at-p.start+1, p.at, styleFlow
	return n
}

func (p *jsonParser) value(depth int) (*Node, bool) {
	if p.at >= len(p.s) {
		return nil, p.fail(p.at, p.short())
	}
	if depth > MaxDepth {
		return nil, p.fail(p.at, fmt.Sprintf("is nested more than %d deep", MaxDepth))
	}
	switch c := p.s[p.at]; {
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.array(depth)
	case c == '"':
		n := p.node(String)
		text, ok := p.text()
		n.Text, n.to = text, p.at
		return n, ok
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	}
	for _, w := range [...]struct {
		word string
		kind Kind
	}{{"true", Bool}, {"false", Bool}, {"null", Null}} {
		if strings.HasPrefix(p.s[p.at:], w.word) && !wordAt(p.s, p.at+len(w.word)) {
			n := p.node(w.kind)
			n.Text = w.word
			p.at += len(w.word)
			n.to = p.at
			return n, true
		}
	}
	if rest := p.s[p.at:]; len(p.open) > 0 && len(rest) < 5 && (strings.HasPrefix("true", rest) || strings.HasPrefix("false", rest) || strings.HasPrefix("null", rest)) {
		return nil, p.fail(p.at, p.short())
	}
	return nil, p.fail(p.at, "a value is expected, found "+p.found()+p.advice())
}

// advice says what people and models put into JSON that is none.
func (p *jsonParser) advice() string {
	rest := p.s[p.at:]
	switch {
	case strings.HasPrefix(rest, "//"), strings.HasPrefix(rest, "/*"), strings.HasPrefix(rest, "#"):
		return "; JSON has no comments"
	case strings.HasPrefix(rest, "'"):
		return "; JSON texts stand in double quotes"
	case strings.HasPrefix(rest, "```"):
		return "; take off the code fence around the JSON"
	case strings.HasPrefix(rest, "]"), strings.HasPrefix(rest, "}"):
		return "; there is a comma too many before it"
	}
	return ""
}

func wordAt(s string, i int) bool {
	return i < len(s) && (s[i] == '_' || s[i] >= '0' && s[i] <= '9' || s[i] >= 'a' && s[i] <= 'z' || s[i] >= 'A' && s[i] <= 'Z')
}

func (p *jsonParser) object(depth int) (*Node, bool) {
	n := p.node(Map)
	p.open = append(p.open, fmt.Sprintf("the object of line %d", p.line))
	mine := len(p.open) - 1
	p.at++
	for {
		p.space()
		if p.at < len(p.s) && p.s[p.at] == '}' && len(n.Pairs) == 0 {
			break
		}
		pair := Pair{Line: p.line, Column: p.at - p.start + 1}
		if p.at >= len(p.s) {
			return nil, p.fail(p.at, p.short())
		}
		if p.s[p.at] != '"' {
			return nil, p.fail(p.at, "a key in double quotes is expected, found "+p.found()+p.advice())
		}
		var ok bool
		if pair.Key, ok = p.text(); !ok {
			return nil, false
		}
		p.space()
		if p.at >= len(p.s) {
			return nil, p.fail(p.at, p.short())
		}
		if p.s[p.at] != ':' {
			return nil, p.fail(p.at, fmt.Sprintf("a colon is expected behind the key %q, found %s", sample(pair.Key), p.found()))
		}
		p.at++
		p.space()
		if pair.Value, ok = p.value(depth + 1); !ok {
			return nil, false
		}
		p.twice(n, pair)
		n.Pairs = append(n.Pairs, pair)
		more, ok := p.next('}')
		if !ok {
			return nil, false
		}
		if !more {
			break
		}
	}
	p.at++
	n.to = p.at
	p.open = p.open[:mine]
	return n, true
}

// twice notes a key that the object has already. Objects of plans are small: a
// search is cheaper than a map, up to a size.
func (p *jsonParser) twice(n *Node, pair Pair) {
	if len(n.Pairs) > 500 || len(p.faults) >= maxFaults {
		return
	}
	for i := range n.Pairs {
		if n.Pairs[i].Key == pair.Key {
			p.faults = append(p.faults, Fault{pair.Line, pair.Column, fmt.Sprintf("the key %q is there twice (first on line %d): only one can count", sample(pair.Key), n.Pairs[i].Line)})
			return
		}
	}
}

// next reads a comma or the end of an object or a list.
func (p *jsonParser) next(end byte) (more, ok bool) {
	p.space()
	switch {
	case p.at >= len(p.s):
		return false, p.fail(p.at, p.short())
	case p.s[p.at] == end:
		return false, true
	case p.s[p.at] != ',':
		return false, p.fail(p.at, fmt.Sprintf("a comma or %q is expected, found %s%s", string(end), p.found(), p.advice2()))
	}
	p.at++
	return true, true
}

// advice2 is advice where a closing bracket is no surplus comma.
func (p *jsonParser) advice2() string {
	if c := p.s[p.at]; c == ']' || c == '}' {
		return ""
	}
	return p.advice()
}

func (p *jsonParser) array(depth int) (*Node, bool) {
	n := p.node(List)
	p.open = append(p.open, fmt.Sprintf("the list of line %d", p.line))
	mine := len(p.open) - 1
	p.at++
	for {
		p.space()
		if p.at < len(p.s) && p.s[p.at] == ']' && len(n.Items) == 0 {
			break
		}
		v, ok := p.value(depth + 1)
		if !ok {
			return nil, false
		}
		n.Items = append(n.Items, v)
		more, ok := p.next(']')
		if !ok {
			return nil, false
		}
		if !more {
			break
		}
	}
	p.at++
	n.to = p.at
	p.open = p.open[:mine]
	return n, true
}

// number reads by the grammar of JSON: no plus sign, no leading zero, no bare
// point.
func (p *jsonParser) number() (*Node, bool) {
	n := p.node(Number)
	end := p.at
	for end < len(p.s) && strings.IndexByte("+-.eE0123456789", p.s[end]) >= 0 {
		end++
	}
	n.Text = p.s[p.at:end]
	if !json.Valid([]byte(n.Text)) {
		if end == len(p.s) {
			return nil, p.fail(p.at, p.short())
		}
		return nil, p.fail(p.at, fmt.Sprintf("%q is no number in JSON; put it in double quotes if it is a text", sample(n.Text)))
	}
	if wordAt(p.s, end) {
		return nil, p.fail(p.at, "a text stands in double quotes, found "+p.found())
	}
	p.at, n.to = end, end
	return n, true
}

// text reads a text with its quotes.
func (p *jsonParser) text() (string, bool) {
	from := p.at
	i := from + 1
	escaped := false
	for ; i < len(p.s) && p.s[i] != '"'; i++ {
		switch c := p.s[i]; {
		case c == '\\':
			escaped = true
			i++
		case c == '\n' && strings.TrimSpace(p.s[i:]) == "":
			return "", p.fail(from, cutOff)
		case c == '\n':
			return "", p.fail(from, "the text does not end on its line: a line end in a text is written \\n, and a quote \\\"")
		case c < ' ':
			return "", p.fail(i, "a control character in a text must be written as an escape")
		}
	}
	if i >= len(p.s) {
		p.at = from
		return "", p.fail(from, cutOff)
	}
	p.at = i + 1
	if !escaped {
		return p.s[from+1 : i], true
	}
	var out string
	if err := json.Unmarshal([]byte(p.s[from:p.at]), &out); err != nil {
		p.at = from
		return "", p.fail(from, "a text has an escape that JSON does not know")
	}
	if !utf8.ValidString(out) {
		out = strings.ToValidUTF8(out, "\ufffd")
	}
	return out, true
}
