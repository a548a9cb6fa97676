package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"ralph/workers/agent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script is a model that plays its steps and remembers what it was asked.
type script struct {
	steps []step
	asked []agent.Request
}

type step struct {
	reply  agent.Reply
	err    error
	deltas []agent.Delta
	hang   bool // until the context ends; the reply is what had come until then
}

func (s *script) Complete(ctx context.Context, req agent.Request, sink func(agent.Delta)) (agent.Reply, error) {
	req.Messages = slices.Clone(req.Messages)
	s.asked = append(s.asked, req)
	if len(s.steps) == 0 {
		return agent.Reply{}, errors.New("the script is over")
	}
	st := s.steps[0]
	s.steps = s.steps[1:]
	for _, d := range st.deltas {
		sink(d)
	}
	if st.hang {
		<-ctx.Done()
		return st.reply, context.Cause(ctx)
	}
	return st.reply, st.err
}

func text(s string) step {
	return step{reply: agent.Reply{Finish: "stop", Message: agent.Message{Role: agent.RoleAssistant, Text: s}, Usage: agent.Usage{Input: 8, Output: 2, Total: 10}}}
}

func calls(list ...agent.Call) step {
	return step{reply: agent.Reply{Finish: "tool_calls", Message: agent.Message{Role: agent.RoleAssistant, Calls: list}, Usage: agent.Usage{Input: 8, Output: 2, Total: 10}}}
}

func tool(name string, effect agent.Effect, run func(context.Context, json.RawMessage) (agent.Result, error)) agent.Tool {
	return agent.Tool{Name: name, Effect: effect, Run: run, Schema: json.RawMessage(`{"type":"object"}`)}
}

func says(text string) func(context.Context, json.RawMessage) (agent.Result, error) {
	return func(context.Context, json.RawMessage) (agent.Result, error) { return agent.Result{Text: text}, nil }
}

func hello() []agent.Message { return []agent.Message{{Role: agent.RoleUser, Text: "go"}} }

// answers collects the tool messages by call.
func answers(transcript []agent.Message) map[string]string {
	out := map[string]string{}
	for _, m := range transcript {
		if m.Role == agent.RoleTool {
			out[m.CallID] += m.Text
		}
	}
	return out
}

func TestLoopAnswersEachCallOnceInOrder(t *testing.T) {
	m := &script{steps: []step{
		calls(agent.Call{ID: "1", Name: "a", Args: `{}`}, agent.Call{ID: "2", Name: "b"}, agent.Call{ID: "3", Name: "a", Args: `{"x":1}`}),
		text("done"),
	}}
	var events []agent.Event
	l := agent.Loop{Agent: "ralph", Model: m, Tools: []agent.Tool{tool("a", agent.EffectRead, says("A")), tool("b", agent.EffectChange, says("B"))},
		Emit: func(e agent.Event) { events = append(events, e) }}
	end := l.Run(t.Context(), hello())
	if end.Err != nil || end.Final.Text != "done" || end.Calls != 3 || end.Spent.Turns != 2 || end.Spent.Usage.Total != 20 {
		t.Fatalf("end = %+v", end)
	}
	var order []string
	for _, msg := range m.asked[1].Messages {
		order = append(order, string(msg.Role)+msg.CallID)
	}
	if got := strings.Join(order, " "); got != "user assistant tool1 tool2 tool3" {
		t.Errorf("the second request holds %s", got)
	}
	var types []string
	for _, e := range events {
		types = append(types, string(e.Type))
	}
	want := "turn_start usage tool_start tool_end tool_start tool_end tool_start tool_end turn_start message usage"
	if got := strings.Join(types, " "); got != want {
		t.Errorf("events %s\nwant   %s", got, want)
	}
}

func TestLoopAnswersWhatCannotRun(t *testing.T) {
	broken := func(context.Context, json.RawMessage) (agent.Result, error) { panic("oh no") }
	failing := func(context.Context, json.RawMessage) (agent.Result, error) {
		return agent.Result{Text: "half"}, errors.New("disk full")
	}
	cases := []struct {
		name string
		call agent.Call
		want string
	}{
		{"unknown tool", agent.Call{Name: "fly", Args: "{}"}, `there is no tool "fly"; the tools are: ok, broken, failing`},
		{"broken JSON", agent.Call{Name: "ok", Args: `{"a":`}, "not valid JSON: unexpected end"},
		{"no object", agent.Call{Name: "ok", Args: `[1]`}, "must be one JSON object"},
		{"null", agent.Call{Name: "ok", Args: `null`}, "must be one JSON object"},
		{"empty arguments", agent.Call{Name: "ok", Args: " "}, "fine"},
		{"panic", agent.Call{Name: "broken", Args: "{}"}, "the tool broken broke: oh no"},
		{"error beside data", agent.Call{Name: "failing", Args: "{}"}, "disk full\nhalf"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.call.ID = "1"
			m := &script{steps: []step{calls(c.call), text("done")}}
			l := agent.Loop{Model: m, Tools: []agent.Tool{tool("ok", 0, says("fine")), tool("broken", 0, broken), tool("failing", 0, failing)}}
			end := l.Run(t.Context(), hello())
			if end.Err != nil {
				t.Fatal(end.Err)
			}
			if got := answers(end.Transcript)["1"]; !strings.Contains(got, c.want) {
				t.Errorf("answer %q lacks %q", got, c.want)
			}
		})
	}
}

func TestLoopKeepsADeniedCallFromRunning(t *testing.T) {
	ran := false
	m := &script{steps: []step{calls(agent.Call{ID: "1", Name: "a", Args: "{}"}), text("ok")}}
	l := agent.Loop{Model: m, Tools: []agent.Tool{tool("a", 0, func(context.Context, json.RawMessage) (agent.Result, error) { ran = true; return agent.Result{}, nil })},
		Permit: func(context.Context, agent.Tool, agent.Call) agent.Verdict {
			return agent.Verdict{Denied: "rule 1", Text: "not that"}
		}}
	end := l.Run(t.Context(), hello())
	if ran || end.Denied != 1 || len(end.Refused) != 1 || end.Refused[0].Rule != "rule 1" || answers(end.Transcript)["1"] != "not that" {
		t.Errorf("ran %v, end %+v", ran, end)
	}
}

// TestDurationIsTheRunAlone: how long a human thinks about a permission is not
// the time of the tool.
func TestDurationIsTheRunAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var took []int64
		m := &script{steps: []step{calls(agent.Call{ID: "1", Name: "a", Args: "{}"}), text("ok")}}
		l := agent.Loop{Model: m,
			Tools: []agent.Tool{tool("a", agent.EffectChange, func(context.Context, json.RawMessage) (agent.Result, error) {
				time.Sleep(2 * time.Second)
				return agent.Result{}, nil
			})},
			Permit: func(context.Context, agent.Tool, agent.Call) agent.Verdict {
				time.Sleep(time.Minute)
				return agent.Verdict{}
			},
			Emit: func(e agent.Event) {
				if e.Type == agent.EventToolEnd {
					took = append(took, *e.DurationMS)
				}
			}}
		l.Run(t.Context(), hello())
		if len(took) != 1 || took[0] != 2000 {
			t.Errorf("the tool took %v ms, want 2000", took)
		}
	})
}

func TestLoopEnds(t *testing.T) {
	again := calls(agent.Call{ID: "1", Name: "a", Args: `{"x": 1}`})
	respelled := calls(agent.Call{ID: "2", Name: "a", Args: `{"x":1}`})
	other := calls(agent.Call{ID: "3", Name: "a", Args: `{"x":2}`})
	cutText := step{reply: agent.Reply{Finish: "length", Message: agent.Message{Role: agent.RoleAssistant, Text: "half an ans"}}}
	cutCall := step{reply: agent.Reply{Finish: "length", Message: agent.Message{Role: agent.RoleAssistant, Calls: []agent.Call{{ID: "1", Name: "a", Args: `{"x`}}}}}
	halt := errors.New("halt")
	var limit *agent.LimitError
	cases := []struct {
		name  string
		loop  *agent.Loop
		steps []step
		check func(agent.End) bool
	}{
		{"same call three times", &agent.Loop{}, []step{again, respelled, again, text("x")}, func(e agent.End) bool { return e.Err == nil && e.Calls == 3 }},
		{"another call between", &agent.Loop{}, []step{again, again, other, again, text("x")}, func(e agent.End) bool { return e.Err == nil && e.Calls == 4 }},
		{"turns", &agent.Loop{Limits: agent.Limits{MaxTurns: 2}}, []step{again, other, text("x")}, func(e agent.End) bool {
			return errors.As(e.Err, &limit) && limit.What == "turns" && e.Spent.Turns == 2
		}},
		{"turns carried along", &agent.Loop{Limits: agent.Limits{MaxTurns: 2}, Spent: agent.Spent{Turns: 1}}, []step{again, text("x")}, func(e agent.End) bool { return errors.As(e.Err, &limit) && e.Spent.Turns == 2 }},
		{"tokens", &agent.Loop{Limits: agent.Limits{MaxTokens: 20}}, []step{again, other, text("x")}, func(e agent.End) bool {
			return errors.As(e.Err, &limit) && limit.What == "tokens"
		}},
		{"a last answer is no excess", &agent.Loop{Limits: agent.Limits{MaxTurns: 1, MaxTokens: 1}}, []step{text("x")}, func(e agent.End) bool { return e.Err == nil }},
		{"cost", &agent.Loop{Limits: agent.Limits{MaxCostUSD: 0.5}, Price: func(agent.Usage) (float64, bool) { return 0.3, true }}, []step{again, other, text("x")}, func(e agent.End) bool {
			return errors.As(e.Err, &limit) && limit.What == "cost" && *e.Spent.CostUSD == 0.6
		}},
		{"cost that nobody knows", &agent.Loop{Limits: agent.Limits{MaxCostUSD: 0.5}}, []step{again, text("x")}, func(e agent.End) bool { return errors.As(e.Err, &limit) && limit.Unknown }},
		{"halt", &agent.Loop{Halt: func() error { return halt }}, []step{again, text("x")}, func(e agent.End) bool { return errors.Is(e.Err, halt) && e.Calls == 1 }},
		{"cut text", &agent.Loop{}, []step{cutText, text("x")}, func(e agent.End) bool { return errors.Is(e.Err, agent.ErrCut) && e.Final.Text == "half an ans" }},
		{"cut call is asked for again", &agent.Loop{}, []step{cutCall, again, text("x")}, func(e agent.End) bool { return e.Err == nil && e.Calls == 1 }},
		{"cut calls for ever", &agent.Loop{}, []step{cutCall, cutCall, cutCall, text("x")}, func(e agent.End) bool { return errors.Is(e.Err, agent.ErrCut) && e.Calls == 0 }},
		{"model error", &agent.Loop{}, nil, func(e agent.End) bool { return e.Err != nil && e.Spent.Turns == 1 }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.loop.Model = &script{steps: c.steps}
			c.loop.Tools = []agent.Tool{tool("a", 0, says("A"))}
			end := c.loop.Run(t.Context(), hello())
			if !c.check(end) {
				t.Errorf("end %+v, error %v", end, end.Err)
			}
			valid(t, end.Transcript)
		})
	}
}

// valid fails when a call has not exactly one answer, after it.
func valid(t interface{ Errorf(string, ...any) }, transcript []agent.Message) {
	open := map[string]int{}
	for i, m := range transcript {
		if m.Role == agent.RoleTool {
			if open[m.CallID] != 1 {
				t.Errorf("message %d answers %q, which is asked %d times", i, m.CallID, open[m.CallID])
			}
			open[m.CallID]--
			continue
		}
		for id, n := range open {
			if n != 0 {
				t.Errorf("message %d comes while call %q is open", i, id)
			}
		}
		for _, c := range m.Calls {
			open[c.ID]++
		}
	}
	for id, n := range open {
		if n != 0 {
			t.Errorf("call %q has no answer", id)
		}
	}
}

func TestLoopStopsWhileToolsRun(t *testing.T) {
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	m := &script{steps: []step{calls(agent.Call{ID: "1", Name: "slow", Args: "{}"}, agent.Call{ID: "2", Name: "after", Args: "{}"}, agent.Call{ID: "3", Name: "after", Args: `{"x":1}`}), text("never")}}
	ran := false
	l := agent.Loop{Model: m, Tools: []agent.Tool{
		tool("slow", 0, func(ctx context.Context, _ json.RawMessage) (agent.Result, error) {
			cancel(stop)
			<-ctx.Done()
			return agent.Result{Text: "half"}, context.Cause(ctx)
		}),
		tool("after", 0, func(context.Context, json.RawMessage) (agent.Result, error) { ran = true; return agent.Result{}, nil }),
	}}
	end := l.Run(ctx, hello())
	if !errors.Is(end.Err, stop) || ran || len(m.asked) != 1 {
		t.Errorf("error %v, ran %v, %d requests", end.Err, ran, len(m.asked))
	}
	got := answers(end.Transcript)
	if !strings.Contains(got["1"], "half") || got["2"] != "stopped by the user before it ran" || got["3"] == "" {
		t.Errorf("answers %q", got)
	}
	valid(t, end.Transcript)
}

func TestLoopKeepsPartialText(t *testing.T) {
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	m := &script{steps: []step{{hang: true, deltas: []agent.Delta{{Text: "half"}},
		reply: agent.Reply{Message: agent.Message{Text: "half", Partial: true, Calls: []agent.Call{{ID: "1", Name: "a"}}}}}}}
	l := agent.Loop{Model: m, Emit: func(e agent.Event) {
		if e.Type == agent.EventMessageDelta {
			cancel(stop)
		}
	}}
	end := l.Run(ctx, hello())
	last := end.Transcript[len(end.Transcript)-1]
	if !errors.Is(end.Err, stop) || last.Text != "half" || !last.Partial || last.Calls != nil {
		t.Errorf("error %v, last %+v", end.Err, last)
	}
}

func TestReadingToolsRunSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		run := func(_ context.Context, args json.RawMessage) (agent.Result, error) {
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			order = append(order, string(args))
			return agent.Result{Text: string(args)}, nil
		}
		list := []agent.Call{}
		for i := range 4 {
			list = append(list, agent.Call{ID: fmt.Sprint("r", i), Name: "read", Args: fmt.Sprintf(`{"n":%d}`, i)})
		}
		list = append(list, agent.Call{ID: "w1", Name: "write", Args: `{"w":1}`}, agent.Call{ID: "w2", Name: "write", Args: `{"w":2}`})
		l := agent.Loop{Model: &script{steps: []step{calls(list...), text("x")}}, Emit: func(agent.Event) {},
			Tools: []agent.Tool{tool("read", agent.EffectRead, run), tool("write", agent.EffectChange, run)}}
		began := time.Now()
		end := l.Run(t.Context(), hello())
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("four reads side by side and two writes in turn took %v, want 3s", took)
		}
		if order[4] != `{"w":1}` || order[5] != `{"w":2}` {
			t.Errorf("order %v", order)
		}
		for i := range 4 {
			if answers(end.Transcript)[fmt.Sprint("r", i)] != fmt.Sprintf(`{"n":%d}`, i) {
				t.Errorf("answer of r%d is mixed up: %v", i, answers(end.Transcript))
			}
		}
	})
}

func TestLoopRecordsBeforeItActs(t *testing.T) {
	var log []string
	m := &script{steps: []step{calls(agent.Call{ID: "1", Name: "a", Args: "{}"}), text("x")}}
	l := agent.Loop{Model: m,
		Record: func(msg agent.Message) error { log = append(log, "record "+string(msg.Role)); return nil },
		Tools: []agent.Tool{tool("a", 0, func(context.Context, json.RawMessage) (agent.Result, error) {
			log = append(log, "run")
			return agent.Result{Text: "A"}, nil
		})}}
	l.Run(t.Context(), hello())
	if got := strings.Join(log, ", "); got != "record assistant, run, record tool, record assistant" {
		t.Errorf("order: %s", got)
	}
	full := errors.New("disk full")
	l = agent.Loop{Model: &script{steps: []step{calls(agent.Call{ID: "1", Name: "a", Args: "{}"}), text("x")}}, Record: func(agent.Message) error { return full },
		Tools: []agent.Tool{tool("a", 0, func(context.Context, json.RawMessage) (agent.Result, error) {
			t.Error("a call ran that could not be recorded")
			return agent.Result{}, nil
		})}}
	if end := l.Run(t.Context(), hello()); !errors.Is(end.Err, full) {
		t.Errorf("error %v", end.Err)
	}
}

// Once the run has ended, for whatever reason, nothing more of a round is begun.
func TestNothingOfARoundRunsAfterTheEnd(t *testing.T) {
	full := errors.New("disk full")
	three := calls(agent.Call{ID: "1", Name: "a", Args: "{}"}, agent.Call{ID: "2", Name: "a", Args: `{"x":1}`}, agent.Call{ID: "3", Name: "a", Args: `{"x":2}`})
	for name, make := range map[string]func(*int) *agent.Loop{
		"halt": func(ran *int) *agent.Loop {
			return &agent.Loop{Halt: func() error {
				if *ran > 0 {
					return full
				}
				return nil
			}}
		},
		"record": func(ran *int) *agent.Loop {
			return &agent.Loop{Record: func(m agent.Message) error {
				if m.Role == agent.RoleTool {
					return full
				}
				return nil
			}}
		},
	} {
		ran := 0
		l := make(&ran)
		l.Model = &script{steps: []step{three, text("never")}}
		l.Tools = []agent.Tool{tool("a", agent.EffectChange, func(context.Context, json.RawMessage) (agent.Result, error) { ran++; return agent.Result{}, nil })}
		end := l.Run(t.Context(), hello())
		if !errors.Is(end.Err, full) || ran != 1 || end.Calls != 1 {
			t.Errorf("%s: error %v, %d calls ran, %d counted", name, end.Err, ran, end.Calls)
		}
		valid(t, end.Transcript)
	}
}

// A permission is decided about the arguments as the tool understands them; the
// tool gets what the model wrote.
func TestPermitSeesCanonicalArguments(t *testing.T) {
	var permitted, run []string
	a := tool("a", agent.EffectChange, func(_ context.Context, args json.RawMessage) (agent.Result, error) {
		run = append(run, string(args))
		return agent.Result{}, nil
	})
	a.Canonical = func(args json.RawMessage) (json.RawMessage, error) {
		if strings.Contains(string(args), "odd") {
			return nil, errors.New("there is no field odd")
		}
		return json.RawMessage(`{"command":"x"}`), nil
	}
	l := agent.Loop{Tools: []agent.Tool{a}, Model: &script{steps: []step{calls(agent.Call{ID: "1", Name: "a", Args: `{"cmd":"x"}`}, agent.Call{ID: "2", Name: "a", Args: `{"odd":1}`}), text("done")}},
		Permit: func(_ context.Context, _ agent.Tool, c agent.Call) agent.Verdict {
			permitted = append(permitted, c.Args)
			return agent.Verdict{}
		}}
	end := l.Run(t.Context(), hello())
	if fmt.Sprint(permitted) != `[{"command":"x"}]` || fmt.Sprint(run) != `[{"cmd":"x"}]` {
		t.Errorf("permitted %v, run %v", permitted, run)
	}
	if got := answers(end.Transcript)["2"]; got != "there is no field odd" || end.Failed != 1 {
		t.Errorf("answer %q, end %+v", got, end)
	}
}

func TestLoopCompactsAtMostThreeTimes(t *testing.T) {
	over := errors.New("context length")
	steps := []step{{err: over}, {err: over}, {err: over}, {err: over}, text("x")}
	compactions := 0
	l := agent.Loop{Model: &script{steps: steps}, Overflow: func(err error) bool { return errors.Is(err, over) },
		Compact: func(_ context.Context, m []agent.Message) ([]agent.Message, error) { compactions++; return m, nil }}
	if end := l.Run(t.Context(), hello()); !errors.Is(end.Err, over) || compactions != 3 {
		t.Errorf("error %v after %d compactions", end.Err, compactions)
	}
	m := &script{steps: []step{{err: over}, text("x")}}
	l = agent.Loop{Model: m, Overflow: func(err error) bool { return errors.Is(err, over) },
		Compact: func(context.Context, []agent.Message) ([]agent.Message, error) {
			return []agent.Message{{Role: agent.RoleUser, Text: "short"}}, nil
		}}
	if end := l.Run(t.Context(), hello()); end.Err != nil || m.asked[1].Messages[0].Text != "short" {
		t.Errorf("error %v, asked %v", end.Err, m.asked[1].Messages)
	}
}

func TestLoopDeliversTheInboxAtTheNextBoundary(t *testing.T) {
	m := &script{steps: []step{calls(agent.Call{ID: "1", Name: "a", Args: "{}"}), text("x")}}
	var inbox []agent.Message
	l := agent.Loop{Model: m, Inbox: func() []agent.Message { out := inbox; inbox = nil; return out },
		Tools: []agent.Tool{tool("a", 0, func(context.Context, json.RawMessage) (agent.Result, error) {
			inbox = []agent.Message{{Role: agent.RoleUser, Text: "rather left"}}
			return agent.Result{Text: "A"}, nil
		})}}
	l.Run(t.Context(), hello())
	last := m.asked[1].Messages[len(m.asked[1].Messages)-1]
	if last.Text != "rather left" {
		t.Errorf("the second request ends with %+v", last)
	}
}

func TestFinishEndsTheLoop(t *testing.T) {
	m := &script{steps: []step{calls(agent.Call{ID: "1", Name: "finish", Args: "{}"}), text("never")}}
	l := agent.Loop{Model: m, Tools: []agent.Tool{tool("finish", agent.EffectState, func(context.Context, json.RawMessage) (agent.Result, error) {
		return agent.Result{Text: "noted", Finish: &agent.Finish{Status: agent.FinishPartial, Summary: "half"}}, nil
	})}}
	end := l.Run(t.Context(), hello())
	if end.Err != nil || end.Finish == nil || end.Finish.Summary != "half" || len(m.asked) != 1 {
		t.Errorf("end %+v after %d requests", end, len(m.asked))
	}
	valid(t, end.Transcript)
}

func TestRepairMakesAnyTranscriptValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 12).Draw(t, "n")
		var transcript []agent.Message
		for i := range n {
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				transcript = append(transcript, agent.Message{Role: agent.RoleUser, Text: fmt.Sprint(i)})
			case 1:
				m := agent.Message{Role: agent.RoleAssistant}
				for k := range rapid.IntRange(0, 3).Draw(t, "calls") {
					m.Calls = append(m.Calls, agent.Call{ID: fmt.Sprint(i, "-", k)})
				}
				transcript = append(transcript, m)
			case 2:
				transcript = append(transcript, agent.Message{Role: agent.RoleTool, CallID: fmt.Sprint(max(i-1, 0), "-", rapid.IntRange(0, 3).Draw(t, "id"))})
			}
		}
		repaired := agent.Repair(transcript, "outcome unknown")
		valid(t, repaired)
		if again := agent.Repair(repaired, "other"); len(again) != len(repaired) {
			t.Errorf("repairing twice changes it: %d, then %d messages", len(repaired), len(again))
		}
	})
}
