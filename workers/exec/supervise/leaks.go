package supervise

import "context"

// Leaks returns the live processes that carry a tag of this process and belong to no
// command that runs: what escaped from a command that has ended. It reads them from
// the process table by the tags that they inherited, whatever their session, parent
// or name is now, and as a rule their environment. On systems other than Linux it
// finds none.
func Leaks() []Process { return leaks() }

// Owner returns a text that identifies this process's tags for a later Sweep: the
// owner bits of the tags, and the pid, start time, pid namespace and boot by which a
// later Ralph decides whether this process lives. It is "" where Leaks finds none.
func Owner() string { return ownerName() }

// Sweep kills what a dead Ralph with that Owner left running, with what descends from
// it, and returns it. It touches nothing of a live one, nor this process and its
// ancestors: if the owner has processes and is alive, or may be, the error matches
// ErrUnproven. What could not be killed is a *SurvivorError.
func Sweep(ctx context.Context, owner string) ([]Process, error) { return sweepOwner(ctx, owner) }

// BelongsToCommand reports whether a process belongs to a command of some Ralph, by
// its tags or those of its ancestors, or because it descends from this process in
// another session: it must not speak for the user. It is true for a process that has
// ended, and false where Leaks finds none.
func BelongsToCommand(pid int) bool { return belongs(pid) }
