package interrupts

import (
	"context"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestWatchCounts(t *testing.T) {
	const i, h, x = syscall.SIGINT, syscall.SIGHUP, syscall.SIGTERM
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	type press struct {
		after time.Duration
		sig   os.Signal
	}
	for name, c := range map[string]struct {
		presses []press
		cause   syscall.Signal
		again   []int
		deaf    bool // the signals have their default effect
	}{
		"none":                      {},
		"one":                       {[]press{{0, i}}, i, nil, false},
		"three":                     {[]press{{0, i}, {ms(50), i}, {ms(50), i}}, i, []int{2, 3}, true},
		"an hour between":           {[]press{{time.Hour, x}, {time.Hour, x}, {time.Hour, h}}, x, []int{2, 3}, true},
		"an echo":                   {[]press{{0, x}, {ms(1), x}, {ms(18), x}}, x, nil, false},
		"an echo of the second":     {[]press{{0, i}, {ms(50), i}, {0, i}}, i, []int{2}, false},
		"two kinds at once":         {[]press{{0, h}, {0, x}}, h, []int{2}, false},
		"three kinds at once":       {[]press{{0, h}, {0, x}, {0, i}}, h, []int{2, 3}, true},
		"held down, every 10 ms":    {[]press{{0, i}, {ms(10), i}, {ms(10), i}, {ms(10), i}, {ms(10), i}}, i, []int{2, 3}, true},
		"all before it is read":     {[]press{{0, i}, {0, i}, {0, i}}, i, nil, false},
		"more than anybody presses": {[]press{{0, i}, {ms(30), i}, {ms(30), i}, {ms(30), i}}, i, []int{2, 3}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var again []int
				deaf := 0
				ch := make(chan os.Signal, 16)
				ctx, release := watch(t.Context(), func(n int) {
					mu.Lock()
					defer mu.Unlock()
					again = append(again, n)
				}, ch, func() { mu.Lock(); deaf++; mu.Unlock() })
				for _, p := range c.presses {
					time.Sleep(p.after)
					ch <- p.sig
				}
				synctest.Wait()
				mu.Lock()
				slices.Sort(again) // they run beside each other
				if !slices.Equal(again, c.again) || deaf > 0 != c.deaf {
					t.Errorf("again %v, deaf %v; want %v, %v", again, deaf > 0, c.again, c.deaf)
				}
				mu.Unlock()
				stop, ok := AsStop(context.Cause(ctx))
				if ok != (c.cause != 0) || ok && stop.Signal != c.cause {
					t.Errorf("cause %v, want %v", stop, c.cause)
				}
				release()
				release()
			})
		})
	}
}

func TestWatchOutlivesAHangingKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ch := make(chan os.Signal, 16)
		hung, left := make(chan struct{}), make(chan struct{})
		_, release := watch(t.Context(), func(n int) {
			if n == 2 {
				<-hung
				return
			}
			close(left)
		}, ch, func() {})
		for range 3 {
			ch <- syscall.SIGINT
			time.Sleep(time.Second)
		}
		select {
		case <-left:
		default:
			t.Error("the third signal waits for the second")
		}
		close(hung)
		release()
	})
}
