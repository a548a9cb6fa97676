package coordinator_test

import (
	"os"
	"testing"

	"ralph/coordinator"
	"ralph/coordinator/result"
)

// TestUndoOfWhatTookAPlace takes back what commands put in the place of directories and files: the
// time of a directory changes with what they remove in it, and behind a link is another file.
func TestUndoOfWhatTookAPlace(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"a link to another": "rm -rf dir && ln -s other dir",
		"a link out":        "rm -rf dir; ln -s /tmp dir",
		"where it went":     "mv dir other/dir && ln -s other/dir dir",
		"a file":            "rm -rf dir; echo x > dir",
		"a repository":      "rm -rf dir; git init -q dir; echo y > dir/x",
		"a directory":       "rm a.go; mkdir a.go; echo x > a.go/x",
		"a pipe":            "rm a.go; mkfifo a.go",
		"a closed file":     "echo x >> a.go; chmod 000 a.go",
		"closed":            "echo x >> dir/x; echo n > dir/n; rm dir/sub/y; chmod -R 000 dir",
		"locked":            "echo x >> dir/x; echo n > dir/n; rm dir/sub/y; chmod -R a-w dir",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := confined(t, calls(shell(script)), text("done"))
			p.write("a.go", "one\n")
			p.write("dir/x", "x\n")
			p.write("dir/sub/y", "y\n")
			p.write("other/x", "other\n")
			p.git("add", "-A")
			p.git("commit", "-q", "-m", "before")
			c := p.open()
			defer p.shut(c)
			p.want(c.Run(t.Context(), coordinator.Job{Task: "go"}), result.Completed)
			u, err := c.Undo(t.Context(), 1, nil)
			if err != nil || len(u.Kept) > 0 {
				t.Errorf("%+v, %v", u, err)
			}
			if info, err := os.Stat(p.path("dir")); err != nil || info.Mode()&0o500 != 0o500 || p.read("dir/n") != "" {
				t.Errorf("dir: %v, %v, dir/n %q", info.Mode(), err, p.read("dir/n"))
			}
			for _, dir := range []string{"dir", "dir/sub"} {
				if err := os.Chmod(p.path(dir), 0o755); err != nil { // so that it can be cleaned up
					t.Error(err)
				}
			}
			for path, want := range map[string]string{"a.go": "one\n", "dir/x": "x\n", "dir/sub/y": "y\n", "other/x": "other\n"} {
				if info, err := os.Lstat(p.path(path)); err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o400 == 0 {
					t.Errorf("%s: %v, %v", path, info, err)
				} else if got := p.read(path); got != want {
					t.Errorf("%s reads %q", path, got)
				}
			}
		})
	}
}
