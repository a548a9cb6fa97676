package scripts

import (
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"ralph/coordinator/result"
)

// leaveWithin bounds what is done for one who leaves at once.
const leaveWithin = 250 * time.Millisecond

// leaving is what further signals act on. The first signal ends the context of
// the work; the second kills what the work runs; the third does not wait for
// the work any more.
type leaving struct {
	claimed atomic.Bool // somebody brings the result out, and nobody else does
	left    atomic.Pointer[chan struct{}]

	mu   sync.Mutex // guards what follows
	kill func()     // nil while nothing runs
	last func()     // brings an interrupted result out; nil before the work began
}

// again does what a second and a third signal ask for. It may be called from
// any goroutine.
func (inv *invocation) again(n int) {
	l := &inv.leaving
	l.mu.Lock()
	kill, last := l.kill, l.last
	l.mu.Unlock()
	if kill != nil {
		kill()
	}
	if n < 3 || last == nil {
		return
	}
	// Standard output may be what hangs.
	done := make(chan struct{})
	if !l.left.CompareAndSwap(nil, &done) {
		return
	}
	go func() {
		defer close(done)
		last()
	}()
	select {
	case <-done:
	case <-time.After(leaveWithin):
	}
}

// killing lets a second signal kill what co runs, until the returned function
// is called.
func (inv *invocation) killing(co Coordinator) (over func()) {
	set := func(kill func()) {
		inv.leaving.mu.Lock()
		inv.leaving.kill = kill
		inv.leaving.mu.Unlock()
	}
	if k, ok := co.(interface{ Kill() }); ok {
		set(k.Kill)
	}
	return func() { set(nil) }
}

// claim reports whether the caller is the one who brings the result out. If it
// was brought out for one who left, it is out when claim returns.
func (inv *invocation) claim() bool {
	if inv.leaving.claimed.CompareAndSwap(false, true) {
		return true
	}
	if done := inv.leaving.left.Load(); done != nil {
		<-*done
	}
	return false
}

// depart prepares the result of one who leaves at once. What it needs is fixed
// when the work begins: the work itself goes on while it is used.
func (inv *invocation) depart() {
	r := newResult(inv.result.RunID, inv.result.StartedAt)
	r.ProjectRoot = inv.result.ProjectRoot
	out := &output{w: inv.out.w, terminal: inv.out.terminal, events: inv.out.events, resultFile: inv.out.resultFile, broke: func(error) {}}
	away := &invocation{App: inv.App, form: inv.form, result: r, out: out, cfg: inv.cfg, root: inv.root, warned: map[string]bool{}}
	inv.leaving.mu.Lock()
	defer inv.leaving.mu.Unlock()
	inv.leaving.last = func() {
		if !inv.leaving.claimed.CompareAndSwap(false, true) {
			return
		}
		r.end(result.Interrupted, int(syscall.SIGINT), &result.Failure{
			Kind: "interrupted", Message: "interrupted three times: left at once", Hint: "ralph status shows what is left",
		})
		away.finish()
	}
}
