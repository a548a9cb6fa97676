package analysis

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"ralph/memory/session"
	"ralph/memory/session/folder"
)

// TestTime plants two agents that overlap, a permission within a call, a check
// and a night between two Ralphs.
func TestTime(t *testing.T) {
	s := newStory()
	s.log(0, folder.SessionStart, "", "", 0, facts{"kind": "run", "model": "m"})
	s.note(0, "start", "ralph", facts{"model": "m", "sandbox": "off"})
	s.log(1, folder.TaskStart, "T-1", "", 0, nil)
	s.note(1, "child_start", "a", facts{"task_id": "T-1"})
	s.ask(2, 6, "a", 1, 100, 0.01)
	s.note(3, "child_start", "b", facts{"task_id": "T-2"})
	s.ask(4, 8, "b", 1, 100, 0.01)
	s.note(6, "tool_start", "a", facts{"call_id": "c1", "tool": "shell"})
	s.note(7, "permission", "a", facts{"call_id": "c1", "tool": "shell", "status": "asked"})
	s.note(10, "permission", "a", facts{"call_id": "c1", "tool": "shell", "status": "allowed"})
	s.note(12, "tool_end", "a", facts{"call_id": "c1", "tool": "shell", "ok": false, "duration_ms": 6000})
	s.call(11, 2, "b", "c2", "edit", true)
	s.note(14, "gate", "a", facts{"text": "make", "ok": true, "duration_ms": 1000})
	s.log(14, folder.GateChecked, "T-1", "passed", 1, facts{"check": "make"})
	s.note(15, "child_end", "a", facts{"status": "done"})
	s.log(15, folder.TaskComplete, "T-1", "done", 14, nil)
	s.log(20, folder.SessionEnd, "", "paused", 0, nil)
	s.log(50_020, folder.SessionStart, "", "", 0, facts{"model": "n"})
	s.note(50_020, "start", "ralph", facts{"model": "n"})
	s.note(50_021, "ask", "ralph", facts{"status": "asked"})
	s.note(50_025, "ask", "ralph", facts{"status": "answered"})
	s.log(50_030, folder.SessionEnd, "", "completed", 0, nil)
	a := s.end()

	x := a.Time
	is(t, "total", x.Total, 50030)
	is(t, "active", x.Active, 30)
	is(t, "model, sum", x.Model.Sum, 8)
	is(t, "model, wall", x.Model.Wall, 6)
	is(t, "tools, sum", x.Tools.Sum, 5)   // 6 less 3 of waiting, and 2
	is(t, "tools, wall", x.Tools.Wall, 4) // 6 to 7, 9 to 12
	is(t, "checks", x.Checks.Sum, 1)
	is(t, "human", x.Human.Sum, 7)
	is(t, "the longest wait", x.Waits.Max, 4)
	is(t, "busy", x.Busy, 15)  // 2 to 12, 13 to 14, and 4 of the second Ralph
	is(t, "other", x.Other, 3) // 1 to 2, 12 to 13, 14 to 15
	is(t, "idle", x.Idle, 12)
	if x.Breaks != 50_000 || x.Tools.N != 2 || x.Model.N != 2 || x.Human.N != 2 {
		t.Errorf("%+v", x)
	}
	if want := []Runs{{"shell", 1, 1, 3}, {"edit", 1, 0, 2}}; !slices.Equal(x.ByTool, want) {
		t.Errorf("tools: %+v", x.ByTool)
	}
	if *a.Session.Model != "m, n" || *a.Session.Sandbox != "off" || a.Session.Starts != 2 || a.Gates.N != 1 {
		t.Errorf("%+v %+v", a.Session, a.Gates)
	}
	i := slices.IndexFunc(x.Agents, func(g Agent) bool { return g.ID == "a" })
	if g := x.Agents[i]; g.Turns != 1 || g.ToolCalls != 1 || g.Tasks != 1 || *g.Tokens != 100 || *g.Seconds != 14 {
		t.Errorf("%+v", g)
	}
}

// TestAStoppedRequest sees that the time until a stop was spent on the model,
// and that until the death of a Ralph is not known.
func TestAStoppedRequest(t *testing.T) {
	s := newStory()
	s.note(0, "start", "ralph", nil)
	s.note(0, "turn_start", "ralph", facts{"turn": 1})
	s.note(1, "child_start", "a", nil)
	s.note(1, "turn_start", "a", facts{"turn": 1})
	s.note(3, "child_end", "a", facts{"status": "stopped"})
	s.note(4, "interrupt", "ralph", facts{"status": "stopped", "duration_ms": 20})
	s.note(5, "usage", "ralph", facts{"turn": 1, "usage": facts{"total": 5}}) // late
	s.note(6, "turn_start", "ralph", facts{"turn": 1})
	s.note(100, "start", "ralph", nil)
	s.note(101, "usage", "ralph", facts{"turn": 1})
	a := s.end()
	is(t, "model", a.Time.Model.Sum, 6)
	is(t, "active", a.Time.Active, 7) // the journal alone knows the break
	if a.Time.Model.N != 2 || *a.Tokens.Total != 5 || a.Session.Starts != 2 {
		t.Errorf("%+v %+v", a.Time.Model, a.Tokens)
	}
}

// TestADeadRalphIsNoWork sees that what was open when a Ralph died ends with its
// last sign, also when no session_end was written.
func TestADeadRalphIsNoWork(t *testing.T) {
	s := newStory()
	s.log(0, folder.SessionStart, "", "", 0, nil)
	s.log(0, folder.PhaseStart, "", "", 0, facts{"task": "x"})
	s.log(2, folder.TaskStart, "T-1", "", 0, nil)
	s.log(10, folder.GateChecked, "T-1", "failed", 1, facts{"check": "make"})
	s.log(1000, folder.SessionStart, "", "", 0, nil)
	s.log(1001, folder.TaskStart, "T-1", "", 0, nil)
	s.log(1005, folder.TaskComplete, "T-1", "done", 0, nil)
	a := s.end()
	is(t, "active", a.Time.Active, 15)
	is(t, "other", a.Time.Other, 14) // 0 to 10 and 1001 to 1005; there is no journal
	is(t, "busy", a.Time.Busy, nil)
	is(t, "model", a.Time.Model.Sum, nil)
	is(t, "the task", a.Tasks.Durations.Max, 4)
	if a.Tasks.Slowest[0].Attempts != 2 {
		t.Errorf("%+v", a.Tasks.Slowest)
	}
}

func TestTokens(t *testing.T) {
	s := newStory()
	s.note(0, "start", "ralph", facts{"model": "m"})
	s.note(0, "child_start", "a", facts{"task_id": "T-1"})
	s.ask(0, 1, "a", 1, 100, 0.1)
	s.ask(1, 2, "a", 2, 200, 0.3) // the loop's cost so far
	s.note(2, "child_end", "a", facts{"status": "done", "usage": facts{"input": 300, "total": 300}, "cost_usd": 0.3})
	s.note(3, "child_start", "a", facts{"task_id": "T-2"}) // another loop of the same name
	s.ask(3, 4, "a", 1, 50, 0.5)
	s.note(4, "child_end", "a", facts{"status": "merged"})
	s.note(5, "child_start", "claude", facts{"task_id": "T-2"}) // another tool's agent: no requests of ours
	s.note(6, "child_end", "claude", facts{"status": "done", "model": "opus", "usage": facts{"input": 900, "output": 100, "total": 1000}, "cost_usd": 2})
	s.log(7, folder.TaskComplete, "T-1", "done", 0, facts{"usage": facts{"total": 9999.0}, "cost_usd": 77.0})
	a := s.end()
	is(t, "cost", a.Tokens.Cost, 2.8)
	is(t, "tokens for each done", a.Tokens.PerDoneTask, 1350)
	if *a.Tokens.Total != 1350 || *a.Tokens.Requests != 3 || *a.Tokens.Source != session.JournalFile {
		t.Errorf("%+v", a.Tokens)
	}
	for _, list := range []struct {
		got  []UsageOf
		want string
	}{{a.Tokens.ByModel, "opus 1000 2, m 350 0.8"}, {a.Tokens.ByAgent, "claude 1000 2, a 350 0.8"}, {a.Tokens.ByTask, "T-2 1050 2.5, T-1 300 0.3"}} {
		var parts []string
		for _, u := range list.got {
			parts = append(parts, fmt.Sprint(u.ID, " ", *u.Total, " ", *u.Cost))
		}
		if got := strings.Join(parts, ", "); got != list.want {
			t.Errorf("it is %q, not %q", got, list.want)
		}
	}

	s = newStory() // without a journal, the ends of tasks tell
	s.log(1, folder.TaskComplete, "T-1", "done", 2, facts{"agent": "a", "turns": 3.0, "usage": facts{"input": 90.0, "output": "10", "total": 100.0, "estimated": true}, "cost_usd": nil})
	a = s.end()
	if *a.Tokens.Total != 100 || a.Tokens.Cost != nil || !a.Tokens.Estimated || *a.Tokens.Source != logFile || a.Tokens.ByTask[0].ID != "T-1" || a.Time.Agents[0].Turns != 3 {
		t.Errorf("%+v %+v", a.Tokens, a.Time.Agents)
	}
	s.log(2, folder.PhaseComplete, "", "completed", 2, facts{"usage": facts{"input": 500.0, "output": 20.0}, "cost_usd": 0.5, "api_ms": 1500.0, "answer": "done\x1b"})
	a = s.end() // and the end of the whole run before them
	if *a.Tokens.Total != 520 || *a.Tokens.Cost != 0.5 || *a.Time.Model.Sum != 1.5 || *a.Session.Answer != "done␛" {
		t.Errorf("%+v %+v", a.Tokens, a.Time.Model)
	}
	if a = newStory().end(); a.Tokens.Source != nil || a.Tokens.Requests != nil || a.Tokens.Cost != nil || a.Time.Total != nil {
		t.Errorf("of nothing: %+v", a.Tokens)
	}
}

// TestCostOfALoopThatGoesOn sees that a loop's cost is a sum that goes on after a
// check, in another attempt and with another Ralph, and that it is not known when
// that of a part is not.
func TestCostOfALoopThatGoesOn(t *testing.T) {
	s := newStory()
	s.note(0, "start", "ralph", facts{"model": "m"})
	s.note(0, "child_start", "a", facts{"task_id": "T-1"})
	s.ask(0, 1, "a", 1, 100, 0.1)
	s.ask(1, 2, "a", 2, 100, 0.2)
	s.note(2, "child_end", "a", facts{"status": "failed", "usage": facts{"total": 200}, "cost_usd": 0.2})
	s.note(3, "child_start", "a", facts{"task_id": "T-1"})
	s.ask(3, 4, "a", 3, 100, 0.3)
	s.note(4, "child_end", "a", facts{"status": "stopped", "usage": facts{"total": 300}, "cost_usd": 0.3})
	s.note(50, "start", "ralph", facts{"model": "m"})
	s.note(50, "child_start", "a", facts{"task_id": "T-1"})
	s.ask(50, 51, "a", 4, 100, 0.4)
	s.ask(52, 53, "ralph", 1, 10, 1)
	s.note(54, "turn_start", "ralph", facts{"turn": 1}) // another loop, whose first request told of no usage
	s.ask(55, 56, "ralph", 2, 10, 2)
	for i, cost := range []float64{0.1, 0.2, 0.3} { // of a Ralph that was killed
		s.ask(57, 58, "b", i+1, 1, cost)
	}
	s.note(58, "start", "ralph", facts{"model": "m"})
	s.ask(58, 59, "b", 2, 1, 0.15) // it goes on from what was saved
	s.ask(59, 60, "b", 3, 1, 0.25)
	for _, total := range []int{500, 500, 900} { // another tool's agent tells what it used so far
		s.note(57, "child_start", "claude", facts{"task_id": "T-2"})
		s.note(58, "child_end", "claude", facts{"status": "failed", "model": "opus", "usage": facts{"input": total, "total": total}, "cost_usd": float64(total) / 100})
	}
	a := s.end()
	is(t, "cost", a.Tokens.Cost, 0.4+1+2+9+0.3+0.15)
	if got := *a.Tokens.Total; got != 400+20+900+5 {
		t.Errorf("%d tokens", got)
	}

	s.note(60, "turn_start", "ralph", facts{"turn": 1})
	s.note(61, "usage", "ralph", facts{"turn": 1, "model": "free", "usage": facts{"total": 7}})
	a = s.end()
	if a.Tokens.Cost != nil || a.Tokens.CostPerDone != nil || *a.Tokens.Total != 1332 {
		t.Errorf("the cost of a part is not known: %+v", a.Tokens)
	}
	for _, m := range a.Tokens.ByModel {
		if known := m.ID != "free"; (m.Cost != nil) != known {
			t.Errorf("%s costs %v", m.ID, m.Cost)
		}
	}
}

// TestWhatNobodyTellsIsUnknown sees null where 0 would be invented.
func TestWhatNobodyTellsIsUnknown(t *testing.T) {
	s := newStory()
	s.log(0, folder.SessionStart, "", "", 0, nil)
	s.log(1, folder.TaskComplete, "T-1", "done", 1, facts{"agent": "a", "turns": 2.0})
	doc, err := json.Marshal(s.end().Tokens)
	if err != nil || !strings.HasPrefix(string(doc), `{"input":null,"cached_input":null,"output":null,"reasoning":null,"total":null,"cost_usd":null,"source":null`) {
		t.Errorf("%s %v", doc, err)
	}
}

// TestAPhaseThatGoesOnWithAnotherRalph sees that the break in a phase is no work.
func TestAPhaseThatGoesOnWithAnotherRalph(t *testing.T) {
	s := newStory()
	s.log(0, folder.SessionStart, "", "", 0, nil)
	s.log(0, folder.PhaseStart, "", "", 0, facts{"phase": "implementation"})
	s.log(10, folder.SessionEnd, "", "paused", 0, nil)
	s.log(1000, folder.SessionStart, "", "", 0, nil)
	s.log(1015, folder.PhaseComplete, "", "completed", 1015, facts{"phase": "implementation"})
	s.log(1020, folder.SessionEnd, "", "completed", 0, nil)
	a := s.end()
	is(t, "active", a.Time.Active, 30)
	is(t, "other", a.Time.Other, 25)
	is(t, "idle", a.Time.Idle, 5)
}

// TestConfidence sees that what the human decided is no prediction, that the
// last failure of a task counts once, and where the figures come from.
func TestConfidence(t *testing.T) {
	s := newStory()
	for i, x := range []struct {
		id, result      string
		before, claimed float64
	}{{"T-1", "done", 0.8, 0.9}, {"T-2", "failed", 0.6, 0.9}, {"T-3", "skipped", 0.1, 0.1}} {
		s.log(float64(i), folder.Decided, x.id, "execute", 0, facts{"decision_type": "task", "confidence": x.before})
		s.log(float64(i), folder.Decided, x.id, "allowed", 0, facts{"decision_type": "permission", "confidence": 1.0})
		s.log(float64(i), folder.TaskStart, x.id, "", 0, nil)
		if x.result == "failed" {
			s.log(float64(i), folder.Errored, x.id, "no", 0, facts{"kind": "validation", "confidence": x.claimed})
		}
		s.log(float64(i)+.5, folder.TaskComplete, x.id, x.result, 0, facts{"confidence": x.claimed})
	}
	d := folder.Data{}
	a := s.c.Result(d)
	if a.Confidence.Agents.N != 2 || a.Confidence.Decisions.N != 2 {
		t.Fatalf("%+v", a.Confidence)
	}
	is(t, "Brier of the agents", a.Confidence.Agents.Brier, 0.41)
	is(t, "Brier of the decisions", a.Confidence.Decisions.Brier, 0.2)
	one := folder.Decision{DecisionType: "task", Outcome: "Done"}
	one.Decision.Confidence = 0.5
	asked := folder.Decision{DecisionType: folder.DecisionHelp, Outcome: "done"}
	d.Decisions = []folder.Decision{one, asked, {DecisionType: "task", Outcome: "interrupted"}, {DecisionType: "task"}}
	a = s.c.Result(d)
	is(t, "Brier by the history", a.Confidence.Decisions.Brier, 0.25)
	if a.Decisions.N != 4 || *a.Decisions.Source != decisionsFile {
		t.Errorf("%+v", a.Decisions)
	}

	s = newStory() // only a journal
	s.note(0, "child_start", "a", facts{"task_id": "T-1"})
	s.note(1, "tool_start", "a", facts{"tool": "finish", "args": facts{"confidence": 0.75}})
	s.note(2, "child_end", "a", facts{"status": "failed"})
	s.note(2, "child_end", "a", facts{"status": "merged"})
	if a = s.end(); a.Confidence.Agents.N != 1 || *a.Confidence.Agents.Brier != 0.5625 {
		t.Errorf("%+v", a.Confidence.Agents)
	}
}

// TestWhatTwoFilesTell sees that errors are counted once, and that retries and
// stops that only one file tells of are.
func TestWhatTwoFilesTell(t *testing.T) {
	s := newStory()
	s.log(1, folder.Errored, "T-1", "no", 0, facts{"error_type": "timeout", "severity": "high"})
	s.log(2, folder.Errored, "T-1", "no", 0, facts{"type": "timeout"})
	s.note(3, "interrupt", "ralph", facts{"status": "stopped", "reason": "ctrl-c", "duration_ms": 1500})
	s.note(3, "interrupt", "ralph", facts{"status": "stopping"})
	a := s.end()
	if a.Errors.N != 2 || a.Errors.ByType["timeout"] != 2 || *a.Errors.Source != logFile || a.Errors.Resolved != nil || a.Interrupts.N != 1 {
		t.Errorf("%+v %+v", a.Errors, a.Interrupts)
	}
	is(t, "latency", a.Interrupts.Latency.P95, 1.5)
	two := 2.0
	a = s.c.Result(folder.Data{Failures: []folder.Failure{{ErrorType: "timeout", Severity: folder.High, RetryCount: 3, TaskID: "T-1", Resolved: true, ResolutionTimeSeconds: &two}}})
	if a.Errors.N != 1 || *a.Errors.Resolved != 1 || a.Retries.N != 3 || a.Retries.ByTask["T-1"] != 3 || a.Retries.ByType["timeout"] != 3 {
		t.Errorf("%+v %+v", a.Errors, a.Retries)
	}
	is(t, "resolution", a.Errors.Resolution.Median, 2)
	if a = newStory().end(); a.Errors.N != 0 || *a.Errors.Unresolved != 0 {
		t.Errorf("of nothing: %+v", a.Errors)
	}
}

// TestOrderDoesNotMatter shuffles logs: what is counted and how the tasks stand
// stays.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var events []folder.Event
		for i := range rapid.IntRange(1, 12).Draw(t, "tasks") {
			id := fmt.Sprintf("T-%d", i)
			from := rapid.Float64Range(0, 1000).Draw(t, "from")
			took := rapid.Float64Range(0.001, 500).Draw(t, "took")
			result := rapid.SampledFrom([]string{"done", "failed", "skipped"}).Draw(t, "result")
			events = append(events, folder.Event{Time: at(from), Type: folder.TaskStart, TaskID: id, Details: facts{"task_kind": "bug"}},
				folder.Event{Time: at(from + took/2), Type: folder.GateChecked, Result: "passed", Duration: time.Second, Details: facts{"check": id}},
				folder.Event{Time: at(from + took), Type: folder.TaskComplete, TaskID: id, Result: result, Details: facts{}})
		}
		analyse := func() Analysis {
			c := New()
			for _, e := range events {
				c.Event("", e)
			}
			return c.Result(folder.Data{})
		}
		straight := analyse()
		rand.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		shuffled := analyse()
		if diff := cmp.Diff(straight, shuffled, cmpopts.IgnoreUnexported(Analysis{}), cmpopts.EquateApprox(0, 0.002)); diff != "" {
			t.Fatalf("(-straight +shuffled):\n%s", diff)
		}
		x := straight.Time
		if math.Abs(*x.Other+*x.Idle-*x.Active) > 0.01 {
			t.Fatalf("%v at work and %v idle are not %v", *x.Other, *x.Idle, *x.Active)
		}
	})
}

// TestMemoryIsBounded names more of everything than is followed.
func TestMemoryIsBounded(t *testing.T) {
	s := newStory()
	const most, n = 500, 3000
	s.c.tasks.most = most
	for i := range n {
		id := fmt.Sprintf("%d-%s", i, strings.Repeat("x", i%300))
		s.log(float64(i), folder.TaskStart, id, "", 0, facts{"task_kind": id})
		s.log(float64(i), folder.TaskComplete, id, "done", 1, facts{"agent": id, "usage": facts{"total": 1.0}})
		s.log(float64(i), folder.Retried, id, "", 0, facts{"kind": id})
		if i%10 == 0 {
			id = id[:min(len(id), 130)]
			s.note(float64(i), "child_start", id, facts{"task_id": id})
			s.note(float64(i), "usage", id, facts{"model": id, "usage": facts{"total": 1}})
			s.note(float64(i), "tool_end", id, facts{"tool": id, "duration_ms": 1})
			s.note(float64(i), "gate", id, facts{"text": id, "ok": true})
			s.note(float64(i), "interrupt", id, facts{"status": "stopped", "reason": id})
		}
	}
	a := s.end()
	for what, got := range map[string]int{"kinds": len(a.Tasks.ByKind), "models": len(a.Tokens.ByModel), "agents": len(a.Time.Agents), "tools": len(a.Time.ByTool),
		"tasks": len(a.Tokens.ByTask), "checks": len(a.Gates.ByCheck), "reasons": len(a.Interrupts.ByReason), "retries": len(a.Retries.ByTask), "types": len(a.Retries.ByType)} {
		if got > maxWords+1 {
			t.Errorf("there are %d %s", got, what)
		}
	}
	sum := 0
	for _, n := range a.Retries.ByType {
		sum += n
	}
	if a.Tasks.Total != most || a.Retries.N != n || sum != n || *a.Tokens.Total != n/10 || a.Interrupts.N != n/10 {
		t.Errorf("%d tasks, %d retries, %d of them by type, %d tokens, %d stops", a.Tasks.Total, a.Retries.N, sum, *a.Tokens.Total, a.Interrupts.N)
	}
	if !slices.ContainsFunc(a.Notes, func(n string) bool { return strings.Contains(n, "more than 500 tasks") }) {
		t.Errorf("nothing is said of it: %q", a.Notes)
	}
}

// TestFixtures holds what can be counted by hand against the kept sessions.
func TestFixtures(t *testing.T) {
	for _, x := range []struct {
		name                      string
		events, total, done, fail int
		note                      string
	}{
		{"clean", 34, 6, 6, 0, ""},
		{"older-shape", 9, 2, 1, 1, "no journal"},
		{"cut-log", 4, 2, 1, 0, "execution-log.json"},
		{"contradiction", 3, 2, 0, 0, "contradict"},
		{"disorder", 10, 3, 2, 0, "out of order"},
		{"empty", 0, 0, 0, 0, "no events"},
	} {
		a := of(t, filepath.Join(kept, x.name))
		if a.Events.N != x.events || a.Tasks.Total != x.total || a.Tasks.Done != x.done || a.Tasks.Failed != x.fail {
			t.Errorf("%s: %d events, %d tasks, %d done, %d failed", x.name, a.Events.N, a.Tasks.Total, a.Tasks.Done, a.Tasks.Failed)
		}
		if said := strings.Join(a.Notes, "\n"); x.note == "" && said != "" || !strings.Contains(said, x.note) {
			t.Errorf("%s: the notes are %q", x.name, said)
		}
	}
}

// FuzzRecord sees that no payload brings the analysis down, or a figure that
// JSON does not have.
func FuzzRecord(f *testing.F) {
	for _, seed := range []string{
		`{"type":"usage","agent":"a","turn":1,"usage":{"input":1e300,"total":-1},"cost_usd":1e308}`,
		`{"type":"tool_end","time":"2026-11-20T09:00:00Z","agent":"a","call_id":"c","tool":"x","duration_ms":9223372036854775807}`,
		`{"type":"turn_start","agent":""}`, `{"type":"child_end","status":"done"}`, `{"type":"gate","duration_ms":-5}`, `{"type":`, `null`, `[]`, ``,
		`{"type":"permission","status":"asked","agent":"a","time":"0001-01-01T00:00:00Z"}`, `{"type":"tool_start","tool":"finish","args":{"confidence":"x"}}`,
	} {
		f.Add(seed, int64(0), "execute", 1.5)
	}
	f.Fuzz(func(t *testing.T, payload string, when int64, result string, number float64) {
		c := New()
		for i, p := range []string{`{"type":"start","agent":"ralph"}`, payload, payload, `{"type":"tool_end","agent":"a","duration_ms":10}`} {
			c.Record(session.Record{Seq: int64(i), Time: time.Unix(when, int64(i)), Kind: "event", Payload: json.RawMessage(p)})
		}
		for _, typ := range []folder.EventType{folder.SessionStart, folder.TaskStart, folder.Decided, folder.TaskComplete, folder.PhaseComplete, folder.GateChecked, folder.SessionStart} {
			c.Event("", folder.Event{Time: time.Unix(when, 0), Type: typ, TaskID: result, Result: result, Duration: time.Duration(number),
				Details: facts{"confidence": number, "attempt": number, "usage": facts{"total": number}, "cost_usd": number, "api_ms": number, "decision_type": result}})
		}
		a := c.Result(folder.Data{})
		if _, err := json.Marshal(a); err != nil {
			t.Fatal(err)
		}
		if _, err := json.Marshal(Compare([]Analysis{a, a})); err != nil {
			t.Fatal(err)
		}
		if x := a.Time; x.Idle != nil && (*x.Idle < 0 || *x.Other < 0 || *x.Active < 0) {
			t.Fatalf("%+v", x)
		}
	})
}
