// Package interrupts is where the human's word enters a running Ralph: what a
// stop is, how a signal becomes one, and the epochs that tell work done before
// a stop from work done after it.
//
// It owns the meaning of a stop and refuses everything else: it knows no model,
// no file and no terminal, and uses only the standard library.
//
//	ctx, release := interrupts.Watch(ctx, os.Interrupt, syscall.SIGTERM)
//	defer release()
//	work(ctx) // context.Cause(ctx) is a *Stop after the first signal
package interrupts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// Stop is the cause of a context that a human ended. It is an error so that it
// travels as a context's cause; errors.As finds it again.
type Stop struct {
	// Signal is the signal that asked for the stop, 0 for a command such as
	// /stop.
	Signal syscall.Signal
	// Text is what the human said with it.
	Text string
}

// Error names the stop.
func (s *Stop) Error() string {
	switch {
	case s.Signal != 0:
		return "interrupted by " + signalName(s.Signal)
	case s.Text != "":
		return "stopped by the user: " + s.Text
	}
	return "stopped by the user"
}

// AsStop finds the stop in an error's chain.
func AsStop(err error) (*Stop, bool) {
	var s *Stop
	ok := errors.As(err, &s)
	return s, ok
}

func signalName(s syscall.Signal) string {
	switch s {
	case syscall.SIGINT:
		return "SIGINT"
	case syscall.SIGTERM:
		return "SIGTERM"
	case syscall.SIGHUP:
		return "SIGHUP"
	}
	return fmt.Sprintf("signal %d", int(s))
}

// patience is how long further signals are swallowed after the first, so that
// a second one does not tear the work of the first; after it, a signal has its
// default effect and ends the process.
const patience = 2 * time.Second

// Watch returns a context that ends with a *Stop as its cause at the first of
// the given signals. Two seconds later the signals have their default effect
// again, so that nothing can make the process deaf. release stops watching,
// waits for the goroutine that Watch started and gives the signals back their
// default effect; it may be called more than once.
func Watch(parent context.Context, signals ...os.Signal) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(parent)
	ch := make(chan os.Signal, 1)
	quit, done := make(chan struct{}), make(chan struct{})
	signal.Notify(ch, signals...)
	go func() {
		defer close(done)
		select {
		case s := <-ch:
			num, _ := s.(syscall.Signal) // every os.Signal of the platforms we build for is one
			cancel(&Stop{Signal: num})
			select {
			case <-time.After(patience):
				signal.Stop(ch)
			case <-quit:
			}
		case <-quit:
		}
	}()
	return ctx, sync.OnceFunc(func() {
		signal.Stop(ch)
		close(quit)
		<-done
		cancel(context.Canceled)
	})
}

// Epochs counts stops. Work runs under a Guard of the epoch in which it began;
// a stop ends all guards and begins the next epoch, so that a result which
// arrives late can be told by its number. The zero value is ready; it is safe
// for concurrent use.
type Epochs struct {
	// mu guards what follows. Raise never waits for anything but mu, and nobody
	// holds mu while waiting.
	mu     sync.Mutex
	epoch  uint64
	nextID uint64
	guards map[uint64]context.CancelCauseFunc
}

// Guard returns a context that the next Raise cancels, the epoch it belongs to,
// and a release to be called when the work has ended.
func (e *Epochs) Guard(parent context.Context) (ctx context.Context, epoch uint64, release func()) {
	ctx, cancel := context.WithCancelCause(parent)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.guards == nil {
		e.guards = map[uint64]context.CancelCauseFunc{}
	}
	e.nextID++
	id := e.nextID
	e.guards[id] = cancel
	return ctx, e.epoch, func() {
		e.mu.Lock()
		delete(e.guards, id)
		e.mu.Unlock()
		cancel(context.Canceled)
	}
}

// Raise begins a new epoch and cancels every guard of the old one, in the
// caller's goroutine, before it returns. It reports how many guards it ended.
func (e *Epochs) Raise(cause *Stop) (ended int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.epoch++
	for id, cancel := range e.guards {
		cancel(cause)
		delete(e.guards, id)
		ended++
	}
	return ended
}

// Current is the number of the present epoch, from 0.
func (e *Epochs) Current() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.epoch
}
