package markdown

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestAddItemIsWork: a plain item is a task of its own, open, wherever the file
// ends; adding it again changes nothing.
func TestAddItemIsWork(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"## TASK-1: a\n- Status: done\n", "## TASK-1: a\n- Status: done\n\n## To do\n\n- [ ] mail them\n"},
		{"## P\n### TASK-1: a\ntext\n", "## P\n### TASK-1: a\ntext\n\n### To do\n\n- [ ] mail them\n"},
		{"## Later (deferred)\n#### T-1 x\n- [ ] one\n", "## Later (deferred)\n#### T-1 x\n- [ ] one\n\n## To do\n\n- [ ] mail them\n"},
		{"## Deferred\n- [ ] one\n", "## Deferred\n- [ ] one\n\n## To do\n\n- [ ] mail them\n"},
		{"## Now\n- [ ] one\n\n## Deferred\n- [ ] two\n", "## Now\n- [ ] one\n- [ ] mail them\n\n## Deferred\n- [ ] two\n"},
		{"## TASK-1: a\r\ntext", "## TASK-1: a\r\ntext\r\n\r\n## To do\r\n\r\n- [ ] mail them"},
	} {
		d := Parse([]byte(tc.text))
		for range 2 {
			must(d.AddItem("mail them"))
			if diff := cmp.Diff(tc.want, d.String()); diff != "" {
				t.Errorf("%q: %s", tc.text, diff)
			}
			if task, ok := d.Task("~mail-them"); !ok || task.Status != Pending {
				t.Errorf("%q: %+v, %v", tc.text, task, ok)
			}
		}
	}
}

// TestCommentsTakeLinearTime: comments that may end anywhere are looked for
// once. A square of their number would take minutes.
func TestCommentsTakeLinearTime(t *testing.T) {
	for name, text := range map[string]string{
		"lines": strings.Repeat("a <!-- b\n", 100_000),
		"line":  strings.Repeat("x`<!-- b --> ", 100_000),
	} {
		begun := time.Now()
		if d := Parse([]byte(text)); d.bytes != len(text) || time.Since(begun) > 10*time.Second {
			t.Errorf("%s: %v", name, time.Since(begun))
		}
	}
}

// TestMergeWords: the user's words for a status are not written over, also when
// they mean the same as before; spelling alone is nothing to quarrel about.
func TestMergeWords(t *testing.T) {
	for _, tc := range []struct{ base, user, ralph, want string }{
		{"- [ ] **T-1** a\n  - status: in_progress\n", "- [ ] **T-1** a\n  - status: in progress, Bob is on it\n", "- [x] **T-1** a\n  - status: done\n",
			"- [ ] **T-1** a\n  - status: in progress, Bob is on it\n  - conflict: Ralph has status: done\n"},
		{"- [ ] **T-1** a\n  - status: in_progress\n", "- [ ] **T-1** a\n  - status: 进行中\n", "- [x] **T-1** a\n  - status: done\n",
			"- [ ] **T-1** a\n  - status: 进行中\n  - conflict: Ralph has status: done\n"},
		{"- [ ] **T-1** a\n  - status: in_progress\n", "- [ ] **T-1** a\n  - Status: **In Progress**\n", "- [x] **T-1** a\n  - status: done\n",
			"- [x] **T-1** a\n  - Status: Done\n"},
		{"- Renderer: 80 %\n", "- Renderer: 90 %\n", "- Renderer: 100 %\n", "- Renderer: 90 %\n  - conflict: Ralph has status: done\n"},
		{"| M1 | A | ⏳ | x |\n", "| M1 | A | ⏳ Anna | x |\n", "| M1 | A | ✅ | x |\n", "| M1 | A | ⏳ Anna | x |\n"},
		// An entry below a heading task of level 1 that the user made one of level 2.
		{"# TASK-1: a\n- Priority: 1\n", "## TASK-1: a\n- Priority: 2\n", "# TASK-1: a\n- Priority: 1\n\n## entry\n\n- x\n", "## TASK-1: a\n- Priority: 2\n- conflict: Ralph has text: - x\n- conflict: Ralph has text: ## entry\n"},
		// Titles that changed places: what belongs to the id stays with it.
		{"- [ ] **T-1** alpha\n  - check: a\n- [ ] **T-2** beta\n  - check: b\n", "- [ ] **T-1** beta\n  - check: a\n- [ ] **T-2** alpha\n  - check: b\n", "- [x] **T-1** alpha\n  - check: a\n- [ ] **T-2** beta\n  - check: b\n",
			"- [x] **T-1** beta\n  - check: a\n- [ ] **T-2** alpha\n  - check: b\n"},
		// Ids that changed places: what belongs to the title stays with it.
		{"- [ ] **T-1** alpha\n  - check: a\n- [ ] **T-2** beta\n  - check: b\n", "- [ ] **T-2** alpha\n  - check: a\n- [ ] **T-1** beta\n  - check: b\n", "- [x] **T-1** alpha\n  - check: a\n- [ ] **T-2** beta\n  - check: b\n",
			"- [x] **T-2** alpha\n  - check: a\n- [ ] **T-1** beta\n  - check: b\n"},
	} {
		got := Merge([]byte(tc.base), []byte(tc.user), []byte(tc.ralph))
		if diff := cmp.Diff(tc.want, string(got.Data)); diff != "" {
			t.Errorf("%q: %s", tc.user, diff)
		}
		if want := max(strings.Count(tc.want, "conflict:"), strings.Count(tc.user, "Anna")); want != len(got.Conflicts) {
			t.Errorf("%q: %+v", tc.user, got.Conflicts)
		}
	}
}
