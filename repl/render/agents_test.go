package render

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ralph/coordinator/permission"

	"ralph/coordinator/crew"
	"ralph/repl/ttytest"
	"ralph/workers/agent"
)

// family is a tree with an agent in each state that is worth seeing.
func family() []crew.Agent {
	cost := 0.0123
	at := func(seconds int) time.Time { return noon().Add(-time.Duration(seconds) * time.Second) }
	return []crew.Agent{
		{ID: "ralph", State: crew.Running, Since: at(125), Turns: 12, Usage: agent.Usage{Total: 14_200}, CostUSD: &cost, Doing: "waits for its agents"},
		{ID: "implement_auth", Parent: "ralph", Depth: 1, Task: "x", Label: "add the login form", State: crew.Running, Since: at(65), Turns: 4, Usage: agent.Usage{Total: 9100}, Doing: "edit auth/login.go", Branch: "refs/heads/ralph/implement_auth"},
		{ID: "fix_conflict", Parent: "implement_auth", Depth: 2, Task: "x", Label: "resolve the conflict in main.go", State: crew.Done, Since: at(60), Ended: at(48), Turns: 1, Usage: agent.Usage{Total: 800}, Result: "Both sides are kept.\nThe tests pass.", Branch: "ralph/fix_conflict", Landing: crew.Merged, Commit: "0123456789abcdef"},
		{ID: "検索を速くする", Parent: "ralph", Depth: 1, Task: "x", Label: "検索のインデックスを作る", State: crew.Interrupted, Since: at(30), Ended: at(3), Turns: 2, Problem: "stopped by the user", Branch: "ralph/検索を速くする"},
		{ID: "write_docs", Parent: "ralph", Depth: 1, Task: "x", Label: "describe the login", State: crew.Waiting, Since: at(20), After: []string{"implement_auth"}},
		{ID: "hangs", Parent: "ralph", Depth: 1, Task: "x", Label: "bench \x1b[2J the parser", State: crew.Running, Stalled: true, Since: at(400), Beat: at(300), Doing: "shell go test ./..."},
		{ID: "style", Parent: "ralph", Depth: 1, Task: "x", Label: "format all files", State: crew.Done, Since: at(90), Ended: at(80), Result: "formatted", Branch: "ralph/style", Landing: crew.Held, Commit: "aaaaaaaaaaaa"},
	}
}

// The tree at three widths, also with wide characters, and what one agent is.
func TestAgents(t *testing.T) {
	var b strings.Builder
	for _, o := range []Options{{Width: 40}, {Width: 80}, {Width: 200}, {Width: 80, ASCII: true, Raw: true}} {
		fmt.Fprintf(&b, "%+v\n", o)
		out := New(o).Agents(family(), noon())
		for row := range strings.Lines(out) {
			if w := columns(strings.TrimSuffix(row, "\n")); !o.Raw && w >= o.Width {
				t.Errorf("width %d: %q has %d columns", o.Width, row, w)
			}
		}
		b.WriteString(out)
	}
	r := New(Options{Width: 80})
	for _, row := range r.AtWork(family(), false, noon()) {
		b.WriteString(row + "\n")
	}
	a := family()[2]
	a.Task, a.Files, a.Transcript = "Resolve it.\nKeep both sides.", []string{"main.go"}, "/p/.ralph/sessions/session-001-x/agents/fix_conflict/journal.jsonl"
	b.WriteString(r.Agent(a, noon()))
	ttytest.Golden(t, update, "agents.golden", b.String())
}

// The columns of the figures begin at the same place in each row.
func TestAgentsAreAligned(t *testing.T) {
	list := family()
	for i := range list {
		list[i].Label, list[i].Doing, list[i].Result, list[i].Problem, list[i].Branch, list[i].Landing, list[i].After = "", "", "", "", "", "", nil
	}
	for _, width := range []int{60, 80, 200} {
		at := -1
		for row := range strings.Lines(New(Options{Width: width}).Agents(list, noon())) {
			for _, state := range []string{"running", "done", "interrupted", "waiting", "stalled"} {
				head, _, ok := strings.Cut(row, state)
				if !ok {
					continue
				}
				if at >= 0 && columns(head) != at {
					t.Errorf("width %d: %q has its state in column %d, others in %d", width, row, columns(head), at)
				}
				at = columns(head)
			}
		}
		if at < 0 {
			t.Errorf("width %d: no state is shown", width)
		}
	}
}

// Whatever the parents say, each agent is shown once.
func TestAgentsOfACircle(t *testing.T) {
	list := []crew.Agent{{ID: "a", Parent: "b"}, {ID: "b", Parent: "a"}, {ID: "c", Parent: "c"}, {ID: "d", Parent: "nobody"}, {ID: "e", Parent: "a"}}
	out := New(Options{Width: 80}).Agents(list, noon())
	for _, a := range list {
		if n := strings.Count(out, " "+a.ID+"\n"); n != 1 {
			t.Errorf("%s is shown %d times:\n%s", a.ID, n, out)
		}
	}
}

// Colours are those of the theme, and none where there are none.
func TestAgentColours(t *testing.T) {
	if out := New(Options{Width: 80}).Agents(family(), noon()); strings.Contains(out, "\x1b") {
		t.Errorf("colours without a theme: %q", out)
	}
	out := New(Options{Width: 80, Theme: ThemeDark}).Agents(family(), noon())
	for _, want := range []string{"\x1b[36mrunning\x1b[0m", "\x1b[32mdone\x1b[0m", "\x1b[33mstalled\x1b[0m"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %q", want, out)
		}
	}
	if strings.Contains(out, "\x1b[2J") {
		t.Errorf("a control of a label got through: %q", out)
	}
}

func TestAtWorkIsBounded(t *testing.T) {
	var list []crew.Agent
	for i := range shownAtWork + 5 {
		list = append(list, crew.Agent{ID: fmt.Sprint("a", i), State: crew.Running, Since: noon(), Doing: strings.Repeat("long ", 50)})
	}
	list = append(list, crew.Agent{ID: "w", State: crew.Queued}, crew.Agent{ID: "d", State: crew.Done})
	for _, width := range []int{20, 40, 80} {
		rows := New(Options{Width: width}).AtWork(list, false, noon())
		if len(rows) != shownAtWork+1 || !strings.HasPrefix(rows[shownAtWork], "  and 5 more, 1 ") {
			t.Errorf("%q", rows)
		}
		for _, row := range rows {
			if columns(row) >= width {
				t.Errorf("width %d: %q is too wide", width, row)
			}
		}
	}
}

// What children say and call is not printed; how they begin and end, what becomes
// of their work, what is refused and what is warned of is.
func TestEventsOfChildren(t *testing.T) {
	yes, no := true, false
	r := New(Options{Width: 100})
	for _, c := range []struct {
		e    agent.Event
		want string
	}{
		{agent.Event{Type: agent.EventChildStart, Text: "add the form", Reason: "ralph", Ref: "refs/heads/ralph/auth"}, "· auth begins: add the form\n"},
		{agent.Event{Type: agent.EventTurnStart, Turn: 1}, ""},
		{agent.Event{Type: agent.EventMessageDelta, Text: "hello\n\nworld\n\n"}, ""},
		{agent.Event{Type: agent.EventMessage, Text: "hello"}, ""},
		{agent.Event{Type: agent.EventToolStart, Tool: "shell", CallID: "1"}, ""},
		{agent.Event{Type: agent.EventToolEnd, Tool: "shell", CallID: "1", OK: &no}, ""},
		{agent.Event{Type: agent.EventRetry, Attempt: 1}, ""},
		{agent.Event{Type: agent.EventInbox, Ref: "m-3", Class: "steer", From: "chat", Status: "queued", Text: "use tabs"}, "· m-3 for auth queued: use tabs\n"},
		{agent.Event{Type: agent.EventPermission, Status: "asked", Tool: "shell", Text: "ls"}, ""},
		{agent.Event{Type: agent.EventPermission, Status: "denied", CallID: "1", Tool: "shell", Text: "git push", Rule: "push always asks"}, "⊘ auth: denied shell git push  push always asks\n"},
		{agent.Event{Type: agent.EventWarning, Text: "the disk is full\x1b[2J"}, "! auth: the disk is full␛[2J\n"},
		{agent.Event{Type: agent.EventChildEnd, Status: "done", OK: &yes, Text: "The form works.", Ref: "ralph/auth"}, "✓ auth done: The form works.\n"},
		{agent.Event{Type: agent.EventChildEnd, Status: "failed", OK: &no, Text: "no idea", Reason: "no idea"}, "✗ auth failed: no idea\n"},
		{agent.Event{Type: agent.EventChildEnd, Status: "interrupted", OK: &no, Text: "half", Reason: "stopped"}, "! auth interrupted: stopped\n"},
		{agent.Event{Type: agent.EventChildEnd, Status: "interrupted", OK: &no, Text: "half", Reason: "interrupted by SIGINT"}, "! auth interrupted: you pressed Ctrl-C\n"},
		{agent.Event{Type: agent.EventChildEnd, Status: "merged", Ref: "0123456789abcdef"}, "✓ auth merged 01234567\n"},
		{agent.Event{Type: agent.EventChildEnd, Status: "held", Text: "you changed main.go"}, "! auth held: you changed main.go\n"},
		{agent.Event{Type: agent.EventChildEnd, Status: "conflict", Text: "a.go, b.go"}, "! auth conflict: a.go, b.go\n"},
	} {
		c.e.Agent = "auth"
		if got := strings.TrimPrefix(r.Event(c.e), "\n"); got != c.want {
			t.Errorf("%s %s is %q, want %q", c.e.Type, c.e.Status, got, c.want)
		}
	}
}

// A child's end in the middle of the coordinator's text does not tear it.
func TestAChildEndsWhileTextStreams(t *testing.T) {
	r := New(Options{Width: 80})
	out := r.Event(agent.Event{Type: agent.EventTurnStart, Agent: "ralph", Turn: 1})
	out += r.Event(agent.Event{Type: agent.EventMessageDelta, Agent: "ralph", Text: "half a "})
	out += r.Event(agent.Event{Type: agent.EventTurnStart, Agent: "c", Turn: 7})
	out += r.Event(agent.Event{Type: agent.EventChildEnd, Agent: "c", Status: "done", Ref: "ralph/c"})
	out += r.Event(agent.Event{Type: agent.EventMessageDelta, Agent: "c", Text: "not mine "})
	out += r.Event(agent.Event{Type: agent.EventMessageDelta, Agent: "ralph", Text: "sentence"})
	out += r.Event(agent.Event{Type: agent.EventMessage, Agent: "ralph", Text: "half a sentence"})
	if want := "· c done\n\nhalf a sentence\n"; out != want {
		t.Errorf("%q, want %q", out, want)
	}
}

// The dialog at three widths: who asks, why, where, the whole command and what
// each answer means.
func TestQuestionOfAChild(t *testing.T) {
	q := permission.Question{Kind: "permission", Agent: "fix_login", Tool: "shell", Rule: "push always asks", Dir: "/home/me/p/.ralph/worktrees/fix_login/web",
		Target: "git push \\\n  https://example.com/" + strings.Repeat("very-", 12) + "long \x1b]0;x\x07\t\u202emain", Outside: true, Options: []string{"no", "yes", "always"}}
	var b strings.Builder
	for _, width := range []int{40, 80, 200} {
		r := New(Options{Width: width})
		out := r.Question(q)
		for row := range strings.Lines(out) {
			if w := columns(strings.TrimSuffix(row, "\n")); w >= width {
				t.Errorf("width %d: %q has %d columns", width, row, w)
			}
		}
		b.WriteString(out)
	}
	q.Outside, q.Dir, q.Agent, q.Tool, q.Target, q.Rule, q.Options = false, "", "ralph", "write", "/etc/hosts", "outside the project always asks", []string{"no", "yes"}
	b.WriteString(New(Options{Width: 80, ASCII: true}).Question(q))
	ttytest.Golden(t, update, "dialog.golden", b.String())
}

func noon() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }
