package accesspolicy_test

import (
	"os"
	osexec "os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"ralph/workers/accesspolicy"
	"ralph/workers/exec"
	"ralph/workers/exec/acts"
)

// makings is a program that makes each name that it reads, in each way: by all calls of Linux
// that do, through links, by descriptors, by moving and exchanging, in capitals.
const makings = `
import ctypes, os, sys
libc = ctypes.CDLL(None)
def put(p, flags=os.O_CREAT | os.O_WRONLY, **kw): os.close(os.open(p, flags, 0o600, **kw))
def fresh(p):
    put(p)
    return p
def mkdirs(p):
    os.makedirs(p, exist_ok=True)
    return p
def linked(target, name):
    if os.path.islink(name): os.unlink(name)
    os.symlink(target, name)
    return name
def unnamed(p):
    f = os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o600)
    libc.linkat(-100, b"/proc/self/fd/%d" % f, -100, p.encode(), 0x400)
    os.close(f)
def below(p):
    d = os.open(os.path.dirname(p) or ".", os.O_RDONLY)
    put(os.path.basename(p), dir_fd=d)
def moved(p):
    os.rename(mkdirs("dir.tmp/in"), p + ".moved")
ways = [
    put, lambda p: put(p, os.O_CREAT | os.O_EXCL | os.O_RDWR), lambda p: put(p, os.O_CREAT | os.O_TRUNC | os.O_WRONLY), lambda p: libc.creat(p.encode(), 0o600),
    os.mkdir, os.mkfifo, lambda p: os.mknod(p, 0o600), lambda p: os.symlink("/etc/passwd", p), lambda p: os.link("a.txt", p),
    lambda p: os.rename(fresh("x.tmp"), p), lambda p: os.rename(mkdirs("d.tmp"), p),
    lambda p: libc.renameat2(-100, fresh("y.tmp").encode(), -100, p.encode(), 2), lambda p: libc.renameat2(-100, fresh("z.tmp").encode(), -100, p.encode(), 1),
    lambda p: put(linked(".", "up.tmp") + "/" + p), lambda p: put(linked(p, "dangling.tmp")), lambda p: put(linked(linked(p, "one.tmp"), "two.tmp")),
    lambda p: put(os.path.abspath(p)), lambda p: put("./" + p), lambda p: put("a/../" + p), lambda p: put("//" + os.path.abspath(p)), below, unnamed,
    lambda p: put(p.upper()), lambda p: os.mkdir(p.upper()), lambda p: os.makedirs(p + "/deeper"), lambda p: put(p + "."),
]
tried = made = 0
for p in open("names.txt").read().split("\n"):
    for way in ways:
        tried += 1
        try: way(p)
        except OSError: pass
        for at in (p, p.upper(), p + "."):
            if os.path.lexists(at):
                made += 1
                print("made", at, ways.index(way))
print(tried, "tried,", made, "made")
`

// TestNamesThatAct has a command make each name that acts, in each way, at the root and
// deep below: none can be made.
func TestNamesThatAct(t *testing.T) {
	if _, err := osexec.LookPath("python3"); err != nil {
		t.Skip("python3 is missing")
	}
	w := newWorld(t, true)
	w.shell("mkdir -p a/b; for d in . a/b; do (cd $d; mkdir -p "+strings.Join(acts.Parents(), " ")+"); done", w.root)
	var names []string
	for i, name := range acts.Names() {
		if testing.Short() && i%4 > 0 {
			continue
		}
		at := strings.ReplaceAll(name.Path, "*", "x")
		if name.Repo {
			names = append(names, "a/"+at)
			continue
		}
		names = append(names, at)
		if !name.Root {
			names = append(names, "a/b/"+at)
		}
	}
	w.file(filepath.Join(w.root, "names.txt"), strings.Join(names, "\n"))
	w.file(filepath.Join(w.root, "try.py"), makings)
	s := w.open(nil)
	needGuard(t, w)
	o := w.run(s, w.root, "git init -q a; python3 try.py; rm -rf *.tmp", accesspolicy.Call{})
	if !strings.Contains(o.out, " 0 made") {
		t.Errorf("%.3000s", o.out)
	}
	t.Logf("%d names: %s", len(names), o.out[strings.LastIndex(strings.TrimSpace(o.out), "\n")+1:])
	if len(o.rep.Denied) == 0 {
		t.Error("nothing is said")
	}
	for _, name := range names {
		w.gone(filepath.Join(w.root, name))
	}
	w.works(s, "mkdir -p ordinary/x && echo x > ordinary/x/.gitignore && mv ordinary other && ln -s other link && echo y > link/new && cat other/new")
}

// needGuard skips where the kernel gives no means to make names for commands.
func needGuard(t *testing.T, w *world) {
	if st := accesspolicy.Check(w.runner); !st.Active("guard of names") {
		t.Skip("no guard of names here: ", st.Layers)
	}
}

// TestRacedNames has a program change the path in its memory while the call is judged.
func TestRacedNames(t *testing.T) {
	cc, err := osexec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc is missing")
	}
	w := newWorld(t, true)
	s := w.open(nil)
	needGuard(t, w)
	const source = `
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
static volatile char name[16];
static volatile int over;
static void *flip(void *x) { while (!over) { memcpy((char *)name, "ordinary", 9); memcpy((char *)name, ".envrc\0\0", 9); } return 0; }
int main(void) {
	pthread_t t;
	int made = 0;
	pthread_create(&t, 0, flip, 0);
	for (int i = 0; i < 4000; i++) {
		int fd = open((char *)name, O_CREAT | O_WRONLY, 0600);
		if (fd >= 0) close(fd);
		mkdir((char *)name, 0700);
		symlink("x", (char *)name);
		made += access(".envrc", F_OK) == 0;
		unlink("ordinary"); rmdir("ordinary");
		unlink(".envrc"); rmdir(".envrc");
	}
	over = 1;
	pthread_join(t, 0);
	printf("made %d\n", made);
	return 0;
}
`
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "race.c"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(w.root, "race")
	if out, err := osexec.CommandContext(t.Context(), cc, "-O2", "-pthread", "-o", bin, filepath.Join(dir, "race.c")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if o := w.run(s, w.root, "./race", accesspolicy.Call{}); !strings.Contains(o.out, "made 0\n") {
		t.Errorf("%+v", o)
	}
}

// What is there already at any depth is read-only; what package managers put into
// directories that git ignores is theirs.
func TestNamesThatActBelow(t *testing.T) {
	w := newWorld(t, true)
	w.shell("mkdir -p pkg/one/.vscode pkg/two; echo mine | tee pkg/one/.vscode/tasks.json > pkg/two/.envrc; echo node_modules > .gitignore; git add -A; git -c commit.gpgSign=false commit -qm below", w.root)
	s := w.open(nil)
	needGuard(t, w)
	for _, command := range []string{"echo x > pkg/two/.envrc", "rm pkg/two/.envrc", "mv pkg/one/.vscode x", "echo x > pkg/one/.vscode/new", "echo x | tee -a pkg/one/.vscode/tasks.json", "sed -i s/mine/x/ pkg/two/.envrc"} {
		w.fails(s, command, "")
	}
	o := w.run(s, w.root, "mkdir -p pkg/two/node_modules/dep/.vscode && echo x > pkg/two/node_modules/dep/.vscode/tasks.json && echo x > pkg/two/node_modules/dep/.travis.yml", accesspolicy.Call{})
	if o.code != 0 || len(o.rep.Denied) != 1 || !strings.Contains(o.rep.Denied[0], "allowed: pkg/two/node_modules/dep/.vscode; ") {
		t.Errorf("%+v", o)
	}
	w.run(s, w.root, "mv pkg/two/node_modules/dep pkg/dep || cp -r pkg/two/node_modules/dep pkg/dep; mv pkg/two/node_modules pkg/modules", accesspolicy.Call{})
	w.gone(filepath.Join(w.root, "pkg", "dep", ".vscode"))
	w.gone(filepath.Join(w.root, "pkg", "modules", "dep", ".vscode"))
	w.run(s, w.root, `mkdir -p gh/workflows .github; echo x >gh/workflows/x.yml; for pair in '"gh", b".github"' '".github", b"gh"'; do python3 -c "
import ctypes
a, b = b$pair
ctypes.CDLL(None).renameat2(-100, a, -100, b, 2)"; done; ln -s gh .github/workflows; mv -T gh .github; ls -R .github gh`, accesspolicy.Call{})
	w.gone(filepath.Join(w.root, ".github", "workflows"))
	if got := w.shell("cat pkg/one/.vscode/tasks.json pkg/two/.envrc", w.root); got != "mine\nmine" {
		t.Errorf("they have %q", got)
	}
	if o := w.run(s, w.root, "mkdir -p .github/workflows && echo x > .github/workflows/ci.yml && echo x > pkg/.envrc", accesspolicy.Call{Acts: []string{"ci"}}); o.code == 0 {
		t.Errorf("another class: %+v", o)
	}
	if got := w.shell("cat .github/workflows/ci.yml", w.root); got != "x" {
		t.Errorf("a class that is allowed: %q", got)
	}
}

// What the user makes while a command runs is the user's.
func TestNamesOfTheUserMeanwhile(t *testing.T) {
	w := newWorld(t, true)
	s := w.open(nil)
	needGuard(t, w)
	done := make(chan outcome)
	go func() {
		done <- w.run(s, w.root, "touch begun; while [ ! -e go ]; do sleep 0.02; done", accesspolicy.Call{})
	}()
	w.shell("while [ ! -e begun ]; do sleep 0.02; done", w.root)
	for _, name := range []string{".envrc", "sub/.vscode/tasks.json"} {
		if err := os.MkdirAll(filepath.Join(w.root, path.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		w.file(filepath.Join(w.root, name), "mine")
	}
	w.file(filepath.Join(w.root, "go"), "")
	if o := <-done; len(o.rep.Reverted) > 0 {
		t.Errorf("%+v", o)
	}
	if got := w.shell("cat .envrc sub/.vscode/tasks.json", w.root); got != "minemine" {
		t.Errorf("it has %q", got)
	}
}

// The links of /proc lead the supervisor elsewhere than the command: nothing is made by
// them, neither in the tree of the command nor where the supervisor is.
func TestNamesByLinksOfProc(t *testing.T) {
	w := newWorld(t, true)
	s := w.open(nil)
	needGuard(t, w)
	own, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	w.run(s, w.root, `exec 7<.
for at in /proc/self/cwd /proc/thread-self/cwd /proc/1/cwd /proc/self/fd/7 /dev/fd/7 /proc/1/fd/7 /proc/$$/cwd /proc/self/root$PWD /proc/1/root$PWD; do
for name in .envrc .git/config.worktree; do
echo x >$at/$name; mkdir $at/$name; ln -s x $at/$name; ln a.txt $at/$name; echo x >t; mv t $at/$name; mkfifo $at/$name
done; done 2>/dev/null
ln -s /proc/self/cwd l; echo x >l/.envrc; ln -s /proc/self/cwd/.envrc m; echo x >m; ln -s /proc/1/cwd n; echo x >n/.envrc; rm -f l m n`, accesspolicy.Call{})
	w.gone(filepath.Join(w.root, ".envrc"))
	w.gone(filepath.Join(w.root, ".git", "config.worktree"))
	if now, err := os.ReadDir("."); err != nil || len(now) != len(own) {
		t.Errorf("the supervisor made something in its own directory: %v", err)
	}
	w.works(s, "echo a >/dev/stdout; echo b >/dev/fd/1; echo c 2>/dev/stderr >/dev/null; echo d | tee /proc/self/fd/1 >/dev/null")
}

// Many threads make, rename and remove files at a time, while signals interrupt the
// supervisor: each gets its own descriptor, and no call fails.
func TestManyFilesAtATime(t *testing.T) {
	if _, err := osexec.LookPath("python3"); err != nil {
		t.Skip("python3 is missing")
	}
	w := newWorld(t, true)
	w.file(filepath.Join(w.root, "many.py"), `
import os, threading
bad = []
def make(k):
    for i in range(500):
        n = "f%d-%d" % (k, i)
        try:
            fd = os.open(n, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600)
            if fd < 3: bad.append((n, fd))
            os.write(fd, b"x")
            os.close(fd)
            os.rename(n, n + "r")
            os.unlink(n + "r")
        except OSError as e: bad.append((n, e))
threads = [threading.Thread(target=make, args=(k,)) for k in range(6)]
for t in threads: t.start()
for t in threads: t.join()
print("failed:", len(bad), bad[:5])
`)
	s := w.open(nil)
	if out := w.works(s, "python3 many.py; rm many.py; ls"); out != "failed: 0 []\na.txt\n" {
		t.Errorf("%s", out)
	}
}

// Several threads make the same tree of directories at a time, as npm does: a call finds its
// directory missing or there, and is never refused.
func TestTreesAtATime(t *testing.T) {
	if _, err := osexec.LookPath("python3"); err != nil {
		t.Skip("python3 is missing")
	}
	w := newWorld(t, true)
	w.file(filepath.Join(w.root, "trees.py"), `
import os, threading
bad = set()
def make(call, *path):
    try: call(*path)
    except (FileNotFoundError, FileExistsError): pass
    except OSError as e: bad.add((call.__name__, e.errno))
def touch(path): os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
def work(start, k):
    for i in range(400):
        start.wait()
        for d in ["t/%d/a/b" % i, "t/%d/a" % i, "t/%d" % i, "t/%d/a" % i, "t/%d/a/b" % i]:
            make(touch, d + "/f%d" % k)
            make(os.rename, "from%d" % k, d + "/r%d" % k)
            make(os.mkdir, d)
start = threading.Barrier(4)
os.mkdir("t")
for k in range(4): os.mkdir("from%d" % k)
threads = [threading.Thread(target=work, args=(start, k)) for k in range(4)]
for t in threads: t.start()
for t in threads: t.join()
print("refused:", bad or "")
`)
	s := w.open(nil)
	if out := w.works(s, "python3 trees.py"); out != "refused: \n" {
		t.Errorf("%s", out)
	}
}

// More names than can be protected are an error, not less protection.
func TestTooManyNamesThatAct(t *testing.T) {
	w := newWorld(t, true)
	w.shell("for i in $(seq 1001); do mkdir -p p/$i; echo x >p/$i/.envrc; done", w.root)
	s := w.open(nil)
	run := func(call accesspolicy.Call) error {
		_, _, err := s.Run(t.Context(), exec.Spec{Argv: []string{"true"}, Dir: w.root}, call)
		return err
	}
	if err := run(accesspolicy.Call{}); err == nil || !strings.Contains(err.Error(), "--allow") {
		t.Errorf("all of them: %v", err)
	}
	if err := run(accesspolicy.Call{Acts: []string{acts.Shell}}); err != nil {
		t.Errorf("where a rule allows them: %v", err)
	}
}

// ledTo are set-ups in which an ordinary path of the tree acts by what leads to it: each a
// script in the tree's root, and the path.
func ledTo() map[string][2]string {
	return map[string][2]string{
		"linked hook":               {`mkdir -p scripts .git/hooks; echo mine > scripts/pre-commit; ln -s ../../scripts/pre-commit .git/hooks/pre-commit`, "scripts/pre-commit"},
		"linked hook, absent":       {`mkdir -p scripts .git/hooks; ln -s ../../scripts/post-co .git/hooks/post-checkout`, "scripts/post-co"},
		"linked hooks":              {`rm -rf .git/hooks; mkdir githooks; ln -s ../githooks .git/hooks`, "githooks/pre-push"},
		"linked hook by two links":  {`mkdir -p s .git/hooks; echo mine > s/real; ln -s real s/link; ln -s ../../s/link .git/hooks/pre-commit`, "s/real"},
		"shell":                     {`mkdir env; echo mine > env/dev.sh; ln -s env/dev.sh .envrc`, "env/dev.sh"},
		"editor's directory":        {`mkdir -p tools/vscode; ln -s tools/vscode .vscode`, "tools/vscode/tasks.json"},
		"deep":                      {`mkdir -p a/b conf; echo mine > conf/x; ln -s ../../conf/x a/b/.envrc`, "conf/x"},
		"absent directory":          {`mkdir conf; ln -s conf/idea .idea`, "conf/idea/workspace.xml"},
		"absent file":               {`mkdir conf; ln -s conf/absent.yml .gitlab-ci.yml`, "conf/absent.yml"},
		"nested, configured":        {`git init -q nested; mkdir nested/hk; git -C nested config core.hooksPath hk`, "nested/hk/pre-commit"},
		"nested, linked":            {`git init -q nested; mkdir -p nested/s nested/.git/hooks; echo mine > nested/s/hook; ln -s ../../s/hook nested/.git/hooks/pre-commit`, "nested/s/hook"},
		"nested, a filter":          {`git init -q nested; mkdir nested/t; git -C nested config filter.x.clean ./t/clean`, "nested/t/clean"},
		"a submodule's CI":          {`git init -q ../sub; git -C ../sub commit -q --allow-empty -m x; git -c protocol.file.allow=always submodule --quiet add ../sub sub`, "sub/.github/workflows/x.yml"},
		"a submodule's linked hook": {`git init -q ../sub; git -C ../sub commit -q --allow-empty -m x; git -c protocol.file.allow=always submodule --quiet add ../sub sub; mkdir -p sub/s .git/modules/sub/hooks; ln -s ../../../../sub/s/hook .git/modules/sub/hooks/pre-commit`, "sub/s/hook"},
	}
}

// What acts by a link or by the configuration of a nested repository is neither made nor
// changed.
func TestWhatLinksLeadTo(t *testing.T) {
	for name, c := range ledTo() {
		t.Run(strings.NewReplacer(" ", "-", ",", "").Replace(name), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, true)
			w.file(filepath.Join(w.home, ".gitconfig"), "[user]\n\tname = Ann\n\temail = ann@example.com\n")
			w.shell(c[0], w.root)
			state := func() string {
				return w.shell(`cat "$1" 2>/dev/null || echo nothing`, w.root, filepath.Join(w.root, c[1]))
			}
			before := state()
			s := w.open(nil)
			needGuard(t, w)
			for _, way := range []string{`mkdir -p "$(dirname F)"; echo evil > F`, `echo evil >> F`, `echo evil > new && mkdir -p "$(dirname F)" && mv new F`, `ln -f a.txt F`, `rm -f F; cp a.txt F`, `sed -i s/mine/evil/ F`} {
				o := w.run(s, w.root, strings.ReplaceAll(way, "F", "'"+c[1]+"'"), accesspolicy.Call{})
				if now := state(); now != before {
					t.Fatalf("%s: it was %q and is %q\n%s%q", way, before, now, o.out, o.rep)
				}
			}
			if why, _, _ := s.Guarded(c[1]); why == "" {
				t.Error("a file tool does not ask")
			}
		})
	}
}
