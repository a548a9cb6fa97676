package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/interrupts/control"
	"ralph/workers/agent"
	"ralph/workers/model/modeltest"
)

// chatting is a project with a chat's session.
func chatting(t *testing.T, replies ...modeltest.Reply) *project {
	p := newProject(t, replies...)
	p.session = "new"
	t.Cleanup(p.strict)
	return p
}

// strict holds every request against what a strict endpoint takes: the system
// speaks once and first, the roles alternate, and each call is answered once,
// before anybody else speaks.
func (p *project) strict() {
	for n, r := range p.model.Requests() {
		open, last := map[string]bool{}, ""
		for i, m := range r.Messages {
			switch {
			case m.Role == "system" && i > 0, m.Role == "user" && last == "user", m.Role == "user" && last == "tool", m.Role == "assistant" && last == "assistant":
				p.Errorf("request %d, message %d: %s after %s", n+1, i+1, m.Role, last)
			case m.Role == "tool" && !open[m.CallID]:
				p.Errorf("request %d, message %d answers %q, which is no open call", n+1, i+1, m.CallID)
			case m.Role != "tool" && len(open) > 0:
				p.Errorf("request %d, message %d: the calls %v have no answer", n+1, i+1, open)
			}
			delete(open, m.CallID)
			for _, c := range m.Calls {
				open[c.ID] = true
			}
			last = m.Role
		}
		if len(open) > 0 {
			p.Errorf("request %d ends with the open calls %v", n+1, open)
		}
	}
}

// until waits for an event that fits.
func (p *project) until(what string, fits func(agent.Event) bool) agent.Event {
	p.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		for _, e := range p.seen() {
			if fits(e) {
				return e
			}
		}
	}
	p.Fatalf("%s: no such event in %s", what, p.types())
	return agent.Event{}
}

func inbox(id, status string) func(agent.Event) bool {
	return func(e agent.Event) bool { return e.Type == agent.EventInbox && e.Ref == id && e.Status == status }
}

func interrupt(status string) func(agent.Event) bool {
	return func(e agent.Event) bool { return e.Type == agent.EventInterrupt && e.Status == status }
}

// started runs a job beside the test; the outcome comes once.
func started(c *coordinator.Coordinator, ctx context.Context, j coordinator.Job) <-chan result.Outcome {
	out := make(chan result.Outcome, 1)
	go func() { out <- c.Run(ctx, j) }()
	return out
}

func say(c *coordinator.Coordinator, class interrupts.Class, text string) interrupts.Message {
	return c.Say(interrupts.Message{Class: class, Text: text, From: "chat"})
}

// users are the texts of the user's messages in a request.
func users(r modeltest.Request) []string {
	var out []string
	for _, m := range r.Messages {
		if m.Role == "user" {
			out = append(out, m.Content)
		}
	}
	return out
}

// A steering message is delivered after the running tool and before the next
// request, in order, and its end is told once.
func TestSteeringIsDeliveredAtTheNextBoundary(t *testing.T) {
	t.Parallel()
	p := chatting(t, calls(shell("until test -e go; do sleep 0.01; done")), text("understood"))
	c := p.open()
	defer p.shut(c)
	done := started(c, t.Context(), coordinator.Job{Task: "work", Chat: true})
	p.until("the tool runs", func(e agent.Event) bool { return e.Type == agent.EventToolStart })
	one, two := say(c, interrupts.ClassSteer, "use tabs"), say(c, interrupts.ClassSteer, "and no semicolons")
	p.until("accepted", inbox(two.ID(), "queued"))
	p.wantRequests(1)
	p.write("go", "")
	out := <-done
	p.want(out, result.Completed)
	got := users(p.asked(2))
	if want := "use tabs\n\nand no semicolons"; got[len(got)-1] != want {
		t.Errorf("the second request ends with %q, want %q", got[len(got)-1], want)
	}
	for _, m := range []interrupts.Message{one, two} {
		p.until("delivered", inbox(m.ID(), "delivered"))
	}
	if len(out.Messages) != 2 || len(c.Waiting()) != 0 {
		t.Errorf("messages %+v, waiting %+v", out.Messages, c.Waiting())
	}
}

// An urgent message drops the request that runs; the work then goes on.
func TestUrgentPreemptsAStream(t *testing.T) {
	t.Parallel()
	p := chatting(t, text("a long answer that never ends").HangAt(3), text("it is 42"), text("all done"))
	c := p.open()
	defer p.shut(c)
	done := started(c, t.Context(), coordinator.Job{Task: "work", Chat: true})
	p.until("it streams", func(e agent.Event) bool { return e.Type == agent.EventMessageDelta })
	m := say(c, interrupts.ClassUrgent, "what is the answer?")
	out := <-done
	p.want(out, result.Completed)
	p.wantRequests(3)
	second := users(p.asked(2))
	if !strings.HasPrefix(second[len(second)-1], "what is the answer?") {
		t.Errorf("the second request ends with %q", second[len(second)-1])
	}
	third := users(p.asked(3))
	if !strings.Contains(third[len(third)-1], "Go on with the work") {
		t.Errorf("the third request ends with %q", third[len(third)-1])
	}
	p.until("delivered", inbox(m.ID(), "delivered"))
}

// A tool that the coordinator runs itself goes to the background when something
// urgent comes, and its result arrives later.
func TestUrgentSendsAToolToTheBackground(t *testing.T) {
	t.Parallel()
	p := chatting(t)
	var mu sync.Mutex
	n := 0
	p.model.Handle(func(r modeltest.Request) modeltest.Reply {
		mu.Lock()
		defer mu.Unlock()
		switch n++; n {
		case 1:
			return calls(shell("echo x > begun; until test -e go; do sleep 0.01; done; echo the-result"))
		case 2:
			return text("I am listening")
		}
		return text("done")
	})
	c := p.open()
	defer p.shut(c)
	done := started(c, t.Context(), coordinator.Job{Task: "work", Chat: true})
	for p.read("begun") == "" {
		time.Sleep(2 * time.Millisecond)
	}
	say(c, interrupts.ClassUrgent, "stop and listen")
	p.until("answered", func(e agent.Event) bool { return e.Type == agent.EventMessage && e.Text == "I am listening" })
	if live := c.Live(); len(live.Background) != 1 || !strings.Contains(live.Background[0].Command, "begun") {
		t.Errorf("background %+v", live.Background)
	}
	p.write("go", "")
	p.want(<-done, result.Completed)
	last := p.asked(len(p.model.Requests()))
	if got := strings.Join(users(last), "\n"); !strings.Contains(got, "the-result") {
		t.Errorf("the result never arrived:\n%s", got)
	}
}

// What is said for later is delivered when the work has ended, in the same run.
func TestLaterIsDeliveredWhenTheWorkHasEnded(t *testing.T) {
	t.Parallel()
	p := newProject(t, calls(shell("until test -e go; do sleep 0.01; done")), text("first part done"), text("second part done"))
	p.session = "new"
	c := p.open()
	defer p.shut(c)
	done := started(c, t.Context(), coordinator.Job{Task: "work"})
	p.until("the tool runs", func(e agent.Event) bool { return e.Type == agent.EventToolStart })
	say(c, interrupts.ClassLater, "then write the docs")
	p.write("go", "")
	out := <-done
	p.want(out, result.Completed)
	if out.Answer != "second part done" {
		t.Errorf("answer %q", out.Answer)
	}
	p.wantRequests(3)
	if got := users(p.asked(2)); strings.Contains(strings.Join(got, " "), "docs") {
		t.Errorf("it was delivered too early: %q", got)
	}
}

// A side question is answered without tools while the work goes on.
func TestAskIsAnsweredBesideTheWork(t *testing.T) {
	t.Parallel()
	p := chatting(t)
	p.model.Handle(func(r modeltest.Request) modeltest.Reply {
		switch {
		case len(r.Tools) == 0:
			return text("it waits for a file")
		case len(r.Messages) < 4:
			return calls(shell("until test -e go; do sleep 0.01; done"))
		}
		return text("done")
	})
	c := p.open()
	defer p.shut(c)
	done := started(c, t.Context(), coordinator.Job{Task: "wait for the file", Chat: true})
	p.until("the tool runs", func(e agent.Event) bool { return e.Type == agent.EventToolStart })
	m := say(c, interrupts.ClassAsk, "what are you doing?")
	e := p.until("answered", inbox(m.ID(), "answered"))
	if e.Output != "it waits for a file" {
		t.Errorf("the answer is %q", e.Output)
	}
	ask := users(p.asked(2))
	for _, part := range []string{"what are you doing?", "wait for the file", "shell until"} {
		if !strings.Contains(ask[0], part) {
			t.Errorf("the side request lacks %q:\n%s", part, ask[0])
		}
	}
	p.write("go", "")
	p.want(<-done, result.Completed)
	if got := strings.Join(users(p.asked(3)), "\n"); strings.Contains(got, "what are you doing?") {
		t.Errorf("the side question is in the conversation:\n%s", got)
	}
}

// After a stop Ralph only talks, with the truth of what was interrupted, until
// the user says go.
func TestAStopBeginsAConversation(t *testing.T) {
	t.Parallel()
	command := sleeper(200)
	p := chatting(t, calls(shell("echo half > half.txt; "+command)), text("I was running a command"), text("and nothing else"), calls(shell("echo whole > whole.txt")), text("finished"))
	c := p.open()
	done := started(c, t.Context(), coordinator.Job{Task: "build the thing", Chat: true})
	p.until("the tool runs", func(e agent.Event) bool { return e.Type == agent.EventToolStart })
	for p.read("half.txt") == "" {
		time.Sleep(2 * time.Millisecond)
	}
	later := say(c, interrupts.ClassLater, "and then deploy")
	foreign := c.Say(interrupts.Message{Class: interrupts.ClassSteer, Text: "from elsewhere", From: "cli"})
	c.Stop(&interrupts.Stop{Signal: 2})
	out := <-done
	p.want(out, result.Interrupted)
	if alive(command[len("sleep "):]) {
		t.Error("the command survives")
	}
	p.until("returned", inbox(later.ID(), "returned"))
	p.until("cancelled", inbox(foreign.ID(), "cancelled"))
	if e := p.until("stopped", interrupt("stopped")); !strings.Contains(e.Text, "nothing is left running") {
		t.Errorf("the report is %q", e.Text)
	}
	if live := c.Live(); live.State != "interrupted" || live.Mode != "conversation" || len(live.Queue) != 0 {
		t.Errorf("live %+v", live)
	}
	p.want(c.Run(t.Context(), coordinator.Job{Task: "what were you doing?", Chat: true}), result.Completed)
	r := p.asked(2)
	if len(r.Tools) != 0 {
		t.Errorf("the talk has the tools %v", r.Tools)
	}
	asked := users(r)
	for _, part := range []string{"what were you doing?", "build the thing", command, "nothing is left running", "given back: and then deploy"} {
		if !strings.Contains(asked[len(asked)-1], part) {
			t.Errorf("the talk lacks %q:\n%s", part, asked[len(asked)-1])
		}
	}
	p.shut(c)
	// The mode outlives the process.
	p.session = "last"
	c = p.open()
	defer p.shut(c)
	if c.Live().Mode != "conversation" {
		t.Error("the new process does not know of the stop")
	}
	p.want(c.Run(t.Context(), coordinator.Job{Task: "anything else?", Chat: true}), result.Completed)
	if r := p.asked(3); len(r.Tools) != 0 {
		t.Errorf("the talk has the tools %v", r.Tools)
	}
	out = c.Run(t.Context(), coordinator.Job{Go: true, Chat: true})
	p.want(out, result.Completed)
	if p.read("whole.txt") != "whole\n" || c.Live().Mode != "autonomous" {
		t.Errorf("after go: whole.txt %q, mode %s", p.read("whole.txt"), c.Live().Mode)
	}
	if got := users(p.asked(4)); !strings.Contains(got[len(got)-1], "It had changed: half.txt") {
		t.Errorf("go does not say what had changed: %q", got[len(got)-1])
	}
	if got := users(p.asked(4)); !strings.HasPrefix(got[len(got)-1], "Go on.") || !strings.Contains(got[len(got)-1], "build the thing") {
		t.Errorf("go says %q", got[len(got)-1])
	}
	if changes, err := c.Undo(t.Context(), 2, nil); err != nil || len(changes.Files) != 2 {
		t.Errorf("undo of both turns: %v, %v", changes, err)
	}
}

// Tools that the model asks for in a conversation are not run.
func TestAConversationRunsNothing(t *testing.T) {
	t.Parallel()
	p := chatting(t, modeltest.Hang(), calls(shell("touch forbidden")), text("I may not"))
	c := p.open()
	defer p.shut(c)
	done := started(c, t.Context(), coordinator.Job{Task: "work", Chat: true})
	for len(p.model.Requests()) == 0 {
		time.Sleep(2 * time.Millisecond)
	}
	c.Stop(&interrupts.Stop{})
	p.want(<-done, result.Interrupted)
	p.want(c.Run(t.Context(), coordinator.Job{Task: "hello?", Chat: true}), result.Completed)
	if p.read("forbidden") != "" || slices.ContainsFunc(p.seen(), func(e agent.Event) bool { return e.Type == agent.EventGate }) {
		t.Error("a tool ran in a conversation")
	}
	if c.Live().Mode != "conversation" {
		t.Error("a plain message ended the conversation mode")
	}
}

// A pause holds the work before its next request; what is urgent goes by.
func TestAPauseHoldsTheWork(t *testing.T) {
	t.Parallel()
	p := chatting(t, calls(shell("until test -e go; do sleep 0.01; done")), text("urgent answer"), text("done"))
	c := p.open()
	defer p.shut(c)
	if err := c.Proceed(); err == nil {
		t.Error("there was nothing to go on with")
	}
	done := started(c, t.Context(), coordinator.Job{Task: "work", Chat: true})
	p.until("the tool runs", func(e agent.Event) bool { return e.Type == agent.EventToolStart })
	c.Pause()
	p.write("go", "")
	p.until("paused", interrupt("paused"))
	if s := c.Live().State; s != "paused" {
		t.Errorf("state %s", s)
	}
	p.wantRequests(1)
	say(c, interrupts.ClassUrgent, "quick")
	p.until("answered", func(e agent.Event) bool { return e.Type == agent.EventMessage && e.Text == "urgent answer" })
	p.wantRequests(2)
	if err := c.Proceed(); err != nil {
		t.Error(err)
	}
	p.want(<-done, result.Completed)
	p.wantRequests(3)
}

// What was accepted and not delivered is there for the next process, once.
func TestMessagesOutliveTheProcess(t *testing.T) {
	t.Parallel()
	p := chatting(t, text("heard"))
	c := p.open()
	var ids []string
	for i := range 3 {
		m := c.Say(interrupts.Message{Class: interrupts.ClassLater, Text: fmt.Sprintf("message %d", i), From: "chat"})
		ids = append(ids, m.ID())
	}
	p.until("accepted", inbox(ids[2], "queued"))
	p.shut(c)
	p.wantFile(".ralph/queue.md", ids[0], "message 2")
	c = p.open()
	defer func() { p.shut(c) }()
	if got := c.Waiting(); len(got) != 3 || got[0].ID() != ids[0] || got[2].Text != "message 2" {
		t.Fatalf("waiting %+v", got)
	}
	if _, err := c.Amend(ids[1], interrupts.Amendment{Drop: true}); err != nil {
		t.Error(err)
	}
	p.want(c.Run(t.Context(), coordinator.Job{Chat: true}), result.Completed)
	if got := users(p.asked(1)); got[len(got)-1] != "message 0\n\nmessage 2" {
		t.Errorf("delivered %q", got[len(got)-1])
	}
	if out := c.Run(t.Context(), coordinator.Job{Chat: true}); out.Status == result.Completed {
		t.Errorf("there was nothing to deliver: %+v", out)
	}
	p.shut(c)
	c = p.open()
	if got := c.Waiting(); len(got) != 0 {
		t.Errorf("delivered again: %+v", got)
	}
}

// A message for an agent that is not there is refused, not kept for ever; one
// that waits for an agent of an earlier process is the coordinator's; one for
// another session waits for that, also a question.
func TestMessagesForOthers(t *testing.T) {
	t.Parallel()
	p := chatting(t, text("heard"))
	c := p.open()
	client, err := control.Dial(t.Context(), p.path(".ralph"), "")
	if err != nil {
		t.Fatal(err)
	}
	var f *control.Fault
	if _, err := client.Do(t.Context(), control.Request{Op: "send", Class: "steer", Text: "hello", To: "nobody"}, nil); !errors.As(err, &f) || f.Code != "usage" || !strings.Contains(f.Hint, "ralph") {
		t.Errorf("sent to nobody: %v", err)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	lost := c.Say(interrupts.Message{Class: interrupts.ClassLater, Text: "for the child", From: "cli", To: "task-9"})
	other := c.Say(interrupts.Message{Class: interrupts.ClassAsk, Text: "elsewhere?", From: "cli", Session: "999"})
	p.until("accepted", inbox(other.ID(), "queued"))
	p.shut(c)
	p.session = "last"
	c = p.open()
	defer p.shut(c)
	p.want(c.Run(t.Context(), coordinator.Job{Chat: true}), result.Completed)
	if got := users(p.asked(1)); got[len(got)-1] != "for the child" {
		t.Errorf("delivered %q", got)
	}
	p.until("delivered", inbox(lost.ID(), "delivered"))
	if w := c.Waiting(); len(w) != 1 || w[0].ID() != other.ID() {
		t.Errorf("waiting %+v", w)
	}
	p.wantRequests(1)
}
