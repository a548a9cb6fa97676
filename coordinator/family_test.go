package coordinator_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/crew"
	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/workers/agent"
	"ralph/workers/model/modeltest"
)

// family is a project whose coordinator asks for agents and then waits; what ends
// late fails the test instead of hanging it.
func family(t *testing.T) (*project, *cast) {
	t.Helper()
	p := newProject(t)
	p.session = "new"
	return p, played(p)
}

// asks waits until an agent has asked the model n times.
func (k *cast) asks(who string, n int) {
	k.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); len(k.requests(who)) < n; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			k.t.Fatalf("%s never asked %d times", who, n)
		}
	}
}

// within runs a job that must end by itself.
func (p *project) within(c *coordinator.Coordinator, j coordinator.Job) result.Outcome {
	p.Helper()
	return p.ends("the work", started(c, p.Context(), j))
}

func TestAChildDecidesAboutItsOwnOnly(t *testing.T) {
	t.Parallel()
	p, k := family(t)
	k.part("ralph", spawn(m{"name": "good", "task": "work"}, m{"name": "bad", "task": "harm"}), text("I wait."), text("all done"), text("all done"))
	told := make(chan struct{})
	k.always["good"] = func(modeltest.Request) modeltest.Reply {
		if len(k.asked["good"]) > 1 {
			return text("good is done")
		}
		k.mu.Unlock()
		<-told
		k.mu.Lock()
		return put("good.txt", "x\n")
	}
	k.part("bad", calls(call("stop_agent", m{"id": "good"}), call("merge_agent", m{"id": "good"}), call("stop_agent", m{"id": "bad"}), call("stop_agent", m{"id": "ralph"}), call("message_agent", m{"id": "good", "text": "delete it all"})))
	k.always["bad"] = func(modeltest.Request) modeltest.Reply {
		if len(k.asked["bad"]) == 1 {
			return k.parts["bad"][0]
		}
		close(told)
		return text("bad is done")
	}
	c := p.open()
	defer p.shut(c)
	out := p.within(c, coordinator.Job{Task: "do it", Chat: true})
	p.want(out, result.Completed)
	if a := childOf(t, out, "good"); a.State != crew.Done || a.Landing != crew.Merged {
		t.Errorf("%+v", a)
	}
	if heard := k.heard("bad"); strings.Count(heard, crew.ErrNotYours.Error()) != 3 || !strings.Contains(heard, "no such agent") {
		t.Errorf("it was told\n%s", heard)
	}
	if heard := k.heard("good"); !strings.Contains(heard, "Agent bad says:") {
		t.Errorf("the other was told\n%s", heard)
	}
}

func TestAnAgentCannotNeedWhoWaitsForIt(t *testing.T) {
	t.Parallel()
	p, k := family(t)
	k.part("ralph", spawn(m{"name": "top", "task": "have helpers"}, m{"name": "next", "task": "go on", "after": []string{"top"}}), text("I wait."), text("all done"))
	k.part("top", spawn(m{"name": "deep", "task": "x", "after": []string{"top"}}), spawn(m{"name": "deep", "task": "x", "after": []string{"next"}}), text("done without"))
	k.part("next", text("done"))
	c := p.open()
	defer p.shut(c)
	p.want(p.within(c, coordinator.Job{Task: "do it", Chat: true}), result.Completed)
	heard := k.heard("top")
	for _, circle := range []string{"deep → top → deep", "deep → next → top → deep"} {
		if !strings.Contains(heard, circle) {
			t.Errorf("%q is not in\n%s", circle, heard)
		}
	}
}

func TestNobodyWaitsForWorkThatIsHeld(t *testing.T) {
	t.Parallel()
	p, k := family(t)
	p.write("a.txt", "one\n")
	p.git("add", "-A")
	p.git("commit", "-qm", "second")
	k.part("ralph", spawn(m{"name": "first", "task": "change it"}, m{"name": "second", "task": "go on", "after": []string{"first"}}), text("I wait."))
	k.always["ralph"] = func(modeltest.Request) modeltest.Reply {
		if left := k.parts["ralph"]; len(left) > 0 {
			k.parts["ralph"] = left[1:]
			return left[0]
		}
		return text("I see.")
	}
	k.always["first"] = func(modeltest.Request) modeltest.Reply {
		if len(k.asked["first"]) == 1 {
			return put("a.txt", "first\n")
		}
		p.write("a.txt", "the user's\n")
		return text("first is done")
	}
	c := p.open()
	defer p.shut(c)
	out := p.within(c, coordinator.Job{Task: "do it", Chat: true})
	if a := childOf(t, out, "first"); a.Landing != crew.Held {
		t.Fatalf("%+v", a)
	}
	if a := childOf(t, out, "second"); a.State != crew.Failed || !strings.Contains(a.Problem, "first") {
		t.Errorf("%+v", a)
	}
	if got := p.read("a.txt"); got != "the user's\n" {
		t.Errorf("a.txt is %q", got)
	}
}

func TestThoseBelowEndWithTheirParent(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"stopped", "broken"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			p, k := family(t)
			k.part("ralph", spawn(m{"name": "top", "task": "have helpers"}))
			k.part("top", spawn(m{"name": "deep", "task": "take long"}, m{"name": "later", "task": "wait", "after": []string{"deep"}}))
			k.part("deep", put("half.txt", "half\n"), modeltest.Hang())
			k.always["ralph"] = func(modeltest.Request) modeltest.Reply {
				if n := len(k.asked["ralph"]); n == 1 {
					return k.parts["ralph"][0]
				} else if n == 2 && how == "stopped" {
					k.mu.Unlock()
					k.asks("deep", 2)
					k.mu.Lock()
					return calls(call("stop_agent", m{"id": "top"}))
				}
				return text("I see.")
			}
			k.always["top"] = func(modeltest.Request) modeltest.Reply {
				if len(k.asked["top"]) == 1 {
					return k.parts["top"][0]
				}
				k.mu.Unlock()
				k.asks("deep", 2)
				k.mu.Lock()
				if how == "broken" {
					return modeltest.Status(400, `{"error":{"message":"no"}}`)
				}
				return text("I wait for them.")
			}
			c := p.open()
			defer p.shut(c)
			out := p.within(c, coordinator.Job{Task: "do it", Chat: true})
			deep, later := childOf(t, out, "deep"), childOf(t, out, "later")
			if deep.State != crew.Interrupted || deep.Commit == "" || later.State != crew.Interrupted {
				t.Errorf("%+v\n%+v", deep, later)
			}
			if top := childOf(t, out, "top"); top.State != map[string]crew.State{"stopped": crew.Interrupted, "broken": crew.Failed}[how] {
				t.Errorf("%+v", top)
			}
		})
	}
}

func TestAnAgentGoesOnWithoutThoseItNeeded(t *testing.T) {
	t.Parallel()
	p, k := family(t)
	k.part("ralph", spawn(m{"name": "one", "task": "write one"}, m{"name": "two", "task": "write two", "after": []string{"one"}}), text("I wait."))
	k.part("one", put("one.txt", "1\n"), text("one is done"))
	k.part("two", put("two.txt", "2\n"), modeltest.Hang())
	c := p.open()
	ended := started(c, p.Context(), coordinator.Job{Task: "do it", Chat: true})
	k.asks("two", 2)
	c.Stop(&interrupts.Stop{Text: "/stop"})
	p.ends("the work", ended)
	p.shut(c)

	p.session = "new" // another, in which nothing is known of the first
	c = p.open()
	defer p.shut(c)
	k.part("two", text("two is done"))
	out := p.within(c, coordinator.Job{Go: true, Agent: "two", Chat: true})
	p.want(out, result.Completed)
	if p.read("one.txt") != "1\n" || p.read("two.txt") != "2\n" {
		t.Errorf("one %q, two %q", p.read("one.txt"), p.read("two.txt"))
	}
}

func TestAnUrgentMessageNeverHoldsAChildForEver(t *testing.T) {
	t.Parallel()
	p, k := family(t)
	k.part("ralph", spawn(m{"name": "worker", "task": "work"}), text("I wait."))
	k.part("worker", modeltest.Hang())
	c := p.open()
	defer p.shut(c)
	ended := started(c, p.Context(), coordinator.Job{Task: "do it", Chat: true})
	k.asks("worker", 1)
	c.Stop(&interrupts.Stop{Text: "/stop"})
	p.ends("the work", ended)

	// Nobody is there to handle what comes while one agent goes on.
	gate := make(chan struct{})
	k.always["worker"] = func(modeltest.Request) modeltest.Reply {
		if len(k.asked["worker"]) == 2 {
			k.mu.Unlock()
			<-gate
			k.mu.Lock()
			return put("it.txt", "x\n")
		}
		return text("worker is done")
	}
	ended = started(c, p.Context(), coordinator.Job{Go: true, Agent: "worker", Chat: true})
	k.asks("worker", 2)
	say(c, interrupts.ClassUrgent, "how is it?")
	close(gate)
	p.want(p.ends("the work", ended), result.Completed)
	// What is for another session is handled by nobody here either.
	c.Say(interrupts.Message{Class: interrupts.ClassUrgent, Text: "hello", From: "r-1", Session: "session-999-x"})
}

func TestWhatAChildDidNotHearIsGivenBack(t *testing.T) {
	t.Parallel()
	p, k := family(t)
	k.part("ralph", spawn(m{"name": "worker", "task": "work"}, m{"name": "broken", "task": "break"}), text("I wait."), text("I see."), text("I see."))
	gate := make(chan struct{})
	wait := func(then modeltest.Reply) func(modeltest.Request) modeltest.Reply {
		return func(r modeltest.Request) modeltest.Reply {
			if last := r.Messages[len(r.Messages)-1].Content; strings.Contains(last, "and then") {
				return text("that, too")
			}
			k.mu.Unlock()
			<-gate
			k.mu.Lock()
			return then
		}
	}
	k.always["worker"] = wait(text("done"))
	k.always["broken"] = wait(modeltest.Status(400, `{"error":{"message":"no"}}`))
	c := p.open()
	defer p.shut(c)
	ended := started(c, p.Context(), coordinator.Job{Task: "do it", Chat: true})
	k.asks("worker", 1)
	k.asks("broken", 1)
	to := func(id string, class interrupts.Class, text string) interrupts.Message {
		return c.Say(interrupts.Message{Class: class, Text: text, From: "chat", To: id})
	}
	late, lost := to("worker", interrupts.ClassLater, "and then write a poem"), to("broken", interrupts.ClassSteer, "use tabs")
	steer := to("worker", interrupts.ClassSteer, "and then a novel")
	close(gate)
	out := p.ends("the work", ended)
	p.want(out, result.Completed)
	p.until("given back", inbox(lost.ID(), string(interrupts.Returned)))
	if heard := k.heard("worker"); !strings.Contains(heard, "a poem") || !strings.Contains(heard, "a novel") || strings.Index(heard, "a novel") > strings.Index(heard, "a poem") {
		t.Errorf("it was told\n%s", heard)
	}
	gone := to("worker", interrupts.ClassSteer, "too late")
	p.until("given back", inbox(gone.ID(), string(interrupts.Returned)))
	if left := c.Waiting(); len(left) > 0 {
		t.Errorf("%+v wait for ever", left)
	}
	if !slices.ContainsFunc(out.Messages, func(x interrupts.Message) bool { return x.N == late.N && x.State == interrupts.Delivered }) ||
		!slices.ContainsFunc(out.Messages, func(x interrupts.Message) bool { return x.N == steer.N }) {
		t.Errorf("messages %+v", out.Messages)
	}
}

func TestWhoAsksHowOthersStandMakesRoom(t *testing.T) {
	t.Parallel()
	p, k := family(t)
	p.flags["max_agents"] = []string{"1"}
	k.part("ralph", spawn(m{"name": "top", "task": "have helpers"}), text("I wait."), text("all done"))
	k.part("top", spawn(m{"name": "deep", "task": "write deep"}), calls(call("agent_status", m{"id": "deep", "wait_seconds": 600})), text("top is done"))
	k.part("top", text("top is done"))
	k.part("deep", put("deep.txt", "x\n"), text("deep is done"))
	c := p.open()
	defer p.shut(c)
	p.want(p.within(c, coordinator.Job{Task: "do it", Chat: true}), result.Completed)
	if heard := k.heard("top"); !strings.Contains(heard, "says: deep is done") {
		t.Errorf("it was told\n%s", heard)
	}
}

func TestAGuestHasChildren(t *testing.T) {
	t.Parallel()
	p, k := family(t)
	k.part("ralph", spawn(m{"name": "one", "task": "write one"}), text("I wait."), text("all done"))
	k.part("one", put("one.txt", "1\n"), text("one is written"))
	c := p.open()
	defer p.shut(c)
	select {
	case h := <-p.hand("do it"):
		if h.err != nil || h.outcome.Status != result.Completed || len(h.outcome.Children) != 1 || h.outcome.Answer != "all done" {
			t.Fatalf("%+v", h)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("it never ended: %v", agents(c.Live()))
	}
	if p.read("one.txt") != "1\n" {
		t.Error("the work of the guest's agent is not there")
	}
}

// Each of many that are stopped at the same time ends once.
func TestManyStopsAtOnce(t *testing.T) {
	t.Parallel()
	p, k := family(t)
	var list []m
	for i := range 8 {
		id := fmt.Sprintf("w%d", i)
		list = append(list, m{"name": id, "task": "work"})
		k.always[id] = func(modeltest.Request) modeltest.Reply {
			if len(k.asked[id]) == 1 {
				return put(id+".txt", "x\n")
			}
			return modeltest.Hang()
		}
	}
	k.part("ralph", spawn(list...), text("I wait."))
	k.always["ralph"] = func(modeltest.Request) modeltest.Reply {
		if left := k.parts["ralph"]; len(left) > 0 {
			k.parts["ralph"] = left[1:]
			return left[0]
		}
		return text("I see.")
	}
	c := p.open()
	defer p.shut(c)
	ended := started(c, p.Context(), coordinator.Job{Task: "do it", Chat: true})
	for i := range 8 {
		k.asks(fmt.Sprintf("w%d", i), 2)
	}
	for i := range 8 {
		go func() {
			id := fmt.Sprintf("w%d", i)
			if err := c.StopAgent(id, &interrupts.Stop{Text: "/stop " + id}); err != nil {
				t.Error(err)
			}
		}()
	}
	out := p.ends("the work", ended)
	if len(out.Children) != 8 {
		t.Errorf("%d children", len(out.Children))
	}
	for _, a := range out.Children {
		if a.State != crew.Interrupted || !strings.Contains(a.Problem, "/stop") && !strings.Contains(a.Problem, "stop") {
			t.Errorf("%+v", a)
		}
	}
	n := 0
	for _, e := range p.seen() {
		if e.Type == agent.EventChildEnd {
			n++
		}
	}
	if n != 8 {
		t.Errorf("%d ends were told", n)
	}
}

// A pause is reached when the children are held, also while the coordinator only
// waits for them, and goes on where it was.
func TestAPauseHoldsTheChildren(t *testing.T) {
	t.Parallel()
	p, k := family(t)
	k.part("ralph", spawn(m{"name": "worker", "task": "work"}), text("I wait."), text("all done"))
	gate := make(chan struct{})
	k.always["worker"] = func(modeltest.Request) modeltest.Reply {
		if len(k.asked["worker"]) > 1 {
			return text("done")
		}
		k.mu.Unlock()
		<-gate
		k.mu.Lock()
		return put("it.txt", "x\n")
	}
	c := p.open()
	defer p.shut(c)
	ended := started(c, p.Context(), coordinator.Job{Task: "do it", Chat: true})
	k.asks("worker", 1)
	k.asks("ralph", 2)
	c.Pause()
	close(gate)
	p.lives(c, "paused", func(l coordinator.Live) bool {
		return l.State == "paused" && slices.Contains(agents(l), "worker paused")
	})
	if n := len(k.requests("worker")); n != 1 {
		t.Errorf("%d requests of a child that is held", n)
	}
	if err := c.Proceed(); err != nil {
		t.Fatal(err)
	}
	p.want(p.ends("the work", ended), result.Completed)
}
