package sandbox

import (
	"encoding/binary"
	"maps"
	"syscall"

	"golang.org/x/sys/unix"
)

// The offsets in what the kernel shows a filter of a call. The low half of an argument comes
// first on both machines that are supported. The kernel uses no more of the arguments that
// are compared, but for the size of a segment.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
	argument  = 8 // size of one in bytes
)

// instruction is the size of one instruction of a filter in bytes.
const instruction = 8

// program is a filter in the classic BPF that seccomp(2) takes.
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

// call begins the n instructions for one system call, the last of which loads the
// call's number again unless they all return.
func (f *program) call(nr, n int) { f.equal(uint32(nr), 0, n) }

// filter returns the program that decides about each system call; nil on a machine
// that is not supported. spared is the id of a thread that gets no signals; 0 is
// none. The listener of the filter is notified of calls; where connect(2) is among them,
// there are no datagrams of the family unix, each of which can name its receiver.
func filter(noInternet, noLocal bool, spared int, calls map[int]watchedCall) program {
	if machine == 0 {
		return nil
	}
	var f program
	f.load(offArch)
	f.equal(machine, 1, 0)
	// Programs for another machine use other numbers.
	f.end(unix.SECCOMP_RET_KILL_PROCESS)
	f.load(offNumber)
	f.add(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, 0, 1, foreign)
	f.end(refuse(syscall.ENOSYS))
	for _, nr := range refusedCalls() {
		f.call(nr, 1)
		f.end(refuse(syscall.EPERM))
	}
	// The flags of clone3 are in memory, which a filter cannot read; libraries use
	// clone where clone3 is missing.
	f.call(unix.SYS_CLONE3, 1)
	f.end(refuse(syscall.ENOSYS))
	for _, nr := range [...]int{unix.SYS_CLONE, unix.SYS_UNSHARE} {
		f.call(nr, 4)
		f.load(offArgs)
		f.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, 0, 1, refusedNamespaces)
		f.end(refuse(syscall.EPERM))
		f.load(offNumber)
	}
	for _, request := range refusedRequests() {
		f.argumentIs(unix.SYS_IOCTL, 1, request)
	}
	if spared != 0 {
		// Landlock protects the thread's process and its other threads. They must
		// not be listed here: the runtime of Go signals them from that thread.
		for _, c := range signalCalls() {
			f.argumentIs(c[0], c[1], uint32(spared))
		}
	}
	f.setuid()
	f.segments()
	_, supervised := calls[unix.SYS_CONNECT]
	f.sockets(noInternet, noLocal, supervised)
	f.notify(calls)
	f.end(unix.SECCOMP_RET_ALLOW)
	return f
}

// argumentIs refuses a system call whose argument at an index has a value.
func (f *program) argumentIs(nr, index int, value uint32) {
	f.call(nr, 4)
	f.load(offArgs + argument*index)
	f.equal(value, 0, 1)
	f.end(refuse(syscall.EPERM))
	f.load(offNumber)
}

// modeCall is a system call that gives a file a mode: the indexes of the mode and of the flags
// of open(2) that have it count, -1 where it always does.
type modeCall struct{ nr, mode, flags int }

// setuid refuses the mode by which others run a file with the rights of its owner: outside the
// sandbox, too. The mode of openat2(2) is in memory; see creation.
func (f *program) setuid() {
	const makes = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY
	for _, c := range append(modesHere(), modeCall{unix.SYS_FCHMOD, 1, -1}, modeCall{unix.SYS_FCHMODAT, 2, -1}, modeCall{sysFchmodat2, 2, -1}, modeCall{unix.SYS_MKNODAT, 2, -1}, modeCall{unix.SYS_OPENAT, 3, 2}) {
		if c.flags < 0 {
			f.call(c.nr, 4)
		} else {
			f.call(c.nr, 6)
			f.load(offArgs + argument*c.flags)
			f.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, 0, 3, makes)
		}
		f.load(offArgs + argument*c.mode)
		f.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, 0, 1, unix.S_ISUID)
		f.end(refuse(syscall.EPERM))
		f.load(offNumber)
	}
}

// maxSegment is how many bytes a segment of System V's shared memory has. Nobody sees the memory
// of one that no process has attached; the kernel makes at most 4,096 of them, see shmget(2).
const maxSegment = 64 << 10

// segments refuses larger segments of shared memory, with the error of a full system.
func (f *program) segments() {
	f.call(unix.SYS_SHMGET, 6)
	f.load(offArgs + argument + argument/2)
	f.equal(0, 0, 2)
	f.load(offArgs + argument)
	f.add(unix.BPF_JMP|unix.BPF_JGT|unix.BPF_K, 0, 1, maxSegment)
	f.end(refuse(syscall.ENOSPC))
	f.load(offNumber)
}

// notifiedCalls returns the calls that a listener is notified of: those that name a file to
// change, and those that connect a socket.
func notifiedCalls(files, sockets bool) map[int]watchedCall {
	calls := map[int]watchedCall{}
	if files {
		maps.Copy(calls, watchedCalls())
	}
	if sockets {
		maps.Copy(calls, connectCall())
	}
	return calls
}

// notify has the listener notified of calls, of those with flags only when they open for
// writing.
func (f *program) notify(calls map[int]watchedCall) {
	for nr, c := range calls {
		if c.flags < 0 {
			f.call(nr, 1)
			f.end(unix.SECCOMP_RET_USER_NOTIF)
			continue
		}
		f.call(nr, 4)
		f.load(offArgs + argument*c.flags)
		f.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, 0, 1, opensToWrite)
		f.end(unix.SECCOMP_RET_USER_NOTIF)
		f.load(offNumber)
	}
}

// sockets refuses socket families that are not listed, and datagrams of the family unix where
// there are no others of that family, or where their connections are supervised: each
// datagram names its receiver. A connected pair of streams leads nowhere else.
func (f *program) sockets(noInternet, noLocal, supervised bool) {
	const kind = 0xf // the type without its flags
	for _, nr := range [...]int{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR} {
		allowed, errno := families(noInternet, noLocal && nr == unix.SYS_SOCKET)
		if supervised || noLocal && nr == unix.SYS_SOCKETPAIR {
			f.call(nr, 8)
			f.load(offArgs)
			f.equal(unix.AF_UNIX, 0, 5)
			f.load(offArgs + argument)
			f.add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0, 0, kind)
			f.equal(unix.SOCK_DGRAM, 1, 0)
			f.equal(unix.SOCK_RAW, 0, 1) // is the same
			f.end(refuse(syscall.EACCES))
			f.load(offNumber)
		}
		f.call(nr, len(allowed)+3)
		f.load(offArgs)
		for i, family := range allowed {
			f.equal(family, len(allowed)-i, 0)
		}
		f.end(refuse(errno))
		f.load(offNumber)
	}
}
