package insights

import (
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"ralph/memory/session/folder"
)

// field is one detail of an event, by its plain key.
type field struct {
	key string
	v   any
}

// details are what an event says beyond its head, in whatever spelling: keys
// are the same when they differ only in case, "_" and "-". What is not there is
// looked for one level deeper, since some tools write {"error": {"type": …}}.
// They live as long as the event.
type details struct {
	fields []field
	deep   bool // a field is a mapping
	reader *reader
}

// reader reads details; the spellings of a key are few.
type reader struct {
	spelled map[string]string
	// lists are the fields of the event at hand and of the mappings in it, used
	// again for the next; each mapping is read once.
	lists [][]field
	maps  []inside
}

// inside are the details of a mapping, by where it is.
type inside struct {
	at uintptr
	d  details
}

func newReader() *reader { return &reader{spelled: map[string]string{}} }

// maxSpellings bounds the keys that are remembered.
const maxSpellings = 4096

func (r *reader) event(m map[string]any) details {
	clear(r.maps)
	r.maps = r.maps[:0]
	return r.read(m)
}

func (r *reader) read(m map[string]any) details {
	at := reflect.ValueOf(m).Pointer()
	for i := range r.maps {
		if r.maps[i].at == at {
			return r.maps[i].d
		}
	}
	n := len(r.maps)
	if n == len(r.lists) {
		r.lists = append(r.lists, nil)
	}
	d := details{fields: r.lists[n][:0], reader: r}
	for raw, v := range m {
		if v == nil {
			continue
		}
		key, known := r.spelled[raw]
		if !known {
			if key = plain(raw); len(r.spelled) < maxSpellings && len(raw) < maxNameRunes {
				raw = strings.Clone(raw)
				key = plain(raw)
				r.spelled[raw] = key
			}
		}
		if _, is := v.(map[string]any); is {
			d.deep = true
		}
		if i := d.index(key); i < 0 {
			d.fields = append(d.fields, field{key, v})
		} else if raw == key {
			d.fields[i].v = v // the plain spelling counts
		}
	}
	r.lists[n] = d.fields
	r.maps = append(r.maps, inside{at, d})
	return d
}

// in reads a mapping that is a detail.
func (d details) in(m map[string]any) details { return d.reader.read(m) }

func (d details) index(key string) int {
	for i := range d.fields {
		if d.fields[i].key == key {
			return i
		}
	}
	return -1
}

// plain is a key or a word without case and separators.
func plain(s string) string {
	clean := true
	for i := 0; i < len(s) && clean; i++ {
		c := s[i]
		clean = c != '_' && c != '-' && c != ' ' && (c < 'A' || c > 'Z')
	}
	if clean {
		return s
	}
	var b strings.Builder
	for _, r := range strings.ToLower(s) {
		if r != '_' && r != '-' && r != ' ' {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// own returns the value of the first of the keys that is there; keys are plain.
func (d details) own(keys ...string) any {
	if len(d.fields) == 0 {
		return nil
	}
	for _, want := range keys {
		if i := d.index(want); i >= 0 {
			return d.fields[i].v
		}
	}
	return nil
}

// find is own, and one level deeper where there is nothing: there the first key
// in the order of the alphabet counts.
func (d details) find(keys ...string) any {
	v := d.own(keys...)
	if v != nil || !d.deep {
		return v
	}
	from := ""
	for _, f := range d.fields {
		if m, ok := f.v.(map[string]any); ok && (v == nil || f.key < from) {
			if x := d.in(m).own(keys...); x != nil {
				v, from = x, f.key
			}
		}
	}
	return v
}

// text returns a text or a number as text; the first key that has one counts.
func (d details) text(keys ...string) string {
	for _, k := range keys {
		if s := asText(d.own(k)); s != "" {
			return s
		}
	}
	for _, k := range keys {
		if !d.deep {
			break
		}
		if s := asText(d.find(k)); s != "" {
			return s
		}
	}
	return ""
}

func asText(v any) string {
	switch v := v.(type) {
	case string:
		return strings.TrimSpace(v)
	case json.Number:
		return v.String()
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

// number returns the first of the keys that has a number.
func (d details) number(keys ...string) (float64, bool) {
	for _, k := range keys {
		if f, ok := asNumber(d.own(k)); ok {
			return f, true
		}
	}
	for _, k := range keys {
		if !d.deep {
			break
		}
		if f, ok := asNumber(d.find(k)); ok {
			return f, true
		}
	}
	return 0, false
}

// asNumber reads a number, also one in a text.
func asNumber(v any) (float64, bool) {
	var f float64
	switch v := v.(type) {
	case float64:
		f = v
	case int:
		f = float64(v)
	case int64:
		f = float64(v)
	case json.Number:
		f, _ = v.Float64()
	case string:
		s := strings.TrimSpace(v)
		percent := strings.HasSuffix(s, "%")
		n, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(s, "%")), 64)
		if err != nil {
			return 0, false
		}
		if f = n; percent {
			f /= 100
		}
	default:
		return 0, false
	}
	return f, !math.IsNaN(f) && !math.IsInf(f, 0)
}

// share reads what is from 0 to 1, also when it is stated in percent.
func share(v any) (float64, bool) {
	f, ok := asNumber(v)
	if !ok || f < 0 || f > 100 {
		return 0, false
	}
	if f > 1 {
		f /= 100
	}
	return f, true
}

// seconds returns a duration whose key begins with one of the names, in the unit
// that the rest of the key names: wait_ms, waited_minutes, latency. The longest
// counts; what is not there is looked for one level deeper.
func (d details) seconds(names ...string) (longest float64, ok bool) {
	for _, f := range d.fields {
		for _, name := range names {
			rest, is := strings.CutPrefix(f.key, name)
			if !is {
				continue
			}
			if f, is := inUnit(rest, f.v); is {
				longest, ok = max(longest, f), true
			}
		}
	}
	if ok || !d.deep {
		return longest, ok
	}
	for _, f := range d.fields {
		if m, is := f.v.(map[string]any); is {
			in := d.in(m)
			in.deep = false
			if s, is := in.seconds(names...); is {
				longest, ok = max(longest, s), true
			}
		}
	}
	return longest, ok
}

func inUnit(unit string, v any) (float64, bool) {
	f, ok := asNumber(v)
	if !ok {
		s, _ := v.(string)
		took, err := time.ParseDuration(strings.ReplaceAll(s, " ", ""))
		return took.Seconds(), err == nil && took >= 0
	}
	switch unit {
	case "", "s", "sec", "secs", "second", "seconds":
	case "ms", "msec", "msecs", "millis", "milliseconds", "inms":
		f /= 1000
	case "m", "min", "mins", "minute", "minutes":
		f *= 60
	default:
		return 0, false
	}
	return f, f >= 0
}

// maxWorded bounds what is read of a text for its words.
const maxWorded = 400

// words cuts a text into its words in lower case.
func words(s string) []string {
	s = s[:min(len(s), maxWorded)]
	return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r < 0x80 })
}

// anyWord says that one of the words of s is among those listed.
func anyWord(s string, listed ...string) bool {
	for _, w := range words(s) {
		for _, l := range listed {
			if w == l {
				return true
			}
		}
	}
	return false
}

// verdict is how something came out.
type verdict int8

const (
	unknown verdict = iota
	good
	bad
	open  // it is not over, or was left
	other // words that say neither
)

// outcome reads how something came out as tools and people word it.
func outcome(s string) verdict {
	s = strings.ToLower(strings.TrimSpace(s[:min(len(s), maxWorded)]))
	if s == "" {
		return unknown
	}
	switch folder.TaskStatus(s).Meant() {
	case folder.TaskCompleted:
		return good
	case folder.TaskError:
		return bad
	case folder.TaskSkipped, folder.TaskPaused:
		return open
	}
	for _, w := range []string{"fail", "error", "unsuccess", "partial", "reject", "broken", "incorrect", "timeout", "timed out", "gave up", "given up", "false"} {
		if strings.Contains(s, w) && !strings.Contains(s, "no "+w) && !strings.Contains(s, "0 "+w) && !strings.Contains(s, "without "+w) {
			return bad
		}
	}
	for _, w := range []string{"not ", "abort", "cancel", "interrupt", "skip", "retry", "retries", "pending", "pause", "revert", "open", "in progress", "in_progress", "incomplete", "blocked"} {
		if strings.Contains(s, w) {
			return open
		}
	}
	for _, w := range []string{"success", "succe", "done", "complete", "pass", "merged", "verified", "worked", "finished", "solved", "fixed", "achieved", "correct", "good", "green", "true", "✅", "✓"} {
		if strings.Contains(s, w) {
			return good
		}
	}
	if anyWord(s, "ok", "okay", "positive", "closed", "accepted") {
		return good
	}
	if anyWord(s, "red", "ko", "nok") {
		return bad
	}
	return other
}
