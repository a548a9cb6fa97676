package trees

import (
	"context"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"ralph/workers/exec/acts"
	"ralph/workers/git"
)

// bareParts are the names by which git knows a directory for a repository, folded: HEAD,
// with commondir or with objects and refs (gitrepository-layout(5); is_git_directory of
// git's setup.c).
type bareParts struct{ head, common, objects, refs bool }

func (b bareParts) whole() bool { return b.head && (b.common || b.objects && b.refs) }

// bareDirs are the directories that have some of the parts, by their folded path.
type bareDirs map[string]bareParts

// at returns the directory, folded, above a path that is a repository; "" for none. The
// root has .git, which git looks for first.
func (b bareDirs) at(name string) string {
	for dir := path.Dir(acts.FoldPath(name)); dir != "."; dir = path.Dir(dir) {
		if b[dir].whole() {
			return dir
		}
	}
	return ""
}

// add notes what a path says of the directories above it.
func (b bareDirs) add(name string) {
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

// ofRepository reports whether a path has a name that git gives a meaning in a repository.
func ofRepository(name string) bool {
	return slices.ContainsFunc(strings.Split(acts.FoldPath(name), "/"), func(part string) bool {
		switch part {
		case "head", "commondir", "objects", "refs", "config", "config.worktree", "hooks", "info", "modules", "worktrees":
			return true
		}
		return false
	})
}

// repositories returns the directories that are repositories without a working tree once
// changes are made to base, to the work that was merged before, or to the user's files.
func (t *Trees) repositories(ctx context.Context, base string, list []change) (bareDirs, error) {
	if !slices.ContainsFunc(list, func(c change) bool { return ofRepository(c.path) }) {
		return nil, nil
	}
	dirs := bareDirs{}
	for _, c := range list {
		if c.newMode != modeNone {
			dirs.add(c.path)
		}
	}
	merged, err := t.tip(ctx, t.integrationRef())
	if err != nil {
		return nil, err
	}
	for _, commit := range []string{base, merged} {
		if commit == "" {
			continue
		}
		out, _, err := t.user().Run(ctx, git.Call{Args: []string{"ls-tree", "-r", "-z", "--name-only", "--full-tree", commit}})
		if err != nil {
			return nil, err
		}
		for _, name := range fields(out) {
			dirs.add(name)
		}
	}
	for dir := range maps.Clone(dirs) {
		for _, name := range []string{"HEAD", "commondir", "objects", "refs"} {
			if _, err := os.Lstat(filepath.Join(t.loc.Root, filepath.FromSlash(dir), name)); err == nil {
				dirs.add(dir + "/" + name)
			}
		}
	}
	return dirs, nil
}
