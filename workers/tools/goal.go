package tools

import (
	"context"
	_ "embed"
	"errors"
	"strings"

	"ralph/workers/agent"
)

//go:embed goal.md
var goalDoc string

// GoalUpdate sets a goal with what must hold for it, or ends the one whose text
// is or begins with Text.
type GoalUpdate struct {
	Action     string   `json:"action" enum:"set,met,drop"`
	Text       string   `json:"text"`
	Acceptance []string `json:"acceptance,omitempty"`
}

func (b *box) goal() spec {
	return define("goal", goalDoc, `{"action":"set","text":"uploads survive a 503","acceptance":["go test ./upload passes"]}`, agent.EffectState,
		func(ctx context.Context, u GoalUpdate) (agent.Result, error) {
			if u.Text = strings.TrimSpace(u.Text); u.Text == "" {
				return agent.Result{}, errors.New("goal: the text is empty")
			}
			return noted(b.Notebook.Goal(ctx, u))
		})
}
