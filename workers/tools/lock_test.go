package tools

import (
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLockIsAskedBeforeAChange(t *testing.T) {
	var asked []string
	held := errors.New("src/a.go is being changed by parser; take another part or wait for it")
	b := newBench(t, func(e *Env) {
		e.Lock = func(path string) error {
			asked = append(asked, path)
			if path == "src/a.go" {
				return held
			}
			return nil
		}
	})
	b.put("src/a.go", "one\n")
	b.put("b.go", "one\n")
	if err := os.Symlink("src", b.path("link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tool string
		args []any
	}{
		{"write", []any{"path", "link/a.go", "content", "two\n"}},
		{"edit", []any{"path", b.root + "/link/../src/a.go", "old_string", "one", "new_string", "two"}},
	} {
		r, err := b.try(c.tool, c.args...)
		if err == nil || err.Error() != held.Error() {
			t.Errorf("%s: %+v %v", c.tool, r, err)
		}
	}
	if b.get("src/a.go") != "one\n" {
		t.Error("changed all the same")
	}
	b.run("write", "path", "b.go", "content", "two\n")
	b.run("write", "path", "link/new/c.go", "content", "two\n")
	b.run("edit", "path", "b.go", "old_string", "two", "new_string", "three")
	b.run("read", "path", "src/a.go")
	// Nothing is locked for what changes nothing or is refused anyway.
	b.run("write", "path", "b.go", "content", "three\n")
	b.try("edit", "path", "b.go", "old_string", "none", "new_string", "x")
	b.try("write", "path", ".git/config", "content", "x")
	if d := cmp.Diff([]string{"src/a.go", "src/a.go", "b.go", "src/new/c.go", "b.go"}, asked); d != "" {
		t.Error(d)
	}
	if b.get("b.go") != "three\n" || b.get("src/new/c.go") != "two\n" {
		t.Error("not written")
	}
}
