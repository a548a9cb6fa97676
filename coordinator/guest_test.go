package coordinator_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/result"
	"ralph/interrupts/control"
)

// handing is a task that another terminal handed over.
type handing struct {
	outcome result.Outcome
	err     error
}

// hand hands a task to the Ralph of the project, as `ralph "task"` does.
func (p *project) hand(task string) <-chan handing {
	p.Helper()
	client := p.dial()
	job, err := json.Marshal(map[string]any{"task": task, "events": true})
	if err != nil {
		p.Fatal(err)
	}
	out := make(chan handing, 1)
	go func() {
		var h handing
		data, err := client.Do(context.Background(), control.Request{Op: "task", Client: "r-" + task, Job: job}, nil)
		if h.err = err; err == nil {
			var told struct {
				Outcome result.Outcome `json:"outcome"`
			}
			h.err = json.Unmarshal(data, &told)
			h.outcome = told.Outcome
		}
		out <- h
	}()
	return out
}

func (p *project) dial() *control.Client {
	p.Helper()
	client, err := control.Dial(p.Context(), filepath.Join(p.root, ".ralph"), "")
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = client.Close() })
	return client
}

// request has one request served.
func (p *project) request(r control.Request) {
	p.Helper()
	if _, err := p.dial().Do(p.Context(), r, nil); err != nil {
		p.Fatal(err)
	}
}

// lives waits until what is going on fits.
func (p *project) lives(c *coordinator.Coordinator, what string, fits func(coordinator.Live) bool) {
	p.Helper()
	for deadline := time.Now().Add(20 * time.Second); !fits(c.Live()); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.Fatalf("never %s: %+v", what, c.Live())
		}
	}
}

func agents(l coordinator.Live) (list []string) {
	for _, a := range l.Agents {
		list = append(list, a.ID+" "+string(a.State))
	}
	return list
}

// comes is what comes of a task.
func (p *project) comes(out <-chan handing) handing {
	p.Helper()
	select {
	case h := <-out:
		return h
	case <-time.After(20 * time.Second):
		p.Fatal("the task never ended")
	}
	return handing{}
}

// A stop covers the tasks that wait for their turn, and what is going on is told
// of the task whose turn it is.
func TestAStopCoversTasksThatWait(t *testing.T) {
	p := chatting(t, calls(shell(sleeper(1))), text("must not be asked for"))
	c := p.open()
	first := p.hand("first")
	p.lives(c, "the first runs its command", func(l coordinator.Live) bool { return l.Tool != "" })
	second := p.hand("second")
	p.lives(c, "the second waits", func(l coordinator.Live) bool {
		return slices.Equal(agents(l), []string{"task-1 running", "task-2 waiting"})
	})
	if l := c.Live(); l.State != "running" || l.Task != "first" || l.Turn != 1 || l.Since.IsZero() {
		t.Errorf("%+v", l)
	}
	p.request(control.Request{Op: "stop"})
	for _, out := range []<-chan handing{first, second} {
		if h := p.comes(out); h.err != nil || h.outcome.Status != result.Interrupted {
			t.Errorf("%+v", h)
		}
	}
	p.lives(c, "idle", func(l coordinator.Live) bool { return l.State == "idle" && len(l.Agents) == 0 })
	p.shut(c)
	p.wantRequests(1)
}

// One of several tasks can be stopped before its turn, and nothing else is.
func TestATaskIsStoppedBeforeItsTurn(t *testing.T) {
	p := chatting(t, calls(shell(sleeper(2))), text("done"))
	c := p.open()
	first := p.hand("first")
	p.lives(c, "the first runs its command", func(coordinator.Live) bool { return alive(sleeper(2)) })
	second := p.hand("second")
	p.lives(c, "the second waits", func(l coordinator.Live) bool { return len(l.Agents) == 2 })
	p.request(control.Request{Op: "stop", To: "task-2"})
	if h := p.comes(second); h.err != nil || h.outcome.Status != result.Interrupted {
		t.Errorf("%+v", h)
	}
	if l := c.Live(); !slices.Equal(agents(l), []string{"task-1 running"}) || !alive(sleeper(2)) {
		t.Errorf("%+v", l)
	}
	p.request(control.Request{Op: "stop", To: "task-1"})
	p.comes(first)
	p.shut(c)
}

// The jobs of the chat outlive a task that is stopped; those of the task end
// with it.
func TestJobsOfATask(t *testing.T) {
	mine, its, last := sleeper(3), sleeper(4), sleeper(5)
	p := chatting(t, calls(call("shell", m{"command": mine, "background": true})), text("it runs"),
		calls(call("shell", m{"command": its, "background": true})), text("done"), calls(shell(last)))
	c := p.open()
	if out := c.Run(t.Context(), coordinator.Job{Task: "begin a job", Chat: true}); out.Status != result.Completed {
		t.Fatalf("%+v", out)
	}
	if h := p.comes(p.hand("leaves a job")); h.err != nil || h.outcome.Status != result.Completed {
		t.Errorf("%+v", h)
	}
	if alive(its) || !alive(mine) {
		t.Errorf("the task's job runs: %v; the chat's: %v", alive(its), alive(mine))
	}
	out := p.hand("is stopped")
	p.lives(c, "the task runs its command", func(coordinator.Live) bool { return alive(last) })
	p.request(control.Request{Op: "stop", To: "task-2"})
	if h := p.comes(out); h.err != nil || h.outcome.Status != result.Interrupted {
		t.Errorf("%+v", h)
	}
	if alive(last) || !alive(mine) {
		t.Errorf("the task's command runs: %v; the chat's job: %v", alive(last), alive(mine))
	}
	p.shut(c)
	if alive(mine) {
		t.Error("the job outlived the chat")
	}
}

// A pause holds a task of another terminal, too.
func TestAPauseHoldsATask(t *testing.T) {
	p := chatting(t, calls(shell("sleep 0.3")), text("done"))
	c := p.open()
	out := p.hand("long")
	p.lives(c, "it runs its command", func(l coordinator.Live) bool { return l.Tool != "" })
	p.request(control.Request{Op: "pause"})
	p.lives(c, "paused", func(l coordinator.Live) bool { return l.State == "paused" })
	p.wantRequests(1)
	p.request(control.Request{Op: "resume"})
	if h := p.comes(out); h.err != nil || h.outcome.Answer != "done" {
		t.Errorf("%+v", h)
	}
	p.shut(c)
}

// When the Ralph ends, a task that it did not begin is given back, and one that
// it did is told as interrupted.
func TestTasksOfARalphThatEnds(t *testing.T) {
	p := chatting(t, calls(shell(sleeper(6))))
	c := p.open()
	first := p.hand("first")
	p.lives(c, "the first runs its command", func(l coordinator.Live) bool { return l.Tool != "" })
	second := p.hand("second")
	p.lives(c, "the second waits", func(l coordinator.Live) bool { return len(l.Agents) == 2 })
	p.shut(c)
	if h := p.comes(first); h.err != nil || h.outcome.Status != result.Interrupted {
		t.Errorf("%+v", h)
	}
	var f *control.Fault
	if h := p.comes(second); !errors.As(h.err, &f) || f.Code != "closing" {
		t.Errorf("%+v", h)
	}
	p.wantRequests(1)
}

// Nothing is begun after a job that is the last.
func TestNothingIsBegunAfterTheLast(t *testing.T) {
	p := newProject(t, calls(shell("sleep 0.5")), text("done"), text("must not be asked for"))
	p.write(".ralph/FORMAT", "ralph 1\n")
	c := p.open()
	mine := started(c, t.Context(), coordinator.Job{Task: "mine", Last: true})
	p.lives(c, "it runs its command", func(l coordinator.Live) bool { return l.Tool != "" })
	second := p.hand("second")
	p.lives(c, "the second waits", func(l coordinator.Live) bool { return len(l.Agents) == 2 })
	if out := <-mine; out.Status != result.Completed {
		t.Errorf("%+v", out)
	}
	time.Sleep(20 * time.Millisecond) // it would begin now
	p.shut(c)
	var f *control.Fault
	if h := p.comes(second); !errors.As(h.err, &f) || f.Code != "closing" {
		t.Errorf("%+v", h)
	}
	p.wantRequests(2)
}
