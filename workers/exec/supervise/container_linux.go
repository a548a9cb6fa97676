package supervise

import (
	"encoding/gob"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ralph/workers/exec/sandbox"
)

// container is a pid namespace with its first process, which is this program
// executed again (see Init). It runs one command at a time, each with a mount
// namespace of its own, and is used again when nothing of the command is left.
//
// When the first process ends, the kernel kills everything in the pid namespace
// before it reports that death: this proves that nothing is left. The first process
// ends when its control socket closes, and by its parent-death signal, so also when
// Ralph is killed.
//
// In a user namespace, programs that become another user (sudo, su, ping with file
// capabilities) fail, and an ordinary user sees the files of others as nobody's.
type container struct {
	child          // the first process
	user    bool   // it has a user namespace
	inode   uint64 // of the pid namespace
	control *os.File
	files   int           // socket for the files of commands
	replies chan reply    // closed with the control socket
	gone    chan struct{} // closed when the first process is reaped

	// The goroutine that took the container from its pool owns what follows.
	used   bool            // a command was started in it
	limits *sandbox.Limits // set for good by the first confined command; nil before
	memory *MemoryGroup    // it is in; nil is none

	sendMu sync.Mutex // guards enc
	enc    *gob.Encoder
}

// startTime bounds the wait for an answer of a first process.
const startTime = 20 * time.Second

var (
	errNoInit  = errors.New("this program cannot be executed again as the first process of namespaces")
	errNoReply = errors.New("the first process of the namespaces does not answer")
)

// startContainer starts a container and waits until it takes commands.
func startContainer(argv []string, user bool) (*container, error) {
	if len(argv) == 0 {
		return nil, errNoInit
	}
	c := &container{
		child: child{tag: NewTag(), sealed: true}, user: user,
		replies: make(chan reply, 4), gone: make(chan struct{}),
	}
	started := make(chan error, 1)
	go func() {
		// The first process gets its parent-death signal when the thread that forked
		// it ends, so the thread waits.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.fork(argv)
		started <- err
		if err == nil {
			c.reapInit()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	if err := c.begin(); err != nil {
		c.end()
		<-c.gone
		if errors.Is(err, errNoReply) {
			err = cramped(err)
		}
		return nil, err
	}
	return c, nil
}

// cramped adds to the error of a first process that ended before it could answer the limit
// of this process that it has met: Go's runtime needs a few threads and addresses.
func cramped(err error) error {
	for _, l := range [...]struct {
		resource int
		least    uint64
		errno    syscall.Errno
	}{{unix.RLIMIT_NPROC, 64, syscall.EAGAIN}, {unix.RLIMIT_AS, 2 << 30, syscall.ENOMEM}} {
		var now unix.Rlimit
		if unix.Prlimit(0, l.resource, nil, &now) == nil && now.Cur < l.least {
			return fmt.Errorf("%w: %w", err, l.errno)
		}
	}
	return err
}

// fork starts the first process on the calling thread.
func (c *container) fork(argv []string) error {
	control, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	files, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		closeFiles(control[:])
		return err
	}
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		closeFiles(append(control[:], files[:]...))
		return err
	}
	// An environment that is not empty: see environOf.
	attr := &syscall.ProcAttr{Env: []string{"LANG=C"}, Sys: namespaces(c.user)}
	for _, fd := range [...]int{null, null, null, control[1], files[1]} {
		attr.Files = append(attr.Files, uintptr(fd))
	}
	err = children().fork(&c.child, "/proc/self/exe", argv, attr)
	closeFiles([]int{null, control[1], files[1]})
	if err != nil {
		closeFiles([]int{control[0], files[0]})
		return err
	}
	c.inode = pidNamespace(strconv.Itoa(c.PID))
	c.control, c.files = pollable(control[0], "control"), files[0]
	c.enc = gob.NewEncoder(c.control)
	return nil
}

// namespaces returns the attributes that make a container's namespaces. For an
// ordinary user the first process maps the user itself, which works although this
// process is not dumpable, and keeps its capabilities over exec as ambient ones.
func namespaces(user bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Setsid: true, Pdeathsig: syscall.SIGKILL}
	if !user {
		return attr
	}
	attr.Cloneflags |= unix.CLONE_NEWUSER
	if os.Geteuid() == 0 {
		attr.UidMappings, attr.GidMappings, attr.GidMappingsEnableSetgroups = identity("uid_map"), identity("gid_map"), true
		return attr
	}
	for n := uintptr(0); n <= unix.CAP_LAST_CAP; n++ {
		if unix.Prctl(unix.PR_CAPBSET_READ, n, 0, 0, 0) != nil {
			break
		}
		attr.AmbientCaps = append(attr.AmbientCaps, n)
	}
	return attr
}

// identity returns the mapping of every user, or group, of the current namespace to
// itself.
func identity(name string) []syscall.SysProcIDMap {
	text, err := os.ReadFile("/proc/self/" + name)
	if err != nil {
		return nil
	}
	var out []syscall.SysProcIDMap
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		id, err := strconv.Atoi(f[0])
		n, err2 := strconv.Atoi(f[2])
		if err == nil && err2 == nil {
			out = append(out, syscall.SysProcIDMap{ContainerID: id, HostID: id, Size: n})
		}
	}
	return out
}

// begin sets the container up and starts the reader of its replies.
func (c *container) begin() error {
	go c.read()
	first := setup{UID: -1, GID: -1}
	if c.user && os.Geteuid() != 0 {
		first.UID, first.GID = os.Geteuid(), os.Getegid()
	}
	if err := c.send(first); err != nil {
		return err
	}
	r, err := c.answer()
	switch {
	case err != nil:
		return err
	case r.Fault != nil:
		return r.Fault
	}
	return nil
}

// read receives replies, never more than the channel holds. It ends with the first
// process.
func (c *container) read() {
	defer close(c.replies)
	dec := gob.NewDecoder(c.control)
	for {
		var r reply
		if dec.Decode(&r) != nil {
			return
		}
		c.replies <- r
	}
}

func (c *container) send(v any) error {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	// The first process always reads, whatever its command does.
	if err := c.control.SetWriteDeadline(time.Now().Add(KillGrace)); err != nil {
		return err
	}
	return c.enc.Encode(v)
}

// answer waits for the next reply.
func (c *container) answer() (reply, error) {
	t := time.NewTimer(startTime)
	defer t.Stop()
	select {
	case r, ok := <-c.replies:
		if !ok {
			return reply{}, errNoReply
		}
		return r, nil
	case <-t.C:
		return reply{}, errNoReply
	}
}

// reapInit waits until the first process, and with it everything in the container,
// is dead.
func (c *container) reapInit() {
	c.awaitDeath()
	c.mu.Lock()
	c.reapLocked()
	c.mu.Unlock()
	children().leave(&c.child)
	_ = c.control.Close()
	_ = unix.Close(c.files)
	close(c.gone)
}

// join moves the container into a group, which takes milliseconds the first time.
func (c *container) join(g *MemoryGroup) error {
	if g == nil || c.memory == g {
		return nil
	}
	if err := g.add(c.PID); err != nil {
		return err
	}
	c.memory = g
	return nil
}

// end kills the container. It does not wait.
func (c *container) end() { c.signalTo(c.PID, unix.SIGKILL) }

// dead reports whether the container has ended.
func (c *container) dead() bool {
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}

// launch starts a command and returns its pid in the container; without a path it
// only tries the layout. An error of the first process is a *flaw; after any other
// error the container cannot be used. serve is Command.Serve.
func (c *container) launch(r *runRequest, files []int, serve func(net.Listener)) (inner int, err error) {
	if err := sendFiles(c.files, files); err != nil {
		return 0, err
	}
	if err := c.send(request{Run: r}); err != nil {
		return 0, err
	}
	got, err := c.answer()
	switch {
	case err != nil:
		return 0, err
	case got.Fault != nil:
		return 0, got.Fault
	}
	if r.Listen {
		l, err := c.listener()
		if err != nil {
			return 0, err
		}
		serve(l)
	}
	return got.Started, nil
}

// listener receives the listener that a command was started with.
func (c *container) listener() (net.Listener, error) {
	fds, err := receiveFiles(c.files)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fds[0]), "listener")
	defer func() { _ = f.Close() }() // the listener has a copy
	return net.FileListener(f)
}

// pollable returns a file whose reads and writes end when it is closed.
func pollable(fd int, name string) *os.File {
	_ = unix.SetNonblock(fd, true) // a blocking descriptor works too, but ends later
	return os.NewFile(uintptr(fd), name)
}
