package tools

import (
	"context"
	_ "embed"
	"time"

	"ralph/workers/agent"
)

//go:embed agent_status.md
var agentStatusDoc string

type statusArgs struct {
	ID   string  `json:"id,omitempty"`
	Wait float64 `json:"wait_seconds,omitempty" min:"0" max:"600"`
}

func (b *box) agentStatus() spec {
	return define("agent_status", agentStatusDoc, `{"wait_seconds":120}`, agent.EffectRead,
		func(ctx context.Context, a statusArgs) (agent.Result, error) {
			id := ""
			if a.ID != "" {
				var err error
				if id, err = agentID("agent_status", a.ID); err != nil {
					return agent.Result{}, err
				}
			}
			answer, alive, err := b.Crew.Status(ctx, id, time.Duration(a.Wait*float64(time.Second)))
			r, err := b.told("agent_status", answer, err)
			r.Alive = alive
			return r, err
		})
}
