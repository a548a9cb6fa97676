package coordinator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"ralph/coordinator/loop"
	"ralph/coordinator/plan"
	"ralph/memory"
	"ralph/memory/feature"
	"ralph/memory/markdown"
	"ralph/workers/git"
)

// taskChange is what a turn made of a task of a plan: how that was before, the last mark
// it got, and what the plan had of it after the turn, nil where that is not known.
type taskChange struct {
	Tracker, Path, ID string
	From              plan.Status
	Kept              plan.Kept
	Mark              plan.Mark
	Left              *plan.Kept `json:",omitempty"`
}

// same reports whether two changes are about one task.
func (t *taskChange) same(o *taskChange) bool {
	return t.ID == o.ID && t.Path == o.Path && t.Tracker == o.Tracker
}

// joinTask adds a change to those of a turn, of which the last mark of a task counts.
func joinTask(list []taskChange, t taskChange) []taskChange {
	if i := slices.IndexFunc(list, func(have taskChange) bool { return have.same(&t) }); i >= 0 {
		t.From, t.Kept = list[i].From, list[i].Kept
		list = slices.Delete(list, i, i+1) // the order is that of the last marks
	}
	return append(list, t)
}

// task notes a change of a task in the turn that is under way.
func (c *changes) task(t taskChange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tasks = joinTask(c.tasks, t)
	if c.begun {
		c.writes.task(&t)
	}
}

// knows reports whether the turn that is under way has changed a task already.
func (c *changes) knows(t taskChange) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.tasks, func(have taskChange) bool { return have.same(&t) })
}

// keepTasks keeps with the checkpoint after a turn which tasks were over after it and
// not before, or the other way round: undo and redo change those.
func (c *changes) keepTasks(ctx context.Context, after git.Checkpoint, list []taskChange) {
	list = slices.DeleteFunc(slices.Clone(list), func(t taskChange) bool { return t.From.Open() && t.Mark.Status.Open() })
	if len(list) == 0 {
		return
	}
	if c.left != nil {
		c.left(ctx, list)
	}
	text, err := json.Marshal(list)
	if err == nil {
		_, err = c.points.Annotate(ctx, after, string(text))
	}
	if err != nil {
		c.warn("undo of this work will not open its tasks again: " + err.Error())
	}
}

// noteLeft notes in changes of tasks what their plans have of them now. A plan that a
// program keeps has no more than the marks.
func (c *Coordinator) noteLeft(ctx context.Context, list []taskChange) {
	plans := map[[2]string]*plan.Plan{}
	for i := range list {
		t := &list[i]
		if c.planFile(t.Tracker, t.Path) == "" {
			continue
		}
		at := [2]string{t.Tracker, t.Path}
		p, ok := plans[at]
		if !ok {
			if tracker, _, err := c.planAt(ctx, loop.Settings{Tracker: t.Tracker, Plan: t.Path}); err == nil {
				p, _ = tracker.Load(ctx) // redo does with the marks where it cannot be read
			}
			plans[at] = p
		}
		if p == nil {
			continue
		}
		if now, ok := p.Find(t.ID); ok && now.Status == p.Reads(t.Mark.Status) {
			kept := now.Kept()
			t.Left = &kept
		}
	}
}

// tasksOf returns what keepTasks kept of a turn.
func (c *changes) tasksOf(ctx context.Context, t turn) ([]taskChange, error) {
	text, err := c.points.Annotation(ctx, t.after)
	if err != nil || text == "" {
		return nil, err
	}
	var list []taskChange
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("read tasks of turn %s: %w", t.name, err)
	}
	return list, nil
}

// recordedPlan is a tracker whose writes are recorded as Ralph's.
type recordedPlan struct {
	plan.Tracker
	changes *changes
	path    string // of the plan, relative to the root or absolute
	file    string // the same, absolute; "" where the tracker's own program writes it
}

// Mark implements plan.Tracker. The checkpoint before a turn is from before its first
// change of the plan.
func (r recordedPlan) Mark(ctx context.Context, id string, m plan.Mark) error {
	r.changes.begin(ctx)
	t := taskChange{Tracker: r.Name(), Path: r.path, ID: id, Mark: m}
	known := r.changes.knows(t)
	if !known {
		if p, err := r.Load(ctx); err == nil { // what is wrong with the plan the mark says too
			if was, ok := p.Find(id); ok {
				t.From, t.Kept, known = was.Status, was.Kept(), true
			}
		}
	}
	if known { // before it, because a kill may come between; a mark that was not made changes nothing at an undo
		r.changes.task(t)
	}
	done := r.writing()
	err := r.Tracker.Mark(ctx, id, m)
	done(err == nil)
	return err
}

// Release implements plan.Tracker.
func (r recordedPlan) Release(ctx context.Context, actor string) ([]string, error) {
	r.changes.begin(ctx)
	done := r.writing()
	ids, err := r.Tracker.Release(ctx, actor)
	done(err == nil && len(ids) > 0)
	return ids, err
}

func (r recordedPlan) writing() func(bool) {
	if r.file == "" {
		return func(bool) {}
	}
	return r.changes.writes.writing(r.file)
}

// noteTask notes that the task tool gave a task of RALPH_TASKS.md another status; a task
// without an id is none.
func (c *changes) noteTask(was, now memory.Task) {
	if was.ID == "" || now.ID == "" || now.Status == was.Status {
		return
	}
	c.task(taskChange{Tracker: "markdown", Path: memory.TasksFile, ID: was.ID, From: statusOf(was.Status),
		Kept: plan.Kept{Agent: was.Agent, Result: was.Result, StatusLine: was.StatusLine}, Mark: plan.Mark{Status: statusOf(now.Status), Result: now.Result}})
}

// statusOf returns the word of plans for a status of RALPH_TASKS.md.
func statusOf(s markdown.Status) plan.Status {
	if s == markdown.Pending {
		return plan.Pending
	}
	return plan.Status(s)
}

// followTasks puts the tasks of turns that were undone back to where they were before
// each, and with redo to where they were after, in their plans and in the snapshots of
// runs. A task that was changed since stays. u gets the ids of those that it changed.
func (c *Coordinator) followTasks(ctx context.Context, u *Undone, redo bool) {
	type source struct{ tracker, path string }
	plans := map[source]*openPlan{}
	for _, t := range u.tasks {
		at := source{t.Tracker, t.Path}
		o := plans[at]
		if o == nil {
			o = &openPlan{moved: map[string]plan.Status{}}
			if o.tracker, _, o.err = c.planAt(ctx, loop.Settings{Tracker: t.Tracker, Plan: t.Path}); o.err == nil {
				o.plan, o.err = o.tracker.Load(ctx)
			}
			plans[at] = o
		}
		if err := o.follow(ctx, t, redo); err != nil {
			c.warn(fmt.Sprintf("task %s stays as it is in the plan: %v", t.ID, err))
		}
	}
	for at, o := range plans {
		u.Tasks = append(u.Tasks, slices.Collect(maps.Keys(o.moved))...)
		if c.planFile(at.tracker, at.path) == "" { // its data are the program's that changed the tasks
			u.Kept = slices.DeleteFunc(u.Kept, func(p string) bool { return strings.HasPrefix(p, at.path+"/") })
		}
		c.followSnapshots(at.tracker, at.path, o.moved)
	}
	slices.Sort(u.Tasks)
	c.noteFollowed(u.Tasks, redo)
}

// followSnapshots has the snapshots of runs of a plan say how tasks are now.
func (c *Coordinator) followSnapshots(tracker, path string, moved map[string]plan.Status) {
	if len(moved) == 0 {
		return
	}
	list, err := feature.List(c.features())
	for _, l := range list {
		if t := l.Snapshot.Tracker; l.Err != nil || l.Live || t.Plugin != tracker || t.PlanPath != path {
			continue
		}
		if ferr := c.followSnapshot(l.Name, moved); ferr != nil {
			err = ferr
		}
	}
	if err != nil {
		c.warn("the state of a run does not say which tasks changed: " + err.Error())
	}
}

func (c *Coordinator) followSnapshot(name string, moved map[string]plan.Status) error {
	store, err := feature.Open(c.features(), name)
	if err != nil {
		return err
	}
	snap, ok := store.Found()
	if ok {
		if snap, err = loop.Moved(snap, moved); err == nil {
			err = store.Save(snap)
		}
	}
	if err == nil && ok {
		c.planning.followed(snap)
	}
	return errors.Join(err, store.Close())
}

// openPlan is a plan whose tasks follow an undo or a redo.
type openPlan struct {
	tracker plan.Tracker
	plan    *plan.Plan
	moved   map[string]plan.Status // what it changed, by task
	err     error
}

func (o *openPlan) follow(ctx context.Context, t taskChange, redo bool) error {
	if o.err != nil {
		return o.err
	}
	now, ok := o.plan.Find(t.ID)
	if !ok {
		return nil
	}
	before, after := t.From, o.plan.Reads(t.Mark.Status)
	if before == plan.InProgress { // nobody is at work on it
		before = plan.Pending
	}
	m, seen, next := plan.Mark{Status: before, Actor: cmp.Or(t.Mark.Actor, "ralph"), Back: &t.Kept}, after, before
	if redo {
		m, seen, next = t.Mark, before, after
		m.Back = t.Left
	}
	switch {
	case seen == next:
	case now.Status == next: // the file was put back
		o.moved[t.ID] = next
	case now.Status == seen:
		if err := o.tracker.Mark(ctx, t.ID, m); err != nil {
			return err
		}
		now.Status, o.moved[t.ID] = next, next
	}
	return nil
}

// noteFollowed has RALPH_PROGRESS.md say what became of tasks, because what it says of
// them is not true any more.
func (c *Coordinator) noteFollowed(ids []string, redo bool) {
	s := c.book.opened()
	if s == nil || len(ids) == 0 {
		return
	}
	e := memory.Entry{Title: "undo", Status: "undone", Summary: "the work of " + strings.Join(ids, ", ") + " was taken back", RunID: c.opt.RunID}
	if redo {
		e = memory.Entry{Title: "redo", Status: "done again", Summary: "the work of " + strings.Join(ids, ", ") + " was brought back", RunID: c.opt.RunID}
	}
	if err := s.Progress(e); err != nil {
		c.warn("state: " + hinted(err))
	}
}

// planFile returns the path whose writes are those of a plan, "" where a program writes
// its own data.
func (c *Coordinator) planFile(tracker, path string) string {
	if path == "" || filepath.IsAbs(path) || strings.HasPrefix(tracker, "beads") {
		return ""
	}
	return filepath.Join(c.opt.Root, path)
}
