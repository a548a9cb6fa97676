package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"ralph/memory/text"
	"ralph/workers/git"
	"ralph/workers/git/trees"
)

// Undone is what Undo or Redo did.
type Undone struct {
	Files []git.FileChange
	// Kept are files that the turns changed and that stay as they are: the user
	// changed them, or may have.
	Kept []string
	// Commits are those that a branch of the user's lost by Undo, or got again by Redo.
	Commits []string
	// Tasks are the ids of those whose status in their plan followed.
	Tasks []string

	tasks []taskChange // of the turns, in the order in which they follow
}

// turn is a run that changed something, with the checkpoints around it.
type turn struct {
	name          string // begins with git.UndoneTurn when it was undone
	before, after git.Checkpoint
	kept          *git.Checkpoint // nil when all that changed is Ralph's
}

// turns lists the turns of all runs of the project that can be undone, newest first, or
// those that were and can be redone, oldest first.
func (c *changes) turns(ctx context.Context, undone bool) ([]turn, error) {
	list, err := c.points.List(ctx)
	if err != nil {
		return nil, err
	}
	by := map[string]git.Checkpoint{}
	for _, p := range list {
		by[p.ID] = p
	}
	var out []turn
	for _, p := range list {
		name, ok := strings.CutSuffix(p.ID, git.AfterTurn)
		before, both := by[name+git.BeforeTurn]
		if !ok || !both || strings.HasPrefix(name, git.UndoneTurn) != undone {
			continue
		}
		t := turn{name: name, before: before, after: p}
		if k, ok := by[name+git.KeptOfTurn]; ok {
			t.kept = &k
		}
		out = append(out, t)
	}
	if undone {
		slices.Reverse(out)
	}
	return out, nil
}

// undone lists the checkpoints of turns that were undone.
func (c *changes) undone(ctx context.Context) (ids []string) {
	list, err := c.points.List(ctx)
	if err != nil {
		return nil // they stay
	}
	for _, p := range list {
		if strings.HasPrefix(p.ID, git.UndoneTurn) {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// rename gives a turn another name.
func (c *changes) rename(ctx context.Context, t turn, name string) error {
	points := map[string]*git.Checkpoint{git.BeforeTurn: &t.before, git.KeptOfTurn: t.kept, git.AfterTurn: &t.after}
	var old []string
	for _, mark := range []string{git.KeptOfTurn, git.BeforeTurn, git.AfterTurn} {
		if p := points[mark]; p != nil {
			if err := c.points.Name(ctx, *p, name+mark); err != nil {
				return err
			}
			old = append(old, p.ID)
		}
	}
	return c.points.Drop(ctx, old...)
}

// step takes back the last n turns, newest first, or with redo brings back the last n
// that were taken back, and none after other work; it stops at the first that it cannot.
// Before it does anything it tells what becomes of commits and branches.
func (c *changes) step(ctx context.Context, n int, tell func([]string), redo bool) (all Undone, err error) {
	if !redo {
		if err := c.pairLast(ctx); err != nil {
			return all, err
		}
	}
	list, err := c.turns(ctx, redo)
	if err != nil {
		return all, err
	}
	if len(list) == 0 && redo {
		return all, ErrNothingToRedo
	} else if len(list) == 0 {
		return all, ErrNothingToUndo
	}
	list = list[:min(n, len(list))]
	var notes []string
	for _, t := range list {
		if note := c.branchNote(ctx, t, list, redo); note != "" {
			notes = append(notes, note)
		}
	}
	if len(notes) > 0 && tell != nil {
		tell(notes)
	}
	for _, t := range list {
		if err := c.stepOne(ctx, t, redo, &all); err != nil {
			return all, err
		}
	}
	slices.Sort(all.Kept)
	all.Kept = slices.Compact(all.Kept)
	return all, nil
}

func (c *changes) stepOne(ctx context.Context, t turn, redo bool, all *Undone) error {
	to, from, name := t.before, t.after, git.UndoneTurn+t.name
	if redo {
		to, from, name = t.after, t.before, strings.TrimPrefix(t.name, git.UndoneTurn)
	}
	modes, err := c.modesOf(ctx, t, redo)
	if err != nil {
		return err
	}
	done, err := c.points.Restore(ctx, to, from, modes)
	if err != nil {
		return err
	}
	all.Files, all.Kept = append(all.Files, done.Files...), append(all.Kept, done.Kept...)
	if t.kept != nil && !redo {
		kept, err := c.points.Changes(ctx, *t.kept, t.before)
		if err != nil {
			return err
		}
		all.Kept = append(all.Kept, pathsOf(kept)...)
	}
	commits, err := c.moveBranch(ctx, t, redo)
	all.Commits = append(all.Commits, commits...)
	tasks, terr := c.tasksOf(ctx, t)
	if terr != nil {
		c.warn("tasks of the plan stay as they are: " + terr.Error())
	}
	if !redo {
		slices.Reverse(tasks)
	}
	all.tasks = append(all.tasks, tasks...)
	if err != nil {
		err = fmt.Errorf("the files are done, and the branch is where it was: %w", err)
	}
	return errors.Join(err, c.rename(ctx, t, name))
}

// modesOf returns the modes of files that a turn changed, turned round for redo.
func (c *changes) modesOf(ctx context.Context, t turn, redo bool) (git.Modes, error) {
	text, err := c.points.Annotation(ctx, t.before)
	if err != nil {
		return nil, err
	}
	modes := git.ReadModes(text)
	if redo {
		for p, m := range modes {
			modes[p] = git.Mode{Was: m.Left, Left: m.Was}
		}
	}
	return modes, nil
}

// moveBranch takes the commits with which the work of agents came to the user's branch
// in a turn off it, or puts them there again. Where somebody else committed too they stay,
// as commits of the coordinator do.
func (c *changes) moveBranch(ctx context.Context, t turn, redo bool) ([]string, error) {
	from, to := t.before.Head, t.after.Head
	if c.trees == nil || from == "" || to == "" || to == from {
		return nil, nil
	}
	commits, err := c.trees.Landed(ctx, from, to)
	if err != nil || len(commits) == 0 {
		return nil, err
	}
	move := c.trees.Unland
	if redo {
		move = c.trees.Reland
	}
	err = move(ctx, from, to)
	if errors.Is(err, trees.ErrMoved) {
		return nil, nil // it was told before
	}
	if err != nil {
		commits = nil
	}
	return commits, err
}

// branchNote says what becomes of a turn's commits when it is undone, or redone,
// together with the others of a list; "" when there are none.
func (c *changes) branchNote(ctx context.Context, t turn, list []turn, redo bool) string {
	from, to := t.before.Head, t.after.Head
	if c.repo == nil || from == "" || to == "" || to == from {
		return ""
	}
	commits, err := c.trees.Landed(ctx, from, to)
	head, herr := c.repo.Head(ctx)
	// The turns before it in the list move the branch first.
	at := to
	if redo {
		at = from
	}
	reached := err == nil && herr == nil && head == at
	for _, o := range list {
		if o.name == t.name {
			break
		}
		reached = reached || o.before.Head == at && !redo || o.after.Head == at && redo
	}
	switch {
	case len(commits) == 0 && redo:
		return ""
	case len(commits) == 0:
		return "commits stay on the branch, only files are put back: " + short(from) + ".." + short(to)
	case !reached:
		return fmt.Sprintf("the branch stays where it is, because it has other commits since: %s of agents, %s..%s", text.Count(len(commits), "commit"), short(from), short(to))
	case redo:
		return fmt.Sprintf("the branch goes from %s to %s again: %s of agents", short(from), short(to), text.Count(len(commits), "commit"))
	}
	return fmt.Sprintf("the branch goes back from %s to %s, without %s of agents; git branch NAME %s keeps them", short(to), short(from), text.Count(len(commits), "commit"), short(to))
}

func short(hash string) string { return hash[:min(10, len(hash))] }

// Undo takes back what Ralph did in the last n turns, newest first, also turns of
// earlier sessions; it waits for work that is under way. What is not surely Ralph's
// stays. Before anything is done, tell, if any, gets what becomes of commits and
// branches. The error matches ErrNothingToUndo; what was already taken back is returned
// with it.
func (c *Coordinator) Undo(ctx context.Context, n int, tell func(notes []string)) (Undone, error) {
	return c.stepTurns(ctx, n, tell, false)
}

// Redo brings back what the last n calls of Undo took back, as Undo takes back. The error
// matches ErrNothingToRedo also when other work has changed files since.
func (c *Coordinator) Redo(ctx context.Context, n int, tell func(notes []string)) (Undone, error) {
	return c.stepTurns(ctx, n, tell, true)
}

func (c *Coordinator) stepTurns(ctx context.Context, n int, tell func([]string), redo bool) (Undone, error) {
	name, update, did := "undo", takenBack, "The user took back what was changed here before (undo): %s are as they were."
	if redo {
		name, update, did = "redo", mergeChanges, "The user brought back what was taken back before (redo): %s."
	}
	u, err := c.whileIdle(ctx, name, func() (Undone, error) {
		u, err := c.changes.step(ctx, max(n, 1), tell, redo)
		c.followTasks(ctx, &u, redo)
		return u, err
	})
	if err != nil && len(u.Files) == 0 {
		return u, err
	}
	c.crewUndone(ctx, u.Commits, !redo)
	if len(u.Files) > 0 {
		c.mu.Lock()
		c.totals.FilesChanged = update(c.totals.FilesChanged, u.Files)
		c.mu.Unlock()
		c.edits.tell(fmt.Sprintf(did, text.List(pathsOf(u.Files), maxNamed)) + " Read a file again before you rely on what you know of it.")
	}
	return u, err
}

// whileIdle calls do while no work is under way, which it waits for.
func (c *Coordinator) whileIdle(ctx context.Context, name string, do func() (Undone, error)) (Undone, error) {
	if err := c.take(ctx); err != nil {
		return Undone{}, fmt.Errorf("%s: %w", name, err)
	}
	defer c.free()
	if err := c.settled(ctx); err != nil {
		return Undone{}, fmt.Errorf("%s: %w", name, err)
	}
	return do()
}

// crewUndone has agents whose work left the user's branch, or came to it again, say so.
func (c *Coordinator) crewUndone(ctx context.Context, commits []string, undone bool) {
	if len(commits) == 0 {
		return
	}
	if err := c.crew.Adopt(ctx, c.agentDirs()); err != nil {
		c.warn("the agents still say that their work is merged: " + err.Error())
		return
	}
	c.crew.TakenBack(commits, undone)
}
