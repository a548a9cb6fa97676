package plan

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/afero"
	"pgregory.net/rapid"

	"ralph/coordinator/plan/tree"
	"ralph/memory/markdown"
)

// TestMarkLeavesTheRest: a mark changes bytes of its own task only, whatever the
// layout, and says what was marked.
func TestMarkLeavesTheRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		isJSON := rapid.Bool().Draw(t, "json")
		n := rapid.IntRange(1, 6).Draw(t, "n")
		name, parts := loopFile, yamlParts
		if isJSON {
			name, parts = prdFile, jsonParts
		}
		texts := parts(t, n)
		fsys := afero.NewMemMapFs()
		path := "/p/" + name
		if err := afero.WriteFile(fsys, path, []byte(strings.Join(texts, "")), 0o644); err != nil {
			t.Fatal(err)
		}
		tr, err := Open(context.Background(), Options{Root: "/p", FS: fsys, Path: name})
		if err != nil {
			t.Fatal(err)
		}
		before, err := tr.Load(context.Background())
		if err != nil {
			t.Fatalf("%v\n%s", err, strings.Join(texts, ""))
		}
		for range rapid.IntRange(1, 4).Draw(t, "marks") {
			i := rapid.IntRange(0, n-1).Draw(t, "i")
			m := Mark{
				Status: rapid.SampledFrom([]Status{Pending, Interrupted, Blocked, Done, Failed, Skipped}).Draw(t, "status"),
				Result: rapid.SampledFrom([]string{"", "fine", "it: \"works\" # yes", "ü — 漢字 \x00\x1b[31m", "- [ ] no\n---\n"}).Draw(t, "result"),
				Note:   rapid.SampledFrom([]string{"", "a note", "null"}).Draw(t, "note"),
			}
			if err := tr.Mark(context.Background(), fmt.Sprint("T-", i), m); err != nil {
				t.Fatalf("%v\n%s", err, strings.Join(texts, ""))
			}
			data, err := afero.ReadFile(fsys, path)
			if err != nil {
				t.Fatal(err)
			}
			// Task i is part 2i+1; all around it is as it was.
			head, tail := strings.Join(texts[:2*i+1], ""), strings.Join(texts[2*i+2:], "")
			got := string(data)
			if !strings.HasPrefix(got, head) || !strings.HasSuffix(got, tail) || len(got) < len(head)+len(tail) {
				t.Fatalf("more than task %d was changed:\n%s\n--- became\n%s", i, strings.Join(texts, ""), got)
			}
			texts[2*i+1] = got[len(head) : len(got)-len(tail)]
			after, err := tr.Load(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			fresh, err := Open(context.Background(), Options{Root: "/p", FS: fsys, Path: name})
			if err != nil {
				t.Fatal(err)
			}
			again, err := fresh.Load(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(again, after, cmpopts.IgnoreUnexported(Plan{})); d != "" {
				t.Fatalf("what is kept in memory differs from the file: %s", d)
			}
			for k := range after.Tasks {
				if k != i && !cmp.Equal(before.Tasks[k], after.Tasks[k], cmpopts.IgnoreFields(Task{}, "Line")) {
					t.Fatalf("task %d was changed by a mark of %d", k, i)
				}
			}
			want := m.Status
			if isJSON && want != Done {
				want = Pending
			}
			if after.Tasks[i].Status != want {
				t.Fatalf("marked %s, reads %s:\n%s", m.Status, after.Tasks[i].Status, got)
			}
			before = after
		}
	})
}

// jsonParts is a prd.json in 2n+1 parts, of which the odd ones are its stories.
func jsonParts(t *rapid.T, n int) []string {
	eol := rapid.SampledFrom([]string{"\n", "\r\n", "", " "}).Draw(t, "eol")
	colon := rapid.SampledFrom([]string{":", ": ", " : "}).Draw(t, "colon")
	head := rapid.SampledFrom([]string{"", "\ufeff", " "}).Draw(t, "head")
	top, end := "[", "]"
	if rapid.Bool().Draw(t, "object") {
		top, end = `{"x"`+colon+`[1.50,{"id":"T-0"}],"userStories"`+colon+`[`, `],"y"`+colon+`null}`
	}
	out := []string{head + top + eol}
	for i := range n {
		var pairs []string
		add := func(key, value string) { pairs = append(pairs, `"`+key+`"`+colon+value) }
		add("id", fmt.Sprintf(`"T-%d"`, i))
		add("title", rapid.SampledFrom([]string{`"a"`, `"\u00fc \"b\""`, `"漢字"`}).Draw(t, "title"))
		if rapid.Bool().Draw(t, "passes") {
			add("passes", rapid.SampledFrom([]string{"true", "false", "null"}).Draw(t, "value"))
		}
		if rapid.Bool().Draw(t, "status") {
			add("status", rapid.SampledFrom([]string{`"open"`, `"To Do"`, `"completed"`, `null`}).Draw(t, "word"))
		}
		if rapid.Bool().Draw(t, "notes") {
			add("notes", rapid.SampledFrom([]string{`""`, `"x\ny"`, `null`}).Draw(t, "text"))
		}
		add("unknown", `{"id":"T-9","passes":[ ]}`)
		gap := rapid.SampledFrom([]string{"", " ", "\n    ", "\r\n\t"}).Draw(t, "gap")
		out = append(out, "{"+gap+strings.Join(pairs, ","+gap)+gap+"}")
		if i < n-1 {
			out = append(out, ","+eol)
		}
	}
	return append(out, end+eol)
}

// yamlParts is a loop plan in 2n+1 parts, of which the odd ones are its tasks.
func yamlParts(t *rapid.T, n int) []string {
	eol := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "eol")
	lead := rapid.SampledFrom([]string{"", "  ", "    "}).Draw(t, "lead")
	head := rapid.SampledFrom([]string{"", "\ufeff", "---\n", "# plan\n\n"}).Draw(t, "head")
	lines := func(s string) string { return strings.ReplaceAll(s, "\n", eol) }
	out := []string{lines(head + "name: x # y\nunknown: [1.50, {task_id: T-0}]\ntasks:\n")}
	for i := range n {
		var b strings.Builder
		in := lead + "  "
		if rapid.Bool().Draw(t, "flow") {
			fmt.Fprintf(&b, "%s- {task_id: T-%d, name: 'it''s', status: %s}", lead, i, rapid.SampledFrom([]string{"pending", "'done'", "\"todo\"", "null"}).Draw(t, "word"))
		} else {
			first := rapid.SampledFrom([]string{"name: \"ü: 漢\"\n" + in + "task_id: T-%d # id", "task_id: T-%d\n" + in + "name: |\n" + in + "  long\n\n" + in + "  text", "task_id: 'T-%d'\n" + in + "name: plain\n" + in + "  goes on"}).Draw(t, "first")
			fmt.Fprintf(&b, lead+"- "+first, i)
			if rapid.Bool().Draw(t, "status") {
				b.WriteString("\n" + in + rapid.SampledFrom([]string{"status: pending", "status:   'in progress' # now", "status:", "status: ~", "status: \"done\""}).Draw(t, "word"))
			}
			if rapid.Bool().Draw(t, "more") {
				b.WriteString("\n" + in + "notes: >-\n" + in + "  folded\n" + in + "  text")
			}
			b.WriteString("\n" + in + "unknown:\n" + in + "- status: pending\n" + in + "- [a, b]")
		}
		out = append(out, lines(b.String()))
		out = append(out, lines(rapid.SampledFrom([]string{"\n", "\n\n", "\n# between\n"}).Draw(t, "between")))
	}
	out[len(out)-1] += lines("after: all\n")
	return out
}

// FuzzPlan: no file makes opening, loading or marking panic or hang; what loads
// has tasks, and a mark of one is read again.
func FuzzPlan(f *testing.F) {
	for _, dir := range []string{"testdata/bad", "testdata/good"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			f.Fatal(err)
		}
		for _, e := range entries {
			data, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data, e.Name())
		}
	}
	for name, text := range one() {
		f.Add([]byte(text), name)
	}
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		name = "x" + filepath.Ext(filepath.Base("/"+name))
		if strings.ContainsAny(name, "\x00/") {
			return
		}
		fsys := afero.NewMemMapFs()
		if err := afero.WriteFile(fsys, "/p/"+name, data, 0o644); err != nil {
			t.Skip()
		}
		ctx := context.Background()
		tr, err := Open(ctx, Options{Root: "/p", FS: fsys, Path: name})
		if err != nil {
			return
		}
		p, err := tr.Load(ctx)
		if err != nil {
			_ = err.Error()
			return
		}
		if len(p.Tasks) == 0 {
			t.Fatal("a plan without tasks")
		}
		if cycles := p.Graph().Cycles(); len(cycles) > 0 {
			t.Fatalf("a cycle: %v", cycles)
		}
		p.Graph().Ready()
		id := p.Tasks[len(p.Tasks)/2].ID
		if err := tr.Mark(ctx, id, Mark{Status: Done, Note: "n"}); err != nil {
			if errors.Is(err, tree.ErrPlace) {
				return
			}
			t.Fatalf("%q: mark %q: %v", data, id, err)
		}
		fresh, err := Open(ctx, Options{Root: "/p", FS: fsys, Path: name, Tracker: tr.Name()})
		if err != nil {
			t.Fatal(err)
		}
		again, err := fresh.Load(ctx)
		if err != nil {
			t.Fatalf("%q: after a mark: %v", data, err)
		}
		if got, ok := again.Find(id); !ok || got.Status != Done {
			t.Fatalf("%q: %q was marked and is %+v", data, id, got)
		}
	})
}

// large is a plan of n tasks, each of which depends on two before.
func large(name string, n int) string {
	var b strings.Builder
	dep := func(i, back int) string { return fmt.Sprintf("T-%d", max(0, i-back)) }
	switch name {
	case prdFile:
		b.WriteString("{\"project\": \"large\",\n\"userStories\": [\n")
	case loopFile:
		b.WriteString("name: large\ntasks:\n")
	}
	for i := range n {
		a, c := dep(i, 1+i%7), dep(i, 2+i%13)
		deps := []string{a, c}
		if i == 0 {
			deps = nil
		} else if a == c {
			deps = deps[:1]
		}
		switch name {
		case prdFile:
			list := strings.Join(deps, `", "`)
			if list != "" {
				list = `"` + list + `"`
			}
			fmt.Fprintf(&b, "  {\n    \"id\": \"T-%d\",\n    \"title\": \"Do the thing number %d\",\n    \"description\": \"As a user I want it so that it is there\",\n    \"acceptanceCriteria\": [\"it works\", \"it is tested\"],\n    \"priority\": %d,\n    \"dependsOn\": [%s],\n    \"passes\": false,\n    \"notes\": \"\"\n  }", i, i, i%5, list)
			if i < n-1 {
				b.WriteString(",")
			}
			b.WriteString("\n")
		case loopFile:
			fmt.Fprintf(&b, "  - task_id: T-%d\n    name: Do the thing number %d\n    description: As a user I want it so that it is there\n    acceptance_criteria: [it works, it is tested]\n    dependencies: [%s]\n    priority_score: 0.5\n    status: pending\n", i, i, strings.Join(deps, ", "))
		default:
			fmt.Fprintf(&b, "- [ ] **T-%d** Do the thing number %d\n  - status: pending\n  - priority: %d\n", i, i, i%5)
			if deps != nil {
				fmt.Fprintf(&b, "  - after: %s\n", strings.Join(deps, ", "))
			}
		}
	}
	if name == prdFile {
		b.WriteString("]}\n")
	}
	return b.String()
}

// TestLarge: thousands of tasks are no burden; BenchmarkPlan has 10,000. The bounds are far above what a quiet
// machine needs, so that a busy one passes.
func TestLarge(t *testing.T) {
	for _, name := range []string{prdFile, loopFile, markdownFile} {
		root := write(t, map[string]string{name: large(name, 3_000)})
		tr := opened(t, root, name)
		timed := func(what string, do func() error) {
			began := time.Now()
			if err := do(); err != nil {
				t.Fatalf("%s: %s: %v", name, what, err)
			}
			took := time.Since(began)
			t.Logf("%s: %s: %v", name, what, took.Round(10*time.Microsecond))
			if took > time.Minute {
				t.Errorf("%s: %s took %v", name, what, took)
			}
		}
		var p *Plan
		first := func() (err error) { p, err = tr.Load(context.Background()); return err }
		timed("first load", first)
		timed("load again", first)
		timed("stamp", func() error { _, err := tr.Stamp(context.Background()); return err })
		timed("mark", func() error {
			return tr.Mark(context.Background(), "T-1500", Mark{Status: InProgress, Actor: "ralph/s/x"})
		})
		timed("load after it", first)
		timed("mark again", func() error {
			return tr.Mark(context.Background(), "T-1500", Mark{Status: Done})
		})
		timed("nodes", func() error { p.Nodes(); return nil })
		if err := first(); err != nil {
			t.Fatal(err)
		}
		if len(p.Tasks) != 3_000 || p.Tasks[1500].Status != Done {
			t.Errorf("%s: %d tasks, %+v", name, len(p.Tasks), p.Tasks[1500])
		}
	}
}

// TestMarkdownDetails: a task that is written and read again says the same.
func TestMarkdownDetails(t *testing.T) {
	d := markdown.Parse([]byte("# Tasks\n"))
	in := markdown.Task{ID: "T-1", Title: "one", Kind: "bug", Epic: "EPIC-1", Labels: []string{"a", "b"}, Description: "why it matters", Check: "make test"}
	if _, err := d.Add(in, "T"); err != nil {
		t.Fatal(err)
	}
	got := markdown.Parse(d.Bytes()).Tasks()[0]
	got.Line, got.Status, got.Explicit, got.StatusLine = 0, "", false, false
	if d := cmp.Diff(in, got); d != "" {
		t.Error(d)
	}
}

// TestMarkBack: a mark that puts back what earlier ones changed leaves every byte of a
// Markdown plan as it was, whatever its form.
func TestMarkBack(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"- [ ] T-1 one\n", "- [ ] **T-1** one", "- [ ] **T-1** one\r\n  - status: pending\r\n  - note: mine\r\n", "* [ ] T-1: one\n\t- Agent: claude\n\t- [ ] a step\n",
		"- [ ] **T-1** one\n  - status: failed\n  - result: no\n\ntext\n", "## T-1: one\n\nWhy.\n\n- [ ] a criterion\n", "## T-1: one\n- status: pending\n- result: old\n", "- [ ] T-1 one\n  more of it\n- [ ] T-2 two\n",
		"1. [ ] T-1 one\n2. [ ] T-2 two\n", "| id | title | status |\n|---|---|---|\n| T-1 | one | pending |\n",
	} {
		for _, over := range []Status{Done, Failed, Skipped} {
			b := fileBook{place{fs: afero.NewMemMapFs(), abs: "/p/x.md", rel: "x.md", root: "/p"}}
			if err := afero.WriteFile(b.fs, b.abs, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			tr := &markdownTracker{place: b.place, book: b}
			p, err := tr.Load(t.Context())
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			was, _ := p.Find("T-1")
			kept := was.Kept()
			for _, m := range []Mark{{Status: InProgress, Actor: "ralph/001"}, {Status: over, Result: "it is so"}, {Status: was.Status, Back: &kept}} {
				if err := tr.Mark(t.Context(), "T-1", m); err != nil {
					t.Fatalf("%q: %v", text, err)
				}
			}
			if got, _ := afero.ReadFile(b.fs, b.abs); string(got) != text {
				t.Errorf("%s: %q became %q", over, text, got)
			}
		}
	}
}
