package exec

import (
	"context"
	"errors"
	"time"
)

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

// End asks a process of the same user to end, waits for at most grace, and then
// kills it. It is signalled through a descriptor that was opened before its
// proof, so that a pid which is reused meanwhile is never hit. A stopped process
// is continued after it was asked. An error that matches ErrUnproven means that
// nothing was sent, as always elsewhere than on Linux; a process that is gone is
// no error.
//
// held, when not empty, is a file that the process must hold a lock (flock) on;
// that is checked as far as the system tells who holds which.
func End(ctx context.Context, c Claim, held string, grace time.Duration) error {
	return endOf(ctx, c, held, grace)
}

// Lives says that a process is still the one that c names, and not a dead one
// that waits to be reaped. It says nothing of whose it is, and is false
// elsewhere than on Linux.
func (c Claim) Lives() bool { return lives(c) }
