package exec

// Confinement is what the kernel holds a command and all its descendants to. A
// command that cannot be held to it is not run: the error of Run and Start is
// then an *Error that says why. What a system lacks (see Layers) is no such
// error: whether that is enough is the caller's to decide, before.
//
// All paths are absolute and free of symbolic links; those of Write and Temp must
// exist, of others those that do not are passed over. Of two paths of which one
// lies below the other the longer counts, so that something below Protect can be
// in Write again; of the same path Hide counts before Protect, and that before
// Write. Reading is not confined but by Hide. Without namespaces only Write, Temp
// (by its own name), Network and the limits hold.
type Confinement struct {
	// Write are the directories and files that may be changed, with all below
	// them. Everything else is read-only, but /dev/shm and Temp, which are
	// private, and the harmless devices.
	Write []string
	// Protect are paths below Write that stay read-only all the same, and can
	// neither be renamed nor removed, nor replaced by renaming what they are in.
	// They stay visible also below /tmp or Hide. Name directories where that is
	// possible: a file that somebody outside replaces by renaming another over it
	// is protected no more, until the next command.
	Protect []string
	// Hide are files and directories that look empty. Always hidden are /run but
	// for the name service (with Network), and the sockets in files that somebody
	// outside listens on when the command starts, but those below Write.
	Hide []string
	// Overlays lists directories that the command sees through an overlay: it may
	// change them, and the changes go to another directory. Write, Protect and Hide
	// below such a directory are about what the overlay shows. It needs a mount
	// namespace; without one the command is refused.
	Overlays []Overlay
	// Temp is a directory that is shown as /tmp and /var/tmp, with nothing of
	// the real ones but what Write and Protect name and the working directory; it
	// can be written to, also by its own name. "" makes them empty and read-only.
	Temp string
	// Network leaves the host's network. Otherwise there is none but a loopback
	// of the command's own, which is up.
	Network bool
	// MaxProcesses bounds how many processes and threads may be there at a
	// time; 0 is 2048. See Layers for where that holds.
	MaxProcesses int
	// MaxFileBytes bounds each file that is written; 0 is no bound.
	MaxFileBytes int64
	// MaxMemoryBytes bounds the private memory of each process; 0 is no bound.
	MaxMemoryBytes int64
}

// Overlay shows a directory as an overlay mount, made anew for each command. The
// caller makes the directories, on a file system that can be an upper layer.
type Overlay struct {
	// Path is the directory at which the overlay is seen.
	Path string
	// Lower lists the read-only layers, the topmost first.
	Lower []string
	// Upper receives what is written. Whiteouts are character devices 0:0, opaque
	// directories carry the attribute user.overlay.opaque.
	Upper string
	// Work is an empty directory on the file system of Upper, not below it.
	Work string
}

// Layer is one of the means by which commands are confined.
type Layer struct {
	// Name of it, such as "network namespace".
	Name string
	// Active says that it was tried and holds.
	Active bool
	// Detail says what it holds, or why it is not there.
	Detail string
}

// Layers are the means by which a Confinement is really held here, whether they
// work or not, in the order in which they matter. They are tried out once, by
// the first call, which takes some milliseconds. Elsewhere than on Linux none
// is active.
func (r *Runner) Layers() []Layer { return r.layers() }
