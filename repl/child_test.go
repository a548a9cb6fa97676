package repl

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ralph/coordinator/permission"
	"ralph/coordinator/result"
	"ralph/repl/ttytest"
)

// child is the chat as a process of its own, with a terminal that is its own.
func child(name string) int {
	if dir := os.Getenv("RALPH_TEST_PROJECT"); dir != "" {
		return whole(dir, name)
	}
	f := &fake{model: "gpt-large", turn: echo}
	switch name {
	case "hang":
		f.turn = hang
	case "asks":
		f.turn = func(ctx context.Context, f *fake, _ string) result.Outcome {
			_, _ = f.link.Ask(ctx, permission.Question{Kind: "question", Text: "which?"})
			return result.Outcome{}
		}
	case "leads":
		f.turn = func(ctx context.Context, f *fake, task string) result.Outcome {
			f.team()
			defer f.alone()
			_, _ = f.link.Ask(ctx, permission.Question{Kind: "permission", Agent: "auth", Tool: "shell", Rule: "push always asks", Dir: "/home/me/project/web", Target: "git push \\\n  origin main", Options: []string{"no", "yes"}})
			return leading(ctx, f, task)
		}
	case "plans":
		f.turn, f.root, f.plan = working, os.Getenv("RALPH_TEST_MARK"), shelf()
	case "hands":
		f.turn, f.plan = counting, shelf()
	case "flood":
		f.turn = flood
	case "deaf flood":
		f.turn = func(_ context.Context, f *fake, task string) result.Outcome {
			_ = os.WriteFile(os.Getenv("RALPH_TEST_MARK"), nil, 0o600)
			return flood(context.Background(), f, task)
		}
	case "frozen":
		// Nothing answers: the turn is deaf, and so is every look at it.
		f.turn = func(_ context.Context, f *fake, _ string) result.Outcome {
			f.say(1, "deaf")
			f.liveHangs = make(chan struct{})
			f.mu.Lock()
			select {}
		}
	}
	code, err := Run(context.Background(), Options{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Draft: os.Getenv("RALPH_TEST_DRAFT"), Version: "1.2", Theme: os.Getenv("RALPH_TEST_THEME"),
		Open: func(_ context.Context, l Link) (Mind, error) {
			m := f.attach(l)
			m.Hands = &ownHands{paths: tree()}
			return m, nil
		},
	})
	if err != nil {
		return 99
	}
	return code
}

type process struct {
	*ttytest.TTY
	t      *testing.T
	cmd    *exec.Cmd
	before unix.Termios
}

func spawn(t *testing.T, name string) *process {
	t.Helper()
	return begin(t, 80, 24, append(os.Environ(), "RALPH_TEST_CHAT="+name, "TERM=xterm", "LANG=C.UTF-8", "NO_COLOR=1", "TMUX="))
}

// begin runs this test program as a chat on a terminal of its own; it ends with
// the test.
func begin(t *testing.T, cols, rows int, env []string) *process {
	t.Helper()
	p := &process{TTY: ttytest.New(t, cols, rows), t: t}
	p.before = *p.modes()
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = env
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = p.Slave, p.Slave, p.Slave
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
	})
	return p
}

func (p *process) modes() *unix.Termios {
	p.t.Helper()
	m, err := unix.IoctlGetTermios(int(p.Slave.Fd()), unix.TCGETS)
	if err != nil {
		p.t.Fatal(err)
	}
	return m
}

// exited waits for the end and proves that the terminal is as it was.
func (p *process) exited(want int) {
	p.t.Helper()
	late := time.AfterFunc(ttytest.Patience, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	if got := p.cmd.ProcessState.ExitCode(); got != want {
		p.t.Errorf("exit code %d, want %d; the screen is\n%s", got, want, p.Screen())
	}
	if m := p.modes(); *m != p.before {
		p.t.Errorf("modes are %+v, were %+v", m, p.before)
	}
}

func TestPickerOnATerminal(t *testing.T) {
	p := spawn(t, "echo")
	p.Has("ralph ❯ ▏")
	p.Type("/model\r")
	golden(t, "picker", p.Has("llama-tiny"))
	p.Type("sm")
	p.Lacks("llama-tiny")
	p.Type("\r")
	p.Has("model is now gpt-small")
	p.Has("ralph ❯ ▏")
	p.Type("/model\r")
	p.Has("llama-tiny")
	p.Type("\x1b[B\x1b[B\x1b[B")
	p.Type("\r")
	p.Has("model is now llama-tiny")
	p.Type("/model\r")
	p.Until("the menu again", func(s string) bool { return strings.Contains(s, "gpt-large") && strings.Contains(s, "model: ") })
	p.Type("\x1b")
	p.Has("model stays llama-tiny")
	p.Has("ralph ❯ ▏")
	p.Type("still here\r")
	golden(t, "picked", p.Until("the answer", func(s string) bool {
		return strings.Contains(s, "You said **still here**.\n· ") && strings.Contains(s, "ralph ❯ ▏")
	}))
	p.Type("\x04")
	p.exited(0)
}

func TestSignals(t *testing.T) {
	for sig, want := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGHUP: 129} {
		t.Run(sig.String(), func(t *testing.T) {
			p := spawn(t, "hang")
			p.Has("ralph ❯ ▏")
			p.Type("work\r")
			p.Has("thinking")
			if err := p.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			p.exited(want)
		})
	}
}

func TestSignalInterruptIsControlC(t *testing.T) {
	t.Parallel()
	p := spawn(t, "hang")
	p.Has("ralph ❯ ▏")
	p.Type("work\r")
	p.Has("thinking")
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	p.Has("stopped, work kept")
	p.Has("ralph talk ❯ ▏")
	p.Type("\x04")
	p.exited(0)
}

func TestResizeIsSeen(t *testing.T) {
	p := spawn(t, "echo")
	p.Has("ralph ❯ ▏")
	p.Type("a line")
	p.Has("a line▏")
	p.Resize(40, 24)
	p.Type(" that is longer than forty columns are")
	golden(t, "resized", p.Until("two rows", func(s string) bool { return strings.Contains(s, "\ncolumns are▏") || strings.Contains(s, "are▏") }))
	p.Type("\x03\x04")
	p.exited(0)
}

// job is the chat under a shell with job control, as a user runs it.
func job(t *testing.T, name string) *process {
	t.Helper()
	shell, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	p := &process{TTY: ttytest.New(t, 80, 24), t: t}
	p.cmd = exec.Command(shell, "--norc", "--noprofile", "-i")
	p.cmd.Env = append(os.Environ(), "RALPH_TEST_CHAT="+name, "CHAT="+os.Args[0], "TERM=xterm", "LANG=C.UTF-8", "NO_COLOR=1", "PS1=shell> ", "TMUX=", "HISTFILE=")
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = p.Slave, p.Slave, p.Slave
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	p.Has("shell> ▏")
	p.Type("\"$CHAT\"; echo left $?\r")
	p.Has("ralph ❯ ▏")
	return p
}

// ends waits until the screen ends with text.
func (p *process) ends(text string) string {
	p.t.Helper()
	return p.Until("at the end "+text, func(s string) bool { return strings.HasSuffix(strings.TrimRight(s, "\n"), text) })
}

// suspended stops the chat by the key or by a signal from outside, changes the
// size meanwhile and lets it go on.
func (p *process) suspended(stop func()) {
	p.t.Helper()
	p.Type("half")
	p.Has("half▏")
	stop()
	p.Has("Stopped")
	p.ends("shell> ▏")
	if m := p.modes(); m.Lflag&unix.ECHO == 0 && m.Lflag&unix.ICANON == 0 && m.Oflag&unix.OPOST == 0 {
		p.t.Error("the terminal is raw while the chat is stopped")
	}
	p.Type("echo al''ive\r")
	p.Has("alive")
	p.Resize(60, 20)
	p.Type("fg\r")
	p.Until("the half line again", func(s string) bool { return strings.Contains(s, " half▏") })
}

func TestSuspend(t *testing.T) {
	p := job(t, "echo")
	p.suspended(func() { p.Type("\x1a") })
	p.Type("!\r")
	p.Has("You said **half!**.")
	p.Has("ralph ❯ ▏")
	p.Type("\x04")
	p.ends("shell> ▏")
	p.Type("exit\r")
}

// TestSuspendFromOutside stops a chat that works by a signal of somebody else; the
// work is there when it goes on.
func TestSuspendFromOutside(t *testing.T) {
	p := job(t, "hang")
	p.Type("work\r")
	p.Has("thinking")
	group := p.Foreground()
	for range 2 {
		p.suspended(func() { _ = unix.Kill(group, unix.SIGTSTP) })
		p.Type("\x15")
		p.Lacks("half▏")
	}
	p.Type("still typing")
	p.Has("still typing▏")
	p.Type("\x03")
	p.Has("talk ❯ still typing▏")
	p.Type("\x03\x04")
	p.ends("shell> ▏")
	p.Type("exit\r")
}

// TestOrphanGoesOn: where nobody could let the chat go on, Ctrl-Z does nothing.
func TestOrphanGoesOn(t *testing.T) {
	p := spawn(t, "echo") // the leader of its session
	p.Has("ralph ❯ ▏")
	p.Type("half")
	p.Has("half▏")
	p.Type("\x1a")
	if err := p.cmd.Process.Signal(unix.SIGTSTP); err != nil {
		t.Fatal(err)
	}
	p.Type("!")
	p.Has("half!▏")
	p.Type("\r")
	p.Has("You said **half!**.")
	p.Has("ralph ❯ ▏")
	p.Type("\x04")
	p.exited(0)
}
