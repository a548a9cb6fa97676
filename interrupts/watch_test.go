package interrupts_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"ralph/interrupts"
)

// childEnv makes the test binary the program that watchChild is.
const childEnv = "RALPH_TEST_WATCH"

// watchChild is a headless program: it says what it hears and ends as its kind
// says.
//
//	polite  0.1 s after the first signal, with its code
//	early   the same; its first signal comes before it does anything else
//	slow    after the second signal, with the code of the first
//	stuck   never on its own
//	deaf    never on its own, and nor does what it does about a signal
func watchChild() {
	kind := os.Getenv(childEnv)
	killed, never := make(chan struct{}), make(chan struct{})
	ctx, release := interrupts.WatchAgain(context.Background(), func(n int) {
		fmt.Println("again", n)
		switch {
		case kind == "deaf":
			<-never
		case n == 2:
			close(killed)
		case n == 3:
			os.Exit(130)
		}
	}, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	if kind == "early" {
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
			panic(err)
		}
	}
	fmt.Println("ready", signal.Ignored(syscall.SIGHUP))
	<-ctx.Done()
	stop, _ := interrupts.AsStop(context.Cause(ctx))
	fmt.Println(stop)
	switch kind {
	case "polite", "early":
		time.Sleep(100 * time.Millisecond)
	case "slow":
		<-killed
	default:
		<-never
	}
	release()
	os.Exit(128 + int(stop.Signal))
}

type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func startChild(t *testing.T, kind string, wrapper ...string) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	argv := append(wrapper, exe)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), childEnv+"="+kind)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return &child{t, cmd, bufio.NewScanner(out)}
}

func (c *child) says(want string) {
	c.t.Helper()
	if !c.lines.Scan() || c.lines.Text() != want {
		c.t.Fatalf("the child says %q (%v), want %q", c.lines.Text(), c.lines.Err(), want)
	}
}

func (c *child) signal(s syscall.Signal) {
	c.t.Helper()
	time.Sleep(30 * time.Millisecond) // a finger is slower than an echo
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

func (c *child) ends(want string) {
	c.t.Helper()
	for c.lines.Scan() {
		c.t.Errorf("the child also says %q", c.lines.Text())
	}
	_ = c.cmd.Wait()
	if got := c.cmd.ProcessState.String(); got != want {
		c.t.Errorf("the child ended with %q, want %q", got, want)
	}
}

func TestSignalsOfARealProcess(t *testing.T) {
	t.Run("one of each", func(t *testing.T) {
		for sig, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129} {
			c := startChild(t, "polite")
			c.says("ready false")
			c.signal(sig)
			c.says((&interrupts.Stop{Signal: sig}).Error())
			c.ends(fmt.Sprintf("exit status %d", code))
		}
	})
	t.Run("the first before anybody listens", func(t *testing.T) {
		c := startChild(t, "early")
		c.says("ready false")
		c.says("interrupted by SIGTERM")
		c.ends("exit status 143")
	})
	t.Run("a second, of another kind", func(t *testing.T) {
		c := startChild(t, "slow")
		c.says("ready false")
		c.signal(syscall.SIGHUP)
		c.says("interrupted by SIGHUP")
		c.signal(syscall.SIGTERM)
		c.says("again 2")
		c.ends("exit status 129")
	})
	t.Run("a third leaves", func(t *testing.T) {
		c := startChild(t, "stuck")
		c.says("ready false")
		c.signal(syscall.SIGINT)
		c.says("interrupted by SIGINT")
		c.signal(syscall.SIGINT)
		c.says("again 2")
		c.signal(syscall.SIGINT)
		c.says("again 3")
		c.ends("exit status 130")
	})
	t.Run("a fourth kills a program that hangs in all it does", func(t *testing.T) {
		c := startChild(t, "deaf")
		c.says("ready false")
		c.signal(syscall.SIGINT)
		c.says("interrupted by SIGINT")
		for _, n := range []string{"2", "3"} {
			c.signal(syscall.SIGINT)
			c.says("again " + n)
		}
		c.signal(syscall.SIGINT)
		c.ends("signal: interrupt")
	})
	t.Run("nohup", func(t *testing.T) {
		nohup, err := exec.LookPath("nohup")
		if err != nil {
			t.Skip("no nohup")
		}
		c := startChild(t, "polite", nohup)
		c.says("ready true")
		c.signal(syscall.SIGHUP)
		c.signal(syscall.SIGTERM)
		c.says("interrupted by SIGTERM")
		c.ends("exit status 143")
	})
	t.Run("timeout signals twice", func(t *testing.T) {
		timeout, err := exec.LookPath("timeout")
		if err != nil {
			t.Skip("no timeout")
		}
		c := startChild(t, "polite", timeout, "-s", "INT", "--preserve-status", "0.5")
		c.says("ready false")
		c.says("interrupted by SIGINT")
		c.ends("exit status 130")
	})
}

func TestWatchReleasedEarly(t *testing.T) {
	ctx, release := interrupts.WatchAgain(t.Context(), func(n int) { t.Errorf("again %d", n) })
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGWINCH); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	if ctx.Err() != nil {
		t.Fatal("no signals are not all signals")
	}
	release()
	release()
	if _, ok := interrupts.AsStop(context.Cause(ctx)); ok || !strings.Contains(ctx.Err().Error(), "canceled") {
		t.Errorf("a released watch reads as %v", context.Cause(ctx))
	}
}
