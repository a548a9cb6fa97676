package git

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ralph/workers/regular"
)

// TestFilesThatGitReadsAreBounded puts far too large files and pipes where every start of
// git reads: git is not started, the error names the file, and what reads no patterns works.
func TestFilesThatGitReadsAreBounded(t *testing.T) {
	for name, content := range map[string]string{
		".gitignore": "\n", ".gitattributes": "x", ".gitmodules": "\x00", ".git/info/exclude": "\n", ".git/info/attributes": "a", ".git/packed-refs": "1",
		".git/objects/info/commit-graphs/commit-graph-chain": "1", "home:.gitconfig": "[", "home:.config/git/config": "\n", "home:.config/git/ignore": "a\n", "home:.config/git/attributes": "\n",
	} {
		for _, kind := range []string{"large", "pipe"} {
			t.Run(name+", "+kind, func(t *testing.T) {
				w := newRepo(t)
				w.write("a.txt", "a")
				w.commitAll("first")
				w.write("b.txt", "b")
				t.Setenv("HOME", t.TempDir())
				t.Setenv("XDG_CONFIG_HOME", "")
				path := filepath.Join(w.root, filepath.FromSlash(name))
				if at, ok := strings.CutPrefix(name, "home:"); ok {
					path = filepath.Join(os.Getenv("HOME"), filepath.FromSlash(at))
				}
				_ = os.Remove(path) // it may not be there
				err := os.MkdirAll(filepath.Dir(path), 0o755)
				if kind == "pipe" {
					err = errors.Join(err, syscall.Mkfifo(path, 0o600))
				} else {
					const size = 5 << 20 // more than each of the bounds
					err = errors.Join(err, os.WriteFile(path, []byte(strings.Repeat(content, size/len(content))), 0o644))
				}
				if err != nil {
					t.Fatal(err)
				}
				loc, err := Find(w.root)
				if err == nil {
					_, err = Open(w.proc, loc).Status(t.Context())
				}
				if err == nil || !strings.Contains(err.Error(), path) {
					t.Fatalf("the error does not name it: %v", err)
				}
				var bad *regular.Error
				if found := !errors.As(err, &bad); found && name != ".git/packed-refs" && !strings.HasPrefix(name, ".git/info/") {
					t.Errorf("it is another error: %v", err)
				}
				if strings.HasPrefix(name, ".gitignore") {
					if _, _, err := Open(w.proc, loc).Plumbing().Run(t.Context(), Call{Args: []string{"config", "--list"}}); err != nil {
						t.Errorf("the configuration cannot be asked for: %v", err)
					}
				}
			})
		}
	}
	t.Run("within bounds", func(t *testing.T) {
		w := newRepo(t)
		w.write(".gitignore", strings.Repeat("#\n", 1000)+"b.txt\n")
		w.write("a.txt", "a")
		w.commitAll("first")
		w.write("b.txt", "b")
		if err := os.Symlink(os.DevNull, filepath.Join(w.root, ".gitattributes")); err != nil {
			t.Fatal(err)
		}
		loc, err := Find(w.root)
		if err != nil {
			t.Fatal(err)
		}
		list, err := Open(w.proc, loc).Status(t.Context())
		if err != nil || len(list) != 1 || list[0].Path != ".gitattributes" {
			t.Errorf("%v, %v", list, err)
		}
	})
}
