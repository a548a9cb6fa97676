package coordinator_test

import (
	"strings"
	"testing"

	"ralph/coordinator"
	"ralph/coordinator/result"
)

// TestConversationBegins looks at what the model of a conversation is told of the state
// of the project as it begins.
func TestConversationBegins(t *testing.T) {
	t.Parallel()
	p := newProject(t, text("hello"))
	p.write("new.txt", "x")
	p.write("RALPH_PROGRESS.md", "# Progress\n\nWhat was done, newest first.\n\n## 2026-11-22 — mended the door\n\n- Status: done\n")
	p.write("RALPH_TODO.md", "# To do\n\n- [ ] paint the door\n")
	c := p.open()
	p.want(c.Run(t.Context(), coordinator.Job{Task: "hi", Chat: true}), result.Completed)
	p.shut(c)
	said := p.model.Requests()[0].Messages[0].Content
	for _, want := range []string{"Git status when this was written", "untracked new.txt", "## 2026-11-22 — mended the door", "- [ ] paint the door"} {
		if !strings.Contains(said, want) {
			t.Errorf("the model is not told %q:\n%s", want, said)
		}
	}
	if strings.Contains(said, "newest first") {
		t.Errorf("the head of the file takes the place of what was done:\n%s", said)
	}
}
