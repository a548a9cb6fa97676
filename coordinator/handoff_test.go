package coordinator_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/afero"

	"ralph/coordinator"
	"ralph/coordinator/ownership"
	"ralph/coordinator/recovery"
	"ralph/coordinator/result"
	"ralph/coordinator/sessions"
	"ralph/interrupts"
	"ralph/memory/session"
	"ralph/workers/agent"
	"ralph/workers/model/modeltest"
)

// stoppedIn begins work in a session and stops it.
func stoppedIn(p *project) *coordinator.Coordinator {
	p.Helper()
	p.session = "new"
	c, n := p.open(), len(p.model.Requests())
	out := started(c, p.Context(), coordinator.Job{Task: "paint the door", Chat: true})
	for len(p.model.Requests()) == n {
		time.Sleep(2 * time.Millisecond)
	}
	c.Stop(&interrupts.Stop{Signal: syscall.SIGINT})
	p.want(<-out, result.Interrupted)
	return c
}

func (p *project) meta(id string) session.Metadata {
	p.Helper()
	list, err := session.List(afero.NewOsFs(), p.path(".ralph"))
	if err != nil {
		p.Fatal(err)
	}
	for _, i := range list {
		if i.ID == id {
			return i.Meta
		}
	}
	p.Fatalf("there is no session %s", id)
	return session.Metadata{}
}

// A session that another one goes on with has ended in order, also when its work
// had been stopped, and the next greeting says how.
func TestAHandedSessionHasEnded(t *testing.T) {
	t.Parallel()
	p := chatting(t, modeltest.Hang(), text("green"))
	c := stoppedIn(p)
	c.Ends(session.HandedOn)
	p.shut(c)
	if m := p.meta("001"); m.Status != session.Completed || m.ExitReason != session.HandedOn || m.EndTime == nil {
		t.Errorf("before it is handed: %+v", m)
	}
	p.session = "new"
	c = p.open()
	if line := strings.Join(c.Standing(), "\n"); !strings.Contains(line, "to go on with 001 (chat), which ended just now (completed, handed on)") {
		t.Errorf("the greeting is\n%s", line)
	}
	if _, err := c.HandOff(t.Context(), "001", ""); err != nil {
		t.Fatal(err)
	}
	if m := p.meta("001"); m.Standing() != "completed, handed to 002" || m.EndTime == nil {
		t.Errorf("after it was handed: %+v", m)
	}
	// What was handed needs no answer, and nobody said it.
	p.talk(c, "which colour?")
	if m := p.asked(2).Messages; len(m) != 4 || m[2].Role != "assistant" || m[2].Content != "(noted)" {
		t.Errorf("the model sees %+v", m[1:])
	}
	p.shut(c)
	p.session = "002"
	c = p.open()
	defer p.shut(c)
	if line := strings.Join(c.Standing(), "\n"); !strings.Contains(line, "you said last: which colour?") {
		t.Errorf("the greeting is\n%s", line)
	}
}

// Who stops the work and then ends the chat by a signal did not cut it off.
func TestASignalAfterAStop(t *testing.T) {
	t.Parallel()
	p := chatting(t, modeltest.Hang(), text("it is red"))
	c := stoppedIn(p)
	c.Ends("ended by SIGTERM")
	p.shut(c)
	if m := p.meta("001"); m.Standing() != "paused, Ctrl-C; ended by SIGTERM" {
		t.Errorf("%+v", m)
	}
	s, err := recovery.Assess(t.Context(), recovery.Options{Project: ownership.Project{Root: p.root, Getenv: getenv(p.root)}})
	if line := strings.Join(s.Lines(time.Now()), "\n"); err != nil || !strings.Contains(line, "was interrupted just now (Ctrl-C; ended by SIGTERM)") {
		t.Errorf("%v, %s", err, line)
	}
	p.session = "new"
	c = p.open()
	if line := strings.Join(c.Standing(), "\n"); !strings.Contains(line, "001 (chat), which was left unfinished (paused, Ctrl-C; ended by SIGTERM)") {
		t.Errorf("the greeting is\n%s", line)
	}
	p.talk(c, "hello")
	c.Ends("ended by SIGTERM")
	p.shut(c)
	if m := p.meta("002"); m.Standing() != "completed, ended by SIGTERM" {
		t.Errorf("%+v", m)
	}
}

// slowDisk lets whoever opens a journal of another session wait.
type slowDisk struct {
	*afero.OsFs
	of      atomic.Pointer[string]
	waiting chan struct{} // gets one for each who waits
	on      chan struct{}
}

func (d *slowDisk) wait(name string) {
	if of := d.of.Load(); of != nil && strings.Contains(name, *of) && strings.HasSuffix(name, ".jsonl") {
		select {
		case d.waiting <- struct{}{}:
		default:
		}
		<-d.on
	}
}

func (d *slowDisk) Open(name string) (afero.File, error) {
	d.wait(name)
	return d.OsFs.Open(name)
}

func (d *slowDisk) OpenFile(name string, flag int, perm os.FileMode) (afero.File, error) {
	d.wait(name)
	return d.OsFs.OpenFile(name, flag, perm)
}

// While a handoff reads what another session holds, nothing waits for it: not an
// event, not what the human says, not a stop.
func TestNothingWaitsForAHandoff(t *testing.T) {
	t.Parallel()
	p := chatting(t, text("hello"))
	disk := &slowDisk{OsFs: afero.NewOsFs().(*afero.OsFs), waiting: make(chan struct{}, 1), on: make(chan struct{})}
	p.fs = disk
	if first, _ := chatOnce(p, "new", "hello"); first.SessionID != "001" {
		t.Fatalf("session %q", first.SessionID)
	}
	p.session = "new"
	c, err := coordinator.Open(t.Context(), p.options())
	if err != nil {
		t.Fatal(err)
	}
	other := "session-001"
	disk.of.Store(&other)
	handed := make(chan error, 1)
	go func() {
		_, err := c.HandOff(t.Context(), "001", "")
		handed <- err
	}()
	select {
	case <-disk.waiting:
	case err := <-handed:
		t.Fatalf("it did not read the other session: %v", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		m := say(c, interrupts.ClassLater, "and then?")
		p.until("it is queued", inbox(m.ID(), "queued"))
		if u, err := c.Shell(t.Context(), "true", nil); err != nil || u.ExitCode != 0 {
			t.Errorf("%+v, %v", u, err)
		}
		c.Stop(&interrupts.Stop{})
		c.Live()
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Error("they wait for the handoff")
	}
	close(disk.on)
	<-done
	if err := <-handed; err != nil {
		t.Error(err)
	}
	p.shut(c)
	if !strings.Contains(p.read(".ralph/sessions/session-002-chat/conversation.md"), "handoff from session 001") {
		t.Error("nothing was handed over")
	}
}

// A session in which nothing was said, because Ralph was killed when it had made
// it, is not offered, and is put in order.
func TestAnEmptySessionIsNotOffered(t *testing.T) {
	t.Parallel()
	p := chatting(t, text("hello"), text("again"))
	empty, err := session.Create(session.Options{StateDir: p.path(".ralph"), Kind: "chat"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(empty.Journal().Close(), os.WriteFile(p.path(".ralph/FORMAT"), []byte("ralph 1\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	s, err := recovery.Assess(t.Context(), recovery.Options{Project: ownership.Project{Root: p.root, Getenv: getenv(p.root)}})
	if err != nil || s.Verdict != "" || s.Session != "" {
		t.Errorf("%+v, %v", s, err)
	}
	note := `{"pid":999999999,"startTime":1,"bootId":"gone","hostname":"h","sessionId":"r","acquiredAt":"2026-11-21T09:00:00Z","cwd":"/"}`
	if err := os.WriteFile(p.path(".ralph/lock"), []byte(note), 0o600); err != nil {
		t.Fatal(err)
	}
	p.write(".git/ralph.lock", note)
	c := p.open()
	if line := strings.Join(c.Standing(), "\n"); !strings.Contains(line, "session 002") || strings.Contains(line, "001") {
		t.Errorf("the greeting is\n%s", line)
	}
	p.talk(c, "hi")
	p.shut(c)
	if m := p.meta("001"); m.Standing() != "completed, cut off" {
		t.Errorf("%+v", m)
	}
	rows, err := sessions.Open(sessions.Options{Root: p.root, Config: p.options().Config}, func(string) {}).List(t.Context(), false)
	if err != nil || len(rows) != 2 || !rows[0].Empty || rows[1].Empty {
		t.Errorf("%+v, %v", rows, err)
	}
}

// What is mentioned, is there and does not go along is told, with the reason, in
// one line; words that name nothing are not.
func TestWhatIsMentionedInVain(t *testing.T) {
	t.Parallel()
	p := chatting(t, text("one"), text("two"))
	outside := filepath.Join(t.TempDir(), "outside.txt")
	p.write("ok.go", "package main\n")
	p.write("data.bin", "\x00\x01")
	if err := errors.Join(os.WriteFile(outside, []byte("not yours"), 0o600), os.Symlink(outside, p.path("leak.txt")), os.Symlink("nowhere", p.path("dead")),
		os.Symlink(".git", p.path("g")), syscall.Mkfifo(p.path("pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	c := p.open()
	defer p.shut(c)
	p.talk(c, "see @ok.go, @leak.txt and @leak.txt @.ralph @.. @g/config @pipe @data.bin @"+p.root+"/ok.go; not @nothing @dead @../nothing")
	e := p.until("what does not go along", func(e agent.Event) bool { return e.Type == agent.EventInbox && e.Status == "without" })
	want := "@leak.txt (it leads out of the project), @.ralph (it is inside of .git or .ralph), @.. (it is outside of the project), @g/config (it is inside of .git or .ralph), " +
		"@pipe (it is no ordinary file), @data.bin (not text, 2 bytes), @" + p.root + "/ok.go (name it by its path in the project: @ok.go)"
	if e.Text != want {
		t.Errorf("told is\n%s\nwant\n%s", e.Text, want)
	}
	e = p.until("what goes along", func(e agent.Event) bool { return e.Type == agent.EventInbox && e.Status == "with" })
	if e.Text != "@ok.go (1 line)" {
		t.Errorf("told is %s", e.Text)
	}
	if told := p.last(1).Content; strings.Contains(told, "not yours") || strings.Contains(told, "[core]") {
		t.Errorf("the model is told %s", told)
	}
}

// Whoever deletes .ralph while a chat is open finds it stamped again.
func TestADeletedStateIsStamped(t *testing.T) {
	t.Parallel()
	p := chatting(t, text("one"), text("two"), text("three"))
	c := p.open()
	p.talk(c, "hello")
	if err := os.RemoveAll(p.path(".ralph")); err != nil {
		t.Fatal(err)
	}
	p.talk(c, "and again")
	if p.read(".ralph/FORMAT") != "ralph 1\n" {
		t.Error("what was written brought no stamp")
	}
	if err := os.RemoveAll(p.path(".ralph")); err != nil {
		t.Fatal(err)
	}
	_ = c.Close() // what it misses is not asked here
	if _, err := os.Stat(p.path(".ralph")); err == nil && p.read(".ralph/FORMAT") != "ralph 1\n" {
		t.Error("what was written at the end brought no stamp")
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	p.session = "new"
	c = p.open()
	p.talk(c, "hello")
	p.shut(c)
	for _, e := range p.seen() {
		if e.Type == agent.EventWarning && strings.Contains(e.Text, "another tool") {
			t.Errorf("it says %q", e.Text)
		}
	}
}
