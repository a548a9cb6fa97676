package coordinator_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ralph/coordinator"
	"ralph/coordinator/loop"
	"ralph/coordinator/result"
	"ralph/workers/accesspolicy"
	"ralph/workers/agent"
	"ralph/workers/exec"
	"ralph/workers/exec/exectest"
)

// foreign is a project whose tasks a program of the user's works on: a shell
// script, which gets the prompt as its argument.
func foreign(t *testing.T, script string) *project {
	t.Helper()
	p, _ := planned(t, "- [ ] **T-1** Write one\n  - check: grep -q good one.txt\n")
	path := filepath.Join(p.root, "tool", "other") // where a sandbox shows it
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := exectest.WriteProgram(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	p.userConfig = "agents:\n  other:\n    command: [" + path + "]\n    input: stdin\n"
	return p
}

func TestAnotherProgramWorksOnATask(t *testing.T) {
	t.Parallel()
	p := foreign(t, `grep -q 'exited with' && word=good || word=bad
echo $word > one.txt
echo "wrote $word"
echo "<promise>COMPLETE</promise>"
`)
	out := p.run(coordinator.Job{Loop: &loop.Settings{Agent: "other"}})
	p.want(out, result.Completed)
	if p.read("one.txt") != "good\n" || !out.Verified {
		t.Errorf("one.txt is %q, verified %v", p.read("one.txt"), out.Verified)
	}
}

func TestAnotherProgramHasToPromise(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"says nothing of it": "echo good > one.txt\necho done\n",
		"fails after it":     "echo good > one.txt\necho '<promise>COMPLETE</promise>'\nexit 1\n",
		"quotes it":          "echo good > one.txt\ncat -\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := foreign(t, script)
			out := p.run(coordinator.Job{Loop: &loop.Settings{Agent: "other", Retries: -1}})
			if out.Status == result.Completed || p.read("one.txt") != "" {
				t.Errorf("%s: %+v", out.Status, out)
			}
		})
	}
}

// A promise that does not count is named with the reason in the next attempt.
func TestAnotherProgramLearnsWhyItsPromiseDoesNotCount(t *testing.T) {
	t.Parallel()
	p := foreign(t, `prompt=$(cat)
echo good > one.txt
case $prompt in
*'does not count: words follow it on its line'*) echo '<promise>complete</promise>' ;;
*) echo 'I say <promise>COMPLETE</promise> when it is done' ;;
esac
`)
	p.want(p.run(coordinator.Job{Loop: &loop.Settings{Agent: "other"}}), result.Completed)
}

// needsSandbox skips a test where not every layer of the sandbox holds.
func needsSandbox(t *testing.T) {
	t.Helper()
	runner := exec.New(exec.Options{Init: exec.Self()})
	complete := accesspolicy.Check(runner).Complete
	if err := runner.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !complete {
		t.Skip("the sandbox is not complete here")
	}
}

func TestAnotherProgramIsConfined(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	p := foreign(t, `cat > /dev/null
echo good > one.txt
echo x > "$(dirname "$0")/escaped"
(echo bad > `+"$PWD/../../../README.new"+`) 2>/dev/null
echo "<promise>COMPLETE</promise>"
`)
	delete(p.flags, "sandbox")
	out := p.run(coordinator.Job{Loop: &loop.Settings{Agent: "other"}})
	p.want(out, result.Completed)
	if p.read("one.txt") != "good\n" {
		t.Errorf("one.txt is %q: %s", p.read("one.txt"), strings.Join(out.Warnings, "; "))
	}
	if p.read("README.new") != "" || p.read("tool/escaped") != "" {
		t.Error("it wrote into the user's tree")
	}
}

// What a program says goes into a commit's message, whatever it is.
func TestAnotherProgramSaysAnything(t *testing.T) {
	t.Parallel()
	p := foreign(t, "cat > /dev/null\necho good > one.txt\nprintf 'a\\000b\\033[31mred\\n'\necho '<promise>COMPLETE</promise>'\n")
	out := p.run(coordinator.Job{Loop: &loop.Settings{Agent: "other", Retries: -1}})
	p.want(out, result.Completed)
	text := p.git("log", "-1", "--format=%B")
	if strings.ContainsAny(text, "\x00\x1b") || strings.Contains(text, "promise") || !strings.Contains(text, "red") {
		t.Errorf("the message %q", text)
	}
}

// What is not there, or is not what it is taken for, is not tried again: the run
// ends with what to do, and its tasks are as they were.
func TestAnotherProgramIsNotThere(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ script, agent, hint string }{
		"not installed":  {"exit 1\n", "absent", "PATH"},
		"another":        {"echo 'error: unknown option --foo' >&2\nexit 2\n", "other", "command"},
		"no interpreter": {"exit 127\n", "other", "interpreter"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := foreign(t, tc.script)
			p.userConfig += "  absent:\n    command: [no-such-program-of-ralph]\n"
			out := p.run(coordinator.Job{Loop: &loop.Settings{Agent: tc.agent}})
			p.want(out, result.ConfigError)
			if out.Failure == nil || !strings.Contains(out.Failure.Hint, tc.hint) || out.Tasks.Open != 1 || out.Tasks.Failed != 0 {
				t.Errorf("%+v, %+v", out.Failure, out.Tasks)
			}
			if tries := strings.Count(p.types(), string(agent.EventTaskStart)); tries > 1 {
				t.Errorf("it was tried %d times", tries)
			}
		})
	}
}

// A fallback is another program: it gets neither the model nor the arguments of
// the first.
func TestTheFallbackHasItsOwn(t *testing.T) {
	t.Parallel()
	p := foreign(t, "echo \"$@\" > args.txt\necho 'error: unknown option' >&2\nexit 2\n")
	second := filepath.Join(p.root, "tool", "second")
	if err := exectest.WriteProgram(second, []byte("#!/bin/sh\ncat > /dev/null\necho \"args: $@\" > args.txt\necho good > one.txt\necho '<promise>COMPLETE</promise>'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.userConfig += "    model: its-own\n  second:\n    command: [" + second + ", '--model={model}']\n    input: stdin\n"
	out := p.run(coordinator.Job{Loop: &loop.Settings{Agent: "other", Fallback: "second", Model: "of-the-first"}})
	p.want(out, result.Completed)
	if got := p.read("args.txt"); got != "args: --model=\n" {
		t.Errorf("%q", got)
	}
}

// A program has its own model: no endpoint of Ralph's is needed, nor is its model
// handed on.
func TestAnotherProgramNeedsNoEndpoint(t *testing.T) {
	t.Parallel()
	p := foreign(t, "cat > /dev/null\necho \"$@\" > args.txt\necho good > one.txt\necho '<promise>COMPLETE</promise>'\n")
	p.userConfig = strings.Replace(p.userConfig, "]\n", ", '{model}']\n", 1)
	p.flags["base_url"], p.flags["agent"] = []string{"http://127.0.0.1:1/v1"}, []string{"other"}
	delete(p.flags, "model")
	opt := p.options()
	opt.Config.Model = ""
	if c, err := coordinator.Open(t.Context(), opt); err == nil {
		p.shut(c)
		t.Fatal("there is a model")
	}
	opt = p.options()
	opt.Config.Model, opt.ModelOptional = "", true
	c, err := coordinator.Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	out := c.Run(t.Context(), coordinator.Job{Task: "run", Loop: &loop.Settings{}})
	p.shut(c)
	p.want(out, result.Completed)
	if got := p.read("args.txt"); got != "\n" || !p.warned("no model of its own") {
		t.Errorf("it got the model %q; %v", got, out.Warnings)
	}
}

func TestASecretIsNotMerged(t *testing.T) {
	t.Parallel()
	p := foreign(t, `cat > /dev/null
echo good > one.txt
env > env.txt
echo "<promise>COMPLETE</promise>"
`)
	p.userConfig += "    env: [OTHER_API_KEY=sk-very-secret-value-1]\n"
	p.flags["check_retries"] = []string{"0"}
	out := p.run(coordinator.Job{Loop: &loop.Settings{Agent: "other", Retries: -1, OnError: "skip"}})
	if out.Status != result.Failed || p.read("env.txt") != "" || p.read("one.txt") != "" {
		t.Errorf("%s: env.txt is %q", out.Status, p.read("env.txt"))
	}
}
