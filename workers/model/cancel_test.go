package model

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"ralph/workers/agent"
	"ralph/workers/model/modeltest"
)

// endBound is how soon Complete has to return after its context ended. It is a
// bound, generous for a busy machine and the race detector, and no measurement.
const endBound = 10 * time.Second

// TestCompleteEndsWithItsContext ends the context in each wait that a request
// knows, and asks again over the same client: what was dropped does not disturb
// the next.
func TestCompleteEndsWithItsContext(t *testing.T) {
	half := modeltest.Delta(map[string]any{"content": "half"})
	cases := []struct {
		name    string
		replies []modeltest.Reply
		partial string
		change  func(*Options)
		mute    func(addr string) string // asks a listener that says nothing instead
		long    int                      // bytes of the transcript
	}{
		{name: "no headers", replies: []modeltest.Reply{modeltest.Hang()}},
		{name: "no body", replies: []modeltest.Reply{modeltest.Raw(": hello\n\n").HangAfter()}},
		{name: "half a reply", replies: []modeltest.Reply{modeltest.Raw(half).HangAfter()}, partial: "half"},
		{name: "a reply that trickles", replies: []modeltest.Reply{modeltest.Raw(half, strings.Repeat(" ", 10_000)).Slow(time.Millisecond).ByteByByte()}, partial: "half"},
		{name: "comments for ever", replies: []modeltest.Reply{modeltest.Raw(half, strings.Repeat(": still here\n\n", 10_000)).ByteByByte().HangAfter()}, partial: "half"},
		{name: "a flood", replies: []modeltest.Reply{modeltest.Raw(half, strings.Repeat(modeltest.Delta(map[string]any{"reasoning": "x"}), 200_000)).HangAfter()}, partial: "half"},
		{name: "an error whose body never ends", replies: []modeltest.Reply{modeltest.Status(500, strings.Repeat("x", 100)).HangAfter()}},
		{name: "back-off", replies: []modeltest.Reply{modeltest.Status(500, "{}"), modeltest.Status(500, "{}"), modeltest.Status(500, "{}")}},
		{name: "rate limit", replies: []modeltest.Reply{modeltest.Status(429, "{}", "Retry-After", "1")}},
		{name: "own limiter", change: func(o *Options) {
			o.Limiter = rate.NewLimiter(rate.Every(time.Hour), 1)
			o.Limiter.Allow()
		}},
		{name: "handshake", mute: func(addr string) string { return "https://" + addr + "/v1" }},
		{name: "a request that nobody reads", mute: func(addr string) string { return "http://" + addr + "/v1" }, long: 12 << 20},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			srv := modeltest.New(t, c.replies...)
			url := srv.URL()
			if c.mute != nil {
				url = c.mute(muteListener(t))
			}
			client := newClient(t, url, func(o *Options) {
				if c.change != nil {
					c.change(o)
				}
			})
			client.first = 20 * time.Second
			stop := errors.New("stop")
			req := ask("go" + strings.Repeat("x", c.long))
			reply, took, err := completeUntil(t, client, req, stop, c.partial != "")
			if !errors.Is(err, stop) || reply.Message.Text != c.partial || !reply.Message.Partial || len(reply.Message.Calls) > 0 {
				t.Errorf("error %v, reply %+v", err, reply)
			}
			t.Logf("returned %v after the end of its context", took)
			if took > endBound {
				t.Errorf("it took %v, more than %v", took, endBound)
			}
			if c.mute != nil || c.change != nil {
				return
			}
			srv.Handle(func(modeltest.Request) modeltest.Reply { return modeltest.Text("fine") })
			if c.name != "rate limit" { // which holds the next one too
				again(t, client)
			}
		})
	}
}

// completeUntil sends req, ends its context a moment after it was sent, or with
// text after the first text arrived, and returns the time from there to the
// return.
func completeUntil(t *testing.T, c *Client, req agent.Request, stop error, text bool) (agent.Reply, time.Duration, error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	ended := make(chan time.Time, 1)
	end := sync.OnceFunc(func() {
		timer := time.AfterFunc(80*time.Millisecond, func() {
			ended <- time.Now()
			cancel(stop)
		})
		t.Cleanup(func() { timer.Stop() })
	})
	if !text {
		end()
	}
	reply, err := c.Complete(ctx, req, func(d agent.Delta) {
		if d.Text != "" {
			end()
		}
	})
	now := time.Now()
	select {
	case at := <-ended:
		return reply, now.Sub(at), err
	default:
		t.Fatalf("it was over before its context ended: %+v, %v", reply, err)
		return reply, 0, err
	}
}

func again(t *testing.T, c *Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if r, err := c.Complete(ctx, ask("again"), nil); err != nil || r.Message.Text != "fine" {
		t.Errorf("the next request: %v, %+v", err, r)
	}
}

// muteListener takes connections and neither reads nor says anything.
func muteListener(t *testing.T) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	over := make(chan struct{})
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { <-over; _ = c.Close() })
		}
	})
	t.Cleanup(func() { close(over); _ = ln.Close(); wg.Wait() })
	return ln.Addr().String()
}

// A reply is over with its terminal event: an endpoint that then keeps the
// connection open, or goes on sending, holds nobody up, nor does Close wait for
// it.
func TestAnEndpointThatNeverCloses(t *testing.T) {
	for name, tail := range map[string]string{"silent": "", "trickling": strings.Repeat(": still here\n\n", 1000)} {
		t.Run(name, func(t *testing.T) {
			r := modeltest.Text("fine")
			if tail != "" {
				r = modeltest.Raw(r.Body(), tail).ByteByByte()
			}
			srv := modeltest.New(t, r.HangAfter().Forever())
			c := newClient(t, srv.URL())
			for range 3 {
				began := time.Now()
				reply, err := c.Complete(t.Context(), ask("go"), nil)
				if err != nil || reply.Message.Text != "fine" {
					t.Fatal(err, reply)
				}
				if took := time.Since(began); took > 2*endBound {
					t.Errorf("the reply took %v", took)
				}
			}
			began := time.Now()
			if c.Close(); time.Since(began) > endBound {
				t.Errorf("close took %v", time.Since(began))
			}
		})
	}
}

// A reply that gave its finish reason is whole: a stop while the rest of it is
// waited for returns it at once.
func TestAStopAfterTheFinishReason(t *testing.T) {
	half := modeltest.Delta(map[string]any{"content": "all of it"})
	srv := modeltest.New(t, modeltest.Raw(half, modeltest.Finish("stop")).HangAfter())
	reply, took, err := completeUntil(t, newClient(t, srv.URL()), ask("go"), errors.New("stop"), true)
	if err != nil || reply.Message.Text != "all of it" || reply.Message.Partial || took > endBound {
		t.Errorf("after %v: %v, %+v", took, err, reply)
	}
}
