package supervise

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"ralph/workers/exec/sandbox"
)

// KillGrace is the time that the kernel gets to end what was killed.
const KillGrace = 5 * time.Second

// MethodSession is the Options.Method without namespaces.
const MethodSession = "session"

// ErrNoContainer is matched when a confined command was not started because no
// container could be.
var ErrNoContainer = errors.New("no container can be started")

// Options configures a Supervisor. The zero value uses the best method that works
// without Init.
type Options struct {
	// Method is "" for the best method that works, or MethodSession.
	Method string
	// Init is the command line that executes this program again as the first
	// process of a container: the result of Self, in a program whose main function
	// calls Init. nil leaves containers out.
	Init []string
}

// Command describes a process to start.
type Command struct {
	Tag  Tag
	Path string // absolute path of the program
	Argv []string
	Env  []string // the whole environment; Start adds the tag
	Dir  string   // absolute if there is a Policy; "" is the current directory
	// Files are the descriptors of standard input, output and error. The caller
	// keeps them open during Start.
	Files [3]uintptr
	// Tool marks a program that leaves nothing outside its process group.
	Tool bool
	// Policy restricts the command; nil does not.
	Policy *sandbox.Policy
	// Watch is a directory, without symbolic links, below which it is seen what the
	// command writes; "" sees nothing. Record is the descriptor of a file to which is only
	// appended, and which the caller keeps open during Start. It gets the Seen values, each
	// a line of JSON, before what they report happens; none where the system gives no such
	// view.
	Watch  string
	Record uintptr
	// Memory bounds the memory of the command, with that of others; nil does not.
	Memory *MemoryGroup
	// Serve, if not nil, is given a listener at sandbox.ServiceAddr of the command's own
	// network before the command starts, and closes it. Only a command with a Policy that
	// has no network can have one.
	Serve func(net.Listener)
}

// Seen is an entry of Command.Record.
type Seen struct {
	Begun      bool   `json:",omitempty"` // the first entry
	Gap        bool   `json:",omitempty"` // what is written from here on is not seen
	Path       []byte `json:",omitempty"` // the fields of sandbox.Write
	At, Before time.Time
	Mode       uint32 `json:",omitempty"`
	Refused    []byte `json:",omitempty"` // a path that was not made, for its name of this class
	Class      string `json:",omitempty"`
	Key        string `json:",omitempty"` // that a configuration of git at this path was made without
	Foreign    []byte `json:",omitempty"` // a socket that was not connected to, as it is not the command's
	// Undone says that a process of git was to change such a path, and that all it had changed
	// of the tree was taken back; Left are the paths of which that failed.
	Undone bool     `json:",omitempty"`
	Left   [][]byte `json:",omitempty"`
}

// Group is a started command with everything that descends from it. Reap and Sweep
// are called once each, in this order, by one goroutine.
type Group interface {
	// Exited returns a channel that is closed when the leader is dead.
	Exited() <-chan struct{}
	// Signal sends to the leader's process group; SIGKILL may reach the whole group.
	Signal(syscall.Signal)
	// Reap returns the leader and, if it is dead, its status. A leader that is
	// still alive is reaped when it dies.
	Reap() (status syscall.WaitStatus, leader Process, dead bool)
	// Sweep ends what is left, and proves it. dead is the result of Reap. killed
	// lists what had to be killed after the leader, left what could not be.
	Sweep(dead bool) (killed, left []Process)
}

// Process identifies one process: a pid alone may be reused, a pid with its start
// time is not.
type Process struct {
	PID int
	// Start is the start time in clock ticks since boot; 0 where it is not known.
	Start uint64
	// Command is the command line as the system shows it, of at most 200 bytes.
	Command string
}

// SurvivorError reports processes that are alive after they were killed, for
// example because they hang in the kernel or belong to another user.
type SurvivorError struct{ Processes []Process }

// Error names each process by pid and command line.
func (e *SurvivorError) Error() string {
	var b strings.Builder
	b.WriteString("still running after SIGKILL:")
	for i, p := range e.Processes {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, " %d (%s)", p.PID, p.Command)
	}
	return b.String()
}

// Method describes how processes are ended on this system.
type Method struct {
	// Name lists the means, such as "session+subreaper+tag sweep".
	Name string
	// Detail lists the helpers that are active, and why a better method is not used.
	Detail string
	// Survives reports that nothing is left even when Ralph itself is killed.
	Survives bool
}

// Layer is one of the means by which commands are confined.
type Layer struct {
	// Name of the layer, such as "network namespace".
	Name string
	// Active reports that the layer was tried and holds.
	Active bool
	// Detail describes what the layer holds, or why it is missing.
	Detail string
	// Err is why it is missing; nil where it holds.
	Err error
	// Optional marks a layer that callers can do without, by means of their own.
	Optional bool
}

// Exhausted reports whether an error says that the system, or a limit of this process, has no
// room now, which is no lack of a means: files, processes or memory.
func Exhausted(err error) bool {
	for _, e := range [...]error{syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// environName is the environment variable with the tags of the commands that a
// process belongs to, separated by "/", the outermost first: a Ralph that runs in a
// command of another one appends to what it was given.
const environName = "RALPH_TAG"

// environ returns env with the tag, below the tags of this process, outer.
func (g Tag) environ(env []string, outer string) []string {
	out := make([]string, 0, len(env)+1)
	for _, kv := range env {
		if !strings.HasPrefix(kv, environName+"=") {
			out = append(out, kv)
		}
	}
	text := g.text()
	if outer != "" {
		text = outer + "/" + text
	}
	return append(out, environName+"="+text)
}

// missing is the error that this system lacks what a policy needs. It matches
// errors.ErrUnsupported.
type missing string

func (m missing) Error() string { return string(m) }

// Is reports whether target is errors.ErrUnsupported.
func (m missing) Is(target error) bool { return target == errors.ErrUnsupported }
