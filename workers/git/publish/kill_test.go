package publish

import (
	"context"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ralph/workers/exec"
	"ralph/workers/git"
)

// killAt names, in the environment of a process of this test, the step at which
// it kills itself; with it go the root, the directory of the layers and the script.
const killAt = "RALPH_TEST_KILL_AT"

func TestMain(m *testing.M) {
	if at := os.Getenv(killAt); at != "" {
		victim(at)
	}
	os.Exit(m.Run())
}

// victim runs a command over a layer, and kills itself at a step of publishing it.
func victim(at string) {
	n, err := strconv.Atoi(at)
	loc, ferr := git.Find(os.Args[1])
	h, herr := Open(Options{Proc: exec.New(exec.Options{}), Git: loc, Root: os.Args[1], Refuse: refuseEnvrc, Records: filepath.Join(os.Args[2], "records"), Dirs: []string{filepath.Join(os.Args[2], "state")}})
	if err != nil || ferr != nil || herr != nil {
		fmt.Println(err, ferr, herr)
		os.Exit(3)
	}
	die := func(string) {
		if n--; n < 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	h.step = die
	c, _, err := h.Begin(context.Background(), Grant{Acts: os.Args[4:]})
	if err != nil {
		fmt.Println(err)
		os.Exit(3)
	}
	m := c.Mount()
	script := fmt.Sprintf("mount -t overlay overlay -o userxattr,lowerdir='%s',upperdir='%s',workdir='%s' '%s'; cd '%s'; %s", m.Lower, m.Upper, m.Work, m.Path, loc.Root, os.Args[3])
	p := osexec.Command("unshare", "-Urm", "sh", "-ec", script)
	p.Dir = loc.Root
	if out, err := p.CombinedOutput(); err != nil {
		fmt.Println(err, string(out))
		os.Exit(3)
	}
	die("command")
	c.Publish(context.Background())
	os.Exit(0)
}

// copyOf is a copy of the world.
func (w *world) copyOf(name string) *world {
	v := &world{T: w.T, dir: filepath.Join(w.dir, name), home: w.home}
	v.root = filepath.Join(v.dir, "p")
	w.user(fmt.Sprintf("mkdir %q; cp -a . %q", v.dir, v.root))
	return v
}

// killed has a process publish a script and kill itself at a step; it reports that
// the process came to its end.
func (w *world) killed(script string, at int, acts ...string) (ended bool) {
	c := osexec.Command(os.Args[0], append([]string{w.root, w.dir, script}, acts...)...)
	c.Env = append(environ(w.home), killAt+"="+strconv.Itoa(at))
	out, err := c.CombinedOutput()
	if c.ProcessState.ExitCode() == 3 {
		w.Fatal(string(out), err)
	}
	return err == nil
}

// TestKilled kills a process at every step of a publication. Until the next start
// the user's git sees the whole repository, as it was or as it is to be, and then
// it is as the command left it.
func TestKilled(t *testing.T) {
	t.Parallel()
	const script = `git checkout -q -b new; echo n >n.txt; git add n.txt; git commit -qm mine; git tag t; git tag -d light; echo s >>b.txt; git stash -q
git update-ref refs/heads/feature HEAD; git worktree add -q wt feature; echo c >new.txt; git add new.txt; git branch -q f2 main; git checkout -q f2 -- c.txt; echo merging >.git/MERGE_MSG; git rev-parse HEAD >.git/MERGE_HEAD; git branch -m old old/new; git submodule add -q "$HOME/../lib" lib`
	const see = `git for-each-ref --format='%(refname) %(contents:subject)' | grep -v refs/ralph/ | sed 's/: [0-9a-f]\{7\}/: ID/'; cat .git/HEAD; git ls-files -s; git stash list --format='%gd %s' | sed 's/[0-9a-f]\{7\}/ID/'; git worktree list | sed 's, .*\[, [,'; cat .git/MERGE_MSG; git reflog -1 --format=%gs; cat .git/config; git submodule status`
	w := newWorld(t, setUp+`; git branch old HEAD~1; git init -q -b main ../lib; git -C ../lib commit -q --allow-empty -m lib`)
	done := w.copyOf("done")
	if !done.killed(script, 1000) {
		t.Fatal("the publication that is not killed did not end")
	}
	want := strings.ReplaceAll(done.user(see), done.root, "ROOT")
	for at := 0; ; at++ {
		v := w.copyOf("k" + strconv.Itoa(at))
		ended := v.killed(script, at)
		v.user(`test -z "$(git fsck --full --strict 2>&1 | grep -v -e ^dangling -e '^notice')"; git log --all >/dev/null; git status >/dev/null`)
		rep := Recover(context.Background(), v.options())
		if lines := rep.Lines(); len(lines) > 0 && !strings.HasPrefix(lines[0], "history") {
			t.Errorf("killed at step %d, the next start reports %q", at, lines)
		}
		if got := strings.ReplaceAll(v.user(see), v.root, "ROOT"); got != want {
			t.Errorf("killed at step %d, after the next start:\n%s\nwant\n%s", at, got, want)
		}
		v.whole()
		if left := v.user("ls -A ../state ../records | grep ralph || true"); left != "" {
			t.Errorf("killed at step %d: %s is left", at, left)
		}
		if ended {
			t.Logf("%d steps", at)
			if at < 10 {
				t.Errorf("only %d steps", at)
			}
			return
		}
		_ = os.RemoveAll(v.dir)
	}
}

// refuseEnvrc refuses the name .envrc, unless a class is allowed.
func refuseEnvrc(c Change, g Grant) string {
	if filepath.Base(c.Path) != ".envrc" || len(g.Acts) > 0 {
		return ""
	}
	return "it acts"
}

// TestKilledOverNamesThatAct kills a process at every step of taking over a name that is refused,
// and one that is allowed: the next start decides as the command was to be.
func TestKilledOverNamesThatAct(t *testing.T) {
	t.Parallel()
	const script = `git update-index --add --cacheinfo 100644,$(git hash-object -w a.txt),.envrc; git commit -qm mine; git checkout -q -b new 2>/dev/null || git symbolic-ref HEAD refs/heads/new`
	const see = `git for-each-ref --format='%(refname) %(contents:subject)'; cat .git/HEAD; git ls-files -s; git cat-file --batch-all-objects --batch-check='%(objecttype)' | sort | uniq -c`
	for _, acts := range [][]string{nil, {"shell"}} {
		w := newWorld(t, setUp)
		done := w.copyOf("done")
		if !done.killed(script, 1000, acts...) {
			t.Fatal("the publication that is not killed did not end")
		}
		want := done.user(see)
		if taken := want != w.user(see); taken != (acts != nil) {
			t.Errorf("allowed %v: %s", acts, want)
		}
		for at, ended := 0, false; !ended; at++ {
			v := w.copyOf("k" + strconv.Itoa(at))
			ended = v.killed(script, at, acts...)
			Recover(context.Background(), v.options())
			if got := v.user(see); got != want {
				t.Errorf("allowed %v, killed at step %d, after the next start:\n%s\nwant\n%s", acts, at, got, want)
			}
			v.whole()
			_ = os.RemoveAll(v.dir)
		}
	}
}

// TestKilledInNestedRepository kills a process that publishes to a repository below
// that of the project: the next start of the project finishes it.
func TestKilledInNestedRepository(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setUp+`; git clone -q . nested`)
	n := &world{T: t, dir: w.dir, root: filepath.Join(w.root, "nested"), home: w.home}
	n.killed(`echo n >n.txt; git add n.txt; git commit -qm mine`, 3)
	Recover(context.Background(), w.options())
	if got := n.user("git log -1 --format=%s; ls -A ../../state"); got != "mine" {
		t.Errorf("it is at %q", got)
	}
	n.whole()
}

// TestKilledThenUser has the user remove the locks of a process that was killed,
// and commit: that stays, with the index it left, and what the command made is on
// its branch or kept.
func TestKilledThenUser(t *testing.T) {
	t.Parallel()
	scripts := map[string]string{
		"commit":            `echo n >n.txt; git add n.txt; git commit -qm mine; echo s >s.txt; git add s.txt`,
		"switch and commit": `git checkout -q -b new; echo n >n.txt; git add n.txt; git commit -qm mine; echo s >s.txt; git add s.txt`,
		"amend":             `echo n >n.txt; git add n.txt; git commit -q --amend -m mine; echo s >s.txt; git add s.txt`,
	}
	users := map[string]string{
		"an empty commit": `git commit -q --allow-empty -m user`,
		"a commit":        `echo u >u.txt; git add u.txt; git commit -qm user`,
		"another branch":  `git checkout -q -f --detach HEAD; git commit -q --allow-empty -m user; git branch users`,
	}
	for name, script := range scripts {
		for what, user := range users {
			if os.Getenv("RALPH_TEST_SWEEP") == "" && (name == "amend") != (what == "another branch") {
				continue
			}
			t.Run(name+" and "+what, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, setUp)
				for at := 0; ; at++ {
					v := w.copyOf("k" + strconv.Itoa(at))
					ended := v.killed(script, at)
					v.user("find .git -name '*.lock' -delete; " + user)
					const see = `git ls-files -s; git rev-parse HEAD; cat .git/HEAD; git log -1 --format=%s`
					before := v.user(see)
					rep := Recover(context.Background(), v.options())
					if after := v.user(see); after != before {
						t.Errorf("killed at step %d, the user left\n%s\nafter the next start\n%s\n%q", at, before, after, rep.Lines())
					}
					if v.user("git log --all --format=%s | grep -c -x mine || :") == "0" && at > 0 {
						t.Errorf("killed at step %d, the command's commit is lost: %q", at, rep.Lines())
					}
					if v.user("git log --all --format= --name-only | grep -c -x s.txt || :") == "0" && !ended && at > 0 {
						t.Errorf("killed at step %d, what the command staged is lost: %q", at, rep.Lines())
					}
					v.whole()
					_ = os.RemoveAll(v.dir)
					if ended {
						return
					}
				}
			})
		}
	}
}

// TestOthersLocks has the user's git lock, after a kill, what the journal names.
func TestOthersLocks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setUp)
	c := osexec.Command(os.Args[0], w.root, w.dir, `echo n >n.txt; git add n.txt; git commit -qm mine`)
	c.Env = append(environ(w.home), killAt+"=1") // at the first lock
	_ = c.Run()                                  // it kills itself
	lock := filepath.Join(w.root, ".git", "index.lock")
	_ = os.Remove(lock)
	w.put(lock, "of an editor that is open")
	rep := Recover(context.Background(), w.options())
	if text, _ := os.ReadFile(lock); string(text) != "of an editor that is open" {
		t.Errorf("a lock that somebody else holds was removed: %q", text)
	}
	w.user("rm .git/index.lock")
	if len(rep.Late) == 0 || w.user("git log -1 --format=%s "+rep.Late[0]) != "mine" {
		t.Errorf("reported %q", rep.Lines())
	}
	w.whole()
}
