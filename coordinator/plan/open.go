package plan

import (
	"context"
	"time"

	"github.com/spf13/afero"

	"ralph/memory/markdown"
	"ralph/workers/exec"
)

// Book is the project's own task list; memory.Store is one. It must be safe for
// concurrent use.
type Book interface {
	// Tasks returns the tasks as they are now, the user's last edits included.
	Tasks() ([]markdown.Task, error)
	// SetTask changes one task, durably when it returns nil.
	SetTask(id string, e markdown.Edit) (markdown.Task, error)
}

// Options says which plan to open.
type Options struct {
	// Root is the project's root, absolute.
	Root string
	// FS holds the project; nil is the real disk.
	FS afero.Fs
	// Tracker and Path are what the user asked for; "" is found out. Path is
	// relative to Root or absolute.
	Tracker, Path string
	// Epics limits the run; trackers that can ask for less than all may use it.
	Epics []string
	// Book keeps RALPH_TASKS.md. Without one the file itself is read and written, as
	// any other plan in Markdown is.
	Book Book
	// Proc starts bd and bv; nil refuses the beads trackers.
	Proc *exec.Runner
	// Getenv and Environ give the environment; nil is an empty one.
	Getenv  func(string) string
	Environ []string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Warn is told what does not stop anything; nil drops it. It may be called
	// on any goroutine.
	Warn func(string)
}

// Detect finds the plan of a project without reading more than its beginning.
// Path is relative to Root where it is inside; why says in words how it was
// found. Without a plan the error matches ErrNoPlan and carries a hint.
func Detect(o Options) (tracker, path, why string, err error) { return detect(o) }

// Open opens the plan that Detect finds. Nothing is read yet but what tells
// the form; a plan that is at fault is refused by Load.
func Open(ctx context.Context, o Options) (Tracker, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return open(o)
}
