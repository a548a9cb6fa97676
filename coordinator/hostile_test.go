package coordinator_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ralph/coordinator"
	"ralph/coordinator/result"
	"ralph/workers/agent"
	"ralph/workers/git"
)

// The question shows where a command runs, and all of it.
func TestThePermissionQuestionHidesNothing(t *testing.T) {
	long := "true\n" + strings.Repeat("# x\n", 40) + "echo ran >> ran"
	p := newProject(t, calls(call("shell", m{"command": "true", "cwd": "sub/dir"})), calls(shell(long)), text("done"))
	p.write("sub/dir/x", "")
	p.flags, p.method = map[string][]string{}, "session"
	var asked []string
	p.ask = script(&asked, "yes", "yes")
	p.want(p.run(coordinator.Job{}), result.Completed)
	if len(asked) != 2 || !strings.Contains(asked[0], `in "sub/dir"?`) || !strings.Contains(asked[1], long+"\n(end of the 42 lines)") || !strings.Contains(asked[1], "(42 lines,") {
		t.Errorf("asked %q", asked)
	}
}

// A rule about a path sees the file that would really be written.
func TestRulesSeeTheResolvedPath(t *testing.T) {
	p := newProject(t, calls(call("write", m{"path": "./x/../link/f", "content": "x"}), call("write", m{"path": "link/../ci/f", "content": "x"})), text("done"))
	p.write("ci/keep", "")
	if err := os.Symlink("ci", p.path("link")); err != nil {
		t.Fatal(err)
	}
	p.flags = map[string][]string{"deny": {`path startsWith "ci/"`}, "sandbox": {"off"}}
	if out := p.run(coordinator.Job{}); len(out.Denials) != 2 || p.read("ci/f") != "" {
		t.Errorf("denials %+v, wrote %q", out.Denials, p.read("ci/f"))
	}
}

// In a project that is the user's home, what Ralph and the shell obey is out of
// reach.
func TestFilesThatAreObeyed(t *testing.T) {
	p := newProject(t, calls(write(".config/ralph/config.yaml", "sandbox: off\n")), calls(write(".github/workflows/x.yml", "x")), calls(write(".bashrc", "x")), text("done"))
	p.flags = map[string][]string{}
	o := p.options()
	o.Getenv = func(name string) string { return map[string]string{"HOME": p.root}[name] }
	c, err := coordinator.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	out := c.Run(t.Context(), coordinator.Job{Task: "go"})
	p.shut(c)
	for _, name := range []string{".config/ralph/config.yaml", ".github/workflows/x.yml", ".bashrc"} {
		if p.read(name) != "" {
			t.Errorf("%s was written", name)
		}
	}
	if len(out.Denials) != 2 || out.Status != result.Denied {
		t.Errorf("%s, denials %+v", out.Status, out.Denials)
	}
}

// A repository cannot have Ralph commit to, or keep checkpoints in, another one.
func TestAForeignRepositoryIsLeftAlone(t *testing.T) {
	victim := newProject(t)
	before := victim.git("for-each-ref") + victim.git("count-objects", "-v")
	p := bareProject(t, calls(write("a.txt", "x"), call("git", m{"action": "commit", "message": "x"})), text("done"))
	p.write(".git", "gitdir: "+victim.path(".git")+"\n")
	out := p.run(coordinator.Job{})
	p.want(out, result.Completed)
	if got := victim.git("for-each-ref") + victim.git("count-objects", "-v"); got != before {
		t.Errorf("the other repository changed:\n%s", got)
	}
	if _, err := os.Stat(victim.path(".git/ralph.lock")); err == nil {
		t.Error("the lock is in the other repository")
	}
	if !strings.Contains(strings.Join(out.Warnings, "\n"), git.ErrForeign.Error()) || len(out.FilesChanged) != 1 {
		t.Errorf("warnings %q, changed %+v", out.Warnings, out.FilesChanged)
	}
}

// Wherever a secret turns up in the work, nothing that is shown or kept holds
// it.
func TestNothingKeptOrShownHoldsASecret(t *testing.T) {
	const key = "key-that-is-secret"
	p := newProject(t, calls(
		shell("echo "+key+"; seq 20000; echo "+key+"; seq 20000"), call("task", m{"title": key, "status": "in_progress", "result": key}),
		call("learn", m{"type": "fact", "what": key}), call("todo", m{"action": "add", "text": key}), call("goal", m{"action": "set", "text": key}), call("note", m{"text": key}),
		call("record_feature", m{"name": key, "key_files": []string{key}, "dependencies": []string{key}}), call("read", m{"path": key}), call("nosuch", m{"x": key}),
	), text("the answer is "+key+" indeed"))
	out := p.run(coordinator.Job{Task: "find " + key})
	shown, err := json.Marshal(struct {
		Outcome result.Outcome
		Events  []agent.Event
	}{out, p.seen()})
	if err != nil || strings.Contains(string(shown), key) {
		t.Errorf("shown: %v %s", err, shown)
	}
	if out.Answer != "the answer is [redacted] indeed" {
		t.Errorf("answer %q", out.Answer)
	}
	kept := 0
	err = filepath.WalkDir(p.root, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		kept++
		text, err := os.ReadFile(name)
		if strings.Contains(string(text), key) {
			t.Errorf("%s holds the secret", name)
		}
		return err
	})
	if err != nil || kept < 8 {
		t.Errorf("%d files, %v", kept, err)
	}
}
