package trees

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"ralph/workers/git"
)

// unfit says why a path is not for a commit, "" when it is. size and target are
// those of a file and of a symlink there.
func (t *Trees) unfit(r record, name string, size func() int64, target func() string) string {
	to := target()
	switch {
	case !git.GoodPath(strings.TrimSuffix(name, "/")): // a directory ends in one
		return whyRefused + "hasDotgit"
	case t.own(name):
		return whyState
	case to != "" && slices.ContainsFunc(r.Links, func(l link) bool { return string(l.Path) == name && string(l.Target) == to }):
		return whyLinked
	case secret(name):
		return whySecret
	case to != "" && (path.IsAbs(to) || path.Clean(path.Join(path.Dir(name), to)) == ".." || strings.HasPrefix(path.Clean(path.Join(path.Dir(name), to)), "../")):
		return whyOutside
	case to != "" && git.ReadByGit(name) && path.Base(name) != ".gitattributes":
		return whyRefused + "gitmodulesSymlink"
	case size() > maxFileBytes:
		return whyBig()
	}
	return ""
}

// sanitize takes out of an index all changes since the base of the agent that are not
// for a commit, and writes the tree that is left: one that git would refuse is never
// among the user's objects.
func (t *Trees) sanitize(ctx context.Context, p git.Plumbing, r record, index string) (tree string, left []string, err error) {
	out, _, err := p.Run(ctx, git.Call{Args: append(append([]string{"diff-index", "--cached"}, rawDiff()...), r.Base, "--"), Index: index})
	if err != nil {
		return "", nil, err
	}
	list, err := t.changes(out)
	if err != nil {
		return "", nil, err
	}
	why := map[string]string{}
	if len(list) > 0 {
		if why, err = t.unfits(ctx, p, r, index, list); err != nil {
			return "", nil, err
		}
	}
	if len(why) > 0 {
		return t.revert(ctx, p, index, list, why)
	}
	if tree, err = p.WriteTree(ctx, index); err == nil {
		if base, err := t.treeOf(ctx, r.Base); err == nil {
			t.last.Store(&compared{base, tree, list}) // what Merge asks next
		}
	}
	return tree, nil, err
}

// revert takes those changes back that there is a reason for.
func (t *Trees) revert(ctx context.Context, p git.Plumbing, index string, list []change, why map[string]string) (string, []string, error) {
	var info []byte
	var left []string
	for _, c := range list {
		w := why[c.path]
		if w == "" {
			continue
		}
		if c.oldMode == modeNone {
			info = fmt.Appendf(info, "0 %s\t%s\x00", strings.Repeat("0", len(c.oldHash)), c.path)
		} else {
			info = fmt.Appendf(info, "%s %s 0\t%s\x00", c.oldMode, c.oldHash, c.path)
		}
		if w != whyLinked && !strings.HasPrefix(t.below(c.path), ".ralph/") {
			left = append(left, reason(c.path, w))
		}
	}
	if _, _, err := p.Run(ctx, git.Call{Args: []string{"update-index", "-z", "--index-info"}, Stdin: info, Index: index}); err != nil {
		return "", nil, err
	}
	tree, err := p.WriteTree(ctx, index)
	return tree, left, err
}

// unfits says for each of the changes that are not for a commit why not.
func (t *Trees) unfits(ctx context.Context, p git.Plumbing, r record, index string, list []change) (map[string]string, error) {
	var paths, blobs, links []string
	for _, c := range list {
		switch {
		case c.newMode == modeLink:
			links = append(links, c.newHash)
			fallthrough
		case c.newMode != modeNone && c.newMode != modeGitlink:
			blobs = append(blobs, c.newHash)
		}
		paths = append(paths, c.path)
	}
	sizes := map[string]int64{}
	out, _, err := p.Run(ctx, git.Call{Args: []string{"cat-file", "--batch-check=%(objectname) %(objectsize)"}, Stdin: []byte(strings.Join(blobs, "\n") + "\n")})
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(out)) {
		hash, size, _ := strings.Cut(strings.TrimSpace(line), " ")
		sizes[hash], _ = strconv.ParseInt(size, 10, 64) // "missing" is 0, and write-tree says so
	}
	targets, err := linkTargets(ctx, p, links, sizes)
	if err != nil {
		return nil, err
	}
	filtered, err := p.Filtered(ctx, index, paths)
	if err != nil {
		return nil, err
	}
	why, err := t.refused(ctx, list)
	if err != nil {
		return nil, err
	}
	repos, err := t.repositories(ctx, r.Base, list)
	if err != nil {
		return nil, err
	}
	for _, c := range list {
		target := ""
		if c.newMode == modeLink {
			target = targets[c.newHash]
		}
		w := t.unfit(r, c.path, func() int64 { return sizes[c.newHash] }, func() string { return target })
		if c.newMode == modeGitlink && c.oldMode == modeNone && t.cloned(r, c.path) {
			w = whyNested
		}
		if w == "" && c.newMode != modeGitlink && slices.Contains(filtered, c.path) {
			w = whyFilter
		}
		if w == "" && t.Refuse != nil {
			made := t.proposed(ctx, p, c, repos, sizes[c.newHash])
			made.Agent, made.Link = r.Agent, target
			w = t.Refuse(made)
		}
		if w != "" {
			why[c.path] = w
		}
	}
	for _, gone := range list {
		moved := func(c change) bool { return c.newHash == gone.oldHash && c.oldMode == modeNone && why[c.path] != "" }
		if gone.newMode == modeNone && why[gone.path] == "" && slices.ContainsFunc(list, moved) {
			why[gone.path] = whyMoved
		}
	}
	return why, nil
}

// proposed describes a change for Refuse, without agent and link; size is of its content.
func (t *Trees) proposed(ctx context.Context, p git.Plumbing, c change, repos git.BareDirs, size int64) Proposed {
	return Proposed{Path: c.path, Exists: c.oldMode != modeNone, Repository: repos.At(c.path), Plain: c.newMode == modeFile || c.newMode == c.oldMode,
		Content: func() ([]byte, error) { return t.blob(ctx, p, c.newMode, c.newHash, size) },
		Before:  func() ([]byte, error) { return t.blob(ctx, p, c.oldMode, c.oldHash, 0) }}
}

// blob reads what a file holds.
func (t *Trees) blob(ctx context.Context, p git.Plumbing, mode, hash string, size int64) ([]byte, error) {
	if !isFile(mode) || mode == modeLink || size > maxFileBytes {
		return nil, fmt.Errorf("read %s: %w", hash, fs.ErrNotExist)
	}
	out, _, err := p.Run(ctx, git.Call{Args: []string{"cat-file", "blob", hash}})
	return out, err
}

// linkTargets reads where symlinks lead; one that is too long leads out of the tree.
func linkTargets(ctx context.Context, p git.Plumbing, links []string, sizes map[string]int64) (map[string]string, error) {
	const most = 4096
	targets := map[string]string{}
	links = slices.DeleteFunc(links, func(hash string) bool {
		if sizes[hash] > most {
			targets[hash] = "/"
		}
		return sizes[hash] > most
	})
	if len(links) == 0 {
		return targets, nil
	}
	out, _, err := p.Run(ctx, git.Call{Args: []string{"cat-file", "--batch=%(objectname)"}, Stdin: []byte(strings.Join(links, "\n") + "\n")})
	if err != nil {
		return nil, err
	}
	for rest := string(out); rest != ""; {
		hash, text, _ := strings.Cut(rest, "\n")
		n := int(sizes[hash])
		if n+1 > len(text) {
			return nil, fmt.Errorf("git cat-file: %.80q", rest)
		}
		targets[hash], rest = text[:n], text[n+1:]
	}
	return targets, nil
}

// cloned says that an agent has a repository with all that belongs to it below a
// path, unlike a submodule: git add takes such a one for a submodule that nobody
// could ever get.
func (t *Trees) cloned(r record, name string) bool {
	info, err := os.Lstat(filepath.Join(t.dir(r.Agent), filepath.FromSlash(name), ".git"))
	return err == nil && info.IsDir()
}

// repositories returns the directories that are repositories without a working tree once
// changes are made to base, to the work that was merged before, or to the user's files.
func (t *Trees) repositories(ctx context.Context, base string, list []change) (git.BareDirs, error) {
	if !slices.ContainsFunc(list, func(c change) bool { return git.OfRepository(c.path) }) {
		return nil, nil
	}
	dirs := git.BareDirs{}
	for _, c := range list {
		if c.newMode != modeNone {
			dirs.Add(c.path)
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
			dirs.Add(name)
		}
	}
	dirs.AddFiles(t.loc.Root)
	return dirs, nil
}
