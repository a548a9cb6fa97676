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

// TestMemoryOfABeadsRun is the same of a database of bd: of the exports of 300 issues a
// run keeps what it remembers of its tasks.
func TestMemoryOfABeadsRun(t *testing.T) {
	const n = 300
	runs := 40
	if testing.Short() {
		runs = 24
	}
	b := newBeadsProject(t)
	b.standIn("1.0.5", "")
	size := 0
	export := func(closed int) {
		var text strings.Builder
		for i := range n {
			status := "open"
			if i < closed {
				status = "closed"
			}
			fmt.Fprintf(&text, `{"id":"demo-%d","title":"Add part %d","description":%q,"status":%q,"priority":1,"issue_type":"task","created_at":"2026-11-22T10:00:00Z","updated_at":"2026-11-22T10:00:00Z"}`+"\n",
				i, i, strings.Repeat("x ", 500), status)
		}
		size = text.Len()
		b.put(filepath.Join(b.root, "..", "issues"), text.String(), 0o644)
		b.put(filepath.Join(b.root, ".beads", "touched"), fmt.Sprint(closed), 0o644)
	}
	export(0)
	tr := b.open("beads")
	type memory struct{ id, title, phase string }
	var kept []memory
	before := 0
	for i := range runs {
		export(i + 1)
		stamp, err := tr.Stamp(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		p, err := tr.Load(t.Context())
		if err != nil || p.Stamp != stamp || p.Tasks[i].Status != Done {
			t.Fatalf("export %d: %v, %+v", i, err, p)
		}
		kept = append(kept, memory{p.Tasks[i].ID, p.Tasks[i].Title, p.Tasks[i].Phase})
		if i == 9 {
			before = inUse()
		}
	}
	grown := inUse() - before
	runtime.KeepAlive(kept)
	if grown > 4*size {
		t.Errorf("%d exports of %d KiB hold %d MiB", len(kept), size>>10, grown>>20)
	}
}

// inUse returns how many bytes of the heap are in use.
func inUse() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
