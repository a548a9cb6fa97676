package scripts

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/mattn/go-runewidth"

	"ralph/coordinator/plan"
	"ralph/coordinator/plan/graph"
)

const shopPlan = `{"project": "Hats", "userStories": [
  {"id": "EPIC-1", "title": "Shop", "type": "epic"},
  {"id": "US-1", "title": "Store", "passes": true, "epic": "EPIC-1"},
  {"id": "US-2", "title": "Show", "description": "x", "acceptanceCriteria": ["a"], "passes": false, "dependsOn": ["US-1"], "epic": "EPIC-1"},
  {"id": "US-3", "title": "Pay", "passes": false, "dependsOn": ["US-2"]}]}`

// Every document fits the schema that is printed for it.
func TestPlanDocumentsFitTheirSchema(t *testing.T) {
	checker := resolve(schemaOf("plan"))
	b := newBench(t)
	b.file("prd.json", shopPlan)
	b.file("bad.json", `{"userStories": [{"id": "A", "title": "a", "dependsOn": ["A", "B"]}]}`)
	b.file("prd.md", "# P\n## EPIC-1: e\n### US-1: a\n- [x] b\nPriority: never\n")
	for _, x := range []struct {
		args string
		code int
	}{
		{"show", 0}, {"next", 0}, {"next --select false", 0}, {"graph", 0}, {"check", 0}, {"check --plan bad.json", 3}, {"prompt US-2", 0}, {"show --epic EPIC-1 --select id=='US-2'", 0},
		{"convert prd.md --to json -o -", 0}, {"convert prd.md --to markdown --dry-run", 0}, {"convert prd.md --to json --merge", 0}, {"convert prd.md --to beads -o x.sh", 0},
	} {
		args := append([]string{"plan"}, strings.Fields(x.args)...)
		if code := b.run(append(args, "--json")...); code != x.code {
			t.Errorf("%s: exit code %d\n%s", x.args, code, b.err.String())
			continue
		}
		if err := checker.Validate(b.document()); err != nil {
			t.Errorf("%s: %v\n%s", x.args, err, b.out.String())
		}
		if strings.Count(strings.TrimSpace(b.out.String()), "\n") != 0 {
			t.Errorf("%s prints more than a document:\n%s", x.args, b.out.String())
		}
	}
	if b.run("plan", "next", "--json"); b.document()["next"] == nil {
		t.Error("next is not there")
	}
	if b.run("plan", "next", "--select", "false", "--json"); b.document()["next"] != nil || !strings.Contains(b.out.String(), `"next":null`) {
		t.Errorf("next is not null: %s", b.out.String())
	}
	if b.run("plan", "check", "--json"); strings.Contains(b.out.String(), `"next"`) {
		t.Error("check says something of next")
	}
}

// view is a plan of many kinds of rows.
func view(columns int) (*sheet, *planView) {
	p := &plan.Plan{Tracker: "json", Path: "prd.json", Name: strings.Repeat("帽子 ", 40), Description: strings.Repeat("word ", 80)}
	for i := range 30 {
		task := plan.Task{ID: fmt.Sprintf("US-%d-%s", i, strings.Repeat("x", i)), Title: strings.Repeat("買 wide\x1b[31m ", i), Status: plan.Pending, Priority: i % 5}
		if i > 0 {
			task.After = []string{p.Tasks[i-1].ID, p.Tasks[i/2].ID}
		}
		switch i % 7 {
		case 0:
			task.Status = plan.Done
		case 3:
			task.Status, task.Assignee = plan.InProgress, "ralph/"+strings.Repeat("a", i)
		case 5:
			task.Status = plan.Failed
		}
		p.Tasks = append(p.Tasks, task)
	}
	v := &planView{Plan: p, meant: map[string]bool{}, graph: p.Graph(), ranks: map[string]graph.Rank{}}
	for _, r := range v.graph.Ranks() {
		v.order = append(v.order, r)
		v.ranks[r.ID] = r
	}
	for _, t := range p.Tasks {
		v.meant[t.ID] = true
	}
	return &sheet{columns: columns}, v
}

// No line is wider than the terminal, whatever the plan holds, and none obeys it.
func TestPlanTextFits(t *testing.T) {
	for _, columns := range []int{60, 80, 100, 120} {
		s, v := view(columns)
		s.head(v)
		for _, g := range v.groups() {
			s.tasks(v, g.tasks)
		}
		s.weights(v)
		next, _ := v.nextTask()
		if next != nil {
			s.why(next)
		}
		text := s.b.String()
		for line := range strings.Lines(text) {
			if w := runewidth.StringWidth(strings.TrimRight(line, "\n")); w > columns {
				t.Errorf("%d of %d columns: %q", w, columns, line)
			}
		}
		if strings.ContainsRune(text, 0x1b) {
			t.Error("an escape of the plan's own came through")
		}
	}
}

// On a terminal the same text has colours, and nothing else more.
func TestPlanColours(t *testing.T) {
	bare, v := view(80)
	bare.head(v)
	bare.tasks(v, v.groups()[0].tasks)
	coloured, _ := view(80)
	coloured.colours = true
	coloured.head(v)
	coloured.tasks(v, v.groups()[0].tasks)
	text := coloured.b.String()
	if !strings.Contains(text, "\x1b[32m") {
		t.Error("nothing is coloured")
	}
	for _, p := range []string{"0", "1", "2", "31", "32", "33", "36"} {
		text = strings.ReplaceAll(text, "\x1b["+p+"m", "")
	}
	var trimmed strings.Builder
	for line := range strings.Lines(text) {
		trimmed.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	if trimmed.String() != bare.b.String() {
		t.Errorf("without colours it differs:\n%s\n%s", trimmed.String(), bare.b.String())
	}
}

// A plan is made in a chat that opens with an instruction; what it wrote is read
// afterwards.
func TestPlanCreate(t *testing.T) {
	master, slave, err := pty.Open()
	if err != nil {
		t.Skip("no terminals here: ", err)
	}
	defer master.Close()
	defer slave.Close()
	b := newBench(t)
	b.stdin = slave
	var got ChatOptions
	text := "# P\n### US-1: a\n- [ ] b\nPriority: never\n"
	b.chat = func(_ context.Context, o ChatOptions) (int, error) {
		got = o
		return 0, os.WriteFile(filepath.Join(b.dir, "prd.md"), []byte(text), 0o644)
	}
	if code := b.run("plan", "create", "a", "shop"); code != 0 {
		t.Fatalf("exit code %d: %s", code, b.err.String())
	}
	for _, want := range []string{"a shop", "write prd.md.", "Ask before you write"} {
		if !strings.Contains(got.Opening, want) {
			t.Errorf("the opening lacks %q:\n%s", want, got.Opening)
		}
	}
	if got.Session != "new" {
		t.Errorf("the session is %q", got.Session)
	}
	b.wantErr("prd.md:4: skipped: Priority: never", "prd.md has 1 story; ralph plan convert prd.md --to json")
	text = "# nothing\n"
	if code := b.run("plan", "create"); code != 0 || !strings.Contains(got.Opening, "ask that first") || !strings.Contains(got.Opening, "which is there already") {
		t.Errorf("exit code %d: %s", code, got.Opening)
	}
	b.wantErr("cannot be made a plan yet")
	if code := b.run("plan", "create", "-o", "none/x.md"); code != 2 {
		t.Errorf("a directory that is not there: exit code %d", code)
	}
	if code := b.run("plan", "create", "--json"); code != 2 {
		t.Errorf("--json: exit code %d", code)
	}
}

func TestPlanSchemaIsPrinted(t *testing.T) {
	b := newBench(t)
	if code := b.run("schema", "plan"); code != 0 || !json.Valid(b.out.Bytes()) {
		t.Errorf("exit code %d: %s", code, b.err.String())
	}
}
