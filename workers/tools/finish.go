package tools

import (
	"context"
	_ "embed"
	"errors"
	"strings"

	"ralph/workers/agent"
)

//go:embed finish.md
var finishDoc string

type finishArgs struct {
	Status     string   `json:"status" enum:"done,partial,failed,needs_input"`
	Summary    string   `json:"summary"`
	Confidence *float64 `json:"confidence,omitempty" min:"0" max:"1"`
}

// unsaid is the confidence of a model that says none: neither sure nor unsure.
const unsaid = 0.5

func (b *box) finish() spec {
	return define("finish", finishDoc, `{"status":"done","summary":"fixed the parser; go test ./... passes","confidence":0.9}`, agent.EffectState,
		func(_ context.Context, a finishArgs) (agent.Result, error) {
			if strings.TrimSpace(a.Summary) == "" {
				return agent.Result{}, errors.New("finish: the summary is empty: say what was done and what is left")
			}
			sure := unsaid
			if a.Confidence != nil {
				sure = *a.Confidence
			}
			return agent.Result{
				Head: "finished: " + a.Status, Brief: a.Status,
				Finish: &agent.Finish{Status: agent.FinishStatus(a.Status), Summary: a.Summary, Confidence: sure},
			}, nil
		})
}
