package proc

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// space is a command in namespaces of its own: a pid namespace whose first
// process is our init (see forkInit), with a mount namespace for its /proc, and
// where we are not root a user namespace, without which the others are not
// granted. When init ends, the kernel ends everything in the pid namespace, and
// init's death is reported only when all of that is gone: that is the proof of
// rest. Init ends when we say so, when the thread that made it ends
// (parent-death signal), and when its socket closes (lifeline), so also when
// Ralph is killed.
//
// What does not work in a user namespace: programs that become another user
// (sudo, su, ping with file capabilities) have no effect on it and say so; files
// of other users show up as nobody's, which some programs refuse to trust (ssh
// its system configuration); chgrp to a supplementary group. Processes outside
// are not seen, so they cannot be signalled by name. As root, what a command
// mounts stays as long as without us, unless / is a private mount.
type space struct {
	tree                     // of init: it is reaped when the space is gone
	inode uint64             // of the pid namespace
	ctl   int                // our end of init's socket; closed when init is reaped
	fate  syscall.WaitStatus // of init
	gone  chan struct{}      // closed when init is reaped; fate is set then
	// The three are set before exited is closed. left is whether more than the
	// leader was there when it ended; ended is false when init was killed first.
	status syscall.WaitStatus
	ended  bool
	left   bool
	named  []Process // what was there when it was killed
}

// The descriptors of init; 0, 1 and 2 are the command's until it is forked.
const (
	initControl = 3
	initReport  = 4
	initSignals = 5
)

// namingTime is what naming the members of a space may take before their kill.
const namingTime = 20 * time.Millisecond

// replans is how often a confinement is laid out anew because a place in it was
// gone before it was mounted over.
const replans = 5

// goByte lets init go on; any other byte is a signal.
const goByte = 0xff

// The stages of init's start, for messages.
const (
	stageClone = iota
	stageSession
	stageFiles
	stageMaps
	stageMount
	stageSignals
	stageFork
	stageExec
	stageConfine
)

// stageError says where the start of a space ended.
type stageError struct {
	stage int
	step  int // of a confinement
	err   syscall.Errno
}

func (e *stageError) Error() string {
	what := [...]string{"new namespaces", "session", "close files", "map user", "mount /proc", "signals", "fork", "start", "confine"}
	return what[e.stage] + ": " + e.err.Error()
}

func (e *stageError) Unwrap() error { return e.err }

// spaces says, after trying once, why there are no namespaces, nil if there are,
// and whether init needs the memory of the C library.
var spaces = sync.OnceValues(func() (keepC bool, err error) {
	for _, keepC = range [...]bool{false, true} {
		s, err := startSpace(tag{}, "", nil, &syscall.ProcAttr{Files: []uintptr{0, 0, 0}}, keepC, nil)
		if err != nil {
			return keepC, err
		}
		<-s.gone
		children().leave(&s.tree)
		if s.fate == 0 {
			return keepC, nil
		}
		if !s.fate.Signaled() {
			break
		}
	}
	return keepC, errors.New("the first process of a new namespace fails")
})

// startBest starts a space, or a tree where there are none, or just now is no
// room for one.
func startBest(g tag, path string, argv []string, attr *syscall.ProcAttr, held *Confinement) (family, error) {
	keepC, err := spaces()
	if err != nil {
		return startTree(g, path, argv, attr, held)
	}
	for i := 1; ; i++ {
		jailed, err := held.confine(attr.Dir, false)
		if err != nil {
			return nil, err
		}
		s, err := startSpace(g, path, argv, attr, keepC, jailed)
		var se *stageError
		switch {
		case err == nil:
			return s, nil
		case !errors.As(err, &se):
			return nil, err
		case se.stage == stageExec:
			return nil, se.err
		case jailed == nil:
			children().missed(err)
			return startTree(g, path, argv, attr, nil)
		case se.err != syscall.ENOENT || i == replans: // else something is gone that was there a moment ago
			return nil, jailed.fault(se)
		}
	}
}

// startSpace starts a program in a new space; without one it only tries.
func startSpace(g tag, path string, argv []string, attr *syscall.ProcAttr, keepC bool, jailed *confined) (*space, error) {
	s := &space{tree: tree{tag: g, closed: true, over: make(chan struct{})}, gone: make(chan struct{})}
	args, mem, err := s.args(path, argv, attr, jailed)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Munmap(mem) }()
	if keepC {
		args.keepC = 1
	}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var mask unix.Sigset_t
		err := unix.PthreadSigmask(unix.SIG_BLOCK, nil, &mask)
		if err == nil {
			args.mask = maskBits(mask)
			err = s.fork(args)
		}
		runtime.KeepAlive(attr)
		started <- err
		if err == nil {
			s.watch()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	s.who.Command = shown(strings.Join(argv, " "))
	return s, nil
}

// fork makes init and waits until the command runs. It is called on the thread
// that watches.
func (s *space) fork(a *initArgs) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	s.ctl = pair[0]
	r, w, err := pipe()
	if err != nil {
		_, _ = unix.Close(pair[0]), unix.Close(pair[1])
		return err
	}
	a.files[initControl], a.files[initReport], a.report = uintptr(pair[1]), uintptr(w), uintptr(w)
	err = children().forkSpace(s, a)
	_, _ = unix.Close(pair[1]), unix.Close(w)
	if err == nil {
		err = s.handshake(a, r)
		if err != nil {
			s.end(true)
			s.reapInit()
			children().leave(&s.tree)
		}
	}
	_ = unix.Close(r)
	if err != nil {
		_ = unix.Close(s.ctl)
	}
	return err
}

// handshake gives init what only its parent can, and waits for the word that
// the command runs: the end of the report.
func (s *space) handshake(a *initArgs, report int) error {
	proc := "/proc/" + strconv.Itoa(s.pid)
	if a.flags&unix.CLONE_NEWUSER != 0 {
		if !canScan() {
			return &stageError{stage: stageMaps, err: syscall.ENOENT}
		}
		uid, gid := strconv.Itoa(os.Geteuid()), strconv.Itoa(os.Getegid())
		for _, m := range [...][2]string{{"/uid_map", uid + " " + uid + " 1\n"}, {"/setgroups", "deny"}, {"/gid_map", gid + " " + gid + " 1\n"}} {
			if err := writeOnce(proc+m[0], m[1]); err != nil {
				return &stageError{stage: stageMaps, err: err.(syscall.Errno)}
			}
		}
	}
	s.inode = spaceOf(strconv.Itoa(s.pid))
	if err := s.tell(goByte); err != nil {
		return &stageError{stage: stageSession, err: syscall.ESRCH}
	}
	var word [8]byte
	for {
		n, err := syscall.Read(report, word[:])
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return &stageError{stage: stageSession, err: err.(syscall.Errno)}
		case n == 0:
			return nil
		}
		stage := binary.NativeEndian.Uint32(word[:4])
		return &stageError{int(stage & 0xff), int(stage >> 8), syscall.Errno(binary.NativeEndian.Uint32(word[4:]))}
	}
}

func writeOnce(path, text string) error {
	fd, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = syscall.Write(fd, []byte(text))
	_ = syscall.Close(fd)
	return err
}

// forkSpace makes init and registers it before any reaper can see it.
func (tb *table) forkSpace(s *space, a *initArgs) error {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	pid, errno := forkInit(a)
	if errno != 0 {
		return &stageError{stage: stageClone, err: errno}
	}
	s.pid = pid
	if st, ok := readStat(pid); ok {
		s.start = st.start
	}
	tb.active[s.tag] = &s.tree
	return nil
}

// watch waits for the leader's end, and then for that of init.
func (s *space) watch() {
	var word [8]byte
	for {
		n, err := syscall.Read(s.ctl, word[:])
		if err == syscall.EINTR {
			continue
		}
		if n == len(word) {
			s.status = syscall.WaitStatus(binary.NativeEndian.Uint32(word[:4]))
			s.left = binary.NativeEndian.Uint32(word[4:]) != 0
			s.ended = true
		}
		break
	}
	close(s.over)
	s.reapInit()
	_ = unix.Close(s.ctl)
}

// reapInit waits until init, and so everything in its space, is dead.
func (s *space) reapInit() {
	for unix.Waitid(unix.P_PID, s.pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	s.mu.Lock()
	s.fate = s.reapLocked()
	s.mu.Unlock()
	close(s.gone)
}

// tell sends init one byte. It never waits.
func (s *space) tell(b byte) error {
	return unix.Sendto(s.ctl, []byte{b}, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
}

// end ends init, at once or when it has done what it is at.
func (s *space) end(now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reaped {
		return
	}
	if now {
		_ = unix.Kill(s.pid, unix.SIGKILL) // our child, not reaped: nothing can refuse
		return
	}
	_ = unix.Shutdown(s.ctl, unix.SHUT_WR)
}

// signal asks init to signal the leader's process group. SIGKILL ends all.
func (s *space) signal(sig syscall.Signal) {
	if sig == syscall.SIGKILL {
		s.named = s.doomed()
		s.end(true)
		return
	}
	s.ask(sig)
}

// ask has init send a signal; see initServe.
func (s *space) ask(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.reaped {
		// A socket that is full, or closed, is that of an init that will be killed.
		_ = s.tell(byte(sig))
	}
}

// doomed names what is about to be killed, as far as that is quick. All of it is
// stopped first: what forks for ever would have the processor, and no end of
// members.
func (s *space) doomed() []Process {
	s.ask(syscall.SIGSTOP)
	return s.members()
}

// reap gives the leader's status. A space whose init was killed ended with it.
func (s *space) reap() (status syscall.WaitStatus, who Process, dead bool) {
	select {
	case <-s.over:
		return s.status, s.who, s.ended
	default:
		return 0, s.who, false
	}
}

// sweep ends the space. What was left is named as the table showed it before.
func (s *space) sweep(dead bool) (killed, left []Process) {
	defer children().leave(&s.tree)
	killed = s.named
	if dead && s.left {
		killed = append(killed, s.doomed()...)
	}
	s.end(!dead || s.left)
	t := time.NewTimer(killGrace)
	defer t.Stop()
	select {
	case <-s.gone:
		return killed, nil
	case <-t.C:
		return killed, append(s.members(), Process{PID: s.pid, Start: s.start, Command: "init of: " + s.who.Command})
	}
}

// members are the living processes in the space but init and the leader, who is
// remembered. All of them descend from init, which adopts the orphans; where the
// system does not list children, every process is looked at.
func (s *space) members() []Process {
	var out []Process
	look := func(pid int) {
		st, ok := readStat(pid)
		if !ok || !st.alive() {
			return
		}
		p := Process{PID: pid, Start: st.start, Command: commandLine(pid)}
		if !s.led() && st.ppid == s.pid && innerPID(pid) == "2" {
			s.who = p // the first that init forked
			return
		}
		out = append(out, p)
	}
	first, ok := childrenOf(s.pid)
	if !ok {
		for _, pid := range pids() {
			if pid != s.pid && s.holds(pid) {
				look(pid)
			}
		}
		return out
	}
	seen := map[int]bool{s.pid: true}
	deadline := time.Now().Add(namingTime)
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

// led says that the leader is known to have ended.
func (s *space) led() bool {
	select {
	case <-s.over:
		return s.ended
	default:
		return false
	}
}

// holds says that a process is in the space, by the namespace it is in, or by
// the mark of the command where that is another, or not told.
func (s *space) holds(pid int) bool {
	in := spaceOf(strconv.Itoa(pid))
	return in != 0 && in == s.inode || in != spaceOf("self") && limitTag(pid) == s.tag.n
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
