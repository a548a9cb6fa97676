package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"ralph/workers/exec/sandbox"
)

// Supervisor starts commands. It starts nothing by itself before the first Start,
// Ready, Method or Layers. Its maker closes it.
type Supervisor struct {
	session bool // without containers
	pool    *pool
}

// New returns a Supervisor.
func New(o Options) *Supervisor {
	return &Supervisor{session: o.Method == MethodSession, pool: newPool(o.Init)}
}

// Start starts a command. The first call for a command that is no tool tries the
// means of the kernel out. A command that cannot be restricted to its Policy is not
// started: the error is then an *fs.PathError, which matches errors.ErrUnsupported
// where the system lacks the means, and ErrNoContainer or one of Exhausted where it lacks
// room.
func (s *Supervisor) Start(c Command) (Group, error) {
	if !c.Tool && !s.session && len(s.pool.init) > 0 {
		f := s.pool.features()
		if err := f.exhausted(); err != nil && c.Policy != nil {
			return nil, &fs.PathError{Op: "confine", Path: c.Path, Err: err} // never with less
		}
		if f.noContainer == nil {
			return s.pool.start(c)
		}
	}
	if c.Serve != nil {
		return nil, &fs.PathError{Op: "confine", Path: c.Path, Err: missing("there is no network of its own in which something could be served")}
	}
	return startTree(c)
}

// Ready makes a container for the next confined command in the background, whose memory the
// group bounds that memory returns. It does not block and may be called often.
func (s *Supervisor) Ready(memory func() *MemoryGroup) {
	if !s.session {
		s.pool.ready(memory)
	}
}

// Close ends idle containers and waits for their end. A container in use ends with
// its command.
func (s *Supervisor) Close() { s.pool.close() }

// Method returns how this Supervisor ends commands. The first call tries it out.
func (s *Supervisor) Method() Method {
	m := sessionMethod()
	if s.session {
		m.Detail = "chosen; " + m.Detail
		return m
	}
	f := s.pool.features()
	if f.noContainer != nil {
		m.Detail = fmt.Sprintf("no namespaces: %v; %s", f.noContainer, m.Detail)
		return m
	}
	m = Method{Name: "pid+mount namespaces", Survives: true}
	if f.user {
		m.Name = "user+pid+mount namespaces"
	}
	m.Detail = "Ralph executed again as the first process of each, parent-death signal, lifeline, limit and environment tags"
	return m
}

func sessionMethod() Method {
	tb := children()
	name := "session+tag sweep"
	if tb.subreaper {
		name = "session+subreaper+tag sweep"
	}
	used := []string{"parent-death signal"}
	if tb.tagged {
		used = append(used, "inherited limit tag")
	}
	used = append(used, "environment tag")
	if !CanScan() {
		used = append(used, "but no process table of this pid namespace in /proc: only process groups are ended, and nothing is proven")
	}
	return Method{Name: name, Detail: "uses " + strings.Join(used, ", ")}
}

// Layers returns the means by which commands are confined, whether they work here or
// not, the most important first. The first call tries them out, which takes some
// milliseconds.
func (s *Supervisor) Layers() []Layer {
	f := sessionFeatures()
	if s.session {
		f.noContainer = errors.New("the method without namespaces was chosen")
	} else {
		f = s.pool.features()
	}
	if f.noContainer != nil {
		f.noMounts, f.noNet = f.noContainer, f.noContainer
	}
	layer := func(name, holds string, err error) Layer {
		if err != nil {
			return Layer{Name: name, Detail: "not available: " + err.Error(), Err: err}
		}
		return Layer{Name: name, Active: true, Detail: holds}
	}
	mounts := layer("mount namespace", "everything read-only but what may be changed; secrets, sockets and devices hidden; private /tmp, /dev/shm and /dev/pts", f.noMounts)
	if f.noMounts != nil {
		mounts.Detail += "; names of hidden files can be seen, and without Landlock the files be read; nothing is protected below what may be changed (a command can destroy the git history), or private, and modes, owners and times of other files can be changed"
	}
	net := layer("network namespace", "own loopback, no other network, no abstract sockets of the host", f.noNet)
	if f.noNet != nil && f.Filter {
		net.Detail += "; sockets are refused by the filter instead, also on the loopback"
	}
	landlock := "Landlock"
	holds := "writing only where it is allowed, once more"
	if f.Landlock > 0 {
		landlock = fmt.Sprintf("Landlock (ABI %d)", f.Landlock)
	}
	if f.Landlock >= sandbox.ScopeABI {
		holds += "; no signals to processes outside, no abstract sockets of others"
	}
	if f.noGuard == nil && !f.Guard {
		f.noGuard = errors.New("it needs mounts, Landlock and the filter")
	}
	names := layer("guard of names", "no command makes a name that acts, or writes to a file that is linked from outside: the calls that make and open files are made for it", f.noGuard)
	if names.Optional = true; !names.Active {
		names.Detail += "; such a name is removed after the command, and a file with hard links outside the tree is written in place"
	}
	if f.noSockets == nil && !f.Sockets {
		f.noSockets = errors.New("it needs the guard of names and a network namespace")
	}
	sockets := layer("guard of sockets", "a command without a network connects only to unix sockets of its own, wherever those of others lie, and has no unix datagrams", f.noSockets)
	if sockets.Optional = true; !sockets.Active {
		sockets.Detail += "; unix sockets in the project, in directories of toolchains and of the system can be reached, but for those that are hidden"
	}
	processes := layer("process namespace", "sees and signals only its own processes", f.noContainer)
	if processes.Active && !f.user && os.Geteuid() == 0 {
		processes.Detail += "; no user namespace can be made: a command of root's is the machine's root, but for the capabilities that are dropped"
	}
	return []Layer{
		processes,
		mounts,
		net,
		layer(landlock, holds, f.noLandlock),
		layer("system call filter", "no namespaces, mounts, keyrings, bpf, perf, io_uring, userfaultfd, modules, vsock or terminal injection", f.noFilter),
		names,
		sockets,
		{Name: "no new privileges", Active: true, Detail: "setuid programs and file capabilities give none"},
		{Name: "capabilities dropped", Active: true, Detail: droppedCapabilities()},
		{Name: "limits", Active: true, Detail: f.limits()},
	}
}

func droppedCapabilities() string {
	if os.Geteuid() != 0 {
		return "all of them"
	}
	return "all but those over files and users (chown, dac_override, fowner, fsetid, kill, setgid, setuid)"
}

// limits describes which limits hold.
func (f features) limits() string {
	out := fmt.Sprintf("size of files, data of each process, no core dumps, the first that the kernel ends for lack of memory; at most %d processes and threads", sandbox.DefaultProcesses)
	switch {
	case f.PIDs:
		return out + ", counted by the namespace"
	case os.Geteuid() == 0:
		return "size of files, data of each process, no core dumps, the first that the kernel ends for lack of memory; the number of processes is not bounded: the limit does not hold for root, and a bound of the namespace needs Linux 6.14"
	case f.noContainer != nil:
		return out + " more than run in all when it starts"
	}
	return out + ", counted by the user namespace from Linux 5.14 on"
}

// lay resolves a policy by the features that there are.
func lay(pol *sandbox.Policy, dir string, f features) (sandbox.Layout, error) {
	lacks := func(path string, err error) (sandbox.Layout, error) {
		return sandbox.Layout{}, &fs.PathError{Op: "confine", Path: path, Err: err}
	}
	switch {
	case !f.Mounts && f.Landlock == 0:
		return lacks(dir, missing("neither a mount namespace nor Landlock keeps it from writing elsewhere"))
	case !pol.Network && !f.Net && !f.Filter:
		return lacks(dir, missing("neither a network namespace nor a filter keeps it from the network"))
	case len(pol.Overlays) > 0 && !f.Mounts:
		return lacks(pol.Overlays[0].Path, missing("there is no mount namespace for an overlay"))
	}
	return sandbox.Lay(*pol, dir, f.Features)
}

// attr returns the attributes of the process of c.
func (c Command) attr() *syscall.ProcAttr {
	return &syscall.ProcAttr{Dir: c.Dir, Env: c.Tag.environ(c.Env, os.Getenv(environName)), Files: c.Files[:]}
}
