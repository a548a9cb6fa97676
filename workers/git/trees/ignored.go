package trees

import (
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"ralph/workers/exec"
	"ralph/workers/git"
	"ralph/workers/tempdir"
)

// ignoredAt returns those of the paths that git ignores in a tree, a directory with a slash behind,
// which the rules of a commit and of the user ignore, too, with dependencies: rules that an
// agent adds hide nothing else from a check. Of a directory that they do not ignore as a
// whole it returns what in it they do.
func (t *Trees) ignoredAt(ctx context.Context, r record, commit string, paths []string) ([]string, error) {
	var out, ask []string
	for _, name := range paths {
		if slices.ContainsFunc(strings.Split(strings.TrimSuffix(name, "/"), "/"), dependencies) {
			out = append(out, name)
		} else {
			ask = append(ask, name)
		}
	}
	if len(ask) == 0 {
		return out, nil
	}
	rules := filepath.Join(t.private(), exec.TempName("rules"))
	defer func() { _ = tempdir.Clear(rules) }() // the next sweep of the directory removes it
	if err := t.layRules(ctx, commit, rules); err != nil {
		return nil, err
	}
	at := t.location(r)
	at.Root = rules
	p := git.Open(t.proc, at).Raw().Plumbing()
	known, err := p.Ignored(ctx, ask)
	if err != nil {
		return nil, err
	}
	var within []string
	for _, name := range ask {
		if dir, found := strings.CutSuffix(name, "/"); found && !slices.Contains(known, name) {
			inside, kept := t.inside(r, dir)
			within, out = append(within, inside...), append(out, kept...)
		}
	}
	if len(within) > 0 {
		if within, err = p.Ignored(ctx, within); err != nil {
			return nil, err
		}
	}
	return slices.Concat(out, known, within), nil
}

// inside lists the files in a directory of a tree, and apart from them dependencies.
func (t *Trees) inside(r record, dir string) (files, kept []string) {
	root := t.dir(r.Agent)
	_ = filepath.WalkDir(filepath.Join(root, filepath.FromSlash(dir)), func(at string, d fs.DirEntry, err error) error {
		name := path.Join(dir, filepath.ToSlash(strings.TrimPrefix(at, filepath.Join(root, filepath.FromSlash(dir)))))
		switch {
		case err != nil: // nothing in it can be read, so nothing is known to be ignored
			return fs.SkipDir
		case d.IsDir() && dependencies(name):
			kept = append(kept, name)
			return fs.SkipDir
		case !d.IsDir():
			files = append(files, name)
		}
		return nil
	})
	return files, kept
}

// layRules makes a directory with nothing but the files of rules of a commit.
func (t *Trees) layRules(ctx context.Context, commit, dir string) error {
	p := t.user()
	index, remove, err := p.TempIndex(t.private(), "")
	if err != nil {
		return err
	}
	defer remove()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if _, _, err := p.Run(ctx, git.Call{Args: []string{"read-tree", commit}, Index: index}); err != nil {
		return err
	}
	out, _, err := p.Run(ctx, git.Call{Args: []string{"ls-files", "-z"}, Index: index})
	if err != nil {
		return err
	}
	names := slices.DeleteFunc(fields(out), func(name string) bool { return path.Base(name) != ".gitignore" })
	if len(names) == 0 {
		return nil
	}
	_, _, err = p.Run(ctx, git.Call{Args: []string{"checkout-index", "--prefix=" + dir + "/", "-z", "--stdin"}, Stdin: []byte(strings.Join(names, "\x00") + "\x00"), Index: index})
	return err
}
