package scripts

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ralph/coordinator"
	"ralph/coordinator/crew"
	"ralph/coordinator/loop"
	"ralph/coordinator/result"
	"ralph/interrupts/control"
	"ralph/memory/feature"
)

func TestSendToAnAgent(t *testing.T) {
	b := newBench(t)
	if err := os.WriteFile(filepath.Join(b.dir, "Makefile"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args     []string
		to, text string
		code     int
	}{
		{[]string{"send", "@one: use tabs"}, "one", "use tabs", 0},
		{[]string{"send", "--urgent", "@one:", "use", "tabs"}, "one", "use tabs", 0},
		{[]string{"send", "@two: use tabs"}, "two", "use tabs", 0}, // the other Ralph says who there is
		{[]string{"send", "--to", "three", "@one: use tabs"}, "three", "@one: use tabs", 0},
		{[]string{"send", "--ask", "@one: how far?"}, "", "@one: how far?", 0},
		{[]string{"send", "@Makefile: look at it"}, "", "@Makefile: look at it", 0},
		{[]string{"send", "@ralph: stop that"}, "", "@ralph: stop that", 0},
		{[]string{"send", "@one:"}, "", "", 2},
	} {
		o := &other{live: coordinator.Live{Agents: []crew.Agent{{ID: "ralph"}, {ID: "one"}}}, do: func(context.Context, control.Request, func(any) error) (any, error) {
			return receipt{ID: "m-1", State: "answered", Answer: "so", Saved: true}, nil
		}}
		end := b.other(o)
		if code := b.run(c.args...); code != c.code {
			t.Errorf("%q: exit %d: %s", c.args, code, b.err.String())
		}
		got := o.requests("send")
		if c.code == 0 && (len(got) != 1 || got[0].To != c.to || got[0].Text != c.text) {
			t.Errorf("%q: %+v", c.args, got)
		}
		end()
	}
}

func TestHandedTaskSaysWhatItWaitsFor(t *testing.T) {
	done := handedResult{Outcome: &result.Outcome{Status: result.Completed, Answer: "so"}}
	for state, waits := range map[string]bool{"idle": false, "running": true} {
		b := newBench(t)
		b.other(&other{live: coordinator.Live{State: state, Task: "work through the plan", Loop: &loop.View{Status: feature.Running, Counts: loop.Counts{Done: 2, Total: 9}}},
			do: func(context.Context, control.Request, func(any) error) (any, error) { return done, nil }})
		if code := b.run("say hello"); code != 0 || b.out.String() != "so\n" {
			t.Fatalf("exit %d: %s", code, b.err.String())
		}
		const want = ") to end its work: work through the plan (2 of 9 tasks done); ralph send --ask"
		if strings.Contains(b.err.String(), want) != waits {
			t.Errorf("%s: %s", state, b.err.String())
		}
	}
}

func TestUntold(t *testing.T) {
	for _, c := range [][3]string{
		{"1 of 2 done\ndone: A", "1 of 2 done\n  B: no", "done: A"}, {"1 of 2 done", "1 of 2 done", ""},
		{"an answer\nmore", "the check failed", "an answer\nmore"}, {"", "x", ""},
	} {
		if got := untold(c[0], c[1]); got != c[2] {
			t.Errorf("%q after %q: %q", c[0], c[1], got)
		}
	}
}

func TestIDsAreNotBroken(t *testing.T) {
	var b strings.Builder
	wrapped(&b, "priority 2; unblocks T-2, T-11 and "+strings.Repeat("x", 30)+" ", 2, 24)
	want := "  priority 2; unblocks\n  T-2, T-11 and\n  " + strings.Repeat("x", 22) + "\n  " + strings.Repeat("x", 8) + "\n"
	if b.String() != want {
		t.Errorf("%q", b.String())
	}
}
