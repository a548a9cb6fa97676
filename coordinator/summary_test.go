package coordinator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/workers/agent"
	"ralph/workers/model/modeltest"
)

const child = "summarize_conversation_history"

// crowded is a chat in a small window that three long answers nearly fill; the
// fourth turn needs room.
func crowded(t *testing.T, then ...modeltest.Reply) *project {
	long := strings.Repeat("a long line of an answer about nothing much\n", 130) // 5.7 KB
	replies := []modeltest.Reply{text("first: port 8123 is ours\n" + long), text("second\n" + long), text("third\n" + long)}
	p := newProject(t, append(replies, then...)...)
	p.flags["context_window"] = []string{"6500"}
	p.session = "new"
	return p
}

func (p *project) turn(c *coordinator.Coordinator, task string) result.Outcome {
	p.Helper()
	out := c.Run(p.Context(), coordinator.Job{Task: task, Chat: true})
	p.want(out, result.Completed)
	return out
}

func (p *project) fill(c *coordinator.Coordinator) {
	p.Helper()
	for _, task := range []string{"which port is ours?", "tell me more", "and more"} {
		p.turn(c, task)
	}
}

// joined is what the n-th request shows.
func (p *project) joined(n int) string {
	p.Helper()
	var b strings.Builder
	for _, m := range p.asked(n).Messages {
		b.WriteString(m.Role + ": " + m.Content + "\n")
	}
	return b.String()
}

// alternates checks what strict chat templates demand of a request.
func (p *project) alternates(n int) {
	p.Helper()
	before := "system"
	for i, m := range p.asked(n).Messages {
		ok := i == 0 && m.Role == "system"
		switch m.Role {
		case "user":
			ok = before == "system" || before == "assistant"
		case "assistant":
			ok = before == "user" || before == "tool"
		case "tool":
			ok = before == "assistant" || before == "tool"
		}
		if !ok {
			p.Errorf("request %d: %s follows %s:\n%.2000s", n, m.Role, before, p.joined(n))
		}
		before = m.Role
	}
}

func (p *project) event(kind agent.EventType, name string) (found agent.Event, ok bool) {
	for _, e := range p.seen() {
		if e.Type == kind && (name == "" || e.Agent == name) {
			found, ok = e, true
		}
	}
	return found, ok
}

// Before the window is full a child summarises what is left out; the summary
// stands in front from then on, also after a restart.
func TestASummaryMakesRoom(t *testing.T) {
	t.Parallel()
	p := crowded(t, text("- the port is 8123 (said by Ralph)").Using(700, 30), text("fourth"), text("fifth"), text("sixth"))
	c := p.open()
	p.fill(c)
	p.alternates(3)
	out := p.turn(c, "go on with the work")
	p.wantRequests(5)
	if asked := p.joined(4); !strings.Contains(asked, "You summarise a part") || !strings.Contains(asked, "port 8123 is ours") || len(p.asked(4).Tools) != 0 {
		t.Errorf("the child is asked\n%.3000s", asked)
	}
	got := p.joined(5)
	p.alternates(5)
	for _, want := range []string{"user: [Ralph: the earlier part", "- the port is 8123 (said by Ralph)", "left out here; all of it is on disk", "user: go on with the work\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the model sees no %q:\n%.3000s", want, got)
		}
	}
	if len(p.asked(5).Body) >= len(p.asked(3).Body) {
		t.Errorf("%d bytes became %d", len(p.asked(3).Body), len(p.asked(5).Body))
	}
	start, begun := p.event(agent.EventChildStart, child)
	end, ended := p.event(agent.EventChildEnd, child)
	compact, compacted := p.event(agent.EventCompact, "")
	if !begun || !ended || !compacted || start.Text == "" || end.OK == nil || !*end.OK || end.Usage.Input != 700 ||
		!strings.Contains(compact.Text, "summarised") || !strings.Contains(compact.Reason, "% of the model's window") {
		t.Errorf("events: %+v\n%+v\n%+v", start, end, compact)
	}
	if out.Usage.Input != 700+10 || out.Turns != 1 {
		t.Errorf("the child's tokens are not counted: %+v, %d turns", out.Usage, out.Turns)
	}
	p.turn(c, "more")
	p.extends(5, 6)
	before := c.History()
	p.shut(c)
	journal := p.all(".ralph/sessions/*/journal.jsonl")
	if strings.Count(journal, `"kind":"summary"`) != 1 || strings.Count(journal, `"kind":"compacted"`) != 1 || !strings.Contains(journal, `"role":"assistant","text":"second`) {
		t.Error("the journal lacks the summary, or what it stands for")
	}
	p.session = "last"
	c = p.open()
	if after := c.History(); fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("after a restart the conversation is\n%+v\nnot\n%+v", after, before)
	}
	p.turn(c, "after the restart")
	p.wantRequests(7)
	if got := p.joined(7); !strings.Contains(got, "- the port is 8123 (said by Ralph)") || strings.Count(got, "a long line") > 300 {
		t.Errorf("after a restart the model sees\n%.3000s", got)
	}
	p.alternates(7)
	p.shut(c)
}

// extends checks that one request begins with the bytes of another's messages.
func (p *project) extends(before, after int) {
	p.Helper()
	part := func(n int) []byte {
		var body struct{ Messages json.RawMessage }
		if err := json.Unmarshal(p.asked(n).Body, &body); err != nil {
			p.Fatal(err)
		}
		return bytes.TrimSuffix(body.Messages, []byte("]"))
	}
	if a, b := part(before), part(after); !bytes.HasPrefix(b, a) || len(a) == 0 {
		p.Errorf("request %d does not extend request %d", after, before)
	}
}

// Each request extends the one before it, whatever befell the turns.
func TestRequestsExtendEachOtherAfterFailures(t *testing.T) {
	t.Parallel()
	bad := modeltest.Status(400, `{"error":{"message":"no"}}`)
	p := newProject(t, text("one"), calls(call("list", m{"path": "."})), text("two"), bad, bad, text("three"), calls(call("list", m{"path": "."}), call("read", m{"path": "nothing"})), finish("done", "so"), text("four"))
	p.session = "new"
	c := p.open()
	p.turn(c, "a")
	p.turn(c, "b")
	p.want(c.Run(t.Context(), coordinator.Job{Task: "c", Chat: true}), result.ProviderError)
	p.want(c.Run(t.Context(), coordinator.Job{Task: "c again", Chat: true}), result.ProviderError)
	p.turn(c, "d")
	p.turn(c, "e")
	p.turn(c, "f")
	p.wantRequests(9)
	for n := 2; n <= 9; n++ {
		p.extends(n-1, n)
		p.alternates(n)
	}
	if got := p.joined(6); !strings.Contains(got, "user: c\nassistant: (no answer was given") {
		t.Errorf("after failed turns the model sees\n%s", got)
	}
	p.shut(c)
}

// Without a summary what is left out is left out all the same, and that is said.
func TestASummaryThatFails(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]modeltest.Reply{
		"refused": modeltest.Status(400, `{"error":{"message":"not today"}}`),
		"empty":   text(""),
		"cut":     modeltest.Raw(modeltest.Delta(m{"content": "- half a"}), modeltest.Finish("length"), modeltest.Usage(5, 6)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := crowded(t, reply, text("fourth"))
			c := p.open()
			p.fill(c)
			p.turn(c, "go on")
			p.wantRequests(5)
			if got := p.joined(5); !strings.Contains(got, "[Ralph: the earlier part") || strings.Contains(got, "half a") {
				t.Errorf("the model sees\n%.1000s", got)
			}
			end, _ := p.event(agent.EventChildEnd, child)
			compact, _ := p.event(agent.EventCompact, "")
			if end.OK == nil || *end.OK || end.Reason == "" || !strings.Contains(compact.Text, "without a summary") || !p.warned("left out without a summary") {
				t.Errorf("events %+v\n%+v", end, compact)
			}
			p.shut(c)
		})
	}
}

// A limit that leaves no room for the summary forbids it.
func TestASummaryWithinTheLimits(t *testing.T) {
	t.Parallel()
	p := crowded(t, text("fourth"))
	p.flags["max_tokens"] = []string{"2000"}
	c := p.open()
	p.fill(c)
	p.turn(c, "go on")
	p.wantRequests(4)
	if !p.warned("the limit of 2000 tokens leaves no room") {
		t.Errorf("events %s", p.types())
	}
	p.shut(c)
}

// A stop ends the child at once; the conversation is as it was.
func TestAStopEndsTheSummary(t *testing.T) {
	t.Parallel()
	p := crowded(t, modeltest.Hang(), text("- a summary"), text("fourth"))
	c := p.open()
	p.fill(c)
	before := len(c.History())
	var stopped time.Time
	p.eye = func(e agent.Event) {
		if e.Type == agent.EventChildStart {
			time.AfterFunc(50*time.Millisecond, func() {
				stopped = time.Now()
				c.Stop(&interrupts.Stop{})
			})
		}
	}
	out := c.Run(t.Context(), coordinator.Job{Task: "go on", Chat: true})
	took := time.Since(stopped)
	p.eye = nil
	p.want(out, result.Interrupted)
	if took > 20*time.Second {
		t.Errorf("the stop took %v", took)
	}
	if got := c.History(); len(got) != before+1 || got[before].Text != "go on" {
		t.Errorf("the conversation has %d messages, had %d", len(got), before)
	}
	if end, _ := p.event(agent.EventChildEnd, child); end.Status != "interrupted" {
		t.Errorf("the child ended as %+v", end)
	}
	p.turn(c, "again")
	p.shut(c)
}

// The endpoint refuses before Ralph thought it would: the summary is made then.
func TestASummaryAfterARefusal(t *testing.T) {
	t.Parallel()
	tooLong := modeltest.Status(400, `{"error":{"message":"maximum context length exceeded","code":"context_length_exceeded"}}`)
	p := crowded(t, tooLong, text("- a summary").Using(50, 5), text("fourth"))
	p.flags["context_window"] = []string{"100000"}
	c := p.open()
	p.fill(c)
	out := p.turn(c, "go on")
	p.wantRequests(6)
	if got := p.joined(6); !strings.Contains(got, "- a summary") || !strings.Contains(got, "user: go on\n") || out.Usage.Input != 60 {
		t.Errorf("used %+v; the model sees\n%.2000s", out.Usage, got)
	}
	p.shut(c)
}

func TestCompactOnDemand(t *testing.T) {
	t.Parallel()
	p := crowded(t, text("- what was said").Using(40, 4), text("fourth"), modeltest.Hang())
	p.flags["context_window"] = []string{"100000"}
	c := p.open()
	if _, err := c.Compact(t.Context()); !errors.Is(err, agent.ErrNoCompaction) {
		t.Errorf("an empty conversation: %v", err)
	}
	p.fill(c)
	r, err := c.Compact(t.Context())
	if err != nil || r.Summary != "- what was said" || r.LeftOut == 0 || r.TokensAfter >= r.TokensBefore || r.MessagesAfter >= r.MessagesBefore+1 || r.Usage.Input != 40 {
		t.Errorf("report %+v, %v", r, err)
	}
	if got := c.Totals().Usage.Input; got != 3*10+40 {
		t.Errorf("%d tokens in all", got)
	}
	p.turn(c, "go on")
	if got := p.joined(5); !strings.Contains(got, "- what was said") {
		t.Errorf("the model sees\n%.2000s", got)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(&interrupts.Stop{})
	if _, err := c.Compact(ctx); err == nil {
		t.Error("a stopped compaction went on")
	}
	p.shut(c)
}

// A recording holds the child's request too, and replays without a network.
func TestASummaryReplays(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a long line about nothing much\n", 190)
	var replies []modeltest.Reply
	for i := range 2 {
		replies = append(replies, calls(shell(fmt.Sprintf("printf '%%s' '%s %d'", long, i))))
	}
	p := newProject(t, append(replies, text("- the summary"), text("done"))...)
	tape := p.TempDir() + "/tape.yaml"
	flags := map[string][]string{"context_window": {"6500"}, "sandbox": {"off"}}
	p.flags = map[string][]string{"record": {tape}}
	for k, v := range flags {
		p.flags[k] = v
	}
	out := p.run(coordinator.Job{Task: "print it"})
	p.want(out, result.Completed)
	if _, ok := p.event(agent.EventChildEnd, child); !ok {
		t.Fatalf("no summary was made: %s", p.types())
	}
	q := newProject(t)
	q.flags = map[string][]string{"replay": {tape}}
	for k, v := range flags {
		q.flags[k] = v
	}
	q.want(q.run(coordinator.Job{Task: "print it"}), result.Completed)
	q.wantRequests(0)
}
