package hostile

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"ralph/coordinator"
	"ralph/interrupts"
	"ralph/scripts"
	"ralph/workers/exec"
)

// roleEnv makes this binary play a part in a process of its own.
const roleEnv = "HOSTILE_ROLE"

// base holds all worlds of this run. It is not in /tmp, which a command sees as
// a directory of its own: an attack from there would miss for the wrong reason.
var base string

func TestMain(m *testing.M) {
	exec.Init()
	switch os.Getenv(roleEnv) {
	case "ralph":
		os.Exit(ralph())
	case "listen":
		os.Exit(listen())
	}
	os.Exit(corpusMain(m))
}

func corpusMain(m *testing.M) int {
	cache, err := os.UserCacheDir()
	if err != nil || os.MkdirAll(cache, 0o755) != nil {
		cache = os.TempDir()
	}
	if base, err = os.MkdirTemp(cache, "ralph-hostile-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// Most of the time is spent waiting for other processes.
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	code := m.Run()
	if err := removeAll(base); err != nil {
		fmt.Fprintln(os.Stderr, "clean up:", err)
		code = 1
	}
	return code
}

// ralph is the program as main.go wires it, but for the chat.
func ralph() int {
	_ = os.Unsetenv(roleEnv)
	ctx, release := interrupts.WatchAgain(context.Background(), func(n int) {
		if n >= 3 {
			os.Exit(130)
		}
	}, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer release()
	dir, err := os.Getwd()
	if err != nil {
		return 1
	}
	return scripts.Main(ctx, scripts.App{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Init: exec.Self(), Environ: os.Environ(), Dir: dir,
		Open: func(ctx context.Context, o coordinator.Options) (scripts.Coordinator, error) {
			c, err := coordinator.Open(ctx, o)
			if err != nil {
				return nil, err
			}
			return c, nil
		},
	}, os.Args[1:])
}

// listen is an agent that serves something on TCP, which Ralph does not.
func listen() int {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 1
	}
	defer ln.Close()
	time.Sleep(20 * time.Second)
	return 0
}
