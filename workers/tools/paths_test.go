package tools

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestWorkspaceFiles(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, f := range []string{"a.txt", "b/c.txt", "b/skip.log", "out/x", ".git/config", ".ralph/state", "z z/ü.txt"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, f)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, f), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	err := errors.Join(os.WriteFile(filepath.Join(root, ".gitignore"), []byte("out/\n*.log\n"), 0o644), os.Symlink("/etc", filepath.Join(root, "link")))
	if err != nil {
		t.Fatal(err)
	}
	w, err := OpenWorkspace(root)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	want := []string{".gitignore", "a.txt", "b/c.txt", "link", "z z/ü.txt"}
	got, more, err := w.Files(t.Context(), 100)
	if err != nil || more || !slices.Equal(got, want) {
		t.Errorf("%q, %v, %v", got, more, err)
	}
	if got, more, err = w.Files(t.Context(), 2); err != nil || !more || !slices.Equal(got, want[:2]) {
		t.Errorf("%q, %v, %v", got, more, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := w.Files(ctx, 100); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
