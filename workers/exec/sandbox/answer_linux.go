package sandbox

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file answers the calls of a command that a Maker makes for it.

const (
	ioctlAddFD = 0x40182103 // SECCOMP_IOCTL_NOTIF_ADDFD
	maxLinks   = 40         // of one path, as in the kernel
)

// addFD is struct seccomp_notif_addfd.
type addFD struct {
	id         uint64
	flags      uint32
	source     uint32
	number     uint32
	descriptor uint32 // its flags
}

// outcome is the answer to a call.
type outcome struct {
	goOn  bool // the kernel does the call, with the rights of the command
	errno unix.Errno
	fd    int // the result of open(2); -1 for other calls
	// later gives the outcome of a call that waits, as long as it is wanted; nil for others.
	later func(wanted func() bool) outcome
}

func failed(err error) outcome {
	errno, _ := err.(unix.Errno) // of x/sys every error is one
	return outcome{errno: errno, fd: -1}
}

// answer answers a notification, now or later; flags are those of open(2).
func (o outcome) answer(n *notification, listener, flags int) {
	if o.later == nil {
		o.send(listener, n.id, flags)
		return
	}
	own, err := unix.FcntlInt(uintptr(listener), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		failed(err).send(listener, n.id, flags)
		return
	}
	id := n.id
	go func() {
		defer func() { _ = unix.Close(own) }()
		o.later(func() bool { return waits(own, id) }).send(own, id, flags)
	}()
}

// waits reports whether the caller of a notification still waits for its answer.
func waits(listener int, id uint64) bool {
	return ioctl(listener, ioctlValid, unsafe.Pointer(&id)) == 0
}

// send answers a notification; flags are those of open(2).
func (o outcome) send(listener int, id uint64, flags int) {
	a := answer{id: id, err: -int32(o.errno)}
	if o.fd >= 0 {
		// Not with the flag that answers as well: where a signal interrupts that, the command
		// may get the descriptor 0 for an answer.
		add := addFD{id: id, source: uint32(o.fd), descriptor: uint32(flags & unix.O_CLOEXEC)}
		number, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), ioctlAddFD, uintptr(unsafe.Pointer(&add)))
		for errno == unix.EINTR {
			number, _, errno = unix.Syscall(unix.SYS_IOCTL, uintptr(listener), ioctlAddFD, uintptr(unsafe.Pointer(&add)))
		}
		_ = unix.Close(o.fd) // the command has its own
		a.val, a.err = uint64(number), -int32(errno)
		if errno != 0 {
			a.val = 0
		}
	}
	ioctl(listener, ioctlSend, unsafe.Pointer(&a)) // it fails when the thread was killed
}
