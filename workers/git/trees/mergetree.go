package trees

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ralph/workers/git"
)

// merged is what git-merge-tree(1) made; with conflicts the tree has markers.
type merged struct {
	tree      string
	conflicts []Conflict
}

// mergeCommits merges two commits by their history, without touching a file.
func (t *Trees) mergeCommits(ctx context.Context, ours, theirs string) (merged, error) {
	out, code, err := t.user().Run(ctx, git.Call{Args: []string{"merge-tree", "--write-tree", "--messages", "--allow-unrelated-histories", "-z", ours, theirs}, Allow: []int{1}})
	if err != nil {
		return merged{}, err
	}
	m, err := parseMergeTree(out)
	if code == 0 {
		m.conflicts = nil // what it only remarks upon
	}
	// A bad revision is exit 1 too, but with no tree.
	if err == nil && (code == 1) != (len(m.conflicts) > 0) {
		err = fmt.Errorf("exit %d with %d conflicts", code, len(m.conflicts))
	}
	if err != nil {
		return merged{}, &git.Error{Op: "merge-tree", Path: t.loc.Root, ExitCode: code, Err: err}
	}
	return m, nil
}

// mergeTrees merges two trees or commits as changes of a third one.
func (t *Trees) mergeTrees(ctx context.Context, base, ours, theirs string) (merged, error) {
	var commits []string
	parent := ""
	for _, x := range []string{base, ours, theirs} {
		tree, err := t.treeOf(ctx, x)
		if err != nil {
			return merged{}, err
		}
		c, err := t.synthetic(tree, "ralph: one side of a merge", parent)
		if err != nil {
			return merged{}, err
		}
		if parent == "" {
			parent = c
		}
		commits = append(commits, c)
	}
	return t.mergeCommits(ctx, commits[1], commits[2])
}

// parseMergeTree reads a tree, the conflicted entries, and the messages, each
// with its paths and its type.
func parseMergeTree(out []byte) (merged, error) {
	f := strings.Split(string(out), "\x00")
	if !isHash(f[0]) {
		return merged{}, fmt.Errorf("no tree in %.80q", out)
	}
	m := merged{tree: f[0]}
	kinds, told := map[string]string{}, map[string]string{}
	i := 1
	for ; i < len(f) && f[i] != ""; i++ {
		head, path, ok := strings.Cut(f[i], "\t")
		if !ok || len(strings.Fields(head)) != 3 {
			return merged{}, fmt.Errorf("conflicted entry %.80q", f[i])
		}
		kinds[path] = ""
	}
	for i++; i < len(f) && f[i] != ""; {
		n, err := strconv.Atoi(f[i])
		if err != nil || n < 0 || n > len(f)-i-3 {
			return merged{}, fmt.Errorf("message %.80q", f[i])
		}
		paths, kind := f[i+1:i+1+n], f[i+1+n]
		if k, ok := strings.CutPrefix(kind, "CONFLICT ("); ok {
			for _, p := range paths {
				told[p] = strings.TrimSuffix(k, ")")
			}
		}
		i += n + 3
	}
	if len(kinds) == 0 {
		kinds = told // a conflict of names, without an entry
	}
	for p := range kinds {
		m.conflicts = append(m.conflicts, Conflict{p, first(told[p], "contents")})
	}
	slices.SortFunc(m.conflicts, func(a, b Conflict) int { return strings.Compare(a.Path, b.Path) })
	return m, nil
}
