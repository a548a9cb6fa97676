package durable

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/afero"
)

// TestDiskOpensFilesAndDirectoriesAlone opens what a repository or a command can put where
// Ralph keeps a file or a directory: nothing waits, also for a pipe with another end.
func TestDiskOpensFilesAndDirectoriesAlone(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir) // the path of a socket is short
	held := filepath.Join(dir, "held")
	if err := errors.Join(syscall.Mkfifo("pipe", 0o600), syscall.Mkfifo("held", 0o600), os.Symlink("/dev/zero", "device"), os.Symlink("pipe", "link")); err != nil {
		t.Fatal(err)
	}
	end, err := os.OpenFile(held, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	l, err := net.Listen("unix", "socket")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	fsys := Disk()
	for name, f := range map[string]func(path string) error{
		"open":   func(path string) error { return closed(fsys.Open(path)) },
		"write":  func(path string) error { return closed(fsys.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)) },
		"create": func(path string) error { return closed(fsys.Create(path)) },
		"list":   func(path string) error { _, err := afero.ReadDir(fsys, path); return err },
		"lock":   func(path string) error { _, err := LockDir(fsys, path); return err },
	} {
		for _, at := range []string{"pipe", "held", "device", "link", "socket"} {
			got := make(chan error, 1)
			go func() { got <- f(filepath.Join(dir, at)) }()
			select {
			case err := <-got:
				if !errors.Is(err, ErrNotRegular) {
					t.Errorf("%s of a %s: %v", name, at, err)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("%s of a %s waits", name, at)
			}
		}
	}
	if err := afero.WriteFile(fsys, filepath.Join(dir, "file"), []byte("x"), 0o600); err != nil {
		t.Error(err)
	}
	if list, err := afero.ReadDir(fsys, dir); err != nil || len(list) != 6 {
		t.Errorf("the directory has %d entries: %v", len(list), err)
	}
	if !OnDisk(fsys) || !OnDisk(afero.NewOsFs()) || OnDisk(afero.NewMemMapFs()) {
		t.Error("the real disk is not known")
	}
}

func closed(f afero.File, err error) error {
	if err == nil {
		err = f.Close()
	}
	return err
}

// TestALongTornTailIsReadOnce opens a log whose torn tail is long: what is allocated grows
// with the tail and not with its square.
func TestALongTornTailIsReadOnce(t *testing.T) {
	dir := t.TempDir()
	path, quarantine := filepath.Join(dir, "log"), filepath.Join(dir, "quarantine")
	const size = 8 << 20
	if err := os.WriteFile(path, append([]byte("first\n"), make([]byte, size)...), 0o600); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l, damage, err := OpenLog(Disk(), path, LogOptions{Perm: 0o600, Quarantine: quarantine})
	runtime.ReadMemStats(&after)
	if err != nil || damage.TornBytes != size {
		t.Fatalf("%+v, %v", damage, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 4*size {
		t.Errorf("%d bytes were allocated for a tail of %d", got, size)
	}
	if moved, err := os.ReadFile(damage.Moved); err != nil || len(moved) != size {
		t.Errorf("%d bytes were moved: %v", len(moved), err)
	}
	if left, err := os.ReadFile(path); err != nil || string(left) != "first\n" {
		t.Errorf("%q is left: %v", left, err)
	}
}

// TestARecordBehindAnEndlessTail appends to a log whose torn tail is more than a record can
// be: the record stands on a line of its own behind the part that stays.
func TestARecordBehindAnEndlessTail(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	f, err := os.Create(path)
	if err == nil {
		err = errors.Join(f.Truncate(maxRecordBytes+1<<20), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	l, damage, err := OpenLog(Disk(), path, LogOptions{Perm: 0o600, Quarantine: filepath.Join(dir, "quarantine")})
	if err == nil {
		err = errors.Join(l.Append([]byte("record")), l.Close())
	}
	if err != nil || damage.TornBytes < maxRecordBytes {
		t.Fatalf("%+v, %v", damage, err)
	}
	last := ""
	if err := ReadLines(Disk(), path, func(line []byte, _ bool) error { last = string(line[:min(len(line), 10)]); return nil }); err != nil || last != "record" {
		t.Errorf("the last line is %q: %v", last, err)
	}
}

// TestEmptyLinesAreLeftOut reads lines with many line ends around them.
func TestEmptyLinesAreLeftOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	ends := strings.Repeat("\n", 200<<10)
	if err := os.WriteFile(path, []byte(ends+"a\n"+ends+" \nb"+ends), 0o600); err != nil {
		t.Fatal(err)
	}
	var got []string
	err := ReadLines(Disk(), path, func(line []byte, _ bool) error { got = append(got, string(line)); return nil })
	if err != nil || len(got) != 2 || got[0] != "a" || got[1] != "b" {
		t.Errorf("%q, %v", got, err)
	}
}
