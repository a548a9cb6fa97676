package trees

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ralph/workers/git"
)

// join makes the commit, if there is something to commit, and puts the worktree
// back on its branch. It gives the head of the branch.
func (t *Trees) join(ctx context.Context, r record, g *gathered, message string) (string, error) {
	parents, tree, err := t.lineage(ctx, g)
	if err != nil {
		return "", err
	}
	for _, m := range g.merging {
		if !slices.Contains(parents, m) {
			parents = append(parents, m)
		}
	}
	head := parents[0]
	old, err := t.treeOf(ctx, head)
	if err != nil {
		return "", err
	}
	if old != tree || len(parents) > 1 {
		if head, err = t.commitTree(ctx, tree, message, parents...); err != nil {
			return "", err
		}
	}
	if head != g.ref {
		old := first(g.ref, strings.Repeat("0", len(head)))
		if err := t.moveRefs(ctx, move{r.Ref, head, old}); err != nil {
			return "", err
		}
	}
	return head, t.settle(ctx, r, g, tree, head)
}

// lineage finds the parents of the next commit and its tree. What the agent
// committed elsewhere than on its branch is not lost: both are parents then, and
// the tree has what both changed. Where that is not possible the files count as
// they were left.
func (t *Trees) lineage(ctx context.Context, g *gathered) (parents []string, tree string, err error) {
	if g.on || g.at == "" || g.at == g.tip {
		return []string{g.tip}, g.tree, nil
	}
	ahead, err := t.within(ctx, g.tip, g.at)
	if err != nil || ahead {
		return []string{g.at}, g.tree, err
	}
	old, err := t.treeOf(ctx, g.at)
	if err != nil {
		return nil, "", err
	}
	behind, err := t.within(ctx, g.at, g.tip)
	if err != nil {
		return nil, "", err
	}
	other := g.at
	if old != g.tree {
		if other, err = t.synthetic(g.tree, "ralph: files beside the branch", g.at); err != nil {
			return nil, "", err
		}
	}
	m, err := t.mergeCommits(ctx, g.tip, other)
	if err != nil {
		return nil, "", err
	}
	tree = m.tree
	if len(m.conflicts) > 0 {
		tree = g.tree
	}
	if behind {
		return []string{g.tip}, tree, nil
	}
	return []string{g.tip, g.at}, tree, nil
}

// commitTree makes a commit by the user.
func (t *Trees) commitTree(ctx context.Context, tree, message string, parents ...string) (string, error) {
	p := t.user()
	who, err := p.Identity(ctx)
	if err != nil {
		return "", err
	}
	args := []string{"commit-tree", tree}
	for _, parent := range parents {
		args = append(args, "-p", parent)
	}
	out, _, err := p.Run(ctx, git.Call{Args: append(args, "-F", "-"), Stdin: []byte(message), Env: who})
	commit := strings.TrimSpace(string(out))
	if err == nil {
		t.known.Store(commit, tree)
	}
	return commit, err
}

// settle keeps the index, as the last commit is, and puts the clone on its branch.
func (t *Trees) settle(ctx context.Context, r record, g *gathered, tree, head string) error {
	p := t.child(r).Plumbing()
	if err := t.follow(ctx, p, g, tree); err != nil {
		return err
	}
	if err := os.Rename(g.index, filepath.Join(t.admin(r.Admin), "index")); err != nil {
		return fmt.Errorf("keep index: %w", err)
	}
	unlock, err := t.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return t.writeClone(ctx, r, head)
}

// follow brings the files and the index that were gathered to a tree.
func (t *Trees) follow(ctx context.Context, p git.Plumbing, g *gathered, tree string) error {
	if tree == g.tree {
		return nil
	}
	// Files that were left out may stand in the way; they stay then.
	_, code, err := p.Run(ctx, git.Call{Args: []string{"read-tree", "-m", "-u", g.tree, tree}, Index: g.index, Allow: []int{1, 128}})
	if err == nil && code != 0 {
		_, _, err = p.Run(ctx, git.Call{Args: []string{"read-tree", tree}, Index: g.index})
	}
	return err
}

// Diff is what differs between the base of an agent and its worktree as it is, by
// what Commit would record, as a patch.
func (t *Trees) Diff(ctx context.Context, agent string) (string, error) {
	var text string
	err := t.compare(ctx, agent, func(p git.Plumbing, base, tree string) (err error) {
		text, err = p.Patch(ctx, base, tree)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("diff of %q: %w", agent, err)
	}
	return text, nil
}

func (t *Trees) compare(ctx context.Context, agent string, do func(p git.Plumbing, base, tree string) error) error {
	r, err := t.find(ctx, agent)
	if err != nil {
		return err
	}
	if !r.Ready {
		head, err := t.tip(ctx, r.Ref)
		if err != nil {
			return err
		}
		return do(t.user(), r.Base, first(head, r.Head))
	}
	g, err := t.gather(ctx, r)
	if err != nil {
		return err
	}
	defer g.remove()
	_, tree, err := t.lineage(ctx, &g)
	if err != nil {
		return err
	}
	return do(t.user(), r.Base, tree)
}
