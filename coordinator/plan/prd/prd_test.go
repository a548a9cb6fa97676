package prd_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ralph/coordinator/plan/prd"
	"ralph/memory/markdown"
)

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("RALPH_TEST_UPDATE") != "" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// TestGolden reads documents of many forms and makes every kind of plan of them.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.md")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, ".tasks.md") {
			continue
		}
		name := strings.TrimSuffix(filepath.Base(path), ".md")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			doc, warnings := prd.Parse(data)
			var told strings.Builder
			for _, w := range append(warnings, doc.Check()...) {
				fmt.Fprintf(&told, "line %d: %s\n", w.Line, w.Text)
			}
			golden(t, name+".warnings", []byte(told.String()))
			out, err := doc.JSON()
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".json", out)
			tasks, err := doc.Tasks()
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".tasks.md", tasks)
			golden(t, name+".sh", []byte(prd.Script(doc.Issues())))
			for range 3 {
				again, _ := prd.Parse(data)
				if b, err := again.JSON(); err != nil || !bytes.Equal(b, out) {
					t.Fatal("the same document gives another plan")
				}
			}
		})
	}
}

func parse(t *testing.T, lines ...string) prd.Document {
	t.Helper()
	doc, _ := prd.Parse([]byte(strings.Join(lines, "\n") + "\n"))
	return doc
}

func TestHeadings(t *testing.T) {
	for line, want := range map[string]string{
		"### US-001: Title":                     "US-001|Title",
		"## US-001: Title":                      "US-001|Title",
		"#### US-001: Title ####":               "US-001|Title",
		"   ### US-001 - Title":                 "US-001|Title",
		"### US-001 Title":                      "US-001|Title",
		"### US-001":                            "US-001|US-001",
		"### [US-001] Title":                    "US-001|Title",
		"### **US-001**: Title":                 "US-001|Title",
		"### **US-001: Title**":                 "US-001|Title",
		"### `US-001` — Title":                  "US-001|Title",
		"### US-2.1: Title":                     "US-2.1|Title",
		"### US-2.1.1: Title":                   "US-2.1.1|Title",
		"### EPIC-12: Title":                    "EPIC-12|Title",
		"### Feature 1.2: Title":                "Feature-1.2|Title",
		"### feature 1.2 - Title":               "Feature-1.2|Title",
		"### Feature 1.2":                       "Feature-1.2|Feature-1.2",
		"### User Story 3: Title":               "US-3|Title",
		"### AUTH-LOGIN-3: Title":               "AUTH-LOGIN-3|Title",
		"### [x] US-001: Title":                 "US-001|Title|done",
		"### US-001: [X] Title":                 "US-001|Title|done",
		"### US-001: Title (P1)":                "US-001|Title|1",
		"### US-001: Title (Priority: high)":    "US-001|Title|1",
		"### US-001: Title (one of two)":        "US-001|Title (one of two)",
		"### US-001: Grüße — 日本: mehr":          "US-001|Grüße — 日本: mehr",
		"# US-001: level one":                   "",
		"##### US-001: level five":              "",
		"###US-001: no blank":                   "",
		"    ### US-001: code":                  "",
		"### UTF-8 support":                     "",
		"### Phase 1: Foundation":               "",
		"### 1. Introduction":                   "",
		"### Features 2.0":                      "",
		"- ### US-001: in a list":               "",
		"### Feature 1.2 is not what this says": "",
		"### US-: nothing":                      "",
	} {
		doc := parse(t, line)
		got := ""
		if len(doc.Stories) == 1 {
			s := doc.Stories[0]
			got = s.ID + "|" + s.Title
			if s.Done {
				got += "|done"
			}
			if s.Priority != 2 {
				got += fmt.Sprintf("|%d", s.Priority)
			}
		}
		if got != want {
			t.Errorf("%q gives %q, want %q", line, got, want)
		}
	}
}

func TestPriorities(t *testing.T) {
	for value, want := range map[string]int{"P0": 0, "P1": 1, "p4": 4, "3": 3, "High": 1, "**critical**": 0, "P2 (medium)": 2, "low": 3, "": 2, "P9": 9, "soon": 2, "-1": 2, "100": 100, "10": 10, "100001": 2} {
		doc := parse(t, "### US-1: a", "**Priority:** "+value)
		if got := doc.Stories[0].Priority; got != want {
			t.Errorf("priority %q is %d, want %d", value, got, want)
		}
	}
}

func TestDependencies(t *testing.T) {
	for value, want := range map[string]string{
		"Depends on: US-001 (auth), US-002":                   "US-001 US-002",
		"**Depends on:** None":                                "",
		"**Depends on:** none (it is the first)":              "",
		"Depends on: N/A":                                     "",
		"Depends On: `US-001`, [US-002](#us-002)":             "US-001 US-002",
		"Dependencies: us-001 and US-002":                     "US-001 US-002",
		"Blocked by: US-001; US-002.":                         "US-001 US-002",
		"Depends on: US-001: the login, US-002 - the logout":  "US-001 US-002",
		"Depends on: US-001 US-002":                           "US-001 US-002",
		"Depends on: Feature 1.2":                             "Feature-1.2",
		"Depends on: US-001, US-001":                          "US-001",
		"Depends on:\n- US-001\n- US-002 (x, y)\n\nMore text": "US-001 US-002",
		"Depends on: US-001,\nUS-002":                         "US-001 US-002",
		"#### Dependencies\n\n* US-001\n":                     "US-001",
		"- **Depends on**: US-001":                            "US-001",
		"> Depends on: US-001":                                "US-001",
		"It depends on: US-001":                               "",
		"Depends on: the weather":                             "",
		"Depends on: US-001 (see US-002, US-003)":             "US-001",
	} {
		doc := parse(t, "### US-001: a", "- [ ] x", "### US-002: b", "- [ ] x", "### Feature 1.2: c", "- [ ] x", "### US-9: d", value, "- [ ] x")
		if got := strings.Join(doc.Stories[3].After, " "); got != want {
			t.Errorf("%q gives %q, want %q", value, got, want)
		}
	}
}

func TestCriteria(t *testing.T) {
	for text, want := range map[string]string{
		"- [ ] a\n- [x] b": "a|b+",
		"**Acceptance Criteria:**\n- a\n* b\n+ c\n1. d\n2) e":                   "a|b|c|d|e",
		"#### Acceptance Criteria\n\n- [ ] a\n\n  more of a\n":                  "a more of a",
		"Acceptance criteria\n- a":                                              "", // no label without a colon or bold
		"**Acceptance Criteria**\n- a":                                          "a",
		"- [x] a\n  - b\n  - [ ] c":                                             "a+|b+|c",
		"**Acceptance Criteria:** it works":                                     "it works",
		"Acceptance Criteria:\n\nGiven a\nWhen b\n\nThen c":                     "Given a When b|Then c",
		"```\n- [ ] code\n```\n- [ ] real":                                      "real",
		"~~~~\n- [ ] code\n~~~\n- [ ] code\n~~~~\n- [ ] real":                   "real",
		"- [ ] a\n  ```\n  - [ ] code\n  ```\n- [ ] b":                          "a|b",
		"<!--\n- [ ] hidden\n-->\n- [ ] real":                                   "real",
		"- [ ]\n- [ ] a":                                                        "a",
		"-[ ] not a list\n- [y] neither\n- [ ]neither":                          "",
		"**Acceptance Criteria:**\n- **Login:** works\n- **Priority:** P1":      "**Login:** works",
		"**Acceptance Criteria:**\n- Priority: is shown in red":                 "Priority: is shown in red",
		"**Acceptance Criteria:**\n- a\n\n**Owner:** Bob\n- not one":            "a",
		"**Description:** x\n- a bullet of it\n\n**Acceptance Criteria:**\n- a": "a",
		"1. [ ] a\n2. [X] b":                                                    "a|b+",
		"\t- [ ] a":                                                             "a",
	} {
		doc := parse(t, "### US-1: s", text)
		var got []string
		for _, c := range doc.Stories[0].Criteria {
			if c.Done {
				c.Text += "+"
			}
			got = append(got, c.Text)
		}
		if strings.Join(got, "|") != want {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
}

// Ticked boxes are carried over: a story is done when all of it is.
func TestDone(t *testing.T) {
	for text, want := range map[string]bool{
		"- [x] a\n- [x] b": true, "- [x] a\n- [ ] b": false, "**Acceptance Criteria:**\n- [x] a\n- b": false, "Status: done": true, "Status: ✅ Completed": true,
		"Status: in progress": false, "no boxes": false, "**Acceptance Criteria:**\n- a": false,
	} {
		if got := parse(t, "### US-1: s", text).Stories[0].Done; got != want {
			t.Errorf("%q is done: %v", text, got)
		}
	}
}

// Nothing of a document is lost without a word: each line is in the plan or in a
// warning, but for headings that stand around stories, and marks.
func TestEveryLineIsUsedOrTold(t *testing.T) {
	data, err := os.ReadFile("testdata/shop.md")
	if err != nil {
		t.Fatal(err)
	}
	doc, warnings := prd.Parse(data)
	out, err := doc.JSON()
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(out), `\n`, " ")
	told := map[int]bool{}
	for _, w := range warnings {
		told[w.Line] = true
	}
	for i, l := range strings.Split(string(data), "\n") {
		for word := range strings.FieldsFuncSeq(l, func(r rune) bool { return strings.ContainsRune(" \t`*#:,;.()[]<>|-—", r) }) {
			known := strings.Contains(text, word) || told[i+1] || len(word) < 3
			switch strings.ToLower(word) {
			case "prd", "branch", "description", "acceptance", "criteria", "priority", "high", "depends", "on", "none", "labels", "quality", "gates", "stories", "user", "us", "really", "store", "notes", "check", "must", "pass", "feature", "status", "done":
				known = true
			}
			if !known {
				t.Errorf("line %d: %q is neither in the plan nor told: %s", i+1, word, l)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	doc := parse(t, "### US-1: a", "Depends on: US-1", "### US-2: b", "Depends on: US-9", "### us-1: c", "### T-1: x", "Depends on: T-2", "### T-2: y", "Depends on: T-3", "### T-3: z", "Depends on: T-1",
		"## EPIC-1: e", "### US-7: in it", "### US-8: of it", "Depends on: EPIC-1")
	var got []string
	for _, w := range doc.Check() {
		got = append(got, fmt.Sprintf("line %d: %s", w.Line, w.Text))
	}
	want := []string{
		"line 2: story US-1: depends on itself", `line 4: story US-2: depends on "US-9", which does not exist`, "line 5: us-1: the id is given to another heading on line 1 already",
		"line 7: a circle of dependencies: T-1 → T-2 → T-3 → T-1", `line 15: story US-8: depends on "EPIC-1", which only groups stories: name the stories`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, text := range []string{"", "# Only a title\n", "text\n", "\ufeff", "```\n### US-1: x\n"} {
		doc, _ := prd.Parse([]byte(text))
		if f := doc.Check(); len(f) != 1 || !strings.Contains(f[0].Text, "no story") {
			t.Errorf("%q: %v", text, f)
		}
	}
}

func TestMergeJSON(t *testing.T) {
	doc := parse(t, "# New", "Text.", "### US-1: New title", "- [ ] new", "Depends on: US-2", "### US-2: b", "- [x] x", "### US-4: fresh", "- [ ] y")
	old := `{"name":"Old","extra":{"z":1,"a":[1.50]},"userStories":[{"id":"US-1","title":"Old","passes":true,"notes":"kept","own":"x"},{"id":"us-2","passes":false,"status":"open","title":"b"},{"id":3,"title":"only here"}]}`
	out, m, err := doc.MergeJSON([]byte(old))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "merged.json", out)
	if diff := cmp.Diff(prd.Merged{Added: []string{"US-4"}, Changed: []string{"US-1", "US-2"}, Kept: []string{"3"}}, m); diff != "" {
		t.Error(diff)
	}
	again, m, err := doc.MergeJSON(out)
	if err != nil || !bytes.Equal(again, out) || len(m.Same) != 3 || len(m.Changed)+len(m.Added) != 0 {
		t.Errorf("a second merge changes something: %v %v\n%s", m, err, again)
	}
	for _, form := range []string{`[]`, `{"tasks":[]}`, `{"prd":{"userStories":[]}}`, "\ufeff[]"} {
		out, m, err := doc.MergeJSON([]byte(form))
		if err != nil || len(m.Added) != 3 || !strings.Contains(string(out), "New title") {
			t.Errorf("%s: %v %v", form, m, err)
		}
	}
	for _, bad := range []string{"", "{", "7", `{"a":1}`, `{"userStories":7}`, "[] []", strings.Repeat("[", 100_000), `{"userStories":[}`} {
		if _, _, err := doc.MergeJSON([]byte(bad)); err == nil {
			t.Errorf("%.20q is merged into", bad)
		}
	}
}

func TestMergeTasks(t *testing.T) {
	doc := parse(t, "### US-1: New title", "Priority: P0", "- [ ] new", "Depends on: US-2", "### US-2: b", "- [x] x", "### US-4: fresh", "About it.", "- [ ] y")
	old := "# Mine\r\n\r\nwords\r\n\r\n- [x] **US-1** Old\r\n  - status: done\r\n  - priority: 3\r\n  - result: fine\r\n- [ ] **T-9** own\r\n- [ ] **US-2** b\r\n"
	out, m, err := doc.MergeTasks([]byte(old))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "merged.tasks.md", out)
	if diff := cmp.Diff(prd.Merged{Added: []string{"US-4"}, Changed: []string{"US-1", "US-2"}, Kept: []string{"T-9"}}, m); diff != "" {
		t.Error(diff)
	}
	again, m, err := doc.MergeTasks(out)
	if err != nil || !bytes.Equal(again, out) || len(m.Same) != 3 {
		t.Errorf("a second merge changes something: %v %v\n%s", m, err, cmp.Diff(string(out), string(again)))
	}
	if _, _, err := doc.MergeTasks([]byte("```\nan open fence\n")); err == nil {
		t.Error("tasks were put into a fence")
	}
}

func TestReduction(t *testing.T) {
	lines := []string{}
	for i := range 40 { // forty fully connected layers of two
		for j := range 2 {
			var after []string
			for k := range i {
				after = append(after, fmt.Sprintf("A-%d", k*2+1), fmt.Sprintf("A-%d", k*2+2))
			}
			lines = append(lines, fmt.Sprintf("### A-%d: x", i*2+j+1), "Depends on: "+strings.Join(after, ", "), "- [ ] y")
		}
	}
	doc := parse(t, lines...)
	if f := doc.Check(); len(f) > 0 {
		t.Fatal(f)
	}
	for _, i := range doc.Issues() {
		if len(i.After) > 2 {
			t.Errorf("%s waits for %v", i.Ref, i.After)
		}
	}
	back := parse(t, "### A-1: late", "Depends on: A-2", "### A-2: early")
	if list := back.Issues(); list[0].Ref != "A-2" || list[1].Ref != "A-1" {
		t.Errorf("what is waited for comes later: %v", list)
	}
}

func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.md")
	for _, path := range files {
		if data, err := os.ReadFile(path); err == nil {
			f.Add(data)
		}
	}
	f.Add([]byte("---\ntitle: x\n---\n### US-1: a\n- [ ] b\n"))
	f.Add([]byte("## EPIC-1: a\n### US-1: \n**Depends on:**\n- US-1\n<!-- x\n```"))
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, warnings := prd.Parse(data)
		lines := bytes.Count(data, []byte("\n")) + 1
		for _, w := range append(warnings, doc.Check()...) {
			if w.Line < 1 || w.Line > lines || w.Text == "" {
				t.Errorf("a warning for line %d of %d: %q", w.Line, lines, w.Text)
			}
		}
		out, err := doc.JSON()
		var back struct {
			UserStories []struct{ ID, Title string }
		}
		if err != nil || json.Unmarshal(out, &back) != nil || len(back.UserStories) != len(doc.Stories)+len(doc.Epics) {
			t.Fatalf("not a plan: %v\n%s", err, out)
		}
		if len(doc.Check()) > 0 {
			return
		}
		for _, s := range back.UserStories {
			if s.ID == "" || s.Title == "" {
				t.Errorf("a story without an id or a title: %+v", s)
			}
		}
		merged, m, err := doc.MergeJSON(out)
		if err != nil || !bytes.Equal(merged, out) || len(m.Same) != len(doc.Stories)+len(doc.Epics) {
			t.Errorf("a merge into itself changes it: %v %v", m, err)
		}
		if tasks, err := doc.Tasks(); err == nil {
			list := markdown.Parse(tasks).Tasks()
			if len(list) != len(doc.Stories) {
				t.Errorf("%d tasks of %d stories:\n%s", len(list), len(doc.Stories), tasks)
			}
		}
		_ = prd.Script(doc.Issues())
	})
}

// A long document takes time in proportion to its length.
func TestLongDocuments(t *testing.T) {
	for name, text := range map[string]string{
		"comments": strings.Repeat("<!--\n", 100_000), "fences": strings.Repeat("```\n````\n", 50_000), "dashes": strings.Repeat("-", 1<<20),
		"criteria": "### US-1: x\n" + strings.Repeat("- [ ] a\n  b\n", 30_000), "stories": stories(5_000), "loose": "### US-1: a\n**Acceptance criteria:**\n" + strings.Repeat("word\n", 100_000),
		"depends": "### US-1: a\nDepends on: " + strings.Repeat("US-2, ", 100_000), "parens": "### US-1: a\nDepends on: " + strings.Repeat("(", 1<<20), "hashes": strings.Repeat("#", 1<<20),
	} {
		began := time.Now()
		doc, _ := prd.Parse([]byte(text))
		doc.Check()
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
}

func stories(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "### US-%d: story\nText.\n- [ ] a\n- [ ] b\n\n**Depends on:** US-%d\n\n", i+2, i+1)
	}
	return "### US-1: first\n- [ ] x\n" + b.String()
}
