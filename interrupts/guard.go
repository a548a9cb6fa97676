package interrupts

import (
	"container/list"
	"context"
)

// Guard holds work that a stop ends. It is made by [Queue.Guard], is safe for
// concurrent use, and whoever asked for it releases it.
type Guard struct {
	q      *Queue
	agent  string
	step   bool
	ctx    context.Context
	cancel context.CancelCauseFunc
	epoch  uint64

	// Guarded by q.mu.
	place *list.Element // in q.guards; nil once it was released
	ended bool          // a stop or an urgent message ended it
}

// Guard returns a guard for work of an agent ("" is the coordinator). A stop
// for everything or for that agent ends its context with a *[Stop] as the
// cause. A stop covers what began before it: work that begins because of a
// message opens its guard before it takes the message, or a stop between the
// two passes it by.
func (q *Queue) Guard(parent context.Context, agent string) *Guard {
	g := q.guard(parent, agent, false)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.enlist(g)
	return g
}

// Step returns a context for one piece of an agent's work, such as a request or
// a round of calls, and a release to be called at its end. A stop ends it as it
// ends a guard; an urgent message for the agent ends it with a *[Preempt] as
// the cause. An urgent message that came when no step of its agent was open
// ends the next one as it opens, so that none is overlooked between Take and
// Step; each message does so once, so that one which its agent does not take
// cannot hold up the work. An agent has one step open at a time.
func (q *Queue) Step(parent context.Context, agent string) (ctx context.Context, release func()) {
	g := q.guard(parent, agent, true)
	q.mu.Lock()
	q.enlist(g)
	var cause *Preempt
	for _, e := range q.waiting[ClassUrgent] {
		if e.now.m.To != agent || e.felt {
			continue
		}
		e.felt, g.ended = true, true
		if cause == nil {
			cause = &Preempt{Message: e.message()}
		}
	}
	q.mu.Unlock()
	if cause != nil {
		g.cancel(cause)
	}
	return g.ctx, g.Release
}

// guard makes a guard without the lock: a parent of another make than the
// standard library's is called back here.
func (q *Queue) guard(parent context.Context, agent string, step bool) *Guard {
	ctx, cancel := context.WithCancelCause(parent)
	return &Guard{q: q, agent: agent, step: step, ctx: ctx, cancel: cancel}
}

// enlist makes the guard known; q.mu is held.
func (q *Queue) enlist(g *Guard) {
	g.epoch = q.epoch
	g.place = q.guards.PushBack(g)
}

// concerned lists the guards that f chooses, oldest first: a parent's context
// ends before those made from it. They stay in the list until they are
// released, so that a second stop, too, returns only when all of them have
// ended. q.mu is held.
func (q *Queue) concerned(f func(*Guard) bool) []*Guard {
	var gs []*Guard
	for el := q.guards.Front(); el != nil; el = el.Next() {
		if g := el.Value.(*Guard); f(g) {
			gs = append(gs, g)
		}
	}
	return gs
}

// Context is the context of the guarded work.
func (g *Guard) Context() context.Context { return g.ctx }

// Epoch is the number of stops there had been when the work began.
func (g *Guard) Epoch() uint64 { return g.epoch }

// Late reports that a stop which concerns the work came after it began: its
// result is filed, and never used. It is true before the stop's Push returns,
// and stays true after Release.
func (g *Guard) Late() bool {
	g.q.mu.Lock()
	late := g.q.stopped[""] > g.epoch || g.q.stopped[g.agent] > g.epoch
	g.q.mu.Unlock()
	if late {
		return true
	}
	_, late = AsStop(context.Cause(g.ctx)) // the work that it is part of was stopped
	return late
}

// Release forgets the guard and ends its context; calling it again does
// nothing.
func (g *Guard) Release() {
	g.q.mu.Lock()
	if g.place != nil {
		g.q.guards.Remove(g.place)
		g.place = nil
	}
	g.q.mu.Unlock()
	g.cancel(context.Canceled)
}
