package workers

import (
	"context"
	"time"
)

// watcher is the goroutine that looks for agents that have stalled. It lives
// while a spawned agent is at work and somebody wants to be told.
type watcher struct {
	stop chan struct{}
	done chan struct{}
}

// watch begins the watching unless it is going on; mu is held.
func (p *Pool) watch() {
	if p.opt.Alarm == nil || p.watcher != nil {
		return
	}
	before := p.watched
	w := &watcher{stop: make(chan struct{}), done: make(chan struct{})}
	p.watcher, p.watched = w, w.done
	go func() {
		defer close(w.done)
		if before != nil {
			<-before // so that one alarm is told at a time, and Close has one to wait for
		}
		p.look(w.stop)
	}()
}

// look tells of those who have stalled until stop.
func (p *Pool) look(stop <-chan struct{}) {
	timer := time.NewTimer(p.opt.Stall)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return
		case <-timer.C:
		}
		list, next := p.stalled()
		for _, s := range list {
			p.opt.Alarm(s)
		}
		timer.Reset(next)
	}
}

// stalled returns those whose stall is to be told, and how long until the next
// look.
func (p *Pool) stalled() (list []Status, next time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	next = p.opt.Stall
	for _, w := range p.order() {
		if w.alarmed {
			continue
		}
		if left := p.due(w, now).Sub(now); left > 0 {
			next = min(next, left)
			continue
		}
		w.alarmed = true
		list = append(list, p.status(w, now))
	}
	return list, max(next, p.opt.Stall/16)
}

// due is when w counts as stalled if it gives no sign of life; mu is held. For
// who is not expected to give any that is always later.
func (p *Pool) due(w *worker, now time.Time) time.Time {
	if !w.begun || w.asides > 0 || w.spot.in != nil {
		return now.Add(p.opt.Stall)
	}
	if w.quiet.After(w.beat) {
		return w.quiet.Add(p.opt.Stall)
	}
	return w.beat.Add(p.opt.Stall)
}

// unwatched waits until nobody watches any more, or ctx ends.
func (p *Pool) unwatched(ctx context.Context) bool {
	p.mu.Lock()
	done := p.watched
	p.mu.Unlock()
	if done == nil {
		return true
	}
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}
