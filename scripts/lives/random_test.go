package lives

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ralph/workers/model/modeltest"
)

// runTally counts what random runs did.
type runTally struct{ runs, lives, kills, edits, dry atomic.Int64 }

// TestRandomRuns has the program work through a plan of twelve tasks with four
// agents, of which one fails its check once and one for good. The program is killed
// at random moments, several times in a run; the plan is edited by hand in between,
// and the run resumed. At the end the plan, the files, the commits and all that is
// written of the session have to tell the same, and nothing may be left over.
// RALPH_TEST_SEED runs one seed, RALPH_TEST_RUNS that many, RALPH_TEST_SWEEP=1 the
// whole of everything: without it agents wait less, and a plan in bd is shorter.
func TestRandomRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("many processes")
	}
	for _, tracker := range []string{"beads", "markdown", "json", "yaml"} {
		t.Run(tracker, func(t *testing.T) {
			t.Parallel()
			if tracker == "beads" {
				findBD(t)
			}
			runs, first := 1, uint64(1)
			if swept() {
				runs = 25
			}
			if n, err := strconv.Atoi(os.Getenv("RALPH_TEST_RUNS")); err == nil {
				runs = n
			}
			if n, err := strconv.ParseUint(os.Getenv("RALPH_TEST_SEED"), 10, 64); err == nil {
				if first = n; os.Getenv("RALPH_TEST_RUNS") == "" {
					runs = 1
				}
			}
			var all runTally
			for i := range runs {
				t.Run(fmt.Sprint("seed ", first+uint64(i)), func(t *testing.T) { newPlanRun(t, tracker, first+uint64(i), &all).play() })
			}
			t.Logf("%s: %d runs in %d lives, %d killed, %d edits of the plan by hand, %d lives that were not resumed unasked", tracker, all.runs.Load(), all.lives.Load(), all.kills.Load(), all.edits.Load(), all.dry.Load())
		})
	}
}

// swept says that there is time for many runs.
func swept() bool { return os.Getenv("RALPH_TEST_SWEEP") != "" }

// findBD is a real bd, by RALPH_TEST_BD or in PATH. With RALPH_TEST_MUST_BD=1 it
// must be there.
func findBD(t *testing.T) string {
	t.Helper()
	bin := os.Getenv("RALPH_TEST_BD")
	if bin == "" {
		bin, _ = exec.LookPath("bd")
	}
	if _, err := os.Stat(bin); bin == "" || err != nil {
		if os.Getenv("RALPH_TEST_MUST_BD") == "1" {
			t.Fatalf("RALPH_TEST_MUST_BD is set and there is no bd: RALPH_TEST_BD=%q", os.Getenv("RALPH_TEST_BD"))
		}
		t.Skip("no bd: set RALPH_TEST_BD to one (0.47.1), or put it into PATH")
	}
	return bin
}

// story is a task as the user wrote it.
type story struct {
	id, title string
	after     []string
}

func (s story) check() string { return "grep -q good out/" + s.id + ".txt" }

// planRun is one project, through several lives of the program.
type planRun struct {
	*testing.T
	rng    *rand.Rand // of the user and of what kills
	all    *runTally
	seed   uint64
	root   string
	home   string
	env    []string
	ledger ledger
	ids    func(n int) string
	added  int
	short  bool // the plan has seven tasks only: each step of it takes processes of bd

	titles   map[string][]string // that a task had, the last one counts
	reopened map[string]int      // times, after it was done
	removed  map[string]bool
	begun    bool // there is something to be resumed
	killed   int
	ended    int // lives that came to an end by themselves
	log      []string

	mu    sync.Mutex // guards what follows
	pause *rand.Rand // of what the agents' commands wait
}

func newPlanRun(t *testing.T, tracker string, seed uint64, all *runTally) *planRun {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &planRun{T: t, rng: rand.New(rand.NewPCG(seed, 1)), pause: rand.New(rand.NewPCG(seed, 2)), all: all, seed: seed, root: filepath.Join(dir, "p"), home: filepath.Join(dir, "home"),
		titles: map[string][]string{}, reopened: map[string]int{}, removed: map[string]bool{}, ids: func(n int) string { return fmt.Sprint("T-", n) }}
	srv := modeltest.New(t)
	srv.Handle(r.answer)
	path := os.Getenv("PATH")
	if tracker == "beads" {
		bin := filepath.Join(dir, "bin")
		if err := errors.Join(os.Mkdir(bin, 0o755), os.Symlink(findBD(t), filepath.Join(bin, "bd"))); err != nil {
			t.Fatal(err)
		}
		path = bin + string(filepath.ListSeparator) + path
		r.ids, r.short = func(n int) string { return fmt.Sprint("demo-", n) }, !swept()
	}
	r.env = []string{"PATH=" + path, "HOME=" + r.home, "GIT_CONFIG_NOSYSTEM=1", "NO_COLOR=1", "LANG=C.UTF-8", "TMPDIR=" + os.TempDir(),
		"BEADS_NO_DAEMON=1", "RALPH_BASE_URL=" + srv.URL(), "RALPH_MODEL=test-model", "RALPH_API_KEY=test-key-123456", "GORACE=halt_on_error=1"}
	if err := errors.Join(os.Mkdir(r.root, 0o755), os.Mkdir(r.home, 0o755)); err != nil {
		t.Fatal(err)
	}
	r.ledger = newLedger(r, tracker)
	return r
}

// note keeps what happened, for the report of a failure.
func (r *planRun) note(format string, args ...any) {
	r.log = append(r.log, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

// exec is a program as the user runs it in the project.
func (r *planRun) exec(name string, args ...string) string {
	r.Helper()
	c := exec.Command(name, args...)
	for _, e := range r.env {
		if path, ok := strings.CutPrefix(e, "PATH="); ok && name == "bd" {
			dir, _, _ := strings.Cut(path, string(filepath.ListSeparator))
			c = exec.Command(filepath.Join(dir, name), args...)
		}
	}
	c.Dir, c.Env = r.root, r.env
	out, err := c.CombinedOutput()
	if err != nil {
		r.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func (r *planRun) read(name string) string {
	r.Helper()
	data, err := os.ReadFile(filepath.Join(r.root, filepath.FromSlash(name)))
	if err != nil {
		r.Fatal(err)
	}
	return string(data)
}

// the numbers of the tasks that fail for good, that depend on it, and that nothing
// depends on.
const (
	broken   = 6
	orphan   = 7
	unneeded = 9
)

func (r *planRun) stories() []story {
	dear := []int{3, 5, 8, 10, 11} // are left out of a short plan
	var list []story
	for i, s := range []struct {
		title string
		after []int
	}{
		{"Lay the ground", nil}, {"Build left", []int{1}}, {"Build right", []int{1}}, {"Mend what needs a retry", []int{1}}, {"Join both", []int{2, 3}}, {"Try what never works", []int{1}},
		{"Build on the broken", []int{6}}, {"Stand alone", nil}, {"Stand by", nil}, {"Go on after the join", []int{5, 4}}, {"Write the docs", []int{8}}, {"Finish it", []int{10, 11}},
	} {
		if r.short && slices.Contains(dear, i+1) {
			continue
		}
		x := story{id: r.ids(i + 1), title: s.title}
		for _, n := range s.after {
			if !r.short || !slices.Contains(dear, n) {
				x.after = append(x.after, r.ids(n))
			}
		}
		list = append(list, x)
	}
	return list
}

// play runs all lives and judges what is left.
func (r *planRun) play() {
	r.all.runs.Add(1)
	defer func() {
		if r.Failed() {
			r.Logf("RALPH_TEST_SEED=%d\n%s", r.seed, strings.Join(r.log, "\n"))
			if dir := os.Getenv("RALPH_TEST_KEEP"); dir != "" {
				_ = exec.Command("cp", "-a", r.root, filepath.Join(dir, fmt.Sprintf("%s-%d", filepath.Base(filepath.Dir(r.Name())), r.seed))).Run()
			}
		}
	}()
	r.exec("git", "init", "-q", "-b", "main", ".")
	r.exec("git", "config", "user.name", "User")
	r.exec("git", "config", "user.email", "user@localhost")
	if err := os.WriteFile(filepath.Join(r.root, "README.md"), []byte("mine\n"), 0o644); err != nil {
		r.Fatal(err)
	}
	committed := r.rng.IntN(2) == 0
	if !committed {
		r.exec("git", "add", "-A")
		r.exec("git", "commit", "-qm", "first")
	}
	for _, s := range r.stories() {
		r.titles[s.id] = []string{s.title}
		r.ledger.add(s)
	}
	if committed {
		r.exec("git", "add", "-A")
		r.exec("git", "commit", "-qm", "first")
	}
	for range 2 + r.rng.IntN(3) {
		if doc, over := r.live(true); over {
			r.judge(doc)
			return
		}
		r.gone()
		if r.told() {
			r.judge(document{exit: -1})
			return
		}
		for n := r.rng.IntN(4); n > 0 && !r.Failed(); n-- {
			r.edit()
		}
		if r.Failed() {
			return
		}
	}
	if doc, _ := r.live(false); !r.Failed() {
		r.judge(doc)
	}
}

// document is what a life says at its end.
type document struct {
	raw      []byte
	exit     int
	ExitCode int    `json:"exit_code"`
	Status   string `json:"status"`
	Reason   string `json:"reason"`
	OK       bool   `json:"ok"`
	RunID    string `json:"run_id"`
	Tasks    struct{ Done, Failed, Skipped, Open int }
	Commits  []string
	Error    *struct{ Kind, Message string }
}

// live is one life of the program; with kill it is killed somewhere.
func (r *planRun) live(kill bool) (document, bool) {
	r.Helper()
	args := []string{"run", "--parallel", "4", "--feature", "play", "--output", "json"}
	switch {
	case !r.begun:
	case r.rng.IntN(3) == 0:
		args = []string{"resume", "play", "--output", "json"}
	case r.rng.IntN(2) == 0:
		if d, _ := r.start(args, -1, 0); d.exit != 5 {
			r.Errorf("a run that was cut off is taken up unasked: exit %d %s", d.exit, d.raw)
			return d, true
		}
		r.all.dry.Add(1)
		r.ended++
		fallthrough
	default:
		args = append(args, "--continue")
	}
	after, wait := -1, time.Duration(0)
	if kill {
		after, wait = 1+r.rng.IntN(32), time.Duration(r.rng.IntN(60))*time.Millisecond
		if r.short {
			after = 1 + after/2
		}
	}
	d, over := r.start(args, after, wait)
	if !over {
		r.all.kills.Add(1)
		return d, false
	}
	r.ended++
	return d, true
}

// start runs the program, and kills it after so many lines of its story and a
// while; never when after is negative. It says whether it ended by itself.
func (r *planRun) start(args []string, after int, wait time.Duration) (d document, over bool) {
	r.Helper()
	r.all.lives.Add(1)
	bin, err := exec.LookPath("ralph")
	if err != nil {
		r.Fatal(err)
	}
	c := exec.Command(bin, args...)
	c.Dir, c.Env = r.root, r.env
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out bytes.Buffer
	c.Stdout = &out
	pipe, err := c.StderrPipe()
	if err != nil {
		r.Fatal(err)
	}
	if err := c.Start(); err != nil {
		r.Fatal(err)
	}
	r.note("%s, to be killed after line %d and %s", strings.Join(args, " "), after, wait)
	late := time.AfterFunc(2*time.Minute, func() { _ = c.Process.Signal(syscall.SIGQUIT) })
	defer late.Stop()
	var killer *time.Timer
	lines := bufio.NewScanner(pipe)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		r.note("%s", lines.Text())
		if n == after {
			killer = time.AfterFunc(wait, func() { _ = c.Process.Kill() })
		}
	}
	_, _ = io.Copy(io.Discard, pipe)
	_ = c.Wait() // its exit code is judged below
	if killer != nil {
		killer.Stop()
	}
	if status, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
		r.note("killed")
		r.killed++
		return d, false
	}
	d.raw, d.exit = bytes.TrimSpace(out.Bytes()), c.ProcessState.ExitCode()
	if err := json.Unmarshal(d.raw, &d); err != nil {
		r.Fatalf("%v ends with %d, and its document is %q: %v", args, d.exit, d.raw, err)
	}
	r.note("exit %d: %s: %s", d.exit, d.Status, d.Reason)
	if d.ExitCode != d.exit {
		r.Errorf("it ends with %d, and its document says %d", d.exit, d.ExitCode)
	}
	return d, true
}

// gone waits until no process of a killed life is left.
func (r *planRun) gone() {
	r.Helper()
	var left []string
	for range 1000 {
		if left = r.survivors(); len(left) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.Errorf("processes are left: %q", left)
}

// survivors are the processes that work in the project.
func (r *planRun) survivors() (list []string) {
	dirs, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		r.Fatal(err)
	}
	for _, dir := range dirs {
		if cwd, err := os.Readlink(dir); err == nil && (cwd == r.root || strings.HasPrefix(cwd, r.root+"/")) {
			line, _ := os.ReadFile(filepath.Join(filepath.Dir(dir), "cmdline"))
			list = append(list, fmt.Sprintf("%s in %s: %s", filepath.Dir(dir), cwd, bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return list
}

// told checks what is said of a run that was killed, and whether there is one; over
// says that it had just ended.
func (r *planRun) told() (over bool) {
	r.Helper()
	var s struct {
		State    string
		Live     bool
		Run      *struct{ Status string }
		Recovery *struct {
			Feature *string
			Tasks   []string
			From    *string
		}
	}
	text := r.exec("ralph", "status", "--output", "json")
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		r.Fatalf("%v in %s", err, text)
	}
	over = s.Run != nil && s.Run.Status == "failed"
	if s.Live || s.Run != nil && !over && s.Run.Status != "interrupted" {
		r.Errorf("after the kill the status is %s", text)
	}
	_, err := os.Stat(filepath.Join(r.root, ".ralph", "sessions", "play.json"))
	r.begun = err == nil
	if r.begun && s.Run == nil {
		r.Errorf("the run that was killed is not in the status: %s", text)
	}
	return over
}

// edit changes the plan as a user does with an editor.
func (r *planRun) edit() {
	r.Helper()
	r.all.edits.Add(1)
	now := r.ledger.read()
	ids := slices.Sorted(maps.Keys(now))
	fixed := map[string]bool{r.ids(broken): true, r.ids(orphan): true}
	one := func(fit func(id string) bool) string {
		list := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return fixed[id] || !fit(id) })
		if len(list) == 0 {
			return ""
		}
		return list[r.rng.IntN(len(list))]
	}
	switch r.rng.IntN(4) {
	case 0:
		r.added++
		s := story{id: r.ids(100 + r.added), title: fmt.Sprint("Come later ", r.added)}
		if r.rng.IntN(2) == 0 {
			s.after = []string{r.ids(1)}
		}
		r.titles[s.id] = []string{s.title}
		r.ledger.add(s)
		r.note("by hand: %s is new", s.id)
	case 1:
		leaf := map[string]bool{r.ids(unneeded): true}
		id := one(func(id string) bool {
			return leaf[id] || strings.HasPrefix(r.titles[id][0], "Come later")
		})
		if id == "" {
			return
		}
		r.removed[id] = true
		r.ledger.remove(id)
		r.note("by hand: %s is removed, it was %s", id, now[id].status)
	case 2:
		id := one(func(id string) bool { return now[id].status == "done" })
		if id == "" {
			return
		}
		r.reopened[id]++
		title := fmt.Sprintf("%s again %d", r.titles[id][0], r.reopened[id])
		r.titles[id] = []string{title}
		r.ledger.reopen(id, title)
		r.note("by hand: %s is reopened", id)
	default:
		id := one(func(id string) bool { return now[id].status != "done" })
		if id == "" {
			return
		}
		title := fmt.Sprintf("%s, named anew %d", r.titles[id][0], len(r.titles[id]))
		r.titles[id] = append(r.titles[id], title)
		r.ledger.retitle(id, title)
		r.note("by hand: %s has another title, it was %s", id, now[id].status)
	}
}

// answer is what the model says: an agent writes a file that names its task, and
// says that it is done.
func (r *planRun) answer(q modeltest.Request) modeltest.Reply {
	head := regexp.MustCompile(`(?m)^Task (\S+): (.*)$`)
	id, title, again := "", "", false
	for _, m := range q.Messages {
		if m.Role != "user" {
			continue
		}
		if f := head.FindStringSubmatch(m.Content); f != nil {
			id, title = f[1], f[2]
		}
		again = again || strings.Contains(m.Content, "The check of this task failed") || strings.Contains(m.Content, "did not succeed")
	}
	last := q.Messages[len(q.Messages)-1]
	if id == "" {
		return modeltest.Text("There is nothing to do.")
	}
	if last.Role == "tool" && strings.Contains(last.Content, "written") {
		return modeltest.Calls(modeltest.Call{Name: "finish", Args: `{"status":"done","summary":"wrote out/` + id + `.txt","confidence":0.9}`})
	}
	word := "good"
	if strings.Contains(title, "never") || strings.Contains(title, "retry") && !again {
		word = "bad"
	}
	r.mu.Lock()
	wait := r.pause.IntN(300)
	r.mu.Unlock()
	if !swept() { // one run has to be short
		wait /= 10
	}
	args, _ := json.Marshal(map[string]string{"command": fmt.Sprintf("sleep 0.%03d; mkdir -p out; echo '%s %s' > out/%s.txt; echo written", wait, word, title, id)})
	return modeltest.Calls(modeltest.Call{Name: "shell", Args: string(args)})
}
