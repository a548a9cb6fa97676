package workers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// log is what happened, in order; it is safe for concurrent use.
type log struct {
	mu   sync.Mutex
	list []string
}

func (l *log) add(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, s)
}

// take returns what happened since it was last asked.
func (l *log) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := strings.Join(l.list, " ")
	l.list = nil
	return s
}

// hand is one spawned agent in the hand of a test: it works until it is let go.
type hand struct {
	p     *Pool
	log   *log
	begun map[string]chan error
}

func newHand(p *Pool) *hand { return &hand{p: p, log: &log{}, begun: map[string]chan error{}} }

func (h *hand) spawn(t *testing.T, id, parent string) {
	t.Helper()
	end := make(chan error, 1)
	h.begun[id] = end
	err := h.p.Spawn(t.Context(), Spec{ID: id, Parent: parent}, func(ctx context.Context) error {
		h.log.add("+" + id)
		select {
		case err := <-end:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}, func(error) { h.log.add("-" + id) })
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

func (h *hand) finish(id string) {
	h.begun[id] <- nil
	synctest.Wait()
}

func (h *hand) expect(t *testing.T, want string) {
	t.Helper()
	if got := h.log.take(); got != want {
		t.Errorf("happened %q, want %q", got, want)
	}
}

func TestSpawnTakesTurnsAmongParents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHand(New(Options{MaxAgents: 1}))
		for _, id := range []string{"a1", "a2", "a3", "b1", "c1", "b2"} {
			h.spawn(t, id, id[:1])
		}
		h.expect(t, "+a1")
		if got := ids(h.p); got != "a1:running a2:queued a3:queued b1:queued c1:queued b2:queued" {
			t.Errorf("list %s", got)
		}
		// a has had its turn for as long as b and c wait.
		for _, id := range []string{"a1", "a2", "b1", "c1", "a3", "b2"} {
			h.finish(id)
		}
		h.expect(t, "-a1 +a2 -a2 +b1 -b1 +c1 -c1 +a3 -a3 +b2 -b2")
		// Without a bound all begin at once, and Do never needs a place.
		h = newHand(New(Options{}))
		h.spawn(t, "x", "")
		h.spawn(t, "y", "")
		h.expect(t, "+x +y")
		h.finish("x")
		h.finish("y")
		h = newHand(New(Options{MaxAgents: 1}))
		h.spawn(t, "x", "")
		if err := h.p.Do(t.Context(), Spec{ID: "ralph"}, func(context.Context) error { return nil }); err != nil {
			t.Error(err)
		}
		h.finish("x")
	})
}

func TestSpawnRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{MaxAgents: 1, MaxDepth: 2, MaxChildren: 2})
		h := newHand(p)
		none := func(context.Context) error { t.Error("ran"); return nil }
		never := func(error) { t.Error("ended") }
		refused := func(s Spec, want error, words string) {
			t.Helper()
			err := p.Spawn(t.Context(), s, none, never)
			if !errors.Is(err, want) || !strings.Contains(err.Error(), words) {
				t.Errorf("spawn %+v: %v", s, err)
			}
		}
		root := start(t, p, Spec{ID: "ralph"}, listens)
		h.spawn(t, "a", "ralph")
		h.spawn(t, "b", "ralph")
		refused(Spec{ID: "c", Parent: "ralph"}, ErrChildren, "2 (--max-children-per-agent)")
		refused(Spec{ID: "b"}, ErrTaken, `"b"`)
		h.spawn(t, "aa", "a")
		refused(Spec{ID: "aaa", Parent: "aa"}, ErrDepth, "2 (--max-depth)")
		// Who knows that a parent is deep says so when it is not at work any more.
		refused(Spec{ID: "x", Parent: "gone", Depth: 3}, ErrDepth, "--max-depth")
		h.spawn(t, "y", "gone")
		if err := p.Allows("ralph", 1, 1); !errors.Is(err, ErrChildren) {
			t.Errorf("allows %v", err)
		}
		if err := p.Allows("a", 1, 2); !errors.Is(err, ErrChildren) {
			t.Errorf("allows one and one more of two: %v", err)
		}
		if err := errors.Join(p.Allows("a", 1, 1), p.Allows("", 0, 100)); err != nil {
			t.Error(err)
		}
		if err := p.Allows("aa", 1, 1); !errors.Is(err, ErrDepth) {
			t.Errorf("allows %v", err)
		}
		var depths []int
		for _, s := range p.List() {
			depths = append(depths, s.Depth)
		}
		if !slices.Equal(depths, []int{0, 1, 1, 2, 1}) {
			t.Errorf("depths %v", depths)
		}
		// Nobody begins for who is to end, or when the time is over.
		p.Cancel("a", errStop)
		over, cancel := context.WithCancelCause(t.Context())
		cancel(errStop)
		if err := p.Spawn(over, Spec{ID: "late"}, none, never); !errors.Is(err, errStop) {
			t.Error(err)
		}
		synctest.Wait()
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
		<-root
		refused(Spec{ID: "z"}, ErrClosed, "closed")
		if len(p.families) != 0 || p.busy != 0 || p.working != 0 || p.line.pop() != nil {
			t.Errorf("left behind: %+v", p.families)
		}
	})
}

func TestEndsOfASpawnedAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{MaxAgents: 1})
		for name, tt := range map[string]struct {
			work func(context.Context) error
			want func(error) bool
		}{
			"well":    {func(context.Context) error { return nil }, func(err error) bool { return err == nil }},
			"badly":   {func(context.Context) error { return errStop }, func(err error) bool { return err == errStop }},
			"goexit":  {func(context.Context) error { runtime.Goexit(); return nil }, func(err error) bool { return errors.Is(err, errVanished) }},
			"panics":  {func(context.Context) error { panic(errStop) }, func(err error) bool { return errors.Is(err, errStop) }},
			"panics2": {func(context.Context) error { panic("oh no") }, func(err error) bool { return err != nil }},
		} {
			var got []error
			if err := p.Spawn(t.Context(), Spec{ID: name}, tt.work, func(err error) {
				// No lock is held, the place is free, and the agent is still there.
				if p.List()[0].ID != name {
					t.Error("gone before its end was told")
				}
				began := false
				if err := p.Spawn(t.Context(), Spec{ID: "next", Parent: name}, func(context.Context) error { began = true; return nil }, nil); err != nil {
					t.Error(err)
				}
				if err := errors.Join(p.Aside(t.Context(), name, func(ctx context.Context) error { return p.Wait(ctx, "next") })); err != nil || !began {
					t.Error("the next did not begin", err)
				}
				got = append(got, err)
			}); err != nil {
				t.Fatal(err)
			}
			if err := p.Wait(t.Context(), name); err != nil {
				t.Fatal(err)
			}
			if len(got) != 1 || !tt.want(got[0]) {
				t.Errorf("%s: %v", name, got)
			}
			var broke *PanicError
			if strings.HasPrefix(name, "panics") && (!errors.As(got[0], &broke) || strings.Contains(broke.Error(), "goroutine") || !strings.Contains(string(broke.Stack()), "spawn_test.go")) {
				t.Errorf("%s: %v", name, got[0])
			}
		}
	})
}

// TestOneAgentAtATimeNeverDeadlocks: each agent waits for the children of its
// own, three levels deep, with room for one.
func TestOneAgentAtATimeNeverDeadlocks(t *testing.T) {
	for _, most := range []int{1, 2, 7} {
		synctest.Test(t, func(t *testing.T) {
			p := New(Options{MaxAgents: most, MaxDepth: 3})
			var atWork, peak, all atomic.Int32
			enter := func() {
				now := atWork.Add(1)
				for old := peak.Load(); now > old && !peak.CompareAndSwap(old, now); old = peak.Load() {
				}
			}
			var level func(id string, depth int) func(context.Context) error
			level = func(id string, depth int) func(context.Context) error {
				return func(ctx context.Context) error {
					all.Add(1)
					enter()
					defer atWork.Add(-1)
					time.Sleep(time.Second)
					if depth == 3 {
						return nil
					}
					for i := range 3 {
						child := fmt.Sprintf("%s.%d", id, i)
						if err := p.Spawn(ctx, Spec{ID: child, Parent: id}, level(child, depth+1), nil); err != nil {
							return err
						}
					}
					for i := range 3 {
						atWork.Add(-1)
						err := p.Aside(ctx, id, func(ctx context.Context) error { return p.Wait(ctx, fmt.Sprintf("%s.%d", id, i)) })
						enter()
						if err != nil {
							return err
						}
					}
					time.Sleep(time.Second)
					return nil
				}
			}
			var failed error
			if err := p.Spawn(t.Context(), Spec{ID: "r", Parent: "ralph"}, level("r", 1), func(err error) { failed = err }); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(p.Wait(t.Context(), "r"), failed); err != nil {
				t.Fatal(err)
			}
			if int(peak.Load()) > most || all.Load() != 13 {
				t.Errorf("%d of %d at once, %d in all", peak.Load(), most, all.Load())
			}
		})
	}
}

func TestAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{MaxAgents: 1, Stall: time.Minute})
		h := newHand(p)
		gate, second := make(chan struct{}), make(chan struct{})
		var order log
		err := p.Spawn(t.Context(), Spec{ID: "a"}, func(ctx context.Context) error {
			var wg sync.WaitGroup
			for i, c := range []chan struct{}{gate, second} {
				wg.Go(func() {
					_ = p.Aside(ctx, "a", func(context.Context) error { <-c; return nil })
					order.add(fmt.Sprint(i))
				})
			}
			wg.Wait()
			order.add("back")
			return nil
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		h.spawn(t, "b", "")
		h.spawn(t, "c", "")
		h.expect(t, "+b")
		time.Sleep(time.Hour)
		if s := p.List()[0]; s.Stalled || s.State != Running {
			t.Errorf("who waits for others is no stall: %+v", s)
		}
		// The first of two waits does not hold up, and takes no place.
		close(gate)
		synctest.Wait()
		close(second)
		synctest.Wait()
		if got := order.take(); got != "0" {
			t.Errorf("order %s", got)
		}
		h.finish("b")
		if got := order.take(); got != "1 back" {
			t.Errorf("order %s", got)
		}
		h.expect(t, "-b +c")
		h.finish("c")
		// An id that nobody has, and an agent without a place, only wait.
		if err := p.Aside(t.Context(), "nobody", func(context.Context) error { return errStop }); err != errStop {
			t.Error(err)
		}
	})
}

// TestAsideAgainWhileItComesBack: who waits for its place and is asked to wait for
// others once more lets the first wait go on without one.
func TestAsideAgainWhileItComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{MaxAgents: 1})
		h := newHand(p)
		var order log
		again, late := make(chan struct{}), make(chan struct{})
		err := p.Spawn(t.Context(), Spec{ID: "a"}, func(ctx context.Context) error {
			var wg sync.WaitGroup
			wg.Go(func() {
				<-again
				_ = p.Aside(ctx, "a", func(context.Context) error { <-late; return nil })
				order.add("late")
			})
			_ = p.Aside(ctx, "a", func(context.Context) error { return p.Wait(ctx, "c") })
			order.add("first")
			wg.Wait()
			return nil
		}, func(error) { order.add("end") })
		if err != nil {
			t.Fatal(err)
		}
		h.spawn(t, "c", "a")
		h.spawn(t, "d", "a")
		h.spawn(t, "e", "a")
		h.finish("c") // a comes back and d has begun, or the reverse
		p.Cancel("d", errStop)
		synctest.Wait()
		if got := order.take(); got != "first" {
			t.Errorf("order %s", got)
		}
		close(again)
		synctest.Wait()
		h.finish("e") // a waits without its place, so e could begin
		close(late)
		synctest.Wait()
		if got := order.take(); got != "late end" || len(p.List()) != 0 || p.busy != 0 {
			t.Errorf("order %s, %d left, %d busy", got, len(p.List()), p.busy)
		}
	})
}

// TestWhoComesBackFirstGoesFirst: before all that are new, in the order of coming
// back.
func TestWhoComesBackFirstGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHand(New(Options{MaxAgents: 3}))
		var order log
		wait := map[string]chan struct{}{"a": make(chan struct{}), "b": make(chan struct{}), "c": make(chan struct{})}
		for id, c := range wait {
			if err := h.p.Spawn(t.Context(), Spec{ID: id}, func(ctx context.Context) error {
				_ = h.p.Aside(ctx, id, func(context.Context) error { <-c; return nil })
				order.add(id)
				return nil
			}, nil); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range []string{"x", "y", "z", "new"} {
			h.spawn(t, id, "")
		}
		for _, id := range []string{"b", "c", "a"} {
			close(wait[id])
			synctest.Wait()
		}
		h.expect(t, "+x +y +z")
		h.finish("x") // b has its place and ends, then c, a, and the new one
		if got := order.take(); got != "b c a" {
			t.Errorf("order %s", got)
		}
		h.expect(t, "-x +new")
		for _, id := range []string{"y", "z", "new"} {
			h.finish(id)
		}
	})
}

// TestAsideWhoseCallEnds: the agent goes on and has its place later, and gives it
// back at its end.
func TestAsideWhoseCallEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{MaxAgents: 1})
		h := newHand(p)
		end := make(chan struct{})
		err := p.Spawn(t.Context(), Spec{ID: "a"}, func(ctx context.Context) error {
			call, cancel := context.WithTimeoutCause(ctx, time.Second, errStop)
			defer cancel()
			if err := p.Aside(call, "a", listens); !errors.Is(err, errStop) {
				t.Error(err)
			}
			<-end
			return nil
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		h.spawn(t, "b", "")
		h.spawn(t, "c", "")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		h.finish("b")
		h.expect(t, "+b -b") // the place is a's again
		close(end)
		synctest.Wait()
		h.expect(t, "+c")
		h.finish("c")
		// And one that is told to end waits for no place.
		if err := p.Spawn(t.Context(), Spec{ID: "d"}, func(ctx context.Context) error {
			return p.Aside(context.WithoutCancel(ctx), "d", func(context.Context) error { <-ctx.Done(); return nil })
		}, func(err error) {
			if err != nil {
				t.Error(err)
			}
		}); err != nil {
			t.Fatal(err)
		}
		h.spawn(t, "e", "")
		p.Cancel("d", errStop)
		if err := p.Wait(t.Context(), "d"); err != nil {
			t.Error(err)
		}
		h.finish("e")
	})
}

func TestStopCoversTheQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{MaxAgents: 2})
		h := newHand(p)
		for i := range 6 {
			h.spawn(t, fmt.Sprint("c", i), "ralph")
		}
		if !p.Cancel("c4", errStop) {
			t.Error("cancel")
		}
		synctest.Wait()
		h.expect(t, "+c0 +c1 -c4")
		r := p.Stop(t.Context(), errStop)
		if fmt.Sprint(r.Ended) != "[c0 c1 c2 c3 c5]" || !r.Rest() || r.Took != 0 {
			t.Errorf("report %+v", r)
		}
		if got := h.log.take(); strings.Contains(got, "+") || strings.Count(got, "-") != 5 {
			t.Errorf("happened %s", got)
		}
		// Who comes after it is not concerned.
		h.spawn(t, "next", "ralph")
		h.expect(t, "+next")
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
		h.expect(t, "-next")
	})
}

// TestFiftyChildrenAtDepthFour asks for more than there may be, from all sides.
func TestFiftyChildrenAtDepthFour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{MaxAgents: 20, MaxDepth: 3, MaxChildren: 10})
		var begun, deep, many atomic.Int32
		var work func(id string) func(context.Context) error
		work = func(id string) func(context.Context) error {
			return func(ctx context.Context) error {
				begun.Add(1)
				for i := range 50 {
					child := fmt.Sprintf("%s-%d", id, i)
					switch err := p.Spawn(ctx, Spec{ID: child, Parent: id}, work(child), nil); {
					case errors.Is(err, ErrDepth):
						deep.Add(1)
					case errors.Is(err, ErrChildren):
						many.Add(1)
					case err != nil:
						return err
					}
				}
				time.Sleep(time.Second) // nobody ends while another one asks
				return p.Aside(ctx, id, func(ctx context.Context) error {
					for i := range 50 {
						if err := p.Wait(ctx, fmt.Sprintf("%s-%d", id, i)); err != nil {
							return err
						}
					}
					return nil
				})
			}
		}
		if err := p.Do(t.Context(), Spec{ID: "ralph"}, work("ralph")); err != nil {
			t.Fatal(err)
		}
		// 1 + 10 + 100 + 1,000, of which the last all ask too deep.
		if begun.Load() != 1111 || many.Load() != 111*40 || deep.Load() != 1000*50 || len(p.List()) != 0 {
			t.Errorf("%d begun, %d too many, %d too deep", begun.Load(), many.Load(), deep.Load())
		}
	})
}

// TestStorm spawns, cancels, waits and stops from all sides, for the race
// detector: each end is told once, and nothing is left.
func TestStorm(t *testing.T) {
	p := New(Options{MaxAgents: 5, MaxChildren: 30, Stall: time.Millisecond, Alarm: func(Status) {}})
	var asked, told atomic.Int32
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(g)))
			for k := range 150 {
				id, parent := fmt.Sprint(g, "-", k), fmt.Sprint(r.IntN(16), "-", k)
				work := func(ctx context.Context) error {
					p.Beat(id, "works")
					switch r := k % 4; r {
					case 0:
						<-ctx.Done()
					case 1:
						_ = p.Aside(ctx, id, func(ctx context.Context) error { return p.Wait(ctx, fmt.Sprint(g-1, "-", k)) })
					case 2:
						panic("oh no")
					}
					return nil
				}
				once := sync.OnceFunc(func() { told.Add(1) })
				var calls atomic.Int32
				err := p.Spawn(t.Context(), Spec{ID: id, Parent: parent}, work, func(error) {
					if calls.Add(1) > 1 {
						t.Error("told twice")
					}
					p.List() // a lock that is held would hang here
					once()
				})
				if err == nil {
					asked.Add(1)
				} else if !errors.Is(err, ErrChildren) && !errors.Is(err, errStop) {
					t.Error(err)
				}
				switch r.IntN(12) {
				case 0:
					p.Cancel(id, errStop)
				case 1:
					p.Stop(t.Context(), errStop)
				case 2:
					p.List()
				}
			}
		})
	}
	wg.Wait()
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if asked.Load() != told.Load() || len(p.List()) != 0 || p.busy != 0 || len(p.families) != 0 {
		t.Errorf("%d began, %d ends were told, %d left, %d busy", asked.Load(), told.Load(), len(p.List()), p.busy)
	}
	t.Logf("%d agents", asked.Load())
}

// thousand is a Pool with a thousand agents that are children of one another.
func thousand(tb testing.TB) *Pool {
	p := New(Options{MaxAgents: 500})
	for i := range 1000 {
		if err := p.Spawn(tb.Context(), Spec{ID: fmt.Sprint(i), Parent: fmt.Sprint(i / 3)}, listens, nil); err != nil {
			tb.Fatal(err)
		}
	}
	return p
}

// TestStopOfAThousand: a stop reaches each, whoever is whose child.
func TestStopOfAThousand(t *testing.T) {
	p := thousand(t)
	all := p.sweep(errStop, true)
	if r := p.Stop(t.Context(), errStop); len(all) != 1000 || !r.Rest() {
		t.Errorf("%d agents, report %+v", len(all), r)
	}
}

// BenchmarkSweep measures what a stop of a thousand agents does before it waits.
func BenchmarkSweep(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		p := thousand(b)
		b.StartTimer()
		p.sweep(errStop, true)
		b.StopTimer()
		p.Stop(b.Context(), errStop)
		b.StartTimer()
	}
}

func TestStallAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var alarms log
		began := time.Now()
		p := New(Options{MaxAgents: 2, Alarm: func(s Status) {
			alarms.add(fmt.Sprintf("%s@%v:%v:%s", s.ID, time.Since(began), s.Stalled, s.Doing))
		}})
		h := newHand(p)
		h.spawn(t, "a", "")
		h.spawn(t, "b", "")
		h.spawn(t, "queued", "")
		coordinator := start(t, p, Spec{ID: "ralph"}, listens)
		time.Sleep(time.Minute)
		p.Beat("b", "thinks")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := alarms.take(); got != "a@2m0s:true: b@3m0s:true:thinks" {
			t.Errorf("alarms %s", got)
		}
		stalled := map[string]bool{}
		for _, s := range p.List() {
			stalled[s.ID] = s.Stalled
		}
		if want := fmt.Sprint(map[string]bool{"a": true, "b": true, "queued": false, "ralph": false}); fmt.Sprint(stalled) != want {
			t.Errorf("stalled %v", stalled)
		}
		// A sign of life ends it, and the next silence is told again.
		p.Beat("a", "reads")
		if p.List()[0].Stalled {
			t.Error("stalled still")
		}
		h.finish("b") // its place is for who waited, whose silence begins now
		time.Sleep(119 * time.Second)
		synctest.Wait()
		if got := alarms.take(); got != "" {
			t.Errorf("too early: %s", got)
		}
		time.Sleep(10 * time.Second)
		if got := alarms.take(); got != "a@13m0s:true:reads queued@13m0s:true:" {
			t.Errorf("alarms %s", got)
		}
		// Who is expected to be quiet has that much longer.
		p.Quiet("a", time.Hour)
		p.Quiet("nobody", time.Hour)
		time.Sleep(61 * time.Minute)
		synctest.Wait()
		if got := alarms.take(); got != "" || p.List()[0].Stalled {
			t.Errorf("too early: %s", got)
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if got := alarms.take(); !strings.HasPrefix(got, "a@1h15m") {
			t.Errorf("alarms %s", got)
		}
		h.finish("a")
		h.finish("queued")
		// Nobody watches when nobody is at work.
		if p.watcher != nil {
			t.Error("a watcher is left")
		}
		if !p.unwatched(t.Context()) {
			t.Error("it did not end")
		}
		h.spawn(t, "c", "")
		time.Sleep(3 * time.Minute)
		if got := alarms.take(); !strings.HasPrefix(got, "c@") {
			t.Errorf("alarms %s", got)
		}
		p.Stop(t.Context(), errStop)
		<-coordinator
	})
}

// TestAlarmThatHangs: Close says so instead of hanging too.
func TestAlarmThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := New(Options{Stall: time.Second, Alarm: func(Status) { <-release }})
		h := newHand(p)
		h.spawn(t, "a", "")
		time.Sleep(2 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Close(ctx); err == nil || !strings.Contains(err.Error(), "alarm") {
			t.Errorf("close: %v", err)
		}
		close(release)
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
