package accesspolicy_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ralph/workers/accesspolicy"
)

// shapes are the forms by which git takes a directory for a repository, by
// gitrepository-layout(5), git-init(1), git-clone(1), git-worktree(1) and
// gitsubmodules(7): how a command makes one at "$1", with "$G" as git's directory.
func shapes() map[string]string {
	return map[string]string{
		"git init":           `git init -q "$1"; G="$1/.git"`,
		"bare":               `git init -q --bare "$1"; G="$1"`,
		"bare without git":   `mkdir -p "$1/objects" "$1/refs"; echo ref: refs/heads/main >"$1/HEAD"; printf '[core]\n\trepositoryformatversion = 0\n' >"$1/config"; G="$1"`,
		"clone":              `git init -q src; git -C src commit -q --allow-empty -m x; git clone -q src "$1"; G="$1/.git"`,
		"separate directory": `mkdir -p "$1"; git init -q --separate-git-dir="$1.store" "$1/w"; G="$1.store"`,
		"linked work tree":   `git init -q "$1"; git -C "$1" commit -q --allow-empty -m x; git -C "$1" worktree add -q ../linked; G="$1/.git/worktrees/linked"; git -C "$1" config extensions.worktreeConfig true; CONFIG=config.worktree`,
		"submodule":          `git init -q lib; git -C lib commit -q --allow-empty -m x; git init -q "$1"; git -C "$1" -c protocol.file.allow=always submodule --quiet add "$PWD/lib" a/b; G="$1/.git/modules/a/b"`,
		"moved":              `git init -q "$1.old"; mkdir -p "$1"; mv "$1.old/.git" "$1/.git"; G="$1/.git"`,
	}
}

// gitActs are ways in which git's directory has git run a program, or leads it
// elsewhere, by git-config(1), githooks(5), gitattributes(5) and
// gitrepository-layout(5).
func gitActs() map[string]string {
	list := map[string]string{
		"a hook":                   `mkdir -p "$G/hooks"; printf '#!/bin/sh\ntouch ran\n' >"$G/hooks/post-checkout" && chmod +x "$G/hooks/post-checkout" || true`,
		"attributes":               `mkdir -p "$G/info"; echo '* filter=x diff=x merge=x' >"$G/info/attributes"`,
		"alternates":               `mkdir -p "$G/objects/info"; echo /etc >"$G/objects/info/alternates"`,
		"http-alternates":          `mkdir -p "$G/objects/info"; echo http://localhost/ >"$G/objects/info/http-alternates"`,
		"a remotes file":           `mkdir -p "$G/remotes"; echo 'URL: ext::touch ran' >"$G/remotes/origin"`,
		"grafts":                   `mkdir -p "$G/info"; echo x >"$G/info/grafts"`,
		"a work tree by its path":  `git config --file "$G/$CONFIG" core.worktree '/touch ran'`,
		"a work tree above":        `git config --file "$G/$CONFIG" core.worktree '../../../../../../../../../../../../touch ran'`,
		"a work tree without name": `git config --file "$G/$CONFIG" core.worktree ''`,
		"a linked config":          `mv "$G/$CONFIG" "$G/x"; ln -s /etc/passwd "$G/$CONFIG" || mv "$G/x" "$G/$CONFIG"`,
	}
	for _, key := range strings.Fields(`core.fsmonitor core.hooksPath core.sshCommand core.gitProxy core.editor core.pager core.askPass core.worktree core.attributesFile core.alternateRefsCommand
 alias.x browser.x.cmd credential.helper credential.x.helper diff.external diff.x.command diff.x.textconv difftool.x.cmd filter.x.clean filter.x.smudge filter.x.process gc.recentObjectsHook gpg.program gpg.ssh.program
 gpg.ssh.defaultKeyCommand guitool.x.cmd help.browser imap.tunnel include.path includeIf.onbranch:x.path init.templateDir instaweb.httpd interactive.diffFilter man.x.cmd merge.x.driver mergetool.x.cmd
 pager.log receive.procReceiveRefs remote.x.receivepack remote.x.uploadpack remote.x.vcs remote.x.proxy sendemail.smtpServer sequence.editor submodule.x.update tar.x.command trailer.x.command trailer.x.cmd
 uploadpack.packObjectsHook url.x.insteadOf url.x.pushInsteadOf http.proxy http.sslKey http.cookieFile protocol.ext.allow safe.bareRepository web.browser`) {
		list[key] = `git config --file "$G/$CONFIG" ` + key + ` '!touch ran'`
	}
	return list
}

// TestRepositoriesAnywhere has commands make repositories of all shapes, deep in
// the tree, with all that git would run: that is gone after the command, and what
// is harmless stays.
func TestRepositoriesAnywhere(t *testing.T) {
	w := newWorld(t, true)
	s := w.open(nil)
	const keep = `git config --file "$G/$CONFIG" user.name Kept; git config --file "$G/$CONFIG" remote.kept.url ../x; git config --file "$G/$CONFIG" branch.main.remote kept; `
	n := 0
	for _, shape := range slices.Sorted(maps.Keys(shapes())) {
		for _, act := range slices.Sorted(maps.Keys(gitActs())) {
			make, do := shapes()[shape], gitActs()[act]
			if n++; testing.Short() && n%7 != 0 {
				continue
			}
			if shape == "linked work tree" && (act == "a hook" || !strings.Contains(do, "CONFIG")) {
				continue // git looks for these in the repository
			}
			if shape == "submodule" && act == "core.worktree" {
				continue // it is below the root, as that of every submodule
			}
			at := "x/y/z"
			o := w.run(s, w.root, `set -e -- `+at+`; mkdir -p x/y; CONFIG=config; `+make+`; `+keep+do+`; echo "G=$G/$CONFIG"`, accesspolicy.Call{})
			_, config, ok := strings.Cut(strings.TrimSpace(o.out), "G=")
			if o.code != 0 || !ok {
				t.Fatalf("%s, %s: %+v", shape, act, o)
			}
			if len(o.rep.Reverted)+len(o.rep.Denied) == 0 {
				t.Errorf("%s, %s: nothing is reported", shape, act)
			}
			text, err := os.ReadFile(filepath.Join(w.root, config))
			if err != nil || !strings.Contains(string(text), "Kept") || !strings.Contains(string(text), "../x") || strings.Contains(string(text), "touch ran") {
				t.Errorf("%s, %s: %v\n%s", shape, act, err, text)
			}
			for _, name := range []string{"hooks/post-checkout", "info/attributes", "objects/info/alternates", "objects/info/http-alternates", "remotes/origin", "info/grafts"} {
				w.gone(filepath.Join(w.root, filepath.Dir(config), name))
			}
			if o := w.run(s, w.root, "rm -rf x src lib linked", accesspolicy.Call{}); o.code != 0 || len(o.rep.Reverted) > 0 {
				t.Fatalf("%s, %s: said again: %+v", shape, act, o)
			}
		}
	}
}

// TestHarmlessRepositories has commands make repositories as tools do, unasked and
// unchanged.
func TestHarmlessRepositories(t *testing.T) {
	w := newWorld(t, true)
	s := w.open(nil)
	for shape, make := range shapes() {
		for _, at := range []string{"z", "x/y/z"} {
			o := w.run(s, w.root, `set -e -- `+at+`; mkdir -p x/y; `+make+`; git config --file "$G/config" branch.main.merge refs/heads/main; git config --file "$G/config" core.autocrlf false`, accesspolicy.Call{})
			if o.code != 0 || len(o.rep.Reverted) > 0 {
				t.Errorf("%s: %+v", shape, o)
			}
			if o := w.run(s, w.root, "rm -rf x z z.* src lib linked", accesspolicy.Call{}); o.code != 0 || len(o.rep.Reverted) > 0 {
				t.Fatalf("%s: %+v", shape, o)
			}
		}
	}
	w.works(s, `git clone -q . copy && cd copy && git commit -q --allow-empty -m more && git push -q origin HEAD:refs/heads/pushed && git clone -q -s . ../shared && git -C ../shared log --oneline`)
	w.works(s, `git -C copy remote get-url origin`)
}

// TestRemovedRepositories has a command make and remove a harmless repository again and again:
// whatever is seen of it half removed, nothing is said.
func TestRemovedRepositories(t *testing.T) {
	w := newWorld(t, true)
	s := w.open(nil)
	o := w.run(s, w.root, `set -e; mkdir -p y/kept; cd y/kept; `+strings.ReplaceAll(shapes()["submodule"], `"$1"`, "../made")+`
mkdir -p ../made/.git/modules/a/b/remotes ../made/.git/modules/a/b/branches; cd ..
for i in $(seq 100); do cp -r made "c$i"; rm -rf "c$i"; done`, accesspolicy.Call{})
	if o.code != 0 || len(o.rep.Reverted) > 0 {
		t.Errorf("%+v", o)
	}
}

// TestDeepRepositoriesOfTheUser has commands change repositories of the user's at
// any depth, with git's configuration that was there and with what was not.
func TestDeepRepositoriesOfTheUser(t *testing.T) {
	w := newWorld(t, true)
	deep := filepath.Join(w.root, "a", "b", "c")
	w.file(filepath.Join(deep, "x"), "x")
	w.gitIn(deep, "init", "-q")
	w.gitIn(deep, "config", "core.pager", "mine")
	if err := os.RemoveAll(filepath.Join(deep, ".git", "hooks")); err != nil {
		t.Fatal(err)
	}
	w.gitIn(w.root, "init", "-q", "--bare", "a/bare.git")
	s := w.open(nil)
	w.works(s, "cd a/b/c && git add -A && git commit -qm x")
	if o := w.run(s, w.root, "mkdir a/b/c/.git/hooks; echo x > a/b/c/.git/hooks/pre-commit", accesspolicy.Call{}); len(o.rep.Reverted) != 1 {
		t.Errorf("%+v", o)
	}
	w.gone(filepath.Join(deep, ".git", "hooks"))
	if text, err := os.ReadFile(filepath.Join(deep, ".git", "config")); err != nil || !strings.Contains(string(text), "mine") {
		t.Errorf("the user's own: %v %s", err, text)
	}
}

// around are the ways in which a command can surround a repository, "$1", with what
// looks like something else to whoever looks through the tree, by
// gitrepository-layout(5), git-clone(1) with hard links, and path_resolution(7):
// git finds the repository all the same, by a gitlink of the index or in its
// directory.
func around() map[string]string {
	const bare = `mkdir -p objects refs; echo ref: refs/heads/main >HEAD; `
	const object = `; touch 0123456789012345678901234567890123456789012345.x 01234567890123456789012345678901234567; ln 01234567890123456789012345678901234567 other; `
	return map[string]string{
		"a bare repository at the root": bare,
		"a linked repository's at root": `echo ref: refs/heads/main >HEAD; echo . >commondir; `,
		"a bare repository above":       `mkdir -p "$1"; cd "$1/.."; ` + bare + `cd "$R"; `,
		"a bare repository two above":   `mkdir -p "$1"; cd "$1/../.."; ` + bare + `cd "$R"; `,
		"objects beside":                `mkdir -p "$1/../ab"; cd "$1/../ab"` + object + `cd "$R"; `,
		"objects at the root":           `mkdir -p ab; cd ab` + object + `cd "$R"; `,
		"what cannot be listed":         `mkdir -p x; chmod 0311 x; `,
		"two that cannot be listed":     `mkdir -p x/y; chmod 0311 x/y x; `,
		"another case":                  `set -- .Git/y/z; mkdir -p .Git; `,
		"another case below":            `set -- x/.GIT/z; mkdir -p x/.GIT; `,
		"its own kind":                  `set -- ab/y/z; mkdir -p ab; cd ab` + object + `cd "$R"; `,
	}
}

// TestHiddenRepositories has commands surround repositories with what ends a look
// through the tree: theirs are made harmless, and the user's stay protected.
func TestHiddenRepositories(t *testing.T) {
	for name, hide := range around() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, true)
			s := w.open(nil)
			begin := `set -e -- x/y/z; R=$PWD; ` + hide
			o := w.run(s, w.root, begin+`mkdir -p "$1"; git init -q "$1"; git config --file "$1/.git/config" core.fsmonitor 'touch ran'; echo "AT=$1"`, accesspolicy.Call{})
			_, at, ok := strings.Cut(strings.TrimSpace(o.out), "AT=")
			if o.code != 0 || !ok {
				t.Fatalf("%+v", o)
			}
			if text, err := os.ReadFile(filepath.Join(w.root, at, ".git", "config")); err != nil || strings.Contains(string(text), "touch ran") {
				t.Errorf("a command's: %v\n%s", err, text)
			}
		})
		t.Run(name+", of the user", func(t *testing.T) {
			w := newWorld(t, true)
			at := "x/y/z"
			if _, other, ok := strings.Cut(hide, "set -- "); ok {
				at, _, _ = strings.Cut(other, ";")
			}
			w.gitIn(w.root, "init", "-q", at)
			s := w.open(nil)
			w.works(s, "true")
			for _, command := range []string{`set -e -- ` + at + `; R=$PWD; ` + hide, `printf '[core]\n\tfsmonitor = touch ran\n' >>` + at + `/.git/config; true`, "true"} {
				w.run(s, w.root, command, accesspolicy.Call{})
			}
			if text, err := os.ReadFile(filepath.Join(w.root, at, ".git", "config")); err != nil || strings.Contains(string(text), "touch ran") {
				t.Errorf("%v\n%s", err, text)
			}
		})
	}
}

// TestRepositoriesInRepositories has commands work where a bare repository of the
// user's holds its work trees, and other repositories.
func TestRepositoriesInRepositories(t *testing.T) {
	w := newWorld(t, true)
	w.git("clone", "-q", "--bare", ".", "b.git")
	w.gitIn(filepath.Join(w.root, "b.git"), "worktree", "add", "-q", "main2", "-b", "main2")
	w.git("init", "-q", "b.git/other")
	s := w.open(nil)
	w.works(s, "git -C b.git log --oneline && git -C b.git/main2 status && git -C b.git branch new && git -C b.git/other status")
	if w.git("-C", "b.git", "for-each-ref", "refs/heads/new") == "" {
		t.Error("the branch of a bare repository is not taken over")
	}
	w.run(s, w.root, `for G in b.git b.git/other/.git; do printf '[core]\n\tfsmonitor = touch ran\n' >>$G/config; done`, accesspolicy.Call{})
	for _, name := range []string{"b.git/config", "b.git/other/.git/config"} {
		if text, err := os.ReadFile(filepath.Join(w.root, name)); err != nil || strings.Contains(string(text), "touch ran") {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}
