package demo_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"ralph/scripts/demo"
	"ralph/workers/model/modeltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// replies is what the model says in the demonstration; RALPH_TEST_UPDATE=1
// records it anew.
func replies() []modeltest.Reply {
	return []modeltest.Reply{
		modeltest.Calls(
			modeltest.Call{Name: "task", Args: `{"title":"Make the test of package slug pass","status":"in_progress","check":"go test ./..."}`},
			modeltest.Call{Name: "shell", Args: `{"command":"go test ./..."}`},
		).Saying("I run the test first, to see what fails."),
		modeltest.Calls(
			modeltest.Call{Name: "read", Args: `{"path":"slug.go"}`},
			modeltest.Call{Name: "read", Args: `{"path":"slug_test.go"}`},
		).Saying("Runs of blanks and tabs come out wrong. I look at the code and its test side by side."),
		modeltest.Calls(
			modeltest.Call{Name: "edit", Args: `{"path":"slug.go","old_string":"strings.ReplaceAll(strings.ToLower(title), \" \", \"-\")","new_string":"strings.Join(strings.Fields(strings.ToLower(title)), \"-\")"}`},
		).Saying("`ReplaceAll` makes a dash of every single blank and knows no tabs. `strings.Fields` splits at any run of white space, also at both ends."),
		modeltest.Calls(
			modeltest.Call{Name: "shell", Args: `{"command":"go test ./... && gofmt -l ."}`},
		),
		modeltest.Calls(
			modeltest.Call{Name: "git", Args: `{"action":"commit","message":"slug: split at any run of white space","paths":["slug.go"]}`},
			modeltest.Call{Name: "task", Args: `{"id":"T-1","status":"done","result":"all tests of package slug pass"}`},
			modeltest.Call{Name: "learn", Args: `{"type":"bug","what":"slug.Make left runs of blanks as runs of dashes","why":"it replaced each blank on its own","how":"strings.Fields and strings.Join","learning":"split with strings.Fields where white space comes in runs"}`},
			modeltest.Call{Name: "todo", Args: `{"action":"add","text":"decide what slug.Make does with punctuation"}`},
		),
		modeltest.Text("The test passes, and the fix is committed.\n\n" +
			"- **Cause:** `Make` replaced each blank on its own, so runs of blanks became runs of dashes, and tabs stayed.\n" +
			"- **Fix:** it splits at any run of white space with `strings.Fields` and joins the words with dashes.\n" +
			"- **Left:** nothing says yet what becomes of punctuation; that is in the to-do list."),
	}
}

func TestRecord(t *testing.T) {
	if os.Getenv("RALPH_TEST_UPDATE") == "" {
		t.Skip("the recording is made with RALPH_TEST_UPDATE=1 (make update)")
	}
	srv := modeltest.New(t, replies()...)
	if err := os.Remove("cassette.yaml"); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if code, err := demo.Run(t.Context(), demo.Options{Stdout: &out, RunID: "r-record", Record: "cassette.yaml", BaseURL: srv.URL()}); code != 0 || err != nil {
		t.Fatalf("code %d: %v\n%s", code, err, &out)
	}
}

// play runs the demonstration and returns what it printed.
func play(t *testing.T, o demo.Options) (string, int, error) {
	t.Helper()
	var out bytes.Buffer
	t.Setenv("TMPDIR", t.TempDir())
	o.Stdout, o.RunID = &out, "r-test"
	code, err := demo.Run(t.Context(), o)
	return out.String(), code, err
}

func TestDemo(t *testing.T) {
	out, code, err := play(t, demo.Options{})
	if code != 0 || err != nil {
		t.Fatalf("code %d: %v\n%s", code, err, out)
	}
	for _, want := range []string{"replies are recorded", "slug: split at any run of white space", "RALPH_TASKS.md", "status: done", "AGENT.md", "completed in"} {
		if !strings.Contains(out, want) {
			t.Errorf("the demonstration does not show %q:\n%s", want, out)
		}
	}
}

func TestDemoFailsWhenAReplyIsChanged(t *testing.T) {
	tape, err := os.ReadFile("cassette.yaml")
	if err != nil {
		t.Fatal(err)
	}
	changes := map[string][2]string{
		"a wrong fix":      {"strings.Join(strings.Fields(strings.ToLower(title))", "strings.Join(strings.Fields(strings.ToUpper(title))"},
		"another file":     {`slug_test.go`, `slug_text.go`},
		"no commit":        {"paths:\n        - slug.go", "paths:\n        - README.md"},
		"another command":  {`gofmt -l .`, `gofmt -d slug_test.go go.mod`},
		"no such old text": {`strings.ReplaceAll(`, `strings.Replace(`},
	}
	for name, c := range changes {
		t.Run(name, func(t *testing.T) {
			changed := bytes.Replace(tape, []byte(c[0]), []byte(c[1]), 1)
			if bytes.Equal(changed, tape) {
				t.Fatalf("the recording does not hold %q", c[0])
			}
			if out, code, err := play(t, demo.Options{Cassette: changed}); code == 0 || err == nil {
				t.Errorf("the demonstration went well:\n%s", out)
			}
		})
	}
}

func TestDemoFailsWhenTheBugIsAnother(t *testing.T) {
	project := map[string]string{}
	for _, name := range []string{"go.mod", "slug.go", "slug_test.go", "README.md"} {
		text, err := os.ReadFile("project/" + name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		project[name] = string(text)
	}
	if out, code, err := play(t, demo.Options{Project: project}); code != 0 || err != nil {
		t.Fatalf("the demonstration does not even work with its own project: %v\n%s", err, out)
	}
	project["slug.go"] = strings.Replace(project["slug.go"], "strings.ToLower(title)", "strings.ToUpper(title)", 1)
	out, code, err := play(t, demo.Options{Project: project})
	if code == 0 || err == nil {
		t.Fatalf("the demonstration mends a bug that it does not know:\n%s", out)
	}
	left, err := os.ReadDir(os.TempDir())
	if err != nil || len(left) != 0 {
		t.Errorf("a failed demonstration leaves %v behind (%v)", left, err)
	}
}
