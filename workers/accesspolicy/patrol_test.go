package accesspolicy_test

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ralph/workers/accesspolicy"
	"ralph/workers/exec"
)

// A repository that a job makes or moves into the tree, or that it changes later, is made
// harmless while the job runs.
func TestRepositoriesOfJobs(t *testing.T) {
	if _, err := osexec.LookPath("python3"); err != nil {
		t.Skip("python3 is missing")
	}
	w := newWorld(t, true)
	s := w.open(nil)
	rounds := 5
	if os.Getenv("RALPH_TEST_RUNS") != "" {
		rounds = 70
	}
	// Each line of the log is how long a setting was there, in milliseconds.
	w.file(filepath.Join(w.root, "try.py"), `
import os, sys, time
def until_gone(path):
    began = time.monotonic()
    while time.monotonic() - began < 20:
        try: text = open(path).read()
        except OSError: text = ""
        if "touch" not in text: return print(int((time.monotonic() - began) * 1000), flush=True)
        time.sleep(0.001)
    print("stays", path, flush=True)
def repository(path):
    for d in ("objects", "refs"): os.makedirs(path + "/" + d)
    open(path + "/HEAD", "w").write("ref: refs/heads/main\n")
def setting(path):
    with open(path + "/config", "w") as f: f.write("[core]\n\tfsmonitor = touch ran\n")
for i in range(int(sys.argv[1])):
    i = str(i)
    repository("a/" + i + "/.git"); time.sleep(0.03); setting("a/" + i + "/.git"); until_gone("a/" + i + "/.git/config")
    repository("b/" + i); setting("b/" + i); until_gone("b/" + i + "/config")
    os.makedirs("tmp" + i + "/.git"); setting("tmp" + i + "/.git"); os.makedirs("c", exist_ok=True)
    os.rename("tmp" + i, "c/" + i); repository("c/" + i + "/.git"); until_gone("c/" + i + "/.git/config")
`)
	script := "python3 try.py " + strconv.Itoa(rounds) + " > log.new 2>&1; mv log.new log; sleep 600"
	j, err := s.Start(t.Context(), exec.Spec{Argv: []string{exec.Shell(""), "-c", script}, Dir: w.root, Timeout: 10 * time.Minute}, accesspolicy.Call{})
	if err != nil {
		t.Fatal(err)
	}
	w.await(filepath.Join(w.root, "log"))
	log := strings.Fields(w.shell("cat log", w.root))
	if slices.Contains(log, "stays") || len(log) != 3*rounds {
		t.Errorf("%q", log)
	}
	slices.SortFunc(log, func(a, b string) int { return len(a)*1000 - len(b)*1000 + strings.Compare(a, b) })
	t.Logf("%d settings were there for (ms) median %s, p99 %s, most %s", len(log), log[len(log)/2], log[len(log)*99/100], log[len(log)-1])
	if err := j.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if rep := s.Ended(j); len(rep.Reverted)+len(rep.Denied) == 0 {
		t.Error("nothing is said")
	}
}

// What commands made when Ralph was killed is taken away by the next start; what the user had
// stays.
func TestRepositoriesAfterAKill(t *testing.T) {
	w := newWorld(t, true)
	w.shell("git init -q mine; git -C mine config core.fsmonitor 'touch ran'", w.root)
	s := w.open(nil)
	j, err := s.Start(t.Context(), exec.Spec{Argv: []string{exec.Shell(""), "-c", "touch begun; sleep 600"}, Dir: w.root}, accesspolicy.Call{})
	if err != nil {
		t.Fatal(err)
	}
	w.await(filepath.Join(w.root, "begun"))
	// As a killed Ralph leaves it: the file is there, and nobody has looked.
	saved := filepath.Join(filepath.Dir(w.home), "saved")
	w.shell(`cp -r "$2/history" "$3"`, w.root, filepath.Join(filepath.Dir(w.home), "state"), saved)
	if err := j.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Ended(j)
	w.shell(`git init -q theirs; git -C theirs config core.fsmonitor 'touch ran'; cp "$2"/running-* "$3/history/"`, w.root, saved, filepath.Join(filepath.Dir(w.home), "state"))
	next := w.open(nil)
	if told := next.Recover(t.Context()); len(told) != 1 {
		t.Errorf("%q", told)
	}
	if got := w.shell("git -C mine config core.fsmonitor; git -C theirs config core.fsmonitor || true", w.root); got != "touch ran" {
		t.Errorf("%q", got)
	}
	if told := next.Recover(t.Context()); len(told) != 0 {
		t.Errorf("again: %q", told)
	}
}

// Where nothing keeps commands from making names that act, what a job makes is taken away
// while it runs, and by the next start when Ralph was killed.
func TestNamesOfJobsWithoutGuard(t *testing.T) {
	w := newWorld(t, true)
	withoutMounts(t, w)
	w.file(filepath.Join(w.root, "mine", ".envrc"), "mine\n")
	s := w.openWithoutMounts(true)
	const make = "mkdir -p deep/.vscode sub; echo x > .envrc; echo x > deep/.vscode/tasks.json; echo x > .github.tmp"
	j, err := s.Start(t.Context(), exec.Spec{Argv: []string{exec.Shell(""), "-c", make + "; while [ -e .envrc ] || [ -e deep/.vscode ]; do sleep 0.01; done; touch gone; sleep 600"}, Dir: w.root}, accesspolicy.Call{})
	if err != nil {
		t.Fatal(err)
	}
	w.await(filepath.Join(w.root, "gone"))
	saved := filepath.Join(filepath.Dir(w.home), "saved")
	state := filepath.Join(filepath.Dir(w.home), "state")
	w.shell(`cp -r "$2/history" "$3"`, w.root, state, saved)
	if err := j.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rep := s.Ended(j); len(rep.Reverted) < 2 {
		t.Errorf("it says %q", rep.Reverted)
	}
	w.shell(make+`; mkdir -p "$3/history"; cp "$2"/running-* "$3/history/"`, w.root, saved, state)
	if told := w.openWithoutMounts(true).Recover(t.Context()); len(told) < 2 {
		t.Errorf("the next start says %q", told)
	}
	w.gone(filepath.Join(w.root, ".envrc"))
	w.gone(filepath.Join(w.root, "deep", ".vscode"))
	if got := w.shell("cat mine/.envrc", w.root); got != "mine" {
		t.Errorf("the user's has %q", got)
	}
}

// A file tool asks before it writes what makes a directory a repository.
func TestGuardedRepositories(t *testing.T) {
	w := newWorld(t, true)
	s := w.open(nil)
	w.shell("mkdir -p a/refs a/objects b/objects c; touch b/HEAD c/HEAD d-HEAD; git init -q --bare e", w.root)
	for name, want := range map[string]bool{
		"a/HEAD": true, "b/refs/heads/x": true, "c/commondir": true, "e/config": true, "e/hooks/post-update": true, "e/objects/ab/x": true,
		"a/config": false, "b/x/refs": false, "c/config": false, "refs/x": false, "objects": false, "HEAD": false, "src/objects/a.go": false,
	} {
		if why, class, _ := s.Guarded(name); (why != "") != want || want && class != "git" && class != "hook" {
			t.Errorf("%s: %q, %q", name, why, class)
		}
	}
}

// A socket of a protected name is not bound.
func TestSocketsOfProtectedNames(t *testing.T) {
	if _, err := osexec.LookPath("python3"); err != nil {
		t.Skip("python3 is missing")
	}
	w := newWorld(t, true)
	s := w.open(nil)
	needGuard(t, w)
	names := strings.Fields(".envrc .vscode .husky .github .idea sub/.envrc sub/.vscode")
	o := w.run(s, w.root, `mkdir sub; for f in `+strings.Join(names, " ")+` fine.sock; do python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('$f')"; done`, accesspolicy.Call{})
	for _, name := range names {
		if name != ".github" { // which is none, only what is in it
			w.gone(filepath.Join(w.root, name))
		}
	}
	if _, err := os.Lstat(filepath.Join(w.root, "fine.sock")); err != nil || len(o.rep.Reverted) > 0 || !strings.Contains(strings.Join(o.rep.Denied, "\n"), "sub/.envrc") {
		t.Errorf("%v, %+v", err, o)
	}
}
