package exec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// onTerminal is what playTerminal is to do.
type onTerminal struct {
	Argv     []string
	Dir      string
	Ends     string // ctx ends when there is a file of this name; "": never
	NonBlock bool
}

// playTerminal is a Ralph on a terminal of its own, that runs a program there.
func playTerminal(ctx context.Context) {
	var o onTerminal
	if err := json.Unmarshal([]byte(os.Getenv("PROC_TEST_TERMINAL")), &o); err != nil {
		fmt.Println(err)
		return
	}
	before, err := term.GetState(0)
	if err != nil {
		fmt.Println(err)
		return
	}
	if o.NonBlock {
		_ = unix.SetNonblock(0, true)
	}
	if o.Ends != "" {
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		go func() { // until this process ends
			for _, err := os.Stat(o.Ends); err != nil; _, err = os.Stat(o.Ends) {
				time.Sleep(5 * time.Millisecond)
			}
			cancel(errors.New("it is time"))
		}()
	}
	code, err := OnTerminal(ctx, o.Argv, os.Stdin, o.Dir, nil)
	after, _ := term.GetState(0)
	group, _ := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	flags, _ := unix.FcntlInt(0, unix.F_GETFL, 0)
	fmt.Printf("exit=%d err=%v own=%v modes=%v nonblock=%v.\n", code, err, group == unix.Getpgrp(), *before == *after, flags&unix.O_NONBLOCK != 0)
}

// seat is a terminal with somebody before it.
type seat struct {
	t     *testing.T
	tty   *os.File
	ralph int // its process group
	done  chan struct{}

	mu   sync.Mutex
	seen bytes.Buffer
}

func sit(t *testing.T, o onTerminal) *seat {
	t.Helper()
	task, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PROC_TEST_PART=terminal", "PROC_TEST_TERMINAL="+string(task), "TERM=xterm")
	tty, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	s := &seat{t: t, tty: tty, ralph: cmd.Process.Pid, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		buf := make([]byte, 4096)
		for {
			n, err := tty.Read(buf)
			s.mu.Lock()
			s.seen.Write(buf[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = tty.Close()
		<-s.done
	})
	return s
}

func (s *seat) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen.String()
}

// sees waits until a text is on the terminal.
func (s *seat) sees(text string) {
	s.t.Helper()
	s.seesAfter(0, text)
}

// seesAfter waits until a text is on the terminal behind the first n bytes.
func (s *seat) seesAfter(n int, text string) {
	s.t.Helper()
	for end := time.Now().Add(20 * time.Second); !strings.Contains(s.text()[n:], text); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("no %q on the terminal:\n%s", text, s.text())
		}
	}
}

// types sends keys to the program: a quick one is on the terminal before it has the
// foreground, and its Ctrl-C would be Ralph's.
func (s *seat) types(keys string) {
	s.t.Helper()
	if keys == "" {
		return
	}
	conn, err := s.tty.SyscallConn()
	if err != nil {
		s.t.Fatal(err)
	}
	group := s.ralph
	for end := time.Now().Add(20 * time.Second); group == s.ralph; time.Sleep(time.Millisecond) {
		var asked error
		if err := conn.Control(func(fd uintptr) { group, asked = unix.IoctlGetInt(int(fd), unix.TIOCGPGRP) }); err != nil || asked != nil || time.Now().After(end) {
			s.t.Fatalf("the program has no terminal: %v, %v\n%s", err, asked, s.text())
		}
	}
	if _, err := s.tty.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

func TestOnTerminal(t *testing.T) {
	t.Parallel()
	mark, now := marker(), func(what string) string { return filepath.Join(t.TempDir(), what) }
	obeys, deaf, stopped := now("obeys"), now("deaf"), now("stopped")
	cases := map[string]struct {
		do    onTerminal
		steps []string // what is seen, then what is typed
		want  string
	}{
		"reads and exits": {onTerminal{Argv: []string{"sh", "-c", "echo ready; read x; echo got:$x; exit 3"}}, []string{"ready", "hello\n"}, "exit=3 err=<nil> own=true modes=true"},
		"works in a directory": {onTerminal{Argv: []string{"sh", "-c", "pwd; exit 0"}, Dir: "/usr"}, []string{"/usr", ""},
			"exit=0 err=<nil> own=true modes=true"},
		// It leads the group that has the terminal, if not from its first moment.
		"in the foreground": {onTerminal{Argv: []string{"sh", "-c", `until set -- $(ps -o pid=,pgid=,tpgid= -p $$); [ $1 = $2 ] && [ $2 = $3 ]; do sleep 0.01; done; echo leads`}}, []string{"leads", ""}, "exit=0"},
		"stopped by a key":  {onTerminal{Argv: []string{"sh", "-c", "echo ready; read x; echo got:$x"}}, []string{"ready", "\x1a", "ready", "more\n", "got:more", ""}, "exit=0 err=<nil> own=true"},
		"stops itself":      {onTerminal{Argv: []string{"sh", "-c", "kill -STOP $$; echo on; kill -TSTP $$; echo again"}}, []string{"again", ""}, "exit=0 err=<nil> own=true"},
		"Ctrl-C is its own": {onTerminal{Argv: []string{"sh", "-c", "trap 'echo caught; exit 7' INT; echo ready; read x"}}, []string{"ready", "\x03", "caught", ""}, "exit=7 err=<nil> own=true"},
		"leaves odd modes":  {onTerminal{Argv: []string{"sh", "-c", "stty raw -echo -icanon; exit 0"}}, nil, "exit=0 err=<nil> own=true modes=true"},
		"is killed":         {onTerminal{Argv: []string{"sh", "-c", "stty raw -echo; kill -KILL $$"}}, nil, `exit=137 err=run "sh": it was ended by SIGKILL own=true modes=true`},
		"is interrupted":    {onTerminal{Argv: []string{"sh", "-c", "echo ready; read x"}}, []string{"ready", "\x03"}, `exit=130 err=run "sh": it was ended by SIGINT own=true`},
		"obeys the end":     {onTerminal{Argv: []string{"sh", "-c", "stty -echo; trap 'exit 4' TERM; : >" + obeys + "; while :; do sleep 0.05; done"}, Ends: obeys}, nil, `exit=4 err=run "sh": it is time own=true modes=true`},
		"is deaf":           {onTerminal{Argv: []string{"sh", "-c", "stty raw; trap '' TERM HUP; : >" + deaf + "; while :; do sleep " + mark + "; done"}, Ends: deaf}, nil, `exit=137 err=run "sh": it is time own=true modes=true`},
		"a stopped one ends": {onTerminal{Argv: []string{"sh", "-c", "trap '' TSTP; : >" + stopped + "; kill -STOP $$; sleep " + mark}, Ends: stopped}, nil,
			`exit=143 err=run "sh": it is time own=true`},
		"a file that does not block": {onTerminal{Argv: []string{"sh", "-c", "echo ready; cat"}, NonBlock: true}, []string{"ready", "line\n", "line\r\nline", "\x04"}, "exit=0 err=<nil> own=true modes=true nonblock=true"},
		"no such program":            {onTerminal{Argv: []string{"no-such-editor"}}, nil, `exit=0 err=start "no-such-editor": program not found in PATH own=true modes=true`},
		"not executable":             {onTerminal{Argv: []string{"/etc/passwd"}}, nil, `err=start "/etc/passwd": not executable own=true`},
		"nothing given":              {onTerminal{}, nil, `err=start "": no program given own=true`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sit(t, c.do)
			for i := 0; i+1 < len(c.steps); i += 2 {
				s.sees(c.steps[i])
				s.types(c.steps[i+1])
			}
			s.sees(c.want)
		})
	}
	t.Cleanup(func() { noneAlive(t, mark) })
}

// An editor that people use: it is stopped by Ctrl-Z in the middle, and goes on.
func TestVimOnTerminal(t *testing.T) {
	t.Parallel()
	vim, err := exec.LookPath("vim")
	if err != nil {
		t.Skip("there is no vim")
	}
	file := filepath.Join(t.TempDir(), "draft.md")
	s := sit(t, onTerminal{Argv: []string{vim, "-u", "NONE", "-i", "NONE", "-n", file}})
	s.sees("draft.md")
	s.types("ihello \x1b")
	s.sees("hello")
	n := len(s.text())
	s.types("\x1a")
	s.seesAfter(n, "hello") // it is back, and has drawn what there is
	s.types("aworld\x1b:wq\r")
	s.sees("exit=0 err=<nil> own=true modes=true")
	if text, err := os.ReadFile(file); err != nil || string(text) != "hello world\n" {
		t.Errorf("the file holds %q, %v", text, err)
	}
}

func TestOnTerminalWithoutOne(t *testing.T) {
	t.Parallel()
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var e *Error
	if _, err := OnTerminal(t.Context(), []string{"true"}, f, "", nil); !errors.As(err, &e) || e.Hint == "" || !errors.Is(err, errNoTerminal) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("over"))
	if _, err := OnTerminal(ctx, []string{"true"}, f, "", nil); err == nil || !strings.Contains(err.Error(), "over") {
		t.Errorf("error %v", err)
	}
	// A terminal that is not the controlling one has no foreground to give.
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer tty.Close()
	if code, err := OnTerminal(t.Context(), []string{"sh", "-c", "test -t 0 && exit 5"}, tty, "", nil); code != 5 || err != nil {
		t.Errorf("exit %d, %v", code, err)
	}
}
