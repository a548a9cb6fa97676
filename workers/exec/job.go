package exec

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"ralph/workers/exec/supervise"
)

// Job is a command in the background. It is safe for concurrent use. It ends with the
// command, by Stop, or by a stop or Close of its Runner.
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
		// The job outlives the call that started it. Its error is not needed: the
		// caller that stopped it knows, and Stop and Close report survivors.
		j.result, _ = c.wait(context.WithoutCancel(ctx))
	}()
	return j, nil
}

// Jobs returns the jobs in the order of their start, with those that have ended.
func (r *Runner) Jobs() []*Job {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.jobs)
}

// ID returns the name of the job within its Runner, such as "job-1".
func (j *Job) ID() string { return j.id }

// Command returns the arguments joined by spaces.
func (j *Job) Command() string { return strings.Join(j.c.spec.Argv, " ") }

// Started returns the time of the start.
func (j *Job) Started() time.Time { return j.started }

// Done returns a channel that is closed when nothing of the command runs.
func (j *Job) Done() <-chan struct{} { return j.done }

// Result returns the result of an ended job; false while it runs.
func (j *Job) Result() (Result, bool) {
	select {
	case <-j.done:
		return j.result, true
	default:
		return Result{}, false
	}
}

// Output returns what the job has written so far: both streams, or stdout when they
// are split.
func (j *Job) Output() Capture { return j.c.rec.capture(streamOut) }

// Stop ends the job as Runner.Stop does and blocks until nothing of it runs. It
// returns nil for a job that has ended already, a *supervise.SurvivorError, or the
// cause of ctx if that ended first.
func (j *Job) Stop(ctx context.Context) error {
	j.c.askStop()
	select {
	case <-j.done:
	case <-ctx.Done():
		return fmt.Errorf("stop %s: %w", j.id, context.Cause(ctx))
	}
	if len(j.c.survivors) > 0 {
		return fmt.Errorf("stop %s: %w", j.id, &supervise.SurvivorError{Processes: j.c.survivors})
	}
	return nil
}
