// Package tree reads JSON and YAML into one kind of tree whose nodes know where
// they stand in the text, and changes single values in that text without
// touching another byte.
//
// It owns the two grammars and nothing of what the keys mean. It refuses what
// has two readings: keys that are there twice, several documents in one file,
// text that is not UTF-8. It does no I/O.
//
//	t, faults := tree.JSON(data)
//	data, err := t.Set(story, []tree.Change{{Key: "passes", Value: true}})
package tree

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// Kind says what a node is.
type Kind uint8

// The kinds of nodes.
const (
	Null Kind = iota
	Bool
	Number
	String
	List
	Map
)

// String names the kind as a person would, with its article.
func (k Kind) String() string {
	switch k {
	case Bool:
		return "true or false"
	case Number:
		return "a number"
	case String:
		return "a text"
	case List:
		return "a list"
	case Map:
		return "an object"
	}
	return "null"
}

// Node is one value. What a YAML alias stands for is the very node of its
// anchor, so that the same node may be met twice, but never inside itself.
type Node struct {
	Kind  Kind
	Text  string  // of a scalar: the text, the number as written, "true", "false"
	Items []*Node // of a List
	Pairs []Pair  // of a Map, in the order of the file
	// Line and Column are where it begins, from 1; columns count bytes in JSON
	// and characters in YAML.
	Line, Column int
	from, to     int // its bytes, for JSON
	style        style
	shared       bool // met through an alias or a merge: a change would change more than one place
}

// Shared says that the node stands behind an alias or a merge, so that Set would
// change more than one place and refuses.
func (n *Node) Shared() bool { return n.shared }

// Pair is one entry of a Map.
type Pair struct {
	Key          string
	Line, Column int
	Value        *Node
	merged       bool // taken over by a YAML merge key
}

type style uint8

const (
	styleBlock style = iota // of a map or list in YAML; of a scalar: plain
	styleFlow
	styleQuoted // 'x' or "x"
	styleOther  // | and >, tags, anchors
)

// Get returns the value of a key, or nil.
func (n *Node) Get(key string) *Node {
	if n == nil {
		return nil
	}
	for i := range n.Pairs {
		if n.Pairs[i].Key == key {
			return n.Pairs[i].Value
		}
	}
	return nil
}

// Fault is a place where the text is not what it should be.
type Fault struct {
	Line, Column int
	Text         string
}

// Tree is a text and its root. It is not changed by anything and may be read
// concurrently.
type Tree struct {
	Root *Node
	Data []byte
	yaml bool
}

// MaxDepth bounds how deep values may be nested: deeper text is refused, since
// it serves no plan and could exhaust the stack.
const MaxDepth = 100

// maxFaults bounds how many faults of one text are told.
const maxFaults = 200

const bom = "\ufeff"

// foreign tells text that is no UTF-8 text at all, with the fault to report.
func foreign(data []byte) (Fault, bool) {
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return Fault{1, 1, "is UTF-16 text: save it as UTF-8"}, true
	}
	if i := bytes.IndexByte(data, 0); i >= 0 {
		line, column := place(data, i)
		return Fault{line, column, "has a NUL byte: this is no text, or a damaged one"}, true
	}
	if i := badUTF8(data); i >= 0 {
		line, column := place(data, i)
		return Fault{line, column, "is not UTF-8 text"}, true
	}
	return Fault{}, false
}

// badUTF8 returns where the first byte stands that is no UTF-8, or -1.
func badUTF8(data []byte) int {
	if utf8.Valid(data) {
		return -1
	}
	valid := bytes.ToValidUTF8(data, []byte("\xff"))
	for i := range min(len(valid), len(data)) {
		if valid[i] != data[i] || data[i] == 0xff {
			return i
		}
	}
	return len(valid)
}

// place turns an offset into a line and a column.
func place(data []byte, at int) (line, column int) {
	at = min(at, len(data))
	head := data[:at]
	return 1 + bytes.Count(head, []byte("\n")), at - bytes.LastIndexByte(head, '\n')
}

// Equal reports whether two values say the same, wherever they stand.
func Equal(a, b *Node) bool {
	if a == nil || b == nil {
		return a == b
	}
	if a.Kind != b.Kind || a.Text != b.Text || len(a.Items) != len(b.Items) || len(a.Pairs) != len(b.Pairs) {
		return false
	}
	if a == b {
		return true
	}
	for i := range a.Pairs {
		if a.Pairs[i].Key != b.Pairs[i].Key || !Equal(a.Pairs[i].Value, b.Pairs[i].Value) {
			return false
		}
	}
	return slices.EqualFunc(a.Items, b.Items, Equal)
}

// sample is a bit of foreign text for a message.
func sample(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	if r := []rune(s); len(r) > 40 {
		return string(r[:40]) + "…"
	}
	return s
}
