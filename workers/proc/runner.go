package proc

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrClosed is returned by a Runner after Close, also by the calls of Run that
// Close has ended.
var ErrClosed = errors.New("the process runner is closed")

// Options of a Runner. The zero value is the only one so far.
type Options struct{}

// Runner runs commands. It is safe for concurrent use; who made it closes it.
// It starts nothing, not even a goroutine, before the first Run.
type Runner struct {
	mu       sync.Mutex // guards all below
	closed   bool
	commands map[*command]struct{}
	jobs     []*Job
	nextJob  int
}

// New makes a Runner. It does nothing yet.
func New(Options) *Runner {
	return &Runner{commands: map[*command]struct{}{}}
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
	return c.wait(ctx)
}

// launch starts a command and registers it, so that Close finds it.
func (r *Runner) launch(s Spec) (*command, error) {
	r.mu.Lock()
	closed := r.closed
	r.mu.Unlock()
	if closed {
		return nil, fmt.Errorf("run %q: %w", s.name(), ErrClosed)
	}
	c, err := start(s)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.commands[c] = struct{}{}
	if r.closed {
		c.halt()
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
	if len(left) > 0 {
		return fmt.Errorf("close process runner: %w", &SurvivorError{Processes: left})
	}
	return nil
}
