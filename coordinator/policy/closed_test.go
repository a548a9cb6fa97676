package policy_test

import (
	"strings"
	"testing"

	"ralph/coordinator/policy"
)

// What a command runs is taken from every place of the grammar and every builtin
// in bash(1), from the variables in the manuals of the programs, and from the
// options with which programs start others. printed writes a git command that
// always asks, in a form that no reader of the text sees.
const printed = `echo Z2l0IHB1c2ggLWYK | base64 -d`

func TestUnreadableCommandsAsk(t *testing.T) {
	p := compile(t, policy.Rules{Sandbox: policy.SandboxOff})
	for _, command := range []string{
		// what a shell or an interpreter reads
		`source <(` + printed + `)`, `. <(` + printed + `)`, `source /dev/stdin <<< "$x"`, `. /dev/stdin < f`, `. /dev/fd/3`, `. /proc/self/fd/0`, `. "$f"`, `source $(f)`, `builtin . <(f)`, `command source <(f)`, `source /dev/stdin <<'E'
git push
E`, `bash <(` + printed + `)`, `sh /dev/stdin < f`, `cat f | sh /dev/stdin`, `cat f | bash -`, `bash /dev/fd/0 < f`, `bash --rcfile <(f) -i`, printed + ` > >(sh)`, printed + ` | tee >(sh)`, `sh <&3`, `make -f <(f)`, `make -f - < f`, `make -f -`, `gmake --file=/dev/stdin`, `make --file=- x`, `make -f/dev/stdin`,
		`make --makefile <(f)`, `make -C x -f "$(f)"`, `python3 <(f)`, `python3 - < f`, printed + ` | python3`, printed + ` | python3 -`, `perl <(f)`, printed + ` | perl`, printed + ` | ruby`, printed + ` | node`, printed + ` | node -`, printed + ` | php`, `node <(f)`, `ruby /dev/stdin`, `awk -f <(f) x`, `sed -f <(f) x`, `sed -f /dev/stdin x`,
		`ninja -f <(f)`, `just -f <(f)`, `env -S "$x"`, `xargs -a <(f) sh -c`, `parallel < f`, `parallel :::: f`, `at -f f now`, `gdb -x <(f)`, `vim -s <(f)`, `vim -S <(f) x`, `ed x < f`, `tclsh <(f)`, `lua <(f)`, `git -c include.path=<(f) status`, `git -c include.path=x status`, `crontab <(f)`, `crontab f`,
		`git config --global include.path <(f)`, `GIT_CONFIG_GLOBAL=<(f) git status`, `docker compose -f <(f) up`, `psql -f <(f)`, `bash -O extglob <(f)`, `exec <(f)`, `<(f)`, `exec 0<&3; sh`, `tmux -f <(f) new`, `screen -c <(f)`, `expect <(f)`, `nix-shell <(f)`,
		// builtins
		`hash -p ./x ls; ls`, `hash -p "$x" ls`, `hash -rp ./x ls`, `builtin hash -p ./x ls`, `enable -f ./x.so y`, `enable -f "$x" y`, `enable -nf ./x y`, `trap "$x" EXIT`, `trap -- "$(f)" 0`, `eval "$x"`, `eval $'g\x69t push'`, `mapfile -C "$x" -c 1 a < f`, `mapfile -C f a`, `readarray -C x -c1 a`, `complete -C ./x y`, `compgen -C ./x`, `compgen -C "$x"`,
		`compgen -W '$(f)'`, `compgen -W "$x"`, `bind -x '"\C-a": f'`, `bind -f x`, `fc -s`, `fc -e x`, `fc -e - 1`, `history -s x; fc -s x`, `history -r f; fc -s`, `alias ls="$x"`, `alias x=$(f)`, `coproc sh`, `coproc X { sh; }`, `coproc bash <(f)`, `exec -a x $y`, `command $x`, `builtin eval "$x"`, `builtin $x`, `${x@P}`, `echo ${x@P}`, `echo "${x@P}"`, `echo ${a[$(sh)]}`,
		`PROMPT_COMMAND='x' bash -i`, `PROMPT_COMMAND=$x`, `PS4='$(x)' bash -x y`, `PS4=$x; set -x; ls`, `PS1='$(x)' sh -i`, `PS0="$x" bash -i`, `trap 'sh <(f)' DEBUG`, `test -v $'a[\x24(sh)]'`, `printf -v $'a[\x24(sh)]' x`, `unset $'a[\x24(sh)]'`, `read $'a[\x24(sh)]' <<< x`, `shopt -s extdebug; trap "$x" DEBUG`, `set -o functrace; trap $x RETURN`,
		`function f { sh; }; f < x`, `case $x in $(sh)) ;; esac`, `for x in $(sh < f); do :; done`, `if sh < f; then :; fi`, `until sh <f; do :; done`, `while . <(f); do :; done`, `select x in $(sh < f); do :; done`, `[[ $(sh <f) ]]`, `(( a[$(sh <f)] ))`, `! sh < f`, `time sh < f`, `x=(<(f)); . "${x[0]}"`, `x=<(f); . $x`, "cat <<E\n$(sh <f)\nE", `cat <<< $(sh <f)`, `echo ${x:=$(sh <f)}`, `echo ${x/$(sh <f)/}`, `echo "$(( $(sh <f) ))"`, "echo `sh <f`", `echo ${x:$(sh <f)}`, `declare x=$(sh <f)`, `export x=$(sh <f)`, `local x=$(sh <f)`, `let x=$(sh <f)`, `f() { sh; }; printf x | f`, `{ sh; } < f`, `( sh ) <<< "$x"`, `echo >$(sh <f)`, `${ sh <f;}`,
		// variables with which a program runs another
		`BASH_ENV=<(f) bash x`, `BASH_ENV=./x bash y`, `BASH_ENV=x make`, `ENV=./x sh -i`, `ENV=<(f) sh -i`, `ENV=x sh -i`, `ENV="$x" dash`, `export BASH_ENV=./x; make`, `declare -x BASH_ENV=./x; make`, `typeset -x BASH_ENV=x; make`, `readonly BASH_ENV=x; export BASH_ENV; make`, `BASH_ENV=x; export BASH_ENV; make`, `env BASH_ENV=x make`, `env -i BASH_ENV=<(f) bash y`, `env -u A BASH_ENV=x make`, `env "BASH_ENV=$x" make`, `sudo BASH_ENV=x make`, `env -- LD_PRELOAD=./x.so ls`,
		`local LD_PRELOAD=x; ls`, `set -a; BASH_ENV=x; make`, `read BASH_ENV < f; export BASH_ENV; make`, `printf -v BASH_ENV x; export BASH_ENV; make`, `mapfile -t BASH_ENV < f`, `for BASH_ENV in x; do make; done`, `: ${BASH_ENV:=x}; export BASH_ENV; make`, `: "${LD_PRELOAD=x}"`, `getopts a BASH_ENV`, `declare -n r=BASH_ENV; r=x`, `BASH_ENV+=x make`, `export "BASH_ENV=x"; make`, `export 'LD_PRELOAD=./x.so'; ls`, `declare "BASH_ENV=x"`, `export $x; make`, `export "$x=y"; make`, `declare "$a=$b"; make`, `export BASH_"ENV"=x; make`, `env 'BASH_FUNC_ls%%=() { sh <f; }' bash y`, `env "$x=1" make`,
		`LD_PRELOAD=./x.so ls`, `LD_PRELOAD=$x ls`, `export LD_PRELOAD=./x.so; ls`, `LD_AUDIT=./x.so ls`, `LD_LIBRARY_PATH_X=1 LD_AUDIT=x ls`, `DYLD_INSERT_LIBRARIES=x ls`, `GIT_SSH=./x git fetch`, `GIT_SSH_COMMAND=x git fetch`, `GIT_EXTERNAL_DIFF=./x git diff`, `export GIT_EXTERNAL_DIFF=./x; git diff`, `GIT_EXTERNAL_DIFF=./x make`, `GIT_PROXY_COMMAND=x git fetch`, `GIT_EXEC_PATH=. git status`, `GIT_CONFIG=x git config -l`, `GIT_CONFIG_GLOBAL=x git status`, `GIT_CONFIG_SYSTEM=x git status`, `GIT_CONFIG_PARAMETERS=x make`, `GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=a GIT_CONFIG_VALUE_0=b make`, `export GIT_CONFIG_COUNT=1`,
		`GIT_EDITOR=x git commit`, `GIT_SEQUENCE_EDITOR=./x make`, `GIT_PAGER=less make`, `GIT_PAGER='sh -c x' git log`, `GIT_PAGER=$x git log`, `GIT_ASKPASS=x make`, `GIT_TEMPLATE_DIR=x git init`, `GIT_ALTERNATE_OBJECT_DIRECTORIES=x git log`, `GIT_TRACE_X=1 GIT_SSH=x make`, `env GIT_SSH_COMMAND="$x" make`, `env GIT_EXTERNAL_DIFF=./x git diff`, `sudo GIT_EXTERNAL_DIFF=x git diff`, `GIT_WORK_TREE=x GIT_DIR=y git status`,
		// xargs
		`f | xargs git`, `xargs -I{} git {} x`, `xargs sh`, `xargs -I{} sh -c {}`, `xargs -n1 bash`, `xargs -I{} bash -c '{}'`, `xargs python3`, `xargs -I{} python3 {}`, `xargs perl`, `xargs -n 1 node`, `xargs ruby`, `xargs env`, `xargs -I{} env {}`, `xargs $x`, `xargs -I{} {}`, `xargs -I% % x`, `xargs -i {}`, `xargs -0 -I {} ./{}`, `xargs --replace={} {}`, `xargs -J % % x`, `xargs time`, `xargs nice`, `xargs sudo`, `xargs xargs`, `xargs timeout 5`, `xargs -P4 -I@ @ -x`, `xargs find . -exec`, `xargs source`, `xargs make -f`, `xargs -I{} make -f {}`, `xargs --arg-file=f sh`, `xargs -d'\n' -n1 sh -c`, `xargs ssh h`, `xargs env A=b`, `xargs -a f git`, `xargs parallel`, `parallel {}`, `parallel git {}`, `parallel sh -c {}`, `parallel ::: a b`, `find . -exec {} \;`, `find . -type f -exec ./{} \;`, `find . -exec bash -c {} \;`, `find . -exec env {} \;`, `fd -x sh`, `fd -x {}`, `find . -exec "$x" {} \;`, `find . -ok git {} \;`, `find . -execdir git {} +`, `find . -exec nice {} \;`, `find . -name x -exec echo {} \; -exec env {} \;`, `find . -exec sh -c 'x {}' \;`, `find . -exec sh -ec 'x {}' _ \;`, `find . -exec bash -c 'sh {}' _ {} \;`, `find . -exec echo {} + -exec git {} +`,
	} {
		if d := p.Decide(shell(command)); d.Effect != policy.Ask {
			t.Errorf("%q: effect %v by %q", command, d.Effect, d.Rule)
		}
	}
}

// What an allow rule names may not run something else: neither by an option nor by
// a variable or by what it is fed.
func TestAllowRulesCoverNoOtherProgram(t *testing.T) {
	p := compile(t, policy.Rules{Sandbox: policy.SandboxWorkspace, Allow: []string{
		`argv[0] == "git"`, `command startsWith "go "`, `argv[0] in ["make", "npm", "xargs", "find", "env", "export", "source", "sort", "tar", "rsync", "sed", "awk", "cargo", "timeout", "alias", "trap", "eval", "exec", "cp", "read", "cmake", "uv", "bundle", "perl", "python3", "rg", "sudo", "mapfile", "declare", "local", "typeset", "readonly", "builtin", "command", "coproc"]`,
	}})
	for _, command := range carriers() {
		if d := p.Decide(shell(command)); d.Effect == policy.Allow {
			t.Errorf("%q: effect %v by %q", command, d.Effect, d.Rule)
		}
	}
	for _, command := range []string{
		`git status`, `git log --oneline -5`, `git diff HEAD~1 -- a.go`, `git commit -m "a b"`, `git config user.name x`, `git config --get core.pager`, `go build ./...`, `go test -run 'TestX$' -count=1 ./...`, `go build -ldflags '-s -w -X main.version=1' -o bin/x .`, `make -j4 test`, `make -f build.mk`, `npm test`, `NODE_ENV=test npm test`, `CI=1 npm ci`, `GOOS=linux GOARCH=arm64 CGO_ENABLED=0 go build`, `export NODE_ENV=test; npm test`, `tar -xzf a.tgz`, `cp -r a b && git add -A`,
	} {
		if d := p.Decide(shell(command)); d.Effect != policy.Allow {
			t.Errorf("%q is not covered: effect %v by %q", command, d.Effect, d.Rule)
		}
	}
}

// A deny rule for the program that these commands run is not talked around.
func TestDenyRulesSeeWhatOthersRun(t *testing.T) {
	p := compile(t, policy.Rules{Sandbox: policy.SandboxOff, Deny: []string{`argv[0] == "curl"`}})
	tried := 0
	for _, command := range carriers() {
		if !strings.Contains(command, "./x") {
			continue
		}
		tried++
		if d := p.Decide(shell(strings.ReplaceAll(command, "./x", "curl"))); d.Effect == policy.Allow {
			t.Errorf("%q is allowed with curl", command)
		}
	}
	if tried < 150 {
		t.Errorf("only %d commands", tried)
	}
}

// carriers are commands in which a program that a rule allows runs ./x, or may run
// something that it does not name.
func carriers() []string {
	return []string{
		`git -c core.fsmonitor=x status`, `git -c diff.external=./x diff`, `git --exec-path=. status`, `git --config-env=core.pager=X log`, `git x`, `git rebase -x ./x main`, `git rebase --exec=./x main`, `git rebase --ex ./x main`, `git bisect run ./x`, `git submodule foreach ./x`, `git submodule foreach --recursive ./x`, `git difftool -x ./x`, `git difftool --extcmd=./x`, `git difftool --extc ./x`, `git grep -O./x y`, `git grep --open-files-in-pager=./x y`,
		`git clone -u ./x y`, `git clone --upload-pack ./x y`, `git fetch --upload-pack=./x y`, `git pull --upload-pack ./x`, `git ls-remote --upload-pack=./x y`, `git fetch-pack --exec=./x y`, `git archive --exec=./x --remote=y`, `git push --receive-pack=./x y`, `git push --exec=./x y`, `git send-pack --receive-pack=./x y`, `git clone ext::./x`, `git fetch ext::./x`, `git remote add x ext::./x`, `git submodule add ext::./x`, `git clone -c core.fsmonitor=./x y`, `git clone --config core.hooksPath=. y`, `git clone --template=./x y`, `git init --template=./x`, `git init --template ./x`,
		`git config core.fsmonitor ./x`, `git config --global core.pager ./x`, `git config alias.s '!./x'`, `git config set diff.external ./x`, `git config --add include.path ./x`, `git config filter.a.clean ./x`, `git config core.hooksPath x`, `git config --local credential.helper ./x`, `git config core.sshCommand ./x`, `git config --replace-all gpg.program ./x`, `git config Core.Editor ./x`, `git filter-branch --tree-filter ./x`, `git maintenance register`, `git maintenance start`, `git instaweb --httpd=./x`, `git web--browse -c x`, `git send-email --sendmail-cmd=./x`, `git mergetool -t x`, `git credential-store get`, `git daemon`, `git shell -c x`, `git gui`, `git merge -s x y`, `git rebase --strategy=x y`, `git cherry-pick --strategy x y`, `git revert --strategy=x y`, `git pull -s x`, `git merge-index ./x -a`, `git var GIT_EDITOR; git p`, `git commit -m x; git -p p`, `git upload-pack x`, `git remote-ext x`, `git http-push x`, `git sh-setup`, `git request-pull x`, `git svn x`, `git p4 x`, `git cvsimport x`, `git archimport x`,
		`GIT_EXTERNAL_DIFF=./x git diff`, `GIT_SSH_COMMAND=./x git fetch`, `GIT_PAGER=./x git log`, `PAGER=./x git log`, `GIT_DIR=x git status`, `GIT_CONFIG_GLOBAL=x git status`, `HOME=. git status`, `XDG_CONFIG_HOME=. git status`, `PATH=.:$PATH git status`, `PATH=. git status`, `export PATH=.; git status`, `LD_PRELOAD=./x.so git status`, `LD_LIBRARY_PATH=. git status`, `EDITOR=./x git commit`, `BASH_ENV=./x git status`, `PERL5LIB=. git add -p`, `TERM=x PAGER=y git log`, `SHELL=./x git x`, `IFS=x; git status`, `declare -x GIT_SSH=./x; git fetch`, `typeset GIT_SSH=./x; git fetch`, `local PATH=.; git status`, `readonly PATH=.; git x`, `env GIT_SSH=./x git fetch`, `env PATH=. git status`, `builtin export PATH=.; git status`, `command export PATH=.; git status`,
		`go test -exec ./x ./...`, `go test -exec=./x ./...`, `go test --exec ./x`, `go run -exec ./x .`, `go build -toolexec ./x`, `go build -toolexec=./x`, `go build --toolexec=./x`, `go vet -vettool=./x`, `go vet -vettool ./x`, `go test -toolexec="./x" .`, `go build -ldflags=-extld=./x`, `go build -ldflags '-linkmode external -extld ./x'`, `go env -w CC=./x`, `go env -w GOFLAGS=-toolexec=./x; go build`, `GOFLAGS=-toolexec=./x go build`, `CC=./x go build`, `GOROOT=. go build`, `GOTOOLDIR=. go build`, `GOENV=./x go build`, `GOPATH=. go build`, `GOTOOLCHAIN=path go build`, `CGO_CFLAGS=-fplugin=./x go build`, `PKG_CONFIG=./x go build`, `AR=./x go build`, `GCCGO=x go build`, `export CC=./x; go build`, `go build; ./x`, `go build | sh`, `go build && ./x`, `go build & ./x`, `go env -w CC=x`, "go build\n./x", `go build $(./x)`, `go build <(./x)`, `go build > x`, `go() { ./x; }; go build`, `alias go=./x; go build`, `hash -p ./x go; go build`, `enable -f ./x.so go; go build`, `trap ./x EXIT; go build`, `go build -o /dev/stdout . | sh`, `if ./x; then go build; fi`, `go build || ./x`, `time ./x; go build`, `coproc ./x; go build`, `go tool -n $x`, `go vet "$x"`, `go generate -run "$x"`, "go build <<E\n$(./x)\nE", `go build <<< "$(./x)"`, `go build "${x:-$(./x)}"`, `go build $((a[$(./x)]))`,
		`make --eval='x:;./x'`, `make --ev='x:;./x'`, `make SHELL=./x`, `make -f <(./x)`, `make -f - <<< x`, `make MAKEFLAGS=--eval=x`, `MAKEFLAGS=--eval=x make`, `MAKEFILES=./x make`, `npm --script-shell=./x test`, `npm test --script-shell ./x`, `npm exec ./x`, `npm x ./x`, `npm exec -c ./x`, `npm_config_script_shell=./x npm test`, `NODE_OPTIONS='-r ./x' npm test`, `NODE_ENV=$(./x) npm test`, `NODE_ENV=test PATH=. npm test`, `npm test --node-options=--require=./x`, `xargs ./x`, `xargs -I{} ./x {}`, `xargs git`, `xargs cp`, `xargs -I{} cp {} "$x"`, `find . -exec ./x \;`, `find . -execdir ./x {} +`, `find . -ok ./x \;`, `find . -fprintf x y`, `env ./x`, `env -S './x y'`, `env -i ./x`, `source x`, `source <(./x)`, `. ./x`, `sort --compress-program=./x y`, `sort --compress-prog ./x y`, `tar --to-command=./x -xf y`, `tar --to-com ./x`, `tar -I ./x -xf y`, `tar -xIf ./x y`, `tar --use-compress-program ./x -xf y`, `tar --checkpoint=1 --checkpoint-action=exec=./x cf a b`, `rsync -e ./x a b`, `rsync -ave ./x a b`, `rsync --rsh=./x a b`, `sed 1e./x y`, `sed '1e ./x' y`, `sed s/a/b/e y`, `awk 'BEGIN{system("./x")}'`, `awk '{print | "./x"}' y`, `awk -f <(./x)`, `cargo --config target.x.runner=./x run`, `cargo run --config ./x`, `timeout 5 ./x`, `timeout -k 1 5 ./x`, `eval ./x`, `exec ./x`, `command ./x`, `builtin eval ./x`, `cmake -E env ./x`, `cmake -P ./x`, `uv run ./x`, `bundle exec ./x`, `perl -e 'exec "./x"'`, `perl -we 'exec "./x"'`, `python3 -Bc 'import os'`, `python3 -c x`, `rg --pre ./x y`, `sudo ./x`, `mapfile -C ./x a`, `read -e x`,
	}
}
