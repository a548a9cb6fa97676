package page

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ralph/memory/session"
	"ralph/memory/session/folder"
)

var start = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)

// TestBounds feeds any events: what is kept has its bounds, what is merged is
// counted, and everything lies on the axis.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := New()
		tasks := rapid.IntRange(1, 5000).Draw(t, "tasks")
		spread := rapid.SampledFrom([]int64{1, 1000, 86_400_000, 4e12}).Draw(t, "spread")
		n := rapid.IntRange(0, 2500).Draw(t, "events")
		seed := rapid.Uint64().Draw(t, "seed")
		next := func(below int64) int64 {
			seed = seed*6364136223846793005 + 1442695040888963407
			return int64(seed>>33) % below
		}
		types := []folder.EventType{folder.TaskStart, folder.TaskStart, folder.TaskComplete, folder.Errored, folder.GateChecked, folder.Interrupted, folder.SessionStart, folder.SessionEnd, folder.Decided}
		errorsSeen, gates := 0, 0
		for range n {
			e := folder.Event{Time: start.Add(time.Duration(next(spread)) * time.Millisecond), Type: types[next(int64(len(types)))], TaskID: fmt.Sprint("T-", next(int64(tasks))),
				Duration: time.Duration(next(1e6)) * time.Millisecond, Details: map[string]any{"decision_type": "permission"}}
			switch e.Type {
			case folder.Errored:
				errorsSeen++
			case folder.GateChecked:
				gates++
			}
			c.Event("e1", e)
			c.Record(session.Record{Time: e.Time, Kind: "event", Payload: fmt.Appendf(nil, `{"type":%q,"agent":"a%d","usage":{"input":7},"turn":%d}`,
				[]string{"turn_start", "usage", "child_start", "child_end"}[next(4)], next(int64(tasks)), next(9))})
		}
		v := c.Result(folder.Data{})
		if bars := len(v.taskBars) + len(v.agentBars) + len(v.waits); bars > 400 {
			t.Fatalf("%d bars", bars)
		}
		if len(v.marks) > maxMarks {
			t.Fatalf("%d marks", len(v.marks))
		}
		sum := [lanes]int{}
		for _, m := range v.marks {
			sum[m.lane] += m.n
		}
		if sum != v.counts || sum[laneError] != errorsSeen || sum[lanePassed]+sum[laneGateFailed] != gates {
			t.Fatalf("the marks stand for %v, counted were %v; %d errors, %d gates", sum, v.counts, errorsSeen, gates)
		}
		onAxis(t, v)
	})
}

func onAxis(t *rapid.T, v Timeline) {
	s := v.axis()
	x, y := 0.0, v.marks
	for _, p := range s.parts {
		if p.x0 < x-1e-6 || p.x1 < p.x0 || p.to < p.from || p.x1 > axisEnd+1e-6 {
			t.Fatalf("the axis has a part %+v after %v", p, x)
		}
		x = p.x1
	}
	for _, m := range y {
		if at := s.x(m.at); !(at >= axisBegin && at <= axisEnd) {
			t.Fatalf("a mark lies at %v", at)
		}
	}
	if pic := newTimeline(v); pic != nil {
		if len(pic.Ticks) > 60 {
			t.Fatalf("%d ticks", len(pic.Ticks))
		}
		if len(pic.Groups) > 0 && len(pic.Groups[0].Rows) > 2*maxTaskRows {
			t.Fatalf("%d rows", len(pic.Groups[0].Rows))
		}
	}
}

// TestFlowKeepsTheSum pours amounts in any order.
func TestFlowKeepsTheSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f flow
		sum := int64(0)
		times := rapid.SliceOfN(rapid.Int64Range(-6e13, 2.5e14), 0, 50).Draw(t, "times")
		for i := range rapid.IntRange(0, 80).Draw(t, "rounds") {
			for _, at := range times {
				f.add(timed{at + int64(i), amount{fresh: 3}})
				sum += 3
			}
		}
		got := int64(0)
		list, width := f.samples()
		for i, x := range list {
			got += x.fresh
			if i > 0 && x.at < list[i-1].at {
				t.Fatal("the samples are out of order")
			}
		}
		if got != sum || len(list) > maxRaw || width < 0 {
			t.Fatalf("%d of %d are left, in %d samples", got, sum, len(list))
		}
	})
}

// TestSameEventsSameTimeline: many that are open at once end in one order.
func TestSameEventsSameTimeline(t *testing.T) {
	make := func() string {
		c := New()
		for i := range 6000 {
			c.Event("e1", folder.Event{Time: start.Add(time.Duration(i%7) * time.Second), Type: folder.TaskStart, TaskID: fmt.Sprint("T-", i)})
			c.Record(session.Record{Time: start, Kind: "event", Payload: fmt.Appendf(nil, `{"type":"child_start","agent":"a%d"}`, i)})
		}
		c.Event("e1", folder.Event{Time: start.Add(time.Minute), Type: folder.SessionEnd})
		v := c.Result(folder.Data{})
		return fmt.Sprint(v.taskBars, v.agentBars, v.ended)
	}
	if first, again := make(), make(); first != again {
		t.Error("the same events make another timeline")
	}
}

// TestAttempts tells the same work in different ways.
func TestAttempts(t *testing.T) {
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	ev := func(s int, k folder.EventType, result string, took int) folder.Event {
		return folder.Event{Time: at(s), Type: k, TaskID: "T-1", TaskName: "Build", Result: result, Duration: time.Duration(took) * time.Second}
	}
	for name, c := range map[string]struct {
		events []folder.Event
		want   string
	}{
		"one":               {[]folder.Event{ev(0, folder.TaskStart, "", 0), ev(9, folder.TaskComplete, "done", 9)}, "0-9 done"},
		"an end alone":      {[]folder.Event{ev(9, folder.TaskComplete, "success", 4)}, "5-9 done"},
		"retried":           {[]folder.Event{ev(0, folder.TaskStart, "", 0), ev(3, folder.Errored, "", 0), ev(3, folder.Retried, "", 0), ev(4, folder.TaskStart, "", 0), ev(9, folder.TaskComplete, "done", 9)}, "0-3 failed, 4-9 done"},
		"given up":          {[]folder.Event{ev(0, folder.TaskStart, "", 0), ev(3, folder.Errored, "", 0), ev(4, folder.TaskComplete, "failed", 4)}, "0-3 failed"},
		"went on":           {[]folder.Event{ev(0, folder.TaskStart, "", 0), ev(3, folder.Errored, "", 0), ev(7, folder.TaskComplete, "done", 7)}, "0-3 failed, 3-7 done"},
		"begun twice":       {[]folder.Event{ev(0, folder.TaskStart, "", 0), ev(5, folder.TaskStart, "", 0), ev(8, folder.TaskComplete, "", 0)}, "0-5 stopped, 5-8 done"},
		"over a resume":     {[]folder.Event{ev(0, folder.TaskStart, "", 0), ev(2, folder.SessionEnd, "", 0), ev(50, folder.SessionStart, "", 0), ev(51, folder.TaskStart, "", 0), ev(60, folder.TaskComplete, "done", 0)}, "0-2 stopped, 51-60 done"},
		"no end":            {[]folder.Event{ev(0, folder.TaskStart, "", 0), ev(6, folder.Message, "", 0)}, "0-6 no end"},
		"out of order":      {[]folder.Event{ev(7, folder.TaskComplete, "done", 0), ev(2, folder.TaskStart, "", 0)}, "2-7 done"},
		"at one time":       {[]folder.Event{ev(2, folder.TaskStart, "", 0), ev(2, folder.TaskComplete, "done", 0)}, "2-2 done"},
		"skipped at once":   {[]folder.Event{ev(1, folder.TaskComplete, "skipped", 0)}, "1-1 skipped"},
		"failed in the end": {[]folder.Event{ev(0, folder.TaskStart, "", 0), ev(4, folder.TaskComplete, "failed", 0)}, "0-4 failed"},
	} {
		col := New()
		for _, e := range c.events {
			col.Event("e1", e)
		}
		var got []string
		for _, b := range col.Result(folder.Data{}).taskBars {
			got = append(got, fmt.Sprintf("%d-%d %s", (b.from-start.UnixMilli())/1000, (b.to-start.UnixMilli())/1000, b.state.word()))
		}
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("%s: %s, want %s", name, s, c.want)
		}
	}
}

// TestTheLogOutweighsTheJournal sees that what both tell is drawn once, and
// that a journal alone tells it too.
func TestTheLogOutweighsTheJournal(t *testing.T) {
	record := func(s int, payload string) session.Record {
		return session.Record{Time: start.Add(time.Duration(s) * time.Second), Kind: "event", Payload: []byte(payload)}
	}
	feed := func(c *Collector) {
		c.Record(record(0, `{"type":"task_start","task_id":"T-1","text":"Build"}`))
		c.Record(record(2, `{"type":"gate","text":"make","ok":false}`))
		c.Record(record(3, `{"type":"task_end","task_id":"T-1","text":"Build","status":"done"}`))
	}
	alone, both := New(), New()
	feed(alone)
	feed(both)
	both.Event("e1", folder.Event{Time: start, Type: folder.GateChecked, Result: "failed"})
	if v := alone.Result(folder.Data{}); len(v.taskBars) != 1 || v.counts[laneGateFailed] != 1 || v.tasks[0].name != "Build" {
		t.Errorf("the journal alone tells %+v", v)
	}
	if v := both.Result(folder.Data{}); len(v.taskBars) != 0 || v.counts[laneGateFailed] != 1 {
		t.Errorf("both tell %+v", v)
	}
}

// TestCostIsARunningSum: an agent's events tell what its loop cost so far.
func TestCostIsARunningSum(t *testing.T) {
	c := New()
	for i, u := range []string{`"turn":1,"cost_usd":0.5`, `"turn":2,"cost_usd":0.8`, `"turn":1,"cost_usd":0.9`} {
		c.Record(session.Record{Time: start.Add(time.Duration(i) * time.Second), Kind: "event", Payload: []byte(`{"type":"usage","agent":"a","usage":{"input":10,"cached_input":4,"output":1},` + u + `}`)})
	}
	sum := amount{}
	list, _ := c.tokens.samples()
	for _, x := range list {
		sum.add(x.amount)
	}
	if math.Abs(sum.cost-1.7) > 1e-9 || sum.fresh != 18 || sum.cached != 12 || sum.output != 3 {
		t.Errorf("%+v", sum)
	}
}

// TestFolds: two short sittings three weeks apart are both to be seen, an even
// hour is not torn.
func TestFolds(t *testing.T) {
	hour := int64(3_600_000)
	s := newScale([]sitting{{0, hour}, {500 * hour, 501 * hour}})
	if len(s.parts) != 3 || !s.parts[1].folded || s.x(hour)-s.x(0) < 40 || s.x(501*hour)-s.x(500*hour) < 40 {
		t.Errorf("weeks apart: %+v", s.parts)
	}
	var even []sitting
	for i := range int64(60) {
		even = append(even, sitting{i * 60_000, i * 60_000})
	}
	if s := newScale(even); len(s.parts) != 1 {
		t.Errorf("an even hour: %+v", s.parts)
	}
	if s := newScale([]sitting{{5, 5}}); len(s.parts) != 1 || math.Abs(s.x(5)-50) > 0.01 {
		t.Errorf("one moment lies at %v", s.x(5))
	}
}

func TestWords(t *testing.T) {
	for in, want := range map[int64]string{0: "0", 999: "999", 9999: "9,999", 12345: "12.3 k", 999_400: "999 k", 999_600: "1.00 M", 1_234_567_890: "1.23 G", -1234: "-1,234"} {
		if got := brief(in); got != want {
			t.Errorf("brief(%d) = %q, want %q", in, got, want)
		}
	}
	for in, want := range map[float64]string{1: "100 %", 0.999: ">99 %", 0.5: "50 %", 0.001: "<1 %", 0: "0 %"} {
		if got := rate(in); got != want {
			t.Errorf("rate(%v) = %q, want %q", in, got, want)
		}
	}
	for in, want := range map[float64]string{0: "$0", 0.0012: "$0.0012", 0.0625: "$0.062", 14.829: "$14.83"} {
		if got := dollars(&in); got != want {
			t.Errorf("dollars(%v) = %q, want %q", in, got, want)
		}
	}
}
