package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/workers/agent"
	"ralph/workers/model/modeltest"
)

// alive reports whether a process with these arguments runs.
func alive(argument string) bool {
	return exec.Command("pgrep", "-f", "--", argument).Run() == nil
}

// sleeper is a command line that no other test has.
func sleeper(n int) string { return fmt.Sprintf("sleep 300.%d%03d", os.Getpid(), n) }

// stopped is work that is stopped in one phase of it.
type stopped struct {
	name    string
	replies []modeltest.Reply
	flags   map[string][]string
	// at says when the stop comes; nil: once the last request was made and what it
	// or the check runs, if anything, is running.
	at       func(agent.Event) bool
	runs     bool
	requests int
	check    func(*testing.T, *project, result.Outcome)
}

// phases are all phases of work; command is what runs in some of them.
func phases(command string) []stopped {
	list := calls(call("list", m{"path": "."}))
	return []stopped{
		{"before the request", []modeltest.Reply{text("never").After(time.Minute)}, nil,
			func(e agent.Event) bool { return e.Type == agent.EventTurnStart }, false, 0, nil},
		{"while waiting for the answer", []modeltest.Reply{modeltest.Hang()}, nil, nil, false, 1, nil},
		{"within the answer", []modeltest.Reply{text("this is the answer, and it goes on").HangAt(5)}, nil,
			func(e agent.Event) bool { return e.Type == agent.EventMessageDelta }, false, 1,
			func(t *testing.T, p *project, out result.Outcome) {
				if out.Answer == "" || !strings.HasPrefix("this is the answer, and it goes on", out.Answer) {
					t.Errorf("the partial answer is %q", out.Answer)
				}
				if !strings.Contains(p.journal(), `"partial":true`) {
					t.Errorf("the journal does not hold the partial text:\n%s", p.journal())
				}
			}},
		{"while it waits to try again", []modeltest.Reply{modeltest.Status(503, "{}", "Retry-After", "60"), text("never")}, nil,
			func(e agent.Event) bool { return e.Type == agent.EventRetry }, false, 1, nil},
		{"within a command", []modeltest.Reply{calls(write("a.txt", "x"), shell(command), write("b.txt", "x")), text("never")}, nil,
			func(e agent.Event) bool { return e.Type == agent.EventToolStart && e.Tool == "shell" }, false, 1,
			func(t *testing.T, p *project, out result.Outcome) {
				if len(out.FilesChanged) != 1 || out.FilesChanged[0].Path != "a.txt" {
					t.Errorf("changed %+v", out.FilesChanged)
				}
			}},
		{"in a deaf command", []modeltest.Reply{calls(shell("trap '' INT TERM; (setsid " + command + " &); while :; do " + command + "; done")), text("never")}, nil, nil, true, 1, nil},
		{"at the first checkpoint", []modeltest.Reply{calls(write("a.txt", "x")), text("never")}, nil,
			func(e agent.Event) bool { return e.Type == agent.EventToolStart }, false, 1,
			func(t *testing.T, p *project, out result.Outcome) {
				if p.read("a.txt") != "" || len(out.Warnings) > 0 {
					t.Errorf("a.txt %q, warnings %q", p.read("a.txt"), out.Warnings)
				}
			}},
		{"within the check", []modeltest.Reply{text("done"), text("never")}, map[string][]string{"check": {command}}, nil, true, 1,
			func(t *testing.T, p *project, out result.Outcome) {
				if out.Answer != "done" || out.Check != nil {
					t.Errorf("answer %q, check %+v", out.Answer, out.Check)
				}
			}},
		{"after a failed check", []modeltest.Reply{text("done"), modeltest.Hang()}, map[string][]string{"check": {"exit 3"}}, nil, false, 2,
			func(t *testing.T, p *project, out result.Outcome) {
				if out.Answer != "done" || out.Check == nil || out.Check.ExitCode != 3 || !strings.Contains(out.Reason, "exited with 3") {
					t.Errorf("outcome %+v", out)
				}
			}},
		{"between two rounds", []modeltest.Reply{list, text("never").After(time.Minute)}, nil,
			func(e agent.Event) bool { return e.Type == agent.EventTurnStart && e.Turn == 2 }, false, 1, nil},
	}
}

// A stop ends the work wherever it is: nothing runs on, nothing is sent, and the
// outcome is complete.
func TestAStopAtEachPhase(t *testing.T) {
	t.Parallel()
	for i, c := range phases("") {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			command := sleeper(i)
			c := phases(command)[i]
			p := newProject(t, c.replies...)
			for k, v := range c.flags {
				p.flags[k] = v
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			stop := &interrupts.Stop{Signal: syscall.SIGTERM}
			if c.at != nil {
				p.eye = func(e agent.Event) {
					if c.at(e) {
						cancel(stop)
					}
				}
			} else {
				var wg sync.WaitGroup
				defer wg.Wait()
				wg.Go(func() {
					for ctx.Err() == nil && (len(p.model.Requests()) < c.requests || c.runs && !alive(command[len("sleep "):])) {
						time.Sleep(5 * time.Millisecond)
					}
					cancel(stop)
				})
				defer cancel(nil)
			}
			co := p.open()
			out := co.Run(ctx, coordinator.Job{Task: "go"})
			ended := time.Now()
			p.want(out, result.Interrupted, "SIGTERM", "run it again")
			if out.Signal != int(syscall.SIGTERM) || out.Duration <= 0 {
				t.Errorf("outcome %+v", out)
			}
			if alive(command[len("sleep "):]) {
				t.Errorf("%q survives the stop", command)
			}
			p.shut(co)
			if took := time.Since(ended); took > 5*time.Second {
				t.Errorf("closing took %v", took)
			}
			p.gapless()
			p.wantRequests(c.requests)
			if strings.Count(p.types(), "interrupt") != 2 {
				t.Errorf("events %s", p.types())
			}
			if c.check != nil {
				c.check(t, p, out)
			}
		})
	}
}

// A stop at the checkpoint before the first change must not keep later turns
// from having one.
func TestAStopAtACheckpointCostsNoUndo(t *testing.T) {
	t.Parallel()
	p := newProject(t, calls(write("a.txt", "x")), calls(write("b.txt", "x")), text("done"))
	p.session = "new"
	c := p.open()
	defer p.shut(c)
	p.eye = func(e agent.Event) {
		if e.Type == agent.EventToolStart {
			c.Stop(&interrupts.Stop{})
		}
	}
	p.want(c.Run(t.Context(), coordinator.Job{Task: "one", Chat: true}), result.Interrupted)
	p.eye = nil
	out := c.Run(t.Context(), coordinator.Job{Task: "two", Chat: true, Go: true})
	p.want(out, result.Completed)
	if len(out.FilesChanged) != 1 || len(out.Warnings) != 0 {
		t.Errorf("changed %+v, warnings %q", out.FilesChanged, out.Warnings)
	}
	if done, err := c.Undo(t.Context(), 1, nil); err != nil || len(done.Files) != 1 {
		t.Errorf("undo: %v, %v", done, err)
	}
}

// A stop while the last lines of state are written changes nothing: the work was
// done.
func TestAStopWhileARunSettles(t *testing.T) {
	t.Parallel()
	p := newProject(t, calls(write("a.txt", "x")), text("done"))
	c := p.open()
	defer p.shut(c)
	messages := 0
	p.eye = func(e agent.Event) {
		if e.Type == agent.EventUsage {
			if messages++; messages == 2 { // all that follows is settling
				c.Stop(&interrupts.Stop{})
			}
		}
	}
	out := c.Run(t.Context(), coordinator.Job{Task: "go"})
	p.want(out, result.Completed)
	if len(out.FilesChanged) != 1 {
		t.Errorf("changed %+v", out.FilesChanged)
	}
	p.wantFile("RALPH_PROGRESS.md", "completed", "a.txt")
}

// Stop is called from other goroutines, at any time, and waits for nothing.
func TestStopFromAnotherGoroutine(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.model.Handle(func(modeltest.Request) modeltest.Reply {
		return text(strings.Repeat("word ", 200)).Slow(time.Millisecond)
	})
	p.session = "new"
	c := p.open()
	defer p.shut(c)
	c.Stop(&interrupts.Stop{}) // nothing runs: it concerns nothing
	for i := range 6 {
		var wg sync.WaitGroup
		deltas := 0
		p.eye = func(e agent.Event) {
			if e.Type != agent.EventMessageDelta {
				return
			}
			if deltas++; deltas == i+1 {
				wg.Go(func() {
					began := time.Now()
					c.Stop(&interrupts.Stop{Text: "enough"})
					if took := time.Since(began); took > 10*time.Second {
						t.Errorf("stop took %v", took)
					}
					c.Totals()
					c.History()
					c.SessionID()
				})
			}
		}
		out := c.Run(t.Context(), coordinator.Job{Task: "go", Chat: true})
		wg.Wait()
		p.want(out, result.Interrupted, "enough")
		if out.Signal != 0 {
			t.Errorf("signal %d", out.Signal)
		}
	}
}

// Work that waits for other work to end is stopped as well, and its outcome is
// one.
func TestAStopWhileAnotherPieceRuns(t *testing.T) {
	t.Parallel()
	p := newProject(t, modeltest.Hang())
	c := p.open()
	defer p.shut(c)
	first, cancelFirst := context.WithCancelCause(t.Context())
	began := make(chan struct{})
	p.eye = func(e agent.Event) {
		if e.Type == agent.EventTurnStart {
			close(began)
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		p.want(c.Run(first, coordinator.Job{Task: "one"}), result.Interrupted)
	})
	<-began
	second, cancelSecond := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, &interrupts.Stop{Signal: syscall.SIGHUP})
	defer cancelSecond()
	out := c.Run(second, coordinator.Job{Task: "two"})
	p.want(out, result.Interrupted, "SIGHUP")
	if _, err := c.Undo(second, 1, nil); !errors.Is(err, context.Cause(second)) {
		t.Errorf("undo waits although its context has ended: %v", err)
	}
	if err := c.Clear(); !errors.Is(err, coordinator.ErrBusy) {
		t.Errorf("clear while work is under way: %v", err)
	}
	cancelFirst(&interrupts.Stop{})
	wg.Wait()
	p.gapless()
}

func TestWorkThatIsStoppedBeforeItBegins(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{&interrupts.Stop{Signal: syscall.SIGINT}, context.Canceled, context.DeadlineExceeded, errors.New("standard output is full")} {
		p := newProject(t, text("never"))
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		out := p.runCtx(ctx, coordinator.Job{})
		want, _ := coordinator.Fail(cause)
		p.want(out, want)
		p.wantRequests(0)
	}
}

func TestBackgroundJobsEndBeforeTheProjectIsReleased(t *testing.T) {
	t.Parallel()
	command := sleeper(100)
	p := newProject(t, calls(call("shell", m{"command": command, "background": true})), text("done"))
	c := p.open()
	p.want(c.Run(t.Context(), coordinator.Job{Task: "go"}), result.Completed)
	if !alive(command[len("sleep "):]) {
		t.Error("the background job does not run")
	}
	p.shut(c)
	if alive(command[len("sleep "):]) {
		t.Error("the background job survives its coordinator")
	}
}

// Work that was stopped before its turn came was stopped like any other: Ralph
// only talks then.
func TestStopBeforeTheTurn(t *testing.T) {
	t.Parallel()
	for range 20 { // which of two things that are both true is seen first is chance
		p := newProject(t)
		p.session = "new"
		c := p.open()
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(&interrupts.Stop{Text: "enough"})
		out := c.Run(ctx, coordinator.Job{Task: "go", Chat: true})
		p.want(out, result.Interrupted, "enough")
		if mode := c.Live().Mode; mode != "conversation" {
			t.Fatalf("the mode is %q", mode)
		}
		p.shut(c)
	}
}
