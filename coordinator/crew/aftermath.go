package crew

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ralph/workers/git/trees"
)

// Adopt takes up the agents whose trees or branches are there and that are not
// known: dirs, the newest first, are where their journals may be. Of those that
// have none only the tree is known. How far the work of each has come is what its
// tree says: a Ralph that is killed may not have written it down.
func (c *Crew) Adopt(ctx context.Context, dirs []string) error {
	if c.o.Trees == nil {
		return nil
	}
	// A landing that is under way is neither here nor there.
	c.landing.Lock()
	defer c.landing.Unlock()
	list, err := c.o.Trees.List(ctx)
	if err != nil {
		return fmt.Errorf("list the trees of agents: %w", err)
	}
	var errs []error
	at := map[string]trees.Tree{}
	for _, t := range list {
		at[t.Agent] = t
		if _, ok := c.Find(t.Agent); !ok {
			errs = append(errs, c.adopt(t, dirs))
		}
	}
	c.mu.Lock()
	var past []*member
	for _, m := range c.members {
		if m.past && m.settled() {
			past = append(past, m)
		}
	}
	c.mu.Unlock()
	for _, m := range past {
		t, there := at[m.ID]
		c.match(ctx, m, t, there)
	}
	return errors.Join(errs...)
}

// adopt takes up the agent of a tree.
func (c *Crew) adopt(t trees.Tree, dirs []string) error {
	m, err := c.search(t.Agent, dirs)
	if m == nil {
		m = newMember(Agent{ID: t.Agent, Depth: 1, State: Orphaned, Label: "left by an earlier Ralph", Since: t.Time, Ended: t.Time, Beat: t.Time, Problem: t.Broken})
		m.past = true
	}
	if !m.settled() {
		m.State, m.Problem = Interrupted, cutOff
	}
	c.mu.Lock()
	if c.find(m.ID) == nil {
		c.members = append(c.members, m)
	}
	c.mu.Unlock()
	return err
}

// match has what is known of an agent of an earlier Ralph agree with its tree.
func (c *Crew) match(ctx context.Context, m *member, t trees.Tree, there bool) {
	if there && t.Base == "" && t.Head == "" { // the rest of one that was being removed
		if err := c.removeTree(ctx, m.ID, false); err != nil {
			c.o.Warn(fmt.Sprintf("the tree of agent %s stays behind: %v", m.ID, err))
		}
		t, there = trees.Tree{}, false
	}
	c.mu.Lock()
	m.past = false
	m.Worktree, m.root, m.Branch = t.Dir, t.Root, strings.TrimPrefix(t.Branch, "refs/heads/")
	if !there {
		switch { // its tree goes when its work has come
		case m.Landing == Merging:
			m.State, m.Landing, m.Problem = Done, Merged, ""
		case (m.Landing == Merged || m.Landing == Unchanged) && m.State == Interrupted:
			m.State, m.Problem = Done, ""
		}
		c.mu.Unlock()
		return
	}
	m.base = t.Base
	if t.Head != t.Base && (m.Commit == "" || m.Landing != Merged) {
		m.Commit = t.Head
	}
	taken := t.Merged != "" && t.Merged == t.Head && t.Merged != t.Base
	switch {
	case m.Landing == Merged || m.Landing == Unchanged:
		if m.State == Interrupted { // before it could be written that it is done
			m.State, m.Problem = Done, ""
		}
	case taken && t.Waits:
		m.State, m.Landing = Done, Held
	case taken:
		m.State, m.Landing, m.Problem = Done, Merged, ""
	case m.Landing == Merging || m.Landing == Held:
		m.Landing = Unmerged
	}
	landed, tidy := m.Landing == Merged, m.Landing == Unchanged
	c.mu.Unlock()
	switch {
	case landed:
		c.landed(ctx, m, trees.Merge{Landed: true, Commit: t.Into, Committed: t.Into != "", Why: "Ralph was cut off while it came into your tree"})
	case tidy:
		c.drop(ctx, m, false)
		c.keep(m)
		c.shut(m)
	}
}

// alsoLanded tells of those whose work waited and has come with that of another.
func (c *Crew) alsoLanded(ctx context.Context, got trees.Merge) {
	c.mu.Lock()
	var held []*member
	for _, m := range c.members {
		if m.Landing == Held {
			held = append(held, m)
		}
	}
	c.mu.Unlock()
	if len(held) == 0 {
		return
	}
	list, err := c.o.Trees.List(ctx)
	if err != nil {
		c.o.Warn(fmt.Sprintf("what became of the work that waited is not known: %v", err))
		return
	}
	for _, m := range held {
		i := slices.IndexFunc(list, func(t trees.Tree) bool { return t.Agent == m.ID })
		if i < 0 || list[i].Waits {
			continue
		}
		got.Commit, got.Committed = list[i].Into, list[i].Into != ""
		c.landed(ctx, m, got)
	}
}

// maxMarked bounds the files in which conflict markers are looked for.
const maxMarked = 8 << 20

// marked says which files one that resolves a conflict leaves with markers in
// them: whatever it says, that is not resolved.
func (c *Crew) marked(m *member) string {
	c.mu.Lock()
	dir, files := m.Worktree, m.files
	if m.mends == "" {
		files = nil
	}
	c.mu.Unlock()
	var left []string
	for _, name := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		info, err := os.Lstat(path)
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxMarked {
			continue // removed, or not a text that could have any
		}
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		text = append([]byte("\n"), text...)
		if bytes.Contains(text, []byte("\n<<<<<<< ")) && bytes.Contains(text, []byte("\n>>>>>>> ")) {
			left = append(left, name)
		}
	}
	if len(left) == 0 {
		return ""
	}
	return "conflict markers (<<<<<<<, >>>>>>>) are left in " + strings.Join(left, ", ")
}
