package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ralph/workers/agent"
)

var (
	errUrgent = errors.New("urgent")
	errStop   = errors.New("stop")
)

// human is who speaks to a loop in these tests: what is urgent ends every step.
type human struct {
	mu      sync.Mutex
	steps   map[int]context.CancelCauseFunc
	last    int
	waiting []agent.Message
	events  []agent.Event
	log     []agent.Message
	late    []agent.Message
}

func (h *human) say(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting = append(h.waiting, agent.Message{Role: agent.RoleUser, Text: text, Inbox: text})
	for _, end := range h.steps {
		end(errUrgent)
	}
}

func (h *human) step(ctx context.Context) (context.Context, func()) {
	ctx, end := context.WithCancelCause(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.steps == nil {
		h.steps = map[int]context.CancelCauseFunc{}
	}
	h.last++
	n := h.last
	h.steps[n] = end
	return ctx, func() {
		h.mu.Lock()
		delete(h.steps, n)
		h.mu.Unlock()
		end(nil)
	}
}

func (h *human) inbox() []agent.Message {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.waiting
	h.waiting = nil
	return out
}

func (h *human) emit(e agent.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// link makes a loop listen to h.
func (h *human) link(l *agent.Loop) *agent.Loop {
	l.Agent = "ralph"
	l.Step, l.Inbox, l.Emit = h.step, h.inbox, h.emit
	l.Preempted = func(err error) bool { return errors.Is(err, errUrgent) }
	l.Record = func(m agent.Message) error { h.log = append(h.log, m); return nil }
	l.Note = func(text string) agent.Message { return agent.Message{Role: agent.RoleUser, Text: "note: " + text} }
	l.Resumed = func() string { return "go on" }
	l.Late = func(m agent.Message) { h.mu.Lock(); defer h.mu.Unlock(); h.late = append(h.late, m) }
	return l
}

// check holds the promises that hold whatever happened.
func (h *human) check(t *testing.T, m *script, end agent.End) {
	t.Helper()
	valid(t, end.Transcript)
	if len(end.Transcript) < 1 || !slices.EqualFunc(end.Transcript[1:], h.log, same) {
		t.Errorf("recorded %d messages, the transcript has %d:\n%s\n--\n%s", len(h.log), len(end.Transcript)-1, show(h.log), show(end.Transcript[1:]))
	}
	for i := 1; i < len(m.asked); i++ {
		was, now := m.asked[i-1].Messages, m.asked[i].Messages
		if len(now) < len(was) || !slices.EqualFunc(was, now[:len(was)], same) {
			t.Errorf("request %d does not extend the one before it:\n%s\n--\n%s", i+1, show(was), show(now))
		}
	}
	type state struct{ started, ended, aside, over int }
	calls := map[string]*state{}
	for _, e := range h.events {
		c := calls[e.CallID]
		switch {
		case e.Type == agent.EventToolStart:
			if c != nil {
				t.Errorf("call %s begins twice", e.CallID)
			}
			calls[e.CallID] = &state{started: 1}
		case e.Type != agent.EventToolEnd:
		case c == nil:
			t.Errorf("call %s ends and did not begin", e.CallID)
		case e.Status == "background":
			c.aside++
		case e.Status == "ended":
			if c.over++; c.aside != 1 {
				t.Errorf("call %s ended in the background without going there", e.CallID)
			}
		default:
			c.ended++
		}
	}
	for id, c := range calls {
		if c.ended+c.aside != 1 || c.over != c.aside {
			t.Errorf("call %s: %+v", id, *c)
		}
	}
}

func same(a, b agent.Message) bool {
	return a.Role == b.Role && a.Text == b.Text && a.CallID == b.CallID && a.Partial == b.Partial && len(a.Calls) == len(b.Calls)
}

func show(list []agent.Message) string {
	var b strings.Builder
	for _, m := range list {
		fmt.Fprintf(&b, "%s %s %q", m.Role, m.CallID, m.Text)
		for _, c := range m.Calls {
			fmt.Fprintf(&b, " [%s %s]", c.ID, c.Name)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// takes is a tool that runs for d, and ends with its context.
func takes(name string, effect agent.Effect, d time.Duration) agent.Tool {
	return tool(name, effect, func(ctx context.Context, _ json.RawMessage) (agent.Result, error) {
		select {
		case <-time.After(d):
			return agent.Result{Text: name + " done"}, nil
		case <-ctx.Done():
			return agent.Result{Text: name + " half"}, context.Cause(ctx)
		}
	})
}

// deaf is a tool that runs for d whatever happens to its context.
func deaf(name string, d time.Duration) agent.Tool {
	return tool(name, agent.EffectChange, func(context.Context, json.RawMessage) (agent.Result, error) {
		time.Sleep(d)
		return agent.Result{Text: name + " done"}, nil
	})
}

func call(id, name string) agent.Call { return agent.Call{ID: id, Name: name, Args: "{}"} }

func hang(partial string) step {
	return step{hang: true, deltas: []agent.Delta{{Text: partial}}, reply: agent.Reply{Usage: agent.Usage{Total: 7}, Message: agent.Message{Text: partial, Partial: true}}}
}

// bubble runs one case: at are what happens when.
func bubble(t *testing.T, f func(t *testing.T, h *human)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, &human{}) })
}

// lates are the late results so far.
func (h *human) lates() []agent.Message {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.late)
}

func (h *human) later(d time.Duration, f func()) { time.AfterFunc(d, f) }

func TestUrgentDropsARequest(t *testing.T) {
	bubble(t, func(t *testing.T, h *human) {
		m := &script{steps: []step{hang("half"), text("answer"), text("done")}}
		l := h.link(&agent.Loop{Model: m})
		h.later(time.Minute, func() { h.say("what are you doing?") })
		began := time.Now()
		end := l.Run(t.Context(), hello())
		if took := time.Since(began); took != time.Minute {
			t.Errorf("the run took %v, want a minute", took)
		}
		h.check(t, m, end)
		want := "user  \"go\"\nassistant  \"half\"\nuser  \"what are you doing?\"\nassistant  \"answer\"\nuser  \"note: go on\"\nassistant  \"done\"\n"
		if got := show(end.Transcript); got != want || end.Err != nil || end.Final.Text != "done" {
			t.Errorf("error %v, transcript\n%s", end.Err, got)
		}
		if end.Spent.Usage.Total != 27 || end.Spent.Turns != 3 {
			t.Errorf("spent %+v: the dropped reply counts", end.Spent)
		}
	})
}

func TestUrgentSendsARunningCallToTheBackground(t *testing.T) {
	bubble(t, func(t *testing.T, h *human) {
		m := &script{steps: []step{calls(call("1", "slow"), call("2", "slow")), text("answer"), text("nothing more to do"), text("done")}}
		l := h.link(&agent.Loop{Model: m, Tools: []agent.Tool{takes("slow", agent.EffectChange, 10*time.Minute)}})
		h.later(time.Minute, func() { h.say("stop the press") })
		h.later(2*time.Minute, func() {
			if bg := l.Background(); len(bg) != 1 || bg[0].Ref != "bg-1" || bg[0].ID != "1" {
				t.Errorf("in the background: %+v", bg)
			}
			if l.Cancel("bg-7", errStop) {
				t.Error("a call that nobody knows was cancelled")
			}
		})
		end := l.Run(t.Context(), hello())
		h.check(t, m, end)
		a := answers(end.Transcript)
		if !strings.Contains(a["1"], "still running in the background as bg-1") || a["2"] != "not run: an urgent message came first" {
			t.Errorf("answers %q", a)
		}
		if end.Err != nil || end.Final.Text != "done" || end.Calls != 1 || len(l.Background()) != 0 {
			t.Errorf("end %+v", end)
		}
		if got := m.asked[3].Messages[len(m.asked[3].Messages)-1].Text; got != "note: bg-1 (slow {}) has ended:\nslow done" {
			t.Errorf("the last request ends with %q", got)
		}
		for _, e := range h.events {
			if e.Type == agent.EventToolEnd && e.Status == "background" && (e.OK != nil || e.Ref != "bg-1") {
				t.Errorf("event %+v", e)
			}
		}
	})
}

func TestACallInTheBackgroundCanBeEnded(t *testing.T) {
	bubble(t, func(t *testing.T, h *human) {
		m := &script{steps: []step{calls(call("1", "slow")), text("answer"), text("waiting"), text("done")}}
		l := h.link(&agent.Loop{Model: m, Tools: []agent.Tool{takes("slow", agent.EffectChange, time.Hour)}})
		h.later(time.Minute, func() { h.say("hey") })
		h.later(2*time.Minute, func() { l.Cancel("bg-1", errStop) })
		began := time.Now()
		end := l.Run(t.Context(), hello())
		h.check(t, m, end)
		if took := time.Since(began); took != 2*time.Minute || end.Failed != 1 || !strings.Contains(show(end.Transcript), "stop\\nslow half") {
			t.Errorf("after %v: %+v", took, end)
		}
	})
}

func TestReadsOfAPreemptedRoundEndOrGoAside(t *testing.T) {
	bubble(t, func(t *testing.T, h *human) {
		m := &script{steps: []step{calls(call("1", "quick"), call("2", "slow"), call("3", "over"), call("4", "write")), text("answer"), text("so far"), text("done")}}
		l := h.link(&agent.Loop{Model: m, Tools: []agent.Tool{
			takes("quick", agent.EffectRead, time.Second), takes("slow", agent.EffectRead, time.Minute),
			takes("over", agent.EffectRead, 10*time.Second+2*time.Millisecond), takes("write", agent.EffectChange, time.Second)}})
		h.later(10*time.Second, func() { h.say("hey") })
		end := l.Run(t.Context(), hello())
		h.check(t, m, end)
		a := answers(end.Transcript)
		if a["1"] != "quick done" || !strings.Contains(a["2"], "bg-1") || a["3"] != "over done" || a["4"] != "not run: an urgent message came first" {
			t.Errorf("answers %q", a)
		}
	})
}

// A permission question and a question of the model are closed by what is
// urgent, and the call does not run, whatever is answered afterwards.
func TestUrgentClosesAQuestion(t *testing.T) {
	for name, slow := range map[string]time.Duration{"at once": 0, "yes at once": 1, "late": time.Second} {
		t.Run("permission "+name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *human) {
				m := &script{steps: []step{calls(call("1", "a"), call("2", "a")), text("answer"), text("done")}}
				l := h.link(&agent.Loop{Model: m,
					Tools: []agent.Tool{tool("a", agent.EffectChange, func(context.Context, json.RawMessage) (agent.Result, error) {
						t.Error("ran")
						return agent.Result{}, nil
					})},
					Permit: func(ctx context.Context, _ agent.Tool, _ agent.Call) agent.Verdict {
						<-ctx.Done()
						time.Sleep(slow)
						if slow > 0 {
							return agent.Verdict{} // a yes that came too late
						}
						return agent.Verdict{Denied: "denied by stop", Text: "denied by stop: " + context.Cause(ctx).Error()}
					}})
				h.later(time.Minute, func() { h.say("hey") })
				end := l.Run(t.Context(), hello())
				h.check(t, m, end)
				if a := answers(end.Transcript); slow == 1 && a["1"] == "not run: an urgent message came first" && end.Err == nil {
					return
				} else if !strings.HasPrefix(a["1"], "denied by stop") || end.Denied != 1 || end.Err != nil || len(end.Refused) != 1 {
					t.Errorf("answers %q, end %+v", a, end)
				}
				if err := l.Wait(t.Context()); err != nil || len(h.lates()) != 0 {
					t.Errorf("wait: %v, late %v", err, h.lates())
				}
			})
		})
		t.Run("ask "+name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *human) {
				m := &script{steps: []step{calls(call("1", "ask")), text("answer"), text("done")}}
				began := time.Now()
				ask := tool("ask", agent.EffectState, func(ctx context.Context, _ json.RawMessage) (agent.Result, error) {
					if <-ctx.Done(); time.Since(began) != time.Minute || !errors.Is(context.Cause(ctx), errUrgent) {
						t.Errorf("the question was closed after %v by %v", time.Since(began), context.Cause(ctx))
					}
					time.Sleep(slow)
					return agent.Result{}, context.Cause(ctx)
				})
				ask.Asks = true
				l := h.link(&agent.Loop{Model: m, Tools: []agent.Tool{ask}})
				h.later(time.Minute, func() { h.say("hey") })
				end := l.Run(t.Context(), hello())
				h.check(t, m, end)
				if a := answers(end.Transcript); a["1"] != "urgent" && !strings.HasPrefix(a["1"], "denied by stop") || len(l.Background()) != 0 {
					t.Errorf("answers %q", a)
				}
				if err := l.Wait(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestUrgentDuringCompaction(t *testing.T) {
	bubble(t, func(t *testing.T, h *human) {
		over := errors.New("context length")
		m := &script{steps: []step{{err: over}, text("answer"), text("done")}}
		l := h.link(&agent.Loop{Model: m, Overflow: func(err error) bool { return errors.Is(err, over) },
			Compact: func(ctx context.Context, _ []agent.Message) ([]agent.Message, error) {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}})
		h.later(time.Minute, func() { h.say("hey") })
		end := l.Run(t.Context(), hello())
		h.check(t, m, end)
		if end.Err != nil || end.Final.Text != "done" {
			t.Errorf("end %+v", end)
		}
	})
}

func TestTwoUrgentMessagesInARow(t *testing.T) {
	bubble(t, func(t *testing.T, h *human) {
		m := &script{steps: []step{hang("a"), hang("b"), text("both answered"), text("done")}}
		l := h.link(&agent.Loop{Model: m})
		h.later(time.Second, func() { h.say("one") })
		h.later(2*time.Second, func() { h.say("two") })
		end := l.Run(t.Context(), hello())
		h.check(t, m, end)
		want := "user  \"go\"\nassistant  \"a\"\nuser  \"one\"\nassistant  \"b\"\nuser  \"two\"\nassistant  \"both answered\"\nuser  \"note: go on\"\nassistant  \"done\"\n"
		if got := show(end.Transcript); got != want {
			t.Errorf("transcript\n%s", got)
		}
	})
}

// atOnce is a model whose reply is complete at the very moment at which
// something urgent comes.
type atOnce struct {
	*script
	h  *human
	on int
}

func (m *atOnce) Complete(ctx context.Context, req agent.Request, sink func(agent.Delta)) (agent.Reply, error) {
	r, err := m.script.Complete(ctx, req, sink)
	if len(m.asked) == m.on {
		m.h.say("hey")
	}
	return r, err
}

func TestUrgentWithTheEndOfAReply(t *testing.T) {
	bubble(t, func(t *testing.T, h *human) {
		m := &script{steps: []step{calls(call("1", "a")), text("answer"), text("done")}}
		l := h.link(&agent.Loop{Model: &atOnce{m, h, 1}, Tools: []agent.Tool{takes("a", 0, time.Hour)}})
		end := l.Run(t.Context(), hello())
		h.check(t, m, end)
		if a := answers(end.Transcript); a["1"] != "not run: an urgent message came first" || end.Final.Text != "done" || end.Calls != 0 {
			t.Errorf("answers %q, end %+v", a, end)
		}
	})
	// The work had ended: it is answered, and nothing is to be resumed.
	bubble(t, func(t *testing.T, h *human) {
		m := &script{steps: []step{text("done"), text("answer")}}
		l := h.link(&agent.Loop{Model: &atOnce{m, h, 1}})
		end := l.Run(t.Context(), hello())
		h.check(t, m, end)
		if got := show(end.Transcript); !strings.HasSuffix(got, "\"hey\"\nassistant  \"answer\"\n") || end.Err != nil {
			t.Errorf("error %v, transcript\n%s", end.Err, got)
		}
	})
}

// What comes between two steps, too, has called the model away from its work.
func TestUrgentBetweenTwoSteps(t *testing.T) {
	bubble(t, func(t *testing.T, h *human) {
		m := &script{steps: []step{calls(call("1", "a")), text("answer"), text("done")}}
		l := h.link(&agent.Loop{Model: m, Tools: []agent.Tool{takes("a", 0, time.Second)}})
		steps := 0
		l.Step = func(ctx context.Context) (context.Context, func()) {
			if steps++; steps == 2 {
				h.say("hey")
			}
			return h.step(ctx)
		}
		end := l.Run(t.Context(), hello())
		h.check(t, m, end)
		if got := show(end.Transcript); !strings.HasSuffix(got, "user  \"hey\"\nassistant  \"answer\"\nuser  \"note: go on\"\nassistant  \"done\"\n") {
			t.Errorf("transcript\n%s", got)
		}
	})
}

func TestUrgentWhileCallsRunInTheBackground(t *testing.T) {
	bubble(t, func(t *testing.T, h *human) {
		m := &script{steps: []step{calls(call("1", "slow")), calls(call("2", "slow")), text("answer two"), text("waiting"), text("answer three"), text("done")}}
		l := h.link(&agent.Loop{Model: m, Tools: []agent.Tool{takes("slow", 0, time.Hour)}})
		h.later(time.Minute, func() { h.say("one") })
		h.later(2*time.Minute, func() { h.say("two") })
		h.later(30*time.Minute, func() { h.say("three") }) // the loop only waits then
		beside := 0
		l.Emit = func(e agent.Event) { // the owner may look at any event
			h.emit(e)
			n := len(l.Background())
			switch e.Status {
			case "background":
				if beside++; n != beside {
					t.Errorf("%d calls in the background, want %d", n, beside)
				}
			case "ended":
				if beside--; n != beside {
					t.Errorf("%d calls in the background, want %d", n, beside)
				}
			}
		}
		end := l.Run(t.Context(), hello())
		h.check(t, m, end)
		got := show(end.Transcript)
		if end.Err != nil || end.Final.Text != "done" || !strings.Contains(got, "bg-1 (slow {}) has ended") || !strings.Contains(got, "bg-2 (slow {}) has ended") {
			t.Errorf("error %v, transcript\n%s", end.Err, got)
		}
	})
}

func TestStopWhilePreempted(t *testing.T) {
	bubble(t, func(t *testing.T, h *human) {
		ctx, cancel := context.WithCancelCause(t.Context())
		m := &script{steps: []step{calls(call("1", "slow")), hang("let me")}}
		l := h.link(&agent.Loop{Model: m, Tools: []agent.Tool{takes("slow", 0, time.Hour)}})
		h.later(time.Minute, func() { h.say("one") })
		h.later(2*time.Minute, func() { cancel(errStop) })
		began := time.Now()
		end := l.Run(ctx, hello())
		if took := time.Since(began); took != 2*time.Minute {
			t.Errorf("the stop took %v", took-2*time.Minute)
		}
		h.check(t, m, end)
		if got := show(end.Transcript); !errors.Is(end.Err, errStop) || !strings.HasSuffix(got, "assistant  \"let me\"\nuser  \"note: bg-1 (slow {}) has ended:\\nstop\\nslow half\"\n") {
			t.Errorf("error %v, transcript\n%s", end.Err, got)
		}
	})
}

// A tool that does not listen holds a stop up for a moment only; what it brings
// later is late.
func TestADeafToolDoesNotHoldUpAStop(t *testing.T) {
	for name, preempted := range map[string]bool{"in a round": false, "in the background": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *human) {
				ctx, cancel := context.WithCancelCause(t.Context())
				m := &script{steps: []step{calls(call("1", "deaf"), call("2", "deaf")), hang("x")}}
				l := h.link(&agent.Loop{Model: m, Tools: []agent.Tool{deaf("deaf", time.Hour)}})
				if preempted {
					h.later(time.Second, func() { h.say("hey") })
				}
				h.later(time.Minute, func() { cancel(errStop) })
				began := time.Now()
				end := l.Run(ctx, hello())
				if took := time.Since(began) - time.Minute; took > 250*time.Millisecond {
					t.Errorf("the stop took %v", took)
				}
				h.check(t, m, end)
				if got := show(end.Transcript); !errors.Is(end.Err, errStop) || !strings.Contains(got, "interrupted, outcome unknown") || strings.Contains(got, "deaf done") || len(h.lates()) != 0 {
					t.Errorf("error %v, transcript\n%s", end.Err, got)
				}
				short, done := context.WithTimeout(t.Context(), time.Minute)
				defer done()
				if err := l.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("wait: %v", err)
				}
				if err := l.Wait(t.Context()); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took != time.Hour || len(h.lates()) != 1 || h.late[0].CallID != "1" || h.late[0].Text != "deaf done" {
					t.Errorf("after %v late %+v", took, h.late)
				}
				if h.check(t, m, end); strings.Contains(show(end.Transcript), "deaf done") {
					t.Error("the late result is in the transcript")
				}
			})
		})
	}
}

func TestAToolPanicsLate(t *testing.T) {
	bubble(t, func(t *testing.T, h *human) {
		ctx, cancel := context.WithCancelCause(t.Context())
		m := &script{steps: []step{calls(call("1", "broken"))}}
		l := h.link(&agent.Loop{Model: m, Tools: []agent.Tool{tool("broken", 0, func(context.Context, json.RawMessage) (agent.Result, error) {
			time.Sleep(time.Minute)
			panic("oh no")
		})}})
		h.later(time.Second, func() { cancel(errStop) })
		end := l.Run(ctx, hello())
		h.check(t, m, end)
		if err := l.Wait(t.Context()); err != nil || len(h.lates()) != 1 || !strings.Contains(h.late[0].Text, "oh no") {
			t.Errorf("wait %v, late %v", err, h.late)
		}
	})
}

func TestLimitsHoldUnderPreemption(t *testing.T) {
	bubble(t, func(t *testing.T, h *human) {
		m := &script{steps: []step{hang("a"), hang("b"), hang("c"), text("never")}}
		l := h.link(&agent.Loop{Model: m, Limits: agent.Limits{MaxTurns: 2}})
		h.later(time.Second, func() { h.say("one") })
		h.later(2*time.Second, func() { h.say("two") })
		end := l.Run(t.Context(), hello())
		var limit *agent.LimitError
		if !errors.As(end.Err, &limit) || len(m.asked) != 2 || len(h.waiting) != 1 {
			t.Errorf("error %v after %d requests, %d messages left", end.Err, len(m.asked), len(h.waiting))
		}
		h.check(t, m, end)
	})
	// A limit ends the calls in the background, and they are answered for.
	bubble(t, func(t *testing.T, h *human) {
		m := &script{steps: []step{calls(call("1", "slow")), text("never")}}
		l := h.link(&agent.Loop{Model: m, Limits: agent.Limits{MaxTokens: 10}, Tools: []agent.Tool{takes("slow", 0, time.Hour)}})
		h.later(time.Second, func() { h.say("one") })
		end := l.Run(t.Context(), hello())
		h.check(t, m, end)
		if got := show(end.Transcript); !strings.Contains(got, "slow half") || len(m.asked) != 1 {
			t.Errorf("transcript\n%s", got)
		}
	})
}

// The same call asked for again after a preemption is no circle.
func TestPreemptionIsNoRepeat(t *testing.T) {
	bubble(t, func(t *testing.T, h *human) {
		m := &script{steps: []step{calls(call("1", "a")), calls(call("2", "a")), calls(call("3", "a")), calls(call("4", "a")), text("so"), text("on"), text("done")}}
		l := h.link(&agent.Loop{Model: m, Tools: []agent.Tool{takes("a", 0, time.Hour)}})
		for i := range 3 {
			h.later(time.Duration(i+1)*time.Minute, func() { h.say(fmt.Sprint("m", i)) })
		}
		end := l.Run(t.Context(), hello())
		h.check(t, m, end)
		if end.Err != nil || end.Calls != 4 {
			t.Errorf("error %v, %d calls", end.Err, end.Calls)
		}
	})
}

func TestHoldPausesBetweenRequests(t *testing.T) {
	bubble(t, func(t *testing.T, h *human) {
		ctx, cancel := context.WithCancelCause(t.Context())
		m := &script{steps: []step{calls(call("1", "a")), text("never")}}
		l := h.link(&agent.Loop{Model: m, Tools: []agent.Tool{takes("a", 0, time.Second)}})
		l.Hold = func(ctx context.Context) error {
			if len(m.asked) == 0 {
				return nil
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}
		h.later(time.Minute, func() { cancel(errStop) })
		end := l.Run(ctx, hello())
		h.check(t, m, end)
		if !errors.Is(end.Err, errStop) || answers(end.Transcript)["1"] != "a done" || len(m.asked) != 1 {
			t.Errorf("end %+v", end)
		}
	})
}

// An owner whose step stays over although nothing comes in does not make the
// loop spin.
func TestAStepThatIsAlwaysOver(t *testing.T) {
	m := &script{steps: []step{text("done")}}
	l := (&human{}).link(&agent.Loop{Model: m})
	l.Resumed = nil
	steps := 0
	l.Step = func(ctx context.Context) (context.Context, func()) {
		steps++
		ctx, end := context.WithCancelCause(ctx)
		end(errUrgent)
		return ctx, func() {}
	}
	if end := l.Run(t.Context(), hello()); end.Err != nil || end.Final.Text != "done" || steps > 5 {
		t.Errorf("%d steps, end %+v", steps, end)
	}
}

// TestAnyHistoryKeepsThePromises runs random work with urgent messages and a stop
// at random times.
func TestAnyHistoryKeepsThePromises(t *testing.T) {
	for seed := range uint64(400) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		bubble(t, func(t *testing.T, h *human) { history(t, h, rnd) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func history(t *testing.T, h *human, rnd *rand.Rand) {
	ctx, cancel := context.WithCancelCause(t.Context())
	m := &script{}
	names := []string{"read", "look", "write", "deaf"}
	for i := range rnd.IntN(8) {
		switch rnd.IntN(4) {
		case 0:
			m.steps = append(m.steps, hang(fmt.Sprint("part ", i)))
		default:
			var list []agent.Call
			for k := range 1 + rnd.IntN(4) {
				list = append(list, agent.Call{ID: fmt.Sprint(i, ".", k), Name: names[rnd.IntN(len(names))], Args: fmt.Sprintf(`{"n":%d}`, 10*i+k)})
			}
			m.steps = append(m.steps, calls(list...))
		}
	}
	for range 40 {
		m.steps = append(m.steps, text("so"))
	}
	l := h.link(&agent.Loop{Model: m, Tools: []agent.Tool{takes("read", agent.EffectRead, time.Second), takes("look", agent.EffectRead, 10*time.Second),
		takes("write", agent.EffectChange, 3*time.Second), deaf("deaf", 5*time.Second)}})
	said := 0
	for i := range 8 {
		h.later(time.Duration(rnd.IntN(60_000))*time.Millisecond, func() { h.say(fmt.Sprint("m", i)) })
	}
	stop := time.Hour
	if rnd.IntN(2) == 0 {
		stop = time.Duration(rnd.IntN(60_000)) * time.Millisecond
	}
	began := time.Now()
	timer := time.AfterFunc(stop, func() { cancel(errStop) })
	defer timer.Stop()
	end := l.Run(ctx, hello())
	if errors.Is(end.Err, errStop) && time.Since(began) > stop+250*time.Millisecond {
		t.Errorf("the stop took %v", time.Since(began)-stop)
	}
	if end.Err != nil && !errors.Is(end.Err, errStop) {
		t.Errorf("error %v", end.Err)
	}
	if n := len(l.Background()); n != 0 {
		t.Errorf("%d calls are left in the background", n)
	}
	h.check(t, m, end)
	was := len(end.Transcript)
	if err := l.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if len(end.Transcript) != was {
		t.Error("the transcript grew after the end")
	}
	seen := map[string]int{}
	for _, msg := range end.Transcript {
		if msg.Inbox != "" {
			said++
			seen[msg.Inbox]++
		}
	}
	for text, n := range seen {
		if n != 1 {
			t.Errorf("%s was delivered %d times", text, n)
		}
	}
	time.Sleep(2 * time.Minute) // what is still to be said is said
	if h.mu.Lock(); said+len(h.waiting) != 8 {
		t.Errorf("%d delivered, %d wait, of 8", said, len(h.waiting))
	}
	h.mu.Unlock()
}
