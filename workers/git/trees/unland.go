package trees

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"ralph/workers/git"
)

// Unland takes commits that Merge or Land brought onto the user's branch back
// from it, if they are exactly its newest ones: else the error matches ErrMoved
// and nothing changes. The index follows where the user has staged nothing else;
// the files stay as they are, for Checkpoints.Restore. The commits stay on the
// branches of their agents.
func (t *Trees) Unland(ctx context.Context, commits []string) error {
	unlock, err := t.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err = t.recover(ctx); err == nil {
		err = t.unland(ctx, commits)
	}
	if err != nil {
		return fmt.Errorf("take commits back: %w", err)
	}
	return nil
}

func (t *Trees) unland(ctx context.Context, commits []string) error {
	if len(commits) == 0 {
		return nil
	}
	for _, c := range commits {
		if !isHash(c) {
			return fmt.Errorf("commit %q: %w", c, git.ErrBadName)
		}
	}
	if what, _ := t.busy(); what != "" {
		return &git.Error{Op: "update-ref", Path: t.loc.Root, Err: fmt.Errorf("%s is in progress", what), Hint: "finish or abort it first"}
	}
	release, err := t.user().LockIndex(ctx, lockWait)
	if err != nil {
		return err
	}
	defer release()
	head, branch, err := t.user().Head(ctx)
	if err != nil {
		return err
	}
	if branch == "" || !slices.Contains(commits, head) {
		return ErrMoved
	}
	old := head
	for slices.Contains(commits, old) {
		if old, err = t.tip(ctx, old+"^1"); err != nil {
			return err
		}
	}
	if old == "" {
		return ErrMoved
	}
	got, err := t.between(ctx, old, head)
	if err != nil {
		return err
	}
	want := slices.Clone(commits)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, slices.Compact(want)) {
		return ErrMoved
	}
	return t.stepBack(ctx, head, old, "refs/heads/"+branch)
}

// stepBack sets the branch back first: then a crash leaves the commits' changes
// staged, from where both ways are open.
func (t *Trees) stepBack(ctx context.Context, head, old, branch string) error {
	var q queue
	if _, err := load(t.queuePath(), &q); err != nil {
		return err
	}
	if q.Integration != "" && q.Integration != head {
		return fmt.Errorf("%w: other work waits on top of them", ErrMoved)
	}
	changes, err := t.changed(ctx, head, old)
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	p := t.user()
	if _, _, err := p.Run(ctx, git.Call{Args: []string{"update-ref", "-m", "ralph: undo", branch, old, head}}); err != nil {
		return err
	}
	q.Integration = ""
	if err := t.keepQueue(ctx, q, old); err != nil {
		return err
	}
	var paths []string
	for _, c := range changes {
		paths = append(paths, c.path)
	}
	have, err := entries(ctx, p, "", paths)
	if err != nil {
		return err
	}
	var steps []step
	for _, c := range changes {
		s := step{Path: []byte(c.path), OldMode: c.oldMode, OldHash: c.oldHash, NewMode: c.newMode, NewHash: c.newHash}
		if e, ok := have[c.path]; ok == (c.oldMode != modeNone) && (!ok || e.mode == c.oldMode && e.hash == c.oldHash && e.stage == "0") {
			steps = append(steps, s)
		}
	}
	next, remove, err := t.nextIndex(ctx, steps, have)
	if err != nil {
		return err
	}
	defer remove()
	return rename(next, filepath.Join(t.loc.GitDir, "index"))
}
