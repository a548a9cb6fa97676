package trees

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"ralph/workers/exec"
	"ralph/workers/git"
)

// recall gives the record of an agent, made again when only git knows of it: the
// user can have removed what is ignored while it was at work. The caller holds
// the lock.
func (t *Trees) recall(ctx context.Context, agent string) (record, error) {
	r, err := t.recordOf(agent)
	if err == nil && r.Gone {
		if err := t.raze(ctx, r); err != nil {
			return record{}, err
		}
		return record{}, fmt.Errorf("agent %q: %w", agent, ErrUnknown)
	}
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
	if err == nil && r.Ready && !r.Gone {
		_, err = os.Lstat(t.admin(r.Admin))
	}
	if err == nil && !r.Gone || err != nil && !errors.Is(err, ErrUnknown) && !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	unlock, err := t.lock(ctx)
	if err != nil {
		return r, err
	}
	defer unlock()
	if err := t.convertLinked(ctx); err != nil {
		return r, err
	}
	return t.recall(ctx, agent)
}

// exists says that there is such a commit.
func (t *Trees) exists(ctx context.Context, commit string) (bool, error) {
	_, code, err := t.user().Run(ctx, git.Call{Args: []string{"cat-file", "-e", commit + "^{commit}"}, Allow: []int{1, 128}})
	return code == 0 && err == nil, err
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
		if err := t.reunite(r); err != nil {
			return r, err
		}
		return r, t.mendAdmin(ctx, r, head)
	}
	if err := t.dropDead(r.Agent); err != nil {
		return r, err
	}
	if err := t.place(&r, true); err != nil {
		return r, err
	}
	r.Head, r.Ready, r.Maker = head, false, exec.TempName(making)
	if err := t.save(t.recordPath(r.Agent), r); err != nil {
		return r, err
	}
	return r, t.install(ctx, r, head)
}

// mendAdmin makes Ralph's part of a tree right, and the clone as far as the agent
// cannot go on with it; files and commits are the agent's work and stay.
func (t *Trees) mendAdmin(ctx context.Context, r record, head string) error {
	admin := t.admin(r.Admin)
	if _, err := os.Lstat(filepath.Join(admin, "index")); err != nil {
		if err := t.makeAdmin(r); err != nil {
			return err
		}
		if _, _, err = t.child(r).Plumbing().Run(ctx, git.Call{Args: []string{"read-tree", head}}); err != nil {
			return err
		}
	}
	if !t.readClone(r).whole {
		return t.writeClone(ctx, r, head)
	}
	root, err := t.openTree(r.Agent)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for _, lock := range []string{"index.lock", "HEAD.lock", r.Ref + ".lock"} { // of a command that was killed with its agent
		if err := root.RemoveAll(".git/" + lock); err != nil {
			return err
		}
	}
	if _, err := root.Lstat(".git/index"); err != nil {
		if err := t.giveIndex(r); err != nil {
			return err
		}
	}
	snapshot := t.snapshotOf(r.Agent)
	if snapshot != "" {
		return t.syncSnapshot(ctx, snapshot)
	}
	if snapshot, err = t.takeSnapshot(ctx); err != nil {
		return err
	}
	return writeIn(root, ".git/objects/info/alternates", []byte(alternatesTo(snapshot)+"\n"))
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
	return r, t.save(t.recordPath(agent), r)
}
