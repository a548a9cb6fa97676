package workers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"ralph/workers/exec"
	"ralph/workers/exec/supervise"
)

// processes is what the Pool needs of a *exec.Runner.
type processes interface {
	// Stop asks for the hard stop of everything that runs; it does not wait.
	Stop()
	// WaitStopped waits for what was stopped and proves its end.
	WaitStopped(ctx context.Context) exec.Report
}

var _ processes = (*exec.Runner)(nil)

// proofTime is what the proof of rest may take when agents that did not end have
// used up the time that was given.
const proofTime = 250 * time.Millisecond

// StopReport is how a stop went. It is a value.
type StopReport struct {
	// Ended names the agents that were at work or queued and have ended.
	Ended []string
	// Stuck names those that had not ended when the time was over.
	Stuck []string
	// Processes is how many commands were running and have ended; Killed is what
	// they had left behind and had to be killed.
	Processes int
	Killed    []supervise.Process
	// Survivors are alive still. Checked says that this was proven by a look at
	// the process table, not only by Ralph's own list.
	Survivors []supervise.Process
	Checked   bool
	Took      time.Duration
}

// Rest says that nothing is left at work.
func (r StopReport) Rest() bool { return len(r.Stuck) == 0 && len(r.Survivors) == 0 }

// Stop ends all agents that work now or are queued, and all processes, waits for them until ctx
// ends, and reports. Their contexts are ended before it waits for anything. Who
// begins later is not concerned.
func (p *Pool) Stop(ctx context.Context, cause error) StopReport {
	return p.stop(ctx, cause, false)
}

// sweep tells all to end, and returns them; when last is set nobody begins after
// it.
func (p *Pool) sweep(cause error, last bool) []*worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = p.closed || last
	all := p.order()
	for _, w := range all {
		p.end(w, cause)
	}
	return all
}

func (p *Pool) stop(ctx context.Context, cause error, last bool) StopReport {
	began := time.Now()
	all := p.sweep(cause, last)
	if p.proc != nil {
		p.proc.Stop()
	}
	var r StopReport
	for _, w := range all {
		if ended(ctx, w) {
			r.Ended = append(r.Ended, w.ID)
		} else {
			r.Stuck = append(r.Stuck, w.ID)
		}
	}
	if p.proc != nil {
		p.prove(ctx, &r)
	}
	r.Took = time.Since(began)
	return r
}

// prove looks at the processes once the agents, which could start more, have
// ended. What a stuck agent has used up of the time is not the proof's.
func (p *Pool) prove(ctx context.Context, r *StopReport) {
	if len(r.Stuck) > 0 || ctx.Err() != nil {
		// An agent may have got a command going between the halt and its own end.
		p.proc.Stop()
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), proofTime)
		defer cancel()
	}
	rest := p.proc.WaitStopped(ctx)
	r.Processes, r.Killed, r.Survivors, r.Checked = rest.Ended, rest.Killed, rest.Survivors, rest.Checked
}

// ended waits for w until ctx ends. One that has ended has, whatever ctx says.
func ended(ctx context.Context, w *worker) bool {
	select {
	case <-w.done:
		return true
	case <-ctx.Done():
	}
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// Close ends all agents as Stop does, with ErrClosed as the cause, and lets
// nobody begin any more. The error names whoever did not end before ctx did.
// Closing again is harmless.
func (p *Pool) Close(ctx context.Context) error {
	r := p.stop(ctx, ErrClosed, true)
	var err error
	if len(r.Stuck) > 0 {
		err = fmt.Errorf("agents that did not end: %s", strings.Join(r.Stuck, ", "))
	}
	if len(r.Stuck) == 0 && !p.unwatched(ctx) {
		err = errors.New("the alarm of a stalled agent did not return")
	}
	if len(r.Survivors) > 0 {
		err = errors.Join(err, &supervise.SurvivorError{Processes: r.Survivors})
	}
	if err != nil {
		return fmt.Errorf("close pool: %w", err)
	}
	return nil
}
