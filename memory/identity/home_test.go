package identity

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// A state directory whose content, or whose name, what works in the project can
// change is not used.
func TestOutside(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		home func(w *world, root string) string
		want error
	}{
		"beside it":               {func(w *world, root string) string { return w.base + "/st" }, nil},
		"beside it, a longer one": {func(w *world, root string) string { return root + "-state" }, nil},
		"a link to beside it":     {func(w *world, root string) string { return w.link(w.base+"/l", w.base+"/st") }, nil},
		"none":                    {func(w *world, root string) string { return "" }, ErrNoHome},
		"the project":             {func(w *world, root string) string { return root }, ErrInside},
		"below it":                {func(w *world, root string) string { return root + "/a/st" }, ErrInside},
		"below it, by its parent": {func(w *world, root string) string { return root + "/../shop/.st" }, ErrInside},
		"above it":                {func(w *world, root string) string { return w.base }, ErrInside},
		"a link into it":          {func(w *world, root string) string { return w.link(w.base+"/l", root+"/st") }, ErrInside},
		"a relative link into it": {func(w *world, root string) string { return w.link(w.base+"/l", "shop/st") }, ErrInside},
		"below a link into it":    {func(w *world, root string) string { return w.link(w.base+"/l", root) + "/st/ralph" }, ErrInside},
		"a link that leads out":   {func(w *world, root string) string { return w.link(root+"/st", w.base+"/st") }, ErrInside},
		"in and out by two links": {func(w *world, root string) string {
			w.link(root+"/st", w.base+"/st")
			return w.link(w.base+"/l", root+"/st") + "/ralph"
		}, ErrInside},
		"where the project is a link": {func(w *world, root string) string { return w.link(w.base+"/l", root) + "/.st" }, ErrInside},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			root := filepath.Dir(w.dir)
			home := tc.home(w, root)
			got, err := Outside(home, root)
			if !errors.Is(err, tc.want) || tc.want == nil && (err != nil || got != home) {
				t.Fatalf("%q: %q, %v", home, got, err)
			}
			if tc.want == nil {
				return
			}
			if f, err := Examine(w.fsys, home, w.dir); f.Standing != Unknown || !errors.Is(err, tc.want) {
				t.Errorf("examined: %+v, %v", f, err)
			}
			if _, err := Establish(w.fsys, home, w.dir); !errors.Is(err, tc.want) || CheckpointDir(home, root) != "" {
				t.Errorf("established: %v; checkpoints in %q", err, CheckpointDir(home, root))
			}
		})
	}
}

func (w *world) link(path, target string) string {
	w.t.Helper()
	w.must(os.Symlink(target, path))
	return path
}

// Of state whose record cannot be read nothing is said; it is not somebody else's.
func TestUnknown(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(w *world) error{
		"no home": func(w *world) error { w.home = ""; return nil },
		"a file":  func(w *world) error { return errors.Join(os.RemoveAll(w.home), os.WriteFile(w.home, nil, 0o600)) },
		"its parent a file": func(w *world) error {
			w.home += "/project.json/x"
			return os.WriteFile(filepath.Dir(w.home), nil, 0o600)
		},
		"a loop":             func(w *world) error { return errors.Join(os.RemoveAll(w.home), os.Symlink(w.home, w.home)) },
		"a record of a pipe": func(w *world) error { return w.instead(func(p string) error { w.run("mkfifo", p); return nil }) },
		"a record of a link": func(w *world) error { return w.instead(func(p string) error { return os.Symlink(w.base, p) }) },
		"not readable": func(w *world) error {
			if os.Getuid() == 0 {
				w.t.Skip("root reads everything")
			}
			w.t.Cleanup(func() { _ = os.Chmod(w.home, 0o700) })
			return os.Chmod(w.home, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.must(spoil(w))
			if f, err := Examine(w.fsys, w.home, w.dir); f.Standing != Unknown || err == nil || f.Trusted() || f.Record.ID != "" {
				t.Errorf("%+v, %v", f, err)
			}
			if f, err := Examine(w.fsys, w.home, w.path("none")); f.Standing != Absent || err != nil {
				t.Errorf("a new project: %+v, %v", f, err)
			}
		})
	}
}

// instead puts something else in the place of the record.
func (w *world) instead(make func(path string) error) error {
	path := filepath.Join(Dir(w.home, w.rec.ID), recordFile)
	return errors.Join(os.Remove(path), make(path))
}

func TestWritable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(Writable(w.fsys, w.home))
	w.must(Writable(w.fsys, filepath.Join(w.base, "not", "yet")))
	if names, err := os.ReadDir(w.home); err != nil || len(names) != 1 {
		t.Errorf("left behind: %v, %v", names, err)
	}
	w.must(os.WriteFile(filepath.Join(w.base, "file"), nil, 0o600))
	for _, home := range []string{"", filepath.Join(w.base, "file"), "/proc/nowhere"} {
		if err := Writable(w.fsys, home); err == nil || errors.Is(err, fs.ErrExist) {
			t.Errorf("%q: %v", home, err)
		}
	}
}
