package exec

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"ralph/workers/exec/sandbox"
)

// features are what confines commands, and why something does not.
type features struct {
	sandbox.Features
	user        bool  // confined commands get a user namespace
	plainUser   bool  // commands that are not confined get a user namespace too
	space       error // why there are no containers
	mountErr    error
	netErr      error
	landlockErr error
	filterErr   error
}

var (
	errNoLandlock = errors.New("the kernel has no Landlock, or it is turned off")
	errNoFilter   = errors.New("the kernel does not filter system calls of programs for this machine")
)

// sessionFeatures are those without containers.
func sessionFeatures() features {
	f := features{Features: sandbox.Features{Landlock: sandbox.Landlock(), Filter: sandbox.Filters()}, space: errNoInit}
	if f.Landlock == 0 {
		f.landlockErr = errNoLandlock
	}
	if !f.Filter {
		f.filterErr = errNoFilter
	}
	return f
}

// probe tries out what works: all that a confined command goes through, but for
// the command. The container that it was tried in is kept for the first command.
// Root gets a user namespace too, where that works.
func (p *containers) probe() features {
	f := sessionFeatures()
	var c *container
	for _, user := range [...]bool{true, false} {
		if !user && os.Geteuid() != 0 {
			break
		}
		if c, f.space = startContainer(p.init, user); f.space != nil {
			continue
		}
		if _, f.space = c.launch(&runRequest{}, []uintptr{uintptr(c.files)}); f.space == nil {
			f.user, f.plainUser = user, os.Geteuid() != 0
			break
		}
		c.end()
		<-c.gone
	}
	if f.space != nil {
		return f
	}
	defer func() { p.put(c) }()
	try := func(x sandbox.Features) (err error) {
		// The sockets of others, which are hidden, come and go between the layout
		// and its mounts: then it is tried again.
		for range replans {
			if c.dead() {
				return errNoReply
			}
			if err = c.try(x); !errors.Is(err, fs.ErrNotExist) {
				break
			}
		}
		return err
	}
	all := f.Features
	all.Mounts, all.Net, all.PIDs = true, true, sandbox.PIDs()
	together := try(all)
	if together == nil {
		f.Features = all
		return f
	}
	// Each by itself.
	one := func(set func(*sandbox.Features)) error {
		var x sandbox.Features
		set(&x)
		return try(x)
	}
	if f.landlockErr == nil {
		f.landlockErr = one(func(x *sandbox.Features) { x.Landlock = all.Landlock })
	}
	if f.filterErr == nil {
		f.filterErr = one(func(x *sandbox.Features) { x.Filter = true })
	}
	f.PIDs = all.PIDs && one(func(x *sandbox.Features) { x.PIDs = true }) == nil
	f.mountErr = one(func(x *sandbox.Features) { x.Mounts = true })
	f.netErr = one(func(x *sandbox.Features) { x.Net = true })
	if errors.Join(f.landlockErr, f.filterErr, f.mountErr, f.netErr) == nil {
		f.mountErr = together
	}
	f.Mounts, f.Net, f.Filter = f.mountErr == nil, f.netErr == nil, f.filterErr == nil
	if f.landlockErr != nil {
		f.Landlock = 0
	}
	return f
}

// try goes through a confinement that allows nothing.
func (c *container) try(x sandbox.Features) error {
	layout, err := sandbox.Lay(sandbox.Policy{}, "", x)
	if err != nil {
		return err
	}
	layout.Limits = sandbox.Limits{} // they would stay with the container
	_, err = c.launch(&runRequest{Layout: &layout}, []uintptr{uintptr(c.files)})
	return err
}

var (
	errNoWrites  = errors.New("neither a mount namespace nor Landlock keeps it from writing elsewhere")
	errNoNetwork = errors.New("neither a network namespace nor a filter keeps it from the network")
)

// lay resolves a policy by the features that there are.
func lay(pol *sandbox.Policy, dir string, f features) (sandbox.Layout, error) {
	const hint = "ralph doctor shows what confines commands here"
	if !f.Mounts && f.Landlock == 0 {
		return sandbox.Layout{}, &Error{Op: "confine", Path: dir, Err: errNoWrites, Hint: hint}
	}
	if !pol.Network && !f.Net && !f.Filter {
		return sandbox.Layout{}, &Error{Op: "confine", Path: dir, Err: errNoNetwork, Hint: hint}
	}
	if len(pol.Overlays) > 0 && !f.Mounts {
		return sandbox.Layout{}, &Error{Op: "confine", Path: pol.Overlays[0].Path, Err: errNoOverlay, Hint: hint}
	}
	l, err := sandbox.Lay(*pol, dir, f.Features)
	if err != nil {
		return sandbox.Layout{}, confineError(err)
	}
	return l, nil
}

var errNoOverlay = errors.New("there is no mount namespace for an overlay")

// confineError names the path at fault.
func confineError(err error) *Error {
	var pe *fs.PathError
	if !errors.As(err, &pe) {
		return &Error{Op: "confine", Err: err}
	}
	hint := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		hint = "a place that the command may use must exist"
	case errors.Is(err, syscall.ELOOP):
		hint = "a symbolic link was put in the way"
	}
	op := pe.Op
	if op == "" {
		op = "confine"
	}
	return &Error{Op: op, Path: pe.Path, Err: pe.Err, Hint: hint}
}

// workDir is where a confined command starts: what this process stands on may
// be covered.
func workDir(dir string) (string, error) {
	if dir == "" {
		dir = "."
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", &Error{Op: "enter directory", Path: dir, Err: err}
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return "", &Error{Op: "enter directory", Path: dir, Err: cause(err)}
	}
	return real, nil
}

// restrict confines the calling thread, where there are no containers; nil for nil.
func restrict(l *sandbox.Layout) error {
	if l == nil {
		return nil
	}
	if err := l.Restrict(unix.Gettid()); err != nil {
		return confineError(err)
	}
	return nil
}

// release gives a confined command without a container its limits and lets a leader
// go that is traced by this thread and stopped before its first instruction. One that
// cannot be limited is ended.
func release(t *tree, l *sandbox.Layout) error {
	for {
		var ws syscall.WaitStatus
		if _, err := syscall.Wait4(t.pid, &ws, syscall.WUNTRACED, nil); err != syscall.EINTR {
			break
		}
	}
	var err error
	if l != nil {
		err = l.Limits.Shared().Apply(t.pid)
	}
	if err == nil {
		err = syscall.PtraceDetach(t.pid)
	}
	if err == nil {
		return nil
	}
	t.signal(syscall.SIGKILL)
	t.watch()
	t.reap()
	t.sweep(true)
	return confineError(err)
}

// layers is Layers.
func (r *Runner) layers() []Layer {
	m := sessionFeatures()
	if r.plain {
		m.space = errors.New("the method without namespaces was chosen")
	} else {
		m = r.boxes.features()
	}
	if m.space != nil {
		m.mountErr, m.netErr = m.space, m.space
	}
	layer := func(name, holds string, err error) Layer {
		if err != nil {
			return Layer{Name: name, Detail: "not available: " + err.Error()}
		}
		return Layer{Name: name, Active: true, Detail: holds}
	}
	mounts := layer("mount namespace", "everything read-only but what may be changed; secrets, sockets and devices hidden; private /tmp, /dev/shm and /dev/pts", m.mountErr)
	if m.mountErr != nil {
		mounts.Detail += "; nothing is hidden, protected below what may be changed, or private, and modes, owners and times of other files can be changed"
	}
	net := layer("network namespace", "own loopback, no other network, no abstract sockets of the host", m.netErr)
	if m.netErr != nil && m.Filter {
		net.Detail += "; internet sockets are refused by the filter instead, also on the loopback"
	}
	landlock := "Landlock"
	holds := "writing only where it is allowed, once more"
	if m.Landlock > 0 {
		landlock = fmt.Sprintf("Landlock (ABI %d)", m.Landlock)
	}
	if m.Landlock >= sandbox.ScopeABI {
		holds += "; no signals to processes outside, no abstract sockets of others"
	}
	return []Layer{
		layer("process namespace", "sees and signals only its own processes", m.space),
		mounts,
		net,
		layer(landlock, holds, m.landlockErr),
		layer("system call filter", "no namespaces, mounts, keyrings, bpf, perf, io_uring, userfaultfd, modules, vsock or terminal injection", m.filterErr),
		{Name: "no new privileges", Active: true, Detail: "setuid programs and file capabilities give none"},
		{Name: "capabilities dropped", Active: true, Detail: capabilities(m)},
		{Name: "limits", Active: true, Detail: bounds(m)},
	}
}

func capabilities(m features) string {
	if os.Geteuid() != 0 {
		return "all of them"
	}
	return "all but those over files and users (chown, dac_override, fowner, fsetid, kill, setgid, setuid)"
}

// bounds says honestly what holds of the limits.
func bounds(m features) string {
	out := fmt.Sprintf("files, memory of each process, no core dumps; at most %d processes", sandbox.DefaultProcesses)
	switch {
	case m.PIDs:
		return out + ", counted by the namespace"
	case os.Geteuid() == 0:
		return "files, memory of each process, no core dumps; the number of processes is not bounded: the limit does not hold for root, and a bound of the namespace needs Linux 6.14"
	case m.space != nil:
		return out + " more than run in all when it starts"
	}
	return out + ", counted by the user namespace from Linux 5.14 on"
}
