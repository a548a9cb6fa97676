package scripts

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/hinshun/vt10x"

	"ralph/coordinator/loop"
	"ralph/coordinator/permission"
	"ralph/coordinator/result"
	"ralph/memory/feature"
	"ralph/workers/agent"
)

func busy(n int, now time.Time) *loop.View {
	v := &loop.View{Feature: "auth", Status: feature.Running, Iteration: 9, MaxIterations: 300, Counts: loop.Counts{Done: 5, Failed: 1, Skipped: 1, Open: 5, Total: 12}, Tokens: 14_200, StartedAt: now.Add(-3 * time.Minute)}
	titles := []string{"Retry the upload on 503", "日本語のタイトルはとても長いので切られる必要があります", "👩‍👩‍👧 emoji and \x1b[31mescape\x1b[0m", "", strings.Repeat("long ", 40)}
	for i := range n {
		v.Active = append(v.Active, loop.Row{ID: fmt.Sprintf("T-%d", i+1), Title: titles[i%len(titles)], Status: "in_progress", Agent: "agent_" + fmt.Sprint(i), Attempt: i%3 + 1, Since: now.Add(-time.Duration(i) * time.Minute)})
	}
	return v
}

// No line is wider than it may be, at no width, and the bar is always there.
func TestBoardFits(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	cost := 1.25
	for _, n := range []int{0, 1, 4, 30} {
		v := busy(n, now)
		v.CostUSD, v.Breaker = &cost, "half_open"
		v.Question = &permission.Question{Text: "may I?\nreally"}
		v.Waiting = &loop.Wait{For: "rate_limit", Agent: "claude", Until: now.Add(time.Minute)}
		b := &board{view: v}
		for columns := 20; columns <= 200; columns += 7 {
			for rows := 1; rows <= 12; rows++ {
				lines := b.lines(columns, rows, now)
				if len(lines) > max(rows, 1) || len(lines) == 0 {
					t.Fatalf("%d lines for %d rows, %d tasks", len(lines), rows, n)
				}
				for _, l := range lines {
					if w := width(cutTo(l, columns)); w > columns || strings.ContainsAny(l, "\n\r\x1b\t") || !utf8.ValidString(l) {
						t.Fatalf("%d columns: %q", columns, l)
					}
				}
				if bar := lines[len(lines)-1]; !strings.HasPrefix(bar, "[") || !strings.Contains(bar, "5/12") {
					t.Fatalf("no bar: %q", bar)
				}
			}
		}
	}
	if got := bar(11, 12, 10); got != "[#########-]" {
		t.Error(got)
	}
	if got := bar(0, 0, 4) + bar(3, 3, 4); got != "[----][####]" {
		t.Error(got)
	}
}

func screen(p *area, columns, rows int) (vt10x.Terminal, func() string) {
	term := vt10x.New(vt10x.WithSize(columns, rows))
	p.w = writerFunc(func(b []byte) (int, error) {
		_, err := term.Write(bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))) // as the line discipline does
		return len(b), err
	})
	p.width = func() int { c, _ := term.Size(); return c }
	p.height = func() int { _, r := term.Size(); return r }
	return term, func() string {
		var out []string
		for l := range strings.Lines(term.String()) {
			out = append(out, strings.TrimRight(l, " \n"))
		}
		return strings.TrimRight(strings.Join(out, "\n"), "\n")
	}
}

func TestArea(t *testing.T) {
	var a area
	_, shown := screen(&a, 40, 10)
	a.draw([]string{"one", "two", "three"})
	a.above("first line\nsecond line\n")
	if got := shown(); got != "first line\nsecond line\none\ntwo\nthree" {
		t.Errorf("%q", got)
	}
	a.draw([]string{"o", "t"})
	if got := shown(); got != "first line\nsecond line\no\nt" {
		t.Errorf("%q", got)
	}
	a.draw([]string{"a much longer line that does not fit into the forty columns", "t", "日本語日本語日本語日本語日本語日本語日本語日本語"})
	for l := range strings.Lines(shown()) {
		if width(strings.TrimRight(l, "\n")) > 39 {
			t.Errorf("%q", l)
		}
	}
	// At the bottom of the screen it scrolls, and nothing is left behind.
	for i := range 20 {
		a.above(fmt.Sprintf("line %d\n", i))
	}
	a.draw([]string{"x", "y"})
	if got := shown(); got != "line 12\nline 13\nline 14\nline 15\nline 16\nline 17\nline 18\nline 19\nx\ny" && !strings.HasSuffix(got, "line 18\nline 19\nx\ny") {
		t.Errorf("%q", got)
	}
	a.clear()
	if got := shown(); !strings.HasSuffix(got, "line 19") {
		t.Errorf("%q", got)
	}
	a.above("the end\n")
	if got := shown(); !strings.HasSuffix(got, "line 19\nthe end") {
		t.Errorf("%q", got)
	}
}

// A change is one write that erases nothing that stays: nothing flickers.
func TestAreaDoesNotFlicker(t *testing.T) {
	var writes []string
	a := area{w: writerFunc(func(b []byte) (int, error) { writes = append(writes, string(b)); return len(b), nil }), width: func() int { return 80 }}
	a.draw([]string{"one", "two"})
	a.draw([]string{"one", "deux"})
	a.above("said\n")
	if len(writes) != 3 {
		t.Fatalf("%d writes: %q", len(writes), writes)
	}
	for _, w := range writes[1:] {
		if strings.Contains(w, "\x1b[2K") || strings.Contains(w, "\x1b[2J") || strings.HasPrefix(w, "\r\x1b[K") {
			t.Errorf("%q", w)
		}
	}
	if writes[1] != "\r\x1b[1A\rone\x1b[K\n\rdeux\x1b[K\x1b[J" {
		t.Errorf("%q", writes[1])
	}
}

// A terminal that became narrower has wrapped what was drawn.
func TestAreaNarrower(t *testing.T) {
	columns := 80
	var last string
	a := area{w: writerFunc(func(b []byte) (int, error) { last = string(b); return len(b), nil }), width: func() int { return columns }}
	a.draw([]string{strings.Repeat("a", 79), strings.Repeat("b", 30), strings.Repeat("c", 60)})
	columns = 40
	if n := a.height0(); n != 2+1+2 {
		t.Errorf("%d rows", n)
	}
	a.draw([]string{"x"})
	if !strings.HasPrefix(last, "\r\x1b[4A") || !strings.HasSuffix(last, "\x1b[J") {
		t.Errorf("%q", last)
	}
	columns = 5 // too narrow for anything
	a.draw([]string{"x"})
	if len(a.drawn) > 0 {
		t.Error("drawn")
	}
	a.height = func() int { return 8 }
	if a.rows(12) != 5 || a.rows(3) != 3 {
		t.Error(a.rows(12))
	}
}

func TestBoardOnATerminal(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	v := busy(3, now)
	p := &progress{now: func() time.Time { return now }, began: now, calls: map[string]string{}, tries: map[string]int{}, board: &board{ask: func() *loop.View { return v }}}
	_, shown := screen(&p.area, 40, 12)
	p.look()
	p.event(agent.Event{Type: agent.EventTaskEnd, TaskID: "T-9", Status: "done", Text: "nine", Agent: "ralph"})
	got := shown()
	wantText(t, got, "ralph: T-9 done: nine\n  T-1  Retry the", "T-3", "[#####----] 5/12 · 1 failed · 3 at work")
	for l := range strings.Lines(got) {
		if width(strings.TrimRight(l, "\n")) > 39 && !strings.HasPrefix(l, "ralph:") {
			t.Errorf("%q", l)
		}
	}
	resume := p.suspend()
	p.look()
	if got := shown(); strings.Contains(got, "5/12") {
		t.Errorf("the table is there while a question is asked:\n%s", got)
	}
	resume()
	p.look()
	wantText(t, shown(), "5/12")
	p.done = make(chan struct{})
	p.close()
	if got := shown(); got != "ralph: T-9 done: nine" {
		t.Errorf("%q", got)
	}
}

// Elsewhere a line tells now and then how the run stands; what ends has its own.
func TestBoardInALog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards out and v
		var buf bytes.Buffer
		said := func() string {
			mu.Lock()
			defer mu.Unlock()
			return buf.String()
		}
		out := writerFunc(func(b []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return buf.Write(b)
		})
		v := busy(2, time.Now())
		v.Counts = loop.Counts{Open: 3, Total: 3}
		p := &progress{area: area{w: out}, now: time.Now, began: time.Now(), calls: map[string]string{}, done: make(chan struct{})}
		p.watch(func() *loop.View {
			mu.Lock()
			defer mu.Unlock()
			c := *v
			return &c
		})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if said() != "" {
			t.Errorf("%q", said())
		}
		mu.Lock()
		v.Counts.Done, v.Counts.Open = 1, 2
		mu.Unlock()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if said() != "" {
			t.Errorf("said before a minute is over: %q", said())
		}
		time.Sleep(21 * time.Second)
		synctest.Wait()
		if got := said(); strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, "ralph: 1 of 3 tasks done; at work: T-1 ") || strings.Contains(got, "\x1b") {
			t.Errorf("%q", got)
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if n := strings.Count(said(), "\n"); n < 3 || n > 4 {
			t.Errorf("%d lines in three minutes:\n%s", n, said())
		}
		p.close()
	})
}

func TestNotification(t *testing.T) {
	for form, want := range map[string]string{
		"osc9": "\x1b]9;Ralph: a b␇␛, 3/4\x1b\\", "osc777": "\x1b]777;notify;Ralph;a b␇␛, 3/4\x1b\\", "bell": "\a",
		"osc99": "\x1b]99;i=ralph:d=0:e=1:p=title;UmFscGg=\x1b\\\x1b]99;i=ralph:d=1:e=1:p=body;YSBi4pCH4pCbLCAzLzQ=\x1b\\",
	} {
		// What a model or a plan says ends no sequence and begins none.
		if got := notification(form, "Ralph", "a\tb\a\x1b; 3\\4\nmore"); got != want {
			t.Errorf("%s: %q, want %q", form, got, want)
		}
	}
	for want, env := range map[string]map[string]string{
		"bell": {"TERM": "xterm-256color"}, "osc9": {"TERM_PROGRAM": "iTerm.app"}, "osc777": {"TERM": "xterm-256color", "VTE_VERSION": "7200"}, "osc99": {"TERM": "xterm-kitty"},
	} {
		if got := notifyForm(func(k string) string { return env[k] }); got != want {
			t.Errorf("%v: %s, want %s", env, got, want)
		}
	}
	if got := notifyForm(func(k string) string {
		return map[string]string{"TMUX": "/tmp/x", "TERM_PROGRAM": "iTerm.app"}[k]
	}); got != "bell" {
		t.Errorf("in tmux: %s", got)
	}
}

func TestNotifier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		n := &notifier{send: func(string) { sent++ }, form: "bell", now: time.Now, after: longWork, since: time.Now()}
		time.Sleep(20 * time.Second)
		n.ended(&Result{Status: result.Completed})
		if sent != 0 {
			t.Error("short work")
		}
		time.Sleep(15 * time.Second)
		n.tell("Ralph needs you", "which?")
		n.here() // they answered
		n.ended(&Result{Status: result.Failed})
		if sent != 1 {
			t.Errorf("%d after an answer", sent)
		}
		time.Sleep(time.Minute)
		n.ended(&Result{Status: result.Interrupted})
		n.ended(&Result{Status: result.Limit})
		if sent != 2 {
			t.Errorf("%d at the end", sent)
		}
		var none *notifier
		none.tell("", "")
		none.ended(&Result{})
		if none.alarmed(nil) != nil {
			t.Error("a way to ask came of nothing")
		}
	})
}

// After another width the rows of the block are erased before they are drawn over:
// a terminal that wrapped them would join them with those below when it gets wide
// again, and the block would then take a line of the text above with it.
func TestAreaIsDrawnAnewAfterAnotherWidth(t *testing.T) {
	var out bytes.Buffer
	columns := 80
	a := &area{w: &out, width: func() int { return columns }}
	a.draw([]string{strings.Repeat("x", 79), "bar"})
	out.Reset()
	a.draw([]string{"y", "bar"})
	if first, _, _ := strings.Cut(out.String(), "y"); strings.Contains(first, "\x1b[J") {
		t.Errorf("it flickers: %q", out.String())
	}
	a.draw([]string{strings.Repeat("x", 79), "bar"})
	out.Reset()
	columns = 50
	a.draw([]string{"y", "bar"})
	if got := out.String(); !strings.HasPrefix(got, "\r\x1b[2A\x1b[J") {
		t.Errorf("%q", got)
	}
}

// What is said above the board is wrapped between words, and what follows hangs
// below it.
func TestLinesBreakBetweenWords(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	p := &progress{now: func() time.Time { return now }, began: now, calls: map[string]string{}, tries: map[string]int{}}
	_, shown := screen(&p.area, 40, 12)
	p.event(agent.Event{Type: agent.EventTaskEnd, TaskID: "T-9", Status: "done", Text: "the upload is tried again with a longer wait", Agent: "ralph"})
	if want := "ralph: T-9 done: the upload is tried\n    again with a longer wait"; shown() != want {
		t.Errorf("%q, want %q", shown(), want)
	}
	for _, x := range []struct {
		text    string
		columns int
		want    string
	}{
		{"ralph: error: short\n", 40, "ralph: error: short\n"},
		{"ralph: hint: `ralph run --continue` goes on with it\n", 30, "ralph: hint: `ralph run\n    --continue` goes on with\n    it\n"},
		{"no screen at all, and nobody knows how wide it is\n", 0, "no screen at all, and nobody knows how wide it is\n"},
		{"one\ntwo words and\n", 9, "one\ntwo words\n    and\n"},
	} {
		if got := hung(x.text, x.columns, hanging); got != x.want {
			t.Errorf("%d columns: %q, want %q", x.columns, got, x.want)
		}
	}
}

// A stop is told once, with its reason at the end.
func TestStopIsToldOnce(t *testing.T) {
	var out bytes.Buffer
	p := &progress{area: area{w: &out}, now: time.Now, began: time.Now(), calls: map[string]string{}, tries: map[string]int{}}
	p.event(agent.Event{Type: agent.EventInterrupt, Status: "stopping", Reason: "interrupted by SIGINT"})
	p.event(agent.Event{Type: agent.EventInterrupt, Status: "stopped", Reason: "interrupted by SIGINT", Text: "1 command ended, nothing is left running"})
	if got := out.String(); got != "ralph: stopped: 1 command ended, nothing is left running\n" {
		t.Errorf("%q", got)
	}
}
