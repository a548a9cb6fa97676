// Package keep carries what Ralph does not know of a YAML document from one
// version to the next.
//
// It refuses to interpret: keys are kept as they are, in their order, behind
// the keys that Ralph writes. What is kept refers to nothing outside of it, as
// the anchors of a value that is written anew are gone.
//
//	var fresh yaml.Node
//	err := fresh.Encode(metadata)
//	keep.Merge(&fresh, old)
package keep

import (
	"slices"

	yaml "go.yaml.in/yaml/v4"
)

// maxNodes bounds what the aliases of one value may grow to, and maxDepth how
// deep it may nest; what is beyond becomes null.
const (
	maxNodes = 1 << 20
	maxDepth = 100
)

// Encode returns the node of a value. Times in it are quoted: they are texts to every
// reader, as in JSON.
func Encode(v any) (*yaml.Node, error) {
	n := &yaml.Node{}
	if err := n.Encode(v); err != nil {
		return nil, err
	}
	quoteTimes(n)
	return n, nil
}

func quoteTimes(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!timestamp" {
		n.Tag, n.Style = "!!str", yaml.DoubleQuotedStyle
	}
	for _, e := range n.Content {
		quoteTimes(e)
	}
}

// Unknown returns the keys and values of a mapping but those that are known,
// for appending to the content of another. Of anything but a mapping it returns
// none.
func Unknown(n *yaml.Node, known ...string) []*yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	var found []*yaml.Node
	left := maxNodes
	for i := 0; i+1 < len(n.Content); i += 2 {
		if !slices.Contains(known, n.Content[i].Value) {
			found = append(found, standalone(n.Content[i], 0, &left), standalone(n.Content[i+1], 0, &left))
		}
	}
	return found
}

// Merge adds to a fresh mapping the keys of an old one that it does not have,
// at every level, but for those at the top that are to be dropped.
func Merge(fresh, old *yaml.Node, drop ...string) {
	if old.Kind == yaml.AliasNode && old.Alias != nil {
		old = old.Alias
	}
	if fresh.Kind != yaml.MappingNode || old.Kind != yaml.MappingNode {
		return
	}
	known := slices.Clone(drop)
	for i := 0; i+1 < len(fresh.Content); i += 2 {
		name := fresh.Content[i].Value
		known = append(known, name)
		for j := 0; j+1 < len(old.Content); j += 2 {
			if old.Content[j].Value == name {
				Merge(fresh.Content[i+1], old.Content[j+1])
			}
		}
	}
	fresh.Content = append(fresh.Content, Unknown(old, known...)...)
}

// standalone returns a value that refers to nothing outside of it.
func standalone(n *yaml.Node, depth int, left *int) *yaml.Node {
	if *left--; *left < 0 || depth > maxDepth {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	}
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return standalone(n.Alias, depth+1, left)
	}
	c := *n
	c.Anchor, c.Content = "", nil
	for _, e := range n.Content {
		c.Content = append(c.Content, standalone(e, depth+1, left))
	}
	return &c
}
