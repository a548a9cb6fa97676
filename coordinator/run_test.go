package coordinator_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/result"
	"ralph/workers/agent"
	"ralph/workers/git"
	"ralph/workers/model/modeltest"
)

func TestHowWorkEnds(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name    string
		replies []modeltest.Reply
		flags   map[string][]string
		status  result.Status
		say     string
		answer  string
	}{
		{"a final message", []modeltest.Reply{text("all is well")}, nil, result.Completed, "the model answered", "all is well"},
		{"finish done", []modeltest.Reply{finish("done", "mended it")}, nil, result.Completed, "declared it done: mended it", "mended it"},
		{"finish with text beside it", []modeltest.Reply{finish("done", "mended it").Saying("Look here.")}, nil, result.Completed, "mended it", "Look here."},
		{"finish partial", []modeltest.Reply{finish("partial", "half of it")}, nil, result.Failed, "partial", "half of it"},
		{"finish failed", []modeltest.Reply{finish("failed", "no way")}, nil, result.Failed, "gave_up", "no way"},
		{"finish needs input", []modeltest.Reply{finish("needs_input", "which one?")}, nil, result.NeedsInput, "which one?", "which one?"},
		{"wrong key", []modeltest.Reply{modeltest.Status(401, `{"error":{"message":"bad key"}}`)}, nil, result.ConfigError, "bad key", ""},
		{"rate limited for long", []modeltest.Reply{modeltest.Status(429, `{"error":{"message":"slow down"}}`, "Retry-After", "7200")}, nil, result.RetryLater, "2h0m0s", ""},
		{"turns used up", []modeltest.Reply{calls(call("list", m{"path": "."})), text("never")}, map[string][]string{"max_turns": {"1"}}, result.Limit, "--max-turns", ""},
		{"tokens used up", []modeltest.Reply{calls(call("list", m{"path": "."})).Using(900, 100), text("never")}, map[string][]string{"max_tokens": {"1000"}}, result.Limit, "--max-tokens", ""},
		{"no price for a cost limit", []modeltest.Reply{calls(call("list", m{"path": "."})), text("never")}, map[string][]string{"max_cost": {"1"}}, result.ConfigError, "price_unknown", ""},
		{"the same call for ever", []modeltest.Reply{calls(call("list", m{"path": "."})).Forever()}, nil, result.Failed, "repeats", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, c.replies...)
			for k, v := range c.flags {
				p.flags[k] = v
			}
			out := p.run(coordinator.Job{})
			p.want(out, c.status, c.say)
			if out.Answer != c.answer {
				t.Errorf("answer %q, want %q", out.Answer, c.answer)
			}
		})
	}
}

func TestTheCostOfARun(t *testing.T) {
	t.Parallel()
	p := newProject(t, text("x").Using(1_000_000, 100_000), text("y").Using(1_000_000, 0))
	if out := p.run(coordinator.Job{}); out.CostUSD != nil || out.Usage.Total != 1_100_000 {
		t.Errorf("cost %v and usage %+v without a price", out.CostUSD, out.Usage)
	}
	p.userConfig = "prices:\n  test-model: {input: 2, cached_input: 1, output: 10}\n"
	if out := p.run(coordinator.Job{}); out.CostUSD == nil || *out.CostUSD != 2 {
		t.Errorf("cost %v of a million tokens at 2 USD", out.CostUSD)
	}
}

func TestTotalsOfASession(t *testing.T) {
	t.Parallel()
	p := newProject(t, modeltest.Status(400, `{"error":{"message":"no"}}`), text("a").Using(500_000, 0),
		calls(write("a.txt", "1\n"), write("b.txt", "1\n")).Using(0, 0), text("b").Using(500_000, 0),
		calls(shell("rm b.txt; printf '1\\n2\\n' > a.txt; printf 'x\\000y' > c.bin")).Using(0, 0), text("c").Using(0, 0),
		calls(shell("printf 'x\\000z' > c.bin")).Using(0, 0), text("d").Using(0, 0))
	p.session = "new"
	p.userConfig = "prices:\n  test-model: {input: 1, output: 1}\n"
	c := p.open()
	defer p.shut(c)
	for range 5 {
		c.Run(t.Context(), coordinator.Job{Task: "go on", Chat: true})
	}
	sum := c.Totals()
	if sum.Turns != 5 || sum.CostUSD == nil || *sum.CostUSD < 1 || *sum.CostUSD > 1.1 {
		t.Errorf("a turn without usage spoils the sum: %+v", sum)
	}
	want := map[string]git.FileChange{
		"a.txt": {Path: "a.txt", Kind: git.Added, Added: 2},
		"b.txt": {Path: "b.txt", Kind: git.Deleted, Added: 1, Removed: 1},
		"c.bin": {Path: "c.bin", Kind: git.Added, Added: -1, Removed: -1},
	}
	for _, f := range sum.FilesChanged {
		if f != want[f.Path] {
			t.Errorf("%+v, want %+v", f, want[f.Path])
		}
		delete(want, f.Path)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

func TestAnAnswerThatDoesNotFitIsAskedForAgain(t *testing.T) {
	t.Parallel()
	schema := json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`)
	p := newProject(t, text("seven"), text("```json\n{\"n\": \"seven\"}\n```"), text("```\n{ \"n\": 7 }\n```"))
	out := p.run(coordinator.Job{Schema: schema})
	p.want(out, result.Completed, "it was checked")
	if string(out.Structured) != `{"n":7}` || !out.Verified {
		t.Errorf("structured %s, verified %v", out.Structured, out.Verified)
	}
	if last := p.last(2); last.Role != "user" || !strings.Contains(last.Content, "not JSON") || !strings.Contains(last.Content, `"additionalProperties"`) {
		t.Errorf("the model was told %+v", last)
	}

	p = newProject(t, text("a"), text("b"), text("c"), text("never"))
	out = p.run(coordinator.Job{Schema: schema})
	p.want(out, result.SchemaMismatch, "not fit the schema")
	p.wantRequests(3)
	if out.Answer != "c" || out.Structured != nil {
		t.Errorf("answer %q, structured %s", out.Answer, out.Structured)
	}

	p = newProject(t)
	p.want(p.run(coordinator.Job{Schema: json.RawMessage(`{"type":7}`)}), result.Usage, "--schema")
	p.wantRequests(0)
}

func TestAFailedCheckGoesBackToTheModel(t *testing.T) {
	t.Parallel()
	p := newProject(t, text("done"), calls(write("ok", "")), text("now it is"))
	p.flags["check"] = []string{"echo so it goes; test -f ok"}
	out := p.run(coordinator.Job{})
	p.want(out, result.Completed, "it was checked")
	if !out.Verified || out.Check == nil || out.Check.ExitCode != 0 || out.Turns != 3 {
		t.Errorf("outcome %+v, check %+v", out, out.Check)
	}
	if told := p.last(2).Content; !strings.Contains(told, "exited with 1") || !strings.Contains(told, "so it goes") {
		t.Errorf("the model was told %q", told)
	}

	p = newProject(t, text("done").Forever())
	p.flags["check"], p.flags["check_retries"] = []string{"exit 3"}, []string{"1"}
	out = p.run(coordinator.Job{})
	p.want(out, result.Failed, `check "exit 3" exited with 3`)
	p.wantRequests(2)
	if out.Check.ExitCode != 3 || out.Answer != "done" {
		t.Errorf("outcome %+v", out)
	}

	p = newProject(t, text("done").Forever())
	p.flags["check"], p.flags["check_retries"], p.flags["check_timeout"] = []string{"sleep 60"}, []string{"0"}, []string{"100ms"}
	p.want(p.run(coordinator.Job{}), result.Failed, "did not end within 100ms")
}

// The notice about what is missing stands beside the output, not in it.
func TestTheOutputOfACheckIsBounded(t *testing.T) {
	t.Parallel()
	p := newProject(t, text("done"), text("done"))
	p.flags["check"], p.flags["check_retries"] = []string{"echo first; yes x | head -c 200000; echo; echo last; exit 1"}, []string{"1"}
	p.run(coordinator.Job{})
	told := p.last(2).Content
	if len(told) > 20_000 || !strings.Contains(told, "output of 200") || !strings.Contains(told, "first\n") || !strings.Contains(told, "\nlast\n") || strings.Contains(told, "left out") {
		t.Errorf("%d bytes: %.300s … %s", len(told), told, told[len(told)-200:])
	}
}

// The two kinds of mending have patience of their own.
func TestRetriesOfSchemaAndCheckAreCountedApart(t *testing.T) {
	t.Parallel()
	p := newProject(t, text("a"), text("b"), text("{}"), text("{}"), text("{}"), text("never"))
	p.flags["check"] = []string{"false"}
	out := p.run(coordinator.Job{Schema: json.RawMessage(`{"type":"object"}`)})
	p.want(out, result.Failed, "check \"false\"")
	p.wantRequests(5)
	if string(out.Structured) != "{}" {
		t.Errorf("structured %s", out.Structured)
	}
}

// The endpoint dies while the model mends: what is told is what was to be mended,
// and the answer that there was is kept.
func TestTheEndpointDiesWhileSomethingIsMended(t *testing.T) {
	t.Parallel()
	dead := modeltest.Status(http.StatusBadRequest, `{"error":{"message":"it is gone"}}`)
	p := newProject(t, text("done"), dead)
	p.flags["check"] = []string{"exit 3"}
	out := p.run(coordinator.Job{})
	p.want(out, result.Failed, "exited with 3")
	if out.Answer != "done" || out.Check == nil || !p.warned("it is gone") {
		t.Errorf("answer %q, warnings %q", out.Answer, out.Warnings)
	}
	p = newProject(t, text("no JSON"), dead)
	out = p.run(coordinator.Job{Schema: json.RawMessage(`{"type":"object"}`)})
	p.want(out, result.SchemaMismatch)
	if out.Answer != "no JSON" {
		t.Errorf("the answer that does not fit is lost: %q", out.Answer)
	}
}

// A limit that ends the mending is a limit, and says what was still wrong.
func TestALimitAfterAFailedCheck(t *testing.T) {
	t.Parallel()
	p := newProject(t, text("done"), text("never"))
	p.flags["check"], p.flags["max_turns"] = []string{"exit 3"}, []string{"1"}
	out := p.run(coordinator.Job{})
	p.want(out, result.Limit, "--max-turns", `before that, check "exit 3" exited with 3`)
	p.wantRequests(1)
	if out.Answer != "done" || out.Check == nil || out.Check.ExitCode != 3 {
		t.Errorf("answer %q, check %+v", out.Answer, out.Check)
	}
}

func TestACheckThatTheRepositoryProposes(t *testing.T) {
	t.Parallel()
	p := newProject(t, text("done"))
	p.projectConfig = "check: touch ran; false\n"
	out := p.run(coordinator.Job{})
	p.want(out, result.Completed)
	if out.Verified || out.Check != nil || p.read("ran") != "" || len(out.Warnings) != 1 || !strings.Contains(out.Warnings[0], "was left out") {
		t.Errorf("a check of the repository ran unasked: %+v", out)
	}
	if _, err := os.Stat(p.path("ran")); err == nil {
		t.Error("the check ran")
	}

	var asked []string
	ask := func(answers ...string) { p.ask = script(&asked, answers...) }
	p = newProject(t, text("done").Forever())
	p.projectConfig = "check: echo x >> ran; false\n"
	ask("yes", "no")
	p.want(p.run(coordinator.Job{}), result.Failed)
	if len(asked) != 1 || !strings.HasSuffix(asked[0], "\necho x >> ran; false") || strings.Count(p.read("ran"), "x") != 3 {
		t.Errorf("asked %q, ran %q: one yes holds for the exact text", asked, p.read("ran"))
	}

	asked = nil
	ask("no")
	out = p.run(coordinator.Job{})
	p.want(out, result.Completed)
	if len(asked) != 1 || out.Verified || !p.warned("it was not approved") {
		t.Errorf("asked %q, outcome %+v", asked, out)
	}

	asked = nil
	p.flags["on_ask"] = []string{"deny"}
	if out := p.run(coordinator.Job{}); len(asked) != 0 || out.Status != result.Completed || out.Verified {
		t.Errorf("--on-ask deny asked %q, outcome %+v", asked, out)
	}
}

func TestWhatChangedWhateverChangedIt(t *testing.T) {
	t.Parallel()
	p := newProject(t,
		calls(write("new.txt", "a\nb\n"), shell("printf 'x\\n' >> kept.txt; rm gone.txt; git mv moved.txt to.txt; ln -s kept.txt link; printf '\\000' > bin")),
		calls(call("git", m{"action": "commit", "message": "two files", "paths": []string{"new.txt", "kept.txt"}})),
		text("done"))
	for _, name := range []string{"kept.txt", "gone.txt", "same.txt"} {
		p.write(name, name+"\n")
	}
	p.write("moved.txt", strings.Repeat("a line that is long enough\n", 20))
	p.git("add", "-A")
	p.git("commit", "-q", "-m", "files")
	p.write("mine.txt", "uncommitted work of the user\n")
	out := p.run(coordinator.Job{})
	p.want(out, result.Completed)
	want := map[string]git.FileChange{
		"new.txt":  {Path: "new.txt", Kind: git.Added, Added: 2},
		"kept.txt": {Path: "kept.txt", Kind: git.Modified, Added: 1},
		"gone.txt": {Path: "gone.txt", Kind: git.Deleted, Removed: 1},
		"to.txt":   {Path: "to.txt", OldPath: "moved.txt", Kind: git.Renamed},
		"link":     {Path: "link", Kind: git.Added, Added: 1},
		"bin":      {Path: "bin", Kind: git.Added, Added: -1, Removed: -1},
	}
	for _, f := range out.FilesChanged {
		if f != want[f.Path] {
			t.Errorf("%+v, want %+v", f, want[f.Path])
		}
		delete(want, f.Path)
	}
	if len(want) > 0 {
		t.Errorf("not listed: %v", want)
	}
	if len(out.Commits) != 1 || out.Commits[0] != p.git("rev-parse", "HEAD") {
		t.Errorf("commits %v", out.Commits)
	}
	if p.read("mine.txt") != "uncommitted work of the user\n" || strings.Contains(p.git("status", "--porcelain"), ".ralph") {
		t.Errorf("status:\n%s", p.git("status", "--porcelain"))
	}
}

// A request is the one before it and more, to the byte: what providers cache.
func TestRequestsExtendEachOther(t *testing.T) {
	t.Parallel()
	p := newProject(t, calls(call("list", m{"path": "."}), call("read", m{"path": "a.txt"})), calls(write("b.txt", "x")), text("done"), text("again"))
	p.write("a.txt", "hello\n")
	p.session = "new"
	c := p.open()
	for _, task := range []string{"one", "two"} {
		p.want(c.Run(t.Context(), coordinator.Job{Task: task, Chat: true}), result.Completed)
	}
	p.shut(c)
	p.wantRequests(4)
	for n := 2; n <= 4; n++ {
		before, now := p.asked(n-1).Body, p.asked(n).Body
		shared := 0
		for shared < min(len(before), len(now)) && before[shared] == now[shared] {
			shared++
		}
		// What follows the messages is short: the end of the list, and options.
		end := bytes.LastIndex(before, []byte(`"}]`))
		if i := bytes.Index(before, []byte(`"tools":`)); i > 0 && i < bytes.Index(before, []byte(`"messages":`)) {
			end = bytes.LastIndex(before, []byte(`]`))
		}
		if shared < end-2 {
			t.Errorf("request %d shares %d bytes of %d with the one before: … %s", n, shared, end, before[shared:min(shared+80, len(before))])
		}
	}
	if n := len(p.asked(1).Body); n > 14_000 {
		t.Errorf("the first request has %d bytes", n)
	}
	if n := len(p.asked(1).Messages[0].Content); n > 4000 {
		t.Errorf("the system prompt has %d bytes", n)
	}
}

func TestWhatTheModelIsGiven(t *testing.T) {
	t.Parallel()
	p := newProject(t, text("done"))
	p.write("AGENTS.md", "Use tabs.\n")
	p.write("RALPH_GOALS.md", "# Goals\n\n- [ ] **G-1** ship it\n")
	p.write("RALPH_TASKS.md", "- [ ] **T-1** open one\n- [x] **T-2** done one\n")
	p.write("AGENT.md", strings.Repeat("old ", 3000)+"\n## 2026-01-01 - BUG\n\nmind the gap\n")
	p.run(coordinator.Job{Task: "look", Context: "piped ``` text", Files: []coordinator.File{{Path: "x.txt", Text: "its text"}}})
	system, task := p.asked(1).Messages[0].Content, p.asked(1).Messages[1].Content
	for _, want := range []string{p.root, "Use tabs.", "G-1", "T-1 open one", "mind the gap", "without a sandbox"} {
		if !strings.Contains(system, want) {
			t.Errorf("the system prompt lacks %q", want)
		}
	}
	if strings.Contains(system, "done one") || strings.Contains(system, "A human is in this conversation") || len(system) > 12_000 {
		t.Errorf("the system prompt of %d bytes:\n%s", len(system), system)
	}
	if !strings.HasPrefix(task, "look\n") || !strings.Contains(task, "The file x.txt:\n```\nits text\n```") || !strings.Contains(task, "````\npiped ``` text\n````") {
		t.Errorf("the task reads %q", task)
	}
}

// The system prompt tells what the job is, also in a conversation that began
// with another kind of job.
func TestTheSystemPromptFitsTheJob(t *testing.T) {
	t.Parallel()
	p := newProject(t, text("hi"), text(`{"a":1}`))
	p.session = "new"
	c := p.open()
	defer p.shut(c)
	c.Run(t.Context(), coordinator.Job{Task: "talk", Chat: true})
	c.Run(t.Context(), coordinator.Job{Task: "answer", Schema: json.RawMessage(`{"required":["a"]}`)})
	if system := p.asked(2).Messages[0].Content; !strings.Contains(system, `{"required":["a"]}`) || strings.Contains(system, "A human is in") {
		t.Errorf("the second system prompt is that of the first job:\n%s", system)
	}
}

func TestADryRunWritesNothing(t *testing.T) {
	t.Parallel()
	p := newProject(t, calls(call("read", m{"path": "a.txt"}), write("b.txt", "x"), shell("touch c")), text("the plan"))
	p.write("a.txt", "hello\n")
	p.write("RALPH_TASKS.md", "- [ ] **T-1** one\n  - status: in_progress\n")
	p.flags["dry_run"] = nil
	p.flags["dry_run"] = []string{"true"}
	before := p.hash()
	out := p.run(coordinator.Job{DryRun: true})
	p.want(out, result.Completed)
	if p.hash() != before {
		t.Errorf("a dry run changed the tree:\n%s", p.git("status", "--porcelain"))
	}
	if out.Answer != "the plan" || len(out.StateFiles) != 0 || out.ToolCalls.Failed != 2 {
		t.Errorf("outcome %+v", out)
	}
	for _, name := range p.asked(1).Tools {
		if name == "write" || name == "shell" || name == "task" {
			t.Errorf("a dry run offers %s", name)
		}
	}
	if !strings.Contains(p.asked(1).Messages[0].Content, "dry run") {
		t.Error("the model is not told that this is a dry run")
	}
}

// A dry run in a session leaves no trace in it, and the next run is a real one.
func TestARealRunAfterADryOne(t *testing.T) {
	t.Parallel()
	p := newProject(t, text("the plan"), calls(write("a.txt", "x"), call("task", m{"title": "one"})), text("done"))
	c := p.open()
	defer p.shut(c)
	p.want(c.Run(t.Context(), coordinator.Job{Task: "plan", DryRun: true}), result.Completed)
	out := c.Run(t.Context(), coordinator.Job{Task: "do"})
	p.want(out, result.Completed)
	p.wantFile("RALPH_TASKS.md", "one")
	if len(out.StateFiles) == 0 || out.LogFile == "" {
		t.Errorf("outcome %+v", out)
	}
}

func TestEventsOfARun(t *testing.T) {
	t.Parallel()
	p := newProject(t, calls(call("read", m{"path": "a.txt"})), text("done"))
	p.write("a.txt", "hello\n")
	p.flags["check"] = []string{"true"}
	p.run(coordinator.Job{})
	// Without a sandbox a check proves less, which is the warning.
	if got, want := p.types(), "start turn_start usage tool_start tool_end turn_start message usage gate warning"; got != want {
		t.Errorf("events %s\nwant   %s", got, want)
	}
	start := p.seen()[0]
	if start.Model != "test-model" || start.Root != p.root || !strings.Contains(start.Sandbox, "unsandboxed") {
		t.Errorf("start %+v", start)
	}
}

func TestTheTimeLimit(t *testing.T) {
	t.Parallel()
	p := newProject(t, text("never").After(time.Minute))
	p.flags["timeout"] = []string{"200ms"}
	p.want(p.run(coordinator.Job{}), result.Timeout, "--timeout")
	p = newProject(t, calls(shell("sleep 60")), text("never"))
	p.flags["timeout"] = []string{"3s"}
	out := p.run(coordinator.Job{})
	p.want(out, result.Timeout)
	if len(out.Commands) != 1 || out.Duration > 20*time.Second {
		t.Errorf("outcome %+v", out)
	}
}

func TestUsageOfAgent(t *testing.T) {
	t.Parallel()
	p := newProject(t, calls(call("list", m{"path": "."})).Using(10, 5), text("done").Using(20, 5))
	out := p.run(coordinator.Job{})
	if out.Usage != (agent.Usage{Input: 30, Output: 10, Total: 40}) || out.Turns != 2 || out.ToolCalls.Total != 1 || out.APITime <= 0 {
		t.Errorf("outcome %+v", out)
	}
}
