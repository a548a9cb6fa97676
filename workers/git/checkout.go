package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Checkout makes a repository of its own in dir, which is empty or not there. It
// holds one commit without its past, as CI systems check out, and nothing of the
// configuration of r.
func (r *Repo) Checkout(ctx context.Context, commit, dir string) (*Repo, error) {
	if !isHash(commit) {
		return nil, fmt.Errorf("check out %q: %w", commit, errors.New("not the full hash of a commit"))
	}
	list, err := r.run(ctx, call{args: []string{"rev-list", "--no-walk", "--objects", commit}})
	if err != nil {
		return nil, err
	}
	gitDir := filepath.Join(dir, ".git")
	for _, d := range []string{filepath.Join("objects", "pack"), filepath.Join("refs", "heads"), "info"} {
		if err := os.MkdirAll(filepath.Join(gitDir, d), 0o700); err != nil {
			return nil, fmt.Errorf("check out: %w", err)
		}
	}
	for name, text := range map[string]string{
		"HEAD": commit + "\n", "shallow": commit + "\n",
		"config": "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tlogallrefupdates = false\n",
	} {
		if err := os.WriteFile(filepath.Join(gitDir, name), []byte(text), 0o600); err != nil {
			return nil, fmt.Errorf("check out: %w", err)
		}
	}
	if _, err := r.run(ctx, call{args: []string{"pack-objects", "-q", filepath.Join(gitDir, "objects", "pack", "pack")}, stdin: list}); err != nil {
		return nil, err
	}
	loc, err := Find(dir)
	if err != nil {
		return nil, err
	}
	made := Open(r.proc, loc)
	if _, err := made.run(ctx, call{args: []string{"read-tree", "--reset", "-u", commit}}); err != nil {
		return nil, err
	}
	return made, nil
}

// CopyChanges brings the files of a checkout of HEAD in dir in line with the work
// tree: what is changed, new and not ignored, or gone there. Nested repositories
// are left out.
func (r *Repo) CopyChanges(ctx context.Context, dir string) error {
	changes, err := r.Status(ctx)
	if err != nil {
		return err
	}
	from, err := os.OpenRoot(r.workTree)
	if err != nil {
		return fmt.Errorf("copy changes: %w", err)
	}
	defer func() { _ = from.Close() }() // it was only read
	to, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("copy changes: %w", err)
	}
	defer func() { _ = to.Close() }() // its files are closed one by one
	for _, c := range changes {
		for _, name := range []string{c.OldPath, c.Path} {
			if name == "" || strings.HasSuffix(name, "/") {
				continue
			}
			if err := copyChange(from, to, filepath.FromSlash(name)); err != nil {
				return fmt.Errorf("copy change of %q: %w", name, err)
			}
		}
	}
	return nil
}

// copyChange makes one file of a tree what it is in another.
func copyChange(from, to *os.Root, name string) error {
	info, err := from.Lstat(name)
	if err == nil && info.IsDir() {
		return nil
	}
	if rm := to.RemoveAll(name); rm != nil {
		return rm
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	if err := to.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := from.Readlink(name)
		if err != nil {
			return err
		}
		return to.Symlink(target, name)
	}
	if !info.Mode().IsRegular() {
		return nil // git does not know it either
	}
	r, err := from.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it was only read
	w, err := to.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Close())
}
