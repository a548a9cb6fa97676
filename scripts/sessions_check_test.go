package scripts

import (
	"path/filepath"
	"strings"
	"testing"

	"ralph/memory/retention"
	"ralph/memory/session/check"
	"ralph/memory/session/folder"
)

// TestCheckDocument: the document of each fixture fits its schema, and its exit
// code says whether there are differences.
func TestCheckDocument(t *testing.T) {
	checker := resolve(schemaOf("check"))
	fixtures, err := filepath.Abs(filepath.Join("..", "testdata", "sessions"))
	if err != nil {
		t.Fatal(err)
	}
	for name, differs := range map[string]bool{"clean": false, "foreign": false, "contradiction": true, "disorder": true, "hostile": true} {
		b := newBench(t)
		code := b.run("sessions", "check", filepath.Join(fixtures, name), "--json")
		d := decode(t, b.out.String())
		if err := checker.Validate(d); err != nil {
			t.Errorf("%s: %v\n%s", name, err, b.out.String())
		}
		if (code == 1) != differs || d["ok"] != !differs {
			t.Errorf("%s: exit code %d, ok %v", name, code, d["ok"])
		}
	}
}

// TestCheckedText: foreign text is shown and stays on its line.
func TestCheckedText(t *testing.T) {
	text := checkedText(retention.Session{ID: "007", Name: "a\x1b[31m\nb"}, check.Report{Events: 3, Omitted: 2, Notes: []string{"x\ny"},
		Differences: []folder.Difference{{Field: "status", FileA: "a.json", ValueA: "\x1b]0;t\x07\u202e", FileB: "b.json", ValueB: "two\nlines", IDs: []string{"e1", "e2"}}}})
	if strings.Count(text, "\n") != 4 || strings.ContainsAny(text, "\x1b\x07\u202e") || !strings.HasPrefix(text, "007 a") || !strings.Contains(text, "3 differences (3 events)") ||
		!strings.Contains(text, "(e1, e2)\n  and 2 more\n  note: ") {
		t.Errorf("%q", text)
	}
}
