package git

import (
	"os"
	osexec "os/exec"
	"testing"
)

// TestReplacedByWhatNoCheckpointHolds takes back what a command puts in the place of a file or a
// directory: links, files and directories, closed ones, and what no checkpoint can hold.
func TestReplacedByWhatNoCheckpointHolds(t *testing.T) {
	for name, script := range map[string]string{
		"a link for a directory": "rm -rf dir; ln -s other dir",
		"a link out":             "rm -rf dir; ln -s / dir",
		"a dangling link":        "rm -rf dir; ln -s nowhere dir",
		"a moved directory":      "mv dir d2; ln -s d2 dir",
		"a file for a directory": "rm -rf dir; echo x > dir",
		"a directory for a file": "rm a.go; mkdir a.go; echo x > a.go/x",
		"a link for a file":      "rm a.go; ln -s other/x a.go",
		"a pipe":                 "rm a.go; mkfifo a.go",
		"a pipe for a directory": "rm -rf dir; mkfifo dir",
		"a closed file":          "chmod 000 a.go",
		"a closed file, changed": "echo x >> a.go; chmod 000 a.go",
	} {
		t.Run(name, func(t *testing.T) {
			w := newRepo(t)
			names := []string{"a.go", "dir/x", "dir/sub/y", "other/x"}
			for _, n := range names {
				w.write(n, n+"\n")
			}
			w.commitAll("one")
			c := w.checkpoints()
			want := contentsOf(t, w, names)
			before := take(t, c, "b")
			cmd := osexec.Command("sh", "-ec", script)
			cmd.Dir = w.root
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Cleanup(func() {
				for _, n := range []string{"dir", "a.go"} {
					_ = os.Chmod(w.path(n), 0o755) // so that it can be removed
				}
			})
			after := take(t, c, "a")
			r := must(c.Restore(t.Context(), before, after, nil))(t)
			for _, n := range names {
				if info, err := os.Lstat(w.path(n)); err != nil || !info.Mode().IsRegular() {
					t.Fatalf("%s: %v, %v; kept %q", n, info, err, r.Kept)
				}
			}
			if got := contentsOf(t, w, names); got != want || len(r.Kept) > 0 {
				t.Errorf("%q; kept %q", got, r.Kept)
			}
		})
	}
}

// TestLaterThingsStay keeps what somebody put in the place of a file after the checkpoint.
func TestLaterThingsStay(t *testing.T) {
	for name, script := range map[string]string{"a pipe": "mkfifo a.go", "a pipe for a directory": "mkfifo dir", "a file": "echo mine > a.go", "a link": "ln -s /etc/hostname a.go"} {
		t.Run(name, func(t *testing.T) {
			w := newRepo(t)
			w.write("a.go", "one\n")
			w.write("dir/x", "x\n")
			w.commitAll("one")
			c := w.checkpoints()
			before := take(t, c, "b")
			w.remove("a.go")
			w.remove("dir")
			after := take(t, c, "a")
			for later := false; !later; { // the kernel's clock for files is behind by as much as a tick
				w.write("clock", "x")
				info := must(os.Lstat(w.path("clock")))(t)
				later = info.ModTime().After(after.Time)
			}
			cmd := osexec.Command("sh", "-ec", script)
			cmd.Dir = w.root
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if r := must(c.Restore(t.Context(), before, after, nil))(t); len(r.Kept) != 1 {
				t.Errorf("%+v", r)
			}
		})
	}
}
