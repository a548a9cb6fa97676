package git

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"ralph/workers/regular"
)

// TestNoReflogIsWrittenOutside sets refs whose logs are links out of the repository, to a
// file, to nothing and by a directory: nothing is written or made there.
func TestNoReflogIsWrittenOutside(t *testing.T) {
	for name, plant := range map[string]func(logs, outside string) error{
		"a file": func(logs, outside string) error {
			return os.Symlink(filepath.Join(outside, "kept"), filepath.Join(logs, "topic"))
		},
		"nothing": func(logs, outside string) error {
			return os.Symlink(filepath.Join(outside, "made"), filepath.Join(logs, "topic"))
		},
		"a directory": func(logs, outside string) error { return os.Symlink(outside, filepath.Join(logs, "dir")) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newRepo(t)
			w.write("a.txt", "a")
			w.commitAll("first")
			outside := t.TempDir()
			logs := filepath.Join(w.root, ".git", "logs", "refs", "heads")
			err := errors.Join(os.WriteFile(filepath.Join(outside, "kept"), []byte("text"), 0o600), plant(logs, outside))
			if err != nil {
				t.Fatal(err)
			}
			loc, err := Find(w.root)
			if err != nil {
				t.Fatal(err)
			}
			ref := "refs/heads/topic"
			if name == "a directory" {
				ref = "refs/heads/dir/topic"
			}
			for _, c := range []Call{
				{Args: []string{"update-ref", "-m", "x", ref, "HEAD"}},
				{Args: []string{"update-ref", "-m", "x", "-z", "--stdin"}, Stdin: []byte("update " + ref + "\x00HEAD\x00\x00")},
			} {
				_, _, err := Open(w.proc, loc).Plumbing().Run(t.Context(), c)
				var bad *regular.Error
				if !errors.As(err, &bad) {
					t.Errorf("%q: %v", c.Args, err)
				}
			}
			list, err := os.ReadDir(outside)
			text, rerr := os.ReadFile(filepath.Join(outside, "kept"))
			if err := errors.Join(err, rerr); err != nil || len(list) != 1 || string(text) != "text" {
				t.Errorf("outside are %v, %q: %v", list, text, err)
			}
		})
	}
	w := newRepo(t)
	w.write("a.txt", "a")
	w.commitAll("first")
	loc, err := Find(w.root)
	if err == nil {
		_, _, err = Open(w.proc, loc).Plumbing().Run(t.Context(), Call{Args: []string{"update-ref", "-m", "x", "refs/heads/topic", "HEAD"}})
	}
	if err != nil {
		t.Error(err)
	}
}
