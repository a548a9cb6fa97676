package condition_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"ralph/coordinator/policy/condition"
)

func TestHoldsOverMetrics(t *testing.T) {
	for _, c := range []struct {
		source string
		m      condition.Metrics
		want   bool
	}{
		{`error_rate > 0.5`, condition.Metrics{ErrorRate: .51}, true},
		{`error_rate > 0.5`, condition.Metrics{ErrorRate: .5}, false},
		{`features_discovered >= 50`, condition.Metrics{FeaturesDiscovered: 50}, true},
		{`features_discovered >= 50`, condition.Metrics{FeaturesDiscovered: 49}, false},
		{`features_discovered >= 49.5`, condition.Metrics{FeaturesDiscovered: 50}, true},
		{`tasks_done == tasks_total && tasks_failed == 0`, condition.Metrics{TasksDone: 3, TasksTotal: 3}, true},
		{`tasks_done / tasks_total >= 0.5`, condition.Metrics{TasksDone: 1, TasksTotal: 2}, true},
		{`tasks_done / 2 == 1.5`, condition.Metrics{TasksDone: 3}, true},
		{`cost_usd / tasks_done > 2`, condition.Metrics{TasksDone: 2, CostUSD: 5}, true},
		{`not (phase == "planning") and consecutive_failures in 2..5`, condition.Metrics{Phase: "e2e_testing", ConsecutiveFailures: 3}, true},
		{"\ttokens\n > 10 ", condition.Metrics{Tokens: 11}, true},
		{`phase matches "^impl"`, condition.Metrics{Phase: "implementation"}, true},
		{`duration_seconds > 60 ? true : cost_usd > 1`, condition.Metrics{CostUSD: 2}, true},
		{`max(retries, errors) >= 3`, condition.Metrics{Retries: 1, Errors: 3}, true},
		{`"for 3 consecutive tasks" != task`, condition.Metrics{Task: "x"}, true},
	} {
		got, err := mustCompile(t, c.source, c.m).Holds(c.m)
		if err != nil || got != c.want {
			t.Errorf("%q = %v, %v; want %v", c.source, got, err, c.want)
		}
	}
}

func mustCompile[T condition.Values](t *testing.T, source string, env T) *condition.Condition[T] {
	t.Helper()
	c, err := condition.Compile(source, env)
	if err != nil {
		t.Fatalf("compile %q: %v", source, err)
	}
	if c.String() != source {
		t.Fatalf("%q became %q", source, c)
	}
	return c
}

func TestHoldsOverTasksAndEvents(t *testing.T) {
	task := condition.Task{ID: "US-001", Priority: 2, Labels: []string{"backend", "auth"}, Kind: "bug", Status: "open", Files: []string{"a.go"}}
	for source, want := range map[string]bool{
		`priority <= 2 && "backend" in labels`:             true,
		`priority <= 1 && "backend" in labels`:             false,
		`id matches "^US-" and kind in ["bug", "chore"]`:   true,
		`any(labels, # startsWith "au") or len(after) > 0`: true,
		`all(labels, {len(#) > 4})`:                        false,
		`count(files, # endsWith ".go") == 1`:              true,
		`epic == ""`:                                       true,
	} {
		if got, err := mustCompile(t, source, task).Holds(task); err != nil || got != want {
			t.Errorf("%q = %v, %v", source, got, err)
		}
	}
	event := condition.Event{EventType: "error", DurationSeconds: 61, Details: map[string]any{"exit_code": 2, "tool": "shell"}, Timestamp: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	for source, want := range map[string]bool{
		`event_type == "error" && duration_seconds > 60`:       true,
		`details.exit_code == 2`:                               true,
		`details.nothing == nil`:                               true,
		`details["tool"] == "shell" and timestamp < "2026-02"`: true,
		`event_type == "retry"`:                                false,
		`timestamp > date("2026-01-02")`:                       true,
		`timestamp > "2026-01-02T05:04:05+02:00"`:              false,
		`"2026-01-02 03:04:05" == timestamp`:                   true,
		`timestamp < now() - duration("1h")`:                   true,
		`timestamp.Hour() == 3 and id == ""`:                   true,
	} {
		if got, err := mustCompile(t, source, event).Holds(event); err != nil || got != want {
			t.Errorf("%q = %v, %v", source, got, err)
		}
		if got, err := mustCompile(t, source, event).Test(&event)(); err != nil || got != want {
			t.Errorf("tested, %q = %v, %v", source, got, err)
		}
	}
}

// One test sees each value that it is called for, and no value twice.
func TestManyValues(t *testing.T) {
	var e condition.Event
	test := mustCompile(t, `details.n > 1 && event_type != "x"`, e).Test(&e)
	for i, c := range []struct {
		n    any
		kind string
		want bool
		ok   bool
	}{{2.0, "a", true, true}, {1.0, "a", false, true}, {nil, "a", false, false}, {"2", "a", false, false}, {3.0, "x", false, true}, {3.0, "a", true, true}} {
		e = condition.Event{EventType: c.kind, Details: map[string]any{"n": c.n}}
		if got, err := test(); got != c.want || (err == nil) != c.ok {
			t.Errorf("%d: %v, %v", i, got, err)
		}
	}
}

func TestTimesInFilters(t *testing.T) {
	for source, want := range map[string]string{`timestamp > "yesterday"`: `"yesterday" is no time`, `event_typ == "error"`: "did you mean event_type?", `timestamp > 5`: "mismatched types"} {
		if _, err := condition.Compile(source, condition.Event{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", source, err)
		}
	}
	for _, source := range []string{`now() > date("2026-01-01")`, `duration("1h") > duration("1m")`} {
		if _, err := condition.Compile(source, condition.Metrics{}); err == nil || !strings.Contains(err.Error(), "not available") {
			t.Errorf("%q sees a clock: %v", source, err)
		}
	}
}

func TestNoAnswerIsAnError(t *testing.T) {
	for _, source := range []string{`tasks_failed / tasks_done > 0.5`, `tasks_failed % tasks_done == 0`, `cost_usd / 0 > 1`, `1 / 0 > 5`, `0.0 / 0.0 == 1`, `[1, 2][retries + 7] == 1`} {
		c, err := condition.Compile(source, condition.Metrics{})
		if err != nil {
			if _, ok := errors.AsType[*condition.Error](err); !ok {
				t.Errorf("%q: %T", source, err)
			}
			continue // the library may see it already when it compiles
		}
		if ok, err := c.Holds(condition.Metrics{TasksFailed: 1}); err == nil || ok {
			t.Errorf("%q = %v without an error", source, ok)
		} else if strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), source) {
			t.Errorf("%q: %q", source, err)
		}
	}
	event := condition.Event{Details: map[string]any{"n": "text"}}
	if _, err := mustCompile(t, `details.n > 1`, event).Holds(event); err == nil {
		t.Error("text was compared with a number")
	}
}

func TestConsecutiveForm(t *testing.T) {
	for _, c := range []struct {
		source string
		n      int
		unit   string
	}{
		{`confidence < 0.3 for 3 consecutive tasks`, 3, "tasks"},
		{`confidence < 0.3 FOR 1 consecutive task `, 1, "tasks"},
		{"error_rate > 0.1\n  for 2 consecutive iterations", 2, "iterations"},
		{`check_failures > 0 for 4 consecutive`, 4, "iterations"},
		{`errors > 0 for 5 consecutive attempts`, 5, "attempts"},
		{`errors > 0 for 1000 consecutive checks`, 1000, "checks"},
		{`error_rate > 0.5`, 1, ""},
	} {
		got := mustCompile(t, c.source, condition.Metrics{})
		if got.Consecutive() != c.n || got.Unit() != c.unit {
			t.Errorf("%q: %d %q", c.source, got.Consecutive(), got.Unit())
		}
	}
	c := mustCompile(t, `confidence < 0.3 for 3 consecutive tasks`, condition.Metrics{})
	if ok, err := c.Holds(condition.Metrics{Confidence: .2}); !ok || err != nil {
		t.Error("the expression before the form does not hold", err)
	}
}

func TestErrorsSayWhere(t *testing.T) {
	for _, c := range []struct {
		source       string
		line, column int
		text, hint   string
	}{
		{`eror_rate > 0.5`, 1, 1, "unknown name eror_rate", "did you mean error_rate?"},
		{`error_rate > 0.5 && tasks_dome > 3`, 1, 21, "unknown name tasks_dome", "did you mean tasks_done?"},
		{"error_rate > 0.5 &&\n  zebra_crossings > 3", 2, 3, "unknown name zebra_crossings", "known are error_rate"},
		{`"ü" == phase && xyzzy`, 1, 17, "unknown name xyzzy", "known are"},
		{`error_rate >`, 1, 12, "unexpected token EOF", ""},
		{`error_rate + 1`, 1, 0, "expected bool", ""},
		{`phase > 3`, 1, 7, "invalid operation", ""},
		{`phase / 3 > 1`, 1, 1, "only numbers can be divided", ""},
		{``, 1, 1, "empty", ""},
		{" \n\t", 1, 1, "empty", ""},
		{"a\x00b", 1, 2, "control character", ""},
		{"true\n&& \x1b", 2, 4, "control character", ""},
		{"true && \xff", 1, 9, "UTF-8", ""},
		{strings.Repeat("(", 65) + "true" + strings.Repeat(")", 65), 1, 65, "nested deeper", ""},
		{strings.Repeat("true && ", 600) + "true", 1, 1, "longer than 4096 bytes", "split"},
		{`errors > 0 for three consecutive tasks`, 1, 16, `"three" is not a number`, ""},
		{`errors > 0 for 0 consecutive tasks`, 1, 16, "not a number from 1", ""},
		{`errors > 0 for 1001 consecutive tasks`, 1, 16, "not a number from 1", ""},
		{`errors > 0 for 3 consecutive moons`, 1, 30, `cannot count consecutive "moons"`, "use tasks"},
		{`eror > 0 for 3 consecutive tasks`, 1, 1, "unknown name eror", "did you mean errors?"},
		{`any(1..1000000, # == retries)`, 1, 0, "range", ""},
		{`retries in 1..tokens`, 1, 0, "range", ""},
		{`all([1], all([1], all([1], true)))`, 1, 0, "nested deeper than 2", ""},
		{`now().Year() > 2000`, 1, 1, "now is not available", ""},
		{`reduce(1..100, #acc + #acc, phase) == ""`, 1, 0, "reduce is not available", ""},
		{`let a = phase + phase; a == ""`, 1, 0, "let", ""},
		{`repeat("x", 999999999) == phase`, 1, 1, "repeat is not available", ""},
		{`true; false`, 1, 0, "", ""},
	} {
		_, err := condition.Compile(c.source, condition.Metrics{})
		e, ok := errors.AsType[*condition.Error](err)
		if !ok {
			t.Errorf("%.60q: %v", c.source, err)
			continue
		}
		if e.Line != c.line || c.column > 0 && e.Column != c.column || !strings.Contains(e.Text, c.text) || !strings.HasPrefix(e.Hint, c.hint) {
			t.Errorf("%.60q: %d:%d %q (%q), want %d:%d %q (%q)", c.source, e.Line, e.Column, e.Text, e.Hint, c.line, c.column, c.text, c.hint)
		}
		if strings.ContainsAny(err.Error(), "\n\x00\x1b") {
			t.Errorf("%.60q: the error is not one plain line: %q", c.source, err)
		}
	}
	if _, err := condition.Compile(`priority < 3 for 2 consecutive tasks`, condition.Task{}); err == nil {
		t.Error("a filter of tasks counted")
	}
	if _, err := condition.Compile(`error_rate > 1`, condition.Task{}); err == nil || !strings.Contains(err.Error(), "unknown name error_rate") {
		t.Errorf("a filter of tasks saw the run: %v", err)
	}
}

func TestRate(t *testing.T) {
	for _, c := range []struct {
		part, whole int
		want        float64
	}{{0, 0, 0}, {1, 0, 0}, {1, 2, .5}, {2, 2, 1}, {3, 2, 1}, {-1, 2, 0}, {1, -2, 0}} {
		if got := condition.Rate(c.part, c.whole); got != c.want {
			t.Errorf("%d of %d: %v", c.part, c.whole, got)
		}
	}
}

// The slowest things that compile end soon.
func TestNoConditionRunsLong(t *testing.T) {
	task := condition.Task{Labels: strings.Split(strings.Repeat("x", 100), ""), Description: strings.Repeat("long text ", 1000)}
	for _, source := range []string{
		`all(1..100, all(1..100, len(split(description, "x")) > 0))`,
		`all(labels, all(labels, # matches "(a+)+$" or description matches "(t+)+$" or true))`,
		`len(filter(1..100, len(map(1..100, title + description)) > 0)) > 0`,
		`2 ** 2 ** 2 ** 2 ** 2 ** 2 ** 2 > 1`,
	} {
		c := mustCompile(t, source, task)
		start := time.Now()
		_, err := c.Holds(task)
		if took := time.Since(start); took > time.Minute {
			t.Errorf("%q took %v (%v)", source, took, err)
		}
	}
}

func FuzzCompile(f *testing.F) {
	for _, seed := range []string{
		"", "error_rate > 0.5", "confidence < 0.3 for 3 consecutive tasks", "((((", strings.Repeat("(", 4000), strings.Repeat("[", 2000) + strings.Repeat("]", 2000), strings.Repeat("!", 4000) + "true", strings.Repeat("-", 4000) + "1",
		"a\x00", "\xff\xfe", strings.Repeat("a?.", 1000), "any(1..9, any(1..9, true))", "let x = 1; x > 0", "phase / 0", "1/0 > 0", "tokens % 0 == 0", "``", `"\u{110000}"`, "for 3 consecutive tasks", "true for 99999999999999999999 consecutive tasks",
		strings.Repeat("true?", 700) + "true" + strings.Repeat(":true", 700), strings.Repeat("not ", 1000) + "true", "phase matches phase", "{a: 1}.a == 1", "#", "$env", "$env.phase == ''", "phase[0:1] == ''", "retries..tokens == []", strings.Repeat("errors**", 500) + "1 > 0",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, source string) {
		c, err := condition.Compile(source, condition.Metrics{Phase: "x"})
		if err != nil {
			e, ok := errors.AsType[*condition.Error](err)
			if !ok || e.Line < 1 || e.Column < 1 || e.Text == "" {
				t.Fatalf("%q: %#v", source, err)
			}
			return
		}
		if len(source) > condition.MaxBytes || c.Consecutive() < 1 {
			t.Fatalf("%q compiled", source)
		}
		start := time.Now()
		_, _ = c.Holds(condition.Metrics{Phase: "implementation", Task: "US-1", Tokens: 7}) // no answer is an answer; it must come, and without a panic
		if took := time.Since(start); took > time.Minute {
			t.Fatalf("%q took %v", source, took)
		}
	})
}
