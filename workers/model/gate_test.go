package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ralph/workers/agent"
	"ralph/workers/model/modeltest"
)

// limited is an endpoint with a rate limit of its own.
type limited struct {
	burst int           // requests that it takes in each span
	span  time.Duration // after a refusal, too
	mute  bool          // it does not say how long to wait

	mu       sync.Mutex // guards what follows
	taken    int
	free     time.Time // when the span is over
	refused  int
	requests int
}

func (l *limited) answer(modeltest.Request) modeltest.Reply {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.requests++
	if now.After(l.free) {
		l.taken, l.free = 0, now.Add(l.span)
	}
	if l.taken++; l.taken <= l.burst {
		return modeltest.Text("fine")
	}
	l.refused++
	wait := l.free.Sub(now)
	if l.mute {
		return modeltest.Status(429, `{"error":{"message":"too fast"}}`)
	}
	return modeltest.Status(429, `{"error":{"message":"too fast"}}`, "Retry-After-Ms", fmt.Sprint(wait.Milliseconds()+1))
}

// TestNoStampede: fifty agents on one Client meet a rate limit. Each gets its
// answer, and the refused requests are few: the fifty that were under way when it
// was met, and those that found where it is.
func TestNoStampede(t *testing.T) {
	t.Parallel()
	const agents = 50
	for name, l := range map[string]*limited{
		"says how long": {burst: 20, span: 400 * time.Millisecond},
		"does not say":  {burst: 20, span: 400 * time.Millisecond, mute: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := modeltest.New(t)
			srv.Handle(l.answer)
			c := newClient(t, srv.URL(), func(o *Options) { o.MaxConns = agents })
			c.first = time.Second
			var wg sync.WaitGroup
			for i := range agents {
				wg.Go(func() {
					loop := &agent.Loop{Agent: fmt.Sprint("c", i), Model: c}
					if end := loop.Run(context.Background(), []agent.Message{{Role: agent.RoleUser, Text: "go"}}); end.Err != nil || end.Final.Text != "fine" {
						t.Errorf("agent %d: %v", i, end.Err)
					}
				})
			}
			wg.Wait()
			t.Logf("%d requests, %d refused", l.requests, l.refused)
			// The first thirty that were too many, then a few in each of two spans.
			if l.requests > 2*agents {
				t.Errorf("%d requests for %d answers", l.requests, agents)
			}
		})
	}
}

// TestNobodyGoesInThePause: while one agent was told to wait, nobody sends
// anything; after it one goes, then two, four: never all.
func TestNobodyGoesInThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const agents = 50
		free := time.Now().Add(20 * time.Second)
		var mu sync.Mutex
		at := map[time.Duration]int{} // requests by time
		began := time.Now()
		c, w := offline(t, func(n int, _ *http.Request) (*http.Response, error) {
			mu.Lock()
			at[time.Since(began)]++
			mu.Unlock()
			if n == 1 {
				return response(429, "", "Retry-After", "20"), nil
			}
			time.Sleep(100 * time.Millisecond) // until the answer begins
			return response(200, modeltest.Text("fine").Body()), nil
		})
		var wg sync.WaitGroup
		var order []int
		for i := range agents {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				var waits time.Duration
				if _, err := c.Complete(context.Background(), ask("x"), func(d agent.Delta) { waits = max(waits, d.Wait) }); err != nil {
					t.Error(err)
				}
				if told := 20*time.Second - time.Duration(i)*100*time.Millisecond; waits < told {
					t.Errorf("agent %d was told of %v, not of %v", i, waits, told)
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
			})
		}
		wg.Wait()
		var times []time.Duration
		for d := range at {
			times = append(times, d)
		}
		slices.Sort(times)
		var counts []int
		for _, d := range times {
			if d > 0 && began.Add(d).Before(free) {
				t.Errorf("%d requests %v before the end of the pause", at[d], free.Sub(began.Add(d)))
			}
			counts = append(counts, at[d])
		}
		if fmt.Sprint(counts) != "[1 1 2 4 8 16 19]" || w.n.Load() != agents+1 {
			t.Errorf("%d requests, by time %v", w.n.Load(), counts)
		}
		if order[0] != 0 && order[0] != 1 || slices.Index(order, 49) < 30 {
			t.Errorf("not in the order of waiting: %v", order)
		}
		c.Close()
	})
}

// TestSlowProbe: an endpoint that thinks before it answers at all does not make
// the others wait until it has.
func TestSlowProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := offline(t, func(n int, _ *http.Request) (*http.Response, error) {
			if n == 1 {
				return response(429, "", "Retry-After", "10"), nil
			}
			time.Sleep(5 * time.Minute)
			return response(200, modeltest.Text("fine").Body()), nil
		})
		began := time.Now()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if _, err := c.Complete(context.Background(), ask("x"), nil); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(began); took > 5*time.Minute+30*time.Second {
			t.Errorf("took %v", took)
		}
		c.Close()
	})
}

// TestOneConnectionAnAgent: agents that ask side by side keep as many connections
// as they are, and use them again.
func TestOneConnectionAnAgent(t *testing.T) {
	t.Parallel()
	const agents, turns = 40, 5
	var opened, here atomic.Int32
	body := modeltest.Text("fine").Body()
	all := make(chan struct{}, agents)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		// All are answered at once, so that all connections are needed at a time.
		if here.Add(1)%agents == 0 {
			for range agents {
				all <- struct{}{}
			}
		}
		<-all
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, body)
	}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	c := newClient(t, srv.URL+"/v1", func(o *Options) { o.MaxConns = agents })
	for range turns {
		var wg sync.WaitGroup
		for range agents {
			wg.Go(func() {
				if _, err := c.Complete(context.Background(), ask("x"), nil); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		time.Sleep(20 * time.Millisecond) // let the ends of the replies be read
	}
	if n := opened.Load(); n < agents || n > agents+agents/4 {
		t.Errorf("%d connections for %d agents", n, agents)
	}
}

// TestStopAtTheGate: who is stopped while waiting ends at once, keeps nobody from
// going, and a person's request goes in the middle of the pause.
func TestStopAtTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("stop")
		c, w := offline(t, func(n int, _ *http.Request) (*http.Response, error) {
			if n == 1 {
				return response(429, "", "Retry-After", "60"), nil
			}
			return response(200, modeltest.Text("fine").Body()), nil
		})
		ctx, cancel := context.WithCancelCause(context.Background())
		ended := make(chan error, 50)
		for i := range 50 {
			go func() {
				ctx := ctx
				if i == 49 {
					ctx = context.Background()
				}
				_, err := c.Complete(ctx, agent.Request{Agent: fmt.Sprint("c", i), Messages: ask("x").Messages}, nil)
				ended <- err
			}()
			if i == 0 {
				synctest.Wait() // it was refused
			}
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		sent := w.n.Load()
		c.Again("ralph")
		if _, err := c.Complete(context.Background(), agent.Request{Agent: "ralph", Messages: ask("x").Messages}, nil); err != nil || w.n.Load() != sent+1 {
			t.Errorf("a person's request: %v, %d sent", err, w.n.Load()-sent)
		}
		// Only that one: nobody else took its place, and the next waits again.
		began := time.Now()
		cancel(why)
		for range 49 {
			if err := <-ended; !errors.Is(err, why) {
				t.Error(err)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("the stop took %v", took)
		}
		if err := <-ended; err != nil || time.Since(began) < 50*time.Second {
			t.Errorf("who was not stopped: %v after %v", err, time.Since(began))
		}
		if len(c.gate.waiting) != 0 || c.gate.flying != 0 {
			t.Errorf("%d wait, %d fly", len(c.gate.waiting), c.gate.flying)
		}
		c.Close()
	})
}
