//go:build linux

package sandbox

import "golang.org/x/sys/unix"

const (
	machine = unix.AUDIT_ARCH_AARCH64
	foreign = 0x40000000 // no call has such a number
)

func watchedHere() map[int]watchedCall { return nil }

func refusedHere() []int { return []int{unix.SYS_KEXEC_FILE_LOAD} }

// modesHere returns none: there are only the calls that take a directory.
func modesHere() []modeCall { return nil }
