package exec

import (
	"fmt"
	"io"
	"net"
	"time"

	"ralph/workers/exec/sandbox"
	"ralph/workers/exec/supervise"
)

// Spec describes a command. The zero value of every field but Argv is useful.
type Spec struct {
	// Argv is the program and its arguments. A program without a slash is looked
	// up in the PATH of Env; a relative path with one is relative to Dir.
	Argv []string
	// Dir is the working directory; "" is that of this process.
	Dir string
	// Env is the whole environment; nil means Environ(os.Environ()). RALPH_TAG is
	// added to it.
	Env []string
	// Stdin is what the command reads; nil is /dev/null. An *os.File is passed as it
	// is. Read of any other reader must not block for long: Run waits for it at most
	// 100 ms after the command has ended.
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
	// Redact, if not nil, changes what goes into OutputFile, in pieces that end with
	// a line where lines are no longer than 64 KiB.
	Redact func([]byte) []byte
	// Split keeps stdout and stderr apart; otherwise both are in Stdout.
	Split bool
	// OnOutput, if not nil, is called with each piece of output as it arrives, one
	// call at a time. It must not keep the slice, and the command waits for it.
	OnOutput func([]byte)
	// Tool marks a program of Ralph's own choice, such as git, that leaves nothing
	// running: it gets no namespaces, and its process group is ended with it. It is
	// ended too when it waits for a named pipe, or reads a device, by a path; see
	// Result.Waited.
	Tool bool
	// Confine restricts the command and its descendants; nil does not. A command that
	// cannot be restricted is not run, and the error is an *Error. Layers shows which
	// means there are; whether they suffice is the caller's decision.
	Confine *sandbox.Policy
	// Record gets what the command and its descendants write; nil gets nothing. It is of
	// this command alone. Result.Watched reports that it got everything.
	Record *Record
	// Serve, if not nil, is called, on a goroutine of its own, with a listener at
	// sandbox.ServiceAddr in the command's own network, in which a service of this process
	// can be offered. The listener is closed when the command has ended, and Serve must
	// return then. Only a command of Confine without the host's network can have one.
	Serve func(net.Listener)
}

// Result is the outcome of a command.
type Result struct {
	// ExitCode is 128+n when the command was killed by signal n.
	ExitCode int
	// Signal that killed the command: "SIGKILL" …, or "".
	Signal string
	// Duration from the start to the proof that nothing is left.
	Duration time.Duration
	// TimedOut reports that Spec.Timeout ended the command.
	TimedOut bool
	// Waited is the path of the named pipe or device for which a tool was ended; "" for
	// none.
	Waited string
	// Stdout holds both streams unless Spec.Split is set.
	Stdout, Stderr Capture
	// OutputErr is the reason why Spec.OutputFile is missing or incomplete; nil when
	// it was not needed, is complete, or reached MaxFileBytes.
	OutputErr error
	// Watched reports that Spec.Record got everything that the command wrote below its
	// directory.
	Watched bool
	// Limit is the key of a bound of the session that the command met: KeyMemory ended it, or
	// some process that ran at the time,
	// KeyOutput kept no more of its output in OutputFile. "" is none.
	Limit string
	// Killed lists what the command left running and had to be killed.
	Killed []supervise.Process
}

// Capture is bounded output.
type Capture struct {
	// Head is the beginning, Tail what followed it or, when the output was
	// longer than what is kept, its end.
	Head, Tail []byte
	// Bytes is how much was written in all.
	Bytes int64
	// File is Spec.OutputFile if it was used, else ""; FileCut reports that it holds
	// only the beginning.
	File    string
	FileCut bool
}

// Truncated reports that the middle is not in Head and Tail.
func (c Capture) Truncated() bool { return c.Bytes > int64(len(c.Head)+len(c.Tail)) }

// String returns the output, with a line in square brackets in place of a missing
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

// Error reports that a command could not be started, or be restricted to its policy.
type Error struct {
	// Op is the step that failed, such as "start".
	Op string
	// Path is the program or directory at fault.
	Path string
	Err  error
	// Hint is a way out for the user; may be "".
	Hint string
}

// Error is "op \"path\": cause".
func (e *Error) Error() string { return fmt.Sprintf("%s %q: %v", e.Op, e.Path, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
