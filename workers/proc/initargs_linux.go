package proc

import (
	"encoding/binary"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// initArgs is all that init uses, in memory outside the heap that is made
// before the fork. Addresses are plain numbers.
type initArgs struct {
	flags   uintptr
	files   [5]uintptr // stdin, stdout, stderr, control, report
	report  uintptr    // where errors go until the files are at their places
	path    uintptr
	argv    uintptr
	env     uintptr
	dir     uintptr
	size    uintptr // of the memory of all this
	text    uintptr // an address in the program
	thread  uintptr // where the C library has its notes on the thread
	keepC   uintptr // its memory must be there: see leaveMemory
	mask    uint64  // the signal mask of the command
	sigchld uint64
	tagged  uintptr
	tag     [2]uint64
	limited uintptr
	files64 [2]uint64 // RLIMIT_NOFILE of the command
	word    byte
	root    [2]byte
	name    [16]byte
	proc    [6]byte // "/proc", of which the end is "proc"
	// The calls that confine: how far from here they are, and how many.
	calls    uintptr
	mounts   uintptr
	commands uintptr
}

// initCall is a system call laid out by the package jail.
type initCall struct {
	nr   uintptr
	args [6]uintptr
	may  uintptr // fail
}

// maskBits are the first 64 signals, which are all.
func maskBits(m unix.Sigset_t) uint64 {
	return binary.NativeEndian.Uint64((*[8]byte)(unsafe.Pointer(&m))[:])
}

// args lays out what init needs. mem is to be unmapped when it has started.
func (s *space) args(path string, argv []string, attr *syscall.ProcAttr, jailed *confined) (a *initArgs, mem []byte, err error) {
	const word = 8
	size := int(unsafe.Sizeof(initArgs{})) + word*(len(argv)+len(attr.Env)+8)
	for _, list := range [...][]string{argv, attr.Env, {path, attr.Dir}} {
		for _, text := range list {
			if strings.IndexByte(text, 0) >= 0 {
				return nil, nil, syscall.EINVAL
			}
			size += len(text) + 1
		}
	}
	if jailed != nil {
		size += jailed.plan.Size() + word
	}
	mem, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, err
	}
	a = (*initArgs)(unsafe.Pointer(&mem[0]))
	base, used := uintptr(unsafe.Pointer(&mem[0])), (int(unsafe.Sizeof(*a))+word-1)&^(word-1)
	list := func(texts []string) uintptr {
		at := used
		used += word * (len(texts) + 1)
		for i, text := range texts {
			binary.NativeEndian.PutUint64(mem[at+word*i:], uint64(base)+uint64(used))
			used += copy(mem[used:], text) + 1
		}
		start := base + uintptr(at)
		used = (used + word - 1) &^ (word - 1)
		return start
	}
	one := func(text string) uintptr {
		at := used
		used += copy(mem[used:], text) + 1
		return base + uintptr(at)
	}
	a.size = uintptr(len(mem)+os.Getpagesize()-1) &^ uintptr(os.Getpagesize()-1)
	a.argv, a.env = list(argv), list(attr.Env)
	if path != "" {
		a.path = one(path)
	}
	if attr.Dir != "" {
		a.dir = one(attr.Dir)
	}
	a.flags = unix.CLONE_NEWPID | unix.CLONE_NEWNS
	if os.Geteuid() != 0 {
		a.flags |= unix.CLONE_NEWUSER
	}
	if jailed != nil {
		a.calls, a.mounts, a.commands = uintptr((used+word-1)&^(word-1)), uintptr(jailed.plan.Mounts), uintptr(jailed.plan.Command)
		jailed.plan.Put(mem[a.calls:], base+a.calls)
		a.flags |= unix.CLONE_NEWIPC
		if jailed.net {
			a.flags |= unix.CLONE_NEWNET
		}
	}
	a.root, a.sigchld, a.text = [2]byte{'/'}, 1<<(syscall.SIGCHLD-1), reflect.ValueOf(forkInit).Pointer()
	copy(a.name[:], "ralph-init")
	copy(a.proc[:], "/proc")
	copy(a.files[:3], attr.Files)
	s.limits(a)
	return a, mem, nil
}

// limits notes the tag and the limit of open files.
func (s *space) limits(a *initArgs) {
	var lim unix.Rlimit
	if children().tagged && unix.Prlimit(0, unix.RLIMIT_RTTIME, nil, &lim) == nil {
		a.tagged, a.tag = 1, [2]uint64{s.tag.n, lim.Max}
	}
	if cur := fileLimit(); cur != 0 && unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &lim) == nil && lim.Cur == lim.Max-1 {
		a.limited, a.files64 = 1, [2]uint64{cur, lim.Max}
	}
}

// fileLimit is the soft limit of open files that commands are to have, where
// the language's runtime has raised ours; 0 where it has not. Only the runtime
// knows it, and gives it to its children: one is stopped before its first
// instruction, looked at, and killed.
var fileLimit = sync.OnceValue(func() uint64 {
	var lim unix.Rlimit
	if unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &lim) != nil || lim.Cur != lim.Max-1 {
		return 0
	}
	const usual = 1024
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"ralph"}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}})
	if err != nil {
		return min(usual, lim.Max)
	}
	err = unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &lim)
	_ = syscall.Kill(pid, syscall.SIGKILL)
	for {
		var ws syscall.WaitStatus
		if _, err := syscall.Wait4(pid, &ws, 0, nil); err != syscall.EINTR && !ws.Stopped() {
			break
		}
	}
	if err != nil {
		return min(usual, lim.Max)
	}
	return lim.Cur
})
