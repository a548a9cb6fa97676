package markdown

import (
	"bytes"
	"strings"
	"testing"
)

// FuzzMerge: no bytes make a merge fail; what one side alone did is taken as
// it is; the user's lines are all there where Ralph touched no task; a second
// merge changes nothing.
func FuzzMerge(f *testing.F) {
	all := dialects()
	for i, dl := range all {
		f.Add(dl.text, strings.ReplaceAll(dl.text, "\n", "\r\n"), dl.text+"## 2026-01-01 — e\n\ntext\n")
		f.Add(dl.text, all[(i+1)%len(all)].text, strings.Replace(dl.text, "[ ]", "[x]", 1))
	}
	f.Add("- [ ] **T-1** a\n", "\xff\x00", "- [x] **T-1** a\n")
	f.Add("", "mine", "- [ ] **T-1** a\n")
	f.Add("- [ ] a\n```\n", "- [ ] b\n<!--", "- [x] a\n- [ ] c\n```\n")
	f.Fuzz(func(t *testing.T, base, user, ralph string) {
		b, u, r := []byte(base), []byte(user), []byte(ralph)
		if got := Merge(b, b, r); !bytes.Equal(got.Data, r) || got.Conflicts != nil {
			t.Fatalf("only Ralph changed it: %q", got.Data)
		}
		if got := Merge(b, u, b); !bytes.Equal(got.Data, u) || got.Conflicts != nil {
			t.Fatalf("only the user changed it: %q", got.Data)
		}
		if got := Merge(b, u, u); !bytes.Equal(got.Data, u) || got.Conflicts != nil {
			t.Fatalf("both made the same: %q", got.Data)
		}
		Merge(b, u, r)
		Compare(Parse(b), Parse(u))
		// Ralph as it is: one entry, one task, one status.
		d := Parse(b)
		d.AppendEntry("## 2026-01-01 10:00 UTC — e\n\n- Status: done\n")
		if _, err := d.Add(Task{Title: "a new one"}, "T"); err != nil {
			t.Fatal(err)
		}
		if len(d.tasks) > 1 {
			if err := d.Edit(d.tasks[0].ID, Edit{Status: Failed, Result: "no"}); err != nil {
				t.Fatal(err)
			}
		}
		got := Merge(b, u, d.Bytes())
		again := Merge(b, got.Data, d.Bytes())
		third := Merge(b, again.Data, d.Bytes())
		if !bytes.Equal(third.Data, again.Data) {
			t.Fatalf("it does not come to rest:\n%q\n%q\n%q", got.Data, again.Data, third.Data)
		}
	})
}
