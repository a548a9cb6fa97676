package tools

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"ralph/workers/agent"
)

//go:embed ask_user.md
var askUserDoc string

type askArgs struct {
	Question string   `json:"question"`
	Options  []string `json:"options,omitempty"`
}

func (b *box) askUser() spec {
	s := define("ask_user", askUserDoc, `{"question":"Which database?","options":["SQLite","Postgres"]}`, agent.EffectState, b.runAsk)
	s.asks = true
	return s
}

func (b *box) runAsk(ctx context.Context, a askArgs) (agent.Result, error) {
	if strings.TrimSpace(a.Question) == "" {
		return agent.Result{}, errors.New("ask_user: the question is empty")
	}
	if b.Ask == nil {
		return agent.Result{}, fmt.Errorf("ask_user: %w (decide yourself and say what you assumed, or finish with needs_input)", ErrNobody)
	}
	answer, err := b.Ask(ctx, Question{Text: a.Question, Options: a.Options})
	if err != nil {
		return agent.Result{}, fmt.Errorf("ask_user: %w", err)
	}
	return agent.Result{Head: "the user answers:", Text: answer, Brief: "answered"}, nil
}
