package markdown

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMergeCases are merges whose outcome is given byte for byte.
func TestMergeCases(t *testing.T) {
	const one = "- [ ] **T-1** First\n  - status: pending\n"
	const two = one + "- [ ] **T-2** Second\n  - status: pending\n"
	for _, tc := range []struct {
		name, base, user, ralph, want string
		conflicts                     []Conflict
	}{
		{"title and status on one line", one, strings.Replace(one, "First", "The first", 1), "- [x] **T-1** First\n  - status: done\n",
			"- [x] **T-1** The first\n  - status: done\n", nil},
		{"ticked by hand, done by Ralph", one, strings.Replace(one, "[ ]", "[x]", 1), "- [x] **T-1** First\n  - status: done\n  - result: ok\n",
			"- [x] **T-1** First\n  - status: done\n  - result: ok\n", nil},
		{"two words for it", one, "- [x] **T-1** First\n  - status: done\n", "- [ ] **T-1** First\n  - status: failed\n",
			"- [x] **T-1** First\n  - status: done\n  - conflict: Ralph has status: failed\n",
			[]Conflict{{"T-1", "status", "pending", "done", "failed"}}},
		{"a later conflict takes the line of the one before", one, "- [x] **T-1** First\n  - status: done\n  - conflict: Ralph has status: failed\n", "- [ ] **T-1** First\n  - status: blocked\n",
			"- [x] **T-1** First\n  - status: done\n  - conflict: Ralph has status: blocked\n",
			[]Conflict{{"T-1", "status", "pending", "done", "blocked"}}},
		{"deleted while at work", two, one, strings.Replace(two, "- [ ] **T-2** Second\n  - status: pending", "- [x] **T-2** Second\n  - status: done", 1),
			one, []Conflict{{"T-2", "task", "Second", "", "status: done"}}},
		{"reopened by unticking while Ralph notes a result", "- [x] **T-1** First\n  - status: done\n", "- [ ] **T-1** First\n  - status: done\n", "- [x] **T-1** First\n  - status: done\n  - result: ok\n",
			"- [ ] **T-1** First\n  - status: done\n  - result: ok\n", nil},
		{"both give the next id", one, one + "- [ ] **T-2** Mine\n", one + "- [ ] **T-2** Yours\n  - status: pending\n- [ ] **T-3** More\n  - after: T-2\n",
			one + "- [ ] **T-4** Yours\n  - status: pending\n- [ ] **T-3** More\n  - after: T-4\n- [ ] **T-2** Mine\n",
			[]Conflict{{"T-2", "id", "", "Mine", "T-4"}}},
		{"the user moved it below another heading", "## A\n" + two + "\n## B\n", "## A\n" + one + "\n## B\n- [ ] **T-2** Second\n  - status: pending\n", "## A\n" + strings.Replace(two, "Second\n  - status: pending", "Second\n  - status: blocked", 1) + "\n## B\n",
			"## A\n" + one + "\n## B\n- [ ] **T-2** Second\n  - status: blocked\n", nil},
		{"other line ends and a new entry", "# P\n\n## O\ny\n", "# P\r\n\r\n## O\r\ny, really\r\n", "# P\n\n## N\nx\n\n## O\ny\n",
			"# P\r\n\r\n## N\r\nx\r\n\r\n## O\r\ny, really\r\n", nil},
		{"a learning behind the user's own words", "# Agent\n\n## A\nold\n", "# Agent\n\n## A\nold\nand mine\n", "# Agent\n\n## A\nold\n\n## B\nnew\n",
			"# Agent\n\n## A\nold\nand mine\n\n## B\nnew\n", nil},
		{"emptied", one, "", strings.Replace(one, "pending", "blocked", 1), "", []Conflict{{"T-1", "task", "First", "", "- [ ] **T-1** First\n  - status: blocked"}}},
		{"text that both rewrote", "# P\n\nfocus: a\n\nend\n", "# P\n\nfocus: mine\n\nend\n", "# P\n\nfocus: b\n\nend\n",
			"# P\n\nfocus: mine\n\n- conflict: Ralph has text: focus: b\n\nend\n", []Conflict{{"", "text", "focus: a", "focus: mine", "focus: b"}}},
		{"a file that appeared", "", "my own words\n", "- [ ] **T-1** First\n", "my own words\n\n- [ ] **T-1** First\n", nil},
		{"a percentage", "- Sound: 40 %\n", "* Sound: 40 %\n", "- Sound: 100 %\n", "* Sound: 100 %\n", nil},
		{"a step ticked", "- [ ] **T-1** a\n  - [ ] one\n  - [ ] two\n", "- [ ] **T-1** b\n\t- [ ] one\n\t- [ ] two\n", "- [ ] **T-1** a\n  - [x] one\n  - [ ] two\n", "- [ ] **T-1** b\n\t- [x] one\n\t- [ ] two\n", nil},
		{"a value that looks like a field", one, one + "  - result: mine\n", one + "  - result: bad | priority: 9\n",
			one + "  - result: mine\n  - conflict: Ralph has result: bad | priority: 9\n", []Conflict{{"T-1", "result", "", "mine", "bad | priority: 9"}}},
		{"an open fence", one, one + "```\nopen\n", two, two + "\n```\nopen\n", nil},
	} {
		got := Merge([]byte(tc.base), []byte(tc.user), []byte(tc.ralph))
		if string(got.Data) != tc.want {
			t.Errorf("%s:\n%s", tc.name, cmp.Diff(tc.want, string(got.Data)))
		}
		if diff := cmp.Diff(tc.conflicts, got.Conflicts); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
		for _, task := range Parse(got.Data).Tasks() {
			if task.Priority != "" {
				t.Errorf("%s: what is kept of a conflict is read as a field: %+v", tc.name, task)
			}
		}
	}
}

func TestCompare(t *testing.T) {
	old := "## A\n- [x] **T-1** One\n  - status: done\n- [ ] **T-2** Two\n  - status: in_progress\n- [ ] **T-3** Three\n- [ ] **T-4** Four\n- [ ] send the mail today\n"
	now := "## A\n* [ ] **T-1** One\n  * status: done\n* [ ] **T-4** Four\n  - agent: x\n* [ ] **T-3** Three, again\n* [ ] send the long mail today\n* [ ] **T-5** Five\n"
	got := Compare(Parse([]byte(old)), Parse([]byte(now)))
	want := []Change{
		{"T-1", "One", Changed, Done, Pending, []string{"status"}}, // unticked: open again
		{"T-4", "Four", Changed, Pending, Pending, []string{"agent"}},
		{"T-3", "Three, again", Changed, Pending, Pending, []string{"title", "place"}},
		{"~send-the-long-mail-today", "send the long mail today", Changed, Pending, Pending, []string{"title"}},
		{"T-5", "Five", Added, "", Pending, nil},
		{"T-2", "Two", Deleted, InProgress, "", nil},
	}
	// Which of two tasks that changed places moved, nobody can tell.
	for i, c := range got {
		if c.ID == "T-4" && len(c.Fields) == 2 {
			got[i].Fields, want[2].Fields = c.Fields[:1], []string{"title"}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	d := Parse([]byte("## A\n- [ ] a\n\n## B\n- [ ] b\n- [ ] c\n- [ ] d\n"))
	moved := Parse([]byte("## A\n\n## B\n- [ ] b\n- [ ] c\n- [ ] d\n- [ ] a\n"))
	if diff := cmp.Diff([]Change{{"~a", "a", Moved, Pending, Pending, []string{"place"}}}, Compare(d, moved)); diff != "" {
		t.Error(diff)
	}
	if c := Compare(d, d); c != nil {
		t.Errorf("%+v", c)
	}
}
