package coordinator

import (
	"context"
	"errors"
	"fmt"

	"ralph/coordinator/permission"
	"ralph/memory/text"

	"ralph/coordinator/loop"
	"ralph/workers/agent"
)

// leastSure is the confidence below which a model's word that it is done is not
// taken without the human.
const leastSure = 0.3

// errUnsure reports that a model declares its work done and is not sure of that.
var errUnsure = errors.New("it is declared done with little confidence")

// sure returns nil when the declaration of an agent can be taken. Where little
// confidence is behind it the human decides; where nobody can be asked, or the answer
// is no, it matches errUnsure.
func (c *Coordinator) sure(ctx context.Context, who string, f *agent.Finish) error {
	if f == nil || f.Status != agent.FinishDone || f.Confidence >= leastSure {
		return nil
	}
	unsure := fmt.Errorf("%w (%.2f): %s", errUnsure, f.Confidence, text.ClipRunes(firstLine(f.Summary), maxWhy))
	if c.opt.Ask == nil || c.cfg.Run.HumanIntervention == loop.AskNever {
		return unsure
	}
	content := fmt.Sprintf("The work is declared done with a confidence of %.2f only: %s. Take it as done?", f.Confidence, text.ClipRunes(firstLine(f.Summary), maxWhy))
	answer, err := c.approver.Ask(ctx, "", agent.Event{Type: agent.EventAsk, Agent: who, Text: content}, permission.Question{Kind: "question", Agent: who, Text: content, Options: []string{"no", permission.Yes}})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil && answer == permission.Yes:
		return nil
	}
	return unsure
}
