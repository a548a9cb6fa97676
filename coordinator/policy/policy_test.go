package policy_test

import (
	"errors"
	"strings"
	"testing"

	"ralph/coordinator/policy"
)

func compile(t *testing.T, r policy.Rules) *policy.Policy {
	t.Helper()
	p, err := policy.Compile(r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func shell(command string) policy.Request {
	return policy.Request{Tool: "shell", Command: command, Runs: true}
}

func TestDecide(t *testing.T) {
	const curl = `argv[0] == "curl"`
	const tests = `tool == "shell" && command startsWith "go test"`
	off, work := policy.SandboxOff, policy.SandboxWorkspace
	cases := []struct {
		name  string
		rules policy.Rules
		req   policy.Request
		want  policy.Effect
	}{
		{"off is consent", policy.Rules{Sandbox: off}, shell("rm -r build"), policy.Allow},
		{"unsandboxed asks", policy.Rules{Sandbox: work}, shell("ls"), policy.Ask},
		{"confined runs", policy.Rules{Sandbox: work, Confined: true}, shell("ls"), policy.Allow},
		{"reading needs nothing", policy.Rules{Sandbox: work}, policy.Request{Tool: "read", Path: "a"}, policy.Allow},
		{"writing inside needs nothing", policy.Rules{Sandbox: work}, policy.Request{Tool: "write", Path: "a", Writes: true}, policy.Allow},
		{"read-only refuses writes", policy.Rules{Sandbox: policy.SandboxReadOnly}, policy.Request{Tool: "edit", Writes: true}, policy.Deny},
		{"network is off", policy.Rules{Sandbox: off}, policy.Request{Tool: "fetch", Network: true}, policy.Deny},
		{"network allowed", policy.Rules{Sandbox: off, Allow: []string{"network"}}, policy.Request{Tool: "fetch", Network: true}, policy.Allow},

		{"deny by program", policy.Rules{Sandbox: off, Deny: []string{curl}}, shell("curl x"), policy.Deny},
		{"deny behind a semicolon", policy.Rules{Sandbox: off, Deny: []string{curl}}, shell("true; curl x"), policy.Deny},
		{"deny in a pipe", policy.Rules{Sandbox: off, Deny: []string{curl}}, shell("echo | curl x"), policy.Deny},
		{"deny in a substitution", policy.Rules{Sandbox: off, Deny: []string{curl}}, shell("echo $(curl x)"), policy.Deny},
		{"deny in a subshell", policy.Rules{Sandbox: off, Deny: []string{curl}}, shell("(cd /tmp && curl x)"), policy.Deny},
		{"deny by quoted program", policy.Rules{Sandbox: off, Deny: []string{curl}}, shell(`'cu'"rl" x`), policy.Deny},
		{"deny cannot be ruled out by a variable", policy.Rules{Sandbox: off, Deny: []string{curl}}, shell("$C x"), policy.Ask},
		{"deny cannot be ruled out by eval", policy.Rules{Sandbox: off, Deny: []string{curl}}, shell("eval 'cu''rl x'"), policy.Ask},
		{"deny leaves the rest alone", policy.Rules{Sandbox: off, Deny: []string{curl}}, shell("go test ./... 2>&1"), policy.Allow},
		{"deny beats allow", policy.Rules{Sandbox: off, Allow: []string{"true"}, Deny: []string{curl}}, shell("curl x"), policy.Deny},
		{"a rule that breaks denies", policy.Rules{Sandbox: off, Deny: []string{`argv[7] == "x"`}}, shell("ls"), policy.Deny},
		{"deny by path", policy.Rules{Sandbox: off, Deny: []string{`path startsWith "ci/"`}}, policy.Request{Tool: "write", Path: "ci/x", Writes: true}, policy.Deny},

		{"allow exact", policy.Rules{Sandbox: work, Allow: []string{tests}}, shell("go test ./..."), policy.Allow},
		{"allow does not stretch over &&", policy.Rules{Sandbox: work, Allow: []string{tests}}, shell("go test ./... && rm -r x"), policy.Ask},
		{"allow does not stretch over a newline", policy.Rules{Sandbox: work, Allow: []string{tests}}, shell("go test\nrm x"), policy.Ask},
		{"allow needs literal words", policy.Rules{Sandbox: work, Allow: []string{tests}}, shell("go test $(rm x)"), policy.Ask},
		{"allow needs no redirection", policy.Rules{Sandbox: work, Allow: []string{tests}}, shell("go test > ~/.bashrc"), policy.Ask},
		{"allow needs no assignment", policy.Rules{Sandbox: work, Allow: []string{`argv[0] == "go"`}}, shell("GOFLAGS=-toolexec=x go test"), policy.Ask},
		{"allow is not for wrappers", policy.Rules{Sandbox: work, Allow: []string{`argv[0] == "env"`}}, shell("env rm -r x"), policy.Ask},

		{"push asks", policy.Rules{Sandbox: off}, shell("git push"), policy.Ask},
		{"push with options asks", policy.Rules{Sandbox: off}, shell("cd x && git -C y -c a=b push -f"), policy.Ask},
		{"push by path asks", policy.Rules{Sandbox: off}, shell("/usr/bin/git push"), policy.Ask},
		{"push behind env asks", policy.Rules{Sandbox: off}, shell("env A=b git push"), policy.Ask},
		{"reset hard asks", policy.Rules{Sandbox: off}, shell("git reset --hard HEAD~1"), policy.Ask},
		{"soft reset runs", policy.Rules{Sandbox: off}, shell("git reset --soft HEAD~1"), policy.Allow},
		{"clean asks", policy.Rules{Sandbox: off}, shell("git clean -fdx"), policy.Ask},
		{"unreadable git asks", policy.Rules{Sandbox: off}, shell(`git "$@"`), policy.Ask},
		{"branch -D asks", policy.Rules{Sandbox: off}, shell("git branch -D x"), policy.Ask},
		{"push can be allowed", policy.Rules{Sandbox: off, Allow: []string{`argv[1] == "push"`}}, shell("git push"), policy.Allow},
		{"status runs", policy.Rules{Sandbox: off}, shell("git status"), policy.Allow},
		{"no valid shell", policy.Rules{Sandbox: off}, shell("if then ("), policy.Deny},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := compile(t, c.rules).Decide(c.req)
			if d.Effect != c.want {
				t.Errorf("%q: effect %v by %q, want %v", c.req.Command, d.Effect, d.Rule, c.want)
			}
			if d.Effect != policy.Allow && d.Rule == "" {
				t.Error("a refusal names no rule")
			}
		})
	}
}

func TestCompileNamesTheRuleAndTheColumn(t *testing.T) {
	for _, bad := range []string{`tol == "x"`, `tool ==`, `1 + 1`, strings.Repeat("(", 5000)} {
		_, err := policy.Compile(policy.Rules{Deny: []string{bad}})
		var re *policy.RuleError
		if !errors.As(err, &re) {
			t.Errorf("%.20q compiles: %v", bad, err)
		}
	}
	_, err := policy.Compile(policy.Rules{Allow: []string{`tol == "x"`}})
	if err == nil || !strings.Contains(err.Error(), "unknown name tol (1:1)") {
		t.Errorf("the error does not name the column: %v", err)
	}
}

func FuzzDecide(f *testing.F) {
	for _, s := range []string{"ls", "git push", "a | b && c", "$(x)", "if x; then y; fi", "cat <<E\nx\nE", "\x00", "a\\\nb"} {
		f.Add(s)
	}
	p, err := policy.Compile(policy.Rules{Sandbox: policy.SandboxWorkspace, Allow: []string{`argv[0] == "ls"`}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, command string) {
		d := p.Decide(shell(command))
		if d.Effect == policy.Allow && !strings.Contains(command, "ls") && !strings.ContainsAny(command, `'"`) {
			t.Errorf("%q is allowed by %q", command, d.Rule)
		}
	})
}
