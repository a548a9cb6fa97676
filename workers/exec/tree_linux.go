package exec

import (
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ralph/workers/exec/sandbox"
)

// tree is a leader and all that descends from it.
type tree struct {
	tag    tag
	pid    int
	start  uint64
	who    Process
	closed bool          // it is the first process of a container: what descends from it is never our child
	tool   bool          // its process group is all that there can be
	over   chan struct{} // closed when the leader is dead; it is not reaped yet

	mu        sync.Mutex // guards all below, and the leader's pid while it is used
	reaped    bool
	abandoned bool
}

// startTree forks on a thread that stays parked until the leader is dead: the
// parent-death signal follows the thread that forked, not the process.
//
// A thread that confines what it starts stays confined, and so ends with its
// goroutine; while it is locked the runtime makes no other from it.
func startTree(g tag, path string, argv []string, attr *syscall.ProcAttr, held *sandbox.Policy) (family, error) {
	return startLeader(&tree{tag: g, over: make(chan struct{})}, path, argv, attr, held)
}

// startTool starts a program that leaves nothing outside its process group.
func startTool(g tag, path string, argv []string, attr *syscall.ProcAttr, held *sandbox.Policy) (family, error) {
	return startLeader(&tree{tag: g, tool: true, over: make(chan struct{})}, path, argv, attr, held)
}

// startLeader starts the leader of t.
func startLeader(t *tree, path string, argv []string, attr *syscall.ProcAttr, held *sandbox.Policy) (family, error) {
	var jailed *sandbox.Layout
	if held != nil {
		l, err := lay(held, attr.Dir, sessionFeatures())
		if err != nil {
			return nil, err
		}
		jailed = &l
	}
	attr.Sys = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Ptrace: !t.tool || jailed != nil}
	started := make(chan error, 1)
	work := func() {
		runtime.LockOSThread()
		if jailed == nil {
			defer runtime.UnlockOSThread()
		}
		err := restrict(jailed)
		if err == nil {
			err = children().fork(t, path, argv, attr)
		}
		if err == syscall.EPERM && attr.Sys.Ptrace && jailed == nil { // nothing may be traced here
			attr.Sys.Ptrace = false
			err = children().fork(t, path, argv, attr)
		}
		if err == nil && attr.Sys.Ptrace {
			err = release(t, jailed)
		}
		t.who = Process{PID: t.pid, Start: t.start, Command: shown(strings.Join(argv, " "))}
		started <- err
		if err == nil {
			t.watch()
		}
	}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if jailed == nil || unix.Gettid() != os.Getpid() {
			work()
			return
		}
		// The first thread stands for the process, and cannot end. While it is
		// held here another one does the work.
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

func (t *tree) exited() <-chan struct{} { return t.over }

// watch waits for the leader's death without reaping it, so that its pid names
// it, its group and its session as long as they are in use.
func (t *tree) watch() {
	for unix.Waitid(unix.P_PID, t.pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	close(t.over)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.abandoned {
		t.reapLocked()
	}
}

// signal sends to the leader's process group.
func (t *tree) signal(s syscall.Signal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.reaped {
		// The group can be refused only when all of it belongs to another user;
		// the sweep reports what is left then.
		_ = syscall.Kill(-t.pid, s)
	}
}

// reap takes the leader's status. It is false when the leader is still alive;
// it is then reaped whenever it dies.
func (t *tree) reap() (status syscall.WaitStatus, who Process, dead bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-t.over:
		if t.tool || !canScan() { // then this is all that can be ended
			_ = syscall.Kill(-t.pid, syscall.SIGKILL)
		}
		return t.reapLocked(), t.who, true
	default:
		t.abandoned = true
		return 0, t.who, false
	}
}

func (t *tree) reapLocked() syscall.WaitStatus {
	var ws syscall.WaitStatus
	for {
		_, err := syscall.Wait4(t.pid, &ws, 0, nil)
		if err != syscall.EINTR {
			break
		}
	}
	t.reaped = true
	return ws
}

// sweep ends what is left of the tree and proves that nothing is. dead says
// that the leader has been reaped.
func (t *tree) sweep(dead bool) (killed, left []Process) {
	tb := children()
	defer tb.leave(t)
	if dead && (t.tool || tb.quiet(t)) {
		return nil, nil
	}
	// What is killed has killGrace to go. With many trees to sweep at a time, that
	// is not the time since the sweep began.
	seen := map[Process]time.Time{}
	deadline := time.Now().Add(5 * killGrace)
	for clean := 0; ; {
		members := tb.round(t)
		if len(members) == 0 {
			// One look at /proc is not atomic: something that forks and exits all
			// the time can slip through. What had to be killed once is looked at
			// twice.
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
			if now.Sub(seen[key]) > killGrace || now.After(deadline) {
				left = append(left, m)
			}
		}
		if len(left) > 0 {
			return killed, left
		}
		awaitDeath(members)
	}
}

// awaitDeath returns when all of them are dead, or after 10 ms.
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
		// An interrupted poll only means an earlier look.
		_, _ = unix.Poll(fds[i:i+1], int(wait))
	}
}

func pipe() (r, w int, err error) {
	var p [2]int
	err = unix.Pipe2(p[:], unix.O_CLOEXEC)
	return p[0], p[1], err
}
