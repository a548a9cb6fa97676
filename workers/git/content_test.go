package git

import (
	"errors"
	"testing"
)

func TestContent(t *testing.T) {
	w := newRepo(t)
	if got, err := w.open().Content(t.Context(), "HEAD", "a.md"); err != nil || got != nil {
		t.Errorf("before the first commit: %q, %v", got, err)
	}
	w.write(".gitattributes", "*.md text eol=crlf\n")
	w.write("a.md", "one\n- [ ] two\n")
	w.write("sub/empty.md", "")
	w.commitAll("first")
	w.write("a.md", "changed since\n")
	for path, want := range map[string]string{"a.md": "one\n- [ ] two\n", "sub/empty.md": ""} {
		got, err := w.open().Content(t.Context(), "HEAD", path)
		if err != nil || got == nil || string(got) != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	for _, path := range []string{"b.md", "sub/none"} {
		if got, err := w.open().Content(t.Context(), "HEAD", path); err != nil || got != nil {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	if _, err := w.open().Content(t.Context(), "HEAD", "../out"); !errors.Is(err, ErrBadName) {
		t.Errorf("a path outside: %v", err)
	}
	if _, err := w.open().Content(t.Context(), "--help", "a.md"); !errors.Is(err, ErrBadName) {
		t.Errorf("an option as a revision: %v", err)
	}
}
