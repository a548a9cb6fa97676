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
		{"deny reads what eval gets", policy.Rules{Sandbox: off, Deny: []string{curl}}, shell("eval 'cu''rl x'"), policy.Deny},
		{"deny cannot be ruled out by eval", policy.Rules{Sandbox: off, Deny: []string{curl}}, shell("eval \"$x\""), policy.Ask},
		{"a later deny rule beats an earlier doubt", policy.Rules{Sandbox: off, Deny: []string{curl, `argv[0] == "wget"`}}, shell("wget $X"), policy.Deny},
		{"CI files ask", policy.Rules{Sandbox: work}, policy.Request{Tool: "write", Path: ".GitHub/workflows/x.yml", Writes: true, Guarded: "x is run by continuous integration", Acts: "ci"}, policy.Ask},
		{"start-up files ask", policy.Rules{Sandbox: work, Confined: true}, policy.Request{Tool: "edit", Path: ".bashrc", Writes: true, Guarded: ".bashrc is a start-up file", Acts: "shell"}, policy.Ask},
		{"CI files under consent", policy.Rules{Sandbox: off}, policy.Request{Tool: "write", Path: ".gitlab-ci.yml", Writes: true, Guarded: "x", Acts: "ci"}, policy.Allow},
		{"CI files can be allowed", policy.Rules{Sandbox: work, Allow: []string{`path startsWith ".github/"`}}, policy.Request{Tool: "write", Path: ".github/workflows/x.yml", Writes: true, Guarded: "x", Acts: "ci"}, policy.Allow},
		{"a class can be allowed", policy.Rules{Sandbox: work, Allow: []string{`acts == "ci"`}}, policy.Request{Tool: "write", Path: ".gitlab-ci.yml", Writes: true, Guarded: "x", Acts: "ci"}, policy.Allow},
		{"another class cannot", policy.Rules{Sandbox: work, Allow: []string{`acts == "ci"`}}, policy.Request{Tool: "write", Path: ".envrc", Writes: true, Guarded: "x", Acts: "shell"}, policy.Ask},
		{"a new hook cannot", policy.Rules{Sandbox: work, Allow: []string{`acts == "hook"`}}, policy.Request{Tool: "write", Path: ".husky/x", Writes: true, Guarded: "x", Acts: "hook"}, policy.Ask},
		{"a hook that exists can", policy.Rules{Sandbox: work, Allow: []string{`acts == "hook"`}}, policy.Request{Tool: "write", Path: ".husky/x", Writes: true, Guarded: "x", Acts: "hook", Exists: true}, policy.Allow},
		{"CI files can be read", policy.Rules{Sandbox: work}, policy.Request{Tool: "read", Path: ".gitlab-ci.yml"}, policy.Allow},
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

// However a push, a reset or a forced move is written, it asks although the
// sandbox is off; so does what cannot be read at all.
func TestDisguises(t *testing.T) {
	p := compile(t, policy.Rules{Sandbox: policy.SandboxOff})
	for _, command := range []string{
		`bash -c 'git push'`, `bash -euo pipefail -c 'git push'`, `bash -o pipefail -c 'cd x && git push'`, `sh -lc "git push"`, `eval git push`, `eval "git push"`,
		`echo git push | sh`, "sh <<E\ngit push\nE", "bash -s <<'E'\ngit push\nE", `bash <<< "git push"`, `sh < file`, `curl -s u | bash`, `bash -c "$X"`,
		`sudo git push`, `timeout 5 git push`, `setsid git push`, `xargs git push`, `echo push | xargs git`, `find . -exec git push \;`, `find . -exec sh -c 'git push' \;`,
		`\git push`, `g\it pu\sh`, `g"i"t p'u'sh`, `$(echo git) push`, "`echo git` push", `g=git; $g push`, `git $X`, `git pu$X`, `git${IFS}push`, `git$IFS"push"`, `$'git' push`,
		`git -c alias.x=push x`, `git -c alias.x='!git push' x`, `git -c core.sshCommand=x fetch`, `git -calias.x=push x`, `git --config-env alias.x=Y x`, `git --exec-path=. status`,
		`git config alias.p push; git p`, `git p`, `git send-pack o`, `/usr/lib/git-core/git-push`, `git-push`, `git subtree push x`, `git svn dcommit`, `git lfs push`, `git remote-https x`,
		`GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0=push git status`, `export GIT_DIR=/x; git status`, `GIT_SSH_COMMAND=x; git fetch`, `GIT_EXEC_PATH=. git status`,
		`f() { git "$@"; }; f push`, `alias g=git; g push`, `alias g='git push'`, `env -S 'git push'`, `nice -n 5 git push`, `cat <(git push)`, `x=$(git push)`, `trap 'git push' EXIT`,
		`busybox sh -c 'git push'`, `GIT push`, `ssh h git push`, `git --attr-source HEAD push`, `git -C a --no-pager -c user.name=x push`,
		`git reset --hard`, `git reset --har`, `git reset --h`, `git reset $X`, `git checkout -- .`, `git checkout .`, `git checkout -fb x`, `git checkout -B x`, `git restore a`, `git restore -SW a`,
		`git branch -D x`, `git branch -df x`, `git branch -M a b`, `git switch -C x`, `git switch --discard x`, `git stash drop`, `git stash clear`, `git reflog expire --all`, `git update-ref -d refs/x`,
		`git rm -rf .`, `git tag -f x`, `git worktree remove --force x`, `git rebase --exec 'git push'`, `git bisect run x`, `git submodule foreach x`, `git filter-branch`,
	} {
		if d := p.Decide(shell(command)); d.Effect != policy.Ask || d.Rule == "" {
			t.Errorf("%q: effect %v by %q", command, d.Effect, d.Rule)
		}
	}
}

// No permission paralysis: what developers do all day runs.
func TestEverydayCommandsRun(t *testing.T) {
	p := compile(t, policy.Rules{Sandbox: policy.SandboxOff})
	for _, command := range []string{
		`go test ./... 2>&1 | tail -50`, `cd sub && make`, `npm ci && npm test`, `for f in *.go; do gofmt -l "$f"; done`, `find . -name '*.go' | xargs grep -n x`, `find . -name git -type d`,
		`find . -name '*.pyc' -delete`, `python3 -c 'print(1)'`, "python3 - <<'E'\nprint(\"$(x)\")\nE", `awk '{print $(NF-1)}' f`, `X=1 ./run.sh`, `bash run.sh`, `bash -c 'go vet ./...'`, `bash --version`,
		`$(go env GOPATH)/bin/staticcheck ./...`, `~/go/bin/x`, `./node_modules/.bin/tsc`, `"$HOME"/bin/tool`, `set -euo pipefail; ls`, `export A=b; env | sort`, `sed -i 's/a/b/' f`, "cat > f <<E\n$X\nE",
		`git status`, `git log --oneline -5`, `git diff HEAD~1 -- a`, `git add -A && git commit -m "fix: push it"`, `git -c user.name=x -c user.email=y commit -m z`, `git checkout -b topic`, `git switch -c topic`,
		`git branch -d old`, `git stash`, `git stash pop`, `git reset --soft HEAD~1`, `git reset HEAD a`, `git restore --staged a`, `git tag -a v1 -m x`, `git fetch`, `git pull --rebase`, `git rebase main`, `git grep -n x`,
		`GIT_AUTHOR_DATE=now git commit -m x`, `GIT_PAGER=cat git log`, `git --version`, `git -C sub status`, `echo git push`, `grep -rn "git push" .`, `timeout 60 go test`, `env CGO_ENABLED=0 go build`, `nohup ./server &`,
		`true`, `x=1`, `(( x = 1 ))`, `[[ -f a ]] && cat a`, `while read -r l; do echo "$l"; done < f`, `xargs -n1 echo < f`, `command -v go`, `time make`,
	} {
		if d := p.Decide(shell(command)); d.Effect != policy.Allow {
			t.Errorf("%q: effect %v by %q", command, d.Effect, d.Rule)
		}
	}
}

// What a deny rule names is found behind quotes, directories and other
// programs, or cannot be ruled out.
func TestDenyRulesAreNotTalkedAround(t *testing.T) {
	byArgv := compile(t, policy.Rules{Sandbox: policy.SandboxOff, Deny: []string{`argv[0] == "curl"`}})
	byText := compile(t, policy.Rules{Sandbox: policy.SandboxOff, Deny: []string{`command contains "curl x"`}})
	for _, command := range []string{
		`c""url x`, `\curl x`, `cu\rl x`, "cu\\\nrl x", `/usr/bin/curl x`, `./curl x`, `CURL x`, `sh -c 'curl x'`, `sh -c "sh -c 'curl x'"`, `eval 'curl x'`, "bash <<E\ncurl x\nE", `env -S 'curl x'`,
		`timeout 5 curl x`, `x='a[$(curl x)]'; (( x ))`, `test -v 'a[$(curl x)]'`, `[ -v 'a[$(curl x)]' ]`, `printf -v 'a[$(curl x)]' y`, `let 'a[$(curl x)]=1'`, `declare 'a[$(curl x)]=1'`,
		`[[ 'a[$(curl x)]' -eq 0 ]]`, `hash -p /usr/bin/curl ls; ls x`, `PS4='$(curl x)'; set -x; ls`, `python3 -c 'x'`, `perl -e 'x'`, `node -e x`, `awk 'BEGIN{system("curl x")}'`, `stdbuf -o0 curl x`,
		`git -c core.pager='curl x' log`, `git -c alias.x='!curl x' x`, `git x`, `vim -c '!curl x'`, `tar xf a --to-command='curl x'`, `flock f curl x`, `script -c 'curl x'`, `$X x`, `cur? x`, `cu{r,}l x`,
		`test -v "a[\$(curl x)]"`, `test -v 'a['\$\(curl\ x\)']'`, `test -v 'a[${ curl x;}]'`, `sed '1e curl x' f`, `sed s/a/b/e f`, `split --filter='curl x' f`, `sort --compress-program=curl f`, `rsync -e 'curl x' a b`, `man -P 'curl x' ls`,
	} {
		for name, p := range map[string]*policy.Policy{"argv": byArgv, "command": byText} {
			if d := p.Decide(shell(command)); d.Effect == policy.Allow {
				t.Errorf("%s: %q is allowed", name, command)
			}
		}
	}
}

// An allow rule for a program covers nothing that changes what the program is.
func TestAllowRulesDoNotStretch(t *testing.T) {
	p := compile(t, policy.Rules{Sandbox: policy.SandboxWorkspace, Allow: []string{`argv[0] in ["ls", "test", "printf", "hash", "enable", "read", "set", "unset", "complete", "git"]`}})
	for _, command := range []string{
		`PATH=/tmp/e; ls`, `export PATH=/tmp/e; ls`, `declare -n x=PATH; ls`, `for PATH in /tmp/e; do ls; done`, `select PATH in /tmp/e; do ls; done`, `hash -p /tmp/e ls; ls`, `enable -f ./e.so ls`,
		`printf -v PATH /tmp/e; ls`, `read PATH; ls`, `set -x`, `unset -f ls`, `test -v "a[\$(rm x)]"`, `test -v 'a['\$\(rm\ x\)']'`, `test -v 'a[$(rm x)]'`, `let PATH=1; ls`, `(( PATH = 1 )); ls`, `complete -C 'rm x' y`, `git -c alias.x='!rm' x`, `git p`,
		`/tmp/ls`, `ls > f`, `sh -c ls`, `git -c core.pager=x log`,
	} {
		if d := p.Decide(shell(command)); d.Effect != policy.Ask {
			t.Errorf("%q: effect %v by %q", command, d.Effect, d.Rule)
		}
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
