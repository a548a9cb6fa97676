package git

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// Files lists the files below dir, a directory relative to the root with slashes
// or "" for all: tracked ones that are there, and untracked ones that are not
// ignored. Paths are relative to the root, sorted, each once. Ralph's own
// directory, submodules and nested repositories are left out.
func (r *Repo) Files(ctx context.Context, dir string) ([]string, error) {
	args := []string{"ls-files", "-z", "-t", "--stage", "--cached", "--deleted", "--others", "--exclude-standard"}
	if dir != "" {
		args = append(args, "--", dir)
	}
	out, err := r.run(ctx, call{args: args})
	if err != nil {
		return nil, err
	}
	paths, err := parseFiles(out)
	if err != nil {
		return nil, &Error{Op: "ls-files", Path: r.workTree, Err: err}
	}
	return paths, nil
}

// parseFiles reads git-ls-files(1) with tags and stages, NUL-separated: "? path"
// for what is untracked, "T mode object stage\tpath" for the rest, where a file
// that is gone comes a second time with the tag R.
func parseFiles(out []byte) ([]string, error) {
	var paths []string
	gone := map[string]bool{}
	for _, e := range splitNul(out) {
		tag, rest, ok := strings.Cut(e, " ")
		if !ok || len(tag) != 1 {
			return nil, errors.New("an entry without a tag")
		}
		name := rest
		if tag != "?" {
			info, path, ok := strings.Cut(rest, "\t")
			if !ok {
				return nil, errors.New("an entry without a path")
			}
			if name = path; strings.HasPrefix(info, "160000 ") {
				continue // a submodule
			}
		}
		switch {
		case tag == "R", tag == "S": // gone, or left out of a sparse work tree
			gone[name] = true
		case name == "" || strings.HasSuffix(name, "/") || ownPath(name): // a nested repository, or Ralph's
		default:
			paths = append(paths, name)
		}
	}
	paths = slices.DeleteFunc(paths, func(p string) bool { return gone[p] })
	slices.Sort(paths)
	return slices.Compact(paths), nil
}
