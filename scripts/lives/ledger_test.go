package lives

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// entry is a task as the plan has it. The status is open, in_progress, interrupted,
// done, failed or skipped, or what the plan says instead.
type entry struct {
	title, status, claim string
	given                string // why it was given up, where the plan has a place for it
}

// ledger is a plan as its user handles it.
type ledger interface {
	read() map[string]entry
	add(s story)
	remove(id string)
	reopen(id, title string)
	retitle(id, title string)
}

func newLedger(r *planRun, tracker string) ledger {
	switch tracker {
	case "markdown":
		r.write("RALPH_TASKS.md", "# Tasks\n\nMy own words.\n\n")
		return markdownLedger{r}
	case "json":
		r.write("prd.json", `{"project":"Play","branchName":"main","description":"A play","mine":[1,2],"userStories":[]}`)
		return treeLedger{r, "prd.json", "userStories", "id", "title", json.Unmarshal, func(v any) ([]byte, error) { return json.MarshalIndent(v, "", "  ") }}
	case "yaml":
		r.write("RALPH-LOOP-PLAN.yaml", "name: Play\nmine: [1, 2]\ntasks: []\n")
		return treeLedger{r, "RALPH-LOOP-PLAN.yaml", "tasks", "task_id", "name",
			func(data []byte, v any) error { return yaml.Unmarshal(data, v) },
			func(v any) ([]byte, error) { return yaml.Marshal(v) }}
	}
	r.exec("git", "init", "-q", "-b", "main", ".")
	r.exec("bd", "init", "--prefix", "demo", "--quiet", "--skip-hooks", "--skip-merge-driver")
	return beadsLedger{r}
}

func (r *planRun) write(name, text string) {
	r.Helper()
	if err := os.WriteFile(filepath.Join(r.root, name), []byte(text), 0o644); err != nil {
		r.Fatal(err)
	}
}

type markdownLedger struct{ *planRun }

func (l markdownLedger) read() map[string]entry {
	list := map[string]entry{}
	head := regexp.MustCompile(`^- \[(.)\] \*\*(\S+)\*\* (.*)$`)
	id := ""
	for line := range strings.Lines(l.planRun.read("RALPH_TASKS.md")) {
		line = strings.TrimRight(line, "\n")
		if f := head.FindStringSubmatch(line); f != nil {
			id = f[2]
			list[id] = entry{title: f[3], status: map[string]string{"x": "done"}[f[1]]}
			continue
		}
		e := list[id]
		if v, ok := strings.CutPrefix(line, "  - status: "); ok {
			if (v == "done") != (e.status == "done") {
				l.Errorf("%s is %q, and its box says otherwise", id, v)
			}
			e.status = v
		}
		if v, ok := strings.CutPrefix(line, "  - result: "); ok {
			e.given = v
		}
		list[id] = e
	}
	delete(list, "")
	return list
}

func (l markdownLedger) add(s story) {
	after := ""
	if len(s.after) > 0 {
		after = "  - after: " + strings.Join(s.after, ", ") + "\n"
	}
	l.write("RALPH_TASKS.md", l.planRun.read("RALPH_TASKS.md")+fmt.Sprintf("- [ ] **%s** %s\n  - status: pending\n%s  - check: %s\n", s.id, s.title, after, s.check()))
}

// change replaces the lines of a task.
func (l markdownLedger) change(id string, f func([]string) []string) {
	var out, task []string
	for line := range strings.Lines(l.planRun.read("RALPH_TASKS.md")) {
		switch {
		case strings.HasPrefix(line, "- ["):
			if len(task) > 0 {
				out, task = append(out, f(task)...), nil
			}
			if strings.Contains(line, "**"+id+"**") {
				task = []string{line}
				continue
			}
			out = append(out, line)
		case len(task) > 0:
			task = append(task, line)
		default:
			out = append(out, line)
		}
	}
	if len(task) > 0 {
		out = append(out, f(task)...)
	}
	l.write("RALPH_TASKS.md", strings.Join(out, ""))
}

func (l markdownLedger) remove(id string) { l.change(id, func([]string) []string { return nil }) }

func (l markdownLedger) retitle(id, title string) {
	l.change(id, func(task []string) []string {
		box, _, _ := strings.Cut(task[0], "**"+id+"**")
		task[0] = box + "**" + id + "** " + title + "\n"
		return task
	})
}

func (l markdownLedger) reopen(id, title string) {
	l.retitle(id, title)
	l.change(id, func(task []string) []string {
		task[0] = strings.Replace(task[0], "[x]", "[ ]", 1)
		for i, line := range task {
			if strings.HasPrefix(line, "  - status:") {
				task[i] = "  - status: pending\n"
			}
		}
		return task
	})
}

// treeLedger is a plan in prd.json or YAML.
type treeLedger struct {
	*planRun
	file, list, id, title string
	decode                func([]byte, any) error
	encode                func(any) ([]byte, error)
}

func (l treeLedger) open() (map[string]any, []any) {
	l.Helper()
	var top map[string]any
	if err := l.decode([]byte(l.planRun.read(l.file)), &top); err != nil {
		l.Fatalf("%s: %v\n%s", l.file, err, l.planRun.read(l.file))
	}
	list, ok := top[l.list].([]any)
	if !ok {
		l.Fatalf("%s: there is no %s", l.file, l.list)
	}
	return top, list
}

func (l treeLedger) save(top map[string]any, list []any) {
	l.Helper()
	top[l.list] = list
	data, err := l.encode(top)
	if err != nil {
		l.Fatal(err)
	}
	l.write(l.file, string(data))
}

func (l treeLedger) read() map[string]entry {
	_, list := l.open()
	out := map[string]entry{}
	for _, x := range list {
		t := x.(map[string]any)
		text := func(key string) string { s, _ := t[key].(string); return s }
		e := entry{title: text(l.title), status: text("status"), claim: text("assignee"), given: text("notes")}
		if t["passes"] == true || e.status == "completed" {
			e.status = "done"
		}
		if e.status == "" || e.status == "pending" {
			e.status = "open"
		}
		out[text(l.id)] = e
	}
	return out
}

func (l treeLedger) add(s story) {
	top, list := l.open()
	t := map[string]any{l.id: s.id, l.title: s.title, "description": "Do it.", "check": s.check(), "mine": "kept"}
	if l.file == "prd.json" {
		t["acceptanceCriteria"], t["priority"], t["passes"], t["dependsOn"], t["notes"] = []string{"it is there"}, 1, false, append([]string{}, s.after...), ""
	} else {
		t["acceptance_criteria"], t["priority_score"], t["dependencies"] = []string{"it is there"}, 0.5, append([]string{}, s.after...)
	}
	l.save(top, append(list, t))
}

func (l treeLedger) remove(id string) {
	top, list := l.open()
	l.save(top, slices.DeleteFunc(list, func(x any) bool { return x.(map[string]any)[l.id] == id }))
}

func (l treeLedger) change(id string, f func(map[string]any)) {
	top, list := l.open()
	for _, x := range list {
		if t := x.(map[string]any); t[l.id] == id {
			f(t)
		}
	}
	l.save(top, list)
}

func (l treeLedger) retitle(id, title string) {
	l.change(id, func(t map[string]any) { t[l.title] = title })
}

func (l treeLedger) reopen(id, title string) {
	l.change(id, func(t map[string]any) {
		t[l.title] = title
		if _, ok := t["passes"]; ok {
			t["passes"] = false
		}
		delete(t, "status")
	})
}

// beadsLedger is a database of bd.
type beadsLedger struct{ *planRun }

func (l beadsLedger) bd(args ...string) string {
	l.Helper()
	return l.exec("bd", append([]string{"--actor", "user"}, args...)...)
}

func (l beadsLedger) read() map[string]entry {
	var list []struct{ ID, Title, Status, Assignee string }
	text := l.bd("list", "--all", "--limit", "0", "--json")
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		l.Fatalf("%v in %s", err, text)
	}
	out := map[string]entry{}
	for _, i := range list {
		if i.Status == "tombstone" {
			continue
		}
		out[i.ID] = entry{title: i.Title, status: map[string]string{"closed": "done"}[i.Status], claim: i.Assignee}
		if e := out[i.ID]; e.status == "" {
			e.status = i.Status
			out[i.ID] = e
		}
	}
	return out
}

func (l beadsLedger) add(s story) {
	args := []string{"create", s.title, "--id", s.id, "--silent", "-d", "Do it.", "--acceptance", "It is there.\nCheck: " + s.check()}
	if len(s.after) > 0 {
		args = append(args, "--deps", strings.Join(s.after, ","))
	}
	l.bd(args...)
}

func (l beadsLedger) remove(id string)         { l.bd("delete", id, "--force") }
func (l beadsLedger) retitle(id, title string) { l.bd("update", id, "--title", title) }
func (l beadsLedger) reopen(id, title string) {
	l.bd("reopen", id)
	l.retitle(id, title)
}
