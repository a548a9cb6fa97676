package insights_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/afero"

	"ralph/memory/session"
	"ralph/memory/session/folder"
	"ralph/memory/text"
	"ralph/scripts/report/insights"
)

// TestFixtures reads the session folders that all packages share.
func TestFixtures(t *testing.T) {
	for name, want := range map[string][]string{
		"clean": {}, "contradiction": {}, "older-shape": {}, "bare-features": {}, "cut-log": {}, "disorder": {}, "live": {}, "empty": {}, "foreign": {},
		"hostile": {low}, // its one decision is of 0.5 and came out well
	} {
		dir := filepath.Join("..", "..", "..", "testdata", "sessions", name)
		if ok, err := afero.DirExists(afero.NewOsFs(), dir); err != nil || !ok {
			t.Fatalf("%s: %v, %v", dir, ok, err)
		}
		found := findIn(t, afero.NewOsFs(), dir)
		if got := names(found); !slices.Equal(got, want) {
			t.Errorf("%s: found %v, want %v\n%s", name, got, want, texts(found))
		}
	}
}

// TestFinding looks at one finding whole.
func TestFinding(t *testing.T) {
	s := planted{events: []o{ev(0, "session_start"), ev(5, "task_start", "task_id", "T-1", "task_kind", "bug")}}
	for i := range 25 {
		s.events = append(s.events, ev(float64(60+i*1000), "error", "task_id", "T-1", "error_type", "timeout"))
	}
	first, last := time.Date(2026, 3, 1, 9, 1, 0, 0, time.UTC), time.Date(2026, 3, 1, 15, 41, 0, 0, time.UTC)
	want := []insights.Finding{{
		Rule: repeated, Title: "Repeated error", Severity: insights.Medium, Threshold: "≥ 3 errors of the same type and kind of task", Count: 25,
		Events: []string{"e3", "e4", "e5", "e6", "e7", "e8", "e9", "e10", "e11", "e12", "e13", "e14", "e15", "e16", "e17", "e18", "e19", "e20", "e21", "e22"}, TaskIDs: []string{"T-1"}, First: &first, Last: &last,
		Evidence:   "25 errors of type timeout in work of kind bug within 6 h 40 min.",
		Suggestion: "Look at the first of these errors: what they have in common can be solved once, or told in AGENT.md so that it is known from the start.",
	}}
	if diff := cmp.Diff(want, s.find(t)); diff != "" {
		t.Error(diff)
	}
}

// TestSentences holds what is said of each rule, and the order.
func TestSentences(t *testing.T) {
	s := planted{events: clean()}
	for i, r := range ruleNames() {
		s.events = append(s.events, plant(r, 20000+float64(i)*3000, false)...)
	}
	s.events = byTime(s.events)
	got := texts(s.find(t))
	want := `retry_storm [e47 e48 e49 e50 e51] [T-5]: 5 retries within 6 min 40 s.
flaky_check [e52 e53] []: The check “make e2e” passed once and failed once on the same tree same.
slow_stop [e60] []: The stop (stopped by the user) took 1.3 s until everything was at rest.
repeated_error [e43 e45 e46] [T-2]: 3 errors of type compile_error in work of kind bug within 23 min 20 s: “line 0”.
low_confidence_success [e55] [L]: Task L succeeded although the confidence that was declared was 0.55, below the threshold of 0.70.
over_long_context [e56] []: The context reached 80 % of the window (160000 of 200000 tokens).
task_too_big [e58] [B]: Task B took 25 min, 3.3 times the median of 7 min 30 s over 8 finished tasks.
idle_waiting_for_human [e59] [T-3]: 5 min 01 s of waiting for a human in task T-3.
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRulesAreWhole(t *testing.T) {
	rules := insights.Rules()
	for i, r := range rules {
		if r.Name == "" || r.Title == "" || r.Threshold == "" || r.Means == "" || r.Suggestion == "" || r.Severity != insights.Low && r.Severity != insights.Medium && r.Severity != insights.High {
			t.Errorf("rule %d is not whole: %+v", i, r)
		}
		if r.Name != ruleNames()[i] {
			t.Errorf("rule %d is %s", i, r.Name)
		}
	}
	if len(rules) != len(ruleNames()) {
		t.Errorf("%d rules", len(rules))
	}
}

func TestLearnings(t *testing.T) {
	s := planted{events: append(clean(), plant(slow, 20000, false)...)}
	found := s.find(t)
	got := insights.Learnings(found, "007")
	want := []insights.Learning{{Type: "insight", What: "Slow stop in session 007: The stop (stopped by the user) took 1.3 s until everything was at rest.",
		Why: "a stop is to be at rest within a quarter of a second", How: "found by the rule slow_stop (> 1 s from the stop to rest) in e43", Results: "severity high", Learning: found[0].Suggestion}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if list := insights.Learnings(nil, "007"); list == nil || len(list) != 0 {
		t.Errorf("of nothing: %v", list)
	}
	for _, r := range insights.Rules() {
		if l := insights.Learnings([]insights.Finding{{Rule: r.Name}}, "1"); l[0].Why == "" {
			t.Errorf("%s teaches nothing", r.Name)
		}
	}
}

// TestHostile says nothing that a terminal would obey, and nothing long.
func TestHostile(t *testing.T) {
	evil := "<script>\x1b[2J\u202eabc\x00" + strings.Repeat("é", 100_000)
	s := planted{events: []o{ev(0, "session_start", "context_window", 1000)}}
	for i := range 6 {
		s.events = append(s.events, ev(float64(i), "error", "task_id", evil, "error_type", evil), ev(float64(i), "retry", "task_id", evil),
			ev(float64(i), "gate", "check", evil, "tree", evil, "result", []string{"passed", "failed"}[i%2]))
	}
	s.events = append(s.events, ev(9, "checkpoint", "agent", evil, "context_tokens", 900), ev(10, "interrupt", "reason", evil, "latency_ms", 5000),
		ev(11, "decision", "task_id", evil, "decision_type", "help_request", "about", evil, "duration_seconds", 900), ev(12, "task_complete", "task_id", evil, "confidence", 0.1))
	found := s.find(t)
	if len(found) < 7 {
		t.Fatalf("found only %v", names(found))
	}
	for _, x := range found {
		for _, content := range append([]string{x.Evidence}, x.TaskIDs...) {
			if len(content) > 2000 || !utf8.ValidString(content) || text.VisibleLine(content) != content {
				t.Errorf("%s says %d bytes: %.200q", x.Rule, len(content), content)
			}
		}
	}
}

// TestManyTasks bounds what a Finder holds of a log in which every task is another.
// Only some events have details; with RALPH_TEST_SWEEP all do.
func TestManyTasks(t *testing.T) {
	sweep := os.Getenv("RALPH_TEST_SWEEP") != ""
	f := insights.New(insights.Options{})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	kinds := []folder.EventType{folder.TaskStart, folder.GateChecked, folder.Message, folder.Errored, folder.Retried, folder.Decided, folder.Checkpoint, folder.TaskComplete}
	const n = 120_000
	for i := range n {
		e := folder.Event{Time: start.Add(time.Duration(i) * 20 * time.Second), Type: kinds[i%8], TaskID: "T-" + strconv.Itoa(i)}
		if sweep || i%15 == 0 {
			e.Details = map[string]any{"confidence": 0.9, "tree": fmt.Sprint("t", i), "check": "go test", "error_type": fmt.Sprint("e", i%5000), "attempt": 1.0,
				"context_tokens": 10.0, "context_window": 100.0}
		}
		if e.Type == folder.TaskComplete {
			e.Result, e.Duration = "done", 100*time.Second
		}
		if e.Type == folder.GateChecked {
			e.Result = "passed"
		}
		f.Event("e"+strconv.Itoa(i+1), e)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	held := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("holds %d KiB", held>>10)
	if held > 40<<20 {
		t.Errorf("holds %d MiB of %d events", held>>20, n)
	}
	found := f.Result(folder.Data{})
	for _, x := range found {
		if x.Rule != repeated {
			t.Errorf("found %s: %s", x.Rule, x.Evidence)
			break
		}
	}
	if len(f.Notes()) == 0 {
		t.Error("nothing says that tasks were left out")
	}
	runtime.KeepAlive(f)
}

func FuzzEvents(f *testing.F) {
	for _, s := range []string{
		`{"event_type":"error","details":{"error":{"type":"x"}}}`, `{"type":"gate","data":{"tree":"a","passed":"yes"}}`, `{"event_type":"interrupt","details":{"latency_ms":"4s"}}`,
		`{"event_type":"decision","details":{"decision_type":"help_request","wait_minutes":1e300}}`, `{"event_type":"checkpoint","details":{"context":{"used":1,"limit":-1}}}`,
		`{"type":"permission","status":"asked","agent":"a"}`, `{"type":"usage","usage":{"input":9e18}}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var raw struct {
			Type     folder.EventType `json:"event_type"`
			TaskID   string           `json:"task_id"`
			Result   string           `json:"result"`
			Duration float64          `json:"duration_seconds"`
			Details  map[string]any   `json:"details"`
		}
		if json.Unmarshal([]byte(text), &raw) != nil {
			raw.Type, raw.Result = folder.EventType(text), text
		}
		x := insights.New(insights.Options{})
		for i := range 12 {
			e := folder.Event{Time: time.Unix(int64(i)*400, 0), Type: raw.Type, TaskID: raw.TaskID, Result: raw.Result, Duration: time.Duration(raw.Duration * 1e9), Details: raw.Details}
			x.Event(fmt.Sprint("e", i+1), e)
			x.Record(session.Record{Seq: int64(i), Time: e.Time, Kind: "event", Payload: json.RawMessage(text)})
		}
		for _, found := range x.Result(folder.Data{}) {
			if found.Count < 1 || len(found.Events) > 20 || found.Evidence == "" || !utf8.ValidString(found.Evidence) {
				t.Errorf("a finding that says nothing: %+v", found)
			}
			if _, err := json.Marshal(found); err != nil {
				t.Error(err)
			}
		}
	})
}
