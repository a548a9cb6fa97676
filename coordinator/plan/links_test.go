package plan

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestChangedLinks: a plan is checked again when it is read again, whatever of its
// ids and dependencies has changed since, and what has not changed is found as
// before.
func TestChangedLinks(t *testing.T) {
	story := func(id, after, epic string) string {
		if after != "" {
			after = `"` + after + `"`
		}
		return `{"id":"` + id + `","title":"t","description":"d","acceptanceCriteria":["a"],"priority":1,"dependsOn":[` + after + `],"epic":"` + epic + `","passes":false,"notes":""}`
	}
	root := t.TempDir()
	put := func(stories ...string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, "prd.json"), []byte(`{"project":"p","userStories":[`+strings.Join(stories, ",")+`]}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(story("A", "", ""), story("B", "A", ""))
	tr, err := Open(t.Context(), Options{Root: root, Tracker: "json"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		stories []string
		fault   string
	}{
		{"as it was", []string{story("A", "", ""), story("B", "A", "")}, ""},
		{"a circle", []string{story("A", "B", ""), story("B", "A", "")}, "circle"},
		{"sound again", []string{story("A", "", ""), story("B", "A", "")}, ""},
		{"an unknown one", []string{story("A", "", ""), story("B", "C", "")}, "does not exist"},
		{"an id twice", []string{story("A", "", ""), story("a", "A", "")}, "case only"},
		{"another order", []string{story("B", "A", ""), story("A", "", "")}, ""},
		{"one more", []string{story("B", "A", ""), story("A", "", ""), story("E", "B", "")}, ""},
		{"a circle through an epic", []string{story("B", "A", ""), story("A", "", "E"), story("E", "B", "")}, "circle"},
	} {
		put(c.stories...)
		p, err := tr.Load(t.Context())
		switch {
		case c.fault != "":
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %v, want %q", c.name, err, c.fault)
			}
		case err != nil:
			t.Errorf("%s: %v", c.name, err)
		default:
			if b, ok := p.Find("B"); !ok || b.ID != "B" || len(b.After) != 1 {
				t.Errorf("%s: found %+v, %v", c.name, b, ok)
			}
		}
	}
}
