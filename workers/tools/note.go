package tools

import (
	"context"
	_ "embed"
	"errors"
	"strings"

	"ralph/workers/agent"
)

//go:embed note.md
var noteDoc string

type noteArgs struct {
	What    string `json:"what"`
	Why     string `json:"why,omitempty"`
	Results string `json:"results,omitempty"`
}

func (b *box) note() spec {
	return define("note", noteDoc, `{"what":"the parser copies each line twice","results":"parse.go:88"}`, agent.EffectState,
		func(ctx context.Context, a noteArgs) (agent.Result, error) {
			if strings.TrimSpace(a.What) == "" {
				return agent.Result{}, errors.New("note: what is empty")
			}
			return noted(b.Notebook.Learn(ctx, Learning{Type: "note", What: a.What, Why: a.Why, Results: a.Results}))
		})
}
