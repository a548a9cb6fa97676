package analysis

import (
	"encoding/json"
	"testing"
	"time"

	"ralph/memory/session"
	"ralph/memory/session/folder"
)

// That a session was imported or handed something, long after its end, does not
// make it longer.
func TestBroughtLater(t *testing.T) {
	begin := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	seconds := func(kinds ...string) float64 {
		c := New()
		c.Event("e1", folder.Event{Time: begin, Type: folder.SessionStart})
		c.Event("e2", folder.Event{Time: begin.Add(time.Minute), Type: folder.SessionEnd, Result: "completed"})
		c.Record(session.Record{Seq: 1, Time: begin, Kind: "event", Payload: json.RawMessage(`{"type":"start"}`)})
		for i, kind := range kinds {
			c.Record(session.Record{Seq: int64(i + 2), Time: begin.Add(40 * time.Hour), Kind: kind, Payload: json.RawMessage(`{}`)})
		}
		a := c.Result(folder.Data{})
		if a.Time.Total == nil {
			t.Fatal("no time is known")
		}
		return *a.Time.Total
	}
	want := seconds()
	if got := seconds("import", "handoff"); got != want || want != 60 {
		t.Errorf("it took %v s, and %v s once it was brought here", want, got)
	}
}
