package prd_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"ralph/coordinator/plan/prd"
	"ralph/memory/markdown"
)

// TestStoriesAsTheyAreFound: the forms in which projects write stories down; of each
// story its id, title, state, priority, what it depends on, epic and criteria.
func TestStoriesAsTheyAreFound(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"priorities keep their order", "## US-1: a\nPriority: 7\n## US-2: b\n**Priority:** P12\n## US-3: c\nPriority: 4 (low)\n", "US-1|a|7;US-2|b|12;US-3|c|4"},
		{"requirements", "## FR-1: fast\n- [ ] r\n## US-1: a\n- [ ] c\n### NFR-2: small\n- [ ] d\n## UTF-8: text\n", "US-1|a|2|c,d"},
		{"requirements alone", "## FR-1: fast\n- [ ] r\n", "FR-1|fast|2|r"},
		{"two in one word", "## US-1: a\n## T-2: b\n## BUG-3: c\nDepends on: US-1/T-2\n", "US-1|a|2;T-2|b|2;BUG-3|c|2|>US-1 T-2"},
		{"full-width colon", "## US-1：登录\n**优先级**：P1\n**验收标准**：\n- [x] 可以登录\n- [ ] 退出\n## US-2：b\n依赖：US-1、US-3\n## US-3: c\n", "US-1|登录|1|可以登录,退出;US-2|b|2|>US-1 US-3;US-3|c|2"},
		{"signs", "### ✅ US-1: a\n### 🔄 US-2: b\n### ☑️ **US-3**: c\n### US-4: d ✅\n", "US-1|a|2|done;US-2|b|2;US-3|c|2|done;US-4|d|2|done"},
		{"numbered", "## 1. US-1: a\n## 2.1 US-2 - b\n## 3) **US-3**: c\n## 4. Background\n", "US-1|a|2;US-2|b|2;US-3|c|2"},
		{"underlined", "Plan\n====\n\nUS-1: a\n-------\n- [ ] c\n\nRisks\n---\n- [ ] r\n", "US-1|a|2|c"},
		{"a rule is no underline", "## US-1: a\n**Priority:** P1\n---\n- [ ] c\n", "US-1|a|1|c"},
		{"items", "## Stories\n- US-1: a\n  - [ ] c\n  - Priority: 9\n* **US-2**: b\n  Depends on: US-1\n1. [x] US-3: c\n\nUS-1 is first.\n- US-2: again\n", "US-1|a|9|c;US-2|b|2|>US-1;US-3|c|2|done"},
		{"items below an epic", "## EPIC-1: all\ntext\n- US-1: a\n- US-2: b\n## Later\n- US-1: again\n", "US-1|a|2|^EPIC-1;US-2|b|2|^EPIC-1"},
		{"what a line says of its state", "### US-1: a\n- **Status:** [x] DONE\n### US-2: b\n状态：✅ 已完成\n### US-3: c\nStatus: in progress\n", "US-1|a|2|done;US-2|b|2|done;US-3|c|2"},
		{"after, in a line", "- [ ] **T-1** one\n- [~] **T-2** two (after T-1)\n- [!] **T-3** three (after lunch)\n## US-4: four (after: T-1, T-2)\n## US-5: five\n- Blocked-By: T-1\n", "T-1|one|2;T-2|two|2|>T-1;T-3|three (after lunch)|2;US-4|four|2|>T-1 T-2;US-5|five|2|>T-1"},
		{"items below a story are its own", "## US-1: a\n- [ ] T-1: do\n- [ ] AC-1: see\n", "US-1|a|2|T-1: do,AC-1: see"},
	} {
		doc := parse(t, tc.text)
		var got []string
		for _, s := range doc.Stories {
			text := fmt.Sprintf("%s|%s|%d", s.ID, s.Title, s.Priority)
			var criteria []string
			for _, c := range s.Criteria {
				criteria = append(criteria, c.Text)
			}
			if s.Done {
				text += "|done"
			}
			if s.Epic != "" {
				text += "|^" + s.Epic
			}
			if len(s.After) > 0 {
				text += "|>" + strings.Join(s.After, " ")
			}
			if criteria != nil {
				text += "|" + strings.Join(criteria, ",")
			}
			got = append(got, text)
		}
		if diff := cmp.Diff(tc.want, strings.Join(got, ";")); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}

// TestPrioritiesOfIssues: bd takes five priorities; those that go further keep their order.
func TestPrioritiesOfIssues(t *testing.T) {
	for in, want := range map[string]string{"0 4 2": "0 4 2", "1 5 9": "0 1 2", "1 2 3 4 5 6 7 8 9 10": "0 0 1 1 2 2 3 3 4 4"} {
		var text, got []string
		for i, p := range strings.Fields(in) {
			text = append(text, fmt.Sprintf("## US-%d: a\nPriority: %s", i, p))
		}
		for _, i := range parse(t, text...).Issues() {
			got = append(got, fmt.Sprint(i.Priority))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %s", in, got)
		}
	}
}

// TestEveryStoryIsTakenOrNamed: whatever a document looks like, each story in it is in the
// plan, as a story or an epic, or a line in a warning; and the plan in Markdown that is
// made of it has the same stories, with their criteria as they are.
func TestEveryStoryIsTakenOrNamed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		var ids []string
		for i := range rapid.IntRange(1, 8).Draw(t, "n") {
			id := fmt.Sprintf("%s-%d", rapid.SampledFrom([]string{"US", "EPIC", "T", "BUG", "FR", "NOTE", "story"}).Draw(t, "prefix"), i)
			ids = append(ids, id)
			sign := rapid.SampledFrom([]string{"", "✅ ", "1. ", "[x] ", "2.1 "}).Draw(t, "sign")
			colon := rapid.SampledFrom([]string{": ", "：", " - ", " — "}).Draw(t, "colon")
			switch rapid.SampledFrom([]string{"##", "###", "####", "-", "- [ ]", "1.", "underlined"}).Draw(t, "form") {
			case "underlined":
				fmt.Fprintf(&b, "\n%s%stitle %d\n-----\n", id, colon, i)
			case "-":
				fmt.Fprintf(&b, "- **%s**%stitle %d\n", id, colon, i)
			case "- [ ]":
				fmt.Fprintf(&b, "- [ ] %s%stitle %d\n", id, colon, i)
			case "1.":
				fmt.Fprintf(&b, "1. %s%stitle %d\n", id, colon, i)
			default:
				fmt.Fprintf(&b, "%s %s%s%stitle %d\n", rapid.SampledFrom([]string{"##", "###", "####"}).Draw(t, "level"), sign, id, colon, i)
			}
			b.WriteString(rapid.SampledFrom([]string{"", "\ntext\n\n", "  - [ ] AC-1: `x`\n", "- [ ] `go test` passes\n", "Priority: 5\n", "- a\n\n", "\n---\n\n"}).Draw(t, "body"))
		}
		doc, warnings := prd.Parse([]byte(b.String()))
		var said strings.Builder
		for _, e := range doc.Epics {
			said.WriteString(e.ID + "\n" + e.Description + "\n")
		}
		for _, s := range doc.Stories {
			fmt.Fprintf(&said, "%s\n%v\n", s.ID, s.Criteria)
			said.WriteString(s.Description)
		}
		for _, w := range warnings {
			said.WriteString(w.Text + "\n")
		}
		for _, id := range ids {
			if !strings.Contains(said.String()+doc.Description, id) {
				t.Fatalf("%s is lost:\n%s\n%s", id, &b, &said)
			}
		}
		if len(doc.Check()) > 0 {
			return
		}
		out, err := doc.Tasks()
		if err != nil {
			t.Fatalf("%v\n%s", err, &b)
		}
		tasks := markdown.Parse(out).Tasks()
		for i, s := range doc.Stories {
			if i >= len(tasks) || tasks[i].ID != s.ID || len(tasks[i].Steps) != len(s.Criteria) {
				t.Fatalf("%s became\n%s", s.ID, out)
			}
			for k, c := range s.Criteria {
				if tasks[i].Steps[k].Text != c.Text {
					t.Fatalf("%q became %q", c.Text, tasks[i].Steps[k].Text)
				}
			}
		}
	})
}
