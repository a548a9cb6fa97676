package tools

import (
	"context"
	_ "embed"

	"ralph/workers/agent"
)

//go:embed merge_agent.md
var mergeAgentDoc string

type mergeArgs struct {
	ID string `json:"id"`
}

func (b *box) mergeAgent() spec {
	return define("merge_agent", mergeAgentDoc, `{"id":"parser"}`, agent.EffectChange,
		func(ctx context.Context, a mergeArgs) (agent.Result, error) {
			id, err := agentID("merge_agent", a.ID)
			if err != nil {
				return agent.Result{}, err
			}
			answer, err := b.Crew.Merge(ctx, id)
			return b.told("merge_agent", answer, err)
		})
}
