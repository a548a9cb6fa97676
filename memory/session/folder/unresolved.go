package folder

import (
	"encoding/json"
	"time"

	"ralph/memory/durable"
)

// maxUnresolvedBytes bounds the file that Unresolved reads; the failures in a larger one
// stay as they are.
const maxUnresolvedBytes = 16 << 20

// Unresolved returns the numbers by which Resolve and Reset know the failures, by task,
// and the trips that the files hold unresolved from before they were opened.
func (f *Folder) Unresolved() (failures map[string][]int, trips []int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	failures = map[string][]int{}
	data, err := durable.ReadFile(f.o.FS, f.errors.path, maxUnresolvedBytes)
	if err != nil {
		return failures, nil
	}
	d, err := parseDocument(data, f.errors.name)
	if err != nil {
		return failures, nil // the next change sets it aside
	}
	for _, list := range []string{"errors", "circuit_breaker_trips"} {
		entries, err := d.list(list)
		if err != nil {
			continue
		}
		for _, entry := range entries {
			task, o, ok := f.unresolved(list, entry)
			switch {
			case !ok:
			case list == "errors":
				failures[task] = append(failures[task], f.next(o))
			default:
				trips = append(trips, f.next(o))
			}
		}
	}
	return failures, trips
}

// unresolved reads an entry that may still be resolved, and the task of a failure.
func (f *Folder) unresolved(list string, entry json.RawMessage) (task string, o opened, ok bool) {
	var head struct {
		Timestamp time.Time `json:"timestamp"`
		TaskID    string    `json:"task_id"`
		Resolved  *bool     `json:"resolved"`
	}
	members, err := membersOf(entry)
	if err != nil || json.Unmarshal(entry, &head) != nil || head.Resolved == nil || *head.Resolved {
		return "", o, false
	}
	o = opened{file: f.errors, list: list, at: head.Timestamp, match: map[string]json.RawMessage{}}
	for _, key := range []string{"timestamp", "task_id", "error_message", "condition", "resolved"} {
		if i := index(members, key); i >= 0 {
			o.match[key] = members[i].value
		}
	}
	return head.TaskID, o, o.match["timestamp"] != nil
}
