package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"ralph/coordinator/loop"
	"ralph/memory"
	"ralph/memory/markdown"
	"ralph/memory/registry"
	"ralph/memory/session/folder"
)

// planBook lets a tracker keep its tasks in the project's own list.
type planBook struct{ b *book }

var errNoStore = errors.New("the project's state is not open")

// Tasks returns the tasks of RALPH_TASKS.md.
func (x planBook) Tasks() ([]markdown.Task, error) {
	s := x.b.opened()
	if s == nil {
		return nil, errNoStore
	}
	return s.Tasks()
}

// SetTask changes one of them, durably.
func (x planBook) SetTask(id string, e markdown.Edit) (markdown.Task, error) {
	s := x.b.opened()
	if s == nil {
		return markdown.Task{}, errNoStore
	}
	t, err := s.SetTask(id, e)
	if err == nil {
		err = s.Flush()
	}
	return t, err
}

// opened is the store, nil while it is not open.
func (b *book) opened() *memory.Store {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.readOnly {
		return nil
	}
	return b.store
}

// taskEnded keeps what came of a task of a plan.
func (b *book) taskEnded(t loop.TaskEnd) error {
	s := b.opened()
	if s == nil {
		return nil
	}
	e := memory.Entry{Title: strings.TrimSpace(t.ID + " " + t.Title), Status: t.Status, Summary: t.Report.Summary, Files: t.Report.Files, RunID: b.c.opt.RunID}
	if t.Why != "" {
		e.Summary = strings.TrimSpace(t.Why + "\n\n" + e.Summary)
	}
	if t.Report.Commit != "" && t.Report.Landing == "merged" {
		e.Commits = []string{t.Report.Commit}
	}
	for _, x := range t.Report.Checks {
		e.Check = fmt.Sprintf("%s: exit %d", x.Command, x.ExitCode)
	}
	b.mu.Lock()
	if b.session != nil {
		b.session.Count()
	}
	b.mu.Unlock()
	return s.Progress(e)
}

// sessionDir is the directory of the session, absolute; "" without one.
func (b *book) sessionDir() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session == nil {
		return ""
	}
	return b.session.Dir()
}

// folder gives the files of the session, nil without one.
func (b *book) folder() *folder.Folder {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session == nil {
		return nil
	}
	return b.session.Folder()
}

// enlist notes in the registry of all projects which run the session is of.
func (b *book) enlist(ctx context.Context, e registry.Entry) {
	b.mu.Lock()
	defer b.leave()
	if b.session == nil {
		return
	}
	b.run = &e
	b.enroll(ctx, registry.Running)
}
