package coordinator_test

import (
	"fmt"
	"net"
	osexec "os/exec"
	"testing"

	"ralph/coordinator"
	"ralph/coordinator/crew"
	"ralph/coordinator/result"
	"ralph/workers/accesspolicy"
	"ralph/workers/exec"
	"ralph/workers/model/modeltest"
)

// confined makes a project of a user with a home, whose commands run in a sandbox.
func confined(t *testing.T, replies ...modeltest.Reply) *project {
	t.Helper()
	r := exec.New(exec.Options{Init: exec.Self()})
	defer func() {
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if st := accesspolicy.Check(r); !st.Complete {
		t.Skip("commands are not confined here: ", st)
	}
	p := newProject(t, replies...)
	p.home, p.flags["sandbox"] = t.TempDir(), []string{"workspace"}
	return p
}

// A check reads nothing outside the tree that a command of the model wrote.
func TestForgedCheckOfARun(t *testing.T) {
	t.Parallel()
	for name, place := range map[string]string{"cache": "$XDG_CACHE_HOME/proves", "npm": "$npm_config_cache/proves", "temp": "/tmp/proves", "own temp": "$TMPDIR/proves", "shared memory": "/dev/shm/proves"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := confined(t, calls(shell("mkdir -p $(dirname "+place+") && echo exit 0 > "+place+" && . "+place)), text("done"))
			p.flags["check"], p.flags["check_retries"] = []string{". " + place}, []string{"0"}
			out := p.run(coordinator.Job{})
			p.want(out, result.Failed, "check")
			if out.ToolCalls.Failed != 0 || out.Verified || out.Check.Tree != "worktree" {
				t.Errorf("verified %v, check %+v, calls %+v", out.Verified, out.Check, out.ToolCalls)
			}
		})
	}
}

// A check runs what the model wrote, so that one that passes could leave behind
// what makes the next pass, too.
func TestPassingCheckForgesNoOther(t *testing.T) {
	t.Parallel()
	write := func(text string) string { return "printf '" + text + "' > test.sh" }
	p := confined(t, calls(shell(write("mkdir -p $XDG_CACHE_HOME && echo exit 0 > $XDG_CACHE_HOME/forged"))), text("done"), calls(shell(write("exit 1"))), text("done"))
	p.flags["check"], p.flags["check_retries"] = []string{"test -f $XDG_CACHE_HOME/forged && . $XDG_CACHE_HOME/forged; . ./test.sh"}, []string{"0"}
	p.want(p.run(coordinator.Job{}), result.Completed)
	p.want(p.run(coordinator.Job{}), result.Failed)
}

// Caches that a check found cold are filled once, by building the tests of the commit with
// which the user began. Code of the project, which an earlier session may have brought, has
// no part in what later checks begin with.
func TestCachesAreFilledFromTheBase(t *testing.T) {
	t.Parallel()
	change := calls(shell("date +%N >> notes.txt; echo '// more' >> a.go"))
	p := confined(t, change, text("cold"), change, text("warm"), change, text("warm"))
	p.write("go.mod", "module words\n\ngo 1.24\n")
	p.write("a.go", "package words\n")
	p.write("a_test.go", "package words\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\n"+
		"func TestForges(t *testing.T) {\n\tfor _, at := range []string{\"GOCACHE\", \"XDG_CACHE_HOME\"} {\n\t\t_ = os.MkdirAll(os.Getenv(at), 0o755)\n\t\t_ = os.WriteFile(os.Getenv(at)+\"/forged\", nil, 0o644)\n\t}\n}\n")
	p.git("add", "-A")
	p.git("commit", "-qm", "base")
	const warm, forged = 7, 9
	p.flags["check"] = []string{fmt.Sprintf("for at in $GOCACHE $XDG_CACHE_HOME; do test -e $at/forged && exit %d; done; n=$(ls $GOCACHE | wc -l); go test ./... || exit 1; test $n -gt 100 && exit %d; exit 0", forged, warm)}
	p.flags["check_retries"] = []string{"0"}
	for i, want := range []int{0, warm, warm} {
		if out := p.run(coordinator.Job{}); out.Check == nil || out.Check.ExitCode != want {
			t.Errorf("run %d: check %+v, want exit %d; warnings %q", i, out.Check, want, out.Warnings)
		}
	}
}

// A clean check sees a commit of what git would commit and what its set-up command makes, and
// none of the ignored files.
func TestCleanCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, setup, model string
		code               int
	}{
		{"ignored file", "", "mkdir -p out && touch out/proof", 1},
		{"set-up", "mkdir out && touch out/proof", "true", 0},
		{"set-up fails", "mkdir out && touch out/proof && exit 3", "true", 3},
		{"new file", "", "printf 'out/\\n!out/proof\\n' > .gitignore; sed -i s,out/$,x, .gitignore; mkdir -p out; touch out/proof", 0},
		{"git works", "mkdir out && touch out/proof && test $(git log --oneline | wc -l) = 1 && test -z \"$(git status --porcelain)\" && git show HEAD:a.txt | grep -q x", "echo x > a.txt", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := confined(t, calls(shell(c.model)), text("done"))
			p.write(".gitignore", "out/\n")
			p.git("add", "-A")
			p.git("commit", "-qm", "base")
			p.flags["check"], p.flags["check_retries"], p.flags["check_clean"] = []string{"test -f out/proof"}, []string{"0"}, []string{"true"}
			p.flags["check_setup"] = []string{c.setup}
			out := p.run(coordinator.Job{})
			if out.Check == nil || out.Check.ExitCode != c.code || out.Check.Tree != "clean" || out.Verified != (c.code == 0) {
				t.Errorf("check %+v, verified %v, failure %+v, warnings %q", out.Check, out.Verified, out.Failure, out.Warnings)
			}
		})
	}
}

// A job of the model cannot change what is checked while it is checked.
func TestJobsEndBeforeACheck(t *testing.T) {
	t.Parallel()
	job := call("shell", m{"command": "while :; do echo good > a.txt; done", "background": true})
	p := confined(t, calls(job), calls(shell("while ! test -s a.txt; do :; done")), text("done"))
	p.flags["check"], p.flags["check_retries"] = []string{"rm -f a.txt; i=0; while test $i -lt 2000; do i=$((i+1)); test -e a.txt && exit 0; done; exit 9"}, []string{"0"}
	out := p.run(coordinator.Job{})
	if out.Check == nil || out.Check.ExitCode != 9 || !p.warned("was ended before the check") {
		t.Errorf("check %+v, warnings %q", out.Check, out.Warnings)
	}
}

// Where a rule allows the network, a job of another agent answers no check.
func TestNoJobAnswersACheck(t *testing.T) {
	t.Parallel()
	python, err := osexec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 to listen with: ", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	p := confined(t)
	k := played(p)
	job := call("shell", m{"command": fmt.Sprintf("%s -m http.server --bind 127.0.0.1 %d", python, port), "background": true})
	ask := fmt.Sprintf("(exec 3<>/dev/tcp/127.0.0.1/%d) 2>/dev/null", port)
	k.part("ralph", calls(job), calls(shell("until "+ask+"; do sleep 0.02; done")), spawn(m{"name": "one", "task": "write one"}), text("I wait."), text("all done"))
	k.part("one", put("one.txt", "1\n"), text("one is written"))
	p.flags["allow"], p.flags["check"], p.flags["check_retries"] = []string{"network"}, []string{ask}, []string{"0"}
	out := p.run(coordinator.Job{})
	if a := childOf(t, out, "one"); a.State == crew.Done || !p.warned("was ended before the check") {
		t.Errorf("%+v, warnings %q", a, out.Warnings)
	}
}

func TestCheckWithoutASandbox(t *testing.T) {
	t.Parallel()
	p := newProject(t, text("done"))
	p.flags["check"] = []string{"true"}
	p.want(p.run(coordinator.Job{}), result.Completed)
	if !p.warned("the sandbox is off") {
		t.Error("nothing is said")
	}
}
