//go:build linux

package sandbox

import "golang.org/x/sys/unix"

const (
	machine = unix.AUDIT_ARCH_X86_64
	foreign = 0x40000000 // the first number of the x32 interface
)

// watchedHere are the calls with paths relative to the working directory alone, which
// newer machines lack.
func watchedHere() map[int]watchedCall {
	one := func(path, flags int, makes operation, mode int) watchedCall {
		return watchedCall{[]watchedPath{{dir: -1, path: path}}, flags, makes, mode}
	}
	both := func(makes operation) watchedCall {
		return watchedCall{[]watchedPath{{dir: -1, path: 0}, {dir: -1, path: 1}}, -1, makes, -1}
	}
	return map[int]watchedCall{
		unix.SYS_OPEN: one(0, 1, makesOpen, 2), unix.SYS_CREAT: one(0, -1, makesCreat, 1), unix.SYS_UNLINK: one(0, -1, removes, 0),
		unix.SYS_SYMLINK: one(1, -1, makesSymlink, 0), unix.SYS_CHMOD: one(0, -1, changesMode, 0), unix.SYS_MKNOD: one(0, -1, makesNode, 1),
		unix.SYS_MKDIR: one(0, -1, makesDir, 1), unix.SYS_RENAME: both(makesRename), unix.SYS_LINK: both(makesLink),
	}
}

// modesHere are the calls of modeCall that newer machines lack.
func modesHere() []modeCall {
	return []modeCall{{unix.SYS_CHMOD, 1, -1}, {unix.SYS_MKNOD, 1, -1}, {unix.SYS_CREAT, 1, -1}, {unix.SYS_OPEN, 2, 1}}
}

func refusedHere() []int { return []int{unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_KEXEC_FILE_LOAD} }
