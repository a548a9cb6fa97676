package render

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ralph/workers/agent"
)

// atWork is a run in the middle of its work, with words of many widths.
func atWork(now time.Time, n int) Run {
	run := Run{Status: "running", Phase: "implementation", Iteration: 8, MaxIterations: 300, Done: 5, Failed: 1, Open: 6 + n,
		Next: []RunTask{{ID: "US-010", Title: "ログイン画面を直す"}, {ID: "US-011", Title: "Describe the keys"}}}
	for i := range n {
		t := RunTask{ID: fmt.Sprintf("US-%03d", i+1), Title: "Retry the upload when the connection breaks off in the middle", Agent: "retry_upload", Since: now.Add(-time.Duration(65+i) * time.Second)}
		switch i % 3 {
		case 1:
			t.Title, t.Agent, t.Attempt, t.Doing = "日本語の長い題名を持つ仕事、端末の幅よりも長い", "codex", 2, "shell go test ./..."
		case 2:
			t.Title, t.Agent, t.Doing, t.Beside = "", "resolver", "edit\x1b[2J main.go", true
		}
		run.Active = append(run.Active, t)
	}
	return run
}

func TestRunRows(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	var out strings.Builder
	for _, width := range []int{40, 80, 200} {
		r := New(Options{Width: width})
		waits := atWork(now, 2)
		waits.Status, waits.Waiting, waits.Until = "running", "the limit of requests at codex", now.Add(12*time.Minute)
		asks := atWork(now, 0)
		asks.Status, asks.Question = "paused", "The breaker is open: error_rate > 0.5.\nGo on?"
		empty := Run{Status: "initializing"}
		for _, run := range []Run{atWork(now, 1), atWork(now, 3), atWork(now, 20), waits, asks, empty} {
			fmt.Fprintf(&out, "%d columns\n%s\n", width, strings.Join(r.RunRows(run, now), "\n"))
		}
	}
	ascii := New(Options{Width: 60, ASCII: true})
	fmt.Fprintf(&out, "ascii\n%s\n", strings.Join(ascii.RunRows(atWork(now, 5), now), "\n"))
	golden(t, "run", out.String())
}

// However wide the terminal and whatever the run, its rows are few, fit, and hold
// nothing that a terminal would act on.
func TestRunRowsAlwaysFit(t *testing.T) {
	now := time.Now()
	for width := 20; width <= 220; width += 3 {
		for n := range 9 {
			for _, theme := range []Theme{ThemeNone, ThemeDark} {
				r := New(Options{Width: width, Theme: theme})
				run := atWork(now, n)
				if n%2 == 1 {
					run.Next = nil
				}
				rows := r.RunRows(run, now)
				if len(rows) > runRows {
					t.Fatalf("%d rows at %d columns with %d tasks", len(rows), width, n)
				}
				for _, row := range rows {
					if columns(row) > width-1 || strings.Contains(row, "\n") || harmful(row) != "" {
						t.Fatalf("%d columns: a row of %d: %q", width, columns(row), row)
					}
				}
				if n > 0 && n <= 4 && len(rows) < n+1 {
					t.Errorf("%d columns: of %d tasks %d rows", width, n, len(rows))
				}
				if n > 5 && !strings.Contains(strings.Join(rows, "\n"), "more at") && width > 40 {
					t.Errorf("%d tasks, and no word of those that are not shown:\n%s", n, strings.Join(rows, "\n"))
				}
			}
		}
	}
}

func TestEventsOfARun(t *testing.T) {
	yes, no, took := true, false, int64(65_000)
	events := []agent.Event{
		{Type: agent.EventDecision, TaskID: "US-001", Status: "execute", Text: "execute US-001: confidence 0.86", Reason: "clear, and nothing is missing"},
		{Type: agent.EventDecision, TaskID: "US-009", Status: "pause", Text: "Which of the two?", Reason: "nobody is there to answer"},
		{Type: agent.EventTaskStart, Agent: "ralph", TaskID: "US-001", Text: "Retry the upload\nand more"},
		{Type: agent.EventChildStart, Agent: "retry_the_upload", TaskID: "US-001", Text: "US-001 Retry the upload\nand more", Reason: "ralph"},
		{Type: agent.EventTaskStart, Agent: "ralph", TaskID: "US-002", Text: "ログイン", Attempt: 2},
		{Type: agent.EventChildStart, Agent: "add_login", TaskID: "US-002", Text: "US-002 ログイン", Reason: "ralph"},
		{Type: agent.EventTaskEnd, TaskID: "US-001", Status: "done", Text: "the upload is tried again", Output: "merged 01234567, check passed", OK: &yes, DurationMS: &took},
		{Type: agent.EventTaskEnd, TaskID: "US-002", Status: "done", Text: "done", Reason: "nothing was checked", OK: &no, Attempt: 2},
		{Type: agent.EventTaskEnd, TaskID: "US-003", Status: "failed", Reason: "check `go test ./...` exits 1"},
		{Type: agent.EventTaskEnd, TaskID: "US-004", Status: "skipped", Reason: "it depends on US-003, which failed"},
		{Type: agent.EventTaskEnd, TaskID: "US-005", Status: "needs_input"},
		{Type: agent.EventTaskEnd, TaskID: "US-005", Status: "retry", Text: "TOLD TWICE", Reason: "check `make test` exits 2"},
		{Type: agent.EventGate, Text: "tests", Reason: "tasks_failed == 0", OK: &no},
		{Type: agent.EventGate, Text: "coverage", Status: "errored", Reason: "no value for coverage", OK: &no},
		{Type: agent.EventGate, Text: "docs", Reason: "features_documented >= 3", OK: &yes},
		{Type: agent.EventBreaker, Status: "open", Text: "error_rate > 0.5", Reason: "5 of 8 attempts failed", Rule: "pause_and_request_help"},
		{Type: agent.EventBreaker, Status: "half_open", Text: "a probe is let through"},
		{Type: agent.EventBreaker, Status: "closed", Text: "3 of 3 probes went well"},
		{Type: agent.EventRetry, TaskID: "US-002", Attempt: 1, Text: "ログイン", Reason: "check `make test` exits 2\nand more", WaitMS: 4000, Ref: "codex"},
		{Type: agent.EventDecision, TaskID: "\x1b[2J", Status: "escalate", Reason: "evil\x07"},
	}
	var out strings.Builder
	for _, o := range []Options{{Width: 72}, {Width: 40, ASCII: true}} {
		r := New(o)
		out.WriteString(r.Event(agent.Event{Type: agent.EventTurnStart, Turn: 1}))
		out.WriteString(r.Event(agent.Event{Type: agent.EventMessageDelta, Turn: 1, Text: "half a sent"}))
		for _, e := range events {
			out.WriteString(r.Event(e))
		}
		if rest := r.Flush(); !strings.Contains(rest, "half a sent") {
			t.Errorf("the lines of the run ended what was being written: %q", rest)
		}
		out.WriteString(r.Progress(atWork(time.Time{}, 2)))
	}
	if bad := harmful(out.String()); bad != "" {
		t.Error(bad)
	}
	golden(t, "run_events", out.String())
	// A request that is tried again, and a check, are what they were.
	r := New(Options{Width: 72})
	code := 1
	if got := r.Event(agent.Event{Type: agent.EventGate, Text: "make check", OK: &no, ExitCode: &code}); got != "✗ check make check  failed, exit 1\n" {
		t.Errorf("a check is %q", got)
	}
	if got := r.Event(agent.Event{Type: agent.EventRetry, Attempt: 1, Reason: "503", WaitMS: 100}); got != "↻ try 1 failed: 503; next in 100 ms\n" {
		t.Errorf("a request is %q", got)
	}
}

// A task of a plan has one line when its agent begins, one for each time that it
// is tried again, and one for its end; other agents tell of themselves.
func TestChildrenOfARunSayLittle(t *testing.T) {
	yes, no := true, false
	r := New(Options{Width: 80})
	got := ""
	for _, e := range []agent.Event{
		{Type: agent.EventDecision, TaskID: "US-1", Status: "execute", Text: "execute US-1: confidence 0.86"},
		{Type: agent.EventTaskStart, TaskID: "US-1", Text: "add the form", Attempt: 1},
		{Type: agent.EventChildStart, TaskID: "US-1", Agent: "auth", Text: "US-1 add the form", Reason: "ralph"},
		{Type: agent.EventChildEnd, TaskID: "US-1", Agent: "auth", Status: "failed", OK: &no, Reason: "its check failed"},
		{Type: agent.EventRetry, TaskID: "US-1", Attempt: 1, Reason: "its check failed"},
		{Type: agent.EventTaskEnd, TaskID: "US-1", Status: "retry", Reason: "its check failed"},
		{Type: agent.EventDecision, TaskID: "US-1", Status: "retry", Text: "retry US-1: confidence 0.86"},
		{Type: agent.EventTaskStart, TaskID: "US-1", Text: "add the form", Attempt: 2},
		{Type: agent.EventChildStart, TaskID: "US-1", Agent: "auth", Text: "US-1 add the form", Reason: "ralph"},
		{Type: agent.EventChildEnd, TaskID: "US-1", Agent: "auth", Status: "done", Text: "the form is there", OK: &yes},
		{Type: agent.EventChildEnd, TaskID: "US-1", Agent: "auth", Status: "merged", Ref: "0123456789", OK: &yes},
		{Type: agent.EventTaskEnd, TaskID: "US-1", Status: "done", Text: "add the form", Output: "merged 01234567, check passed", OK: &yes, Attempt: 2},
		{Type: agent.EventChildStart, Agent: "docs", Text: "describe it", Reason: "ralph"},
		{Type: agent.EventChildEnd, Agent: "docs", Status: "conflict", OK: &no, Reason: "keys.md"},
	} {
		got += r.Event(e)
	}
	want := "· US-1 begins: add the form  auth\n↻ US-1 try 1 failed: its check failed\n✓ US-1 done: add the form  merged 01234567, check passed · try 2\n" +
		"· docs begins: describe it\n! docs conflict: keys.md\n"
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestFacts(t *testing.T) {
	text := "US-2: execute (confidence 0.86)\nexecute has the best score of what is possible here\n  execute   0.75\x1b[2J\n\ttabbed"
	for width, want := range map[int]string{
		80: "┃ why US-2\n┃ US-2: execute (confidence 0.86)\n┃ execute has the best score of what is possible here\n┃   execute   0.75␛[2J\n┃     tabbed\n",
		30: "┃ why US-2\n┃ US-2: execute (confidence\n┃ 0.86)\n┃ execute has the best score\n┃ of what is possible here\n┃   execute   0.75␛[2J\n┃     tabbed\n",
	} {
		if got := New(Options{Width: width}).Facts("why US-2", text); got != want {
			t.Errorf("%d columns:\n%s\nwant\n%s", width, got, want)
		}
	}
}
