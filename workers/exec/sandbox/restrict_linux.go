package sandbox

import (
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Landlock returns the version of its interface; 0 is none.
func Landlock() int {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(abi)
}

// Filters reports whether the kernel filters system calls on this machine.
func Filters() bool {
	action := uint32(unix.SECCOMP_RET_ERRNO)
	const available = 2 // SECCOMP_GET_ACTION_AVAIL
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, available, 0, uintptr(unsafe.Pointer(&action)))
	return errno == 0 && machine != 0
}

// Restrict removes from the calling thread, and from what it starts afterwards,
// capabilities, new privileges, writing outside of l and the refused system calls.
// It cannot be undone: the thread must be locked and end with its goroutine.
//
// spared is the id of the calling thread where there are no namespaces, else 0: what
// the thread starts can then neither signal the thread nor read its memory.
func (l Layout) Restrict(spared int) error {
	_, err := l.restrict(spared, nil)
	return err
}

// RestrictWatched is Restrict without a spared thread. It also returns a descriptor
// for Watch, which must serve the calls that connect a socket and, with files, those that
// name a file to change until nothing that the thread started is left. It returns -1 where
// the kernel or Features give no such view.
func (l Layout) RestrictWatched(files bool) (listener int, err error) {
	return l.restrict(0, notifiedCalls(files, l.Supervised()))
}

// WatchAlone restricts nothing, and returns a descriptor for Watch as RestrictWatched
// does. The thread needs CAP_SYS_ADMIN in its user namespace.
func WatchAlone() (listener int, err error) {
	if machine == 0 {
		return -1, syscall.ENOSYS
	}
	var f program
	f.load(offArch)
	f.equal(machine, 1, 0)
	f.end(unix.SECCOMP_RET_ALLOW) // the numbers of another machine's calls are others
	f.load(offNumber)
	f.notify(notifiedCalls(true, false))
	f.end(unix.SECCOMP_RET_ALLOW)
	return install(f, listening)
}

// listening gives a filter a listener, for which threads wait whatever signals come.
const listening = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV

func (l Layout) restrict(spared int, calls map[int]watchedCall) (listener int, err error) {
	watched := len(calls) > 0
	guarded := watched && l.Guarded()
	rules := -1
	if l.Features.Landlock > 0 {
		if rules, err = l.ruleset(guarded); err != nil {
			return -1, err
		}
		defer func() { _ = unix.Close(rules) }()
	}
	if err := l.drop(rules); err != nil {
		return -1, err
	}
	if !l.Features.Filter {
		return -1, nil
	}
	if watched {
		fd, err := install(l.filter(0, calls), listening)
		if err == nil {
			return fd, nil
		} // before Linux 5.19, or where another process watches already
		if guarded || l.Supervised() {
			return -1, fault("watch", "system calls", err)
		}
	}
	if _, err := install(l.filter(spared, nil), 0); err != nil {
		return -1, fault("filter", "system calls", err)
	}
	return -1, nil
}

// drop removes from the calling thread capabilities, new privileges and what a Landlock
// ruleset does not allow; -1 is none.
func (l Layout) drop(rules int) error {
	// Landlock puts this thread and what it starts into one domain: only this keeps
	// the command from tracing the thread and reading the process's memory.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fault("close", "own memory", err)
	}
	// A kernel may have no keyrings, and the next two repeat what no new privileges
	// does: errors are ignored.
	_, _ = unix.KeyctlJoinSessionKeyring("")
	keep := l.keeps()
	for c := 0; c <= unix.CAP_LAST_CAP; c++ {
		if keep&(1<<c) == 0 {
			_ = unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0)
		}
	}
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	head, data := capsets(keep)
	if _, _, errno := unix.RawSyscall(unix.SYS_CAPSET, address(head), address(data), 0); errno != 0 {
		return fault("drop", "capabilities", errno)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fault("set", "no new privileges", err)
	}
	if rules >= 0 {
		if _, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(rules), 0, 0); errno != 0 {
			return fault("apply", "Landlock rules", errno)
		}
	}
	return nil
}

func (l Layout) filter(spared int, calls map[int]watchedCall) program {
	return filter(!l.Network && !l.Features.Net, !l.Features.Mounts, spared, calls)
}

// install makes a filter hold for the calling thread and what it starts.
func install(prog program, flags int) (listener int, err error) {
	fprog := unix.SockFprog{Len: uint16(len(prog) / instruction), Filter: (*unix.SockFilter)(unsafe.Pointer(&prog[0]))}
	fd, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, uintptr(flags), uintptr(unsafe.Pointer(&fprog)))
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// KeepNoCapabilities drops the capabilities that a user namespace gives to an
// ordinary user, for what the calling thread starts. Root keeps its own.
func KeepNoCapabilities() error {
	if os.Geteuid() == 0 {
		return nil
	}
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	head, data := capsets(0)
	if _, _, errno := unix.RawSyscall(unix.SYS_CAPSET, address(head), address(data), 0); errno != 0 {
		return fault("drop", "capabilities", errno)
	}
	return nil
}

// keeps returns the capabilities that stay; none for an ordinary user.
func (l Layout) keeps() uint64 {
	if os.Geteuid() != 0 {
		return 0
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&head, &data[0]) != nil {
		return 0
	}
	return (uint64(data[1].Permitted)<<32 | uint64(data[0].Permitted)) & keptCapabilities
}

func capsets(keep uint64) (head, data []byte) {
	head = binary.NativeEndian.AppendUint32(nil, unix.LINUX_CAPABILITY_VERSION_3)
	head = binary.NativeEndian.AppendUint32(head, 0)
	for _, half := range [...]uint32{uint32(keep), uint32(keep >> 32)} {
		data = binary.NativeEndian.AppendUint32(data, half)
		data = binary.NativeEndian.AppendUint32(data, half)
		data = binary.NativeEndian.AppendUint32(data, 0)
	}
	return head, data
}

// limit is one resource limit, soft and hard.
type limit struct {
	resource int
	max      uint64
}

func (l Limits) list() []limit {
	// With a limit of one byte the kernel does not start the program of core_pattern,
	// which would run outside.
	out := []limit{{unix.RLIMIT_CORE, 1}}
	if l.Processes > 0 {
		out = append(out, limit{unix.RLIMIT_NPROC, uint64(l.Processes)})
	}
	if l.FileBytes > 0 {
		out = append(out, limit{unix.RLIMIT_FSIZE, uint64(l.FileBytes)})
	}
	if l.MemoryBytes > 0 {
		out = append(out, limit{unix.RLIMIT_DATA, uint64(l.MemoryBytes)})
	}
	for i, l := range out {
		var now unix.Rlimit
		if unix.Prlimit(0, l.resource, nil, &now) == nil {
			out[i].max = min(l.max, now.Max)
		}
	}
	return out
}

// Apply sets the limits of a process, as far as its hard limits allow; 0 is the
// calling process. A process that has ended is no error.
func (l Limits) Apply(pid int) error {
	for _, l := range l.list() {
		if err := unix.Prlimit(pid, l.resource, &unix.Rlimit{Cur: l.max, Max: l.max}, nil); err != nil && err != syscall.ESRCH {
			return fault("set", "resource limits", err)
		}
	}
	return nil
}

// Shared returns the limits for a process that is counted with all others of its
// user: those that run now are added.
func (l Limits) Shared() Limits {
	if l.Processes > 0 {
		l.Processes += tasks()
	}
	return l
}

// tasks returns the number of threads that the system runs.
func tasks() int {
	// 0.20 0.18 0.12 1/80 11206
	text, err := os.ReadFile("/proc/loadavg")
	f := strings.Fields(string(text))
	if err != nil || len(f) < 4 {
		return 0
	}
	_, all, _ := strings.Cut(f[3], "/")
	n, err := strconv.Atoi(all)
	if err != nil {
		return 0
	}
	return n
}

// PIDs reports whether a pid namespace has a bound of pids of its own, as from Linux
// 6.14 on.
func PIDs() bool {
	const major, minor = 6, 14
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return false
	}
	var version [2]int
	part := 0
	for _, c := range name.Release {
		if c >= '0' && c <= '9' {
			version[part] = version[part]*10 + int(c-'0')
			continue
		}
		if part++; part > 1 || c != '.' {
			break
		}
	}
	_, err := os.Lstat("/proc/sys/kernel/pid_max")
	return err == nil && (version[0] > major || version[0] == major && version[1] >= minor)
}
