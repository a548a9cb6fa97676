package exec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"ralph/workers/exec/sandbox"
)

const (
	hardGrace = 75 * time.Millisecond   // between INT and KILL of a hard stop: at most 100 ms, also when the timer is late
	intGrace  = 500 * time.Millisecond  // between INT and TERM of a polite end
	termGrace = 1500 * time.Millisecond // between TERM and KILL of a polite end
	killGrace = 2 * time.Second         // for the kernel to end what was killed
	pipeGrace = 100 * time.Millisecond  // for a pipe that something outside our tree holds open
)

// family is a command with all that it started: a tree, or on Linux a space.
type family interface {
	// exited is closed when the leader is dead.
	exited() <-chan struct{}
	// signal sends to the leader's process group; SIGKILL may go to all.
	signal(syscall.Signal)
	// reap takes the leader's status and says who it was; false when it is not
	// known to be dead.
	reap() (status syscall.WaitStatus, who Process, dead bool)
	// sweep ends what is left and proves that nothing is. It names what had to
	// be killed after the leader, and what could not be. It is called once,
	// after reap, with what that said.
	sweep(dead bool) (killed, left []Process)
}

// command is one started command, in the foreground or in the background.
type command struct {
	spec  Spec
	tag   tag
	began time.Time
	tree  family
	rec   *recorder

	stop     chan struct{} // closed by halt
	stopOnce sync.Once
	kill     chan struct{} // closed by killNow
	killOnce sync.Once

	pipes   []*os.File // read ends, one for each stream
	readers sync.WaitGroup
	stdin   *os.File      // write end of the pipe that feeds a Reader; may be nil
	fed     chan struct{} // closed when the Reader is done; nil without stdin

	// killed and survivors are set before rested is closed, which is when nothing
	// of the command runs any more; finished is closed when its output is whole.
	killed    []Process
	survivors []Process
	rested    chan struct{}
	finished  chan struct{}
}

// end says what brought a command to its end.
type end int

const (
	endItself end = iota
	endContext
	endHalt
	endTimeout
)

func newCommand(s Spec) *command {
	return &command{
		spec: s, tag: newTag(), rec: newRecorder(s), stop: make(chan struct{}), kill: make(chan struct{}),
		rested: make(chan struct{}), finished: make(chan struct{}),
	}
}

// start starts the command and the readers of its output.
func (c *command) start(start starter) error {
	s := c.spec
	env := environ(s, c.tag.text())
	path, err := resolve(s, env)
	if err != nil {
		return err
	}
	dir := s.Dir
	if s.Confine != nil {
		if dir, err = workDir(s.Dir); err != nil {
			return err
		}
	}
	files, err := c.openStdio()
	defer func() {
		for _, f := range files.ours {
			_ = syscall.Close(f)
		}
	}()
	if err != nil {
		c.closePipes()
		return &Error{Op: "open pipes for", Path: s.name(), Err: err, Hint: startError("", err).Hint}
	}
	if c.halted() {
		c.closePipes()
		return fmt.Errorf("run %q: %w", s.name(), ErrHalted)
	}
	c.began = time.Now()
	c.tree, err = start(c.tag, path, s.Argv, &syscall.ProcAttr{Dir: dir, Env: env, Files: files.child[:]}, s.Confine)
	if err != nil {
		c.closePipes()
		var e *Error
		if errors.As(err, &e) {
			return e
		}
		e = startError(path, err)
		e.Path = s.name()
		return e
	}
	for i, p := range c.pipes {
		c.readers.Add(1)
		go c.read(i, p)
	}
	if c.stdin != nil {
		c.fed = make(chan struct{})
		go c.feed()
	}
	return nil
}

// starter starts a program, confined if need be, and gives its family.
type starter func(g tag, path string, argv []string, attr *syscall.ProcAttr, held *sandbox.Policy) (family, error)

// dud settles a command that was never started.
func (c *command) dud() {
	close(c.rested)
	close(c.finished)
}

// stdio is the files of a child; ours are those to be closed after the fork.
type stdio struct {
	child [3]uintptr
	ours  []int
}

func (c *command) openStdio() (stdio, error) {
	var f stdio
	switch in := c.spec.Stdin.(type) {
	case nil:
		fd, err := syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return f, err
		}
		f.ours = append(f.ours, fd)
		f.child[0] = uintptr(fd)
	case *os.File:
		f.child[0] = in.Fd()
	default:
		r, w, err := pipe()
		if err != nil {
			return f, err
		}
		f.ours = append(f.ours, r)
		f.child[0] = uintptr(r)
		c.stdin = pollable(w, "stdin")
	}
	n := 1
	if c.spec.Split {
		n = 2
	}
	for i := range n {
		r, w, err := pipe()
		if err != nil {
			return f, err
		}
		f.ours = append(f.ours, w)
		c.pipes = append(c.pipes, pollable(r, "output"))
		f.child[1+i], f.child[2] = uintptr(w), uintptr(w)
	}
	return f, nil
}

// pollable makes a file whose reads and writes end when it is closed.
func pollable(fd int, name string) *os.File {
	// A blocking descriptor would still work, only less promptly.
	_ = syscall.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), name)
}

func (c *command) closePipes() {
	for _, p := range c.pipes {
		_ = p.Close()
	}
	if c.stdin != nil {
		_ = c.stdin.Close()
	}
}

// read records one stream until its end, or until its deadline passes because
// something outside our tree holds the pipe open.
func (c *command) read(stream int, p *os.File) {
	defer c.readers.Done()
	buf := make([]byte, 32<<10)
	for {
		n, err := p.Read(buf)
		if n > 0 {
			c.rec.write(stream, buf[:n])
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			c.readRest(stream, p, buf)
			return
		}
		if err != nil {
			return
		}
	}
}

// readRest takes what is in the pipe already; all that our tree has written is
// there. It never blocks.
func (c *command) readRest(stream int, p *os.File, buf []byte) {
	const most = 1 << 20 // the largest pipe of an unprivileged user
	if p.SetReadDeadline(time.Time{}) != nil {
		return
	}
	conn, err := p.SyscallConn()
	if err != nil {
		return
	}
	// The callback returns true, so this does not wait for more; an error of
	// the pipe is its end.
	_ = conn.Read(func(fd uintptr) bool {
		for got := 0; got < most; {
			n, err := syscall.Read(int(fd), buf)
			if err == syscall.EINTR {
				continue
			}
			if n <= 0 || err != nil {
				return true
			}
			c.rec.write(stream, buf[:n])
			got += n
		}
		return true
	})
}

// feed copies Stdin into the pipe. That the command does not read it all is its
// own affair.
func (c *command) feed() {
	defer close(c.fed)
	_, _ = io.Copy(c.stdin, c.spec.Stdin)
	_ = c.stdin.Close()
}

// halt asks for a hard stop. It does not wait and may be called often.
func (c *command) halt() { c.stopOnce.Do(func() { close(c.stop) }) }

// killNow cuts every grace of an end short. It does not wait.
func (c *command) killNow() {
	c.halt()
	c.killOnce.Do(func() { close(c.kill) })
}

func (c *command) halted() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

// wait brings the command to its end and collects what is known. It is called
// once.
func (c *command) wait(ctx context.Context) (Result, error) {
	defer close(c.finished)
	why, killed := c.await(ctx)
	var res Result
	status, leader, dead := c.tree.reap()
	res.Killed, c.survivors = c.tree.sweep(dead)
	if killed {
		c.killed = append(c.killed, leader)
	}
	c.killed = append(c.killed, res.Killed...)
	close(c.rested)
	c.drain()
	res.OutputErr = c.rec.close()
	res.Stdout, res.Stderr = c.rec.capture(streamOut), c.rec.capture(streamErr)
	res.Duration = time.Since(c.began)
	res.TimedOut = why == endTimeout
	if dead && status.Signaled() {
		res.ExitCode = 128 + int(status.Signal())
		res.Signal = signalName(status.Signal())
	} else if dead {
		res.ExitCode = status.ExitStatus()
	} else {
		res.ExitCode = 128 + int(syscall.SIGKILL)
		res.Signal = signalName(syscall.SIGKILL)
	}
	var err error
	switch {
	case why == endContext, why == endTimeout && ctx.Err() != nil:
		err = fmt.Errorf("run %q: %w", c.spec.name(), context.Cause(ctx))
	case why == endHalt, why == endTimeout && c.halted():
		err = fmt.Errorf("run %q: %w", c.spec.name(), ErrHalted)
	}
	if len(c.survivors) > 0 {
		err = errors.Join(err, fmt.Errorf("run %q: %w", c.spec.name(), &SurvivorError{Processes: c.survivors}))
	}
	return res, err
}

// await returns when the leader is dead, or could not be killed, and says why it
// was ended and whether that took a KILL.
func (c *command) await(ctx context.Context) (why end, killed bool) {
	var timeout <-chan time.Time
	if c.spec.Timeout > 0 {
		t := time.NewTimer(c.spec.Timeout)
		defer t.Stop()
		timeout = t.C
	}
	select {
	case <-c.tree.exited():
		return endItself, false
	case <-ctx.Done():
		why = endContext
	case <-c.stop:
		why = endHalt
	case <-timeout:
		why = endTimeout
	}
	select {
	case <-c.tree.exited(): // it was first after all
		return endItself, false
	default:
	}
	c.tree.signal(syscall.SIGINT)
	if why == endTimeout {
		// A stopped process acts on INT and TERM only when it goes on.
		c.tree.signal(syscall.SIGCONT)
		if c.pause(ctx, intGrace) {
			return why, false
		}
		if ctx.Err() == nil && !c.halted() {
			c.tree.signal(syscall.SIGTERM)
			if c.pause(ctx, termGrace) {
				return why, false
			}
		}
	} else if c.linger(hardGrace) {
		return why, false
	}
	c.tree.signal(syscall.SIGKILL)
	t := time.NewTimer(killGrace)
	defer t.Stop()
	select {
	case <-c.tree.exited():
	case <-t.C:
	}
	return why, true
}

// pause waits for the leader's death for at most d, less when a hard stop comes
// in, and says whether it died.
func (c *command) pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c.tree.exited():
		return true
	case <-t.C:
	case <-ctx.Done():
	case <-c.stop:
	}
	return false
}

// linger waits for the leader's death for at most d, less when it is to be
// killed now, and says whether it died.
func (c *command) linger(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c.tree.exited():
		return true
	case <-t.C:
	case <-c.kill:
	}
	return false
}

// drain ends the readers. Nothing of ours writes any more, so they are at the
// end of their pipes unless something else holds these open.
func (c *command) drain() {
	for _, p := range c.pipes {
		// A file that takes no deadline was never put into non-blocking mode;
		// closing it below ends nothing then, its reader ends with the holder.
		_ = p.SetReadDeadline(time.Now().Add(pipeGrace))
	}
	c.readers.Wait()
	c.closePipes()
	if c.fed != nil {
		t := time.NewTimer(pipeGrace)
		defer t.Stop()
		select {
		case <-c.fed:
		case <-t.C:
		}
	}
}

func signalName(s syscall.Signal) string {
	names := [...]struct {
		s    syscall.Signal
		name string
	}{
		{syscall.SIGHUP, "SIGHUP"}, {syscall.SIGINT, "SIGINT"}, {syscall.SIGQUIT, "SIGQUIT"}, {syscall.SIGILL, "SIGILL"},
		{syscall.SIGTRAP, "SIGTRAP"}, {syscall.SIGABRT, "SIGABRT"}, {syscall.SIGBUS, "SIGBUS"}, {syscall.SIGFPE, "SIGFPE"},
		{syscall.SIGKILL, "SIGKILL"}, {syscall.SIGUSR1, "SIGUSR1"}, {syscall.SIGSEGV, "SIGSEGV"}, {syscall.SIGUSR2, "SIGUSR2"},
		{syscall.SIGPIPE, "SIGPIPE"}, {syscall.SIGALRM, "SIGALRM"}, {syscall.SIGTERM, "SIGTERM"}, {syscall.SIGXCPU, "SIGXCPU"},
		{syscall.SIGXFSZ, "SIGXFSZ"}, {syscall.SIGSYS, "SIGSYS"},
	}
	for _, n := range names {
		if n.s == s {
			return n.name
		}
	}
	return fmt.Sprintf("signal %d", int(s))
}
