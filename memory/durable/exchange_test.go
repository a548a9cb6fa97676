package durable_test

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/spf13/afero"

	"ralph/memory/durable"
	"ralph/memory/durable/faultfs"
	"ralph/memory/durable/rename"
)

func realExchange(a, b string) error  { return rename.Exchange(a, b) }
func realNoReplace(a, b string) error { return rename.NoReplace(a, b) }

// swapFault makes the n-th operation of a Swap fail while an editor saves.
func swapFault(t *testing.T, path string, n int) (done bool) {
	t.Helper()
	ff := faultfs.New(&late{before: func() {
		if err := errors.Join(os.WriteFile(path+".ed", []byte("edit"), 0o600), os.Rename(path+".ed", path)); err != nil {
			t.Error(err)
		}
	}})
	ff.FailAt(n, syscall.EIO)
	got, err := durable.Swap(ff, path, []byte("old"), []byte("new"), 0o600)
	now := read(t, afero.NewOsFs(), path)
	switch {
	case string(got) == "edit" && now == "new":
	case err != nil && (now == "edit" || now == "old"):
	default:
		t.Errorf("operation %d (%v): late %q, %v, %q is there", n, ff.Ops(), got, err, now)
	}
	return ff.Fired() == 0
}
