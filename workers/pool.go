package workers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"ralph/workers/proc"
)

// ErrTaken is matched by the error of Do for an id that is in use.
var ErrTaken = errors.New("an agent of this id is at work")

// ErrClosed is matched by the error of Do after Close, and is the cause of the
// contexts that Close ended.
var ErrClosed = errors.New("the pool is closed")

// Options of a Pool.
type Options struct {
	// Proc is what the agents start processes with; nil: they start none.
	Proc *proc.Runner
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Pool owns the agents that run and can end them. It starts no goroutine of its
// own: an agent works on the goroutine that called Do. It is safe for concurrent
// use; who made it closes it.
type Pool struct {
	proc processes
	now  func() time.Time

	mu     sync.Mutex // guards what follows; never held while anything is waited for
	agents map[string]*worker
	began  uint64
	closed bool
}

// Spec names an agent.
type Spec struct {
	// ID names it among those that run: "ralph", "c3".
	ID string
	// Parent is the ID of who asked for it; "" for nobody. Who ends the parent
	// ends it too.
	Parent string
	// Label says in a few words what it does.
	Label string
}

// worker is an agent at work.
type worker struct {
	Spec
	nr     uint64 // order of beginning
	cancel context.CancelCauseFunc
	done   chan struct{}
	// What follows is guarded by Pool.mu.
	cause error // why it is to end; nil while it may work
	since time.Time
	beat  time.Time
	doing string
}

// State says how far an agent is.
type State string

// The states of an agent that has not ended.
const (
	// Running is at work.
	Running State = "running"
	// Stopping was told to end and has not ended yet.
	Stopping State = "stopping"
)

// Status is an agent at one moment. It is a value.
type Status struct {
	ID     string    `json:"id"`
	Parent string    `json:"parent,omitempty"`
	Label  string    `json:"label,omitempty"`
	State  State     `json:"state"`
	Since  time.Time `json:"since"`
	// Beat is when it last gave a sign of life, Doing what it did then.
	Beat  time.Time `json:"beat"`
	Doing string    `json:"doing,omitempty"`
}

// New makes a Pool in which nobody works.
func New(o Options) *Pool {
	p := &Pool{now: o.Now, agents: map[string]*worker{}}
	if p.now == nil {
		p.now = time.Now
	}
	if o.Proc != nil {
		p.proc = o.Proc
	}
	return p
}

// Do runs work as an agent, on the caller's goroutine, and returns what it
// returns; a panic of work is its error. Its context ends with ctx, and with
// the given cause when Cancel or Stop ends the agent.
//
// Work is not begun at all, and the error matches the cause, when ctx has ended
// or the parent was told to end; it matches ErrTaken or ErrClosed for those.
func (p *Pool) Do(ctx context.Context, s Spec, work func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if ctx.Err() != nil {
		return fmt.Errorf("begin agent %q: %w", s.ID, context.Cause(ctx))
	}
	w := &worker{Spec: s, cancel: cancel, done: make(chan struct{})}
	if err := p.enter(w); err != nil {
		return fmt.Errorf("begin agent %q: %w", s.ID, err)
	}
	defer p.leave(w)
	return guarded(ctx, s.ID, work)
}

func (p *Pool) enter(w *worker) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch parent := p.agents[w.Parent]; {
	case p.closed:
		return ErrClosed
	case p.agents[w.ID] != nil:
		return ErrTaken
	case parent != nil && parent.cause != nil:
		return parent.cause
	}
	p.began++
	w.nr, w.since = p.began, p.now()
	w.beat = w.since
	p.agents[w.ID] = w
	return nil
}

func (p *Pool) leave(w *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.agents, w.ID)
	close(w.done)
}

// guarded turns a panic of work into its error, so that one agent does not take
// the others down.
func guarded(ctx context.Context, id string, work func(context.Context) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("agent %q broke: %v\n%s", id, r, debug.Stack())
		}
	}()
	return work(ctx)
}

// List returns those who have not ended, in the order in which they began.
func (p *Pool) List() []Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]Status, 0, len(p.agents))
	for _, w := range p.order() {
		s := Status{ID: w.ID, Parent: w.Parent, Label: w.Label, State: Running, Since: w.since, Beat: w.beat, Doing: w.doing}
		if w.cause != nil {
			s.State = Stopping
		}
		list = append(list, s)
	}
	return list
}

// order returns the agents in the order in which they began; mu is held.
func (p *Pool) order() []*worker {
	all := make([]*worker, 0, len(p.agents))
	for _, w := range p.agents {
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b *worker) int { return cmp.Compare(a.nr, b.nr) })
	return all
}

// Beat notes a sign of life of an agent and what it does now, "" for the same as
// before. An id that nobody has is ignored: its agent has ended.
func (p *Pool) Beat(id, doing string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.agents[id]
	if w == nil {
		return
	}
	w.beat = p.now()
	if doing != "" {
		w.doing = doing
	}
}

// Cancel tells an agent and all that work for it to end, and does not wait for
// it. It answers false when nobody has the id. The first cause stands.
func (p *Pool) Cancel(id string, cause error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.agents[id]
	if w == nil {
		return false
	}
	p.end(w, cause)
	return true
}

// end tells w and its descendants to end; mu is held. One that was told before
// is told again, because of those who began since.
func (p *Pool) end(w *worker, cause error) {
	told := map[*worker]bool{}
	for next := []*worker{w}; len(next) > 0; next = next[1:] {
		at := next[0]
		if told[at] {
			continue // parents that go round in a circle
		}
		told[at] = true
		if at.cause == nil {
			at.cause = cause
			at.cancel(cause)
		}
		for _, child := range p.agents {
			if child.Parent == at.ID {
				next = append(next, child)
			}
		}
	}
}
