package trees

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ralph/workers/git"
)

// recall gives the record of an agent, made again when only git knows of it: the
// user can have removed what is ignored while it was at work. The caller holds
// the lock.
func (t *Trees) recall(ctx context.Context, agent string) (record, error) {
	r, err := t.recordOf(agent)
	if !errors.Is(err, ErrUnknown) {
		return r, err
	}
	if r, aerr := t.adopt(ctx, agent); aerr != nil || r.Agent != "" {
		return r, aerr
	}
	return r, err
}

// find is recall for one who does not hold the lock.
func (t *Trees) find(ctx context.Context, agent string) (record, error) {
	r, err := t.recordOf(agent)
	if !errors.Is(err, ErrUnknown) {
		return r, err
	}
	unlock, err := t.lock(ctx)
	if err != nil {
		return r, err
	}
	defer unlock()
	return t.recall(ctx, agent)
}

// mendHurt makes right what keeps git from reading or writing the branch and the
// HEAD of an agent that has ended: an agent can write there what it likes, and a
// git that is killed leaves locks and empty files.
func (t *Trees) mendHurt(ctx context.Context, r record) error {
	if err := t.mendBranch(ctx, r); err != nil {
		return err
	}
	for _, name := range []string{"HEAD", "commondir"} {
		if _, ok := readSmall(filepath.Join(t.admin(r.Admin), name)); !ok && r.Ready {
			return t.mendAdmin(ctx, r, r.Head)
		}
	}
	return nil
}

// mendBranch sets a branch that names no commit back to the last one known.
func (t *Trees) mendBranch(ctx context.Context, r record) error {
	path := filepath.Join(t.loc.CommonDir, filepath.FromSlash(r.Ref))
	if err := unlockRef(ctx, path); err != nil {
		return err
	}
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // packed, or deleted
	}
	if err != nil {
		return err
	}
	if text, ok := readSmall(path); ok && isHash(text) {
		if text == r.Head {
			return nil
		}
		if ok, err := t.exists(ctx, text); err != nil || ok {
			return err
		}
	}
	if err := removeAll(path); err != nil { // branches below it are the agent's too
		return err
	}
	return t.moveRefs(ctx, move{r.Ref, r.Head, ""})
}

// exists says that there is such a commit.
func (t *Trees) exists(ctx context.Context, commit string) (bool, error) {
	_, code, err := t.user().Run(ctx, git.Call{Args: []string{"cat-file", "-e", commit + "^{commit}"}, Allow: []int{1, 128}})
	return code == 0 && err == nil, err
}

// unlockRef removes the lock of a ref to which nobody writes but an agent that
// has ended; a git that is just ending gets the time for it.
func unlockRef(ctx context.Context, path string) error {
	for end := time.Now().Add(lockWait); time.Now().Before(end); {
		if _, err := os.Lstat(path + ".lock"); err != nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return removeAll(path + ".lock")
}

// mend makes a tree of a record usable again: what a killed Ralph did not finish
// is done again from the last commit of the branch, and what stands as it should
// stays. The caller holds the lock.
func (t *Trees) mend(ctx context.Context, r record) (record, error) {
	head, err := t.tip(ctx, r.Ref)
	if err != nil {
		return r, err
	}
	if head == "" {
		head = r.Head
		if err := t.moveRefs(ctx, move{r.Ref, head, strings.Repeat("0", len(head))}); err != nil {
			return r, err
		}
	}
	if err := t.moveRefs(ctx, move{t.baseRef(r.Agent), r.Base, ""}); err != nil {
		return r, err
	}
	info, err := os.Lstat(t.dir(r.Agent))
	if r.Ready && err == nil && info.IsDir() {
		return r, t.mendAdmin(ctx, r, head)
	}
	if err := t.dropDead(r.Agent); err != nil {
		return r, err
	}
	if err := t.place(&r, true); err != nil {
		return r, err
	}
	r.Head, r.Ready = head, false
	if err := save(t.recordPath(r.Agent), r); err != nil {
		return r, err
	}
	return r, t.install(r, "")
}

// mendAdmin makes the repository's part of a worktree right; the files are the
// agent's work and stay.
func (t *Trees) mendAdmin(ctx context.Context, r record, head string) error {
	admin := t.admin(r.Admin)
	_, err := os.Lstat(filepath.Join(admin, "index"))
	now, whole := readSmall(filepath.Join(admin, "HEAD"))
	if !whole {
		now = ""
	}
	if err == nil {
		err = removeFile(filepath.Join(admin, "index.lock")) // of a command that was killed with its agent
		// Wherever its HEAD is: Commit looks into that.
		return errors.Join(err, t.install(r, now))
	}
	if err := t.install(r, ""); err != nil {
		return err
	}
	_, _, err = t.child(r).Plumbing().Run(ctx, git.Call{Args: []string{"read-tree", head}})
	return err
}

// adopt makes the record of a tree again from what git knows of it, after .ralph
// was lost. Without our ref to its base it is not ours.
func (t *Trees) adopt(ctx context.Context, agent string) (record, error) {
	base, err := t.tip(ctx, t.baseRef(agent))
	if err != nil || base == "" {
		return record{}, err
	}
	r := record{Agent: agent, Base: base, Head: base, Ready: true}
	for _, ref := range []string{"refs/heads/ralph/" + agent, "refs/heads/ralph-" + agent} {
		head, err := t.tip(ctx, ref)
		if err != nil {
			return record{}, err
		}
		if ok, err := t.within(ctx, base, head); err != nil {
			return record{}, err
		} else if ok && head != "" {
			r.Ref, r.Head = ref, head
			break
		}
	}
	if r.Ref == "" {
		if r.Ref, err = t.freeBranch(ctx, agent); err != nil {
			return record{}, err
		}
	}
	for _, name := range t.adminsOf(agent) {
		r.Admin = name
	}
	if r.Admin == "" {
		if err := t.place(&r, false); err != nil {
			return record{}, err
		}
	}
	if info, err := os.Stat(t.admin(r.Admin)); err == nil {
		r.Time = info.ModTime()
	}
	return r, save(t.recordPath(agent), r)
}
