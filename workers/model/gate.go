package model

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"ralph/workers/agent"
)

// A gate lets the requests of a Client through. As long as the endpoint takes
// them all they just pass. When it refuses one for a time, none passes until that
// is over; then one goes as a probe, and for each that is taken one more may be
// under way, so that the first refusal after a pause costs few requests. Who waits
// goes in the order of waiting.
type gate struct {
	mu      sync.Mutex // guards what follows; never held while anything is waited for
	until   time.Time  // the end of the pause
	timer   *time.Timer
	epoch   int // counts the refusals
	window  int // how many may be under way; 0 is any number
	flying  int // how many are, of this epoch
	waiting []*waiter
	again   map[string]bool // agents whose next request does not wait
}

const (
	// wide is the window from which on the gate counts no more.
	wide = 64
	// quickAnswer is how long a refusal takes at most: a request without an answer
	// after that counts as taken, because an endpoint may answer only when its
	// model has thought.
	quickAnswer = 2 * time.Second
)

// waiter is a request that waits at the gate.
type waiter struct {
	go1   chan *flight
	moved chan struct{} // has room for one: the pause has changed
}

// flight is a request that was let through.
type flight struct {
	epoch int
	timer *time.Timer // nil while the gate does not count
	over  bool        // guarded by gate.mu
}

// enter waits until a request of an agent may be sent, or ctx ends. first says
// that it is the first try of a request. tell is called on this goroutine with
// how long the pause is when that is more than what is known, by a second, and
// whenever it changes.
func (g *gate) enter(ctx context.Context, who string, first bool, known time.Duration, tell func(time.Duration)) (*flight, error) {
	g.mu.Lock()
	if first && g.again[who] {
		delete(g.again, who)
		g.mu.Unlock()
		return &flight{epoch: -1}, nil
	}
	w := &waiter{go1: make(chan *flight, 1), moved: make(chan struct{}, 1)}
	g.waiting = append(g.waiting, w)
	g.open()
	pause := time.Until(g.until)
	g.mu.Unlock()
	for {
		select {
		case f := <-w.go1:
			return f, nil
		default:
		}
		if pause > known+time.Second {
			tell(pause)
		}
		known = 0
		select {
		case f := <-w.go1:
			return f, nil
		case <-ctx.Done():
			g.leave(w)
			return nil, stopped(ctx)
		case <-w.moved:
			g.mu.Lock()
			pause = time.Until(g.until)
			g.mu.Unlock()
		}
	}
}

// leave takes away one that waits no more.
func (g *gate) leave(w *waiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = slices.DeleteFunc(g.waiting, func(x *waiter) bool { return x == w })
	select {
	case f := <-w.go1:
		g.land(f, false)
	default:
	}
}

// open lets through who may go; mu is held.
func (g *gate) open() {
	if len(g.waiting) == 0 || time.Now().Before(g.until) {
		return
	}
	n := 0
	for ; n < len(g.waiting) && (g.window == 0 || g.flying < g.window); n++ {
		f := &flight{epoch: g.epoch}
		g.flying++
		if g.window > 0 {
			f.timer = time.AfterFunc(quickAnswer, func() { g.taken(f) })
		}
		g.waiting[n].go1 <- f
	}
	g.waiting = slices.Delete(g.waiting, 0, n)
}

// taken notes that the endpoint took a request.
func (g *gate) taken(f *flight) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.land(f, true)
}

// failed notes that a request came to nothing for some other reason than a
// refusal. It does nothing for one that was taken before.
func (g *gate) failed(f *flight) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.land(f, false)
}

// land ends a flight; mu is held.
func (g *gate) land(f *flight, taken bool) {
	if f.over {
		return
	}
	f.over = true
	if f.timer != nil {
		f.timer.Stop()
	}
	if f.epoch != g.epoch {
		return
	}
	g.flying--
	if taken && g.window > 0 {
		if g.window++; g.window > wide {
			g.window = 0
		}
	}
	g.open()
}

// hold lets nobody through for a time: the endpoint refused a request.
func (g *gate) hold(f *flight, wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f.over = true
	if f.timer != nil {
		f.timer.Stop()
	}
	g.epoch++
	g.window, g.flying = 1, 0
	until := time.Now().Add(wait)
	if !until.After(g.until) {
		g.open()
		return
	}
	g.until = until
	if g.timer == nil {
		g.timer = time.AfterFunc(wait, g.pauseOver)
	} else {
		g.timer.Reset(wait)
	}
	for _, w := range g.waiting {
		select {
		case w.moved <- struct{}{}:
		default:
		}
	}
}

func (g *gate) pauseOver() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open()
}

// pass lets the next request of an agent through, whatever the pause.
func (g *gate) pass(who string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.again == nil {
		g.again = map[string]bool{}
	}
	g.again[who] = true
}

// Again has the next request of an agent sent at once, although the endpoint
// asked to wait: a person wants to know now. It may refuse once more.
func (c *Client) Again(who string) { c.gate.pass(who) }

// admit waits until a request may be sent: a rate limit that another request
// met holds this one as well. known is the wait that sink was told of.
func (c *Client) admit(ctx context.Context, who string, n int, known time.Duration, sink func(agent.Delta)) (*flight, error) {
	f, err := c.gate.enter(ctx, who, n == 1, known, func(pause time.Duration) {
		sink(agent.Delta{Kind: agent.DeltaRetry, Text: "waiting for the endpoint's rate limit", Attempt: n - 1, Wait: pause})
	})
	if err != nil {
		return nil, err
	}
	if ctx.Err() == nil && c.opts.Limiter != nil {
		err = c.opts.Limiter.Wait(ctx)
	}
	switch {
	case ctx.Err() != nil:
		err = stopped(ctx)
	case err != nil:
		err = &Error{Kind: KindRateLimit, Op: "ask " + c.opts.Endpoint.Model, Message: "no room within Ralph's own rate limit", Retryable: true, Err: err}
	default:
		return f, nil
	}
	c.gate.failed(f)
	return nil, err
}

// stopped is the error of a Complete whose context ended.
func stopped(ctx context.Context) error { return fmt.Errorf("complete: %w", context.Cause(ctx)) }

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return stopped(ctx)
	}
}
