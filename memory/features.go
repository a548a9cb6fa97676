package memory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"ralph/memory/durable"
)

// Feature is something that the project has, for feature-inventory.json.
type Feature struct {
	ID           string // F001; empty: the one with the same name, or the next
	Name         string
	Category     string
	Directory    string
	Purpose      string
	KeyFiles     []string
	Dependencies []string
	Status       string
	// Challenges are what is hard about it, Assumptions what was taken for granted;
	// each adds to those that are known.
	Challenges, Assumptions []string
	// Document, when it has a path, is a text that describes the feature; it
	// is listed in feature-docs-generated.json; the feature is documented unless
	// its status is "missing".
	Document Document
}

// Document is a generated text about a feature.
type Document struct {
	Path   string
	Title  string
	Words  int
	Status string
}

// object is a JSON object whose unknown keys are kept as they are.
type object map[string]json.RawMessage

// RecordFeature adds a feature to the inventory in dir, or updates the one
// with the same id or name, and returns its id. dir is a session's directory;
// empty means `.ralph/`. Empty fields leave what is known as it is; keys that
// Ralph does not know stay; the statistics are computed anew.
func (s *Store) RecordFeature(dir, sessionID string, f Feature) (string, error) {
	if strings.TrimSpace(f.Name) == "" && f.ID == "" {
		return "", errors.New("record feature: it has no name")
	}
	if dir == "" {
		dir = s.StateDir()
	}
	f = s.redacted(f)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readOnly {
		return "", fmt.Errorf("record feature %q: nothing can be saved in this project", f.Name)
	}
	path := filepath.Join(dir, inventoryFile)
	inventory, features, err := s.readList(path, "features")
	if err != nil {
		return "", err
	}
	id, features := s.mergeFeature(features, f)
	inventory["session_id"] = encode(sessionID)
	inventory["generated_at"] = encode(s.now().UTC().Format(time.RFC3339))
	inventory["features"] = features.encode()
	inventory["statistics"] = encode(statistics(features))
	if err := s.writeJSON(path, inventory, "session_id", "generated_at", "features", "statistics"); err != nil {
		return "", err
	}
	if f.Document.Path == "" {
		return id, nil
	}
	return id, s.recordDocument(dir, sessionID, id, f.Document)
}

// redacted takes secrets out of everything that f says.
func (s *Store) redacted(f Feature) Feature {
	all := func(list []string) []string {
		if list == nil {
			return nil
		}
		out := make([]string, len(list))
		for i, text := range list {
			out[i] = s.redact(text)
		}
		return out
	}
	return Feature{ID: s.redact(f.ID), Name: s.redact(f.Name), Category: s.redact(f.Category), Directory: s.redact(f.Directory),
		Purpose: s.redact(f.Purpose), KeyFiles: all(f.KeyFiles), Dependencies: all(f.Dependencies), Status: s.redact(f.Status),
		Challenges: all(f.Challenges), Assumptions: all(f.Assumptions),
		Document: Document{Path: s.redact(f.Document.Path), Title: s.redact(f.Document.Title), Words: f.Document.Words, Status: f.Document.Status}}
}

// missing is the status of a document that was named and is not there; it documents
// nothing.
const missing = "missing"

const inventoryFile = "feature-inventory.json"

// jsonList are the entries of a list of which Ralph changes some: what is no object, and
// what is not changed, stays byte for byte.
type jsonList []jsonEntry

type jsonEntry struct {
	raw     json.RawMessage
	o       object // nil for what is none
	changed bool
}

func (l jsonList) encode() json.RawMessage {
	raw := make([]json.RawMessage, len(l))
	for i, e := range l {
		if raw[i] = e.raw; e.changed {
			raw[i] = encode(e.o)
		}
	}
	return encode(raw)
}

// readList reads a JSON file that holds a list under a key, or a bare list. One
// that is broken is set aside, and the list begun anew.
func (s *Store) readList(path, name string) (object, jsonList, error) {
	data, err := durable.ReadFile(s.fs, path, maxStateBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return object{}, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	top, list := object{}, []json.RawMessage{}
	if trimmed := bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff"))); bytes.HasPrefix(trimmed, []byte("[")) {
		err = json.Unmarshal(trimmed, &list)
	} else if err = json.Unmarshal(trimmed, &top); err == nil && top[name] != nil {
		err = json.Unmarshal(top[name], &list)
	}
	if err != nil || top == nil {
		_, err = s.quarantine(path)
		return object{}, nil, err
	}
	found := make(jsonList, len(list))
	for i, raw := range list {
		found[i].raw = raw
		if json.Unmarshal(raw, &found[i].o) != nil {
			found[i].o = nil
		}
	}
	return top, found, nil
}

// writeJSON writes an object with some keys first, in this order.
func (s *Store) writeJSON(path string, top object, first ...string) error {
	var b bytes.Buffer
	b.WriteString("{")
	rest := object{}
	for k, v := range top {
		rest[k] = v
	}
	sep := ""
	for _, k := range first {
		b.WriteString(sep + strconv.Quote(k) + ":")
		b.Write(top[k])
		delete(rest, k)
		sep = ","
	}
	if tail := encode(rest); len(rest) > 0 {
		b.WriteString(sep)
		b.Write(tail[1 : len(tail)-1])
	}
	b.WriteString("}")
	var out bytes.Buffer
	if err := json.Indent(&out, b.Bytes(), "", "  "); err != nil {
		return fmt.Errorf("write %q: %w", path, err)
	}
	out.WriteByte('\n')
	if err := durable.Replace(s.fs, path, out.Bytes(), 0o600); err != nil {
		return err
	}
	if rel, err := filepath.Rel(s.root, path); err == nil {
		s.changed[filepath.ToSlash(rel)] = true
	}
	return nil
}

func (s *Store) mergeFeature(features jsonList, f Feature) (string, jsonList) {
	at, highest := -1, 0
	for i, e := range features {
		id := textOf(e.o["feature_id"])
		if n, err := strconv.Atoi(strings.TrimPrefix(id, "F")); err == nil {
			highest = max(highest, n)
		}
		if e.o != nil && (f.ID != "" && id == f.ID || f.ID == "" && strings.EqualFold(strings.TrimSpace(textOf(e.o["name"])), strings.TrimSpace(f.Name))) {
			at = i
		}
	}
	if f.ID == "" {
		f.ID = fmt.Sprintf("F%03d", highest+1)
	}
	if at < 0 {
		features = append(features, jsonEntry{o: object{
			"feature_id": encode(f.ID), "name": encode(""), "category": encode(""), "directory": encode(""), "purpose": encode(""),
			"key_files": encode([]string{}), "dependencies": encode([]string{}), "status": encode("discovered"),
			"documented": encode(false), "challenges_generated": encode(false), "assumptions_count": encode(0),
		}})
		at = len(features) - 1
	}
	features[at].changed = true
	o := features[at].o
	if textOf(o["feature_id"]) == "" { // another tool's has none
		o["feature_id"] = encode(f.ID)
	}
	for key, value := range map[string]string{"name": f.Name, "category": f.Category, "directory": f.Directory, "purpose": f.Purpose, "status": f.Status} {
		if value = strings.TrimSpace(value); value != "" {
			o[key] = encode(value)
		}
	}
	if f.KeyFiles != nil {
		o["key_files"] = encode(f.KeyFiles)
	}
	if f.Dependencies != nil {
		o["dependencies"] = encode(f.Dependencies)
	}
	o.grow("challenges", f.Challenges)
	o["challenges_generated"] = encode(o["challenges"] != nil || counted(o["challenges_generated"]) > 0 || string(o["challenges_generated"]) == "true")
	if before, added := o.grow("assumptions", f.Assumptions); added > 0 {
		o["assumptions_count"] = encode(max(counted(o["assumptions_count"]), before) + added)
	}
	if f.Document.Path != "" && f.Document.Status != missing {
		o["documented"] = encode(true)
	}
	return textOf(o["feature_id"]), features
}

// grow adds texts to a list, each once, and returns how many it had and how many it
// added.
func (o object) grow(list string, texts []string) (before, added int) {
	var known []string
	_ = json.Unmarshal(o[list], &known) // no list is an empty one
	before = len(known)
	for _, t := range texts {
		if t = strings.TrimSpace(t); t != "" && !slices.Contains(known, t) {
			known = append(known, t)
		}
	}
	if len(known) > before {
		o[list] = encode(known)
	}
	return before, len(known) - before
}

// counted is a number that a feature states; 0 when it states none.
func counted(raw json.RawMessage) (n int) {
	_ = json.Unmarshal(raw, &n)
	return n
}

func (s *Store) recordDocument(dir, sessionID, id string, doc Document) error {
	path := filepath.Join(dir, "feature-docs-generated.json")
	top, list, err := s.readList(path, "documents")
	if err != nil {
		return err
	}
	at := -1
	for i, e := range list {
		if e.o != nil && textOf(e.o["path"]) == doc.Path && textOf(e.o["feature_id"]) == id {
			at = i
		}
	}
	if at < 0 {
		list = append(list, jsonEntry{o: object{}})
		at = len(list) - 1
	}
	list[at].changed = true
	now := encode(s.now().UTC().Format(time.RFC3339))
	if doc.Status == "" {
		doc.Status = "generated"
	}
	for key, value := range map[string]any{"feature_id": id, "path": doc.Path, "title": doc.Title, "words": doc.Words, "status": doc.Status} {
		list[at].o[key] = encode(value)
	}
	list[at].o["generated_at"] = now
	top["session_id"], top["generated_at"], top["documents"] = encode(sessionID), now, list.encode()
	return s.writeJSON(path, top, "session_id", "generated_at", "documents")
}

// statistics is computed from the list, never taken from the file.
func statistics(features jsonList) map[string]any {
	categories, statuses, documented, total := map[string]int{}, map[string]int{}, 0, 0
	for _, e := range features {
		o := e.o
		if o == nil {
			continue
		}
		total++
		categories[textOf(o["category"])]++
		statuses[textOf(o["status"])]++
		var is bool
		if json.Unmarshal(o["documented"], &is) == nil && is {
			documented++
		}
	}
	coverage := 0.0
	if total > 0 {
		coverage = math.Round(10000*float64(documented)/float64(total)) / 10000
	}
	return map[string]any{"total_features": total, "by_category": categories, "by_status": statuses, "documentation_coverage": coverage}
}

func textOf(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// encode encodes what is known to be encodable: texts, numbers, lists, maps.
func encode(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return data
}
