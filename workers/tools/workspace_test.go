package tools

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// hostile makes a project beside things that must never be reached.
func hostile(t *testing.T) (b *bench, outside string) {
	t.Helper()
	b = newBench(t)
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
	must(os.WriteFile(outside+"/secret", []byte("secret"), 0o644))
	must(os.Mkdir(outside+"/dir", 0o755))
	b.put("a.txt", "a\n")
	b.put("sub/b.txt", "b\n")
	b.put(".git/config", "[core]\n")
	b.put(".git/hooks/pre-commit", "#!/bin/sh\n")
	b.put(".ralph/out/1-shell.txt", "output\n")
	b.put("modules/x/.git", "gitdir: elsewhere\n")
	b.put("ci/deploy.yml", "x\n")
	link := func(target, name string) { t.Helper(); must(os.Symlink(target, b.path(name))) }
	link(outside+"/secret", "abs-file")
	link(outside, "abs-dir")
	link("../"+filepath.Base(filepath.Dir(outside))+"/"+filepath.Base(outside), "rel-dir")
	link("..", "up")
	link("../../../../../../../../etc", "deep-up")
	link("/etc/passwd", "passwd")
	link("loop-b", "loop-a")
	link("loop-a", "loop-b")
	link("self", "self")
	link("sub/../../x", "sub-up")
	link(".git", "git-link")
	link(".git/config", "git-config-link")
	link("git-link/hooks", "git-link-2")
	link(b.root+"/.git", "git-abs-link")
	link(outside+"/none", "dangling-out")
	link("sub/none", "dangling-in")
	link("sub", "dir-in")
	link(b.root+"/sub", "dir-in-abs")
	link("a.txt", "file-in")
	link("/proc/self/root", "proc-root")
	link("/proc/self/cwd", "proc-cwd")
	link("/dev/zero", "zero-link")
	must(os.Link(b.path("a.txt"), b.path("hard")))
	must(os.Link(outside+"/secret", b.path("hard-out")))
	must(syscall.Mkfifo(b.path("fifo"), 0o644))
	b.put("read-only", "x")
	must(os.Chmod(b.path("read-only"), 0o444))
	// The path of a socket must be short, so it is bound by a short way in.
	short, err := os.MkdirTemp("", "s")
	must(err)
	t.Cleanup(func() { os.RemoveAll(short) })
	must(os.Symlink(b.root, short+"/r"))
	l, err := net.Listen("unix", short+"/r/sock")
	must(err)
	t.Cleanup(func() { l.Close() })
	// Only root may make devices; without one the case is a missing file.
	if err := syscall.Mknod(b.path("null-device"), syscall.S_IFCHR|0o666, 1<<8|3); err != nil {
		t.Logf("no device: %v", err)
	}
	return b, outside
}

var refusedForAll = []string{
	"", "..", "../", "../x", "../../etc/passwd", "sub/../../x", "./../x", "a.txt/../../x", "/", "/etc/passwd", "//etc/passwd",
	"/etc/../etc/passwd", "/proc/self/environ", "/dev/null", "/dev/zero", "~", "~/x", "~/.ssh/id_rsa",
	"abs-file", "abs-dir/secret", "abs-dir/dir/../secret", "abs-dir", "rel-dir/secret", "up/x", "up", "deep-up/passwd", "passwd",
	"loop-a", "loop-a/x", "self", "self/x/y", "sub-up", "dangling-out",
	"proc-root/etc/passwd", "proc-cwd/x", "proc-root", "zero-link",
	"a\x00b", "\x00", "sub/\x00", "a.txt/x", "a.txt/x/y", "hard-out/x",
	strings.Repeat("n", 300), strings.Repeat("d/", 3000) + "x", strings.Repeat("../", 400) + "etc/passwd",
	"sub/" + strings.Repeat("é", 200), "fifo", "sock", "null-device/x", "fifo/x", "sub", "sub/", ".", "./", "sub/.", "dir-in",
}

var refusedForWriting = []string{
	".git", ".git/config", ".git/new", ".git/hooks/post-commit", ".GIT/config", ".Git/x", ".gIt", "./.git/config", "sub/../.git/config",
	"sub/.git", "sub/.git/config", "sub/.GIT/hooks/x", "modules/x/.git", "modules/y/.git", ".git/", ".git./config", ".git /config",
	".g\u200cit/config", "\ufeff.git/x", "git~1/config", "GIT~1/config", ".git/../.git/config",
	"git-link/config", "git-link", "git-config-link", "git-link-2/pre-commit", "git-abs-link/config", "git-link/new/deep",
	".ralph", ".ralph/config.yaml", ".ralph/out/1-shell.txt", ".RALPH/x", ".Ralph/lock", ".ralph/new/dir/x", "sub/.ralph/x",
	".vscode/settings.json", ".VSCode/tasks.json", ".v\u017fcode/tasks.json", ".idea/x", ".IDEA/workspace.xml", "sub/.vscode/x",
	"hard", "hard-out", "read-only", "ci/deploy.yml", "CI/Deploy.YML", "ci/deploy.yml/x",
	"null-device",
}

func TestHostilePaths(t *testing.T) {
	b, outside := hostile(t)
	w, err := OpenWorkspace(b.root, "ci/deploy.yml", outside)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	before := snapshot(t, outside)
	names := append([]string{outside + "/secret", filepath.Dir(b.root)}, refusedForAll...)
	t.Logf("%d hostile paths", len(names)+len(refusedForWriting))
	for _, name := range names {
		if f, at, err := w.Open(name); err == nil {
			f.Close()
			t.Errorf("Open(%q) gives %q", name, at)
		}
	}
	for _, name := range append(names, refusedForWriting...) {
		c, err := w.load(t.Context(), "write", name, 1<<20)
		if err == nil {
			err = w.store(t.Context(), "write", c, []byte("evil"))
		}
		if err == nil {
			t.Errorf("%.80q was written", name)
			continue
		}
		if e, ok := errors.AsType[*Error](err); !ok || e.Op == "" {
			t.Errorf("%q: %T %v", name, err, err)
		}
	}
	for _, name := range refusedForWriting[:len(refusedForWriting)-7] {
		if name != "ci/deploy.yml" && !w.Protected(name) && !strings.HasPrefix(name, "hard") {
			t.Errorf("Protected(%q) is false", name)
		}
	}
	if after := snapshot(t, outside); after != before {
		t.Errorf("outside changed:\n%s\nwas\n%s", after, before)
	}
	for name, want := range map[string]string{
		".git/config": "[core]\n", "a.txt": "a\n", "hard": "a\n", ".ralph/out/1-shell.txt": "output\n", "read-only": "x", "ci/deploy.yml": "x\n",
	} {
		if got := b.get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		all.WriteString(p)
		if d.Type().IsRegular() {
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			all.WriteString("=" + string(data))
		}
		all.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

func TestAcceptedPaths(t *testing.T) {
	b, _ := hostile(t)
	other := filepath.Join(t.TempDir(), "spelling")
	if err := os.Symlink(b.root, other); err != nil {
		t.Fatal(err)
	}
	w, err := OpenWorkspace(other)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	third := filepath.Join(t.TempDir(), "third")
	if err := os.Symlink(other, third); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, at, text string }{
		{"a.txt", "a.txt", "a\n"}, {"./a.txt", "a.txt", "a\n"}, {"sub/../a.txt", "a.txt", "a\n"}, {"sub//b.txt", "sub/b.txt", "b\n"},
		{b.root + "/a.txt", "a.txt", "a\n"}, {other + "/a.txt", "a.txt", "a\n"}, {third + "/sub/b.txt", "sub/b.txt", "b\n"},
		{b.root + "/sub/../a.txt", "a.txt", "a\n"}, {"dir-in/b.txt", "sub/b.txt", "b\n"}, {"dir-in-abs/b.txt", "sub/b.txt", "b\n"},
		{"file-in", "a.txt", "a\n"}, {".git/config", ".git/config", "[core]\n"}, {"git-link/config", ".git/config", "[core]\n"},
		{".ralph/out/1-shell.txt", ".ralph/out/1-shell.txt", "output\n"}, {"hard", "hard", "a\n"},
	} {
		f, at, err := w.Open(c.name)
		if err != nil {
			t.Errorf("Open(%q): %v", c.name, err)
			continue
		}
		data, err := io.ReadAll(f)
		f.Close()
		if err != nil || at != c.at || string(data) != c.text {
			t.Errorf("Open(%q) = %q %q %v", c.name, at, data, err)
		}
		if got, err := w.Resolve(c.name); err != nil || got != c.at {
			t.Errorf("Resolve(%q) = %q, %v", c.name, got, err)
		}
	}
	for _, c := range []struct{ name, at string }{
		{"new/deep/file.go", "new/deep/file.go"}, {"dir-in/new", "sub/new"}, {"dangling-in", "sub/none"}, {"dir-in/x/y", "sub/x/y"},
		{".gitignore", ".gitignore"}, {".github/workflows/x.yml", ".github/workflows/x.yml"}, {"..x", "..x"}, {"...", "..."},
		{"sub/é", "sub/é"}, {"sub/e\u0301", "sub/e\u0301"}, {"-rf", "-rf"}, {"a\nb", "a\nb"}, {"name with space ", "name with space "},
		{".gitx/config", ".gitx/config"}, {"ralph/x", "ralph/x"}, {`back\slash`, `back\slash`}, {b.root + "/abs-new", "abs-new"},
	} {
		if w.Protected(c.name) {
			t.Errorf("Protected(%q)", c.name)
		}
		file, err := w.load(t.Context(), "write", c.name, 1<<20)
		if err == nil {
			err = w.store(t.Context(), "write", file, []byte("new"))
		}
		if err != nil || file.path != c.at {
			t.Errorf("write %q: at %q, %v", c.name, file.path, err)
			continue
		}
		if got := b.get(c.at); got != "new" {
			t.Errorf("%q holds %q", c.at, got)
		}
	}
	if info, err := os.Lstat(b.path("dangling-in")); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the symlink was replaced: %v %v", info, err)
	}
}

func TestStoreKeepsModeAndLeavesNothing(t *testing.T) {
	b := newBench(t)
	b.put("run.sh", "x")
	if err := os.Chmod(b.path("run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.run("write", "path", "run.sh", "content", "y")
	b.run("write", "path", "d/new", "content", "")
	for name, want := range map[string]fs.FileMode{"run.sh": 0o755, "d/new": 0o644, "d": fs.ModeDir | 0o755} {
		info, err := os.Stat(b.path(name))
		if err != nil || info.Mode() != want {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}
	if err := filepath.WalkDir(b.root, func(p string, d fs.DirEntry, err error) error {
		if strings.Contains(p, "ralph-write") {
			t.Errorf("left behind: %s", p)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestStoreNoticesOthers(t *testing.T) {
	for name, meddle := range map[string]func(b *bench){
		"changed":   func(b *bench) { b.put("f", "by the user") },
		"same size": func(b *bench) { time.Sleep(20 * time.Millisecond); b.put("f", "odl") }, // the clock of the filesystem is coarse
		"removed":   func(b *bench) { os.Remove(b.path("f")) },
		"link":      func(b *bench) { os.Remove(b.path("f")); os.Symlink("g", b.path("f")) },
		"linked":    func(b *bench) { os.Link(b.path("f"), b.path("h")) },
		"dir":       func(b *bench) { os.Remove(b.path("f")); os.Mkdir(b.path("f"), 0o755) },
	} {
		b := newBench(t)
		b.put("f", "old")
		b.put("g", "other")
		c, err := b.env.Files.load(t.Context(), "edit", "f", 100)
		if err != nil {
			t.Fatal(err)
		}
		meddle(b)
		if err := b.env.Files.store(t.Context(), "edit", c, []byte("new")); err == nil {
			t.Errorf("%s: written over", name)
		}
		if b.get("g") != "other" {
			t.Errorf("%s: written through the link", name)
		}
	}
	b := newBench(t)
	c, err := b.env.Files.load(t.Context(), "write", "f", 100)
	if err != nil {
		t.Fatal(err)
	}
	b.put("f", "by the user")
	if err := b.env.Files.store(t.Context(), "write", c, nil); !errors.Is(err, ErrChanged) {
		t.Errorf("got %v", err)
	}
}

// While one goroutine keeps swapping a directory for a symlink that leads
// out, no write and no read may go through it.
func TestSwappedDirectory(t *testing.T) {
	b, outside := hostile(t)
	b.put("swap/file", "inside")
	if err := os.MkdirAll(outside+"/dir/deep", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(outside+"/dir/file", []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside+"/dir", b.path("evil")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(".git", b.path("evil-git")); err != nil {
		t.Fatal(err)
	}
	before, config := snapshot(t, outside), snapshot(t, b.path(".git"))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			evil := []string{"evil", "evil-git", "fifo"}[i%3]
			os.Rename(b.path("swap"), b.path("kept"))
			os.Rename(b.path(evil), b.path("swap"))
			os.Rename(b.path("swap"), b.path(evil))
			os.Rename(b.path("kept"), b.path("swap"))
		}
	})
	end := time.Now().Add(400 * time.Millisecond)
	written := 0
	for time.Now().Before(end) {
		if _, err := b.try("write", "path", "swap/file", "content", "inside"+time.Now().String()); err == nil {
			written++
		}
		b.try("write", "path", "swap/new/config", "content", "x")
		if r, err := b.try("read", "path", "swap/file"); err == nil && strings.Contains(r.Text, "secret") {
			t.Error("read the secret")
		}
		b.try("grep", "path", "swap", "pattern", "secret")
		b.try("list", "path", "swap")
	}
	close(stop)
	wg.Wait()
	t.Logf("%d writes went to the real directory", written)
	if after := snapshot(t, outside); after != before {
		t.Errorf("outside changed:\n%s\nwas\n%s", after, before)
	}
	if after := snapshot(t, b.path(".git")); after != config {
		t.Errorf(".git changed:\n%s", after)
	}
}

func TestNotFoundNamesNeighbours(t *testing.T) {
	b := newBench(t)
	b.put("src/README.md", "x")
	b.put("src/caf\u00e9-menu.txt", "x")
	for name, want := range map[string]string{
		"src/readme.md": "src/README.md", "src/REDME.md": "src/README.md", "src/cafe\u0301-menu.txt": "src/caf\u00e9-menu.txt",
		"src/nothing-like-it": "use glob or list", "nodir/x": "use glob or list",
	} {
		_, err := b.try("read", "path", name)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v is not ErrNotExist", name, err)
		}
	}
}

// What was a file when it was looked at may be a FIFO when it is opened.
func TestOpenDoesNotWaitForAFIFO(t *testing.T) {
	b, _ := hostile(t)
	done := make(chan error)
	go func() {
		_, _, err := openRegular(b.env.Files.root, "fifo")
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, ErrSpecial) {
			t.Errorf("%v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("waits for a writer")
		if w, err := os.OpenFile(b.path("fifo"), os.O_WRONLY, 0); err == nil {
			w.Close()
		}
		<-done
	}
}

// A refused path leaves nothing: what is protected is seen before what is missing
// above it is made.
func TestNothingIsMadeForAProtectedName(t *testing.T) {
	b := newBench(t)
	if err := os.Symlink("none/../.git/x", b.path("dangling")); err != nil {
		t.Fatal(err)
	}
	w, err := OpenWorkspace(b.root, "ci/deploy/key")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, name := range []string{"sub/new/.git/config", "a/.ralph/x", "a/b/.VSCode", "ci/deploy/key", "CI/deploy/key/x", "dangling"} {
		if !w.Protected(name) {
			t.Errorf("Protected(%q) is false", name)
		}
		if _, err := w.load(t.Context(), "write", name, 1); !errors.Is(err, ErrProtected) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if r, err := b.try("write", "path", "sub/new/.git/config", "content", "x"); !errors.Is(err, ErrProtected) {
		t.Errorf("%+v %v", r, err)
	}
	if left := snapshot(t, b.root); strings.Contains(left, "sub") || strings.Contains(left, "none") {
		t.Errorf("left behind:\n%s", left)
	}
}

// What is concealed is neither read nor written, by whatever name it is reached, and no
// walk finds it, nor anything in the way of it when it is not there yet.
func TestConcealed(t *testing.T) {
	b := newBench(t)
	w, err := OpenWorkspace(b.root)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for name, target := range map[string]string{"link": "state/ralph", "up": "state", "abs": b.path("state/ralph/key"), "to": b.path("state/ralph")} {
		if err := os.Symlink(target, b.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	w.Conceal(b.path("none/ralph"))
	if err := os.MkdirAll(b.path("state/ralph"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.path("state/ralph/key"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Conceal(b.path("to")) // by a link
	for _, name := range []string{"state/ralph/key", "state/Ralph/key", "./state//ralph/../ralph/key", "link/key", "up/ralph/key", "abs", b.path("state/ralph/key"), "state/ralph/none/key"} {
		for _, op := range []string{"read", "write"} {
			if _, err := w.load(t.Context(), op, name, 100); !errors.Is(err, ErrConcealed) && !(name == "state/Ralph/key" && errors.Is(err, os.ErrNotExist)) {
				t.Errorf("%s %q: %v", op, name, err)
			}
		}
	}
	if _, err := w.load(t.Context(), "write", "none/ralph/projects/x", 100); !errors.Is(err, ErrConcealed) {
		t.Errorf("what is not there yet: %v", err)
	}
	var seen []string
	if _, err := w.walk(t.Context(), w.root, ".", func(e entry) error { seen = append(seen, e.path); return nil }); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(seen, "state") || slices.ContainsFunc(seen, func(p string) bool { return strings.HasPrefix(p, "state/") }) {
		t.Errorf("the walk found %q", seen)
	}
}
