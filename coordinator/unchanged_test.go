package coordinator_test

import (
	"strings"
	"testing"

	"ralph/coordinator"
	"ralph/coordinator/crew"
	"ralph/coordinator/loop"
	"ralph/coordinator/result"
)

// TestAChangeThatIsThereAlready is none: what two tasks do in the same way is the
// commit of the first.
func TestAChangeThatIsThereAlready(t *testing.T) {
	t.Parallel()
	p, k := planned(t, "- [ ] **T-1** Write one\n- [ ] **T-2** Write it too\n")
	k.part("write_one", put("same.txt", "same\n"), finished("wrote it"))
	k.part("write_it_too", put("same.txt", "same\n"), finished("wrote it"))
	out := p.run(coordinator.Job{Loop: &loop.Settings{Parallel: 2}})
	p.want(out, result.Completed)
	merged, unchanged := childOf(t, out, "write_one"), childOf(t, out, "write_it_too")
	if merged.Landing != crew.Merged {
		merged, unchanged = unchanged, merged
	}
	if merged.Landing != crew.Merged || unchanged.Landing != crew.Unchanged || unchanged.Commit != "" || len(unchanged.Files) > 0 || strings.Count(p.git("log", "--format=%s"), "T-") != 1 {
		t.Errorf("%+v\n%+v", merged, unchanged)
	}
}
