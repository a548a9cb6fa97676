package exec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"ralph/workers/exec/supervise"
)

const (
	hardGrace = 75 * time.Millisecond   // between INT and KILL of a hard stop: at most 100 ms, also when the timer is late
	intGrace  = 500 * time.Millisecond  // between INT and TERM after a timeout
	termGrace = 1500 * time.Millisecond // between TERM and KILL after a timeout
	waitLook  = 300 * time.Millisecond  // between looks at what a tool waits for
	pipeGrace = 100 * time.Millisecond  // for a pipe that a process outside the command holds open
)

// command is one command, in the foreground or in the background.
type command struct {
	spec  Spec
	tag   supervise.Tag
	began time.Time
	group supervise.Group
	rec   *recorder

	stop     chan struct{} // closed by askStop
	stopOnce sync.Once
	kill     chan struct{} // closed by askKill
	killOnce sync.Once

	pipes   []*os.File // read ends, one for each stream
	readers sync.WaitGroup
	stdin   *os.File      // write end of the pipe that feeds a Reader; may be nil
	fed     chan struct{} // closed when the Reader is done; nil without stdin
	listen  net.Listener  // of Serve; may be nil
	serving sync.WaitGroup

	// killed and survivors are set before ended is closed, when nothing of the command
	// runs any more; finished is closed when its output is complete.
	killed    []supervise.Process
	survivors []supervise.Process
	ended     chan struct{}
	finished  chan struct{}

	memory  *supervise.MemoryGroup // nil is none
	full    int                    // processes that had been ended because it was full, at the start
	running bool                   // guarded by the Runner; group is set
	tooMuch atomic.Bool            // a meter has ended it; see Result.Limit
}

// end is what brought a command to its end.
type end int

const (
	endItself end = iota
	endContext
	endStop
	endTimeout
	endWaited
)

func newCommand(s Spec, kept *allowance) *command {
	return &command{
		spec: s, tag: supervise.NewTag(), rec: newRecorder(s, kept), stop: make(chan struct{}), kill: make(chan struct{}),
		ended: make(chan struct{}), finished: make(chan struct{}),
	}
}

// start starts the command and the readers of its output.
func (c *command) start(supervisor *supervise.Supervisor, project string) error {
	s := c.spec
	env := s.Env
	if env == nil {
		env = Environ(os.Environ())
	}
	path, err := resolve(s, env, project)
	if err != nil {
		return err
	}
	dir := s.Dir
	if s.Confine != nil {
		if dir, err = workDir(s.Dir); err != nil {
			return err
		}
	}
	stdio, ours, err := c.openStdio()
	defer closeAll(ours)
	if err != nil {
		c.closePipes()
		return &Error{Op: "open pipes for", Path: s.name(), Err: err, Hint: startError("", err).Hint}
	}
	if c.stopAsked() {
		c.closePipes()
		return fmt.Errorf("run %q: %w", s.name(), ErrStopped)
	}
	if err = s.Record.open(); err != nil {
		c.closePipes()
		return &Error{Op: "open pipes for", Path: s.name(), Err: err, Hint: startError("", err).Hint}
	}
	cmd := supervise.Command{Tag: c.tag, Path: path, Argv: s.Argv, Env: env, Dir: dir, Files: stdio, Tool: s.Tool, Policy: s.Confine}
	if s.Record != nil && s.Record.file != nil {
		cmd.Watch, cmd.Record = s.Record.dir, s.Record.file.Fd()
	}
	if s.Serve != nil {
		cmd.Serve = c.serve
	}
	cmd.Memory, c.full = c.memory, c.memory.Ended()
	c.began = time.Now()
	c.group, err = supervisor.Start(cmd)
	if err != nil {
		c.closePipes()
		s.Record.close()
		var unconfined *fs.PathError
		if errors.As(err, &unconfined) {
			return confineError(unconfined)
		}
		e := startError(path, err)
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
	s.Record.follow()
	return nil
}

// serve begins to serve the command.
func (c *command) serve(l net.Listener) {
	c.listen = l
	c.serving.Go(func() { c.spec.Serve(l) })
}

// neverStarted settles a command whose start failed.
func (c *command) neverStarted() {
	close(c.ended)
	close(c.finished)
}

// openStdio opens the files of the child. The caller closes ours after the fork.
func (c *command) openStdio() (stdio [3]uintptr, ours []*os.File, err error) {
	switch in := c.spec.Stdin.(type) {
	case nil:
		null, err := os.Open(os.DevNull)
		if err != nil {
			return stdio, ours, err
		}
		ours = append(ours, null)
		stdio[0] = null.Fd()
	case *os.File:
		stdio[0] = in.Fd()
	default:
		r, w, err := os.Pipe()
		if err != nil {
			return stdio, ours, err
		}
		ours = append(ours, r)
		stdio[0], c.stdin = r.Fd(), w
	}
	n := 1
	if c.spec.Split {
		n = 2
	}
	for i := range n {
		r, w, err := os.Pipe()
		if err != nil {
			return stdio, ours, err
		}
		ours = append(ours, w)
		c.pipes = append(c.pipes, r)
		stdio[1+i] = w.Fd()
	}
	if n == 1 {
		stdio[2] = stdio[1]
	}
	return stdio, ours, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

func (c *command) closePipes() {
	closeAll(c.pipes)
	if c.stdin != nil {
		_ = c.stdin.Close()
	}
}

// read records one stream until its end, or until its deadline passes because a
// process outside the command holds the pipe open.
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

// readRest records what is in the pipe already, with everything that the command has
// written. It does not block.
func (c *command) readRest(stream int, p *os.File, buf []byte) {
	const most = 1 << 20 // the largest pipe of an unprivileged user
	if p.SetReadDeadline(time.Time{}) != nil {
		return
	}
	conn, err := p.SyscallConn()
	if err != nil {
		return
	}
	// The callback returns true, so that Read does not wait for more. An error is the
	// end of the pipe.
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

// feed copies Stdin into the pipe. It is no error if the command does not read all of
// it.
func (c *command) feed() {
	defer close(c.fed)
	_, _ = io.Copy(c.stdin, c.spec.Stdin)
	_ = c.stdin.Close()
}

// askStop asks for a hard stop. It does not wait and may be called often.
func (c *command) askStop() { c.stopOnce.Do(func() { close(c.stop) }) }

// askKill asks for a stop without grace. It does not wait.
func (c *command) askKill() {
	c.askStop()
	c.killOnce.Do(func() { close(c.kill) })
}

func (c *command) stopAsked() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

// wait waits for the end of the command, or ends it, and returns its result. It is
// called once.
func (c *command) wait(ctx context.Context) (Result, error) {
	defer close(c.finished)
	var res Result
	why, killed := c.await(ctx, &res)
	status, leader, dead := c.group.Reap()
	res.Killed, c.survivors = c.group.Sweep(dead)
	if killed {
		c.killed = append(c.killed, leader)
	}
	c.killed = append(c.killed, res.Killed...)
	close(c.ended)
	c.drain()
	if c.listen != nil {
		_ = c.listen.Close()
		c.serving.Wait()
	}
	res.Watched = c.spec.Record.close()
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
	case c.tooMuch.Load(), c.memory.Ended() > c.full:
		res.Limit = KeyMemory
	case c.rec.full():
		res.Limit = KeyOutput
	}
	switch {
	case c.tooMuch.Load() && ctx.Err() == nil:
	case why == endContext, why == endTimeout && ctx.Err() != nil:
		err = fmt.Errorf("run %q: %w", c.spec.name(), context.Cause(ctx))
	case why == endStop, why == endTimeout && c.stopAsked():
		err = fmt.Errorf("run %q: %w", c.spec.name(), ErrStopped)
	}
	if len(c.survivors) > 0 {
		err = errors.Join(err, fmt.Errorf("run %q: %w", c.spec.name(), &supervise.SurvivorError{Processes: c.survivors}))
	}
	return res, err
}

// await blocks until the leader is dead or could not be killed. It returns what ended
// it and whether that took a KILL, and sets Waited of the result.
func (c *command) await(ctx context.Context, res *Result) (why end, killed bool) {
	var timeout <-chan time.Time
	if c.spec.Timeout > 0 {
		t := time.NewTimer(c.spec.Timeout)
		defer t.Stop()
		timeout = t.C
	}
	var look <-chan time.Time
	if c.spec.Tool {
		t := time.NewTicker(waitLook)
		defer t.Stop()
		look = t.C
	}
	for why == endItself {
		select {
		case <-c.group.Exited():
			return endItself, false
		case <-ctx.Done():
			why = endContext
		case <-c.stop:
			why = endStop
		case <-timeout:
			why = endTimeout
		case <-look:
			if res.Waited = c.tag.Waits(); res.Waited != "" {
				why = endWaited
			}
		}
	}
	select {
	case <-c.group.Exited(): // it was first after all
		return endItself, false
	default:
	}
	c.group.Signal(syscall.SIGINT)
	if why == endTimeout {
		// A suspended process acts on INT and TERM only after CONT.
		c.group.Signal(syscall.SIGCONT)
		if c.pause(ctx, intGrace) {
			return why, false
		}
		if ctx.Err() == nil && !c.stopAsked() {
			c.group.Signal(syscall.SIGTERM)
			if c.pause(ctx, termGrace) {
				return why, false
			}
		}
	} else if c.linger(hardGrace) {
		return why, false
	}
	c.group.Signal(syscall.SIGKILL)
	t := time.NewTimer(supervise.KillGrace)
	defer t.Stop()
	select {
	case <-c.group.Exited():
	case <-t.C:
	}
	return why, true
}

// pause waits for the leader's death for at most d, less when a hard stop is asked for,
// and reports whether it died.
func (c *command) pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c.group.Exited():
		return true
	case <-t.C:
	case <-ctx.Done():
	case <-c.stop:
	}
	return false
}

// linger waits for the leader's death for at most d, less when a kill is asked for, and
// reports whether it died.
func (c *command) linger(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c.group.Exited():
		return true
	case <-t.C:
	case <-c.kill:
	}
	return false
}

// drain ends the readers. Nothing of the command writes any more, so they are at the
// end of their pipes unless another process holds these open.
func (c *command) drain() {
	for _, p := range c.pipes {
		// A pipe always takes a deadline.
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
