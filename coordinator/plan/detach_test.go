package plan

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestMemoryOfARun keeps of each of 500 versions of a plan what a run does, and not
// the text that it was read from.
func TestMemoryOfARun(t *testing.T) {
	const n = 500
	root := t.TempDir()
	stories := make([]map[string]any, n)
	for i := range stories {
		stories[i] = map[string]any{"id": fmt.Sprint("US-", i), "title": fmt.Sprint("Add part ", i), "description": strings.Repeat("x ", 500), "acceptanceCriteria": []string{"it works"}, "priority": 1, "passes": false}
	}
	write := func() int {
		data, err := json.Marshal(map[string]any{"project": "p", "branchName": "b", "description": "d", "userStories": stories})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "prd.json"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		return len(data)
	}
	size := write()
	tr, err := Open(t.Context(), Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	type memory struct{ id, title, phase string }
	var kept []memory
	inUse := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := 0
	for i := range n {
		stories[i]["passes"] = true
		write()
		p, err := tr.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, memory{p.Tasks[i].ID, p.Tasks[i].Title, p.Tasks[i].Phase})
		if i == 9 {
			before = inUse()
		}
	}
	grown := inUse() - before
	runtime.KeepAlive(kept)
	if grown > 4*size {
		t.Errorf("%d tasks of a plan of %d KiB hold %d MiB", len(kept), size>>10, grown>>20)
	}
}
