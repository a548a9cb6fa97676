package markdown

import (
	"reflect"
	"strings"
	"testing"
)

// TestDetails: what a task says beside its fields, and that an edit elsewhere
// or in it leaves that as it is.
func TestDetails(t *testing.T) {
	text := "# Tasks\n" +
		"- [ ] **T-1** one\n  - status: pending\n  - epic: EPIC-1 (auth)\n  - Labels: `backend`, ui\n  - type: Bug\n\n  It fails.\n\n  ```\n  - [ ] no task\n  ```\n  - [ ] a step\n    with more\n  - conflict: Ralph has status: done\n  - a remark\n" +
		"- [ ] **T-2** two\n" +
		"## TASK 3: three\n- **Type:** Story\n### Problem\nNobody knows.\n### Acceptance Criteria\n- [ ] a\n- [x] b\n\n**Priority:** P1 | **Depends On:** T-1\n### Notes\n"
	want := []Task{
		{ID: "T-1", Description: "It fails.\n\n```\n- [ ] no task\n```\n- a remark", Kind: "bug", Epic: "EPIC-1", Labels: []string{"backend", "ui"}, Steps: []Step{{Text: "a step"}}},
		{ID: "T-2"},
		{ID: "TASK 3", Description: "- **Type:** Story\n### Problem\nNobody knows.", Priority: "P1", After: []string{"T-1"}, Steps: []Step{{Text: "a"}, {Text: "b", Done: true}}},
	}
	for _, eol := range []string{"\n", "\r\n"} {
		d := Parse([]byte(strings.ReplaceAll(text, "\n", eol)))
		check := func() {
			t.Helper()
			got := d.Tasks()
			if len(got) != len(want) {
				t.Fatalf("%d tasks", len(got))
			}
			for i, g := range got {
				w := want[i]
				if g.ID != w.ID || g.Description != w.Description || g.Kind != w.Kind || g.Epic != w.Epic || g.Priority != w.Priority ||
					!reflect.DeepEqual(g.Labels, w.Labels) || !reflect.DeepEqual(g.After, w.After) || !reflect.DeepEqual(g.Steps, w.Steps) {
					t.Errorf("%q:\n got %+v\nwant %+v", eol, g, w)
				}
			}
		}
		check()
		for _, e := range []Edit{{Status: InProgress}, {Agent: "x", Result: "fine"}, {Status: Done}} {
			for _, id := range []string{"T-1", "T-2", "TASK 3"} {
				if err := d.Edit(id, e); err != nil {
					t.Fatal(err)
				}
				check()
			}
		}
		d = Parse(d.Bytes())
		check()
	}
}
