package markdown

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// same reports how a document differs from one that is parsed from its bytes.
func same(d *Document) string {
	fresh := Parse(d.Bytes())
	if d.String() != fresh.String() || d.bytes != len(d.String()) {
		return "its bytes are not what it counts"
	}
	if diff := cmp.Diff(fresh.Tasks(), d.Tasks()); diff != "" {
		return diff
	}
	for i, n := range d.tasks {
		f := fresh.tasks[i]
		if n.i != i || d.starts[i] != fresh.starts[i] || n.size != f.size || n.fields != f.fields || n.box != f.box || n.inline != f.inline || n.mark != f.mark || n.parked != f.parked || n.lastField != f.lastField {
			return fmt.Sprintf("%s: %+v, not %+v", n.ID, n, f)
		}
		if d.find(n.ID) != d.tasks[i] && fresh.find(n.ID) == f {
			return "the index leads elsewhere: " + n.ID
		}
	}
	if d.marks != fresh.marks || d.entry != fresh.entry || d.open != fresh.open || d.open >= 0 && d.closer != fresh.closer {
		return fmt.Sprintf("marks %d entry %d open %d %q, not %d, %d, %d, %q", d.marks, d.entry, d.open, d.closer, fresh.marks, fresh.entry, fresh.open, fresh.closer)
	}
	for i := range d.lines.n {
		if d.lines.at(i).kind != fresh.lines.at(i).kind {
			return fmt.Sprintf("line %d is of kind %d, not %d", i, d.lines.at(i).kind, fresh.lines.at(i).kind)
		}
	}
	return ""
}

// TestLocalEditsAreFullEdits: after any edits a document is what a fresh parse
// of its bytes is.
func TestLocalEditsAreFullEdits(t *testing.T) {
	hard := []string{"plain", "with <!-- a comment", "--> ends", "``` fence", "~~~", "| a | status: done", "T-3: like an id", "80 %", "TODO: x", "[x] box", "**T-9** bold", "# head", "- status: done", "", "two\nlines", "ü 登录 ✅", "(deferred)", "x | priority: 9", "conflict: Ralph has status: done"}
	var pieces []string
	for _, dl := range dialects() {
		pieces = append(pieces, dl.text)
	}
	pieces = append(pieces, "<!-- a\nb -->\n", "text <!-- dangling\nmore\n", "\n\n", "## Later (deferred)\n- [ ] **T-8** x\n", "# T-5: top\n## sub\n- [ ] a\n", "- [~] **T-6** m\n", "  - [ ] **T-7** deep\n    - [ ] **T-71** deeper\n", "```\n", "## H -->\n", "- Renderer: 80 %\n  - agent: x\nTODO (bob): call\n")
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		for _, p := range rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 5).Draw(t, "pieces") {
			b.WriteString(p)
		}
		text := b.String()
		switch rapid.IntRange(0, 5).Draw(t, "form") {
		case 0:
			text = strings.ReplaceAll(text, "\n", "\r\n")
		case 1:
			text = bom + text
		case 2:
			text = strings.TrimRight(text, "\n")
		}
		d := Parse([]byte(text))
		value := func(name string) string { return rapid.SampledFrom(hard).Draw(t, name) }
		for range rapid.IntRange(1, 8).Draw(t, "edits") {
			before := d.String()
			did := ""
			switch op := rapid.IntRange(0, 9).Draw(t, "op"); {
			case op <= 4 && len(d.tasks) > 0:
				n := d.tasks[rapid.IntRange(0, len(d.tasks)-1).Draw(t, "task")]
				e := Edit{Status: rapid.SampledFrom([]Status{"", Pending, InProgress, Interrupted, Blocked, Done, Failed, Skipped}).Draw(t, "status")}
				if op > 1 {
					e.Result, e.Priority = value("result"), value("priority")
				}
				if op == 3 {
					e.Title = value("title")
				}
				if op == 4 {
					e.After = []string{"T-1", value("after")}
				}
				did = fmt.Sprintf("%s %+v", n.ID, e)
				_ = d.Edit(n.ID, e) // what matters is what it leaves behind
			case op == 5:
				did = "add"
				_, _ = d.Add(Task{Title: value("new"), Check: value("check"), Status: rapid.SampledFrom([]Status{"", Done, Blocked}).Draw(t, "status")}, "T")
			case op == 6:
				did = "item"
				_ = d.AddItem(value("item"))
			case op == 7:
				did = "prepend"
				d.PrependEntry("## " + value("head") + "\n\n" + value("body") + "\n- x: " + value("more") + "\n")
			case op == 8:
				did = "append"
				d.AppendEntry("## " + value("head") + "\n\n" + value("body") + "\n")
			default:
				_, _ = d.Task("t-1")
			}
			if diff := same(d); diff != "" {
				t.Fatalf("after %s of\n%q\n%q:\n%s", did, before, d.String(), diff)
			}
		}
	})
}

// TestItemThatIsTheFirstStory adds an item whose id makes the other headings
// sections, and no tasks.
func TestItemThatIsTheFirstStory(t *testing.T) {
	d := Parse([]byte("## GOAL 2 — a [x] DONE\n## GOAL 3 — b [ ]\n\n## To do\n\n- [ ] plain\n"))
	if err := d.AddItem("T-3: like an id"); err != nil {
		t.Fatal(err)
	}
	if diff := same(d); diff != "" {
		t.Fatal(diff)
	}
}

// TestLocalEditsOfManyTasks: the quick way is taken where it should be, and in
// a file of many leaves.
func TestLocalEditsOfManyTasks(t *testing.T) {
	d := Parse(many(2000))
	for i := range 300 {
		id := fmt.Sprintf("T-%d", i*797%2000+1)
		n := d.find(id)
		if err := d.Edit(id, Edit{Status: []Status{Failed, InProgress, Done}[i%3], Result: fmt.Sprint("r", i)}); err != nil {
			t.Fatal(err)
		}
		if d.find(id) != n {
			t.Fatalf("%s: the whole file was read again", id)
		}
		if i%10 == 0 {
			before := d.tasks[0]
			if _, err := d.Add(Task{Title: fmt.Sprint("new ", i)}, "T"); err != nil {
				t.Fatal(err)
			}
			d.PrependEntry("## 2026-01-01 — e\n\n- Status: done\n")
			d.AppendEntry("## 2026-01-01 — f\n\ntext\n")
			if d.tasks[0] != before {
				t.Fatal("the whole file was read again")
			}
		}
	}
	if diff := same(d); diff != "" {
		t.Fatal(diff)
	}
}

// TestEditsKeepNoMemory: what an edit of a task with criteria keeps does not grow with the
// file, whose every task may be edited.
func TestEditsKeepNoMemory(t *testing.T) {
	var b strings.Builder
	const n = 1000
	for i := range n {
		fmt.Fprintf(&b, "- [ ] **T-%d** a task\n  - [ ] a criterion\n  - [ ] another\n", i)
	}
	d := Parse([]byte(b.String()))
	used := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := used()
	for i := range n {
		if err := d.Edit(fmt.Sprint("T-", i), Edit{Status: Done}); err != nil {
			t.Fatal(err)
		}
	}
	if after := used(); after > before+16<<20 {
		t.Errorf("%d edits keep %d KiB", n, (after-before)>>10)
	}
	runtime.KeepAlive(d)
}
