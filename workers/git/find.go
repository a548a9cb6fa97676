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

// Find looks for the work tree that dir is in, upwards, by reading .git entries;
// it starts no process. Symlinks in dir are resolved first. It returns
// ErrNoRepository outside a work tree, which includes a bare repository and the
// inside of a .git directory, and ErrForeign for a .git entry that leads to
// somebody else's.
func Find(dir string) (Location, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return Location{}, fmt.Errorf("find repository of %q: %w", dir, err)
	}
	for at := abs; ; at = filepath.Dir(at) {
		loc, ok, err := locate(at) // before IsGitDir, as git does
		if err != nil {
			return Location{}, fmt.Errorf("find repository of %q: %w", dir, err)
		}
		if ok {
			return loc, nil
		}
		if IsGitDir(at) || at == filepath.Dir(at) {
			break
		}
	}
	return Location{}, fmt.Errorf("find repository of %q: %w", dir, ErrNoRepository)
}

// locate looks at the .git entry of one directory. One that is no repository
// does not count, as with git itself.
func locate(root string) (Location, bool, error) {
	entry := filepath.Join(root, ".git")
	info, err := os.Stat(entry)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return Location{}, false, nil
	}
	if err != nil {
		return Location{}, false, err
	}
	if info.IsDir() {
		gitDir, err := filepath.EvalSymlinks(entry)
		if err != nil || !IsGitDir(gitDir) {
			return Location{}, false, err
		}
		return complete(root, gitDir)
	}
	b, err := readSmall(entry)
	if err != nil {
		return Location{}, false, err
	}
	target, ok := strings.CutPrefix(strings.TrimRight(b, "\r\n"), "gitdir: ")
	if !ok {
		return Location{}, false, nil
	}
	gitDir, err := filepath.EvalSymlinks(from(root, target))
	if err != nil || !IsGitDir(gitDir) {
		// The repository that it names was moved or deleted.
		return Location{}, false, nil
	}
	return complete(root, gitDir)
}

// complete fills in the rest, for a repository that belongs to root and in
// which nothing leads elsewhere.
func complete(root, gitDir string) (Location, bool, error) {
	loc := Location{Root: root, GitDir: gitDir, CommonDir: gitDir}
	if !belongs(root, gitDir) {
		return Location{}, false, foreign(root, gitDir)
	}
	if err := sound(root, gitDir); err != nil {
		return Location{}, false, err
	}
	b, err := readSmall(filepath.Join(gitDir, "commondir"))
	switch {
	case err == nil:
		common, err := filepath.EvalSymlinks(from(gitDir, strings.TrimRight(b, "\r\n")))
		if err != nil {
			return Location{}, false, err
		}
		loc.CommonDir, loc.Worktree = common, common != gitDir
		// Git makes a common directory only for what is below its worktrees/.
		if loc.Worktree && filepath.Dir(filepath.Dir(gitDir)) != common && !inside(root, common) {
			return Location{}, false, foreign(root, common)
		}
		if err := sound(root, common); err != nil {
			return Location{}, false, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return Location{}, false, err
	}
	loc.Submodule = strings.Contains(filepath.ToSlash(loc.CommonDir), "/.git/modules/")
	return loc, true, nil
}

// IsGitDir reports whether a directory looks to git like the inside of a repository, or of the part
// that a linked worktree has for itself.
func IsGitDir(dir string) bool {
	if _, err := os.Lstat(filepath.Join(dir, "HEAD")); err != nil {
		return false
	}
	if _, err := os.Stat(filepath.Join(dir, "commondir")); err == nil {
		return true
	}
	objects, err := os.Stat(filepath.Join(dir, "objects"))
	if err != nil || !objects.IsDir() {
		return false
	}
	refs, err := os.Stat(filepath.Join(dir, "refs"))
	return err == nil && refs.IsDir()
}

func from(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// readSmall reads a file of git that holds one line.
func readSmall(path string) (string, error) {
	const most = 64 << 10
	b, err := regular.Read(path, most)
	return string(b), err
}
