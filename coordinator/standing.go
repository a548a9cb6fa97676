package coordinator

import (
	"fmt"
	"path/filepath"

	"ralph/memory/durable"
	"ralph/memory/markdown"

	"ralph/memory"
)

// Standing says in a few short lines how things stand at the start of a
// session: how commands run, what is open, how long the conversation is that
// goes on, and what is to be warned of.
func (c *Coordinator) Standing() []string {
	lines := []string{"sandbox " + c.sandbox()}
	open, interrupted := 0, ""
	data, err := durable.ReadFile(c.opt.FS, filepath.Join(c.opt.Root, memory.TasksFile), maxStateBytes)
	if err == nil {
		for _, t := range markdown.Parse(data).Tasks() {
			if t.Status.Open() {
				open++
			}
			if t.Status == markdown.Interrupted || t.Status == markdown.InProgress {
				interrupted = "; interrupted: " + t.ID + " " + t.Title
			}
		}
	}
	if open > 0 {
		lines = append(lines, count(open, "open task")+interrupted)
	}
	if n := len(c.History()); n > 0 {
		lines = append(lines, "going on with a conversation of "+count(n, "message"))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.warnings {
		lines = append(lines, fmt.Sprintf("note: %s", w))
	}
	return lines
}
