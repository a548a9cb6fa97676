package folder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	yaml "go.yaml.in/yaml/v4"
)

// object is a mapping as some tool or person wrote it. Its values are object,
// []any, string, json.Number (which keeps how the number was spelled), bool and
// nil.
type object map[string]any

// maxNodes bounds what aliases of a YAML document may grow to, and maxDepth how
// deep it may nest.
const (
	maxNodes = 4 << 20
	maxDepth = 100
)

var errTooDeep = errors.New("nests too deep or grows too large")

// fromJSON reads one JSON value. What stands behind it is an error.
func fromJSON(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something stands behind the value")
	}
	return plain(v), nil
}

// plain gives the maps of a decoded JSON value their type.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = plain(e)
		}
		return object(v)
	case []any:
		for i, e := range v {
			v[i] = plain(e)
		}
	}
	return v
}

// fromYAML reads one YAML document. Scalars keep their spelling, so that 001
// stays "001".
func fromYAML(data []byte) (any, error) {
	var doc yaml.Node
	if err := yaml.Load(data, &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	left := maxNodes
	return fromNode(doc.Content[0], 0, &left)
}

func fromNode(n *yaml.Node, depth int, left *int) (any, error) {
	if *left--; *left < 0 || depth > maxDepth {
		return nil, errTooDeep
	}
	switch n.Kind {
	case yaml.AliasNode:
		if n.Alias == nil {
			return nil, nil
		}
		return fromNode(n.Alias, depth+1, left)
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, e := range n.Content {
			v, err := fromNode(e, depth+1, left)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case yaml.MappingNode:
		o := make(object, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			v, err := fromNode(n.Content[i+1], depth+1, left)
			if err != nil {
				return nil, err
			}
			o[n.Content[i].Value] = v
		}
		return o, nil
	}
	return scalar(n), nil
}

func scalar(n *yaml.Node) any {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true")
	case "!!int", "!!float":
		return json.Number(n.Value)
	}
	return n.Value
}

// objectOf reads a mapping; nil when it is none, or too large.
func objectOf(n *yaml.Node) object {
	if n == nil {
		return nil
	}
	left := maxNodes
	v, err := fromNode(n, 0, &left)
	if err != nil {
		return nil
	}
	o, _ := v.(object)
	return o
}

// find returns the first value that is there under one of the keys.
func (o object) find(keys ...string) any {
	for _, k := range keys {
		if v, ok := o[k]; ok && v != nil {
			return v
		}
	}
	return nil
}

// text returns a scalar as it was spelled; "" for everything else.
func (o object) text(keys ...string) string { return asText(o.find(keys...)) }

func asText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

// number returns a finite number, also one in a text such as "85%"; false when
// there is none.
func (o object) number(keys ...string) (float64, bool) {
	return numberIn(o.text(keys...))
}

func numberIn(s string) (float64, bool) {
	if s == "" {
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(s), "%"), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, false
	}
	return f, true
}

func (o object) float(keys ...string) float64 {
	f, _ := o.number(keys...)
	return f
}

func (o object) count(keys ...string) int {
	f, _ := o.number(keys...)
	return int(min(max(f, math.MinInt32), math.MaxInt32))
}

// optional returns nil when there is no number.
func (o object) optional(keys ...string) *float64 {
	if f, ok := o.number(keys...); ok {
		return &f
	}
	return nil
}

func (o object) flag(keys ...string) bool {
	switch strings.ToLower(o.text(keys...)) {
	case "true", "yes", "1", "passed":
		return true
	}
	return false
}

// known is flag, and nil when nothing is said.
func (o object) known(keys ...string) *bool {
	if o.text(keys...) == "" {
		return nil
	}
	is := o.flag(keys...)
	return &is
}

// when returns a time in UTC; the zero time when there is none that can be
// read.
func (o object) when(keys ...string) time.Time {
	return timeIn(o.text(keys...))
}

func timeIn(s string) time.Time {
	if s = strings.TrimSpace(s); s == "" {
		return time.Time{}
	}
	// The layouts without a zone are taken as UTC.
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00",
		"2006-01-02 15:04:05.999999999", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC()
		}
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil && f > 1e8 && f < 1e14 {
		if f > 1e11 {
			f /= 1000 // milliseconds
		}
		return time.UnixMilli(int64(f * 1000)).UTC()
	}
	return time.Time{}
}

func (o object) moment(keys ...string) *time.Time {
	if t := o.when(keys...); !t.IsZero() {
		return &t
	}
	return nil
}

func (o object) object(keys ...string) object {
	v, _ := o.find(keys...).(object)
	return v
}

// objects returns the mappings of a list, and how many entries are none.
func (o object) objects(keys ...string) ([]object, int) {
	list, _ := o.find(keys...).([]any)
	return mappings(list)
}

func mappings(list []any) (found []object, odd int) {
	for _, v := range list {
		if e, ok := v.(object); ok {
			found = append(found, e)
		} else {
			odd++
		}
	}
	return found, odd
}

// texts returns the texts of a list; of mappings in it what names them. It is
// never nil.
func (o object) texts(keys ...string) []string {
	found := []string{}
	switch v := o.find(keys...).(type) {
	case []any:
		for _, e := range v {
			if m, ok := e.(object); ok {
				e = m.find("name", "path", "action", "id")
			}
			if s := asText(e); s != "" {
				found = append(found, s)
			}
		}
	case string:
		found = append(found, v)
	}
	return found
}

// counts returns a mapping of numbers.
func (o object) counts(keys ...string) map[string]int {
	m := o.object(keys...)
	if m == nil {
		return nil
	}
	found := map[string]int{}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		found[k] = m.count(k)
	}
	return found
}

// bare turns an object into plain maps, for whoever reads details.
func bare(v any) any {
	switch v := v.(type) {
	case object:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[k] = bare(e)
		}
		return m
	case []any:
		for i, e := range v {
			v[i] = bare(e)
		}
	case json.Number:
		if f, err := v.Float64(); err == nil {
			return f
		}
		return v.String()
	}
	return v
}

// parse reads a file's text by its name.
func parse(name string, data []byte) (v any, err error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("it is empty")
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if strings.HasSuffix(name, ".yaml") {
		v, err = fromYAML(data)
	} else {
		v, err = fromJSON(data)
	}
	if err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	return v, nil
}
