package supervise

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ralph/workers/exec/sandbox"
)

// This file is the first process of a container: this program, executed again with
// initName as its only argument. It starts commands, one at a time, for the Ralph
// that started it, reaps every child, and ends with that Ralph.

// initName is the argument that makes this program the first process of a container.
const initName = "container-init"

// Self returns the command line that executes this program as the first process of a
// container, for Options.Init. The program's main function must call Init.
func Self() []string { return []string{os.Args[0], initName} }

// Init runs the first process of a container, and does not return, when the program
// was executed as one. Otherwise it closes the environment, the memory and the open files
// of this process to other processes of the same user, such as commands
// without namespaces; root can read them. A program that uses Self calls it before anything else.
func Init() {
	if len(os.Args) != 2 || os.Args[1] != initName {
		_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // fails for wrong arguments only
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
	ready *stage // for the next confined command; nil without one
	child chan struct{}
	base  inheritance // what the next command is to inherit

	mu     sync.Mutex // guards enc and what follows
	leader int        // 0 while no command runs
	// watched is closed when the last command is watched no more.
	watched chan struct{}
}

// watchTime bounds how long the end of a watch comes after that of its command.
const watchTime = 5 * time.Second

// settled waits until the calls of a command that has ended are all answered: what it wrote is
// in its place then, and on record.
func settled(watched chan struct{}) {
	select {
	case <-watched:
	case <-time.After(watchTime):
	}
}

// serveInit serves requests until the control socket closes, and returns the exit
// code. Its end ends everything in the container.
func serveInit() int {
	// Handled signals have no effect here, and commands do not inherit them as ignored.
	signal.Notify(make(chan os.Signal, 1))
	closeInherited()
	_ = os.WriteFile("/proc/self/comm", []byte("ralph-init"), 0) // a name for ps
	endFirst("self")
	if unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0) != nil {
		return 1
	}
	control := os.NewFile(initControl, "control")
	dec := gob.NewDecoder(control)
	s := &initServer{enc: gob.NewEncoder(control), child: make(chan struct{}, 1)}
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
			_ = unix.Kill(-1, unix.SIGSTOP) // ESRCH: nothing is left
		default:
			s.signal(r.Signal)
		}
	}
}

// closeInherited closes descriptors that Ralph inherited itself, such as locks and
// terminals: those without close-on-exec, which the runtime's own have.
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

// apply maps the user that commands inherit.
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

// sendLocked sends a reply. An error means that Ralph has ended: this process ends.
func (s *initServer) sendLocked(r reply) {
	if s.enc.Encode(r) != nil {
		os.Exit(1)
	}
}

// reap reaps every child for ever. Orphans of the pid namespace become children.
func (s *initServer) reap() {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // no child
			<-s.child
		default:
			s.reaped(pid, ws)
		}
	}
}

// reaped reports the end of the leader.
func (s *initServer) reaped(pid int, ws syscall.WaitStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pid != s.leader {
		return
	}
	s.leader = 0
	left := !childless()
	if !left {
		settled(s.watched)
	}
	s.sendLocked(reply{Exited: &exit{Status: ws, Left: left}})
}

// childless reaps dead children and reports whether none is left.
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

// sweep kills what a leader left and replies when all of it is reaped. Nothing
// escapes: kill(2) with -1 is atomic against forks.
func (s *initServer) sweep() {
	_ = unix.Kill(-1, unix.SIGKILL) // ESRCH: nothing is left
	for {
		if _, err := syscall.Wait4(-1, nil, 0, nil); err == syscall.ECHILD {
			break
		}
	}
	s.mu.Lock()
	watched := s.watched
	s.mu.Unlock()
	settled(watched)
	s.send(reply{Swept: true})
}

func (s *initServer) signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leader > 0 {
		_ = unix.Kill(-s.leader, sig) // the group exists until the leader is reaped
	}
}

// run starts a command, or only tries its layout, on a thread that ends afterwards.
// It closes the command's files before the reply.
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
	var record *os.File
	if len(files) > commandFiles {
		record = os.NewFile(uintptr(files[commandFiles]), "record")
		files = files[:commandFiles]
	}
	pid, watch := 1, func() { _ = record.Close() }
	listener := -1
	err = st.run(func() (err error) {
		if inherited() != s.base {
			os.Exit(1) // an earlier command changed it: Ralph starts another container
		}
		if r.Layout != nil && r.Path != "" {
			err = r.Layout.Limits.Apply(0) // cannot be raised again
			s.base = inherited()
		}
		if err == nil && r.Listen {
			listener, err = sandbox.Listen()
		}
		if err == nil {
			watch, err = arrange(r, record)
		}
		if err == nil && r.Path != "" {
			pid, err = s.fork(r, files)
		}
		return err
	})
	watched := make(chan struct{})
	s.watched = watched
	go func() {
		defer close(watched)
		watch()
	}()
	closeFiles(files)
	if listener >= 0 {
		if err == nil {
			err = sendFiles(initFiles, []int{listener})
		}
		_ = unix.Close(listener)
	}
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
		case s.child <- struct{}{}:
		default: // reap has been woken already
		}
	}
	s.sendLocked(reply{Started: pid})
}

// arrange gives the calling thread the mounts and the rights of a command. watch appends
// to record what the command writes and what was refused, until nothing of it is left, and
// closes record.
func arrange(r *runRequest, record *os.File) (watch func(), err error) {
	watch = func() { _ = record.Close() }
	if r.Layout == nil {
		err = sandbox.MountProc()
	} else {
		err = r.Layout.Enter()
	}
	if err != nil {
		return watch, err
	}
	guarded := r.Layout != nil && r.Layout.Guarded()
	supervised := guarded || r.Layout != nil && r.Layout.Supervised()
	if r.Watch == "" && !supervised {
		return watch, restrict(r.Layout)
	}
	proc, err := unix.Open("/proc", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return watch, &fs.PathError{Op: "open", Path: "/proc", Err: err}
	}
	notes := &notes{to: record}
	var maker *sandbox.Maker
	if supervised {
		maker, err = r.Layout.NewMaker(func(path, class, key string) { notes.add(Seen{Refused: []byte(path), Class: class, Key: key}) }, func(left []string) {
			undone := Seen{Undone: true}
			for _, rel := range left {
				undone.Left = append(undone.Left, []byte(rel))
			}
			notes.add(undone)
		}, func(path string) { notes.add(Seen{Foreign: []byte(path)}) })
	}
	listener := -1
	switch {
	case err != nil:
	case r.Layout == nil:
		if listener, err = sandbox.WatchAlone(); err != nil {
			listener = -1 // there is no view
		}
		err = restrict(nil)
	default:
		listener, err = r.Layout.RestrictWatched(r.Watch != "" || guarded)
	}
	if err != nil || listener < 0 {
		_ = unix.Close(proc)
		maker.Close()
		return watch, err
	}
	notes.add(Seen{Begun: true})
	return func() {
		sandbox.Watch(listener, proc, r.Watch, maker,
			func(w sandbox.Write) { notes.add(Seen{Path: []byte(w.Path), At: w.At, Before: w.Before, Mode: w.Mode}) },
			func() { notes.add(Seen{Gap: true}) })
		_ = errors.Join(record.Close(), unix.Close(proc))
	}, nil
}

// restrict gives the calling thread the rights of a command; nil is not confined.
func restrict(l *sandbox.Layout) error {
	if l == nil {
		return sandbox.KeepNoCapabilities()
	}
	return l.Restrict(0)
}

// fork starts a command from the calling thread.
func (s *initServer) fork(r *runRequest, files []int) (int, error) {
	attr := &syscall.ProcAttr{Dir: r.Dir, Env: r.Env, Sys: &syscall.SysProcAttr{Setsid: true}}
	for _, fd := range files {
		attr.Files = append(attr.Files, uintptr(fd))
	}
	if r.Tag != 0 {
		setLimitTag(0, r.Tag) // the child inherits it
		defer setLimitTag(0, s.own)
	}
	pid, err := syscall.ForkExec(r.Path, r.Argv, attr)
	if err != nil {
		return 0, flawOf(false, err)
	}
	return pid, nil
}

// inheritance is what a command inherits from the first process and its threads, and
// what another process of the same user may change there by prlimit(2),
// setpriority(2), sched_setaffinity(2), sched_setscheduler(2) and ioprio_set(2).
type inheritance struct {
	limits   [16]unix.Rlimit // every resource
	nice     int
	ioprio   uintptr
	affinity unix.CPUSet
	policy   unix.SchedAttr
	oom      [16]byte // oom_score_adj
}

func inherited() inheritance {
	var l inheritance
	for i := range l.limits {
		_ = unix.Prlimit(0, i, nil, &l.limits[i]) // what cannot be read compares equal
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

// stage is a thread with namespaces of its own, made before it is needed.
type stage struct {
	flags int
	job   chan func() error
	done  chan error
}

// newStage starts to make the namespaces in the background.
func newStage(flags int) *stage {
	st := &stage{flags: flags, job: make(chan func() error), done: make(chan error, 1)}
	go st.serve()
	return st
}

// run runs f on the thread and waits for it. The thread ends afterwards.
func (st *stage) run(f func() error) error {
	st.job <- f
	return <-st.done
}

// drop ends a stage without a run.
func (st *stage) drop() { close(st.job) }

func (st *stage) serve() {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	if unix.Gettid() == os.Getpid() {
		// The first thread cannot end. It waits while another thread does the work.
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
