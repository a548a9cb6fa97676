package publish

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestMeanwhile has the user change the repository while a command changes the
// same: what the user did stays, what the command made is kept and named.
func TestMeanwhile(t *testing.T) {
	t.Parallel()
	const commit = `echo mine >mine.txt; git add mine.txt; git commit -qm mine`
	cases := []struct {
		name, command, user string
		stays, want         string // a script and what it prints
		late                string // what is kept, by the end of its name; "" for nothing
		subject             string // of what is kept
	}{
		{"commit against commit", commit, `echo u >u.txt; git add u.txt; git commit -qm user`, `git log -1 --format=%s; git diff --cached --name-only`, "user", "heads/main", "mine"},
		{"commit against a moved branch", commit, `git update-ref refs/heads/main HEAD~1`, `git log -1 --format=%s main`, "second", "heads/main", "mine"},
		{"commit against staging", commit, `echo u >u.txt; git add u.txt`, `git log -1 --format=%s; git diff --cached --name-only`, "third\nu.txt", "heads/main", "mine"},
		{"commit against a switch", commit, `git checkout -q feature`, `git log -1 --format=%s; cat .git/HEAD`, "second\nref: refs/heads/feature", "heads/main", "mine"},
		{"commit against an open merge", commit, `echo HEAD >x; git rev-parse feature >.git/MERGE_HEAD`, `git log -1 --format=%s; test -e .git/MERGE_HEAD && echo open`, "third\nopen", "heads/main", "mine"},
		{"staging against a commit", `echo c >c2.txt; git add c2.txt`, `echo u >u.txt; git add u.txt; git commit -qm user`, `git log -1 --format=%s; git diff --cached --name-only`, "user", "index", "what a command of Ralph staged"},
		{"switch against a commit", `git checkout -q -b new; ` + commit, `echo u >u.txt; git add u.txt; git commit -qm user`, `cat .git/HEAD; git log -1 --format=%s; git log -1 --format=%s new`, "ref: refs/heads/main\nuser\nmine", "HEAD (which it put on new)", ""},
		{"branch against the same branch", `git branch new HEAD~1`, `git branch new`, `git log -1 --format=%s new`, "third", "heads/new", "second"},
		{"deletion against a commit on it", `git branch -D feature`, `git update-ref refs/heads/feature HEAD`, `git log -1 --format=%s feature`, "third", "feature (which it deleted)", ""},
		{"stash against stash", `echo s >>b.txt; git stash -q`, `echo u >>c.txt; git stash -q -- c.txt; git checkout -q c.txt`, `git stash list | wc -l; git stash show --name-only stash@{0}`, "2\nc.txt", "stash", "WIP"},
		{"detached commit against a commit", `git checkout -q --detach; ` + commit, `echo u >u.txt; git add u.txt; git commit -qm user`, `cat .git/HEAD; git log -1 --format=%s`, "ref: refs/heads/main\nuser", "HEAD", "mine"},
		{"other branches are no matter", commit, `git branch mine2; git tag u; git pack-refs --all`, `git log -1 --format=%s; git status --porcelain; git rev-parse mine2 u >/dev/null && echo both`, "mine\nboth", "", ""},
		{"a refreshed index is no matter", commit, `touch -d 2001-01-01 a.txt; git status >/dev/null`, `git log -1 --format=%s; git status --porcelain`, "mine", "", ""},
		{"gc by the user", commit, `git gc -q --prune=now`, `git log -1 --format=%s; git status --porcelain`, "mine", "", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, setUp)
			cmd := w.begin()
			out := w.run(cmd, c.command)
			w.user(c.user)
			rep := cmd.Publish(context.Background())
			t.Log(out, rep.Lines())
			w.same("what the user did", c.stays, c.want)
			if len(rep.Refused) > 0 {
				t.Errorf("refused %q", rep.Refused)
			}
			found := c.late == "" && len(rep.Late) == 0
			for _, name := range rep.Late {
				if c.late == "" || !strings.HasSuffix(name, c.late) {
					continue
				}
				found = true
				if c.subject != "" && !strings.HasPrefix(w.user("git log -1 --format=%s "+name), c.subject) {
					t.Errorf("%s does not hold what the command made", name)
				}
			}
			if !found {
				t.Errorf("kept %q, want %q", rep.Late, c.late)
			}
			w.user("rm -f .git/MERGE_HEAD")
			w.waysBack(rep)
			w.whole()
		})
	}
}

// waysBack carries out what a report says of how to get at what came late.
func (w *world) waysBack(rep Report) {
	w.Helper()
	lines := strings.Join(Report{Late: rep.Late}.Lines(), "\n")
	ways := strings.Split(lines, "`")
	for _, name := range rep.Late {
		if strings.HasPrefix(name, lateRefs) && !strings.Contains(lines, name) {
			w.Errorf("%s is not named in %q", name, lines)
		}
	}
	w.user("git checkout -q -f HEAD; git stash clear; git clean -fdq; git branch -f base HEAD")
	for i := 1; i < len(ways); i += 2 {
		w.user(strings.ReplaceAll(ways[i], " NAME ", " late-"+strconv.Itoa(i)+" ") + "; git checkout -q -f -B base; git reset -q --hard")
	}
}

// TestBusyIndex has the user's git hold the lock of the index for longer than a
// publication waits.
func TestBusyIndex(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setUp)
	cmd := w.begin()
	w.run(cmd, `echo m >m.txt; git add .; git commit -qm mine`)
	lock := filepath.Join(w.root, ".git", "index.lock")
	w.put(lock, "somebody else's")
	rep := cmd.Publish(context.Background())
	if text, err := os.ReadFile(lock); err != nil || string(text) != "somebody else's" {
		t.Errorf("the lock of the user's git is %q, %v", text, err)
	}
	w.user("rm .git/index.lock")
	if len(rep.Late) == 0 || w.user("git log -1 --format=%s "+rep.Late[0]) != "mine" {
		t.Errorf("kept %q", rep.Late)
	}
	w.same("HEAD", "git log -1 --format=%s", "third")
	w.whole()
}

// TestDroppedHistory has commands delete what nothing else holds.
func TestDroppedHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setUp)
	w.user(`git checkout -q feature; echo f >f.txt; git add .; git commit -qm only; git commit -q --amend -m amended; git tag -a lone -m lone; git checkout -q main; git tag moved HEAD`)
	objects := w.user(`git rev-list --all --reflog --objects | cut -d' ' -f1 | sort`)
	rep := w.do(`git branch -D feature; git tag -d lone; git tag -f moved HEAD~2; git stash clear; git reset -q --hard HEAD~2; git reflog expire --expire=now --all; git gc -q --prune=now`)
	if len(rep.Kept) == 0 || len(rep.Refused) > 0 {
		t.Errorf("reported %q", rep.Lines())
	}
	w.same("branch and tag", `git branch --list feature; git tag --list lone; git stash list; git log --format=%s`, "first")
	w.user(`git reflog expire --expire=now --expire-unreachable=never --all; git gc -q --prune=now`)
	for id := range strings.FieldsSeq(objects) {
		if _, err := w.try("git cat-file -e " + id); err != nil {
			t.Errorf("%s is lost: %s", id, w.user("git log --all --format='%h %s %d'"))
		}
	}
	w.whole()
}

// TestPutOff has a stop put off a publication: the next command finds its work
// done.
func TestPutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setUp)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	cmd := w.begin()
	w.run(cmd, `echo m >m.txt; git add .; git commit -qm mine`)
	clean(t, cmd.Publish(ctx))
	w.same("HEAD before", "git log -1 --format=%s", "third")
	clean(t, w.do("git log -1 --format=%s >seen"))
	w.same("HEAD after", "git log -1 --format=%s; cat seen; git status --porcelain", "mine\nmine\n?? seen")
	cmd = w.begin()
	w.run(cmd, `git commit -q --allow-empty -m last`)
	cmd.Publish(ctx)
	if rep, err := w.h.Close(context.Background()); err != nil || len(rep.Lines()) > 0 {
		t.Errorf("close: %v %q", err, rep.Lines())
	}
	w.same("HEAD at the end", "git log -1 --format=%s; ls -A ../state", "last")
	w.whole()
}
