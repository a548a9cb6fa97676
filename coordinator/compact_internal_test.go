package coordinator

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"ralph/memory/history"
	"ralph/workers/agent"
)

func bytesOf(transcript []agent.Message) (n int) {
	for _, m := range transcript {
		n += messageBytes(m)
	}
	return n
}

// Whatever was refused becomes smaller, or nothing is left to leave out; calls
// keep their answers, and what is pinned stays as it is.
func TestCompact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const task = "the task of this run"
		transcript := []agent.Message{{Role: agent.RoleSystem, Text: strings.Repeat("s", rapid.IntRange(0, 3000).Draw(t, "system"))}}
		size := rapid.IntRange(0, 20_000)
		n := rapid.IntRange(0, 12).Draw(t, "rounds")
		at := rapid.IntRange(0, n).Draw(t, "at")
		for i := range n + 1 {
			if i == at {
				transcript = append(transcript, agent.Message{Role: agent.RoleUser, Text: task})
				continue
			}
			if rapid.Bool().Draw(t, "user") {
				transcript = append(transcript, agent.Message{Role: agent.RoleUser, Text: strings.Repeat("u", size.Draw(t, "bytes"))})
			}
			m := agent.Message{Role: agent.RoleAssistant, Text: "so"}
			for k := range rapid.IntRange(0, 3).Draw(t, "calls") {
				m.Calls = append(m.Calls, agent.Call{ID: fmt.Sprint(i, "-", k), Name: "read", Args: "{}"})
			}
			transcript = append(transcript, m)
			for _, c := range m.Calls {
				transcript = append(transcript, agent.Message{Role: agent.RoleTool, CallID: c.ID, Text: strings.Repeat("r", size.Draw(t, "bytes"))})
			}
		}
		w := window{estimate: &history.Estimate{}, maxTokens: rapid.IntRange(1000, 200_000).Draw(t, "window"), task: task}
		before := append([]agent.Message(nil), transcript...)
		last := transcript
		for range 4 {
			out, err := w.compact(t.Context(), last)
			if !reflect.DeepEqual(before, transcript) {
				t.Fatal("the transcript that came in was changed")
			}
			if errors.Is(err, agent.ErrNoCompaction) {
				return
			}
			if err != nil || bytesOf(out) >= bytesOf(last) {
				t.Fatalf("%d bytes became %d, error %v", bytesOf(last), bytesOf(out), err)
			}
			if got := agent.Repair(out, "lost"); !reflect.DeepEqual(got, out) {
				t.Fatalf("a call was parted from its answer: %+v", out)
			}
			if !reflect.DeepEqual(out[0], transcript[0]) || !reflect.DeepEqual(out[len(out)-1], transcript[len(transcript)-1]) {
				t.Fatal("the system prompt or the last message is gone")
			}
			kept := false
			for _, m := range out {
				kept = kept || m.Role == agent.RoleUser && m.Text == task
			}
			if !kept {
				t.Fatal("the task is gone")
			}
			last = out
		}
	})
}

func TestNothingIsElidedTwice(t *testing.T) {
	transcript := []agent.Message{{Role: agent.RoleSystem}, {Role: agent.RoleUser, Text: "go"}}
	for i := range 12 {
		id := fmt.Sprint(i)
		transcript = append(transcript, agent.Message{Role: agent.RoleAssistant, Calls: []agent.Call{{ID: id, Name: "read", Args: "{}"}}},
			agent.Message{Role: agent.RoleTool, CallID: id, Text: strings.Repeat("r", 1_234_567)})
	}
	w := window{estimate: &history.Estimate{}, maxTokens: 1 << 30, task: "go"}
	for range 3 {
		out, err := w.compact(t.Context(), transcript)
		if err != nil {
			return
		}
		for _, m := range out {
			if strings.HasPrefix(m.Text, "(left out") && !strings.Contains(m.Text, "about 1206 KB") {
				t.Fatalf("what was left out is forgotten: %q", m.Text)
			}
		}
		transcript = out
	}
}

func TestHeadAndTail(t *testing.T) {
	for _, c := range []struct{ in, head, tail string }{
		{"short\n", "short\n", "short\n"},
		{"first line\nsecond line\n", "first line\n", "second line\n"},
		{strings.Repeat("x", 40), strings.Repeat("x", 15), strings.Repeat("x", 15)},
		{strings.Repeat("é", 20), strings.Repeat("é", 7), strings.Repeat("é", 7)},
	} {
		h, tl := head(c.in, 15), tail(c.in, 15)
		if h != c.head || tl != c.tail || !utf8.ValidString(h+tl) {
			t.Errorf("%q: head %q, tail %q", c.in, h, tl)
		}
	}
}
