package coordinator_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ralph/coordinator"
	"ralph/coordinator/loop"
	"ralph/workers/proc"
	"ralph/workers/sandbox"
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
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
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
	p.want(out, coordinator.StatusCompleted)
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
			if out.Status == coordinator.StatusCompleted || p.read("one.txt") != "" {
				t.Errorf("%s: %+v", out.Status, out)
			}
		})
	}
}

func TestAnotherProgramIsConfined(t *testing.T) {
	t.Parallel()
	if !sandbox.Check(proc.New(proc.Options{})).Complete {
		t.Skip("the sandbox is not complete here")
	}
	p := foreign(t, `cat > /dev/null
echo good > one.txt
echo x > "$(dirname "$0")/escaped"
(echo bad > `+"$PWD/../../../README.new"+`) 2>/dev/null
echo "<promise>COMPLETE</promise>"
`)
	delete(p.flags, "sandbox")
	out := p.run(coordinator.Job{Loop: &loop.Settings{Agent: "other"}})
	p.want(out, coordinator.StatusCompleted)
	if p.read("one.txt") != "good\n" {
		t.Errorf("one.txt is %q: %s", p.read("one.txt"), strings.Join(out.Warnings, "; "))
	}
	if p.read("README.new") != "" || p.read("tool/escaped") != "" {
		t.Error("it wrote into the user's tree")
	}
}
