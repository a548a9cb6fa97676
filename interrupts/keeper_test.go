package interrupts_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ralph/interrupts"
)

var errFull = errors.New("no space left on device")

func bubble(t *testing.T, o interrupts.Options, f func(t *testing.T, q *interrupts.Queue, d *disk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		q, d := open(t, o)
		f(t, q, d)
	})
}

func TestKeptBeforeTold(t *testing.T) {
	bubble(t, interrupts.Options{}, func(t *testing.T, q *interrupts.Queue, d *disk) {
		slow := make(chan struct{})
		d.set(nil, slow)
		q.Push(say(steer, "a"))
		synctest.Wait()
		q.Push(say(later, "b"))
		q.Take(of(steer))
		if err := q.Settle("m-1", interrupts.Delivered); err != nil {
			t.Fatal(err)
		}
		q.Push(say(stop, ""))
		synctest.Wait()
		same(t, "told too early", d.heard())
		d.set(nil, nil)
		close(slow)
		synctest.Wait()
		same(t, "told", d.heard(), "m-1 steer queued kept a", "m-2 later queued kept b", "m-1 steer delivered kept a",
			"m-2 later returned kept b", "m-3 stop queued kept")
		calls := d.kept()
		if len(calls) != 2 {
			t.Fatalf("not one commit for all that came up meanwhile: %v", calls)
		}
		same(t, "first", calls[0], "m-1 steer queued a")
		same(t, "second: each once, and the stop after what it covers", calls[1], "m-2 later returned b", "m-1 steer delivered a", "m-3 stop queued")
	})
}

func TestHeldAndKeptAfterAll(t *testing.T) {
	bubble(t, interrupts.Options{}, func(t *testing.T, q *interrupts.Queue, d *disk) {
		d.set(errFull, nil)
		q.Push(say(steer, "a"))
		if err := q.Flush(t.Context()); !errors.Is(err, errFull) || !strings.Contains(err.Error(), "1 messages") {
			t.Errorf("flush: %v", err)
		}
		same(t, "told", d.heard(), "m-1 steer queued a")
		q.Push(say(later, "b")) // tried at once
		synctest.Wait()
		same(t, "told", d.heard(), "m-2 later queued b")
		if n := len(d.kept()); n != 2 {
			t.Errorf("tried %d times", n)
		}
		if ms := q.Take(of(steer)); len(ms) != 1 || ms[0].Kept {
			t.Errorf("what is held is not obeyed: %v", show(ms...))
		}
		if err := q.Settle("m-1", interrupts.Delivered); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		same(t, "told", d.heard(), "m-1 steer delivered a")
		d.kept()
		time.Sleep(5500 * time.Millisecond) // tried each second
		if n := len(d.kept()); n != 5 {
			t.Errorf("tried %d times in 5.5 s", n)
		}
		d.set(nil, nil)
		time.Sleep(time.Second)
		synctest.Wait()
		same(t, "told when the disk is back", d.heard(), "m-1 steer delivered kept a", "m-2 later queued kept b")
		same(t, "kept", d.kept()[0], "m-1 steer delivered a", "m-2 later queued b")
		flush(t, q)
		time.Sleep(time.Minute)
		if calls := d.kept(); calls != nil {
			t.Errorf("kept again: %v", calls)
		}
	})
}

func TestADiskThatHangs(t *testing.T) {
	bubble(t, interrupts.Options{}, func(t *testing.T, q *interrupts.Queue, d *disk) {
		dead := make(chan struct{})
		d.set(nil, dead)
		began := time.Now()
		g := q.Guard(t.Context(), "")
		for i := range 1000 {
			q.Push(say(steer, fmt.Sprint(i)))
			if i == 0 {
				synctest.Wait() // the disk hangs with the first
			}
		}
		q.Push(say(stop, ""))
		if g.Context().Err() == nil || time.Since(began) != 0 {
			t.Errorf("the stop waited %v for the disk", time.Since(began))
		}
		g.Release()
		err := q.Flush(t.Context())
		if err == nil || time.Since(began) != time.Second {
			t.Errorf("flush after %v: %v", time.Since(began), err)
		}
		if told := d.heard(); len(told) != 2001 || told[0] != "m-1 steer queued 0" || told[2000] != "m-1001 stop queued" {
			t.Errorf("told %d: %v", len(told), told[:3])
		}
		time.Sleep(10 * time.Minute)
		q.Push(say(later, "much later"))
		synctest.Wait()
		same(t, "told at once by now", d.heard(), "m-1002 later queued much later")
		if n := len(d.kept()); n != 1 {
			t.Errorf("%d calls while one hangs", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		if err := q.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: %v", err)
		}
		cancel()
		d.set(nil, nil)
		close(dead)
		if err := q.Close(t.Context()); err != nil {
			t.Errorf("close with a disk that answers: %v", err)
		}
		told := d.heard()
		if len(told) != 1002 || told[0] != "m-1 steer returned kept 0" || told[1001] != "m-1002 later queued kept much later" {
			t.Errorf("told %d of what was held: %v", len(told), told)
		}
	})
}

func TestFlushEndsWithItsContext(t *testing.T) {
	bubble(t, interrupts.Options{}, func(t *testing.T, q *interrupts.Queue, d *disk) {
		dead := make(chan struct{})
		d.set(nil, dead)
		q.Push(say(steer, ""))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := q.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("flush: %v", err)
		}
		d.set(nil, nil)
		close(dead)
		flush(t, q)
		flush(t, q)
	})
}

func TestClosed(t *testing.T) {
	bubble(t, interrupts.Options{}, func(t *testing.T, q *interrupts.Queue, d *disk) {
		d.set(errFull, nil)
		g := q.Guard(t.Context(), "w1")
		q.Push(say(later, "held"))
		q.Push(say(later, "taken"))
		q.Take(func(m interrupts.Message) bool { return m.N == 2 })
		synctest.Wait()
		d.heard()
		d.set(nil, nil)
		if err := q.Close(t.Context()); err != nil {
			t.Errorf("close did not try again: %v", err)
		}
		same(t, "told", d.heard(), "m-1 later queued kept held", "m-2 later queued kept taken")
		if m := q.Push(say(later, "too late")); m.N != 0 || m.State != interrupts.Cancelled {
			t.Errorf("accepted %v", show(m))
		}
		if err := q.Settle("m-2", interrupts.Delivered); !errors.Is(err, interrupts.ErrClosed) {
			t.Errorf("settle: %v", err)
		}
		if _, err := q.Amend("m-1", interrupts.Amendment{Drop: true}); !errors.Is(err, interrupts.ErrClosed) {
			t.Errorf("amend: %v", err)
		}
		if ms := q.Take(all); ms != nil {
			t.Errorf("took %v", show(ms...))
		}
		if m := q.Push(say(stop, "")); m.N != 0 || g.Context().Err() == nil || !g.Late() {
			t.Errorf("a stop after the end: %v, %v", show(m), g.Context().Err())
		}
		g.Release()
		if err := errors.Join(q.Flush(t.Context()), q.Close(t.Context())); err != nil {
			t.Error(err)
		}
		same(t, "told after the end", d.heard())
		same(t, "left for the next process", show(q.Waiting()...), "m-1 later queued kept held")
	})
}

func TestCloseSaysWhatIsHeld(t *testing.T) {
	bubble(t, interrupts.Options{}, func(t *testing.T, q *interrupts.Queue, d *disk) {
		d.set(errFull, nil)
		q.Push(say(later, ""))
		q.Push(say(later, ""))
		if err := q.Close(t.Context()); !errors.Is(err, errFull) || !strings.Contains(err.Error(), "2 messages") {
			t.Errorf("close: %v", err)
		}
		same(t, "told", d.heard(), "m-1 later queued", "m-2 later queued")
	})
}

// 10,000 messages of 1 MB while the disk hangs: the queue copies none of them.
func TestAFloodIsNotCopied(t *testing.T) {
	bubble(t, interrupts.Options{}, func(t *testing.T, q *interrupts.Queue, d *disk) {
		dead := make(chan struct{})
		d.set(nil, dead)
		text := strings.Repeat("x", 1<<20)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 10_000 {
			q.Push(interrupts.Message{Class: later, Text: text})
		}
		q.Waiting()
		time.Sleep(2 * time.Second)
		runtime.ReadMemStats(&after)
		if used := int64(after.TotalAlloc - before.TotalAlloc); used > 64<<20 {
			t.Errorf("10,000 messages of 1 MB cost %d MB beside their text", used>>20)
		}
		d.set(nil, nil)
		close(dead)
		synctest.Wait()
		flush(t, q)
		n := 0
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, ms := range d.calls {
			n += len(ms)
			if len(ms) > 8 {
				t.Fatalf("%d MB went to the disk at once", len(ms))
			}
		}
		if n != 10_000 {
			t.Errorf("%d were kept", n)
		}
	})
}

// What is told may speak to the queue.
func TestNotifyMayPush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q *interrupts.Queue
		ready := make(chan struct{})
		var told []interrupts.Message
		q = interrupts.NewQueue(interrupts.Options{
			Keep: func([]interrupts.Message) error { return nil },
			Notify: func(m interrupts.Message) {
				<-ready
				told = append(told, m)
				if m.N < 3 && m.State == interrupts.Queued {
					q.Push(say(later, "echo"))
					_ = q.Settle(m.ID(), interrupts.Delivered)
				}
			},
		})
		close(ready)
		q.Push(say(later, "call"))
		synctest.Wait()
		if err := q.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		same(t, "told", show(told...), "m-1 later queued kept call", "m-2 later queued kept echo", "m-1 later delivered kept call",
			"m-3 later queued kept echo", "m-2 later delivered kept echo")
	})
}

func TestChangedHoldsOneToken(t *testing.T) {
	q, _ := open(t, interrupts.Options{})
	got := func() bool {
		select {
		case <-q.Changed():
			return true
		default:
			return false
		}
	}
	if got() {
		t.Error("a new queue has changed")
	}
	q.Push(say(steer, ""))
	q.Push(say(steer, ""))
	if !got() || got() {
		t.Error("two messages are not one token")
	}
	q.Take(all)
	q.PutBack("m-1")
	if got() {
		t.Error("who puts back wakes himself")
	}
}

// What comes while a Keep fails is not held for it: it is tried first.
func TestHeldOnlyWhenTried(t *testing.T) {
	bubble(t, interrupts.Options{}, func(t *testing.T, q *interrupts.Queue, d *disk) {
		slow := make(chan struct{})
		d.set(errFull, slow)
		q.Push(say(steer, "a"))
		synctest.Wait()
		q.Push(say(steer, "b"))
		second := make(chan struct{})
		d.mu.Lock()
		d.hangs = second
		d.mu.Unlock()
		close(slow)
		synctest.Wait()
		same(t, "told", d.heard(), "m-1 steer queued a")
		d.set(nil, nil)
		close(second)
		synctest.Wait()
		same(t, "told", d.heard(), "m-1 steer queued kept a", "m-2 steer queued kept b")
	})
}

// A batch ends between two changes of one message: the first change is told as
// kept, and so is the second, which went with it and is not written again,
// whether the next batch fails or not.
func TestBatchesAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		fails int // the batch that does
		sizes []int
		told  int
	}{
		"good disk": {0, []int{1, 1, 1024, 1024, 952}, 3003},
		"bad disk":  {3, []int{1, 1, 1024, 1024, 1024, 952}, 6003},
	} {
		t.Run(name, func(t *testing.T) {
			var slow chan struct{}
			var sizes []int
			written := map[uint64]int{}
			keep := func(ms []interrupts.Message) error {
				sizes = append(sizes, len(ms))
				switch len(sizes) {
				case 1:
					<-slow
				case c.fails:
					return errFull
				}
				for _, m := range ms {
					written[m.N]++
				}
				return nil
			}
			bubble(t, interrupts.Options{Keep: keep}, func(t *testing.T, q *interrupts.Queue, d *disk) {
				slow = make(chan struct{}) // of the bubble
				q.Push(say(ask, ""))
				synctest.Wait()
				q.Push(interrupts.Message{Class: steer, Text: strings.Repeat("x", 8<<20)})
				for range 3000 {
					q.Push(say(later, ""))
				}
				if err := q.Settle("m-2", interrupts.Delivered); err != nil {
					t.Fatal(err)
				}
				close(slow)
				time.Sleep(time.Minute)
				synctest.Wait()
				d.mu.Lock()
				defer d.mu.Unlock()
				told := d.told
				if len(told) != c.told || !told[1].Kept || told[2].Kept != (c.fails == 0) ||
					told[3002].State != interrupts.Delivered || !told[3002].Kept {
					t.Errorf("told %d, want %d", len(told), c.told)
				}
				if !slices.Equal(sizes, c.sizes) || len(written) != 3002 || written[2] != 1 {
					t.Errorf("batches of %v, want %v; %d written, m-2 %d times", sizes, c.sizes, len(written), written[2])
				}
			})
		})
	}
}
