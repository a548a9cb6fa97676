// Package sandbox applies the kernel's part of a confinement to one command: mounts,
// Landlock rules, a filter of system calls, capabilities and resource limits. It
// decides nothing about what a command may do, starts no process, and does not
// fall back: a feature that the caller lists in Features and that fails is an
// error.
//
// Lay resolves a Policy against the file system, in the process that knows it.
// The Layout that it returns is plain data: the first process of the command's
// namespaces receives it, and a thread of that process that has a mount namespace
// of its own calls Enter and Restrict before it starts the command.
//
// The layers overlap on purpose. Mounts make everything read-only, hide, and cover
// /tmp, /run and the devices; Landlock repeats the rules for writing by inode and
// forbids any change of the mounts; the filter removes system calls that build
// tools do not need.
package sandbox

// Policy lists what a command may do. Paths are absolute, clean and free of
// symbolic links; see Lay.
type Policy struct {
	// Write lists the directories and files that may be changed.
	Write []string
	// Protect lists what is read-only, wherever it lies.
	Protect []string
	// Hide lists the directories and files that look empty.
	Hide []string
	// Overlays lists directories whose changes are kept apart.
	Overlays []Overlay
	// Temp is shown as /tmp and /var/tmp; "" shows both empty.
	Temp string
	// Dir is the working directory of the command.
	Dir string
	// Network keeps the host's network.
	Network bool
	// Limits bounds the command's resources.
	Limits Limits
}

// Overlay shows a directory as an overlay mount. Path may be changed by the
// command; the changes go to Upper, and Lower stays as it is.
type Overlay struct {
	// Path is the directory at which the overlay is mounted.
	Path string
	// Lower lists the read-only layers, the topmost first.
	Lower []string
	// Upper receives what is written. Whiteouts are character devices 0:0, opaque
	// directories carry the attribute user.overlay.opaque.
	Upper string
	// Work is an empty directory on the file system of Upper, not below it.
	Work string
}

// Limits are resource limits; 0 is none.
type Limits struct {
	Processes   int
	FileBytes   int64
	MemoryBytes int64 // private memory of each process
}

// Features lists what of the kernel is used.
type Features struct {
	// Mounts rearranges a mount namespace.
	Mounts bool
	// Net gives a network namespace to a command that has no network.
	Net bool
	// Landlock is the version of its interface, 0 without.
	Landlock int
	// Filter filters system calls.
	Filter bool
	// PIDs bounds process numbers by namespace.
	PIDs bool
	// UserSpace reports that all namespaces belong to a user namespace of the
	// command's own.
	UserSpace bool
}
