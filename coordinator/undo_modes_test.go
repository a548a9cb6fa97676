package coordinator_test

import (
	"io/fs"
	"os"
	"testing"

	"ralph/coordinator"
	"ralph/coordinator/result"
)

// TestUndoOfModes takes back permissions that git does not hold: of files that commands replace,
// as editors and formatters do, remove, and change by chmod(1) alone. Redo brings them back.
func TestUndoOfModes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		left   fs.FileMode // of key, 0 for none
	}{
		"replaced":           {"echo new > t; chmod 644 t; mv t key", 0o644},
		"written":            {"echo new > key", 0o600},
		"written and opened": {"echo new > key; chmod 644 key", 0o644},
		"removed":            {"rm key", 0},
		"removed with it":    {"git rm -q --cached open; rm key open", 0},
		"changed alone":      {"chmod 666 key", 0o666},
		"closed":             {"chmod 400 key", 0o400},
		"executable":         {"chmod 755 key open", 0o755},
		"renamed":            {"mv key key2", 0},
		"by sed":             {"sed -i s/one/two/ key; chmod 644 key", 0o644},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := confined(t, calls(shell(c.script)), text("done"))
			modes := map[string]fs.FileMode{"key": 0o600, "open": 0o664, "other": 0o640}
			for path, mode := range modes {
				p.write(path, "one\n")
				if err := os.Chmod(p.path(path), mode); err != nil {
					t.Fatal(err)
				}
			}
			p.git("add", "-A")
			p.git("commit", "-q", "-m", "before")
			co := p.open()
			defer p.shut(co)
			p.want(co.Run(t.Context(), coordinator.Job{Task: "go"}), result.Completed)
			if u, err := co.Undo(t.Context(), 1, nil); err != nil || len(u.Kept) > 0 {
				t.Errorf("undo: %+v, %v", u, err)
			}
			for path, mode := range modes {
				info, err := os.Stat(p.path(path))
				if err != nil || info.Mode().Perm() != mode || p.read(path) != "one\n" {
					t.Errorf("%s after undo: %v, %v, %q", path, info.Mode(), err, p.read(path))
				}
			}
			if _, err := co.Redo(t.Context(), 1, nil); err != nil {
				t.Errorf("redo: %v", err)
			}
			if info, err := os.Stat(p.path("key")); (err == nil) != (c.left != 0) || err == nil && info.Mode().Perm() != c.left {
				t.Errorf("key after redo: %v, %v", info, err)
			}
		})
	}
}

// TestUndoKeepsModesOfTheUser leaves permissions that somebody gave a file after the turn.
func TestUndoKeepsModesOfTheUser(t *testing.T) {
	t.Parallel()
	p := confined(t, calls(shell("chmod 666 key; echo new > made")), text("done"))
	p.write("key", "one\n")
	p.git("add", "-A")
	p.git("commit", "-q", "-m", "before")
	c := p.open()
	defer p.shut(c)
	p.want(c.Run(t.Context(), coordinator.Job{Task: "go"}), result.Completed)
	if err := os.Chmod(p.path("key"), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Undo(t.Context(), 1, nil); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(p.path("key")); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("key: %v, %v", info.Mode(), err)
	}
}
