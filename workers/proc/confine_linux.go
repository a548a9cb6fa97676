package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"ralph/workers/proc/jail"
)

const defaultMaxProcesses = 2048

// policy is a Confinement in the terms of the kernel's part.
func (c *Confinement) policy(dir string) jail.Policy {
	n := c.MaxProcesses
	if n <= 0 {
		n = defaultMaxProcesses
	}
	return jail.Policy{
		Write: c.Write, Protect: c.Protect, Hide: c.Hide, Temp: c.Temp, Dir: dir, Network: c.Network,
		MaxProcesses: n, MaxFileBytes: c.MaxFileBytes, MaxMemoryBytes: c.MaxMemoryBytes,
	}
}

// means are what confines commands, and why something does not.
type means struct {
	jail.Means
	space       error // why there are no namespaces for processes
	mountErr    error
	netErr      error
	landlockErr error
	filterErr   error
}

var (
	errNoLandlock = errors.New("the kernel has no Landlock, or it is turned off")
	errNoFilter   = errors.New("the kernel does not filter system calls of programs for this machine")
)

// sessionMeans are those without namespaces.
func sessionMeans() means {
	m := means{Means: jail.Means{Landlock: jail.Landlock(), Filter: jail.Filters()}}
	if m.Landlock == 0 {
		m.landlockErr = errNoLandlock
	}
	if !m.Filter {
		m.filterErr = errNoFilter
	}
	return m
}

// spaceMeans tries out what works in namespaces: all that a confined command
// goes through, but for the command.
var spaceMeans = sync.OnceValue(func() means {
	m := sessionMeans()
	keepC, err := spaces()
	if err != nil {
		m.space = err
		return m
	}
	m.UserSpace = os.Geteuid() != 0
	all := m
	all.Mounts, all.Net, all.PIDs = true, true, jail.PIDs()
	together := tryConfined(all.Means, keepC)
	if together == nil {
		return all
	}
	// Each by itself.
	if m.landlockErr == nil {
		m.landlockErr = tryConfined(jail.Means{UserSpace: m.UserSpace, Landlock: m.Landlock}, keepC)
	}
	if m.filterErr == nil {
		m.filterErr = tryConfined(jail.Means{UserSpace: m.UserSpace, Filter: true}, keepC)
	}
	m.PIDs = all.PIDs && tryConfined(jail.Means{UserSpace: m.UserSpace, PIDs: true}, keepC) == nil
	m.mountErr = tryConfined(jail.Means{UserSpace: m.UserSpace, Mounts: true}, keepC)
	m.netErr = tryConfined(jail.Means{UserSpace: m.UserSpace, Net: true}, keepC)
	if errors.Join(m.landlockErr, m.filterErr, m.mountErr, m.netErr) == nil {
		m.mountErr = together
	}
	m.Mounts, m.Net, m.Filter = m.mountErr == nil, m.netErr == nil, m.filterErr == nil
	if m.landlockErr != nil {
		m.Landlock = 0
	}
	return m
})

// tryConfined tries a confinement out. The sockets of others, which it hides, come
// and go between the plan and its mounts: then it is tried again.
func tryConfined(m jail.Means, keepC bool) (err error) {
	for range replans {
		if err = tryOnce(m, keepC); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return err
}

// tryOnce starts the first process of a space, which goes through all of a
// confinement and ends.
func tryOnce(m jail.Means, keepC bool) error {
	plan, err := jail.Lay(jail.Policy{MaxProcesses: defaultMaxProcesses}, m, initSignals)
	if err != nil {
		return err
	}
	s, err := startSpace(tag{}, "", nil, &syscall.ProcAttr{Files: []uintptr{0, 0, 0}}, keepC, &confined{plan: plan, net: m.Net})
	var se *stageError
	if errors.As(err, &se) && se.stage == stageConfine {
		verb, path := plan.Fault(se.step)
		return fmt.Errorf("%s %s: %w", verb, path, se.err)
	}
	if err != nil {
		return err
	}
	<-s.gone
	children().leave(&s.tree)
	if s.fate != 0 {
		return errors.New("the first process of the namespaces fails")
	}
	return nil
}

// confined is how one command is confined.
type confined struct {
	plan  *jail.Plan
	net   bool // a network namespace
	space bool // namespaces for it; else its thread is restricted
	pol   jail.Policy
	means jail.Means
}

var (
	errNoWrites  = errors.New("neither a mount namespace nor Landlock keeps it from writing elsewhere")
	errNoNetwork = errors.New("neither a network namespace nor a filter keeps it from the network")
)

// confine lays out how a command is held to c; plain is without namespaces. nil
// for nil.
func (c *Confinement) confine(dir string, plain bool) (*confined, error) {
	if c == nil {
		return nil, nil
	}
	m := sessionMeans()
	if !plain {
		m = spaceMeans()
	}
	out := &confined{pol: c.policy(dir), means: m.Means, space: !plain && m.space == nil, net: m.Net && !c.Network}
	const hint = "ralph doctor shows what confines commands here"
	if !m.Mounts && m.Landlock == 0 {
		return nil, &Error{Op: "confine", Path: dir, Err: errNoWrites, Hint: hint}
	}
	if !c.Network && !m.Net && !m.Filter {
		return nil, &Error{Op: "confine", Path: dir, Err: errNoNetwork, Hint: hint}
	}
	if !out.space {
		return out, nil
	}
	var err error
	out.plan, err = jail.Lay(out.pol, m.Means, initSignals)
	if err != nil {
		return nil, confineError(err)
	}
	return out, nil
}

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

// fault says what of the confinement went wrong in the first process.
func (c *confined) fault(se *stageError) *Error {
	if se.stage != stageConfine {
		return &Error{Op: "confine", Path: c.pol.Dir, Err: se, Hint: "ralph doctor shows what confines commands here"}
	}
	verb, path := c.plan.Fault(se.step)
	return confineError(&fs.PathError{Op: verb, Path: path, Err: se.err})
}

// restrict confines the calling thread, where there are no namespaces.
func (c *confined) restrict() error {
	if c == nil {
		return nil
	}
	if err := jail.Restrict(c.pol, c.means); err != nil {
		return confineError(err)
	}
	return nil
}

// limit gives a command without namespaces its limits: it is traced by this
// thread, and stands before its first instruction. One that cannot be limited is
// ended.
func (c *confined) limit(t *tree) error {
	if c == nil {
		return nil
	}
	for {
		var ws syscall.WaitStatus
		if _, err := syscall.Wait4(t.pid, &ws, syscall.WUNTRACED, nil); err != syscall.EINTR {
			break
		}
	}
	err := jail.Limit(t.pid, c.pol)
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
	m := sessionMeans()
	if r.plain {
		m.space = errors.New("the method without namespaces was chosen")
	} else {
		m = spaceMeans()
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
	if m.Landlock >= jail.ScopeABI {
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

func capabilities(m means) string {
	if os.Geteuid() != 0 {
		return "all of them"
	}
	return "all but those over files and users (chown, dac_override, fowner, fsetid, kill, setgid, setuid)"
}

// bounds says honestly what holds of the limits.
func bounds(m means) string {
	out := fmt.Sprintf("files, memory of each process, no core dumps; at most %d processes", defaultMaxProcesses)
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
