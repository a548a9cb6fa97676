package memory

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What other tools leave in the place of the inventory: lists, entries without an
// id, entries that are none, and what is no JSON at all.
func TestFeaturesOfOthers(t *testing.T) {
	for name, c := range map[string]struct {
		before, id string
		total      int
		aside      bool
		keeps      string
	}{
		"a bare list":        {`[{"name":"Upload","z":1e400},"odd",7]`, "F001", 1, false, `1e400`},
		"a BOM":              {"\ufeff" + `{"features":[{"feature_id":"F003","name":" upload "}],"k":true}`, "F003", 1, false, `"k": true`},
		"another's numbers":  {`{"features":[{"feature_id":"X-9","name":"Other"},{"feature_id":"F012","name":"More"}]}`, "F013", 3, false, "X-9"},
		"a map for a list":   {`{"features":{"upload":{}}}`, "F001", 1, true, ""},
		"no JSON":            {`{"features":[`, "F001", 1, true, ""},
		"null":               {`null`, "F001", 1, true, ""},
		"an empty file":      {``, "F001", 1, true, ""},
		"counts of another":  {`[{"feature_id":"F001","name":"upload","challenges_generated":4}]`, "F001", 1, false, ""},
		"a list of nothing":  {`[]`, "F001", 1, false, ""},
		"features that null": {`{"features":null}`, "F001", 1, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			s, _ := open(t, Options{Root: root})
			path := filepath.Join(root, ".ralph", "feature-inventory.json")
			must(t, os.WriteFile(path, []byte(c.before), 0o600))
			for range 2 { // the second changes nothing but the time
				id, err := s.RecordFeature("", "001", Feature{Name: "Upload", Challenges: []string{"large files", "large files "}, Assumptions: []string{"a disk"}})
				must(t, err)
				if id != c.id {
					t.Errorf("it is %q", id)
				}
			}
			var got struct {
				Features   []json.RawMessage
				Statistics struct {
					Total int `json:"total_features"`
				}
			}
			after := read(t, root, ".ralph", "feature-inventory.json")
			must(t, json.Unmarshal([]byte(after), &got))
			want := []string{`"assumptions_count": 1`, `"challenges_generated": true`, c.keeps} // also where there was a count
			for _, w := range want {
				if !strings.Contains(after, w) {
					t.Errorf("%q is not in\n%s", w, after)
				}
			}
			aside, err := filepath.Glob(filepath.Join(root, ".ralph", "quarantine", "*"))
			if err != nil || (len(aside) > 0) != c.aside || got.Statistics.Total != c.total {
				t.Errorf("set aside %v, %d in all: %v\n%s", aside, got.Statistics.Total, err, after)
			}
		})
	}
}
