package exec

import (
	"encoding/gob"
	"errors"
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
// When the first process ends, the kernel ends everything in the pid namespace
// before it reports that death: this is the proof of rest. It ends when its control
// socket closes, and by the parent-death signal, so also when Ralph is killed.
//
// What does not work in a user namespace: programs that become another user (sudo,
// su, ping with file capabilities) have no effect on it and report that; for an
// ordinary user files of others show up as nobody's.
type container struct {
	tree           // of the first process
	user    bool   // it has a user namespace
	inode   uint64 // of the pid namespace
	control *os.File
	files   int           // socket that passes the files of commands
	replies chan reply    // closed with the control socket
	gone    chan struct{} // closed when the first process is reaped

	// Who took the container from its pool owns what follows.
	used   bool            // it has been given a command
	limits *sandbox.Limits // that the first confined command has set for good; nil before

	sendMu sync.Mutex // guards enc
	enc    *gob.Encoder
}

// startTime bounds the start of a container, and an answer of its first process.
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
		tree: tree{tag: newTag(), closed: true, over: make(chan struct{})}, user: user,
		replies: make(chan reply, 4), gone: make(chan struct{}),
	}
	started := make(chan error, 1)
	go func() {
		// The parent-death signal follows this thread: it stays until the first
		// process is reaped.
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
		return nil, err
	}
	return c, nil
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
	attr := &syscall.ProcAttr{Env: []string{}, Sys: namespaces(c.user)}
	for _, fd := range [...]int{null, null, null, control[1], files[1]} {
		attr.Files = append(attr.Files, uintptr(fd))
	}
	err = children().forkInit(&c.tree, argv, attr)
	closeFiles([]int{null, control[1], files[1]})
	if err != nil {
		closeFiles([]int{control[0], files[0]})
		return err
	}
	c.inode = spaceOf(strconv.Itoa(c.pid))
	c.who = Process{PID: c.pid, Start: c.start, Command: initName}
	c.control, c.files = pollable(control[0], "control"), files[0]
	c.enc = gob.NewEncoder(c.control)
	return nil
}

// namespaces are those of a container. An ordinary user's namespace is mapped by its
// first process itself, which needs no right over this process's memory for it, and
// keeps its capabilities over the execution as ambient ones.
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

// identity maps every user, or group, that this process's own namespace has.
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

// begin sets the container up. It starts the reader of the replies.
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

// read passes on the replies, of which there are never more than fit. It ends with
// the first process.
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
	// The first process reads at once, whatever its commands do.
	if err := c.control.SetWriteDeadline(time.Now().Add(killGrace)); err != nil {
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

// reapInit waits until the first process, and so everything in the container, is
// dead.
func (c *container) reapInit() {
	for unix.Waitid(unix.P_PID, c.pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	c.mu.Lock()
	c.reapLocked()
	c.mu.Unlock()
	children().leave(&c.tree)
	_ = c.control.Close()
	_ = unix.Close(c.files)
	close(c.gone)
}

// end kills the container.
func (c *container) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		_ = unix.Kill(c.pid, unix.SIGKILL) // our child, not reaped: nothing can refuse
	}
}

// dead reports whether the container has ended.
func (c *container) dead() bool {
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}

// launch starts a command in the container; without a path it only tries the
// layout. The error is a *flaw where the first process gives one; after another
// error the container is of no use.
func (c *container) launch(r *runRequest, files []uintptr) (inner int, err error) {
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f))
	}
	if err := sendFiles(c.files, fds); err != nil {
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
	return got.Started, nil
}

// space is a command in a container.
type space struct {
	box   *container
	pool  *containers
	tag   tag
	who   Process       // the leader; its pid is known once the table has shown it
	inner int           // pid of the leader in the container
	over  chan struct{} // closed when the leader is dead
	// The three are set before over is closed. ended is false when the container
	// was killed first.
	status syscall.WaitStatus
	ended  bool
	left   bool      // more than the leader was there when it ended
	named  []Process // what was there when it was killed
}

// watch waits for the end of the leader or of the container.
func (s *space) watch() {
	defer close(s.over)
	if r, ok := <-s.box.replies; ok && r.Exited != nil {
		s.status, s.left, s.ended = r.Exited.Status, r.Exited.Left, true
	}
}

func (s *space) exited() <-chan struct{} { return s.over }

// signal asks the first process to signal the leader's process group. SIGKILL ends
// the container.
func (s *space) signal(sig syscall.Signal) {
	if sig == syscall.SIGKILL {
		s.named = s.doomed(stopNaming)
		s.box.end()
		return
	}
	s.ask(request{Signal: sig})
}

// ask sends a request. A container that does not take it has ended, or will be
// killed.
func (s *space) ask(r request) { _ = s.box.send(r) }

// doomed names what is about to be killed, as far as that is quick. All of it is
// stopped first: what forks for ever would have the processor, and no end of
// members.
func (s *space) doomed(most time.Duration) []Process {
	s.ask(request{Freeze: true})
	return s.members(most)
}

// reap gives the leader's status.
func (s *space) reap() (status syscall.WaitStatus, who Process, dead bool) {
	select {
	case <-s.over:
		return s.status, s.who, s.ended
	default:
		return 0, s.who, false
	}
}

// sweep ends what is left of the command. Where nothing is, the container is used
// again.
func (s *space) sweep(dead bool) (killed, left []Process) {
	defer children().settled(s.tag)
	killed = s.named
	if dead && s.left {
		killed = append(killed, s.doomed(sweepNaming)...)
		s.ask(request{Sweep: true})
	}
	if dead && (!s.left || s.swept()) {
		s.pool.put(s.box)
		return killed, nil
	}
	s.box.end()
	t := time.NewTimer(killGrace)
	defer t.Stop()
	select {
	case <-s.box.gone:
		return killed, nil
	case <-t.C:
		return killed, append(s.members(stopNaming), Process{PID: s.box.pid, Start: s.box.start, Command: "init of: " + s.who.Command})
	}
}

// swept waits for the word that nothing is left.
func (s *space) swept() bool {
	t := time.NewTimer(killGrace)
	defer t.Stop()
	select {
	case r, ok := <-s.box.replies:
		return ok && r.Swept
	case <-t.C:
		return false
	}
}

// What naming the members of a container may take before they are killed.
const (
	stopNaming  = 20 * time.Millisecond // at a hard stop
	sweepNaming = time.Second           // after the leader's own end
)

// members are the living processes in the container but its first one and the
// leader, which is remembered. All of them descend from the first process, which
// adopts the orphans; where the system does not list children, every process is
// looked at.
func (s *space) members(most time.Duration) []Process {
	var out []Process
	look := func(pid int) {
		st, ok := readStat(pid)
		if !ok || !st.alive() {
			return
		}
		p := Process{PID: pid, Start: st.start, Command: commandLine(pid)}
		if !s.led() && st.ppid == s.box.pid && innerPID(pid) == strconv.Itoa(s.inner) {
			s.who = p
			return
		}
		out = append(out, p)
	}
	first, ok := childrenOf(s.box.pid)
	if !ok {
		for _, pid := range pids() {
			if pid != s.box.pid && s.holds(pid) {
				look(pid)
			}
		}
		return out
	}
	seen := map[int]bool{s.box.pid: true}
	deadline := time.Now().Add(most)
	for next := first; len(next) > 0 && time.Now().Before(deadline); next = next[1:] {
		if pid := next[0]; !seen[pid] {
			seen[pid] = true
			look(pid)
			below, _ := childrenOf(pid)
			next = append(next, below...)
		}
	}
	return out
}

// led reports whether the leader is known to have ended.
func (s *space) led() bool {
	select {
	case <-s.over:
		return s.ended
	default:
		return false
	}
}

// holds reports whether a process is in the container, by the namespace it is in,
// or by the mark of the command where that is another, or cannot be read.
func (s *space) holds(pid int) bool {
	in := spaceOf(strconv.Itoa(pid))
	return in != 0 && in == s.box.inode || in != spaceOf("self") && limitTag(pid) == s.tag.n
}

// innerPID is the pid of a process in its own namespace.
func innerPID(pid int) string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(b), "\nNSpid:")
	line, _, _ := strings.Cut(rest, "\n")
	f := strings.Fields(line)
	if len(f) == 0 {
		return ""
	}
	return f[len(f)-1]
}
