package exec

import (
	"fmt"
	"io"
	"strings"
	"time"

	"ralph/workers/exec/sandbox"
)

// Spec says what to run. The zero value of every field but Argv is useful.
type Spec struct {
	// Argv is the program and its arguments. A program without a slash is looked
	// up in the PATH of Env; a relative path with one is relative to Dir.
	Argv []string
	// Dir is the working directory; "" is that of this process.
	Dir string
	// Env is the whole environment; nil means Environ(os.Environ()). RALPH_TAG
	// is added to it.
	Env []string
	// Stdin is what the command reads; nil is /dev/null. An *os.File is handed
	// over as it is. Of another reader Read must not block for long: Run waits
	// at most 100 ms for it after the command has ended.
	Stdin io.Reader
	// Timeout ends the command by INT, 0.5 s, TERM, 1.5 s, KILL; 0 is none.
	Timeout time.Duration
	// MaxBytes of output are kept in memory per stream, the first half and the
	// last half; 0 is 64 KiB.
	MaxBytes int
	// OutputFile receives the whole output of both streams, in order of arrival,
	// once it passes MaxBytes. It is created then, with its directory, and must
	// not exist. "" drops the middle.
	OutputFile string
	// MaxFileBytes bounds OutputFile; 0 is 256 MiB. What comes later is counted
	// but not written.
	MaxFileBytes int64
	// Redact, if any, changes what goes into OutputFile, in pieces that end with
	// a line where lines are no longer than 64 KiB.
	Redact func([]byte) []byte
	// Split keeps stdout and stderr apart; otherwise both are in Stdout.
	Split bool
	// OnOutput, if any, is called with each piece of output as it arrives, one
	// call at a time. It must not keep the slice, and the command waits for it.
	OnOutput func([]byte)
	// Tool marks a program of Ralph's own choice, such as git, that leaves nothing
	// running: it gets no namespaces, and its process group is ended with it.
	Tool bool
	// Confine is what the kernel holds the command to; nil is not confined.
	Confine *sandbox.Policy
}

// Result is what became of a command.
type Result struct {
	// ExitCode is 128+n when the command was killed by signal n.
	ExitCode int
	// Signal that killed the command: "SIGKILL" …, or "".
	Signal string
	// Duration from the start to the proof that nothing is left.
	Duration time.Duration
	// TimedOut says that Spec.Timeout ended it.
	TimedOut bool
	// Stdout holds both streams unless Spec.Split is set.
	Stdout, Stderr Capture
	// OutputErr says why Spec.OutputFile is missing or incomplete; nil when it
	// was not needed, is whole, or reached MaxFileBytes.
	OutputErr error
	// Killed is what of the command's tree had to be ended after the leader.
	Killed []Process
}

// Capture is bounded output.
type Capture struct {
	// Head is the beginning, Tail what followed it or, when the output was
	// longer than what is kept, its end.
	Head, Tail []byte
	// Bytes is how much was written in all.
	Bytes int64
	// File is Spec.OutputFile if it was used, else ""; FileCut says that it holds
	// only the beginning.
	File    string
	FileCut bool
}

// Truncated says that the middle is not in Head and Tail.
func (c Capture) Truncated() bool { return c.Bytes > int64(len(c.Head)+len(c.Tail)) }

// String is the output, with a line in square brackets in place of a missing
// middle.
func (c Capture) String() string {
	if !c.Truncated() {
		return string(c.Head) + string(c.Tail)
	}
	where := ""
	switch {
	case c.FileCut:
		where = "; the beginning of it is in " + c.File
	case c.File != "":
		where = "; all of it is in " + c.File
	}
	nl := "\n"
	if len(c.Head) == 0 || c.Head[len(c.Head)-1] == '\n' {
		nl = ""
	}
	missing := c.Bytes - int64(len(c.Head)+len(c.Tail))
	return fmt.Sprintf("%s%s[%d bytes left out%s]\n%s", c.Head, nl, missing, where, c.Tail)
}

// Process names one process: the pid alone can be reused, pid and start time
// together cannot.
type Process struct {
	PID int
	// Start is the start time in clock ticks since boot; 0 where the system does
	// not tell.
	Start uint64
	// Command line as the system shows it, at most 200 bytes.
	Command string
}

// Error says why a command could not be started.
type Error struct {
	// Op is what was being done: "start", "read".
	Op string
	// Path is the program or directory at fault.
	Path string
	Err  error
	// Hint is a way out for the user; may be "".
	Hint string
}

// Error is "op \"path\": cause".
func (e *Error) Error() string { return fmt.Sprintf("%s %q: %v", e.Op, e.Path, e.Err) }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// SurvivorError says that processes were still alive after they were killed,
// for example because they hang in the kernel or belong to another user.
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

// Method is how trees of processes are ended on this system.
type Method struct {
	// Name of what is used, such as "session+subreaper+tag sweep".
	Name string
	// Detail says which helpers are active, why a better method is not used, and
	// what else the kernel offers.
	Detail string
	// Survives says that nothing is left even when Ralph itself is killed.
	Survives bool
}

// methodSession is the Options.Method that uses no namespaces.
const methodSession = "session"
