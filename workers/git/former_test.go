package git

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFormerCheckpoints restores, exports and compares checkpoints that an earlier version took, which
// hold what git stores of files, in a store that new ones are taken into as well.
func TestFormerCheckpoints(t *testing.T) {
	w := newRepo(t)
	w.write(".gitattributes", "* text=auto eol=crlf\n*.id ident\n")
	w.write("dos", "1\r\n2\r\n")
	w.write("a.id", "$Id$\r\n")
	w.write("same", "same\r\n")
	w.commitAll("one")
	w.remove("a.id")
	w.git("checkout", "-q", "--", "a.id")
	want := []string{w.read("dos"), w.read("a.id"), w.read("same")}
	loc := must(Find(w.root))(t)
	open := func() *Checkpoints {
		return OpenCheckpoints(w.proc, w.root, filepath.Join(w.root, ".ralph"), w.path("home:former"), &loc)
	}
	ctx := t.Context()
	old := open()
	old.converts = true // as the earlier version: attributes of the user, and no mark
	earlier := func(id string) Checkpoint {
		tree := must(old.snapshot(ctx))(t)
		return must(old.keep(Checkpoint{ID: id, Tree: tree, Converted: true}))(t)
	}
	earlier("1.before")
	w.write("dos", "changed\r\n")
	w.write("a.id", "changed\r\n")
	w.write("new", "new\r\n")
	earlier("1.after")
	c := open()
	list := must(c.List(ctx))(t)
	by := map[string]Checkpoint{}
	for _, cp := range list {
		by[cp.ID] = cp
	}
	if !by["1.before"].Converted || !by["1.after"].Converted {
		t.Fatalf("%+v", list)
	}
	equal(t, "what differs now", len(must(c.Since(ctx, by["1.after"]))(t)), 0)
	if now := take(t, c, "2.before"); now.Converted {
		t.Error("a new one is not of bytes")
	}
	r := must(c.Restore(ctx, by["1.before"], by["1.after"], nil))(t)
	equal(t, "kept", r.Kept, nil)
	equal(t, "files", []string{w.read("dos"), w.read("a.id"), w.read("same")}, want)
	dir := filepath.Join(t.TempDir(), "export")
	if err := c.Export(ctx, by["1.before"], dir); err != nil {
		t.Fatal(err)
	}
	equal(t, "exported", string(must(os.ReadFile(filepath.Join(dir, "dos")))(t)), want[0])
	w.write("dos", "again\r\n")
	w.write("same", "other\n")
	before := by["1.before"]
	r = must(c.Restore(ctx, before, take(t, c, "2.after"), nil))(t)
	equal(t, "over both", []string{w.read("dos"), w.read("a.id"), w.read("same")}, want)
	if err := c.Drop(ctx, "1.before", "1.after"); err != nil {
		t.Fatal(err)
	}
	equal(t, "left", len(must(c.List(ctx))(t)), 2)
}
