package supervise

import (
	"context"
	"errors"
	"time"
)

// ErrUnproven is matched when a process could not be proven to be the one that is
// meant. No signal was sent to it.
var ErrUnproven = errors.New("the process is not proven to be the one that is meant")

// ProcessID identifies a process across reboots, and distinguishes it from a later
// one with the same pid.
type ProcessID struct {
	PID   int
	Start uint64 // clock ticks since boot
	Boot  string // the kernel's boot id
}

// Alive reports whether the process exists and is no zombie. It is false on systems
// other than Linux. It does not tell whose the process is.
func (id ProcessID) Alive() bool { return alive(id) }

// End asks a process of the same user to end, waits for at most grace, and kills it.
// It signals through a descriptor that is opened before the proof, so that a pid that
// is reused meanwhile is never hit, and continues a stopped process. An error that
// matches ErrUnproven means that no signal was sent, as always on systems other than
// Linux; a process that has ended is no error.
//
// lock, when not empty, is a file on which the process must hold a flock. It is
// checked as far as the system shows the holders of locks.
func End(ctx context.Context, id ProcessID, lock string, grace time.Duration) error {
	return end(ctx, id, lock, grace)
}
