package trees

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"ralph/workers/regular"
	"ralph/workers/tempdir"
)

// linked lists the linked worktrees of the user's repository that a former version
// of Ralph registered: their directories below worktrees, with their .git files.
func (t *Trees) linked() map[string]string {
	worktrees := filepath.Join(t.loc.CommonDir, "worktrees")
	entries, err := os.ReadDir(worktrees)
	if err != nil {
		return nil // there are none
	}
	list := map[string]string{}
	for _, e := range entries {
		old := filepath.Join(worktrees, e.Name())
		entry, ok := readSmall(filepath.Join(old, "gitdir"))
		if ok && filepath.Base(entry) == ".git" && filepath.Dir(filepath.Dir(entry)) == t.home() {
			list[old] = entry
		}
	}
	return list
}

// convertLinked makes private clones of the agents' trees that a former version of
// Ralph registered as linked worktrees of the user's repository, and removes those
// that it kept for later agents. Files, branches and commits stay; the index goes
// along. It may be cut off and done again. The caller holds the lock.
func (t *Trees) convertLinked(ctx context.Context) error {
	var errs []error
	for old, entry := range t.linked() {
		dir := filepath.Dir(entry)
		agent := filepath.Base(dir)
		info, err := os.Lstat(entry)
		switch {
		case err == nil && info.IsDir(): // it was converted already
		case strings.HasPrefix(agent, sparePrefix):
			err = tempdir.Clear(dir)
		case checkAgent(agent) == nil:
			err = t.convert(ctx, agent, old)
		default:
			continue
		}
		if errors.Is(err, ErrUnknown) || errors.Is(err, os.ErrNotExist) {
			err = nil // nothing is known of it but the directory
		}
		if err == nil {
			err = tempdir.Clear(old)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// convert makes a private clone of the tree of one agent; old is the repository's
// part of its linked worktree.
func (t *Trees) convert(ctx context.Context, agent, old string) error {
	r, err := t.recall(ctx, agent)
	if err != nil {
		return err
	}
	if info, err := os.Lstat(t.dir(agent)); err != nil || !info.IsDir() {
		return err // Add makes it anew
	}
	if err := t.place(&r, false); err != nil {
		return err
	}
	head, err := t.tip(ctx, r.Ref)
	if err != nil {
		return err
	}
	admin := t.admin(r.Admin)
	if index, err := regular.Read(filepath.Join(old, "index"), maxIndexBytes); err == nil {
		if err := os.WriteFile(filepath.Join(admin, "index"), index, 0o600); err != nil {
			return err
		}
	}
	was, _ := readSmall(filepath.Join(old, "HEAD"))
	if err := t.install(ctx, r, first(head, r.Head)); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(old, "modules"), filepath.Join(t.dir(agent), ".git", "modules")); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrExist) {
		return err
	}
	ref, symbolic := strings.CutPrefix(was, "ref: ")
	if isHash(was) || symbolic && plainRef(ref) {
		root, err := t.openTree(agent)
		if err != nil {
			return err
		}
		defer func() { _ = root.Close() }()
		if err := writeIn(root, ".git/HEAD", []byte(was+"\n")); err != nil {
			return err
		}
	}
	return t.save(t.recordPath(agent), r)
}
