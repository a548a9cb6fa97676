package accesspolicy_test

import (
	"maps"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ralph/workers/accesspolicy"
	"ralph/workers/exec"
	"ralph/workers/git"
)

// destructions destroy history in the git directory: each name in gitrepository-layout(5)
// that holds some is removed, replaced, overwritten, cut off, locked up or led elsewhere,
// and so are the directories above.
func destructions() map[string]string {
	list := map[string]string{
		"all":                      "rm -rf .git",
		"the copy too":             "rm -rf .git \"$(dirname $HOME)/state\"; find \"$(dirname $HOME)/state\" -depth -exec chmod 000 {} +; echo x > \"$(dirname $HOME)/state/x\"",
		"all, and anew":            "rm -rf .git; git init -q; git add -A; git commit -qm mine",
		"moved away":               "mv .git old",
		"a file in its place":      "rm -rf .git; echo nothing > .git",
		"a link in its place":      "mv .git old; ln -s old .git; rm -rf old/objects",
		"locked up":                "chmod -R 000 .git",
		"gc":                       "git branch -D side; git reflog expire --expire=now --all; git gc -q --prune=now",
		"stash cleared":            "git stash clear; git gc -q --prune=now",
		"history rewritten":        "git checkout -q --orphan new; git commit -qm root; git branch -D main side; git tag -d v1; git reflog expire --expire=now --all; git gc -q --prune=now",
		"refs deleted":             "git for-each-ref --format='delete %(refname)' | git update-ref --stdin; rm -rf .git/logs; git gc -q --prune=now",
		"objects that lie":         "for f in $(find .git/objects -type f); do chmod u+w $f; head -c 40 /dev/urandom > $f; done",
		"objects of the same size": "for f in $(find .git/objects -type f); do chmod u+w $f; n=$(stat -c %s $f); t=$(stat -c %y $f); head -c $n /dev/zero > $f; touch -d \"$t\" $f; done",
		"all but the directories":  "find .git -type f -delete",
		"empty files":              "find .git -type f | while read f; do chmod u+w $f; : > $f; done",
		"shallow":                  "git rev-parse HEAD > .git/shallow; git gc -q --prune=now; rm -rf .git/objects/??",
	}
	for _, name := range []string{"HEAD", "index", "packed-refs", "refs", "refs/heads", "refs/tags", "refs/heads/main", "refs/heads/side", "logs", "logs/HEAD", "logs/refs/heads/main", "objects", "objects/pack", "objects/??"} {
		list["removed "+name] = "rm -rf .git/" + name
		list["a file for "+name] = "for f in .git/" + name + "; do rm -rf $f; echo nonsense > $f; done"
		list["a directory for "+name] = "for f in .git/" + name + "; do rm -rf $f; mkdir $f; done"
		list["a link for "+name] = "for f in .git/" + name + "; do rm -rf $f; ln -s /etc $f; done"
		list["no right to "+name] = "chmod 000 .git/" + name
		list["an id of nothing in "+name] = "for f in .git/" + name + "; do test -f $f && chmod u+w $f && echo 1111111111111111111111111111111111111111 > $f; done"
	}
	return list
}

// history prints what the user has: refs, reflogs and the stash with all they reach.
const printHistory = `git fsck --strict --no-dangling --no-progress >&2; git rev-parse HEAD; git symbolic-ref HEAD; git rev-list --all --objects | sort; git stash list | wc -l; git ls-files -s`

func withoutMounts(t *testing.T, w *world) {
	w.runner = exec.New(exec.Options{Method: "session"})
	t.Cleanup(func() {
		if err := w.runner.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if st := accesspolicy.Check(w.runner); st.None() || !st.Active("Landlock") {
		t.Skip("nothing confines commands without namespaces here: ", st)
	}
}

// openWithoutMounts opens a sandbox without a mount namespace; protect has it keep a copy
// of the repository.
func (w *world) openWithoutMounts(protect bool) *accesspolicy.Sandbox {
	w.t.Helper()
	o := accesspolicy.Options{Proc: w.runner, Root: w.root, Project: w.root, Agent: "main", Getenv: func(k string) string { return w.env[k] }, Environ: w.environ()}
	if loc, err := git.Find(w.root); err == nil { // else a command removed it
		o.Git = &loc
	}
	if protect {
		o.State = filepath.Join(filepath.Dir(w.home), "state")
	}
	s, err := accesspolicy.Open(o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = s.Close() }) // the repository is what is looked at
	return s
}

// withHistory makes a repository with a packed and a loose part, branches, a tag, a stash
// and staged content.
func withHistory(t *testing.T) *world {
	w := newWorld(t, true)
	t.Cleanup(func() { _ = osexec.Command("chmod", "-R", "u+rwx", filepath.Dir(w.root)).Run() }) // else they cannot be removed
	w.shell(`git config commit.gpgSign false; git config user.name Ann; git config user.email ann@example.com
git checkout -q -b side; echo side > s.txt; git add s.txt; git commit -qm side; git tag -am one v1; git checkout -q main; git gc -q
echo two >> a.txt; git commit -qam two; echo work >> a.txt; git stash -q; echo staged > staged.txt; git add staged.txt`, w.root)
	return w
}

// lost returns what of the history before is not there any more.
func (w *world) lost(before string) []string {
	cmd := osexec.Command("sh", "-ec", printHistory)
	cmd.Dir, cmd.Env = w.root, w.environ()
	out, err := cmd.Output()
	if err != nil {
		return []string{"git: " + err.Error()}
	}
	now := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		now[line] = true
	}
	var list []string
	for line := range strings.Lines(before) {
		if id, _, object := strings.Cut(line, " "); object && len(id) == 40 && !now[line] {
			list = append(list, line)
		}
	}
	return list
}

func (w *world) history() string {
	w.t.Helper()
	cmd := osexec.Command("sh", "-ec", printHistory)
	cmd.Dir, cmd.Env = w.root, w.environ()
	out, err := cmd.Output()
	if err != nil {
		w.t.Fatal(err)
	}
	return string(out)
}

// Without mounts a command that destroys the repository destroys nothing for good.
func TestHistoryWithoutMounts(t *testing.T) {
	bites, cases := 0, destructions()
	if testing.Short() {
		maps.DeleteFunc(cases, func(name, _ string) bool { return len(name)%4 != 0 })
	}
	for name, script := range cases {
		t.Run(name, func(t *testing.T) {
			w := withHistory(t)
			withoutMounts(t, w)
			before := w.history()
			o := w.run(w.openWithoutMounts(true), w.root, script, accesspolicy.Call{})
			if lost := w.lost(before); len(lost) > 0 {
				t.Errorf("%d lost: %.300q\n%+v", len(lost), lost, o)
			}
			if w.git("status", "--porcelain"); len(o.rep.Reverted) == 0 {
				t.Logf("nothing was put back: %.200q", o.out)
			}

			w = withHistory(t)
			withoutMounts(t, w)
			before = w.history()
			w.run(w.openWithoutMounts(false), w.root, script, accesspolicy.Call{})
			if len(w.lost(before)) > 0 {
				bites++
			}
		})
	}
	t.Logf("%d of %d cases destroy history where there is no copy", bites, len(cases))
	if bites < len(cases)/3 {
		t.Error("the cases do not bite")
	}
}

// What the user commits between two commands, also in the same moment, is in the copy.
func TestCommitsBetweenCommands(t *testing.T) {
	w := withHistory(t)
	withoutMounts(t, w)
	w.shell("for i in $(seq 400); do echo $i > f$i; done; git add .; git commit -qm many", w.root) // nearly every directory of objects exists
	box := w.openWithoutMounts(true)
	for i := range 10 {
		w.run(box, w.root, "true", accesspolicy.Call{})
		w.shell("echo work >> a.txt; git add a.txt; git commit -qm work", w.root)
		before := w.history()
		w.run(box, w.root, "rm -rf .git/objects/?? .git/objects/pack", accesspolicy.Call{})
		if lost := w.lost(before); len(lost) > 0 {
			t.Fatalf("round %d, %d lost: %.300q", i, len(lost), lost)
		}
	}
}

// Ordinary work with git stays as it is.
func TestGitWorkWithoutMounts(t *testing.T) {
	for _, script := range []string{
		"echo x > b.txt; git add b.txt; git commit -qm x", "git commit -qm staged; git merge -q --no-edit side", "git checkout -q side", "git branch -d side || git branch -D side",
		"git commit -qm staged; git rebase -q side", "git tag v2", "git gc -q", "git repack -adq", "git pack-refs --all", "git stash pop -q || true", "git commit -q --amend -m other", "git mv a.txt c.txt; git commit -qm moved",
		"git worktree add -q ../root/wt side", "git reflog expire --expire=now --all",
	} {
		t.Run(script, func(t *testing.T) {
			with, without := withHistory(t), withHistory(t)
			withoutMounts(t, with)
			withoutMounts(t, without)
			got := with.run(with.openWithoutMounts(true), with.root, script, accesspolicy.Call{})
			want := without.run(without.openWithoutMounts(false), without.root, script, accesspolicy.Call{})
			if got.code != want.code {
				t.Errorf("exit %d, %d without a copy: %s", got.code, want.code, got.out)
			}
			const look = "git log --format=%s main | sort; git status --porcelain --branch; git for-each-ref --format='%(refname)' refs/heads refs/tags refs/stash; git count-objects -v | grep -E '^(count|packs):'"
			if a, b := with.shell(look, with.root), without.shell(look, without.root); a != b {
				t.Errorf("with a copy:\n%s\nwithout:\n%s\n%q", a, b, got.rep.Reverted)
			}
			with.git("fsck", "--strict", "--no-dangling")
		})
	}
}

// What a command destroyed comes back at the next start when Ralph is killed, and the
// user's commit of that time stays.
func TestHistoryWithoutMountsKilled(t *testing.T) {
	w := withHistory(t)
	withoutMounts(t, w)
	before := w.history()
	s := w.openWithoutMounts(true)
	j, err := s.Start(t.Context(), exec.Spec{Argv: []string{exec.Shell(""), "-c", "rm -rf .git; touch gone; sleep 600"}, Dir: w.root, Timeout: time.Minute}, accesspolicy.Call{})
	if err != nil {
		t.Fatal(err)
	}
	w.shell("while [ ! -e gone ]; do sleep 0.02; done", w.root)
	next := w.openWithoutMounts(true)
	if told := next.Recover(t.Context()); len(told) == 0 {
		t.Error("nothing was said")
	}
	if lost := w.lost(before); len(lost) > 0 {
		t.Errorf("%d lost: %.300q", len(lost), lost)
	}
	if told := next.Recover(t.Context()); len(told) > 0 {
		t.Errorf("again: %q", told)
	}
	if err := j.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// A repository whose refs are no files, or one of whose names is a link of the user's, is
// left alone.
func TestOddRepositoriesWithoutMounts(t *testing.T) {
	w := withHistory(t)
	withoutMounts(t, w)
	w.shell("mv .git/logs/HEAD .git/log; ln -s ../log .git/logs/HEAD", w.root)
	s := w.openWithoutMounts(true)
	if o := w.run(s, w.root, "git commit -qm staged", accesspolicy.Call{}); o.code != 0 || len(o.rep.Reverted) > 0 {
		t.Errorf("a link: %+v", o)
	}
	w.shell("mkdir .git/reftable", w.root)
	if o := w.run(s, w.root, "git tag v2", accesspolicy.Call{}); o.code != 0 || !strings.Contains(strings.Join(o.rep.Reverted, "\n"), "reftable") {
		t.Errorf("reftable: %+v", o)
	}
}
