package exec

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Job is a command in the background. It is safe for concurrent use. It lives
// until the command ends, Stop, or Close of its Runner.
type Job struct {
	id      string
	c       *command
	started time.Time
	done    chan struct{}
	// result is set before done is closed.
	result Result
}

// Start starts a command in the background. ctx only bounds the start; the
// errors are those of Run that concern starting.
func (r *Runner) Start(ctx context.Context, s Spec) (*Job, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("start %q: %w", s.name(), context.Cause(ctx))
	}
	c, err := r.launch(s)
	if err != nil {
		return nil, err
	}
	j := &Job{c: c, started: c.began, done: make(chan struct{})}
	r.mu.Lock()
	r.nextJob++
	j.id = fmt.Sprintf("job-%d", r.nextJob)
	r.jobs = append(r.jobs, j)
	r.mu.Unlock()
	go func() {
		defer r.forget(c)
		defer close(j.done)
		// The job outlives the call that started it: its only ends are its own,
		// Stop and Close. An error would say that it was stopped, which who
		// stopped it knows, or name survivors, which Stop and Close report.
		j.result, _ = c.wait(context.WithoutCancel(ctx))
	}()
	return j, nil
}

// Jobs lists the background jobs in the order of their start, ended ones
// included.
func (r *Runner) Jobs() []*Job {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.jobs)
}

// ID names the job within its Runner: "job-1".
func (j *Job) ID() string { return j.id }

// Command is the command line, its arguments joined by spaces.
func (j *Job) Command() string { return strings.Join(j.c.spec.Argv, " ") }

// Started is when the command was started.
func (j *Job) Started() time.Time { return j.started }

// Done is closed when the command has ended and nothing of it is running.
func (j *Job) Done() <-chan struct{} { return j.done }

// Result is the result of an ended job; false while it runs.
func (j *Job) Result() (Result, bool) {
	select {
	case <-j.done:
		return j.result, true
	default:
		return Result{}, false
	}
}

// Output is what the job has written so far (both streams, or stdout when they
// are split).
func (j *Job) Output() Capture { return j.c.rec.capture(streamOut) }

// Stop ends the job hard: INT, at most 100 ms, KILL to the tree. It returns when
// nothing of it is running, nil also for a job that had ended by itself, an
// error that names survivors, or the cause of ctx if that ended first.
func (j *Job) Stop(ctx context.Context) error {
	j.c.halt()
	select {
	case <-j.done:
	case <-ctx.Done():
		return fmt.Errorf("stop %s: %w", j.id, context.Cause(ctx))
	}
	if len(j.c.survivors) > 0 {
		return fmt.Errorf("stop %s: %w", j.id, &SurvivorError{Processes: j.c.survivors})
	}
	return nil
}
