package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// noteCall writes down a call. Arguments that are a JSON object become a
// mapping, so that a file's content reads as a block of text; anything else
// stays the text that the model wrote.
func noteCall(id, name, args string) callNote {
	return callNote{ID: id, Name: name, Args: noteObject(args)}
}

// noteObject writes down a JSON object as a mapping, any other text as it is,
// and nothing for nothing.
func noteObject(text string) yaml.Node {
	if strings.TrimSpace(text) == "" {
		return yaml.Node{}
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	node, err := nodeOf(dec)
	if err == nil && node.Kind == yaml.MappingNode {
		if back, err := appendNode(nil, node, 0); err == nil && string(back) == compact(text) {
			return *node
		}
	}
	return yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
}

// compact is a JSON text without insignificant spaces, with strings spelled in
// one way; a text that is no JSON stays as it is.
func compact(text string) string {
	if !json.Valid([]byte(text)) {
		return text
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	node, err := nodeOf(dec)
	if err != nil {
		return text
	}
	out, err := appendNode(nil, node, 0)
	if err != nil {
		return text
	}
	return string(out)
}

// nodeOf turns the next JSON value into YAML, keys in their order.
func nodeOf(dec *json.Decoder) (*yaml.Node, error) {
	tok, err := dec.Token()
	if err != nil {
		return nil, fmt.Errorf("read arguments: %w", err)
	}
	scalar := func(tag, value string) (*yaml.Node, error) {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}, nil
	}
	switch v := tok.(type) {
	case string:
		return scalar("!!str", v)
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return scalar("!!float", v.String())
		}
		return scalar("!!int", v.String())
	case bool:
		return scalar("!!bool", strconv.FormatBool(v))
	case nil:
		return scalar("!!null", "null")
	}
	node := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	if tok == json.Delim('{') {
		node.Kind, node.Tag = yaml.MappingNode, "!!map"
	}
	for dec.More() {
		// In an object keys and values take turns; a key is a string token.
		child, err := nodeOf(dec)
		if err != nil {
			return nil, err
		}
		node.Content = append(node.Content, child)
	}
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("read arguments: %w", err)
	}
	return node, nil
}

// maxArgsDepth bounds how deep arguments in a cassette may nest.
const maxArgsDepth = 100

// args returns the arguments as the model wrote them.
func (n *callNote) args() (string, error) {
	if n.Args.Kind == 0 {
		return "{}", nil
	}
	return readObject(&n.Args)
}

// extra returns what the endpoint attached to the call, nil for nothing.
func (n *callNote) extra() (json.RawMessage, error) {
	if n.Extra.Kind == 0 {
		return nil, nil
	}
	text, err := readObject(&n.Extra)
	if err == nil && !isObject([]byte(text)) {
		err = fmt.Errorf("line %d: is no JSON object", n.Extra.Line)
	}
	return json.RawMessage(text), err
}

// readObject returns the text that noteObject wrote down.
func readObject(n *yaml.Node) (string, error) {
	if n.Kind == yaml.ScalarNode {
		return n.Value, nil
	}
	b, err := appendNode(nil, n, 0)
	return string(b), err
}

// appendNode appends a YAML value as JSON.
func appendNode(b []byte, n *yaml.Node, depth int) ([]byte, error) {
	if depth > maxArgsDepth {
		return nil, fmt.Errorf("line %d: nested deeper than %d", n.Line, maxArgsDepth)
	}
	var err error
	switch n.Kind {
	case yaml.ScalarNode:
		return appendScalar(b, n)
	case yaml.SequenceNode:
		b = append(b, '[')
		for i, c := range n.Content {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendNode(b, c, depth+1); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case yaml.MappingNode:
		b = append(b, '{')
		for i := 0; i+1 < len(n.Content); i += 2 {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, n.Content[i].Value), ':')
			if b, err = appendNode(b, n.Content[i+1], depth+1); err != nil {
				return nil, err
			}
		}
		return append(b, '}'), nil
	}
	return nil, fmt.Errorf("line %d: aliases are not allowed", n.Line)
}

func appendScalar(b []byte, n *yaml.Node) ([]byte, error) {
	switch n.ShortTag() {
	case "!!null":
		return append(b, "null"...), nil
	case "!!bool":
		if v := strings.ToLower(n.Value); v == "true" || v == "false" {
			return append(b, v...), nil
		}
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) && !bytes.ContainsAny([]byte(n.Value), `"{[ntf`) {
			return append(b, n.Value...), nil
		}
	}
	return appendString(b, n.Value), nil
}
