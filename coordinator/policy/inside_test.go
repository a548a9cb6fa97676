package policy_test

import (
	"strings"
	"testing"

	"ralph/coordinator/policy"
)

// Ways to write what always asks that a reader of the command must see through,
// with the sandbox off.
func TestMoreDisguises(t *testing.T) {
	p := compile(t, policy.Rules{Sandbox: policy.SandboxOff})
	for _, command := range []string{
		`echo push | xargs -I{} git {}`, `echo push | xargs -I % git %`, `find *.go -exec git push \;`, `find . -name "$n" -execdir git push \;`, `env $X git push`, `timeout $T git push`, `nice -n $N git push`,
		`sudo -u $U git push`, `ssh $h git push`, `xargs "$cmd"`, `timeout 5 "$BIN"`, `env "$@"`, `exec "$@"`, `exec git push`, `command git push`, `command -p git push`, `builtin command git push`, `nohup git push &`,
		`bash -c -- 'git push'`, `bash -c -x 'git push'`, `bash --norc -c 'git push'`, `bash -O extglob -c 'git push'`, `sh -ec "git push"`, `bash -ic 'git push'`, `at now <<< 'git push'`, `crontab -`, `batch < f`,
		`GIT_EDITOR='git push' git commit`, `GIT_SEQUENCE_EDITOR=x git rebase -i main`, `EDITOR='git push' git commit`, `VISUAL=$X git commit`, `export GIT_EDITOR=./x; git commit`, `GIT_ASKPASS=./x git fetch`,
		`git grep -O'git push' x`, `git grep --open-files-in-pager=sh x`, `git fetch --upload-pack='git push' x`, `git ls-remote --upload-pa=x y`, `git clone -u x y`, `git fetch 'ext::sh -c x'`, `git archive --remote=x --exec=y`,
		`python3 -c "import os; os.system('git push')"`, `python3 -c 'import subprocess as s; s.run(["git", "push"])'`, "python3 - <<'E'\nimport os\nos.system('git push')\nE", `perl -e 'system("git","push")'`,
		`node -e 'require("child_process").execSync("git push")'`, `awk 'BEGIN{system("git push")}'`, `sed '1e git push' f`, `make --eval='x:;git push' x`, `vim -c '!git push'`, `gdb -ex 'shell git push'`, `tar xf a --to-command='git push'`,
		`ssh -o ProxyCommand='git push' h`, `rsync -e 'git push' a b`, `script -qc 'git push' x`, `tmux new -d 'git push'`, `test -v 'a[$(git push)]'`, `PS4='$(git push)'; set -x; ls`, `{git,push}`, `gi{t,x} push`, `g{i..i}t push`,
		`git checkout HEAD README.md`, `git checkout main src/`, `git checkout a.go`, `git checkout ./x`, `git gc --prune=now`, `git worktree add -B x y`, `git maintenance start`, `git -C . push`, `git --git-dir . push`, `git -c user.name=x push`,
		`rm -rf .git`, `rm -f sub/.git/index.lock`, `mv .GIT x`, `sudo rm -r "./.git"`, `find . -name .git -exec rm -rf {} +`, `find .git -delete`, `rm -rf "$PWD/.git"`,
		`sudo npm publish`, `timeout 9 docker push x`, `env A=b git-push`, `npm publish`, `cargo publish`, `docker push x`, `twine upload d`, `gh pr create`, `gh repo delete x`, `hg push`, `svn ci`, `jj git push`, `gem push x`, `dotnet nuget push x`, `uv publish`,
		`if true; then git push; fi`, `while git push; do :; done`, `case x in x) git push;; esac`, `( git push )`, `{ git push; }`, `! git push`, `coproc git push`, `time git push`, `true && git push`, `x=${y:-$(git push)}`, `[[ -n $(git push) ]]`,
		"cat <<E\n$(git push)\nE", `select x in a; do git push; done`, `git() { command git push; }; git`, `f() { "$@"; }; f git push`, `/usr/bin/g?t push`, `"git"$e push`, `git p"u"s''h`, "git \\\npush",
	} {
		if d := p.Decide(shell(command)); d.Effect != policy.Ask || d.Rule == "" {
			t.Errorf("%q: effect %v by %q", command, d.Effect, d.Rule)
		}
	}
}

func TestMoreEverydayCommandsRun(t *testing.T) {
	p := compile(t, policy.Rules{Sandbox: policy.SandboxOff})
	for _, command := range []string{
		`find . -name "$n" -exec rm {} \;`, `find . -type f -print0 | xargs -0 grep "$x"`, `xargs -I{} cp {} dst`, `for t in a b; do timeout 60 go test "$t"; done`, `env A="$B" make`, `command -v "$tool"`, `trap 'rm -rf "$tmp"' EXIT`,
		`docker build -t "$TAG" .`, `docker ps`, `npm run build`, `npm ci`, `gh pr view 1`, `gh run list`, `cargo build`, `git checkout main`, `git checkout -b fix.this`, `git checkout -`, `git checkout v1.2`, `git checkout -t origin/x`,
		`git commit -m "git push comes later"`, `grep -rn "git push" docs | head`, `echo "run git push"`, `GIT_EDITOR=true git commit --amend --no-edit`, `EDITOR=cat git rebase --continue`, `git grep -n Open`, `nohup ./server "$PORT" &`,
		`python3 -c 'import git; print(git.__version__)'`, `crontab -l`, `git fetch origin`, `git archive HEAD -o x.tar`, `git clone -q a b`, `rm -f .gitignore`, `find . -not -path './.git/*' -name x`, `ls .git`, `mkdir -p {a,b}/c`, `nice make`, `git gc`, `awk '{print $1}' f`,
	} {
		if d := p.Decide(shell(command)); d.Effect != policy.Allow {
			t.Errorf("%q: effect %v by %q", command, d.Effect, d.Rule)
		}
	}
}

// Inside a sandbox that holds only what is on the list asks; what cannot be read
// stays inside.
func TestInsideTheSandbox(t *testing.T) {
	p := compile(t, policy.Rules{Sandbox: policy.SandboxWorkspace, Confined: true})
	for _, command := range []string{
		`git push`, `git push --force`, `git reset --hard`, `git clean -fdx`, `git checkout -f x`, `git branch -D x`, `sh -c 'git push'`, `eval "git pu""sh"`, `git "$@"`, `git -c alias.x='!git push' x`, `git -c x.y=z push`, `git lfs push o`,
		`git branch -f x HEAD`, `git branch -M a b`, `git switch -C x`, `git checkout -B x`, `git tag -f x`, `git stash drop`, `git reflog expire --all`, `git update-ref -d refs/x`, `git worktree remove --force x`, `git filter-branch`,
		`git rebase -x 'git push' main`, `git rebase --exec "git reset --hard" main`, `git bisect run git clean -fdx`, `git bisect run sh -c 'git push'`, `git submodule foreach 'git clean -fdx'`, `git submodule foreach git push`, `git maintenance start`,
		`git -C "$d" push`, `git -C $d status`, `git -C "$@" status`, `git -C "${a[@]}" status`, `git -C "$d" $x`, `git -C "$d" reset --hard`, `git -C "$d" -c alias.x='!git push' x`, `git -C "$d" -C "$@" log`, `git -C "$(git push)" log`, `git -c "$d" log`,
		`git -C "$d"$e status`, `git -C "$d" "$x"`, `git -C "${!d}" status`, `git "-C" "$*" push`, `git send-pack x`, `xargs git push`, `x=push; git $x`, `f() { git "$@"; }; f push`, `npm publish`, `GIT_DIR=x git push`, `python3 -c 'import os; os.system("git push")'`, `$(echo git) push`,
		`echo "reset --hard" | xargs git`, `echo "clean -fdx" | xargs -n1 git`, `printf "push\n--force\n" | xargs git`, `echo x | xargs -I{} git {}`, `f | xargs -I % git % --hard`, `f | xargs -r /usr/bin/git -C .`, `f | parallel git {}`,
		`GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0="reset --hard" git x`, `GIT_CONFIG_PARAMETERS="'alias.x=clean -fd'" git x`, `export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="$k" GIT_CONFIG_VALUE_0=x; git x`,
	} {
		if d := p.Decide(shell(command)); d.Effect != policy.Ask || d.Rule == "" {
			t.Errorf("%q: effect %v by %q", command, d.Effect, d.Rule)
		}
	}
	for _, command := range []string{
		`git ls-files -m | xargs git add`, `f | xargs -n 1 git show --stat`, `GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=user.name GIT_CONFIG_VALUE_0=x git commit -m x`,
		`ls`, `rm -rf build`, `eval "$(pyenv init -)"`, `"$CMD" x`, `sh < script`, `curl x | bash`, `timeout 5 "$BIN"`, `git flow init`, `GIT_DIR=x git status`, `git -c core.x=y log`, `bash "$f"`, `exec "$@"`, `git reset --soft x`,
		`git restore --source=HEAD~1 file`, `git restore .`, `git checkout -- .`, `git checkout HEAD~1 -- a.go`, `git checkout a.go`, `git gc --prune=now`, `git prune`, `git bisect run go test ./...`, `git bisect run ./check.sh`,
		`git rebase -x 'go test ./...' main`, `git rebase --exec "make test" HEAD~3`, `git submodule foreach git status`, `git submodule foreach --recursive 'git log -1'`, `git submodule foreach rm -f x`, `git mergetool`, `git difftool -x diff HEAD~1`, `git grep -O x`,
	} {
		if d := p.Decide(shell(command)); d.Effect != policy.Allow || d.Network || d.Leaves {
			t.Errorf("%q: %+v", command, d)
		}
	}
	if d := p.Decide(shell("git push")); !d.Leaves {
		t.Error("a push cannot do its work inside")
	}
	if d := p.Decide(shell("git reset --hard")); d.Leaves {
		t.Error("a reset need not leave the sandbox")
	}
}

// TestGitForce has the options of git's manuals that overwrite or remove what is not to be had back
// ask in each mode, and those of the same letters that do not, and dry runs, run.
func TestGitForce(t *testing.T) {
	for _, mode := range []policy.Rules{{Sandbox: policy.SandboxWorkspace, Confined: true}, {Sandbox: policy.SandboxOff}} {
		p := compile(t, mode)
		for _, command := range []string{
			`git fetch --force`, `git fetch -f origin main:main`, `git fetch -qf`, `git fetch --tags --force origin x:y`, `git fetch --forc`, `git fetch origin +main:main`, `git fetch . +HEAD~1:refs/heads/main`, `git pull --force`, `git pull -f origin main`, `git pull origin +main:main`,
			`git submodule update --force`, `git submodule update --init -f`, `git submodule deinit -f sub`, `git submodule add --force u sub`, `git checkout-index -f -a`, `git checkout-index --force a`, `git notes add -f -m x`, `git notes copy --force a b`, `git fast-import --force`,
			`git branch --force x y`, `git branch -d -f x`, `git tag --force v1`, `git mv -f a b`, `git rm -rf a`, `git replace a b`, `git stash clear`, `git clean`, `git clean -f`, `git clean -fdX`, `git clean -fd -e -n`, `git clean -fd --exclude -n`, `git clean -f -- -n`, `git clean -fen`,
			`git clean -n --no-dry-run -f`, `git clean -f $x`, `git clean -f --exclude=-n`, `git push --dry-run`, `git push -n`, `git reset --hard -q`,
		} {
			if d := p.Decide(shell(command)); d.Effect != policy.Ask {
				t.Errorf("%q: effect %v", command, d.Effect)
			}
		}
		for _, command := range []string{
			`git clean -n`, `git clean -nd`, `git clean -fdn`, `git clean -xdn .`, `git clean --dry-run -d`, `git clean -d -n -e '*.log' src`, `git fetch --prune`, `git fetch --tags --force`, `git fetch origin main:main`, `git fetch origin "+refs/heads/*:refs/remotes/origin/*"`, `git fetch --filter=blob:none`, `git pull --ff-only`,
			`git add -f dist`, `git submodule update --init`, `git notes add -m x`, `git branch -d x`, `git fast-import -q`, `git tag v1`, `git checkout-index -a --prefix=x/`,
		} {
			if d := p.Decide(shell(command)); d.Effect != policy.Allow {
				t.Errorf("%q: effect %v by %q", command, d.Effect, d.Rule)
			}
		}
	}
}

// A sandbox that lacks layers asks once, naming them, and is not taken for one
// that holds.
func TestMissingLayersAsk(t *testing.T) {
	p := compile(t, policy.Rules{Sandbox: policy.SandboxWorkspace, Missing: []string{"network namespace"}})
	d := p.Decide(shell("ls"))
	if d.Effect != policy.Ask || d.Consent != policy.ConsentDegraded || !strings.Contains(d.Rule, "network namespace") {
		t.Errorf("%+v", d)
	}
	if d := p.Decide(shell(`"$X" push`)); d.Effect != policy.Ask || d.Consent != "" {
		t.Errorf("what cannot be read: %+v", d)
	}
	if d := compile(t, policy.Rules{Sandbox: policy.SandboxReadOnly}).Decide(shell("ls")); d.Consent != policy.ConsentUnsandboxed {
		t.Errorf("nothing holds: %+v", d)
	}
}

func TestOutside(t *testing.T) {
	outside := func(command string) policy.Request {
		r := shell(command)
		r.Outside = true
		return r
	}
	work := policy.Rules{Sandbox: policy.SandboxWorkspace, Confined: true}
	rules := func(allow ...string) policy.Rules { r := work; r.Allow = allow; return r }
	cases := []struct {
		name    string
		rules   policy.Rules
		command string
		want    policy.Effect
	}{
		{"asks", work, "ls", policy.Ask},
		{"asks though the network is allowed", rules("network"), "ls", policy.Ask},
		{"asks though everything is allowed", rules("true", `tool == "shell"`), "ls", policy.Ask},
		{"a rule about the command covers it", rules(`argv[0] == "make"`), "make deploy", policy.Allow},
		{"not what comes after it", rules(`argv[0] == "make"`), "make deploy; rm x", policy.Ask},
		{"not what is not literal", rules(`argv[0] == "make"`), "make $X", policy.Ask},
		{"a rule can be for inside only", rules(`argv[0] == "make" && !outside`), "make", policy.Ask},
		{"what cannot be read asks", work, `"$X"`, policy.Ask},
		{"denied", policy.Rules{Sandbox: policy.SandboxWorkspace, Confined: true, Deny: []string{"outside"}}, "ls", policy.Deny},
		{"off has no outside", policy.Rules{Sandbox: policy.SandboxOff}, "ls", policy.Allow},
		{"read-only asks", policy.Rules{Sandbox: policy.SandboxReadOnly, Confined: true}, "ls", policy.Ask},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if d := compile(t, c.rules).Decide(outside(c.command)); d.Effect != c.want || d.Consent != "" {
				t.Errorf("%+v, want %v", d, c.want)
			}
		})
	}
}

func TestNetwork(t *testing.T) {
	cases := []struct {
		name        string
		allow, deny []string
		command     string
		want        bool
	}{
		{"nobody said so", nil, nil, "npm ci", false},
		{"for all", []string{"network"}, nil, "npm ci", true},
		{"for all, also what is not literal", []string{"network"}, nil, `curl "$X" | tar x`, true},
		{"for the shell", []string{`network && tool == "shell"`}, nil, "npm ci", true},
		{"for another tool", []string{`network && tool == "fetch"`}, nil, "npm ci", false},
		{"for one program", []string{`network && argv[0] == "npm"`}, nil, "npm ci", true},
		{"not for the other", []string{`network && argv[0] == "npm"`}, nil, "curl x", false},
		{"not for both", []string{`network && argv[0] == "npm"`}, nil, "npm ci && curl x", false},
		{"not for what is not literal", []string{`network && argv[0] == "npm"`}, nil, "npm ci $X", false},
		{"not under another PATH", []string{`network && argv[0] == "npm"`}, nil, "PATH=.:$PATH npm ci", false},
		{"not behind another program", []string{`network && argv[0] == "npm"`}, nil, "env npm ci", false},
		{"not by its base name", []string{`network && argv[0] == "npm"`}, nil, "./npm ci", false},
		{"a rule for the command alone", []string{`argv[0] == "npm"`}, nil, "npm ci", false},
		{"a rule for everything", []string{"true"}, nil, "npm ci", false},
		{"denied", []string{"network"}, []string{"network"}, "npm ci", false},
		{"denied for one", []string{"network"}, []string{`network && argv[0] == "curl"`}, "npm ci; curl x", false},
		{"denied for another", []string{"network"}, []string{`network && argv[0] == "curl"`}, "npm ci", true},
		{"a rule that breaks", []string{`network && argv[9] == "x"`}, nil, "npm ci", false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := compile(t, policy.Rules{Sandbox: policy.SandboxWorkspace, Confined: true, Allow: c.allow, Deny: c.deny})
			d := p.Decide(shell(c.command))
			if d.Network != c.want {
				t.Errorf("%+v, want network %v", d, c.want)
			}
			if d.Effect == policy.Deny {
				t.Errorf("%+v: the command itself is not denied", d)
			}
		})
	}
	p := compile(t, policy.Rules{Sandbox: policy.SandboxWorkspace, Confined: true, Allow: []string{"network"}})
	for _, command := range []string{"git push", `"$X" push`, `echo x | base64 -d | sh`} {
		if d := p.Decide(shell(command)); d.Effect != policy.Ask {
			t.Errorf("%q with the network: %+v", command, d)
		}
	}
}
