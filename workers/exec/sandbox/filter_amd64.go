//go:build linux

package sandbox

import "golang.org/x/sys/unix"

const (
	machine = unix.AUDIT_ARCH_X86_64
	foreign = 0x40000000 // the first number of the x32 interface
)

func refusedHere() []int { return []int{unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_KEXEC_FILE_LOAD} }
