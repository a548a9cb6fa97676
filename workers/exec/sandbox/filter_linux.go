package sandbox

import (
	"encoding/binary"
	"syscall"

	"golang.org/x/sys/unix"
)

// filterSize is the size of one instruction of a filter in bytes.
const filterSize = 8

// filtered says what a filter is for.
type filtered struct {
	// noInternet takes all sockets away but local ones, where there is no
	// network namespace that would do better.
	noInternet bool
	// spared is the number of a thread that gets no signals; 0 for none.
	spared int
}

// The offsets in what the kernel shows a filter of a call. Of arguments the low
// half is looked at, which both machines that are served have first, and which
// is all that the kernel uses of those that are looked at.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
	argument  = 8 // size of one
)

// newSpaces are the flags of clone and unshare that make namespaces.
const newSpaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME

// refused are the calls that commands do not need. Most of them need
// capabilities that are gone; that a mistake in the kernel gives them
// otherwise is what they are listed for.
func refused() []int {
	return append([]int{
		unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
		unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
		unix.SYS_KEXEC_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_MOVE_MOUNT,
		unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
		unix.SYS_SETNS, unix.SYS_CHROOT, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT,
		unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_REBOOT, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
		unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
		unix.SYS_SYSLOG, unix.SYS_VHANGUP, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_NFSSERVCTL,
	}, refusedHere()...)
}

// program is a filter that is being written.
type program []byte

func (f *program) add(code, yes, no int, k uint32) {
	b := binary.NativeEndian.AppendUint16(*f, uint16(code))
	*f = binary.NativeEndian.AppendUint32(append(b, byte(yes), byte(no)), k)
}

func (f *program) load(offset int) {
	f.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, uint32(offset))
}

func (f *program) equal(k uint32, yes, no int) {
	f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, yes, no, k)
}

func (f *program) end(action uint32) { f.add(unix.BPF_RET|unix.BPF_K, 0, 0, action) }

func refuse(e syscall.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

// call begins what concerns one call: n instructions, the last of which loads
// the number again where they do not return.
func (f *program) call(nr, n int) { f.equal(uint32(nr), 0, n) }

// filter writes the program that judges each call. It is nil where the machine
// is not served.
func filter(w filtered) program {
	if machine == 0 {
		return nil
	}
	var f program
	f.load(offArch)
	f.equal(machine, 1, 0)
	// Calls of another kind of program on this machine have other numbers.
	f.end(unix.SECCOMP_RET_KILL_PROCESS)
	f.load(offNumber)
	f.add(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, 0, 1, foreign)
	f.end(refuse(syscall.ENOSYS))
	for _, nr := range refused() {
		f.call(nr, 1)
		f.end(refuse(syscall.EPERM))
	}
	// Its flags are in memory, which cannot be looked at; libraries fall back to
	// clone.
	f.call(unix.SYS_CLONE3, 1)
	f.end(refuse(syscall.ENOSYS))
	for _, nr := range [...]int{unix.SYS_CLONE, unix.SYS_UNSHARE} {
		f.call(nr, 4)
		f.load(offArgs)
		f.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, 0, 1, newSpaces)
		f.end(refuse(syscall.EPERM))
		f.load(offNumber)
	}
	f.call(unix.SYS_IOCTL, 5)
	f.load(offArgs + argument)
	f.equal(unix.TIOCSTI, 1, 0)
	f.equal(unix.TIOCLINUX, 0, 1)
	f.end(refuse(syscall.EPERM))
	f.load(offNumber)
	f.sockets(w)
	f.spare(w.spared)
	f.end(unix.SECCOMP_RET_ALLOW)
	return f
}

// spare refuses signals to a thread. Its process and the others in it are out
// of reach by Landlock, and must not be named here: the language's runtime
// signals them from that thread.
func (f *program) spare(thread int) {
	if thread == 0 {
		return
	}
	for _, c := range [...]struct{ nr, at int }{
		{unix.SYS_KILL, 0}, {unix.SYS_TKILL, 0}, {unix.SYS_RT_SIGQUEUEINFO, 0}, {unix.SYS_PIDFD_OPEN, 0},
		{unix.SYS_TGKILL, 1}, {unix.SYS_RT_TGSIGQUEUEINFO, 1},
	} {
		f.call(c.nr, 4)
		f.load(offArgs + argument*c.at)
		f.equal(uint32(thread), 0, 1)
		f.end(refuse(syscall.EPERM))
		f.load(offNumber)
	}
}

// sockets leaves the families that build tools use. Others reach past every
// network namespace (vsock), or are of no use but to attackers.
func (f *program) sockets(w filtered) {
	families := []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}
	action := refuse(syscall.EAFNOSUPPORT)
	if w.noInternet {
		families, action = families[:1], refuse(syscall.EACCES)
	}
	for _, nr := range [...]int{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR} {
		f.call(nr, len(families)+3)
		f.load(offArgs)
		for i, family := range families {
			f.equal(family, len(families)-i, 0)
		}
		f.end(action)
		f.load(offNumber)
	}
}
