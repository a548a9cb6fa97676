package model

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"ralph/workers/agent"
	"ralph/workers/model/modeltest"
)

// TestRequestsExtendEachOther: a request is the bytes of the one before it plus
// the new messages.
func TestRequestsExtendEachOther(t *testing.T) {
	srv := modeltest.New(t, modeltest.Text("x").Forever())
	c := newClient(t, srv.URL())
	msgs := transcript(30)
	tl := tools("reads <files> & more")
	for n := 1; n <= len(msgs); n += 3 {
		if _, err := c.Complete(context.Background(), agent.Request{Agent: "a", Messages: msgs[:n], Tools: tl, MaxOutputTokens: 77}, nil); err != nil {
			t.Fatal(err)
		}
	}
	reqs := srv.Requests()
	for i := 1; i < len(reqs); i++ {
		before := bytes.TrimSuffix(reqs[i-1].Body, []byte("]}"))
		if !bytes.HasPrefix(reqs[i].Body, before) || len(before) == len(reqs[i-1].Body) {
			t.Fatalf("request %d does not go on from the one before:\n%s\n%s", i, reqs[i-1].Body, reqs[i].Body)
		}
		if !json.Valid(reqs[i].Body) {
			t.Fatalf("request %d is no JSON: %s", i, reqs[i].Body)
		}
	}
	last := reqs[len(reqs)-1]
	if len(last.Messages) != len(msgs)-2 || len(last.Tools) != 2 || last.MaxTokens != 77 || !last.Stream || last.Model != "test" {
		t.Errorf("last request %s", last.Body)
	}
	for i, m := range last.Messages {
		if m.Role != string(msgs[i].Role) || m.Content != msgs[i].Text || m.CallID != msgs[i].CallID || len(m.Calls) != len(msgs[i].Calls) {
			t.Errorf("message %d is %+v, want %+v", i, m, msgs[i])
		}
	}
	if !bytes.Contains(last.Body, []byte("reads <files> & more")) || !bytes.Contains(last.Body, []byte(`"stream_options":{"include_usage":true}`)) || bytes.Contains(last.Body, []byte("because")) {
		t.Errorf("last request %s", last.Body)
	}
}

// TestExtendIsFlat: what one more message costs does not grow with what is
// there: no byte of the history is written again.
func TestExtendIsFlat(t *testing.T) {
	var e encoder
	msgs := transcript(4000)
	e.messages("a", msgs[:3800], style{})
	began := time.Now()
	whole := e.messages("b", msgs[:3800], style{})
	once := time.Since(began)
	old := e.messages("a", msgs[:3800], style{})
	moved := 0
	began = time.Now()
	for n := 3801; n <= len(msgs); n++ {
		b := e.messages("a", msgs[:n], style{})
		if &b[0] != &old[0] {
			moved++
		}
		old = b
	}
	each := time.Since(began) / 200
	if !bytes.HasPrefix(old, whole) {
		t.Error("the history changed")
	}
	if moved > 2 {
		t.Errorf("the history was copied %d times", moved)
	}
	if each > once/5 {
		t.Errorf("one more message takes %v, the whole transcript %v", each, once)
	}
}

func TestEncoderBranches(t *testing.T) {
	var e encoder
	user := func(s string) agent.Message { return agent.Message{Role: agent.RoleUser, Text: s} }
	a := []agent.Message{user("1"), user("2"), user("3")}
	first := e.messages("x", a, style{})
	kept := string(first)
	// The same backing array with another message in it, as a compaction may do.
	b := append(a[:1], user("other"), user("more"))
	second := string(e.messages("x", b, style{}))
	if want := `{"role":"user","content":"1"},{"role":"user","content":"other"},{"role":"user","content":"more"}`; second != want {
		t.Errorf("%s", second)
	}
	if string(first) != kept {
		t.Error("bytes that were handed out have changed")
	}
	if got := string(e.messages("x", nil, style{})); got != "" {
		t.Errorf("%q", got)
	}
	echo := string(e.messages("x", []agent.Message{{Role: agent.RoleAssistant, Text: "t", Reasoning: "r"}}, style{echo: true}))
	if !strings.Contains(echo, `"reasoning_content":"r"`) {
		t.Error(echo)
	}
}

func TestEncoderForgets(t *testing.T) {
	var e encoder
	big := agent.Message{Role: agent.RoleUser, Text: strings.Repeat("x", 20<<20)}
	for i := range 5 {
		e.messages(fmt.Sprint(i), []agent.Message{big}, style{})
	}
	if e.bytes > maxCachedBytes || len(e.convs) > 3 || e.convs["4"] == nil {
		t.Errorf("%d bytes in %d transcripts", e.bytes, len(e.convs))
	}
}

func TestWireForms(t *testing.T) {
	for in, want := range map[string]string{"": "{}", `{"a":1}`: `{"a":1}`, `{"a":`: `{"invalid_arguments":"{\"a\":"}`, `[1]`: `{"invalid_arguments":"[1]"}`, "null": `{"invalid_arguments":"null"}`} {
		if got := wireArgs(in); got != want {
			t.Errorf("wireArgs(%q) = %s", in, got)
		}
	}
	for in, want := range map[string]string{"read": "read", "": "unknown", "a b.c": "a_b_c", strings.Repeat("x", 99): strings.Repeat("x", 64)} {
		if got := wireName(in); got != want {
			t.Errorf("wireName(%q) = %s", in, got)
		}
	}
}

// TestForget: an agent that has ended costs nothing.
func TestForget(t *testing.T) {
	var e encoder
	for _, who := range []string{"a", "b"} {
		e.messages(who, ask("a text of some length").Messages, style{})
	}
	e.forget("a")
	e.forget("nobody")
	if len(e.convs) != 1 || e.bytes != cap(e.convs["b"].buf) {
		t.Errorf("%d kept, %d bytes", len(e.convs), e.bytes)
	}
	e.forget("b")
	if e.bytes != 0 {
		t.Errorf("%d bytes", e.bytes)
	}
}
