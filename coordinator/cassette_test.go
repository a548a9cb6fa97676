package coordinator_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ralph/coordinator"
	"ralph/coordinator/result"
)

// recorded makes a recording of work with calls side by side, an alias of a
// field, a denial and a call that fails.
func recorded(t *testing.T) (tape string) {
	t.Helper()
	p := newProject(t,
		calls(call("read", m{"file_path": "a.txt"}), call("list", m{"path": "."}), call("read", m{"path": "missing.txt"})).Saying("I look first."),
		calls(write("b.txt", "hello\n"), shell("cat a.txt b.txt"), call("fetch", m{"url": "http://127.0.0.1:1/"})),
		text("no JSON"), text(`{"ok":true}`))
	tape = filepath.Join(t.TempDir(), "tape.yaml")
	p.write("a.txt", "the text\n")
	p.flags["record"] = []string{tape}
	out := p.run(coordinator.Job{Task: "look and write", Schema: []byte(`{"type":"object"}`)})
	p.want(out, result.Completed)
	return tape
}

// replaying is the same project elsewhere.
func replaying(t *testing.T, tape string) *project {
	p := newProject(t)
	p.write("a.txt", "the text\n")
	p.flags["replay"] = []string{tape}
	delete(p.flags, "record")
	return p
}

func TestARecordingReplays(t *testing.T) {
	t.Parallel()
	p := replaying(t, recorded(t))
	out := p.run(coordinator.Job{Task: "look and write", Schema: []byte(`{"type":"object"}`)})
	p.want(out, result.Completed)
	p.wantRequests(0)
	if string(out.Structured) != `{"ok":true}` || p.read("b.txt") != "hello\n" || out.Turns != 4 || out.ToolCalls.Total != 6 || out.ToolCalls.Failed != 1 || out.ToolCalls.Denied != 1 {
		t.Errorf("outcome %+v", out)
	}
}

// What differs is told with the difference, and is never a success.
func TestAReplayThatDiffers(t *testing.T) {
	t.Parallel()
	tape := recorded(t)
	cases := map[string]struct {
		change func(*testing.T, *project)
		task   string
		say    []string
	}{
		"another file":  {func(_ *testing.T, p *project) { p.write("a.txt", "another text\n") }, "look and write", []string{"the text", "another text"}},
		"another task":  {func(*testing.T, *project) {}, "look and talk", []string{"look and write", "look and talk"}},
		"another reply": {func(t *testing.T, p *project) { edit(t, p, tape, "cat a.txt b.txt", "cat b.txt a.txt") }, "look and write", []string{"the text", "hello"}},
		"an answer that is left over": {func(t *testing.T, p *project) { edit(t, p, tape, "text: no JSON", `text: '{"ok":true}'`) }, "look and write",
			[]string{"1 of 4 recorded requests", "not made"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := replaying(t, tape)
			c.change(t, p)
			out := p.run(coordinator.Job{Task: c.task, Schema: []byte(`{"type":"object"}`)})
			p.want(out, result.Failed, append(c.say, "replay_mismatch")...)
			if out.Verified {
				t.Error("a replay that differs is verified")
			}
		})
	}
}

// edit changes what the cassette says, and plays that.
func edit(t *testing.T, p *project, tape, from, to string) {
	text, err := os.ReadFile(tape)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.ReplaceAll(string(text), from, to)
	if changed == string(text) {
		t.Fatalf("the cassette does not hold %q:\n%s", from, text)
	}
	name := filepath.Join(t.TempDir(), "changed.yaml")
	if err := os.WriteFile(name, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	p.flags["replay"] = []string{name}
}

func TestCassettesThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.write("no-cassette", "x")
	for _, flags := range []map[string][]string{{"replay": {p.path("missing.yaml")}}, {"replay": {p.path("no-cassette")}}, {"record": {p.path("no-cassette")}}, {"record": {p.path("missing/x.yaml")}}} {
		p.flags = flags
		_, err := coordinator.Open(t.Context(), p.options())
		status, failure := coordinator.Fail(err)
		var own *result.Error
		if !errors.As(err, &own) || status != result.Usage || failure.Hint == "" {
			t.Errorf("%v: %s, %v", flags, status, err)
		}
	}
	if p.read("no-cassette") != "x" {
		t.Error("a file that is no cassette was overwritten")
	}
}
