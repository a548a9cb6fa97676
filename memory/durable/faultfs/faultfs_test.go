package faultfs_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/afero"

	"ralph/memory/durable/faultfs"
)

// work makes one file by a rename.
func work(fsys afero.Fs) error {
	f, err := fsys.OpenFile("/.f.ABC.tmp", os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte("0123456789"))
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = fsys.Rename("/.f.ABC.tmp", "/f")
	}
	return err
}

func TestFaults(t *testing.T) {
	for _, tc := range []struct {
		fault faultfs.Fault
		op    string // what fails first
		fired int
		wrote int
	}{
		{faultfs.Fault{At: 1, Err: syscall.EMFILE}, "open", 1, 0},
		{faultfs.Fault{At: 2, Err: syscall.ENOSPC}, "write", 1, 5},
		{faultfs.Fault{At: 1, Err: syscall.EDQUOT, Ops: []string{"write"}, Bytes: 3}, "write", 1, 3},
		{faultfs.Fault{At: 1, Err: io.ErrShortWrite, Ops: []string{"write"}, Bytes: -1}, "write", 1, 9},
		{faultfs.Fault{At: 1, Err: io.ErrShortWrite, Ops: []string{"write"}, Nothing: true}, "write", 1, 0},
		{faultfs.Fault{At: 1, Err: syscall.EIO, Ops: []string{"sync"}}, "sync", 1, 10},
		{faultfs.Fault{At: 2, Err: syscall.EROFS, Sticky: true}, "write", 2, 5},
		{faultfs.Fault{At: 1, Err: syscall.EIO, Path: "/f"}, "rename", 1, 10},
		{faultfs.Fault{At: 9, Err: syscall.EIO}, "", 0, 0},
	} {
		base := afero.NewMemMapFs()
		fsys := faultfs.New(base)
		fsys.Inject(tc.fault)
		err := work(fsys)
		if fsys.Fired() < 1 != (tc.fired == 0) || (err == nil) != (tc.fired == 0) {
			t.Errorf("%+v: %v, fired %d", tc.fault, err, fsys.Fired())
		}
		if err != nil && (!errors.Is(err, tc.fault.Err) || !strings.HasPrefix(err.Error(), tc.op)) {
			t.Errorf("%+v: %v", tc.fault, err)
		}
		if data, _ := afero.ReadFile(base, "/.f.ABC.tmp"); tc.fired > 0 && len(data) != tc.wrote {
			t.Errorf("%+v: %q was written", tc.fault, data)
		}
		fsys.Heal()
		if err := work(fsys); err != nil {
			t.Errorf("%+v, healed: %v", tc.fault, err)
		}
	}
}

func TestSitesAndShrunk(t *testing.T) {
	fsys := faultfs.New(afero.NewMemMapFs())
	if err := work(fsys); err != nil {
		t.Fatal(err)
	}
	if got := fsys.Sites(); !slices.Equal(got, []string{"close /.f.*.tmp", "open /.f.*.tmp", "rename /.f.*.tmp /f", "sync /.f.*.tmp", "write /.f.*.tmp"}) {
		t.Errorf("%q", got)
	}
	f, err := fsys.OpenFile("/f", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(20), f.Truncate(3), f.Close(), afero.WriteFile(fsys, "/f", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if got := fsys.Shrunk(); len(got) != 2 {
		t.Errorf("%q", got)
	}
}

// TestSweepFinds: a scenario that loses something is reported with where.
func TestSweepFinds(t *testing.T) {
	runs := 0
	r := faultfs.Sweep(func(fsys *faultfs.FS, base afero.Fs) error {
		runs++
		if err := work(fsys); err != nil && strings.HasPrefix(err.Error(), "rename") {
			return fmt.Errorf("lost: %w", err)
		}
		return nil
	}, faultfs.Options{Faults: []faultfs.Fault{{Err: syscall.EIO}, {Err: syscall.EIO, Sticky: true}}})
	if r.Runs != 10 || runs != 12 || r.Failed != 2 || len(r.Sites) != 5 {
		t.Errorf("%v after %d runs: %v", r, runs, r.Err())
	}
	if err := r.Err(); err == nil || !strings.Contains(err.Error(), "at number 5") || !strings.Contains(err.Error(), "lost: rename") {
		t.Error(err)
	}
}
