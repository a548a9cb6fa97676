package git

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestGitWaitsForNothing plants named pipes and devices where git reads files of a work tree
// and of its repository, by gitignore(5), gitattributes(5) and gitrepository-layout(5): no
// look of Ralph's waits for them, and the error names the file.
func TestGitWaitsForNothing(t *testing.T) {
	for _, name := range []string{".gitignore", "dir/.gitignore", ".gitattributes", "dir/.gitattributes", ".git/refs/heads/topic", ".git/refs/heads/dir/topic", ".git/refs/tags/v1", ".git/packed-refs", ".git/config", ".git/HEAD",
		".git/info/exclude", ".git/info/attributes", ".git/MERGE_HEAD", ".git/shallow"} {
		for kind, plant := range map[string]func(string) error{
			"pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
			"zero": func(path string) error { return os.Symlink("/dev/zero", path) },
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				w := newRepo(t)
				w.write("dir/a.txt", "a")
				w.commitAll("first")
				path := filepath.Join(w.root, filepath.FromSlash(name))
				_ = os.Remove(path) // it may not be there
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := plant(path); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				loc, err := Find(w.root)
				if err == nil {
					_, err = Open(w.proc, loc).Status(t.Context())
				}
				if err == nil {
					_, err = Open(w.proc, loc).Log(t.Context(), LogOptions{Paths: []string{"dir"}})
				}
				if err == nil {
					_, err = OpenCheckpoints(w.proc, w.root, w.path(".ralph"), w.path("home:state"), &loc).Take(t.Context(), "x")
				}
				if err == nil {
					_, _, err = Open(w.proc, loc).Plumbing().Run(t.Context(), Call{Args: []string{"for-each-ref"}})
				}
				if took := time.Since(began); took > 20*time.Second {
					t.Errorf("it took %v: %v", took, err)
				}
				if err != nil && !strings.Contains(err.Error(), filepath.Base(path)) && !strings.Contains(err.Error(), "/dev/zero") {
					t.Errorf("the error does not name it: %v", err)
				}
			})
		}
	}
}
