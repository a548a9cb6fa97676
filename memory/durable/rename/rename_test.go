package rename_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"ralph/memory/durable/rename"
)

func TestRename(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	if err := errors.Join(os.WriteFile(a, []byte("a"), 0o600), os.WriteFile(b, []byte("b"), 0o600)); err != nil {
		t.Fatal(err)
	}
	err := rename.Exchange(a, b)
	if rename.Unsupported(err) {
		t.Skipf("not on this system: %v", err)
	}
	got, rerr := os.ReadFile(a)
	if errors.Join(err, rerr) != nil || string(got) != "b" {
		t.Errorf("%q: %v %v", got, err, rerr)
	}
	if err := rename.NoReplace(a, b); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a file: %v", err)
	}
	if err := errors.Join(os.Remove(b), rename.NoReplace(a, b)); err != nil {
		t.Error(err)
	}
	if err := rename.Exchange(a, b); !errors.Is(err, fs.ErrNotExist) || rename.Unsupported(err) {
		t.Errorf("nothing to exchange with: %v", err)
	}
}
