package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/desk"
	"ralph/coordinator/permission"
	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/workers/agent"
	"ralph/workers/exec"
	"ralph/workers/model/modeltest"
)

// talk is one turn of a chat, which must go well.
func (p *project) talk(c *coordinator.Coordinator, text string) {
	p.Helper()
	p.want(c.Run(p.Context(), coordinator.Job{Task: text, Chat: true}), result.Completed)
}

func TestAUserCommand(t *testing.T) {
	t.Parallel()
	p := chatting(t, text("hello"), text("I see"), text("as before"))
	c := p.open()
	p.talk(c, "hi")
	var mu sync.Mutex
	var came []byte
	u, err := c.Shell(t.Context(), "echo one; echo two >&2; pwd; wc -c; echo key-that-is-secret; exit 3", func(b []byte) {
		mu.Lock()
		defer mu.Unlock()
		came = append(came, b...)
	})
	if err != nil || u.ExitCode != 3 || u.Stopped || u.OmittedBytes != 0 || u.Duration <= 0 {
		t.Errorf("%+v, %v", u, err)
	}
	if want := "one\ntwo\n" + p.root + "\n0\nkey-that-is-secret\n"; u.Output != want || string(came) != want {
		t.Errorf("it wrote %q, which came as %q", u.Output, came)
	}
	p.talk(c, "what was that?")
	told := p.last(2).Content
	for _, want := range []string{"what was that?", "The user ran this", "exit code 3", "two\n", p.root} {
		if !strings.Contains(told, want) {
			t.Errorf("the model is not told %q:\n%s", want, told)
		}
	}
	if strings.Contains(told, "key-that-is-secret") {
		t.Errorf("the model is told the secret:\n%s", told)
	}
	p.talk(c, "and now?")
	if strings.Contains(p.last(3).Content, "The user ran this") {
		t.Errorf("it is told twice:\n%s", p.last(3).Content)
	}
	p.shut(c)
	journal := p.all(".ralph/sessions/*/journal.jsonl")
	if !strings.Contains(journal, `"kind":"user_command"`) || strings.Contains(journal, "key-that-is-secret") {
		t.Error("the journal does not keep the command, or keeps the secret")
	}
	if said := p.all(".ralph/sessions/*/conversation.md"); !strings.Contains(said, "the user ran `echo one; ") || !strings.Contains(said, "(exit 3)") {
		t.Errorf("the transcript does not tell of it:\n%s", said)
	}
}

// What the model was not told of when Ralph ended it is told later.
func TestAUserCommandOfAnEarlierProcess(t *testing.T) {
	t.Parallel()
	p := chatting(t, text("one"), text("two"), text("three"))
	c := p.open()
	p.talk(c, "hi")
	if _, err := c.Shell(t.Context(), "echo remembered", nil); err != nil {
		t.Error(err)
	}
	p.shut(c)
	p.session = "last"
	for n, want := range []bool{true, false} {
		c := p.open()
		p.talk(c, "go on")
		if got := strings.Contains(p.last(n+2).Content, "remembered"); got != want {
			t.Errorf("turn %d is told: %v", n+2, got)
		}
		p.shut(c)
	}
}

func TestALongUserCommand(t *testing.T) {
	t.Parallel()
	p := chatting(t, text("hello"), text("I see"))
	c := p.open()
	defer p.shut(c)
	p.talk(c, "hi")
	total := 0
	u, err := c.Shell(t.Context(), "seq 1 200000; printf 'a\\0\\377b'", func(b []byte) { total += len(b) })
	if err != nil || int64(total) != 1288895+4 || u.OmittedBytes < 1_000_000 || len(u.Output) > 300<<10 {
		t.Errorf("%d bytes came, %d are kept, %d omitted, %v", total, len(u.Output), u.OmittedBytes, err)
	}
	for range 5 {
		if _, err := c.Shell(t.Context(), "seq 1 20000", nil); err != nil {
			t.Error(err)
		}
	}
	p.talk(c, "what was that?")
	told := p.last(2).Content
	if n := len(told); n > 32<<10 || n < 16<<10 {
		t.Errorf("the model is told %d bytes", n)
	}
	if strings.Count(told, "exit code 0") != 6 || !strings.Contains(told, "its output is left out here") || !strings.Contains(told, "bytes are left out") {
		t.Errorf("the model is told:\n%s", told)
	}
}

func TestAUserCommandIsStopped(t *testing.T) {
	t.Parallel()
	p := chatting(t, text("fine"))
	c := p.open()
	defer p.shut(c)
	over := errors.New("the user pressed Ctrl-C")
	for n, stop := range []func(context.CancelCauseFunc){
		func(cancel context.CancelCauseFunc) { cancel(over) },
		func(context.CancelCauseFunc) { c.Stop(&interrupts.Stop{}) },
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		mark := sleeper(700 + n)
		once := sync.OnceFunc(func() { go stop(cancel) })
		u, err := c.Shell(ctx, "(setsid "+mark+" &) ; echo on; "+mark, func([]byte) { once() })
		if !u.Stopped || u.Output != "on\n" || n == 0 && !errors.Is(err, over) || n == 1 && !errors.Is(err, exec.ErrStopped) {
			t.Errorf("stop %d: %+v, %v", n, u, err)
		}
		if alive(mark) {
			t.Errorf("stop %d leaves something running", n)
		}
		cancel(nil)
	}
	if u, err := c.Shell(t.Context(), "(setsid "+sleeper(702)+" &) ; echo on", nil); err != nil || u.Stopped || alive(sleeper(702)) {
		t.Errorf("%+v, %v", u, err)
	}
	for _, nothing := range []string{"", "  \n"} {
		if _, err := c.Shell(t.Context(), nothing, nil); err == nil {
			t.Error("nothing was run")
		}
	}
	p.talk(c, "well?")
	if told := p.last(1).Content; strings.Count(told, "It was stopped by the user") != 2 {
		t.Errorf("the model is told:\n%s", told)
	}
}

// While Ralph works the user's command runs beside it, and the work learns of it.
func TestAUserCommandWhileRalphWorks(t *testing.T) {
	t.Parallel()
	p := chatting(t, calls(call("shell", m{"command": "until test -e go; do sleep 0.02; done"})), text("done"))
	c := p.open()
	defer p.shut(c)
	out := started(c, t.Context(), coordinator.Job{Task: "wait", Chat: true})
	p.until("a command", func(e agent.Event) bool { return e.Type == agent.EventToolStart })
	if u, err := c.Shell(t.Context(), "echo gone", nil); err != nil || u.Output != "gone\n" {
		t.Errorf("%+v, %v", u, err)
	}
	p.write("go", "") // the work ends after it was told
	p.want(<-out, result.Completed)
	if told := p.last(2).Content; !strings.Contains(told, "echo gone") || !strings.Contains(told, "gone") {
		t.Errorf("the model is told:\n%s", told)
	}
}

// While they only talk it works too, and what it changes is not Ralph's.
func TestAUserCommandInConversation(t *testing.T) {
	t.Parallel()
	p := chatting(t, calls(write("a.txt", "ralph\n")), modeltest.Hang(), text("I know"))
	c := p.open()
	defer p.shut(c)
	out := started(c, t.Context(), coordinator.Job{Task: "write", Chat: true})
	for len(p.model.Requests()) < 2 { // else the stop may come before the reply that hangs is used up
		time.Sleep(time.Millisecond)
	}
	c.Stop(&interrupts.Stop{})
	p.want(<-out, result.Interrupted)
	if _, err := c.Shell(t.Context(), "echo mine > b.txt", nil); err != nil {
		t.Error(err)
	}
	p.talk(c, "what did I do?")
	if told := p.last(3).Content; !strings.Contains(told, "echo mine > b.txt") || len(p.asked(3).Tools) != 0 {
		t.Errorf("the model has the tools %v and is told:\n%s", p.asked(3).Tools, told)
	}
	files, err := c.Undo(t.Context(), 1, nil)
	if err != nil || len(files.Files) != 1 || p.read("a.txt") != "" || p.read("b.txt") != "mine\n" {
		t.Errorf("undo: %+v, %v", files, err)
	}
}

func TestFilesOfTheProject(t *testing.T) {
	t.Parallel()
	for name, repo := range map[string]bool{"git": true, "no git": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := bareProject(t)
			if repo {
				p = newProject(t)
			}
			for _, f := range []string{"main.go", "a b/ünï.md", "z/deep/er/x.txt", "out/log.txt", "new.txt", "keep.log", "x.log", "gone.txt"} {
				p.write(f, "x")
			}
			p.write(".gitignore", "out/\n*.log\n!keep.log\n")
			if repo {
				p.git("add", "main.go", "gone.txt", "a b", ".gitignore")
				p.git("commit", "-q", "-m", "two")
			}
			if err := os.Remove(p.path("gone.txt")); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("main.go", p.path("link.go")); err != nil {
				t.Fatal(err)
			}
			p.session = "new"
			c := p.open()
			defer p.shut(c)
			got, more, err := c.Files(t.Context())
			want := []string{".gitignore", "a b/ünï.md", "keep.log", "link.go", "main.go", "new.txt", "z/deep/er/x.txt"}
			if got = slices.DeleteFunc(got, func(f string) bool { return f == "AGENT.md" || strings.HasPrefix(f, "RALPH_") }); !slices.Equal(got, want) || more || err != nil {
				t.Errorf("%q, %v, %v", got, more, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, _, err := c.Files(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// A project below the root of its repository has the files below it.
func TestFilesBelowTheRepository(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.write("other/x.go", "x")
	p.write("sub/y.go", "x")
	p.write("sub/in/z.go", "x")
	p.git("add", "sub/y.go")
	p.root = p.path("sub")
	p.session = "new"
	c := p.open()
	defer p.shut(c)
	got, _, err := c.Files(t.Context())
	if got = slices.DeleteFunc(got, func(f string) bool { return strings.HasSuffix(f, ".md") }); !slices.Equal(got, []string{"in/z.go", "y.go"}) || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestChecksByHand(t *testing.T) {
	t.Parallel()
	p := chatting(t, text("I see"))
	p.flags["check"] = []string{"echo out; echo bad >&2; exit 2"}
	c := p.open()
	defer p.shut(c)
	r, err := c.Check(t.Context(), "")
	if err != nil || len(r.Runs) != 1 || r.OK() || r.Runs[0].ExitCode != 2 || r.Runs[0].Output != "out\nbad\n" || r.Runs[0].Command != p.flags["check"][0] {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = c.Check(t.Context(), "true")
	if err != nil || !r.OK() || r.Runs[0].Command != "true" {
		t.Errorf("%+v, %v", r, err)
	}
	p.talk(c, "mend it")
	if told := p.last(1).Content; !strings.Contains(told, "exit code 2") || !strings.Contains(told, "bad") {
		t.Errorf("the model is told:\n%s", told)
	}
	mark := sleeper(710)
	done := make(chan error, 1)
	go func() {
		_, err := c.Check(t.Context(), mark)
		done <- err
	}()
	for !alive(mark) {
		time.Sleep(5 * time.Millisecond)
	}
	c.Stop(&interrupts.Stop{})
	if err := <-done; err == nil || alive(mark) {
		t.Errorf("a stop ends no check: %v", err)
	} else if _, ok := interrupts.AsStop(err); !ok {
		t.Errorf("a stop ends a check with %v", err)
	}
}

func TestChecksOfTheRepository(t *testing.T) {
	t.Parallel()
	none := newProject(t)
	none.session = "new"
	c := none.open()
	if _, err := c.Check(t.Context(), ""); !errors.Is(err, desk.ErrNoCheck) {
		t.Errorf("error %v", err)
	}
	none.shut(c)
	for answer, ran := range map[string]bool{"yes": true, "no": false} {
		p := newProject(t)
		p.session = "new"
		p.write("Makefile", "build:\n\t@echo built\ntest:\n\t@echo tested\n")
		var asked []string
		p.ask = func(_ context.Context, q permission.Question) (string, error) {
			asked = append(asked, q.Text)
			return answer, nil
		}
		c := p.open()
		r, err := c.Check(t.Context(), "")
		p.shut(c)
		if err != nil || len(r.Runs) != len(asked) || len(asked) < 1 || r.OK() != ran {
			t.Errorf("%s: asked %q, %+v, %v", answer, asked, r, err)
		}
		for _, run := range r.Runs {
			if ran == (run.NotRun != "") || ran == (run.Output == "") {
				t.Errorf("%s: %+v", answer, run)
			}
		}
	}
	p := newProject(t)
	p.session = "new"
	p.projectConfig = "check: touch proposed\n"
	c = p.open()
	defer p.shut(c)
	if r, err := c.Check(t.Context(), ""); err != nil || r.OK() || r.Runs[0].NotRun == "" || fileThere(p.path("proposed")) {
		t.Errorf("what the repository proposes runs unasked: %+v, %v", r, err)
	}
}

func fileThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestSettingsInForce(t *testing.T) {
	t.Parallel()
	p := chatting(t)
	p.userConfig = "max_turns: 7\n"
	c := p.open()
	defer p.shut(c)
	got := map[string]desk.Setting{}
	for _, s := range c.Settings() {
		if got[s.Name] = s; s.Help == "" || s.Origin == "" {
			t.Errorf("%+v lacks something", s)
		}
	}
	if s := got["max_turns"]; s.Value != "7" || !strings.HasPrefix(s.Origin, "user config ") || !strings.HasSuffix(s.Origin, "config.yaml:1") {
		t.Errorf("%+v", s)
	}
	if s := got["api_key"]; s.Value == "" || strings.Contains(s.Value, "key-that-is-secret") || s.Origin != "env RALPH_API_KEY" {
		t.Errorf("%+v", s)
	}
	if s := got["model"]; s.Value != "test-model" || s.Origin != "flag --model" {
		t.Errorf("%+v", s)
	}
	c.SetModel("other")
	for _, s := range c.Settings() {
		if s.Name == "model" && (s.Value != "other" || strings.Contains(s.Origin, "flag")) {
			t.Errorf("%+v", s)
		}
	}
}

func TestHandOffInAChat(t *testing.T) {
	t.Parallel()
	p := chatting(t, text("the secret word is plum"), text("I know"), text("still"), modeltest.Hang())
	if first, _ := chatOnce(p, "new", "invent a word"); first.SessionID != "001" {
		t.Fatalf("session %q", first.SessionID)
	}
	p.session = "new"
	c := p.open()
	h, err := c.HandOff(t.Context(), "1", "")
	if err != nil || h.From != "001" || h.To != "002" || !strings.Contains(h.Text, "plum") {
		t.Errorf("%+v, %v", h, err)
	}
	if _, err := c.HandOff(t.Context(), "001", ""); err != nil || len(c.History()) != 1 {
		t.Errorf("handed over twice: %d messages, %v", len(c.History()), err)
	}
	p.talk(c, "which word was it?")
	if m := p.asked(2).Messages; !strings.Contains(m[1].Content, "plum") || m[len(m)-1].Content != "which word was it?" {
		t.Errorf("the model sees %+v", m[1:])
	}
	// The other way, and what cannot be.
	if h, err := c.HandOff(t.Context(), "", "001"); err != nil || h.From != "002" || h.To != "001" {
		t.Errorf("%+v, %v", h, err)
	}
	for _, bad := range [][2]string{{"", ""}, {"001", "1"}, {"nobody", ""}, {"", "77"}} {
		if _, err := c.HandOff(t.Context(), bad[0], bad[1]); err == nil {
			t.Errorf("%q is handed over", bad)
		}
	}
	p.shut(c)
	p.wantFile(".ralph/sessions/session-002-chat/conversation.md", "handoff from session 001", "plum")
	p.wantFile(".ralph/sessions/session-001-chat/conversation.md", "handoff from session 002")
	for _, id := range []string{"001", "002"} {
		if log := p.read(".ralph/sessions/session-" + id + "-chat/execution-log.json"); strings.Count(log, `"handoff"`) < 2 {
			t.Errorf("the log of session %s does not tell both:\n%s", id, log)
		}
	}
	// It is there after a restart, once.
	p.session = "2"
	c = p.open()
	if n := strings.Count(fmt.Sprint(c.History()), "Context handed over from session 001"); n != 1 {
		t.Errorf("after a restart it is there %d times", n)
	}
	p.talk(c, "and now?")
	out := started(c, t.Context(), coordinator.Job{Task: "work", Chat: true})
	for len(p.model.Requests()) < 4 {
		time.Sleep(2 * time.Millisecond)
	}
	if _, err := c.HandOff(t.Context(), "001", ""); !errors.Is(err, coordinator.ErrBusy) {
		t.Errorf("handed over while work runs: %v", err)
	}
	c.Stop(&interrupts.Stop{})
	<-out
	p.shut(c)
}

func TestMentionedFiles(t *testing.T) {
	t.Parallel()
	p := chatting(t, text("one"), calls(call("shell", m{"command": "until test -e go; do sleep 0.02; done"})), text("two"), text("three"))
	p.write("main.go", "package main\n\nfunc main() {}\n")
	p.write("a b/c.txt", "has ``` a fence, and key-that-is-secret")
	p.write("big.txt", strings.Repeat("0123456789abcde\n", 4096))
	p.write("data.bin", "\x00\x01\x02")
	p.write("empty", "")
	p.write("bob@x.go", "x")
	outside := filepath.Join(t.TempDir(), "outside.txt")
	if err := os.WriteFile(outside, []byte("not yours"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Symlink(outside, p.path("leak.txt")), os.Symlink("main.go", p.path("inner.go")), os.Symlink(".git", p.path("g")), os.Symlink(filepath.Dir(outside), p.path("out"))); err != nil {
		t.Fatal(err)
	}
	c := p.open()
	defer p.shut(c)
	asked := `see @main.go, @"a b/c.txt" and @"a b" @data.bin @empty @inner.go; not @leak.txt @out @.git/config @g/config @../x @/etc/passwd @.ralph bob@x.go @nothing`
	p.talk(c, asked)
	told := p.last(1).Content
	for _, want := range []string{asked, "main.go (3 lines):\n```\npackage main", "a b/c.txt (1 line):\n````\n", "a b/ (a directory with 1 entry):\n```\nc.txt\n", "data.bin (not text, 3 bytes)", "empty (empty)", "inner.go (3 lines)"} {
		if !strings.Contains(told, want) {
			t.Errorf("the model is not told %q:\n%s", want, told)
		}
	}
	for _, bad := range []string{"not yours", "outside.txt", "[core]", "root:", "key-that-is-secret", "bob@x.go ("} {
		if strings.Contains(told, bad) {
			t.Errorf("the model is told %q:\n%s", bad, told)
		}
	}
	p.until("what went along", func(e agent.Event) bool {
		return e.Type == agent.EventInbox && e.Status == "with" && strings.HasPrefix(e.Text, "@main.go (3 lines), @a b/c.txt (1 line), @a b/ (a directory")
	})
	// What is said meanwhile has its files as well, and much is cut.
	out := started(c, t.Context(), coordinator.Job{Task: "wait", Chat: true})
	p.until("a command", func(e agent.Event) bool { return e.Type == agent.EventToolStart })
	for i := range 4 {
		p.write(fmt.Sprintf("big%d.txt", i), strings.Repeat("0123456789abcde\n", 4096))
	}
	said := say(c, interrupts.ClassSteer, "mind @big0.txt @big1.txt @big2.txt @big3.txt @main.go")
	p.until("it is kept", inbox(said.ID(), "queued"))
	p.write("go", "")
	p.want(<-out, result.Completed)
	told = p.last(3).Content
	if !strings.Contains(told, "big2.txt (the first 1,024 lines of 64 KiB):") || !strings.Contains(told, "big3.txt (left out") || len(told) > 52<<10 {
		t.Errorf("the model is told %d bytes:\n%s", len(told), told[:200])
	}
	if !slices.ContainsFunc(c.History(), func(m agent.Message) bool { return strings.HasPrefix(m.Text, said.Text) }) {
		t.Error("what was said is not told as it was said")
	}
	if _, err := c.Shell(t.Context(), "true", nil); err != nil {
		t.Error(err)
	}
}

// A one-shot's task is not read for mentions.
func TestATaskMentionsNothing(t *testing.T) {
	t.Parallel()
	p := newProject(t, text("done"))
	p.write("main.go", "package main\n")
	p.want(p.run(coordinator.Job{Task: "see @main.go"}), result.Completed)
	if p.last(1).Content != "see @main.go" {
		t.Errorf("the model is told:\n%s", p.last(1).Content)
	}
}

// In the midst of work, too, what the user changes by a command is theirs.
func TestAUserCommandInTheMidstOfWork(t *testing.T) {
	t.Parallel()
	for name, newOne := range map[string]func(*testing.T, ...modeltest.Reply) *project{"git": newProject, "no git": bareProject} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newOne(t)
			answers := make(chan modeltest.Reply, 1) // the model waits until it has one
			answers <- calls(write("a.txt", "ralph\n"))
			p.model.Handle(func(modeltest.Request) modeltest.Reply { return <-answers })
			defer close(answers)
			after := []modeltest.Reply{calls(write("both.txt", "ralph\n")), text("done")}
			p.session = "new"
			p.write("c.txt", "old\n")
			p.write("both.txt", "old\n")
			c := p.open()
			defer p.shut(c)
			out := started(c, t.Context(), coordinator.Job{Task: "write", Chat: true})
			for n, command := range []string{"echo mine > b.txt; rm c.txt; echo mine > both.txt", "echo more >> b.txt"} {
				for len(p.model.Requests()) < n+2 {
					time.Sleep(2 * time.Millisecond)
				}
				if _, err := c.Shell(t.Context(), command, nil); err != nil {
					t.Error(err)
				}
				answers <- after[n]
			}
			o := <-out
			p.want(o, result.Completed)
			var changed []string
			for _, f := range o.FilesChanged {
				changed = append(changed, f.Path)
			}
			if slices.Sort(changed); !slices.Equal(changed, []string{"a.txt", "both.txt"}) {
				t.Errorf("the work changed %q", changed)
			}
			// Of what both changed nothing is sure: it stays, and is listed.
			if done, err := c.Undo(t.Context(), 1, nil); err != nil || !slices.Contains(done.Kept, "both.txt") {
				t.Errorf("undo: %+v, %v", done, err)
			}
			if p.read("a.txt") != "" || p.read("b.txt") != "mine\nmore\n" || p.read("both.txt") != "ralph\n" || fileThere(p.path("c.txt")) {
				t.Errorf("after the undo: a %q, b %q, both %q, c %v", p.read("a.txt"), p.read("b.txt"), p.read("both.txt"), fileThere(p.path("c.txt")))
			}
		})
	}
}

// A command that runs when Ralph is left ends with it, and is still kept.
func TestAUserCommandEndsWithRalph(t *testing.T) {
	t.Parallel()
	p := chatting(t)
	c := p.open()
	mark := sleeper(720)
	ended := make(chan error, 1)
	go func() {
		_, err := c.Shell(t.Context(), mark, nil)
		ended <- err
	}()
	for !alive(mark) {
		time.Sleep(5 * time.Millisecond)
	}
	p.shut(c)
	if err := <-ended; !errors.Is(err, exec.ErrStopped) || alive(mark) {
		t.Errorf("it ended with %v", err)
	}
	if !strings.Contains(p.all(".ralph/sessions/*/journal.jsonl"), `"kind":"user_command"`) {
		t.Error("it is not kept")
	}
}

func TestManyUserCommands(t *testing.T) {
	t.Parallel()
	p := chatting(t, text("I see"))
	c := p.open()
	defer p.shut(c)
	for n := range 23 {
		if _, err := c.Shell(t.Context(), fmt.Sprintf("true %d", n), nil); err != nil {
			t.Error(err)
		}
	}
	p.talk(c, "well?")
	told := p.last(1).Content
	if strings.Count(told, "exit code 0") != 20 || !strings.Contains(told, "(3 commands before are left out.)") || strings.Contains(told, "true 2\n") {
		t.Errorf("the model is told:\n%s", told)
	}
}
