package sandbox

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// This file lists what holds for every command, whatever its Policy. A new rule is
// a line here.

// tempDirs returns the directories that show Policy.Temp, or nothing.
func tempDirs() []string { return []string{"/tmp", "/var/tmp"} }

// alwaysHidden returns paths with what other users and programs share or serve.
func alwaysHidden() []string {
	return []string{
		"/run", "/var/run", "/dev/mqueue", "/mnt/wslg",
		"/var/lib/lxd/unix.socket", "/var/lib/incus/unix.socket", "/var/snap/lxd/common/lxd/unix.socket",
	}
}

// keptLinks returns symbolic links below hidden directories that stay visible: NixOS
// finds its programs by them.
func keptLinks() []string {
	return []string{"/run/current-system", "/run/booted-system", "/run/opengl-driver"}
}

// resolverConfig is a file, or a link to one below /run, by which names of hosts
// are resolved; resolverDirs returns directories of programs that write it.
const resolverConfig = "/etc/resolv.conf"

func resolverDirs() []string {
	return []string{"/run/systemd/resolve", "/run/resolvconf", "/run/connman/resolv.conf"}
}

// devices returns the device files that stay usable.
func devices() []string {
	return []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}
}

// privateDevices returns the devices and device directories that are writable and
// the command's own when there is a mount namespace.
func privateDevices() []string { return []string{"/dev/shm", "/dev/pts", "/dev/ptmx"} }

// keptCapabilities are those that root keeps: package managers and archivers use
// them to give files to other users, and they hold only where the command can write.
const keptCapabilities = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID |
	1<<unix.CAP_KILL | 1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID

// refusedCalls returns the system calls that fail with EPERM. Most of them need
// capabilities that are dropped anyway; the list protects against mistakes in the
// kernel.
func refusedCalls() []int {
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

// refusedRequests returns the requests of ioctl(2) that fail with EPERM: they type
// into a terminal.
func refusedRequests() []uint32 { return []uint32{unix.TIOCSTI, unix.TIOCLINUX} }

// refusedNamespaces are the flags with which clone(2) and unshare(2) fail.
const refusedNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME

// families returns the socket families that stay usable and the error for others.
// noInternet leaves out the network, for lack of a network namespace, and noLocal local
// sockets, for lack of mounts that hide those of other programs. The other families reach
// past every network namespace (vsock) or serve no build tool.
func families(noInternet, noLocal bool) ([]uint32, syscall.Errno) {
	out, errno := []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}, syscall.EAFNOSUPPORT
	if noInternet {
		out, errno = out[:1], syscall.EACCES
	}
	if noLocal {
		out, errno = out[1:], syscall.EACCES
	}
	return out, errno
}

// signalCalls returns the system calls that name a thread to signal or trace, with
// the index of the argument that names it.
func signalCalls() [][2]int {
	return [][2]int{
		{unix.SYS_KILL, 0}, {unix.SYS_TKILL, 0}, {unix.SYS_RT_SIGQUEUEINFO, 0}, {unix.SYS_PIDFD_OPEN, 0},
		{unix.SYS_TGKILL, 1}, {unix.SYS_RT_TGSIGQUEUEINFO, 1},
	}
}
