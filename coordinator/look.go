package coordinator

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"ralph/memory"
	"ralph/memory/durable"
	"ralph/memory/markdown"
	"ralph/memory/session"
)

// Notes returns the project's "tasks", "goals" or "todo" as they stand now, in
// the order of the file.
func (c *Coordinator) Notes(which string) ([]markdown.Task, error) {
	name := map[string]string{"tasks": memory.TasksFile, "goals": memory.GoalsFile, "todo": memory.TodoFile}[which]
	if name == "" {
		return nil, fmt.Errorf("there is no list %q: tasks, goals or todo", which)
	}
	if which == "tasks" {
		if tasks, err, ok := c.book.tasks(); ok {
			return tasks, err
		}
	}
	data, err := durable.ReadFile(c.opt.FS, filepath.Join(c.opt.Root, name), maxStateBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return markdown.Parse(data).Tasks(), nil
}

// tasks are those of the open store, held and unwritten changes included; ok is
// false where there is none.
func (b *book) tasks() (tasks []markdown.Task, err error, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.store == nil {
		return nil, nil, false
	}
	tasks, err = b.store.Tasks()
	return tasks, err, true
}

// listedSessions bounds how many sessions are listed.
const listedSessions = 20

// statusCutOff is how a session reads whose Ralph ended without a word.
const statusCutOff session.Status = "interrupted"

// Sessions lists the newest sessions of the project, newest first. One that is
// said to be in progress and is not this one's was cut off, as the project's
// lock is ours: it reads interrupted.
func (c *Coordinator) Sessions() ([]session.Info, error) {
	infos, err := session.List(c.opt.FS, c.stateDir())
	if err != nil {
		return nil, err
	}
	own := c.SessionID()
	slices.Reverse(infos)
	infos = infos[:min(len(infos), listedSessions)]
	for i := range infos {
		if infos[i].Meta.Status == session.InProgress && infos[i].ID != own {
			infos[i].Meta.Status = statusCutOff
		}
	}
	return infos, nil
}
