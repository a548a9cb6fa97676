package coordinator_test

import (
	"encoding/json"
	"errors"
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
	"ralph/memory"
	"ralph/memory/durable/faultfs"
	"ralph/workers/agent"
	"ralph/workers/model/modeltest"
)

func TestStateAfterAOneShot(t *testing.T) {
	t.Parallel()
	p := newProject(t,
		calls(call("task", m{"title": "mend it", "status": "in_progress"}), write("a.txt", "x\n"),
			call("goal", m{"action": "set", "text": "it works"}), call("todo", m{"action": "add", "text": "look again"}),
			call("learn", m{"type": "bug", "what": "it was broken", "learning": "look first"}), call("record_feature", m{"name": "Upload", "category": "api", "directory": ".", "purpose": "takes files"})),
		calls(call("task", m{"id": "T-1", "status": "done"})), text("mended"))
	c := p.open()
	out := c.Run(t.Context(), coordinator.Job{Task: "mend it\nplease"})
	p.want(out, result.Completed)
	if err := c.Record(json.RawMessage(`{"run_id":"r-1"}`)); err != nil {
		t.Error(err)
	}
	p.shut(c)
	p.wantFile("RALPH_TASKS.md", "**T-1** mend it", "status: done")
	p.wantFile("RALPH_PROGRESS.md", "— mend it\n", "Status: completed", "`a.txt`", "mended", "r-1")
	p.wantFile("RALPH_GOALS.md", "it works")
	p.wantFile("RALPH_TODO.md", "look again")
	p.wantFile("AGENT.md", "BUG", "it was broken")
	p.wantFile(".ralph/runs.jsonl", `{"run_id":"r-1"}`)
	p.wantFile(".ralph/feature-inventory.json", "Upload")
	if want := ".ralph/feature-inventory.json AGENT.md RALPH_GOALS.md RALPH_PROGRESS.md RALPH_TASKS.md RALPH_TODO.md"; strings.Join(out.StateFiles, " ") != want {
		t.Errorf("state files %v", out.StateFiles)
	}
	if out.LogFile != ".ralph/runs/r-1/journal.jsonl" || out.Tasks.Done != 1 || out.SessionID != "" {
		t.Errorf("outcome %+v", out)
	}
	if len(out.FilesChanged) != 1 {
		t.Errorf("Ralph's own files count as changes: %+v", out.FilesChanged)
	}
	journal := p.journal()
	for _, want := range []string{`"kind":"message"`, `"kind":"event"`, `"kind":"outcome"`, `"status":"completed"`, `"type":"tool_end"`} {
		if !strings.Contains(journal, want) {
			t.Errorf("the journal lacks %s", want)
		}
	}
	if strings.Contains(journal, "message_delta") {
		t.Error("the journal keeps pieces of a stream")
	}
}

// A feature is described by a file of the project; one that is not there is noted
// as missing, and one outside is refused.
func TestAFeatureWithADocument(t *testing.T) {
	t.Parallel()
	feature := func(name, document string) modeltest.Call {
		return call("record_feature", m{"name": name, "category": "api", "purpose": "x", "document": document})
	}
	p := newProject(t, calls(feature("Upload", "docs/upload.md"), feature("Login", "docs/missing.md"), feature("Odd", "../outside.md")), text("done"))
	p.write("docs/upload.md", "# How uploads work\n\nthree more words\n")
	p.session = "new"
	p.want(p.run(coordinator.Job{}), result.Completed)
	docs := p.all(".ralph/sessions/*/feature-docs-generated.json")
	for want, n := range map[string]int{`"title": "How uploads work"`: 1, `"words": 7`: 1, `"status": "written"`: 1, `"status": "missing"`: 1, "outside": 0} {
		if strings.Count(docs, want) != n {
			t.Errorf("the documents hold %q %d times, want %d:\n%s", want, strings.Count(docs, want), n, docs)
		}
	}
	if !strings.Contains(p.all(".ralph/sessions/*/feature-inventory.json"), `"total_features": 2`) || !strings.Contains(p.all(".ralph/sessions/*/feature-inventory.json"), `"documentation_coverage": 0.5`) {
		t.Error("the inventory lacks features, or counts a document that is not there")
	}
}

// Where no model ever answered nothing is left behind.
func TestARunWithoutAnAnswerLeavesNoTrace(t *testing.T) {
	t.Parallel()
	p := newProject(t, modeltest.Status(401, `{"error":{"message":"bad key"}}`))
	before := p.hash()
	c := p.open()
	p.want(c.Run(t.Context(), coordinator.Job{Task: "go"}), result.ConfigError)
	if err := c.Record(json.RawMessage(`{}`)); err != nil {
		t.Error(err)
	}
	p.shut(c)
	if p.hash() != before {
		t.Errorf("left behind:\n%s", p.git("status", "--porcelain", "--ignored"))
	}
}

func TestTasksOfWorkThatDidNotEnd(t *testing.T) {
	t.Parallel()
	work := calls(call("task", m{"title": "one", "status": "in_progress"}), call("task", m{"title": "two", "status": "in_progress"}), call("task", m{"title": "three"}),
		call("task", m{"id": "T-2", "status": "done"}))
	cases := map[string]struct {
		then  modeltest.Reply
		flags map[string][]string
		stop  bool
		want  string
	}{
		"stopped":     {modeltest.Hang(), nil, true, "status: interrupted"},
		"timed out":   {modeltest.Hang(), map[string][]string{"timeout": {"500ms"}}, false, "status: interrupted"},
		"no endpoint": {modeltest.Status(400, `{"error":{"message":"no"}}`), nil, false, "status: interrupted"},
		"a limit":     {text("never"), map[string][]string{"max_turns": {"1"}}, false, "status: interrupted"},
		// What a Ralph began is open again when it ends, in whatever way.
		"completed": {text("it goes on tomorrow"), nil, false, "status: interrupted"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, work, c.then)
			for k, v := range c.flags {
				p.flags[k] = v
			}
			co := p.open()
			if c.stop {
				p.eye = func(e agent.Event) {
					if e.Type == agent.EventTurnStart && e.Turn == 2 {
						co.Stop(&interrupts.Stop{})
					}
				}
			}
			out := co.Run(t.Context(), coordinator.Job{Task: "go"})
			p.shut(co)
			tasks := p.read("RALPH_TASKS.md")
			if strings.Count(tasks, c.want) != 1 || !strings.Contains(tasks, "status: done") || !strings.Contains(tasks, "status: pending") {
				t.Errorf("the tasks after %s:\n%s", out.Status, tasks)
			}
			if out.Tasks.Open != 2 || out.Tasks.Done != 1 {
				t.Errorf("tasks %+v", out.Tasks)
			}
			p.wantFile("RALPH_PROGRESS.md", string(out.Status))

			// The next run leaves them as they are, and says so once.
			p.model.Handle(func(modeltest.Request) modeltest.Reply { return text("done") })
			p.flags, p.eye = map[string][]string{"sandbox": {"off"}}, nil
			p.runs = 10
			next := p.run(coordinator.Job{})
			p.want(next, result.Completed)
			if len(next.Warnings) != 1 || !strings.Contains(next.Warnings[0], "T-1") || strings.Contains(next.Warnings[0], "T-2") || p.read("RALPH_TASKS.md") != tasks {
				t.Errorf("warnings %q", next.Warnings)
			}
		})
	}
}

// The user takes a running task away: what they did stands, and is no error.
func TestATaskThatTheUserTookAway(t *testing.T) {
	t.Parallel()
	p := newProject(t, calls(call("task", m{"title": "one", "status": "in_progress"})), modeltest.Status(400, "{}"))
	p.eye = func(e agent.Event) {
		if e.Type == agent.EventTurnStart && e.Turn == 2 {
			for range 1000 { // the file follows the log
				if strings.Contains(p.read("RALPH_TASKS.md"), "T-1") {
					break
				}
				time.Sleep(5 * time.Millisecond)
			}
			p.write("RALPH_TASKS.md", "# Tasks\n")
		}
	}
	out := p.run(coordinator.Job{})
	p.want(out, result.ProviderError)
	if len(out.Warnings) != 0 || p.read("RALPH_TASKS.md") != "# Tasks\n" {
		t.Errorf("warnings %q, tasks:\n%s", out.Warnings, p.read("RALPH_TASKS.md"))
	}
}

func TestWarningsAreToldOnce(t *testing.T) {
	t.Parallel()
	p := newProject(t, text("a"), text("b"))
	p.write("RALPH_TASKS.md", "- [ ] **T-1** one\n  - status: interrupted\n")
	p.write(".ralph/of-another-tool", "x")
	p.projectConfig = "base_url: http://evil.example/\n"
	p.session = "new"
	c := p.open()
	notes := strings.Join(c.Standing(), "\n")
	for _, want := range []string{"note: ", "T-1", "base_url", "another tool", "1 open task"} {
		if strings.Count(notes, want) == 0 {
			t.Errorf("how things stand lacks %q:\n%s", want, notes)
		}
	}
	var last result.Outcome
	for range 2 {
		last = c.Run(t.Context(), coordinator.Job{Task: "go", Chat: true})
		p.want(last, result.Completed)
	}
	p.shut(c)
	if len(last.Warnings) != 3 {
		t.Errorf("warnings %q", last.Warnings)
	}
	if strings.Contains(p.types(), "warning") {
		t.Errorf("what was told at the start is told again: %s", p.types())
	}
	p.gapless()
}

// Warnings come from every side at once: each is told once, after the start, and
// nothing waits for anything for ever.
func TestWarningsFromEverywhere(t *testing.T) {
	t.Parallel()
	p := newProject(t, calls(call("task", m{"title": "one"}), write("a.txt", "x")).Forever())
	p.flags["max_turns"] = []string{"30"}
	p.model.Handle(func(r modeltest.Request) modeltest.Reply {
		return calls(call("task", m{"title": fmt.Sprint("task ", len(r.Messages))}), write("a.txt", fmt.Sprint(len(r.Messages))))
	})
	f := faultfs.New(afero.NewOsFs())
	p.fs = f
	p.write(".ralph/FORMAT", "ralph 1\n")
	c := p.open()
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				c.Project()
				c.Standing()
				c.Totals()
				c.SessionID()
				time.Sleep(time.Millisecond)
			}
		})
	}
	fail := true
	p.eye = func(e agent.Event) {
		if e.Type == agent.EventTurnStart {
			if fail {
				f.FailFrom(1, syscall.ENOSPC)
			} else {
				f.FailAt(0, nil)
			}
			fail = !fail
		}
	}
	out := c.Run(t.Context(), coordinator.Job{Task: "go"})
	close(done)
	wg.Wait()
	f.FailAt(0, nil)
	p.want(out, result.Limit)
	p.shut(c)
	p.gapless()
	told := map[string]int{}
	for _, e := range p.seen() {
		if e.Type == agent.EventWarning {
			if told[e.Text]++; told[e.Text] > 1 {
				t.Errorf("told again: %s", e.Text)
			}
		}
	}
}

// fullDisk is a filesystem that can be read, and written while it is not full.
type fullDisk struct {
	afero.Fs
	full atomic.Bool
}

func (d *fullDisk) OpenFile(name string, flag int, perm os.FileMode) (afero.File, error) {
	if flag&os.O_CREATE != 0 && d.full.Load() {
		if _, err := d.Stat(name); err != nil {
			return nil, &os.PathError{Op: "open", Path: name, Err: syscall.ENOSPC}
		}
	}
	f, err := d.Fs.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &fullFile{f, d}, nil
}

type fullFile struct {
	afero.File
	disk *fullDisk
}

func (f *fullFile) Write(b []byte) (int, error) {
	if f.disk.full.Load() {
		return 0, &os.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
	}
	return f.File.Write(b)
}

// The disk fills up in the middle of a run: the work goes on, it is said once,
// and what was held is written when there is room again.
func TestAFullDiskInTheMiddleOfARun(t *testing.T) {
	t.Parallel()
	for _, wait := range []int{1, 2, 3} { // the turn with which it begins
		t.Run(fmt.Sprint("turn ", wait), func(t *testing.T) {
			t.Parallel()
			p := newProject(t, calls(call("list", m{"path": "."})), calls(call("list", m{"path": ".", "depth": 1})), calls(call("list", m{"path": ".", "depth": 2})), text("done"))
			disk := &fullDisk{Fs: afero.NewOsFs()}
			p.fs = disk
			p.write(".ralph/FORMAT", "ralph 1\n")
			c := p.open()
			p.eye = func(e agent.Event) {
				if e.Type == agent.EventTurnStart && e.Turn == wait {
					disk.full.Store(true)
				}
			}
			out := c.Run(t.Context(), coordinator.Job{Task: "go"})
			if out.Status != result.Failed || out.Failure == nil || out.Failure.Kind != "unsaved" || !strings.Contains(out.Reason, "journal.jsonl") {
				t.Errorf("%+v %+v", out, out.Failure)
			}
			held := 0
			for _, w := range out.Warnings {
				if strings.Contains(w, "held, not saved") {
					held++
				}
			}
			if held != 1 || out.Answer != "done" {
				t.Errorf("warnings %q", out.Warnings)
			}
			disk.full.Store(false)
			p.shut(c)
			if journal := p.journal(); strings.Count(journal, `"kind":"message"`) != 8 || !strings.Contains(journal, `"kind":"outcome"`) {
				t.Errorf("the journal is not whole once there is room again:\n%s", journal)
			}
			p.wantFile("RALPH_PROGRESS.md", "completed") // what the work came to
		})
	}
}

func TestAReadOnlyProject(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root writes anywhere")
	}
	p := bareProject(t, text("looked"))
	p.write("a.txt", "x")
	if err := os.Chmod(p.root, 0o500); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Chmod(p.root, 0o700) }()
	out := p.run(coordinator.Job{})
	p.want(out, result.Completed)
	if !p.warned("nothing can be saved") || out.LogFile != "" {
		t.Errorf("outcome %+v", out)
	}
}

// The same on a filesystem that refuses every change, whoever runs the tests.
func TestAReadOnlyFilesystem(t *testing.T) {
	t.Parallel()
	p := newProject(t, calls(call("task", m{"title": "one"})), text("looked"), text("again"))
	p.fs = afero.NewReadOnlyFs(afero.NewOsFs())
	before := p.hash()
	out := p.run(coordinator.Job{})
	p.want(out, result.Completed)
	if len(out.Warnings) != 1 || !strings.Contains(out.Warnings[0], "nothing can be saved") || out.LogFile != "" || len(out.StateFiles) != 0 {
		t.Errorf("outcome %+v", out)
	}
	if p.hash() != before {
		t.Errorf("something was written:\n%s", p.git("status", "--porcelain", "--ignored"))
	}
}

func TestOneRalphInAProject(t *testing.T) {
	t.Parallel()
	p := newProject(t, text("hi"), text("done"))
	p.session = "new"
	c := p.open()
	o := p.options()
	began := time.Now()
	_, err := coordinator.Open(t.Context(), o)
	status, failure := coordinator.Fail(err)
	if !errors.Is(err, memory.ErrLocked) || status != result.Locked || !failure.Retryable || !strings.Contains(failure.Message, fmt.Sprint(os.Getpid())) {
		t.Errorf("a second Ralph: %v", err)
	}
	if waited := time.Since(began); waited < time.Second || waited > 20*time.Second {
		t.Errorf("it waited %v", waited)
	}
	p.shut(c)
	p.want(p.run(coordinator.Job{}), result.Completed)
}

// Two one-shots begin in a project that no Ralph worked in: the one whose model
// answers second finds it locked, and a stop does not wait for the lock.
func TestTwoOneShotsInAFreshProject(t *testing.T) {
	t.Parallel()
	p := newProject(t, calls(shell("sleep 60")), calls(write("second", "x")), text("done"))
	first := p.open()
	second := p.open()
	began := make(chan struct{})
	var once sync.Once
	p.eye = func(e agent.Event) {
		if e.Type == agent.EventToolStart {
			once.Do(func() { close(began) })
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { first.Run(t.Context(), coordinator.Job{Task: "one"}) })
	<-began
	p.model.Handle(func(modeltest.Request) modeltest.Reply { return text("done") })
	stop := time.AfterFunc(200*time.Millisecond, func() { second.Stop(&interrupts.Stop{}) })
	defer stop.Stop()
	out := second.Run(t.Context(), coordinator.Job{Task: "two"})
	p.want(out, result.Interrupted) // who waits for the lock to the end is told that it is locked
	first.Stop(&interrupts.Stop{})
	wg.Wait()
	p.shut(second)
	p.shut(first)
	if p.read("second") != "" {
		t.Error("the second one worked in a locked project")
	}
}

// chatOnce opens the session, does one turn and closes it.
func chatOnce(p *project, session, task string) (result.Outcome, []agent.Message) {
	p.Helper()
	p.session = session
	c := p.open()
	history := c.History()
	out := c.Run(p.Context(), coordinator.Job{Task: task, Chat: true})
	p.shut(c)
	return out, history
}

func TestAChatGoesOn(t *testing.T) {
	t.Parallel()
	p := newProject(t, calls(call("list", m{"path": "."})), text("first answer"), text("second answer"), text("third answer"), text("fourth"))
	first, _ := chatOnce(p, "new", "first question")
	if first.SessionID != "001" || p.all(".ralph/runs/*/journal.jsonl") != "" || p.read("RALPH_PROGRESS.md") != "" {
		t.Errorf("a chat keeps the books of a one-shot: %+v", first)
	}
	second, history := chatOnce(p, "last", "second question")
	if second.SessionID != "001" || len(history) != 4 {
		t.Errorf("session %s goes on with %d messages", second.SessionID, len(history))
	}
	if m := p.asked(3).Messages; len(m) != 6 || m[1].Content != "first question" || m[4].Content != "first answer" || m[5].Content != "second question" {
		t.Errorf("the model sees %+v", m[1:])
	}
	p.wantFile(".ralph/sessions/session-001-chat/conversation.md", "> first question", "> second answer")
	third, history := chatOnce(p, "my topic", "third question")
	if third.SessionID != "002" || len(history) != 0 {
		t.Errorf("a new name gives session %s with %d messages", third.SessionID, len(history))
	}
	if fourth, history := chatOnce(p, "my", "fourth"); fourth.SessionID != "002" || len(history) != 2 {
		t.Errorf("a prefix of the name gives session %s with %d messages", fourth.SessionID, len(history))
	}
	o := p.options()
	o.Session = "77"
	if _, err := coordinator.Open(t.Context(), o); err == nil {
		t.Error("a session that is not there was opened")
	}
}

func TestAOneShotInASession(t *testing.T) {
	t.Parallel()
	p := newProject(t, text("done"), modeltest.Status(400, "{}"))
	p.session = "nightly"
	p.want(p.run(coordinator.Job{}), result.Completed)
	p.wantFile("RALPH_PROGRESS.md", "completed")
	p.wantFile(".ralph/sessions/session-001-nightly/session-metadata.yaml", "status: completed")
	p.want(p.run(coordinator.Job{}), result.ProviderError)
	p.wantFile(".ralph/sessions/session-001-nightly/session-metadata.yaml", "status: error")
}

// After a crash the conversation goes on at the last durable boundary: a torn
// record is put aside, and a call without a result has an unknown outcome.
func TestAChatGoesOnAfterACrash(t *testing.T) {
	t.Parallel()
	p := newProject(t, calls(call("list", m{"path": "."}), shell("echo hi")), text("first"), text("second"))
	chatOnce(p, "new", "question")
	path := p.path(".ralph/sessions/session-001-chat/journal.jsonl")
	whole := p.read(".ralph/sessions/session-001-chat/journal.jsonl")
	// Cut within the record of the second tool's answer.
	cut, n := 0, 0
	for line := range strings.Lines(whole) {
		if strings.Contains(line, `"role":"tool"`) {
			if n++; n == 2 {
				cut += len(line) / 2
				break
			}
		}
		cut += len(line)
	}
	if err := os.WriteFile(path, []byte(whole[:cut]), 0o600); err != nil {
		t.Fatal(err)
	}
	out, history := chatOnce(p, "last", "go on")
	p.want(out, result.Completed)
	if len(history) != 4 || history[3].Role != agent.RoleTool || history[3].Text != "interrupted, outcome unknown" || strings.Contains(history[2].Text, "unknown") {
		t.Errorf("the conversation is %+v", history)
	}
	torn, err := filepath.Glob(p.path(".ralph/quarantine/*"))
	if err != nil || len(torn) != 1 {
		t.Errorf("quarantine %v, %v", torn, err)
	}
	sent := p.asked(3).Messages
	if sent[4].Content != "interrupted, outcome unknown" || sent[len(sent)-1].Content != "go on" {
		t.Errorf("the model sees %+v", sent[1:])
	}
}

func TestClear(t *testing.T) {
	t.Parallel()
	p := newProject(t, text("first"), text("second"), text("third"))
	p.session = "new"
	c := p.open()
	c.Run(t.Context(), coordinator.Job{Task: "one", Chat: true})
	if err := c.Clear(); err != nil {
		t.Error(err)
	}
	if len(c.History()) != 0 {
		t.Error("the conversation is not cleared")
	}
	c.Run(t.Context(), coordinator.Job{Task: "two", Chat: true})
	p.shut(c)
	if m := p.asked(2).Messages; len(m) != 2 || m[1].Content != "two" {
		t.Errorf("the model sees %+v", m)
	}
	_, history := chatOnce(p, "last", "three")
	if len(history) != 2 || history[0].Text != "two" {
		t.Errorf("what was cleared comes back: %+v", history)
	}
	p.wantFile(".ralph/sessions/session-001-new/conversation.md")
}

func TestSetModelBetweenTurns(t *testing.T) {
	t.Parallel()
	p := newProject(t, text("a"), text("b"))
	p.session = "new"
	c := p.open()
	defer p.shut(c)
	c.Run(t.Context(), coordinator.Job{Task: "one", Chat: true})
	c.SetModel("other-model")
	c.Run(t.Context(), coordinator.Job{Task: "two", Chat: true})
	if p.asked(1).Model != "test-model" || p.asked(2).Model != "other-model" || c.Endpoint().Model != "other-model" {
		t.Errorf("asked %s, then %s", p.asked(1).Model, p.asked(2).Model)
	}
	if names, err := c.Models(t.Context()); err != nil || len(names) != 1 || names[0] != "test" {
		t.Errorf("models %v, %v", names, err)
	}
	if m := p.asked(2).Messages; len(m) != 4 {
		t.Errorf("the conversation is lost: %+v", m)
	}
}

// No secret reaches what is kept.
func TestSecretsAreNotKept(t *testing.T) {
	t.Parallel()
	const known, shape = "s3cr3t-of-the-user", "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
	p := newProject(t,
		calls(shell("echo "+known+" key-that-is-secret"), write("a.txt", shape), call("task", m{"title": "use " + shape}),
			call("learn", m{"type": "note", "what": "the token is " + known, "learning": "keep " + shape})).Saying("I use "+known),
		finish("failed", "could not use "+known))
	p.environ = []string{"DEPLOY_TOKEN=" + known}
	tape := filepath.Join(t.TempDir(), "tape.yaml")
	p.flags["record"], p.flags["check"] = []string{tape}, []string{"echo " + known}
	p.session = "new"
	c := p.open()
	out := c.Run(t.Context(), coordinator.Job{Task: "deploy with " + known, Context: shape})
	p.want(out, result.Failed)
	doc, err := json.Marshal(m{"result": out.Answer})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Record(doc); err != nil {
		t.Error(err)
	}
	p.shut(c)
	kept := p.all(".ralph/sessions/*/*") + p.all(".ralph/*.jsonl") + p.all("*.md")
	tapeText, err := os.ReadFile(tape)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"state": kept, "cassette": string(tapeText)} {
		if !strings.Contains(text, "[redacted]") {
			t.Errorf("the %s was not looked at", name)
		}
		for _, secret := range []string{known, shape, "key-that-is-secret"} {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("the %s holds %s: %s", name, secret, text[max(0, i-100):i+len(secret)])
			}
		}
	}
	if p.read("a.txt") != shape {
		t.Error("a file of the project was redacted")
	}
}
