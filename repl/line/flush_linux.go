package line

import "golang.org/x/sys/unix"

// discard drops what was typed on a terminal and not read yet. The error is of a
// terminal that is gone, which whoever reads it notices.
func discard(fd int) { _ = unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) }

// pending is how many bytes were typed on a terminal and not read yet.
func pending(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		return 0 // it is gone, which whoever reads it notices
	}
	return n
}
