package interrupts_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"ralph/interrupts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWatchTurnsASignalIntoACause(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		ctx, release := interrupts.Watch(t.Context(), sig)
		if err := syscall.Kill(syscall.Getpid(), sig); err != nil {
			t.Fatal(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Second):
			t.Fatalf("%v did not end the context", sig)
		}
		stop, ok := interrupts.AsStop(fmt.Errorf("run: %w", context.Cause(ctx)))
		if !ok || stop.Signal != sig {
			t.Errorf("cause of %v = %v", sig, context.Cause(ctx))
		}
		release()
		release()
	}
}

func TestWatchReleasedWithoutASignal(t *testing.T) {
	ctx, release := interrupts.Watch(t.Context(), syscall.SIGUSR1)
	release()
	if _, ok := interrupts.AsStop(context.Cause(ctx)); ok {
		t.Error("a released watch reads as a stop")
	}
}

func TestRaiseEndsAllGuardsBeforeItReturns(t *testing.T) {
	var e interrupts.Epochs
	ctx1, epoch1, release1 := e.Guard(t.Context())
	ctx2, _, release2 := e.Guard(t.Context())
	released, _, releaseEarly := e.Guard(t.Context())
	releaseEarly()
	if n := e.Raise(&interrupts.Stop{Text: "enough"}); n != 2 {
		t.Errorf("raise ended %d guards, want 2", n)
	}
	for i, ctx := range []context.Context{ctx1, ctx2} {
		if stop, ok := interrupts.AsStop(context.Cause(ctx)); !ok || stop.Text != "enough" {
			t.Errorf("guard %d: cause %v", i, context.Cause(ctx))
		}
	}
	if _, ok := interrupts.AsStop(context.Cause(released)); ok {
		t.Error("a released guard was ended by the stop")
	}
	if e.Current() != epoch1+1 {
		t.Errorf("epoch %d after a raise, want %d", e.Current(), epoch1+1)
	}
	after, epoch3, release3 := e.Guard(t.Context())
	if after.Err() != nil || epoch3 != epoch1+1 {
		t.Error("a guard taken after the stop is covered by it")
	}
	release1()
	release2()
	release3()
}

func TestRaiseIsNotHeldUpByWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e interrupts.Epochs
		var wg sync.WaitGroup
		for range 50 {
			ctx, _, release := e.Guard(t.Context())
			wg.Go(func() {
				defer release()
				<-ctx.Done()
				time.Sleep(time.Hour) // a deaf worker, in the bubble's time
			})
		}
		began := time.Now()
		if n := e.Raise(&interrupts.Stop{Signal: syscall.SIGINT}); n != 50 {
			t.Errorf("ended %d guards, want 50", n)
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("raise waited %v", waited)
		}
		wg.Wait()
	})
}

func TestStopNames(t *testing.T) {
	for want, s := range map[string]*interrupts.Stop{
		"interrupted by SIGINT":      {Signal: syscall.SIGINT},
		"interrupted by signal 10":   {Signal: syscall.SIGUSR1},
		"stopped by the user: wrong": {Text: "wrong"},
		"stopped by the user":        {},
		"interrupted by SIGTERM":     {Signal: syscall.SIGTERM, Text: "x"},
	} {
		if s.Error() != want {
			t.Errorf("%#v reads %q, want %q", s, s.Error(), want)
		}
	}
	if _, ok := interrupts.AsStop(errors.New("other")); ok {
		t.Error("found a stop in a plain error")
	}
}
