package notice_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
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
	seen := make(chan string, 100)
	told, end := notice.Watch(dir, func(name string) bool {
		if strings.HasPrefix(name, "fence") {
			seen <- name
		}
		return name == "mine.md"
	})
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
	// drain takes what was told of all that was done until now, and says whether
	// there was any: changes are told of in their order.
	fences := 0
	drain := func() (any bool) {
		t.Helper()
		fences++
		fence := fmt.Sprintf("fence-%d", fences)
		write(filepath.Join(dir, fence), "")
		for late := time.After(10 * time.Second); ; {
			select {
			case name := <-seen:
				if name != fence {
					continue
				}
			case <-late:
				t.Fatal("nothing is told of any more")
			}
			select {
			case <-told:
				return true
			default:
				return false
			}
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
		drain()
		if err := change(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-told:
		case <-time.After(10 * time.Second):
			t.Errorf("%s: nothing was said", name)
		}
	}
	drain()
	write(other, "of somebody else")
	if drain() {
		t.Error("the file of somebody else is told of")
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
