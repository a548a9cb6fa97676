package tools

import (
	"context"
	_ "embed"
	"fmt"

	"ralph/workers/agent"
)

//go:embed message_agent.md
var messageAgentDoc string

type messageArgs struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

func (b *box) messageAgent() spec {
	return define("message_agent", messageAgentDoc, `{"id":"parser","text":"Keep the old flag as an alias."}`, agent.EffectState,
		func(ctx context.Context, a messageArgs) (agent.Result, error) {
			id, err := agentID("message_agent", a.ID)
			if err != nil {
				return agent.Result{}, err
			}
			if err := handed("text", a.Text); err != nil {
				return agent.Result{}, fmt.Errorf("message_agent: %w", err)
			}
			answer, err := b.Crew.Message(ctx, id, a.Text)
			return b.told("message_agent", answer, err)
		})
}
