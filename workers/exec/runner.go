package exec

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"ralph/workers/exec/supervise"
)

// ErrClosed is returned by a Runner after Close, and by the calls of Run that Close
// has ended.
var ErrClosed = errors.New("the process runner is closed")

// ErrStopped is returned by the calls of Run that Stop or Kill has ended.
var ErrStopped = errors.New("stopped with all that ran")

// Options configures a Runner.
type Options struct {
	// Method and Init are those of supervise.Options.
	Method string
	Init   []string
	// Project is the directory of the project, or "": a program that is named without
	// a path is never one of its files, so that neither the repository nor a command
	// chooses what Ralph itself runs where PATH has a directory of the project.
	Project string
}

// Self returns supervise.Self, for Options.Init of a program whose main function calls
// Init.
func Self() []string { return supervise.Self() }

// Init calls supervise.Init. The main function of a program that uses Self, and the
// TestMain of such a package, calls it before anything else.
func Init() { supervise.Init() }

// Runner runs commands. It is safe for concurrent use; its maker closes it. It
// starts nothing, not even a goroutine, before the first Run, Ready, Method or
// Layers.
type Runner struct {
	supervisor *supervise.Supervisor
	project    string // see Options.Project

	mu        sync.Mutex // guards all below; never held while something is started or waited for
	closed    bool
	commands  map[*command]struct{} // from before their start until Run or the job has their result
	stopped   []*command            // stopped and not reported by WaitStopped yet
	stoppedAt time.Time             // of the first of them
	jobs      []*Job
	nextJob   int
	memory    int64      // see Bounds; 0 is none
	group     *lazyGroup // nil before Bound
	metering  bool
	kept      *allowance // nil is none
}

// New returns a Runner.
func New(o Options) *Runner {
	return &Runner{commands: map[*command]struct{}{}, supervisor: supervise.New(supervise.Options{Method: o.Method, Init: o.Init}), project: o.Project}
}

// Method returns how this Runner ends what it starts. The first call tries it out.
func (r *Runner) Method() supervise.Method { return r.supervisor.Method() }

// Layers returns the means by which commands are confined; see Supervisor.Layers.
func (r *Runner) Layers() []supervise.Layer { return r.supervisor.Layers() }

// Ready makes in the background what the next confined command would wait for. It
// does not block and may be called often.
func (r *Runner) Ready() { r.supervisor.Ready(r.lazyGroup().get) }

// Run runs a command to its end. A non-zero exit and a timeout are no errors.
//
// It returns an *Error when the command could not be started, and an error that
// matches context.Cause(ctx) when ctx ended first: the command was then stopped
// hard (INT, at most 100 ms, KILL to its tree) and the Result holds what had
// been captured. When Run returns, nothing that the command started is running;
// should that fail, the error is a *supervise.SurvivorError.
func (r *Runner) Run(ctx context.Context, s Spec) (Result, error) {
	if ctx.Err() != nil {
		return Result{}, fmt.Errorf("run %q: %w", s.name(), context.Cause(ctx))
	}
	c, err := r.launch(s)
	if err != nil {
		return Result{}, err
	}
	defer r.forget(c)
	res, err := c.wait(ctx)
	return res, r.closedError(err)
}

// closedError adds ErrClosed to the error of a command that Close has stopped.
func (r *Runner) closedError(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed && errors.Is(err, ErrStopped) {
		return errors.Join(ErrClosed, err)
	}
	return err
}

// launch registers a command, so that a stop finds it, and starts it.
func (r *Runner) launch(s Spec) (*command, error) {
	r.mu.Lock()
	c := newCommand(s, r.kept)
	closed := r.closed
	if !closed {
		r.commands[c] = struct{}{}
	}
	r.mu.Unlock()
	if closed {
		return nil, fmt.Errorf("run %q: %w", s.name(), ErrClosed)
	}
	if !s.Tool {
		c.memory = r.lazyGroup().get()
	}
	if err := c.start(r.supervisor, r.project); err != nil {
		c.neverStarted()
		r.forget(c)
		return nil, err
	}
	r.meter(c)
	return c, nil
}

func (r *Runner) forget(c *command) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.commands, c)
}

// Close stops everything that runs, as Stop does, and waits for it until ctx ends. The
// error names what survived. Later calls of Run and Start return ErrClosed; closing
// again is harmless.
func (r *Runner) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	open := make([]*command, 0, len(r.commands))
	for c := range r.commands {
		c.askStop()
		open = append(open, c)
	}
	r.mu.Unlock()
	var left []supervise.Process
	for _, c := range open {
		select {
		case <-c.finished:
			left = append(left, c.survivors...)
		case <-ctx.Done():
			return fmt.Errorf("close process runner: wait for %q: %w", c.spec.name(), context.Cause(ctx))
		}
	}
	r.supervisor.Close()
	r.lazyGroup().close()
	if len(left) > 0 {
		return fmt.Errorf("close process runner: %w", &supervise.SurvivorError{Processes: left})
	}
	return nil
}
