package repl

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"ralph/coordinator/result"
	"ralph/repl/ttytest"
	"ralph/workers/agent"
)

// flood writes as fast as it can until it is stopped.
func flood(ctx context.Context, f *fake, _ string) result.Outcome {
	f.link.Eyes(agent.Event{Type: agent.EventTurnStart, Turn: 1})
	for i := 0; ctx.Err() == nil; i++ {
		f.link.Eyes(agent.Event{Type: agent.EventMessageDelta, Turn: 1, Text: fmt.Sprintf("paragraph %d with some words\n\n", i)})
		if i%20 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	return result.Outcome{}
}

// TestThirdInterruptWhenEverythingHangs: the turn is deaf and every look at the
// coordinator hangs, in the lock that it holds.
func TestThirdInterruptWhenEverythingHangs(t *testing.T) {
	t.Parallel()
	for name, press := range map[string]func(*process){
		"keys":    func(p *process) { p.Type("\x03") },
		"signals": func(p *process) { _ = p.cmd.Process.Signal(syscall.SIGINT) },
	} {
		t.Run(name, func(t *testing.T) {
			p := spawn(t, "frozen")
			p.Has("ralph ❯ ▏")
			p.Type("work\r")
			p.Has("deaf")
			p.Type("half")
			p.Has("half▏")
			began := time.Now()
			press(p)
			press(p)
			press(p)
			again := time.NewTicker(50 * time.Millisecond)
			defer again.Stop()
			over := make(chan struct{})
			var pressing sync.WaitGroup
			pressing.Go(func() { // two signals that wait are one
				for name == "signals" {
					select {
					case <-again.C:
						press(p)
					case <-over:
						return
					}
				}
			})
			p.exited(130)
			close(over)
			pressing.Wait()
			t.Logf("left after %v", time.Since(began))
			if took := time.Since(began); took > leaveWait {
				t.Errorf("leaving took %v", took)
			}
		})
	}
}

// TestThirdInterruptOnAStuckTerminal: nobody takes what is written, as after a
// Ctrl-S.
func TestThirdInterruptOnAStuckTerminal(t *testing.T) {
	t.Parallel()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	before, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	mark := filepath.Join(t.TempDir(), "began")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "RALPH_TEST_CHAT=deaf flood", "RALPH_TEST_MARK="+mark, "TERM=xterm", "LANG=C.UTF-8")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(ttytest.Patience, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	defer slave.Close()
	seen := make([]byte, 4096)
	for text := ""; !strings.Contains(text, "❯"); {
		n, err := master.Read(seen)
		if err != nil {
			t.Fatalf("%v after %q", err, text)
		}
		text += string(seen[:n])
	}
	_, _ = io.WriteString(master, "work\r")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	for end := time.Now().Add(ttytest.Patience); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(mark); err == nil || time.Now().After(end) {
			break
		}
	}
	time.Sleep(200 * time.Millisecond) // until the terminal is full
	began := time.Now()
	for range 3 { // a fourth would be a signal for the terminal that was given back
		_, _ = io.WriteString(master, "\x03")
		time.Sleep(50 * time.Millisecond)
	}
	<-ended
	t.Logf("left after %v", time.Since(began))
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("left with %v after %v", cmd.ProcessState, time.Since(began))
	}
	after, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil || *after != *before {
		t.Errorf("modes are %+v, were %+v, %v", after, before, err)
	}
}

// TestResizeStorm: sizes from nothing to huge, hundreds of them, while output
// streams and somebody types.
func TestResizeStorm(t *testing.T) {
	t.Parallel()
	p := spawn(t, "flood")
	p.Has("ralph ❯ ▏")
	p.Type("work\r")
	p.Has("paragraph")
	p.Type("half a line that is longer than some of the widths")
	sizes := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		p.Resize(1+sizes.IntN(500), 1+sizes.IntN(200))
		if sizes.IntN(4) == 0 {
			p.Resize(1, 1)
		}
		time.Sleep(time.Millisecond)
	}
	p.Resize(90, 24)
	p.Type("\x03")
	p.Has("talk ❯ half")
	p.Type("\x0c!")
	p.Has("talk ❯ half a line that is longer than some of the widths!▏")
	p.Type("\x03\x04")
	p.exited(0)
}

// TestTerminalLoss: the terminal vanishes while somebody types, while a question
// or a picker is open, and while output streams. The chat ends at once with 129.
func TestTerminalLoss(t *testing.T) {
	for name, c := range map[string]struct {
		turn   string
		before func(*process)
	}{
		"typing":  {"echo", func(p *process) { p.Type("half"); p.Has("half▏") }},
		"working": {"hang", func(p *process) { p.Type("work\r"); p.Has("thinking") }},
		"flooded": {"flood", func(p *process) { p.Type("work\r"); p.Has("paragraph") }},
		"asked":   {"asks", func(p *process) { p.Type("work\r"); p.Has("answer ? ▏") }},
		"picking": {"echo", func(p *process) { p.Type("/model\r"); p.Has("llama-tiny") }},
	} {
		for _, how := range []string{"closed", "hung up"} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				p := spawn(t, c.turn)
				p.Has("ralph ❯ ▏")
				c.before(p)
				began := time.Now()
				if how == "closed" {
					_ = p.Slave.Close()
					_ = p.Master.Close()
				} else if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
					t.Fatal(err)
				}
				late := time.AfterFunc(ttytest.Patience, func() { _ = p.cmd.Process.Kill() })
				defer late.Stop()
				_ = p.cmd.Wait()
				usage, _ := p.cmd.ProcessState.SysUsage().(*syscall.Rusage)
				if code := p.cmd.ProcessState.ExitCode(); code != 129 || time.Since(began) > 10*time.Second {
					t.Errorf("left with %d after %v, %+v", code, time.Since(began), usage)
				}
			})
		}
	}
}

// TestReaderLeaves: nobody reads the piped output any more.
func TestReaderLeaves(t *testing.T) {
	t.Parallel()
	for _, turn := range []string{"flood", "echo"} {
		t.Run(turn, func(t *testing.T) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "RALPH_TEST_CHAT="+turn, "TERM=xterm", "LANG=C.UTF-8")
			var trouble strings.Builder
			cmd.Stderr = &trouble
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			late := time.AfterFunc(ttytest.Patience, func() { _ = cmd.Process.Kill() })
			defer late.Stop()
			_, _ = bufio.NewReader(out).ReadString('\n')
			_ = out.Close()
			for range 3 {
				_, _ = io.WriteString(in, "work\n")
			}
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != 128+int(syscall.SIGPIPE) || trouble.Len() > 0 {
				t.Errorf("left with %v and said %q", cmd.ProcessState, trouble.String())
			}
		})
	}
}
