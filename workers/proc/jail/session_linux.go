package jail

import (
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Landlock is the version of its interface, 0 where there is none.
func Landlock() int {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(abi)
}

// Filters says that system calls can be filtered.
func Filters() bool {
	action := uint32(unix.SECCOMP_RET_ERRNO)
	const available = 2 // SECCOMP_GET_ACTION_AVAIL
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, available, 0, uintptr(unsafe.Pointer(&action)))
	return errno == 0 && machine != 0
}

// Restrict confines the calling thread, and so what it starts from now on, as
// far as that goes without namespaces: nothing is hidden or private, and of what
// lies below Write nothing is protected. There is no way back: the thread must
// be locked and end with its goroutine. Processes get their limits by Limit.
func Restrict(pol Policy, m Means) error {
	rules := -1
	if m.Landlock > 0 {
		var err error
		if rules, err = ruleset(pol, m); err != nil {
			return err
		}
		defer func() { _ = unix.Close(rules) }()
	}
	// For Landlock this thread and what it starts are one: only this keeps the
	// command from tracing the thread and reading the memory it shares with all
	// others, and the filter from sending it signals.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fault("close", "own memory", err)
	}
	// There may be no keyrings, and the other two only say again what no new
	// privileges says.
	_, _ = unix.KeyctlJoinSessionKeyring("")
	keep := keeps(m)
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
	if m.Filter {
		prog := filter(filtered{noInternet: !pol.Network, spared: unix.Gettid()})
		fprog := unix.SockFprog{Len: uint16(len(prog) / filterSize), Filter: (*unix.SockFilter)(unsafe.Pointer(&prog[0]))}
		if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&fprog))); errno != 0 {
			return fault("filter", "system calls", errno)
		}
	}
	return nil
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(&b[0])) }

func fault(verb, path string, err error) error { return &fs.PathError{Op: verb, Path: path, Err: err} }

// ruleset makes the Landlock rules for what may be written to.
func ruleset(pol Policy, m Means) (int, error) {
	all := []*entry{}
	write := pol.Write
	if pol.Temp != "" {
		write = append([]string{pol.Temp}, write...)
	}
	for _, path := range write {
		e, err := place(path, written)
		if err != nil {
			return -1, err
		}
		all = append(all, e)
	}
	attr := rulesetAttr(m.Landlock)
	r, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, address(attr), uintptr(len(attr)), 0)
	if errno != 0 {
		return -1, fault("make", "Landlock rules", errno)
	}
	set := int(r)
	for _, r := range rules(all, m.Landlock, harmless()) {
		if err := allow(set, r); err != nil {
			_ = unix.Close(set)
			return -1, err
		}
	}
	return set, nil
}

func allow(set int, r rule) error {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(unix.AT_FDCWD, r.path, &how)
	if err != nil {
		return fault("find", r.path, err)
	}
	defer func() { _ = unix.Close(fd) }()
	attr := ruleAttr(r.rights, fd)
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(set), unix.LANDLOCK_RULE_PATH_BENEATH, address(attr), 0, 0, 0); errno != 0 {
		return fault("allow writing to", r.path, errno)
	}
	return nil
}

// Limit sets the resource limits of a process.
func Limit(pid int, pol Policy) error {
	if pol.MaxProcesses > 0 {
		pol.MaxProcesses += tasks() // all of this user's count
	}
	for _, l := range limits(pol) {
		if err := unix.Prlimit(pid, l.resource, &unix.Rlimit{Cur: l.max, Max: l.max}, nil); err != nil && err != syscall.ESRCH {
			return fault("set", "resource limits", err)
		}
	}
	return nil
}

// tasks are all threads that the system runs.
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

// PIDs says that a bound of pids, when set in a pid namespace, is one of that
// namespace: before Linux 6.14 it was the system's.
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
