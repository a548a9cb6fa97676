package model

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"ralph/workers/agent"
	"ralph/workers/model/modeltest"
)

// longStream is an answer of n tokens, one token in each event, as OpenAI sends
// it.
func longStream(n int) (body, text string) {
	var b, t strings.Builder
	for i := range n {
		word := fmt.Sprintf("word%d ", i%97)
		t.WriteString(word)
		fmt.Fprintf(&b, `data: {"id":"chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT","object":"chat.completion.chunk","created":1741569952,"model":"gpt-test-2026-01-01","service_tier":"default","system_fingerprint":"fp_06737a9306","choices":[{"index":0,"delta":{"content":%q},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"x8f2kq"}`+"\n\n", word)
	}
	b.WriteString(modeltest.Finish("stop") + modeltest.Usage(10, n) + "data: [DONE]\n\n")
	return b.String(), t.String()
}

// bare is the loop that everybody writes first: net/http, bufio, encoding/json.
func bare(url string, sink func(string)) error {
	resp, err := http.Post(url+"/chat/completions", "application/json", bytes.NewReader([]byte(`{"model":"test","stream":true,"messages":[{"role":"user","content":"go"}]}`)))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	r := bufio.NewReader(resp.Body)
	for {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		line = bytes.TrimSpace(line)
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok || string(data) == "[DONE]" {
			continue
		}
		var c struct {
			Choices []struct {
				Delta struct {
					Content string `json:"content"`
				} `json:"delta"`
				FinishReason *string `json:"finish_reason"`
			} `json:"choices"`
		}
		if err := json.Unmarshal(data, &c); err != nil {
			return err
		}
		for _, ch := range c.Choices {
			sink(ch.Delta.Content)
		}
	}
}

const benchTokens = 20_000

func BenchmarkStream(b *testing.B) {
	body, text := longStream(benchTokens)
	srv := modeltest.New(b, modeltest.Raw(body).Forever())
	b.Run("client", func(b *testing.B) {
		c := newClient(b, srv.URL())
		b.ReportAllocs()
		for b.Loop() {
			r, err := c.Complete(context.Background(), ask("go"), func(agent.Delta) {})
			if err != nil || len(r.Message.Text) != len(text) {
				b.Fatal(len(r.Message.Text), err)
			}
		}
	})
	b.Run("bare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var t strings.Builder
			if err := bare(srv.URL(), func(s string) { t.WriteString(s) }); err != nil || t.Len() != len(text) {
				b.Fatal(t.Len(), err)
			}
		}
	})
}

// TestStreamCost holds the client to twice the CPU time of the bare loop.
func TestStreamCost(t *testing.T) {
	if testing.Short() {
		t.Skip("measures CPU time")
	}
	const tokens = 4000 // the race detector makes each of them dear
	body, text := longStream(tokens)
	srv := modeltest.New(t, modeltest.Raw(body).Forever())
	c := newClient(t, srv.URL())
	cost := func(f func()) time.Duration {
		best := time.Hour
		for range 3 {
			before := cpuTime(t)
			f()
			best = min(best, cpuTime(t)-before)
		}
		return best
	}
	ours := cost(func() {
		r, err := c.Complete(context.Background(), ask("go"), func(agent.Delta) {})
		if err != nil || r.Message.Text != text {
			t.Fatal(err)
		}
	})
	floor := cost(func() {
		if err := bare(srv.URL(), func(string) {}); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("client %v, bare loop %v: %.2f", ours, floor, float64(ours)/float64(floor))
	if ours > 2*floor {
		t.Errorf("the client takes %v for %d tokens, the bare loop %v", ours, tokens, floor)
	}
}

func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkExtend measures one more message at the end of a long transcript.
func BenchmarkExtend(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			msgs := transcript(n)
			var e encoder
			e.messages("a", msgs, style{})
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				if i++; i == 1000 {
					// A transcript that grew too much would measure something else.
					e = encoder{}
					e.messages("a", msgs, style{})
					msgs, i = msgs[:n], 0
				}
				msgs = append(msgs, agent.Message{Role: agent.RoleUser, Text: strings.Repeat("x", 400)})
				e.messages("a", msgs, style{})
			}
		})
	}
}

func transcript(n int) []agent.Message {
	msgs := make([]agent.Message, 0, n+1001)
	for i := range n {
		switch i % 3 {
		case 0:
			msgs = append(msgs, agent.Message{Role: agent.RoleUser, Text: fmt.Sprintf("question %d \"quoted\"\n%s", i, strings.Repeat("a", 300))})
		case 1:
			msgs = append(msgs, agent.Message{Role: agent.RoleAssistant, Text: "", Reasoning: "because", Calls: []agent.Call{{ID: fmt.Sprint("c", i), Name: "read", Args: `{"path":"a.go"}`}}})
		default:
			msgs = append(msgs, agent.Message{Role: agent.RoleTool, CallID: fmt.Sprint("c", i-1), Text: strings.Repeat("line\n", 100)})
		}
	}
	return msgs
}
