package coordinator_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/result"
	"ralph/workers/agent"
)

// What the user edits while a turn runs reaches the model with its next request,
// and the human at once; a deleted task is not worked on any more.
func TestEditsReachTheModel(t *testing.T) {
	t.Parallel()
	p := newProject(t, calls(call("task", m{"title": "one", "status": "in_progress"}), call("task", m{"title": "two", "status": "done"})),
		calls(call("list", m{"path": "."})), text("fine"))
	p.session = "new"
	p.eye = func(e agent.Event) {
		if e.Type != agent.EventToolStart || e.Tool != "list" {
			return
		}
		for range 1000 { // the file follows the log
			if strings.Contains(p.read("RALPH_TASKS.md"), "T-2") {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		// What is saved within a second of Ralph's own write may come from an
		// editor that read the file before it.
		time.Sleep(1100 * time.Millisecond)
		p.write("RALPH_TASKS.md", "# Tasks\n\n- [ ] **T-2** two, and better\n  - status: pending\n- [ ] **T-9** mine\n")
	}
	out := p.run(coordinator.Job{Chat: true})
	p.want(out, result.Completed)
	note := p.last(3)
	for _, want := range []string{"deleted: T-1 one. Do not work on it", "reopened: T-2", "new: T-9 mine", "not from the user"} {
		if note.Role != "user" || !strings.Contains(note.Content, want) {
			t.Errorf("the model reads %q from %s, without %q", note.Content, note.Role, want)
		}
	}
	told := ""
	for _, e := range p.seen() {
		if e.Type == agent.EventInbox {
			told += e.Text
		}
	}
	if !strings.Contains(told, "RALPH_TASKS.md") || !strings.Contains(told, "T-1 deleted") {
		t.Errorf("the user is told %q", told)
	}
	if text := p.read("RALPH_TASKS.md"); strings.Contains(text, "T-1") || !strings.Contains(text, "two, and better\n  - status: pending") {
		t.Errorf("tasks:\n%s", text)
	}
	p.wantFile(".ralph/sessions/session-001-chat/conversation.md", "ralph\n\n> (Note from Ralph")
}

// Edits made while nothing runs are picked up within a second, and go along with
// what the user says next.
func TestEditsBetweenTurns(t *testing.T) {
	t.Parallel()
	p := newProject(t, calls(call("goal", m{"action": "set", "text": "ship it"})), text("set"), text("seen"))
	p.session = "new"
	c := p.open()
	p.want(c.Run(t.Context(), coordinator.Job{Task: "first", Chat: true}), result.Completed)
	text := p.read("RALPH_GOALS.md")
	if err := os.WriteFile(p.path("RALPH_GOALS.md"), []byte(strings.Replace(text, "[ ]", "[x]", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for seen := false; !seen; {
		for _, e := range p.seen() {
			seen = seen || e.Type == agent.EventInbox && strings.Contains(e.Text, "RALPH_GOALS.md")
		}
		if time.Since(began) > 10*time.Second {
			t.Fatal("the edit was not picked up")
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Logf("picked up after %v", time.Since(began).Round(time.Millisecond))
	p.want(c.Run(t.Context(), coordinator.Job{Task: "second", Chat: true}), result.Completed)
	p.shut(c)
	if got := p.last(3).Content; !strings.HasPrefix(got, "second") || !strings.Contains(got, "RALPH_GOALS.md was edited") {
		t.Errorf("the model reads %q", got)
	}
}

// A chat works on a task over several turns; it is open again when the chat ends,
// unless the user set it otherwise meanwhile.
func TestTasksOfAChatThatEnds(t *testing.T) {
	t.Parallel()
	p := newProject(t, calls(call("task", m{"title": "one", "status": "in_progress"}), call("task", m{"title": "two", "status": "in_progress"})), text("more tomorrow"), text("still at it"))
	p.session = "new"
	c := p.open()
	p.want(c.Run(t.Context(), coordinator.Job{Task: "first", Chat: true}), result.Completed)
	p.wantFile("RALPH_TASKS.md", "**T-1** one\n  - status: in_progress")
	p.write("RALPH_TASKS.md", strings.Replace(p.read("RALPH_TASKS.md"), "- [ ] **T-2** two\n  - status: in_progress", "- [x] **T-2** two\n  - status: done", 1))
	p.want(c.Run(t.Context(), coordinator.Job{Task: "second", Chat: true}), result.Completed)
	p.wantFile("RALPH_TASKS.md", "**T-1** one\n  - status: in_progress")
	p.shut(c)
	p.wantFile("RALPH_TASKS.md", "**T-1** one\n  - status: interrupted", "- [x] **T-2** two\n  - status: done")
	p.wantFile(".ralph/sessions/session-001-chat/progress-tracking.yaml", "status: paused")
}
