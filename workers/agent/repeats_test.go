package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"ralph/workers/agent"
)

// rounds makes replies of one round each: "a b" is a reply with the calls a and b,
// and the last step is an answer.
func rounds(list ...string) []step {
	var steps []step
	for i, round := range list {
		var all []agent.Call
		for j, name := range strings.Fields(round) {
			all = append(all, agent.Call{ID: fmt.Sprintf("%d.%d", i, j), Name: "t", Args: fmt.Sprintf(`{"x":%q}`, name)})
		}
		steps = append(steps, calls(all...))
	}
	return append(steps, text("done"))
}

// repeat returns the rounds n times.
func repeat(n int, round ...string) []string {
	var list []string
	for range n {
		list = append(list, round...)
	}
	return list
}

// TestRepeatGuard tells a model that goes in circles once, ends it when it goes on
// for two more cycles, and leaves everything alone whose results change.
func TestRepeatGuard(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps []string
		tool  func(name string, n int) agent.Result
		notes int
		ends  int // calls when it is ended; 0: it is not
	}{
		{name: "one call", steps: repeat(9, "a"), notes: 1, ends: 5},
		{name: "one call, four times", steps: repeat(4, "a"), notes: 1},
		{name: "one call, twice", steps: repeat(2, "a")},
		{name: "a cycle of two", steps: repeat(9, "a", "b"), notes: 1, ends: 10},
		{name: "a cycle of three", steps: repeat(9, "a", "b", "c"), notes: 1, ends: 15},
		{name: "a cycle of four", steps: repeat(9, "a", "b", "c", "d"), notes: 1, ends: 20},
		{name: "a cycle of five is none", steps: repeat(9, "a", "b", "c", "d", "e")},
		{name: "a round of two", steps: repeat(9, "a b"), notes: 1, ends: 10},
		{name: "a round of six", steps: repeat(9, "a b c d e f"), notes: 1, ends: 30},
		{name: "a cycle of two rounds of three", steps: repeat(9, "a b c", "d e f"), notes: 1, ends: 30},
		{name: "the same call within a round", steps: []string{"a a a", "b"}, notes: 1},
		{name: "another way after the note", steps: append(repeat(3, "a"), "b", "a", "c", "a", "d", "a"), notes: 1},
		{name: "back to it later", steps: append(append(repeat(3, "a"), "b"), repeat(9, "a")...), notes: 2, ends: 9},
		{name: "in the middle of the work", steps: append([]string{"x", "y", "z"}, repeat(9, "a", "b")...), notes: 1, ends: 13},
		{name: "results that change", steps: repeat(20, "a"), tool: func(_ string, n int) agent.Result { return agent.Result{Text: fmt.Sprint(n)} }},
		{name: "results that change in one of two", steps: repeat(20, "a", "b"), tool: func(name string, n int) agent.Result {
			if name == "a" {
				return agent.Result{Text: "same"}
			}
			return agent.Result{Text: fmt.Sprint(n)}
		}},
		{name: "how long it took is no change", steps: repeat(9, "a"), tool: func(_ string, n int) agent.Result {
			return agent.Result{Head: fmt.Sprintf("exit 0 after %d ms", n), Command: &agent.CommandRun{}}
		}, notes: 1, ends: 5},
		{name: "another exit code is a change", steps: repeat(20, "a"), tool: func(_ string, n int) agent.Result {
			return agent.Result{Command: &agent.CommandRun{ExitCode: n % 7}}
		}},
		{name: "a wait for what is alive", steps: repeat(20, "a"), tool: func(string, int) agent.Result { return agent.Result{Text: "running", Alive: true} }},
		{name: "a wait for what has ended", steps: repeat(30, "a"), tool: func(_ string, n int) agent.Result { return agent.Result{Text: "running", Alive: n < 10} }, notes: 1, ends: 14},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := 0
			m := &script{steps: rounds(c.steps...)}
			l := agent.Loop{Model: m, Tools: []agent.Tool{tool("t", 0, func(_ context.Context, args json.RawMessage) (agent.Result, error) {
				n++
				var a struct{ X string }
				if err := json.Unmarshal(args, &a); err != nil {
					return agent.Result{}, err
				}
				if c.tool != nil {
					return c.tool(a.X, n), nil
				}
				return agent.Result{Text: "result of " + a.X}, nil
			})}}
			end := l.Run(t.Context(), hello())
			valid(t, end.Transcript)
			notes := 0
			for _, m := range end.Transcript {
				if m.Role == agent.RoleUser && strings.HasPrefix(m.Text, "You repeat yourself") {
					notes++
				}
			}
			if notes != c.notes {
				t.Errorf("the model was told %d times, want %d", notes, c.notes)
			}
			if ended := errors.Is(end.Err, agent.ErrRepeats); ended != (c.ends > 0) || c.ends == 0 && end.Err != nil {
				t.Errorf("ended %v with %v after %d calls", ended, end.Err, n)
			}
			if c.ends > 0 && n != c.ends {
				t.Errorf("it was ended after %d calls, want %d", n, c.ends)
			}
		})
	}
}
