package supervise

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ralph/workers/exec/sandbox"
)

// child is a process that this process has started and reaps.
type child struct {
	Process
	tag    Tag
	sealed bool // what descends from it never becomes a child of this process

	mu     sync.Mutex // guards reaped, and PID while a signal is sent
	reaped bool
}

// awaitDeath blocks until the child is dead, without reaping it, so that its pid
// names it, its process group and its session for as long as they are in use.
func (c *child) awaitDeath() {
	for unix.Waitid(unix.P_PID, c.PID, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

// reapLocked reaps the child, which must be dead.
func (c *child) reapLocked() syscall.WaitStatus {
	var ws syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(c.PID, &ws, 0, nil); err != syscall.EINTR {
			break
		}
	}
	c.reaped = true
	return ws
}

func (c *child) isReaped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reaped
}

// signalTo sends to target, the child or its process group, unless the child is
// reaped. A signal is refused only where everything belongs to another user, and
// Sweep reports what is left.
func (c *child) signalTo(target int, s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		_ = syscall.Kill(target, s)
	}
}

// processTree is a command without a container: the leader of a session and what
// descends from it.
type processTree struct {
	child               // the leader
	tool  bool          // nothing is outside the process group
	over  chan struct{} // closed when the leader is dead; it may not be reaped yet

	abandoned bool // guarded by child.mu; watch reaps the leader
}

// startTree starts the leader on a thread that waits until the leader is dead: the
// parent-death signal is sent when the thread that forked ends, not the process. A
// thread that was restricted for its command ends with its goroutine; the runtime
// makes no other thread from it while it is locked.
func startTree(c Command) (Group, error) {
	t := &processTree{child: child{tag: c.Tag}, tool: c.Tool, over: make(chan struct{})}
	var layout *sandbox.Layout
	if c.Policy != nil {
		l, err := lay(c.Policy, c.Dir, sessionFeatures())
		if err != nil {
			return nil, err
		}
		layout = &l
	}
	started := make(chan error, 1)
	work := func() {
		runtime.LockOSThread()
		if layout == nil {
			defer runtime.UnlockOSThread()
		}
		err := t.start(c, layout)
		started <- err
		if err == nil {
			t.watch()
		}
	}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if layout == nil || unix.Gettid() != os.Getpid() {
			work()
			return
		}
		// The first thread cannot end. It waits while another thread does the work.
		done := make(chan struct{})
		go func() {
			defer close(done)
			work()
		}()
		<-done
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return t, nil
}

// start restricts the calling thread and forks the leader, which stops before its
// first instruction until it has its tag and its limits.
func (t *processTree) start(c Command, layout *sandbox.Layout) error {
	attr := c.attr()
	attr.Sys = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Ptrace: !t.tool || layout != nil}
	if layout != nil {
		if err := layout.Restrict(unix.Gettid()); err != nil {
			return confineError(err)
		}
	}
	err := children().fork(&t.child, c.Path, c.Argv, attr)
	if err == syscall.EPERM && attr.Sys.Ptrace && layout == nil { // tracing is forbidden here
		attr.Sys.Ptrace = false
		err = children().fork(&t.child, c.Path, c.Argv, attr)
	}
	if err != nil {
		return err
	}
	children().reapOrphans()
	if attr.Sys.Ptrace {
		err = t.release(c, layout)
	}
	t.Command = shown(strings.Join(c.Argv, " "))
	return err
}

// release sets the limits of a leader that this thread traces and lets it run. A
// leader that cannot be limited is ended.
func (t *processTree) release(c Command, layout *sandbox.Layout) error {
	for {
		var ws syscall.WaitStatus
		if _, err := syscall.Wait4(t.PID, &ws, syscall.WUNTRACED, nil); err != syscall.EINTR {
			break
		}
	}
	err := c.Memory.add(t.PID)
	if layout != nil && err == nil {
		endFirst(strconv.Itoa(t.PID))
		err = layout.Limits.Shared().Apply(t.PID)
	}
	if err == nil {
		err = syscall.PtraceDetach(t.PID)
	}
	if err == nil {
		return nil
	}
	t.Signal(syscall.SIGKILL)
	t.watch()
	t.Reap()
	t.Sweep(true)
	return confineError(err)
}

// watch waits for the leader's death.
func (t *processTree) watch() {
	t.awaitDeath()
	close(t.over)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.abandoned {
		t.reapLocked()
	}
}

// Exited implements Group.
func (t *processTree) Exited() <-chan struct{} { return t.over }

// Signal implements Group.
func (t *processTree) Signal(s syscall.Signal) { t.signalTo(-t.PID, s) }

// Reap implements Group.
func (t *processTree) Reap() (status syscall.WaitStatus, leader Process, dead bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-t.over:
		if t.tool || !CanScan() { // Sweep does nothing then
			_ = syscall.Kill(-t.PID, syscall.SIGKILL)
		}
		return t.reapLocked(), t.Process, true
	default:
		t.abandoned = true
		return 0, t.Process, false
	}
}

// Sweep implements Group.
func (t *processTree) Sweep(dead bool) (killed, left []Process) {
	tb := children()
	defer tb.leave(&t.child)
	if dead && (t.tool || tb.quiet(&t.child)) {
		return nil, nil
	}
	// A process has KillGrace to end after its kill. With many trees to sweep that is
	// longer than KillGrace after the sweep began.
	seen := map[Process]time.Time{}
	deadline := time.Now().Add(5 * KillGrace)
	for clean := 0; ; {
		members := tb.round(&t.child)
		if len(members) == 0 {
			// Reading /proc is not atomic: a process that forks and exits all the time
			// can be missed. After a kill, two rounds must find nothing.
			clean++
			if clean > 1 || len(seen) == 0 {
				return killed, nil
			}
			continue
		}
		clean = 0
		now := time.Now()
		for _, m := range members {
			key := Process{PID: m.PID, Start: m.Start}
			if seen[key].IsZero() {
				seen[key] = now
				killed = append(killed, m)
			}
			if now.Sub(seen[key]) > KillGrace || now.After(deadline) {
				left = append(left, m)
			}
		}
		if len(left) > 0 {
			return killed, left
		}
		awaitDeath(members)
	}
}

// awaitDeath blocks until all processes are dead, at most 10 ms.
func awaitDeath(ps []Process) {
	fds := make([]unix.PollFd, 0, len(ps))
	for _, p := range ps {
		if fd, err := unix.PidfdOpen(p.PID, 0); err == nil {
			fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
		}
	}
	defer func() {
		for _, f := range fds {
			_ = unix.Close(int(f.Fd))
		}
	}()
	if len(fds) == 0 {
		time.Sleep(200 * time.Microsecond)
		return
	}
	deadline := time.Now().Add(10 * time.Millisecond)
	for i := range fds {
		wait := max(time.Until(deadline).Milliseconds(), 0)
		// After an interrupted poll the caller only looks earlier.
		_, _ = unix.Poll(fds[i:i+1], int(wait))
	}
}
