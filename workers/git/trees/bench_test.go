package trees

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ralph/workers/tempdir"
)

// BenchmarkTrees prints medians on a repository of 5,000 files and 45 MB.
func BenchmarkTrees(b *testing.B) {
	w := newRepo(b)
	for i := range 5000 {
		w.write(fmt.Sprintf("d%d/f%d", i/50, i), strings.Repeat(fmt.Sprintf("line %d\n", i), 900))
	}
	w.commitAll("one")
	tr := w.trees()
	times := map[string][]time.Duration{}
	timed := func(what string, f func() error) {
		start := time.Now()
		if err := f(); err != nil {
			b.Fatal(err)
		}
		times[what] = append(times[what], time.Since(start))
	}
	for n := 0; b.Loop(); n++ {
		agent := fmt.Sprintf("agent%d", n)
		what := "add, reused"
		if len(tr.spares()) == 0 {
			what = "add, cold"
		}
		timed(what, func() error { _, err := tr.Add(b.Context(), AddOptions{Agent: agent}); return err })
		for i := range 10 {
			w.write(filepath.Join(tr.dir(agent), fmt.Sprintf("d%d/f%d", i, i*50)), fmt.Sprintf("%d\n", n))
		}
		timed("commit", func() error { _, err := tr.Commit(b.Context(), agent, "work"); return err })
		timed("merge and land", func() error { _, err := tr.Merge(b.Context(), agent, "merge"); return err })
		timed("remove", func() error { return tr.Remove(b.Context(), agent, false) })
		if n%4 == 3 {
			for _, admin := range tr.spares() {
				if err := tempdir.Clear(tr.spareDir(admin)); err != nil {
					b.Fatal(err)
				}
				if err := os.RemoveAll(tr.admin(admin)); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	for what, list := range times {
		slices.Sort(list)
		b.Logf("%s: median %v, n %d, max %v", what, list[len(list)/2], len(list), list[len(list)-1])
	}
}
