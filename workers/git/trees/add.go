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
	"time"

	"ralph/workers/exec"
	"ralph/workers/git"
	"ralph/workers/regular"
	"ralph/workers/tempdir"
)

// making is the purpose in the name of the process that makes a tree.
const making = "tree"

// Add makes the tree and the branch of an agent: a private clone, which borrows the
// objects of a read-only snapshot and has an allow-list of the user's configuration.
// One that has them already gets them back, mended when a crash or somebody else has
// broken them: then Base and Content are empty or the same as before, else the error
// matches ErrExists.
//
// Nothing of the repository is run: no hook, no filter, no fsmonitor. Ignored
// directories of dependencies are linked to the user's, everything else that git
// ignores is left out. Tree says both.
//
// With an error a branch that is there all the same is in Tree.Branch.
func (t *Trees) Add(ctx context.Context, o AddOptions) (Tree, error) {
	tree, err := t.add(ctx, o)
	if err != nil {
		return Tree{Agent: tree.Agent, Branch: tree.Branch}, fmt.Errorf("add worktree of %q: %w", o.Agent, err)
	}
	return tree, nil
}

func (t *Trees) add(ctx context.Context, o AddOptions) (Tree, error) {
	if err := checkAgent(o.Agent); err != nil {
		return Tree{}, err
	}
	for _, c := range []string{o.Base, o.Content} {
		if c != "" && !isHash(c) {
			return Tree{}, fmt.Errorf("commit %q: %w: not a full hash", c, git.ErrBadName)
		}
	}
	r, err := t.reserve(ctx, o)
	if err == nil && !r.Ready {
		r, err = t.fill(ctx, r)
	}
	if err != nil {
		if r.Maker != "" {
			err = errors.Join(err, t.giveUp(context.WithoutCancel(ctx), r.Agent))
		}
		return Tree{Agent: r.Agent, Branch: r.Ref}, err
	}
	return t.describe(ctx, r)
}

// giveUp is unmake for one who does not hold the lock.
func (t *Trees) giveUp(ctx context.Context, agent string) error {
	return t.note(ctx, agent, func(r *record) error { return t.unmake(ctx, r) })
}

// unmake leaves of a tree that was not finished its record and its branch: nobody
// has worked in it. The caller holds the lock, and saves the record.
func (t *Trees) unmake(ctx context.Context, r *record) error {
	if !slices.Contains(t.spares(), r.Admin) && r.Admin != "" {
		if err := tempdir.Clear(t.admin(r.Admin)); err != nil {
			return err
		}
	}
	if err := t.dropDead(r.Agent); err != nil {
		return err
	}
	head, err := t.tip(ctx, r.Ref)
	if err != nil {
		return err
	}
	if head == "" {
		// The user's git gc may have taken what no ref named yet.
		if there, err := t.tip(ctx, r.Base); err != nil || there == "" {
			r.Gone = true
			return err
		}
		none := strings.Repeat("0", len(r.Base))
		if err := t.moveRefs(context.WithoutCancel(ctx), move{t.baseRef(r.Agent), r.Base, ""}, move{r.Ref, r.Head, none}); err != nil {
			return err
		}
	}
	r.Ready, r.Admin, r.Maker = false, "", ""
	return nil
}

// reserve makes all of a tree but its files, with the lock held: files take the
// longest and need no lock.
func (t *Trees) reserve(ctx context.Context, o AddOptions) (record, error) {
	unlock, err := t.lock(ctx)
	if err != nil {
		return record{}, err
	}
	defer unlock()
	if err := t.recover(ctx); err != nil {
		return record{}, err
	}
	if _, err := os.Lstat(filepath.Join(t.loc.CommonDir, "reftable")); err == nil {
		return record{}, &git.Error{Op: "worktree", Path: t.loc.Root, Err: errors.New("the repository keeps its refs in reftable, which Ralph does not write")}
	}
	r, err := t.recall(ctx, o.Agent)
	switch {
	case err == nil:
		if o.Base != "" && o.Base != r.Base || o.Content != "" && o.Content != r.Content {
			return record{}, ErrExists
		}
		return t.mend(ctx, r)
	case !errors.Is(err, ErrUnknown):
		return record{}, err
	}
	return t.begin(ctx, o)
}

// begin makes the record first, so that whatever a crash leaves is known.
func (t *Trees) begin(ctx context.Context, o AddOptions) (record, error) {
	if _, err := os.Lstat(t.dir(o.Agent)); err == nil {
		return record{}, ErrExists
	}
	if err := t.repo.Exclude("**/.ralph/worktrees/"); err != nil {
		return record{}, err
	}
	r := record{Agent: o.Agent, Base: o.Base, Content: o.Content, Time: time.Now(), Maker: exec.TempName(making)}
	var err error
	switch {
	case r.Base == "" && r.Content != "":
		r.Base, err = t.resolve(ctx, r.Content+"^1")
	case r.Base == "":
		var s snapshot
		s, err = t.snapshot(ctx)
		r.Base, r.LeftOut, r.ignored = s.Commit, s.LeftOut, s.ignored
	}
	if err != nil {
		return record{}, err
	}
	if r.Ref, err = t.freeBranch(ctx, o.Agent); err != nil {
		return record{}, err
	}
	r.Head = r.Base
	if err := t.place(&r, true); err != nil {
		return record{}, err
	}
	if err := t.save(t.recordPath(r.Agent), r); err != nil {
		return record{}, err
	}
	none := strings.Repeat("0", len(r.Base))
	t.at("record")
	if err := t.moveRefs(ctx, move{t.baseRef(r.Agent), r.Base, ""}, move{r.Ref, r.Base, none}); err != nil {
		return r, err
	}
	t.at("branch")
	return r, t.install(ctx, r, r.Base)
}

// freeBranch is ralph/<agent>, or the next name that nobody uses. Where a branch
// has the name "ralph" there can be none below it.
func (t *Trees) freeBranch(ctx context.Context, agent string) (string, error) {
	out, _, err := t.user().Run(ctx, git.Call{Args: []string{"for-each-ref", "--format=%(refname)", "refs/heads/ralph", "refs/heads/ralph-*"}})
	if err != nil {
		return "", err
	}
	taken := strings.Fields(string(out))
	sep := "/"
	if slices.Contains(taken, "refs/heads/ralph") {
		sep = "-"
	}
	for n := 1; ; n++ {
		ref := "refs/heads/ralph" + sep + agent
		if n > 1 {
			ref = fmt.Sprintf("%s_%d", ref, n)
		}
		if !slices.ContainsFunc(taken, func(r string) bool { return r == ref || strings.HasPrefix(r, ref+"/") }) {
			return ref, nil
		}
	}
}

// place finds a name for Ralph's part of a tree: that of one which was kept, if
// reuse is wanted, or a new one.
func (t *Trees) place(r *record, reuse bool) error {
	if spares := t.spares(); reuse && len(spares) > 0 {
		r.Admin = spares[0]
		return nil
	}
	for n := 0; ; n++ {
		r.Admin = r.Agent
		if n > 0 {
			r.Admin = fmt.Sprintf("%s-%d", r.Agent, n)
		}
		err := os.Mkdir(t.admin(r.Admin), 0o700)
		if err == nil || !errors.Is(err, fs.ErrExist) {
			return err
		}
		// An empty one was made by a Ralph that was killed just then.
		if inside, err := os.ReadDir(t.admin(r.Admin)); err == nil && len(inside) == 0 {
			return nil
		}
	}
}

// install makes the directory of a tree, with its clone, and Ralph's part of it.
// Each step may be done again.
func (t *Trees) install(ctx context.Context, r record, head string) error {
	dir := t.dir(r.Agent)
	if err := t.makeAdmin(r); err != nil {
		return err
	}
	spare := t.spareDir(r.Admin)
	if _, err := os.Lstat(spare); err == nil {
		if err := os.Rename(spare, dir); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return t.writeClone(ctx, r, head)
}

// makeAdmin makes Ralph's part of a tree, but for the index.
func (t *Trees) makeAdmin(r record) error {
	admin := t.admin(r.Admin)
	if err := os.MkdirAll(admin, 0o700); err != nil {
		return err
	}
	return errors.Join(write(filepath.Join(admin, "gitdir"), t.dir(r.Agent)+"/.git\n"), write(filepath.Join(admin, "HEAD"), "ref: "+r.Ref+"\n"))
}

// write replaces a small file, whatever stands there.
func write(path, text string) error {
	if old, err := os.Lstat(path); err == nil && old.Mode().IsRegular() {
		if b, err := regular.Read(path, int64(len(text))); err == nil && string(b) == text {
			return nil
		}
	} else if err == nil {
		if err := tempdir.Clear(path); err != nil {
			return err
		}
	}
	temp := path + ".ralph"
	if err := os.WriteFile(temp, []byte(text), 0o666); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

// fill brings the files of a tree to what they have to be at its beginning.
func (t *Trees) fill(ctx context.Context, r record) (record, error) {
	p := t.child(r).Plumbing()
	content := r.Head
	if r.Content != "" && r.Head == r.Base {
		content = r.Content
	}
	env := []string{"GIT_CONFIG_PARAMETERS='core.trustctime'='true' 'core.checkstat'='default' 'core.sparsecheckout'='false'"}
	if _, _, err := p.Run(ctx, git.Call{Args: []string{"read-tree", "--reset", "-u", content}, Env: env}); err != nil {
		return r, err
	}
	if content != r.Head {
		if _, _, err := p.Run(ctx, git.Call{Args: []string{"read-tree", r.Head}}); err != nil {
			return r, err
		}
	}
	if err := os.MkdirAll(filepath.Join(t.dir(r.Agent), filepath.FromSlash(t.prefix)), 0o777); err != nil {
		return r, err
	}
	if r.ignored == nil {
		var err error
		if r.ignored, err = t.ignored(ctx); err != nil {
			return r, err
		}
	}
	r.Links = nil
	for _, path := range r.ignored {
		name := strings.TrimSuffix(path, "/")
		if !dependencies(name) {
			if o := reason(path, whyIgnored); len(r.LeftOut) < maxNamed && !slices.Contains(r.LeftOut, o) {
				r.LeftOut = append(r.LeftOut, o)
			}
			continue
		}
		l := link{Path: []byte(name), Target: []byte(filepath.Join(t.loc.Root, filepath.FromSlash(name)))}
		if t.link(r, l) {
			r.Links = append(r.Links, l)
		}
	}
	if err := t.giveIndex(r); err != nil {
		return r, err
	}
	if _, err := os.Lstat(t.filledMark(r)); err != nil {
		if err := os.WriteFile(t.filledMark(r), nil, 0o600); err != nil {
			return r, err
		}
	}
	t.at("ready")
	r.Ready, r.Maker = true, ""
	return r, t.save(t.recordPath(r.Agent), r)
}

// giveIndex gives the clone of an agent Ralph's index of its files.
func (t *Trees) giveIndex(r record) error {
	index, err := regular.Read(filepath.Join(t.admin(r.Admin), "index"), maxIndexBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // an empty tree has none
	}
	if err != nil {
		return err
	}
	root, err := t.openTree(r.Agent)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return writeIn(root, ".git/index", index)
}

// link makes a link into the user's tree where nothing is in its way.
func (t *Trees) link(r record, l link) bool {
	root, err := os.OpenRoot(t.dir(r.Agent))
	if err != nil {
		return false
	}
	defer func() { _ = root.Close() }()
	if info, err := os.Lstat(string(l.Target)); err != nil || !info.IsDir() {
		return false
	}
	if target, err := root.Readlink(string(l.Path)); err == nil && target == string(l.Target) {
		return true
	}
	return root.Symlink(string(l.Target), string(l.Path)) == nil
}

// Repo is the user's repository with the files of an agent's tree and Ralph's index
// of them: the agent's own clone has no say in what it tells.
func (t *Trees) Repo(agent string) (*git.Repo, error) {
	r, err := t.recordOf(agent)
	if err != nil {
		return nil, err
	}
	return t.child(r), nil
}

// child is the user's repository with the files of a tree: nothing that the agent
// wrote into its own clone has a say in it.
func (t *Trees) child(r record) *git.Repo {
	key := r.Agent + "/" + r.Admin
	if repo, ok := t.children.Load(key); ok {
		return repo.(*git.Repo)
	}
	repo, _ := t.children.LoadOrStore(key, git.Open(t.proc, t.location(r)).Raw())
	return repo.(*git.Repo)
}

func (t *Trees) location(r record) git.Location {
	return git.Location{Root: t.dir(r.Agent), GitDir: t.admin(r.Admin), CommonDir: t.loc.CommonDir, Worktree: true}
}

// describe makes a Tree of a record.
func (t *Trees) describe(ctx context.Context, r record) (Tree, error) {
	tree := Tree{Agent: r.Agent, Dir: t.dir(r.Agent), Branch: r.Ref, Base: r.Base, Head: r.Head, Time: r.Time, Merged: r.Merged, LeftOut: r.LeftOut}
	tree.Root = filepath.Join(tree.Dir, filepath.FromSlash(t.prefix))
	for _, l := range r.Links {
		tree.Linked = append(tree.Linked, string(l.Path))
	}
	var err error
	if tree.BaseTree, err = t.treeOf(ctx, r.Base); err != nil {
		return tree, err
	}
	head, err := t.tip(ctx, r.Ref)
	if head != "" {
		tree.Head = head
	}
	return tree, err
}

func isHash(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}
