package tools

import (
	"context"
	_ "embed"
	"errors"
	"strings"

	"ralph/workers/agent"
)

//go:embed learn.md
var learnDoc string

// Learning is one entry of AGENT.md.
type Learning struct {
	Type     string `json:"type" jsonschema:"one word"`
	What     string `json:"what"`
	Why      string `json:"why,omitempty"`
	How      string `json:"how,omitempty"`
	Results  string `json:"results,omitempty"`
	Learning string `json:"learning"`
}

func (b *box) learn() spec {
	return define("learn", learnDoc, `{"type":"build","what":"tests failed without CGO","learning":"run them with CGO_ENABLED=1"}`, agent.EffectState,
		func(ctx context.Context, l Learning) (agent.Result, error) {
			l.Type = strings.Join(strings.Fields(l.Type), " ")
			if l.Type == "" || strings.TrimSpace(l.What) == "" || strings.TrimSpace(l.Learning) == "" {
				return agent.Result{}, errors.New("learn: type, what and learning must not be empty")
			}
			return noted(b.Notebook.Learn(ctx, l))
		})
}
