package interrupts_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ralph/interrupts"
)

// model is the queue in one goroutine and without haste: a list of messages,
// and every change in order.
type model struct {
	t       *rapid.T
	q       *interrupts.Queue
	d       *disk
	msgs    []interrupts.Message // by number - 1
	taken   map[uint64]bool
	felt    map[uint64]bool
	changes []interrupts.Message
	epoch   uint64
	guards  []*modelGuard
}

type modelGuard struct {
	g       *interrupts.Guard // nil for a step
	ctx     context.Context
	release func()
	agent   string
	step    bool
	cause   string
	late    bool
}

func (m *model) change(x interrupts.Message) {
	m.msgs[x.N-1] = x
	m.changes = append(m.changes, x)
}

func (m *model) waits(x interrupts.Message) bool {
	return x.State == interrupts.Queued && !m.taken[x.N]
}

func (m *model) waiting() []interrupts.Message {
	var out []interrupts.Message
	for _, x := range m.msgs {
		if m.waits(x) {
			out = append(out, x)
		}
	}
	slices.SortStableFunc(out, func(a, b interrupts.Message) int { return int(a.Class) - int(b.Class) })
	return out
}

func (m *model) push() {
	x := interrupts.Message{
		Class:   rapid.SampledFrom([]interrupts.Class{stop, urgent, urgent, ask, steer, steer, later, later}).Draw(m.t, "class"),
		From:    rapid.SampledFrom([]string{"chat", "other"}).Draw(m.t, "from"),
		To:      rapid.SampledFrom([]string{"", "", "w1", "w2"}).Draw(m.t, "to"),
		Session: rapid.SampledFrom([]string{"", "s1"}).Draw(m.t, "session"),
		Text:    fmt.Sprint("text ", len(m.changes)),
	}
	got := m.q.Push(x)
	x.N, x.State, x.At = uint64(len(m.msgs)+1), interrupts.Queued, got.At
	if got != x {
		m.t.Fatalf("pushed %+v, want %+v", got, x)
	}
	if x.Class == stop {
		m.stop(x)
	}
	m.msgs = append(m.msgs, x)
	m.change(x)
	if x.Class == urgent {
		m.preempt(x)
	}
}

func (m *model) stop(s interrupts.Message) {
	m.epoch++
	for _, x := range m.msgs {
		if x.State != interrupts.Queued || x.Class == stop || s.To != "" && x.To != s.To {
			continue
		}
		x.State = interrupts.Cancelled
		if x.From == "chat" {
			x.State = interrupts.Returned
		}
		m.change(x)
	}
	for _, g := range m.guards {
		if s.To == "" || g.agent == s.To {
			g.late = true
			if g.cause == "" {
				g.cause = "stopped by the user: " + s.Text
			}
		}
	}
}

func (m *model) preempt(x interrupts.Message) {
	m.felt[x.N] = false
	for _, g := range m.guards {
		if g.step && g.agent == x.To && g.cause == "" {
			g.cause = "pre-empted by " + x.ID()
			m.felt[x.N] = true
		}
	}
}

func (m *model) take() {
	class := rapid.SampledFrom([]interrupts.Class{stop, urgent, ask, steer, later}).Draw(m.t, "class")
	most := rapid.IntRange(1, 3).Draw(m.t, "most")
	pick := func() func(interrupts.Message) bool {
		n := 0
		return func(x interrupts.Message) bool { n++; return x.Class <= class && n <= most }
	}
	var want []interrupts.Message
	f := pick()
	for _, x := range m.waiting() {
		if f(x) {
			m.taken[x.N] = true
			want = append(want, x)
		}
	}
	got := m.q.Take(pick())
	for i := range got {
		got[i].Kept = false
	}
	if !slices.Equal(got, want) {
		m.t.Fatalf("took %v, want %v", show(got...), show(want...))
	}
}

// pick draws a message, one that exists not, or a settled one.
func (m *model) pick() (interrupts.Message, bool) {
	n := rapid.IntRange(max(1, len(m.msgs)-8), len(m.msgs)+1).Draw(m.t, "number")
	if n > len(m.msgs) {
		return interrupts.Message{N: uint64(n)}, false
	}
	return m.msgs[n-1], true
}

func (m *model) wantError(err error, exists, possible bool) bool {
	var want error
	switch {
	case !exists:
		want = interrupts.ErrNoMessage
	case !possible:
		want = interrupts.ErrSettled
	}
	if (err == nil) != (want == nil) || !errors.Is(err, want) {
		m.t.Fatalf("error %v, want %v", err, want)
	}
	return err == nil
}

func (m *model) settle() {
	x, ok := m.pick()
	s := rapid.SampledFrom([]interrupts.State{interrupts.Delivered, interrupts.Answered, interrupts.Cancelled, interrupts.Returned}).Draw(m.t, "state")
	if m.wantError(m.q.Settle(x.ID(), s), ok, x.State == interrupts.Queued) {
		x.State = s
		m.change(x)
	}
}

func (m *model) amend() {
	x, ok := m.pick()
	var a interrupts.Amendment
	a.Drop = rapid.IntRange(0, 4).Draw(m.t, "drop") == 0
	if rapid.Bool().Draw(m.t, "text?") {
		text := fmt.Sprint("new text ", len(m.changes))
		a.Text = &text
	}
	if rapid.Bool().Draw(m.t, "class?") {
		class := rapid.SampledFrom([]interrupts.Class{urgent, ask, steer, later}).Draw(m.t, "class")
		a.Class = &class
	}
	got, err := m.q.Amend(x.ID(), a)
	if !m.wantError(err, ok, m.waits(x) && x.Class != stop) {
		return
	}
	was := x
	switch {
	case a.Drop:
		x.State = interrupts.Cancelled
	default:
		if a.Text != nil {
			x.Text = *a.Text
		}
		if a.Class != nil {
			x.Class = *a.Class
		}
		x.Edited = was.Edited || x != was
	}
	if x != was {
		m.change(x)
		if x.Class == urgent && was.Class != urgent {
			m.preempt(x)
		}
	}
	got.Kept = false
	if got != x {
		m.t.Fatalf("amended %+v, want %+v", got, x)
	}
}

func (m *model) putBack() {
	var ids []string
	for _, n := range slices.Sorted(maps.Keys(m.taken)) {
		if rapid.Bool().Draw(m.t, "back") {
			ids = append(ids, m.msgs[n-1].ID())
			delete(m.taken, n)
		}
	}
	m.q.PutBack(ids...)
}

func (m *model) guard() {
	g := &modelGuard{agent: rapid.SampledFrom([]string{"", "w1", "w2"}).Draw(m.t, "agent")}
	g.g = m.q.Guard(context.Background(), g.agent)
	g.ctx, g.release = g.g.Context(), g.g.Release
	if g.g.Epoch() != m.epoch {
		m.t.Fatalf("epoch %d, want %d", g.g.Epoch(), m.epoch)
	}
	m.guards = append(m.guards, g)
}

func (m *model) step() {
	g := &modelGuard{agent: rapid.SampledFrom([]string{"", "w1"}).Draw(m.t, "agent"), step: true}
	g.ctx, g.release = m.q.Step(context.Background(), g.agent)
	for _, x := range m.waiting() {
		if x.Class == urgent && x.To == g.agent && !m.felt[x.N] {
			m.felt[x.N] = true
			if g.cause == "" {
				g.cause = "pre-empted by " + x.ID()
			}
		}
	}
	m.guards = append(m.guards, g)
}

func (m *model) release() {
	if len(m.guards) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.guards)-1).Draw(m.t, "guard")
	m.guards[i].release()
	m.guards = slices.Delete(m.guards, i, i+1)
}

func (m *model) check() {
	got := m.q.Waiting()
	for i := range got {
		got[i].Kept = false
	}
	if want := m.waiting(); !slices.Equal(got, want) {
		m.t.Fatalf("waiting %v, want %v", show(got...), show(want...))
	}
	for i, g := range m.guards {
		cause := ""
		if err := context.Cause(g.ctx); err != nil {
			cause = err.Error()
		}
		if cause != g.cause || g.g != nil && g.g.Late() != g.late {
			m.t.Fatalf("guard %d of %q (step %v): %q, want %q", i, g.agent, g.step, cause, g.cause)
		}
	}
	if m.q.Epoch() != m.epoch {
		m.t.Fatalf("epoch %d, want %d", m.q.Epoch(), m.epoch)
	}
}

// history checks what was told and what reached the disk against every change.
func (m *model) history() {
	next := 0
	last := map[uint64]interrupts.Message{} // as told last, by number
	for i, x := range m.d.told {
		kept := x.Kept
		x.Kept = false
		was := last[x.N]
		switch {
		case next < len(m.changes) && x == m.changes[next]:
			next++
		case !was.Kept && kept && was == x: // kept after all
		default:
			m.t.Fatalf("told %d is %v, want %v", i, show(x), show(m.changes[next:]...))
		}
		x.Kept = kept
		last[x.N] = x
	}
	if next != len(m.changes) {
		m.t.Fatalf("%d changes were never told: %v", len(m.changes)-next, show(m.changes[next:]...))
	}
	log := map[uint64]interrupts.Message{}
	for _, batch := range m.d.calls {
		for _, x := range batch {
			if x.Class == stop && log[x.N].N == 0 {
				for _, y := range m.msgs[:x.N-1] {
					if y.Class != stop && (x.To == "" || y.To == x.To) && log[y.N].State == interrupts.Queued {
						m.t.Fatalf("%s is on disk, but not what became of %s", x.ID(), y.ID())
					}
				}
			}
			log[x.N] = x
		}
	}
	for _, x := range m.msgs {
		if !last[x.N].Kept || log[x.N] != x {
			m.t.Fatalf("%v: told last %v, on disk %v", show(x), show(last[x.N]), show(log[x.N]))
		}
	}
}

func TestQueueAgainstAModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := &disk{}
		good := &disk{} // what reached it
		m := &model{t: rt, d: good, taken: map[uint64]bool{}, felt: map[uint64]bool{}}
		m.q = interrupts.NewQueue(interrupts.Options{
			Home: "chat", Notify: good.notify,
			Keep: func(ms []interrupts.Message) error {
				if err := d.keep(ms); err != nil {
					return err
				}
				return good.keep(ms)
			},
		})
		rt.Cleanup(func() {
			for _, g := range m.guards {
				g.release()
			}
			if err := m.q.Close(context.Background()); err != nil {
				rt.Errorf("close: %v", err)
			}
			if rt.Failed() {
				return
			}
			m.history()
		})
		broken := false
		rt.Repeat(map[string]func(*rapid.T){
			"push":     func(t *rapid.T) { m.t = t; m.push() },
			"push 2":   func(t *rapid.T) { m.t = t; m.push() },
			"take":     func(t *rapid.T) { m.t = t; m.take() },
			"settle":   func(t *rapid.T) { m.t = t; m.settle() },
			"amend":    func(t *rapid.T) { m.t = t; m.amend() },
			"put back": func(t *rapid.T) { m.t = t; m.putBack() },
			"guard":    func(t *rapid.T) { m.t = t; m.guard() },
			"step":     func(t *rapid.T) { m.t = t; m.step() },
			"release":  func(t *rapid.T) { m.t = t; m.release() },
			"disk": func(t *rapid.T) {
				broken = !broken
				d.set(nil, nil)
				if broken {
					d.set(errFull, nil)
				}
			},
			"flush": func(t *rapid.T) {
				if err := m.q.Flush(context.Background()); err != nil && !errors.Is(err, errFull) {
					t.Fatalf("flush: %v", err)
				}
			},
			"": func(*rapid.T) { m.check() },
		})
		d.set(nil, nil)
	})
}
