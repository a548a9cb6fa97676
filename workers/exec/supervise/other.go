//go:build !linux

package supervise

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Supervisor starts commands as process groups.
type Supervisor struct{}

// New returns a Supervisor.
func New(Options) *Supervisor { return &Supervisor{} }

// Ready does nothing.
func (*Supervisor) Ready(func() *MemoryGroup) {}

// Close does nothing.
func (*Supervisor) Close() {}

// Method returns the only one there is.
func (*Supervisor) Method() Method {
	return Method{Name: "session+process group", Detail: runtime.GOOS + ": what leaves its process group (setsid, double forks) is not found; " + os.DevNull + " is the standard input"}
}

// Layers returns one that is not active.
func (*Supervisor) Layers() []Layer {
	return []Layer{{Name: "sandbox", Detail: "not available: commands are confined on Linux only, this is " + runtime.GOOS}}
}

// Self returns nothing: there are no containers.
func Self() []string { return nil }

// Init does nothing.
func Init() {}

// Tag marks the environment of one command.
type Tag struct{ s string }

// NewTag returns the tag of a new command.
func NewTag() Tag { return Tag{rand.Text()} }

func (g Tag) text() string { return g.s }

// Processes returns one without a pid: this system does not show what has the tag.
func (g Tag) Processes() []Process { return []Process{{Command: "a command that has not ended"}} }

// MemoryGroup bounds nothing on this system.
type MemoryGroup struct{}

// NewMemoryGroup fails with an error that matches errors.ErrUnsupported.
func NewMemoryGroup(int64) (*MemoryGroup, error) { return nil, missing("there are no control groups") }

// Ended returns 0.
func (*MemoryGroup) Ended() int { return 0 }

// Close does nothing.
func (*MemoryGroup) Close() error { return nil }

// Waits returns "": this system does not show it.
func (g Tag) Waits() string { return "" }

// processGroup is a leader and its process group.
type processGroup struct {
	pid  int
	over chan struct{} // closed when the leader is dead and reaped

	mu     sync.Mutex // guards all below
	status syscall.WaitStatus
	dead   bool
}

// Start starts a command. One with a Policy is refused.
func (*Supervisor) Start(c Command) (Group, error) {
	if c.Policy != nil {
		return nil, &fs.PathError{Op: "confine", Path: c.Path, Err: errNotLinux}
	}
	env := c.Tag.environ(c.Env, os.Getenv(environName))
	pid, err := syscall.ForkExec(c.Path, c.Argv, &syscall.ProcAttr{Dir: c.Dir, Env: env, Files: c.Files[:], Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		return nil, err
	}
	t := &processGroup{pid: pid, over: make(chan struct{})}
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

const errNotLinux = missing("commands are confined on Linux only")

// Exited implements Group.
func (t *processGroup) Exited() <-chan struct{} { return t.over }

// Signal implements Group. The group outlives its leader.
func (t *processGroup) Signal(s syscall.Signal) { _ = syscall.Kill(-t.pid, s) }

// Reap implements Group.
func (t *processGroup) Reap() (syscall.WaitStatus, Process, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status, Process{PID: t.pid, Command: "leader"}, t.dead
}

// Sweep implements Group.
func (t *processGroup) Sweep(bool) (killed, left []Process) {
	group := Process{PID: t.pid, Command: "process group"}
	for deadline := time.Now().Add(KillGrace); syscall.Kill(-t.pid, syscall.SIGKILL) != syscall.ESRCH; {
		killed = []Process{group}
		if time.Now().After(deadline) {
			return killed, []Process{group}
		}
		time.Sleep(time.Millisecond)
	}
	return killed, nil
}

// CanScan reports false: this system does not show whose a process is.
func CanScan() bool { return false }

func leaks() []Process { return nil }

func ownerName() string { return "" }

func sweepOwner(_ context.Context, owner string) ([]Process, error) {
	if owner != "" {
		return nil, errors.ErrUnsupported
	}
	return nil, nil
}

func belongs(int) bool { return false }

// end refuses: this system does not distinguish a process from a later one with the
// same pid.
func end(_ context.Context, id ProcessID, _ string, _ time.Duration) error {
	return fmt.Errorf("end process %d: %w", id.PID, ErrUnproven)
}

func alive(ProcessID) bool { return false }

// Memory returns zeros: it is not known here.
func Memory(groups []Group) []int64 { return make([]int64, len(groups)) }

// HalfOfMemory returns 0: it is not known here.
func HalfOfMemory() int64 { return 0 }
