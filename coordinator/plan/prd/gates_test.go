package prd_test

import (
	"strings"
	"testing"

	"ralph/coordinator/plan/prd"
	"ralph/memory/markdown"
)

// TestGatesAreChecks: where a form of a plan has no place for quality gates, they
// are in the check of every story, once, after its own.
func TestGatesAreChecks(t *testing.T) {
	doc := parse(t, "# P", "", "## Quality Gates", "- `make test || make again`", "- `go vet ./...`", "",
		"### US-001: One", "- [ ] x", "", "### US-002: Two", "Check: `go vet ./...`", "", "### US-003: Three", "Check: `a; b`")
	want := map[string]string{
		"US-001": "(make test || make again) && go vet ./...",
		"US-002": "go vet ./... && (make test || make again)",
		"US-003": "(a; b) && (make test || make again) && go vet ./...",
	}
	text, err := doc.Tasks()
	if err != nil {
		t.Fatal(err)
	}
	merged, _, err := doc.MergeTasks(text)
	if err != nil || string(merged) != string(text) {
		t.Errorf("merged with itself: %v\n%s", err, merged)
	}
	for _, k := range markdown.Parse(text).Tasks() {
		if k.Check != want[k.ID] {
			t.Errorf("%s: check %q, want %q", k.ID, k.Check, want[k.ID])
		}
	}
	for _, i := range doc.Issues() {
		if !strings.Contains(i.Notes, "Check: "+want[i.Ref]) {
			t.Errorf("%s: notes %q, want the check %q", i.Ref, i.Notes, want[i.Ref])
		}
	}
	if again, _ := prd.Parse([]byte("# P\n\n### US-001: One\n- [ ] x\n")); again.Issues()[0].Notes != "" {
		t.Error("a check without a gate")
	}
}
