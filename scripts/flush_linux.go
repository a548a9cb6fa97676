package scripts

import "golang.org/x/sys/unix"

// discard drops what was typed on a terminal and not read yet. The error is of a
// terminal that is gone, which whoever reads it notices.
func discard(fd int) { _ = unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) }
