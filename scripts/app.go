package scripts

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/recovery"
	"ralph/coordinator/result"
	"ralph/coordinator/sessions"
	"ralph/memory/config"
	"ralph/memory/text"
	"ralph/workers/model"
)

// App is the program as main sees it: what it is made of and the world that it
// runs in. Main takes it by value and starts nothing that outlives the call.
type App struct {
	Version, Commit, Date string

	Stdin          io.Reader // read only when it is a pipe or a file, or asked for with "-"
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Environ        []string
	Dir            string // the working directory, absolute
	// Init executes this program again as the first process of namespaces; see
	// exec.Options.
	Init []string

	// Chat runs the shell and returns the exit code; an error is printed by
	// Main, and sets the code.
	Chat func(context.Context, ChatOptions) (int, error)
	// Demo runs the recorded demonstration, like Chat.
	Demo func(context.Context, DemoOptions) (int, error)
	// Open opens the coordinator of a project; the caller closes it.
	Open func(context.Context, coordinator.Options) (Coordinator, error)
	// Connect chooses the endpoint as a run would and returns a client for it;
	// the client may be used until ctx ends. An error says why there is none.
	Connect func(context.Context, *config.Config) (model.Endpoint, Client, error)
	// Again is handed what further signals do, once, before any work begins: 2 is
	// kill now, 3 is leave at once, after which the caller ends the process. It
	// may be called from any goroutine, also after Main; nil: nobody calls it.
	Again func(do func(n int))
	// Render shows Markdown on a terminal that is so many columns wide; theme is the
	// setting of that name. It is called for a terminal only; nil shows it as it is.
	Render func(markdown string, width int, theme string, getenv func(string) string) string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Coordinator is what this face uses of the one Ralph of a project. It is used
// from one goroutine.
type Coordinator interface {
	Run(ctx context.Context, j coordinator.Job) result.Outcome
	Record(doc json.RawMessage) error
	Steps
	Endpoint() model.Endpoint
	Close() error
}

// Steps takes turns back, and brings them back.
type Steps interface {
	Undo(ctx context.Context, n int, tell func(notes []string)) (coordinator.Undone, error)
	Redo(ctx context.Context, n int, tell func(notes []string)) (coordinator.Undone, error)
}

// ChatOptions is what the chat gets from the command line.
type ChatOptions struct {
	Version string
	Root    string // of the project, absolute, symlinks resolved
	Dir     string // where the user stands, absolute
	Config  *config.Config
	RunID   string
	// Session is "" when the user did not say, "new", "last", or an id, a
	// unique prefix of one or a name.
	Session string
	// Choose asks for the session to be picked from those of Past first.
	Choose bool
	// Past is the hand on the sessions of the project.
	Past *sessions.Sessions
	// Begin makes what a coordinator needs but for Proc, Eyes and Ask: with "" for
	// Session, else for the id of a session that the user picked, or "new". It looks
	// how the last Ralph ended, which may take seconds, so it is called once the
	// user sees something. It may be called again when the coordinator was closed.
	Begin func(ctx context.Context, picked string) (coordinator.Options, error)
	// Script, when set, is played in place of Stdin and Stdout.
	Script *ChatScript
	// Opening is what Ralph itself tells the model before the user says anything,
	// so that it speaks first; "" for nothing.
	Opening string
	// First is a line that the user gave with the command, as if it were typed once
	// the chat has greeted; "" for none.
	First          string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Environ        []string
}

// DemoOptions is what the demonstration gets from the command line.
type DemoOptions struct {
	Config         *config.Config
	RunID          string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Environ        []string
}

// invocation is one call of Main.
type invocation struct {
	App
	keys   []config.Key
	form   string // text, json or jsonl
	result *Result
	out    *output
	// stamped says that the result knows how long the run took.
	stamped bool
	warned  map[string]bool

	parsed  bool // the flags could be parsed
	version bool // --version was given

	cfg  *config.Config // nil until loaded
	dir  string         // where the user works, absolute, symlinks resolved
	root string         // the project's root

	taking *recovery.Report // what a task goes on with, nil for none
	alarm  *notifier        // nil: nobody is told that long work ends
	force  bool             // end a Ralph that holds the project

	code int
	done bool // the result is out

	leaving leaving
}

// Main runs the program with the arguments that follow its name, and returns
// its exit code. The end of ctx stops it; the cause of the end, such as an
// *interrupts.Stop, decides the code.
func Main(ctx context.Context, app App, args []string) (code int) {
	inv := newInvocation(app)
	// A write to a closed standard output is to be an error that ends the work
	// in order, not a signal that kills the process. Commands started meanwhile
	// are not affected: a caught signal is reset in them, an ignored one is not.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	defer signal.Stop(pipe)
	defer func() {
		if p := recover(); p != nil {
			code = inv.panicked(p, debug.Stack())
		}
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	inv.out.broke = cancel
	if app.Again != nil {
		app.Again(inv.again)
	}
	if err := inv.dispatch(ctx, args); err != nil {
		return inv.fail(err)
	}
	return inv.code
}

func newInvocation(app App) *invocation {
	if app.Now == nil {
		app.Now = time.Now
	}
	if app.Getenv == nil {
		app.Getenv = func(string) string { return "" }
	}
	now := app.Now()
	inv := &invocation{App: app, form: outputText, warned: map[string]bool{}}
	inv.result = newResult(newRunID(now), now)
	inv.out = newOutput(app.Stdout)
	return inv
}

// newRunID names a run by its start and a little chance; the name can stand in
// file names and git refs.
func newRunID(now time.Time) string {
	var b [3]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never fails
	return "r-" + now.UTC().Format("20060102-150405") + "-" + hex.EncodeToString(b[:])
}

// warning keeps a warning for the document and shows it, once.
func (inv *invocation) warning(text string) {
	if inv.warned[text] {
		return
	}
	inv.warned[text] = true
	inv.result.Warnings = append(inv.result.Warnings, text)
	inv.showWarning(text)
}

func (inv *invocation) showWarning(text string) {
	if inv.cfg == nil || !inv.cfg.Quiet {
		warn(inv.Stderr, text)
	}
}

// fail ends the invocation with an error: in the document, on standard error
// and in the exit code.
func (inv *invocation) fail(err error) int {
	status, signal, failure := ending(err)
	inv.result.end(status, signal, failure)
	return inv.finish()
}

// panicked ends the invocation after a panic. The stack goes to a file: it is
// for a report, not for the person at the terminal.
func (inv *invocation) panicked(p any, stack []byte) int {
	if first, ok := p.(interface{ Stack() []byte }); ok {
		stack = first.Stack() // it was thrown on from there
	}
	content := fmt.Sprintf("panic: %v\n\n%s", p, stack)
	hint := "this is a bug in Ralph; --verbose shows the stack"
	if name, err := keepStack(content); err == nil {
		inv.result.LogFile = &name
		hint = "this is a bug in Ralph; the stack is in " + name
	}
	if inv.cfg != nil && inv.cfg.Verbose {
		fmt.Fprintln(inv.Stderr, text.Visible(content))
	}
	if inv.done {
		// There is one result, and it stands: only the end went wrong.
		explain(inv.Stderr, fmt.Sprintf("internal error: %v", p), hint)
		return 1
	}
	return inv.fail(broken("internal", hint, nil, "internal error: %v", p))
}

func keepStack(text string) (name string, err error) {
	f, err := os.CreateTemp("", "ralph-panic-*.txt")
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(text)
	return f.Name(), errors.Join(err, f.Close())
}
