package tools

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
	"sync"
)

// shape is the part of JSON Schema that the embedded schemas use.
type shape struct {
	Type       string            `json:"type"`
	Enum       []string          `json:"enum"`
	Minimum    *float64          `json:"minimum"`
	Maximum    *float64          `json:"maximum"`
	Properties map[string]*shape `json:"properties"`
	Required   []string          `json:"required"`
	Items      *shape            `json:"items"`
}

// decoder makes the arguments of one tool fit its schema. Safe for concurrent
// use.
type decoder struct {
	tool, example string
	shape         func() *shape
}

func newDecoder(tool, example string, schema json.RawMessage) *decoder {
	return &decoder{tool: tool, example: example, shape: sync.OnceValue(func() *shape {
		s := &shape{}
		// A schema that does not decode accepts nothing but an empty object.
		_ = json.Unmarshal(schema, s)
		return s
	})}
}

// decode returns raw as JSON that fits the schema. It forgives what cannot be
// misread: numbers and booleans written as strings, one value where a list is
// meant, null for an optional field, other tools' names for a field, a list or
// object encoded as a string. All other faults are reported together.
func (d *decoder) decode(raw json.RawMessage) (json.RawMessage, error) {
	v, err := parseArgs(raw)
	if err != nil {
		return nil, fmt.Errorf("arguments of %s: %w; example: %s", d.tool, err, d.example)
	}
	f := &fitter{}
	v = f.fit(d.shape(), "", v)
	if len(f.faults) > 0 {
		return nil, fmt.Errorf("arguments of %s: %s; example: %s", d.tool, strings.Join(f.faults, "; "), d.example)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("arguments of %s: %w", d.tool, err)
	}
	return out, nil
}

// parseArgs decodes one JSON object, also one that was encoded twice.
func parseArgs(raw []byte) (any, error) {
	for range 2 {
		if len(bytes.TrimSpace(raw)) == 0 {
			return map[string]any{}, nil
		}
		v, err := parseJSON(raw)
		if err != nil {
			return nil, err
		}
		switch v := v.(type) {
		case map[string]any:
			return v, nil
		case nil:
			return map[string]any{}, nil
		case string:
			raw = []byte(v)
		default:
			return nil, errors.New("must be one JSON object")
		}
	}
	return nil, errors.New("must be one JSON object")
}

func parseJSON(raw []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("not valid JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not valid JSON: text after the object")
	}
	return v, nil
}

// fitter converts a decoded value to a shape and collects what does not fit.
type fitter struct{ faults []string }

const maxFaults = 8

func (f *fitter) fault(at, format string, args ...any) any {
	if len(f.faults) < maxFaults {
		if at != "" {
			format = "field %q: " + format
			args = append([]any{at}, args...)
		}
		f.faults = append(f.faults, fmt.Sprintf(format, args...))
	}
	return nil
}

func (f *fitter) fit(s *shape, at string, v any) any {
	switch s.Type {
	case "object":
		return f.object(s, at, v)
	case "array":
		return f.array(s, at, v)
	case "string":
		return f.text(s, at, v)
	case "boolean":
		switch v := v.(type) {
		case bool:
			return v
		case string:
			switch strings.ToLower(strings.TrimSpace(v)) {
			case "true":
				return true
			case "false":
				return false
			}
		}
		return f.fault(at, "want true or false, got %s", shown(v))
	case "integer", "number":
		return f.number(s, at, v)
	}
	return f.fault(at, "cannot be given")
}

func (f *fitter) object(s *shape, at string, v any) any {
	if text, ok := v.(string); ok && strings.HasPrefix(strings.TrimSpace(text), "{") {
		if inner, err := parseJSON([]byte(text)); err == nil {
			v = inner
		}
	}
	if text, ok := v.(string); ok && len(s.Required) == 1 && s.Properties[s.Required[0]].Type == "string" {
		// One text where an object with one needed text is meant.
		v = map[string]any{s.Required[0]: text}
	}
	m, ok := v.(map[string]any)
	if !ok {
		return f.fault(at, "want an object with %s, got %s", names(s), shown(v))
	}
	out := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		val, name := m[key], s.fieldFor(key, m)
		switch {
		case val == nil:
		case name == "" && (key == "description" || key == "explanation"):
			// Some models comment each call; nothing is lost without it.
		case name == "":
			f.fault("", "unknown field %q (there are: %s)", join(at, key), names(s))
		default:
			out[name] = f.fit(s.Properties[name], join(at, name), val)
		}
	}
	for _, name := range s.Required {
		if _, ok := out[name]; !ok {
			f.fault("", "missing field %q (%s)", join(at, name), s.Properties[name].want())
		}
	}
	return out
}

func (f *fitter) array(s *shape, at string, v any) any {
	if text, ok := v.(string); ok {
		if t := strings.TrimSpace(text); strings.HasPrefix(t, "[") || (s.Items.Type == "object" && strings.HasPrefix(t, "{")) {
			if inner, err := parseJSON([]byte(t)); err == nil {
				v = inner
			}
		}
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	out := make([]any, 0, len(list))
	for i, e := range list {
		if e != nil {
			out = append(out, f.fit(s.Items, fmt.Sprintf("%s[%d]", at, i), e))
		}
	}
	return out
}

func (f *fitter) text(s *shape, at string, v any) any {
	var text string
	switch v := v.(type) {
	case string:
		text = v
	case json.Number:
		text = v.String()
	case bool:
		text = strconv.FormatBool(v)
	default:
		return f.fault(at, "want a string, got %s", shown(v))
	}
	if len(s.Enum) == 0 || slices.Contains(s.Enum, text) {
		return text
	}
	word := strings.NewReplacer(" ", "_", "-", "_").Replace(strings.ToLower(strings.TrimSpace(text)))
	if slices.Contains(s.Enum, word) {
		return word
	}
	return f.fault(at, "want one of %s, got %s", strings.Join(s.Enum, ", "), shown(v))
}

func (f *fitter) number(s *shape, at string, v any) any {
	var text string
	switch v := v.(type) {
	case json.Number:
		text = v.String()
	case string:
		text = strings.TrimSpace(v)
	}
	n, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || math.IsInf(n, 0) || math.IsNaN(n):
		return f.fault(at, "want a number, got %s", shown(v))
	case s.Type == "integer" && (n != math.Trunc(n) || math.Abs(n) > 1<<53):
		return f.fault(at, "want a whole number, got %s", shown(v))
	case s.Minimum != nil && n < *s.Minimum:
		return f.fault(at, "must be at least %v, got %s", *s.Minimum, text)
	case s.Maximum != nil && n > *s.Maximum:
		return f.fault(at, "must be at most %v, got %s", *s.Maximum, text)
	case s.Type == "integer":
		return int64(n)
	}
	return n
}

// fieldFor returns the schema's name for key: key itself, key in snake case, or
// what key is an alias of; an alias never displaces a field that is there by
// its own name. Empty: there is none.
func (s *shape) fieldFor(key string, given map[string]any) string {
	if s.Properties[key] != nil {
		return key
	}
	for _, name := range append([]string{snake(key)}, aliasOf(snake(key))...) {
		if s.Properties[name] == nil {
			continue
		}
		if own, ok := given[name]; !ok || own == nil {
			return name
		}
	}
	return ""
}

// aliasOf lists the fields that other tools' names mean, best first.
func aliasOf(key string) []string {
	switch key {
	case "file_path", "filepath", "filename", "file":
		return []string{"path"}
	case "dir", "directory", "dir_path", "directory_path":
		return []string{"path", "workdir"}
	case "cwd", "working_directory", "work_dir":
		return []string{"workdir"}
	case "old_str", "old_text", "old", "search":
		return []string{"old_string"}
	case "new_str", "new_text", "new", "replace", "replacement":
		return []string{"new_string"}
	case "cmd", "script":
		return []string{"command"}
	case "run_in_background", "is_background":
		return []string{"background"}
	case "job_id":
		return []string{"job"}
	case "query", "regex", "regexp":
		return []string{"pattern"}
	case "include", "file_pattern":
		return []string{"glob"}
	case "case_insensitive":
		return []string{"ignore_case"}
	case "text", "contents", "file_text":
		return []string{"content", "what", "text"}
	case "content", "note", "insight":
		return []string{"what", "text"}
	case "max_results", "head_limit", "max_lines":
		return []string{"limit"}
	case "msg", "message":
		return []string{"message", "text"}
	case "prompt", "instructions", "description":
		return []string{"task", "text"}
	case "agent", "agent_id", "agent_name", "to":
		return []string{"id"}
	case "tasks", "children", "subagents":
		return []string{"agents"}
	case "wait", "timeout_seconds":
		return []string{"wait_seconds"}
	case "title":
		return []string{"name"}
	case "depends_on", "dependencies":
		return []string{"after"}
	case "choices":
		return []string{"options"}
	}
	return nil
}

// snake turns fooBar and foo-bar into foo_bar.
func snake(key string) string {
	var b strings.Builder
	for i, r := range key {
		switch {
		case r >= 'A' && r <= 'Z':
			if i > 0 {
				b.WriteByte('_')
			}
			b.WriteRune(r - 'A' + 'a')
		case r == '-':
			b.WriteByte('_')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func (s *shape) want() string {
	switch {
	case len(s.Enum) > 0:
		return "one of " + strings.Join(s.Enum, ", ")
	case s.Type == "array":
		return "list of " + s.Items.Type
	}
	return s.Type
}

func names(s *shape) string {
	return strings.Join(slices.Sorted(maps.Keys(s.Properties)), ", ")
}

func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

// shown is a value as it stands in an error, cut short.
func shown(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%T", v)
	}
	const most = 60
	if len(data) > most {
		return strings.ToValidUTF8(string(data[:most]), "") + "…"
	}
	return string(data)
}
