package exec

import (
	"cmp"
	"sync/atomic"
	"time"

	"ralph/workers/exec/supervise"
)

// The values of Result.Limit.
const (
	KeyMemory = "session_memory"
	KeyOutput = "session_output"
)

// MeterEvery is how often the memory of commands is looked at.
const MeterEvery = 250 * time.Millisecond

// Bounds limit what all commands of a Runner use together.
type Bounds struct {
	// Memory is how many bytes of memory they may use, as supervise.Memory counts; 0 is half
	// of what there is. When they use more, the command that uses the most is ended.
	Memory int64
	// Output is how many bytes of output are kept in files; 0 is no bound. What comes later
	// is counted but not written.
	Output int64
}

// Bound sets the bounds of the commands that are started from now on.
func (r *Runner) Bound(b Bounds) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.memory, r.kept = cmp.Or(b.Memory, supervise.HalfOfMemory()), nil
	if b.Output > 0 {
		r.kept = &allowance{}
		r.kept.left.Store(b.Output)
	}
}

// Bounds returns the bounds in force, with what is left of Output.
func (r *Runner) Bounds() Bounds {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := Bounds{Memory: r.memory}
	if r.kept != nil {
		b.Output = r.kept.left.Load()
	}
	return b
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// allowance is what may still be used of something. It is safe for concurrent use; nil is
// without end.
type allowance struct{ left atomic.Int64 }

// take takes up to n, and returns how much that was.
func (a *allowance) take(n int64) int64 {
	if a == nil {
		return n
	}
	for {
		left := a.left.Load()
		got := min(n, left)
		if a.left.CompareAndSwap(left, left-got) {
			return got
		}
	}
}

// meter has the memory of commands looked at, as long as any run. c is started.
func (r *Runner) meter(c *command) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.running = !c.spec.Tool
	if r.memory <= 0 || r.metering || !c.running {
		return
	}
	r.metering = true
	go func() {
		look := time.NewTicker(MeterEvery)
		defer look.Stop()
		for range look.C {
			if !r.measure() {
				return
			}
		}
	}()
}

// measure ends the largest command when all of them use too much memory. It returns false
// when none runs.
func (r *Runner) measure() bool {
	r.mu.Lock()
	var running []*command
	var groups []supervise.Group
	ending := false
	for c := range r.commands {
		if c.running && !isClosed(c.ended) {
			running, groups = append(running, c), append(groups, c.group)
			ending = ending || c.tooMuch.Load()
		}
	}
	r.metering = len(running) > 0
	most := r.memory
	r.mu.Unlock()
	if len(running) == 0 || ending { // what is about to end gives its memory back
		return len(running) > 0
	}
	var sum int64
	largest := 0
	used := supervise.Memory(groups)
	for i, n := range used {
		sum += n
		if n > used[largest] {
			largest = i
		}
	}
	if sum > most {
		running[largest].tooMuch.Store(true)
		running[largest].askKill()
	}
	return true
}
