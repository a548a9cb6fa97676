package tools

import (
	"context"
	_ "embed"

	"ralph/workers/agent"
)

//go:embed set_mode.md
var setModeDoc string

// The reason is for those who read the call.
type modeArgs struct {
	Mode   string `json:"mode" enum:"conversation,autonomous"`
	Reason string `json:"reason,omitempty"`
}

func (b *box) setMode() spec {
	return define("set_mode", setModeDoc, `{"mode":"autonomous","reason":"the plan is agreed"}`, agent.EffectState,
		func(ctx context.Context, a modeArgs) (agent.Result, error) {
			answer, err := b.SetMode(ctx, a.Mode)
			return b.told("set_mode", answer, err)
		})
}
