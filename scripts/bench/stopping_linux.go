package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// stopping is what the measurements of stops and urgent messages need.
type stopping struct {
	stopRuns int
	scan     *scanner
	environ  []string // more of the environment of a Ralph
	named    int      // survivors that were printed
	planted  bool     // the scanner was shown to find leaks
}

// rest ends what a part that failed has left behind.
func (l *lab) rest() error {
	if l.scan == nil {
		return nil
	}
	return l.scan.clear()
}

// outputBroken says that whoever read the standard output has gone.
func outputBroken() bool {
	fds := []unix.PollFd{{Fd: int32(os.Stdout.Fd())}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}
