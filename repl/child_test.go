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

	"ralph/repl/ttytest"
)

// child is the chat as a process of its own, with a terminal that is its own.
func child(name string) int {
	if dir := os.Getenv("RALPH_TEST_PROJECT"); dir != "" {
		return whole(dir, name)
	}
	f := &fake{model: "gpt-large", turn: echo}
	if name == "hang" {
		f.turn = hang
	}
	code, err := Run(context.Background(), Options{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv,
		Open: func(_ context.Context, l Link) (Mind, error) {
			f.link = l
			return Mind{f, f, f, f, f}, nil
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
		return strings.Contains(s, "You said **still here**.") && strings.Contains(s, "ralph ❯ ▏")
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
	p := spawn(t, "hang")
	p.Has("ralph ❯ ▏")
	p.Type("work\r")
	p.Has("thinking")
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	p.Has("stopped; what was done")
	p.Has("ralph ❯ ▏")
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

// TestSuspend runs the chat under a shell with job control, as a user does.
func TestSuspend(t *testing.T) {
	shell, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	p := &process{TTY: ttytest.New(t, 80, 24), t: t}
	p.cmd = exec.Command(shell, "--norc", "--noprofile", "-i")
	p.cmd.Env = append(os.Environ(), "RALPH_TEST_CHAT=echo", "CHAT="+os.Args[0], "TERM=xterm", "LANG=C.UTF-8", "NO_COLOR=1", "PS1=shell> ", "TMUX=", "HISTFILE=")
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
	p.Type("half")
	p.Has("half▏")
	p.Type("\x1a")
	p.Has("Stopped")
	p.Until("the shell", func(s string) bool { return strings.HasSuffix(strings.TrimRight(s, "\n"), "shell> ▏") })
	p.Type("echo al''ive\r")
	p.Has("alive")
	p.Type("fg\r")
	p.Until("the half line again", func(s string) bool { return strings.HasSuffix(strings.TrimRight(s, "\n"), "ralph ❯ half▏") })
	p.Type("!\r")
	p.Has("You said **half!**.")
	p.Has("ralph ❯ ▏")
	p.Type("\x04")
	p.Until("the shell", func(s string) bool { return strings.HasSuffix(strings.TrimRight(s, "\n"), "shell> ▏") })
	p.Type("exit\r")
}
