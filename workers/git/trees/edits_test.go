package trees

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestEdits(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("keep.txt", "same\n")
	w.write("change.txt", "one\n\ntwo\n")
	w.write("gone.txt", "x")
	w.write("empty.txt", "")
	w.commitAll("begin")
	ts := w.trees()
	tree := w.add(ts, "a")
	in := &world{t: t, root: tree.Root, home: w.home, proc: w.proc}
	in.write("change.txt", "one\n")
	in.remove("gone.txt")
	in.write("sub/new ü.txt", "new\x00\n")
	in.write("empty.txt", "full")
	in.write("big.txt", strings.Repeat("x", 1<<20+1))
	w.commit(ts, "a")
	in.write("later.txt", "not committed")
	list, err := ts.Edits(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	want := []Edit{
		{Path: "big.txt", Big: true},
		{Path: "change.txt", Before: []byte("one\n\ntwo\n"), After: []byte("one\n")},
		{Path: "empty.txt", Before: []byte(""), After: []byte("full")},
		{Path: "gone.txt", Before: []byte("x")},
		{Path: "later.txt", After: []byte("not committed")},
		{Path: "sub/new ü.txt", After: []byte("new\x00\n")},
	}
	same := func(a, b Edit) bool {
		return a.Path == b.Path && a.Big == b.Big && (a.Before == nil) == (b.Before == nil) && (a.After == nil) == (b.After == nil) &&
			bytes.Equal(a.Before, b.Before) && bytes.Equal(a.After, b.After)
	}
	if !slices.EqualFunc(list, want, same) {
		t.Errorf("%+v", list)
	}
}
