package tools

import (
	"context"
	_ "embed"

	"ralph/workers/agent"
)

//go:embed stop_agent.md
var stopAgentDoc string

type stopArgs struct {
	ID     string `json:"id"`
	Reason string `json:"reason,omitempty"`
}

// maxReasonBytes bounds a reason, which is shown in one line.
const maxReasonBytes = 500

func (b *box) stopAgent() spec {
	return define("stop_agent", stopAgentDoc, `{"id":"parser","reason":"no longer needed"}`, agent.EffectState,
		func(ctx context.Context, a stopArgs) (agent.Result, error) {
			id, err := agentID("stop_agent", a.ID)
			if err != nil {
				return agent.Result{}, err
			}
			answer, err := b.Crew.Stop(ctx, id, cutText(a.Reason, maxReasonBytes))
			return b.told("stop_agent", answer, err)
		})
}
