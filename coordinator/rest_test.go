package coordinator_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/ownership"
	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/memory/queue"
	"ralph/workers/agent"
	"ralph/workers/model/modeltest"
)

// ends is an outcome that comes soon, or the test ends.
func (p *project) ends(what string, out <-chan result.Outcome) result.Outcome {
	p.Helper()
	select {
	case o := <-out:
		return o
	case <-time.After(20 * time.Second):
		p.Fatalf("%s: it does not end; events: %s", what, p.types())
		return result.Outcome{}
	}
}

// interruptedChat is a chat whose work was stopped; replies follow.
func interruptedChat(t *testing.T, replies ...modeltest.Reply) (*project, *coordinator.Coordinator) {
	p := chatting(t, append([]modeltest.Reply{modeltest.Hang()}, replies...)...)
	c := p.open()
	done := started(c, t.Context(), coordinator.Job{Task: "build the thing", Chat: true})
	for len(p.model.Requests()) == 0 {
		time.Sleep(2 * time.Millisecond)
	}
	c.Stop(&interrupts.Stop{Signal: 2})
	p.want(p.ends("the stop", done), result.Interrupted)
	return p, c
}

// A stop ends a pause: what is said after it is answered.
func TestAStopEndsAPause(t *testing.T) {
	t.Parallel()
	p := chatting(t, calls(shell("true")), text("I was paused"))
	c := p.open()
	defer p.shut(c)
	c.Pause()
	done := started(c, t.Context(), coordinator.Job{Task: "work", Chat: true})
	p.until("paused", interrupt("paused"))
	c.Stop(&interrupts.Stop{Signal: 2})
	p.want(p.ends("the stop", done), result.Interrupted)
	if live := c.Live(); live.State != "interrupted" {
		t.Errorf("after the stop the state is %s", live.State)
	}
	c.Pause() // it is for work; talk is answered
	p.want(p.ends("the talk", started(c, t.Context(), coordinator.Job{Task: "what now?", Chat: true})), result.Completed)
}

// A message for another session does not lift a pause.
func TestAPauseIsNotLiftedByWhatIsNotForIt(t *testing.T) {
	t.Parallel()
	p := chatting(t, text("done"))
	c := p.open()
	defer p.shut(c)
	c.Say(interrupts.Message{Class: interrupts.ClassUrgent, Text: "not for you", From: "cli", Session: "999"})
	c.Pause()
	done := started(c, t.Context(), coordinator.Job{Task: "work", Chat: true})
	p.until("paused", interrupt("paused"))
	time.Sleep(50 * time.Millisecond)
	p.wantRequests(0)
	if err := c.Proceed(); err != nil {
		t.Error(err)
	}
	p.want(p.ends("the work", done), result.Completed)
}

// A stop covers what was accepted before it, also when the work for it begins
// only afterwards.
func TestAMessageThatAStopCoveredIsNotWorkedOn(t *testing.T) {
	t.Parallel()
	p := chatting(t, text("never"), text("never"))
	c := p.open()
	defer p.shut(c)
	m := say(c, interrupts.ClassSteer, "delete everything")
	c.Stop(&interrupts.Stop{Signal: 2})
	out := c.Run(t.Context(), coordinator.Job{Task: m.Text, Message: m.ID(), Chat: true})
	p.want(out, result.Interrupted)
	p.wantRequests(0)
	p.until("returned", inbox(m.ID(), "returned"))
}

// Whoever looks while work begins sees something whole.
func TestLookingWhileWorkBegins(t *testing.T) {
	t.Parallel()
	p := chatting(t)
	p.model.Handle(func(modeltest.Request) modeltest.Reply { return text("done") })
	c := p.open()
	defer p.shut(c)
	var over atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !over.Load() {
			c.Live()
			_ = c.StopAgent("nobody", &interrupts.Stop{})
		}
	})
	for range 3 {
		p.want(c.Run(t.Context(), coordinator.Job{Task: "work", Chat: true}), result.Completed)
	}
	over.Store(true)
	wg.Wait()
}

// What was asked and not answered when Ralph leaves waits for the next one.
func TestQuestionsThatWereNotAnsweredOutliveTheProcess(t *testing.T) {
	t.Parallel()
	p := chatting(t)
	p.model.Handle(func(modeltest.Request) modeltest.Reply { return modeltest.Hang() })
	c := p.open()
	for range 6 {
		say(c, interrupts.ClassAsk, "what is left?")
	}
	for len(p.model.Requests()) < 4 {
		time.Sleep(2 * time.Millisecond)
	}
	p.shut(c)
	for _, e := range p.seen() {
		if e.Type == agent.EventInbox && e.Status == "answered" {
			t.Errorf("%s was answered: %s", e.Ref, e.Output)
		}
	}
	p.model.Handle(func(modeltest.Request) modeltest.Reply { return text("nothing") })
	p.session = "last"
	c = p.open()
	for _, id := range []string{"m-1", "m-2", "m-3", "m-4", "m-5", "m-6"} {
		p.until("answered", inbox(id, "answered"))
	}
	p.shut(c)
}

// A side question that the user stopped has its end.
func TestAStoppedSideQuestionHasItsEnd(t *testing.T) {
	t.Parallel()
	p := chatting(t, modeltest.Hang())
	c := p.open()
	defer p.shut(c)
	m := say(c, interrupts.ClassAsk, "what is left?")
	for len(p.model.Requests()) == 0 {
		time.Sleep(2 * time.Millisecond)
	}
	if err := c.StopAgent("ask "+m.ID(), &interrupts.Stop{}); err != nil {
		t.Fatal(err)
	}
	p.until("cancelled", inbox(m.ID(), "cancelled"))
	if w := c.Waiting(); len(w) != 0 {
		t.Errorf("it waits still: %+v", w)
	}
}

// Work that has used up its limit takes no message that it could not answer.
func TestALimitLeavesWhatWaits(t *testing.T) {
	t.Parallel()
	p := chatting(t, text("the answer"), text("never"))
	p.flags["max_turns"] = []string{"1"}
	c := p.open()
	defer p.shut(c)
	m := say(c, interrupts.ClassLater, "and then the docs")
	out := c.Run(t.Context(), coordinator.Job{Task: "work"})
	p.want(out, result.Completed)
	if w := c.Waiting(); len(w) != 1 || w[0].ID() != m.ID() || len(out.Messages) != 0 {
		t.Errorf("waiting %+v, delivered %+v", w, out.Messages)
	}
}

// Stopping the talk, or the go, before it began leaves the truth about what was
// interrupted.
func TestAStopBeforeTheNextTurnKeepsTheTruth(t *testing.T) {
	t.Parallel()
	p, c := interruptedChat(t, text("I was building"))
	defer p.shut(c)
	for i := range 20 {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(&interrupts.Stop{Signal: 2})
		c.Run(ctx, coordinator.Job{Task: "hello?", Chat: true, Go: i%2 == 0})
	}
	p.want(c.Run(t.Context(), coordinator.Job{Task: "what were you doing?", Chat: true}), result.Completed)
	got := users(p.asked(2))
	if !strings.Contains(got[len(got)-1], "build the thing") {
		t.Errorf("the talk is told:\n%s", got[len(got)-1])
	}
}

// An urgent message does not wait for a check; the check is made anew once it
// was answered.
func TestUrgentPreemptsACheck(t *testing.T) {
	t.Parallel()
	p := newProject(t, text("the work is done"), text("it is 42"), text("as I said, done"))
	p.flags["check"] = []string{"echo x >> checks; test -e go || sleep 300"}
	p.write(".ralph/FORMAT", "ralph 1\n")
	c := p.open()
	defer p.shut(c)
	done := started(c, t.Context(), coordinator.Job{Task: "work"})
	for p.read("checks") == "" {
		time.Sleep(2 * time.Millisecond)
	}
	p.write("go", "")
	say(c, interrupts.ClassUrgent, "what is the answer?")
	out := p.ends("the work", done)
	p.want(out, result.Completed)
	got := users(p.asked(2))
	if !strings.HasPrefix(got[len(got)-1], "what is the answer?") {
		t.Errorf("the second request ends with %q", got[len(got)-1])
	}
	if p.read("checks") != "x\nx\n" || !out.Verified || out.Answer != "as I said, done" || len(out.Messages) != 1 {
		t.Errorf("checks %q, outcome %+v", p.read("checks"), out)
	}
}

// Closing is safe for those who look at the queue meanwhile.
func TestLookingWhileRalphLeaves(t *testing.T) {
	t.Parallel()
	p := chatting(t)
	c := p.open()
	var over atomic.Bool
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for !over.Load() {
				c.Waiting()
			}
		})
	}
	p.shut(c)
	time.Sleep(20 * time.Millisecond)
	over.Store(true)
	wg.Wait()
}

// What is said to a run that cannot save it, because the numbers are taken by
// messages for the next Ralph, is held and obeyed, and not called saved.
func TestWhatCannotBeNumberedIsHeld(t *testing.T) {
	t.Parallel()
	p := bareProject(t)
	p.model.Handle(func(r modeltest.Request) modeltest.Reply {
		if len(r.Messages) < 3 {
			p.write(".ralph/queue.jsonl", "")
			p.own()
			o := ownership.Project{Root: p.root, Getenv: getenv(p.root)}.Queue()
			if _, err := queue.Add(context.Background(), o, queue.Entry{Class: "later", Text: "for the next", From: "cli"}); err != nil {
				t.Error(err)
			}
			return calls(shell("until test -e go; do sleep 0.01; done"))
		}
		return text("heard")
	})
	c := p.open()
	defer p.shut(c)
	done := started(c, t.Context(), coordinator.Job{Task: "work"})
	p.until("the tool runs", func(e agent.Event) bool { return e.Type == agent.EventToolStart })
	m := say(c, interrupts.ClassSteer, "use tabs")
	p.until("held", inbox(m.ID(), "held"))
	p.write("go", "")
	p.want(p.ends("the work", done), result.Completed)
	if got := users(p.asked(2)); got[len(got)-1] != "use tabs" {
		t.Errorf("delivered %q", got)
	}
}
