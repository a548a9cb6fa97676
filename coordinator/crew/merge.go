package crew

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"ralph/coordinator/prompt"
	"ralph/memory/text"
	"ralph/workers/agent"
	"ralph/workers/git"
	"ralph/workers/git/trees"
)

// maxMends is how often in a row somebody is set to resolve what does not fit.
const maxMends = 2

// settle gives a member its tree.
func (c *Crew) settle(ctx context.Context, m *member) error {
	if c.o.Trees == nil {
		c.mu.Lock()
		m.Worktree, m.root = c.o.Root, c.o.Root
		c.mu.Unlock()
		return nil
	}
	c.mu.Lock()
	o := trees.AddOptions{Agent: m.ID, Base: m.base}
	if m.base == "" {
		o.Content = m.content
	}
	c.mu.Unlock()
	t, err := c.o.Trees.Add(ctx, o)
	if err != nil {
		if t.Branch != "" {
			c.set(m, func(a *Agent) { a.Branch = strings.TrimPrefix(t.Branch, "refs/heads/") })
		}
		return err
	}
	c.mu.Lock()
	m.Worktree, m.root, m.Branch, m.base = t.Dir, t.Root, strings.TrimPrefix(t.Branch, "refs/heads/"), t.Base
	m.linked = nil
	for _, dir := range t.Linked {
		m.linked = append(m.linked, filepath.Join(c.o.Repository, filepath.FromSlash(dir)))
	}
	c.mu.Unlock()
	c.keep(m)
	return nil
}

// save commits what a member did that did not get there, so that it is not lost
// with its tree.
func (c *Crew) save(ctx context.Context, m *member) {
	work, err := c.o.Trees.Commit(ctx, m.ID, message(c.look(m), "unfinished"))
	switch {
	case errors.Is(err, git.ErrNothingToCommit), errors.Is(err, trees.ErrUnknown):
		return
	case err != nil:
		c.o.Warn(fmt.Sprintf("the work of agent %s is in %s, and not committed: %v", m.ID, m.Worktree, err))
		return
	}
	c.set(m, func(a *Agent) { a.Commit, a.Files = work.Hash, paths(work.Files) })
	c.keep(m)
	c.shut(m)
}

// message is the message of a commit of an agent's work. Nothing that a plan or a
// model wrote reaches the terminal of whoever reads the history as more than text.
func message(a Agent, note string) string {
	subject := text.VisibleLine(a.Label)
	if note != "" {
		subject += " (" + note + ")"
	}
	body := ""
	if content := strings.TrimSpace(a.Result); content != "" && content != a.Label && note == "" {
		if r := []rune(content); len(r) > 2000 {
			content = string(r[:2000]) + "…"
		}
		body = "\n\n" + text.Visible(content)
	}
	return subject + body
}

func paths(files []git.FileChange) []string {
	list := make([]string, len(files))
	for i, f := range files {
		list[i] = f.Path
	}
	return list
}

// hand commits what an agent did whose checks passed, and merges it.
func (c *Crew) hand(ctx context.Context, m *member) error {
	if c.o.Trees == nil {
		c.become(m, Done, "")
		c.set(m, func(a *Agent) { a.Landing = Merged })
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	a := c.look(m)
	work, err := c.o.Trees.Commit(ctx, m.ID, message(a, ""))
	switch {
	case err == nil:
		c.set(m, func(a *Agent) { a.Commit, a.Files = work.Hash, paths(work.Files) })
	case !errors.Is(err, git.ErrNothingToCommit): // what it did before it was stopped is committed already
		return fmt.Errorf("commit the work of %s: %w", m.ID, err)
	}
	c.leftOut(m, work.LeftOut)
	if len(work.Unrecorded) > 0 {
		c.become(m, Failed, fmt.Sprintf("its work cannot be merged whole, and stays in %s: %s", m.Worktree, strings.Join(work.Unrecorded, ", ")))
		return nil
	}
	if m.proven != "" && m.proven != work.Tree {
		return fmt.Errorf("merge the work of %s: its files changed after they were checked", m.ID)
	}
	if err = c.merge(ctx, m); !errors.Is(err, git.ErrNothingToCommit) {
		return err
	}
	c.become(m, Done, "")
	c.set(m, func(a *Agent) { a.Landing, a.Commit, a.Files = Unchanged, "", nil })
	c.drop(ctx, m, len(work.LeftOut) > 0)
	return nil
}

// leftOut says what of an agent's changes is not passed on.
func (c *Crew) leftOut(m *member, list []string) {
	if len(list) > 0 {
		c.o.Warn(fmt.Sprintf("of the changes of agent %s not passed on: %s", m.ID, strings.Join(list, ", ")))
	}
}

// removeTree removes the tree of an agent. It belongs to what has happened to the
// agent's work already, so that a stop does not end it in the middle.
func (c *Crew) removeTree(ctx context.Context, id string, keepBranch bool) error {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterTime)
	defer cancel()
	return c.o.Trees.Remove(bounded, id, keepBranch)
}

// drop removes the tree of an agent whose work is in the user's, or that has none.
func (c *Crew) drop(ctx context.Context, m *member, keepBranch bool) {
	if err := c.removeTree(ctx, m.ID, keepBranch); err != nil {
		c.o.Warn(fmt.Sprintf("the tree of agent %s stays: %v", m.ID, err))
		return
	}
	c.set(m, func(a *Agent) {
		a.Worktree = ""
		if !keepBranch {
			a.Branch = ""
		}
	})
}

// merge brings the committed work of an agent into the user's tree. A stop does
// not end it in the middle.
func (c *Crew) merge(ctx context.Context, m *member) error {
	c.landing.Lock()
	defer c.landing.Unlock()
	return c.bring(ctx, m)
}

// bring is merge for one who holds landing.
func (c *Crew) bring(ctx context.Context, m *member) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.set(m, func(a *Agent) { a.Landing, a.Doing = Merging, "is merged" })
	c.keep(m) // should Ralph be killed now, the next one looks what came of it
	c.o.Landing(ctx)
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterTime)
	defer cancel()
	got, err := c.o.Trees.Merge(bounded, m.ID, message(c.look(m), ""))
	if err != nil {
		c.set(m, func(a *Agent) { a.Landing = Unmerged })
		return fmt.Errorf("merge the work of %s: %w", m.ID, err)
	}
	c.become(m, Done, "")
	switch {
	case len(got.Conflicts) > 0:
		c.conflict(m, got)
	case !got.Landed:
		c.set(m, func(a *Agent) {
			a.Landing, a.Problem = Held, heldText(got)
		})
		c.tellLanding(m)
	default:
		next := c.landed(bounded, m, got)
		c.alsoLanded(bounded, got)
		if next != nil {
			if err := c.bring(ctx, next); err != nil {
				c.o.Warn(err.Error())
			}
			c.become(next, "", "") // it was over before
			c.keep(next)
		}
	}
	return nil
}

func heldText(got trees.Merge) string {
	text := "merged, and not put into your tree"
	if len(got.Held) > 0 {
		text += ": you changed " + strings.Join(got.Held, ", ")
	}
	if got.Why != "" {
		text += " (" + got.Why + ")"
	}
	return text
}

// landed notes that the work of an agent is in the user's tree, and that of the
// one whose conflict it resolved with it. It gives the one whose work can be
// merged only now.
func (c *Crew) landed(ctx context.Context, m *member, got trees.Merge) (next *member) {
	c.set(m, func(a *Agent) {
		a.Landing, a.Combined = Merged, got.Combined
		switch {
		case got.Committed && got.Commit == "":
			a.Landing, a.Commit, a.Files = Unchanged, "", nil
		case got.Committed:
			a.Commit = got.Commit
		default:
			a.Problem = "not committed on your branch: " + got.Why
		}
	})
	list := []*member{m}
	c.mu.Lock()
	for _, x := range c.members {
		switch {
		case m.mends == "" || x == m || x.Landing != Conflict || x.ID != m.mends && x.mends != m.mends:
		case m.early && x.ID == m.mends:
			next = x
		default: // it, or one who tried before
			x.Landing, x.Problem = Merged, m.Problem
			if got.Committed {
				x.Commit = got.Commit
			}
			list = append(list, x)
		}
	}
	c.mu.Unlock()
	for _, x := range list {
		c.keep(x) // before its tree goes
		// A commit that the user's branch has not is on the agent's alone.
		c.drop(ctx, x, !got.Committed)
		c.keep(x)
		c.tellLanding(x)
	}
	return next
}

// TakenBack notes that commits left the user's branch by an undo, or with undone false
// that they came to it again by a redo: the agents whose work they are say so.
func (c *Crew) TakenBack(commits []string, undone bool) {
	from, to := Merged, TakenBack
	if !undone {
		from, to = to, from
	}
	c.mu.Lock()
	var list []*member
	for _, m := range c.members {
		if m.Landing == from && slices.Contains(commits, m.Commit) {
			m.Landing = to
			list = append(list, m)
		}
	}
	c.mu.Unlock()
	for _, m := range list {
		c.keep(m)
	}
}

// conflict has an agent of the same parent resolve what does not fit.
func (c *Crew) conflict(m *member, got trees.Merge) {
	var files []string
	for _, x := range got.Conflicts {
		files = append(files, x.Path)
	}
	slices.Sort(files)
	files = slices.Compact(files)
	c.mu.Lock()
	m.Landing, m.Problem = Conflict, "it does not fit what was merged before: "+strings.Join(files, ", ")
	of := m
	early := got.Earlier
	if other := c.find(m.mends); other != nil && !early {
		of, early = other, m.early
	}
	of.tries++
	give := of.tries > maxMends
	a := c.shown(of)
	c.mu.Unlock()
	c.keep(m)
	c.tellLanding(m)
	if give || got.ConflictCommit == "" {
		return
	}
	task, err := prompt.Resolve(a.ID, a.Task, files)
	if err == nil {
		err = c.enlistMender(of, task, files, got.ConflictCommit, early)
	}
	if err != nil {
		c.o.Warn(fmt.Sprintf("nobody resolves the conflict of agent %s: %v", a.ID, err))
	}
}

// enlistMender makes the agent that resolves a conflict.
func (c *Crew) enlistMender(of *member, task string, files []string, content string, early bool) error {
	life := c.life()
	if life == nil || life.Err() != nil {
		return errors.New("no work is going on")
	}
	taken := c.taken(life)
	c.mu.Lock()
	if err := c.o.Pool.Allows(of.Parent, of.Depth, 1); err != nil {
		c.mu.Unlock()
		return err
	}
	now := c.o.Now().UTC()
	m := newMember(Agent{ID: freeName("resolve_"+of.ID, taken), Parent: of.Parent, Depth: of.Depth, Label: "resolve the conflict of " + of.ID, Task: task, State: Waiting, Since: now, Beat: now})
	m.files, m.early, m.Errand = files, early, of.Errand
	m.check, m.mends, m.content, m.budget, m.round = of.check, of.ID, content, of.budget, c.round
	c.members = append(c.members, m)
	c.mu.Unlock()
	c.keep(m)
	c.schedule()
	return nil
}

// Merge merges the work of one agent that has ended, also one that did not get
// there, or puts into the user's tree what is merged and was held. It says in a
// sentence what came of it.
func (c *Crew) Merge(ctx context.Context, id string) (string, error) {
	if c.o.Trees == nil {
		return "", errors.New("merge: without git all work in one tree, and there is nothing to merge")
	}
	c.mu.Lock()
	m := c.find(id)
	switch {
	case m == nil:
		defer c.mu.Unlock()
		return "", fmt.Errorf("merge %s: %w; there are: %s", id, ErrNoAgent, names(c.members))
	case !m.settled():
		defer c.mu.Unlock()
		return "", fmt.Errorf("merge %s: it is %s; its work is merged when it is done", id, m.State)
	case m.Landing == Merged || m.Landing == Unchanged || m.Landing == Merging:
		defer c.mu.Unlock()
		return "", fmt.Errorf("merge %s: its work is %s", id, m.Landing)
	case m.Landing == Conflict && c.mending(id):
		defer c.mu.Unlock()
		return "", fmt.Errorf("merge %s: another agent resolves its conflict just now", id)
	}
	held, before, problem := m.Landing == Held, m.Landing, m.Problem
	if !held {
		m.Landing = Merging // nobody else merges or resumes it meanwhile
	}
	c.mu.Unlock()
	if held {
		return c.land(ctx, m)
	}
	if left := c.marked(m); left != "" {
		return "", fmt.Errorf("merge %s: %s", id, left)
	}
	a := c.look(m)
	work, err := c.o.Trees.Commit(ctx, id, message(a, ""))
	switch {
	case err == nil:
		c.set(m, func(a *Agent) { a.Commit, a.Files = work.Hash, paths(work.Files) })
	case !errors.Is(err, git.ErrNothingToCommit):
		c.set(m, func(a *Agent) { a.Landing = before })
		return "", fmt.Errorf("merge %s: %w", id, err)
	}
	err = c.merge(ctx, m)
	c.mu.Lock()
	switch m.Landing {
	case Merged:
		if m.State = Done; m.Problem == problem {
			m.Problem = "" // what kept it from being merged does so no more
		}
	case Merging, Unmerged:
		m.Landing = before
	}
	m.came = ""
	c.mu.Unlock()
	c.keep(m)
	c.schedule()
	a = c.look(m)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: %s", id, strings.TrimSpace(a.standing()+". "+a.Problem)), nil
}

// land puts what is merged into the user's tree.
func (c *Crew) land(ctx context.Context, m *member) (string, error) {
	c.landing.Lock()
	defer c.landing.Unlock()
	c.o.Landing(ctx)
	got, err := c.o.Trees.Land(ctx)
	if err != nil {
		return "", fmt.Errorf("merge %s: %w", m.ID, err)
	}
	c.alsoLanded(ctx, got)
	c.schedule()
	if c.look(m).Landing == Held {
		c.set(m, func(a *Agent) { a.Problem = heldText(got) })
		return m.ID + ": " + heldText(got), nil
	}
	return fmt.Sprintf("%s: its work is in your tree", m.ID), nil
}

// Resume goes on with an agent that was stopped or did not get there; text is
// what it is told, "" is to go on. It gives the agent's id.
func (c *Crew) Resume(id, text string) error {
	return c.goOn(id, func(m *member) { m.goText, m.fresh = text, false })
}

// goOn begins the work of a member that has ended anew, after set.
func (c *Crew) goOn(id string, set func(*member)) error {
	c.mu.Lock()
	m := c.find(id)
	switch {
	case m == nil:
		defer c.mu.Unlock()
		return fmt.Errorf("resume %s: %w; there are: %s", id, ErrNoAgent, names(c.members))
	case m.busy() || m.State == Done || m.Landing == Merged || m.Landing == Merging || m.Landing == Held:
		defer c.mu.Unlock()
		return fmt.Errorf("resume %s: %w: it is %s", id, ErrNotStopped, m.standing())
	}
	set(m)
	m.State, m.resumed, m.untold, m.fault = Waiting, true, false, nil
	m.Since, m.Problem, m.Landing = c.o.Now().UTC(), "", Unmerged
	if m.budget = c.o.Budget(); m.round != c.round { // else what it did counts for the same work
		m.before, m.did = agent.Spent{Turns: m.Turns, Usage: m.Usage, CostUSD: m.CostUSD}, Tally{}
	}
	m.round = c.round
	if m.Errand == "" {
		m.Parent = c.o.Top
	} else {
		m.budget = m.budget.Share(m.limit)
	}
	c.mu.Unlock()
	c.keep(m)
	c.schedule()
	return nil
}

// Prune removes the trees and branches of agents that are not at work, and
// forgets them. It says whose.
func (c *Crew) Prune(ctx context.Context, ids []string) (gone []string, err error) {
	for _, id := range ids {
		c.mu.Lock()
		m := c.find(id)
		switch {
		case m == nil:
			err = fmt.Errorf("prune %s: %w; there are: %s", id, ErrNoAgent, names(c.members))
		case !m.settled():
			err = fmt.Errorf("prune %s: it is %s", id, m.State)
		}
		c.mu.Unlock()
		if err != nil {
			return gone, err
		}
		if c.o.Trees != nil && (m.Branch != "" || m.Worktree != "") {
			if err := c.o.Trees.Remove(ctx, id, false); err != nil && !errors.Is(err, trees.ErrUnknown) {
				return gone, fmt.Errorf("prune %s: %w", id, err)
			}
		}
		c.mu.Lock()
		m.Worktree, m.Branch = "", ""
		c.mu.Unlock()
		c.keep(m)
		c.shut(m)
		c.mu.Lock()
		c.members = slices.DeleteFunc(c.members, func(x *member) bool { return x == m })
		c.mu.Unlock()
		gone = append(gone, id)
	}
	return gone, nil
}
