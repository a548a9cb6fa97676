package coordinator_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/afero"

	"ralph/coordinator"
	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/memory/durable/faultfs"
	"ralph/workers/agent"
	"ralph/workers/model/modeltest"
)

// life is one scenario that the process may die in: a chat or a one-shot that
// keeps tasks, goals, learnings and a conversation.
type life struct {
	name    string
	session string
	turns   int
	chat    bool
}

func lives() []life {
	return []life{
		{"a chat of three turns", "new", 3, true},
		{"a one-shot", "", 1, false},
		{"a named session of two one-shots", "nightly", 2, false},
	}
}

// replies are those of n turns: each keeps a task, changes it and says so.
func (l life) replies() []modeltest.Reply {
	var out []modeltest.Reply
	for i := range l.turns {
		id := fmt.Sprintf("T-%d", i+1)
		out = append(out,
			calls(call("task", m{"title": "work " + id, "status": "in_progress"}), call("goal", m{"action": "set", "text": "goal of " + id}),
				call("todo", m{"action": "add", "text": "later " + id})),
			calls(call("task", m{"id": id, "status": "done", "result": "result of " + id}), call("learn", m{"type": "fact", "what": "fact of " + id, "learning": "keep it"})),
			text("answer of "+id))
	}
	return out
}

// live runs the scenario on a disk that stops taking anything at its n-th
// operation, as if the process had been killed there; 0 lets it live. It returns
// what was acknowledged before that, and how many operations there were.
func (l life) live(t *testing.T, n int) (p *project, acked map[string]bool, ops []string) {
	t.Helper()
	disk := faultfs.New(afero.NewOsFs())
	if n > 0 {
		disk.FailFrom(n, syscall.EIO)
	}
	p, acked = l.on(t, disk, func() bool { return n == 0 || len(disk.Ops()) < n })
	return p, acked, disk.Ops()
}

// on runs the scenario on a disk; what is shown while the process is alive is
// acknowledged.
func (l life) on(t *testing.T, disk afero.Fs, alive func() bool) (p *project, acked map[string]bool) {
	t.Helper()
	p = bareProject(t, l.replies()...)
	p.fs, p.session = disk, l.session
	acked = map[string]bool{}
	starts := map[string]string{}
	p.eye = func(e agent.Event) {
		if !alive() {
			return // what is shown from here on was not kept
		}
		switch {
		case e.Type == agent.EventMessage:
			acked["message "+e.Text] = true
		case e.Type == agent.EventToolStart:
			starts[e.CallID] = string(e.Args)
		case e.Type == agent.EventToolEnd && e.OK != nil && *e.OK:
			acked["tool "+e.Tool+" "+starts[e.CallID]] = true
		}
	}
	c, err := coordinator.Open(t.Context(), p.options())
	if err != nil {
		return p, acked
	}
	for i := range l.turns {
		c.Run(t.Context(), coordinator.Job{Task: fmt.Sprintf("task %d", i+1), Chat: l.chat})
	}
	_ = c.Close() // the process is dead: nobody hears it
	return p, acked
}

// check opens what the dead process left with a healthy disk: everything that
// was acknowledged is there, without anybody's help. It returns what is not.
func (l life) check(t *testing.T, p *project, acked map[string]bool) (wrong []string) {
	t.Helper()
	p.fs, p.eye = nil, nil
	o := p.options()
	o.NoModel = true
	c, err := coordinator.Open(t.Context(), o)
	if err != nil {
		return []string{"the project does not open: " + err.Error()}
	}
	said := map[string]bool{}
	for _, message := range c.History() {
		said[message.Text] = true
	}
	if err := c.Close(); err != nil {
		wrong = append(wrong, "close: "+err.Error())
	}
	tasks, goals, todo, learned := p.read("RALPH_TASKS.md"), p.read("RALPH_GOALS.md"), p.read("RALPH_TODO.md"), p.read("AGENT.md")
	for a := range acked {
		kind, rest, _ := strings.Cut(a, " ")
		kept := true
		switch {
		case kind == "message":
			kept = l.session == "" || l.session == "new" || said[rest] || strings.Contains(p.all(".ralph/sessions/*/journal.jsonl"), rest)
		case strings.HasPrefix(rest, "task ") && strings.Contains(rest, "title"):
			kept = strings.Contains(tasks, between(rest, `"title":"`))
		case strings.HasPrefix(rest, "task "):
			kept = strings.Contains(tasks, between(rest, `"result":"`))
		case strings.HasPrefix(rest, "goal "):
			kept = strings.Contains(goals, between(rest, `"text":"`))
		case strings.HasPrefix(rest, "todo "):
			kept = strings.Contains(todo, between(rest, `"text":"`))
		case strings.HasPrefix(rest, "learn "):
			kept = strings.Contains(learned, between(rest, `"what":"`))
		}
		if !kept {
			wrong = append(wrong, "acknowledged and lost: "+a)
		}
	}
	for _, name := range []string{"RALPH_TASKS.md", "RALPH_GOALS.md", "RALPH_TODO.md", "AGENT.md", "RALPH_PROGRESS.md"} {
		if text := p.read(name); strings.ContainsRune(text, 0) {
			wrong = append(wrong, name+" holds NUL bytes")
		}
		if strays, _ := filepath.Glob(p.path("." + name + ".*.tmp")); len(strays) > 1 {
			wrong = append(wrong, fmt.Sprintf("temporary files pile up: %v", strays))
		}
	}
	return wrong
}

func between(s, after string) string {
	_, rest, _ := strings.Cut(s, after)
	text, _, _ := strings.Cut(rest, `"`)
	return text
}

// TestKilledAnywhere kills Ralph at every single operation on its state, of
// whatever kind: RALPH_TEST_SWEEP=1 tries all of them, else a few are.
func TestKilledAnywhere(t *testing.T) {
	sweep := os.Getenv("RALPH_TEST_SWEEP") != ""
	points, kinds, acks := 0, map[string]int{}, 0
	for _, l := range lives() {
		_, _, ops := l.live(t, 0)
		if len(ops) < 50 {
			t.Fatalf("%s: only %d operations", l.name, len(ops))
		}
		step := 1
		if !sweep {
			step = len(ops)/12 + 1
		}
		for n := 1; n <= len(ops); n += step {
			t.Run(fmt.Sprintf("%s/%d", l.name, n), func(t *testing.T) {
				p, acked, _ := l.live(t, n)
				for _, wrong := range l.check(t, p, acked) {
					t.Errorf("%s, killed at operation %d (%s): %s", l.name, n, ops[n-1], wrong)
				}
				acks += len(acked)
			})
			points++
			kind, _, _ := strings.Cut(ops[n-1], " ")
			kinds[kind]++
		}
	}
	t.Logf("killed at %d points (%v): %d acknowledged records looked for", points, kinds, acks)
}

// careless is a disk that says yes and keeps nothing from some write on: what a
// program does that shows before it has written.
type careless struct {
	afero.Fs
	left *atomic.Int64
}

type carelessFile struct {
	afero.File
	left *atomic.Int64
}

func (f carelessFile) Write(b []byte) (int, error) {
	if f.left.Add(-1) < 0 {
		return len(b), nil
	}
	return f.File.Write(b)
}

func (c careless) OpenFile(name string, flag int, perm os.FileMode) (afero.File, error) {
	f, err := c.Fs.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return carelessFile{f, c.left}, nil
}

// TestKilledAnywhereBites: the same check finds what a Ralph loses that shows
// before it has written.
func TestKilledAnywhereBites(t *testing.T) {
	if testing.Short() {
		t.Skip("it tries whether TestKilledAnywhere can fail, which takes half a minute")
	}
	t.Parallel()
	for _, l := range lives() {
		const many = 1 << 20
		left := &atomic.Int64{}
		left.Store(many)
		always := func() bool { return true }
		p, acked := l.on(t, careless{afero.NewOsFs(), left}, always)
		if wrong := l.check(t, p, acked); len(wrong) > 0 {
			t.Errorf("%s: missing on a disk that keeps all: %q", l.name, wrong)
		}
		left.Store((many - left.Load()) / 3)
		p, acked = l.on(t, careless{afero.NewOsFs(), left}, always)
		wrong := l.check(t, p, acked)
		if len(wrong) == 0 {
			t.Errorf("%s: nothing was found missing of %d acknowledged records", l.name, len(acked))
		}
		t.Logf("%s: %d faults found, such as %s", l.name, len(wrong), wrong[:min(1, len(wrong))])
	}
}

// sluggish is a disk on which a sync takes two seconds of a clock of its own.
type sluggish struct {
	afero.Fs
	clock *atomic.Int64
}

type sluggishFile struct {
	afero.File
	clock *atomic.Int64
}

func (f sluggishFile) Sync() error {
	f.clock.Add(int64(2 * time.Second))
	return f.File.Sync()
}

func (d sluggish) OpenFile(name string, flag int, perm os.FileMode) (afero.File, error) {
	f, err := d.Fs.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return sluggishFile{f, d.clock}, nil
}

// A disk that became slow is told once.
func TestASlowDiskIsTold(t *testing.T) {
	t.Parallel()
	p := newProject(t, calls(call("list", m{"path": "."})), text("done"))
	var clock atomic.Int64
	p.fs = sluggish{afero.NewOsFs(), &clock}
	o := p.options()
	o.Now = func() time.Time { return time.Date(2026, 11, 21, 10, 0, 0, int(clock.Add(1)), time.UTC) }
	c, err := coordinator.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	out := c.Run(t.Context(), coordinator.Job{Task: "go"})
	p.shut(c)
	p.want(out, result.Completed)
	if n := strings.Count(strings.Join(out.Warnings, "\n"), "the disk is slow: it took 2.0 s"); n != 1 {
		t.Errorf("told %d times: %q", n, out.Warnings)
	}
}

// TestKilledAnywhereWithMessages kills a chat at every operation on its state
// while messages are accepted, delivered, dropped, given back by a stop and
// answered: what was accepted waits for the next Ralph or was delivered, and
// never both.
func TestKilledAnywhereWithMessages(t *testing.T) {
	ops := len(chatWithMessages(t, 0).ops)
	step := max(ops/24, 1)
	if os.Getenv("RALPH_TEST_SWEEP") != "" {
		step = 1
	}
	for n := 1; n <= ops; n += step {
		l := chatWithMessages(t, n)
		p := l.p
		p.fs, p.eye, p.session = nil, nil, "last"
		o := p.options()
		o.NoModel = true
		c, err := coordinator.Open(t.Context(), o)
		if err != nil {
			if len(l.accepted) > 0 {
				t.Errorf("operation %d: %v", n, err)
			}
			continue
		}
		found := map[string]int{}
		for _, x := range c.Waiting() {
			found[x.ID()]++
		}
		for _, m := range c.History() {
			for _, id := range strings.Fields(m.Inbox) {
				found[id]++
			}
		}
		for id := range l.accepted {
			if found[id] == 0 && !l.over[id] {
				t.Errorf("operation %d of %d: %s was accepted and is lost", n, ops, id)
			}
		}
		for id, times := range found {
			if times > 1 || l.final[id] && times > 0 {
				t.Errorf("operation %d of %d: %s is there %d times, its end on disk %v", n, ops, id, times, l.final[id])
			}
		}
		p.shut(c)
	}
}

// messageLife is what a chat that was killed had said of its messages.
type messageLife struct {
	p        *project
	ops      []string
	accepted map[string]bool // told as queued while alive
	over     map[string]bool // taken out: by a stop or by the user
	final    map[string]bool // told as taken out while alive
}

func chatWithMessages(t *testing.T, n int) messageLife {
	t.Helper()
	disk := faultfs.New(afero.NewOsFs())
	if n > 0 {
		disk.FailFrom(n, syscall.EIO)
	}
	l := messageLife{p: bareProject(t, calls(call("list", m{"path": "."})), text("one"), text("two"), text("three"), text("four")),
		accepted: map[string]bool{}, over: map[string]bool{}, final: map[string]bool{}}
	p := l.p
	p.fs, p.session = disk, "new"
	var mu sync.Mutex
	p.eye = func(e agent.Event) {
		alive := n == 0 || len(disk.Ops()) < n
		mu.Lock()
		defer mu.Unlock()
		out := e.Type == agent.EventInbox && (e.Status == "cancelled" || e.Status == "returned")
		switch {
		case out:
			l.over[e.Ref] = true
			l.final[e.Ref] = l.final[e.Ref] || alive
		case e.Type == agent.EventInbox && e.Ref != "" && e.Status == "queued" && alive:
			l.accepted[e.Ref] = true
		}
	}
	c, err := coordinator.Open(t.Context(), p.options())
	if err != nil {
		return l
	}
	for _, class := range []interrupts.Class{interrupts.ClassSteer, interrupts.ClassLater, interrupts.ClassUrgent} {
		say(c, class, "a message")
	}
	c.Run(t.Context(), coordinator.Job{Task: "work", Chat: true})
	drop := say(c, interrupts.ClassLater, "dropped")
	_, _ = c.Amend(drop.ID(), interrupts.Amendment{Drop: true}) // a dead disk hinders nobody
	say(c, interrupts.ClassLater, "given back")
	c.Stop(&interrupts.Stop{})
	say(c, interrupts.ClassLater, "after the stop")
	_ = c.Close() // the process is dead: nobody hears it
	l.ops = disk.Ops()
	mu.Lock()
	defer mu.Unlock()
	return l
}
