package publish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ralph/workers/exec"
	"ralph/workers/git"
)

// world is a repository whose commands run over a layer.
type world struct {
	*testing.T
	dir  string
	root string
	home string
	h    *History
}

func environ(home string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_DATE=2026-01-02T03:04:05Z", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z", "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@localhost",
		"GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@localhost", "LC_ALL=C"}
}

const setUp = `git init -q -b main .; git config user.name User; git config user.email user@localhost; git config gc.auto 0; git config protocol.file.allow always
rm -f .git/hooks/*; printf 'one\n' >a.txt; mkdir d; printf 'x\n' >d/x.txt; git add .; git commit -qm first
echo two >b.txt; git add .; git commit -qm second; git branch feature; git tag -a v1 -m v1; git tag light
echo stashed >>a.txt; git stash -q; git gc -q --prune=now; echo three >c.txt; git add .; git commit -qm third`

func newWorld(t *testing.T, setup string) *world {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, dir: dir, root: filepath.Join(dir, "p"), home: filepath.Join(dir, "h")}
	for _, d := range []string{w.root, w.home} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.put(filepath.Join(w.home, ".gitconfig"), "[protocol \"file\"]\n\tallow = always\n")
	if setup != "" {
		w.user(setup)
		w.open()
	}
	return w
}

func (w *world) put(path, text string) {
	w.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.Fatal(err)
	}
}

func (w *world) options() Options {
	w.Helper()
	loc, err := git.Find(w.root)
	if err != nil {
		w.Fatal(err)
	}
	return Options{Proc: exec.New(exec.Options{}), Git: loc, Root: w.root, Refuse: refuseEnvrc, Records: filepath.Join(w.dir, "records"), Dirs: []string{filepath.Join(w.dir, "state")}}
}

func (w *world) open() {
	w.Helper()
	h, err := Open(w.options())
	if err != nil {
		w.Fatal(err)
	}
	w.h = h
}

// user runs a script as the user does, on the repository itself.
func (w *world) user(script string) string {
	w.Helper()
	out, err := w.try(script)
	if err != nil {
		w.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSpace(out)
}

func (w *world) try(script string) (string, error) {
	c := osexec.Command("sh", "-ec", script)
	c.Dir, c.Env = w.root, environ(w.home)
	out, err := c.CombinedOutput()
	return string(out), err
}

// begin begins a command; run runs a script in a mount namespace of its own, with
// the layer mounted, as the user's id.
func (w *world) begin() *Command {
	w.Helper()
	c, _, err := w.h.Begin(context.Background(), Grant{})
	if err != nil {
		w.Fatal(err)
	}
	return c
}

func (w *world) run(c *Command, script string) string {
	w.Helper()
	m := c.Mount()
	full := fmt.Sprintf("mount -t overlay overlay -o userxattr,lowerdir='%s',upperdir='%s',workdir='%s' '%s'; cd '%s'; cd \"$0\"; %s", m.Lower, m.Upper, m.Work, m.Path, w.root, script)
	p := osexec.Command("unshare", "-Urm", "sh", "-ec", full, w.root)
	p.Dir, p.Env = w.root, environ(w.home)
	out, err := p.CombinedOutput()
	var exit *osexec.ExitError
	if err != nil && (!errors.As(err, &exit) || bytes.Contains(out, []byte("mount: "))) {
		w.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// do runs a script as a command and publishes it.
func (w *world) do(script string) Report {
	w.Helper()
	c := w.begin()
	out := w.run(c, script)
	rep := c.Publish(context.Background())
	if w.Failed() || testing.Verbose() {
		w.Logf("%s\n%s\n%v", script, out, rep.Lines())
	}
	return rep
}

// whole demands that git finds nothing wrong, and nothing of ours left.
func (w *world) whole() {
	w.Helper()
	out := w.user(`git fsck --full --strict 2>&1 | grep -v -e ^dangling -e '^notice' || :; find .git -name '*.lock' -o -name 'tmp_objdir*' -o -name '*.ralph-new'; git status >/dev/null; git log --all -p >/dev/null`)
	if out != "" {
		w.Errorf("the repository is damaged: %s", out)
	}
}

func (w *world) same(what, script, want string) {
	w.Helper()
	if got := w.user(script); got != strings.TrimSpace(want) {
		w.Errorf("%s: %q gives\n%s\nwant\n%s", what, script, got, want)
	}
}

func clean(t *testing.T, rep Report) {
	t.Helper()
	if lines := rep.Lines(); len(lines) > 0 {
		t.Errorf("reported %q", lines)
	}
}

// TestOrdinaryWork does what a model does with git, unasked; each must leave the
// repository as the same work on the repository itself leaves it.
func TestOrdinaryWork(t *testing.T) {
	const see = `git for-each-ref --format='%(refname) %(objecttype) %(contents:subject) %(tree)' | grep -v refs/ralph/ || :; cat .git/HEAD | sed 's/[0-9a-f]\{40\}/detached/'; git status --porcelain=v1 -uall -b | grep -v .ralph || :
git stash list; git ls-files -s; git log --format='%s %T' HEAD | sort; git worktree list | sed 's, .*\[, [,'; ls .git/rebase-merge .git/sequencer .git/MERGE_HEAD .git/CHERRY_PICK_HEAD .git/REVERT_HEAD .git/MERGE_MSG 2>/dev/null | grep -v -e author-script -e rewritten || :
git submodule status 2>&1 || :; cat *.txt`
	cases := map[string]string{
		"nothing":               `git log --oneline; git diff; git status`,
		"add":                   `echo 4 >d.txt; git add d.txt`,
		"commit":                `echo 4 >d.txt; git add d.txt; git commit -qm fourth`,
		"many commits":          `for i in 1 2 3 4 5 6 7 8; do echo $i >d.txt; git add .; git commit -qm c$i; done`,
		"large commit":          `mkdir big; for i in $(seq 300); do echo $i >big/$i; done; git add .; git commit -qm big`,
		"amend":                 `echo 4 >>c.txt; git commit -qa --amend -m other`,
		"branch":                `git branch new; git branch -m feature renamed`,
		"branch deleted":        `git branch -d feature`,
		"switch and commit":     `git checkout -q -b new; echo 4 >d.txt; git add .; git commit -qm new`,
		"switch and back":       `git checkout -q feature; git checkout -q -`,
		"detach":                `git checkout -q --detach HEAD~1; echo 4 >d.txt; git add .; git commit -qm detached`,
		"orphan":                `git checkout -q --orphan lone; git commit -qm lone`,
		"tag":                   `git tag t; git tag -a ta -m ta; git tag -d light`,
		"stash":                 `echo more >>a.txt; git stash -q`,
		"stash with untracked":  `echo more >u.txt; git stash -q -u`,
		"stash pop":             `git stash pop -q`,
		"stash and pop":         `echo more >>b.txt; git stash -q; git stash pop -q`,
		"stash drop":            `echo more >>b.txt; git stash -q; git stash drop -q stash@{1}`,
		"stash clear":           `git stash clear`,
		"merge":                 `git checkout -q feature; echo f >f.txt; git add .; git commit -qm f; git checkout -q main; git merge -q --no-edit feature`,
		"merge with a conflict": `git checkout -q feature; echo f >c.txt; git add .; git commit -qm f; git checkout -q main; git merge -q feature || :`,
		"merge resolved":        `git checkout -q feature; echo f >c.txt; git add .; git commit -qm f; git checkout -q main; git merge -q feature || :; echo r >c.txt; git add .; git commit -qm merged`,
		"rebase":                `git checkout -q feature; echo f >f.txt; git add .; git commit -qm f; git rebase -q main`,
		"rebase that stops":     `git checkout -q feature; echo f >c.txt; git add .; git commit -qm f; git rebase -q main || :`,
		"rebase with a list":    `GIT_SEQUENCE_EDITOR="sed -i 2s/pick/squash/" GIT_EDITOR=true git rebase -q -i HEAD~2`,
		"cherry-pick stopped":   `git checkout -q feature; echo f >c.txt; git add .; git commit -qm f; git checkout -q main; git cherry-pick feature || :`,
		"revert":                `git revert --no-edit HEAD`,
		"reset":                 `git reset -q --hard HEAD~1`,
		"reset soft":            `git reset -q --soft HEAD~1`,
		"remove and rename":     `git rm -q b.txt; git mv a.txt z.txt; git commit -qm moved`,
		"notes":                 `git notes add -m note`,
		"gc":                    `git gc -q`,
		"pack refs":             `git pack-refs --all; git branch x`,
		"bisect":                `git bisect start -q; git bisect bad; git bisect good HEAD~2 >/dev/null`,
		"intent to add":         `echo 4 >d.txt; git add -N d.txt`,
		"worktree":              `git worktree add -q wt; cd wt; echo 4 >d.txt; git add .; git commit -qm in-worktree`,
		"worktree and removal":  `git worktree add -q wt; git worktree remove wt`,
		"clone elsewhere":       `git clone -q . sub; cd sub; echo 1 >n; git add .; git commit -qm n; git push -q origin HEAD:refs/heads/pushed`,
		"index version 4":       `git update-index --index-version 4; echo 4 >d.txt; git add .; git commit -qm v4`,
		"symlink and mode":      `ln -s a.txt l; echo 1 >x.sh; chmod +x x.sh; git add .; git commit -qm modes`,
	}
	for name, script := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, setUp)
			plain := filepath.Join(w.dir, "plain", "p")
			out, err := osexec.Command("sh", "-ec", `mkdir "$1"; cp -a "$0" "$1/p"`, w.root, filepath.Dir(plain)).CombinedOutput()
			if err != nil {
				t.Fatal(err, string(out))
			}
			rep := w.do(script)
			bare := &world{T: t, dir: w.dir, root: plain, home: w.home}
			bare.user(script)
			if len(rep.Refused)+len(rep.Late)+len(rep.Dropped) > 0 {
				t.Errorf("reported %q", rep.Lines())
			}
			if a, b := strings.ReplaceAll(w.user(see), w.root, "ROOT"), strings.ReplaceAll(bare.user(see), plain, "ROOT"); a != b {
				t.Errorf("through the layer:\n%s\nwithout:\n%s", a, b)
			}
			w.whole()
			clean(t, w.do(`git status >/dev/null; git log --oneline -3 >/dev/null`))
		})
	}
}

// TestRemotes fetches from, and pushes to, a remote that is a directory.
func TestRemotes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setUp+`
git clone -q --bare . ../remote.git; git remote add origin "$PWD/../remote.git"; git fetch -q origin
git clone -q ../remote.git ../other; cd ../other; echo o >o.txt; git add .; git commit -qm other; git tag far; git push -q origin main far`)
	clean(t, w.do(`git fetch -q; git fetch -q --tags; git merge -q --no-edit origin/main; echo p >p.txt; git add .; git commit -qm p; git push -q origin main`))
	w.same("main", `git log --format=%s -1 origin/main; git -C ../remote.git log --format=%s -1; git status -sb; git rev-parse -q --verify far >/dev/null && echo far`, "p\np\n## main\nfar")
	w.whole()
	rep := w.do(`git push -q -u origin main`)
	if !slices.Equal(rep.Dropped, []string{"config (branch.main.merge; branch.main.remote)"}) {
		t.Errorf("setting the upstream is reported as %q", rep.Lines())
	}
	rep = w.do(`git remote add other ../other; git fetch -q other; git config --unset gc.auto; git config core.fsmonitor ./x`)
	if !slices.Equal(rep.Dropped, []string{"config (core.fsmonitor; gc.auto, removed; remote.other.fetch; remote.other.url)"}) || w.user("git rev-parse -q --verify other/main >/dev/null && echo fetched") != "fetched" {
		t.Errorf("a new remote is reported as %q", rep.Lines())
	}
}

// TestSubmodule adds and updates a submodule through layers.
func TestSubmodule(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `git init -q -b main ../lib; cd ../lib; echo l >l.txt; git add .; git commit -qm lib; cd "$OLDPWD"; `+setUp)
	before := w.user("cat .git/config")
	clean(t, w.do(`git submodule add -q ../lib lib; git commit -qm 'add lib'`))
	w.same("its settings", "cat .git/config", before+"\n[submodule \"lib\"]\n\turl = \""+w.dir+"/lib\"\n[submodule \"lib\"]\n\tactive = \"true\"")
	w.same("the submodule", `git submodule status | cut -c1; git -C lib log --format=%s; git -C lib status -sb | head -1; git submodule status | grep -c lib; git status --porcelain`, " \nlib\n## main...origin/main\n1")
	w.user(`git -C lib fsck --full --strict`)
	w.whole()
	w.user(`cd ../lib; echo 2 >l.txt; git commit -qam two`)
	rep := w.do(`git submodule update -q --init --remote; git commit -qam 'update lib'; cd lib; git checkout -q main; echo own >own.txt; git add .; git commit -qm own`)
	if len(rep.Refused)+len(rep.Late) > 0 {
		t.Errorf("reported %q", rep.Lines())
	}
	w.same("the submodule", `git -C lib log --format=%s -1 main; git -C lib log --format=%s origin/main -1; git -C lib status --porcelain; cat lib/own.txt`, "own\ntwo\nown")
	w.user(`git -C lib fsck --full --strict; git submodule init; git submodule update -q`)
}
