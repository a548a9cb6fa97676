package tools

import (
	"context"

	"ralph/memory/text"
	"ralph/workers/agent"
)

// Notebook keeps what the state tools are told. Each method returns what was
// stored as a person would read it, in a line or a few. Its error is shown to
// the model. It must be safe for concurrent use.
type Notebook interface {
	Task(ctx context.Context, u TaskUpdate) (string, error)
	Todo(ctx context.Context, u TodoUpdate) (string, error)
	Goal(ctx context.Context, u GoalUpdate) (string, error)
	// Learn keeps a note or a learning.
	Learn(ctx context.Context, l Learning) (string, error)
	// Decide keeps a decision.
	Decide(ctx context.Context, c Choice) (string, error)
	Feature(ctx context.Context, f Feature) (string, error)
}

// noted is the result of a state tool.
func noted(stored string, err error) (agent.Result, error) {
	if err != nil {
		return agent.Result{}, err
	}
	return agent.Result{Text: stored, Brief: cutText(text.FirstLine(stored), 80)}, nil
}
