package coordinator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ralph/coordinator/loop"
	"ralph/memory"
	"ralph/memory/markdown"
	"ralph/memory/registry"
	"ralph/memory/session"
	"ralph/memory/session/folder"
)

// planBook lets a tracker keep its tasks in the project's own list.
type planBook struct{ b *book }

var errNoStore = errors.New("the project's state is not open")

// actorPrefix begins the names of those who claim tasks.
const actorPrefix = "ralph/"

// Tasks returns the tasks of RALPH_TASKS.md. Where the file names the child that
// works on one, or did last, that is the claim of its session.
func (x planBook) Tasks() ([]markdown.Task, error) {
	s := x.b.opened()
	if s == nil {
		return nil, errNoStore
	}
	tasks, err := s.Tasks()
	for i := range tasks {
		t := &tasks[i]
		switch {
		case t.Agent == "" || t.Status == markdown.Done || strings.Contains(t.Agent, actorPrefix):
		case x.b.c.errands.worker(t.ID, "") == t.Agent:
			t.Agent = actorPrefix + x.b.c.SessionID()
		case x.b.c.child(t.Agent):
			t.Agent = actorPrefix + t.Agent
		}
	}
	return tasks, err
}

// child says that a name is that of an agent of Ralph's in this project, now or
// earlier, and not of a program that works tasks.
func (c *Coordinator) child(name string) bool {
	if _, err := c.adapter(name); err == nil || builtin(name) || strings.ContainsAny(name, "/\\ ") {
		return false
	}
	if _, ok := c.crew.Find(name); ok {
		return true
	}
	dirs := c.agentDirs()
	if c.loc != nil { // each has a branch while its work is not merged
		dirs = append(dirs, filepath.Join(c.loc.CommonDir, "refs", "heads", strings.TrimSuffix(actorPrefix, "/")))
	}
	return slices.ContainsFunc(dirs, func(dir string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	})
}

// nameWorker has RALPH_TASKS.md name the child that works on a task, where the
// plan asks for no agent of its own.
func (c *Coordinator) nameWorker(o loop.Order, id string) {
	s := c.book.opened()
	if s == nil || o.Whole == nil || o.Whole.Path != "RALPH_TASKS.md" || !c.child(id) {
		return
	}
	tasks, err := s.Tasks()
	i := slices.IndexFunc(tasks, func(t markdown.Task) bool { return t.ID == o.Task.ID })
	if err != nil || i < 0 || !strings.HasPrefix(tasks[i].Agent, actorPrefix) {
		return // the loop finds out by itself what is wrong
	}
	if _, err := (planBook{c.book}).SetTask(o.Task.ID, markdown.Edit{Agent: id}); err != nil && !errors.Is(err, markdown.ErrNoTask) {
		c.warn("state: " + hinted(err))
	}
}

// SetTask changes one of them, durably.
func (x planBook) SetTask(id string, e markdown.Edit) (markdown.Task, error) {
	s := x.b.opened()
	if s == nil {
		return markdown.Task{}, errNoStore
	}
	if who := x.b.c.errands.worker(id, ""); e.Agent == actorPrefix+x.b.c.SessionID() && x.b.c.child(who) {
		e.Agent = who // it goes on
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
	b.flush() // without a conversation nothing else writes the journal
	b.leave()
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

// enrolled is how a session that was closed stands, in the words of the registry.
func enrolled(s session.Status) registry.Status {
	switch s {
	case session.Completed:
		return registry.Completed
	case session.Paused:
		return registry.Paused
	}
	return registry.Failed
}
