package scripts

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ralph/coordinator/result"
	"ralph/workers/agent"
	"ralph/workers/git"
)

func TestParseScript(t *testing.T) {
	t.Parallel()
	text := "\uFEFF# a comment\r\n\r\n  first line  \r\nsecond\\\nhalf\\\\\n& beside it\n&also\n\\# literal\n\\expect this\n& \\wait for it\n" +
		"expect ok \\\n  && turns > 1\nwait exists(\"x within 3s\")\nwait ok within 1m30s\n/usr/file is a path\n//x\n/run --parallel 2\n@fix: hello\n!ls -l\n/"
	got, bad := parseScript(text, scriptExprs{})
	if len(bad) > 0 {
		t.Fatalf("%+v", bad)
	}
	type short struct {
		Line   int
		Verb   scriptVerb
		Text   string
		Within time.Duration
	}
	want := []short{
		{3, verbSay, "first line", 0}, {4, verbSay, "second\nhalf\\\\", 0}, {6, verbBeside, "beside it", 0}, {7, verbBeside, "also", 0},
		{8, verbSay, "# literal", 0}, {9, verbSay, "expect this", 0}, {10, verbBeside, "wait for it", 0},
		{11, verbExpect, "ok \n  && turns > 1", 0}, {13, verbWait, `exists("x within 3s")`, waitWithin}, {14, verbWait, "ok", 90 * time.Second},
		{15, verbSay, "/usr/file is a path", 0}, {16, verbSay, "//x", 0}, {17, verbSay, "/run --parallel 2", 0}, {18, verbSay, "@fix: hello", 0}, {19, verbSay, "!ls -l", 0}, {20, verbSay, "/", 0},
	}
	var have []short
	for _, s := range got {
		have = append(have, short{s.line, s.verb, s.text, s.within})
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
}

func FuzzParseScript(f *testing.F) {
	for _, s := range []string{"hello\nexpect ok", "& x\nwait ok within 3s\n/exit", "\\", "a\\\n", "expect \\\n(", "# c\n\x00", "/statsu", "wait within 3s", "&\\&", "/run --x 'y", "expect file(\"x\")[0].y", "expect " + strings.Repeat("(", 70)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, bad := parseScript(text, scriptExprs{root: t.TempDir()})
		if (len(list) > 0) == (len(bad) > 0) {
			t.Fatalf("%d statements and %d mistakes of %q", len(list), len(bad), text)
		}
		lines := strings.Count(text, "\n") + 1
		at := 0
		for _, s := range list {
			if s.line <= at || s.line > lines || (s.expr == nil) != (s.verb == verbSay || s.verb == verbBeside) || s.expr == nil && strings.TrimSpace(s.text) == "" || s.verb == verbWait && s.within <= 0 {
				t.Fatalf("statement %+v after line %d of %q", s, at, text)
			}
			at = s.line
		}
		for _, b := range bad {
			if b.line < 1 || b.line > lines || b.text == "" || strings.Contains(b.text, "\n") {
				t.Fatalf("mistake %+v of %q", b, text)
			}
		}
	})
}

// whole is a result document with something everywhere.
func whole() Result {
	text, code, after, cost := "text", 503, 1.5, 0.25
	return Result{
		Type: "result", Schema: ResultSchema, Status: "failed", ExitCode: 1, Reason: "why", Result: &text, Structured: json.RawMessage(`{"a":[1]}`), RunID: "r",
		SessionID: &text, ProjectRoot: &text, StateFiles: []string{"a"}, Model: &text, Provider: &text, StartedAt: time.Unix(1, 0), DurationMS: 7, APIMS: 3, Turns: 2,
		Usage: agent.Usage{Total: 12, Estimated: true}, CostUSD: &cost, ToolCalls: result.ToolCount{Total: 1}, Files: []FileChange{{"a.go", "added", 1, -1}},
		Commands: []Command{{"ls", 0, 5, false}}, Commits: []string{"c"}, Denials: []result.Denial{{Tool: "shell", Args: json.RawMessage(`{"x":1}`), Rule: "r"}},
		Children: []Child{{ID: "fix", Result: &text}}, Messages: []Message{{"m-1", "steer", "delivered"}}, Check: &result.Check{Command: "make", ExitCode: 2, Source: "flag", Tree: "worktree"},
		Error: &Failure{Kind: "io", Message: "m", HTTPStatus: &code, RetryAfter: &after}, Warnings: []string{"w"}, LogFile: &text,
	}
}

// What an expression sees is the document, field by field, and each name that it
// may use has a value of its type.
func TestScriptNamesAreTheDocument(t *testing.T) {
	t.Parallel()
	doc := whole()
	line, err := doc.encode()
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	if err := json.Unmarshal(line, &want); err != nil {
		t.Fatal(err)
	}
	env, _ := exprOf(reflect.ValueOf(doc)).(map[string]any)
	data, err := json.Marshal(env)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	delete(got, "script")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	env["output"], env["question"], env["mode"], env["state"] = "", "", "autonomous", "idle"
	env["waiting"], env["agents"] = []any{}, []any{}
	for name := range scriptNames() {
		if _, ok := env[name]; !ok {
			t.Errorf("%s has no value", name)
		}
		e, err := scriptExprs{}.compile(name + " == " + name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if ok, err := e.holds(env); err != nil || !ok {
			t.Errorf("%s == %[1]s is %v, %v", name, ok, err)
		}
	}
}

func TestScriptExpressions(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.txt"), []byte("in a\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	x := scriptExprs{root: root}
	env, _ := exprOf(reflect.ValueOf(whole())).(map[string]any)
	env["output"] = "said"
	null, _ := exprOf(reflect.ValueOf(Result{})).(map[string]any)
	for _, c := range []struct {
		source string
		env    map[string]any
		want   string // true, false, or a part of the error
	}{
		{`status == "failed" && exit_code == 1 && not ok`, env, "true"},
		{`usage.total == 12 && usage.total / 5 == 2.4 && cost_usd < 0.3 && duration_ms == 7`, env, "true"},
		{`files_changed[0].path == "a.go" && any(files_changed, .added == 1 && .kind == "added")`, env, "true"},
		{`error.kind == "io" && error.http_status >= 500 && check.exit_code == 2 && structured.a[0] == 1`, env, "true"},
		{`result contains "tex" && result matches "^t" && children[0].id == "fix" && tool_calls.total == 1`, env, "true"},
		{`file("a.txt") == "in a\n" && exists("a.txt") && !exists("b") && exists("` + root + `/a.txt")`, env, "true"},
		{`output startsWith "sa" && len(commits) == 1 && "c" in commits`, env, "true"},
		{`result == nil && error == nil && cost_usd == nil && len(files_changed) == 0 && check == nil`, null, "true"},
		{`error != nil && error.kind == "io"`, null, "false"},
		{`error?.kind == "io"`, null, "false"},
		{`error.kind == "io"`, null, "cannot fetch kind from <nil>"},
		{`result contains "x"`, null, "false"},
		{`file("b") == ""`, env, `read "b": no such file`},
		{`file(".") == ""`, env, `read ".": is not a file`},
		{`turns / 0 > 1`, env, "division by zero"},
		{`files_changed[3].path == ""`, env, "out of range"},
	} {
		e, err := x.compile(c.source)
		if err != nil {
			t.Errorf("%s: %v", c.source, err)
			continue
		}
		got, err := e.holds(c.env)
		text := fmt.Sprint(got)
		if err != nil {
			text = err.Error()
		}
		if !strings.Contains(text, c.want) || strings.Contains(text, "\n") {
			t.Errorf("%s: %s, want %s", c.source, text, c.want)
		}
	}
	for source, want := range map[string]string{
		`statu == "x"`: "column 1: unknown name statu; did you mean", `nothing > 1`: "known are agents, ", `usage.totl > 1`: "unknown field totl", `files_changed[0].pth == ""`: "unknown field pth",
		`turns`: "expected bool", `status == 3`: "mismatched types", `file() == ""`: "not enough arguments", `exists(3)`: "cannot use int", `ok &&`: "unexpected token EOF", ``: "missing",
		strings.Repeat("[", 65) + strings.Repeat("]", 65) + " == 1": "nested deeper", `"` + strings.Repeat("x", 5000) + `" == ""`: "longer than", `status / 2 > 1`: "",
	} {
		if _, err := x.compile(source); want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want %s", source, err, want)
		}
	}
}

// What a false expectation tells are the parts that it is made of.
func TestScriptValues(t *testing.T) {
	t.Parallel()
	env, _ := exprOf(reflect.ValueOf(whole())).(map[string]any)
	x := scriptExprs{root: t.TempDir()}
	for source, want := range map[string]string{
		`status == "x" || usage.total / 2 > 100 && exists("y")`: `exists("y") = false, status = "failed", usage.total = 12`,
		`files_changed[0].path == ""`:                           `files_changed[0].path = "a.go"`,
		`any(files_changed, .path == result)`:                   `files_changed = [{"added":1,"kind":"added","path":"a.go","removed":-1}], result = "text"`,
		`error?.kind == "x"`:                                    `error?.kind = "io"`,
		`len(commits) > 1`:                                      `commits = ["c"], len(commits) = 1`,
		`file("none") == ""`:                                    ``,
		`1 > 2`:                                                 ``,
	} {
		e, err := x.compile(source)
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		if got := shownValues(e.values(x, env)); got != want {
			t.Errorf("%s: %s, want %s", source, got, want)
		}
	}
	env["output"] = strings.Repeat("long ", 1000)
	e, err := x.compile(`output == ""`)
	if err != nil {
		t.Fatal(err)
	}
	if got := shownValues(e.values(x, env)); len(got) > 2*maxShownValue {
		t.Errorf("%d bytes of %s", len(got), got)
	}
}

func TestAddOutcome(t *testing.T) {
	t.Parallel()
	cost := func(c float64) *float64 { return &c }
	r := newResult("r", time.Now())
	r.addOutcome(result.Outcome{Status: result.Completed, Answer: "one", Turns: 2, Usage: agent.Usage{Total: 10}, CostUSD: cost(0.5),
		FilesChanged: []git.FileChange{{Path: "a", Kind: git.Added, Added: 3}, {Path: "b", Kind: git.Deleted, Removed: 1}, {Path: "bin", Kind: git.Modified, Added: -1, Removed: -1}},
		Commands:     []agent.CommandRun{{Command: "x"}}, Commits: []string{"1"}, StateFiles: []string{"s"}, ToolCalls: result.ToolCount{Total: 2, Failed: 1}})
	r.addOutcome(result.Outcome{Status: result.Failed, Reason: "no", Turns: 1, Usage: agent.Usage{Total: 5}, CostUSD: cost(0.25),
		FilesChanged: []git.FileChange{{Path: "a", Kind: git.Modified, Added: 1, Removed: 1}, {Path: "b", Kind: git.Added, Added: 2}, {Path: "bin", Kind: git.Modified, Added: 4}},
		Commands:     []agent.CommandRun{{Command: "y"}}, StateFiles: []string{"s", "t"}, ToolCalls: result.ToolCount{Total: 1}})
	want := []FileChange{{"a", "added", 4, 1}, {"b", "modified", 2, 1}, {"bin", "modified", -1, -1}}
	if r.Turns != 3 || r.Usage.Total != 15 || r.CostUSD == nil || *r.CostUSD != 0.75 || !slices.Equal(r.Files, want) || len(r.Commands) != 2 || r.ToolCalls.Total != 3 ||
		!slices.Equal(r.StateFiles, []string{"s", "t"}) || r.Status != result.Failed || r.Result != nil || !slices.Equal(r.Commits, []string{"1"}) {
		t.Errorf("%+v", r)
	}
	r.addOutcome(result.Outcome{Status: result.Completed, Usage: agent.Usage{Total: 1}})
	if r.CostUSD != nil || r.Usage.Total != 16 || !r.OK || r.Error != nil {
		t.Errorf("a cost that is not known is told as %v; %+v", r.CostUSD, r)
	}
	r.addOutcome(result.Outcome{Status: result.Completed, Usage: agent.Usage{Total: 1}, CostUSD: cost(1)})
	if r.CostUSD != nil {
		t.Errorf("a part of the cost passes for all of it: %v", *r.CostUSD)
	}
}
