package analysis

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/afero"

	"ralph/memory/session"
	"ralph/memory/session/folder"
)

const kept = "../../../testdata/sessions"

// of analyses the session in dir.
func of(t testing.TB, dir string) Analysis {
	t.Helper()
	c, fsys := New(), afero.NewOsFs()
	d, err := folder.ReadEach(fsys, dir, func(id string, e folder.Event) error { c.Event(id, e); return nil })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.ReadRecords(fsys, filepath.Join(dir, session.JournalFile), nil, func(r session.Record) error { c.Record(r); return nil }); err != nil {
		t.Fatal(err)
	}
	return c.Result(d)
}

// story is a session as a test writes it: times are in seconds from its begin.
type story struct {
	c *Collector
	n int64
}

func newStory() *story { return &story{c: New()} }

func at(s float64) time.Time {
	return time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC).Add(time.Duration(s * float64(time.Second)))
}

type facts = map[string]any

// log tells an event; took is in seconds.
func (s *story) log(when float64, typ folder.EventType, task, result string, took float64, details facts) {
	s.n++
	if details == nil {
		details = facts{}
	}
	s.c.Event(fmt.Sprintf("e%d", s.n), folder.Event{Time: at(when), Type: typ, TaskID: task, Result: result,
		Duration: time.Duration(took * float64(time.Second)), Details: details})
}

// note writes an event into the journal.
func (s *story) note(when float64, typ, agent string, more facts) {
	s.n++
	payload := fmt.Sprintf(`{"type":%q,"seq":%d,"time":%q,"run_id":"r-1","agent":%q`, typ, s.n, at(when).Format(time.RFC3339Nano), agent)
	if data, _ := json.Marshal(more); len(data) > len("null") {
		payload += "," + string(data[1:len(data)-1])
	}
	s.c.Record(session.Record{Seq: s.n, Time: at(when), Kind: "event", Payload: json.RawMessage(payload + "}")})
}

// call notes a call of a tool that took so many seconds.
func (s *story) call(end, took float64, agent, id, tool string, ok bool) {
	s.note(end-took, "tool_start", agent, facts{"call_id": id, "tool": tool})
	s.note(end, "tool_end", agent, facts{"call_id": id, "tool": tool, "ok": ok, "duration_ms": int(took * 1000)})
}

// ask notes a request and its answer.
func (s *story) ask(from, to float64, agent string, turn int, tokens int, cost any) {
	s.note(from, "turn_start", agent, facts{"turn": turn})
	more := facts{"turn": turn, "model": "m", "usage": facts{"input": tokens - 10, "output": 10, "total": tokens}}
	if cost != nil {
		more["cost_usd"] = cost
	}
	s.note(to, "usage", agent, more)
}

func (s *story) end() Analysis { return s.c.Result(folder.Data{}) }

// is holds a figure against what it should be; nil is unknown.
func is(t *testing.T, what string, got *float64, want any) {
	t.Helper()
	switch {
	case got == nil && want == nil:
	case got == nil || want == nil:
		t.Errorf("%s is %v, not %v", what, show(got), want)
	case fmt.Sprint(*got) != fmt.Sprint(want):
		t.Errorf("%s is %v, not %v", what, *got, want)
	}
}

func show(v *float64) string {
	if v == nil {
		return "unknown"
	}
	return fmt.Sprint(*v)
}
