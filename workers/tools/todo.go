package tools

import (
	"context"
	_ "embed"
	"errors"
	"strings"

	"ralph/workers/agent"
)

//go:embed todo.md
var todoDoc string

// TodoUpdate adds a pending item, or ends the one whose text is or begins with
// Text.
type TodoUpdate struct {
	Action string `json:"action" enum:"add,done,drop"`
	Text   string `json:"text"`
}

func (b *box) todo() spec {
	return define("todo", todoDoc, `{"action":"add","text":"document the flag"}`, agent.EffectState,
		func(ctx context.Context, u TodoUpdate) (agent.Result, error) {
			if u.Text = strings.TrimSpace(u.Text); u.Text == "" {
				return agent.Result{}, errors.New("todo: the text is empty")
			}
			return noted(b.Notebook.Todo(ctx, u))
		})
}
