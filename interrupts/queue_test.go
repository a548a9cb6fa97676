package interrupts_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ralph/interrupts"
)

const (
	stop   = interrupts.ClassStop
	urgent = interrupts.ClassUrgent
	ask    = interrupts.ClassAsk
	steer  = interrupts.ClassSteer
	later  = interrupts.ClassLater
)

func all(interrupts.Message) bool { return true }

func of(c interrupts.Class) func(interrupts.Message) bool {
	return func(m interrupts.Message) bool { return m.Class == c }
}

// show writes messages as "m-1 steer queued kept text", one each.
func show(ms ...interrupts.Message) []string {
	var out []string
	for _, m := range ms {
		s := fmt.Sprintf("%s %s %s", m.ID(), m.Class, m.State)
		if m.Kept {
			s += " kept"
		}
		if m.Edited {
			s += " edited"
		}
		out = append(out, strings.TrimSpace(s+" "+m.Text))
	}
	return out
}

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// disk is a Keep that can fail and hang, and a Notify that listens.
type disk struct {
	mu    sync.Mutex
	fails error
	hangs chan struct{} // closed when it goes on
	calls [][]interrupts.Message
	told  []interrupts.Message
}

func (d *disk) keep(ms []interrupts.Message) error {
	d.mu.Lock()
	d.calls = append(d.calls, ms)
	hangs := d.hangs
	d.mu.Unlock()
	if hangs != nil {
		<-hangs
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fails
}

func (d *disk) notify(m interrupts.Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told = append(d.told, m)
}

func (d *disk) set(fails error, hangs chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fails, d.hangs = fails, hangs
}

// heard returns what was told since it was asked last.
func (d *disk) heard() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer func() { d.told = nil }()
	return show(d.told...)
}

func (d *disk) kept() [][]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out [][]string
	for _, ms := range d.calls {
		out = append(out, show(ms...))
	}
	d.calls = nil
	return out
}

func open(t *testing.T, o interrupts.Options) (*interrupts.Queue, *disk) {
	d := &disk{}
	if o.Keep == nil {
		o.Keep = d.keep
	}
	o.Notify, o.Home = d.notify, "chat"
	q := interrupts.NewQueue(o)
	t.Cleanup(func() {
		if err := q.Close(context.WithoutCancel(t.Context())); err != nil && d.fails == nil {
			t.Errorf("close: %v", err)
		}
	})
	return q, d
}

func say(c interrupts.Class, text string) interrupts.Message {
	return interrupts.Message{Class: c, Text: text, From: "chat"}
}

func flush(t *testing.T, q *interrupts.Queue) {
	t.Helper()
	if err := q.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestOrderIsClassThenNumber(t *testing.T) {
	q, d := open(t, interrupts.Options{Last: 40})
	for i, c := range []interrupts.Class{later, steer, ask, steer, urgent, later, later + 9} {
		if m := q.Push(say(c, fmt.Sprint(i))); m.N != uint64(41+i) || m.State != interrupts.Queued || m.At.IsZero() || m.Kept {
			t.Errorf("pushed %+v", m)
		}
	}
	flush(t, q)
	want := []string{"m-45 urgent queued kept 4", "m-43 ask queued kept 2", "m-42 steer queued kept 1", "m-44 steer queued kept 3",
		"m-41 later queued kept 0", "m-46 later queued kept 5", "m-47 later queued kept 6"}
	same(t, "waiting", show(q.Waiting()...), want...)
	var offered []string
	same(t, "steers", show(q.Take(func(m interrupts.Message) bool {
		offered = append(offered, show(m)...)
		return m.Class == steer
	})...), want[2:4]...)
	same(t, "offered", offered, want...)
	same(t, "the others", show(q.Waiting()...), slices.Delete(slices.Clone(want), 2, 4)...)
	q.PutBack("m-44", "m-42", "m-99", "steer", "m-45")
	same(t, "waiting again", show(q.Waiting()...), want...)
	same(t, "put back", show(q.Take(all)...), want...)
	if ms := q.Take(all); ms != nil {
		t.Errorf("taken twice: %v", show(ms...))
	}
	same(t, "told", d.heard(), "m-41 later queued kept 0", "m-42 steer queued kept 1", "m-43 ask queued kept 2",
		"m-44 steer queued kept 3", "m-45 urgent queued kept 4", "m-46 later queued kept 5", "m-47 later queued kept 6")
}

func TestTextIsKeptByteForByte(t *testing.T) {
	q, _ := open(t, interrupts.Options{})
	for _, text := range []string{"", "a\x00b\x1b[2J\r\n", "\xff\xfe half \xc3", strings.Repeat("x", 1<<20), "\u202eevil"} {
		q.Push(say(steer, text))
		if ms := q.Take(all); len(ms) != 1 || ms[0].Text != text {
			t.Errorf("%.10q came back as %.40q", text, show(ms...))
		}
	}
}

func TestOneFinalState(t *testing.T) {
	q, d := open(t, interrupts.Options{Last: 6})
	for range 4 {
		q.Push(say(ask, ""))
	}
	q.Take(func(m interrupts.Message) bool { return m.N == 7 })
	for i, c := range []struct {
		id    string
		state interrupts.State
		want  error
	}{
		{"m-7", interrupts.Answered, nil},
		{"m-7", interrupts.Answered, interrupts.ErrSettled},
		{"m-7", interrupts.Returned, interrupts.ErrSettled},
		{"m-8", interrupts.Delivered, nil}, // never taken
		{"m-8", interrupts.Delivered, interrupts.ErrSettled},
		{"m-3", interrupts.Delivered, interrupts.ErrSettled}, // of an earlier process
		{"m-11", interrupts.Delivered, interrupts.ErrNoMessage},
		{"m-0", interrupts.Delivered, interrupts.ErrNoMessage},
		{"m-09", interrupts.Delivered, interrupts.ErrNoMessage},
		{"m-+9", interrupts.Delivered, interrupts.ErrNoMessage},
		{"9", interrupts.Delivered, interrupts.ErrNoMessage},
		{"m-18446744073709551625", interrupts.Delivered, interrupts.ErrNoMessage},
	} {
		if err := q.Settle(c.id, c.state); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%d: settle %s: %v, want %v", i, c.id, err, c.want)
		}
	}
	for _, s := range []interrupts.State{interrupts.Queued, "", "done"} {
		if err := q.Settle("m-9", s); err == nil {
			t.Errorf("settled as %q", s)
		}
	}
	q.PutBack("m-7", "m-8")
	if ms := q.Waiting(); len(ms) != 2 || ms[0].N != 9 || ms[1].N != 10 { // whether they are kept already is the disk's affair
		t.Errorf("waiting: %v", show(ms...))
	}
	flush(t, q)
	same(t, "told", d.heard(), "m-7 ask queued kept", "m-8 ask queued kept", "m-9 ask queued kept", "m-10 ask queued kept",
		"m-7 ask answered kept", "m-8 ask delivered kept")
	same(t, "left", show(q.Waiting()...), "m-9 ask queued kept", "m-10 ask queued kept")
}

func TestAmend(t *testing.T) {
	text, empty := "new", ""
	class := func(c interrupts.Class) *interrupts.Class { return &c }
	for name, c := range map[string]struct {
		id    string
		a     interrupts.Amendment
		want  string // of the message, "" for an error
		is    error
		queue []string
	}{
		"nothing":  {"m-2", interrupts.Amendment{}, "m-2 steer queued kept b", nil, []string{"m-2 steer queued kept b", "m-3 steer queued kept c"}},
		"the same": {"m-2", interrupts.Amendment{Class: class(steer)}, "m-2 steer queued kept b", nil, []string{"m-2 steer queued kept b", "m-3 steer queued kept c"}},
		"text":     {"m-3", interrupts.Amendment{Text: &text}, "m-3 steer queued edited new", nil, []string{"m-2 steer queued kept b", "m-3 steer queued edited new"}},
		"no text":  {"m-3", interrupts.Amendment{Text: &empty}, "m-3 steer queued edited", nil, []string{"m-2 steer queued kept b", "m-3 steer queued edited"}},
		"up":       {"m-3", interrupts.Amendment{Class: class(ask)}, "m-3 ask queued edited c", nil, []string{"m-3 ask queued edited c", "m-2 steer queued kept b"}},
		"down":     {"m-2", interrupts.Amendment{Class: class(later), Text: &text}, "m-2 later queued edited new", nil, []string{"m-3 steer queued kept c", "m-2 later queued edited new"}},
		"drop":     {"m-2", interrupts.Amendment{Drop: true, Text: &text}, "m-2 steer cancelled b", nil, []string{"m-3 steer queued kept c"}},
		"stop":     {"m-2", interrupts.Amendment{Class: class(stop)}, "", nil, nil},
		"class 9":  {"m-2", interrupts.Amendment{Class: class(9)}, "", nil, nil},
		"taken":    {"m-1", interrupts.Amendment{Drop: true}, "", interrupts.ErrSettled, nil},
		"settled":  {"m-4", interrupts.Amendment{Drop: true}, "", interrupts.ErrSettled, nil},
		"a stop":   {"m-5", interrupts.Amendment{Drop: true}, "", interrupts.ErrSettled, nil},
		"none":     {"m-6", interrupts.Amendment{Drop: true}, "", interrupts.ErrNoMessage, nil},
		"no id":    {"", interrupts.Amendment{Drop: true}, "", interrupts.ErrNoMessage, nil},
	} {
		t.Run(name, func(t *testing.T) {
			q, _ := open(t, interrupts.Options{})
			for _, text := range []string{"a", "b", "c", "d"} {
				q.Push(say(steer, text))
			}
			q.Push(interrupts.Message{Class: stop, To: "w7"})
			q.Take(func(m interrupts.Message) bool { return m.N == 1 || m.N == 5 })
			if err := q.Settle("m-4", interrupts.Delivered); err != nil {
				t.Fatal(err)
			}
			q.PutBack("m-5")
			flush(t, q)
			<-q.Changed()
			m, err := q.Amend(c.id, c.a)
			if c.want == "" {
				if err == nil || c.is != nil && !errors.Is(err, c.is) {
					t.Errorf("amended: %v, %v", show(m), err)
				}
				c.queue = []string{"m-2 steer queued kept b", "m-3 steer queued kept c"}
			} else if err != nil || show(m)[0] != c.want {
				t.Errorf("amended %q, %v; want %q", show(m), err, c.want)
			}
			select {
			case <-q.Changed():
				if c.want == "" {
					t.Error("a refused amendment is a change")
				}
			default:
				if c.want != "" {
					t.Error("nobody learns of the amendment")
				}
			}
			if c.id == "m-2" || c.id == "m-3" { // what is asked for before it is kept depends on the disk
				got := q.Waiting()[1:]
				for i := range got {
					got[i].Kept = !got[i].Edited
				}
				same(t, "queue", show(got...), c.queue...)
			}
			flush(t, q)
		})
	}
}

func TestStopCoversWhatWasAcceptedBefore(t *testing.T) {
	q, d := open(t, interrupts.Options{})
	push := func(c interrupts.Class, from, to string) {
		q.Push(interrupts.Message{Class: c, From: from, To: to})
	}
	push(steer, "chat", "")   // 1: delivered before
	push(steer, "chat", "")   // 2: taken
	push(later, "other", "")  // 3: taken
	push(urgent, "other", "") // 4
	push(later, "chat", "w1") // 5
	push(ask, "w1", "w2")     // 6
	q.Take(func(m interrupts.Message) bool { return m.N <= 3 })
	if err := q.Settle("m-1", interrupts.Delivered); err != nil {
		t.Fatal(err)
	}
	flush(t, q)
	d.heard()
	push(stop, "chat", "w1") // 7
	flush(t, q)
	same(t, "told of w1's stop", d.heard(), "m-5 later returned kept", "m-7 stop queued kept")
	push(stop, "signal", "") // 8, during the first
	q.PutBack("m-2")
	for _, id := range []string{"m-2", "m-3"} {
		if err := q.Settle(id, interrupts.Delivered); !errors.Is(err, interrupts.ErrSettled) {
			t.Errorf("late delivery of %s: %v", id, err)
		}
	}
	push(steer, "chat", "") // 9, after it
	flush(t, q)
	same(t, "told of the stop", d.heard(), "m-2 steer returned kept", "m-3 later cancelled kept", "m-4 urgent cancelled kept",
		"m-6 ask cancelled kept", "m-8 stop queued kept", "m-9 steer queued kept")
	same(t, "waiting", show(q.Waiting()...), "m-7 stop queued kept", "m-8 stop queued kept", "m-9 steer queued kept")
	for _, m := range q.Take(of(stop)) {
		if err := q.Settle(m.ID(), interrupts.Delivered); err != nil {
			t.Error(err)
		}
	}
	if q.Epoch() != 2 {
		t.Errorf("epoch %d after two stops", q.Epoch())
	}
	d.kept()
	flush(t, q)
	same(t, "rest", d.heard(), "m-7 stop delivered kept", "m-8 stop delivered kept")
}

func TestNobodysMessagesAreNotReturned(t *testing.T) {
	d := &disk{}
	q := interrupts.NewQueue(interrupts.Options{Notify: d.notify})
	m := q.Push(interrupts.Message{Class: later})
	q.Push(interrupts.Message{Class: stop})
	if ms := q.Waiting(); len(ms) != 1 || ms[0].Class != stop {
		t.Errorf("waiting %v", show(ms...))
	}
	if err := q.Settle(m.ID(), interrupts.Delivered); !errors.Is(err, interrupts.ErrSettled) {
		t.Error(err)
	}
	if err := errors.Join(q.Flush(t.Context()), q.Close(t.Context())); err != nil {
		t.Errorf("a queue that keeps nothing: %v", err)
	}
	same(t, "told", d.heard(), "m-1 later queued", "m-1 later cancelled", "m-2 stop queued")
}

// What changes while Take asks want is left alone.
func TestTakeAsksWithoutALock(t *testing.T) {
	q, _ := open(t, interrupts.Options{})
	for _, text := range []string{"amended", "taken by another", "settled"} {
		q.Push(say(steer, text))
	}
	other := say(steer, "as it was")
	other.From = "another" // what the same one said next waits for the first
	q.Push(other)
	text := "new"
	asked := false
	got := q.Take(func(interrupts.Message) bool {
		if !asked {
			asked = true
			if _, err := q.Amend("m-1", interrupts.Amendment{Text: &text}); err != nil {
				t.Error(err)
			}
			if ms := q.Take(func(m interrupts.Message) bool { return m.N == 2 }); len(ms) != 1 {
				t.Errorf("took %v", show(ms...))
			}
			if err := q.Settle("m-3", interrupts.Cancelled); err != nil {
				t.Error(err)
			}
		}
		return true
	})
	if len(got) != 1 || got[0].Text != "as it was" {
		t.Errorf("took %v", show(got...))
	}
	if ms := q.Waiting(); len(ms) != 1 || ms[0].Text != "new" {
		t.Errorf("left %v", show(ms...))
	}
}

func TestStopEndsGuards(t *testing.T) {
	q, _ := open(t, interrupts.Options{})
	whole, w1, w2 := q.Guard(t.Context(), ""), q.Guard(t.Context(), "w1"), q.Guard(t.Context(), "w2")
	part := q.Guard(w1.Context(), "w1/helper")
	step, release := q.Step(w1.Context(), "w1")
	done := q.Guard(t.Context(), "w1")
	done.Release()
	done.Release()

	q.Push(interrupts.Message{Class: stop, To: "w1", Text: "wrong way"})
	for name, ctx := range map[string]context.Context{"w1": w1.Context(), "its part": part.Context(), "its step": step} {
		if s, ok := interrupts.AsStop(context.Cause(ctx)); !ok || s.Text != "wrong way" {
			t.Errorf("%s: %v", name, context.Cause(ctx))
		}
	}
	if !w1.Late() || !part.Late() || !done.Late() {
		t.Error("stopped work is not late")
	}
	if err := context.Cause(done.Context()); err != context.Canceled {
		t.Errorf("released work was stopped: %v", err)
	}
	if whole.Late() || w2.Late() || whole.Context().Err() != nil || w2.Context().Err() != nil {
		t.Error("w1's stop ended others")
	}
	again := q.Guard(t.Context(), "w1")
	if again.Late() || again.Context().Err() != nil || again.Epoch() != 1 {
		t.Error("the next w1 is covered by the stop before it")
	}

	q.Push(interrupts.Message{Class: stop, Signal: syscall.SIGTERM})
	for _, g := range []*interrupts.Guard{whole, w2, again} {
		if s, ok := interrupts.AsStop(context.Cause(g.Context())); !ok || s.Signal != syscall.SIGTERM || !g.Late() {
			t.Errorf("after the stop for all: %v, late %v", context.Cause(g.Context()), g.Late())
		}
	}
	if s, _ := interrupts.AsStop(context.Cause(w1.Context())); s.Text != "wrong way" {
		t.Error("the second stop changed the first's cause")
	}
	release()
	release()
	for _, g := range []*interrupts.Guard{whole, w1, w2, part, again} {
		g.Release()
		if !g.Late() {
			t.Error("released work forgets that it is late")
		}
	}
}

func TestLateWithoutACause(t *testing.T) {
	q, _ := open(t, interrupts.Options{})
	parent, cancel := context.WithCancel(t.Context())
	g := q.Guard(parent, "w1")
	cancel()
	if g.Late() {
		t.Error("cancelled work reads as stopped")
	}
	q.Push(interrupts.Message{Class: stop})
	if !g.Late() {
		t.Error("the stop passes by work whose context had ended before")
	}
	g.Release()
}

func TestUrgentEndsSteps(t *testing.T) {
	q, _ := open(t, interrupts.Options{})
	step := func(agent string) (*interrupts.Preempt, func()) {
		ctx, release := q.Step(t.Context(), agent)
		p, _ := interrupts.AsPreempt(context.Cause(ctx))
		return p, release
	}
	guard := q.Guard(t.Context(), "")
	defer guard.Release()
	mine, release := q.Step(guard.Context(), "")
	others, releaseOthers := q.Step(t.Context(), "w1")
	q.Push(say(steer, "no hurry"))
	q.Push(say(ask, "how far?"))
	if mine.Err() != nil {
		t.Fatalf("ended by something that is not urgent: %v", context.Cause(mine))
	}
	q.Push(say(urgent, "look here"))
	if p, ok := interrupts.AsPreempt(context.Cause(mine)); !ok || p.Message.Text != "look here" || p.Message.ID() != "m-3" {
		t.Errorf("cause %v", context.Cause(mine))
	}
	if guard.Context().Err() != nil || guard.Late() || others.Err() != nil || q.Epoch() != 0 {
		t.Error("an urgent message ended more than its agent's steps")
	}
	release()
	if p, release := step(""); p != nil {
		t.Errorf("the next step is ended by %v, whom the last one felt", p)
	} else {
		release()
	}

	// Between steps: the next one feels it, once, whether it is taken or not.
	q.Push(say(urgent, "between"))
	q.Push(say(urgent, "and again"))
	if p, release := step(""); p == nil || p.Message.Text != "between" {
		t.Errorf("overlooked: %v", p)
	} else {
		release()
	}
	if p, release := step(""); p != nil {
		t.Errorf("held up for ever by %v", p)
	} else {
		release()
	}

	// Taken before the step opens: nothing to feel.
	m := q.Push(say(urgent, "taken"))
	q.Take(of(urgent))
	if p, release := step(""); p != nil {
		t.Errorf("ended by a message that was taken: %v", p)
	} else {
		q.PutBack(m.ID())
		release()
	}

	// A step that has ended feels nothing: the message was not seen by it.
	q.Push(say(urgent, "one"))
	ended, release := q.Step(t.Context(), "")
	q.Push(say(urgent, "two"))
	if p, _ := interrupts.AsPreempt(context.Cause(ended)); p == nil || p.Message.Text != "taken" && p.Message.Text != "one" {
		t.Errorf("ended by %v", p)
	}
	release()
	if p, release := step(""); p == nil || p.Message.Text != "two" {
		t.Errorf("ended by %v, want two", p)
	} else {
		release()
	}

	// An agent's own, and raised to urgent.
	q.Push(interrupts.Message{Class: urgent, To: "w1"})
	if _, ok := interrupts.AsPreempt(context.Cause(others)); !ok {
		t.Errorf("w1's step: %v", context.Cause(others))
	}
	releaseOthers()
	mine, release = q.Step(t.Context(), "")
	defer release()
	up := urgent
	if _, err := q.Amend("m-1", interrupts.Amendment{Class: &up}); err != nil {
		t.Fatal(err)
	}
	if p, ok := interrupts.AsPreempt(context.Cause(mine)); !ok || p.Message.Text != "no hurry" || !p.Message.Edited {
		t.Errorf("raised: %v", context.Cause(mine))
	}
}

// A context of another make calls back while it is cancelled, and the function
// that it calls wants the queue.
type foreign struct {
	context.Context
	call func()
}

func (f foreign) AfterFunc(func()) (stop func() bool) {
	f.call()
	return func() bool { f.call(); return true }
}
func (f foreign) Done() <-chan struct{} { return make(chan struct{}) }
func (f foreign) Value(any) any         { return nil }

func TestContextsMayCallBack(t *testing.T) {
	q, _ := open(t, interrupts.Options{})
	calls := 0
	ctx := foreign{t.Context(), func() { calls++; q.Waiting(); q.Push(say(later, "from a context")) }}
	g := q.Guard(ctx, "")
	_, release := q.Step(ctx, "")
	inner, cancel := context.WithCancel(foreign{g.Context(), func() { g.Release() }})
	defer cancel()
	q.Push(interrupts.Message{Class: urgent})
	q.Push(interrupts.Message{Class: stop})
	release()
	g.Release()
	if calls < 4 {
		t.Errorf("the contexts called back %d times", calls)
	}
	_ = inner
}

// Both of two stops at once return only when everything has ended.
func TestStopDuringAStop(t *testing.T) {
	q, _ := open(t, interrupts.Options{})
	for range 200 {
		var gs []*interrupts.Guard
		for i := range 20 {
			gs = append(gs, q.Guard(t.Context(), fmt.Sprint(i)))
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				q.Push(interrupts.Message{Class: stop})
				for _, g := range gs {
					if !g.Late() || g.Context().Err() == nil {
						t.Error("a stop returned before all work had ended")
					}
				}
			})
		}
		wg.Wait()
		for _, g := range gs {
			g.Release()
		}
	}
}

func TestWaitingOfAnEarlierProcess(t *testing.T) {
	at := time.Date(2026, 11, 21, 10, 2, 0, 0, time.UTC)
	q, d := open(t, interrupts.Options{Last: 3, Waiting: []interrupts.Message{
		{N: 9, Class: later, Text: "nine", At: at},
		{N: 4, Class: stop},
		{N: 2, Class: later, Text: "two", State: interrupts.Queued},
		{N: 5, Class: urgent, Text: "five"},
		{N: 2, Class: steer, Text: "again"},
		{N: 6, Class: steer, State: interrupts.Delivered},
	}})
	same(t, "waiting", show(q.Waiting()...), "m-5 urgent queued kept five", "m-2 later queued kept two", "m-9 later queued kept nine")
	if got := q.Waiting()[2].At; !got.Equal(at) {
		t.Errorf("its time became %v", got)
	}
	step, release := q.Step(t.Context(), "")
	if step.Err() != nil {
		t.Error("what is no news ends a step")
	}
	release()
	if m := q.Push(say(steer, "")); m.N != 10 {
		t.Errorf("number %d was given again", m.N)
	}
	up := urgent
	if _, err := q.Amend("m-2", interrupts.Amendment{Class: &up}); err != nil {
		t.Fatal(err)
	}
	step, release = q.Step(t.Context(), "")
	if p, _ := interrupts.AsPreempt(context.Cause(step)); p == nil || p.Message.N != 2 {
		t.Errorf("raised between steps and overlooked: %v", context.Cause(step))
	}
	release()
	flush(t, q)
	same(t, "told", d.heard(), "m-4 stop delivered kept", "m-10 steer queued kept", "m-2 urgent queued kept edited two")
}

// TestTakeInOrder: a message that is edited while it is being taken is not passed
// by what its sender said after it.
func TestTakeInOrder(t *testing.T) {
	q := interrupts.NewQueue(interrupts.Options{})
	defer func() { _ = q.Close(t.Context()) }()
	for _, m := range []interrupts.Message{{From: "a", Text: "1"}, {From: "b", Text: "2"}, {From: "a", Text: "3"}, {From: "a", Text: "4", Class: interrupts.ClassUrgent}} {
		if m.Class == 0 {
			m.Class = interrupts.ClassLater
		}
		q.Push(m)
	}
	text := "one"
	texts := func(want func(interrupts.Message) bool) (all []string) {
		for _, m := range q.Take(want) {
			all = append(all, m.Text)
		}
		return all
	}
	first := texts(func(m interrupts.Message) bool {
		if m.Text == "1" {
			if _, err := q.Amend(m.ID(), interrupts.Amendment{Text: &text}); err != nil {
				t.Error(err)
			}
		}
		return true
	})
	if got := strings.Join(first, " "); got != "4 2" {
		t.Errorf("taken while it was edited: %q", got)
	}
	if got := strings.Join(texts(func(interrupts.Message) bool { return true }), " "); got != "one 3" {
		t.Errorf("taken then: %q", got)
	}
}
