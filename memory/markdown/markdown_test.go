package markdown

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// dialect is a way in which projects keep tasks, with what a reader must find:
// "id|status|title" per task.
type dialect struct {
	name, text string
	want       []string
}

func dialects() []dialect {
	fence := "```"
	return []dialect{
		{"own", `# Tasks

- [ ] **T-12** Retry the upload on 503
  - status: in_progress
  - priority: 1
  - after: T-9, T-10
  - agent: retry_upload
  - check: go test ./upload/...
- [x] **T-13** Ticked by hand
  - status: pending
- [ ] **T-14** With criteria
  - [ ] one
  - [x] two
`, []string{"T-12|in_progress|Retry the upload on 503", "T-13|done|Ticked by hand", "T-14|pending|With criteria"}},
		{"heading, bullet fields", `Legend: [ ] pending, [~] in progress

### TASK-1-004: Wire the scanner into the CLI
- **Status:** [~] IN PROGRESS
- **Agent/Team:** core
- **Priority:** HIGH
- **Depends On:** TASK-1-001, TASK-1-003
- **Started:** 2026-01-12
### TASK-1-005: Next
- **Status:** [R] REVIEW
`, []string{"TASK-1-004|in_progress|Wire the scanner into the CLI", "TASK-1-005|in_progress|Next"}},
		{"flat list", "- [ ] Page: `pricing` — three tiers, monthly/yearly switch  \n- [x] Page: `about` — team grid ✓ 2026-02-01\n",
			[]string{"~page-pricing-three-tiers-monthly-yearly|pending|Page: `pricing` — three tiers, monthly/yearly switch", "~page-about-team-grid|done|Page: `about` — team grid"}},
		{"sections with criteria", "## TASK 3: Export to PDF\n\n### Problem\ntext\n\n### Acceptance Criteria\n- [ ] opens\n- [ ] prints\n\n### Test Command\n" + fence + "\nmake test\n- [ ] no task\n" + fence + "\n## TASK 4: Next\n",
			[]string{"TASK 3|pending|Export to PDF", "TASK 4|pending|Next"}},
		{"phases", "## Phase 2\n#### Task 2.1.1 Ledger\n- [x] a\n- [ ] b\n**Priority:** P1 | **Effort:** 2h\n## Phase 3 (DEFERRED)\n#### Task 3.1.1 Payout table\n- [ ] parse CSV\n- [ ] validate sums\n**Priority:** P1 | **Effort:** 2h\n",
			[]string{"Task 2.1.1|pending|Ledger", "Task 3.1.1|skipped|Payout table"}},
		{"numbered items", "- [x] 1.1 Create schema\n  - Verified: migrations run twice\n- [ ] 1.2 Seed\n", []string{"1.1|done|Create schema", "1.2|pending|Seed"}},
		{"another language", "## T00 - 项目初始化\n状态：✅ 已完成\n## T01 - 登录\n\n状态：🔄 进行中\n## T02 - 支付\n状态：⏳ 待办\n## T03 - 报表\n状态：⚠️ 部分完成\n## T04 - 通知\n状态：❌ 阻塞\n",
			[]string{"T00|done|项目初始化", "T01|in_progress|登录", "T02|pending|支付", "T03|in_progress|报表", "T04|blocked|通知"}},
		{"progress counters", "Completed: 7/12\nEXIT_SIGNAL: false\n\n## Iteration 7\ntext\n\n## Iteration 4 - Task: US-004\n**Result**: ok\n> <promise>COMPLETE</promise>\n- Renderer: 80 %\n\nTODO: later\n", nil},
		{"milestones", "| Id | Name | Status | Days | Note |\n|---|---|---|---|---|\n| M1 | Parser | ✅ Done | 3 | see PR |\n| M2 | Writer | ⏳ | 2 | |\n",
			[]string{"M1|done|Parser", "M2|pending|Writer"}},
		{"goals", "## GOAL 2 — Offline mode  [x] DONE\n\n**Acceptance:**\n- works without a network\n## GOAL 3 — Sync [ ]\n", []string{"GOAL 2|done|Offline mode", "GOAL 3|pending|Sync"}},
		{"nested boxes", "- [ ] Auth\n  - [x] login form\n  - [ ] reset mail\n- [x] Search\n", []string{"~auth|pending|Auth", "~search|done|Search"}},
		{"nested boxes with tabs", "* [ ] Auth\n\t+ [X] login form\n\t1. [ ] reset mail\n", []string{"~auth|pending|Auth"}},
		{"epics", "## EPIC-1: Accounts\ntext\n- [ ] **A-1** one\n- [x] sign in\n### US-2: two\n- [ ] AC-1: c\n## US-3: three\n",
			[]string{"EPIC-1|pending|Accounts", "A-1|pending|one", "~sign-in|done|sign in", "US-2|pending|two", "US-3|pending|three"}},
		{"epics of items", "- [ ] **EPIC-2** Search\n  - status: pending\n  - [ ] T-4 index\n    - [ ] c\n- [ ] T-5 rank\n", []string{"EPIC-2|pending|Search", "T-4|pending|index", "T-5|pending|rank"}},
		{"stories among other ids", "## FR-1: fast\ntext\n### US-1: one\n- [ ] **AC-1** a\n- [ ] **T-9** own\n## NFR-2 — small\n## UTF-8: text\n## M1: then\n- [ ] T-3: three\n  - [ ] **T-4** below\n",
			[]string{"US-1|pending|one", "T-9|pending|own", "T-3|pending|three"}},
		{"signs, numbers and underlines", "#### ✅ US-001: 初始化\n- **状态**: completed\n- **依赖**: -\n- **验收标准**:\n  - [x] a\n#### 🔄 US-2: b\n- [ ] c\n### 1. US-3: c\n### 2.1 **T-4** d\nUS-5: e\n-------\n- [ ] f\n### ✅ Done\n### US-001-T1: part\ntext\n---\n",
			[]string{"US-001|done|初始化", "US-2|in_progress|b", "US-3|pending|c", "T-4|pending|d", "US-5|pending|e", "US-001-T1|pending|part"}},
		{"optional boxes", "- [ ] 3. Auth\n  - [ ]* 3.2 tests\n- [ ]* 4. Later\n- [x]* bold*\n- [ ]*no*\n", []string{"~3-auth|pending|3. Auth", "~4-later|pending|4. Later", "~bold|done|bold*"}},
		{"other ids alone", "## FR-1: fast\n## M1: then\n- [ ] **AC-2** c\n", []string{"FR-1|pending|fast", "M1|pending|then"}},
		{"traps", "text\n- [ ] **T-1** First\n- [2026-01-12] a date\n- [x](http://x) a link\n- [ ]\n\n<!--\n- [ ] **T-2** commented\n-->\n~~~md\n- [ ] **T-3** fenced\n```\n~~~\n" +
			"see `<!--` here\n- [-] **T-4** dropped\n- [!] T-5: blocked <!-- a\n note -->\n- [ ] Same\n- [ ] Same\n    - [ ]no box\nT-1 is named in prose [ ] here\n# Head\n- [ ] **T-1** twice\n",
			[]string{"T-1|pending|First", "~task|pending|", "T-4|skipped|dropped", "T-5|blocked|blocked <!-- a", "~same|pending|Same", "~same~2|pending|Same", "T-1~2|pending|twice"}},
		{"not ids", "- [ ] UTF-8 everywhere\n- [ ] SHA-256: check it\n- [ ] H2 headings\n- [ ] ralph-7: bd style\n## 2.1 Overview\n## Phase 3\n## Epic 2: all\n",
			[]string{"~utf-8-everywhere|pending|UTF-8 everywhere", "SHA-256|pending|check it", "~h2-headings|pending|H2 headings", "ralph-7|pending|bd style"}},
		{"boxes of headings", "## [ ] Parser\n- [x] a\n## [x] **T-1** Printer\n### [~] US-3: Web\n### US-4: [ ] Pay\n### [US-5] Ship\n### User Story 6 - Group (Priority: P1)\n## [P] Legend\n",
			[]string{"~parser|pending|Parser", "T-1|done|Printer", "US-3|in_progress|Web", "US-4|pending|Pay", "US-5|pending|Ship", "User Story 6|pending|Group (Priority: P1)"}},
		{"a box that is one blank further in is none of the box above", "- [ ] a\n - [ ] b\n   - [ ] c\n- [ ] **T-1** d\n - status: done\n", []string{"~a|pending|a", "~b|pending|b", "T-1|done|d"}},
		{"rows and remarks behind a list", "- [ ] a\n\n  why\n\n| Id | Name | Status |\n|---|---|---|\n| M1 | Parser | todo |\n| M2 | Printer | done |\n\n- [ ] b\n\nTODO: call\n\n- [ ] c\n  TODO: in c\nTODO: in c, too\n", []string{"~a|pending|a", "M1|pending|Parser", "M2|done|Printer", "~b|pending|b", "~call|pending|call", "~c|pending|c"}},
		{"full-width colons", "## US-1：登录\n- [ ] **T-2**：b\n", []string{"US-1|pending|登录", "T-2|pending|b"}},
		{"open fence", "- [ ] **T-1** a\n```\n- [ ] **T-2** b\n", []string{"T-1|pending|a"}},
		{"open comment", "- [ ] **T-1** a\n<!-- never closed\n- [ ] **T-2** b\n", []string{"T-1|pending|a"}},
	}
}

// variants are the byte-level forms in which each dialect occurs.
func variants(text string) map[string]string {
	return map[string]string{
		"as is":  text,
		"crlf":   strings.ReplaceAll(text, "\n", "\r\n"),
		"bom":    bom + text,
		"no end": strings.TrimRight(text, "\n"),
	}
}

func TestDialects(t *testing.T) {
	for _, dl := range dialects() {
		for form, text := range variants(dl.text) {
			d := Parse([]byte(text))
			if d.String() != text {
				t.Errorf("%s, %s: not byte for byte", dl.name, form)
			}
			var got []string
			for _, task := range d.Tasks() {
				got = append(got, fmt.Sprintf("%s|%s|%s", task.ID, task.Status, task.Title))
			}
			if diff := cmp.Diff(dl.want, got); diff != "" {
				t.Errorf("%s, %s: %s", dl.name, form, diff)
			}
		}
	}
}

// TestCriteria: boxes below a task are its criteria, whatever they begin with, as they
// stand there; nothing of the task is lost.
func TestCriteria(t *testing.T) {
	steps := []string{"AC-1: shows `a: b`", "**T-2** x (after T-1)", "`make test` passes", "1.1 first", "US-9 — y", "- [ ]", "below"}
	body := "  - check: make test\n"
	for _, s := range steps[:6] {
		body += "  - [ ] " + s + "\n"
	}
	body += "    - [x] below\n"
	for _, head := range []string{"- [ ] **T-1** one", "- [ ] T-1: one", "- [ ] one", "1. [ ] **one**"} {
		d := Parse([]byte(head + "\n" + body + "- [ ] **T-7** next\n"))
		tasks := d.Tasks()
		if len(tasks) != 2 || tasks[0].Check != "make test" || tasks[1].ID != "T-7" {
			t.Errorf("%s: %+v", head, tasks)
			continue
		}
		var got []string
		for _, s := range tasks[0].Steps {
			got = append(got, s.Text)
		}
		if diff := cmp.Diff(steps, got); diff != "" || !tasks[0].Steps[6].Done {
			t.Errorf("%s: %s", head, diff)
		}
	}
	d := Parse(nil)
	want := Task{ID: "T-1", Title: "one", Status: Pending}
	for _, s := range steps {
		want.Steps = append(want.Steps, Step{Text: s})
	}
	if got, err := d.Add(want, "T"); err != nil || !cmp.Equal(got.Steps, want.Steps) || len(d.Tasks()) != 1 {
		t.Errorf("%v: %s", err, d)
	}
}

// TestAfterInTheLine: "(after T-1)" in the line of a task is its dependency, which an
// edit changes in place; other words in parentheses are text.
func TestAfterInTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"- [ ] **T-2** b (after T-1)\n": "b|T-1", "- [ ] T-2 b (after: T-1, US-3; 1.2)\n": "b|T-1,US-3,1.2", "## T-2: b (After Task 3)\n": "b|Task 3", "- [ ] T-2: (after T-1) b\n": "(after T-1) b|T-1",
		"- [ ] T-2: b (after lunch)\n": "b (after lunch)|", "- [ ] T-2: b (after T-1 and lunch)\n": "b (after T-1 and lunch)|", "- [x] b (after ~set-up) \n": "b|~set-up", "## T-2: b (after T-1) [x]\n": "b|T-1",
	} {
		task := Parse([]byte(text)).Tasks()[0]
		if got := task.Title + "|" + strings.Join(task.After, ","); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
	d := Parse([]byte("- [ ] **T-2** b (after T-1)\n"))
	if err := d.Edit("T-2", Edit{After: []string{"T-3", "T-4"}, Title: "c"}); err != nil || d.String() != "- [ ] **T-2** c (after T-3, T-4)\n" {
		t.Errorf("%v: %s", err, d)
	}
}

func TestFields(t *testing.T) {
	task, ok := Parse([]byte(dialects()[0].text)).Task("t-12")
	want := Task{ID: "T-12", Explicit: true, Title: "Retry the upload on 503", Status: InProgress, Priority: "1", After: []string{"T-9", "T-10"}, Agent: "retry_upload", Check: "go test ./upload/...", StatusLine: true, Line: 3}
	if diff := cmp.Diff(want, task); !ok || diff != "" {
		t.Error(diff)
	}
	task, _ = Parse([]byte(dialects()[0].text)).Task("T-14")
	if diff := cmp.Diff([]Step{{"one", false}, {"two", true}}, task.Steps); diff != "" {
		t.Error(diff)
	}
	task, _ = Parse([]byte(dialects()[1].text)).Task("TASK-1-004")
	piped, _ := Parse([]byte("- [ ] **T-1** a\n  - check: go vet ./... | tee log\n  - **Result:** x | agent: y\n")).Task("T-1")
	if piped.Check != "go vet ./... | tee log" || piped.Result != "x | agent: y" || piped.Agent != "" {
		t.Errorf("%+v", piped)
	}
	if task.Priority != "HIGH" || task.Rank() != 1 || task.Agent != "core" || len(task.After) != 2 {
		t.Errorf("%+v", task)
	}
	task, _ = Parse([]byte("## T1 - x\nDepends on: US-001 (auth), `US-2`, None\n**Priority:** P0 | **Status:** done\n")).Task("T1")
	if diff := cmp.Diff([]string{"US-001", "US-2"}, task.After); diff != "" || task.Rank() != 0 || task.Status != Done {
		t.Errorf("%s %+v", diff, task)
	}
}

// changed returns the lines that differ, as "-old" and "+new", where both
// begin and end alike.
func changed(before, after string) []string {
	a, b := strings.SplitAfter(before, "\n"), strings.SplitAfter(after, "\n")
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	var out []string
	for _, l := range a {
		out = append(out, "-"+l)
	}
	for _, l := range b {
		out = append(out, "+"+l)
	}
	return out
}

func TestEditsAreMinimal(t *testing.T) {
	for _, tc := range []struct {
		text, id string
		edit     Edit
		want     []string
	}{
		{dialects()[0].text, "T-12", Edit{Status: Done, Result: "works\nnow"},
			[]string{"-- [ ] **T-12** Retry the upload on 503\n", "-  - status: in_progress\n", "-  - priority: 1\n", "-  - after: T-9, T-10\n", "-  - agent: retry_upload\n", "-  - check: go test ./upload/...\n",
				"+- [x] **T-12** Retry the upload on 503\n", "+  - status: done\n", "+  - priority: 1\n", "+  - after: T-9, T-10\n", "+  - agent: retry_upload\n", "+  - check: go test ./upload/...\n", "+  - result: works now\n"}},
		{"- [ ] a\r\n- [ ] b\r\n", "~b", Edit{Status: Done}, []string{"-- [ ] b\r\n", "+- [x] b\r\n"}},
		{"- [ ] a\r\n- [ ] b\r\n", "~a", Edit{Status: Failed}, []string{"+  - status: failed\r\n"}},
		{"- [ ] a", "~a", Edit{Status: Blocked}, []string{"-- [ ] a", "+- [ ] a\n", "+  - status: blocked"}},
		{"* [~] a\n", "~a", Edit{Status: Done}, []string{"-* [~] a\n", "+* [x] a\n"}},
		{"- [ ] a\n- [!] b\n", "~a", Edit{Status: InProgress}, []string{"-- [ ] a\n", "+- [~] a\n"}},
		{"- [X] a\n- [X] b\n", "~b", Edit{Status: Pending}, []string{"-- [X] b\n", "+- [ ] b\n"}},
		{"1. [ ] a\n   more of it\n2. [ ] b\n", "~a", Edit{Status: Failed}, []string{"+   - status: failed\n"}},
		{dialects()[1].text, "TASK-1-004", Edit{Status: Done}, []string{"-- **Status:** [~] IN PROGRESS\n", "+- **Status:** [x] DONE\n"}},
		{dialects()[1].text, "TASK-1-004", Edit{Check: "go test"}, []string{"+- **Check:** go test\n"}},
		{dialects()[6].text, "T01", Edit{Status: Done}, []string{"-状态：🔄 进行中\n", "+状态：✅ 已完成\n"}},
		{dialects()[8].text, "M2", Edit{Status: Done}, []string{"-| M2 | Writer | ⏳ | 2 | |\n", "+| M2 | Writer | ✅ | 2 | |\n"}},
		{dialects()[9].text, "GOAL 3", Edit{Status: Done}, []string{"-## GOAL 3 — Sync [ ]\n", "+## GOAL 3 — Sync [x]\n"}},
		{dialects()[3].text, "TASK 4", Edit{Status: InProgress}, []string{"+- status: in_progress\n"}},
		{"- [ ] **T-1** a\n", "T-1", Edit{Title: "b <!-- c"}, []string{"-- [ ] **T-1** a\n", "+- [ ] **T-1** b <! -- c\n"}},
		{"- [ ] **T-1** a\n  - after: T-0\n", "T-1", Edit{After: []string{}}, []string{"-  - after: T-0\n", "+  - after: \n"}},
		{"- [x] a ✓ 2026-01-01\n", "~a", Edit{Status: Done}, nil},
		{"- [ ] a\n", "~a", Edit{Agent: "x | check: rm", Result: "a | status: done"}, []string{"+  - agent: x / check: rm\n", "+  - result: a | status: done\n"}},
	} {
		d := Parse([]byte(tc.text))
		if err := d.Edit(tc.id, tc.edit); err != nil {
			t.Errorf("%s: %v", tc.id, err)
			continue
		}
		before := tc.text
		if before == d.String() && tc.want == nil {
			continue
		}
		if diff := cmp.Diff(tc.want, changed(before, d.String())); diff != "" {
			t.Errorf("%s %+v: %s", tc.id, tc.edit, diff)
		}
	}
	d := Parse([]byte("- [ ] a\n"))
	if err := d.Edit("T-9", Edit{Status: Done}); !errors.Is(err, ErrNoTask) {
		t.Error(err)
	}
	if err := d.Edit("~a", Edit{Status: "dnoe"}); err == nil || d.String() != "- [ ] a\n" {
		t.Error("a made-up status")
	}
}

// TestEveryStatusReadsBack: in each dialect and form, each task takes each
// status, only its own lines change, and the others stay as they are.
func TestEveryStatusReadsBack(t *testing.T) {
	for _, dl := range dialects() {
		for form, text := range variants(dl.text) {
			for _, task := range Parse([]byte(text)).Tasks() {
				for _, s := range []Status{Pending, InProgress, Interrupted, Blocked, Done, Failed, Skipped} {
					d := Parse([]byte(text))
					checkEdit(t, d, task.ID, s, dl.name+", "+form)
				}
			}
		}
	}
}

func checkEdit(t *testing.T, d *Document, id string, s Status, label string) {
	t.Helper()
	n := d.find(id)
	if n == nil {
		t.Fatalf("%s: %s vanished", label, id)
	}
	before, old := d.Tasks(), d.String()
	start, end := d.start(n), d.end(n) // an edit may move them
	if err := d.Edit(id, Edit{Status: s}); err != nil {
		t.Fatalf("%s: %s: %v", label, id, err)
	}
	after := Parse(d.Bytes()).Tasks()
	if len(before) != len(after) {
		t.Fatalf("%s: setting %s to %s: %d tasks became %d:\n%q\n%q", label, id, s, len(before), len(after), old, d.String())
	}
	for i := range before {
		want := before[i]
		if want.ID == id {
			want.Status = s
		}
		if got := after[i]; got.ID != want.ID || got.Status != want.Status || got.Title != want.Title {
			t.Fatalf("%s: setting %s to %s: %+v became %+v in\n%s", label, id, s, want, got, d.String())
		}
	}
	a, b := strings.SplitAfter(old, "\n"), strings.SplitAfter(d.String(), "\n")
	tail := len(a) - end
	if strings.Join(a[:start], "") != strings.Join(b[:start], "") ||
		tail > 0 && strings.Join(a[len(a)-tail:], "") != strings.Join(b[len(b)-tail:], "") {
		t.Fatalf("%s: setting %s to %s changed other lines:\n%q\n%q", label, id, s, old, d.String())
	}
}

func TestAdd(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "- [ ] **T-1** New\n  - status: pending\n  - check: make\n",
		"# Tasks\n":                           "# Tasks\n\n- [ ] **T-1** New\n  - status: pending\n  - check: make\n",
		"- [ ] **T-7** x\n\n## Notes\nT-41\n": "- [ ] **T-7** x\n- [ ] **T-42** New\n  - status: pending\n  - check: make\n\n## Notes\nT-41\n",
		"- [ ] x\r\n  - more":                 "- [ ] x\r\n  - more\r\n- [ ] **T-1** New\r\n  - status: pending\r\n  - check: make",
		"text\n```\nopen\n":                   "text\n\n- [ ] **T-1** New\n  - status: pending\n  - check: make\n\n```\nopen\n",
		"<!-- open\n":                         "- [ ] **T-1** New\n  - status: pending\n  - check: make\n\n<!-- open\n",
	} {
		d := Parse([]byte(text))
		task, err := d.Add(Task{Title: " New\n", Check: "make"}, "T")
		if err != nil || d.String() != want {
			t.Errorf("%q: %v: %q", text, err, d.String())
		}
		if again, ok := d.Task(task.ID); !ok || again.Title != "New" || again.Check != "make" {
			t.Errorf("%q: %+v", text, again)
		}
	}
	d := Parse([]byte("- [ ] **T-1** x\n"))
	for _, bad := range []Task{{ID: "T-1", Title: "again"}, {Title: "\n"}, {ID: "no id", Title: "x"}, {Title: "x", Status: "odd"}} {
		if _, err := d.Add(bad, "T"); err == nil {
			t.Errorf("added %+v", bad)
		}
	}
	if id := d.NextID("T", "T-9 elsewhere", "G-50"); id != "T-10" {
		t.Error(id)
	}
}

func TestItemsAndEntries(t *testing.T) {
	d := Parse([]byte("# Todo\n\n- [ ] one\n"))
	for _, text := range []string{"two", "Two", "three\nlines"} {
		if err := d.AddItem(text); err != nil {
			t.Fatal(err)
		}
	}
	if want := "# Todo\n\n- [ ] one\n- [ ] two\n- [ ] three lines\n"; d.String() != want {
		t.Errorf("%q", d.String())
	}
	if task, err := d.Match("THREE"); err != nil || task.ID != "~three-lines" {
		t.Error(task, err)
	}
	if _, err := d.Match("o"); !errors.Is(err, ErrAmbiguous) {
		t.Error(err)
	}
	if _, err := d.Match("zzz"); !errors.Is(err, ErrNoTask) {
		t.Error(err)
	}
	for text, want := range map[string]string{
		"":                        "## N\nx\n",
		"# P\n":                   "# P\n\n## N\nx\n",
		"# P\n\n## O\ny\n":        "# P\n\n## N\nx\n\n## O\ny\n",
		"# P\r\n## O\r\n":         "# P\r\n\r\n## N\r\nx\r\n\r\n## O\r\n",
		bom + "## O\n":            bom + "## N\nx\n\n## O\n",
		"```\n## no\n```\n## O\n": "```\n## no\n```\n\n## N\nx\n\n## O\n",
		"# P\ntext":               "# P\ntext\n\n## N\nx\n",
		"open\n````\n## no\n":     "open\n````\n## no\n````\n\n## N\nx\n",
		"<!-- open":               "<!-- open\n-->\n\n## N\nx\n",
	} {
		d := Parse([]byte(text))
		d.PrependEntry("## N\nx\n")
		if d.String() != want {
			t.Errorf("%q: %q", text, d.String())
		}
	}
}

func TestFence(t *testing.T) {
	for _, text := range []string{"", "plain", "```\ncode\n```\n", "a ````` b", "~~~"} {
		fenced := Fence(text, "sh\n# x")
		d := Parse([]byte("before\n" + fenced + "- [ ] **T-1** seen\n"))
		if _, ok := d.Task("T-1"); !ok || d.open >= 0 {
			t.Errorf("%q broke out: %q", text, fenced)
		}
	}
}

func FuzzDocument(f *testing.F) {
	for _, dl := range dialects() {
		f.Add(dl.text, byte(0))
		f.Add(strings.ReplaceAll(dl.text, "\n", "\r\n"), byte(3))
	}
	f.Add("|a|b\n|M1|x|done|", byte(1))
	f.Fuzz(func(t *testing.T, text string, pick byte) {
		d := Parse([]byte(text))
		if d.String() != text {
			t.Fatal("not byte for byte")
		}
		tasks := d.Tasks()
		ids := map[string]bool{}
		for _, task := range tasks {
			ids[task.ID] = true
		}
		if len(tasks) > 0 && len(ids) == len(tasks) {
			all := []Status{Pending, InProgress, Interrupted, Blocked, Done, Failed, Skipped}
			task := tasks[int(pick)%len(tasks)]
			n := d.find(task.ID)
			start, end := d.start(n), d.end(n)
			a := strings.SplitAfter(text, "\n")
			if err := d.Edit(task.ID, Edit{Status: all[int(pick)%len(all)]}); err != nil {
				t.Fatal(err)
			}
			b := strings.SplitAfter(d.String(), "\n")
			tail := len(a) - end
			if strings.Join(a[:start], "") != strings.Join(b[:start], "") || tail > 0 && strings.Join(a[len(a)-tail:], "") != strings.Join(b[len(b)-tail:], "") {
				t.Fatalf("%q: %s: other lines changed: %q", text, task.ID, d.String())
			}
		}
		d = Parse([]byte(text))
		added, err := d.Add(Task{Title: "new"}, "T")
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := d.Task(added.ID); !ok || got.Status != Pending {
			t.Fatalf("%q: the new task cannot be found: %q", text, d.String())
		}
		d.PrependEntry("## Entry\n\ntext")
	})
}

// TestStrays: lines that look like tasks and are none are named; notes, groups and the
// text of tasks are not.
func TestStrays(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"- first\n- [ ] a\n- second\n  - note\n- [x] b\n\n## Notes\n- x\n- y\n", "first;second"},
		{"- [ ] a\n\n- loose\n\ntext\n\n- other\n- list\n", "loose"},
		{"- Backend:\n  - [ ] a\n  - [ ] b\n- Frontend:\n  - [ ] c\n", ""},
		{"- **US-1**: log in\n  - [ ] form\n- US-2: log out\n", "**US-1**: log in;US-2: log out"},
		{"- [ ] **US-1** log in\n\n## Notes\n- US-1: is first\n", ""},
		{"## US-1: a\n- why\n- [ ] c\n- text\n### Task #2: b\n## Task: c\n", "Task #2: b;Task: c"},
		{"- [?] a\n- [] b\n- [ ]c\n- [✓] d\n- [ ]\u00a0e\n-\u00a0[ ] f\n• [ ] g\n[ ] h\n- ☐ i\n- \\[ \\] j\n- [ ] k\n", "![?] a;![] b;![ ]c;![✓] d;![ ]\u00a0e;!-\u00a0[ ] f;!• [ ] g;![ ] h;!☐ i;!\\[ \\] j"},
		{"- [ ] a\n\n[x]: https://x.y\n[1]: z\n[ ](no)\n- `[ ]` means open\n```\n- [?] code\n```\n<!-- - [?] no -->\n> [!NOTE]\n> - [ ] b\n", ""},
	} {
		var got []string
		for _, s := range Parse([]byte(tc.text)).Strays() {
			text := s.Text
			if s.Box {
				text = "!" + text
			}
			got = append(got, text)
		}
		if diff := cmp.Diff(tc.want, strings.Join(got, ";")); diff != "" {
			t.Errorf("%q: %s", tc.text, diff)
		}
	}
}
