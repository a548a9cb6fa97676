package tools

import (
	"context"
	_ "embed"
	"errors"
	"strings"

	"ralph/workers/agent"
)

//go:embed decide.md
var decideDoc string

// Choice is a decision of an agent.
type Choice struct {
	What         string   `json:"what"`
	Why          string   `json:"why"`
	Alternatives []string `json:"alternatives,omitempty"`
}

func (b *box) decide() spec {
	return define("decide", decideDoc, `{"what":"keep the queue in a file","why":"it has to outlive a crash","alternatives":["in memory","a database"]}`, agent.EffectState,
		func(ctx context.Context, c Choice) (agent.Result, error) {
			if strings.TrimSpace(c.What) == "" || strings.TrimSpace(c.Why) == "" {
				return agent.Result{}, errors.New("decide: what and why must not be empty")
			}
			return noted(b.Notebook.Decide(ctx, c))
		})
}
