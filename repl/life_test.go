package repl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/result"
	"ralph/memory/exchange"
	"ralph/memory/retention"
	"ralph/memory/session/folder"
	"ralph/repl/render"
)

// shelfOf is a project with sessions: each has a coordinator of its own.
type shelfOf struct {
	mu     sync.Mutex // guards the fields below
	rows   []retention.Row
	opened []string          // the sessions that Open was called with
	minds  map[string]*fake  // by session
	broken map[string]error  // sessions that cannot be opened
	handed []string          // from and to
	fails  error             // of HandOff
	hangs  chan struct{}     // Open of the session "003" waits for it, or its ctx
	turn   turnFunc          // nil: echo
	alive  map[string]string // what was not closed when another was opened
}

var past = time.Date(2026, 11, 20, 10, 2, 0, 0, time.UTC)

func shelfWith(ids ...string) *shelfOf {
	s := &shelfOf{minds: map[string]*fake{}, broken: map[string]error{}, alive: map[string]string{}}
	for i, id := range ids {
		end := time.Now().Add(time.Duration(i-20) * time.Hour) // two digits of hours, whatever the time of day: ages are equally wide
		s.rows = append(s.rows, retention.Row{ID: id, Name: "work " + id, Kind: "chat", Status: "completed", Started: &past, Ended: &end, DurationMS: 90_000, Done: i, Total: 4,
			Words: "please fix number " + id, Usage: &retention.Spent{Total: 14_000}, Path: ".ralph/sessions/session-" + id})
	}
	return s
}

func (s *shelfOf) List(context.Context, bool) ([]retention.Row, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.rows), nil
}

func (s *shelfOf) Show(which string) (retention.Row, exchange.Details, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.rows {
		if strings.HasPrefix(r.ID, which) || r.Name == which {
			return r, exchange.Details{Data: folder.Data{Progress: folder.Progress{Tasks: []folder.TaskState{{TaskID: "T-1", Status: "completed", Result: folder.ResultSuccess, Details: "it works"}}}},
				Files: []string{"main.go"}, Messages: []exchange.Message{{Role: "user", Text: "fix the login\x1b[2J"}}, Warnings: []string{"a record is torn"}}, nil
		}
	}
	return retention.Row{}, exchange.Details{}, &result.Error{Op: "find session", Path: which, Err: errors.New("no such session"), Status: result.Usage, Hint: "ralph sessions list shows what there is"}
}

func (s *shelfOf) open(ctx context.Context, l Link) (Mind, error) {
	s.mu.Lock()
	id, hangs := l.Session, s.hangs
	s.opened = append(s.opened, id)
	for old, f := range s.minds {
		f.mu.Lock()
		if !f.closed {
			s.alive[id] = old
		}
		f.mu.Unlock()
	}
	err := s.broken[id]
	s.mu.Unlock()
	if id == "003" && hangs != nil {
		select {
		case <-hangs:
		case <-ctx.Done():
			return Mind{}, context.Cause(ctx)
		}
	}
	if err != nil {
		return Mind{}, err
	}
	switch id {
	case "":
		id = "001"
	case anotherSession:
		id = "009"
	}
	turn := s.turn
	if turn == nil {
		turn = echo
	}
	f := &fake{turn: turn, model: "gpt-large", session: id, facts: []string{"sandbox: off", "session " + id + " goes on after 3 messages; you said last: work on " + id}}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.minds[id] = f
	m := f.attach(l)
	m.Hands = heirs{&ownHands{}, s, f}
	return m, nil
}

func (s *shelfOf) of(t *testing.T, id string) *fake {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.minds[id]
	if f == nil {
		t.Fatalf("session %q was never opened: %q", id, s.opened)
	}
	return f
}

// heirs hand on what a session of the shelf knows.
type heirs struct {
	*ownHands
	s *shelfOf
	f *fake
}

func (h heirs) HandOff(_ context.Context, from, to string) (exchange.Handed, error) {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	if h.s.fails != nil {
		return exchange.Handed{}, h.s.fails
	}
	if from == "" {
		from = h.f.SessionID()
	}
	if to == "" {
		to = h.f.SessionID()
	}
	h.s.handed = append(h.s.handed, from+" to "+to)
	return exchange.Handed{From: from, To: to, Tasks: []string{"T-1 done"}, Conflicts: []string{"T-2: 001 says done, 002 says open"}}, nil
}

func (s *shelfOf) options(o *Options) { o.Open, o.Past = s.open, s }

func TestSessionIsPicked(t *testing.T) {
	s := shelfWith("001", "002", "003")
	s.rows[0].Archived = true
	c := open(t, echo, s.options, func(o *Options) { o.Choose = true })
	c.Has("number or name")
	golden(t, "sessions", steadyAge(c.Screen()))
	c.Type("work 002\r")
	c.idle()
	if !slices.Equal(s.opened, []string{"002"}) {
		t.Errorf("opened %q", s.opened)
	}
	c.Type("\x04")
	c.left(0)

	s = shelfWith("001")
	c = open(t, echo, s.options, func(o *Options) { o.Choose = true })
	c.Has("number or name")
	c.Type("\r")
	c.left(0)
	c.Has("nothing was chosen")
	if len(s.opened) > 0 {
		t.Errorf("opened %q", s.opened)
	}
	c = open(t, echo, shelfWith().options, func(o *Options) { o.Choose = true })
	<-c.code
	if c.err == nil || !strings.Contains(c.err.Error(), "none to go on with") {
		t.Errorf("got %v", c.err)
	}
}

// steadyAge replaces how long ago something was, which differs from day to day.
func steadyAge(s string) string {
	out := []string{}
	for _, row := range strings.Split(s, "\n") {
		if i := strings.Index(row, "completed, "); i >= 0 {
			if j := strings.Index(row[i:], " ago"); j >= 0 {
				row = row[:i] + "completed, N" + row[i+j:]
			}
		}
		out = append(out, row)
	}
	return strings.Join(out, "\n")
}

// TestSwitch: the session that is left is closed before the other one is opened;
// what is half typed and the history stay.
func TestSwitch(t *testing.T) {
	s := shelfWith("001", "002", "003")
	c := open(t, echo, s.options)
	c.idle()
	c.Type("hello one\r")
	c.Has("You said **hello one**.")
	c.idle()
	c.Type("/sessions switch work 002\r")
	c.Has("session 002 goes on after 3 messages")
	golden(t, "switched", c.idle())
	c.Type("hello two\r")
	c.Has("You said **hello two**.")
	c.idle()
	first, second := s.of(t, "001"), s.of(t, "002")
	if !first.closed || len(s.alive) > 0 {
		t.Errorf("001 is closed: %v; alive at the time: %v", first.closed, s.alive)
	}
	if got, more := first.said(), second.said(); !slices.Equal(got, []string{"hello one"}) || !slices.Equal(more, []string{"hello two"}) {
		t.Errorf("001 heard %q, 002 %q", got, more)
	}
	// By the picker, and in the meantime a half line.
	c.Type("\x0c/sessions switch\r")
	c.Has("number or name")
	if strings.Contains(c.Screen(), "work 002") {
		t.Errorf("the session that goes on is offered:\n%s", c.Screen())
	}
	c.Type("003\r")
	c.Has("session 003 goes on")
	c.idle()
	c.Type("\x1b[A\x1b[A\x1b[A")
	c.Has("❯ hello two▏")
	c.Type("\x15\x0c/sessions\r")
	c.Has("/sessions switch goes on with one")
	c.Type("/sessions switch 003\r")
	c.Has("session 003 is this one")
	c.idle()
	c.Type("/sessions switch nothing\r")
	c.Has("no such session")
	c.idle()
	c.Type("/cost\r")
	c.Has("0 turns")
	c.Type("\x04")
	c.left(0)
	if f := s.of(t, "003"); !f.closed {
		t.Error("003 was not closed")
	}
}

// TestSwitchFails: what cannot be opened, or is stopped before it is there, leads
// back to where one was.
func TestSwitchFails(t *testing.T) {
	s := shelfWith("001", "002", "003")
	s.broken["002"] = &result.Error{Op: "open session", Path: "002", Err: errors.New("disk full"), Status: result.Failed, Hint: "make room"}
	s.hangs = make(chan struct{})
	c := open(t, echo, s.options)
	c.idle()
	c.Type("/sessions switch 002\r")
	c.Has("disk full")
	c.Has("back in session 001")
	c.idle()
	c.Type("\x0c/sessions switch 003\r")
	c.Has("sessions ❯ ▏")
	c.Type("a line meanwhile")
	c.Has("❯ a line meanwhile▏")
	c.Type("\x03")
	c.Has("back in session 001")
	c.Until("the line is kept", func(s string) bool { return strings.Contains(s, "ralph ❯ a line meanwhile▏") })
	c.Type("\r")
	c.Has("You said **a line meanwhile**.")
	c.idle()
	s.mu.Lock()
	s.broken["001"] = errors.New("locked")
	s.mu.Unlock()
	c.Type("\x0c/sessions switch 002\r")
	c.left(1)
	c.Has("locked")
}

// TestSwitchWhileItOpens: lines that come early wait for the session that they are
// typed in.
func TestSwitchWhileItOpens(t *testing.T) {
	s := shelfWith("001", "002", "003")
	s.hangs = make(chan struct{})
	c := open(t, echo, s.options)
	c.idle()
	c.Type("/sessions switch 003\r")
	c.Has("sessions ❯ ▏")
	c.Type("for three\r")
	c.Has("1 queued")
	close(s.hangs)
	c.Has("You said **for three**.")
	c.idle()
	if got := s.of(t, "003").said(); !slices.Equal(got, []string{"for three"}) || len(s.of(t, "001").said()) > 0 {
		t.Errorf("003 heard %q", got)
	}
	c.Type("\x04")
	c.left(0)
}

func TestLifeIsRefusedWhileWorkRuns(t *testing.T) {
	s := shelfWith("001", "002")
	s.turn = hang
	c := open(t, echo, s.options)
	c.idle()
	f := s.of(t, "001")
	c.Type("work\r")
	c.Has("thinking about it")
	for _, line := range []string{"/sessions switch 002", "/handoff", "/handoff 002", "/handoff to 002"} {
		c.Type("\x0c" + line + "\r")
		c.Until("the refusal of "+line, func(s string) bool { // to its end: nothing of it comes after the next Ctrl-L
			_, answer, said := strings.Cut(s, "\n❯ "+line+"\n")
			_, hint, refused := strings.Cut(answer, "does not work while Ralph works")
			return said && refused && strings.Contains(hint, "/stop ends the work") && strings.Contains(hint, "has ended\n")
		})
	}
	c.Type("\x0c/sessions 002\r")
	golden(t, "session", steadyAge(steadySince(c.Has("/handoff 002 brings here"))))
	c.Type("\x03")
	c.idle()
	f.mu.Lock()
	f.live.Background = []coordinator.Background{{ID: "bg-1", Command: "sleep 9"}}
	f.mu.Unlock()
	c.Type("/status\r\x0c/model llama-tiny\r")
	c.Has("model is now llama-tiny")
	if len(s.opened) != 1 || len(s.handed) != 0 {
		t.Errorf("opened %q, handed %q", s.opened, s.handed)
	}
	c.Type("\x04")
	c.left(0)
}

// steadySince replaces how long ago a session began.
func steadySince(s string) string {
	if i := strings.Index(s, "10:02 ("); i >= 0 {
		if j := strings.Index(s[i:], " ago)"); j >= 0 {
			s = s[:i] + "10:02 (N" + s[i+j:]
		}
	}
	return s
}

func TestHandoff(t *testing.T) {
	s := shelfWith("001", "002")
	c := open(t, echo, s.options)
	c.idle()
	c.Type("hello\r")
	c.Has("You said **hello**.")
	c.idle()
	c.Type("/handoff 002\r")
	c.Has("session 001 knows what session 002 knows, with 1 task state")
	c.Has("! T-2: 001 says done")
	c.idle()
	c.Type("/handoff to 002\r")
	c.Has("session 002 knows what session 001 knows")
	c.idle()
	c.Type("/handoff to\r")
	c.Has("/handoff to needs a session")
	c.Type("\x0c/handoff\r")
	c.Has("session 009 knows what session 001 knows")
	golden(t, "handed", c.idle())
	if f := s.of(t, "001"); !slices.Equal(f.how, []string{"handed on"}) {
		t.Errorf("001 is told that it ends so: %q", f.how)
	}
	if want := []string{"002 to 001", "001 to 002", "001 to 009"}; !slices.Equal(s.handed, want) || !slices.Equal(s.opened, []string{"", "new"}) {
		t.Errorf("handed %q, opened %q", s.handed, s.opened)
	}
	s.mu.Lock()
	s.fails = errors.New("disk full")
	s.mu.Unlock()
	c.Type("/handoff 001\r")
	c.Has("disk full")
	c.Has("nothing of session 001 is known here")
	c.Type("\x04")
	c.left(0)
}

// TestGreetingIsShort: whatever there is to say, in whatever width, in eight rows;
// a warning and a run that was interrupted are among them.
func TestGreetingIsShort(t *testing.T) {
	facts := []string{"sandbox: workspace (namespaces, Landlock (ABI 7), system call filter, limits); each command asks first",
		"12 open tasks (1 in progress, 2 interrupted, 9 pending); next: T-4 Retry the upload when the connection breaks off",
		"same session: session 004 (retry the upload) was interrupted 2 hours ago (SIGTERM)", "you said last: retry the upload when the connection breaks off",
		"outcome unknown, not run again by itself: shell go test ./...", "interrupted: T-4 Retry the upload, T-5 Log it", "2 messages not delivered yet",
		"on branch main: 4 files not committed, 2 commits since it began", "session 004 goes on after 12 messages; ralph chat --new, or /clear, begins anew",
		"note: the last Ralph here ended without closing the project, and this is a warning that is long", "note: another warning"}
	for _, cols := range []int{20, 40, 80, 200} {
		for n := range len(facts) + 1 {
			c := openSized(t, cols, 30, echo, func(o *Options) {
				o.Open = func(_ context.Context, l Link) (Mind, error) {
					f := &fake{turn: echo, model: "gpt-large", facts: facts[len(facts)-n:]}
					t.Cleanup(f.release)
					return f.attach(l), nil
				}
			})
			s := c.Until("the prompt", func(s string) bool { return strings.Contains(s, "ralph ❯ ▏") })
			head, _, _ := strings.Cut(s, "ralph ❯")
			if rows := strings.Count(strings.TrimSpace(head), "\n") + 1; rows > greetRows {
				t.Errorf("%d columns, %d facts: %d rows:\n%s", cols, n, rows, s)
			}
			if n > 0 && !strings.Contains(head, "! ") {
				t.Errorf("%d columns, %d facts: no warning:\n%s", cols, n, s)
			}
			if n == len(facts) && (cols == 40 || cols == 200) {
				golden(t, fmt.Sprintf("greeting-%d", cols), s)
			}
			c.Type("\x04")
			c.left(0)
		}
	}
}

// TestFarewellTellsTasks: what was done since the chat began, and what is open; also
// for one who is told to leave by a signal.
func TestFarewellTellsTasks(t *testing.T) {
	f := &fake{turn: func(ctx context.Context, f *fake, task string) result.Outcome {
		f.mu.Lock()
		f.live.Tasks = result.TaskCount{Done: 7, Failed: 1, Open: 2}
		f.mu.Unlock()
		return echo(ctx, f, task)
	}, model: "gpt-large"}
	f.live.Tasks = result.TaskCount{Done: 5, Open: 5}
	f.totals.Findings = 2
	c := open(t, nil, with(f))
	c.idle()
	c.Type("work\r")
	c.Has("You said")
	c.idle()
	c.Type("\x04")
	c.left(0)
	c.Has("· tasks: 2 done, 1 failed, 2 open\n")
	c.Has("· 2 findings: ralph insights session-001-test (--append")

	quiet := open(t, echo)
	quiet.idle()
	quiet.Type("\x04")
	quiet.left(0)
	if s := quiet.Screen(); strings.Contains(s, "--resume") || strings.Contains(s, "no file changed") {
		t.Errorf("nothing happened, and yet:\n%s", s)
	}
}

func TestFarewellAfterASignal(t *testing.T) {
	t.Parallel()
	p := spawn(t, "echo")
	p.Has("ralph ❯ ▏")
	p.Type("work\r")
	p.Has("You said **work**.")
	p.Has("ralph ❯ ▏")
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.Has("ralph chat --resume")
	p.Has("1 turn,")
	p.exited(143)
}

// TestThemesReachTheScreen: dark and light have colours, none and NO_COLOR have none,
// and plain has not one escape.
func TestThemesReachTheScreen(t *testing.T) {
	shown := map[string]string{}
	for _, theme := range []string{"dark", "light", "none", "no colour", "plain"} {
		c := open(t, func(_ context.Context, f *fake, _ string) result.Outcome {
			f.say(1, "# Head\n\nsome `code` and **more**\n\nthe end\n")
			return result.Outcome{}
		}, func(o *Options) {
			o.Theme = theme
			env := map[string]string{"TERM": "xterm-256color", "LANG": "C.UTF-8"}
			switch theme {
			case "no colour":
				o.Theme, env["NO_COLOR"] = "dark", "1"
			case "plain":
				o.Theme, o.Plain = "dark", true
			}
			o.Getenv = func(k string) string { return env[k] }
		})
		c.Until("the prompt", func(s string) bool { return strings.Contains(s, "▏") && strings.Contains(s, "/help") })
		c.Type("go\r")
		c.Has("the end")
		shown[theme] = fmt.Sprint(c.Received("\x1b[1m")+c.Received("\x1b[1;")+c.Received("\x1b[38")+c.Received("\x1b[3")+c.Received("\x1b[2m"), " ",
			c.Received("\x1b[38;5;"), " ", c.Received("\x1b"))
		c.Type("\x04")
		c.left(0)
	}
	t.Log(shown)
	for _, theme := range []string{"none", "no colour"} {
		if !strings.HasPrefix(shown[theme], "0 0 ") {
			t.Errorf("%s has colours: %s", theme, shown[theme])
		}
	}
	if strings.HasPrefix(shown["dark"], "0 ") || strings.HasPrefix(shown["light"], "0 ") {
		t.Errorf("there are no colours: %v", shown)
	}
	if shown["plain"] != "0 0 0" {
		t.Errorf("plain has escapes: %s", shown["plain"])
	}
}

// TestHistoryMakesItsPlace: the first line of the first chat of a user is kept.
func TestHistoryMakesItsPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "not", "there", "yet")
	c := open(t, echo, func(o *Options) { o.History = path })
	c.idle()
	c.Type("a line to keep\r")
	c.Has("You said")
	c.idle()
	c.Type("\x04")
	c.left(0)
	data, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(data), "a line to keep") {
		t.Errorf("kept %q, %v", data, err)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("its folder is %v, %v", info.Mode(), err)
	}
}

// What room the greeting has left goes to facts that would be cut.
func TestGreetingFillsItsRoom(t *testing.T) {
	t.Parallel()
	r := render.New(render.Options{Width: 40, Theme: render.ThemeNone})
	long := "sandbox: workspace (namespaces, Landlock (ABI 7), system call filter, limits), and so on"
	facts := []fact{{text: long, weight: weightSpared}, {text: "session 004 goes on after 2 messages; you said last: fix it", weight: weightStanding},
		{text: noted + "a warning that does not fit in a row of forty columns", weight: weightNoted}}
	for room, want := range map[int][]string{5: {"fix it", "forty columns"}, 3: {"session 004", "forty columns"}, 7: {"and so on", "fix it", "forty columns"}} {
		text := fitFacts(r, facts, room)
		for _, w := range want {
			if !strings.Contains(strings.Join(strings.Fields(text), " "), w) {
				t.Errorf("%d rows lack %q:\n%s", room, w, text)
			}
		}
		if n := strings.Count(text, "\n"); n > room {
			t.Errorf("%d rows where there is room for %d:\n%s", n, room, text)
		}
	}
}
