package tamper

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestHistory(t *testing.T) {
	repo := os.Getenv("HIST")
	if repo == "" {
		t.Skip()
	}
	git := func(a ...string) []byte {
		out, _ := exec.Command("git", append([]string{"-C", repo}, a...)...).Output()
		return out
	}
	n, b, w := 0, 0, 0
	for _, c := range strings.Fields(string(git("rev-list", "--no-merges", "HEAD"))) {
		var files []File
		for _, l := range strings.Split(strings.TrimSpace(string(git("diff-tree", "-r", "--root", "--no-commit-id", "--name-status", "--no-renames", c))), "\n") {
			st, p, ok := strings.Cut(l, "\t")
			if !ok {
				continue
			}
			f := File{Path: p}
			if st != "A" {
				f.Before = git("show", c+"^:"+p)
				if f.Before == nil {
					f.Before = []byte{}
				}
			}
			if st != "D" {
				f.After = git("show", c+":"+p)
				if f.After == nil {
					f.After = []byte{}
				}
			}
			files = append(files, f)
		}
		found := Inspect(files, []string{".ci/run", "make check"})
		n++
		bl := false
		for _, x := range found {
			bl = bl || x.Blocks
		}
		if len(found) > 0 {
			w++
		}
		if bl {
			b++
			t.Logf("%s (%d files)", c[:8], len(files))
			for _, x := range found {
				if x.Blocks {
					t.Logf("   %s:%d %s | %s", x.Path, x.Line, x.What, x.Why)
				}
			}
		}
	}
	t.Logf("%d commits, %d with findings, %d blocked", n, w, b)
}
