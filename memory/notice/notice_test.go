package notice_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ralph/memory/notice"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Every way in which an editor saves is told of, and the files of others are not.
func TestWatch(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux says which filesystem tells of all changes")
	}
	dir := t.TempDir()
	path, other := filepath.Join(dir, "mine.md"), filepath.Join(dir, "other.md")
	told, end := notice.Watch(dir, func(name string) bool { return name == "mine.md" })
	defer end()
	if told == nil {
		t.Skip("this filesystem, or this machine, has no watches")
	}
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, change := range map[string]func() error{
		"written": func() error { return os.WriteFile(path, []byte("again"), 0o600) },
		"replaced": func() error {
			write(other, "new")
			return os.Rename(other, path)
		},
		"removed": func() error { return os.Remove(path) },
	} {
		write(path, "begin")
		for drained := false; !drained; {
			select {
			case <-told:
			case <-time.After(50 * time.Millisecond):
				drained = true
			}
		}
		if err := change(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-told:
		case <-time.After(10 * time.Second):
			t.Errorf("%s: nothing was said", name)
		}
	}
	for drained := false; !drained; {
		select {
		case <-told:
		case <-time.After(50 * time.Millisecond):
			drained = true
		}
	}
	write(other, "of somebody else")
	select {
	case <-told:
		t.Error("the file of somebody else is told of")
	case <-time.After(100 * time.Millisecond):
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	late := time.After(10 * time.Second)
	for open := true; open; {
		select {
		case _, open = <-told:
		case <-late:
			t.Fatal("that the directory went is not said")
		}
	}
}

func TestWatchNothing(t *testing.T) {
	told, end := notice.Watch(filepath.Join(t.TempDir(), "none"), func(string) bool { return true })
	defer end()
	if told != nil {
		t.Error("a directory that is not there is watched")
	}
}
