package identity

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/afero"
)

// world is a user with a state directory and one project with state.
type world struct {
	t    *testing.T
	fsys afero.Fs
	base string
	home string
	dir  string // of the project's state
	rec  Record
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, fsys: afero.NewOsFs(), base: t.TempDir()}
	w.home, w.dir = filepath.Join(w.base, "home", "ralph"), w.path("shop")
	w.state(w.dir)
	var err error
	if w.rec, err = Establish(w.fsys, w.home, w.dir); err != nil {
		t.Fatal(err)
	}
	w.is(w.dir, Own)
	return w
}

func (w *world) path(project string) string { return filepath.Join(w.base, project, ".ralph") }

// state puts a session there.
func (w *world) state(dir string) {
	w.t.Helper()
	w.must(os.MkdirAll(filepath.Join(dir, "sessions"), 0o700))
	w.must(os.WriteFile(filepath.Join(dir, "runs.jsonl"), []byte("{}\n"), 0o600))
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) is(dir string, want Standing) Found {
	w.t.Helper()
	f, err := Examine(w.fsys, w.home, dir)
	if err != nil {
		w.t.Fatal(err)
	}
	if f.Standing != want {
		w.t.Fatalf("%s is %q, want %q (record %+v, here %q)", dir, f.Standing, want, f.Record, handleOf(w.fsys, dir))
	}
	return f
}

func (w *world) run(args ...string) {
	w.t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		w.t.Fatalf("%q: %v\n%s", args, err, out)
	}
}

// Each way in which a directory comes to be where it is has one standing.
func TestStandings(t *testing.T) {
	t.Parallel()
	shop := func(w *world) string { return filepath.Dir(w.dir) }
	for name, tc := range map[string]struct {
		do   func(w *world) string // returns the state directory to look at
		want Standing
	}{
		"nothing happened": {func(w *world) string { return w.dir }, Own},
		"nothing is there": {func(w *world) string { return w.path("none") }, Absent},
		"an empty .ralph":  {func(w *world) string { w.must(os.MkdirAll(w.path("new"), 0o700)); return w.path("new") }, Absent},
		"state without id": {func(w *world) string { w.state(w.path("clone")); return w.path("clone") }, Foreign},
		"an id of nobody":  {func(w *world) string { w.state(w.path("c")); w.id(w.path("c"), string(newID())); return w.path("c") }, Foreign},
		"an id of no form": {func(w *world) string { w.state(w.path("c")); w.id(w.path("c"), "../../x"); return w.path("c") }, Foreign},
		"an id, no state": {func(w *world) string {
			w.must(os.MkdirAll(w.path("c"), 0o700))
			w.id(w.path("c"), string(w.rec.ID))
			return w.path("c")
		}, Copied},
		"its id in a clone": {func(w *world) string { w.state(w.path("c")); w.id(w.path("c"), string(w.rec.ID)); return w.path("c") }, Copied},
		"copied":            {func(w *world) string { w.run("cp", "-a", shop(w), shop(w)+"2"); return w.path("shop2") }, Copied},
		"moved":             {func(w *world) string { w.run("mv", shop(w), shop(w)+"2"); return w.path("shop2") }, Moved},
		"its parent moved": {func(w *world) string {
			w.must(os.Mkdir(filepath.Join(w.base, "deep"), 0o700))
			w.run("mv", shop(w), filepath.Join(w.base, "deep"))
			return w.path("deep/shop")
		}, Moved},
		"restored in place": {func(w *world) string {
			w.run("tar", "-C", w.base, "-cf", shop(w)+".tar", "shop")
			w.must(os.RemoveAll(shop(w)))
			w.run("tar", "-C", w.base, "-xf", shop(w)+".tar")
			return w.dir
		}, Copied},
		"restored elsewhere": {func(w *world) string {
			w.run("tar", "-C", w.base, "-cf", shop(w)+".tar", "shop")
			w.must(os.RemoveAll(shop(w)))
			w.must(os.Mkdir(shop(w)+"2", 0o700))
			w.run("tar", "-C", shop(w)+"2", "--strip-components=1", "-xf", shop(w)+".tar")
			return w.path("shop2")
		}, Copied},
		"moved, and another came in its place": {func(w *world) string {
			w.run("mv", shop(w), shop(w)+"2")
			w.state(w.dir)
			return w.path("shop2")
		}, Copied},
		"a clone where the project was": {func(w *world) string {
			w.must(os.RemoveAll(shop(w)))
			w.state(w.dir)
			w.id(w.dir, string(w.rec.ID))
			return w.dir
		}, Copied},
		"only .ralph was deleted and came again": {func(w *world) string {
			w.must(os.RemoveAll(w.dir))
			w.state(w.dir)
			w.id(w.dir, string(w.rec.ID))
			return w.dir
		}, Copied},
		"the user's record is gone": {func(w *world) string { w.must(os.RemoveAll(w.home)); return w.dir }, Foreign},
		"through a link of the parent": {func(w *world) string {
			w.must(os.Symlink(shop(w), shop(w)+"-link"))
			return w.path("shop-link")
		}, Own},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			f := w.is(tc.do(w), tc.want)
			if f.Trusted() != slices.Contains([]Standing{Absent, Own, Moved}, tc.want) {
				t.Errorf("%q: trusted is %v", tc.want, f.Trusted())
			}
		})
	}
}

func (w *world) id(dir, id string) {
	w.t.Helper()
	w.must(os.WriteFile(filepath.Join(dir, File), []byte(id+"\n"), 0o600))
}

// A directory elsewhere, on another file system, is asked about.
func TestMovedAcrossFileSystems(t *testing.T) {
	t.Parallel()
	other, err := os.MkdirTemp("/dev/shm", "ralph-identity-")
	if err != nil {
		t.Skip("there is no second file system to write to: " + err.Error())
	}
	t.Cleanup(func() { _ = os.RemoveAll(other) })
	w := newWorld(t)
	w.run("mv", filepath.Dir(w.dir), filepath.Join(other, "shop"))
	w.is(filepath.Join(other, "shop", ".ralph"), Copied)
}

// Whoever cannot be looked at is not trusted.
func TestExamineFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	link := w.path("link")
	w.must(os.MkdirAll(filepath.Dir(link), 0o700))
	w.must(os.Symlink(w.dir, link))
	w.must(os.WriteFile(filepath.Join(w.base, "file"), nil, 0o600))
	record := filepath.Join(Dir(w.home, w.rec.ID), recordFile)
	for name, tc := range map[string]struct {
		dir  string
		make func()
	}{
		"a linked .ralph":     {link, func() {}},
		"a file":              {filepath.Join(w.base, "file"), func() {}},
		"a record that broke": {w.dir, func() { w.must(os.WriteFile(record, []byte(`{"version":1`), 0o600)) }},
		"a record of another": {w.dir, func() {
			w.must(os.WriteFile(record, []byte(`{"version":1,"id":"`+string(newID())+`","path":"`+w.dir+`","key":"AAAA"}`), 0o600))
		}},
		"a record without a key": {w.dir, func() {
			w.must(os.WriteFile(record, []byte(`{"version":1,"id":"`+string(w.rec.ID)+`","path":"`+w.dir+`"}`), 0o600))
		}},
		"an id that is a pipe": {w.dir, func() { w.must(os.Remove(filepath.Join(w.dir, File))); w.run("mkfifo", filepath.Join(w.dir, File)) }},
	} {
		tc.make()
		if f, err := Examine(w.fsys, w.home, tc.dir); err == nil || f.Trusted() {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
}

func TestFollow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run("mv", filepath.Dir(w.dir), filepath.Join(w.base, "new"))
	f := w.is(w.path("new"), Moved)
	r, err := Follow(w.fsys, w.home, w.path("new"), f.Record)
	w.must(err)
	if got := w.is(w.path("new"), Own).Record; got.Path != r.Path || string(got.Key) != string(w.rec.Key) || got.ID != w.rec.ID {
		t.Errorf("the record is %+v, was %+v", got, w.rec)
	}
}

// Taking over changes the key always, and the id where somebody else may use it.
func TestEstablishAnew(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		do   func(w *world) string
		same bool
	}{
		"copied": {func(w *world) string { w.run("cp", "-a", filepath.Dir(w.dir), w.base+"/two"); return w.path("two") }, false},
		"restored": {func(w *world) string {
			w.run("cp", "-a", filepath.Dir(w.dir), w.base+"/two")
			w.must(os.RemoveAll(filepath.Dir(w.dir)))
			w.run("mv", w.base+"/two", filepath.Dir(w.dir))
			return w.dir
		}, true},
		"of nobody": {func(w *world) string { w.state(w.path("c")); w.id(w.path("c"), string(newID())); return w.path("c") }, false},
	} {
		w := newWorld(t)
		kept, dropped := filepath.Join(Dir(w.home, w.rec.ID), "checkpoints"), filepath.Join(Dir(w.home, w.rec.ID), "grants")
		w.must(os.MkdirAll(kept, 0o700))
		w.must(os.MkdirAll(dropped, 0o700))
		dir := tc.do(w)
		r, err := Establish(w.fsys, w.home, dir, "checkpoints")
		w.must(err)
		w.is(dir, Own)
		if string(r.Key) == string(w.rec.Key) || (r.ID == w.rec.ID) != tc.same {
			t.Errorf("%s: id %s was %s", name, r.ID, w.rec.ID)
		}
		if _, err := os.Stat(kept); err != nil {
			t.Errorf("%s: what is to be kept: %v", name, err)
		}
		if _, err := os.Stat(dropped); errors.Is(err, fs.ErrNotExist) != tc.same {
			t.Errorf("%s: what grants: %v", name, err)
		}
		if !tc.same && name == "copied" {
			w.is(w.dir, Own)
		}
	}
}

func TestNoHome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := Establish(w.fsys, "", w.dir); !errors.Is(err, ErrNoHome) {
		t.Error(err)
	}
	w.home = "/proc/nowhere"
	if _, err := Establish(w.fsys, w.home, w.dir); err == nil {
		t.Error("a record was made where nothing can be")
	}
}

func TestPrivate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for path, want := range map[string]fs.FileMode{Dir(w.home, w.rec.ID): 0o700, filepath.Join(Dir(w.home, w.rec.ID), recordFile): 0o600, filepath.Join(w.dir, File): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if data, err := os.ReadFile(filepath.Join(w.dir, File)); err != nil || strings.TrimSpace(string(data)) != string(w.rec.ID) {
		t.Errorf("%q, %v", data, err)
	}
}

func TestKey(t *testing.T) {
	t.Parallel()
	k, other := NewKey(), NewKey()
	sum := k.Sum("queue", []byte("text"))
	if !k.Verify("queue", []byte("text"), sum) {
		t.Fatal("what it made does not verify")
	}
	for name, ok := range map[string]bool{
		"another text": k.Verify("queue", []byte("text "), sum), "another purpose": k.Verify("approval", []byte("text"), sum), "another key": other.Verify("queue", []byte("text"), sum),
		"no sum": k.Verify("queue", []byte("text"), ""), "no key": Key(nil).Verify("queue", []byte("text"), Key(nil).Sum("queue", []byte("text"))), "purpose moved": k.Verify("queuet", []byte("ext"), sum),
	} {
		if ok {
			t.Errorf("%s verifies", name)
		}
	}
}

func TestHomeAndDir(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ dir, state, home, want string }{
		{"", "", "/h", "/h/.local/state/ralph"}, {"", "/s", "/h", "/s/ralph"}, {"/d/", "/s", "/h", "/d"}, {"rel", "rel", "/h", "/h/.local/state/ralph"}, {"", "", "", ""}, {"", "", "rel", ""},
	} {
		env := map[string]string{"RALPH_STATE_DIR": tc.dir, "XDG_STATE_HOME": tc.state, "HOME": tc.home}
		if got := Home(func(n string) string { return env[n] }); got != tc.want {
			t.Errorf("%+v: %q", tc, got)
		}
	}
	id := newID()
	if got := Dir("/h", id); got != "/h/projects/"+string(id) || Dir("", id) != "" || Dir("/h", "../../x") != "" || Dir("/h", ID(strings.ToUpper("a"+string(id[1:])))) != "" {
		t.Error(got)
	}
}
