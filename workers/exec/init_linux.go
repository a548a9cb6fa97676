package exec

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"ralph/workers/exec/sandbox"
)

// The first process of a container is this program, executed again with initName as
// its only argument. It is ordinary Go: it starts commands for the Ralph that
// started it, one at a time, reaps what becomes its child, and ends with Ralph.

// initName is the argument with which this program is the first process of a
// container.
const initName = "container-init"

// The descriptors of that process, besides 0, 1 and 2, which are /dev/null.
const (
	initControl = 3 // requests and replies, encoded by gob
	initFiles   = 4 // the files of the commands
)

// setup is the first request.
type setup struct {
	// UID and GID are the user to map to itself in a new user namespace; -1 where
	// the namespace is mapped already, or there is none.
	UID, GID int
}

// request is every other one. Exactly one field is set.
type request struct {
	Run    *runRequest
	Signal syscall.Signal // to the process group of the leader
	Freeze bool           // stop everything but the first process
	Sweep  bool           // kill everything but the first process; the leader is dead
}

// runRequest starts a command. Its three files come over initFiles.
type runRequest struct {
	Path      string // "" only tries the layout
	Argv, Env []string
	Dir       string
	Tag       uint64          // soft limit RLIMIT_RTTIME of the command; 0 leaves it
	Layout    *sandbox.Layout // nil is not confined
}

// reply answers a request. Exactly one field is set; Signal and Freeze have none.
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
	Text    string // where there is no Errno
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

// Unwrap gives the cause.
func (f *flaw) Unwrap() error {
	if f.Errno != 0 {
		return f.Errno
	}
	return errors.New(f.Text)
}

// Self returns the arguments that execute this program as the first process of a
// container, for Options.Init. The program's main function calls Init first.
func Self() []string { return []string{os.Args[0], initName} }

// Init serves as the first process of a container when the program was executed as
// such, and then never returns. Otherwise it does nothing. A program that gives
// Options.Init calls it before anything else.
func Init() {
	if len(os.Args) != 2 || os.Args[1] != initName {
		return
	}
	if os.Getpid() != 1 {
		fmt.Fprintf(os.Stderr, "ralph: error: %s is for Ralph itself: it is the first process of the namespaces that commands run in\n", initName)
		os.Exit(3)
	}
	os.Exit(serveInit())
}

// initServer is the state of the first process.
type initServer struct {
	enc   *gob.Encoder
	own   uint64 // soft limit RLIMIT_RTTIME of this process
	ready *stage // made ready for the next confined command; nil without one
	born  chan struct{}
	base  legacy // what the next command inherits

	mu     sync.Mutex // guards enc and what follows
	leader int        // 0 without one that runs
}

// serveInit obeys until the control socket closes. Its end is the end of everything
// in the container.
func serveInit() int {
	// Handled signals are not ignored by what is started, and do nothing here.
	signal.Notify(make(chan os.Signal, 1))
	closeInherited()
	_ = os.WriteFile("/proc/self/comm", []byte("ralph-init"), 0) // a name for ps
	if unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0) != nil {
		return 1
	}
	control := os.NewFile(initControl, "control")
	dec := gob.NewDecoder(control)
	s := &initServer{enc: gob.NewEncoder(control), born: make(chan struct{}, 1)}
	var first setup
	if dec.Decode(&first) != nil {
		return 1
	}
	err := first.apply()
	if err == nil {
		// A command of the same user must not read the memory of this process.
		err = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	}
	if err != nil {
		s.send(reply{Fault: flawOf(true, err)})
		return 1
	}
	var lim unix.Rlimit
	if unix.Prlimit(0, unix.RLIMIT_RTTIME, nil, &lim) == nil {
		s.own = lim.Cur
	}
	s.base = inherited()
	s.send(reply{Ready: true})
	go s.reap()
	for {
		var r request
		if dec.Decode(&r) != nil {
			return 0
		}
		switch {
		case r.Run != nil:
			s.run(r.Run)
		case r.Sweep:
			s.sweep()
		case r.Freeze:
			_ = unix.Kill(-1, unix.SIGSTOP) // ESRCH: nothing is there any more
		default:
			s.signal(r.Signal)
		}
	}
}

// closeInherited closes what Ralph's own starter left open for its children, such as
// locks and terminals. Descriptors that survived the execution are those without
// close-on-exec; the runtime's own have it.
func closeInherited() {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, e := range fds {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= initFiles {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
	unix.CloseOnExec(initControl)
	unix.CloseOnExec(initFiles)
}

// apply gives the first process the user that its commands inherit.
func (u setup) apply() error {
	if u.UID >= 0 {
		for _, m := range [...][2]string{
			{"setgroups", "deny"}, {"uid_map", fmt.Sprintf("%d %d 1", u.UID, u.UID)}, {"gid_map", fmt.Sprintf("%d %d 1", u.GID, u.GID)},
		} {
			if err := os.WriteFile("/proc/self/"+m[0], []byte(m[1]), 0); err != nil {
				return fmt.Errorf("map user: %w", err)
			}
		}
	}
	return nil
}

func (s *initServer) send(r reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sendLocked(r)
}

// sendLocked sends. Where nobody receives Ralph is gone, and this process ends.
func (s *initServer) sendLocked(r reply) {
	if s.enc.Encode(r) != nil {
		os.Exit(1)
	}
}

// reap collects every child: everything in the pid namespace is a child, or
// descends from one.
func (s *initServer) reap() {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // there is no child
			<-s.born
		default:
			s.reaped(pid, ws)
		}
	}
}

// reaped reports the end of the leader, and whether anything else is left.
func (s *initServer) reaped(pid int, ws syscall.WaitStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pid != s.leader {
		return
	}
	s.leader = 0
	s.sendLocked(reply{Exited: &exit{Status: ws, Left: !childless()}})
}

// childless reaps what is dead and reports whether no child is left.
func childless() bool {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err == syscall.ECHILD {
			return true
		}
		if err == nil && pid == 0 {
			return false
		}
	}
}

// sweep kills what a leader left and confirms when all of it is gone. Nothing
// escapes: kill(2) with -1 is atomic against forks.
func (s *initServer) sweep() {
	_ = unix.Kill(-1, unix.SIGKILL) // ESRCH: it is gone already
	for {
		if _, err := syscall.Wait4(-1, nil, 0, nil); err == syscall.ECHILD {
			break
		}
	}
	s.send(reply{Swept: true})
}

func (s *initServer) signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leader > 0 {
		_ = unix.Kill(-s.leader, sig) // its group exists until the leader is reaped
	}
}

// run starts a command, or tries its layout, on a thread that ends afterwards. The
// files of the command are closed before the reply.
func (s *initServer) run(r *runRequest) {
	files, err := receiveFiles(initFiles)
	if err != nil {
		os.Exit(1)
	}
	flags := unix.CLONE_NEWNS
	if r.Layout != nil {
		flags = r.Layout.Namespaces()
	}
	st := s.ready
	s.ready = nil
	if st != nil && st.flags != flags {
		st.drop()
		st = nil
	}
	if st == nil {
		st = newStage(flags)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	pid := 1
	err = st.run(func() (err error) {
		if inherited() != s.base {
			os.Exit(1) // an earlier command wore this process out: Ralph starts another
		}
		if r.Layout != nil && r.Path != "" {
			err = r.Layout.Limits.Apply(0) // for good
			s.base = inherited()
		}
		if err == nil {
			err = arrange(r.Layout)
		}
		if err == nil && r.Path != "" {
			pid, err = s.fork(r, files)
		}
		return err
	})
	closeFiles(files)
	if err != nil {
		var f *flaw
		if !errors.As(err, &f) {
			f = flawOf(true, err)
		}
		s.sendLocked(reply{Fault: f})
		return
	}
	if r.Layout != nil {
		s.ready = newStage(flags)
	}
	if r.Path != "" {
		s.leader = pid
		select {
		case s.born <- struct{}{}:
		default: // the reaper has a child to look for already
		}
	}
	s.sendLocked(reply{Started: pid})
}

// arrange gives the calling thread the view and the rights of a command.
func arrange(l *sandbox.Layout) error {
	if l == nil {
		return errors.Join(sandbox.MountProc(), sandbox.KeepNoCapabilities())
	}
	if err := l.Enter(); err != nil {
		return err
	}
	return l.Restrict(0)
}

// fork starts a command from the calling thread.
func (s *initServer) fork(r *runRequest, files []int) (int, error) {
	attr := &syscall.ProcAttr{Dir: r.Dir, Env: r.Env, Sys: &syscall.SysProcAttr{Setsid: true}}
	for _, fd := range files {
		attr.Files = append(attr.Files, uintptr(fd))
	}
	s.mark(r.Tag)
	defer s.mark(s.own)
	pid, err := syscall.ForkExec(r.Path, r.Argv, attr)
	if err != nil {
		return 0, flawOf(false, err)
	}
	return pid, nil
}

// legacy is what a command inherits from the first process and its threads, and what
// another process of the same user may change there: prlimit(2), setpriority(2), sched_setaffinity(2),
// sched_setscheduler(2) and ioprio_set(2) need no more than the same user.
type legacy struct {
	limits   [16]unix.Rlimit // all that there are
	nice     int
	ioprio   uintptr
	affinity unix.CPUSet
	policy   unix.SchedAttr
	oom      [16]byte // oom_score_adj
}

func inherited() legacy {
	var l legacy
	for i := range l.limits {
		_ = unix.Prlimit(0, i, nil, &l.limits[i]) // what cannot be read is equal
	}
	l.nice, _ = unix.Getpriority(unix.PRIO_PROCESS, 0)
	const ioprioWhoProcess = 1
	l.ioprio, _, _ = unix.Syscall(unix.SYS_IOPRIO_GET, ioprioWhoProcess, 0, 0)
	_ = unix.SchedGetaffinity(1, &l.affinity)
	if attr, err := unix.SchedGetAttr(1, 0); err == nil {
		l.policy = *attr
	}
	if text, err := os.ReadFile("/proc/self/oom_score_adj"); err == nil {
		copy(l.oom[:], text)
	}
	return l
}

// mark sets the soft limit that marks a command, which what is forked inherits.
func (s *initServer) mark(n uint64) {
	var lim unix.Rlimit
	if n == 0 || unix.Prlimit(0, unix.RLIMIT_RTTIME, nil, &lim) != nil {
		return
	}
	lim.Cur = n
	_ = unix.Prlimit(0, unix.RLIMIT_RTTIME, &lim, nil) // without it the environment still carries the tag
}

// stage is a thread with namespaces of its own, made ahead of its use.
type stage struct {
	flags int
	job   chan func() error
	done  chan error
}

// newStage makes the namespaces in the background.
func newStage(flags int) *stage {
	st := &stage{flags: flags, job: make(chan func() error), done: make(chan error, 1)}
	go st.serve()
	return st
}

// run runs f on the thread and waits for it. The thread ends with it.
func (st *stage) run(f func() error) error {
	st.job <- f
	return <-st.done
}

// drop ends a stage that is not used.
func (st *stage) drop() { close(st.job) }

func (st *stage) serve() {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	if unix.Gettid() == os.Getpid() {
		// The first thread cannot end. It waits while another one does the work.
		done := make(chan struct{})
		go func() {
			defer close(done)
			st.serve()
		}()
		<-done
		runtime.UnlockOSThread()
		return
	}
	err := unix.Unshare(st.flags)
	if err == nil && st.flags&unix.CLONE_NEWNET != 0 {
		err = sandbox.Loopback()
	} else if err != nil {
		err = &fs.PathError{Op: "make", Path: "namespaces", Err: err}
	}
	f, ok := <-st.job
	if !ok {
		return
	}
	if err == nil {
		err = f()
	}
	st.done <- err
}
