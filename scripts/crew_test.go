package scripts

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"ralph/coordinator"
	"ralph/coordinator/crew"
	"ralph/coordinator/permission"
	"ralph/coordinator/result"
	"ralph/interrupts/control"
	"ralph/workers/agent"
)

// herd does a task with two children, as the coordinator tells it.
func herd(f *fake) func(context.Context, coordinator.Job) result.Outcome {
	return func(context.Context, coordinator.Job) result.Outcome {
		yes, no := true, false
		for _, e := range []agent.Event{
			{Type: agent.EventStart, Model: "m-1"},
			{Type: agent.EventTurnStart, Turn: 1},
			{Type: agent.EventChildStart, Agent: "auth", Text: "add the form", Reason: "ralph", Ref: "refs/heads/ralph/auth"},
			{Type: agent.EventChildStart, Agent: "docs", Text: "describe it", Reason: "ralph"},
			{Type: agent.EventTurnStart, Agent: "auth", Turn: 1},
			{Type: agent.EventMessage, Agent: "auth", Turn: 1, Text: "I begin"},
			{Type: agent.EventToolStart, Agent: "auth", Turn: 1, Tool: "shell", CallID: "call_1", Args: []byte(`{"command":"go test ./auth"}`)},
			{Type: agent.EventToolStart, Agent: "docs", Turn: 1, Tool: "read", CallID: "call_1", Args: []byte(`{"path":"README.md"}`)},
			{Type: agent.EventToolEnd, Agent: "auth", Turn: 1, Tool: "shell", CallID: "call_1", OK: &yes},
			{Type: agent.EventToolEnd, Agent: "docs", Turn: 1, Tool: "read", CallID: "call_1", OK: &no},
			{Type: agent.EventPermission, Agent: "auth", Tool: "shell", CallID: "call_2", Status: "denied", Text: "git push", Rule: "push always asks"},
			{Type: agent.EventWarning, Agent: "docs", Text: "the disk is full"},
			{Type: agent.EventChildEnd, Agent: "auth", Status: "done", OK: &yes, Text: "The form\x1b[2J works.", Usage: &agent.Usage{Total: 10}, Ref: "refs/heads/ralph/auth"},
			{Type: agent.EventChildEnd, Agent: "auth", Status: "merged", Ref: "0123456789abcdef0123"},
			{Type: agent.EventChildEnd, Agent: "docs", Status: "held", Text: "you changed README.md"},
		} {
			f.emit(e)
		}
		since := time.Now()
		return result.Outcome{Status: result.Completed, Answer: "both", Turns: 1, Children: []crew.Agent{
			{ID: "auth", Parent: "ralph", Depth: 1, Task: "add the form", State: crew.Done, Since: since, Turns: 4, Usage: agent.Usage{Total: 10}, Result: "The form works.", Branch: "refs/heads/ralph/auth", Landing: crew.Merged},
			{ID: "docs", Parent: "ralph", Depth: 1, Task: "describe it", State: crew.Interrupted, Since: since, Result: "half", Problem: "it was stopped"},
			{ID: "late", Parent: "docs", Depth: 2, Task: "more", State: crew.Queued, Since: since},
		}}
	}
}

// TestChildrenOfARun: the document names them, the stream has all their events,
// and a person sees how they begin and end, and with --verbose what they do.
func TestChildrenOfARun(t *testing.T) {
	b := newBench(t)
	b.fake.work = herd(b.fake)
	if code := b.run("--output", "jsonl", "do it"); code != 0 {
		t.Fatalf("exit %d: %s", code, b.err.String())
	}
	events := checkEvents(t, b.out.String())
	if n := len(events); n != 16 {
		t.Errorf("%d events, want all 15 and the result", n)
	}
	children, _ := b.document()["children"].([]any)
	if len(children) != 3 {
		t.Fatalf("children: %v", children)
	}
	auth, docs := children[0].(map[string]any), children[1].(map[string]any)
	if auth["id"] != "auth" || auth["status"] != "done" || auth["task"] != "add the form" || auth["turns"] != 4.0 || auth["result"] != "The form works." || auth["partial"] != false || auth["branch"] != "refs/heads/ralph/auth" {
		t.Errorf("%v", auth)
	}
	if docs["status"] != "interrupted" || docs["partial"] != true || docs["result"] != "half" || docs["branch"] != nil || docs["problem"] != "it was stopped" || auth["problem"] != nil {
		t.Errorf("%v", docs)
	}
	always := []string{"ralph: agent auth begins: add the form\n", "ralph: agent auth done: The form␛[2J works.\n", "ralph: agent auth merged 0123456789ab\n",
		"ralph: agent docs held: you changed README.md\n", "ralph: agent auth: denied shell: git push (push always asks)\n", "warning: docs: the disk is full\n"}
	all := []string{"  auth: shell go test ./auth: ok\n", "  docs: read README.md: failed\n", "  auth: I begin\n"}
	b.run("do it")
	b.wantErr(always...)
	for _, text := range all {
		if strings.Contains(b.err.String(), text) {
			t.Errorf("without --verbose a child shows %q", text)
		}
	}
	b.run("--verbose", "do it")
	b.wantErr(append(always, all...)...)
}

// TestStatusOfAgents: how a running Ralph's agents stand, for people and scripts.
func TestStatusOfAgents(t *testing.T) {
	since, cost := time.Now().Add(-65*time.Minute), 0.5
	b := newBench(t)
	o := &other{live: coordinator.Live{State: "running", Mode: "autonomous", Since: since, Agents: []crew.Agent{
		{ID: "ralph", State: crew.Running, Since: since, Beat: since},
		{ID: "auth", Parent: "ralph", Depth: 1, Task: "add\nthe form", Label: "add the form", State: crew.Running, Since: since, Beat: since, Doing: "edit \x1b[2Jauth.go", Turns: 3, Usage: agent.Usage{Total: 9100}, CostUSD: &cost, Branch: "refs/heads/ralph/auth", Stalled: true},
		{ID: "fix", Parent: "auth", Depth: 2, Task: "x", State: crew.Done, Since: since, Ended: since.Add(12 * time.Second), Beat: since, Result: "Both kept.\nMore.", Branch: "ralph/fix", Landing: crew.Merged, Files: []string{"a.go"}, Transcript: "/x"},
		{ID: "docs", Parent: "ralph", Depth: 1, Task: "x", State: crew.Waiting, Since: since, Beat: since, After: []string{"auth"}},
	}}}
	b.other(o)
	b.run("status", "--json")
	if err := statusChecker().Validate(b.document()); err != nil {
		t.Errorf("%v\n%s", err, b.out.String())
	}
	agents, _ := b.document()["agents"].([]any)
	if fix, _ := agents[2].(map[string]any); len(agents) != 4 || fix["merge"] != "merged" || fix["parent"] != "auth" || fix["depth"] != 2.0 || fix["ended"] == nil {
		t.Errorf("%s", b.out.String())
	}
	b.run("status")
	wantText(t, b.out.String(), "agents     ralph running 1h05m\n", "  auth running (no sign of life for 1h05m) 1h05m 3 turns 9.1k tok $0.5000 add the form; edit ␛[2Jauth.go; ralph/auth\n",
		"    fix done 12s Both kept.; ralph/fix merged\n", "  docs waiting 1h05m after auth\n")
}

// TestAttachShowsChildren: whoever watches sees what the children do, by name.
func TestAttachShowsChildren(t *testing.T) {
	b := newBench(t)
	yes := true
	b.other(&other{do: func(ctx context.Context, _ control.Request, reply func(any) error) (any, error) {
		for i, e := range []agent.Event{
			{Type: agent.EventToolStart, Agent: "auth", Tool: "shell", CallID: "1", Args: []byte(`{"command":"ls"}`)},
			{Type: agent.EventToolEnd, Agent: "auth", Tool: "shell", CallID: "1", OK: &yes},
		} {
			e.Seq = int64(i + 1)
			if err := reply(e); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}})
	if code := b.run("attach"); code != 0 || !strings.Contains(b.out.String(), "  auth: shell ls: ok\n") {
		t.Errorf("exit %d: %s%s", code, b.out.String(), b.err.String())
	}
}

// TestTypeAheadIsNoAnswer: what was typed before the question was put does not
// answer it, neither a line nor the beginning of one.
func TestTypeAheadIsNoAnswer(t *testing.T) {
	ptmx, tty, err := pty.Open()
	if err != nil {
		t.Skip("no pseudo-terminal here: ", err)
	}
	defer tty.Close()
	defer ptmx.Close()
	var shown strings.Builder
	a := &asker{in: tty, out: &shown, suspend: func() func() { return func() {} }}
	q := permission.Question{Kind: "permission", Agent: "auth", Tool: "shell", Rule: "push always asks", Dir: "/p", Target: "git push\n\x1b[2J", Text: "?", Options: []string{"no", "yes"}}
	for _, typed := range []string{"yes\n", "yes\nyes\n", "y"} {
		if _, err := ptmx.WriteString(typed); err != nil {
			t.Fatal(err)
		}
		echo := ""
		for buf := make([]byte, 64); len(echo) < len(strings.ReplaceAll(typed, "\n", "\r\n")); {
			n, err := ptmx.Read(buf) // the terminal repeats what has reached it
			if err != nil {
				t.Fatal(err)
			}
			echo += string(buf[:n])
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		answer, err := a.ask(ctx, q)
		cancel()
		if err == nil || answer != "" {
			t.Errorf("%q, typed before, answered %q", typed, answer)
		}
	}
	want := "ralph: auth asks: may this command run?\n  why: push always asks\n  where: /p\n  + 2 lines\n  | git push\n  | ␛[2J\n  + end of 2 lines\n  1. no\n  2. yes (this once)\nanswer [no]: "
	if !strings.HasPrefix(shown.String(), want) {
		t.Errorf("the question is\n%s\nwant\n%s", shown.String(), want)
	}
}
