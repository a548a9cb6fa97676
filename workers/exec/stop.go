package exec

import (
	"context"
	"maps"
	"slices"
	"time"

	"ralph/workers/exec/supervise"
)

// Report is the result of WaitStopped.
type Report struct {
	// Ended counts the commands that the stop has ended.
	Ended int
	// Killed lists what of them had to be killed: commands that ignored INT, and what
	// others left running.
	Killed []supervise.Process
	// Survivors lists what still runs.
	Survivors []supervise.Process
	// Checked reports that all of them ended and that the process table was read
	// afterwards: an empty Survivors is then proven.
	Checked bool
	// Took is the time from the stop to the end of the check.
	Took time.Duration
}

// Stop asks for the hard stop of everything that runs, jobs too: INT, after at most
// 100 ms KILL to the tree. It does not block; WaitStopped waits. What is started
// later is not affected.
func (r *Runner) Stop() { r.stopAll((*command).askStop) }

// Kill kills everything that runs, jobs too, at once. It does not block; WaitStopped
// waits. What is started later is not affected.
func (r *Runner) Kill() { r.stopAll((*command).askKill) }

func (r *Runner) stopAll(how func(*command)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.stopped) == 0 {
		r.stoppedAt = time.Now()
	}
	for c := range r.commands {
		how(c)
		if c.hasEnded() {
			continue // only its result is missing
		}
		if !slices.Contains(r.stopped, c) {
			r.stopped = append(r.stopped, c)
		}
	}
}

// WaitStopped blocks until everything that was stopped and not reported yet has ended,
// or until ctx ends. Then it reads the process table for what is left, independently
// of what it waited for (see supervise.Leaks). Concurrent calls report the same.
func (r *Runner) WaitStopped(ctx context.Context) Report {
	began := time.Now()
	r.mu.Lock()
	stopped := slices.Clone(r.stopped)
	if len(stopped) > 0 {
		began = r.stoppedAt
	}
	r.mu.Unlock()
	rep := Report{Checked: supervise.CanScan()}
	left := map[int]supervise.Process{}
	keep := func(ps []supervise.Process) {
		for _, p := range ps {
			left[p.PID] = p
		}
	}
	for _, c := range stopped {
		select {
		case <-c.ended:
		case <-ctx.Done():
		}
		if !c.hasEnded() {
			rep.Checked = false
			keep(c.tag.Processes())
			continue
		}
		rep.Ended++
		rep.Killed = append(rep.Killed, c.killed...)
		keep(c.survivors)
	}
	keep(supervise.Leaks())
	rep.Survivors = slices.SortedFunc(maps.Values(left), func(a, b supervise.Process) int { return a.PID - b.PID })
	rep.Took = time.Since(began)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = slices.DeleteFunc(r.stopped, func(c *command) bool { return c.hasEnded() && slices.Contains(stopped, c) })
	return rep
}

// hasEnded reports whether nothing of the command runs any more.
func (c *command) hasEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}
