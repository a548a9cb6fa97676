package trees

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"ralph/workers/git"
)

// Unland takes a branch of the user's from the commit to back to the commit from,
// if all between them is what Merge and Land brought there: the commits of agents
// too. Where there is nothing of that nothing is done; where there is something
// else as well, or to is no longer checked out, the error matches ErrMoved and
// nothing changes. The index follows where the user has staged nothing else; the
// files stay as they are, for Checkpoints.Restore.
func (t *Trees) Unland(ctx context.Context, from, to string) error {
	return t.moveLanded(ctx, from, to, to, from, "ralph: undo")
}

// Reland takes a branch of the user's from the commit from to the commit to again, where
// Unland has taken it back, as Unland does.
func (t *Trees) Reland(ctx context.Context, from, to string) error {
	return t.moveLanded(ctx, from, to, from, to, "ralph: redo")
}

// Landed lists the commits by which a branch of the user's went from one commit to
// another, if all of them are what Merge and Land brought there, the newest first. It
// lists none otherwise.
func (t *Trees) Landed(ctx context.Context, from, to string) ([]string, error) {
	unlock, err := t.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	var q queue
	if _, err = t.load(t.queuePath(), &q); err != nil || !q.landed(from, to) {
		return nil, err
	}
	return t.between(ctx, from, to)
}

// landed reports whether landings alone led from one commit to another.
func (q queue) landed(from, to string) bool {
	at := to
	for _, l := range slices.Backward(q.Landings) {
		if at != from && l.To == at {
			at = l.From
		}
	}
	return at == from
}

// moveLanded moves a branch between the two ends of what was landed.
func (t *Trees) moveLanded(ctx context.Context, from, to, old, recent, why string) error {
	for _, c := range []string{from, to} {
		if !isHash(c) {
			return fmt.Errorf("move the branch: commit %q: %w", c, git.ErrBadName)
		}
	}
	unlock, err := t.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err = t.recover(ctx); err == nil {
		err = t.moveChecked(ctx, from, to, old, recent, why)
	}
	if err != nil {
		return fmt.Errorf("move the branch to %s: %w", recent, err)
	}
	return nil
}

func (t *Trees) moveChecked(ctx context.Context, from, to, old, recent, why string) error {
	var q queue
	if _, err := t.load(t.queuePath(), &q); err != nil {
		return err
	}
	if !q.landed(from, to) {
		got, err := t.between(ctx, from, to)
		if err == nil && slices.ContainsFunc(q.Landings, func(l landing) bool { return slices.Contains(got, l.To) }) {
			err = fmt.Errorf("%w, of somebody else", ErrMoved)
		}
		return err
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
	if branch == "" || head != old {
		return ErrMoved
	}
	if q.Integration != "" && q.Integration != head {
		return fmt.Errorf("%w: other work waits on top of them", ErrMoved)
	}
	return t.stepBack(ctx, q, head, recent, "refs/heads/"+branch, why)
}

// between lists the commits that a branch went on by.
func (t *Trees) between(ctx context.Context, old, recent string) ([]string, error) {
	out, _, err := t.user().Run(ctx, git.Call{Args: []string{"rev-list", recent, "^" + old, "--"}})
	return strings.Fields(string(out)), err
}

// stepBack sets the branch back first: then a crash leaves the commits' changes
// staged, from where both ways are open.
func (t *Trees) stepBack(ctx context.Context, q queue, head, old, branch, why string) error {
	changes, err := t.changed(ctx, head, old)
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	p := t.user()
	if _, _, err := p.Run(ctx, git.Call{Args: []string{"update-ref", "-m", why, branch, old, head}}); err != nil {
		return err
	}
	q.Integration, q.Onto = "", ""
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
