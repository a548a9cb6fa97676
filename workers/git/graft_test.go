package git

import (
	"slices"
	"testing"
)

// What the user changes in the midst of work is not taken back with it.
func TestGraft(t *testing.T) {
	for name, shadow := range map[string]bool{"repository": false, "no repository": true} {
		t.Run(name, func(t *testing.T) {
			w := newRepo(t)
			c := w.checkpoints()
			if shadow {
				w = newWorld(t)
				c = w.checkpoints()
			}
			ctx := t.Context()
			for _, f := range []string{"work.txt", "user.txt", "both.txt", "gone.txt", "dir/in.txt"} {
				w.write(f, "old\n")
			}
			before := must(c.Take(ctx, "r/1.before"))(t)
			w.write("work.txt", "work\n")
			w.write("both.txt", "work\n")
			w.write("user.txt", "user\n")
			w.write("new.txt", "user\n")
			w.remove("gone.txt")
			w.remove("dir/in.txt")
			w.remove("dir")
			w.write("dir", "a file now\n")
			w.write("more.txt", "work\n")
			after := must(c.Take(ctx, "r/1.after"))(t)
			grafted := must(c.Graft(ctx, before, after, before.ID, func(path string, had bool) bool {
				if had != (path != "new.txt" && path != "more.txt" && path != "dir") {
					t.Errorf("%s was there: %v", path, had)
				}
				return !slices.Contains([]string{"both.txt", "more.txt", "work.txt"}, path)
			}))(t)
			var paths []string
			for _, f := range must(c.Changes(ctx, grafted, after))(t) {
				paths = append(paths, f.Path)
			}
			equal(t, "the work's changes", paths, []string{"both.txt", "more.txt", "work.txt"})
			list := must(c.List(ctx))(t)
			last := list[len(list)-1]
			equal(t, "the oldest", []string{last.ID, last.Commit, last.Tree}, []string{before.ID, grafted.Commit, grafted.Tree})
			if _, err := c.Restore(ctx, last, after, nil); err != nil {
				t.Fatal(err)
			}
			for f, want := range map[string]string{"work.txt": "old\n", "user.txt": "user\n", "new.txt": "user\n", "both.txt": "old\n", "dir": "a file now\n"} {
				equal(t, f, w.read(f), want)
			}
			if w.exists("gone.txt") || w.exists("more.txt") {
				t.Error("what was removed is there")
			}
			if same := must(c.Graft(ctx, grafted, after, before.ID, func(string, bool) bool { return false }))(t); same != grafted {
				t.Errorf("nothing makes another: %+v", same)
			}
		})
	}
}
