package feature

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// object is a JSON object whose values are as they were written.
type object = map[string]json.RawMessage

// more are the keys of a snapshot that are not ours, by the object in which they
// stand. nil is none.
type more struct {
	top                       object
	git, agent, tracker, ui   object
	iterations, tasks, phases map[string]object // by what names the element
}

// unknown picks the keys of a snapshot that are not ours.
func unknown(data []byte) (*more, error) {
	var top object
	if err := json.Unmarshal(data, &top); err != nil {
		return nil, err
	}
	m := &more{
		git: others[Git](top["git"]), agent: others[Agent](top["agent"]), tracker: others[Tracker](top["tracker"]), ui: others[UI](top["ui"]),
		iterations: elements[Iteration](top["iterations"], "iteration", "taskId"), phases: elements[Phase](top["phases"], "id"),
	}
	var tracker object
	if json.Unmarshal(top["tracker"], &tracker) == nil {
		m.tasks = elements[Task](tracker["tasks"], "id")
	}
	m.top = drop[plain](top)
	if len(m.top)+len(m.git)+len(m.agent)+len(m.tracker)+len(m.ui)+len(m.iterations)+len(m.tasks)+len(m.phases) == 0 {
		return nil, nil
	}
	return m, nil
}

// others are the keys of an object that T does not have; none of what is no
// object.
func others[T any](raw json.RawMessage) object {
	var o object
	if json.Unmarshal(raw, &o) != nil {
		return nil
	}
	return drop[T](o)
}

func drop[T any](o object) object {
	t := reflect.TypeFor[T]()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		// Other spellings of the name are read as ours too.
		maps.DeleteFunc(o, func(key string, _ json.RawMessage) bool { return strings.EqualFold(key, name) })
	}
	return o
}

// elements are the unknown keys of the objects in a list, by what names them.
func elements[T any](raw json.RawMessage, keys ...string) map[string]object {
	var list []object
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	found := map[string]object{}
	for _, o := range list {
		name := named(o, keys)
		if o = drop[T](o); len(o) > 0 {
			found[name] = o
		}
	}
	return found
}

func named(o object, keys []string) string {
	var b strings.Builder
	for _, k := range keys {
		b.Write(o[k])
		b.WriteByte('\x00')
	}
	return b.String()
}

// into puts the keys into a snapshot that was encoded without them.
func (m *more) into(data []byte) ([]byte, error) {
	if m == nil {
		return data, nil
	}
	var top, tracker object
	if err := json.Unmarshal(data, &top); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(top["tracker"], &tracker); err != nil {
		return nil, err
	}
	top["iterations"] = joinAll(top["iterations"], m.iterations, "iteration", "taskId")
	top["phases"] = joinAll(top["phases"], m.phases, "id")
	tracker["tasks"] = joinAll(tracker["tasks"], m.tasks, "id")
	top["tracker"] = join(assemble[Tracker](tracker), m.tracker)
	top["git"], top["agent"], top["ui"] = join(top["git"], m.git), join(top["agent"], m.agent), join(top["ui"], m.ui)
	return join(assemble[plain](top), m.top), nil
}

// assemble encodes the keys that T has, in its order.
func assemble[T any](o object) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	t := reflect.TypeFor[T]()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if value, ok := o[name]; ok {
			if b.Len() > 1 {
				b.WriteByte(',')
			}
			b.WriteString(strconv.Quote(name) + ":")
			b.Write(value)
		}
	}
	b.WriteByte('}')
	return b.Bytes()
}

// join appends keys to an encoded object, in the order of their names.
func join(raw json.RawMessage, extra object) json.RawMessage {
	if len(extra) == 0 {
		return raw
	}
	tail, err := json.Marshal(extra)
	if err != nil { // what was read is JSON
		return raw
	}
	head := bytes.TrimRight(bytes.TrimSuffix(bytes.TrimSpace(raw), []byte("}")), " \n")
	out := slices.Clone(head)
	if !bytes.HasSuffix(head, []byte("{")) {
		out = append(out, ',')
	}
	return append(out, tail[1:]...)
}

// joinAll joins the objects of an encoded list.
func joinAll(raw json.RawMessage, extra map[string]object, keys ...string) json.RawMessage {
	var list []json.RawMessage
	if len(extra) == 0 || json.Unmarshal(raw, &list) != nil {
		return raw
	}
	for i, item := range list {
		var o object
		if json.Unmarshal(item, &o) == nil {
			list[i] = join(item, extra[named(o, keys)])
		}
	}
	data, err := json.Marshal(list)
	if err != nil {
		return raw
	}
	return data
}
