package trees

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"ralph/workers/git"
)

// placeModules makes the empty directory that git has for a submodule whose files
// are not checked out, and removes that of one that went away. The directory of one
// that is checked out stays, as with git.
func (t *Trees) placeModules(list []step) error {
	root, err := os.OpenRoot(t.loc.Root)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for _, s := range list {
		name := filepath.FromSlash(string(s.Path))
		switch {
		case s.NewMode == modeGitlink:
			if err := root.MkdirAll(name, 0o777); err != nil {
				return fmt.Errorf("submodule %q: %w", s.Path, err)
			}
		case s.OldMode == modeGitlink && s.NewMode == modeNone:
			_ = root.Remove(name) // it is not empty
		}
	}
	return nil
}

// keepSubmodules sees to it that the commits of submodules that an agent's work
// names are in the modules of the repository, not only in those of its worktree,
// which go with it. No git runs in what the agent wrote.
func (t *Trees) keepSubmodules(ctx context.Context, r record, head string) error {
	if head == "" {
		return nil
	}
	changes, err := t.changed(ctx, r.Base, head)
	if err != nil {
		return err
	}
	return t.keepGitlinks(ctx, r, changes)
}

func (t *Trees) keepGitlinks(ctx context.Context, r record, changes []change) error {
	for _, c := range changes {
		if c.newMode != modeGitlink {
			continue
		}
		if err := t.keepSubmodule(ctx, r, c); err != nil {
			return fmt.Errorf("submodule %q: %w", c.path, err)
		}
	}
	return nil
}

func (t *Trees) keepSubmodule(ctx context.Context, r record, c change) error {
	to, err := t.moduleOf(filepath.Join(t.loc.Root, filepath.FromSlash(c.path)), filepath.Join(t.loc.CommonDir, "modules"))
	if err != nil {
		return err
	}
	if to != nil {
		if ok, err := t.has(ctx, *to, c.newHash); err != nil || ok {
			return err
		}
	}
	dir := t.dir(r.Agent)
	from, err := t.moduleOf(filepath.Join(dir, filepath.FromSlash(c.path)), dir)
	if err != nil {
		return err
	}
	if from != nil && to == nil && c.oldMode == modeNone {
		if to, err = t.newModule(c); err != nil {
			return err
		}
	}
	if to == nil || from == nil {
		return fmt.Errorf("commit %s: %w (its repository is not set up in your tree: git submodule update --init)", c.newHash, ErrUnsaved)
	}
	rel, err := filepath.Rel(dir, from.GitDir)
	if err != nil {
		return err
	}
	var have []string
	if c.oldMode == modeGitlink {
		if ok, err := t.has(ctx, *to, c.oldHash); err == nil && ok {
			have = append(have, c.oldHash)
		}
	}
	root, err := t.openTree(r.Agent)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if err := t.importCommits(ctx, root, filepath.ToSlash(rel)+"/objects", *to, []string{c.newHash}, have); err != nil {
		return fmt.Errorf("commit %s: %w: %w", c.newHash, ErrUnsaved, err)
	}
	_, _, err = git.Open(t.proc, *to).Raw().Plumbing().Run(ctx, git.Call{Args: []string{"update-ref", "refs/ralph/kept/" + c.newHash, c.newHash}})
	return err
}

// newModule makes the repository of a submodule that an agent added, so that git
// submodule update finds its commits.
func (t *Trees) newModule(c change) (*git.Location, error) {
	dir := filepath.Join(t.loc.CommonDir, "modules", filepath.FromSlash(c.path))
	if _, err := os.Lstat(dir); err != nil {
		format := ""
		if len(c.newHash) == 64 {
			format = "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n"
		}
		if err := makeRepository(dir, format); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, "HEAD"), []byte(c.newHash+"\n"), 0o666); err != nil {
			return nil, err
		}
	}
	return &git.Location{Root: dir, GitDir: dir, CommonDir: dir, Submodule: true}, nil
}

// moduleOf finds the repository of a submodule, nil when it has none. It has to
// be below one of the directories: what an agent wrote into .git leads nowhere
// else.
func (t *Trees) moduleOf(dir string, below ...string) (*git.Location, error) {
	info, err := os.Lstat(filepath.Join(dir, ".git"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	loc, err := git.Find(dir)
	if errors.Is(err, git.ErrNoRepository) || err == nil && loc.Root != dir {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, b := range append(below, dir) {
		if rel, err := filepath.Rel(b, loc.GitDir); err == nil && filepath.IsLocal(rel) && loc.CommonDir == loc.GitDir {
			return &loc, nil
		}
	}
	return nil, nil
}

func (t *Trees) has(ctx context.Context, loc git.Location, commit string) (bool, error) {
	p := git.Open(t.proc, loc).Raw().Plumbing()
	_, code, err := p.Run(ctx, git.Call{Args: []string{"cat-file", "-e", commit + "^{commit}"}, Allow: []int{1, 128}})
	return code == 0 && err == nil, err
}

// unrecorded notes which work of an agent no commit of Ralph's can hold, and returns
// the changed files without it.
func (t *Trees) unrecorded(ctx context.Context, p git.Plumbing, r record, g *gathered, changed []string) ([]string, error) {
	filtered, err := p.Filtered(ctx, g.index, changed)
	if err != nil {
		return nil, err
	}
	inside, err := t.changedInModules(ctx, p, r, g.index)
	if err != nil {
		return nil, err
	}
	for _, name := range filtered {
		g.unrecorded = append(g.unrecorded, reason(name, whyFilter))
	}
	for _, name := range inside {
		g.unrecorded = append(g.unrecorded, reason(name, whyModule))
	}
	g.leftOut = append(g.leftOut, g.unrecorded...)
	return slices.DeleteFunc(changed, func(name string) bool { return slices.Contains(filtered, name) }), nil
}

// changedInModules lists the files of checked out submodules that are not as the
// commits have them that an index names. No git runs in what the agent wrote: the
// commit is read in the user's repository of the submodule, and where that does not
// have it the submodule is left out.
func (t *Trees) changedInModules(ctx context.Context, p git.Plumbing, r record, index string) ([]string, error) {
	if len(t.modules()) == 0 {
		return nil, nil
	}
	all, err := entries(ctx, p, index, nil)
	if err != nil {
		return nil, err
	}
	var out []string
	for name, e := range all {
		dir := filepath.Join(t.dir(r.Agent), filepath.FromSlash(name))
		if _, err := os.Lstat(filepath.Join(dir, ".git")); e.mode != modeGitlink || e.stage != "0" || err != nil {
			continue // it is not checked out
		}
		from, err := t.moduleOf(filepath.Join(t.loc.Root, filepath.FromSlash(name)), filepath.Join(t.loc.CommonDir, "modules"))
		if err != nil {
			return nil, err
		}
		if from == nil {
			continue
		}
		if ok, err := t.has(ctx, *from, e.hash); err != nil || !ok {
			if err != nil {
				return nil, err
			}
			continue
		}
		list, err := t.changedInModule(ctx, *from, dir, e.hash)
		if err != nil {
			return nil, fmt.Errorf("submodule %q: %w", name, err)
		}
		for _, file := range list {
			out = append(out, name+"/"+file)
		}
	}
	slices.Sort(out)
	return out, nil
}

// changedInModule compares a directory with a commit of a repository.
func (t *Trees) changedInModule(ctx context.Context, from git.Location, dir, commit string) ([]string, error) {
	from.Root = dir
	p := git.Open(t.proc, from).Plumbing()
	index, remove, err := p.TempIndex(t.private(), "")
	if err != nil {
		return nil, err
	}
	defer remove()
	if _, _, err := p.Run(ctx, git.Call{Args: []string{"read-tree", commit}, Index: index}); err != nil {
		return nil, err
	}
	update, gone, nested, err := p.Scan(ctx, index, func(string, bool) bool { return false })
	if err != nil {
		return nil, err
	}
	filtered, err := p.Filtered(ctx, index, update)
	if err != nil {
		return nil, err
	}
	update = slices.DeleteFunc(update, func(name string) bool { return slices.Contains(filtered, name) })
	return slices.Concat(update, gone, nested), nil
}
