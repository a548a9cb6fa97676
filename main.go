// Ralph is a shell in which one coordinator works on a software project, and in
// which the human always has the last word.
//
// The house:
//
//	            main.go                      arguments in, exit code out; the only wiring
//	       ┌───────┴────────┐
//	     repl/           scripts/            two faces of one Ralph: the shell · the command line
//	       └───────┬────────┘
//	         coordinator/                    the one main Ralph: runs, checks, records
//	   ┌───────────┼────────────┐
//	workers/    memory/    interrupts/       hands · what is known · what the human says
//
// Imports only go down, and the three at the bottom do not know each other;
// main_test.go enforces it.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"syscall"

	"ralph/coordinator"
	"ralph/interrupts"
	"ralph/memory/config"
	"ralph/repl"
	"ralph/repl/render"
	"ralph/scripts"
	"ralph/scripts/demo"
	"ralph/workers/exec"
	"ralph/workers/model"
)

// Set by the linker; see the Makefile.
var version, commit, date string

func main() {
	exec.Init()
	if err := addresses(); err != nil {
		fmt.Fprintln(os.Stderr, "ralph: error:", err)
		os.Exit(1)
	}
	var do atomic.Pointer[func(n int)] // what further signals do; the chat counts its own
	ctx, release := interrupts.WatchAgain(context.Background(), func(n int) {
		if again := do.Load(); again != nil {
			if (*again)(n); n >= 3 {
				os.Exit(130)
			}
		}
	}, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := run(ctx, &do, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	release()
	os.Exit(code)
}

// addresses returns an error when a limit leaves less address space than Ralph and its
// commands work with: Go ends a program that gets no more with a dump and exit 2. Below about
// 1.3 GiB that happens before main.
func addresses() error {
	const least = 2 << 30
	var now syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_AS, &now) == nil && now.Cur < least {
		return fmt.Errorf("start: the address space is limited to %d MiB (ulimit -v), and Ralph needs at least %d; raise it, or bound commands by --command-memory instead", now.Cur>>20, least>>20)
	}
	return nil
}

// run is the whole program but for the process: the exit code is its result.
func run(ctx context.Context, do *atomic.Pointer[func(int)], args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	dir, err := os.Getwd()
	if err != nil {
		dir = "." // scripts says what cannot be done without a directory
	}
	return scripts.Main(ctx, scripts.App{
		Version: version, Commit: commit, Date: date,
		Stdin: stdin, Stdout: stdout, Stderr: stderr,
		Getenv: os.Getenv, Environ: os.Environ(), Dir: dir, Init: exec.Self(),
		Chat: func(ctx context.Context, o scripts.ChatOptions) (int, error) {
			do.Store(nil)
			return chat(ctx, o)
		},
		Demo: demonstrate, Open: open, Connect: connect,
		Again:  func(again func(int)) { do.Store(&again) },
		Render: render.Page,
	}, args)
}

func open(ctx context.Context, o coordinator.Options) (scripts.Coordinator, error) {
	c, err := coordinator.Open(ctx, o)
	if err != nil {
		return nil, err // not a nil *Coordinator in an interface
	}
	return c, nil
}

func connect(ctx context.Context, cfg *config.Config) (model.Endpoint, scripts.Client, error) {
	client, err := coordinator.Connect(ctx, cfg, os.Getenv)
	if err != nil {
		return model.Endpoint{}, nil, err
	}
	context.AfterFunc(ctx, client.Close)
	return client.Endpoint(), client, nil
}

func demonstrate(ctx context.Context, o scripts.DemoOptions) (int, error) {
	if err := os.Setenv("GOFLAGS", ""); err != nil { // the recorded output of go test is without flags
		return 1, err
	}
	return demo.Run(ctx, demo.Options{Stdout: o.Stdout, RunID: o.RunID, Getenv: o.Getenv, Init: exec.Self()})
}

// chat joins the shell to a coordinator. The shell handles the signals itself,
// so that a Ctrl-C stops a turn and not the program.
func chat(ctx context.Context, o scripts.ChatOptions) (int, error) {
	in, _ := o.Stdin.(*os.File)
	out, _ := o.Stdout.(*os.File)
	errs, _ := o.Stderr.(*os.File)
	return repl.Run(context.WithoutCancel(ctx), repl.Options{
		In: in, Out: out, Err: errs, Getenv: o.Getenv, Version: o.Version, Theme: o.Config.Theme, Notify: o.Config.Notify, Opening: o.Opening, First: o.First,
		Plain: o.Config.Plain, EditMode: o.Config.EditMode, Script: (*repl.Script)(o.Script), Past: o.Past, Choose: o.Choose,
		History: config.HistoryFile(o.Getenv, o.Root), Draft: config.DraftFile(o.Getenv, o.Root),
		Open: func(ctx context.Context, l repl.Link) (repl.Mind, error) {
			opts, err := o.Begin(ctx, l.Session)
			if err != nil {
				return repl.Mind{}, err
			}
			opts.Proc, opts.Eyes, opts.Ask = exec.New(exec.Options{Method: o.Getenv("RALPH_PROC"), Init: exec.Self(), Project: opts.Root}), l.Eyes, l.Ask
			c, err := coordinator.Open(ctx, opts)
			if err != nil {
				return repl.Mind{}, err
			}
			return repl.Mind{Turns: c, Queue: c, Control: c, Models: c, Changes: c, About: c, State: c, Crew: c, Trees: c, Plans: c, Hands: c}, nil
		},
	})
}
