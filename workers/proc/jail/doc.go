// Package jail lays out how the kernel confines a command: as a table of system
// calls, with all the memory that they need, that a process after a fork only
// has to walk. It owns the mounts, the Landlock rules, the filter of system
// calls, the capabilities and the limits.
//
// It decides nothing about what a command may do, starts nothing, and does not
// fall back: what the caller says the system has (Means) is used, and is an
// error where it does not work.
//
// The layers overlap on purpose. Mounts make everything read-only, hide, and
// cover /tmp, /run and the devices; Landlock says the same of writing once more,
// by inode, and forbids any change of the mounts; the filter takes the calls
// that build tools do not need away from both.
//
//	plan, err := jail.Lay(jail.Policy{Write: []string{"/home/me/project"}, Dir: "/home/me/project"}, means, 5)
//	mem := make([]byte, plan.Size())
//	plan.Put(mem, base) // base is where mem will be seen by who walks it
package jail

// Policy says what a command may do. Paths are absolute and free of symbolic
// links; see Lay.
type Policy struct {
	// Write are the directories and files that may be changed.
	Write []string
	// Protect are shown read-only, wherever they lie.
	Protect []string
	// Hide are the directories and files that look empty.
	Hide []string
	// Temp is shown as /tmp and /var/tmp; "" shows both empty.
	Temp string
	// Dir is the working directory of the command.
	Dir string
	// Network says that the host's network stays.
	Network bool
	// MaxProcesses, MaxFileBytes and MaxMemoryBytes are limits; 0 is none.
	MaxProcesses   int
	MaxFileBytes   int64
	MaxMemoryBytes int64
}

// Means says what of the system is to be used.
type Means struct {
	// Mounts says that a mount namespace can be rearranged.
	Mounts bool
	// Net says that there is a network namespace of the command's own.
	Net bool
	// Landlock is the version of its interface, 0 without.
	Landlock int
	// Filter says that system calls can be filtered.
	Filter bool
	// PIDs says that the bound of pids is one of the namespace.
	PIDs bool
	// UserSpace says that the command is in a user namespace of its own.
	UserSpace bool
}
