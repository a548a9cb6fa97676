package loop

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/spf13/afero"

	"ralph/coordinator/plan"
	"ralph/memory/feature"
)

// world is what outlives a process.
type world struct {
	plan   string
	files  afero.Fs
	saves  []feature.Snapshot
	merged map[string]int
	agents map[string]string
}

func (r *rig) world() world {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := world{plan: r.read(), files: afero.NewMemMapFs(), saves: slices.Clone(r.saves), merged: maps.Clone(r.merged), agents: maps.Clone(r.agents)}
	err := afero.Walk(r.files, "/", func(path string, info fs.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		data, err := afero.ReadFile(r.files, path)
		if err == nil {
			err = afero.WriteFile(w.files, path, data, info.Mode())
		}
		if err == nil {
			err = w.files.Chtimes(path, info.ModTime(), info.ModTime())
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return w
}

func (r *rig) restore(w world) {
	r.write(w.plan)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.files, r.saves, r.merged, r.agents = w.files, w.saves, w.merged, w.agents
}

// scripted is a run with everything in it: dependencies, a check that fails once, a
// task that fails for good, one that is left out, a broken connection.
func scripted(t *testing.T) *rig {
	r := newRig(t, st("A"), st("B", "A"), st("C", "A"), st("D", "B", "C"), st("E"), st("F", "E"), st("G"), st("H", "D"))
	r.acts["B"] = []act{badCheck, well}
	r.acts["E"] = []act{badCheck}
	r.acts["G"] = []act{broke("network", "connection refused"), well}
	r.o.Settings.Parallel = 2
	return r
}

// killedAt runs the script, and kills the process at the n-th place; killed is
// false when there are not that many.
func killedAt(t *testing.T, n int) (r *rig, where string, killed bool) {
	r = scripted(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var kept world
	count := 0
	r.at = func(place string) {
		r.mu.Lock()
		count++
		hit := count == n
		r.mu.Unlock()
		if hit {
			where, killed = place, true
			kept = r.world()
			cancel()
		}
	}
	r.make().Run(ctx)
	if err := r.folder.Close(); err != nil {
		t.Error(err)
	}
	r.at = nil
	if killed {
		r.restore(kept)
	}
	return r, where, killed
}

// TestKilledAnywhere kills a run at every place where something has just become
// durable or is about to, and resumes it: the end is the same each time, and no
// iteration counts twice.
func TestKilledAnywhere(t *testing.T) {
	ends := map[string]plan.Status{"A": plan.Done, "B": plan.Done, "C": plan.Done, "D": plan.Done, "E": plan.Failed, "F": plan.Skipped, "G": plan.Done, "H": plan.Done}
	places, step := 0, 17 // a sweep tries all of them
	if os.Getenv("RALPH_TEST_SWEEP") != "" {
		step = 1
	}
	for n := 1; ; n += step {
		more := true
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r, where, killed := killedAt(t, n)
				if more = killed; !killed {
					return
				}
				places++
				var out Outcome
				if len(r.saves) == 0 {
					out = r.run()
				} else {
					out = r.resume()
				}
				at := "killed " + where
				want(t, at+": status", out.Status, feature.Failed)
				// A 1, B 2, C 1, D 1, E 4, G 2, H 1
				want(t, at+": iterations", out.Iterations, 12)
				got := map[string]plan.Status{}
				for status, ids := range map[plan.Status][]string{plan.Done: out.Done, plan.Failed: out.Failed, plan.Skipped: out.Skipped, plan.Pending: out.Open} {
					for _, id := range ids {
						got[id] = status
					}
				}
				if !maps.Equal(got, ends) {
					t.Errorf("%s: ended as %v, want %v", at, got, ends)
				}
				for id, n := range r.merged {
					if n != 1 {
						t.Errorf("%s: %s was merged %d times", at, id, n)
					}
				}
				seen := map[int]bool{}
				for _, it := range r.last().Iterations {
					if seen[it.Iteration] {
						t.Errorf("%s: iteration %d is there twice", at, it.Iteration)
					}
					seen[it.Iteration] = true
				}
				want(t, at+": iterations in the snapshot", len(seen), 12)
			})
		})
		if !more {
			break
		}
	}
	if places*step < 60 {
		t.Errorf("only %d places were tried", places)
	}
}
