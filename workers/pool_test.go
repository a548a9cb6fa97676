package workers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"ralph/workers/exec"
	"ralph/workers/exec/supervise"
)

func TestMain(m *testing.M) {
	exec.Init()
	goleak.VerifyTestMain(m)
}

var errStop = errors.New("stop")

// table is a fake of the processes: what runs takes a time to end.
type table struct {
	mu       sync.Mutex
	halts    int
	takes    time.Duration
	survivor bool
}

func (f *table) Stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.halts++
}

func (f *table) WaitStopped(ctx context.Context) exec.Report {
	select {
	case <-time.After(f.takes):
	case <-ctx.Done():
		return exec.Report{Survivors: []supervise.Process{{PID: 7, Command: "deaf"}}}
	}
	r := exec.Report{Ended: 3, Checked: true}
	if f.survivor {
		r.Survivors = []supervise.Process{{PID: 8, Command: "zombie"}}
	}
	return r
}

// listens works until it is told to end.
func listens(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }

func deafFor(d time.Duration) func(context.Context) error {
	return func(context.Context) error { time.Sleep(d); return nil }
}

// start lets an agent work on a goroutine of its own and returns when it does.
func start(t *testing.T, p *Pool, s Spec, work func(context.Context) error) <-chan error {
	t.Helper()
	out := make(chan error, 1)
	go func() { out <- p.Do(t.Context(), s, work) }()
	synctest.Wait()
	return out
}

func ids(p *Pool) string {
	var all []string
	for _, s := range p.List() {
		all = append(all, s.ID+":"+string(s.State))
	}
	return strings.Join(all, " ")
}

func TestDoRunsAnAgent(t *testing.T) {
	p := New(Options{})
	err := p.Do(t.Context(), Spec{ID: "a", Label: "x"}, func(ctx context.Context) error {
		if got := p.List(); len(got) != 1 || got[0].ID != "a" || got[0].Label != "x" || got[0].State != Running {
			t.Errorf("list %+v", got)
		}
		if err := p.Do(ctx, Spec{ID: "a"}, listens); !errors.Is(err, ErrTaken) {
			t.Errorf("the same id: %v", err)
		}
		return errStop
	})
	if !errors.Is(err, errStop) || len(p.List()) != 0 {
		t.Errorf("error %v, list %+v", err, p.List())
	}
	if err := p.Do(t.Context(), Spec{ID: "a"}, func(context.Context) error { panic("oh no") }); err == nil || !strings.Contains(err.Error(), "oh no") || len(p.List()) != 0 {
		t.Errorf("a panic: %v", err)
	}
	over, cancel := context.WithCancelCause(t.Context())
	cancel(errStop)
	if err := p.Do(over, Spec{ID: "a"}, func(context.Context) error { t.Error("ran"); return nil }); !errors.Is(err, errStop) {
		t.Errorf("after the end: %v", err)
	}
}

func TestCancelEndsAnAgentAndItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{})
		root := start(t, p, Spec{ID: "root"}, listens)
		child := start(t, p, Spec{ID: "child", Parent: "root"}, listens)
		grand := start(t, p, Spec{ID: "grand", Parent: "child"}, func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(time.Second)
			return context.Cause(ctx)
		})
		other := start(t, p, Spec{ID: "other", Parent: "root"}, listens)
		if p.Cancel("nobody", errStop) || !p.Cancel("child", errStop) {
			t.Error("cancel")
		}
		synctest.Wait()
		if got := ids(p); got != "root:running grand:stopping other:running" {
			t.Errorf("list %s", got)
		}
		// Nobody begins for who is to end.
		if err := p.Do(t.Context(), Spec{ID: "late", Parent: "grand"}, listens); !errors.Is(err, errStop) {
			t.Errorf("a child of a stopping agent: %v", err)
		}
		if err := errors.Join(<-child, <-grand); !errors.Is(err, errStop) {
			t.Error(err)
		}
		r := p.Stop(t.Context(), errStop)
		if fmt.Sprint(r.Ended) != "[root other]" || !r.Rest() {
			t.Errorf("report %+v", r)
		}
		<-root
		<-other
	})
}

func TestParentsInACircle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{})
		a := start(t, p, Spec{ID: "a", Parent: "b"}, listens)
		b := start(t, p, Spec{ID: "b", Parent: "a"}, listens)
		c := start(t, p, Spec{ID: "c", Parent: "c"}, listens)
		if !p.Cancel("a", errStop) || !p.Cancel("c", errStop) {
			t.Error("cancel")
		}
		<-a
		<-b
		<-c
	})
}

func TestBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{})
		done := start(t, p, Spec{ID: "a"}, listens)
		time.Sleep(time.Minute)
		p.Beat("a", "reads main.go")
		p.Beat("nobody", "x")
		time.Sleep(time.Minute)
		p.Beat("a", "")
		s := p.List()[0]
		if s.Doing != "reads main.go" || s.Beat.Sub(s.Since) != 2*time.Minute {
			t.Errorf("status %+v", s)
		}
		p.Stop(t.Context(), errStop)
		<-done
	})
}

func TestStopReportsWhoDidNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &table{takes: 10 * time.Millisecond}
		p := New(Options{})
		p.proc = f
		deaf := start(t, p, Spec{ID: "deaf"}, deafFor(time.Hour))
		good := start(t, p, Spec{ID: "good"}, listens)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := p.Stop(ctx, errStop)
		if fmt.Sprint(r.Ended, r.Stuck) != "[good] [deaf]" || r.Rest() || r.Took > time.Second+proofTime || !r.Checked || r.Processes != 3 || f.halts != 2 {
			t.Errorf("report %+v, halted %d times", r, f.halts)
		}
		if got := ids(p); got != "deaf:stopping" {
			t.Errorf("list %s", got)
		}
		// Who begins after the stop is not concerned, and a second stop is no harm.
		next := start(t, p, Spec{ID: "next"}, listens)
		if got := ids(p); got != "deaf:stopping next:running" {
			t.Errorf("list %s", got)
		}
		<-good
		time.Sleep(2 * time.Hour)
		<-deaf
		if r := p.Stop(t.Context(), errStop); !r.Rest() || fmt.Sprint(r.Ended) != "[next]" {
			t.Errorf("second report %+v", r)
		}
		<-next
		// Nothing runs: a stop when idle is at rest at once.
		if r := p.Stop(t.Context(), errStop); !r.Rest() || len(r.Ended) != 0 {
			t.Errorf("idle report %+v", r)
		}
	})
}

func TestStopEndsContextsBeforeItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{})
		var all []<-chan error
		for i := range 50 {
			all = append(all, start(t, p, Spec{ID: fmt.Sprint(i)}, func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Second)
				return nil
			}))
		}
		if r := p.Stop(t.Context(), errStop); r.Took != time.Second || len(r.Ended) != 50 {
			t.Errorf("took %v for %d agents", r.Took, len(r.Ended))
		}
		for _, c := range all {
			<-c
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &table{survivor: true}
		p := New(Options{})
		p.proc = f
		deaf := start(t, p, Spec{ID: "deaf"}, deafFor(time.Hour))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := p.Close(ctx)
		var left *supervise.SurvivorError
		if err == nil || !strings.Contains(err.Error(), "deaf") || !errors.As(err, &left) {
			t.Errorf("close: %v", err)
		}
		if err := p.Do(t.Context(), Spec{ID: "x"}, listens); !errors.Is(err, ErrClosed) {
			t.Errorf("do after close: %v", err)
		}
		<-deaf
		f.survivor = false
		if err := p.Close(t.Context()); err != nil {
			t.Errorf("closing again: %v", err)
		}
	})
}

// TestManyAtOnce is for the race detector: agents come, beat, end and are ended
// from all sides.
func TestManyAtOnce(t *testing.T) {
	p := New(Options{})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			for k := range 20 {
				id := fmt.Sprint(i, "-", k)
				err := p.Do(t.Context(), Spec{ID: id, Parent: fmt.Sprint(i-1, "-", k)}, func(ctx context.Context) error {
					p.Beat(id, "works")
					if k%5 == 0 {
						p.Cancel(id, errStop)
						<-ctx.Done()
					}
					return context.Cause(ctx)
				})
				if err != nil && !errors.Is(err, errStop) {
					t.Error(err)
				}
			}
		})
		wg.Go(func() { p.List(); p.Stop(t.Context(), errStop) })
	}
	wg.Wait()
	if n := len(p.List()); n != 0 {
		t.Errorf("%d agents are left", n)
	}
}

// TestStopWithRealProcesses: agents whose commands leave others behind are at
// rest after a stop, and the report says so from the process table.
func TestStopWithRealProcesses(t *testing.T) {
	r := exec.New(exec.Options{Init: exec.Self()})
	p := New(Options{Proc: r})
	var wg sync.WaitGroup
	for i, command := range []string{"sleep 60", "trap '' INT TERM; while :; do sleep 60; done", "(setsid sleep 60 &); sleep 60 & sleep 60", "yes >/dev/null"} {
		wg.Go(func() {
			err := p.Do(t.Context(), Spec{ID: fmt.Sprint("c", i)}, func(ctx context.Context) error {
				_, err := r.Run(ctx, exec.Spec{Argv: []string{"/bin/sh", "-c", command}})
				return err
			})
			if !errors.Is(err, errStop) {
				t.Errorf("%s: %v", command, err)
			}
		})
	}
	job, err := r.Start(t.Context(), exec.Spec{Argv: []string{"/bin/sh", "-c", "sleep 60"}})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond) // let them get going
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	report := p.Stop(ctx, errStop)
	t.Logf("%+v", report)
	if !report.Rest() || !report.Checked || len(report.Ended) != 4 || report.Processes < 1 {
		t.Errorf("report %+v", report)
	}
	<-job.Done()
	wg.Wait()
	if err := p.Close(ctx); err != nil {
		t.Error(err)
	}
	if err := r.Close(ctx); err != nil {
		t.Error(err)
	}
}
