package demo

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"ralph/workers/exec"
	"ralph/workers/model/modeltest"
)

func TestMain(m *testing.M) {
	exec.Init()
	_ = os.Setenv("GOFLAGS", "") // as main does; a flag such as -v changes what the commands print
	goleak.VerifyTestMain(m)
}

// replies is what each agent says in the demonstration, one reply after the
// other; RALPH_TEST_UPDATE=1 records it anew.
func replies() map[string][]modeltest.Reply {
	return map[string][]modeltest.Reply{
		"ralph": {
			modeltest.Calls(
				modeltest.Call{Name: "task", Args: `{"title":"Make the tests of slug pass","status":"in_progress","check":"go test ./slug"}`},
				modeltest.Call{Name: "task", Args: `{"title":"Make the tests of count pass","status":"in_progress","check":"go test ./count"}`},
				modeltest.Call{Name: "task", Args: `{"title":"Make the tests of wrap pass","status":"in_progress","check":"go test ./wrap"}`},
				modeltest.Call{Name: "spawn_agents", Args: `{"agents":[` +
					`{"name":"fix_slug","task":"slug: split titles at any run of white space\n\nThe test of ./slug fails. Find out why and mend slug/slug.go.","check":"go test ./slug"},` +
					`{"name":"fix_count","task":"count: count words only\n\nThe test of ./count fails. Find out why and mend count/count.go.","check":"go test ./count"},` +
					`{"name":"fix_wrap","task":"wrap: come to an end with every text\n\nThe test of ./wrap does not pass. Find out why and mend wrap/wrap.go.","check":"go test ./wrap"}]}`},
			).Saying("The three packages do not need each other: one agent for each."),
			modeltest.Text("All three are at work. I wait for them."),
			modeltest.Text("Three agents were mending the tests. `fix_slug` and `fix_count` are done, their work is merged. `fix_wrap` was running `go test ./wrap`, which had not ended; its change is not proven, and kept on its branch. `/resume fix_wrap` goes on with it."),
			modeltest.Calls(
				modeltest.Call{Name: "agent_status", Args: `{}`},
				modeltest.Call{Name: "shell", Args: `{"command":"go test ./..."}`},
			),
			modeltest.Calls(
				modeltest.Call{Name: "task", Args: `{"id":"T-1","status":"done","result":"by fix_slug"}`},
				modeltest.Call{Name: "task", Args: `{"id":"T-2","status":"done","result":"by fix_count"}`},
				modeltest.Call{Name: "task", Args: `{"id":"T-3","status":"done","result":"by fix_wrap"}`},
				modeltest.Call{Name: "learn", Args: `{"type":"bug","what":"wrap.Text never ended with a word longer than the line","why":"the loop did not move on where there was no blank","how":"such a word is broken","learning":"each round of a loop over a rest must take something from it"}`},
			),
			modeltest.Text("All tests pass, and each fix is a commit of its own. Nothing is left to do."),
		},
		"fix_slug": {
			modeltest.Calls(
				modeltest.Call{Name: "shell", Args: `{"command":"go test ./slug"}`},
				modeltest.Call{Name: "read", Args: `{"path":"slug/slug.go"}`},
			),
			modeltest.Calls(
				modeltest.Call{Name: "edit", Args: `{"path":"slug/slug.go","old_string":"strings.ReplaceAll(strings.ToLower(title), \" \", \"-\")","new_string":"strings.Join(strings.Fields(strings.ToLower(title)), \"-\")"}`},
				modeltest.Call{Name: "shell", Args: `{"command":"go test ./slug"}`},
			).Saying("Each single blank became a dash. Fields splits at any run of white space."),
			modeltest.Text("Make splits titles at any run of white space now; the test of slug passes."),
		},
		"fix_count": {
			modeltest.Calls(
				modeltest.Call{Name: "read", Args: `{"path":"count/count.go"}`},
				modeltest.Call{Name: "read", Args: `{"path":"count/count_test.go"}`},
			),
			modeltest.Calls(
				modeltest.Call{Name: "write", Args: `{"path":"count/count.go","content":"// Package count counts what a text is made of.\npackage count\n\nimport (\n\t\"strings\"\n\t\"unicode\"\n)\n\n// Words counts the words of a text; punctuation that stands alone is no word.\nfunc Words(text string) int {\n\tn := 0\n\tfor _, field := range strings.Fields(text) {\n\t\tif isWord(field) {\n\t\t\tn++\n\t\t}\n\t}\n\treturn n\n}\n\n// isWord says that a field has a letter or a digit in it.\nfunc isWord(field string) bool {\n\treturn strings.ContainsFunc(field, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })\n}\n"}`},
				modeltest.Call{Name: "edit", Args: `{"path":"CHANGELOG.md","old_string":"- first version","new_string":"- count: punctuation that stands alone is no word\n- first version"}`},
				modeltest.Call{Name: "shell", Args: `{"command":"go test ./count"}`},
			).Saying("I name it isWord, and add the line."),
			modeltest.Text("Words counts only fields with a letter or a digit; the helper is isWord, CHANGELOG.md has a line, the test of count passes."),
		},
		"fix_wrap": {
			modeltest.Calls(
				modeltest.Call{Name: "read", Args: `{"path":"wrap/wrap.go"}`},
				modeltest.Call{Name: "read", Args: `{"path":"wrap/wrap_test.go"}`},
			),
			modeltest.Calls(
				modeltest.Call{Name: "edit", Args: `{"path":"wrap/wrap.go","old_string":"strings.TrimSpace(text)","new_string":"strings.Join(strings.Fields(text), \" \")"}`},
				modeltest.Call{Name: "shell", Args: `{"command":"go test ./wrap"}`},
			).Saying("Runs of blanks have to become one. I mend that and run the test."),
			modeltest.Calls(
				modeltest.Call{Name: "edit", Args: `{"path":"wrap/wrap.go","old_string":"\t\t\trest = rest[at+1:]\n\t\t}\n","new_string":"\t\t\trest = rest[at+1:]\n\t\t} else {\n\t\t\tlines = append(lines, rest[:width])\n\t\t\trest = rest[width:]\n\t\t}\n"}`},
				modeltest.Call{Name: "shell", Args: `{"command":"go test ./wrap"}`},
			).Saying("Right: without a blank nothing is taken from the rest. I break such a word."),
			modeltest.Text("Text breaks words that are longer than a line, and makes one blank of a run; the test of wrap passes."),
		},
	}
}

// cast answers each agent by its own replies.
func cast(t *testing.T) func(modeltest.Request) modeltest.Reply {
	var mu sync.Mutex // guards left
	left := replies()
	name := regexp.MustCompile(`You are agent (\w+), one of several`)
	return func(r modeltest.Request) modeltest.Reply {
		who := "ralph"
		for _, m := range r.Messages {
			if f := name.FindStringSubmatch(m.Content); m.Role == "user" && f != nil {
				who = f[1]
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if len(left[who]) == 0 {
			t.Errorf("%s asks once more than expected: %s", who, r.Messages[len(r.Messages)-1].Content)
			return modeltest.Status(400, `{"error":{"message":"no more"}}`)
		}
		next := left[who][0]
		left[who] = left[who][1:]
		return next
	}
}

// What a stop leaves depends on how far each process was.
const ofTheStop = `- match: (?s)\A(?:interrupted, outcome unknown|ended after .*)\z
  with: (stopped)
- match: \d+ commands? ended(?:, \d+ killed)?, nothing is left running
  with: (at rest)
`

func TestRecord(t *testing.T) {
	if os.Getenv("RALPH_TEST_UPDATE") == "" {
		t.Skip("the recording is made with RALPH_TEST_UPDATE=1 (make update)")
	}
	srv := modeltest.New(t)
	srv.Handle(cast(t))
	if err := os.Remove("cassette.yaml"); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if code, err := Run(t.Context(), Options{Stdout: &out, RunID: "r-record", Dir: t.TempDir(), Record: "cassette.yaml", BaseURL: srv.URL()}); code != 0 || err != nil {
		t.Fatalf("code %d: %v\n%s", code, err, &out)
	}
	tape, err := os.ReadFile("cassette.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tape = bytes.Replace(tape, []byte("- pids\n"), []byte("- pids\n"+ofTheStop), 1)
	if err := os.WriteFile("cassette.yaml", tape, 0o644); err != nil {
		t.Fatal(err)
	}
}

// play runs the demonstration and returns what it printed.
func play(t *testing.T, o Options) (string, int, error) {
	t.Helper()
	var out bytes.Buffer
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	o.Stdout, o.RunID = &out, "r-test"
	code, err := Run(t.Context(), o)
	return out.String(), code, err
}

func TestDemo(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := newStage(Options{Stdout: &out, RunID: "r-test"}, top)
	code, err := s.perform(t.Context())
	if code != 0 || err != nil {
		t.Fatalf("code %d: %v\n%s", code, err, &out)
	}
	for _, want := range []string{"replies and the human's words are recorded", "wrap: come to an end with every text", "RALPH_TASKS.md", "conversation mode", "3 commits", "completed in"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the demonstration does not show %q:\n%s", want, &out)
		}
	}
	compareReadme(t, out.String())
	proofsBite(t, s)
}

// proofsBite spoils what the demonstration left, one thing after the other: each
// has to be noticed.
func proofsBite(t *testing.T, s *stage) {
	ctx := t.Context()
	s.proc = exec.New(exec.Options{Init: exec.Self()})
	defer s.proc.Close(ctx)
	git := func(args ...string) {
		t.Helper()
		if _, err := s.run(ctx, append([]string{"git"}, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := s.write(name, text); err != nil {
			t.Fatal(err)
		}
	}
	prove := func() error { _, err := s.prove(ctx); return err }
	if err := prove(); err != nil {
		t.Fatalf("before anything was spoiled: %v", err)
	}
	git("config", "commit.gpgSign", "false")
	transcript := func(id string) string { a, _ := s.agent(id); return a.Transcript }
	for _, c := range []struct {
		name        string
		spoil, mend func()
		proof       func(context.Context) error
		want        string
	}{
		{"a bug again", func() { write("slug/slug.go", s.Project["slug/slug.go"]) }, func() { git("checkout", "-q", "--", ".") }, s.proveTests, "do not pass"},
		{"not committed", func() { write("slug/slug.go", s.Project["slug/slug.go"]) }, func() { git("checkout", "-q", "--", ".") }, s.proveMine, "not all committed"},
		{"one more commit", func() { git("commit", "-q", "--allow-empty", "-m", "x") }, func() { git("reset", "-q", "HEAD~1") }, s.proveCommits, "4 commits"},
		{"another commit", func() { git("commit", "-q", "--amend", "-m", "x") }, func() { git("reset", "-q", "HEAD@{1}") }, s.proveCommits, "the run reports"},
		{"the notes are changed", func() { write(notesFile, "x") }, func() { write(notesFile, notesText) }, s.proveMine, "holds"},
		{"the notes are committed", func() { git("add", notesFile) }, func() { git("rm", "-q", "--cached", notesFile) }, s.proveMine, "git says"},
		{"a branch", func() { git("branch", "ralph/x") }, func() { git("branch", "-q", "-D", "ralph/x") }, s.proveRest, "branches"},
		{"a worktree", func() { git("worktree", "add", "-q", "--detach", "../x") }, func() { git("worktree", "remove", "../x") }, s.proveRest, "worktree"},
		{"not what was asked for", func() { write("CHANGELOG.md", s.Project["CHANGELOG.md"]) }, func() { git("checkout", "-q", "--", ".") }, s.proveHeard, "asked for"},
		{"no transcript", func() { write(mustRel(t, s.root, transcript(wrap)), "{}\n") }, func() {}, func(context.Context) error { return s.proveKept(&findings{}) }, "transcript"},
	} {
		c.spoil()
		if err := c.proof(ctx); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		c.mend()
	}
	if _, known := processes(s.root); !known {
		return
	}
	job, err := s.proc.Start(ctx, exec.Spec{Argv: []string{"sleep", "60"}, Dir: filepath.Join(s.root, "wrap")})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.proveRest(ctx); err == nil || !strings.Contains(err.Error(), "sleep") {
		t.Errorf("a process: %v", err)
	}
	if err := job.Stop(ctx); err != nil {
		t.Error(err)
	}
	if err := s.proveRest(ctx); err != nil {
		t.Errorf("when all is mended: %v", err)
	}
}

func mustRel(t *testing.T, root, path string) string {
	t.Helper()
	rel, err := filepath.Rel(root, path)
	if err != nil {
		t.Fatal(err)
	}
	return rel
}

func TestDemoFailsWhenAReplyIsChanged(t *testing.T) {
	t.Parallel()
	tape, err := os.ReadFile("cassette.yaml")
	if err != nil {
		t.Fatal(err)
	}
	changes := map[string][2]string{
		"a wrong fix":            {"strings.Join(strings.Fields(strings.ToLower(title))", "strings.Join(strings.Fields(strings.ToUpper(title))"},
		"another file":           {`path: count/count_test.go`, `path: slug/slug_test.go`},
		"one agent less":         {`name: fix_wrap`, `name: fix_wrapping`},
		"not what was asked for": {`func isWord(`, `func isAWord(`},
		"no such old text":       {`strings.ReplaceAll(`, `strings.Replace(`},
		"another check":          {"mend slug/slug.go.\n          check: go test ./slug", "mend slug/slug.go.\n          check: go vet ./slug"},
	}
	for name, c := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed := bytes.Replace(tape, []byte(c[0]), []byte(c[1]), 1)
			if bytes.Equal(changed, tape) {
				t.Fatalf("the recording does not hold %q", c[0])
			}
			if out, code, err := play(t, Options{Cassette: changed}); code == 0 || err == nil {
				t.Errorf("the demonstration went well:\n%s", out)
			}
		})
	}
}

func TestDemoFailsWhenTheBugIsAnother(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("project/slug/slug.go.txt")
	if err != nil {
		t.Fatal(err)
	}
	project := map[string]string{}
	for _, name := range []string{"go.mod", "README.md", "CHANGELOG.md", "slug/slug.go", "slug/slug_test.go", "count/count.go", "count/count_test.go", "wrap/wrap.go", "wrap/wrap_test.go"} {
		text, err := os.ReadFile("project/" + name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		project[name] = string(text)
	}
	project["slug/slug.go"] = strings.Replace(string(text), "strings.ToLower(title)", "strings.ToUpper(title)", 1)
	dir := t.TempDir()
	out, code, err := play(t, Options{Project: project, Dir: dir})
	if code == 0 || err == nil {
		t.Fatalf("the demonstration mends a bug that it does not know:\n%s", out)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("a failed demonstration leaves %v behind (%v)", left, err)
	}
}
