package memory

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/afero"
)

// TestBegin: what was said is made, nothing else is, and what is there stays.
func TestBegin(t *testing.T) {
	root := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(root, ".git", "info"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, ".git", "HEAD"), []byte("ref: refs/heads/main\n"), 0o644))
	must(t, os.MkdirAll(filepath.Join(root, ".git", "objects"), 0o755))
	must(t, os.MkdirAll(filepath.Join(root, ".git", "refs"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, ".git", "config"), nil, 0o644))
	must(t, os.WriteFile(filepath.Join(root, TasksFile), []byte("my own\n"), 0o640))
	must(t, os.Symlink("nowhere", filepath.Join(root, GoalsFile)))
	list := func() (all []string) {
		must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			rel, _ := filepath.Rel(root, path)
			all = append(all, rel)
			return err
		}))
		return all
	}
	before := list()
	parts, err := Plan(nil, root)
	must(t, err)
	if !slices.Equal(before, list()) {
		t.Fatal("a plan wrote")
	}
	made := begin(t, parts)
	var want, got []string
	for _, p := range parts {
		if kept := p.Exists; kept != (p.Path == TasksFile || p.Path == GoalsFile) {
			t.Errorf("%s: there: %t", p.Path, p.Exists)
		} else if !kept {
			want = append(want, strings.TrimSuffix(strings.TrimPrefix(p.Path, root+"/"), "/"))
		}
		if p.What == "" {
			t.Errorf("%s says nothing", p.Path)
		}
	}
	for _, name := range list() {
		if !slices.Contains(before, name) {
			got = append(got, name)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) || made != len(want) {
		t.Errorf("made %q, said %q", got, want)
	}
	if text := read(t, filepath.Join(root, TasksFile)); text != "my own\n" {
		t.Errorf("%q", text)
	}
	again, err := Plan(nil, root)
	must(t, err)
	if made := begin(t, again); made != 0 {
		t.Errorf("a second time: %d", made)
	}
	if made := begin(t, parts); made > 2 { // a directory and a line can be made twice
		t.Errorf("the same again: %d", made)
	}
	must(t, os.Remove(filepath.Join(root, GoalsFile)))
	s, rec := open(t, Options{Root: root})
	if len(rec.Warnings) > 0 || s.ReadOnly() {
		t.Errorf("%+v", rec)
	}
}

// TestBeginTogether: several at once leave one line in git's exclude file.
func TestBeginTogether(t *testing.T) {
	for range 20 {
		common := t.TempDir()
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if err := exclude(afero.NewOsFs(), common); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if text := read(t, filepath.Join(common, "info", "exclude")); text != strings.Join(excludePatterns(), "\n")+"\n" {
			t.Fatalf("%q", text)
		}
	}
}

func begin(t *testing.T, parts []Part) (n int) {
	t.Helper()
	for _, p := range parts {
		made, err := p.Make()
		must(t, err)
		if made {
			n++
		}
	}
	return n
}

// TestBeginRefuses: a state directory that is a link, and one of a newer Ralph.
func TestBeginRefuses(t *testing.T) {
	root := t.TempDir()
	must(t, os.Symlink(t.TempDir(), filepath.Join(root, ".ralph")))
	if _, err := Plan(nil, root); err == nil {
		t.Error("a link was taken")
	}
	root = t.TempDir()
	must(t, os.Mkdir(filepath.Join(root, ".ralph"), 0o700))
	must(t, os.WriteFile(filepath.Join(root, ".ralph", "FORMAT"), []byte("ralph 99\n"), 0o600))
	if _, err := Plan(nil, root); err == nil {
		t.Error("one of a newer Ralph was taken")
	}
}
