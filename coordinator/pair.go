package coordinator

import (
	"context"
	"fmt"
	"strings"

	"ralph/coordinator/result"
	"ralph/memory/text"
	"ralph/workers/git"
)

// This file completes the record of a turn that has a checkpoint before it and none after it.

// pair takes the checkpoint after a turn that was cut off, as late as that is,
// and leaves what it changed in made. The caller holds mu.
func (c *changes) pair(ctx context.Context, before git.Checkpoint) (string, error) {
	name := strings.TrimSuffix(before.ID, git.BeforeTurn)
	tasks := c.writes.load()
	defer c.writes.end()
	after, err := c.points.Take(ctx, name+git.AfterTurn)
	if err != nil {
		return "", err
	}
	if c.made, err = c.attribute(ctx, before, after, c.writes.modes(before.Time)); err != nil {
		return "", err
	}
	if len(c.made) == 0 {
		return "", c.points.Drop(ctx, before.ID, name+git.KeptOfTurn, after.ID)
	}
	c.keepTasks(ctx, after, tasks)
	c.cutOff = name
	paths := make([]string, len(c.made))
	for i, f := range c.made {
		paths[i] = f.Path
	}
	return fmt.Sprintf("since the turn that was cut off began, %s changed (%s): undo takes that back", text.Count(len(paths), "file"), text.List(paths, maxNamed)), nil
}

// pairLast takes the checkpoint after the last turn where that could not be taken at its end.
func (c *changes) pairLast(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	list, err := c.points.List(ctx)
	before, ok := git.CutTurn(list)
	if err != nil || !ok || c.begun {
		return err
	}
	if _, err := c.pair(ctx, before); err != nil {
		return &result.Error{Op: "list what the last turn changed in", Path: c.root, Err: err, Status: result.Failed,
			Hint: "remove or repair what the message names, and undo again: the state before the turn is kept"}
	}
	return nil
}
