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

	"ralph/workers/exec"
)

// ErrTaken is matched by the error of Do and Spawn for an id that is in use.
var ErrTaken = errors.New("an agent of this id is at work")

// ErrClosed is matched by the error of Do and Spawn after Close, and is the cause
// of the contexts that Close ended.
var ErrClosed = errors.New("the pool is closed")

// defaultStall is how long an agent may give no sign of life.
const defaultStall = 2 * time.Minute

// Options of a Pool.
type Options struct {
	// Proc is what the agents start processes with; nil: they start none.
	Proc *exec.Runner
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// MaxAgents bounds how many of those that Spawn began are at work at once;
	// the others are queued. 0 sets no bound. Who runs by Do is not counted.
	MaxAgents int
	// MaxDepth bounds how deep a spawned agent may be: the children of the
	// coordinator are at 1. MaxChildren bounds how many spawned agents one agent
	// may have at a time, at work and queued. 0 sets no bound.
	MaxDepth, MaxChildren int
	// Stall is how long an agent may give no sign of life before it counts as
	// stalled; 0 means 2 minutes.
	Stall time.Duration
	// Alarm is told of each spawned agent that has stalled, once until its next
	// sign of life. It is called on a goroutine of the pool, one call at a time,
	// which Close waits for: it must not call Close. Nil: nobody is told.
	Alarm func(Status)
}

// Pool owns the agents that run and can end them. Who was begun by Do works on
// its caller's goroutine, who was begun by Spawn on one of the pool. It is safe
// for concurrent use; who made it closes it.
type Pool struct {
	opt  Options
	proc processes
	now  func() time.Time

	mu       sync.Mutex // guards what follows; never held while anything is waited for or told
	agents   map[string]*worker
	families map[string]*family // by the id of the parent, whether it is at work or not
	began    uint64
	closed   bool
	busy     int // places that are taken
	line     line
	working  int // spawned agents that have begun and not ended
	watcher  *watcher
	watched  <-chan struct{} // closed when the last watcher has ended; nil before the first
}

// family is who has the same parent.
type family struct {
	members map[*worker]struct{}
	spawned int
}

// Spec names an agent.
type Spec struct {
	// ID names it among those that run: "ralph", "implement_auth".
	ID string
	// Parent is the ID of who asked for it; "" for nobody. Who ends the parent
	// ends it too.
	Parent string
	// Label says in a few words what it does.
	Label string
	// Depth is how many agents are above it, for who knows better than the pool,
	// which sees only a parent that is at work. The larger of the two counts.
	Depth int
}

// worker is an agent, at work or queued.
type worker struct {
	Spec           // its Depth is the one that counts
	nr      uint64 // order of being asked for
	spawned bool
	cancel  context.CancelCauseFunc
	done    chan struct{}
	// What follows is guarded by Pool.mu.
	cause   error // why it is to end; nil while it may work
	since   time.Time
	beat    time.Time
	quiet   time.Time // until then no sign of life is expected
	doing   string
	begun   bool // of a spawned one: it had a place
	placed  bool // it has one
	over    bool // its work has ended
	alarmed bool // its stall was told
	asides  int  // how often it waits for others just now
	spot    spot // where it waits for a place
	room    chan struct{}
}

// State says how far an agent is.
type State string

// The states of an agent that has not ended.
const (
	// Queued waits for room.
	Queued State = "queued"
	// Running is at work.
	Running State = "running"
	// Stopping was told to end and has not ended yet.
	Stopping State = "stopping"
)

// Status is an agent at one moment. It is a value.
type Status struct {
	ID     string `json:"id"`
	Parent string `json:"parent,omitempty"`
	Depth  int    `json:"depth"`
	Label  string `json:"label,omitempty"`
	State  State  `json:"state"`
	// Since is when it began, or was asked for while it is queued.
	Since time.Time `json:"since"`
	// Beat is when it last gave a sign of life, Doing what it did then. Stalled
	// says that it was too long ago; who waits for others or for room, or was not
	// begun by Spawn, is not expected to give any.
	Beat    time.Time `json:"beat"`
	Doing   string    `json:"doing,omitempty"`
	Stalled bool      `json:"stalled,omitempty"`
}

// New makes a Pool in which nobody works.
func New(o Options) *Pool {
	p := &Pool{opt: o, now: o.Now, agents: map[string]*worker{}, families: map[string]*family{}}
	if p.now == nil {
		p.now = time.Now
	}
	if p.opt.Stall <= 0 {
		p.opt.Stall = defaultStall
	}
	if o.Proc != nil {
		p.proc = o.Proc
	}
	return p
}

// Do runs work as an agent, on the caller's goroutine, and returns what it
// returns; a panic of work is a *PanicError. Its context ends with ctx, and with
// the given cause when Cancel or Stop ends the agent.
//
// Work is not begun at all, and the error matches the cause, when ctx has ended
// or the parent was told to end; it matches ErrTaken or ErrClosed for those.
func (p *Pool) Do(ctx context.Context, s Spec, work func(ctx context.Context) error) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &worker{Spec: s, cancel: cancel, done: make(chan struct{})}
	if err := p.enter(ctx, w); err != nil {
		return fmt.Errorf("begin agent %q: %w", s.ID, err)
	}
	defer p.leave(w)
	guarded(ctx, s.ID, work, &err)
	return err
}

// enter takes in w, or says why not.
func (p *Pool) enter(ctx context.Context, w *worker) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	parent := p.agents[w.Parent]
	switch {
	case p.closed:
		return ErrClosed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case p.agents[w.ID] != nil:
		return ErrTaken
	case parent != nil && parent.cause != nil:
		return parent.cause
	}
	w.Depth = p.depth(w.Parent, w.Depth)
	if w.spawned {
		if err := p.fits(w.Parent, w.Depth, 1); err != nil {
			return err
		}
	}
	p.began++
	w.nr, w.since = p.began, p.now()
	w.beat = w.since
	p.agents[w.ID] = w
	f := p.families[w.Parent]
	if f == nil {
		f = &family{members: map[*worker]struct{}{}}
		p.families[w.Parent] = f
	}
	f.members[w] = struct{}{}
	if w.spawned {
		f.spawned++
		p.line.push(w)
		p.fill()
	}
	return nil
}

func (p *Pool) leave(w *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.agents, w.ID)
	f := p.families[w.Parent]
	delete(f.members, w)
	if w.spawned {
		f.spawned--
	}
	if len(f.members) == 0 {
		delete(p.families, w.Parent)
	}
	if w.begun {
		p.working--
	}
	if p.working == 0 && p.watcher != nil {
		close(p.watcher.stop)
		p.watcher = nil
	}
	close(w.done)
}

// PanicError is the error of an agent whose work panicked.
type PanicError struct {
	Agent string
	Value any
	stack []byte
}

// Error says what the panic said, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("agent %q broke: %v", e.Agent, e.Value) }

// Stack is where the panic began, for a report.
func (e *PanicError) Stack() []byte { return e.stack }

// Unwrap is what work panicked with, when that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// errVanished is the error of work that ended its goroutine instead of returning.
var errVanished = errors.New("the work ended without a result")

// guarded runs work and puts its error where out points. A panic of work is its
// error, so that one agent does not take the others down.
func guarded(ctx context.Context, id string, work func(context.Context) error, out *error) {
	*out = errVanished
	defer func() {
		if r := recover(); r != nil {
			*out = &PanicError{Agent: id, Value: r, stack: debug.Stack()}
		}
	}()
	*out = work(ctx)
}

// List returns those who have not ended, in the order in which they were asked
// for.
func (p *Pool) List() []Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	list := make([]Status, 0, len(p.agents))
	for _, w := range p.order() {
		list = append(list, p.status(w, now))
	}
	return list
}

// status is w at this moment; mu is held.
func (p *Pool) status(w *worker, now time.Time) Status {
	s := Status{ID: w.ID, Parent: w.Parent, Depth: w.Depth, Label: w.Label, State: Running,
		Since: w.since, Beat: w.beat, Doing: w.doing, Stalled: !now.Before(p.due(w, now))}
	switch {
	case w.cause != nil:
		s.State = Stopping
	case w.spawned && !w.begun:
		s.State = Queued
	}
	return s
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
	w.beat, w.quiet, w.alarmed = p.now(), time.Time{}, false
	if doing != "" {
		w.doing = doing
	}
}

// Quiet notes a sign of life, and that for a time no other is to be expected: the
// agent waits for a rate limit, or for the human. The next Beat ends that.
func (p *Pool) Quiet(id string, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.agents[id]; w != nil {
		w.beat, w.alarmed = p.now(), false
		w.quiet = w.beat.Add(d)
	}
}

// Cancel tells an agent and all that work for it to end, those that are queued
// as well, and does not wait for it. It answers false when nobody has the id.
// The first cause stands.
func (p *Pool) Cancel(id string, cause error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.agents[id]
	if w == nil {
		return false
	}
	// One that was told before is told again, because of those who began since.
	told := map[*worker]bool{}
	for next := []*worker{w}; len(next) > 0; next = next[1:] {
		at := next[0]
		if told[at] {
			continue // parents that go round in a circle
		}
		told[at] = true
		p.end(at, cause)
		if f := p.families[at.ID]; f != nil {
			for child := range f.members {
				next = append(next, child)
			}
		}
	}
	return true
}

// end tells w to end; mu is held. One that waits for a place gets none.
func (p *Pool) end(w *worker, cause error) {
	if w.cause != nil {
		return
	}
	w.cause = cause
	w.cancel(cause)
	p.forgo(w)
}
