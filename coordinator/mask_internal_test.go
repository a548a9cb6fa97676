package coordinator

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"ralph/coordinator/result"
	"ralph/memory/text"
	"ralph/workers/agent"
)

// However a stream is cut into pieces, no event shows a secret, in whole or
// across its pieces, and nothing else is lost.
func TestEventsShowNoSecret(t *testing.T) {
	const key, token = "PLANTED-KEY-4711", "sk-abcdefghijklmnopqrstuvwx0123"
	content := "the key " + key + " and " + token + ", PLANTED- is no key; über\n" + key
	want := strings.NewReplacer(key, text.Redacted, token, text.Redacted).Replace(content)
	for size := 1; size < len(content); size++ {
		var shown []agent.Event
		m := &emitter{now: time.Now, eyes: func(e agent.Event) { shown = append(shown, e) }, mask: mask{redactor: text.NewRedactor([]string{key})}}
		for at := 0; at < len(content); at += size {
			m.emit(agent.Event{Type: agent.EventMessageDelta, Text: content[at:min(at+size, len(content))]})
		}
		m.emit(agent.Event{Type: agent.EventReasoning, Text: "because " + key})
		m.emit(agent.Event{Type: agent.EventToolEnd, Text: key, Output: "x " + key, Reason: key, Rule: token, Args: json.RawMessage(`{"a":"` + key + `"}`)})
		said := ""
		for i, e := range shown {
			if e.Seq != int64(i+1) {
				t.Fatalf("size %d: event %d has number %d", size, i+1, e.Seq)
			}
			if e.Type == agent.EventMessageDelta {
				said += e.Text
			}
			if all, err := json.Marshal(e); err != nil || strings.Contains(string(all), key) || strings.Contains(string(all), token) {
				t.Errorf("size %d: %s %v", size, all, err)
			}
		}
		if said != want {
			t.Errorf("size %d: said %q", size, said)
		}
		if last := shown[len(shown)-1]; last.Type != agent.EventToolEnd || !json.Valid(last.Args) {
			t.Errorf("last %+v", last)
		}
	}
}

// What is no beginning of a secret does not wait for the next piece.
func TestPlainTextIsNotHeldBack(t *testing.T) {
	m := mask{redactor: text.NewRedactor([]string{"QQQQ-KEY-4711"})}
	for _, content := range []string{"It beg", "日本", "a/b.go:3", "1234567890abcdef", "x="} {
		out := m.apply(agent.Event{Type: agent.EventMessageDelta, Text: content})
		if len(out) != 1 || out[0].Text != content {
			t.Errorf("%q: %+v", content, out)
		}
	}
}

func TestOutcomesShowNoSecret(t *testing.T) {
	const key = "PLANTED-KEY-4711"
	c := &Coordinator{redactor: text.NewRedactor([]string{key})}
	o := result.Outcome{Reason: key, Answer: key, Structured: json.RawMessage(`{"k":"` + key + `"}`), Commands: []agent.CommandRun{{Command: key}},
		Denials: []result.Denial{{Args: json.RawMessage(`"` + key + `"`), Rule: key}}, Check: &result.Check{Command: key}, Failure: &result.Failure{Message: key, Hint: key}}
	shown, err := json.Marshal(c.masked(o))
	if err != nil || strings.Contains(string(shown), key) {
		t.Errorf("%s %v", shown, err)
	}
	if o.Commands[0].Command != key || o.Check.Command != key || o.Failure.Message != key {
		t.Error("the original changed")
	}
}
