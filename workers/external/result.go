package external

import (
	"context"
	"errors"
	"time"

	"ralph/workers/agent"
	"ralph/workers/exec"
	"ralph/workers/exec/supervise"
)

// Why a run of an agent was not clean. Result.Err wraps one of these, the cause of
// the context, or what proc says.
var (
	ErrMismatch = errors.New("the program does not take the arguments that Ralph gives it")
	ErrMissing  = errors.New("the program is not installed")
	ErrTimeout  = errors.New("the time for one run is used up")
	ErrIdle     = errors.New("nothing was printed for too long")
	ErrQuota    = errors.New("the quota or rate of its model is used up")
	ErrAccess   = errors.New("its model refused the credentials")
	ErrDenied   = errors.New("all its tools were denied")
	ErrFailed   = errors.New("the agent failed")
	ErrPrompt   = errors.New("the prompt is too long for an argument of a program")
)

// Kind is the kind of an error, in the words of the loop, and one more for an
// adapter that does not fit the installed program.
type Kind string

// The kinds. KindNone is that of a clean run and of one that was stopped.
const (
	KindNone       Kind = ""
	KindValidation Kind = "validation"
	KindExecution  Kind = "execution"
	KindResource   Kind = "resource" // quota, rate, time
	KindPermission Kind = "permission"
	KindNetwork    Kind = "network"
	KindDependency Kind = "dependency" // not installed
	KindMismatch   Kind = "mismatch"
)

// Request is one task for one agent.
type Request struct {
	Adapter Adapter
	Prompt  string
	// Dir is the tree that it works in.
	Dir string
	// Model overrides that of the adapter; "" leaves it to the program.
	Model string
	// Environ is the user's environment, of which it gets what the adapter names
	// and, without Held, what every command gets. Env is added as it stands.
	Environ, Env []string
	// Temp is a directory that the program can read and write too, for the files
	// of one run; "" makes one in the system's, and removes it.
	Temp string
	// Timeout and Idle override those of the adapter.
	Timeout, Idle time.Duration
	// Events, if any, gets what happens as it happens: tool_start, tool_end,
	// message, retry, usage, warning; one call at a time, from a goroutine of the
	// run. It must not block. Seq, Time and RunID are not set.
	Events func(agent.Event)
	// Start runs the program to its end: Run of a exec.Runner or of a sandbox.
	Start func(context.Context, exec.Spec) (exec.Result, error)
	// Held says that Start completes the environment itself, as a sandbox does: it
	// is given only what the adapter adds. Temp must then be given too where the
	// prompt goes in by stdin.
	Held bool

	patience time.Duration
}

// Result is what came of a run.
type Result struct {
	// Final is the assistant's final text, at most its last 256 KiB.
	Final string
	// Promised says that the final text holds the promise that the task is
	// complete; Declared that moreover the run was Clean.
	Promised, Declared bool
	// Uncounted says why a promise in the final text does not count; "" when it does
	// or there is none.
	Uncounted string
	// Clean: it ended by itself with 0, and its stream with the closing event of a
	// success.
	Clean bool
	// Started says that the program was started at all.
	Started bool
	// Interrupted says that the context ended it; Err then matches its cause.
	Interrupted bool
	// Exit is the exit code, 128+n for signal n; Signal names that.
	Exit   int
	Signal string
	// Kind and Err say why it was not clean; "" and nil when it was. Hint is a way
	// out for the user, may be "".
	Kind Kind
	Err  error
	Hint string
	// Quota says that the model's quota or rate is used up; RetryAfter is when to
	// try again as far as it was told, 0 if not.
	Quota      bool
	RetryAfter time.Duration
	// Denied are the calls that the program's own permissions refused.
	Denied []string
	// Usage is what was reported, zero if nothing was; CostUSD nil if not known.
	Usage   agent.Usage
	CostUSD *float64
	// Session is the program's own name of the run, Model what it says it used.
	Session, Model string
	// Turns, ToolCalls and ToolErrors count replies and calls as far as they are
	// seen.
	Turns, ToolCalls, ToolErrors int
	// Lines were read from its stream; Skipped of them were no events or too long.
	Lines, Skipped int
	// Stderr is the end of what it said there, at most 16 KiB.
	Stderr string
	// Warnings are whole sentences for the user.
	Warnings []string
	Took     time.Duration
	// Killed is what it had left running.
	Killed []supervise.Process
}
