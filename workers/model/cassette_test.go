package model

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/afero"
	"go.uber.org/goleak"
	"go.yaml.in/yaml/v4"

	"ralph/workers/agent"
	"ralph/workers/model/modeltest"
)

// update rewrites the golden files (make update).
var update = os.Getenv("RALPH_TEST_UPDATE") != ""

const key = "sk-very-secret-0123456789"

func redact(s string) string { return strings.ReplaceAll(s, key, "[redacted]") }

func tools(description string) []agent.Tool {
	return []agent.Tool{{Name: "read", Description: description, Schema: json.RawMessage(`{"type":"object"}`)}, {Name: "write"}}
}

// work is a small piece of work with a model: two rounds of tools, one answer.
// results is what the tools say; change and root make it another run.
func work(t *testing.T, m agent.Model, name, root, prompt string, results []agent.Result, told func(agent.Call, agent.Result) error) ([]agent.Message, error) {
	t.Helper()
	msgs := []agent.Message{
		{Role: agent.RoleSystem, Text: prompt},
		{Role: agent.RoleUser, Text: "fix the test in " + root + "\nthe key is " + key},
	}
	for {
		r, err := m.Complete(context.Background(), agent.Request{Agent: name, Messages: msgs, Tools: tools("reads")}, nil)
		if err != nil {
			return msgs, err
		}
		msgs = append(msgs, r.Message)
		if len(r.Message.Calls) == 0 {
			return msgs, nil
		}
		for _, c := range r.Message.Calls {
			res := results[0]
			results = results[1:]
			if err := told(c, res); err != nil {
				return msgs, err
			}
			msgs = append(msgs, agent.Message{Role: agent.RoleTool, CallID: c.ID, Text: res.Answer()})
		}
	}
}

func results(root, dur, content string) []agent.Result {
	return []agent.Result{
		{Head: "lines 1-3 of " + root + "/a.go", Text: content},
		{Head: "exit 1", Text: "--- FAIL: TestX (" + dur + ")\nFAIL\texample\t" + dur, Failed: true, Command: &agent.CommandRun{ExitCode: 1}},
		{Text: "written"},
	}
}

const goFile = "package a\n\nfunc F() int {\n\treturn 1\n}\n"

// record makes the cassette that the tests replay.
func record(t *testing.T) (string, []agent.Message) {
	t.Helper()
	root := "/home/anna/project"
	srv := modeltest.New(t,
		modeltest.Calls(modeltest.Call{ID: "c1", Name: "read", Args: `{"path": "` + root + `/a.go"}`}, modeltest.Call{ID: "c2", Name: "shell", Args: `{"command":"go test ./...","timeout_seconds":1.50,"env":null,"list":[1,"a\tb",{"deep":true}]}`}).Saying("Looking.\nFirst the file.").Thinking("hm"),
		modeltest.Calls(modeltest.Call{ID: "c3", Name: "write", Args: `{"path":"a.go","content":"package a\n\nfunc F() int {\n\treturn 2\n}\n"}`}),
		modeltest.Text("Done; `${root}` is a literal, "+root+" is not.").Using(321, 12))
	fs := afero.NewMemMapFs()
	rec, err := OpenRecorder(fs, "x.yaml", redact)
	if err != nil {
		t.Fatal(err)
	}
	rec.SetRoot(root)
	c := newClient(t, srv.URL(), func(o *Options) { o.Transport = rec.Transport(nil) })
	msgs, err := work(t, c, "ralph", root, "be good", results(root, "0.03s", goFile), func(call agent.Call, res agent.Result) error {
		if call.Name != "read" {
			call.ID = "" // whoever wraps a tool does not know it
		}
		return rec.Tool("ralph", call, res)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := afero.ReadFile(fs, "x.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text), msgs
}

func replayOf(t *testing.T, text, root string) (*Replay, *Client) {
	t.Helper()
	rep, err := ParseReplay([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	rep.SetRoot(root, redact)
	c := New(Options{Endpoint: rep.Endpoint(), Transport: rep.Transport()})
	t.Cleanup(func() { c.Close(); rep.Close() })
	return rep, c
}

func TestRecordIsReadable(t *testing.T) {
	text, _ := record(t)
	const golden = "testdata/recorded.yaml"
	if update {
		if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), text); d != "" {
		t.Error(d)
	}
	if strings.Contains(text, key) || strings.Contains(text, "/home/anna") {
		t.Error("the cassette holds a secret or a path of the machine")
	}
}

func TestReplay(t *testing.T) {
	text, recordedMsgs := record(t)
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	rep, c := replayOf(t, text, "/srv/other")
	msgs, err := work(t, c, "ralph", "/srv/other", "be good", results("/srv/other", "1.2s", goFile), func(call agent.Call, res agent.Result) error {
		return rep.Tool("ralph", call, res)
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.ReplaceAll(recordedMsgs[len(recordedMsgs)-1].Text, "/home/anna/project", "/srv/other"), msgs[len(msgs)-1].Text); d != "" {
		t.Error(d)
	}
	first := msgs[2]
	if first.Text != "Looking.\nFirst the file." || first.Reasoning != "hm" || len(first.Calls) != 2 || first.Calls[0].Args != `{"path":"/srv/other/a.go"}` ||
		first.Calls[1].Args != `{"command":"go test ./...","timeout_seconds":1.50,"env":null,"list":[1,"a\tb",{"deep":true}]}` {
		t.Errorf("first reply %+v", first)
	}
	if w := rep.Warnings(); len(w) > 0 {
		t.Error(w)
	}
	c.Close()
	if err := rep.Close(); err != nil {
		t.Error(err)
	}
}

func TestReplayFailsOnChange(t *testing.T) {
	text, _ := record(t)
	for _, tt := range []struct {
		name    string
		cut     func(string) string
		content string
		prompt  string
		want    []string // in the diff
		warn    string
	}{
		{name: "a file", content: strings.Replace(goFile, "1", "7", 1), want: []string{"-  \treturn 1", "+  \treturn 7"}},
		{name: "a reply", content: goFile, cut: func(s string) string { return strings.Replace(s, "return 2", "return 3", 1) }},
		{name: "a result in the cassette", content: goFile, cut: func(s string) string { return strings.Replace(s, "return 1", "return 0", 1) }, want: []string{"-  \treturn 0", "+  \treturn 1"}},
		{name: "the prompt", content: goFile, prompt: "be very good", warn: "system prompt"},
		{name: "the prompt, strictly", content: goFile, prompt: "be very good", want: []string{"-sha256:", "+sha256:"},
			cut: func(s string) string { return strings.Replace(s, "mask:\n", "strict: [system, tools]\nmask:\n", 1) }},
		{name: "the tools", content: goFile, warn: "the tools are not", cut: func(s string) string { return strings.Replace(s, "sha256:", "sha256:00", 1) }},
		{name: "the tools, strictly", content: goFile, want: []string{"new write"}, cut: func(s string) string {
			s = strings.Replace(s, "names: [read, write]", "names: [read]", 1)
			s = strings.Replace(s, "digest: sha256:", "digest: sha256:00", 1)
			return strings.Replace(s, "mask:\n", "strict: [tools]\nmask:\n", 1)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := text
			if tt.cut != nil {
				if s = tt.cut(text); s == text {
					t.Fatal("the cassette was not changed")
				}
			}
			rep, c := replayOf(t, s, "/p")
			if tt.name == "a reply" {
				// The reply is another one now, and the work that follows from it too.
				msgs, err := work(t, c, "ralph", "/p", "be good", results("/p", "1s", tt.content), func(agent.Call, agent.Result) error { return nil })
				if err != nil || !strings.Contains(msgs[5].Calls[0].Args, "return 3") {
					t.Errorf("%v, %+v", err, msgs)
				}
				return
			}
			_, err := work(t, c, "ralph", "/p", orDefault(tt.prompt, "be good"), results("/p", "1s", tt.content), func(agent.Call, agent.Result) error { return nil })
			if tt.warn != "" {
				if err != nil || !strings.Contains(strings.Join(rep.Warnings(), "\n"), tt.warn) {
					// The first digest of the file is the prompt's.
					if !strings.Contains(strings.Join(rep.Warnings(), "\n"), "system prompt") {
						t.Errorf("err %v, warnings %q", err, rep.Warnings())
					}
				}
				return
			}
			var m *MismatchError
			if !errors.As(err, &m) {
				t.Fatalf("err %v", err)
			}
			for _, w := range tt.want {
				if !strings.Contains(m.Diff, w) {
					t.Errorf("diff lacks %q:\n%s", w, m.Diff)
				}
			}
			if rep.Close() == nil {
				t.Error("Close does not tell of the exchanges that were not used")
			}
		})
	}
}

func TestReplayTooMany(t *testing.T) {
	rep, c := replayOf(t, `{ralph-cassette: 1, exchanges: [{agent: a, request: [{user: hi}], reply: {text: hello}}]}`, "")
	msgs := []agent.Message{{Role: agent.RoleSystem, Text: "not recorded"}, {Role: agent.RoleUser, Text: "hi"}}
	r, err := c.Complete(context.Background(), agent.Request{Agent: "a", Messages: msgs}, nil)
	if err != nil || r.Message.Text != "hello" || !r.Usage.Estimated {
		t.Fatalf("%+v, %v", r, err)
	}
	var m *MismatchError
	msgs = append(msgs, r.Message, agent.Message{Role: agent.RoleUser, Text: "and now?"})
	_, err = c.Complete(context.Background(), agent.Request{Agent: "a", Messages: msgs}, nil)
	if !errors.As(err, &m) || m.Exchange != 2 || !strings.Contains(m.Diff, "and now?") {
		t.Errorf("err %v", err)
	}
	_, err = c.Complete(context.Background(), agent.Request{Agent: "b", Messages: msgs}, nil)
	if !errors.As(err, &m) || m.Agent != "b" {
		t.Errorf("err %v", err)
	}
	if err := rep.Close(); err != nil {
		t.Error(err)
	}
}

// TestRecordStop records a stop, an overflow with what follows from it, and
// broken arguments, and replays them.
func TestRecordStop(t *testing.T) {
	defer goleak.VerifyNone(t)
	stop := errors.New("stop")
	run := func(c *Client) (out []string) {
		ask := func(ctx context.Context, msgs ...agent.Message) agent.Message {
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			text := ""
			r, err := c.Complete(ctx, agent.Request{Agent: "ralph", Messages: msgs}, func(d agent.Delta) {
				if text += d.Text; text == "one two three " {
					cancel(stop)
				}
			})
			s := r.Message.Text
			for _, call := range r.Message.Calls {
				s += call.ID + call.Name + call.Args
			}
			var e *Error
			if errors.As(err, &e) {
				s += " " + string(e.Kind)
			} else if err != nil {
				s += " " + err.Error()
			}
			out = append(out, s)
			return r.Message
		}
		user := agent.Message{Role: agent.RoleUser, Text: "go"}
		ctx := context.Background()
		half := ask(ctx, user)
		ask(ctx, user, half, agent.Message{Role: agent.RoleUser, Text: "go on"})
		short := agent.Message{Role: agent.RoleUser, Text: "a summary\n"}
		broken := ask(ctx, user, short)
		ask(ctx, user, short, broken, agent.Message{Role: agent.RoleTool, CallID: "x", Text: "broken"})
		return out
	}
	srv := modeltest.New(t,
		modeltest.Text("one two three four five six").HangAt(3),
		modeltest.Status(400, `{"error":{"message":"prompt is too long","code":"x"}}`),
		modeltest.Calls(modeltest.Call{ID: "x", Name: "re ad", Args: `{"path": "a`}),
		modeltest.Text("good"))
	fs := afero.NewMemMapFs()
	rec, err := OpenRecorder(fs, "x.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, srv.URL(), func(o *Options) { o.Transport = rec.Transport(nil) })
	want := run(c)
	c.Close()
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := afero.ReadFile(fs, "x.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rep, rc := replayOf(t, string(text), "")
	if d := cmp.Diff(want, run(rc)); d != "" {
		t.Errorf("%s\n%s", d, text)
	}
	rc.Close()
	if err := rep.Close(); err != nil {
		t.Error(err)
	}
	srv.Close()
}

// A turn that had no tools is not taken for one that had them, nor the other way
// round.
func TestRecordWithoutTools(t *testing.T) {
	defer goleak.VerifyNone(t)
	run := func(c *Client, lists ...[]agent.Tool) {
		var msgs []agent.Message
		for _, list := range lists {
			msgs = append(msgs, agent.Message{Role: agent.RoleUser, Text: "go"})
			r, err := c.Complete(t.Context(), agent.Request{Agent: "ralph", Messages: msgs, Tools: list}, nil)
			if err != nil {
				t.Fatal(err)
			}
			msgs = append(msgs, r.Message)
		}
		c.Close()
	}
	srv := modeltest.New(t, modeltest.Text("one"), modeltest.Text("two"), modeltest.Text("three"))
	fs := afero.NewMemMapFs()
	rec, err := OpenRecorder(fs, "x.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	run(newClient(t, srv.URL(), func(o *Options) { o.Transport = rec.Transport(nil) }), tools("reads"), nil, tools("reads"))
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := afero.ReadFile(fs, "x.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for want, lists := range map[string][][]agent.Tool{
		"":                     {tools("reads"), nil, tools("reads")},
		"new read, write":      {tools("reads"), tools("reads"), tools("reads")},
		"missing read, write":  {tools("reads"), nil, nil},
		"descriptions or sche": {tools("reads"), nil, tools("reads more")},
	} {
		rep, c := replayOf(t, string(text), "/p")
		run(c, lists...)
		if got := strings.Join(rep.Warnings(), "\n"); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("warnings %q, want %q", got, want)
		}
		if err := rep.Close(); err != nil {
			t.Error(err)
		}
	}
	srv.Close()
}

func TestReplayPaceAndStop(t *testing.T) {
	defer goleak.VerifyNone(t)
	rep, c := replayOf(t, `
ralph-cassette: 1
exchanges:
- agent: a
  request: [{user: hi}]
  reply: {text: "a long text that comes slowly, piece by piece, as if somebody typed it", pace: 10s}
`, "")
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("enough")
	r, err := c.Complete(ctx, agent.Request{Agent: "a", Messages: []agent.Message{{Role: agent.RoleUser, Text: "hi"}}}, func(agent.Delta) { cancel(why) })
	if !errors.Is(err, why) || r.Message.Text != "a long text " {
		t.Errorf("%q, %v", r.Message.Text, err)
	}
	c.Close()
	if err := rep.Close(); err != nil {
		t.Error(err)
	}
}

func TestReplayExactResult(t *testing.T) {
	rep, _ := replayOf(t, `
ralph-cassette: 1
mask: [durations, {match: 'x+', with: x}]
exchanges:
- agent: a
  result: {call: c1, name: shell, head: exit 0, text: "ok  p 0.1s\nxx\n", exact: true}
`, "")
	call := agent.Call{ID: "c1", Name: "shell"}
	if err := rep.Tool("a", call, agent.Result{Head: "exit 0", Text: "ok  p 7.25s\nxxxxx\n"}); err != nil {
		t.Error(err)
	}
	var m *MismatchError
	if err := rep.Tool("a", call, agent.Result{Head: "exit 1", Text: "ok  p 7.25s\nx\n"}); !errors.As(err, &m) || !strings.Contains(m.Diff, "+exit 1") {
		t.Error(err)
	}
	if err := rep.Tool("a", agent.Call{ID: "c2"}, agent.Result{}); err != nil {
		t.Error(err)
	}
}

// TestReplayExactWithoutID: a wrapped tool does not know the id of its call.
func TestReplayExactWithoutID(t *testing.T) {
	rep, c := replayOf(t, `
ralph-cassette: 1
exchanges:
- agent: ralph
  request: [{user: go}]
  reply: {calls: [{id: i, name: date, args: {}}, {id: j, name: date, args: {}}]}
- agent: ralph
  result: {call: i, name: date, text: one, exact: true}
- agent: ralph
  result: {call: j, name: date, text: two, exact: true}
`, "")
	if _, err := c.Complete(context.Background(), ask("go"), nil); err != nil {
		t.Fatal(err)
	}
	call := agent.Call{Name: "date", Args: "{}"}
	if err := rep.Tool("ralph", call, agent.Result{Text: "one"}); err != nil {
		t.Error(err)
	}
	var m *MismatchError
	if err := rep.Tool("ralph", call, agent.Result{Text: "three"}); !errors.As(err, &m) || !strings.Contains(m.Diff, "-two\n+three") {
		t.Error(err)
	}
}

func TestParseReplayRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"no version":     {"exchanges: []", "ralph-cassette is 0"},
		"newer version":  {"ralph-cassette: 2", "reads version 1"},
		"unknown key":    {"{ralph-cassette: 1, exchange: []}", "exchange"},
		"no agent":       {"{ralph-cassette: 1, exchanges: [{reply: {text: a}}]}", "exchanges[0]: agent is missing"},
		"nothing":        {"{ralph-cassette: 1, exchanges: [{agent: a}]}", "needs a reply or a result"},
		"two roles":      {"{ralph-cassette: 1, exchanges: [{agent: a, request: [{user: a, tool: b}], reply: {}}]}", "request[0]: needs one of"},
		"no result":      {"{ralph-cassette: 1, exchanges: [{agent: a, request: [{tool: b}], reply: {}}]}", `tool "b" has no text`},
		"bad mask":       {"{ralph-cassette: 1, mask: [{match: '('}]}", "mask: pattern"},
		"unknown mask":   {"{ralph-cassette: 1, mask: [dates]}", `there is no rule "dates"`},
		"strict":         {"{ralph-cassette: 1, strict: [all]}", "neither system nor tools"},
		"error status":   {"{ralph-cassette: 1, exchanges: [{agent: a, reply: {error: {status: 200, message: x}}}]}", "error status 200"},
		"no id":          {"{ralph-cassette: 1, exchanges: [{agent: a, reply: {calls: [{name: x}]}}]}", "id is missing"},
		"same id":        {"{ralph-cassette: 1, exchanges: [{agent: a, reply: {calls: [{id: i, name: x}, {id: i, name: x}]}}]}", "used twice"},
		"torn tail":      {"ralph-cassette: 1\nexchanges:\n- agent: a\n  reply:\n    text: \"abc", "parse cassette"},
		"no yaml at all": {"\x00\x01", "parse cassette"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseReplay([]byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("err %v, want %q", err, tt.want)
			}
		})
	}
}

func TestRecorderKeepsOtherFiles(t *testing.T) {
	fs := afero.NewMemMapFs()
	if err := afero.WriteFile(fs, "main.go", []byte("package main\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenRecorder(fs, "main.go", nil); err == nil || !strings.Contains(err.Error(), "is no cassette") {
		t.Errorf("err %v", err)
	}
	for range 2 { // an older cassette is replaced
		r, err := OpenRecorder(fs, "x.yaml", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Tool("a", agent.Call{ID: "i", Name: "n"}, agent.Result{Text: "x"}); err != nil {
			t.Fatal(err)
		}
		r.Close()
	}
	text, err := afero.ReadFile(fs, "x.yaml")
	if err != nil || strings.Count(string(text), "agent: a") != 1 {
		t.Errorf("%s, %v", text, err)
	}
	if _, err := OpenRecorder(afero.NewReadOnlyFs(fs), "y.yaml", nil); err == nil {
		t.Error("a read-only file system is taken")
	}
}

// TestRecordingSurvivesAtEachPoint replays a cassette that ends after each of
// its entries.
func TestRecordingSurvivesAtEachPoint(t *testing.T) {
	text, _ := record(t)
	parts := strings.Split(text, "\n- agent:")
	for n := range parts {
		if _, err := ParseReplay([]byte(strings.Join(parts[:n+1], "\n- agent:") + "\n")); err != nil {
			t.Errorf("after entry %d: %v", n, err)
		}
	}
}

func TestVeil(t *testing.T) {
	v := veil{root: "/a/b"}
	for in, want := range map[string]string{
		"/a/b/c /a/bc /a/b":     "${root}/c /a/bc ${root}",
		"${root} $${root} /a/b": "$${root} $$${root} ${root}",
		"\xff":                  "\uFFFD",
	} {
		got := v.write(in)
		if got != want {
			t.Errorf("write(%q) = %q, want %q", in, got, want)
		}
		if back := v.read(got); back != string([]rune(in)) {
			t.Errorf("read(%q) = %q", got, back)
		}
	}
	rules := builtins()
	for _, name := range defaultMask() {
		v.rules = append(v.rules, rules[name])
	}
	for in, want := range map[string]string{
		"ok  \texample/p\t0.123s":                           "ok  \texample/p\t<duration>",
		"--- FAIL: TestX (0.03s)":                           "--- FAIL: TestX (<duration>)",
		"ok p (cached)":                                     "ok p <duration>",
		"exit 0 after 1m0.459s":                             "exit 0 after <duration>",
		"took 1h2m3s":                                       "took <duration>",
		"in 3 months":                                       "in 3 months",
		"Finished in 1.2 seconds":                           "Finished in <duration>",
		"[main 1a2b3c4] fix":                                "[main <hash>] fix",
		"[main (root-commit) 1a2b3c4] x":                    "[main (root-commit) <hash>] x",
		"commit 1a2b3c41a2b3c41a2b3c41a2b3c41a2b3c4ffff":    "commit <hash>",
		"committed 5b0078142116: x":                         "committed <hash>: x",
		"refs at 1a2b3c41a2b3c41a2b3c41a2b3c41a2b3c4fffff!": "refs at <hash>!",
		"1a2b3c4 subject":                                   "<hash> subject",
		"index 1a2b3c4..99aabb1 100644":                     "index <hash>..<hash> 100644",
		"Date:   Sat Nov 21 05:41:04 2026 +0100":            "Date:   <time>",
		"at 2026-11-21T05:41:04Z":                           "at <time>",
		"in /tmp/ralph-demo-123/x.go:3":                     "in <temp>/x.go:3",
		"pid 4711":                                          "pid <pid>",
		"time.Sleep(100 * time.Millisecond)":                "time.Sleep(100 * time.Millisecond)",
		"const n = 1234567":                                 "const n = 1234567",
		"return 30":                                         "return 30",
	} {
		if got := v.same(in); got != want {
			t.Errorf("same(%q) = %q, want %q", in, got, want)
		}
	}
}

// FuzzCassette checks that no text breaks the parser, and that what parses can
// be played and closed.
func FuzzCassette(f *testing.F) {
	f.Add([]byte("ralph-cassette: 1\nexchanges:\n- agent: a\n  request:\n  - user: hi\n  reply: {text: hello, calls: [{id: x, name: read, args: {a: [1, 2.5, null, {b: c}]}}]}\n"))
	f.Add([]byte("ralph-cassette: 1\nmask: [hashes, {match: a+, with: b}]\nexchanges:\n- agent: a\n  result: {call: x, name: y}\n- agent: a\n  keep: 0\n  request: [{tool: x}]\n  reply: {hold: true}\n"))
	f.Add([]byte("a: &a [*a]"))
	if text, err := os.ReadFile("testdata/recorded.yaml"); err == nil {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ParseReplay(data)
		if err != nil {
			return
		}
		c := New(Options{Endpoint: r.Endpoint(), Transport: r.Transport(), MaxRetryWait: time.Nanosecond})
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		defer cancel()
		for name := range r.agents {
			// Whatever comes of it, it has to end.
			_, _ = c.Complete(ctx, agent.Request{Agent: name, Messages: []agent.Message{{Role: agent.RoleUser, Text: "hi"}}}, nil)
		}
		c.Close()
		_ = r.Close()
	})
}

// FuzzNote checks that what is recorded comes back the same.
func FuzzNote(f *testing.F) {
	f.Add("hello\nworld\n", `{"path":"a","n":1.0,"x":[null,true,{"y":"a\nb"}]}`)
	f.Add(" lead\n\ttab  \n\n", `{"a":`)
	f.Add("\u2028\ufeff\x00\x1b[0m", `{"":"","~":"null","yes":"1e3"}`)
	f.Fuzz(func(t *testing.T, text, args string) {
		var v veil
		text, args = v.write(text), v.write(args)
		in := []entry{{Agent: "a", Request: []said{{User: &text}}, Reply: &replyNote{Text: text, Calls: []callNote{noteCall("i", "n", args)}}}}
		data, err := yaml.Dump(in, yaml.WithLineWidth(-1))
		if err != nil {
			t.Fatal(err)
		}
		var out []entry
		if err := yaml.Load(data, &out, yaml.WithKnownFields()); err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		if got := *out[0].Request[0].User; got != text || out[0].Reply.Text != text {
			t.Fatalf("text %q became %q\n%s", text, got, data)
		}
		got, err := out[0].Reply.Calls[0].args()
		want := args
		if strings.TrimSpace(args) == "" {
			want = "{}"
		}
		if err != nil || compact(got) != compact(want) {
			t.Fatalf("args %q became %q, %v\n%s", want, got, err, data)
		}
	})
}
