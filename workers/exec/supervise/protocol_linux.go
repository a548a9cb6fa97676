package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"ralph/workers/exec/sandbox"
)

// This file defines what this process and the first process of a container exchange:
// requests and replies, encoded by gob, over one socket, and the files of commands
// over another.

// The descriptors of the first process, besides 0, 1 and 2, which are /dev/null.
const (
	initControl = 3
	initFiles   = 4
)

// commandFiles is how many files a command gets.
const commandFiles = 3

// setup is the first request.
type setup struct {
	// UID and GID are mapped to themselves in a new user namespace; -1 where the
	// namespace is mapped already, or there is none.
	UID, GID int
}

// request is every other request. Exactly one field is set.
type request struct {
	Run    *runRequest
	Signal syscall.Signal // to the process group of the leader
	Freeze bool           // stop everything but the first process
	Sweep  bool           // kill everything but the first process; the leader is dead
}

// runRequest starts a command. Its files come over the other socket: the three of the
// command, and with Watch the one that receives what it writes.
type runRequest struct {
	Path      string // "" only tries the layout
	Argv, Env []string
	Dir       string
	Tag       uint64          // soft limit RLIMIT_RTTIME of the command; 0 leaves it
	Layout    *sandbox.Layout // nil is not confined
	Watch     string          // see Command.Watch
	Listen    bool            // see Command.Serve; the listener comes back over the files' socket
}

// reply answers a request, but for Signal and Freeze. Exactly one field is set.
type reply struct {
	Ready   bool  // setup is done
	Started int   // pid of the leader in its namespace; 1 for a layout that was only tried
	Fault   *flaw // setup or run failed
	Exited  *exit // the leader is dead and reaped
	Swept   bool  // nothing is left
}

// exit is the end of a leader.
type exit struct {
	Status syscall.WaitStatus
	Left   bool // more than the leader was there when it ended
}

// flaw is an error that crosses the process boundary.
type flaw struct {
	Confine bool // the confinement failed, not the start of the program
	Op      string
	Path    string
	Errno   syscall.Errno
	Text    string // of an error without Errno
}

func flawOf(confine bool, err error) *flaw {
	f := &flaw{Confine: confine}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		f.Op, f.Path = pe.Op, pe.Path
	}
	if !errors.As(err, &f.Errno) {
		f.Text = err.Error()
	}
	return f
}

// Error is "op path: cause".
func (f *flaw) Error() string {
	return strings.TrimLeft(fmt.Sprintf("%s %s: %v", f.Op, f.Path, f.Unwrap()), " :")
}

// Unwrap returns the cause.
func (f *flaw) Unwrap() error {
	if f.Errno != 0 {
		return f.Errno
	}
	return errors.New(f.Text)
}

// sendFiles passes descriptors over a socket of sequenced packets.
func sendFiles(socket int, files []int) error {
	return unix.Sendmsg(socket, []byte{0}, unix.UnixRights(files...), nil, unix.MSG_NOSIGNAL)
}

// receiveFiles returns the descriptors of one sendFiles. The caller closes them.
func receiveFiles(socket int) ([]int, error) {
	const most = commandFiles + 1
	var one [1]byte
	space := make([]byte, unix.CmsgSpace(4*most))
	for {
		_, n, _, _, err := unix.Recvmsg(socket, one[:], space, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		msgs, err := unix.ParseSocketControlMessage(space[:n])
		if err != nil || len(msgs) != 1 {
			return nil, errors.Join(err, unix.EPROTO)
		}
		return unix.ParseUnixRights(&msgs[0])
	}
}

func closeFiles(files []int) {
	for _, fd := range files {
		_ = unix.Close(fd)
	}
}
