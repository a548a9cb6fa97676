package coordinator

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/afero"

	"ralph/coordinator/loop"
	"ralph/coordinator/permission"
	"ralph/coordinator/recovery"
	"ralph/memory/config"
	"ralph/workers/agent"
	"ralph/workers/exec"
)

// Options is what a Coordinator needs from the face that opens it.
type Options struct {
	// Root is the project's root, absolute, with symlinks resolved.
	Root string
	// FS is the filesystem that holds the state; nil means the real one.
	FS afero.Fs
	// Config holds the effective settings.
	Config *config.Config
	// Proc starts every process; the coordinator closes it.
	Proc *exec.Runner
	// RunID names this process's work in events and documents.
	RunID string
	// NoModel opens the project without choosing a model: nothing will be run,
	// as for an undo.
	NoModel bool
	// ModelOptional goes on without a model where none can be chosen, when the
	// agent of the configuration is a program that has its own.
	ModelOptional bool
	// Holder says what kind of Ralph holds the project: "chat", "one-shot".
	Holder string
	// Session asks for a session directory: "" for none, "new" for a fresh one,
	// "last" for the newest, otherwise an id, a unique prefix of one or a name.
	Session string
	// Recovery is what recovery.Assess found, when a session is taken up after it.
	Recovery *recovery.Report
	// Force ends another Ralph that holds the project, when it is proven to be
	// the one that took the lock; otherwise it is refused.
	Force bool
	// Eyes sees every event, in order, one call at a time, on the goroutine that
	// does the work; it must not block for long. Nil sees nothing.
	Eyes func(agent.Event)
	// Ask puts a question to the human and waits; nil means nobody is there.
	Ask func(context.Context, permission.Question) (string, error)
	// Lessons says what is found in the session in a directory, a line each, for
	// its report; nil finds nothing. It is called once, on the goroutine of Close,
	// and not for a session whose log is too large to be read then.
	Lessons func(dir string) []string
	// Getenv reads the user's environment.
	Getenv func(string) string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Job is one piece of work for Run.
type Job struct {
	// Task is what the human wants, in their words. Empty, it delivers what waits
	// in the queue.
	Task string
	// Message is the id under which Task was accepted by Say, "" when it was not.
	Message string
	// Go says that the user said go: the work that was stopped goes on, with Task
	// as the instruction or, when that is empty, as it was. Agent names one
	// stopped agent that goes on; "" is the coordinator.
	Go    bool
	Agent string
	// Context is text that came along, such as standard input; it is fenced.
	Context string
	// Schema, when set, is a JSON Schema that the answer must fit.
	Schema json.RawMessage
	// Files are the contents that --files named.
	Files []File
	// Loop, when set, has a plan worked through instead of a task. What is zero in
	// it is taken from the configuration.
	Loop *loop.Settings
	// DryRun plans only: the model gets no tool that changes anything, and no
	// state is written.
	DryRun bool
	// Chat marks a turn of a conversation: no one-shot bookkeeping is done in
	// the Markdown state.
	Chat bool
	// Last says that nothing is worked on after it, not even a task of another
	// terminal that waits: Close gives those back.
	Last bool
}

// File is a file handed to the model with the task.
type File struct {
	Path string // relative to the root
	Text string
}
