package exec

import (
	"cmp"
	"sync"
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
	// Memory is how many bytes of memory they may use; 0 is half of what there is. A control
	// group keeps to that where one is granted: the kernel ends their largest process.
	// Elsewhere they are looked at each MeterEvery, as supervise.Memory counts, and the
	// command that uses the most is ended.
	Memory int64
	// Output is how many bytes of output are kept in files; 0 is no bound. What comes later
	// is counted but not written.
	Output int64
}

// Bound sets the bounds of the commands that are started from now on.
func (r *Runner) Bound(b Bounds) {
	r.mu.Lock()
	defer r.mu.Unlock()
	most := cmp.Or(b.Memory, supervise.HalfOfMemory())
	r.memory, r.kept = most, nil
	r.group = &lazyGroup{most: most}
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

// InGroup reports whether a control group bounds the memory of the commands. The first call
// tries to make one.
func (r *Runner) InGroup() bool { return r.lazyGroup().get() != nil }

func (r *Runner) lazyGroup() *lazyGroup {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.group
}

// lazyGroup is a control group that is made when it is needed. It is safe for concurrent
// use; nil makes none.
type lazyGroup struct {
	most  int64 // bytes; 0 makes none
	once  sync.Once
	group *supervise.MemoryGroup
}

// get returns the group, nil where none is granted.
func (l *lazyGroup) get() *supervise.MemoryGroup {
	if l == nil || l.most <= 0 {
		return nil
	}
	l.once.Do(func() { l.group, _ = supervise.NewMemoryGroup(l.most) }) // without one, commands are looked at
	return l.group
}

// close removes the group if it was made; none is made afterwards.
func (l *lazyGroup) close() {
	if l == nil {
		return
	}
	l.once.Do(func() {})
	_ = l.group.Close() // the next Ralph removes it
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

// meter has the memory of commands looked at, as long as any run, where no control group
// bounds it. c is started.
func (r *Runner) meter(c *command) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.running = !c.spec.Tool
	if r.memory <= 0 || r.metering || !c.running || c.memory != nil {
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
