package beads_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ralph/coordinator/plan/beads"
)

func TestLocate(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(parts ...string) string { return filepath.Join(append([]string{base}, parts...)...) }
	write(t, at("plain", ".beads", "beads.db"), "", 0o644)
	write(t, at("plain", ".beads", "issues.jsonl"), "", 0o644)
	write(t, at("other", ".beads", "beads.db"), "", 0o644)
	write(t, at("other", ".beads", "metadata.json"), `{"backend":"dolt","dolt_mode":"server","jsonl_export":"mirror.jsonl"}`, 0o644)
	write(t, at("other", ".beads", "mirror.jsonl"), "", 0o644)
	write(t, at("redirect", ".beads", "redirect"), "# moved\n../other/.beads\n", 0o644)
	write(t, at("inner", ".beads", "redirect"), "data/.beads\n", 0o644)
	write(t, at("inner", "data", ".beads", "beads.db"), "", 0o644)
	write(t, at("file", ".beads"), "", 0o644)
	write(t, at("none", "x"), "", 0o644)
	if err := os.MkdirAll(at("link"), 0o755); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{at("link", ".beads"): at("other", ".beads"), at("none", "loop"): at("none", "loop")} {
		if err := os.Symlink(to, from); err != nil {
			t.Fatal(err)
		}
	}
	// A linked worktree of git, with the copy of the file that git has put there.
	write(t, at("plain", ".git", "worktrees", "w", "commondir"), "../..\n", 0o644)
	write(t, at("tree", ".git"), "gitdir: "+at("plain", ".git", "worktrees", "w")+"\n", 0o644)
	write(t, at("tree", ".beads", "issues.jsonl"), "", 0o644)

	for _, c := range []struct {
		name, root, path, env string
		want                  string // "" is refused
		hint                  string
	}{
		{"usual", "plain", "", "", at("plain", ".beads"), ""},
		{"none", "none", "", "", "", "bd init"},
		{"a file", "file", "", "", "", "bd init"},
		{"a link out of the project", "link", "", "", "", at("other", ".beads")},
		{"the same, named", "link", at("other", ".beads"), "", at("other", ".beads"), ""},
		{"a redirect out of the project", "redirect", "", "", "", at("other", ".beads")},
		{"the same, by environment", "redirect", "", at("other", ".beads"), at("other", ".beads"), ""},
		{"a redirect inside", "inner", "", "", at("inner", "data", ".beads"), ""},
		{"a worktree", "tree", "", "", at("plain", ".beads"), ""},
		{"a file in it", "none", at("plain", ".beads", "issues.jsonl"), "", at("plain", ".beads"), ""},
		{"a project", "none", at("plain"), "", at("plain", ".beads"), ""},
		{"relative", "none", "../plain/.beads", "", at("plain", ".beads"), ""},
		{"named and not there", "plain", "nothing/.beads", "", "", "bd init"},
		{"a loop of links", "none", "loop", "", "", "bd init"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var env []string
			if c.env != "" {
				env = []string{"BEADS_DIR=/nowhere", "BEADS_DIR=" + c.env}
			}
			d, err := beads.Locate(at(c.root), c.path, env)
			if c.want == "" {
				var e *beads.Error
				if !errors.Is(err, beads.ErrNoData) || !errors.As(err, &e) || !strings.Contains(e.Hint, c.hint) {
					t.Errorf("%+v, %v", d, err)
				}
				return
			}
			if err != nil || d.Dir != c.want || d.Work != filepath.Dir(c.want) {
				t.Errorf("%+v, %v; want %s", d, err, c.want)
			}
			if named := c.path != "" || c.env != ""; d.Named != named {
				t.Errorf("named %v", d.Named)
			}
		})
	}
	d, err := beads.Locate(at("none"), at("other", ".beads"), nil)
	if err != nil || !d.Server || d.JSONL != at("other", ".beads", "mirror.jsonl") {
		t.Errorf("metadata: %+v, %v", d, err)
	}
}
