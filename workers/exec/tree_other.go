//go:build !linux

package exec

import (
	"crypto/rand"
	"errors"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"ralph/workers/exec/sandbox"
)

// tag marks the environment of one command.
type tag struct{ s string }

func newTag() tag { return tag{rand.Text()} }

func (g tag) text() string { return g.s }

// tree is a leader and its process group.
type tree struct {
	pid  int
	over chan struct{} // closed when the leader is dead and reaped

	mu     sync.Mutex // guards all below
	status syscall.WaitStatus
	dead   bool
}

func startTree(_ tag, path string, argv []string, attr *syscall.ProcAttr, held *sandbox.Policy) (family, error) {
	if held != nil {
		return nil, &Error{Op: "confine", Path: path, Err: errors.ErrUnsupported, Hint: "commands are confined on Linux only"}
	}
	attr.Sys = &syscall.SysProcAttr{Setsid: true}
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil {
		return nil, err
	}
	t := &tree{pid: pid, over: make(chan struct{})}
	go func() {
		var ws syscall.WaitStatus
		for {
			if _, err := syscall.Wait4(pid, &ws, 0, nil); err != syscall.EINTR {
				break
			}
		}
		t.mu.Lock()
		t.status, t.dead = ws, true
		t.mu.Unlock()
		close(t.over)
	}()
	return t, nil
}

// startTool is startTree: it ends the process group, too.
func startTool(g tag, path string, argv []string, attr *syscall.ProcAttr, held *sandbox.Policy) (family, error) {
	return startTree(g, path, argv, attr, held)
}

func (t *tree) exited() <-chan struct{} { return t.over }

// signal sends to the group, which outlives its leader.
func (t *tree) signal(s syscall.Signal) { _ = syscall.Kill(-t.pid, s) }

func (t *tree) reap() (syscall.WaitStatus, Process, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status, Process{PID: t.pid, Command: "leader"}, t.dead
}

// sweep ends what is left of the group.
func (t *tree) sweep(bool) (killed, left []Process) {
	group := Process{PID: t.pid, Command: "process group"}
	for deadline := time.Now().Add(killGrace); syscall.Kill(-t.pid, syscall.SIGKILL) != syscall.ESRCH; {
		killed = []Process{group}
		if time.Now().After(deadline) {
			return killed, []Process{group}
		}
		time.Sleep(time.Millisecond)
	}
	return killed, nil
}

func pipe() (r, w int, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	var p [2]int
	if err := syscall.Pipe(p[:]); err != nil {
		return 0, 0, err
	}
	syscall.CloseOnExec(p[0])
	syscall.CloseOnExec(p[1])
	return p[0], p[1], nil
}

// layers has none.
func (r *Runner) layers() []Layer {
	return []Layer{{Name: "sandbox", Detail: "not available: commands are confined on Linux only, this is " + runtime.GOOS}}
}

// workDir is where a confined command would start.
func workDir(dir string) (string, error) { return dir, nil }

// method is the only one there is.
func (r *Runner) method() Method {
	return Method{Name: "session+process group", Detail: runtime.GOOS + ": what leaves its process group (setsid, double forks) is not found; " + os.DevNull + " is the standard input"}
}

// containers do not exist here.
type containers struct{}

func newContainers([]string) *containers { return nil }

func (*containers) work() bool { return false }
func (*containers) ready()     {}
func (*containers) close()     {}

func (*containers) start(tag, string, []string, *syscall.ProcAttr, *sandbox.Policy) (family, error) {
	return nil, errors.ErrUnsupported
}

// Self returns nothing: there are no namespaces to be the first process of.
func Self() []string { return nil }

// Init does nothing.
func Init() {}
