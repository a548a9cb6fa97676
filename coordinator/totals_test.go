package coordinator

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"ralph/workers/git"
)

// What an undo took back is no change of the session any more; what an earlier turn
// did to the same file is.
func TestTakenBack(t *testing.T) {
	t.Parallel()
	file := func(kind git.Kind, added, removed int) git.FileChange {
		return git.FileChange{Path: "a.txt", Kind: kind, Added: added, Removed: removed}
	}
	list := func(f ...git.FileChange) []git.FileChange { return f }
	for name, c := range map[string]struct{ have, back, want []git.FileChange }{
		"a new file":      {list(file(git.Added, 3, 0)), list(file(git.Deleted, 0, 3)), nil},
		"a deleted one":   {list(file(git.Deleted, 0, 3)), list(file(git.Added, 3, 0)), nil},
		"one change":      {list(file(git.Modified, 2, 1)), list(file(git.Modified, 1, 2)), nil},
		"the last of two": {list(file(git.Modified, 5, 1)), list(file(git.Modified, 1, 2)), list(file(git.Modified, 3, 0))},
		"new and changed": {list(file(git.Added, 5, 1)), list(file(git.Modified, 1, 2)), list(file(git.Added, 3, 0))},
		"both":            {list(file(git.Added, 5, 1)), list(file(git.Modified, 1, 2), file(git.Deleted, 0, 3)), nil},
		"binary, new":     {list(file(git.Added, -1, -1)), list(file(git.Deleted, -1, -1)), nil},
		"binary, changed": {list(file(git.Modified, -1, -1)), list(file(git.Modified, -1, -1)), list(file(git.Modified, -1, -1))},
		"another session": {nil, list(file(git.Modified, 1, 2)), nil},
		"renamed": {list(git.FileChange{Path: "b.txt", OldPath: "a.txt", Kind: git.Renamed}),
			list(git.FileChange{Path: "a.txt", OldPath: "b.txt", Kind: git.Renamed}), nil},
		"another file": {list(file(git.Modified, 2, 1)), list(git.FileChange{Path: "b", Kind: git.Deleted, Removed: 1}), list(file(git.Modified, 2, 1))},
	} {
		before := append([]git.FileChange(nil), c.have...)
		got := takenBack(c.have, c.back)
		if len(got) != len(c.want) || len(got) > 0 && !cmp.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		if !cmp.Equal(before, c.have) {
			t.Errorf("%s: the totals that somebody else reads were changed", name)
		}
	}
}
