package crew

import (
	"testing"
	"time"

	"ralph/workers"
	"ralph/workers/agent"
)

// What an agent does is told as it is: it asks, it thinks, it writes.
func TestWhatAnAgentDoes(t *testing.T) {
	c := &Crew{o: Options{Now: time.Now, Pool: workers.New(workers.Options{})}}
	m := &member{}
	for _, step := range []struct {
		event agent.EventType
		want  string
	}{
		{agent.EventTurnStart, "asks the model"}, {agent.EventReasoning, "thinks"}, {agent.EventMessageDelta, "writes"}, {agent.EventTurnStart, "asks the model"},
	} {
		if c.saw(m, agent.Event{Type: step.event}); m.Doing != step.want {
			t.Errorf("after %s it %q, want %q", step.event, m.Doing, step.want)
		}
	}
}
