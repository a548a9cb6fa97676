package tools

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// While others keep swapping the directory and the file for links, hard links,
// FIFOs and protected directories, 10,000 calls write, edit and read: nothing
// lands outside or in a protected directory, nothing from there is shown, and no
// half-written file stays.
func TestTenThousandRaces(t *testing.T) {
	b := newBench(t)
	b.env.OutputDir = ""
	outside, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(outside+"/file", []byte("secret\n"), 0o644))
	must(os.MkdirAll(outside+"/deep", 0o755))
	must(os.WriteFile(outside+"/deep/file", []byte("secret\n"), 0o644))
	b.put("d/file", "inside\n")
	b.put("d/deep/file", "inside\n")
	b.put("e/file", "inside\n") // e itself is not swapped: a rename goes through links too
	b.put(".git/file", "secret\n")
	b.put(".git/deep/file", "secret\n")
	b.put(".ralph/file", "secret\n")
	must(os.Symlink(outside, b.path("to-out")))
	must(os.Symlink(".git", b.path("to-git")))
	must(os.Symlink("/proc/self/root"+outside, b.path("to-proc")))
	must(os.Symlink("../d/..", b.path("to-up")))
	must(syscall.Mkfifo(b.path("fifo"), 0o644))
	must(os.Symlink(outside+"/file", b.path("file-out")))
	must(os.Symlink(".git/file", b.path("file-git")))
	must(os.Link(outside+"/deep/file", b.path("file-hard")))
	kept := []string{outside, b.path(".git"), b.path(".ralph")}
	before := make([]string, len(kept))
	for i, dir := range kept {
		before[i] = snapshot(t, dir)
	}
	stop := make(chan struct{})
	var swappers, callers sync.WaitGroup
	swap := func(what, aside string, evil ...string) {
		swappers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				e := evil[i%len(evil)]
				_ = os.Rename(b.path(what), b.path(aside))
				_ = os.Rename(b.path(e), b.path(what))
				time.Sleep(time.Duration(i%7) * 50 * time.Microsecond)
				_ = os.Rename(b.path(what), b.path(e))
				for n := 0; n < 100 && os.Rename(b.path(aside), b.path(what)) != nil; n++ {
					// A call has made the missing directory anew.
					_ = os.Rename(b.path(what), b.path(fmt.Sprintf("%s-made-%d-%d", aside, i, n)))
				}
				time.Sleep(time.Duration(i%5) * 50 * time.Microsecond)
			}
		})
	}
	swap("d", "d-kept", "to-out", "to-git", "fifo", "to-proc", "to-up")
	swap("e/file", "file-kept", "file-out", "file-git", "file-hard")
	const calls = 10_000
	var done, protected [4]int
	for c := range done {
		callers.Go(func() {
			for i := range calls / len(done) {
				text := fmt.Sprintf("inside %d\n", i)
				name := []string{"d/file", "d/deep/file", "d/new/file", "e/file"}[i%4]
				var err error
				switch c {
				case 0:
					_, err = b.try("write", "path", name, "content", text)
				case 1:
					_, err = b.try("edit", "path", name, "old_string", "inside", "new_string", text, "replace_all", true)
				default:
					r, readErr := b.try("read", "path", name)
					if err = readErr; err == nil && strings.Contains(r.Text, "secret") && !strings.HasPrefix(r.Head, ".git/") && name != "e/file" {
						t.Errorf("read %s: %s %s", name, r.Head, r.Text)
					}
				}
				switch {
				case err == nil:
					done[c]++
				case errors.Is(err, ErrProtected):
					protected[c]++
				}
			}
		})
	}
	callers.Wait()
	close(stop)
	swappers.Wait()
	t.Logf("done of %d each: %d writes, %d edits, %d and %d reads; %d met a protected directory", calls/len(done), done[0], done[1], done[2], done[3], protected[0]+protected[1])
	for i, dir := range kept {
		if after := snapshot(t, dir); after != before[i] {
			t.Errorf("%s changed:\n%.2000s", dir, after)
		}
	}
	if err := filepath.WalkDir(b.root, func(p string, _ fs.DirEntry, err error) error {
		if strings.Contains(p, ".ralph-write-") {
			t.Errorf("left behind: %s", p)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// What was a directory when it was looked at is something else when it is
// entered.
func TestEnterNoticesASwap(t *testing.T) {
	b := newBench(t)
	b.put("d/file", "inside\n")
	b.put(".git/file", "secret\n")
	b.put("e/file", "other\n")
	w := b.env.Files
	info, err := w.root.Lstat("d")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(b.path("d"), b.path("kept")); err != nil {
		t.Fatal(err)
	}
	for name, put := range map[string]func() error{
		"a link to a protected directory": func() error { return os.Symlink(".git", b.path("d")) },
		"a link to another directory":     func() error { return os.Symlink("e", b.path("d")) },
		"a link out":                      func() error { return os.Symlink("/etc", b.path("d")) },
		"a FIFO":                          func() error { return syscall.Mkfifo(b.path("d"), 0o644) },
		"a directory":                     func() error { return os.Mkdir(b.path("d"), 0o755) },
		"a file":                          func() error { return os.WriteFile(b.path("d"), nil, 0o644) },
	} {
		if err := put(); err != nil {
			t.Fatal(err)
		}
		p := &place{dirs: []*os.Root{w.root}}
		if err := w.enter(p, "d", info); err == nil {
			t.Errorf("%s was entered", name)
		}
		p.close()
		if err := os.Remove(b.path("d")); err != nil {
			t.Fatal(err)
		}
	}
}

// Directories that are replaced in the middle of a walk end it, or are as they
// are then; they do not lead out of the tree, and nothing waits.
func TestWalksOfAChangingTree(t *testing.T) {
	b := newBench(t)
	outside := t.TempDir()
	for _, name := range []string{outside + "/secret.txt", outside + "/sub"} {
		if err := os.WriteFile(name, []byte("secret\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 60 {
		b.put(fmt.Sprintf("d%d/sub/f.txt", i), "inside\n")
	}
	if err := os.Symlink(outside, b.path("evil")); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			d := b.path(fmt.Sprintf("d%d", i%60))
			_ = os.Rename(d, b.path("kept"))
			switch i % 3 {
			case 0:
				_ = os.Rename(b.path("evil"), d)
				_ = os.Rename(d, b.path("evil"))
			case 1:
				_ = syscall.Mkfifo(d, 0o644)
				_ = os.Remove(d)
			case 2:
				_ = os.WriteFile(d, []byte("a file now\n"), 0o644)
				_ = os.Remove(d)
			}
			_ = os.Rename(b.path("kept"), d)
		}
	})
	most := time.Duration(0)
	for end := time.Now().Add(250 * time.Millisecond); time.Now().Before(end); {
		for _, call := range [][]any{
			{"list", "depth", 5}, {"glob", "pattern", "**/*.txt"}, {"grep", "pattern", "secret|inside"}, {"grep", "path", "d7", "pattern", "secret"}, {"list", "path", "d8/sub"},
		} {
			began := time.Now()
			r, err := b.try(call[0].(string), call[1:]...)
			most = max(most, time.Since(began))
			if err == nil && strings.Contains(r.Text, "secret") {
				t.Fatalf("%v: %s", call, r.Text)
			}
		}
	}
	close(stop)
	wg.Wait()
	if most > 20*time.Second {
		t.Errorf("a walk took %v", most)
	}
}

// Files that never end are looked at as far as is sensible.
func TestEndlessFiles(t *testing.T) {
	b := newBench(t)
	b.put("sparse", strings.Repeat("word\n", 4000))
	if err := os.Truncate(b.path("sparse"), 1<<40); err != nil {
		t.Skipf("no sparse files here: %v", err)
	}
	began := time.Now()
	if r := b.run("read", "path", "sparse", "limit", 2); !strings.Contains(r.Head, "lines 1-2 of a file of 1099511627776 bytes") || r.Text != "1\tword\n2\tword\n" {
		t.Errorf("%+v", r)
	}
	if r := b.run("read", "path", "sparse", "offset", 4000); !strings.Contains(r.Head, "lines 4000-4001 of the first 256 MiB") || len(r.Text) > 3000*4 {
		t.Errorf("%s, %d bytes", r.Head, len(r.Text))
	}
	if r := b.run("read", "path", "sparse", "offset", 5000); !strings.Contains(r.Head, "line 5000 is not in the first 256 MiB") || r.Text != "" {
		t.Errorf("%s", r.Head)
	}
	if r := b.run("grep", "pattern", "word"); r.Text != "" || !strings.Contains(r.Head, "1 file over 16 MiB not searched") {
		t.Errorf("%+v", r)
	}
	for _, call := range [][]any{{"write", "path", "sparse", "content", "x"}, {"edit", "path", "sparse", "old_string", "word", "new_string", "x"}} {
		if r, err := b.try(call[0].(string), call[1:]...); err == nil || !strings.Contains(err.Error(), "too many to change here") {
			t.Errorf("%v: %+v %v", call, r, err)
		}
	}
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("took %v", took)
	}
}

// A file that grows faster than it is read ends somewhere all the same.
func TestAGrowingFile(t *testing.T) {
	b := newBench(t)
	b.put("log", strings.Repeat("line\n", 1000))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		f, err := os.OpenFile(b.path("log"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		more := []byte(strings.Repeat("more\n", 2000))
		for {
			select {
			case <-stop:
				return
			default:
			}
			if info, err := f.Stat(); err != nil || info.Size() > 64<<20 {
				if err := f.Truncate(5000); err != nil {
					t.Error(err)
					return
				}
			}
			if _, err := f.Write(more); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 5 {
		if r, err := b.try("read", "path", "log"); err != nil || len(r.Text) > defaultOutputBytes {
			t.Errorf("%s %v", r.Head, err)
		}
		if r, err := b.try("grep", "pattern", "line", "limit", 5); err != nil || strings.Count(r.Text, "\n") > 5 {
			t.Errorf("%+v %v", r, err)
		}
	}
	close(stop)
	wg.Wait()
}

// Names that some filesystem takes for a protected one.
func TestSpellingsOfProtectedNames(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{
		".g\u00adit/config", ".gi\ufe0ft/hooks/x", "sub/.git\u2060/config", ".\u180egit/x", ".ra\u034flph/x", ".idea\u3164/x", ".vs\U000e0041code/x",
		".git\u061c/x", ".GI\u00adT/x", ".git\u200b. /x", ".\u115fgit/x",
	} {
		if !b.env.Files.Protected(name) {
			t.Errorf("%q", name)
		}
		if r, err := b.try("write", "path", name, "content", "x"); !errors.Is(err, ErrProtected) {
			t.Errorf("write %q: %+v %v", name, r, err)
		}
	}
	for _, name := range []string{".gít/x", ".gitt/x", "git/x", ".g/it", ".gìt"} {
		if b.env.Files.Protected(name) {
			t.Errorf("%q is protected", name)
		}
	}
}

// A symlink may lead deeper than any path is long: that costs no more open
// directories than a path does.
func TestDeepSymlinks(t *testing.T) {
	b := newBench(t)
	const deep = 300
	dir, err := os.OpenRoot(b.root)
	if err != nil {
		t.Fatal(err)
	}
	for range deep { // made from below, as a command would
		if err := dir.Mkdir("d", 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := dir.OpenRoot("d")
		dir.Close()
		if err != nil {
			t.Fatal(err)
		}
		dir = next
	}
	dir.Close()
	t.Cleanup(func() { os.RemoveAll(b.path("d")) })
	if err := os.Symlink(strings.Repeat("d/", 250)+"d", b.path("deep")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.try("read", "path", "deep/x"); !errors.Is(err, syscall.ENAMETOOLONG) {
		t.Errorf("%v", err)
	}
	if r := b.run("list", "depth", 20); !strings.Contains(r.Head, "entries") {
		t.Errorf("%+v", r)
	}
	if r := b.run("grep", "pattern", "x"); !strings.Contains(r.Head, "larger than what is looked at") {
		t.Errorf("%+v", r)
	}
}

// What a path may not be, whatever it leads to.
func TestHostileNames(t *testing.T) {
	b := newBench(t)
	b.put("a", "a\n")
	for _, name := range []string{
		strings.Repeat("x", 4096), strings.Repeat("x", 256), strings.Repeat("é", 128), strings.Repeat("x/", 2048), "a\x00", "\x00/../a",
		strings.Repeat("../", 1365) + "x", strings.Repeat("./", 2000) + "a", "/proc/self/cwd/a", "/proc/self/root/etc/passwd",
		fmt.Sprintf("/proc/%d/cwd/a", os.Getpid()), "/dev/fd/0", "/dev/stdin", "/proc/self/fd/0", "/proc/self/mem", "/dev/tcp/127.0.0.1/1",
	} {
		for tool, rest := range map[string][]any{"read": nil, "write": {"content", "x"}, "edit": {"old_string", "a", "new_string", "b"}, "list": nil, "grep": {"pattern", "a"}} {
			r, err := b.try(tool, append([]any{"path", name}, rest...)...)
			if err == nil {
				t.Errorf("%s %.60q: %+v", tool, name, r)
			} else if len(err.Error()) > 1000 {
				t.Errorf("%s %.60q: an error of %d bytes", tool, name, len(err.Error()))
			}
		}
	}
	if b.get("a") != "a\n" {
		t.Error("changed")
	}
}
