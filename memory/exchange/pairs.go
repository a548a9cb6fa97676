package exchange

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// pairs is a JSON object of which some values are changed: the others, their
// order, the spelling of keys and numbers, and keys that are there twice stay.
type pairs []pair

type pair struct {
	key   string
	raw   []byte // the key as it is spelled, with its quotes
	value json.RawMessage
}

var errNoObject = errors.New("is no JSON object")

// readPairs reads one JSON object, without what is behind it.
func readPairs(data []byte) (pairs, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.Join(errNoObject, err)
	}
	p := pairs{}
	for d.More() {
		from := d.InputOffset()
		t, err := d.Token()
		key, ok := t.(string)
		if err != nil || !ok {
			return nil, errors.Join(errNoObject, err)
		}
		x := pair{key: key, raw: bytes.TrimLeft(data[from:d.InputOffset()], " \t\r\n,")}
		if err := d.Decode(&x.value); err != nil {
			return nil, err
		}
		p = append(p, x)
	}
	if _, err := d.Token(); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return p, nil
}

// readList reads the values of a JSON list; none when it is no list.
func readList(data []byte) []json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(data, &list) != nil {
		return nil
	}
	return list
}

// at is the place of a key; the last counts, as with whoever reads the file.
func (p pairs) at(key string) int {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i].key == key {
			return i
		}
	}
	return -1
}

// get returns a value as it is spelled; nil when there is none.
func (p pairs) get(key string) json.RawMessage {
	if i := p.at(key); i >= 0 {
		return p[i].value
	}
	return nil
}

// text returns a value that is a text.
func (p pairs) text(key string) string {
	var s string
	if json.Unmarshal(p.get(key), &s) != nil {
		return ""
	}
	return s
}

// set gives a key a value; a new one comes last.
func (p *pairs) set(key string, value any) {
	data := readable(value)
	if i := p.at(key); i >= 0 {
		(*p)[i].value = data
		return
	}
	*p = append(*p, pair{key, readable(key), data})
}

// drop takes a key out.
func (p *pairs) drop(key string) {
	out := pairs{}
	for _, x := range *p {
		if x.key != key {
			out = append(out, x)
		}
	}
	*p = out
}

// MarshalJSON gives the object back.
func (p pairs) MarshalJSON() ([]byte, error) { return p.bytes(), nil }

func (p pairs) bytes() []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, x := range p {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(x.raw)
		b.WriteByte(':')
		b.Write(x.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// readable encodes a value without the escapes that only HTML needs. What it
// takes are texts, numbers, lists and what was JSON before.
func readable(v any) json.RawMessage {
	switch v := v.(type) {
	case pairs:
		return v.bytes()
	case json.RawMessage:
		return v
	case []json.RawMessage:
		var b bytes.Buffer
		b.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			b.Write(e)
		}
		b.WriteByte(']')
		return b.Bytes()
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return json.RawMessage("null") // nothing that is set here has no form in JSON
	}
	return bytes.TrimSpace(b.Bytes())
}

// indented is the form in which such files are written.
func indented(v any) ([]byte, error) {
	var b bytes.Buffer
	if err := json.Indent(&b, readable(v), "", "  "); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}
