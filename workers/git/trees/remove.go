package trees

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ralph/workers/git"
)

// maxSpares is how many worktrees are kept for the next agents.
const maxSpares = 4

const sparePrefix = ".spare-"

func (t *Trees) spareDir(admin string) string { return filepath.Join(t.home(), sparePrefix+admin) }

// spares lists the repository's parts of worktrees that wait for the next agent.
func (t *Trees) spares() []string {
	entries, err := os.ReadDir(t.home())
	if err != nil {
		return nil
	}
	var list []string
	for _, e := range entries {
		admin, ok := strings.CutPrefix(e.Name(), sparePrefix)
		if !ok || !e.IsDir() || !plainName(admin) {
			continue
		}
		if info, err := os.Lstat(t.admin(admin)); err == nil && info.IsDir() {
			list = append(list, admin)
		} else {
			_ = removeAll(t.spareDir(admin)) // it is tried again next time
		}
	}
	return list
}

// Close removes the worktrees that were kept for the next agents, so that git
// lists only those that belong to somebody. Trees can still be used after it.
func (t *Trees) Close(ctx context.Context) error {
	if len(t.spares()) == 0 {
		return nil
	}
	unlock, err := t.lock(ctx)
	if err != nil {
		return fmt.Errorf("remove spare worktrees: %w", err)
	}
	defer unlock()
	var errs []error
	for _, admin := range t.spares() {
		errs = append(errs, removeAll(t.spareDir(admin)), removeAll(t.admin(admin)))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove spare worktrees: %w", err)
	}
	return nil
}

// adminsOf are the names of the linked worktrees that the repository has for the
// directory of an agent.
func (t *Trees) adminsOf(agent string) []string {
	entries, err := os.ReadDir(filepath.Join(t.loc.CommonDir, "worktrees"))
	if err != nil {
		return nil
	}
	var list []string
	for _, e := range entries {
		if text, ok := readSmall(filepath.Join(t.admin(e.Name()), "gitdir")); ok && text == filepath.Join(t.dir(agent), ".git") {
			list = append(list, e.Name())
		}
	}
	return list
}

// readSmall reads a file of one line that an agent may have replaced.
func readSmall(path string) (string, bool) {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > 64<<10 {
		return "", false
	}
	b, err := os.ReadFile(path)
	return strings.TrimSpace(string(b)), err == nil
}

// dropDead removes what a worktree that is made anew has left.
func (t *Trees) dropDead(agent string) error {
	errs := []error{removeAll(t.dir(agent))}
	for _, name := range t.adminsOf(agent) {
		errs = append(errs, removeAll(t.admin(name)))
	}
	return errors.Join(errs...)
}

// Remove takes away the worktree of an agent, with what is not committed there,
// and its branch unless keepBranch. Its record goes with the branch. An error
// that matches ErrUnsaved, with nothing removed, means: a submodule has commits
// that are nowhere else, or the branch has commits that Commit and Merge have not
// seen and that would be lost with it.
func (t *Trees) Remove(ctx context.Context, agent string, keepBranch bool) error {
	unlock, err := t.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err = t.recover(ctx); err == nil {
		err = t.remove(ctx, agent, keepBranch)
	}
	if err != nil {
		return fmt.Errorf("remove worktree of %q: %w", agent, err)
	}
	return nil
}

func (t *Trees) remove(ctx context.Context, agent string, keepBranch bool) error {
	r, err := t.recall(ctx, agent)
	if errors.Is(err, ErrUnknown) {
		return t.removeOrphan(agent)
	}
	if err != nil {
		return err
	}
	if err := t.mendBranch(ctx, r); err != nil {
		return err
	}
	head, err := t.tip(ctx, r.Ref)
	if err != nil {
		return err
	}
	if head != "" && head != r.Head && !keepBranch {
		return fmt.Errorf("branch %s has commits that nobody looked at: %w", strings.TrimPrefix(r.Ref, "refs/heads/"), ErrUnsaved)
	}
	if err := t.keepSubmodules(ctx, r, head); err != nil {
		return err
	}
	var refs []move
	if !keepBranch {
		if err := t.withdraw(ctx, agent); err != nil {
			return err
		}
		// The refs first: a directory without a branch is still listed and removed.
		if head != "" {
			refs = append(refs, move{r.Ref, "", head})
		}
		if err := t.moveRefs(ctx, append(refs, move{t.baseRef(agent), "", ""})...); err != nil {
			return err
		}
	}
	// The record goes first: another agent may get the worktree as soon as it is
	// free. What a crash leaves of it is found by its directory.
	if keepBranch {
		kept := r
		kept.Ready, kept.Admin, kept.Head = false, "", first(head, r.Head)
		err = save(t.recordPath(agent), kept)
	} else {
		err = removeFile(t.recordPath(agent))
	}
	if err != nil {
		return err
	}
	return t.free(ctx, r)
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// removeOrphan removes a directory of which nothing else is known.
func (t *Trees) removeOrphan(agent string) error {
	if _, err := os.Lstat(t.dir(agent)); err != nil {
		return fmt.Errorf("agent %q: %w", agent, ErrUnknown)
	}
	return t.dropDead(agent)
}

// free makes a spare of a worktree, or removes it when there are enough or when
// it is not fit for another agent.
func (t *Trees) free(ctx context.Context, r record) error {
	defer t.children.Delete(r.Agent + "/" + r.Admin)
	if r.Ready && len(t.spares()) < maxSpares && t.rinse(ctx, r) == nil {
		return os.Rename(t.dir(r.Agent), t.spareDir(r.Admin))
	}
	return t.dropDead(r.Agent)
}

// rinse takes out of a worktree all that the next agent must not find. An error
// means that it is not fit.
func (t *Trees) rinse(ctx context.Context, r record) error {
	dir, admin := t.dir(r.Agent), t.admin(r.Admin)
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return errors.Join(err, errors.New("not a directory"))
	}
	p := t.child(r).Plumbing()
	// What the agent's index says of its files is not believed: all are read.
	if err := removeFile(filepath.Join(admin, "index")); err != nil {
		return err
	}
	for _, args := range [][]string{{"read-tree", r.Head}, {"update-index", "-q", "--refresh"}} {
		if _, _, err := p.Run(ctx, git.Call{Args: args, Allow: []int{1}}); err != nil {
			return err
		}
	}
	all, err := entries(ctx, p, "", nil)
	if err != nil {
		return err
	}
	for _, e := range all {
		// Another's flags could make git pass over a file, and it never looks into
		// submodules.
		if e.skip || e.assume || e.mode == modeGitlink {
			return errors.New("marked entries or submodules")
		}
	}
	names, err := os.ReadDir(admin)
	if err != nil {
		return err
	}
	for _, e := range names {
		switch e.Name() {
		case "commondir", "gitdir", "HEAD", "index":
			if !e.Type().IsRegular() {
				return fmt.Errorf("%q is not a regular file", e.Name())
			}
		case "modules":
			return errors.New("it has submodules")
		default:
			if err := removeAll(filepath.Join(admin, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := write(filepath.Join(admin, "HEAD"), r.Head+"\n"); err != nil {
		return err
	}
	out, _, err := p.Run(ctx, git.Call{Args: []string{"ls-files", "-z", "-o", "--directory"}})
	if err != nil {
		return err
	}
	for _, path := range fields(out) {
		if err := removeAll(filepath.Join(dir, filepath.FromSlash(path))); err != nil {
			return err
		}
	}
	return nil
}

// removeAll removes a tree of files even when directories in it forbid that.
func removeAll(path string) error {
	err := os.RemoveAll(path)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		return os.Chmod(p, 0o700)
	})
	return os.RemoveAll(path)
}

// List gives all trees of ours, by name: those on record, those of which only a
// branch or a directory is left, broken ones too.
func (t *Trees) List(ctx context.Context) ([]Tree, error) {
	names := map[string]bool{}
	entries, err := os.ReadDir(t.private())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list worktrees: %w", err)
	}
	for _, e := range entries {
		if n, ok := strings.CutPrefix(e.Name(), "agent-"); ok && strings.HasSuffix(n, ".json") {
			names[strings.TrimSuffix(n, ".json")] = true
		}
	}
	if entries, err = os.ReadDir(t.home()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list worktrees: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			names[e.Name()] = true
		}
	}
	out, _, err := t.user().Run(ctx, git.Call{Args: []string{"for-each-ref", "--format=%(refname)", t.baseRef("")}})
	if err != nil {
		return nil, fmt.Errorf("list worktrees: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		names[strings.TrimPrefix(strings.TrimSpace(line), t.baseRef(""))] = true
	}
	var q queue
	if _, err := load(t.queuePath(), &q); err != nil {
		return nil, fmt.Errorf("list worktrees: %w", err)
	}
	var list []Tree
	for name := range names {
		if checkAgent(name) == nil {
			tree := t.look(ctx, name)
			if head, ok := q.waits(name); ok { // said before the record says that it is merged
				tree.Waits, tree.Merged = true, first(head, tree.Merged)
			}
			list = append(list, tree)
		}
	}
	slices.SortFunc(list, func(a, b Tree) int { return strings.Compare(a.Agent, b.Agent) })
	return list, nil
}

// look describes one tree without changing anything.
func (t *Trees) look(ctx context.Context, agent string) Tree {
	r, err := t.recordOf(agent)
	tree := Tree{Agent: agent, Branch: r.Ref, Base: r.Base, Head: r.Head, Time: r.Time, Merged: r.Merged, Into: r.Into, LeftOut: r.LeftOut}
	if err != nil {
		tree.Broken = "Ralph has no record of it"
		if base, err := t.tip(ctx, t.baseRef(agent)); err == nil && base != "" {
			tree.Base, tree.Branch = base, "refs/heads/ralph/"+agent
		}
	}
	for _, l := range r.Links {
		tree.Linked = append(tree.Linked, string(l.Path))
	}
	if info, err := os.Lstat(t.dir(agent)); err == nil && info.IsDir() {
		tree.Dir = t.dir(agent)
		tree.Root = filepath.Join(tree.Dir, filepath.FromSlash(t.prefix))
		tree.Broken = first(tree.Broken, t.ailment(r))
	} else if r.Ready {
		tree.Broken = "its directory is gone"
	}
	if tree.Base != "" {
		if tree.BaseTree, err = t.treeOf(ctx, tree.Base); err != nil {
			tree.Broken = first(tree.Broken, "its base is gone")
		}
	}
	head, err := t.tip(ctx, tree.Branch)
	if err == nil && head != "" {
		tree.Head = head
	} else if r.Ref != "" {
		tree.Branch = ""
		tree.Broken = first(tree.Broken, "its branch is gone")
	}
	return tree
}

func first(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// ailment says what keeps a worktree from working.
func (t *Trees) ailment(r record) string {
	if r.Agent == "" {
		return ""
	}
	admin := t.admin(r.Admin)
	has := func(name string) bool { _, err := os.Lstat(filepath.Join(admin, name)); return err == nil }
	switch {
	case !r.Ready:
		return "it was not finished"
	case !has("HEAD") || !has("gitdir") || !has("commondir") || !has("index"):
		return "git has forgotten it"
	case has("index.lock"):
		return "a git that was killed has left index.lock"
	}
	return ""
}
