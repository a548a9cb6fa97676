// Package sandbox describes what a command may see, write and use, and applies that
// by the kernel's means: mounts, Landlock rules, a filter of system calls,
// capabilities and resource limits. It starts no process and has no fallback: a
// means that the caller lists in Features and that fails is an error.
//
// Policy is the data: callers fill it in, one value for each command. Lay resolves
// it against the file system, in the process that knows the paths. The Layout that
// Lay returns is plain data that encoding/gob carries to the first process of the
// command's namespaces; a thread there that has namespaces of its own calls Enter
// and Restrict, and then starts the command. What holds for every command, such as
// the paths that are always hidden and the system calls that are always refused,
// is listed in rules_linux.go.
//
// The means overlap on purpose. Mounts make everything read-only, hide, and cover
// /tmp, /run and the devices; Landlock repeats the rules for writing by inode and
// forbids any change of the mounts; the filter removes system calls that build
// tools do not need. Landlock repeats what lies around a writable place, not what
// is protected below one: that is held by its read-only mount alone.
//
// With a Guard the command has no right of Landlock's to make, rename or open for writing
// what is below its root: those calls are notified, judged by their names, and made for the
// command by a Maker. It notes what a command of git changes, and takes all of that back
// when one of its names is refused.
//
// Paths are absolute, clean and free of symbolic links. Errors are *fs.PathError
// values that name the step and the path. Sizes are in bytes. A Policy and a Layout
// are not changed by the package and may be used by several goroutines.
package sandbox

import "time"

// Write is a path that a command was about to change: a file that it opened for
// writing, made, renamed or linked (both names), or removed. A directory stands for
// everything below it.
type Write struct {
	// Path is absolute and without symbolic links, but perhaps for its last name.
	Path string
	// At is when it was about to be changed.
	At time.Time
	// Before is when the file had last changed then (ctime); zero where there was none.
	Before time.Time
	// Mode is the permission bits of the regular file that was there then; 0 for none.
	Mode uint32
}

// Policy describes what a command and all its descendants may see, write and use.
//
// Of two paths of which one lies below the other the longer counts: what is below
// Protect can be in Write again, and what is below Hide in Write and Protect. Of
// the same path Hide counts before Protect, and Protect before Write. Paths of
// Write, Overlays and Temp must exist; of Protect and Hide those that do not exist
// are ignored. Reading is restricted by Hide alone.
//
// Without a mount namespace only Write, Temp (by its own name), Network, Limits and, by
// Landlock, of Hide that no file there is read hold, and a Policy with Overlays is refused.
// Then what lies below a place of Write is not hidden, Files are not there, and what others
// make later in a directory that holds a hidden place cannot be read.
type Policy struct {
	// Write lists the directories, with everything below them, and the files that
	// may be changed. Everything else is read-only but Temp and /dev/shm, which are
	// private, and the devices without side effects.
	Write []string
	// Protect lists paths that are read-only wherever they lie, and that can
	// neither be renamed nor removed, nor replaced by renaming a directory above
	// them. They stay visible below /tmp and Hide. A protected file that another
	// process replaces by a rename is not protected until the next command, so
	// directories are the better choice.
	Protect []string
	// Hide lists directories and files that look empty. Always hidden are /run, but
	// for the name service if Network is set, and the sockets in the file system on
	// which other processes listen, but for those below Write.
	Hide []string
	// Links lists symbolic links below Hide that stay. What they lead to is seen only if
	// it is for other reasons.
	Links []string
	// Files has the contents of files that are shown, read-only, below Hide, by path.
	Files map[string]string
	// Overlays lists directories whose changes go elsewhere. Write, Protect and
	// Hide below such a directory are about what the overlay shows.
	Overlays []Overlay
	// Temp is a writable directory that is shown as /tmp and /var/tmp, without the
	// contents of the real ones but for Write, Protect and the working directory.
	// "" shows both empty and read-only.
	Temp string
	// Network leaves the host's network. Without it a command has only a loopback
	// interface of its own.
	Network bool
	// Limits bounds the command's resources.
	Limits Limits
	// Guard lists names that the command cannot make; nil is none. Its root is in Write.
	Guard *Guard
}

// ServiceAddr is where a command without the host's network can be offered a service. It
// is no address that programs listen at by themselves.
const ServiceAddr = "127.0.0.2:3128"

// Overlay describes an overlay mount, made anew for each command. The caller makes
// the directories, on a file system that can hold an upper layer.
type Overlay struct {
	// Path is the directory at which the overlay is mounted. The command may
	// change it.
	Path string
	// Lower lists the read-only layers, the topmost first.
	Lower []string
	// Upper receives what is written. Whiteouts are character devices 0:0, opaque
	// directories carry the attribute user.overlay.opaque.
	Upper string
	// Work is an empty directory on the file system of Upper, not below it.
	Work string
}

// SharedMemory is how many bytes the files of a command in /dev/shm hold together, which
// count as the memory of no process.
const SharedMemory = 1 << 30

// DefaultProcesses is the bound of Limits.Processes when that is 0.
const DefaultProcesses = 512

// Limits are the resource limits of one command.
type Limits struct {
	// Processes bounds how many processes and threads exist at a time; 0 is
	// DefaultProcesses. What counts them depends on Features.
	Processes int
	// FileBytes bounds the size of each file that is written; 0 is no bound.
	FileBytes int64
	// MemoryBytes bounds the private memory of each process; 0 is no bound.
	MemoryBytes int64
}

// Features lists the means of the kernel that are used.
type Features struct {
	// Mounts rearranges a mount namespace.
	Mounts bool
	// Net gives a network namespace to a command without Policy.Network.
	Net bool
	// Landlock is the version of its interface; 0 is none.
	Landlock int
	// Filter filters system calls.
	Filter bool
	// PIDs bounds the number of processes by their pid namespace.
	PIDs bool
	// Sockets has a supervisor connect the sockets of commands without a network. It needs
	// what Guard needs, and Net.
	Sockets bool
	// Guard has a supervisor make names for the command; see Guard. It needs Mounts,
	// Filter and version 2 of Landlock.
	Guard bool
}
