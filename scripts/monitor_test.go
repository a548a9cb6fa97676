package scripts

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"ralph/coordinator/permission"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"ralph/coordinator"
	"ralph/coordinator/crew"
	"ralph/coordinator/loop"
	"ralph/interrupts"
	"ralph/interrupts/control"
	"ralph/memory/session"
	"ralph/memory/session/folder"
	"ralph/workers/agent"
)

// TestPictureFits: at no size is a picture higher or wider than the screen, and the
// head is always there.
func TestPictureFits(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	cost := 1.25
	hostile := "\x1b[2J日本\u202e\n" + strings.Repeat("long ", 40)
	for _, n := range []int{0, 1, 5, 60} {
		for _, state := range []string{"running", "failed"} {
			d := statusDocument{State: state, Session: optional("001"), Task: &hostile, Tool: &hostile, Model: &hostile, Since: &now, CostUSD: &cost, Run: busy(n, now), About: &statusSession{Name: hostile}}
			d.Usage = &agent.Usage{Total: 12_345_678}
			if n > 0 {
				d.Question = &permission.Question{Kind: "question", Agent: hostile, Text: hostile, Asked: now}
			}
			if state == "failed" {
				d.Last = &statusLast{Status: state, Reason: &hostile}
			}
			var recent []string
			for i := range n {
				a := crew.Agent{ID: fmt.Sprint("agent_", i, hostile), Depth: i%9 + 1, State: crew.Running, Since: now, Doing: hostile, Turns: i}
				if i%2 == 0 {
					a.Ended, a.State, a.Result = now, crew.Failed, hostile
				}
				d.Agents = append(d.Agents, a)
				d.Queue = append(d.Queue, coordinator.Waiting{ID: fmt.Sprint("m-", i), Class: "steer", Text: hostile, At: now})
				recent = append(recent, oneLine(hostile, 400))
			}
			for columns := 10; columns <= 200; columns += 23 {
				for rows := 1; rows <= 45; rows += 4 {
					p := picture{doc: d, recent: recent, now: now, colour: columns%2 == 0}
					lines := p.lines(columns, rows)
					if len(lines) > rows || len(lines) == 0 || !strings.Contains(lines[0], "session 001") {
						t.Fatalf("%d lines for %d rows: %q", len(lines), rows, lines)
					}
					for _, l := range lines {
						cut := ansi.Strip(cutTo(l, columns))
						if width(cut) > columns || strings.ContainsAny(ansi.Strip(l), "\n\r\x1b\u202e\t") || !utf8.ValidString(l) {
							t.Fatalf("%d columns: %q", columns, l)
						}
					}
				}
			}
		}
	}
}

// A question that waits is seen by who looks on, in the status and in the picture.
func TestWhatWaitsForAnAnswer(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	var d statusDocument
	d.fill(coordinator.Live{State: "running", Task: "fix it", Question: &permission.Question{Kind: "permission", Agent: "auth", Text: "push always asks. May shell run this?\ngit push", Asked: now.Add(-12 * time.Second)}})
	const want = "auth: push always asks. May shell run this? git push (waits for your answer there, 12s)"
	if text := statusReport(d, now); !strings.Contains(text, "\nasks       "+want+"\n") {
		t.Errorf("the status is\n%s", text)
	}
	if lines := strings.Join((picture{doc: d, now: now}).lines(100, 20), "\n"); !strings.Contains(lines, "\nasks: "+want) {
		t.Errorf("the picture is\n%s", lines)
	}
	d.Question = nil
	if text := statusReport(d, now) + strings.Join((picture{doc: d, now: now}).lines(100, 20), "\n"); strings.Contains(text, "asks") {
		t.Errorf("nothing waits:\n%s", text)
	}
}

// stage is a Ralph that works in a session, and says what the test wants.
type stage struct {
	other
	session *session.Session
	events  chan agent.Event
	end     func()
}

func (b *bench) stage() *stage {
	b.Helper()
	s := &stage{events: make(chan agent.Event)}
	s.live = coordinator.Live{State: "running", SessionID: "001", RunID: "r-1", Model: "m-1", Kind: "run", Task: "fix it", StartedAt: time.Now(), Since: time.Now(), Loop: busy(2, time.Now())}
	s.live.Loop.Epics, s.live.Loop.Next, s.live.Loop.Recent = []string{}, []loop.Row{}, []loop.Row{}
	s.do = func(ctx context.Context, r control.Request, reply func(any) error) (any, error) {
		for r.Op == "attach" {
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case e, ok := <-s.events:
				if !ok {
					return nil, nil
				}
				if err := reply(e); err != nil {
					return nil, err
				}
			}
		}
		return nil, nil
	}
	s.end = b.other(&s.other)
	var err error
	if s.session, err = session.Create(session.Options{StateDir: filepath.Join(b.dir, ".ralph")}, "stage"); err != nil {
		b.Fatal(err)
	}
	s.session.Folder().Log(folder.Event{Type: folder.SessionStart})
	if err := s.session.Folder().Flush(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.session.Close() })
	return s
}

// over ends the session, and the Ralph with it.
func (s *stage) over() {
	s.session.Folder().Log(folder.Event{Type: folder.SessionEnd, Result: "completed"})
	s.session.End(session.Completed, "all done")
	if err := s.session.Close(); err != nil {
		s.t.Error(err)
	}
	close(s.events)
	s.end()
}

func ok(yes bool) *bool { return &yes }

// TestMonitorElsewhere: without a terminal each change is a line, or a document, and
// the end of the Ralph that is watched is the end.
func TestMonitorElsewhere(t *testing.T) {
	for _, form := range []string{"text", "jsonl"} {
		b := newBench(t)
		s := b.stage()
		var out signalled
		b.stdout = &out
		var wg sync.WaitGroup
		code := -1
		wg.Go(func() { code = b.run("monitor", "--output", form) })
		s.events <- agent.Event{Type: agent.EventToolEnd, Seq: 1, Time: time.Now(), RunID: "r-1", Agent: "auth", Tool: "shell", CallID: "c", OK: ok(true)}
		if form == "text" {
			out.await(t, "auth: shell: ok")
		} else {
			out.await(t, `"state":"running"`)
		}
		s.over()
		wg.Wait()
		if code != 0 {
			t.Errorf("%s: exit %d: %s", form, code, b.err.String())
		}
		if form == "text" {
			b.wantErr("session 001 ended: completed")
			continue
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		for _, line := range lines {
			if err := statusChecker().Validate(decode(t, line)); err != nil {
				t.Errorf("%v: %s", err, line)
			}
		}
		if d := decode(t, lines[len(lines)-1]); d["state"] != "completed" || d["live"] != false {
			t.Errorf("the last document: %v", d)
		}
	}
}

// TestMonitorOnATerminal: the picture is drawn in place, q leaves, and the terminal is
// as it was.
func TestMonitorOnATerminal(t *testing.T) {
	b := newBench(t)
	s := b.stage()
	ptmx, tty, err := pty.Open()
	if err != nil {
		t.Skip("no pseudo-terminal here: ", err)
	}
	defer tty.Close()
	defer ptmx.Close()
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	before, err := unix.IoctlGetTermios(int(tty.Fd()), getModes)
	if err != nil {
		t.Fatal(err)
	}
	var seen signalled
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(&seen, ptmx) }) // until the terminal is closed
	b.stdout, b.stdin = tty, tty
	ctx, cancel := context.WithCancelCause(t.Context())
	code := make(chan int, 1)
	go func() { code <- b.runCtx(ctx, "monitor") }()
	seen.await(t, "session 001")
	seen.await(t, "5/12")
	s.events <- agent.Event{Type: agent.EventToolEnd, Seq: 1, Time: time.Now(), RunID: "r-1", Agent: "auth", Tool: "shell", CallID: "c", OK: ok(true)}
	seen.await(t, "auth: shell: ok")
	// A test's terminal is not that of its session, whose keys alone are read.
	cancel(&interrupts.Stop{Signal: syscall.SIGINT})
	if got := <-code; got != 0 {
		t.Errorf("exit %d: %s", got, b.err.String())
	}
	after, err := unix.IoctlGetTermios(int(tty.Fd()), getModes)
	if err != nil || *after != *before {
		t.Errorf("the modes of the terminal changed: %v", err)
	}
	tty.Close()
	wg.Wait()
	text := seen.String()
	if strings.Contains(text, "\x1b[?1049h") || strings.Contains(text, "\x1b[2J") {
		t.Error("it took the whole screen")
	}
	s.over()
}

// TestMonitorOver: a session that nobody works in is shown once.
func TestMonitorOver(t *testing.T) {
	for _, fixture := range []string{"clean", "contradiction", "foreign", "hostile", "older-shape", "cut-log", "empty"} {
		b := newBench(t)
		b.imported("001", fixture)
		for _, args := range [][]string{{"monitor", "1"}, {"monitor", "--session", "1", "--json"}, {"monitor", "1", "--output", "jsonl"}} {
			if code := b.run(args...); code != 0 || b.out.Len() == 0 || strings.ContainsAny(b.out.String(), "\x1b\u202e") {
				t.Errorf("%s: %q: exit %d: %s", fixture, args, code, b.err.String())
			}
		}
		if d := b.document(); d["live"] != false || d["state"] == "running" || strings.Count(b.out.String(), "\n") != 1 {
			t.Errorf("%s: %v", fixture, d)
		}
	}
	b := newBench(t)
	if code := b.run("monitor"); code != 2 {
		t.Errorf("nothing to see: exit %d", code)
	}
}

// TestStatusOfASession: any session is told of in the one document.
func TestStatusOfASession(t *testing.T) {
	for fixture, want := range map[string]struct {
		state string
		code  int
	}{"clean": {"completed", 0}, "contradiction": {"interrupted", 2}, "live": {"interrupted", 2}, "empty": {"idle", 0}} {
		b := newBench(t)
		b.imported("007", fixture)
		code := b.run("status", "7", "--json", "--exit-status")
		d := b.document()
		if err := statusChecker().Validate(d); err != nil {
			t.Errorf("%s: %v", fixture, err)
		}
		if d["state"] != want.state || code != want.code || d["session"] != "007" {
			t.Errorf("%s: %v, exit %d, session %v", fixture, d["state"], code, d["session"])
		}
		if code := b.run("status", "--session", "7"); code != 0 || !strings.Contains(b.out.String(), "session    007") {
			t.Errorf("%s: exit %d: %s", fixture, code, b.out.String())
		}
	}
	b := newBench(t)
	b.imported("001", "clean")
	b.run("status", "1", "--json")
	d := b.document()
	tasks, about := d["tasks"].(map[string]any), d["about"].(map[string]any)
	if tasks["done"] != 6.0 || len(d["agents"].([]any)) == 0 || d["usage"].(map[string]any)["total"] == 0.0 || len(about["last_events"].([]any)) != lastEvents {
		t.Errorf("%v", d)
	}
	if code := b.run("status", "9"); code != 2 {
		t.Errorf("exit %d", code)
	}
	if code := b.run("status", "--json"); code != 0 || b.document()["about"] != nil {
		t.Error("a status of the project is about one session")
	}
	s := newBench(t)
	st := s.stage()
	if s.run("status", "1", "--json", "--exit-status") != 1 || s.document()["live"] != true || s.document()["state"] != "running" {
		t.Errorf("a session at work: %s", s.out.String())
	}
	st.over()
}

func TestKeysWithoutATerminal(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	k := openKeys(t.Context(), f)
	if k != nil || k.channel() != nil {
		t.Error("keys of no terminal")
	}
	k.again()
	k.close()
}

// TestMonitorForgets: what the one that is watched does not say any more, such as a
// question that was answered, is not shown any more; nor that it does not answer once
// it is gone.
func TestMonitorForgets(t *testing.T) {
	b := newBench(t)
	s := b.stage()
	before, view := s.live, *s.live.Loop
	view.Question = &permission.Question{Kind: "approval", Text: "Work the plan?"}
	before.Loop = &view
	inv := newInvocation(App{Stdout: io.Discard, Stderr: io.Discard, Dir: b.dir, Getenv: func(k string) string { return b.env[k] }})
	inv.root = b.dir
	client, err := control.Dial(t.Context(), inv.stateDir(), runtimeDir(inv.Getenv))
	if err != nil {
		t.Fatal(err)
	}
	m := &monitor{inv: inv, caller: &caller{inv: inv, client: client, live: before}}
	defer m.close()
	d, err := m.document(t.Context())
	if err != nil || d.Run == nil || d.Run.Question != nil {
		t.Errorf("%v: the question stands there still: %+v", err, d.Run)
	}
	m.mute = true
	m.hangUp()
	if m.mute {
		t.Error("one that is gone is said not to answer")
	}
}

// TestAQuestionOfARunIsShownOnce: below its bar, and not in the head as well.
func TestAQuestionOfARunIsShownOnce(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	q := permission.Question{Text: "Work the plan?", Asked: now}
	run := busy(3, now)
	for _, whose := range []*permission.Question{&q, nil} {
		run.Question = whose
		text := strings.Join(picture{doc: statusDocument{State: "running", Session: optional("001"), Run: run, Question: &q}, now: now}.lines(80, 40), "\n")
		if strings.Count(text, q.Text) != 1 {
			t.Errorf("not once:\n%s", text)
		}
	}
}

// TestEventsOfAPhaseNameIt: which phase began or ended is told.
func TestEventsOfAPhaseNameIt(t *testing.T) {
	s := statusSession{LastEvents: []logLine{{ID: "e2", Type: "phase_start", Details: map[string]any{"phase": "planning"}}, {ID: "e3", Type: "phase_complete", Result: "completed", Details: map[string]any{"name": "Planning", "phase": "planning"}}}}
	if got := strings.Join(s.recent(), "\n"); got != "-         e2   phase start planning\n-         e3   phase complete Planning: completed" {
		t.Error(got)
	}
}
