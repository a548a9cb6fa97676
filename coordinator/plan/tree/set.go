package tree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Change gives a key of an object a new value.
type Change struct {
	Key   string
	Value any // string or bool
}

// ErrPlace is matched when a value stands in the text in a form that cannot be
// changed without touching others.
var ErrPlace = errors.New("cannot be changed in place")

// Set returns the tree with some keys of one of its objects changed: of the
// text only their values differ, and a key that was not there is put in. What
// is the same already stays. The result was read again and compared.
//
// The tree that it is called on, and n, must not be used any more after Set
// returned a tree: they are reused.
func (t *Tree) Set(n *Node, changes []Change) (*Tree, error) {
	if n == nil || n.Kind != Map {
		return nil, fmt.Errorf("set a key: %w: it is no object", ErrPlace)
	}
	if n.shared {
		return nil, fmt.Errorf("set a key of the object on line %d: %w: it stands behind an alias", n.Line, ErrPlace)
	}
	var edits []edit
	var inserted []Change
	want := &Node{Kind: Map, Pairs: slices.Clone(n.Pairs)}
	for _, c := range changes {
		node := scalarOf(c.Value)
		i := slices.IndexFunc(want.Pairs, func(p Pair) bool { return p.Key == c.Key && !p.merged })
		if i < 0 {
			if k := indexMerged(want, c.Key); k >= 0 {
				want.Pairs[k] = Pair{Key: c.Key, Value: node}
			} else {
				want.Pairs = append(want.Pairs, Pair{Key: c.Key, Value: node})
			}
			inserted = append(inserted, c)
			continue
		}
		if Equal(want.Pairs[i].Value, node) {
			continue
		}
		e, err := t.replace(want.Pairs[i], c)
		if err != nil {
			return nil, err
		}
		want.Pairs[i].Value = node
		edits = append(edits, e)
	}
	if len(inserted) > 0 {
		e, err := t.insert(n, inserted)
		if err != nil {
			return nil, err
		}
		edits = append(edits, e)
	}
	if len(edits) == 0 {
		return t, nil
	}
	slices.SortFunc(edits, func(a, b edit) int { return a.from - b.from })
	data := splice(t.Data, edits)
	if t.yaml {
		return t.settleYAML(n, want, data, edits)
	}
	next, faults := JSON(data)
	return proven(t, next, faults, n, want)
}

// proven compares what was read again with what it should be.
func proven(t, next *Tree, faults []Fault, n, want *Node) (*Tree, error) {
	if next == nil || len(faults) > 0 {
		return nil, fmt.Errorf("change the object on line %d: %w", n.Line, ErrPlace)
	}
	old := *n
	n.Pairs = want.Pairs
	same := equalSets(t.Root, next.Root, n)
	*n = old
	if !same {
		return nil, fmt.Errorf("change the object on line %d: %w", n.Line, ErrPlace)
	}
	return next, nil
}

// equalSets is Equal, but the order of the keys of one object is free: a new
// key may stand anywhere in it.
func equalSets(a, b, free *Node) bool {
	if a == free {
		return sameKeys(a, b)
	}
	if a.Kind != b.Kind || a.Text != b.Text || len(a.Items) != len(b.Items) || len(a.Pairs) != len(b.Pairs) {
		return false
	}
	for i := range a.Pairs {
		if a.Pairs[i].Key != b.Pairs[i].Key || !equalSets(a.Pairs[i].Value, b.Pairs[i].Value, free) {
			return false
		}
	}
	for i := range a.Items {
		if !equalSets(a.Items[i], b.Items[i], free) {
			return false
		}
	}
	return true
}

func sameKeys(a, b *Node) bool {
	if b.Kind != Map || len(a.Pairs) != len(b.Pairs) {
		return false
	}
	for _, p := range a.Pairs {
		if v := b.Get(p.Key); v == nil || !Equal(p.Value, v) {
			return false
		}
	}
	return true
}

func scalarOf(v any) *Node {
	switch v := v.(type) {
	case bool:
		return &Node{Kind: Bool, Text: fmt.Sprint(v)}
	case string:
		return &Node{Kind: String, Text: clean(v)}
	}
	return &Node{Kind: String, Text: clean(fmt.Sprint(v))}
}

// clean makes foreign text such that every grammar here gives it back.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' || r == '\ufeff' || r == utf8.RuneError || r == '\ufffe' || r == '\uffff':
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, " "))
}

// edit puts text in the place of some bytes.
type edit struct {
	from, to int
	text     string
}

// splice makes edits, which are in order and apart.
func splice(data []byte, edits []edit) []byte {
	size := len(data)
	for _, e := range edits {
		size += len(e.text)
	}
	out := make([]byte, 0, size)
	at := 0
	for _, e := range edits {
		out = append(append(out, data[at:e.from]...), e.text...)
		at = e.to
	}
	return append(out, data[at:]...)
}

func quoted(v any) string {
	if b, ok := v.(bool); ok {
		return fmt.Sprint(b)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	// A string always encodes.
	_ = enc.Encode(clean(fmt.Sprint(v)))
	return strings.TrimSuffix(b.String(), "\n")
}

func (t *Tree) replace(p Pair, c Change) (edit, error) {
	if !t.yaml {
		return edit{p.Value.from, p.Value.to, quoted(c.Value)}, nil
	}
	return t.replaceYAML(p, c)
}

func (t *Tree) insert(n *Node, changes []Change) (edit, error) {
	if !t.yaml {
		return t.insertJSON(n, changes), nil
	}
	return t.insertYAML(n, changes)
}

// insertJSON puts keys behind the last one of an object, set apart as the first
// one is.
func (t *Tree) insertJSON(n *Node, changes []Change) edit {
	gap, colon := "", ": "
	if len(n.Pairs) > 0 {
		rest := t.Data[n.from+1:]
		gap = string(rest[:len(rest)-len(bytes.TrimLeft(rest, " \t\r\n"))])
		if first := n.Pairs[0].Value; first.from > 0 && t.Data[first.from-1] == ':' {
			colon = ":"
		} else if gap == "" {
			gap = " "
		}
	}
	var b strings.Builder
	for i, c := range changes {
		if i > 0 || len(n.Pairs) > 0 {
			b.WriteByte(',')
			b.WriteString(gap)
		}
		b.WriteString(quoted(c.Key) + colon + quoted(c.Value))
	}
	at := n.from + 1
	if len(n.Pairs) > 0 {
		at = n.Pairs[len(n.Pairs)-1].Value.to
	}
	return edit{at, at, b.String()}
}
