package folder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// member is one key of a JSON object, in its place.
type member struct {
	key   string
	value json.RawMessage
}

// document is a JSON object that holds lists, as it stands in a file: keys keep
// their order, and values that are not changed their bytes.
type document struct {
	main    string // the list that goes last, so that it can be appended to
	members []member
	lists   map[string][]json.RawMessage // of those members that were asked for
}

// parseDocument reads an object, or a bare list, which then is the list of this
// name.
func parseDocument(data []byte, name string) (*document, error) {
	data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff")))
	d := &document{main: name, lists: map[string][]json.RawMessage{}}
	if bytes.HasPrefix(data, []byte("[")) {
		d.members = []member{{name, data}}
	} else {
		var err error
		if d.members, err = membersOf(data); err != nil {
			return nil, err
		}
	}
	_, err := d.list(name)
	return d, err
}

// membersOf reads one object and nothing behind it.
func membersOf(data []byte) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return nil, errors.Join(err, errors.New("it is no object"))
	}
	var found []member
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := member{}
		m.key, _ = key.(string)
		if err := d.Decode(&m.value); err != nil {
			return nil, err
		}
		found = append(found, m)
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something stands behind the object")
	}
	return found, nil
}

func index(members []member, key string) int {
	return slices.IndexFunc(members, func(m member) bool { return m.key == key })
}

// list returns the entries of the list under a key; none when there is none.
func (d *document) list(key string) ([]json.RawMessage, error) {
	if l, ok := d.lists[key]; ok {
		return l, nil
	}
	var entries []json.RawMessage
	if i := index(d.members, key); i >= 0 {
		if err := json.Unmarshal(d.members[i].value, &entries); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	} else {
		d.members = append(d.members, member{key: key})
	}
	d.lists[key] = entries
	return entries, nil
}

// push appends entries to a list. What stands there and is no list is replaced.
func (d *document) push(key string, entries ...json.RawMessage) {
	old, err := d.list(key)
	if err != nil {
		old = nil
	}
	d.lists[key] = append(old, entries...)
}

// set sets a key of the document; a new one goes before the lists.
func (d *document) set(key string, value json.RawMessage) {
	if i := index(d.members, key); i >= 0 {
		d.members[i].value = value
		return
	}
	at := slices.IndexFunc(d.members, func(m member) bool { _, is := d.lists[m.key]; return is })
	if at < 0 {
		at = len(d.members)
	}
	d.members = slices.Insert(d.members, at, member{key, value})
}

// amend sets keys of the last entry of a list that matches; without such an
// entry it does nothing, since a person took it out.
func (d *document) amend(key string, match, with map[string]json.RawMessage) {
	list, err := d.list(key)
	if err != nil {
		return
	}
	// Most entries are not the one: those that do not even hold the bytes are
	// only looked at when no other is it, as somebody may have escaped them
	// otherwise.
	for _, likely := range []bool{true, false} {
		for i, entry := range slices.Backward(list) {
			if holdsAll(entry, match) != likely || !bytes.Contains(entry, match["timestamp"]) {
				continue
			}
			if members, err := membersOf(entry); err == nil && matches(members, match) {
				list[i] = encodeMembers(amended(members, with))
				return
			}
		}
	}
}

func holdsAll(entry json.RawMessage, match map[string]json.RawMessage) bool {
	for _, v := range match {
		if !bytes.Contains(entry, v) {
			return false
		}
	}
	return true
}

func amended(members []member, with map[string]json.RawMessage) []member {
	for _, k := range slices.Sorted(maps.Keys(with)) {
		if at := index(members, k); at >= 0 {
			members[at].value = with[k]
		} else {
			members = append(members, member{k, with[k]})
		}
	}
	return members
}

func matches(members []member, match map[string]json.RawMessage) bool {
	for k, v := range match {
		i := index(members, k)
		if i < 0 || !sameJSON(members[i].value, v) {
			return false
		}
	}
	return true
}

// sameJSON compares texts and other scalars whatever their escapes.
func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && asText(x) == asText(y) && asText(x) != ""
}

func encodeMembers(members []member) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(quoted(m.key))
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

func quoted(s string) []byte {
	data, _ := json.Marshal(s) // a text always encodes
	return data
}

// render gives the text of the document: one key a line, one entry a line.
func (d *document) render() []byte {
	var b bytes.Buffer
	b.WriteString("{")
	members := slices.Clone(d.members)
	slices.SortStableFunc(members, func(x, y member) int {
		switch {
		case x.key == d.main && y.key != d.main:
			return 1
		case x.key != d.main && y.key == d.main:
			return -1
		}
		return 0
	})
	for i, m := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n  ")
		b.Write(quoted(m.key))
		b.WriteString(": ")
		list, is := d.lists[m.key]
		if !is {
			b.Write(m.value)
			continue
		}
		b.WriteByte('[')
		for j, entry := range list {
			if j > 0 {
				b.WriteByte(',')
			}
			b.WriteString("\n    ")
			b.Write(entry)
		}
		if len(list) > 0 {
			b.WriteString("\n  ")
		}
		b.WriteByte(']')
	}
	b.WriteString("\n}\n")
	return b.Bytes()
}
