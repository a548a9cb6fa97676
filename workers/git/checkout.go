package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
