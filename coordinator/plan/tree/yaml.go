package tree

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	yaml "go.yaml.in/yaml/v4"
)

// YAML reads a text of one YAML document. The faults are one of the grammar,
// with which reading ends and the tree is nil, or all that make it ambiguous.
func YAML(data []byte) (*Tree, []Fault) {
	if f, bad := foreign(data); bad {
		return nil, []Fault{f}
	}
	top, fault := compose(data)
	if fault != nil {
		return nil, []Fault{*fault}
	}
	if top == nil {
		return nil, []Fault{{1, 1, "is empty"}}
	}
	c := converter{anchors: map[*yaml.Node]*Node{}}
	root := c.node(top, 0)
	if c.deep {
		return nil, c.faults
	}
	return &Tree{Root: root, Data: bytes.Clone(data), yaml: true}, c.faults
}

// compose returns the top node of the one document, nil when there is none.
func compose(data []byte) (top *yaml.Node, fault *Fault) {
	// The parser has had panics on hostile input; a file of a repository must
	// not be able to end Ralph.
	defer func() {
		if r := recover(); r != nil {
			top, fault = nil, &Fault{1, 1, fmt.Sprintf("is not valid YAML: %v", r)}
		}
	}()
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		return nil, yamlFault(err)
	}
	var doc yaml.Node
	if err := loader.Load(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, yamlFault(err)
	}
	var more yaml.Node
	if err := loader.Load(&more); err == nil {
		return nil, &Fault{max(more.Line, 1), 1, "there is more than one document (---): a plan is one"}
	} else if !errors.Is(err, io.EOF) {
		return nil, yamlFault(err)
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, nil
	}
	return doc.Content[0], nil
}

func yamlFault(err error) *Fault {
	if le, ok := errors.AsType[*yaml.LoadError](err); ok {
		text := le.Message
		if text == "" {
			text = err.Error()
		}
		return &Fault{max(le.Mark.Line, 1), max(le.Mark.Column, 0), "is not valid YAML: " + text}
	}
	return &Fault{1, 0, "is not valid YAML: " + err.Error()}
}

type converter struct {
	anchors map[*yaml.Node]*Node // nil while it is being made
	faults  []Fault
	deep    bool
	slab    []Node
}

func (c *converter) fault(n *yaml.Node, text string) {
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, Fault{n.Line, n.Column, text})
	}
}

func (c *converter) make(n *yaml.Node) *Node {
	if len(c.slab) == 0 {
		c.slab = make([]Node, 256)
	}
	out := &c.slab[0]
	c.slab = c.slab[1:]
	out.Line, out.Column = n.Line, n.Column
	return out
}

func (c *converter) node(n *yaml.Node, depth int) *Node {
	if depth > MaxDepth {
		if !c.deep {
			c.fault(n, fmt.Sprintf("is nested more than %d deep", MaxDepth))
		}
		c.deep = true
		return c.make(n)
	}
	if n.Kind == yaml.AliasNode {
		return c.alias(n)
	}
	out := c.make(n)
	if n.Anchor != "" {
		c.anchors[n] = nil
		defer func() { c.anchors[n] = out }()
	}
	switch n.Kind {
	case yaml.MappingNode:
		out.Kind = Map
		c.mapping(n, out, depth)
	case yaml.SequenceNode:
		out.Kind = List
		out.Items = make([]*Node, 0, len(n.Content))
		for _, item := range n.Content {
			out.Items = append(out.Items, c.node(item, depth+1))
		}
	default:
		c.scalar(n, out)
		return out
	}
	switch {
	case n.Anchor != "" || n.Style&yaml.TaggedStyle != 0:
		out.style = styleOther
	case n.Style&yaml.FlowStyle != 0:
		out.style = styleFlow
	}
	return out
}

// alias returns the node of the anchor.
func (c *converter) alias(n *yaml.Node) *Node {
	at, known := c.anchors[n.Alias]
	if !known || at == nil {
		c.fault(n, fmt.Sprintf("the alias *%s stands inside its own anchor", sample(n.Value)))
		return c.make(n)
	}
	at.shared = true
	return at
}

func (c *converter) scalar(n *yaml.Node, out *Node) {
	out.Text = n.Value
	switch n.ShortTag() {
	case "!!null":
		out.Kind, out.Text = Null, "null"
	case "!!bool":
		out.Kind = Bool
	case "!!int", "!!float":
		out.Kind = Number
	default:
		out.Kind = String
	}
	switch {
	case n.Anchor != "" || n.Style&(yaml.TaggedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		out.style = styleOther
	case n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0:
		out.style = styleQuoted
	}
}

func (c *converter) mapping(n *yaml.Node, out *Node, depth int) {
	out.Pairs = make([]Pair, 0, len(n.Content)/2)
	lines := map[string]int(nil)
	if len(n.Content) > 32 {
		lines = make(map[string]int, len(n.Content)/2)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			c.fault(key, "a key must be a plain word")
			continue
		}
		v := c.node(value, depth+1)
		if key.ShortTag() == "!!merge" {
			c.merge(value, v, out)
			continue
		}
		if first := twice(out, lines, key.Value, key.Line); first > 0 {
			c.fault(key, fmt.Sprintf("the key %q is there twice (first on line %d): only one can count", sample(key.Value), first))
			continue
		}
		pair := Pair{Key: key.Value, Line: key.Line, Column: key.Column, Value: v}
		// A key of its own wins over a merged one, wherever it stands.
		if k := indexMerged(out, key.Value); k >= 0 {
			out.Pairs[k] = pair
			continue
		}
		out.Pairs = append(out.Pairs, pair)
	}
}

// twice returns the line on which the mapping has the key already, or 0. Lines
// is nil for small mappings, in which a search is cheaper.
func twice(n *Node, lines map[string]int, key string, line int) int {
	if lines != nil {
		first := lines[key]
		if first == 0 {
			lines[key] = line
		}
		return first
	}
	for i := range n.Pairs {
		if n.Pairs[i].Key == key && !n.Pairs[i].merged {
			return n.Pairs[i].Line
		}
	}
	return 0
}

func indexMerged(n *Node, key string) int {
	for i := range n.Pairs {
		if n.Pairs[i].Key == key && n.Pairs[i].merged {
			return i
		}
	}
	return -1
}

// maxMerged bounds how many keys one mapping takes over: nested merges could
// otherwise grow without end.
const maxMerged = 1000

// merge takes over what `<<` names: a mapping, or several.
func (c *converter) merge(at *yaml.Node, from, out *Node) {
	sources := []*Node{from}
	if from.Kind == List {
		sources = from.Items
	}
	for _, s := range sources {
		if s.Kind != Map {
			c.fault(at, "<< must name an object")
			return
		}
		s.shared = true
		for _, p := range s.Pairs {
			if out.Get(p.Key) != nil {
				continue
			}
			if len(out.Pairs) >= maxMerged {
				c.fault(at, "takes over too many keys by <<")
				return
			}
			p.merged = true
			p.Value.shared = true
			out.Pairs = append(out.Pairs, p)
		}
	}
}
