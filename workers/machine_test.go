package workers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// wish is what a test tells an agent to do next.
type wish int

const (
	wishEnd wish = iota
	wishPanic
	wishWait // for others, until told wishEnd
)

// what an agent of the model is doing.
const (
	isQueued  = "queued"
	isWorking = "working"
	isAside   = "aside"
	isBack    = "back" // waits for its place
)

// member is an agent of the model.
type member struct {
	id, parent string
	depth      int
	is         string
	wishes     chan wish
}

// sim is a plain model of a Pool: lists, and no cleverness.
type sim struct {
	p        *Pool
	o        Options
	agents   []*member // who has not ended, in the order of asking
	back     []*member
	families []string // in turn
	last     int
	mu       sync.Mutex // guards ended
	ended    map[string][]error
	expected map[string]string // how each agent that ended must have
}

func (m *sim) find(id string) *member {
	i := slices.IndexFunc(m.agents, func(a *member) bool { return a.id == id })
	if i < 0 {
		return nil
	}
	return m.agents[i]
}

func (m *sim) count(is string) (n int) {
	for _, a := range m.agents {
		if a.is == is {
			n++
		}
	}
	return n
}

// fill gives places in the order that is promised.
func (m *sim) fill() {
	for m.o.MaxAgents == 0 || m.count(isWorking) < m.o.MaxAgents {
		if len(m.back) > 0 {
			m.back[0].is = isWorking
			m.back = m.back[1:]
			continue
		}
		if len(m.families) == 0 {
			return
		}
		f := m.families[0]
		m.families = m.families[1:]
		var mine []*member
		for _, a := range m.agents {
			if a.parent == f && a.is == isQueued {
				mine = append(mine, a)
			}
		}
		mine[0].is = isWorking
		if len(mine) > 1 {
			m.families = append(m.families, f)
		}
	}
}

func (m *sim) remove(a *member, how string) {
	m.expected[a.id] = how
	m.agents = slices.DeleteFunc(m.agents, func(x *member) bool { return x == a })
	m.back = slices.DeleteFunc(m.back, func(x *member) bool { return x == a })
	if a.is == isQueued && !slices.ContainsFunc(m.agents, func(x *member) bool { return x.parent == a.parent && x.is == isQueued }) {
		m.families = slices.DeleteFunc(m.families, func(f string) bool { return f == a.parent })
	}
}

func (m *sim) work(a *member) func(context.Context) error {
	next := func(ctx context.Context) (wish, error) {
		select {
		case w := <-a.wishes:
			return w, nil
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
	return func(ctx context.Context) error {
		for {
			w, err := next(ctx)
			switch {
			case err != nil:
				return err
			case w == wishEnd:
				return nil
			case w == wishPanic:
				panic("oh no")
			}
			if err := m.p.Aside(ctx, a.id, func(ctx context.Context) error { _, err := next(ctx); return err }); err != nil {
				return err
			}
		}
	}
}

func (m *sim) spawn(rt *rapid.T) {
	parent := "ralph"
	if len(m.agents) > 0 && rapid.Bool().Draw(rt, "nested") {
		parent = rapid.SampledFrom(m.agents).Draw(rt, "parent").id
	}
	m.last++
	a := &member{id: fmt.Sprint("c", m.last), parent: parent, depth: 1, is: isQueued, wishes: make(chan wish, 1)}
	if p := m.find(parent); p != nil {
		a.depth = p.depth + 1
	}
	siblings, waiting := 0, false
	for _, x := range m.agents {
		if x.parent == parent {
			siblings++
			waiting = waiting || x.is == isQueued
		}
	}
	err := m.p.Spawn(context.Background(), Spec{ID: a.id, Parent: parent}, m.work(a), func(err error) {
		m.p.List() // a lock that is held would hang here
		m.mu.Lock()
		defer m.mu.Unlock()
		m.ended[a.id] = append(m.ended[a.id], err)
	})
	var want error
	switch {
	case m.o.MaxDepth > 0 && a.depth > m.o.MaxDepth:
		want = ErrDepth
	case m.o.MaxChildren > 0 && siblings >= m.o.MaxChildren:
		want = ErrChildren
	}
	if !errors.Is(err, want) {
		rt.Fatalf("spawn %s of %s: %v, want %v", a.id, parent, err, want)
	}
	if want != nil {
		return
	}
	m.agents = append(m.agents, a)
	if !waiting {
		m.families = append(m.families, parent)
	}
}

// tell has an agent that is doing one thing do the next.
func (m *sim) tell(rt *rapid.T, is string, w wish) *member {
	var some []*member
	for _, a := range m.agents {
		if a.is == is {
			some = append(some, a)
		}
	}
	if len(some) == 0 {
		rt.Skip("nobody")
	}
	a := rapid.SampledFrom(some).Draw(rt, "who")
	a.wishes <- w
	return a
}

func (m *sim) cancel(rt *rapid.T) {
	if len(m.agents) == 0 {
		rt.Skip("nobody")
	}
	a := rapid.SampledFrom(m.agents).Draw(rt, "who")
	if !m.p.Cancel(a.id, errStop) {
		rt.Fatalf("cancel %s: nobody", a.id)
	}
	for next := []*member{a}; len(next) > 0; next = next[1:] {
		m.remove(next[0], "stop")
		for _, x := range m.agents {
			if x.parent == next[0].id {
				next = append(next, x)
			}
		}
	}
}

func (m *sim) stop(rt *rapid.T) {
	r := m.p.Stop(context.Background(), errStop)
	var want []string
	for _, a := range slices.Clone(m.agents) {
		want = append(want, a.id)
		m.remove(a, "stop")
	}
	if !slices.Equal(r.Ended, want) || !r.Rest() {
		rt.Fatalf("report %+v, want %v", r, want)
	}
}

// check compares the pool with the model once all is quiet.
func (m *sim) check(rt *rapid.T) {
	m.fill()
	synctest.Wait()
	var got, want []string
	for _, s := range m.p.List() {
		m.p.mu.Lock()
		w := m.p.agents[s.ID]
		is := isWorking
		switch {
		case s.State == Queued:
			is = isQueued
		case w.asides > 0:
			is = isAside
		case !w.placed:
			is = isBack
		}
		got = append(got, fmt.Sprint(s.ID, s.Parent, s.Depth, is))
		m.p.mu.Unlock()
	}
	for _, a := range m.agents {
		want = append(want, fmt.Sprint(a.id, a.parent, a.depth, a.is))
	}
	if !slices.Equal(got, want) {
		rt.Fatalf("pool  %s\nmodel %s", strings.Join(got, " "), strings.Join(want, " "))
	}
	if n := m.count(isWorking); m.p.busy != n || m.o.MaxAgents > 0 && n > m.o.MaxAgents {
		rt.Fatalf("%d busy, %d work, at most %d", m.p.busy, n, m.o.MaxAgents)
	}
	if len(m.ended) != len(m.expected) {
		rt.Fatalf("%d ends told, want %d", len(m.ended), len(m.expected))
	}
	for id, how := range m.expected {
		var broke *PanicError
		list := m.ended[id]
		ok := len(list) == 1 && map[string]bool{"well": list[0] == nil, "stop": errors.Is(list[0], errStop), "panic": errors.As(list[0], &broke)}[how]
		if !ok {
			rt.Fatalf("%s ended with %v, want %s once", id, list, how)
		}
	}
}

// bubble is a test without a deadline, which a synctest bubble has not.
type bubble struct{ testing.TB }

// TestPoolIsItsModel drives a pool and a plain model of it with the same random
// acts and compares them after each.
func TestPoolIsItsModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(bubble{t}, func(rt *rapid.T) {
			o := Options{MaxAgents: rapid.IntRange(0, 3).Draw(rt, "agents"), MaxDepth: rapid.IntRange(0, 3).Draw(rt, "depth"),
				MaxChildren: rapid.IntRange(0, 4).Draw(rt, "children"), Stall: time.Hour, Alarm: func(Status) { t.Error("alarm") }}
			m := &sim{p: New(o), o: o, ended: map[string][]error{}, expected: map[string]string{}}
			defer func() { _ = m.p.Close(context.Background()) }() // a failure leaves nobody behind
			rt.Repeat(map[string]func(*rapid.T){
				"spawn":  m.spawn,
				"spawn2": m.spawn,
				"spawn3": m.spawn,
				"end":    func(rt *rapid.T) { m.remove(m.tell(rt, isWorking, wishEnd), "well") },
				"panic":  func(rt *rapid.T) { m.remove(m.tell(rt, isWorking, wishPanic), "panic") },
				"aside":  func(rt *rapid.T) { m.tell(rt, isWorking, wishWait).is = isAside },
				"aside2": func(rt *rapid.T) { m.tell(rt, isWorking, wishWait).is = isAside },
				"back": func(rt *rapid.T) {
					a := m.tell(rt, isAside, wishEnd)
					a.is = isBack
					m.back = append(m.back, a)
				},
				"cancel": m.cancel,
				"stop":   func(rt *rapid.T) { m.stop(rt) },
				"":       m.check,
			})
			if err := m.p.Close(context.Background()); err != nil {
				rt.Fatal(err)
			}
			synctest.Wait()
			if len(m.p.List()) != 0 || len(m.p.families) != 0 || m.p.line.pop() != nil || m.p.working != 0 {
				rt.Fatal("something is left")
			}
		})
	})
}
