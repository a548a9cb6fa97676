package trees

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"ralph/workers/git"
)

// keepSubmodules sees to it that the commits of submodules that an agent's work
// names are in the modules of the repository, not only in those of its worktree,
// which go with it. Objects are copied by plumbing: no transport is used.
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
	from, err := t.moduleOf(filepath.Join(t.dir(r.Agent), filepath.FromSlash(c.path)), t.dir(r.Agent), filepath.Join(t.admin(r.Admin), "modules"))
	if err != nil {
		return err
	}
	if to == nil || from == nil {
		return fmt.Errorf("commit %s: %w (its repository is not set up in your tree: git submodule update --init)", c.newHash, ErrUnsaved)
	}
	if ok, err := t.has(ctx, *from, c.newHash); err != nil || !ok {
		return errors.Join(err, fmt.Errorf("commit %s: %w", c.newHash, ErrUnsaved))
	}
	revs := c.newHash + "\n"
	if ok, err := t.has(ctx, *from, c.oldHash); err == nil && ok && c.oldMode == modeGitlink {
		if ok, err := t.has(ctx, *to, c.oldHash); err == nil && ok {
			revs += "^" + c.oldHash + "\n"
		}
	}
	pack := filepath.Join(to.GitDir, "objects", "pack", "pack")
	p := git.Open(t.proc, *from).Raw().Plumbing()
	if _, _, err := p.Run(ctx, git.Call{Args: []string{"pack-objects", "-q", "--revs", pack}, Stdin: []byte(revs)}); err != nil {
		return err
	}
	_, _, err = git.Open(t.proc, *to).Raw().Plumbing().Run(ctx, git.Call{Args: []string{"update-ref", "refs/ralph/kept/" + c.newHash, c.newHash}})
	return err
}

// moduleOf finds the repository of a submodule, nil when it has none. It has to
// be below one of the directories: what an agent wrote into .git leads nowhere
// else.
func (t *Trees) moduleOf(dir string, below ...string) (*git.Location, error) {
	info, err := os.Lstat(filepath.Join(dir, ".git"))
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode()&fs.ModeSymlink != 0 {
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
