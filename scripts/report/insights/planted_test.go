package insights_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/afero"
	"pgregory.net/rapid"

	"ralph/scripts/report/insights"
)

// The rules, as these tests name them.
const (
	repeated = "repeated_error"
	storm    = "retry_storm"
	flaky    = "flaky_check"
	low      = "low_confidence_success"
	long     = "over_long_context"
	big      = "task_too_big"
	idle     = "idle_waiting_for_human"
	slow     = "slow_stop"
)

// o is a JSON object.
type o = map[string]any

// at is the time so many seconds after a session began.
func at(seconds float64) string {
	return time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second))).Format("2006-01-02T15:04:05.000Z07:00")
}

// ev is one event of a log; more is key, value, …: those of the head stay there,
// the others are details.
func ev(seconds float64, kind string, more ...any) o {
	e, details := o{"timestamp": at(seconds), "event_type": kind}, o{}
	for i := 0; i < len(more); i += 2 {
		switch k := more[i].(string); k {
		case "task_id", "task_name", "result", "duration_seconds":
			e[k] = more[i+1]
		default:
			details[k] = more[i+1]
		}
	}
	e["details"] = details
	return e
}

// planted is the folder of one session, as somebody may have written it.
type planted struct {
	events                      []o
	decisions, errors           []o
	progress, metadata, journal string
	older, shuffled, zones      bool
}

func (s planted) write(t testing.TB) (afero.Fs, string) {
	t.Helper()
	fsys, dir := afero.NewMemMapFs(), "/s/session-001-x"
	events := slices.Clone(s.events)
	if s.older {
		for i, e := range events {
			events[i] = olderShape(e)
		}
	}
	if s.zones {
		for i, e := range events {
			events[i] = inZone(e, i)
		}
	}
	if s.shuffled {
		r := rand.New(rand.NewPCG(1, 2))
		for i := range events {
			j := i + r.IntN(min(12, len(events)-i))
			events[i], events[j] = events[j], events[i]
		}
	}
	put := func(name string, v any) {
		text, ok := v.(string)
		if !ok {
			data, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			text = string(data)
		}
		if err := afero.WriteFile(fsys, path.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := fsys.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if s.events != nil {
		put("execution-log.json", o{"session_id": "001", "events": events})
	}
	if s.decisions != nil {
		put("decision-history.json", o{"session_id": "001", "decisions": s.decisions})
	}
	if s.errors != nil {
		put("errors-and-retries.json", o{"session_id": "001", "errors": s.errors, "circuit_breaker_trips": []any{}})
	}
	for name, text := range map[string]string{"progress-tracking.yaml": s.progress, "session-metadata.yaml": s.metadata, "journal.jsonl": s.journal} {
		if text != "" {
			put(name, text)
		}
	}
	return fsys, dir
}

func (s planted) find(t testing.TB) []insights.Finding {
	t.Helper()
	fsys, dir := s.write(t)
	return findIn(t, fsys, dir)
}

func olderShape(e o) o {
	data := maps.Clone(e["details"].(o))
	for k, v := range e {
		if k != "timestamp" && k != "event_type" && k != "details" && k != "duration_seconds" {
			data[k] = v
		}
	}
	x := o{"timestamp": e["timestamp"], "type": e["event_type"], "data": data}
	if d, ok := e["duration_seconds"]; ok {
		x["data"].(o)["duration_seconds"] = d
	}
	return x
}

func inZone(e o, i int) o {
	e = maps.Clone(e)
	when, err := time.Parse(time.RFC3339Nano, e["timestamp"].(string))
	if err == nil && i%2 == 1 {
		e["timestamp"] = when.In(time.FixedZone("", 5*3600+1800)).Format("2006-01-02T15:04:05.000-07:00")
	}
	return e
}

// task is a task that takes so long, done with confidence.
func task(from float64, id, kind string, seconds float64) []o {
	return []o{
		ev(from, "decision", "task_id", id, "result", "execute", "decision_type", "task", "confidence", 0.82),
		ev(from+1, "task_start", "task_id", id, "task_name", "Task "+id, "task_kind", kind, "attempt", 1),
		ev(from+seconds-2, "gate", "task_id", id, "result", "passed", "duration_seconds", 3, "check", "go test ./...", "tree", "tree-"+id),
		ev(from+1+seconds, "task_complete", "task_id", id, "task_name", "Task "+id, "result", "success", "duration_seconds", seconds, "confidence", 0.9, "verified", true),
	}
}

// clean is a log of a day's work with what is usual in one: a few retries, errors
// that were resolved, a check that failed and passed after a change, a short wait.
func clean() []o {
	list := []o{ev(0, "session_start", "kind", "run", "model", "m", "context_window", 200000), ev(0.5, "phase_start", "phase", "implementation")}
	kinds := []string{"feature", "bug", "feature", "chore", "feature", "bug"}
	for i, k := range kinds {
		list = append(list, task(10+float64(i)*1000, fmt.Sprintf("T-%d", i+1), k, 300+float64(i)*60)...)
	}
	return append(list,
		ev(100, "error", "task_id", "T-1", "result", "the endpoint did not answer", "error_type", "timeout"),
		ev(101, "retry", "task_id", "T-1", "error_type", "timeout", "attempt", 1),
		ev(1100, "error", "task_id", "T-2", "result", "the endpoint did not answer", "error_type", "timeout"),
		ev(1101, "retry", "task_id", "T-2", "error_type", "timeout", "attempt", 1),
		ev(2100, "error", "task_id", "T-3", "result", "the endpoint did not answer", "error_type", "timeout"),
		ev(2101, "retry", "task_id", "T-3", "error_type", "timeout", "attempt", 1),
		ev(2102, "retry", "task_id", "T-3", "error_type", "timeout", "attempt", 2),
		ev(1050, "gate", "task_id", "T-2", "result", "failed", "check", "go vet ./...", "tree", "before"),
		ev(1200, "gate", "task_id", "T-2", "result", "passed", "check", "go vet ./...", "tree", "after"),
		ev(3100, "decision", "task_id", "T-4", "result", "allowed", "duration_seconds", 42, "decision_type", "permission", "by", "user"),
		ev(3200, "interrupt", "result", "stopped by the user", "duration_seconds", 0.12, "how", "stopped"),
		ev(3300, "interrupt", "result", "paused", "duration_seconds", 40, "how", "paused"),
		ev(4100, "checkpoint", "context_tokens", 140000, "context_window", 200000),
		ev(4200, "message", "role", "assistant", "text", "done", "context_tokens", 150000, "context_window", 200000),
		ev(6900, "phase_complete", "result", "completed", "duration_seconds", 6900, "status", "completed", "turns", 400),
		ev(7000, "session_end", "result", "completed"),
	)
}

// plant is one planted problem in the events of the log, and the same a little
// below its threshold.
func plant(rule string, from float64, below bool) (list []o) {
	n := func(yes, no int) int {
		if below {
			return no
		}
		return yes
	}
	f := func(yes, no float64) float64 {
		if below {
			return no
		}
		return yes
	}
	switch rule {
	case repeated:
		for i := range n(3, 2) {
			list = append(list, ev(from+float64(i)*700, "error", "task_id", "T-2", "error_type", "compile_error", "message", fmt.Sprint("line ", i)))
		}
		list = append(list, ev(from+9, "error", "task_id", "T-1", "error_type", "compile_error", "message", "another kind of task"))
	case storm:
		for i := range 5 {
			list = append(list, ev(from+float64(i)*f(100, 151), "retry", "task_id", "T-5", "attempt", i+1))
		}
	case flaky:
		list = append(list, ev(from, "gate", "result", "failed", "check", "make e2e", "tree", "same"), ev(from+60, "gate", "result", "passed", "check", "make e2e", "tree", []string{"same", "other"}[n(0, 1)]))
	case low:
		list = append(list, ev(from, "task_start", "task_id", "L", "task_kind", "chore"),
			ev(from+300, "task_complete", "task_id", "L", "result", "success", "duration_seconds", 300, "confidence", f(0.55, 0.7)))
	case long:
		list = append(list, ev(from, "checkpoint", "context_tokens", f(160000, 159000), "context_window", 200000))
	case big:
		list = append(list, ev(from, "task_start", "task_id", "B", "task_kind", "feature"),
			ev(from+2400, "task_complete", "task_id", "B", "result", "success", "duration_seconds", f(1500, 1200), "confidence", 0.9))
	case idle:
		list = append(list, ev(from, "decision", "result", "yes", "task_id", "T-3", "duration_seconds", f(301, 299), "decision_type", "help_request", "by", "user"))
	case slow:
		list = append(list, ev(from, "interrupt", "result", "stopped by the user", "duration_seconds", f(1.3, 0.9), "how", "stopped"))
	}
	return list
}

func ruleNames() []string { return []string{repeated, storm, flaky, low, long, big, idle, slow} }

func byTime(list []o) []o {
	slices.SortStableFunc(list, func(x, y o) int { return strings.Compare(x["timestamp"].(string), y["timestamp"].(string)) })
	return list
}

func sorted(list []string) []string {
	list = append([]string{}, list...)
	slices.Sort(list)
	return list
}

// shapes are all forms in which the same facts may stand in a log.
func shapes() map[string]func(*planted) {
	return map[string]func(*planted){
		"documented":   func(*planted) {},
		"older":        func(s *planted) { s.older = true },
		"out of order": func(s *planted) { s.shuffled = true },
		"two zones":    func(s *planted) { s.zones = true },
		"all":          func(s *planted) { s.older, s.shuffled, s.zones = true, true, true },
		"resumed": func(s *planted) {
			s.events = byTime(append(s.events, ev(20150, "session_end", "result", "paused"), ev(20155, "session_start", "kind", "run", "context_window", 200000)))
		},
	}
}

func TestPlanted(t *testing.T) {
	cases := map[string][]string{"nothing": {}, "everything": ruleNames()}
	for _, r := range ruleNames() {
		cases[r] = []string{r}
	}
	for name, rules := range cases {
		for shape, make := range shapes() {
			for _, below := range []bool{false, true} {
				s := planted{events: clean()}
				for i, r := range rules {
					s.events = append(s.events, plant(r, 20000+float64(i)*3000, below)...)
				}
				s.events = byTime(s.events)
				make(&s)
				want := rules
				if below {
					want = nil
				}
				found := s.find(t)
				if got := names(found); !slices.Equal(sorted(got), sorted(want)) {
					t.Errorf("%s, %s, below %v: found %v, planted %v\n%+v", name, shape, below, got, want, found)
				}
			}
		}
	}
}

// TestPlantedAnywhere plants what it likes into a log of tasks that it likes.
func TestPlantedAnywhere(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := planted{events: clean(), older: rapid.Bool().Draw(r, "older"), shuffled: rapid.Bool().Draw(r, "shuffled"), zones: rapid.Bool().Draw(r, "zones")}
		for i := range rapid.IntRange(0, 8).Draw(r, "tasks") {
			seconds := rapid.Float64Range(450, 490).Draw(r, "seconds")
			kind := rapid.SampledFrom([]string{"feature", "bug", "chore", ""}).Draw(r, "kind")
			s.events = append(s.events, task(7200+1000*float64(i), fmt.Sprintf("R-%d", i), kind, seconds)...)
			for j := range rapid.IntRange(0, 2).Draw(r, "errors") {
				s.events = append(s.events, ev(7300+1000*float64(i), "error", "task_id", fmt.Sprintf("R-%d", i), "kind", fmt.Sprintf("odd-%d-%d", i, j)))
			}
			for j := range rapid.IntRange(0, 2).Draw(r, "retries") {
				s.events = append(s.events, ev(7300+1000*float64(i)+float64(j), "retry", "task_id", fmt.Sprintf("R-%d", i)))
			}
		}
		var want []string
		for i, rule := range ruleNames() {
			switch rapid.IntRange(0, 2).Draw(r, rule) {
			case 0:
				s.events = append(s.events, plant(rule, 20000+float64(i)*3000, false)...)
				want = append(want, rule)
			case 1:
				s.events = append(s.events, plant(rule, 20000+float64(i)*3000, true)...)
			}
		}
		s.events = byTime(s.events)
		found := s.find(t)
		if got := names(found); !slices.Equal(sorted(got), sorted(want)) {
			r.Fatalf("found %v, planted %v\n%+v", got, want, found)
		}
	})
}
