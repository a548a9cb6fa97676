package model

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"ralph/memory/text"
	"ralph/workers/agent"
	"ralph/workers/model/modeltest"
)

// TestFaults plays each fault of the catalogue in one piece and byte by byte.
func TestFaults(t *testing.T) {
	for _, f := range modeltest.Faults() {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			playFault(t, f, false)
		})
		if f.Large {
			continue
		}
		t.Run(f.Name+", byte by byte", func(t *testing.T) {
			t.Parallel()
			playFault(t, f, true)
		})
	}
}

func playFault(t *testing.T, f modeltest.Fault, single bool) {
	srv := modeltest.New(t)
	for _, r := range f.Replies {
		if single {
			r = r.ByteByByte()
		}
		srv.Add(r)
	}
	idle := 300 * time.Millisecond
	if f.Large {
		idle = 20 * time.Second // it takes a busy machine long to send, and is about size
	}
	c := newClient(t, srv.URL(), func(o *Options) { o.IdleTimeout = idle })
	c.first = 20 * time.Millisecond
	var content strings.Builder
	r, err := c.Complete(context.Background(), ask("go"), func(d agent.Delta) {
		switch d.Kind {
		case agent.DeltaText:
			content.WriteString(d.Text)
			if strings.ToValidUTF8(d.Text, "") != d.Text {
				t.Errorf("delta %q splits a rune", d.Text)
			}
		case agent.DeltaRetry:
			content.Reset()
			if d.Attempt == 0 || d.Text == "" {
				t.Errorf("retry %+v", d)
			}
		}
	})
	if n := len(srv.Requests()); n != f.Requests {
		t.Errorf("%d requests, want %d", n, f.Requests)
	}
	if f.Kind != "" {
		var e *Error
		if !errors.As(err, &e) || string(e.Kind) != f.Kind {
			t.Fatalf("error %v, want kind %s", err, f.Kind)
		}
		if strings.Contains(err.Error(), "sk-test") || len(r.Message.Calls) > 0 {
			t.Errorf("error %v, reply %+v", err, r)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if r.Message.Text != f.Text || r.Message.Partial {
		t.Errorf("text %q, want %q", text.Clip(r.Message.Text, 200), f.Text)
	}
	if content.String() != f.Text {
		t.Errorf("deltas %q, want %q", text.Clip(content.String(), 200), f.Text)
	}
	if len(r.Message.Calls) != len(f.Calls) {
		t.Fatalf("calls %+v, want %+v", r.Message.Calls, f.Calls)
	}
	seen := make(map[string]bool)
	for i, c := range r.Message.Calls {
		w := f.Calls[i]
		if c.Name != w.Name || c.Args != w.Args || c.ID == "" || w.ID != "" && c.ID != w.ID || seen[c.ID] {
			t.Errorf("call %+v, want %+v", c, w)
		}
		seen[c.ID] = true
	}
	if want := "tool_calls"; len(f.Calls) > 0 && r.Finish != want {
		t.Errorf("finish %q", r.Finish)
	}
}
