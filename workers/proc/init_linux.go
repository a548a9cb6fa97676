//go:build linux && (amd64 || arm64)

package proc

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"ralph/workers/proc/jail"
)

// This file is the other side of a fork without exec: the process that is pid 1
// of a command's namespaces. Starting Ralph anew for it would cost 17 ms of
// package initialisation per command, the fork costs below one.
//
// After the fork only the calling thread exists, and whatever lock another one
// held is held for ever. So nothing here may allocate, grow its stack, be
// preempted or call into the runtime: every function is nosplit (the linker
// checks the depth), calls only raw system calls, and works on memory that was
// prepared before the fork. All signals are blocked from before the fork on, so
// no handler runs and nothing from a terminal matters; for the kernel pid 1 is
// deaf to all but the KILL of an outer namespace anyway.
//
// Of Ralph's memory init has the program and its static data, the arguments, and
// the piece of the heap with its stack: copying the tables of 40 MB twice, and
// the page faults of Ralph that follow, would cost several milliseconds per
// command. Nothing else may be used here. It is not dumpable, so that a command
// of the same user does not look at what there is.

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

const (
	initRules = initSignals + jail.RulesetAt // what a command is confined by

	initSpare = 16 // descriptors that are moved go above this first
	closeAll  = ^uintptr(0) >> 32
)

// forkInit clones the process with new namespaces. The child never returns. No
// two may run at a time.
//
//go:norace
//go:noinline
//go:nocheckptr
func forkInit(a *initArgs) (pid int, errno syscall.Errno) {
	beforeFork()
	leaveMemory(a)
	r, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, a.flags|uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || r != 0 {
		afterFork()
		return int(r), errno
	}
	initMain(a)
	return 0, 0 // never
}

// leaveMemory keeps all memory out of the next fork but the program, which lies
// within 2^32 bytes, the arguments, the part of the heap with this stack, which
// is a goroutine's, and the C library's notes on this thread, which the kernel
// writes to (rseq). Not all systems tell where these are; with keepC only the
// heap stays out, which the runtime keeps within 2^38 bytes. That there are gaps
// in between is an error that changes nothing. Forks that only wait for an exec
// share all memory anyway.
//
//go:norace
//go:nosplit
//go:nocheckptr
func leaveMemory(a *initArgs) {
	var here byte
	const around, program, heap, top = 64 << 10, 1 << 32, 1 << 38, 1 << 48
	stack := uintptr(unsafe.Pointer(&here)) &^ (around - 1)
	if a.keepC != 0 {
		low := stack &^ (heap - 1)
		if a.text-low < heap {
			return
		}
		syscall.RawSyscall(syscall.SYS_MADVISE, low, heap, syscall.MADV_DONTFORK)
	} else {
		low := a.text &^ (program - 1)
		syscall.RawSyscall(syscall.SYS_MADVISE, 0, low, syscall.MADV_DONTFORK)
		syscall.RawSyscall(syscall.SYS_MADVISE, low+program, top-low-program, syscall.MADV_DONTFORK)
	}
	syscall.RawSyscall(syscall.SYS_MADVISE, uintptr(unsafe.Pointer(a)), a.size, syscall.MADV_DOFORK)
	forkAround(stack)
	if runtime.GOARCH == "amd64" {
		const archPrctl, getFS = 158, 0x1003
		if _, _, errno := syscall.RawSyscall(archPrctl, getFS, uintptr(unsafe.Pointer(&a.thread)), 0); errno == 0 {
			forkAround(a.thread &^ (around - 1))
		}
	}
}

//go:norace
//go:nosplit
//go:nocheckptr
func forkAround(place uintptr) {
	const around = 64 << 10
	for at := place - around; at <= place+around; at += around {
		syscall.RawSyscall(syscall.SYS_MADVISE, at, around, syscall.MADV_DOFORK)
	}
}

//go:norace
//go:nosplit
//go:nocheckptr
func initMain(a *initArgs) {
	_, _, errno := syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0)
	if errno != 0 {
		initFail(a.report, stageSession, errno)
	}
	_, _, errno = syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0)
	if errno != 0 {
		initFail(a.report, stageSession, errno)
	}
	syscall.RawSyscall(syscall.SYS_PRCTL, unix.PR_SET_NAME, uintptr(unsafe.Pointer(&a.name[0])), 0)
	initFiles(a)
	if _, _, errno = syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_DUMPABLE, 0, 0); errno != 0 {
		initFail(initReport, stageSession, errno)
	}
	if a.calls != 0 {
		initWalk(a, 0, a.mounts)
	} else {
		initMount(a)
	}
	if a.tagged != 0 {
		// Without it the environment still tells.
		syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, unix.RLIMIT_RTTIME, uintptr(unsafe.Pointer(&a.tag)), 0, 0, 0)
	}
	_, _, errno = syscall.RawSyscall6(syscall.SYS_SIGNALFD4, ^uintptr(0), uintptr(unsafe.Pointer(&a.sigchld)), 8, unix.SFD_CLOEXEC|unix.SFD_NONBLOCK, 0, 0)
	if errno != 0 {
		initFail(initReport, stageSignals, errno)
	}
	if a.path == 0 { // it was only to be seen whether it works
		initWalk(a, a.mounts, a.commands)
		initExit()
	}
	leader, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		initFail(initReport, stageFork, errno)
	}
	if leader == 0 {
		initExec(a)
	}
	syscall.RawSyscall(unix.SYS_CLOSE_RANGE, 0, 2, 0)
	syscall.RawSyscall(syscall.SYS_CLOSE, initReport, 0, 0)
	syscall.RawSyscall(syscall.SYS_CLOSE, initRules, 0, 0)
	syscall.RawSyscall(syscall.SYS_CHDIR, uintptr(unsafe.Pointer(&a.root[0])), 0, 0)
	initServe(leader)
}

// initFiles leaves only the five descriptors that are needed, at their places:
// locks, terminals and the lifelines of other commands must not be held here.
//
//go:norace
//go:nosplit
//go:nocheckptr
func initFiles(a *initArgs) {
	from := (*[5]uintptr)(unsafe.Pointer(&a.files))
	for i := uintptr(0); i < 5; i++ {
		fd, _, errno := syscall.RawSyscall(syscall.SYS_FCNTL, from[i], syscall.F_DUPFD_CLOEXEC, initSpare)
		if errno != 0 {
			initFail(a.report, stageFiles, errno)
		}
		from[i] = fd
	}
	a.report = from[initReport]
	for i := uintptr(0); i < 5; i++ {
		flags := uintptr(0)
		if i > 2 {
			flags = syscall.O_CLOEXEC
		}
		if _, _, errno := syscall.RawSyscall(syscall.SYS_DUP3, from[i], i, flags); errno != 0 {
			initFail(a.report, stageFiles, errno)
		}
	}
	if _, _, errno := syscall.RawSyscall(unix.SYS_CLOSE_RANGE, initSignals, closeAll, 0); errno != 0 {
		initFail(initReport, stageFiles, errno)
	}
	// The parent says go when it has written the maps; that it is gone is heard
	// here too, also if it went before the parent-death signal was set.
	if _, _, errno := syscall.RawSyscall(syscall.SYS_READ, initControl, uintptr(unsafe.Pointer(&a.word)), 1); errno != 0 || a.word != goByte {
		initExit()
	}
}

// initMount hides the processes outside, whose numbers mean nothing here.
//
//go:norace
//go:nosplit
//go:nocheckptr
func initMount(a *initArgs) {
	proc := uintptr(unsafe.Pointer(&a.proc[0]))
	_, _, errno := syscall.RawSyscall6(syscall.SYS_MOUNT, proc, proc, 0, syscall.MS_REC|syscall.MS_SLAVE, 0, 0)
	if errno != 0 {
		initFail(initReport, stageMount, errno)
	}
	_, _, errno = syscall.RawSyscall6(syscall.SYS_MOUNT, proc, proc, uintptr(unsafe.Pointer(&a.proc[1])),
		syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, 0, 0)
	if errno != 0 {
		initFail(initReport, stageMount, errno)
	}
}

// initWalk makes the system calls that confine, from one on. It knows nothing
// of them.
//
//go:norace
//go:nosplit
//go:nocheckptr
func initWalk(a *initArgs, from, n uintptr) {
	for i := from; i < from+n; i++ {
		c := (*initCall)(unsafe.Add(unsafe.Pointer(a), a.calls+i*unsafe.Sizeof(initCall{})))
		_, _, errno := syscall.RawSyscall6(c.nr, c.args[0], c.args[1], c.args[2], c.args[3], c.args[4], c.args[5])
		if errno != 0 && c.may == 0 {
			initFail(initReport, stageConfine|i<<8, errno)
		}
	}
}

// initExec becomes the command.
//
//go:norace
//go:nosplit
//go:nocheckptr
func initExec(a *initArgs) {
	syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0)
	if a.dir != 0 {
		if _, _, errno := syscall.RawSyscall(syscall.SYS_CHDIR, a.dir, 0, 0); errno != 0 {
			initFail(initReport, stageExec, errno)
		}
	}
	if a.limited != 0 {
		syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, syscall.RLIMIT_NOFILE, uintptr(unsafe.Pointer(&a.files64)), 0, 0, 0)
	}
	// A signal that comes from now on must not run a handler of Ralph's; what is
	// ignored stays so, as with any child.
	var act, none [4]uint64 // a sigaction, of which the first word is the handler
	for sig := uintptr(1); sig <= 64; sig++ {
		_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, sig, 0, uintptr(unsafe.Pointer(&act)), 8, 0, 0)
		if errno == 0 && act[0] > 1 {
			syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&none)), 0, 8, 0, 0)
		}
	}
	initWalk(a, a.mounts, a.commands)
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&a.mask)), 0, 8, 0, 0)
	_, _, errno := syscall.RawSyscall(syscall.SYS_EXECVE, a.path, a.argv, a.env)
	initFail(initReport, stageExec, errno)
}

// initServe reaps and obeys until the parent is gone or has heard enough.
//
//go:norace
//go:nosplit
//go:nocheckptr
func initServe(leader uintptr) {
	fds := [2]unix.PollFd{{Fd: initControl, Events: unix.POLLIN}, {Fd: initSignals, Events: unix.POLLIN}}
	ended := false
	for {
		syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&fds)), 2, 0, 0, 0, 0)
		if fds[1].Revents != 0 {
			if initReap(leader, ended) {
				ended = true
			}
		}
		if fds[0].Revents != 0 {
			var sig byte
			n, _, errno := syscall.RawSyscall(syscall.SYS_READ, initControl, uintptr(unsafe.Pointer(&sig)), 1)
			if errno != syscall.EINTR && n != 1 {
				initExit()
			}
			switch {
			case n != 1:
			case sig == byte(syscall.SIGSTOP): // all but init; KILL comes next
				syscall.RawSyscall(syscall.SYS_KILL, ^uintptr(0), uintptr(sig), 0)
			case !ended:
				syscall.RawSyscall(syscall.SYS_KILL, -leader, uintptr(sig), 0)
			}
		}
	}
}

// initReap reaps all that is dead. When the leader is among it, its status goes
// to the parent, with the word whether anything is left.
//
//go:norace
//go:nosplit
//go:nocheckptr
func initReap(leader uintptr, ended bool) bool {
	var info [128]byte // a signalfd_siginfo; what it says does not matter
	syscall.RawSyscall(syscall.SYS_READ, initSignals, uintptr(unsafe.Pointer(&info)), 128)
	var status uint32
	var word [2]uint32 // status, left
	now := false
	for {
		pid, _, errno := syscall.RawSyscall6(syscall.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&status)), syscall.WNOHANG|syscall.WALL, 0, 0, 0)
		if errno == syscall.EINTR {
			continue
		}
		if errno != 0 || pid == 0 {
			if errno == 0 {
				word[1] = 1
			}
			break
		}
		if pid == leader && !ended {
			now, word[0] = true, status
		}
	}
	if now {
		syscall.RawSyscall6(syscall.SYS_SENDTO, initControl, uintptr(unsafe.Pointer(&word)), 8, syscall.MSG_NOSIGNAL, 0, 0)
	}
	return now
}

//go:norace
//go:nosplit
//go:nocheckptr
func initFail(report, stage uintptr, errno syscall.Errno) {
	word := [2]uint32{uint32(stage), uint32(errno)}
	syscall.RawSyscall(syscall.SYS_WRITE, report, uintptr(unsafe.Pointer(&word)), 8)
	initExit()
}

//go:norace
//go:nosplit
//go:nocheckptr
func initExit() {
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
}
