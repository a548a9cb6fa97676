package git

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"ralph/workers/exec/acts"
)

// bareParts are the names by which git knows a directory for a repository, folded: HEAD,
// with commondir or with objects and refs (gitrepository-layout(5); is_git_directory of
// git's setup.c).
type bareParts struct{ head, common, objects, refs bool }

func (b bareParts) whole() bool { return b.head && (b.common || b.objects && b.refs) }

// BareDirs are the directories that have some of the parts of a repository without a working
// tree, by their folded path.
type BareDirs map[string]bareParts

// At returns the directory, folded, above a path that is a repository; "" for none. The
// root has .git, which git looks for first.
func (b BareDirs) At(name string) string {
	for dir := path.Dir(acts.FoldPath(name)); dir != "."; dir = path.Dir(dir) {
		if b[dir].whole() {
			return dir
		}
	}
	return ""
}

// Add notes what a path says of the directories above it.
func (b BareDirs) Add(name string) {
	parts := strings.Split(acts.FoldPath(name), "/")
	for i, p := range parts {
		dir := path.Join(append([]string{"."}, parts[:i]...)...)
		at, last := b[dir], i == len(parts)-1
		switch {
		case p == "head" && last:
			at.head = true
		case p == "commondir" && last:
			at.common = true
		case p == "objects": // may be a link
			at.objects = true
		case p == "refs":
			at.refs = true
		default:
			continue
		}
		b[dir] = at
	}
}

// OfRepository reports whether a path has a name that git gives a meaning in a repository.
func OfRepository(name string) bool {
	return slices.ContainsFunc(strings.Split(acts.FoldPath(name), "/"), func(part string) bool {
		switch part {
		case "head", "commondir", "objects", "refs", "config", "config.worktree", "hooks", "info", "modules", "worktrees":
			return true
		}
		return false
	})
}

// AddFiles notes which parts the directories have on disk, below root.
func (b BareDirs) AddFiles(root string) {
	for dir := range maps.Clone(b) {
		for _, name := range []string{"HEAD", "commondir", "objects", "refs"} {
			if _, err := os.Lstat(filepath.Join(root, filepath.FromSlash(dir), name)); err == nil {
				b.Add(dir + "/" + name)
			}
		}
	}
}
