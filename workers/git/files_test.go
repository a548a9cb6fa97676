package git

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestParseFiles(t *testing.T) {
	t.Parallel()
	object := strings.Repeat("0", 40)
	in := func(tag, mode, path string) string { return fmt.Sprintf("%s %s %s 0\t%s\x00", tag, mode, object, path) }
	got, err := parseFiles([]byte("? new\x00? nested/\x00? .ralph/x\x00? a\tb\x00" + in("H", "100644", "z") + in("H", "100644", "gone") + in("R", "100644", "gone") +
		in("H", "160000", "module") + in("M", "100644", "conflict") + in("M", "100644", "conflict") + in("S", "100644", "sparse") + in("H", "120000", "li nk")))
	if want := []string{"a\tb", "conflict", "li nk", "new", "z"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []string{"x", "H 100644 no path", "HH x", "\x00"} {
		if _, err := parseFiles([]byte(bad + "\x00")); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func FuzzParseFiles(f *testing.F) {
	f.Add([]byte("? a\x00H 100644 0 0\tb\x00"))
	f.Fuzz(func(t *testing.T, out []byte) {
		paths, err := parseFiles(out)
		if err != nil {
			return
		}
		if !slices.IsSorted(paths) || len(slices.Compact(slices.Clone(paths))) != len(paths) || slices.Contains(paths, "") {
			t.Errorf("%q", paths)
		}
	})
}

// A conflict, a submodule, a sparse work tree, a rename that is only staged.
func TestFiles(t *testing.T) {
	w := newRepo(t)
	w.write(".gitignore", "*.log\n")
	w.write("kept/a.txt", "a")
	w.write("away/b.txt", "b")
	w.write("forced.log", "c")
	w.git("add", "-f", "forced.log")
	w.commitAll("files")
	w.write("skip.log", "x")
	w.write("odd\tname\n.txt", "x")
	w.write("nested/f", "x")
	w.gitIn(w.path("nested"), "init", "-q", ".")
	w.write(".ralph/state", "x")
	w.git("update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat("1", 40)+",module")
	w.git("mv", "kept/a.txt", "kept/c.txt")
	r := w.open()
	want := []string{".gitignore", "away/b.txt", "forced.log", "kept/c.txt", "odd\tname\n.txt"}
	got := must(r.Files(t.Context(), ""))(t)
	if !slices.Equal(slices.DeleteFunc(got, func(p string) bool { return strings.HasPrefix(p, "README") }), want) {
		t.Errorf("%q", got)
	}
	equal(t, "below", must(r.Files(t.Context(), "kept"))(t), []string{"kept/c.txt"})
	equal(t, "nothing", len(must(r.Files(t.Context(), "no/such"))(t)), 0)
	w.git("update-index", "--skip-worktree", "away/b.txt")
	w.remove("away/b.txt")
	if got := must(r.Files(t.Context(), "away"))(t); len(got) != 0 {
		t.Errorf("%q", got)
	}
	if err := os.RemoveAll(w.path("nested")); err != nil {
		t.Fatal(err)
	}
	w.conflict()
	got = must(r.Files(t.Context(), ""))(t)
	if len(slices.Compact(slices.Clone(got))) != len(got) {
		t.Errorf("a conflict is listed twice: %q", got)
	}
}
