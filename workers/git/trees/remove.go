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
	"ralph/workers/regular"
	"ralph/workers/tempdir"
)

// maxSpares is how many worktrees are kept for the next agents.
const maxSpares = 4

const sparePrefix = ".spare-"

func (t *Trees) spareDir(admin string) string { return filepath.Join(t.home(), sparePrefix+admin) }

// spares lists Ralph's parts of trees that wait for the next agent.
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
			_ = tempdir.Clear(t.spareDir(admin)) // it is tried again next time
		}
	}
	return list
}

// Close removes the trees that were kept for the next agents, and the snapshots of
// objects and the parts of Ralph that no tree uses: what a Ralph that was killed has
// left. Trees can still be used after it.
func (t *Trees) Close(ctx context.Context) error {
	if len(t.spares()) == 0 && len(t.snapshots()) == 0 && len(t.unused()) == 0 {
		return nil
	}
	unlock, err := t.lock(ctx)
	if err != nil {
		return fmt.Errorf("remove spare worktrees: %w", err)
	}
	defer unlock()
	var errs []error
	for _, admin := range t.spares() {
		errs = append(errs, tempdir.Clear(t.spareDir(admin)), tempdir.Clear(t.admin(admin)))
	}
	for _, admin := range t.unused() {
		errs = append(errs, tempdir.Clear(t.admin(admin)))
	}
	if err := errors.Join(append(errs, t.sweepSnapshots())...); err != nil {
		return fmt.Errorf("remove spare worktrees: %w", err)
	}
	return nil
}

// unused are the names of Ralph's parts that no record names and that have no
// directory.
func (t *Trees) unused() []string {
	entries, err := os.ReadDir(t.private())
	if err != nil {
		return nil
	}
	used := map[string]bool{}
	for _, name := range t.spares() {
		used[name] = true
	}
	for _, e := range entries {
		agent, ok := strings.CutPrefix(strings.TrimSuffix(e.Name(), ".json"), "agent-")
		if r, err := t.recordOf(agent); ok && err == nil {
			used[r.Admin] = true
		}
	}
	var list []string
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), adminPrefix)
		if !ok || used[name] {
			continue
		}
		if at, has := readSmall(filepath.Join(t.private(), e.Name(), "gitdir")); has {
			if _, err := os.Lstat(filepath.Dir(at)); err == nil {
				continue
			}
		}
		list = append(list, name)
	}
	return list
}

// adminsOf are the names of Ralph's parts that there are for the directory of an
// agent.
func (t *Trees) adminsOf(agent string) []string {
	entries, err := os.ReadDir(t.private())
	if err != nil {
		return nil
	}
	var list []string
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), adminPrefix)
		if text, has := readSmall(filepath.Join(t.private(), e.Name(), "gitdir")); ok && has && text == filepath.Join(t.dir(agent), ".git") {
			list = append(list, name)
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
	b, err := regular.Read(path, info.Size())
	return strings.TrimSpace(string(b)), err == nil
}

// dropDead removes what a tree that is made anew has left.
func (t *Trees) dropDead(agent string) error {
	errs := []error{tempdir.Clear(t.dir(agent))}
	for _, name := range t.adminsOf(agent) {
		errs = append(errs, tempdir.Clear(t.admin(name)))
	}
	return errors.Join(append(errs, t.sweepSnapshots())...)
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
	if r, err := t.recordOf(agent); err == nil && r.Gone {
		return t.raze(ctx, r)
	}
	r, err := t.recall(ctx, agent)
	if errors.Is(err, ErrUnknown) {
		return t.removeOrphan(agent)
	}
	if err != nil {
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
	if !keepBranch {
		if err := t.withdraw(ctx, agent); err != nil {
			return err
		}
		r.Gone, r.Head = true, first(head, r.Head)
		if err := t.save(t.recordPath(agent), r); err != nil {
			return err
		}
		t.at("gone")
		return t.raze(ctx, r)
	}
	// The record goes first: another agent may get the worktree as soon as it is
	// free. What a crash leaves of it is found by its directory.
	kept := r
	kept.Ready, kept.Admin, kept.Head = false, "", first(head, r.Head)
	if err := t.save(t.recordPath(agent), kept); err != nil {
		return err
	}
	return t.free(ctx, r)
}

// raze ends the removal that a record says: refs, directory, then the record. A
// branch that somebody has moved since stays, and belongs to nobody.
func (t *Trees) raze(ctx context.Context, r record) error {
	ctx = context.WithoutCancel(ctx)
	head, err := t.tip(ctx, r.Ref)
	if err != nil {
		return err
	}
	moves := []move{{t.baseRef(r.Agent), "", ""}}
	if head == r.Head {
		moves = append(moves, move{r.Ref, "", head})
	}
	if err := t.moveRefs(ctx, moves...); err != nil {
		return err
	}
	t.at("refs")
	if err := t.free(ctx, r); err != nil {
		return err
	}
	t.at("free")
	return removeFile(t.recordPath(r.Agent))
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
		t.at("rinsed")
		return errors.Join(os.Rename(t.dir(r.Agent), t.spareDir(r.Admin)), t.sweepSnapshots())
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
	// All files are read: an agent can set the times of what it changed.
	if err := errors.Join(removeFile(filepath.Join(admin, "index")), tempdir.Clear(t.aside(r))); err != nil {
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
	if err := tempdir.Clear(filepath.Join(dir, ".git")); err != nil {
		return err
	}
	out, _, err := p.Run(ctx, git.Call{Args: []string{"ls-files", "-z", "-o", "--directory"}})
	if err != nil {
		return err
	}
	for _, path := range fields(out) {
		if err := tempdir.Clear(filepath.Join(dir, filepath.FromSlash(path))); err != nil {
			return err
		}
	}
	return nil
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
	if _, err := t.load(t.queuePath(), &q); err != nil {
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
	switch {
	case r.Gone:
		return Tree{Agent: agent, Broken: "it is being removed"}
	case err != nil:
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
	has := func(path string) bool { _, err := os.Lstat(path); return err == nil }
	switch {
	case !r.Ready:
		return "it was not finished"
	case !has(filepath.Join(t.admin(r.Admin), "index")):
		return "Ralph's part of it is gone"
	case !t.readClone(r).whole || t.snapshotOf(r.Agent) == "":
		return "its repository is broken"
	case has(filepath.Join(t.dir(r.Agent), ".git", "index.lock")):
		return "a git that was killed has left index.lock"
	}
	return ""
}
