package coordinator_test

import (
	"strings"
	"testing"

	"ralph/coordinator"
	"ralph/coordinator/crew"
	"ralph/coordinator/result"
)

// An agent's own tree has no guard: what its commands make there, also by git, is left out
// when its work is merged, unless a rule allows it or the file tool was permitted to
// write it.
func TestNamesThatActAreNotMerged(t *testing.T) {
	t.Parallel()
	const makes = "mkdir -p web .github/workflows && echo 'export A=1' > web/.envrc && echo 'on: push' > .github/workflows/ci.yml && git add -A && git commit -qm mine && echo 1 > ok.txt"
	for name, c := range map[string]struct {
		allow   []string
		answers []string
		steps   []any // a command, or a file and its content
		merged  string
		out     string
	}{
		"refused": {steps: []any{makes}, merged: "ok.txt", out: ".github/workflows/ci.yml web/.envrc"},
		"a rule":  {allow: []string{`acts == "ci"`}, steps: []any{makes}, merged: "ok.txt .github/workflows/ci.yml", out: "web/.envrc"},
		"the file tool": {answers: []string{"yes"}, steps: []any{[2]string{"web/.envrc", "export B=2\n"}, "echo 1 > ok.txt"},
			merged: "ok.txt web/.envrc"},
		"another content": {answers: []string{"yes"}, steps: []any{[2]string{"web/.envrc", "export B=2\n"}, "echo evil >> web/.envrc; echo 1 > ok.txt"},
			merged: "ok.txt", out: "web/.envrc"},
		"an edit": {answers: []string{"yes"}, steps: []any{"mkdir web; echo evil > web/.envrc", [3]string{"web/.envrc", "evil", "evil # x"}, "echo 1 > ok.txt"},
			merged: "ok.txt", out: "web/.envrc"},
		"edits": {answers: []string{"yes", "yes"}, steps: []any{[2]string{"web/.envrc", "export B=2\n"}, [3]string{"web/.envrc", "B=2", "B=3"}, "echo 1 > ok.txt"}, merged: "ok.txt web/.envrc"},
		"a link to the same": {answers: []string{"yes"}, steps: []any{[2]string{"web/.envrc", "x"}, "rm web/.envrc; ln -s x web/.envrc; echo 1 > ok.txt"},
			merged: "ok.txt", out: "web/.envrc"},
		"executable": {answers: []string{"yes"}, steps: []any{[2]string{".husky/pre-push", "x\n"}, "chmod +x .husky/pre-push; echo 1 > ok.txt"},
			merged: "ok.txt", out: ".husky/pre-push"},
		"a link for a directory": {steps: []any{"mkdir cc; echo x > cc/config.toml; ln -s cc .cargo; ln -s cc .config; echo 1 > ok.txt"}, merged: "ok.txt cc/config.toml", out: ".cargo .config"},
		"a rule for a tool":      {allow: []string{`tool == "write"`}, steps: []any{makes}, merged: "ok.txt", out: ".github/workflows/ci.yml web/.envrc"},
		"a repository": {steps: []any{"mkdir -p x/objects x/refs; touch x/objects/a x/refs/b; echo 'ref: refs/heads/main' > x/HEAD; printf '[core]\\nfsmonitor = ./evil\\n' > x/config; echo 1 > ok.txt"},
			merged: "ok.txt", out: "x/HEAD x/objects/a x/refs/b"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			p := newProject(t)
			p.flags["sandbox"] = []string{"workspace"}
			if c.allow != nil {
				p.flags["allow"] = c.allow
			}
			var asked []string
			p.ask = script(&asked, c.answers...)
			k := played(p)
			k.part("ralph", spawn(m{"name": "one", "task": "write"}), text("I wait."), text("all done"))
			for _, s := range c.steps {
				switch s := s.(type) {
				case string:
					k.part("one", calls(call("shell", m{"command": s})))
				case [2]string:
					k.part("one", put(s[0], s[1]))
				case [3]string:
					k.part("one", calls(call("edit", m{"path": s[0], "old": s[1], "new": s[2]})))
				}
			}
			k.part("one", text("done"))
			out := p.run(coordinator.Job{})
			p.want(out, result.Completed)
			if a := childOf(t, out, "one"); a.Landing != crew.Merged {
				t.Errorf("%+v", a)
			}
			got := p.git("ls-files")
			for name := range strings.FieldsSeq(c.merged) {
				if !strings.Contains("\n"+got+"\n", "\n"+name+"\n") {
					t.Errorf("%s is not merged; there are\n%s", name, got)
				}
			}
			for name := range strings.FieldsSeq(c.out) {
				if strings.Contains("\n"+got+"\n", "\n"+name+"\n") || p.read(name) != "" {
					t.Errorf("%s is in the user's tree", name)
				}
				if !p.warned(name + " (") {
					t.Errorf("%s is not named in a warning", name)
				}
			}
		})
	}
}
