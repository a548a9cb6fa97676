package trees

import (
	"context"
	"strings"

	"ralph/workers/git"
)

// integrate makes the commit that has the work on top of what is there. "" means
// that no commit can have it without the user's uncommitted work.
func (t *Trees) integrate(ctx context.Context, g *merging) (string, error) {
	if g.onto == "" {
		return "", nil
	}
	known, err := t.within(ctx, g.r.Base, g.onto)
	if err != nil {
		return "", err
	}
	if known && g.work == g.head {
		return t.integrateCommits(ctx, g)
	}
	x, err := t.mergeTrees(ctx, g.r.Base, g.onto, g.work)
	if err != nil {
		return "", err
	}
	if len(x.conflicts) > 0 && !known {
		// With what was committed when the agent began, without the user's work.
		before, err := t.tip(ctx, g.r.Base+"^1")
		if err != nil || before == "" {
			return "", err
		}
		pure, err := t.mergeTrees(ctx, g.r.Base, before, g.work)
		if err != nil || len(pure.conflicts) > 0 {
			return "", err
		}
		if x, err = t.mergeTrees(ctx, before, g.onto, pure.tree); err != nil {
			return "", err
		}
	}
	if len(x.conflicts) > 0 {
		return "", t.conflict(g, x, g.onto)
	}
	if tree, err := t.treeOf(ctx, g.onto); err != nil || tree == x.tree {
		return g.onto, err
	}
	return t.commitTree(ctx, x.tree, g.message, g.onto)
}

// integrateCommits brings what an agent committed since it was merged last in one
// commit, however many it made itself.
func (t *Trees) integrateCommits(ctx context.Context, g *merging) (string, error) {
	if behind, err := t.within(ctx, g.head, g.onto); err != nil || behind {
		return g.onto, err
	}
	out, _, err := t.user().Run(ctx, git.Call{Args: []string{"log", "-1", "--no-show-signature", "--format=%P%n%B", g.head, "--"}})
	if err != nil {
		return "", err
	}
	if parent, message, _ := strings.Cut(string(out), "\n"); parent == g.onto && strings.TrimSpace(message) == strings.TrimSpace(g.message) {
		return g.head, nil
	}
	since := ""
	if g.r.Merged != "" && g.r.Into != "" {
		if known, err := t.within(ctx, g.r.Into, g.onto); err != nil {
			return "", err
		} else if known {
			since = g.r.Merged
		}
	}
	var x merged
	if since != "" {
		x, err = t.mergeTrees(ctx, since, g.onto, g.head)
	} else {
		x, err = t.mergeCommits(ctx, g.onto, g.head)
	}
	if err != nil {
		return "", err
	}
	if len(x.conflicts) > 0 {
		return "", t.conflict(g, x, g.onto)
	}
	if tree, err := t.treeOf(ctx, g.onto); err != nil || tree == x.tree {
		return g.onto, err
	}
	return t.commitTree(ctx, x.tree, g.message, g.onto)
}

// conflict fills in what a resolver needs.
func (t *Trees) conflict(g *merging, x merged, onto string) (err error) {
	g.m.Conflicts = x.conflicts
	g.m.Why = "it conflicts with what was merged before"
	g.m.ConflictCommit, err = t.synthetic(x.tree, "ralph: conflict of "+g.r.Agent, onto, g.head)
	return err
}
