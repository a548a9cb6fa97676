package exec

import "context"

// Leaks are the live processes that carry a tag of this Ralph process and
// belong to no command that runs: what got away from a command that has ended.
// They are read from the process table by the tags that they inherited,
// whatever their session, parent, name or, as a rule, environment is now.
// Elsewhere than on Linux none can be found.
func Leaks() []Process { return leaks() }

// Owner names this process's tags for a later Sweep: the tags' number, and the
// pid, start time, pid namespace and boot that tell whether it lives. It is
// empty where Leaks finds nothing.
func Owner() string { return ownerName() }

// Sweep kills what a dead Ralph with that Owner left running, with what
// descends from it, and names it. Nothing of a live one is touched, nor this
// process and those it descends from: an owner that lives, or of which that
// cannot be told, and that has processes, is an error that matches ErrUnproven.
// What could not be killed is a *SurvivorError.
func Sweep(ctx context.Context, owner string) ([]Process, error) { return sweepOf(ctx, owner) }

// Carries says that a process belongs to a command of some Ralph, by its tags
// or those of the processes that it descends from, or by descending from this
// one in another session: it must not speak as the human. It is true also of a
// process that is gone, of which nothing can be told any more. It is false where
// Leaks finds nothing.
func Carries(pid int) bool { return carried(pid) }
