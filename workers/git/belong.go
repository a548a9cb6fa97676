package git

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"ralph/workers/regular"
)

// ErrForeign is matched by the error of Find for a .git entry that leads out of
// its directory to a repository which does not name that directory as its work
// tree: what is cloned or unpacked must not choose another repository of the
// user for Ralph to write in.
var ErrForeign = errors.New("leads to a repository that does not say it belongs here")

// foreign explains ErrForeign for the work tree root.
func foreign(root, target string) error {
	return fmt.Errorf("%q %w (%s); if it does: git -C %q config core.worktree %q",
		filepath.Join(root, ".git"), ErrForeign, target, root, root)
}

// belongs says that a git directory is inside root, or names it as its work
// tree: a linked worktree by the file gitdir, a submodule by core.worktree.
func belongs(root, gitDir string) bool {
	if inside(root, gitDir) {
		return true
	}
	if back, err := readSmall(filepath.Join(gitDir, "gitdir")); err == nil {
		entry := from(gitDir, strings.TrimRight(back, "\r\n"))
		dir, err := filepath.EvalSymlinks(filepath.Dir(entry))
		return err == nil && dir == root && filepath.Base(entry) == ".git"
	}
	config, err := readSmall(filepath.Join(gitDir, "config"))
	if err != nil {
		return false
	}
	tree := coreWorktree(config)
	if tree == "" {
		return false
	}
	dir, err := filepath.EvalSymlinks(from(gitDir, tree))
	return err == nil && dir == root
}

// inside says that path is dir or below it; both are free of symlinks.
func inside(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// coreWorktree reads one variable of a configuration as git writes it. What is
// written otherwise is not found, which only makes the repository foreign.
func coreWorktree(config string) string {
	value, core := "", false
	for line := range strings.Lines(config) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			core = strings.EqualFold(line, "[core]")
			continue
		}
		key, v, ok := strings.Cut(line, "=")
		if core && ok && strings.EqualFold(strings.TrimSpace(key), "worktree") {
			value = strings.Trim(strings.TrimSpace(v), `"`)
		}
	}
	return value
}

// sound refuses a git directory in which a file or directory that git reads or
// writes is a link that leads out of both the work tree and the repository, or
// something that an open would wait on, or too large for what it is.
func sound(root, gitDir string) error {
	for _, name := range []string{"HEAD", "config", "config.worktree", "commondir", "gitdir", "index", "packed-refs", "shallow",
		"info/", "info/exclude", "info/attributes", "info/grafts", "objects/", "objects/info/", "objects/pack/", "objects/info/alternates",
		"refs/", "refs/heads/", "refs/ralph/", "refs/ralph/checkpoints/", "logs/", "logs/HEAD", "logs/refs/", "logs/refs/heads/", "worktrees/"} {
		name, directory := strings.CutSuffix(name, "/")
		path := filepath.Join(gitDir, filepath.FromSlash(name))
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			target, err := filepath.EvalSymlinks(path)
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%q is a link to nothing", path)
			}
			if err != nil {
				return err
			}
			if !inside(root, target) && !inside(gitDir, target) {
				return fmt.Errorf("%q %w (%s)", path, ErrForeign, target)
			}
			if info, err = os.Stat(path); err != nil {
				return err
			}
		}
		switch {
		case directory && !info.IsDir():
			return &regular.Error{Path: path, Why: "is not a directory"}
		case !directory && info.IsDir():
			return &regular.Error{Path: path, Why: "is a directory"}
		case !directory && !info.Mode().IsRegular():
			return regular.Endless(path)
		}
		switch name {
		case "index", "shallow", "logs/HEAD": // they grow with the repository
		case "packed-refs": // as does this one, by lines
			if info.Mode().IsRegular() && info.Size() > maxConfigBytes {
				if err := refLines(path); err != nil {
					return err
				}
			}
		default:
			if info.Mode().IsRegular() && info.Size() > maxConfigBytes {
				return regular.Large(path, info.Size(), maxConfigBytes)
			}
		}
	}
	return nil
}
