package coordinator_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/crew"
	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/workers/model/modeltest"
)

// cast answers the requests of each agent by a script of its own.
type cast struct {
	t *testing.T

	// mu guards what follows.
	mu     sync.Mutex
	parts  map[string][]modeltest.Reply
	asked  map[string][]modeltest.Request
	always map[string]func(modeltest.Request) modeltest.Reply
}

// played makes the project's model answer by a cast.
func played(p *project) *cast {
	k := &cast{t: p.T, parts: map[string][]modeltest.Reply{}, asked: map[string][]modeltest.Request{}, always: map[string]func(modeltest.Request) modeltest.Reply{}}
	p.model.Handle(k.answer)
	return k
}

// part is what an agent says, one reply after the other; "ralph" is the
// coordinator.
func (k *cast) part(who string, replies ...modeltest.Reply) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.parts[who] = append(k.parts[who], replies...)
}

func (k *cast) answer(r modeltest.Request) modeltest.Reply {
	who := speaker(r)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked[who] = append(k.asked[who], r)
	if f := k.always[who]; f != nil {
		return f(r)
	}
	left := k.parts[who]
	if len(left) == 0 {
		k.t.Errorf("%s asks once more than expected: %s", who, r.Messages[len(r.Messages)-1].Content)
		return modeltest.Status(400, `{"error":{"message":"no more"}}`)
	}
	k.parts[who] = left[1:]
	return left[0]
}

// speaker is the agent that a request is of.
func speaker(r modeltest.Request) string {
	for _, m := range r.Messages {
		if f := regexp.MustCompile(`You are agent (\w+), one of several`).FindStringSubmatch(m.Content); m.Role == "user" && f != nil {
			return f[1]
		}
	}
	return "ralph"
}

// requests are those of an agent.
func (k *cast) requests(who string) []modeltest.Request {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.asked[who])
}

// heard is all that an agent was last shown.
func (k *cast) heard(who string) string {
	list := k.requests(who)
	if len(list) == 0 {
		return ""
	}
	var b strings.Builder
	for _, m := range list[len(list)-1].Messages {
		b.WriteString(m.Role + ": " + m.Content + "\n")
	}
	return b.String()
}

func spawn(agents ...m) modeltest.Reply { return calls(call("spawn_agents", m{"agents": agents})) }

func put(path, content string) modeltest.Reply {
	return calls(call("write", m{"path": path, "content": content}))
}

func childOf(t *testing.T, out result.Outcome, id string) crew.Agent {
	t.Helper()
	for _, a := range out.Children {
		if a.ID == id {
			return a
		}
	}
	t.Fatalf("no child %s in %+v", id, out.Children)
	return crew.Agent{}
}

func TestChildrenWorkSideBySideAndAreMerged(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.write("kept.txt", "committed\n")
	p.git("add", "-A")
	p.git("commit", "-qm", "second")
	p.write("kept.txt", "the user is not done here\n")
	p.write("new.txt", "nor with this\n")
	k := played(p)
	k.part("ralph", spawn(m{"name": "one", "task": "write one"}, m{"name": "two", "task": "write two", "after": []string{"one"}}), text("I wait."), text("all done"))
	k.part("one", put("one.txt", "1\n"), text("one is written"))
	k.part("two", calls(call("read", m{"path": "one.txt"}), call("read", m{"path": "new.txt"})), put("two.txt", "2\n"), text("two is written"))
	out := p.run(coordinator.Job{})
	p.want(out, result.Completed)
	for name, want := range map[string]string{"one.txt": "1\n", "two.txt": "2\n", "kept.txt": "the user is not done here\n", "new.txt": "nor with this\n"} {
		if got := p.read(name); got != want {
			t.Errorf("%s holds %q, want %q", name, got, want)
		}
	}
	if got := p.git("show", "--stat", "--format=%s", "HEAD", "HEAD~1"); !strings.Contains(got, "one.txt") || !strings.Contains(got, "two.txt") || strings.Contains(got, "kept.txt") || strings.Contains(got, "new.txt") {
		t.Errorf("the commits are\n%s", got)
	}
	if got := p.git("status", "--porcelain", "--", "*.txt"); got != "M kept.txt\n?? new.txt" && got != " M kept.txt\n?? new.txt" {
		t.Errorf("git status says %q", got)
	}
	if a := childOf(t, out, "two"); a.State != crew.Done || a.Landing != crew.Merged || a.Result != "two is written" || a.Turns != 3 || len(a.Files) != 1 {
		t.Errorf("%+v", a)
	}
	if heard := k.heard("two"); !strings.Contains(heard, "1\n") || !strings.Contains(heard, "nor with this") {
		t.Errorf("two was shown\n%s", heard)
	}
	if heard := k.heard("ralph"); !strings.Contains(heard, "one: done") || !strings.Contains(heard, "two is written") {
		t.Errorf("the coordinator was told\n%s", heard)
	}
	if trees := p.git("worktree", "list"); strings.Count(trees, "\n") > 0 && !strings.Contains(trees, "pool") {
		t.Errorf("trees stay:\n%s", trees)
	}
	if branches := p.git("branch", "--list", "ralph/*"); branches != "" {
		t.Errorf("branches stay: %s", branches)
	}
	if len(out.Commits) != 2 || len(out.FilesChanged) != 2 {
		t.Errorf("commits %v, files %v", out.Commits, out.FilesChanged)
	}
	if out.Turns != 3+2+3 {
		t.Errorf("%d turns", out.Turns)
	}
}

func TestAConflictIsResolvedByAnother(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.write("a.txt", "one\ntwo\nthree\n")
	p.git("add", "-A")
	p.git("commit", "-qm", "second")
	k := played(p)
	k.always["ralph"] = func(modeltest.Request) modeltest.Reply { // how often it is woken depends on who is done first
		if len(k.asked["ralph"]) == 1 {
			return spawn(m{"name": "left", "task": "change two"}, m{"name": "right", "task": "change two otherwise"})
		}
		return text("I see.")
	}
	var begun sync.WaitGroup
	begun.Add(2)
	for who, word := range map[string]string{"left": "LEFT", "right": "RIGHT"} {
		k.always[who] = func(modeltest.Request) modeltest.Reply {
			if len(k.asked[who]) > 1 {
				return text(who + " is done")
			}
			begun.Done()
			k.mu.Unlock()
			begun.Wait() // both have their trees before any of them is merged
			k.mu.Lock()
			return calls(call("edit", m{"path": "a.txt", "old_string": "two", "new_string": word}))
		}
		k.part("resolve_"+who, calls(call("read", m{"path": "a.txt"})), put("a.txt", "one\nLEFT and RIGHT\nthree\n"), text("resolved"))
	}
	out := p.run(coordinator.Job{})
	p.want(out, result.Completed)
	if got := p.read("a.txt"); got != "one\nLEFT and RIGHT\nthree\n" || len(out.Children) != 3 {
		t.Errorf("a.txt is %q after %d agents", got, len(out.Children))
	}
	for _, a := range out.Children {
		if a.State != crew.Done || a.Landing != crew.Merged {
			t.Errorf("%s: %s, %s (%s)", a.ID, a.State, a.Landing, a.Problem)
		}
	}
}

func TestAChildThatFailsItsCheckIsAskedAgain(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	k := played(p)
	k.part("ralph", spawn(m{"name": "liar", "task": "write it", "check": "grep -q good it.txt", "files": []string{"it.*"}}), text("I wait."), text("all done"))
	k.part("liar", put("it.txt", "bad\n"), text("done, honestly"), put("it.txt", "good\n"), text("now really"))
	out := p.run(coordinator.Job{})
	p.want(out, result.Completed)
	if got := p.read("it.txt"); got != "good\n" {
		t.Errorf("it.txt is %q", got)
	}
	if heard := k.heard("liar"); !strings.Contains(heard, "grep -q good it.txt") || !strings.Contains(heard, "Stay within: it.*") {
		t.Errorf("it was told\n%s", heard)
	}
}

func TestAChildThatLiesIsNotMerged(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.flags["check_retries"] = []string{"0"}
	k := played(p)
	k.part("ralph", spawn(m{"name": "liar", "task": "write it", "check": "false"}, m{"name": "after", "task": "go on", "after": []string{"liar"}}), text("I wait."), text("it failed"))
	k.part("liar", put("it.txt", "bad\n"), text("done, honestly"))
	out := p.run(coordinator.Job{})
	if got := p.read("it.txt"); got != "" {
		t.Errorf("it.txt is %q", got)
	}
	liar, after := childOf(t, out, "liar"), childOf(t, out, "after")
	if liar.State != crew.Failed || liar.Landing != crew.Unmerged || liar.Commit == "" || liar.Branch == "" {
		t.Errorf("%+v", liar)
	}
	if after.State != crew.Failed || !strings.Contains(after.Problem, "liar") {
		t.Errorf("%+v", after)
	}
	if heard := k.heard("ralph"); !strings.Contains(heard, "liar: failed") || !strings.Contains(heard, "after: failed") {
		t.Errorf("the coordinator was told\n%s", heard)
	}
	if got := p.git("show", liar.Branch+":it.txt"); got != "bad" {
		t.Errorf("its branch holds %q", got)
	}
}

func TestAStoppedChildGoesOn(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.session = "new"
	k := played(p)
	k.part("ralph", spawn(m{"name": "slow", "task": "take long"}), text("I wait."))
	k.part("slow", put("half.txt", "half\n"), modeltest.Hang())
	c := p.open()
	ctx := p.Context()
	ended := started(c, ctx, coordinator.Job{Task: "do it", Chat: true})
	for len(k.requests("slow")) < 2 {
		time.Sleep(5 * time.Millisecond)
	}
	c.Stop(&interrupts.Stop{Text: "/stop"})
	out := <-ended
	if out.Status != result.Interrupted {
		t.Fatalf("%+v", out)
	}
	if a := childOf(t, out, "slow"); a.State != crew.Interrupted {
		t.Errorf("%+v", a)
	}
	p.shut(c)
	if got := p.read("half.txt"); got != "" {
		t.Errorf("the user's tree has %q", got)
	}
	if got := p.git("show", "ralph/slow:half.txt"); got != "half" {
		t.Errorf("its branch holds %q", got)
	}

	// Another process goes on with it.
	p.session = "last"
	c = p.open()
	defer p.shut(c)
	list, err := c.Agents(ctx)
	if err != nil || len(list) != 1 || list[0].ID != "slow" || list[0].State != crew.Interrupted {
		t.Fatalf("%+v, %v", list, err)
	}
	k.part("slow", put("rest.txt", "rest\n"), text("now all is there"))
	out = c.Run(ctx, coordinator.Job{Go: true, Agent: "slow", Task: "be quick", Chat: true})
	p.want(out, result.Completed)
	if out.Answer != "now all is there" || p.read("half.txt") != "half\n" || p.read("rest.txt") != "rest\n" {
		t.Errorf("%q, half %q, rest %q", out.Answer, p.read("half.txt"), p.read("rest.txt"))
	}
	if heard := k.heard("slow"); !strings.Contains(heard, "be quick") || !strings.Contains(heard, "take long") || strings.Count(heard, "You are agent slow") != 1 {
		t.Errorf("it was told\n%s", heard)
	}
}

func TestWithoutGitOnePathHasOneWriter(t *testing.T) {
	t.Parallel()
	p := bareProject(t)
	k := played(p)
	k.part("ralph", spawn(m{"name": "one", "task": "write"}, m{"name": "two", "task": "write too"}), text("I wait."), text("all done"))
	held := make(chan struct{})
	k.always["one"] = func(r modeltest.Request) modeltest.Reply {
		switch len(k.asked["one"]) {
		case 1:
			return put("same.txt", "one\n")
		case 2:
			close(held)
			return calls(shell("sleep 0.3"))
		}
		return text("one is done")
	}
	k.always["two"] = func(r modeltest.Request) modeltest.Reply {
		if len(k.asked["two"]) == 1 {
			k.mu.Unlock()
			<-held
			k.mu.Lock()
			return put("same.txt", "two\n")
		}
		return text("two is done")
	}
	out := p.run(coordinator.Job{})
	p.want(out, result.Completed)
	if got := p.read("same.txt"); got != "one\n" {
		t.Errorf("same.txt is %q", got)
	}
	if heard := k.heard("two"); !strings.Contains(heard, "is being changed by one") {
		t.Errorf("two was told\n%s", heard)
	}
	if !p.warned("all agents work in one tree") {
		t.Error("that there is one tree is not said")
	}
}

func TestTheHumanSpeaksToAChild(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.session = "new"
	k := played(p)
	k.part("ralph", spawn(m{"name": "worker", "task": "work"}), text("I wait."), text("all done"))
	release := make(chan struct{})
	k.always["worker"] = func(modeltest.Request) modeltest.Reply {
		if len(k.asked["worker"]) == 1 {
			k.mu.Unlock()
			<-release
			k.mu.Lock()
			return calls(shell("true"))
		}
		return text("done as you said")
	}
	c := p.open()
	defer p.shut(c)
	ended := started(c, p.Context(), coordinator.Job{Task: "do it", Chat: true})
	for len(k.requests("worker")) < 1 {
		time.Sleep(5 * time.Millisecond)
	}
	m := c.Say(interrupts.Message{Class: interrupts.ClassSteer, Text: "use tabs", From: "chat", To: "worker"})
	close(release)
	out := <-ended
	p.want(out, result.Completed)
	if heard := k.heard("worker"); !strings.Contains(heard, "user: use tabs") {
		t.Errorf("it was told\n%s", heard)
	}
	if heard := k.heard("ralph"); strings.Contains(heard, "use tabs") {
		t.Errorf("the coordinator was told it, too:\n%s", heard)
	}
	if !slices.ContainsFunc(out.Messages, func(x interrupts.Message) bool { return x.N == m.N && x.State == interrupts.Delivered }) {
		t.Errorf("messages %+v", out.Messages)
	}
}

func TestChildrenShareABudget(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.flags["max_turns"] = []string{"6"}
	k := played(p)
	k.part("ralph", spawn(m{"name": "one", "task": "loop"}, m{"name": "two", "task": "loop"}), text("I wait."), text("x"))
	for _, who := range []string{"one", "two"} {
		k.always[who] = func(modeltest.Request) modeltest.Reply { return put(fmt.Sprint("f", len(k.asked[who])), who) }
	}
	out := p.run(coordinator.Job{})
	p.want(out, result.Limit)
	if out.Turns > 8 {
		t.Errorf("%d turns", out.Turns)
	}
	for _, a := range out.Children {
		if a.State != crew.Interrupted || a.Turns > 0 && (a.Branch == "" || a.Commit == "") {
			t.Errorf("%+v", a)
		}
	}
}

func TestTooManyAndTooDeep(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.flags["max_depth"], p.flags["max_children_per_agent"], p.flags["max_agents"] = []string{"2"}, []string{"3"}, []string{"1"}
	k := played(p)
	k.part("ralph", spawn(m{"task": "a"}, m{"task": "b"}, m{"task": "c"}, m{"task": "d"}), spawn(m{"name": "top", "task": "have helpers"}), text("I wait."), text("all done"))
	k.part("top", spawn(m{"name": "deep", "task": "write deep"}), text("waiting"), text("top is done"))
	k.part("deep", put("deep.txt", "x\n"), text("deep is done"))
	out := p.run(coordinator.Job{})
	p.want(out, result.Completed)
	if heard := k.heard("ralph"); !strings.Contains(heard, "--max-children-per-agent") {
		t.Errorf("the coordinator was told\n%s", heard)
	}
	if slices.Contains(k.requests("deep")[0].Tools, "spawn_agents") || !slices.Contains(k.requests("top")[0].Tools, "spawn_agents") {
		t.Errorf("tools of deep: %v", k.requests("deep")[0].Tools)
	}
	if a := childOf(t, out, "deep"); a.Depth != 2 || a.Parent != "top" || a.Landing != crew.Merged {
		t.Errorf("%+v", a)
	}
}

func TestUndoTakesBackWhatWasMerged(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.session = "new"
	before := p.git("rev-parse", "HEAD")
	k := played(p)
	k.part("ralph", spawn(m{"name": "one", "task": "write one"}), text("I wait."), text("all done"))
	k.part("one", put("one.txt", "1\n"), text("one is written"))
	c := p.open()
	defer p.shut(c)
	p.want(c.Run(p.Context(), coordinator.Job{Task: "do it", Chat: true}), result.Completed)
	if p.git("rev-parse", "HEAD") == before {
		t.Error("nothing was committed")
	}
	if _, err := c.Undo(p.Context(), 1, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(p.root, "one.txt")); err == nil || p.git("rev-parse", "HEAD") != before {
		t.Errorf("one.txt: %v, head %s, want %s", err, p.git("log", "--oneline"), before)
	}
	if s := p.git("status", "--porcelain", "--", "*.txt"); s != "" {
		t.Errorf("git status says %q", s)
	}
}

func TestAnUrgentMessageHoldsTheChildren(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.session = "new"
	k := played(p)
	held, answered := make(chan struct{}), make(chan struct{})
	k.always["ralph"] = func(r modeltest.Request) modeltest.Reply {
		last := r.Messages[len(r.Messages)-1].Content
		switch {
		case strings.HasPrefix(last, "how is it"):
			k.mu.Unlock()
			<-held
			k.mu.Lock()
			return text("well")
		case len(k.asked["ralph"]) == 1:
			return spawn(m{"name": "worker", "task": "work"})
		}
		return text("I wait.")
	}
	k.always["worker"] = func(modeltest.Request) modeltest.Reply {
		if n := len(k.asked["worker"]); n < 4 {
			return calls(shell(fmt.Sprintf("sleep 0.1 # %d", n)))
		}
		select {
		case <-answered:
		default:
			t.Error("the child asked on while the urgent message was handled")
		}
		return text("done")
	}
	c := p.open()
	defer p.shut(c)
	ended := started(c, p.Context(), coordinator.Job{Task: "do it", Chat: true})
	for len(k.requests("worker")) < 2 {
		time.Sleep(5 * time.Millisecond)
	}
	say(c, interrupts.ClassUrgent, "how is it?")
	time.Sleep(400 * time.Millisecond)
	if n := len(k.requests("worker")); n > 3 {
		t.Errorf("%d requests of the child", n)
	}
	close(answered)
	close(held)
	p.want(<-ended, result.Completed)
}

func TestWhatTheCoordinatorWeakensItselfIsSaid(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.flags["check"] = []string{"true"}
	p.write("sum_test.py", "def test_sum():\n    assert 1 + 1 == 2\n")
	k := played(p)
	k.part("ralph", put("sum_test.py", "def test_sum():\n    pass\n"), text("done"))
	out := p.run(coordinator.Job{})
	if all := strings.Join(out.Warnings, "\n"); !out.Verified || !strings.Contains(all, "prove less: sum_test.py:1: no assertion left: test_sum") {
		t.Errorf("verified %v, warned of\n%s", out.Verified, all)
	}
}

func TestAChildThatWeakensItsTestsIsNotMerged(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.flags["check_retries"] = []string{"1"}
	p.write("sum_test.py", "def test_sum():\n    assert 1 + 1 == 2\n\n\ndef test_more():\n    assert 2 + 2 == 4\n")
	p.git("add", "-A")
	p.git("commit", "-qm", "tests")
	k := played(p)
	k.part("ralph", spawn(m{"name": "cheat", "task": "make it pass", "check": "true"}), text("I wait."), calls(call("merge_agent", m{"id": "cheat"})), text("it cheated"))
	k.part("cheat", put("sum_test.py", "def test_sum():\n    assert True\n"), text("done"), text("I leave it so"))
	out := p.run(coordinator.Job{})
	if got := p.read("sum_test.py"); !strings.Contains(got, "2 + 2 == 4") {
		t.Errorf("the tests are now\n%s", got)
	}
	cheat := childOf(t, out, "cheat")
	if cheat.State != crew.Failed || cheat.Landing != crew.Unmerged || len(cheat.Weakened) == 0 || cheat.Branch == "" || !strings.Contains(cheat.Problem, "sum_test.py") {
		t.Errorf("%+v", cheat)
	}
	if heard := k.heard("cheat"); !strings.Contains(heard, "makes them prove less") {
		t.Errorf("it was told\n%s", heard)
	}
	if heard := k.heard("ralph"); !strings.Contains(heard, "only the user merges that") {
		t.Errorf("the coordinator was told\n%s", heard)
	}
	c := p.open()
	defer p.shut(c)
	got, err := c.Merge(p.Context(), "cheat")
	if err != nil || strings.Contains(got, "only you can merge") || !strings.Contains(p.read("sum_test.py"), "assert True") {
		t.Errorf("the human merges: %q, %v", got, err)
	}
}
