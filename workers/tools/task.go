package tools

import (
	"context"
	_ "embed"
	"errors"

	"ralph/workers/agent"
)

//go:embed task.md
var taskDoc string

// TaskUpdate is a new task, when ID is empty, or a change to one: what is empty
// or nil stays as it is.
type TaskUpdate struct {
	ID       string   `json:"id,omitempty"`
	Title    string   `json:"title,omitempty"`
	Status   string   `json:"status,omitempty" enum:"pending,in_progress,blocked,done,failed,skipped"`
	Priority *int     `json:"priority,omitempty" jsonschema:"1 is first"`
	After    []string `json:"after,omitempty" jsonschema:"ids"`
	Check    string   `json:"check,omitempty" jsonschema:"a command"`
	Result   string   `json:"result,omitempty"`
}

func (b *box) task() spec {
	return define("task", taskDoc, `{"id":"T-3","status":"done","result":"all tests pass"}`, agent.EffectState,
		func(ctx context.Context, u TaskUpdate) (agent.Result, error) {
			if u.ID == "" && u.Title == "" {
				return agent.Result{}, errors.New(`task: give the id of a task to change, or the title of a new one`)
			}
			return noted(b.Notebook.Task(ctx, u))
		})
}
