package accesspolicy_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"ralph/workers/accesspolicy"
)

// configurations returns places of git's configuration, by git-config(1), each a script that
// makes the setting $1 = $2 there.
func configurations() map[string]string {
	return map[string]string{
		"local": `git config "$1" "$2"`, "user": `git config --global "$1" "$2"`, "user, XDG": `mkdir -p "$HOME/.config/git"; git config -f "$HOME/.config/git/config" "$1" "$2"`,
		"work tree": `git config extensions.worktreeConfig true; git config --worktree "$1" "$2"`,
		"included":  `git config include.path more; git config -f .git/more "$1" "$2"`, "included by the user's": `git config --global include.path "~/more"; git config -f "$HOME/more" "$1" "$2"`,
		"included if": `git config --global "includeIf.gitdir:$PWD/.path" "$HOME/more"; git config -f "$HOME/more" "$1" "$2"`,
		"on a branch": `git config "includeIf.onbranch:main.path" more; git config -f .git/more "$1" "$2"`,
		"one line":    `printf '[%s] %s = %s\n' "${1%.*}" "${1##*.}" "$2" >> .git/config`, "a comment": `printf '[%s] ; of [core]\n\t%s = "%s" # here\n' "${1%.*}" "${1##*.}" "$2" >> .git/config`,
		"capitals":  `printf '[%s]\n\t%s = %s\n' "$(echo "${1%.*}" | tr a-z A-Z)" "$(echo "${1##*.}" | tr a-z A-Z)" "$2" >> .git/config`,
		"continued": `printf '[%s]\n\t%s = \\\n%s\n' "${1%.*}" "${1##*.}" "$2" >> .git/config`,
	}
}

// configured returns settings through which git runs or reads a file of the work tree, by
// git-config(1) and gitattributes(5), with that file.
func configuredFiles() map[string][2]string {
	return map[string][2]string{
		"core.hooksPath": {"githooks", "githooks/pre-commit"}, "core.hookspath": {"tools/git/hooks", "tools/git/hooks/post-checkout"}, "core.hooksPath ": {".", "pre-commit"},
		"core.hooksPath  ": {"own/_", "own/pre-push"}, "core.fsmonitor": {"tools/watch", "tools/watch"}, "core.sshCommand": {"./tools/ssh -x", "tools/ssh"}, "core.editor": {"sh tools/edit", "tools/edit"},
		"core.pager": {"tools/page | cat", "tools/page"}, "filter.one.clean": {"tools/clean %f", "tools/clean"}, "filter.one.process": {"python3 ./tools/filter.py", "tools/filter.py"},
		"diff.one.textconv": {"tools/conv", "tools/conv"}, "diff.external": {"tools/diff", "tools/diff"}, "merge.one.driver": {"tools/merge %O %A %B", "tools/merge"},
		"credential.helper": {"!tools/secret", "tools/secret"}, "gpg.program": {"tools/gpg", "tools/gpg"}, "trailer.see.command": {"tools/trail", "tools/trail"}, "interactive.diffFilter": {"tools/show", "tools/show"},
		"include.path": {"../shared.cfg", "shared.cfg"}, "includeIf.onbranch:main.path": {"../conf/more.cfg", "conf/more.cfg"},
	}
}

// Files of the tree that git runs or reads by the user's configuration are neither made nor
// changed by a command, wherever the configuration lies and however it is spelled.
func TestProgramsOfGitsConfiguration(t *testing.T) {
	var made, tried atomic.Int64 // the cases run at the same time
	for place, script := range configurations() {
		for i, key := range slices.Sorted(maps.Keys(configuredFiles())) {
			part := 6
			if testing.Short() {
				part = 18
			}
			if place != "local" && i%part != len(place)%part || place == "local" && testing.Short() && i%3 > 0 {
				continue
			}
			setting, file := configuredFiles()[key][0], configuredFiles()[key][1]
			key = strings.TrimSpace(key)
			if strings.Contains(key, ":") && strings.Contains(script, "printf") || strings.Count(key, ".") > 1 && strings.Contains(script, "printf") {
				continue // the section has a name in quotes
			}
			t.Run(place+"/"+key+"="+setting, func(t *testing.T) {
				t.Parallel()
				for _, there := range []bool{true, false} {
					w := newWorld(t, true)
					if there {
						w.file(filepath.Join(w.root, file), "mine\n")
					}
					if strings.HasPrefix(key, "include") && (strings.Contains(script, "HOME") || strings.Contains(script, "--global")) {
						setting = filepath.Join(w.root, file)
					}
					w.shell("shift; "+script, w.root, key, setting)
					s := w.open(nil)
					needGuard(t, w)
					tried.Add(1)
					o := w.run(s, w.root, "mkdir -p $(dirname "+file+"); echo x > "+file+"; rm -f "+file+"; echo x > new.tmp; mv new.tmp "+file, accesspolicy.Call{})
					if got := w.shell("cat "+file+" 2>/dev/null || true", w.root); there && got != "mine" || !there && got != "" {
						made.Add(1)
						t.Errorf("there %v: it has %q\n%s%q\n%s", there, got, o.out, o.rep, w.shell("git config --list --show-origin", w.root))
					}
				}
			})
		}
	}
	t.Cleanup(func() { t.Logf("%d of %d were made or changed", made.Load(), tried.Load()) })
}

// What the user configures while Ralph runs counts for the next command, however the file
// of the configuration is reached; one that git cannot read leaves what was known.
func TestProgramsFollowTheConfiguration(t *testing.T) {
	for name, c := range map[string]struct{ before, after string }{
		"edited":            {`git config --global core.pager cat`, `git config --global core.hooksPath githooks`},
		"a link":            {`mkdir -p "$HOME/dotfiles"; touch "$HOME/dotfiles/git"; rm -f "$HOME/.gitconfig"; ln -s dotfiles/git "$HOME/.gitconfig"`, `printf '[core]\n\thooksPath = githooks\n' >> "$HOME/dotfiles/git"`},
		"a linked link":     {`mkdir -p "$HOME/d"; touch "$HOME/d/b"; ln -s b "$HOME/d/a"; rm -f "$HOME/.gitconfig"; ln -s d/a "$HOME/.gitconfig"`, `printf '[core]\n\thooksPath = githooks\n' > "$HOME/d/c"; ln -sf c "$HOME/d/a"`},
		"XDG, not there":    {`true`, `mkdir -p "$HOME/.config/git"; git config -f "$HOME/.config/git/config" core.hooksPath githooks`},
		"a linked include":  {`git config --global include.path "~/more"; touch "$HOME/m"; ln -s m "$HOME/more"`, `git config -f "$HOME/m" core.hooksPath githooks`},
		"the repository's":  {`true`, `git config core.hooksPath githooks`},
		"broken since then": {`git config core.hooksPath githooks`, `echo '[broken' >> "$HOME/.gitconfig"`},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, true)
			w.shell(c.before, w.root)
			s := w.open(nil)
			needGuard(t, w)
			w.works(s, "true")
			w.shell(c.after, w.root)
			o := w.run(s, w.root, "mkdir -p githooks; echo x > githooks/pre-commit", accesspolicy.Call{})
			if got := w.shell("cat githooks/pre-commit 2>/dev/null || true", w.root); got != "" {
				t.Errorf("it has %q\n%s%q", got, o.out, o.rep)
			}
		})
	}
}

// TestProgramsByAnyForm has the user's configuration lead to files of the tree by all forms that
// a shell and git resolve, by git-config(1) and sh(1).
func TestProgramsByAnyForm(t *testing.T) {
	for i, c := range []struct {
		key, value, file string
		absent           bool // it is protected before it is there, too
	}{
		{"core.fsmonitor", `$PWD/tools/f`, "tools/f", true},
		{"core.pager", `"$(git rev-parse --show-toplevel)"/tools/f`, "tools/f", true},
		{"core.pager", "${R:-.}/tools/f | less", "tools/f", true},
		{"core.editor", `cd tools && ./f`, "tools/f", true},
		{"sequence.editor", `bash f`, "f", false},
		{"core.editor", `sh -c './tools/f "$@"' --`, "tools/f", true},
		{"core.editor", `'my tools/f' -w`, "my tools/f", true},
		{"core.sshCommand", `env X=1 ./tools/f`, "tools/f", true},
		{"core.sshCommand", `ssh -F tools/f`, "tools/f", true},
		{"core.sshCommand", `ssh -F./tools/f`, "tools/f", false},
		{"alias.x", `!./tools/f`, "tools/f", true},
		{"alias.y", `!f() { . tools/f; }; f`, "tools/f", true},
		{"alias.z", `-c core.pager=./tools/f log`, "tools/f", true},
		{"alias.u", `!broken ( $PWD/tools/f`, "tools/f", false},
		{"difftool.x.cmd", `tools/f "$LOCAL"`, "tools/f", true},
		{"mergetool.x.cmd", `python3 tools/f`, "tools/f", true},
		{"mergetool.x.path", `tools/f`, "tools/f", true},
		{"core.attributesFile", `attrs`, "attrs", true},
		{"gpg.ssh.allowedSignersFile", `signers`, "signers", true},
		{"init.templateDir", `tmpl`, "tmpl/hooks/pre-push", true},
		{"hook.x.command", `tools/f`, "tools/f", true},
		{"sendemail.smtpServer", `./tools/f`, "tools/f", true},
		{"browser.x.cmd", `$PWD/tools/f`, "tools/f", true},
		{"newsection.x.newkey", `$PWD/tools/f`, "tools/f", true},
	} {
		t.Run(strings.ReplaceAll(c.key+"="+c.value, "/", "_"), func(t *testing.T) {
			t.Parallel()
			for _, there := range []bool{true, false} {
				if !there && !c.absent {
					continue
				}
				w := newWorld(t, true)
				if there {
					w.file(filepath.Join(w.root, c.file), "mine\n")
				}
				switch i % 3 {
				case 0:
					w.shell(`git config --global "$2" "$3"`, w.root, c.key, c.value)
				case 1:
					w.shell(`git config "$2" "$3"`, w.root, c.key, c.value)
				default: // when the user switches
					w.shell(`git config --global includeIf.onbranch:other.path "$HOME/more"; git config -f "$HOME/more" include.path more2; git config -f "$HOME/more2" "$2" "$3"`, w.root, c.key, c.value)
				}
				s := w.open(nil)
				needGuard(t, w)
				o := w.run(s, w.root, `mkdir -p "$(dirname "`+c.file+`")"; echo x > "`+c.file+`"; rm -f "`+c.file+`"; echo x > new.tmp; mv new.tmp "`+c.file+`"`, accesspolicy.Call{})
				if got := w.shell(`cat "$2" 2>/dev/null || true`, w.root, c.file); there && got != "mine" || !there && got != "" {
					t.Errorf("there %v: it has %q\n%s%q", there, got, o.out, o.rep)
				}
			}
		})
	}
	w := newWorld(t, true)
	w.shell(`git config blame.ignoreRevsFile .git-blame-ignore-revs; git config commit.template ./msg; git config core.excludesFile ./ignore; git config url.https://x/.insteadOf x:/y; git config branch.main.gh-merge-base origin/main
git config core.editor "code --wait"; git config credential.helper store; git config core.pager "less -R"; git config alias.l "log --oneline"; git config alias.d "diff HEAD -- package.json"; git config alias.e "!git add package.json"; git config gitflow.prefix.feature feature/; echo x >package.json`, w.root)
	s := w.open(nil)
	w.works(s, "mkdir -p origin feature; for f in package.json .git-blame-ignore-revs msg ignore origin/main code less store log; do echo x >$f; done")
}
