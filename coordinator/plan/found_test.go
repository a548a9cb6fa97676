package plan

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/afero"
	"pgregory.net/rapid"
)

// TestEveryTaskIsInThePlanOrNamed: whatever form a file has, each task in it is in the plan,
// a criterion of one that is, or named in a warning or in the error that refuses the file.
func TestEveryTaskIsInThePlanOrNamed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		make := rapid.SampledFrom([]func(*rapid.T, int) (string, []string){listOfMarkdown, listOfJSON}).Draw(t, "form")
		text, names := make(t, rapid.IntRange(1, 7).Draw(t, "n"))
		fsys := afero.NewMemMapFs()
		name := "/p/PLAN.md"
		if strings.HasPrefix(strings.TrimSpace(text), "{") || strings.HasPrefix(strings.TrimSpace(text), "[{") {
			name = "/p/plan.json"
		}
		if err := afero.WriteFile(fsys, name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		tr, err := Open(t.Context(), Options{Root: "/p", FS: fsys, Path: name})
		if err != nil {
			t.Fatal(err)
		}
		p, err := tr.Load(t.Context())
		var said strings.Builder
		var bad *Problems
		switch {
		case errors.As(err, &bad):
			if len(bad.List) == 0 && !errors.Is(err, ErrEmpty) {
				t.Fatalf("%v\n%s", err, text)
			}
			return // loud, with its lines
		case err != nil:
			t.Fatal(err)
		}
		for _, task := range p.Tasks {
			fmt.Fprintf(&said, "%s %s %s %v\n", task.ID, task.Title, task.Description, task.Criteria)
		}
		for _, w := range p.Warnings {
			said.WriteString(w.Text + "\n")
		}
		for _, n := range names {
			if !strings.Contains(said.String(), n) {
				t.Fatalf("%q is lost:\n%s\n---\n%s", n, text, &said)
			}
		}
	})
}

// listOfMarkdown is a plan in Markdown, and what must not be lost of it.
func listOfMarkdown(t *rapid.T, n int) (string, []string) {
	var b strings.Builder
	var names []string
	for i := range n {
		title := fmt.Sprintf("title %d", i)
		id := rapid.SampledFrom([]string{"", "**T-%d** ", "T-%d: ", "US-%d: ", "FR-%d: ", "AC-%d: ", "**EPIC-%d** ", "`M%d` ", "%d.1 "}).Draw(t, "id")
		if id != "" {
			id = fmt.Sprintf(id, i)
			names = append(names, strings.Trim(id, "*`: "))
		}
		box := rapid.SampledFrom([]string{"- [ ] ", "* [x] ", "1. [ ] ", "  - [ ] ", "    - [ ] ", "## ", "### "}).Draw(t, "box")
		if !strings.HasPrefix(box, "#") {
			names = append(names, title)
		} else if id == "" || strings.HasPrefix(id, "`") || strings.HasSuffix(id, ".1 ") {
			names = names[:max(0, len(names)-min(1, len(id)))] // a heading of a section
		}
		b.WriteString(box + id + title + "\n" + rapid.SampledFrom([]string{"", "\n", "  - check: make\n", "text\n\n", "---\n"}).Draw(t, "below"))
	}
	return b.String(), names
}

// listOfJSON is a plan in JSON, and what must not be lost of it.
func listOfJSON(t *rapid.T, n int) (string, []string) {
	var items, names []string
	ids := rapid.Bool().Draw(t, "ids")
	for i := range n {
		title := fmt.Sprintf("title %d", i)
		names = append(names, title)
		text := fmt.Sprintf(`"%s": %q`, rapid.SampledFrom([]string{"title", "name", "description", "summary"}).Draw(t, "key"), title)
		if ids {
			text += fmt.Sprintf(`, "%s": "X-%d"`, rapid.SampledFrom([]string{"id", "taskId", "key"}).Draw(t, "id"), i)
		}
		if rapid.Bool().Draw(t, "steps") {
			names = append(names, fmt.Sprintf("part %d", i))
			text += fmt.Sprintf(`, "%s": [{"id": 1, "title": "part %d"}]`, rapid.SampledFrom([]string{"subtasks", "steps", "acceptanceCriteria", "verification"}).Draw(t, "parts"), i)
		}
		items = append(items, "{"+text+`, "passes": false}`)
	}
	list := "[" + strings.Join(items, ",\n") + "]"
	switch rapid.SampledFrom([]string{"array", "object", "below", "second"}).Draw(t, "form") {
	case "object":
		return fmt.Sprintf(`{"%s": %s}`, rapid.SampledFrom([]string{"features", "userStories", "tasks", "stories"}).Draw(t, "list"), list), names
	case "below":
		return fmt.Sprintf(`{"master": {"tasks": %s}}`, list), names
	case "second":
		return fmt.Sprintf(`{"userStories": %s, "%s": [{"id": "Y-1", "title": "another", "passes": false}]}`, list, rapid.SampledFrom([]string{"backlog", "features", "done"}).Draw(t, "second")), append(names, "another")
	}
	return list, names
}

// TestDoneByAnotherName: true and false under another name than passes say whether a story is
// done, and are what a mark changes.
func TestDoneByAnotherName(t *testing.T) {
	root := write(t, map[string]string{"x.json": `{"tasks": [{"id": "1", "title": "a", "done": true}, {"id": "2", "title": "b", "completed": false}]}`})
	tr := opened(t, root, "x.json")
	p, err := tr.Load(t.Context())
	if err != nil || p.Tasks[0].Status != Done || p.Tasks[1].Status != Pending {
		t.Fatalf("%v %+v", err, p)
	}
	if err := errors.Join(tr.Mark(t.Context(), "2", Mark{Status: Done}), tr.Mark(t.Context(), "1", Mark{Status: Pending})); err != nil {
		t.Fatal(err)
	}
	if got, want := read(t, root, "x.json"), `{"tasks": [{"id": "1", "title": "a", "done": false}, {"id": "2", "title": "b", "completed": true}]}`; got != want {
		t.Error(got)
	}
}
