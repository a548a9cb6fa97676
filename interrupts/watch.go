package interrupts

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"
)

// echo is the time in which a signal that comes again counts once: wrappers
// such as timeout(1) send it to the process and then to its group.
const echo = 20 * time.Millisecond

// WatchAgain is how a program without a terminal of its own hears its human: it
// returns a context that the first of the signals ends with a *[Stop] as the
// cause. The second and the third call again with 2 (kill now) and 3 (leave at
// once), each on a goroutine of its own, so that a 2 which hangs does not hold
// up the 3. After the third the signals have their default effect, so that
// nothing can make the process deaf. From its return on no signal is lost, and
// one that comes twice within 20 ms counts once. SIGHUP stays ignored if the
// process was started so (nohup).
//
// release gives the signals back their default effect, ends the context with
// context.Canceled and waits for its goroutines, calls of again included; it
// may be called more than once.
func WatchAgain(parent context.Context, again func(n int), signals ...os.Signal) (ctx context.Context, release func()) {
	signals = slices.DeleteFunc(slices.Clone(signals), func(s os.Signal) bool {
		return s == syscall.SIGHUP && signal.Ignored(s)
	})
	ch := make(chan os.Signal, 16)
	if len(signals) > 0 { // no signals would mean all to Notify
		signal.Notify(ch, signals...)
	}
	return watch(parent, again, ch, func() { signal.Stop(ch) })
}

// watch is WatchAgain on a channel; deaf ends the flow of signals into it.
func watch(parent context.Context, again func(int), ch <-chan os.Signal, deaf func()) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer deaf()
		var last os.Signal
		var at time.Time
		for n := 1; n <= 3; {
			var s os.Signal
			select {
			case s = <-ch:
			case <-quit:
				return
			}
			if s == last && time.Since(at) < echo {
				continue
			}
			last, at = s, time.Now()
			if n == 1 {
				num, _ := s.(syscall.Signal) // every os.Signal of the platforms we build for is one
				cancel(&Stop{Signal: num})
			} else {
				count := n
				wg.Go(func() { again(count) })
			}
			n++
		}
	})
	return ctx, sync.OnceFunc(func() {
		deaf()
		close(quit)
		wg.Wait()
		cancel(context.Canceled)
	})
}
