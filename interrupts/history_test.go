package interrupts_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ralph/interrupts"
)

// record is what one run of the history saw, each part written by one
// goroutine or under mu.
type record struct {
	mu    sync.Mutex
	said  map[uint64]interrupts.Message
	done  map[string][]uint64 // delivered, by class and sender, in order
	final map[uint64]interrupts.State
	told  []interrupts.Message
	disk  []interrupts.Message
	tries int
}

// TestHistory has six people say 12,000 things of all classes, stops among
// them, to five who take and deliver, put back, change and answer, on a disk
// that fails now and then.
func TestHistory(t *testing.T) {
	const senders, each = 6, 2000
	r := &record{said: map[uint64]interrupts.Message{}, done: map[string][]uint64{}, final: map[uint64]interrupts.State{}}
	q := interrupts.NewQueue(interrupts.Options{Home: "s0", Keep: r.keep, Notify: func(m interrupts.Message) { r.told = append(r.told, m) }})
	var stopped atomic.Uint64 // the highest stop for all whose Push has returned
	var sayers, takers sync.WaitGroup
	ended := make(chan struct{})
	for i := range senders {
		sayers.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(i)))
			for n := range each {
				m := q.Push(sentence(rnd, i, n))
				if m.Class == stop && m.To == "" {
					raise(&stopped, m.N)
				}
				r.mu.Lock()
				if _, twice := r.said[m.N]; twice || m.N == 0 {
					t.Errorf("number %d given twice", m.N)
				}
				r.said[m.N] = m
				r.mu.Unlock()
				if rnd.IntN(20) == 0 {
					a := interrupts.Amendment{Drop: rnd.IntN(2) == 0, Text: new(string)}
					if was, err := q.Amend(fmt.Sprintf("m-%d", m.N-uint64(rnd.IntN(5))), a); err == nil && a.Drop {
						r.ended(t, was)
					}
				}
				if rnd.IntN(50) == 0 {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	for c := stop; c <= later; c++ {
		takers.Go(func() {
			rnd := rand.New(rand.NewPCG(2, uint64(c)))
			for open := true; open; {
				select {
				case <-ended:
					open = false // and once more
				default:
				}
				r.deliver(t, q, c, rnd, &stopped)
				time.Sleep(time.Duration(rnd.IntN(300)) * time.Microsecond)
			}
			for len(r.deliver(t, q, c, rnd, &stopped)) > 0 {
			}
		})
	}
	sayers.Wait()
	close(ended)
	takers.Wait()
	for q.Flush(t.Context()) != nil {
		time.Sleep(time.Millisecond)
		q.Push(interrupts.Message{Class: interrupts.ClassLater, From: "last", Text: "try again"})
		for _, m := range q.Take(all) {
			r.settled(t, q, m, interrupts.Delivered)
			r.said[m.N] = m
		}
	}
	if err := q.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	r.check(t, senders*each)
}

func raise(a *atomic.Uint64, n uint64) {
	for {
		was := a.Load()
		if was >= n || a.CompareAndSwap(was, n) {
			return
		}
	}
}

func sentence(rnd *rand.Rand, sender, n int) interrupts.Message {
	m := interrupts.Message{Class: urgent + interrupts.Class(rnd.IntN(4)), From: fmt.Sprint("s", sender), Text: fmt.Sprint(sender, "/", n)}
	if rnd.IntN(4) == 0 {
		m.To = "w1"
	}
	if rnd.IntN(100) == 0 {
		m.Class = stop
	}
	return m
}

// keep fails for 10 tries in 40.
func (r *record) keep(ms []interrupts.Message) error {
	r.tries++
	if r.tries%40 >= 30 {
		return errFull
	}
	r.disk = append(r.disk, ms...)
	return nil
}

// settled settles a message and notes the state if that was won.
func (r *record) settled(t *testing.T, q *interrupts.Queue, m interrupts.Message, s interrupts.State) {
	err := q.Settle(m.ID(), s)
	switch {
	case err == nil:
		m.State = s
		r.ended(t, m)
		r.mu.Lock()
		defer r.mu.Unlock()
		key := fmt.Sprint(m.Class, " of ", m.From)
		r.done[key] = append(r.done[key], m.N)
	case !errors.Is(err, interrupts.ErrSettled):
		t.Error(err)
	}
}

func (r *record) ended(t *testing.T, m interrupts.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if was, twice := r.final[m.N]; twice {
		t.Errorf("%s was %s and is %s", m.ID(), was, m.State)
	}
	r.final[m.N] = m.State
}

// deliver takes some messages of a class, delivers the first of them, and puts
// the rest back.
func (r *record) deliver(t *testing.T, q *interrupts.Queue, c interrupts.Class, rnd *rand.Rand, stopped *atomic.Uint64) []interrupts.Message {
	g := q.Guard(context.Background(), "")
	defer g.Release()
	_, release := q.Step(g.Context(), "w1")
	defer release()
	ms := q.Take(of(c))
	if !slices.IsSortedFunc(ms, func(a, b interrupts.Message) int { return int(a.N) - int(b.N) }) {
		t.Errorf("out of order: %v", show(ms...))
	}
	n := len(ms)
	if n > 1 && rnd.IntN(3) == 0 {
		n = rnd.IntN(n)
	}
	for i, m := range ms {
		if i >= n {
			q.PutBack(m.ID())
			continue
		}
		s := interrupts.Delivered
		if c == ask {
			s = interrupts.Answered
		}
		before := stopped.Load()
		r.settled(t, q, m, s)
		if c != stop && m.N < before {
			r.mu.Lock()
			if _, won := r.final[m.N]; won {
				t.Errorf("%s was delivered after m-%d stopped it", m.ID(), before)
			}
			r.mu.Unlock()
		}
	}
	return ms
}

func (r *record) check(t *testing.T, least int) {
	if len(r.said) < least {
		t.Errorf("%d messages, want %d", len(r.said), least)
	}
	for key, ns := range r.done {
		if !slices.IsSorted(ns) {
			t.Errorf("%s were delivered out of order", key)
		}
	}
	count := map[interrupts.State]int{}
	finals := map[uint64]interrupts.Message{}
	for _, m := range r.told {
		was := finals[m.N]
		if was.State != "" && (m.State != was.State || was.Kept || !m.Kept) {
			t.Errorf("%v after %v", show(m), show(was))
		}
		if m.State != interrupts.Queued {
			finals[m.N] = m
		}
	}
	log := map[uint64]interrupts.State{}
	for _, m := range r.disk {
		if was := log[m.N]; was != "" && was != interrupts.Queued {
			t.Errorf("%s is on disk as %s and as %s", m.ID(), was, m.State)
		}
		log[m.N] = m.State
	}
	var stops []interrupts.Message
	for _, m := range r.said {
		if m.Class == stop {
			stops = append(stops, m)
		}
	}
	for n, m := range r.said {
		f := finals[n]
		count[f.State]++
		covered := slices.ContainsFunc(stops, func(s interrupts.Message) bool { return s.N > n && (s.To == "" || s.To == m.To) })
		switch won, ok := r.final[n]; {
		case f.State == "" || !f.Kept || log[n] != f.State:
			t.Errorf("%s: told %s, kept %v, on disk %s", m.ID(), f.State, f.Kept, log[n])
		case ok && won != f.State:
			t.Errorf("%s was settled as %s and is %s", m.ID(), won, f.State)
		case !ok && (!covered || m.Class == stop || f.State != map[bool]interrupts.State{true: interrupts.Returned, false: interrupts.Cancelled}[m.From == "s0"]):
			t.Errorf("%v became %s by nobody", show(m), f.State)
		}
	}
	t.Logf("%d messages, %d stops, %v, %d tries to keep them", len(r.said), len(stops), count, r.tries)
	for _, s := range []interrupts.State{interrupts.Delivered, interrupts.Answered, interrupts.Cancelled, interrupts.Returned} {
		if count[s] < 100 {
			t.Errorf("only %d were %s: the test tries too little", count[s], s)
		}
	}
}
