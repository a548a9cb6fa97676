package coordinator_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/loop"
	"ralph/coordinator/result"
	"ralph/memory/feature"
	"ralph/workers/agent"
)

// What is told of the agent of a task names the task, its end says what came of
// it, the journal has that while the next one is worked, and who asks for a pause
// sees it at once.
func TestTheEventsOfATask(t *testing.T) {
	t.Parallel()
	p, k := planned(t, "- [ ] **T-1** Write one\n  - check: test -e one.txt\n- [ ] **T-2** Write two\n  - after: T-1\n  - check: test -e two.txt\n")
	k.part("write_one", put("one.txt", "x\n"), finished("one"))
	k.part("write_two", calls(shell("until test -e ../../../go; do sleep 0.01; done")), put("two.txt", "x\n"), finished("two"))
	c := p.open()
	defer p.shut(c)
	done := started(c, t.Context(), coordinator.Job{Loop: &loop.Settings{Feature: "play"}})
	p.until("the second is worked", func(e agent.Event) bool { return e.Type == agent.EventToolStart && e.Agent == "write_two" })
	var said []string
	for _, e := range p.seen() {
		if e.Agent == "write_one" && (e.Type == agent.EventChildStart || e.Type == agent.EventChildEnd) || e.Type == agent.EventTaskEnd {
			said = append(said, strings.TrimSpace(strings.Join([]string{string(e.Type), e.TaskID, e.Status, cutHash(e.Output)}, " ")))
		}
	}
	if got, want := strings.Join(said, "\n"), "child_start T-1\nchild_end T-1 done\nchild_end T-1 merged\ntask_end T-1 done merged HASH, check passed"; got != want {
		t.Errorf("told was\n%s\nwant\n%s", got, want)
	}
	journals, err := filepath.Glob(p.path(".ralph/sessions/session-001-*/journal.jsonl"))
	if err != nil || len(journals) != 1 {
		t.Fatal(journals, err)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		data, err := os.ReadFile(journals[0])
		if err == nil && strings.Contains(string(data), `"task_end"`) {
			break
		}
		if time.Now().After(end) {
			t.Errorf("a kill now would lose how T-1 went: the journal has %d bytes, %v", len(data), err)
			break
		}
	}
	c.Pause()
	if v := c.Live(); v.State != "pausing" || v.Loop.Status != feature.Pausing {
		t.Errorf("who asked for a pause is told %s, %s", v.State, v.Loop.Status)
	}
	if err := c.Proceed(); err != nil {
		t.Error(err)
	}
	p.write("go", "")
	p.want(<-done, result.Completed)
}

// cutHash puts a word for what is no constant of a text like "merged 0123abcd, …".
func cutHash(text string) string {
	before, rest, ok := strings.Cut(text, "merged ")
	if !ok {
		return text
	}
	_, after, _ := strings.Cut(rest, ",")
	return before + "merged HASH," + after
}
