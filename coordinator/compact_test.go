package coordinator_test

import (
	"strings"
	"testing"

	"ralph/coordinator"
	"ralph/coordinator/result"
	"ralph/workers/model/modeltest"
)

// The endpoint finds the conversation too long: old results go, the task stays,
// and the work is done.
func TestAConversationThatIsTooLong(t *testing.T) {
	t.Parallel()
	tooLong := modeltest.Status(400, `{"error":{"message":"maximum context length exceeded","code":"context_length_exceeded"}}`)
	p := newProject(t, text("hello there"), calls(shell("head -c 9000 /dev/zero | tr '\\0' x")), calls(shell("head -c 9001 /dev/zero | tr '\\0' x")), tooLong, text("done"), tooLong, tooLong, tooLong, tooLong)
	p.session = "new"
	c := p.open()
	p.want(c.Run(t.Context(), coordinator.Job{Task: "hello", Chat: true}), result.Completed)
	p.want(c.Run(t.Context(), coordinator.Job{Task: "print much", Chat: true}), result.Completed)
	before, after := p.asked(4), p.asked(5)
	if len(after.Body) >= len(before.Body) || after.Messages[0].Content != before.Messages[0].Content {
		t.Errorf("%d bytes became %d", len(before.Body), len(after.Body))
	}
	joined := ""
	for _, m := range after.Messages {
		joined += m.Role + ": " + m.Content + "\n"
	}
	if !strings.Contains(joined, "user: print much\n") || !strings.Contains(p.types(), "compact") {
		t.Errorf("the model sees\n%.2000s", joined)
	}
	p.want(c.Run(t.Context(), coordinator.Job{Task: "again", Chat: true}), result.ProviderError, "context_length")
	p.shut(c)
	// On disk the history is whole.
	journal := p.all(".ralph/sessions/*/journal.jsonl")
	if strings.Count(journal, strings.Repeat("x", 9000)) < 2 {
		t.Error("the journal lost what the model does not see any more")
	}
}
