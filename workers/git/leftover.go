package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxLeftovers bounds how many names a look for leftovers gives.
const maxLeftovers = 100

// StaleLocks lists the lock files of git, absolute, where only Ralph's own git
// commands write: at Ralph's refs, the branches of agents, and in worktrees below
// the state directory. While the caller holds the project's lock and runs no git
// itself, they are of commands that were killed. Of the user's own there is only an
// index.lock that names a Ralph that is no more.
func (c *Checkpoints) StaleLocks() []string {
	if c.user == nil {
		return nil
	}
	places := []string{filepath.Join(c.user.commonDir, "refs", "ralph"), filepath.Join(c.user.commonDir, "refs", "heads", "ralph")}
	for _, w := range c.worktrees() {
		places = append(places, w.gitDir)
	}
	var locks []string
	if lock := filepath.Join(c.user.gitDir, "index.lock"); staleLock(lock) {
		locks = append(locks, lock)
	}
	for _, place := range places {
		// What cannot be read has nothing that could be swept.
		_ = filepath.WalkDir(place, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil && d != nil && d.IsDir():
				return fs.SkipDir
			case err != nil:
				return nil
			case d.IsDir() && d.Name() == "objects":
				return fs.SkipDir
			case d.Type().IsRegular() && strings.HasSuffix(path, ".lock"):
				locks = append(locks, path)
			}
			if len(locks) >= maxLeftovers {
				return fs.SkipAll
			}
			return nil
		})
	}
	return locks
}

// SweepLocks removes what StaleLocks lists and gives what it removed. The caller
// holds the project's lock and runs no git of its own.
func (c *Checkpoints) SweepLocks() ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var removed []string
	var errs []error
	for _, path := range c.StaleLocks() {
		err := os.Remove(path)
		switch {
		case err == nil:
			removed = append(removed, path)
		case !errors.Is(err, fs.ErrNotExist):
			errs = append(errs, fmt.Errorf("remove stale lock: %w", err))
		}
	}
	return removed, errors.Join(errs...)
}

// Worktrees lists the linked worktrees below the state directory, absolute,
// that the repository knows, and the directories there that it does not.
func (c *Checkpoints) Worktrees() []string {
	var list []string
	for _, w := range c.worktrees() {
		// A dot begins the name of one that is kept for the next agent.
		if !strings.HasPrefix(filepath.Base(w.root), ".") {
			list = append(list, w.root)
		}
	}
	entries, err := os.ReadDir(filepath.Join(c.stateDir, "worktrees"))
	if err != nil {
		return list
	}
	for _, e := range entries {
		path := filepath.Join(c.stateDir, "worktrees", e.Name())
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !slices.Contains(list, path) && len(list) < maxLeftovers {
			list = append(list, path)
		}
	}
	return list
}

// linkedTree is a linked worktree and the part of the repository that is its
// own.
type linkedTree struct{ root, gitDir string }

// worktrees reads what the repository says of its linked worktrees and gives
// those below the state directory; it starts no process.
func (c *Checkpoints) worktrees() []linkedTree {
	if c.user == nil {
		return nil
	}
	dir := filepath.Join(c.user.commonDir, "worktrees")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	inside := filepath.Join(c.stateDir, "worktrees") + string(filepath.Separator)
	var list []linkedTree
	for _, e := range entries {
		gitDir := filepath.Join(dir, e.Name())
		text, err := readSmall(filepath.Join(gitDir, "gitdir"))
		root := filepath.Dir(strings.TrimSpace(text))
		if err == nil && strings.HasPrefix(root, inside) && len(list) < maxLeftovers {
			list = append(list, linkedTree{root, gitDir})
		}
	}
	return list
}

// CommitOf says for each path that commits changed in which of them it was
// changed last. The commits are full hashes, oldest first, as CommitsSince gives
// them; paths are relative to the root of the work tree.
func (r *Repo) CommitOf(ctx context.Context, commits []string) (map[string]string, error) {
	if len(commits) == 0 {
		return nil, nil
	}
	for _, c := range commits {
		if !isHash(c) {
			return nil, fmt.Errorf("git diff-tree: commit %q: %w", c, ErrBadName)
		}
	}
	args := []string{"diff-tree", "--stdin", "--root", "-r", "-z", "--name-only", "--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty"}
	out, err := r.run(ctx, call{args: args, stdin: []byte(strings.Join(commits, "\n") + "\n")})
	if err != nil {
		return nil, err
	}
	last := map[string]string{}
	at := ""
	for _, f := range splitNul(out) {
		// Each commit is named before its paths; a path is no hash that was asked for.
		if slices.Contains(commits, f) {
			at = f
			continue
		}
		last[f] = at
	}
	return last, nil
}
