package repl

import (
	"context"
	"errors"
	"sync"
	"time"

	"ralph/coordinator"
	"ralph/interrupts"
	"ralph/memory/markdown"
	"ralph/memory/project"
	"ralph/memory/session"
	"ralph/workers/agent"
	"ralph/workers/git"
	"ralph/workers/model"
)

// fake is a coordinator whose turns are scripted.
type fake struct {
	link Link
	// turn does the work of a turn; it may use the link.
	turn func(ctx context.Context, f *fake, task string) coordinator.Outcome

	mu     sync.Mutex // guards the fields below
	tasks  []string
	model  string
	undone []int
	stops  int
	closed bool
	totals coordinator.Totals
}

func (f *fake) Run(ctx context.Context, j coordinator.Job) coordinator.Outcome {
	f.mu.Lock()
	f.tasks = append(f.tasks, j.Task)
	f.totals.Turns++
	f.mu.Unlock()
	out := f.turn(ctx, f, j.Task)
	if stop, ok := interrupts.AsStop(context.Cause(ctx)); ok {
		out.Status, out.Signal = coordinator.StatusInterrupted, int(stop.Signal)
	}
	if out.Status == "" {
		out.Status = coordinator.StatusCompleted
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.totals.Usage = f.totals.Usage.Add(out.Usage)
	f.totals.FilesChanged = append(f.totals.FilesChanged, out.FilesChanged...)
	return out
}

func (f *fake) Stop(*interrupts.Stop) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stops++
}

func (f *fake) stopped() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stops
}

func (f *fake) Clear() error { return nil }

func (f *fake) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errors.New("closed twice")
	}
	f.closed = true
	return nil
}

func (f *fake) Endpoint() model.Endpoint {
	f.mu.Lock()
	defer f.mu.Unlock()
	return model.Endpoint{Model: f.model, BaseURL: "http://127.0.0.1:1/v1"}
}

func (f *fake) Models(context.Context) ([]string, error) {
	return []string{"gpt-large", "gpt-small", "llama-tiny"}, nil
}

func (f *fake) SetModel(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.model = name
}

func (f *fake) Totals() coordinator.Totals {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.totals
}

func (f *fake) Undo(_ context.Context, n int) ([]git.FileChange, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.undone = append(f.undone, n)
	if n > 1 {
		return nil, &git.EditedError{Paths: []string{"edited.go"}}
	}
	return []git.FileChange{{Path: "main.go", Kind: git.Modified, Added: 1, Removed: 2}}, nil
}

func (f *fake) Diff(context.Context) (string, error) {
	return "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n", nil
}

func (f *fake) Project() project.Project { return project.Project{} }

func (f *fake) SessionID() string { return "session-001-test" }

func (f *fake) said() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.tasks...)
}

// say streams an answer as a coordinator does.
func (f *fake) say(turn int, text string) {
	f.link.Eyes(agent.Event{Type: agent.EventTurnStart, Turn: turn})
	for _, r := range text {
		f.link.Eyes(agent.Event{Type: agent.EventMessageDelta, Turn: turn, Text: string(r)})
	}
	f.link.Eyes(agent.Event{Type: agent.EventMessage, Turn: turn, Text: text})
}

// echo answers with the task.
func echo(_ context.Context, f *fake, task string) coordinator.Outcome {
	f.say(1, "You said **"+task+"**.")
	return coordinator.Outcome{Usage: agent.Usage{Total: 1200}}
}

// hang works until it is stopped.
func hang(ctx context.Context, f *fake, _ string) coordinator.Outcome {
	f.link.Eyes(agent.Event{Type: agent.EventTurnStart, Turn: 1})
	f.link.Eyes(agent.Event{Type: agent.EventMessageDelta, Turn: 1, Text: "thinking about it"})
	<-ctx.Done()
	return coordinator.Outcome{}
}

func (f *fake) Notes(which string) ([]markdown.Task, error) {
	if which == "goals" {
		return nil, nil
	}
	return []markdown.Task{
		{ID: "T-1", Explicit: true, Title: "done already", Status: markdown.Done, Result: "it works"},
		{ID: "T-2", Explicit: true, Title: "Retry the upload", Status: markdown.InProgress, After: []string{"T-1"}},
		{ID: "~later", Title: "später 日本語", Status: markdown.Pending},
	}, nil
}

func (f *fake) Context() []coordinator.ContextBlock {
	return []coordinator.ContextBlock{
		{Name: "system prompt", Source: "built in", Tokens: 900, Why: "pinned: the rules"},
		{Name: "recent turns", Source: "journal.jsonl", Tokens: 12_000, Why: "recent", Messages: 7},
		{Name: "older turns", Source: "journal.jsonl", Tokens: 30_000, Why: "no room", Messages: 90, LeftOut: true},
	}
}

func (f *fake) Compact(context.Context) (coordinator.CompactReport, error) {
	return coordinator.CompactReport{MessagesBefore: 90, MessagesAfter: 12, TokensBefore: 42_000, TokensAfter: 9_000}, nil
}

func (f *fake) Trace(_ context.Context, file string) ([]coordinator.TraceStep, error) {
	if file != "a.go" {
		return nil, nil
	}
	return []coordinator.TraceStep{{Time: time.Date(2026, 11, 21, 10, 2, 0, 0, time.Local), Session: "003", Turn: 2, Said: "fix the retry\nplease",
		Kind: "modified", Added: 3, Removed: 1, Commit: "0123456789abcdef"}}, nil
}

func (f *fake) Sessions() ([]session.Info, error) {
	m := session.Metadata{SessionName: "fix login", Status: session.InProgress, StartTime: time.Date(2026, 11, 21, 10, 2, 0, 0, time.Local)}
	m.Performance.TotalDurationSeconds = 90
	return []session.Info{{ID: "004", Meta: m}}, nil
}
