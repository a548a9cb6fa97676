package model

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ralph/workers/agent"
	"ralph/workers/model/modeltest"
)

func newClient(t testing.TB, url string, change ...func(*Options)) *Client {
	t.Helper()
	o := Options{Endpoint: Endpoint{Provider: providerCustom, BaseURL: url, Model: "test", Key: "sk-test-key-0123456789"}, IdleTimeout: 5 * time.Second}
	for _, f := range change {
		f(&o)
	}
	c := New(o)
	t.Cleanup(c.Close)
	return c
}

func ask(text string) agent.Request {
	return agent.Request{Agent: "ralph", Messages: []agent.Message{{Role: agent.RoleUser, Text: text}}}
}

func TestComplete(t *testing.T) {
	srv := modeltest.New(t,
		modeltest.Calls(modeltest.Call{ID: "a", Name: "read", Args: `{"path":"x"}`}, modeltest.Call{ID: "b", Name: "list", Args: "{}"}).Saying("look").Thinking("hm"),
		modeltest.Text("all is well: grüße 👋").Using(100, 7))
	c := newClient(t, srv.URL())
	var deltas []agent.Delta
	sink := func(d agent.Delta) { deltas = append(deltas, d) }
	r, err := c.Complete(context.Background(), ask("hi"), sink)
	if err != nil {
		t.Fatal(err)
	}
	want := agent.Message{Role: agent.RoleAssistant, Text: "look", Reasoning: "hm", Calls: []agent.Call{{ID: "a", Name: "read", Args: `{"path":"x"}`}, {ID: "b", Name: "list", Args: "{}"}}}
	if d := cmp.Diff(want, r.Message); d != "" {
		t.Error(d)
	}
	if r.Finish != "tool_calls" || r.Model != "test-model" || r.Usage.Estimated || r.Duration <= 0 {
		t.Errorf("reply %+v", r)
	}
	deltas = nil
	r, err = c.Complete(context.Background(), ask("hi"), sink)
	if err != nil {
		t.Fatal(err)
	}
	if r.Message.Text != "all is well: grüße 👋" || r.Usage != (agent.Usage{Input: 100, Output: 7, Total: 107}) || r.Finish != "stop" {
		t.Errorf("reply %+v", r)
	}
	var b strings.Builder
	for _, d := range deltas {
		b.WriteString(d.Text)
	}
	if b.String() != r.Message.Text || len(deltas) < 3 {
		t.Errorf("deltas %q in %d pieces", b.String(), len(deltas))
	}
}

func TestStop(t *testing.T) {
	srv := modeltest.New(t, modeltest.Text("one two three four five").HangAt(3), modeltest.Hang())
	c := newClient(t, srv.URL())
	why := errors.New("the user said stop")
	for _, want := range []string{"one two three ", ""} {
		ctx, cancel := context.WithCancelCause(context.Background())
		var at time.Time
		timer := time.AfterFunc(200*time.Millisecond, func() { at = time.Now(); cancel(why) })
		r, err := c.Complete(ctx, ask("x"), nil)
		if !errors.Is(err, why) {
			t.Fatalf("err %v", err)
		}
		if d := time.Since(at); d > 10*time.Second {
			t.Errorf("took %v to stop", d)
		}
		timer.Stop()
		if !strings.HasPrefix(want, r.Message.Text) || !r.Message.Partial || len(r.Message.Calls) > 0 || want != "" && r.Message.Text == "" {
			t.Errorf("partial %+v", r.Message)
		}
	}
}
