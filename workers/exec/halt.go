package exec

import (
	"context"
	"maps"
	"slices"
	"time"
)

// Report is the proof of rest after a stop.
type Report struct {
	// Ended is how many commands the stop has ended.
	Ended int
	// Killed is what of them had to be killed: commands deaf to INT, and what was
	// left of others.
	Killed []Process
	// Survivors is what still runs.
	Survivors []Process
	// Checked says that all of them ended and the process table was then read:
	// no Survivors is the system's word, not ours.
	Checked bool
	// Took is the time from the stop to the end of the check.
	Took time.Duration
}

// Halt asks for the hard stop of all that runs, jobs too: INT, after at most
// 100 ms KILL, to the tree. It never blocks; Rest waits. What is started later
// runs.
func (r *Runner) Halt() { r.halt((*command).halt) }

// Kill kills all that runs, jobs too, without a grace. It never blocks; Rest
// waits. What is started later runs.
func (r *Runner) Kill() { r.halt((*command).killNow) }

func (r *Runner) halt(how func(*command)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.halts) == 0 {
		r.haltedAt = time.Now()
	}
	for c := range r.commands {
		how(c)
		if c.atRest() {
			continue // it only remains to be collected
		}
		if !slices.Contains(r.halts, c) {
			r.halts = append(r.halts, c)
		}
	}
}

// Rest waits until all that was halted and not yet reported has ended, or until
// ctx ends, then looks for what is left in the process table (see Leaks), which
// knows nothing of what it waited for. Calls at the same time report the same.
func (r *Runner) Rest(ctx context.Context) Report {
	began := time.Now()
	r.mu.Lock()
	halts := slices.Clone(r.halts)
	if len(halts) > 0 {
		began = r.haltedAt
	}
	r.mu.Unlock()
	rep := Report{Checked: canScan()}
	left := map[int]Process{}
	keep := func(ps []Process) {
		for _, p := range ps {
			left[p.PID] = p
		}
	}
	for _, c := range halts {
		select {
		case <-c.rested:
		case <-ctx.Done():
		}
		if !c.atRest() {
			rep.Checked = false
			keep(c.running())
			continue
		}
		rep.Ended++
		rep.Killed = append(rep.Killed, c.killed...)
		keep(c.survivors)
	}
	keep(Leaks())
	rep.Survivors = slices.SortedFunc(maps.Values(left), func(a, b Process) int { return a.PID - b.PID })
	rep.Took = time.Since(began)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.halts = slices.DeleteFunc(r.halts, func(c *command) bool { return c.atRest() && slices.Contains(halts, c) })
	return rep
}

func (c *command) atRest() bool {
	select {
	case <-c.rested:
		return true
	default:
		return false
	}
}
