package coordinator_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ralph/coordinator/crew"
	"ralph/workers/accesspolicy"
	"ralph/workers/agent"
	"ralph/workers/exec"
	"ralph/workers/model/modeltest"
)

// lines of the shared file are the agents', as many again the user's.
const lines = 5

// tally counts what random runs did.
type tally struct {
	runs, lives, kills, stops, conflicts, holds, landings, edits, blocked, agents, resumed, pruned atomic.Int64
}

// TestRandomCrews has agents work while a user edits, stages and commits in the
// same repository, and Ralph is stopped and killed at random: at rest no commit is
// lost, nothing is there that has no owner, and what the user wrote is as they
// wrote it. RALPH_TEST_SEED runs one seed, RALPH_TEST_RUNS that many.
func TestRandomCrews(t *testing.T) {
	if testing.Short() {
		t.Skip("many processes")
	}
	t.Parallel()
	runs, first := 4, uint64(1)
	if os.Getenv("RALPH_TEST_SWEEP") != "" {
		runs = 200
	}
	if n, err := strconv.Atoi(os.Getenv("RALPH_TEST_RUNS")); err == nil {
		runs = n
	}
	if n, err := strconv.ParseUint(os.Getenv("RALPH_TEST_SEED"), 10, 64); err == nil {
		if first = n; os.Getenv("RALPH_TEST_RUNS") == "" {
			runs = 1
		}
	}
	var all tally
	var wg sync.WaitGroup
	seeds := make(chan uint64)
	for range 4 {
		wg.Go(func() {
			for seed := range seeds {
				t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { newRandomRun(t, seed, &all).play() })
			}
		})
	}
	for i := range runs {
		seeds <- first + uint64(i)
	}
	close(seeds)
	wg.Wait()
	t.Logf("%d runs in %d lives, %d killed; %d agents, %d landings, %d conflicts, %d held, %d resumed, %d pruned; %d stops; %d changes by the user, %d that a lock kept from them", all.runs.Load(), all.lives.Load(), all.kills.Load(),
		all.agents.Load(), all.landings.Load(), all.conflicts.Load(), all.holds.Load(), all.resumed.Load(), all.pruned.Load(), all.stops.Load(), all.edits.Load(), all.blocked.Load())
}

// randomRun is one repository, through several lives of Ralph.
type randomRun struct {
	*testing.T
	seed    uint64
	rng     *rand.Rand // of who gives orders
	all     *tally
	root    string
	url     string
	company *company
	user    *randomUser
	plan    int
	// confined says that the kernel holds commands to the sandbox.
	confined bool

	mu      sync.Mutex
	life    *reign
	log     []string
	commits map[string]string // that were reported, with who reported them
	merged  map[string]bool   // that were reported as merged
	pruned  map[string]bool   // on request
	known   map[string]bool   // agents that began
}

func newRandomRun(t *testing.T, seed uint64, all *tally) *randomRun {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	srv := modeltest.New(t)
	k := &company{rng: rand.New(rand.NewPCG(seed, 2)), plans: map[string][]string{}, roles: map[string]role{}, saw: map[string]string{}}
	srv.Handle(k.answer)
	r := &randomRun{T: t, seed: seed, rng: rng, all: all, root: root, url: srv.URL(), company: k, commits: map[string]string{}, merged: map[string]bool{}, pruned: map[string]bool{}, known: map[string]bool{}}
	r.user = newRandomUser(r)
	runner := exec.New(exec.Options{})
	r.confined = accesspolicy.Check(runner).Active("mount namespace")
	if err := runner.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	return r
}

// note keeps what happened, for the report of a failure.
func (r *randomRun) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

func (r *randomRun) git(args ...string) (string, error) {
	c := osexec.Command("git", append([]string{"-c", "gc.auto=0"}, args...)...)
	c.Dir = r.root
	out, err := c.CombinedOutput()
	return string(out), err
}

func (r *randomRun) mustGit(args ...string) string {
	r.Helper()
	out, err := r.git(args...)
	if err != nil {
		r.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return out
}

// play runs all lives and judges what is left.
func (r *randomRun) play() {
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.life != nil {
			r.life.kill()
		}
		if r.Failed() {
			r.Logf("RALPH_TEST_SEED=%d\n%s", r.seed, strings.Join(r.log, "\n"))
			if dir := os.Getenv("RALPH_TEST_KEEP"); dir != "" {
				_ = osexec.Command("cp", "-a", r.root, filepath.Join(dir, fmt.Sprint("seed-", r.seed))).Run()
			}
		}
	}()
	r.all.runs.Add(1)
	r.user.begin()
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { r.user.work(quit) })
	gone := sync.OnceFunc(func() { close(quit); wg.Wait() })
	defer gone() // also when this run fails: a user who stays would take the other tests along
	for n := r.rng.IntN(4); n > 0; n-- {
		r.hectic(true)
	}
	if r.rng.IntN(2) == 0 {
		r.hectic(false)
	}
	gone()
	if r.Failed() {
		return
	}
	list := r.rest()
	if r.Failed() {
		return
	}
	newJudge(r, list).judge()
}

// newPlan asks for 2–5 agents.
func (r *randomRun) newPlan() string {
	r.plan++
	name := fmt.Sprint(r.plan)
	k := r.company
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range 2 + r.rng.IntN(4) {
		id := fmt.Sprintf("p%dk%d", r.plan, i)
		x := role{Kind: []string{"edit", "edit", "edit", "fresh", "commit", "commit", "hang", "sleep", "fail", "idle", "boss", "vandal", "vandal"}[r.rng.IntN(13)], Line: 1 + r.rng.IntN(lines)}
		if x.Kind == "vandal" && !r.confined {
			x.Kind = "edit" // nothing keeps it from the user's repository
		}
		if i > 0 && r.rng.IntN(4) == 0 {
			x.After = []string{k.plans[name][r.rng.IntN(i)]}
		}
		switch r.rng.IntN(8) {
		case 0:
			x.Check = "exit 3"
		case 1:
			x.Check = "test -e shared.txt"
		}
		k.plans[name] = append(k.plans[name], id)
		k.roles[id] = x
	}
	return "do plan-" + name
}

// hectic is a life in which all comes at once; it ends by SIGKILL or in order.
func (r *randomRun) hectic(kill bool) {
	l := r.start()
	l.send("run", r.newPlan())
	steps := r.rng.IntN(8)
	for range steps {
		r.pause(150)
		switch r.rng.IntN(9) {
		case 0:
			l.send("stop", "")
			r.all.stops.Add(1)
			l.send("run", r.newPlan())
		case 1, 2:
			l.send("end", r.anyone())
			r.all.stops.Add(1)
		case 3:
			l.send("resume", r.anyone())
		case 4:
			l.send("merge", r.anyone())
		case 5:
			l.prune(r.anyone())
		case 6:
			l.send("run", r.newPlan())
		case 7:
			l.send("agents", "")
		}
	}
	if !kill {
		l.send("stop", "")
		r.all.stops.Add(1)
		l.quit()
		return
	}
	switch r.rng.IntN(3) {
	case 0:
		r.pause(600)
	case 1: // in a landing
		for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); {
			if _, err := os.Lstat(filepath.Join(r.root, ".ralph/worktrees/.ralph/landing.json")); err == nil {
				time.Sleep(time.Duration(r.rng.IntN(15)) * time.Millisecond)
				break
			}
			time.Sleep(100 * time.Microsecond)
		}
	case 2: // about the end of an agent
		l.await("event", "child_end", 1500*time.Millisecond)
		r.pause(40)
	}
	r.all.kills.Add(1)
	r.note("kill -9")
	l.kill()
}

func (r *randomRun) pause(ms int) {
	time.Sleep(time.Duration(r.rng.IntN(ms)) * time.Millisecond)
}

// anyone is an agent that has begun.
func (r *randomRun) anyone() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.rng.IntN(8)
	id := "p1k0"
	for name := range r.known {
		if id = name; n == 0 {
			break
		}
		n--
	}
	return id
}

// rest is the last life: agents are resumed, merged and pruned until nothing is
// left to do. It gives those that are known in the end.
func (r *randomRun) rest() []crew.Agent {
	r.company.mu.Lock()
	r.company.calm = true
	r.company.mu.Unlock()
	l := r.start()
	for range 3 {
		for _, a := range l.agents() {
			switch n := r.rng.IntN(10); {
			case n == 0:
				l.prune(a.ID)
				l.await("prune", "", time.Minute)
			case a.Landing == crew.Held || n < 3:
				l.send("merge", a.ID)
				l.await("merge", "", time.Minute)
			case n < 8 && a.State == crew.Interrupted:
				r.all.resumed.Add(1)
				l.send("resume", a.ID)
				l.await("resume", "", time.Minute)
			}
			if r.Failed() {
				return nil
			}
		}
	}
	list := l.agents()
	l.quit()
	return list
}

// reign is one process of Ralph.
type reign struct {
	r    *randomRun
	cmd  *osexec.Cmd
	in   io.WriteCloser
	done chan struct{} // closed when its output has ended

	mu      sync.Mutex
	reports []report
	read    int
	came    chan struct{}
}

func (r *randomRun) start() *reign {
	r.all.lives.Add(1)
	session := "new"
	if sessions, _ := filepath.Glob(filepath.Join(r.root, ".ralph/sessions/session-*")); len(sessions) > 0 && r.rng.IntN(2) == 0 {
		session = "last"
	}
	l := &reign{r: r, cmd: osexec.Command(os.Args[0]), done: make(chan struct{}), came: make(chan struct{}, 1)}
	mode := "off"
	if r.confined {
		mode = "workspace"
	}
	l.cmd.Env = append(os.Environ(), "RALPH_TEST_SANDBOX="+mode, foremanEnv+"="+r.root, "RALPH_TEST_URL="+r.url, "RALPH_TEST_SESSION="+session)
	var said strings.Builder
	l.cmd.Stderr = &said
	l.cmd.Dir = r.root
	in, err := l.cmd.StdinPipe()
	if err != nil {
		r.Fatal(err)
	}
	l.in = in
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		r.Fatal(err)
	}
	if err := l.cmd.Start(); err != nil {
		r.Fatal(err)
	}
	r.note("a Ralph begins (%s session)", session)
	r.mu.Lock()
	r.life = l
	r.mu.Unlock()
	go func() {
		defer close(l.done)
		reader := bufio.NewReader(out)
		for {
			line, err := reader.ReadBytes('\n')
			var x report
			if json.Unmarshal(line, &x) == nil && x.Op != "" {
				l.heard(x)
			}
			if err != nil {
				break
			}
		}
		if err := l.cmd.Wait(); err != nil && said.Len() > 0 {
			r.Errorf("a Ralph broke: %v\n%s", err, said.String())
		}
	}()
	l.await("open", "", time.Minute)
	return l
}

func (l *reign) heard(x report) {
	r := l.r
	text := x.Op + " " + x.Text
	if x.Err != "" {
		text += ": " + x.Err
	}
	if e := x.Event; e != nil {
		text += fmt.Sprintf("%s %s %s %s %s", e.Type, e.Agent, e.Status, e.Ref, e.Text)
	}
	for _, a := range x.Agents {
		text += fmt.Sprintf("\n\t%s %s/%s %s [%s %s] %s", a.ID, a.State, a.Landing, a.Commit, a.Branch, filepath.Base(a.Worktree), a.Problem)
	}
	r.note("  %s %s", text, x.Status)
	r.mu.Lock()
	for _, a := range x.Agents {
		if a.Commit != "" {
			r.commits[a.Commit] = a.ID
		}
		if a.Landing == crew.Merged {
			r.merged[a.ID] = true
		}
	}
	if e := x.Event; e != nil && e.Type != agent.EventWarning {
		switch e.Status {
		case "":
			r.known[e.Agent] = true
			r.all.agents.Add(1)
		case string(crew.Merged):
			r.commits[e.Ref], r.merged[e.Agent] = e.Agent, true
			r.all.landings.Add(1)
		case string(crew.Held):
			r.all.holds.Add(1)
		case string(crew.Conflict):
			r.all.conflicts.Add(1)
		}
	}
	r.mu.Unlock()
	l.mu.Lock()
	l.reports = append(l.reports, x)
	l.mu.Unlock()
	select {
	case l.came <- struct{}{}:
	default:
	}
}

func (l *reign) send(op, text string) {
	l.r.note("> %s %s", op, text)
	line, err := json.Marshal(order{op, text})
	if err != nil {
		l.r.Fatal(err)
	}
	if _, err := l.in.Write(append(line, '\n')); err != nil {
		l.r.Errorf("tell a Ralph to %s: %v", op, err)
	}
}

func (l *reign) prune(id string) {
	l.r.mu.Lock()
	l.r.pruned[id] = true
	l.r.mu.Unlock()
	l.r.all.pruned.Add(1)
	l.send("prune", id)
}

// await waits for a report; one that did not come within a minute is an error.
func (l *reign) await(op, event string, most time.Duration) report {
	late := time.After(most)
	for {
		l.mu.Lock()
		for l.read < len(l.reports) {
			x := l.reports[l.read]
			l.read++
			if x.Op == op && (event == "" || x.Event != nil && string(x.Event.Type) == event) {
				l.mu.Unlock()
				return x
			}
		}
		l.mu.Unlock()
		select {
		case <-l.came:
			continue
		case <-l.done:
			l.mu.Lock()
			more := l.read < len(l.reports)
			l.mu.Unlock()
			if more {
				continue
			}
		case <-late:
		}
		if most >= time.Minute {
			l.r.Errorf("a Ralph does not answer %q", op)
			_ = l.cmd.Process.Signal(quitSignal)
			time.Sleep(200 * time.Millisecond)
		}
		return report{}
	}
}

func (l *reign) agents() []crew.Agent {
	l.send("agents", "")
	x := l.await("agents", "", time.Minute)
	if x.Err != "" {
		l.r.Errorf("the agents are not known: %s", x.Err)
	}
	return x.Agents
}

// quit has it end in order.
func (l *reign) quit() {
	l.send("quit", "")
	if x := l.await("quit", "", time.Minute); x.Err != "" {
		l.r.Errorf("close: %s", x.Err)
	}
	select {
	case <-l.done:
	case <-time.After(time.Minute):
		l.r.Error("a Ralph does not end")
	}
	l.kill()
}

func (l *reign) kill() {
	if err := l.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		l.r.Error(err)
	}
	<-l.done
	_ = l.in.Close()
}

// exists says whether there is a file.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
