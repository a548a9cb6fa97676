package coordinator_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/permission"
	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/workers/model/modeltest"
)

// script answers questions one after the other and keeps them; beyond its end
// nobody is there.
func script(asked *[]string, answers ...string) func(context.Context, permission.Question) (string, error) {
	return func(_ context.Context, q permission.Question) (string, error) {
		*asked = append(*asked, q.Text)
		if len(answers) == 0 {
			return "", errors.New("the terminal is gone")
		}
		a := answers[0]
		answers = answers[1:]
		return a, nil
	}
}

// lacking is why a command is asked for without namespaces.
const lacking = "the sandbox lacks "

func TestPermissions(t *testing.T) {
	t.Parallel()
	run := calls(shell("echo ran >> ran"))
	cases := []struct {
		name    string
		flags   map[string][]string
		answers []string // nil: nobody is there
		call    modeltest.Reply
		status  result.Status
		ran     bool
		asked   int
		denied  string // the rule in the denial
	}{
		{"nobody is there", nil, nil, run, result.Denied, false, 0, lacking},
		{"yes", nil, []string{"yes"}, run, result.Completed, true, 1, ""},
		{"no", nil, []string{"no"}, run, result.Completed, false, 1, "denied by the user"},
		{"the terminal goes away", nil, []string{}, run, result.Completed, false, 1, lacking},
		{"on-ask deny", map[string][]string{"on_ask": {"deny"}}, []string{"yes"}, run, result.Completed, false, 0, lacking},
		{"on-ask fail", map[string][]string{"on_ask": {"fail"}}, []string{"yes"}, run, result.Denied, false, 0, lacking},
		{"deny rule", map[string][]string{"deny": {`argv[0] == "echo"`}, "sandbox": {"off"}}, []string{"yes"}, run, result.Completed, false, 0, `argv[0] == "echo"`},
		{"allow rule", map[string][]string{"allow": {`argv[0] == "true"`}}, nil, calls(shell("true")), result.Completed, false, 0, ""},
		{"always asks", map[string][]string{"sandbox": {"off"}}, nil, calls(shell("git push")), result.Denied, false, 0, "git push always asks"},
		{"network", map[string][]string{"sandbox": {"off"}}, []string{"yes"}, calls(call("fetch", m{"url": "http://127.0.0.1:1/"})), result.Completed, false, 0, "network is off; allow it with --allow 'network'"},
		// What a command is called by is none of the permission's business.
		{"another name for the command", nil, nil, calls(call("shell", m{"script": "echo ran >> ran"})), result.Denied, false, 0, lacking},
		{"a number for the command", nil, nil, calls(modeltest.Call{Name: "shell", Args: `{"command":7}`}), result.Denied, false, 0, lacking},
		{"an odd spelling", nil, nil, calls(modeltest.Call{Name: "shell", Args: `{"Command":"echo ran >> ran"}`}), result.Denied, false, 0, lacking},
		{"deny rule and another name for the path", map[string][]string{"deny": {`path == "ran"`}, "sandbox": {"off"}}, nil,
			calls(call("write", m{"filename": "ran", "content": "x"})), result.Completed, false, 0, `path == "ran"`},
		{"arguments that do not fit", nil, []string{"yes"}, calls(call("shell", m{"cmmand": "echo ran >> ran"})), result.Completed, false, 0, ""},
		{"an empty command", nil, nil, calls(call("shell", m{})), result.Denied, false, 0, lacking},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, c.call, text("done"))
			p.flags, p.method = map[string][]string{}, "session"
			for k, v := range c.flags {
				p.flags[k] = v
			}
			var asked []string
			if c.answers != nil {
				p.ask = script(&asked, c.answers...)
			}
			out := p.run(coordinator.Job{})
			p.want(out, c.status)
			if (p.read("ran") != "") != c.ran || len(asked) != c.asked {
				t.Errorf("ran %q, asked %q", p.read("ran"), asked)
			}
			rule := ""
			if len(out.Denials) > 0 {
				rule = out.Denials[0].Rule
			}
			if !strings.HasPrefix(rule, c.denied) || (rule == "") != (c.denied == "") || out.ToolCalls.Denied != len(out.Denials) {
				t.Errorf("denials %+v, want the rule %q", out.Denials, c.denied)
			}
		})
	}
}

// --on-ask fail ends the run there: what the model wanted besides is not done.
func TestOnAskFailRunsNothingMore(t *testing.T) {
	t.Parallel()
	p := newProject(t, calls(shell("true"), write("after.txt", "x")), text("never"))
	p.flags, p.method = map[string][]string{"on_ask": {"fail"}}, "session"
	p.want(p.run(coordinator.Job{}), result.Denied)
	p.wantRequests(1)
	if _, err := os.Stat(p.path("after.txt")); err == nil {
		t.Error("a call ran after the run had failed")
	}
}

func TestAlwaysHoldsForTheSession(t *testing.T) {
	t.Parallel()
	p := newProject(t, calls(shell("echo 1 >> ran"), shell("echo 2 >> ran")), text("done"),
		calls(shell("echo 3 >> ran")), text("done"), calls(shell("git push")), text("done"))
	p.flags, p.session, p.method = map[string][]string{}, "new", "session"
	var asked []string
	p.ask = script(&asked, "always", "no")
	c := p.open()
	for range 3 {
		p.want(c.Run(t.Context(), coordinator.Job{Task: "go", Chat: true}), result.Completed)
	}
	p.shut(c)
	if p.read("ran") != "1\n2\n3\n" || len(asked) != 2 || !strings.Contains(asked[1], "git push") {
		t.Errorf("ran %q, asked %q", p.read("ran"), asked)
	}
}

// Calls that run side by side ask one after the other.
func TestOneQuestionAtATime(t *testing.T) {
	t.Parallel()
	p := newProject(t, calls(call("fetch", m{"url": "http://127.0.0.1:1/a"}), call("fetch", m{"url": "http://127.0.0.1:1/b"}), call("fetch", m{"url": "http://127.0.0.1:1/c"})), text("done"))
	p.flags = map[string][]string{"deny": {`tool == "shell" && command contains "x"`}, "allow": {"network"}}
	p.want(p.run(coordinator.Job{}), result.Completed)

	var open, most atomic.Int32
	p = newProject(t, calls(shell("true"), shell("false"), call("ask_user", m{"question": "why?"}), shell("echo")), text("done"))
	p.flags, p.method = map[string][]string{}, "session"
	p.ask = func(context.Context, permission.Question) (string, error) {
		most.Store(max(most.Load(), open.Add(1)))
		time.Sleep(5 * time.Millisecond)
		open.Add(-1)
		return "yes", nil
	}
	p.want(p.run(coordinator.Job{}), result.Completed)
	if most.Load() != 1 {
		t.Errorf("%d questions at once", most.Load())
	}
}

// A check in the project's configuration is asked for once, in the sandbox too: yes
// makes it the check of the work, no leaves the work unproven.
func TestAProposedCheckIsAskedFor(t *testing.T) {
	t.Parallel()
	for answer, agreed := range map[string]bool{"yes": true, "no": false} {
		p := newProject(t, text("done"), text("mended"))
		p.projectConfig = "check: test -e mended || { touch mended; false; }\n"
		asked := 0
		p.ask = func(_ context.Context, q permission.Question) (string, error) {
			asked++
			if q.Kind != "check" || !strings.Contains(q.Text, "touch mended") {
				t.Errorf("asked %+v", q)
			}
			return answer, nil
		}
		out := p.run(coordinator.Job{Task: "go"})
		p.want(out, result.Completed)
		if asked != 1 || out.Verified != agreed || (out.Check != nil) != agreed || fileThere(p.path("mended")) != agreed {
			t.Errorf("%s: asked %d times, verified %v, check %+v", answer, asked, out.Verified, out.Check)
		}
		if left := slices.ContainsFunc(out.Warnings, func(w string) bool { return strings.Contains(w, "was left out") }); left == agreed {
			t.Errorf("%s: warnings %q", answer, out.Warnings)
		}
	}
}

// What a rule of the user denies is not asked for.
func TestAProposedCheckIsDenied(t *testing.T) {
	t.Parallel()
	p := newProject(t, text("done"))
	p.projectConfig = "check: touch ran\n"
	p.flags = map[string][]string{"deny": {`argv[0] == "touch"`}}
	p.ask = func(_ context.Context, q permission.Question) (string, error) {
		t.Errorf("asked %+v", q)
		return "yes", nil
	}
	out := p.run(coordinator.Job{Task: "go"})
	p.want(out, result.Completed)
	if out.Verified || out.Check != nil || fileThere(p.path("ran")) || !slices.ContainsFunc(out.Warnings, func(w string) bool { return strings.Contains(w, `argv[0] == "touch"`) }) {
		t.Errorf("verified %v, check %+v, warnings %q", out.Verified, out.Check, out.Warnings)
	}
}

func TestAStopDuringAQuestion(t *testing.T) {
	t.Parallel()
	questions := map[string]modeltest.Reply{
		"permission": calls(shell("touch ran"), shell("touch ran2")),
		"question":   calls(call("ask_user", m{"question": "which?"}), write("ran", "x")),
		"check":      text("done"),
	}
	for kind, reply := range questions {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, reply, text("never"))
			p.flags, p.projectConfig, p.method = map[string][]string{}, "check: touch ran\n", "session"
			var c *coordinator.Coordinator
			p.ask = func(ctx context.Context, q permission.Question) (string, error) {
				if q.Kind != kind {
					t.Errorf("asked %+v", q)
				}
				c.Stop(&interrupts.Stop{Signal: syscall.SIGINT})
				if ctx.Err() == nil {
					t.Error("the question goes on after the stop")
				}
				return "yes", nil // typed a moment too late
			}
			c = p.open()
			out := c.Run(t.Context(), coordinator.Job{Task: "go"})
			p.shut(c)
			p.want(out, result.Interrupted, "SIGINT")
			if out.Signal != int(syscall.SIGINT) {
				t.Errorf("signal %d", out.Signal)
			}
			for _, name := range []string{"ran", "ran2"} {
				if _, err := os.Stat(p.path(name)); err == nil {
					t.Errorf("%s ran after the stop", name)
				}
			}
			if p.warned("not approved") {
				t.Error("a stop is told as a refusal")
			}
			p.wantRequests(1)
		})
	}
}

func TestAskUser(t *testing.T) {
	t.Parallel()
	p := newProject(t, calls(call("ask_user", m{"question": "Which database?"}), write("after", "x")).Saying("I must know."), text("never"))
	out := p.run(coordinator.Job{})
	p.want(out, result.NeedsInput, "Which database?", "ralph chat")
	p.wantRequests(1)
	if out.Answer != "I must know." {
		t.Errorf("answer %q", out.Answer)
	}
	if _, err := os.Stat(p.path("after")); err == nil {
		t.Error("the work went on without an answer")
	}

	p = newProject(t, calls(call("ask_user", m{"question": "Which database?", "options": []string{"SQLite", "Postgres"}})), text("done"))
	p.ask = func(_ context.Context, q permission.Question) (string, error) {
		if q.Kind != "question" || len(q.Options) != 2 {
			t.Errorf("asked %+v", q)
		}
		return "Postgres", nil
	}
	p.want(p.run(coordinator.Job{}), result.Completed)
	if !strings.Contains(p.last(2).Content, "Postgres") {
		t.Errorf("the model was told %q", p.last(2).Content)
	}
}

// A check that an agent asks for is a command like any other.
func TestChecksOfAgentsNeedPermission(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.flags["check_retries"] = []string{"0"}
	p.flags["deny"] = []string{`argv[0] == "touch"`}
	ran := t.TempDir() + "/ran"
	k := played(p)
	k.part("ralph", spawn(m{"name": "sly", "task": "write it", "check": "touch " + ran}), text("I wait."), text("it failed"))
	k.part("sly", put("it.txt", "x\n"), text("done"))
	p.run(coordinator.Job{})
	if _, err := os.Lstat(ran); err == nil {
		t.Error("the check ran against the rule")
	}
	if p.read("it.txt") != "" {
		t.Error("work whose check was not run was merged")
	}
}
