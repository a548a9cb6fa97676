package scripts

import "golang.org/x/sys/unix"

// The calls that read and set the modes of a terminal.
const (
	getModes = unix.TCGETS
	setModes = unix.TCSETS
)
