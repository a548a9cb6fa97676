package model

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ralph/workers/agent"
	"ralph/workers/model/modeltest"
)

var errUrgent = errors.New("urgent")

// human says urgent things to a loop that talks to a real endpoint.
type human struct {
	mu      sync.Mutex
	waiting []agent.Message
	ends    map[int]context.CancelCauseFunc
	last    int
}

func (h *human) say(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting = append(h.waiting, agent.Message{Role: agent.RoleUser, Text: text, Inbox: "m-1"})
	for _, end := range h.ends {
		end(errUrgent)
	}
}

func (h *human) step(ctx context.Context) (context.Context, func()) {
	ctx, end := context.WithCancelCause(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ends == nil {
		h.ends = map[int]context.CancelCauseFunc{}
	}
	h.last++
	n := h.last
	h.ends[n] = end
	return ctx, func() {
		h.mu.Lock()
		delete(h.ends, n)
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

func (h *human) loop(c *Client, tools ...agent.Tool) *agent.Loop {
	return &agent.Loop{Agent: "ralph", Model: c, Tools: tools, Step: h.step, Inbox: h.inbox,
		Preempted: func(err error) bool { return errors.Is(err, errUrgent) }}
}

// answering answers the request that carries the urgent message and tells when it
// came; every other is answered as busy says.
func answering(srv *modeltest.Server, busy modeltest.Reply) (came chan time.Time, asked chan struct{}) {
	came, asked = make(chan time.Time, 1), make(chan struct{}, 64)
	srv.Handle(func(r modeltest.Request) modeltest.Reply {
		if n := len(r.Messages); n > 0 && r.Messages[n-1].Content == "urgent question" {
			came <- time.Now()
			return modeltest.Text("answer")
		}
		asked <- struct{}{}
		return busy
	})
	return came, asked
}

// busyWith are the states that an urgent message finds a coordinator in.
func busyWith() map[string]modeltest.Reply {
	half := modeltest.Delta(map[string]any{"content": "half"})
	return map[string]modeltest.Reply{
		"stream":   modeltest.Raw(half, strings.Repeat(modeltest.Delta(map[string]any{"content": " more"}), 2000)).ByteByByte().HangAfter(),
		"silence":  modeltest.Hang(),
		"back-off": modeltest.Status(500, "{}"),
		"tool":     modeltest.Calls(modeltest.Call{ID: "c1", Name: "slow", Args: "{}"}),
	}
}

func slowTool() agent.Tool {
	return agent.Tool{Name: "slow", Schema: json.RawMessage(`{"type":"object"}`),
		Run: func(ctx context.Context, _ json.RawMessage) (agent.Result, error) {
			select {
			case <-ctx.Done():
				return agent.Result{}, context.Cause(ctx)
			case <-time.After(10 * time.Minute):
				return agent.Result{Text: "done"}, nil
			}
		}}
}

// urgent lets a loop get busy, says something urgent, and returns how long it
// took to arrive at the endpoint.
func urgent(t testing.TB, busy modeltest.Reply) (took time.Duration, srv *modeltest.Server) {
	t.Helper()
	srv = modeltest.New(t)
	came, asked := answering(srv, busy)
	c := newClient(t, srv.URL())
	c.first = 20 * time.Second
	h := &human{}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	over := make(chan agent.End, 1)
	l := h.loop(c, slowTool())
	go func() { over <- l.Run(ctx, []agent.Message{{Role: agent.RoleUser, Text: "go"}}) }()
	<-asked
	time.Sleep(20 * time.Millisecond) // let it get well into it
	began := time.Now()
	h.say("urgent question")
	select {
	case at := <-came:
		took = at.Sub(began)
	case <-time.After(20 * time.Second):
		t.Fatal("the urgent message does not arrive")
	}
	cancel(errors.New("stop"))
	<-over
	c.Close()
	srv.Close()
	return took, srv
}

// TestUrgentReachesTheEndpoint shows that the next request carries the message,
// and is the one before it with something added.
func TestUrgentReachesTheEndpoint(t *testing.T) {
	for name, busy := range busyWith() {
		t.Run(name, func(t *testing.T) {
			took, srv := urgent(t, busy)
			t.Logf("%v from the message to its request", took)
			if took > endBound {
				t.Errorf("it took %v, more than %v", took, endBound)
			}
			reqs := srv.Requests()
			first, last := reqs[0], reqs[len(reqs)-1]
			i := slices.IndexFunc(reqs, func(r modeltest.Request) bool {
				return r.Messages[len(r.Messages)-1].Content == "urgent question"
			})
			if last = reqs[i]; i == 0 || len(last.Messages) <= len(first.Messages) {
				t.Fatalf("%d requests, the %dth carries it", len(reqs), i+1)
			}
			extends(t, first.Body, last.Body)
			if name == "tool" && !strings.Contains(last.Messages[len(last.Messages)-2].Content, "bg-1") {
				t.Errorf("messages %+v", last.Messages)
			}
		})
	}
}

// extends fails unless the bytes of the messages of a request begin with those of
// the one before it.
func extends(t *testing.T, before, after []byte) {
	t.Helper()
	var x, y struct {
		Messages []json.RawMessage `json:"messages"`
	}
	if err := errors.Join(json.Unmarshal(before, &x), json.Unmarshal(after, &y)); err != nil {
		t.Fatal(err)
	}
	if len(y.Messages) <= len(x.Messages) {
		t.Fatalf("%d messages, then %d", len(x.Messages), len(y.Messages))
	}
	for i, m := range x.Messages {
		if string(m) != string(y.Messages[i]) {
			t.Errorf("message %d was %s and is %s", i, m, y.Messages[i])
		}
	}
	head := func(b []byte) string { h, _, _ := strings.Cut(string(b), `"messages":[`); return h }
	if head(before) != head(after) {
		t.Errorf("the head was %s and is %s", head(before), head(after))
	}
}

// BenchmarkUrgent prints how long an urgent message takes to the endpoint, which
// is aimed to be at most 50 ms: go test -bench Urgent -benchtime 200x.
func BenchmarkUrgent(b *testing.B) {
	for name, busy := range busyWith() {
		b.Run(name, func(b *testing.B) {
			var all []time.Duration
			for b.Loop() {
				took, _ := urgent(b, busy)
				all = append(all, took)
			}
			slices.Sort(all)
			ms := func(q float64) float64 { return float64(all[int(q*float64(len(all)-1))].Microseconds()) / 1000 }
			b.ReportMetric(ms(0.5), "p50-ms")
			b.ReportMetric(ms(0.99), "p99-ms")
			b.ReportMetric(ms(1), "max-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}
