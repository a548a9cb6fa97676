package repl

import (
	"context"
	"strings"
	"testing"

	"ralph/coordinator/result"
	"ralph/workers/agent"
)

// hardText is an answer that is hard to show: deep lists, a quote in them, text from
// right to left, emoji of several parts, escapes, and a fence that never ends.
const hardText = "## Hard\n\n1. one\n   - two, which is longer than a row of this small window is wide, so it hangs\n     - three\n       > a quote \x1b[31mred\x1b]0;title\x07\n2. שלום world, مرحبا\n\n| 名 | 値 |\n|---|--:|\n| é👩‍👩‍👧 | 1 |\n| 日本語 | 22 |\n\n```go\nfunc f() {\n\treturn"

// What a model writes looks the same in pieces of one byte as at once, and the
// prompt below it takes input.
func TestHardStream(t *testing.T) {
	table := "| " + strings.Repeat("c | ", 5000)
	wide := table + "\n|" + strings.Repeat("-|", 5000) + "\n" + table + "\n"
	for _, x := range []struct {
		name, text string
		piece      int
	}{{"hard", hardText, 1}, {"wide", wide, 97}} {
		t.Run(x.name, func(t *testing.T) {
			shown := map[int]string{}
			for _, n := range []int{x.piece, len(x.text)} {
				c := open(t, func(_ context.Context, f *fake, _ string) result.Outcome {
					f.link.Eyes(agent.Event{Type: agent.EventTurnStart, Turn: 1})
					for rest := x.text; rest != ""; {
						k := min(n, len(rest))
						f.link.Eyes(agent.Event{Type: agent.EventMessageDelta, Turn: 1, Text: rest[:k]})
						rest = rest[k:]
					}
					f.link.Eyes(agent.Event{Type: agent.EventMessage, Turn: 1})
					return result.Outcome{}
				})
				c.idle()
				c.Type("go\rhalf a line")
				shown[n] = steady(c.Until("the prompt below the answer", func(s string) bool {
					return strings.Contains(steady(s), "· N ms\n") && strings.Contains(s, "ralph ❯ half a line▏")
				}))
				c.Type("\x03\x04")
				c.left(0)
			}
			if shown[x.piece] != shown[len(x.text)] {
				t.Errorf("in pieces of %d bytes\n%s\nat once\n%s", x.piece, shown[x.piece], shown[len(x.text)])
			}
			if x.name == "hard" {
				golden(t, "hard", shown[1])
			}
		})
	}
}

// A chat that comes back to work that was stopped says that a plain line is only
// talk, and how the work goes on; also where nobody presses keys.
func TestGreetingTellsOfTalk(t *testing.T) {
	for cols, want := range map[int]string{80: howToGoOn, 40: "only talk; /go goes on with it"} {
		c := openSized(t, cols, 24, echo, func(o *Options) {
			before := o.Open
			o.Open = func(ctx context.Context, l Link) (Mind, error) {
				m, err := before(ctx, l)
				m.Turns.(*fake).live.Mode = modeTalk
				return m, err
			}
		})
		head, _, _ := strings.Cut(c.Until("the prompt", func(s string) bool { return strings.Contains(s, "ralph talk ❯ ▏") }), "ralph talk ❯")
		if !strings.HasSuffix(strings.TrimRight(head, "\n"), "\n"+want) || strings.Contains(head, "/help") {
			t.Errorf("%d columns:\n%s", cols, head)
		}
		c.Type("\x04")
		c.left(0)
	}
}
