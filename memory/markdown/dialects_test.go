package markdown

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// wild says which tasks a reader must find in the files of testdata/dialects,
// shapes of task files as projects keep them: "id|status|title".
func wild() map[string][]string {
	return map[string][]string{
		"01-heading-fields.md": {
			"TASK-2-001|done|Read the frames",
			"TASK-2-002|in_progress|Check the sums of TASK-2-001",
			"TASK-2-003|blocked|Report damage",
			"TASK-2-004|in_progress|Man page",
			"TASK-2-005|pending|Release",
		},
		"02-flat-list.md": {
			"~page-home-hero-three-quotes|done|Page: `home` — hero, three quotes",
			"~page-team-photo-grid|done|Page: `team` — photo grid",
			"~page-prices-three-tiers-monthly-yearly|pending|Page: `prices` — three tiers, monthly/yearly",
			"~post-why-we-moved-900-words|pending|Post: `why-we-moved` — 900 words",
			"~post-why-we-moved-900-words~2|pending|Post: `why-we-moved` — 900 words",
			"~feed-rss|done|Feed: `rss`",
		},
		"03-sections.md": {
			"TASK 3|pending|Export to SVG",
			"TASK 4|pending|Import from SVG",
		},
		"04-phases.md": {
			"Task 1.1.1|done|Ledger",
			"Task 1.1.2|pending|Currency",
			"Task 2.1.1|skipped|Refund table",
			"Task 3.1.1|pending|Audit log",
		},
		"05-numbered.md": {
			"1.1|done|Create tables",
			"1.2|done|Seed rows",
			"2.1|pending|Roles",
			"2.2|pending|Tokens",
		},
		"06-other-language.md": {
			"T00|done|搭建环境",
			"T01|in_progress|用户注册",
			"T02|pending|邮件通知",
			"T03|in_progress|数据导出",
			"T04|blocked|支付接口",
		},
		"07-counters.md":   {},
		"08-iterations.md": {},
		"09-milestones.md": {
			"M1|done|Lexer",
			"M2|in_progress|Parser",
			"M3|pending|Printer",
		},
		"10-percent.md": {
			"~renderer|in_progress|Renderer",
			"~sound|done|Sound",
			"~physics|pending|Physics",
		},
		"11-table-and-boxes.md": {
			"~open-by-handle|done|open by handle",
			"~no-globals|done|no globals",
			"~errors-wrapped|done|errors wrapped",
			"~sync-on-close|pending|sync on close",
			"~no-globals~2|pending|no globals",
		},
		"12-prose.md": {
			"~drop-the-old-cache-directory|pending|drop the old cache directory",
			"~tell-the-packagers|pending|tell the packagers",
			"~write-the-announcement|pending|write the announcement",
			"~rename-the-flag|done|rename the flag",
		},
		"13-goals.md": {
			"GOAL 1|done|Starts in 50 ms",
			"GOAL 2|pending|Works without a network",
		},
		"14-nested.md": {
			"~accounts|pending|Accounts",
			"~search|pending|Search",
			"~billing|blocked|Billing",
		},
	}
}

// TestWildDialects: each file comes back byte for byte, with all its tasks,
// also with other line ends; each of its tasks takes each status, and only its
// own lines change.
func TestWildDialects(t *testing.T) {
	files, err := filepath.Glob("testdata/dialects/*.md")
	if err != nil || len(files) != len(wild()) {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		want := wild()[filepath.Base(name)]
		for form, text := range variants(string(data)) {
			label := filepath.Base(name) + ", " + form
			d := Parse([]byte(text))
			if d.String() != text || string(d.Bytes()) != text {
				t.Errorf("%s: not byte for byte", label)
			}
			var got []string
			for _, task := range d.Tasks() {
				got = append(got, fmt.Sprintf("%s|%s|%s", task.ID, task.Status, task.Title))
			}
			if len(want) != len(got) {
				t.Errorf("%s: %s", label, cmp.Diff(want, got))
				continue
			}
			for i := range want {
				if want[i] != got[i] {
					t.Errorf("%s: %q, not %q", label, got[i], want[i])
				}
			}
			for _, task := range d.Tasks() {
				for _, s := range []Status{Pending, InProgress, Interrupted, Blocked, Done, Failed, Skipped} {
					checkEdit(t, Parse([]byte(text)), task.ID, s, label)
				}
			}
		}
	}
}

// TestTicksOfTasksWithoutBoxes: ticking a percentage or a remark changes its
// own bytes and no other.
func TestTicksOfTasksWithoutBoxes(t *testing.T) {
	for _, tc := range []struct {
		text, id string
		edit     Edit
		want     string
	}{
		{"- Renderer: 80 %\n", "~renderer", Edit{Status: Done}, "- Renderer: 100 %\n"},
		{"- **Sound**: 100%\n", "~sound", Edit{Status: Pending}, "- **Sound**: 0%\n"},
		{"- Renderer: 80 %\n", "~renderer", Edit{Status: InProgress}, "- Renderer: 80 %\n"},
		{"- A: 0 %\n- B: 0 %\n", "~a", Edit{Status: InProgress}, "- A: 0 %\n  - status: in_progress\n- B: 0 %\n"},
		{"- A: 40 %\n  - status: blocked\n", "~a", Edit{Status: Done}, "- A: 100 %\n  - status: done\n"},
		{"x\nTODO: call\ny\n", "~call", Edit{Status: Done}, "x\nDONE: call\ny\n"},
		{"**TODO(ann):** call\n", "~call", Edit{Status: Blocked}, "**TODO(ann, blocked):** call\n"},
		{"TODO (ann, blocked): call\n", "~call", Edit{Status: Done}, "DONE (ann): call\n"},
		{"DONE: call\n", "~call", Edit{Status: InProgress}, "TODO (in progress): call\n"},
		{"TODO: call\n", "~call", Edit{Result: "no room"}, "TODO: call\n"},
	} {
		d := Parse([]byte(tc.text))
		if err := d.Edit(tc.id, tc.edit); err != nil || d.String() != tc.want {
			t.Errorf("%q %+v: %v, %q", tc.text, tc.edit, err, d.String())
		}
	}
	// Ralph's own entries report; they are no list of work.
	d := Parse([]byte("# Progress\n"))
	d.PrependEntry("## 2026-01-02 10:00 UTC — work\n\n- Check: 80 %\n- Cover: 90 %\nTODO: x\n")
	d.AppendEntry("## 2026-01-02T10:00:00Z - NOTE\n\n- Speed: 50 %\n")
	if tasks := d.Tasks(); len(tasks) != 0 {
		t.Errorf("%+v", tasks)
	}
	if strings.Count(d.String(), "%") != 3 {
		t.Error("entries are lost")
	}
}
