package repl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/crew"
	"ralph/coordinator/loop"
	"ralph/coordinator/plan"
	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/memory/feature"
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
	turn func(ctx context.Context, f *fake, task string) result.Outcome

	queue *interrupts.Queue
	// A stop waits for nothing.
	stops, kills atomic.Int32
	// talk is the turn of conversation mode; nil means turn.
	talk func(ctx context.Context, f *fake, task string) result.Outcome
	deaf bool // it never delivers what waits
	// liveHangs, when set, keeps Live from answering.
	liveHangs chan struct{}
	closing   func(*fake) // called by Close, when set

	mu     sync.Mutex // guards the fields below
	tasks  []string
	jobs   []coordinator.Job
	live   coordinator.Live
	heard  []string // messages that were delivered
	full   bool     // the disk takes nothing
	agents []string // stopped one by one
	crew   []crew.Agent
	root   string
	merged []string
	pruned []string
	model  string
	run    *loop.View // of the plan that is worked, or was
	plan   *plan.Plan
	taken  []loop.Settings // that Plan was asked with
	swaps  []loop.Settings // that Replan was called with
	undone []int
	how    []string // what Ends was told
	closed bool
	totals coordinator.Totals

	session string   // its id; "" is session-001-test
	facts   []string // of the greeting
}

// attach gives the fake its link and its queue; waiting is what an earlier process left.
func (f *fake) attach(l Link, waiting ...interrupts.Message) Mind {
	f.link = l
	f.queue = interrupts.NewQueue(interrupts.Options{Home: "chat", Waiting: waiting, Keep: func([]interrupts.Message) error { return f.diskErr() }, Notify: f.notify})
	f.live.Mode, f.live.State = "autonomous", "idle"
	return Mind{Turns: f, Queue: f, Control: f, Models: f, Changes: f, About: f, State: f, Crew: f, Trees: f, Plans: f}
}

func (f *fake) diskErr() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full {
		return errors.New("disk full")
	}
	return nil
}

func (f *fake) notify(m interrupts.Message) {
	status := string(m.State)
	switch {
	case m.Class == interrupts.ClassStop, m.State == interrupts.Answered:
		return
	case m.State == interrupts.Queued && !m.Kept:
		status = "held"
	case m.State == interrupts.Queued && m.Edited:
		status = "edited"
	}
	f.link.Eyes(agent.Event{Type: agent.EventInbox, Ref: m.ID(), Class: m.Class.String(), From: m.From, Status: status, Text: m.Text})
}

func (f *fake) Run(ctx context.Context, j coordinator.Job) result.Outcome {
	guard := f.queue.Guard(ctx, "")
	defer guard.Release()
	ctx = guard.Context()
	f.mu.Lock()
	f.tasks = append(f.tasks, j.Task)
	f.jobs = append(f.jobs, j)
	f.totals.Turns++
	talk := f.live.Mode == "conversation" && !j.Go
	if j.Go {
		f.live.Mode = "autonomous"
	}
	f.live.State = "running"
	if f.run != nil && j.Loop != nil {
		f.run.Status = feature.Running
	}
	f.mu.Unlock()
	if j.Go {
		f.link.Eyes(agent.Event{Type: agent.EventInterrupt, Status: "go"})
	}
	if j.Task == "" && !j.Go && !f.deaf {
		j.Task = strings.Join(f.inbox(true), ", ")
	}
	turn := f.turn
	if talk && f.talk != nil {
		turn = f.talk
	}
	out := turn(ctx, f, j.Task)
	stop, ok := interrupts.AsStop(context.Cause(ctx))
	if ok {
		out.Status, out.Signal, out.Rest = result.Interrupted, int(stop.Signal), "2 commands ended, nothing is left running"
		f.mu.Lock()
		if f.run != nil && j.Loop != nil {
			f.run.Status = feature.Interrupted
		}
		f.live.Mode = "conversation"
		f.mu.Unlock()
		f.link.Eyes(agent.Event{Type: agent.EventInterrupt, Status: "stopped", Text: out.Rest})
		f.link.Eyes(agent.Event{Type: agent.EventInterrupt, Status: "conversation"})
	}
	if out.Status == "" {
		out.Status = result.Completed
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.live.State = "idle"
	f.totals.Usage = f.totals.Usage.Add(out.Usage)
	f.totals.FilesChanged = append(f.totals.FilesChanged, out.FilesChanged...)
	return out
}

// inbox delivers what waits, as a boundary does; all of it at the end of the work.
func (f *fake) inbox(all bool) []string {
	var texts []string
	for _, m := range f.queue.Take(func(m interrupts.Message) bool {
		return m.Class == interrupts.ClassUrgent || m.Class == interrupts.ClassSteer || all && m.Class == interrupts.ClassLater
	}) {
		if f.queue.Settle(m.ID(), interrupts.Delivered) == nil {
			texts = append(texts, m.Text)
		}
	}
	_ = f.queue.Flush(context.Background()) // what is told of it comes before what is done about it
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heard = append(f.heard, texts...)
	return texts
}

func (f *fake) Stop(cause *interrupts.Stop) {
	f.Say(interrupts.Message{Class: interrupts.ClassStop, From: "chat", Signal: cause.Signal, Text: cause.Text})
}

func (f *fake) Say(m interrupts.Message) interrupts.Message {
	m = f.queue.Push(m)
	switch m.Class {
	case interrupts.ClassStop:
		f.stops.Add(1)
		_ = f.queue.Settle(m.ID(), interrupts.Delivered)
	case interrupts.ClassAsk:
		go f.answer(m)
	}
	return m
}

// answer answers a side question; one about silence has no answer.
func (f *fake) answer(m interrupts.Message) {
	_ = f.queue.Flush(context.Background()) // a model takes longer than a disk
	if m.Text == "silence" || len(f.queue.Take(func(x interrupts.Message) bool { return x.N == m.N })) == 0 {
		return
	}
	f.link.Eyes(agent.Event{Type: agent.EventInbox, Ref: m.ID(), Class: "ask", From: m.From, Status: "answered", Text: m.Text,
		Output: "I am in the **middle** of it.\n\n- one is done\n- two is not"})
	_ = f.queue.Settle(m.ID(), interrupts.Answered)
}

func (f *fake) Waiting() []interrupts.Message { return f.queue.Waiting() }

func (f *fake) Amend(id string, a interrupts.Amendment) (interrupts.Message, error) {
	return f.queue.Amend(id, a)
}

func (f *fake) Kill() {
	f.kills.Add(1)
}

func (f *fake) Pause() {
	f.mu.Lock()
	f.live.State = "paused"
	if f.run != nil {
		f.run.Status = feature.Paused
	}
	f.mu.Unlock()
	f.link.Eyes(agent.Event{Type: agent.EventInterrupt, Status: "paused", Text: "paused"})
}

func (f *fake) Proceed() error {
	f.mu.Lock()
	f.live.State = "running"
	if f.run != nil {
		f.run.Status = feature.Running
	}
	f.mu.Unlock()
	f.link.Eyes(agent.Event{Type: agent.EventInterrupt, Status: "resumed", Text: "the work goes on"})
	return nil
}

func (f *fake) StopAgent(id string, _ *interrupts.Stop) error {
	if id != "bg-1" {
		return fmt.Errorf("stop %q: there is no such agent; there is bg-1", id)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.agents = append(f.agents, id)
	return nil
}

func (f *fake) Live() coordinator.Live {
	if f.liveHangs != nil {
		<-f.liveHangs
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	live := f.live
	if f.run != nil {
		v := *f.run
		live.Loop = &v
	}
	live.Turn, live.Method, live.SessionID = f.totals.Turns, "session", "session-001-test"
	return live
}

func (f *fake) stopped() int { return int(f.stops.Load()) }

func (f *fake) Clear() error { return nil }

func (f *fake) Ends(how string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.how = append(f.how, how)
}

// release ends what the fake runs; more than once does no harm.
func (f *fake) release() {
	if f.queue == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = f.queue.Close(ctx)
}

func (f *fake) Close() error {
	if f.closing != nil {
		f.closing(f)
	}
	f.release()
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

func (f *fake) Undo(_ context.Context, n int, tell func([]string)) (coordinator.Undone, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.undone = append(f.undone, n)
	if n > 1 {
		tell([]string{"the branch goes back"})
		return coordinator.Undone{Kept: []string{"edited.go"}}, nil
	}
	return coordinator.Undone{Files: []git.FileChange{{Path: "main.go", Kind: git.Modified, Added: 1, Removed: 2}}}, nil
}

func (f *fake) Redo(context.Context, int, func([]string)) (coordinator.Undone, error) {
	return coordinator.Undone{}, coordinator.ErrNothingToRedo
}

func (f *fake) Diff(context.Context) (string, error) {
	return "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n", nil
}

func (f *fake) Project() project.Project { return project.Project{Root: f.root} }

func (f *fake) SessionID() string {
	if f.session != "" {
		return f.session
	}
	return "session-001-test"
}

func (f *fake) Standing() []string { return f.facts }

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
func echo(_ context.Context, f *fake, task string) result.Outcome {
	f.say(1, "You said **"+task+"**.")
	return result.Outcome{Usage: agent.Usage{Total: 1200}}
}

// hang works until it is stopped.
func hang(ctx context.Context, f *fake, _ string) result.Outcome {
	f.link.Eyes(agent.Event{Type: agent.EventTurnStart, Turn: 1})
	f.link.Eyes(agent.Event{Type: agent.EventMessageDelta, Turn: 1, Text: "thinking about it"})
	<-ctx.Done()
	return result.Outcome{}
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

func (f *fake) Agents(context.Context) ([]crew.Agent, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.crew, nil
}

func (f *fake) Merge(_ context.Context, id string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.merged = append(f.merged, id)
	return id + " is merged: 1 file", nil
}

func (f *fake) Prune(_ context.Context, ids []string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pruned = append(f.pruned, ids...)
	return ids, nil
}

func (f *fake) AgentDiff(_ context.Context, id string) (string, error) {
	return "--- a/" + id + "\n+++ b/" + id + "\n@@ -1 +1 @@\n-x\n+y\n", nil
}

func (f *fake) Plan(_ context.Context, s loop.Settings) (*plan.Plan, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taken = append(f.taken, s)
	if f.plan == nil {
		return nil, &result.Error{Op: "find plan", Err: plan.ErrNoPlan, Hint: "ralph plan create talks one into being", Status: result.ConfigError}
	}
	p := *f.plan
	return &p, nil
}

func (f *fake) Why(task string) (string, error) {
	switch task {
	case "US-2":
		return "US-2: execute (confidence 0.86)\n  execute   0.75\n  skip      0.30\x1b[2J", nil
	case "US-3":
		return "", nil
	}
	return "", fmt.Errorf("task %q: %w", task, plan.ErrNoTask)
}

func (f *fake) Replan(s loop.Settings) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.swaps = append(f.swaps, s)
	return nil
}
