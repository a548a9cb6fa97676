package session_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/afero"

	"ralph/memory/durable"
	"ralph/memory/session"
)

// A session that is kept elsewhere has its number from the project, is found like
// the others, and goes on where it is.
func TestElsewhere(t *testing.T) {
	for name, dir := range map[string]func(root string) string{
		"outside": func(string) string { return filepath.Join(t.TempDir(), "deep", "down") },
		"inside":  func(root string) string { return filepath.Join(root, "out") },
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			state := filepath.Join(root, ".ralph")
			at := dir(root)
			for i, o := range []session.Options{{StateDir: state, Kind: "chat"}, {StateDir: state, Kind: "auth", Dir: at}, {StateDir: state, Kind: "run"}} {
				s, err := session.Create(o, "")
				if err != nil {
					t.Fatal(err)
				}
				want := []string{filepath.Join(state, "sessions", "session-001-chat"), at, filepath.Join(state, "sessions", "session-003-run")}[i]
				if s.Dir() != want {
					t.Errorf("made in %s, want %s", s.Dir(), want)
				}
				if err := s.Journal().Append(0, session.Record{Kind: "message", Payload: []byte(`{"n":1}`)}); err != nil {
					t.Error(err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			if text, err := os.ReadFile(filepath.Join(at, ".gitignore")); err != nil || string(text) != "*\n" {
				t.Errorf("git would take the session's files for work: %q, %v", text, err)
			}
			infos, err := session.List(afero.NewOsFs(), state)
			if err != nil || len(infos) != 3 || infos[1].ID != "002" || infos[1].Meta.SessionName != "auth" {
				t.Fatalf("%+v, %v", infos, err)
			}
			for _, which := range []string{"2", "002", "session-002", "session-2", "auth", "session-002-auth"} {
				s, err := session.Open(session.Options{StateDir: state, Dir: "/nowhere"}, which)
				if err != nil {
					t.Fatalf("%s: %v", which, err)
				}
				if n := 0; s.Dir() != at || s.Records(func(session.Record) error { n++; return nil }) != nil || n != 1 {
					t.Errorf("%s is %s with %d records", which, s.Dir(), n)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A directory holds one session: a second one, of this project or of another, is
// refused and leaves it as it is; so is one among other files.
func TestElsewhereHoldsOne(t *testing.T) {
	at, state := filepath.Join(t.TempDir(), "s"), filepath.Join(t.TempDir(), ".ralph")
	if err := os.Mkdir(at, 0o700); err != nil {
		t.Fatal(err) // an empty one is taken
	}
	s, err := session.Create(session.Options{StateDir: state, Kind: "run", Dir: at}, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	before, err := os.ReadFile(filepath.Join(at, session.MetadataFile))
	if err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, o := range []session.Options{{StateDir: state, Dir: at}, {StateDir: filepath.Join(t.TempDir(), ".ralph"), Dir: at}, {StateDir: state, Dir: other}} {
		if s, err := session.Create(o, ""); !errors.Is(err, session.ErrNotEmpty) {
			t.Errorf("%s: %v, %v", o.Dir, s, err)
		}
	}
	if after, err := os.ReadFile(filepath.Join(at, session.MetadataFile)); err != nil || string(after) != string(before) {
		t.Errorf("the first session was changed: %v %s", err, after)
	}
	if list, err := os.ReadDir(other); err != nil || len(list) != 1 {
		t.Errorf("a foreign directory was written to: %v %v", list, err)
	}
	if infos, err := session.List(afero.NewOsFs(), state); err != nil || len(infos) != 1 {
		t.Errorf("%+v, %v", infos, err)
	}
}

// A link that was not made for this project is not followed: a repository may
// bring one that leads anywhere.
func TestForeignLinks(t *testing.T) {
	for name, home := range map[string]string{"nothing said": "", "another project": "/home/other/.ralph\n", "a lie": "../..\n"} {
		state, target := filepath.Join(t.TempDir(), ".ralph"), t.TempDir()
		if err := os.MkdirAll(filepath.Join(state, "sessions"), 0o700); err != nil {
			t.Fatal(err)
		}
		if home != "" {
			if err := os.WriteFile(filepath.Join(target, ".ralph-home"), []byte(home), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink(target, filepath.Join(state, "sessions", "session-001-evil")); err != nil {
			t.Fatal(err)
		}
		if s, err := session.Open(session.Options{StateDir: state}, "001"); !errors.Is(err, durable.ErrSymlink) {
			t.Errorf("%s: opened %v, %v", name, s, err)
		}
		if list, err := os.ReadDir(target); err != nil || len(list) > 1 {
			t.Errorf("%s: written through the link: %v, %v", name, list, err)
		}
	}
}

func TestElsewhereWithoutLinks(t *testing.T) {
	_, err := session.Create(session.Options{FS: afero.NewMemMapFs(), StateDir: "/p/.ralph", Dir: "/out"}, "")
	if !errors.Is(err, session.ErrLinks) {
		t.Error(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := session.Create(session.Options{StateDir: filepath.Join(dir, ".ralph"), Dir: file}, ""); err == nil || !strings.Contains(err.Error(), file) {
		t.Error(err)
	}
}
