//go:build !linux

package line

import "golang.org/x/sys/unix"

// discard drops what was typed on a terminal and not read yet. The error is of a
// terminal that is gone, which whoever reads it notices.
func discard(fd int) { _ = unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, 1) } // FREAD

// pending is how many bytes were typed on a terminal and not read yet; here it is
// not known.
func pending(int) int { return 0 }
