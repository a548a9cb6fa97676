package coordinator_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"ralph/coordinator"
	"ralph/coordinator/result"
	"ralph/workers/model/modeltest"
)

// endpoint is a model with a window: it counts a token for so many bytes, refuses
// what is longer and reads a file in every turn. It keeps what it must not see.
type endpoint struct {
	window, bytesPerToken int
	path                  func(n int) string // the file to read in reply n
	requests, refused     int
	summaries             []string // what was to be summarised
	wrong                 []string
}

func (e *endpoint) answer(r modeltest.Request) modeltest.Reply {
	e.requests++
	before := "system"
	for i, m := range r.Messages {
		fine := map[string]string{"user": "system assistant", "assistant": "user tool", "tool": "assistant tool"}[m.Role]
		if i > 0 && !strings.Contains(fine, before) {
			e.wrong = append(e.wrong, fmt.Sprintf("request %d: %s follows %s", e.requests, m.Role, before))
		}
		before = m.Role
	}
	tokens := len(r.Body) / e.bytesPerToken
	if tokens > e.window {
		e.refused++
		return modeltest.Status(400, `{"error":{"message":"This model's maximum context length is exceeded","code":"context_length_exceeded"}}`)
	}
	last := r.Messages[len(r.Messages)-1]
	switch {
	case strings.HasPrefix(r.Messages[0].Content, "You summarise"):
		e.summaries = append(e.summaries, last.Content)
		return text("- a summary").Using(tokens, 5)
	case last.Role == "tool":
		return text(fmt.Sprintf("answer %d", e.requests)).Using(tokens, 5)
	}
	return calls(modeltest.Call{ID: fmt.Sprintf("c%d", e.requests), Name: "read", Args: fmt.Sprintf(`{"path": %q}`, e.path(e.requests))}).Using(tokens, 5)
}

func reading(t *testing.T, window int) (*project, *endpoint) {
	p := newProject(t)
	e := &endpoint{window: window, bytesPerToken: 4, path: func(n int) string { return fmt.Sprintf("big%d.txt", n%3) }}
	for i := range 3 {
		p.write(fmt.Sprintf("big%d.txt", i), strings.Repeat(fmt.Sprintf("a line of file %d about nothing\n", i), 600)) // 19 KB
	}
	p.model.Handle(e.answer)
	p.session = "new"
	p.flags["context_window"] = []string{fmt.Sprint(window)}
	return p, e
}

// In a window that one result nearly fills nothing is refused and nothing that
// the user said is lost: it is in a summary or the model sees it.
func TestNothingIsLostInASmallWindow(t *testing.T) {
	t.Parallel()
	p, e := reading(t, 9200)
	c := p.open()
	defer p.shut(c)
	for i := range 40 {
		p.turn(c, fmt.Sprintf("please note the number N-%03d and read a file%s", i, strings.Repeat(" of this project", 15)))
	}
	if e.refused > 0 || len(e.wrong) > 0 {
		t.Errorf("%d refused, %v", e.refused, e.wrong)
	}
	asked := strings.Join(e.summaries, "\n")
	seen := p.joined(len(p.model.Requests()))
	for i := range 40 {
		if n := fmt.Sprintf("N-%03d", i); !strings.Contains(asked, n) && !strings.Contains(seen, n) {
			t.Errorf("%s is in no summary and the model does not see it", n)
		}
	}
}

// A summary that could not be had is made up for by the next one.
func TestASummaryThatFailedIsMadeUpFor(t *testing.T) {
	t.Parallel()
	p := crowded(t, text(""), text("fourth"), text("- the port is 8123"), text("fifth"))
	p.flags["context_window"] = []string{"6500"}
	c := p.open()
	defer p.shut(c)
	p.fill(c)
	p.turn(c, "go on with the work")
	if _, err := c.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := p.joined(6); !strings.Contains(got, "You summarise") || !strings.Contains(got, "which port is ours?") {
		t.Errorf("the second summary is asked for with\n%.2000s", got)
	}
}

// A window that is smaller than it is said to be is learned from one refusal.
func TestAWindowIsLearnedFromARefusal(t *testing.T) {
	t.Parallel()
	p, e := reading(t, 12_000)
	p.flags["context_window"] = []string{"128000"}
	c := p.open()
	defer p.shut(c)
	for range 20 {
		p.turn(c, "please read a file")
	}
	if e.refused == 0 || e.refused > 2 || len(e.wrong) > 0 {
		t.Errorf("%d requests of %d were refused; %v", e.refused, e.requests, e.wrong)
	}
}

// A recording with compactions replays, however the model spaces its arguments.
func TestARecordingWithCompactionsReplays(t *testing.T) {
	t.Parallel()
	p, e := reading(t, 9000)
	turns := 0
	e.path = func(n int) string { turns++; return fmt.Sprintf("big%d.txt", n%3) }
	p.model.Handle(func(r modeltest.Request) modeltest.Reply {
		if last := r.Messages[len(r.Messages)-1]; last.Role == "tool" && turns < 8 {
			r.Messages[len(r.Messages)-1].Role = "user" // read on
		}
		return e.answer(r)
	})
	p.session = ""
	tape := filepath.Join(t.TempDir(), "tape.yaml")
	p.flags["record"] = []string{tape}
	p.want(p.run(coordinator.Job{Task: "read the files"}), result.Completed)
	t.Logf("%d summaries, %d requests", len(e.summaries), e.requests)
	if len(e.summaries) == 0 {
		t.Fatal("no compaction was recorded")
	}
	again, _ := reading(t, 9000)
	again.session = ""
	again.flags["replay"] = []string{tape}
	again.want(again.run(coordinator.Job{Task: "read the files"}), result.Completed)
	again.wantRequests(0)
}

// Goals and the repository's rules are pinned: what they say now is in the next
// request, which extends the one before it.
func TestPinnedPartsAreCurrent(t *testing.T) {
	t.Parallel()
	p := newProject(t, text("done").Forever())
	p.session = "new"
	p.write("RALPH_GOALS.md", "# Goals\n\nShip the first version.\n")
	p.write("AGENTS.md", "Use tabs.\n")
	p.write("CLAUDE.md", "Be kind.\n")
	c := p.open()
	defer p.shut(c)
	p.turn(c, "hello")
	p.write("RALPH_GOALS.md", "# Goals\n\nShip the second version by May.\n")
	p.write("AGENTS.md", "Use spaces.\n")
	p.turn(c, "go on")
	for _, want := range []string{"Ship the second version by May.", "AGENTS.md of the repository was edited", "Use spaces."} {
		if got := p.last(2).Content; !strings.Contains(got, want) || strings.Contains(got, "Be kind") {
			t.Errorf("the model reads\n%s\nwithout %q", got, want)
		}
	}
	p.extends(1, 2)
	p.turn(c, "and on")
	if got := p.last(3).Content; got != "and on" {
		t.Errorf("told again: %s", got)
	}
	if err := c.Clear(); err != nil {
		t.Fatal(err)
	}
	p.turn(c, "anew")
	if got := p.asked(4).Messages[0].Content; !strings.Contains(got, "second version") || !strings.Contains(got, "Use spaces") || strings.Contains(got, "Use tabs") {
		t.Errorf("the new conversation begins with\n%s", got)
	}
}
