package exec

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrClosed is returned by a Runner after Close, also by the calls of Run that
// Close has ended.
var ErrClosed = errors.New("the process runner is closed")

// ErrHalted is returned by the calls of Run that Halt or Kill has ended.
var ErrHalted = errors.New("stopped with all that ran")

// Options of a Runner. The zero value takes the best way to end processes that
// works here.
type Options struct {
	// Method is "" for the best that works (see Runner.Method), or "session" for
	// the one without namespaces.
	Method string
	// Init is the command line that executes this program again as the first
	// process of the namespaces that commands run in: Self() where the program's
	// main function calls Init. Without it there are none.
	Init []string
}

// Runner runs commands. It is safe for concurrent use; its maker closes it. It
// starts nothing, not even a goroutine, before the first Run, Ready, Method or
// Layers.
type Runner struct {
	plain bool // without namespaces
	boxes *containers

	mu       sync.Mutex // guards all below; never held while something is started or waited for
	closed   bool
	commands map[*command]struct{} // from before their start until their end is collected
	halts    []*command            // what was halted and not reported yet
	haltedAt time.Time             // of the first of them
	jobs     []*Job
	nextJob  int
}

// New makes a Runner. It does nothing yet.
func New(o Options) *Runner {
	return &Runner{commands: map[*command]struct{}{}, plain: o.Method == methodSession, boxes: newContainers(o.Init)}
}

// Method returns how this Runner ends what it starts, and what else the kernel
// offers. The first call tries it out.
func (r *Runner) Method() Method { return r.method() }

// Ready makes in the background what the next confined command needs, so that it
// does not wait for it. It never blocks and may be called often.
func (r *Runner) Ready() {
	if !r.plain {
		r.boxes.ready()
	}
}

// starter chooses how a command is started. Namespaces are tried once.
func (r *Runner) starter(s Spec) starter {
	switch {
	case s.Tool:
		return startTool
	case r.plain || !r.boxes.work():
		return startTree
	}
	return r.boxes.start
}

// Run runs a command to its end. A non-zero exit and a timeout are no errors.
//
// It returns an *Error when the command could not be started, and an error that
// matches context.Cause(ctx) when ctx ended first: the command was then stopped
// hard (INT, at most 100 ms, KILL to its tree) and the Result holds what had
// been captured. When Run returns, nothing that the command started is running;
// should that fail, the error is a *SurvivorError.
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
	return res, r.blame(err)
}

// blame says ErrClosed of what Close has halted.
func (r *Runner) blame(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed && errors.Is(err, ErrHalted) {
		return errors.Join(ErrClosed, err)
	}
	return err
}

// launch registers a command, so that a stop finds it, and starts it.
func (r *Runner) launch(s Spec) (*command, error) {
	c := newCommand(s)
	r.mu.Lock()
	closed := r.closed
	if !closed {
		r.commands[c] = struct{}{}
	}
	r.mu.Unlock()
	if closed {
		return nil, fmt.Errorf("run %q: %w", s.name(), ErrClosed)
	}
	if err := c.start(r.starter(s)); err != nil {
		c.dud()
		r.forget(c)
		return nil, err
	}
	return c, nil
}

func (r *Runner) forget(c *command) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.commands, c)
}

// Close stops everything that runs, as a hard stop, and waits for it until ctx
// ends. The error names what survived. Later calls of Run and Start return
// ErrClosed; closing again is harmless.
func (r *Runner) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	open := make([]*command, 0, len(r.commands))
	for c := range r.commands {
		c.halt()
		open = append(open, c)
	}
	r.mu.Unlock()
	var left []Process
	for _, c := range open {
		select {
		case <-c.finished:
			left = append(left, c.survivors...)
		case <-ctx.Done():
			return fmt.Errorf("close process runner: wait for %q: %w", c.spec.name(), context.Cause(ctx))
		}
	}
	r.boxes.close()
	if len(left) > 0 {
		return fmt.Errorf("close process runner: %w", &SurvivorError{Processes: left})
	}
	return nil
}
