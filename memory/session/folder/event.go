package folder

import (
	"encoding/json"
	"time"
)

// words keeps short texts and numbers that are read again and again, so that
// they need not be made anew.
type words struct{ texts, numbers map[string]any }

const (
	maxWords     = 4096 // of either kind
	maxWordBytes = 48
)

// text returns the text of a JSON string, quotes and all.
func (w *words) text(raw []byte) any {
	inside := raw[1 : len(raw)-1]
	if len(inside) > maxWordBytes {
		if !plainText(inside) {
			return unquoted(raw)
		}
		return string(inside)
	}
	if v, ok := w.texts[string(inside)]; ok {
		return v
	}
	s := ""
	if plainText(inside) {
		s = string(inside)
	} else {
		s = unquoted(raw)
	}
	return remember(&w.texts, inside, s)
}

// number is what bare makes of a number.
func (w *words) number(raw []byte) any {
	if v, ok := w.numbers[string(raw)]; ok {
		return v
	}
	return remember(&w.numbers, raw, bare(json.Number(raw)))
}

func remember(m *map[string]any, key []byte, v any) any {
	switch {
	case len(key) > maxWordBytes:
		return v
	case len(*m) >= maxWords:
		clear(*m) // others are in use by now
	case *m == nil:
		*m = map[string]any{}
	}
	(*m)[string(key)] = v
	return v
}

// field is a key that an event knows.
type field int

const (
	fTimestamp field = iota
	fTime
	fEventType
	fType
	fEvent
	fTaskID
	fTaskID2
	fTaskName
	fTaskName2
	fResult
	fDuration
	fDetails
	fData
	nFields
)

func fieldOf(key []byte) field {
	switch string(key) {
	case "timestamp":
		return fTimestamp
	case "time":
		return fTime
	case "event_type":
		return fEventType
	case "type":
		return fType
	case "event":
		return fEvent
	case "task_id":
		return fTaskID
	case "taskId":
		return fTaskID2
	case "task_name":
		return fTaskName
	case "taskName":
		return fTaskName2
	case "result":
		return fResult
	case "duration_seconds":
		return fDuration
	case "details":
		return fDetails
	case "data":
		return fData
	}
	return nFields
}

// fields are the members of an object, as they stand in its JSON. Of a key that
// is there twice the last counts.
type fields struct {
	known [nFields][]byte
	extra []rawMember
}

type rawMember struct {
	key   string
	value []byte
}

// take reads the members of a whole object.
func (f *fields) take(raw []byte, w *words) {
	f.known, f.extra = [nFields][]byte{}, f.extra[:0]
	eachMember(raw, func(key, value []byte) {
		name := key[1 : len(key)-1]
		k := fieldOf(name)
		if k == nFields && !plainText(name) {
			k = fieldOf([]byte(unquoted(key)))
		}
		if k < nFields {
			f.known[k] = value
		} else {
			f.extra = append(f.extra, rawMember{w.text(key).(string), value})
		}
	})
}

// eachMember passes the keys, in their quotes, and values of a whole object.
func eachMember(raw []byte, each func(key, value []byte)) {
	i := skipSpace(raw, 1)
	for raw[i] != '}' {
		key := i
		i, _ = scanString(raw, i)
		keyEnd := i
		i = skipSpace(raw, skipSpace(raw, i)+1)
		value := i
		i, _ = scan(raw, i, 0)
		each(raw[key:keyEnd], raw[value:i])
		if i = skipSpace(raw, i); raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
}

// isEvent says that an object that was found behind garbage is an event: it has
// a time or a type, or both of them.
func (f *fields) isEvent(either bool) bool {
	has := func(keys ...field) bool { return f.find(keys...) != nil }
	time, kind := has(fTimestamp, fTime), has(fEventType, fType, fEvent)
	return time && kind || either && (time || kind)
}

// find returns the first value that is there under one of the keys.
func (f *fields) find(keys ...field) []byte {
	for _, k := range keys {
		if v := f.known[k]; v != nil && string(v) != "null" {
			return v
		}
	}
	return nil
}

func (f *fields) text(w *words, keys ...field) string { return w.scalar(f.find(keys...)) }

// scalar is asText of a value's JSON.
func (w *words) scalar(raw []byte) string {
	if len(raw) > 0 && raw[0] == '"' {
		s, _ := w.text(raw).(string)
		return s
	}
	return scalarText(raw)
}

func scalarText(raw []byte) string {
	if len(raw) == 0 {
		return ""
	}
	switch raw[0] {
	case '"':
		return unquoted(raw)
	case '{', '[', 'n':
		return ""
	}
	return string(raw)
}

func unquoted(raw []byte) string {
	var s string
	_ = json.Unmarshal(raw, &s) // it was scanned
	return s
}

// event also reads events of the form {timestamp, type, data}. Keys that an
// event does not have become details.
func (f *fields) event(raw []byte, w *words) Event {
	f.take(raw, w)
	e := Event{Time: f.when(), Type: EventType(f.text(w, fEventType, fType, fEvent)), TaskID: f.text(w, fTaskID, fTaskID2),
		TaskName: f.text(w, fTaskName, fTaskName2), Result: f.text(w, fResult)}
	if n, ok := numberIn(f.text(w, fDuration)); ok {
		e.Duration = time.Duration(n * float64(time.Second))
	}
	var taskID, taskID2, result []byte
	e.Details = map[string]any{}
	if d := f.find(fDetails, fData); d != nil && d[0] == '{' {
		w.object(e.Details, d, 0, func(name string, value []byte) {
			switch name {
			case "task_id":
				taskID = value
			case "taskId":
				taskID2 = value
			case "result":
				result = value
			}
		})
	}
	if e.TaskID == "" {
		if taskID == nil || string(taskID) == "null" {
			taskID = taskID2
		}
		e.TaskID = w.scalar(taskID)
	}
	if e.Result == "" {
		e.Result = w.scalar(result)
	}
	if r := f.known[fResult]; r != nil && w.scalar(r) != e.Result {
		f.extra = append(f.extra, rawMember{"result", r})
	}
	for i := len(f.extra) - 1; i >= 0; i-- {
		if _, has := e.Details[f.extra[i].key]; !has {
			e.Details[f.extra[i].key], _ = w.value(f.extra[i].value, 0)
		}
	}
	return e
}

// when is a time in UTC; the zero time when there is none that can be read.
func (f *fields) when() time.Time {
	raw := f.find(fTimestamp, fTime)
	if t, ok := ownTime(raw); ok {
		return t
	}
	return timeIn(scalarText(raw))
}

// ownTime reads a time as Ralph writes it.
func ownTime(raw []byte) (time.Time, bool) {
	const form = `"0000-00-00T00:00:00.000Z"`
	if len(raw) != len(form) {
		return time.Time{}, false
	}
	for i := range len(form) {
		if digit := raw[i] >= '0' && raw[i] <= '9'; form[i] == '0' && !digit || form[i] != '0' && raw[i] != form[i] {
			return time.Time{}, false
		}
	}
	n := func(at, digits int) (n int) {
		for _, c := range raw[at : at+digits] {
			n = n*10 + int(c-'0')
		}
		return n
	}
	month, day, hour, minute, second := n(6, 2), n(9, 2), n(12, 2), n(15, 2), n(18, 2)
	if month < 1 || month > 12 || day < 1 || day > 28 || hour > 23 || minute > 59 || second > 59 {
		return time.Time{}, false // time.Parse knows the calendar
	}
	return time.Date(n(1, 4), time.Month(month), day, hour, minute, second, n(21, 3)*1e6, time.UTC), true
}

// value is what bare makes of the value that begins at i of a whole one, and
// where it ends.
func (w *words) value(raw []byte, i int) (v any, end int) {
	switch raw[i] {
	case '"':
		end, _ = scanString(raw, i)
		return w.text(raw[i:end]), end
	case '{':
		m := map[string]any{}
		return m, w.object(m, raw, i, func(string, []byte) {})
	case '[':
		list := []any{}
		for i = skipSpace(raw, i+1); raw[i] != ']'; {
			v, end = w.value(raw, i)
			list = append(list, v)
			if i = skipSpace(raw, end); raw[i] == ',' {
				i = skipSpace(raw, i+1)
			}
		}
		return list, i + 1
	case 't':
		return true, i + len("true")
	case 'f':
		return false, i + len("false")
	case 'n':
		return nil, i + len("null")
	}
	for end = i; end < len(raw) && raw[end] != ',' && raw[end] != '}' && raw[end] != ']' && !space(raw[end]); {
		end++
	}
	return w.number(raw[i:end]), end
}

// object puts the members of the object that begins at i into m, and also
// passes each with its JSON. It returns where the object ends.
func (w *words) object(m map[string]any, raw []byte, i int, each func(name string, value []byte)) (end int) {
	for i = skipSpace(raw, i+1); raw[i] != '}'; {
		key := i
		i, _ = scanString(raw, i)
		name := w.text(raw[key:i]).(string)
		i = skipSpace(raw, skipSpace(raw, i)+1)
		m[name], end = w.value(raw, i)
		each(name, raw[i:end])
		if i = skipSpace(raw, end); raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
	return i + 1
}
