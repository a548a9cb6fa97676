package tools

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ralph/workers/agent"
)

func TestNotes(t *testing.T) {
	b := newBench(t)
	book := b.env.Notebook.(*fakeNotebook)
	two := 2
	for _, c := range []struct {
		tool string
		args []any
		want any
	}{
		{"task", []any{"title", "x", "priority", "2", "after", "T-1"}, TaskUpdate{Title: "x", Priority: &two, After: []string{"T-1"}}},
		{"task", []any{"id", "T-1", "status", "In Progress"}, TaskUpdate{ID: "T-1", Status: "in_progress"}},
		{"todo", []any{"action", "add", "text", " x "}, TodoUpdate{Action: "add", Text: "x"}},
		{"goal", []any{"action", "set", "text", "x", "acceptance", "y"}, GoalUpdate{Action: "set", Text: "x", Acceptance: []string{"y"}}},
		{"note", []any{"text", "x"}, Learning{Type: "note", What: "x"}},
		{"learn", []any{"type", "bug\n## x", "what", "w", "learning", "l"}, Learning{Type: "bug ## x", What: "w", Learning: "l"}},
		{"decide", []any{"what", "w", "why", "y", "alternatives", "a"}, Choice{What: "w", Why: "y", Alternatives: []string{"a"}}},
		{"record_feature", []any{"name", "n", "category", "c", "purpose", "p", "document", b.root + "/docs/n.md"},
			Feature{Name: "n", Category: "c", Purpose: "p", Document: "docs/n.md"}},
	} {
		r := b.run(c.tool, c.args...)
		if d := cmp.Diff(c.want, book.told[len(book.told)-1]); d != "" {
			t.Errorf("%s: %s", c.tool, d)
		}
		if !strings.HasPrefix(r.Text, "stored ") || r.Failed {
			t.Errorf("%s: %+v", c.tool, r)
		}
	}
	told := len(book.told)
	for _, c := range [][]any{
		{"task", "status", "done"}, {"task", "id", "T-1", "status", "finished"}, {"todo", "action", "add", "text", " "}, {"todo", "text", "x"},
		{"goal", "action", "set", "text", ""}, {"note", "what", ""}, {"learn", "type", " ", "what", "w", "learning", "l"},
		{"decide", "what", "w", "why", " "}, {"record_feature", "name", "n", "category", "c", "purpose", "p", "document", "../x"}, {"record_feature", "name", " ", "category", "c", "purpose", "p"},
	} {
		if r, err := b.try(c[0].(string), c[1:]...); err == nil {
			t.Errorf("%v: %+v", c, r)
		}
	}
	if len(book.told) != told {
		t.Errorf("the notebook was told %v", book.told[told:])
	}
	book.err = errors.New("disk full")
	if _, err := b.try("todo", "action", "add", "text", "x"); !errors.Is(err, book.err) {
		t.Errorf("%v", err)
	}
}

func TestAskUser(t *testing.T) {
	b := newBench(t)
	if _, err := b.try("ask_user", "question", "which?"); !errors.Is(err, ErrNobody) {
		t.Errorf("%v", err)
	}
	b = newBench(t, func(e *Env) {
		e.Ask = func(_ context.Context, q Question) (string, error) { return q.Text + strings.Join(q.Options, "|"), nil }
	})
	if r := b.run("ask_user", "question", "which?", "options", []string{"a", "b"}); r.Text != "which?a|b" || r.Head == "" {
		t.Errorf("%+v", r)
	}
	if _, err := b.try("ask_user", "question", " "); err == nil {
		t.Error("no error")
	}
}

func TestFinish(t *testing.T) {
	b := newBench(t)
	r := b.run("finish", "status", "Done", "summary", "all", "confidence", "0.9")
	want := &agent.Finish{Status: agent.FinishDone, Summary: "all", Confidence: 0.9}
	if d := cmp.Diff(want, r.Finish); d != "" || r.Failed {
		t.Errorf("%s %+v", d, r)
	}
	if r := b.run("finish", "status", "done", "summary", "all"); r.Failed || r.Finish.Confidence != 0.5 {
		t.Errorf("without a confidence: %+v", r)
	}
	for _, bad := range [][]any{
		{"status", "ok", "summary", "s", "confidence", 1}, {"status", "done", "summary", " ", "confidence", 1},
		{"status", "done"}, {"status", "done", "summary", "s", "confidence", 80}, {"status", "done", "summary", "s", "confidence", -0.1},
	} {
		if r, err := b.try("finish", bad...); err == nil || r.Finish != nil {
			t.Errorf("%v: %+v", bad, r)
		}
	}
}
