package workers

import (
	"context"
	"errors"
	"fmt"
)

// ErrDepth is matched by the error of Spawn for an agent that would be too deep.
var ErrDepth = errors.New("agents may not be nested deeper")

// ErrChildren is matched by the error of Spawn for a parent that has as many
// children as it may have.
var ErrChildren = errors.New("this agent may not have more children at a time")

// Spawn lets work run as an agent on a goroutine of the pool, as soon as there is
// room: those who wait for it get it family by family in turn, and within a
// family in their order. It returns at once.
//
// ended, which may be nil, is called exactly once when Spawn returned nil, on
// that goroutine and with no lock held: with the error of work, a *PanicError
// when it panicked, and what ended the context when the agent was told to end
// before it began. The place is free by then; the id is until ended has returned,
// and only then the agent is gone for List, Wait and Stop. ended must not wait
// for the end of its own agent, as Stop and Close do.
//
// The context of work ends with ctx, and with the given cause when Cancel or Stop
// ends the agent. The error of Spawn matches ErrTaken, ErrClosed, ErrDepth,
// ErrChildren, or the cause when ctx has ended or the parent was told to end.
func (p *Pool) Spawn(ctx context.Context, s Spec, work func(ctx context.Context) error, ended func(error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &worker{Spec: s, spawned: true, cancel: cancel, done: make(chan struct{}), room: make(chan struct{})}
	if err := p.enter(ctx, w); err != nil {
		cancel(nil)
		return fmt.Errorf("spawn agent %q: %w", s.ID, err)
	}
	go p.live(ctx, w, work, ended)
	return nil
}

// Allows says whether Spawn would take n more children of parent, as far as
// depth and number go; its error matches ErrDepth or ErrChildren. depth is that
// of the children, as in Spec.
func (p *Pool) Allows(parent string, depth, n int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fits(parent, p.depth(parent, depth), n)
}

// depth is how deep a child of parent is, of which Spec says at least; mu is held.
func (p *Pool) depth(parent string, least int) int {
	if parent == "" {
		return least
	}
	above := 0
	if w := p.agents[parent]; w != nil {
		above = w.Depth
	}
	return max(least, above+1)
}

// fits says why n more children of parent may not be spawned; mu is held.
func (p *Pool) fits(parent string, depth, n int) error {
	if most := p.opt.MaxDepth; most > 0 && depth > most {
		return fmt.Errorf("%w than %d (--max-depth)", ErrDepth, most)
	}
	most, have := p.opt.MaxChildren, 0
	if f := p.families[parent]; f != nil {
		have = f.spawned
	}
	if most > 0 && parent != "" && have+n > most {
		return fmt.Errorf("%w than %d (--max-children-per-agent): it has %d", ErrChildren, most, have)
	}
	return nil
}

// live is the life of a spawned agent.
func (p *Pool) live(ctx context.Context, w *worker, work func(context.Context) error, ended func(error)) {
	var err error
	defer w.cancel(nil)
	defer p.leave(w)
	defer func() {
		p.vacate(w)
		if ended != nil {
			ended(err)
		}
	}()
	select {
	case <-w.room:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("agent %q was not begun: %w", w.ID, context.Cause(ctx))
		return
	}
	guarded(ctx, w.ID, work, &err)
}

// fill gives places to those who wait while there are any; mu is held.
func (p *Pool) fill() {
	for p.opt.MaxAgents <= 0 || p.busy < p.opt.MaxAgents {
		w := p.line.pop()
		if w == nil {
			return
		}
		p.busy++
		w.placed, w.beat, w.alarmed = true, p.now(), false
		if !w.begun {
			w.begun, w.since = true, w.beat
			p.working++
			p.watch()
		}
		close(w.room)
	}
}

// vacate ends what w has of a place or of a wait for one.
func (p *Pool) vacate(w *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.over = true
	p.forgo(w)
	p.free(w)
}

// free gives the place of w to who is next; mu is held.
func (p *Pool) free(w *worker) {
	if w.placed {
		w.placed = false
		p.busy--
		p.fill()
	}
}

// forgo takes w out of the line; mu is held. Who comes back is not held up.
func (p *Pool) forgo(w *worker) {
	if p.line.remove(w) && w.begun {
		close(w.room)
	}
}

// Aside lets an agent wait for others without keeping its place: it runs wait, on
// the caller's goroutine, with the place given to who is next, and then waits for
// a place before all that are new. Meanwhile no sign of life is expected.
//
// The error is that of wait, or matches the cause of ctx when that ended before
// there was a place: the agent then gets one later, unless it is told to end. An
// agent that waits twice at the same time takes its place with the last. One
// without a place, or an id that nobody has, only waits.
func (p *Pool) Aside(ctx context.Context, id string, wait func(ctx context.Context) error) (err error) {
	if w := p.stepAside(id); w != nil {
		defer func() {
			if back := p.stepBack(ctx, w); err == nil {
				err = back
			}
		}()
	}
	return wait(ctx)
}

func (p *Pool) stepAside(id string) *worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.agents[id]
	if w == nil || !w.begun || w.over {
		return nil
	}
	w.asides++
	p.forgo(w)
	p.free(w)
	return w
}

func (p *Pool) stepBack(ctx context.Context, w *worker) error {
	p.mu.Lock()
	w.asides--
	w.beat, w.alarmed = p.now(), false
	if w.asides > 0 || w.over || w.cause != nil {
		p.mu.Unlock()
		return nil
	}
	room := make(chan struct{})
	w.room = room
	p.line.comeBack(w)
	p.fill()
	p.mu.Unlock()
	select {
	case <-room:
		return nil
	default:
	}
	select {
	case <-room:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("agent %q waits for room: %w", w.ID, context.Cause(ctx))
	}
}

// Wait waits until the agent of an id is gone, or ctx ends; then the error
// matches the cause of ctx. An agent that has a place calls it within Aside.
func (p *Pool) Wait(ctx context.Context, id string) error {
	p.mu.Lock()
	w := p.agents[id]
	p.mu.Unlock()
	if w == nil || ended(ctx, w) {
		return nil
	}
	return fmt.Errorf("wait for agent %q: %w", id, context.Cause(ctx))
}
