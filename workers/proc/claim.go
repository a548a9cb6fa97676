package proc

import "errors"

// ErrUnproven is matched when a process could not be proven to be the one that
// was meant; nothing was sent to it then.
var ErrUnproven = errors.New("the process is not proven to be the one that is meant")

// Claim is what a process said of itself when it began: enough to tell it from
// a later one with the same pid.
type Claim struct {
	PID   int
	Start uint64 // clock ticks after boot
	Boot  string // the kernel's boot id
}
