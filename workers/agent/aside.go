package agent

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Running is a call that goes on in the background.
type Running struct {
	// Ref names it for the model and the human: "bg-1". No two calls of a Loop
	// have the same.
	Ref string
	Call
	// Since is when it was begun.
	Since time.Time
}

// stopGrace is how long a call that does not listen can hold up the end of its
// run.
const stopGrace = 250 * time.Millisecond

// grace is what is left of stopGrace; the zero value is all of it, and the time
// begins with the first left.
type grace struct{ until time.Time }

func (g *grace) left() time.Duration {
	if g.until.IsZero() {
		g.until = time.Now().Add(stopGrace)
	}
	return max(time.Until(g.until), 0)
}

// aside owns the calls that no step waits for: those in the background, and
// those that a run had to end without. It is safe for concurrent use.
type aside struct {
	// mu guards what follows; never held while anything is waited for or told.
	// Who holds the mutex of a call may take it, not the reverse.
	mu   sync.Mutex
	last int
	list []*call // in the background, their results not brought yet
	deaf []*call // given up
}

// add takes a call into the background and names it.
func (a *aside) add(k *call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last++
	k.ref = fmt.Sprintf("bg-%d", a.last)
	a.list = append(a.list, k)
}

// ending takes a call from those that run, before its end is told.
func (a *aside) ending(k *call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k.ending = true
}

// abandon takes over a call that was given up.
func (a *aside) abandon(k *call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = slices.DeleteFunc(a.list, func(x *call) bool { return x == k })
	a.deaf = append(slices.DeleteFunc(a.deaf, (*call).over), k)
}

func (a *aside) calls() []*call {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.list)
}

// ended returns the calls in the background that have ended, which are then no
// longer there.
func (a *aside) ended() []*call {
	a.mu.Lock()
	defer a.mu.Unlock()
	var over []*call
	a.list = slices.DeleteFunc(a.list, func(k *call) bool {
		if k.over() {
			over = append(over, k)
			return true
		}
		return false
	})
	return over
}

// wait waits until no call runs in the background or ctx ends. It answers false
// when there is none at all, so that nothing is to be brought either.
func (a *aside) wait(ctx context.Context) bool {
	list := a.calls()
	for _, k := range list {
		select {
		case <-k.done:
		case <-ctx.Done():
			return true
		}
	}
	return len(list) > 0
}

func (a *aside) running() []Running {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []Running
	for _, k := range a.list {
		if !k.ending {
			out = append(out, Running{Ref: k.ref, Call: k.Call, Since: k.since})
		}
	}
	return out
}

func (a *aside) cancel(ref string, cause error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, k := range a.list {
		if k.ref == ref && !k.ending {
			k.end(cause)
			return true
		}
	}
	return false
}

// rest waits for the calls that were given up.
func (a *aside) rest(ctx context.Context) error {
	for {
		a.mu.Lock()
		a.deaf = slices.DeleteFunc(a.deaf, (*call).over)
		var next *call
		if len(a.deaf) > 0 {
			next = a.deaf[0]
		}
		a.mu.Unlock()
		if next == nil {
			return nil
		}
		select {
		case <-next.done:
		case <-ctx.Done():
			return fmt.Errorf("wait for the call of %s: %w", next.Name, context.Cause(ctx))
		}
	}
}

// over says that the goroutine of the call has ended.
func (k *call) over() bool {
	select {
	case <-k.done:
		return true
	default:
		return false
	}
}
