package accesspolicy_test

import (
	"maps"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ralph/workers/accesspolicy"
	"ralph/workers/exec"
)

// raced are the ways in which a program can have a git directory "n/.git", or what it leads
// to, hold a configuration by which git runs something: a step of python that is done again
// and again, by gitrepository-layout(5), git-config(1), rename(2), link(2), open(2) and
// proc(5). "evil" is such a configuration, "good" a harmless one.
func raced() map[string]string {
	const store = `
if os.path.isdir("n/.git"): os.rename("n/.git", "store"); put("n/.git", "gitdir: ../store\n")
`
	return map[string]string{
		"written":           `put("n/.git/config", evil); put("n/.git/config", good)`,
		"appended":          `open("n/.git/config", "a").write(evil)`,
		"locked":            `put("n/.git/config.lock", evil); os.rename("n/.git/config.lock", "n/.git/config")`,
		"kept open":         `f = put("p", good); os.rename("p", "n/.git/config"); f.seek(0); f.write(evil + good); f.flush()`,
		"kept open to read": `put("p", good); os.rename("p", "n/.git/config"); f = open("n/.git/config"); put("/proc/self/fd/%d" % f.fileno(), evil)`,
		"linked":            `put("p", good); gone("n/.git/config"); os.link("p", "n/.git/config"); put("p", evil)`,
		"linked elsewhere":  `gone("q"); os.link("n/.git/config", "q"); put("q", evil)`,
		"linked by a link": `
gone("l"); gone("q"); os.symlink("n/.git/config", "l"); os.link("l", "q", follow_symlinks=True); put("q", evil)`,
		"linked by descriptor": `gone("q"); f = open("n/.git/config"); os.link("/proc/self/fd/%d" % f.fileno(), "q", follow_symlinks=True); put("q", evil)`,
		"without a name": `
f = os.open(".", os.O_TMPFILE | os.O_RDWR); os.write(f, good.encode()); gone("n/.git/config"); os.link("/proc/self/fd/%d" % f, "n/.git/config", follow_symlinks=True); os.pwrite(f, evil.encode(), 0)`,
		"a link":          `put("p", evil); gone("l"); os.symlink("../../p", "l"); os.rename("l", "n/.git/config")`,
		"a link at once":  `put("p", evil); gone("n/.git/config"); os.symlink("../../p", "n/.git/config")`,
		"exchanged":       `put("p", evil); exchange("p", "n/.git/config")`,
		"moved away":      `os.rename("n/.git", "x"); put("x/config", evil); os.rename("x", "n/.git")`,
		"without objects": `os.rename("n/.git/objects", "n/.git/o"); put("n/.git/config", evil); os.rename("n/.git/o", "n/.git/objects")`,
		"without refs":    `os.rename("n/.git/refs", "n/.git/o"); f = put("n/.git/config", good); os.rename("n/.git/o", "n/.git/refs"); f.seek(0); f.write(evil + good); f.flush()`,
		"objects are a link": `
if os.path.isdir("n/.git/objects"): os.rename("n/.git/objects", "objects.away")
gone("n/.git/objects"); put("n/.git/config", evil); os.symlink("../../objects.away", "n/.git/objects")`,
		"whole exchanged": `
shutil.rmtree("m", ignore_errors=True); shutil.copytree("n/.git", "m", symlinks=True, ignore=lambda d, names: ["config", "objects"])
put("m/config", evil); shutil.copytree("n/.git/objects", "m/objects"); exchange("m", "n/.git")`,
		"a common directory": `
if not os.path.isdir("c"): shutil.move("n/.git", "c"); os.mkdir("n/.git"); shutil.copy("c/HEAD", "n/.git/HEAD"); put("n/.git/commondir", "../../c\n")
gone("c/HEAD"); put("c/config", evil); put("c/config", good)`,
		"a common directory of its own": `
if not os.path.isdir("c"): shutil.move("n/.git", "c"); os.makedirs("n/.git"); shutil.copy("c/HEAD", "n/.git/HEAD"); put("n/.git/commondir", "../../c\n")
os.rename("c/refs", "c/r"); put("c/config", evil); os.rename("c/r", "c/refs")`,
		"a file that leads": store + `put("store/config", evil); put("store/config", good)`,
		"a hook":            store + `os.makedirs("store/hooks", exist_ok=True); hook("store/hooks/post-index-change")`,
		"a hook moved":      store + `os.makedirs("h", exist_ok=True); hook("h/post-index-change"); shutil.rmtree("store/hooks", ignore_errors=True); os.rename("h", "store/hooks")`,
		"a hook linked":     store + `os.makedirs("h", exist_ok=True); hook("h/post-index-change"); shutil.rmtree("store/hooks", ignore_errors=True); os.symlink("../h", "store/hooks")`,
		"a hook before":     store + `os.rename("store/refs", "store/r"); os.makedirs("store/hooks", exist_ok=True); hook("store/hooks/post-index-change"); os.rename("store/r", "store/refs")`,
		"a hook renamed":    store + `os.makedirs("store/hooks", exist_ok=True); hook("store/hooks/x"); os.rename("store/hooks/x", "store/hooks/post-index-change")`,
		"led to the temp": `
if not os.path.isdir("/tmp/evil"): shutil.copytree("n/.git", "/tmp/evil/.git"); put("/tmp/evil/.git/config", evil)
shutil.rmtree("n", ignore_errors=True); os.symlink(host + "/evil", "n")`,
		"a file that leads to the temp": `
if not os.path.isdir("/tmp/evil"): shutil.move("n/.git", "/tmp/evil"); put("/tmp/evil/config", evil)
put("n/.git", "gitdir: " + host + "/evil\n")`,
		"a common directory in the temp": `
if not os.path.isdir("/tmp/evil"): shutil.copytree("n/.git", "/tmp/evil"); put("/tmp/evil/config", evil); shutil.rmtree("n/.git/objects"); shutil.rmtree("n/.git/refs")
put("n/.git/commondir", host + "/evil\n")`,
		"exchanged above": `
if not os.path.isdir("m"): os.mkdir("m"); shutil.copytree("n/.git", "m/.git", ignore=lambda d, names: ["config", "objects"] if d == "n/.git" else []); shutil.copy("n/.gitattributes", "m")
put("m/.git/config", evil); exchange("m", "n")`,
		"a file that leads, exchanged": store + `
if not os.path.isdir("y"): shutil.copytree("store", "y", ignore=lambda d, names: ["config", "objects"] if d == "store" else [])
put("y/config", evil); exchange("y", "store")`,
		"of the work tree": `
put("n/.git/config", good + "[extensions]\n\tworktreeConfig = true\n"); put("n/.git/config.worktree", evil); put("n/.git/config.worktree", good)`,
		"of a linked work tree": `
if not os.path.isdir("k"): subprocess.run(["git", "-C", "n", "worktree", "add", "-q", "../k"]); subprocess.run(["git", "-C", "n", "config", "extensions.worktreeConfig", "true"])
put("n/.git/worktrees/k/config.worktree.lock", evil); os.rename("n/.git/worktrees/k/config.worktree.lock", "n/.git/worktrees/k/config.worktree")`,
		"by a link of the supervisor's name": `
gone("/dev/shm/ralph-git-A"); os.symlink(os.getcwd() + "/n/.git/config", "/dev/shm/ralph-git-A"); gone("l"); os.symlink("/dev/shm/ralph-git-A", "l")
put("l", evil); put("l", good)`,
		"through a directory of the supervisor's name": `
os.makedirs("/dev/shm/ralph-git-d", exist_ok=True); gone("l"); os.symlink("/dev/shm/ralph-git-d/../../.." + os.getcwd() + "/n/.git/config", "l")
put("l", evil); put("l", good)`,
		"by what stands for it": `
f = put("n/.git/config", good); to = os.readlink("n/.git/config"); gone("l"); os.symlink(to, "l")
gone(to); os.symlink(os.getcwd() + "/p/.git/config", to)
if not os.path.isdir("p"): shutil.copytree("n", "p", ignore=lambda d, names: ["config", "objects"] if d == "n/.git" else []); shutil.copytree("n/.git/objects", "p/.git/objects")
put("l", evil); exchange("p", "n")`,
		"copied": `shutil.rmtree("m", ignore_errors=True); shutil.copytree("n", "m"); put("m/.git/config", evil); put("m/.git/config", good); exchange("m", "n")`,
	}
}

// TestRacedRepositories has programs try to have the user's git run something, while the user
// works in the repository that they have made.
func TestRacedRepositories(t *testing.T) {
	if _, err := osexec.LookPath("python3"); err != nil {
		t.Skip("python3 is missing")
	}
	rounds := 5
	if os.Getenv("RALPH_TEST_RUNS") != "" {
		rounds = 200
	}
	for _, name := range slices.Sorted(maps.Keys(raced())) {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, true)
			needGuard(t, w)
			ran := filepath.Join(filepath.Dir(w.root), "ran")
			w.file(filepath.Join(w.root, "try.py"), `
import ctypes, os, shutil, subprocess
evil = "[core]\n\tfsmonitor = \"touch `+ran+`; false\"\n\thooksPath = `+w.root+`/h\n[alias]\n\tst = !touch `+ran+`\n[filter \"x\"]\n\tclean = touch `+ran+`\n[diff]\n\texternal = touch `+ran+`\n"
host = [l.split()[3] for l in open("/proc/self/mountinfo") if l.split()[4] == "/tmp"][0]
good = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n[user]\n\tname = Ann\n"
def put(path, text):
    f = open(path, "w"); f.write(text); f.flush(); return f
def gone(path):
    try: os.unlink(path)
    except FileNotFoundError: pass
def hook(path):
    put(path, "#!/bin/sh\ntouch `+ran+`\n"); os.chmod(path, 0o755)
def exchange(a, b):
    if ctypes.CDLL(None, use_errno=True).renameat2(-100, a.encode(), -100, b.encode(), 2): raise OSError(ctypes.get_errno())
subprocess.run("git init -q n; cd n; echo x >x; git add x; git commit -qm x; echo '* filter=x' >.gitattributes", shell=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
told = set()
done = 0
while not os.path.exists("stop"):
    try:
        exec(compile(open("step.py").read(), "step", "exec")); done += 1
    except OSError as e:
        if str(e) not in told and len(told) < 20: told.add(str(e)); print(e)
    open("begun", "w").close()
print("done", done)
`)
			w.file(filepath.Join(w.root, "step.py"), raced()[name])
			s := w.open(nil)
			var jobs []*exec.Job
			for range 2 {
				j, err := s.Start(t.Context(), exec.Spec{Argv: []string{"python3", "try.py"}, Dir: w.root, Timeout: 5 * time.Minute}, accesspolicy.Call{})
				if err != nil {
					t.Fatal(err)
				}
				jobs = append(jobs, j)
			}
			w.await(filepath.Join(w.root, "begun"))
			runs, worked := 0, 0
			for range rounds {
				for _, args := range [][]string{{"status"}, {"st"}, {"diff"}} {
					dir := "n"
					if name == "of a linked work tree" {
						dir = "k"
					}
					cmd := osexec.Command("git", append([]string{"-C", dir}, args...)...)
					cmd.Dir, cmd.Env = w.root, append(w.environ(), "GIT_CEILING_DIRECTORIES="+w.root)
					if cmd.Run() == nil {
						worked++
					}
				}
				if os.Remove(ran) == nil {
					runs++
				}
			}
			w.file(filepath.Join(w.root, "stop"), "")
			for _, j := range jobs {
				<-j.Done()
				res, _ := j.Result()
				rep := s.Ended(j)
				t.Logf("%d of %d, %d worked: %s%s\n%s", runs, rounds, worked, res.Stdout.String(), res.Stderr.String(), strings.Join(append(rep.Denied, rep.Reverted...), "\n"))
			}
			if runs > 0 {
				t.Errorf("git ran what a program wrote %d times of %d", runs, rounds)
			}
		})
	}
}

// TestWrittenRepositories has programs write configurations as cp, tar, rsync and libraries do:
// at once, in parts, in place, by a temporary name. What they have closed they read again.
func TestWrittenRepositories(t *testing.T) {
	if _, err := osexec.LookPath("python3"); err != nil {
		t.Skip("python3 is missing")
	}
	w := newWorld(t, true)
	s := w.open(nil)
	needGuard(t, w)
	w.works(s, `set -e; git init -q repo; git -C repo commit -q --allow-empty -m x; git -C repo remote add origin ../x; chmod 600 repo/.git/config; touch -d 2020-01-01 repo/.git/config
same() { cmp repo/.git/config "$1/.git/config"; git -C "$1" log --oneline; test "$(stat -c %a "$1/.git/config")" = 600; test ! -L "$1/.git/config"; }
cp -r repo a; cmp repo/.git/config a/.git/config; git -C a status; cp -a repo b; same b; test "$(stat -c %Y b/.git/config)" = "$(stat -c %Y repo/.git/config)"
tar cf t.tar repo; mkdir c; tar xf t.tar -C c --strip-components=1; same c; mkdir d; (cd repo; tar cf - .) | (cd d; tar xpf -); same d
cp -al repo e; cmp repo/.git/config e/.git/config; echo "[user]" >>e/.git/config; echo "	name = E" >>e/.git/config; test "$(git -C e config user.name)" = E; ! grep -q E repo/.git/config
git -C a config user.name A; test "$(git -C a config user.name)" = A; sed -i s/A/B/ a/.git/config; test "$(git -C a config user.name)" = B
git clone -q repo f; git clone -q --bare repo g.git; git -C f worktree add -q ../h; git -C h status; git -c protocol.file.allow=always -C f submodule --quiet add ../repo sub; git -C f/sub log --oneline; git -C f submodule update --init
mv a a2; git -C a2 status; rm -rf a2 b c d e; echo x >config; echo y >>config; test "$(cat config)" = "x
y"`)
	w.works(s, `python3 - <<'END'
import os, shutil, subprocess
for i in range(30):
    shutil.copytree("repo", "p"); assert open("p/.git/config").read() == open("repo/.git/config").read()
    with open("p/.git/config", "r+") as f:
        text = f.read(); f.seek(0); f.truncate(); f.write(text); f.flush(); os.fsync(f.fileno()); assert open("p/.git/config").read() == text
        f.write("[user]\n\tname = P%d\n" % i)
    assert subprocess.check_output(["git", "-C", "p", "config", "user.name"], text=True) == "P%d\n" % i
    with open("p/.git/config", "a") as f: f.write("\temail = x\n")
    with open("p/.git/config", "a") as f: f.write("[gc]\n\tauto = 0\n")
    assert subprocess.check_output(["git", "-C", "p", "config", "gc.auto"], text=True) == "0\n"
    assert subprocess.check_output(["git", "-C", "p", "config", "user.email"], text=True) == "x\n"
    os.rename("p/.git/config", "p/.git/config.bak"); os.rename("p/.git/config.bak", "p/.git/config")
    assert subprocess.check_output(["git", "-C", "p", "config", "gc.auto"], text=True) == "0\n"
    shutil.rmtree("p")
END`)
	w.works(s, `mkdir -p ostree/objects ostree/refs; printf '[core]\nrepo_version=1\nmode=bare-user\nmin-free-space-size=5GB\n' >ostree/config; grep -q min-free ostree/config && grep -q mode ostree/config`)
}
