package work_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/afero"

	"ralph/coordinator/plan"
	"ralph/coordinator/prompt/work"
)

// full has something in every field.
func full() work.Facts {
	return work.Facts{
		Task: work.Task{
			ID: "US-003", Title: "Log in", Description: "As a user I log in.\n```\n## not a heading of ours\n```",
			Criteria: []work.Criterion{{Text: "a wrong password is refused"}, {Text: "tests pass", Done: true}},
			Kind:     "feature", Phase: "p1", Epic: "EPIC-1", Labels: []string{"auth"}, Priority: 1, Check: "go test ./auth",
			Files: []string{"auth/login.go"}, Inputs: []string{"docs/auth.md"}, Outputs: []string{"auth/session.go"}, Metrics: []string{"99 % of logins work"},
			Notes: "mind the cookies", System: "work test first", Prompt: "use bcrypt", Fallback: "leave a stub page",
		},
		Plan: work.Plan{Name: "Shop", Description: "A shop for hats.", Branch: "shop", Tracker: "json", Path: "prd.json", Done: 2, Total: 7}, Phase: "implementation",
		Iteration: 4, Attempt: 2, Attempts: 3,
		LastChecks:  []work.Check{{Command: "go test ./auth", ExitCode: 1, Output: "FAIL: TestLogin"}},
		LastProblem: "the agent gave up", LastAnswer: "I could not find the store",
		Dependencies: []work.Dependency{{ID: "US-001", Title: "Store", Result: "made store.go", Commit: "abc123", Files: []string{"store.go"}}},
		Checks:       []string{"go test ./auth", "make lint"}, Gates: []work.Gate{{Name: "coverage", Condition: "coverage >= 80", Check: "make cover"}},
		Guidance: []string{"use the blue one"}, Progress: "- US-001 done", Learned: "the store is slow", OwnTree: true,
	}
}

func TestWorkTellsEverything(t *testing.T) {
	text, err := work.Render(full(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Task US-003: Log in", "Plan: Shop (2 of 7 tasks are done)", "Phase: implementation", "Attempt: 2 of 3", "A shop for hats.",
		"````markdown\nAs a user I log in.\n```\n## not a heading of ours\n```\n````",
		"- [ ] a wrong password is refused\n- [x] tests pass", "Stay within: auth/login.go", "docs/auth.md", "auth/session.go", "99 % of logins", "mind the cookies",
		"work test first", "use bcrypt", "leave a stub page", "- US-001 Store (commit abc123), changed: store.go\n```result\nmade store.go\n```",
		"```sh\ngo test ./auth\n```\n```sh\nmake lint\n```", "coverage: coverage >= 80 (check: make cover)", "the agent gave up", "exited with 1", "FAIL: TestLogin",
		"I could not find the store", "use the blue one", "the store is slow", "- US-001 done", "You work in a tree of your own", "call finish with status done",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the prompt lacks %q", want)
		}
	}
	if strings.Contains(text, "promise") || strings.Contains(text, "\n\n\n") {
		t.Errorf("a promise or a gap in it:\n%s", text)
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestWorkOfABareTask(t *testing.T) {
	text, err := work.Render(work.Facts{Task: work.Task{ID: "T-1", Title: "Mend\nit"}, External: true}, "")
	if err != nil || !strings.HasPrefix(text, "Task T-1: Mend it\n") || len(text) > 900 || strings.Contains(text, "```") || strings.Contains(text, "\n\n\n") {
		t.Errorf("a bare task (%d bytes, %v):\n%s", len(text), err, text)
	}
	if !strings.Contains(text, "\n"+work.Promise+"\n") || strings.Contains(text, "call finish") {
		t.Errorf("an external agent is told the wrong end:\n%s", text)
	}
}

func TestWorkIsBounded(t *testing.T) {
	f := full()
	long := strings.Repeat("日本語 line\n", 100_000)
	f.Task.Description, f.Progress, f.Learned, f.LastAnswer, f.LastProblem, f.Plan.Description = long, long, long, long, "first\n"+long+"\nlast", long
	f.LastChecks = []work.Check{{Command: "x", Output: "begin\n" + long + "the end\n"}}
	f.Dependencies = make([]work.Dependency, 10_000)
	text, err := work.Render(f, "")
	if err != nil || len(text) > 200_000 {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	for _, want := range []string{"cut off here: it has", "begin\n", "the end\n", "first\n", "last\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q", want)
		}
	}
	if strings.ContainsRune(text, '\ufffd') {
		t.Error("a character was cut in two")
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "prompt.tmpl")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCustomTemplate(t *testing.T) {
	for name, x := range map[string]struct{ text, want string }{
		"fields":    {"\ufeffDo {{.Task.ID}}: {{.Task.Title}}\r\n{{range .Task.Criteria}}* {{.Text}}\r\n{{end}}", "Do US-003: Log in\n* a wrong password is refused\n* tests pass"},
		"variables": {`{{$t := .Task}}{{range $i, $c := .Task.Criteria}}{{$i}} {{$c.Done}} {{$t.ID}} {{$.Plan.Name}};{{end}}`, "0 false US-003 Shop;1 true US-003 Shop;"},
		"define":    {`{{define "c"}}<{{.Text}}>{{end}}{{range .Task.Criteria}}{{template "c" .}}{{end}}`, "<a wrong password is refused><tests pass>"},
		"functions": {`{{fence "x" .Task.Notes}} {{join .Checks "+"}} {{len .Gates}} {{(index .Gates 0).Name}}`, "```x\nmind the cookies\n``` go test ./auth+make lint 1 coverage"},
		"else":      {`{{with .Task.Labels}}{{join . ","}}{{else}}{{.Task.ID}}{{end}}`, "auth"},
	} {
		got, err := work.Render(full(), write(t, x.text))
		if err != nil || got != x.want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, x.want)
		}
	}
	if text, err := work.Render(full(), write(t, work.Default())); err != nil || !strings.Contains(text, "Task US-003") {
		t.Errorf("the default as a file of one's own: %v", err)
	}
}

func TestTemplateErrors(t *testing.T) {
	for name, x := range map[string]struct {
		text, want string
		line       int
	}{
		"unknown":           {"a\n{{.Task.Titel}}", `unknown variable ".Task.Titel"; did you mean ".Task.Title"?`, 2},
		"unknown top":       {"{{.Tasks}}", `unknown variable ".Tasks"; did you mean ".Task"?`, 1},
		"in a dead branch":  {"a\n\n{{if .External}}{{.Nope}}{{end}}", `unknown variable ".Nope"`, 3},
		"in an empty range": {"{{range .Guidance}}\n{{.Text}}{{end}}", `unknown variable ".Text": a string has no parts`, 2},
		"in else":           {"{{with .Task.ID}}x{{else}}\n{{.Foo}}{{end}}", `unknown variable ".Foo"`, 2},
		"of a variable":     {"{{range $d := .Dependencies}}\n{{$d.Titel}}{{end}}", `".Titel"; did you mean ".Title"?`, 2},
		"of a chain":        {"{{(.Task).Nam}}", `unknown variable ".Nam"`, 1},
		"in a definition":   {"{{define \"x\"}}{{.Nope}}{{end}}\n{{template \"x\" .Task}}", `unknown variable ".Nope"`, 1},
		"syntax":            {"ok\n{{if}}", "missing value for if", 2},
		"never closed":      {"{{if .External}}\nx", "unexpected EOF", 2},
		"function":          {"{{exec `rm`}}", `function "exec" not defined`, 1},
		"at run time":       {"x\n{{index .Checks 99}}", "out of range", 2},
		"no template":       {`{{template "x"}}`, `"x" not defined`, 1},
		"empty":             {" \n", "is empty", 0},
		"renders nothing":   {"{{if .External}}x{{end}}", "renders nothing", 0},
		"binary":            {"a\x00b", "is no text", 0},
		"latin-1":           {"caf\xe9", "is no text", 0},
		"endless":           {`{{define "a"}}{{template "b" .}}{{template "b" .}}{{end}}{{define "b"}}{{range .Checks}}{{range $.Checks}}{{$.Learned}}{{end}}{{end}}{{end}}{{range .Checks}}{{template "a" $}}{{end}}`, "", -1},
		"too much":          {strings.Repeat("x", 70_000), "65536 is the most", 0},
	} {
		f := full()
		f.Learned = strings.Repeat("long ", 800)
		for range 40 {
			f.Checks = append(f.Checks, "x")
		}
		path := write(t, x.text)
		_, err := work.Render(f, path)
		var te *work.TemplateError
		if !errors.As(err, &te) {
			t.Errorf("%s: %v is no template error", name, err)
			continue
		}
		if x.line >= 0 && (te.Line != x.line || te.Path != path) || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: line %d, %v; want line %d, %q", name, te.Line, err, x.line, x.want)
		}
	}
	if err := work.CheckTemplate(write(t, "{{if .External}}{{.Nope}}{{end}}")); err == nil {
		t.Error("CheckTemplate misses an unknown variable")
	}
	if err := work.CheckTemplate(""); err != nil {
		t.Errorf("the default: %v", err)
	}
}

func TestTemplateFiles(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for path, want := range map[string]string{filepath.Join(dir, "none"): "no such file", dir: "is a directory", fifo: "no regular file"} {
		if _, err := work.Render(full(), path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	if _, err := work.Render(full(), filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file is %v", err)
	}
	if time.Since(began) > 5*time.Second {
		t.Error("a pipe was waited for")
	}
}

// Every field is documented, and everything that is documented is there.
func TestWorkVariables(t *testing.T) {
	told := map[string]bool{}
	for _, v := range work.Variables() {
		told[v.Name] = true
		if _, err := work.Render(full(), write(t, "x{{"+v.Name+"}}")); err != nil {
			t.Errorf("%s is documented and cannot be used: %v", v.Name, err)
		}
	}
	var walk func(at string, of reflect.Type)
	walk = func(at string, of reflect.Type) {
		for i := range of.NumField() {
			f := of.Field(i)
			if name := at + "." + f.Name; f.Type.Kind() == reflect.Struct {
				walk(name, f.Type)
			} else if !told[name] {
				t.Errorf("%s is not documented", name)
			}
		}
	}
	walk("", reflect.TypeFor[work.Facts]())
}

func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"{{.Task.ID}}", "{{range .Checks}}{{.}}{{end}}", "{{$x := .Task}}{{$x.ID}}", "{{with $y := .Plan}}{{$y}}{{end}}", "{{if", "{{(((.Task))).ID}}", "{{define \"a\"}}{{template \"a\" .}}{{end}}{{template \"a\" .}}"} {
		f.Add(s)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, s string) {
		path := filepath.Join(dir, "t")
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Skip()
		}
		text, err := work.Render(full(), path)
		var te *work.TemplateError
		if err != nil && !errors.As(err, &te) || err == nil && (text == "" || len(text) > 1<<20) {
			t.Errorf("%q, %v", text, err)
		}
	})
}

func TestSurroundings(t *testing.T) {
	fs := afero.NewMemMapFs()
	if p, l, err := work.Surroundings(fs, "/p"); p+l != "" || err != nil {
		t.Errorf("an empty project: %q %q %v", p, l, err)
	}
	_ = afero.WriteFile(fs, "/p/RALPH_PROGRESS.md", []byte("newest\n"+strings.Repeat("old\n", 5000)), 0o644)
	_ = afero.WriteFile(fs, "/p/AGENT.md", []byte(strings.Repeat("old\n", 5000)+"newest\n"), 0o644)
	p, l, err := work.Surroundings(fs, "/p")
	if err != nil || !strings.HasPrefix(p, "newest\n") || !strings.HasSuffix(l, "old\nnewest\n") || len(p) > 4096 || len(l) > 4096 {
		t.Errorf("%d %d %v", len(p), len(l), err)
	}
}

func TestWorkOf(t *testing.T) {
	p := &plan.Plan{Path: "prd.json", Tracker: "json", Phases: []plan.Phase{{ID: "p1", Name: "Build it"}},
		Gates: []plan.Gate{{Name: "all", Check: "make"}, {Name: "other", Task: "B", Check: "x"}, {Name: "mine", Task: "A", Condition: "a > 1"}},
		Tasks: []plan.Task{{ID: "E", Kind: "epic"}, {ID: "D", Title: "before", Status: plan.Done, Result: "made it"}, {ID: "F", Status: plan.Failed},
			{ID: "A", Phase: "p1", After: []string{"D", "F"}, Check: "go test", Criteria: []plan.Criterion{{Text: "c", Done: true}}}}}
	w := work.Of(p, p.Tasks[3], "make check", "go test")
	if w.Plan.Name != "prd.json" || w.Plan.Done != 1 || w.Plan.Total != 3 || w.Phase != "Build it" || len(w.Gates) != 1 || strings.Join(w.Checks, "|") != "go test|make check|make" ||
		len(w.Dependencies) != 1 || w.Dependencies[0].Result != "made it" || !w.Task.Criteria[0].Done {
		t.Errorf("%+v", w)
	}
}

func TestPlanCreate(t *testing.T) {
	text, err := work.Create(work.CreateFacts{About: "a ```shop```", Target: "prd.md", Check: "go test ./...", Project: "A Go module.", Exists: true})
	for _, want := range []string{"````user\na ```shop```\n````", "write prd.md, which is there already", "- `go test ./...`", "A Go module.", "ralph plan convert prd.md --to json", "Ask before you write"} {
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("it lacks %q (%v):\n%s", want, err, text)
		}
	}
	if text, err := work.Create(work.CreateFacts{Target: "prd.md"}); err != nil || !strings.Contains(text, "ask that first") {
		t.Errorf("%v:\n%s", err, text)
	}
}
