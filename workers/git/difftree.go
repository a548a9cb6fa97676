package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// entry is one path that differs between two trees.
type entry struct {
	path, oldPath    string
	oldMode, newMode string
	oldHash, newHash string
	status           byte
	added, removed   int
	perm             fs.FileMode // of the file before, 0 where that is not known
}

// compare reads the differences of two checkpoints, or trees.
func (c *Checkpoints) compare(ctx context.Context, from, to Checkpoint, flags ...string) ([]entry, error) {
	var trees []string
	for _, cp := range []Checkpoint{from, to} {
		rev := cp.Commit
		if rev == "" {
			rev = cp.Tree
		}
		if !isHash(rev) {
			return nil, fmt.Errorf("checkpoint %q: commit %q: %w", cp.ID, rev, ErrBadName)
		}
		trees = append(trees, rev)
	}
	args := []string{"diff-tree", "-r", "-z", "--raw", "--numstat", "--no-abbrev", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty"}
	out, err := c.run(ctx, call{args: append(append(args, flags...), append(trees, "--")...)})
	if err != nil {
		return nil, err
	}
	entries, err := parseDiffTree(out)
	if err != nil {
		return nil, &Error{Op: "diff-tree", Path: c.workTree, Err: err}
	}
	return slices.DeleteFunc(entries, func(e entry) bool {
		return stateFile(e.path) || stateFile(e.oldPath) || ownPath(e.path)
	}), nil
}

var errShortDiff = errors.New("diff-tree: the output ends too early")

// parseDiffTree reads the raw entries and the counts that follow them.
func parseDiffTree(out []byte) ([]entry, error) {
	var entries []entry
	counts := map[string][2]int{}
	f := splitNul(out)
	next := func() (string, bool) {
		if len(f) == 0 {
			return "", false
		}
		s := f[0]
		f = f[1:]
		return s, true
	}
	for head, ok := next(); ok; head, ok = next() {
		if !strings.HasPrefix(head, ":") {
			path, n, err := parseCount(head, next)
			if err != nil {
				return nil, err
			}
			counts[path] = n
			continue
		}
		p := strings.Fields(head[1:])
		if len(p) != 5 {
			return nil, fmt.Errorf("raw entry %q", head)
		}
		e := entry{oldMode: p[0], newMode: p[1], oldHash: p[2], newHash: p[3], status: p[4][0]}
		if e.path, ok = next(); !ok {
			return nil, errShortDiff
		}
		if e.status == 'R' || e.status == 'C' {
			e.oldPath = e.path
			if e.path, ok = next(); !ok {
				return nil, errShortDiff
			}
		}
		entries = append(entries, e)
	}
	for i := range entries {
		n := counts[entries[i].path]
		entries[i].added, entries[i].removed = n[0], n[1]
	}
	return entries, nil
}

// parseCount reads "added TAB removed TAB path", or without a path when two
// follow, the old and the new one.
func parseCount(head string, next func() (string, bool)) (string, [2]int, error) {
	p := strings.SplitN(head, "\t", 3)
	if len(p) != 3 {
		return "", [2]int{}, fmt.Errorf("count %q", head)
	}
	name := p[2]
	if name == "" {
		_, hasOld := next()
		newName, hasNew := next()
		if !hasOld || !hasNew {
			return "", [2]int{}, errShortDiff
		}
		name = newName
	}
	var n [2]int
	for i := range n {
		var err error
		if p[i] == "-" {
			n[i] = -1
		} else if n[i], err = strconv.Atoi(p[i]); err != nil {
			return "", n, fmt.Errorf("count %q: %w", head, err)
		}
	}
	return name, n, nil
}

func fileChanges(entries []entry) []FileChange {
	out := make([]FileChange, 0, len(entries))
	for _, e := range entries {
		out = append(out, e.change())
	}
	slices.SortFunc(out, func(a, b FileChange) int { return strings.Compare(a.Path, b.Path) })
	return out
}

func (e entry) change() FileChange {
	fc := FileChange{Path: e.path, OldPath: e.oldPath, Added: e.added, Removed: e.removed}
	switch e.status {
	case 'A', 'C':
		fc.Kind, fc.OldPath = Added, ""
	case 'D':
		fc.Kind = Deleted
	case 'R':
		fc.Kind = Renamed
	default:
		fc.Kind = Modified
	}
	return fc
}

// blob is an object's name, "" for the zeros that stand for none.
func blob(hash string) string {
	if strings.Trim(hash, "0") == "" {
		return ""
	}
	return hash
}
