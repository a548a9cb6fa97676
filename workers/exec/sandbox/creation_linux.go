package sandbox

import (
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// This file reads what a call of a command is to make, for a Maker.

// creation is a call of a command that may make a name or change a file, as it is made for it.
type creation struct {
	m      *Maker
	op     operation
	paths  [2]named
	flags  int
	mode   uint32
	length int64  // of changesLength
	task   string // the number of the thread
	// resolve are the flags of openat2(2) of that name.
	resolve uint64
	target  string // of a symbolic link
	proc    int    // descriptor of /proc
	thread  uint32 // the caller
	update  *treeUpdate
	locks   map[fileID]int // directories that are held, see lock
}

// named is a path as a call names it.
type named struct {
	dir  int    // descriptor of the directory; -1 for a path that begins with a slash
	name string // "" where dir is the file itself, which the caller has open
}

// read reads the arguments of a call from the registers and the memory of its thread;
// false for a call that makes nothing, or whose arguments the kernel refuses.
func (m *Maker) read(n *notification, call watchedCall, proc int) (c *creation, ok bool) {
	c = &creation{m: m, op: call.makes, paths: [2]named{{dir: -1}, {dir: -1}}, task: strconv.Itoa(int(n.pid)), proc: proc, thread: n.pid, update: m.updates.at(proc, n.pid)}
	arg := func(i int) int { return int(int32(n.args[i])) }
	switch call.makes {
	case makesNothing:
		return c, false
	case changesOwner:
		clear(m.owners) // one thread can change others
		return c, false
	case makesOpen:
		c.flags, c.mode = arg(call.flags), uint32(n.args[call.mode])
	case makesCreat:
		c.flags, c.mode = unix.O_CREAT|unix.O_WRONLY|unix.O_TRUNC, uint32(n.args[call.mode])
	case makesOpen2:
		var how [24]byte // struct open_how, its first version
		if n.args[3] < uint64(len(how)) || !readMemory(int(n.pid), uintptr(n.args[call.mode]), how[:]) {
			return c, false
		}
		c.flags, c.mode = int(binary.NativeEndian.Uint64(how[:])), uint32(binary.NativeEndian.Uint64(how[8:]))
		c.resolve = binary.NativeEndian.Uint64(how[16:])
		c.mode &^= unix.S_ISUID // see setuid
	case makesDir, makesNode:
		c.mode = uint32(n.args[call.mode])
	case changesLength:
		c.length = int64(n.args[1])
	case makesSymlink:
		if c.target = readString(int(n.pid), uintptr(n.args[0])); c.target == "" {
			return c, false
		}
	case makesLink, makesRename:
		if call.mode >= 0 && int(n.nr) != unix.SYS_RENAMEAT {
			c.flags = arg(call.mode)
		}
	}
	if c.opens() && (c.flags&opensToWrite == 0 || c.flags&unix.O_PATH != 0) {
		return c, false
	}
	if c.update == nil {
		c.update = m.updates.begin(proc, n.pid)
	}
	if c.op == removes && c.update == nil {
		return c, false
	}
	for i, p := range call.paths {
		if c.paths[i], ok = c.place(n, p, i == 0); !ok {
			return c, false
		}
	}
	if c.op == makesDir && c.paths[0].exists() {
		return c, false // the kernel says so; package managers make each directory many times
	}
	return c, m.adopt(proc, int(c.thread))
}

// exists reports whether there is something at a path.
func (n named) exists() bool {
	dir := n.dir
	if dir < 0 {
		dir = unix.AT_FDCWD
	}
	return unix.Faccessat(dir, n.name, unix.F_OK, unix.AT_SYMLINK_NOFOLLOW) == nil
}

// opens reports whether the call opens a file.
func (c *creation) opens() bool {
	return c.op == makesOpen || c.op == makesOpen2 || c.op == makesCreat
}

// writes reports whether the call opens a file to write to it.
func (c *creation) writes() bool {
	return c.opens() && c.flags&(unix.O_WRONLY|unix.O_RDWR|unix.O_TRUNC) != 0
}

// place opens the directory that a path begins at, or the file itself where the first path
// of a call is that of a descriptor.
func (c *creation) place(n *notification, p watchedPath, first bool) (named, bool) {
	out := named{dir: -1, name: readString(int(n.pid), uintptr(n.args[p.path]))}
	from := "/cwd"
	if p.dir >= 0 && int32(n.args[p.dir]) != unix.AT_FDCWD {
		from = "/fd/" + strconv.Itoa(int(int32(n.args[p.dir])))
	}
	takesFile := first && (c.op == makesLink || c.op == changesLength || c.opens())
	switch own := ownFile(out.name); {
	case takesFile && own != "":
		from, out.name = "/fd/"+own, "" // it may have no name yet, see open(2)
	case strings.HasPrefix(out.name, "/"):
		return out, true
	case out.name == "" && (!first || c.op != makesLink):
		return out, false
	}
	fd, err := unix.Openat(c.proc, c.task+from, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return out, false
	}
	out.dir = fd
	return out, true
}

// ownFile returns the number of a descriptor of the caller's that a path names; "" for
// other paths.
func ownFile(name string) string {
	for i, std := range [...]string{"/dev/stdin", "/dev/stdout", "/dev/stderr"} {
		if name == std {
			return strconv.Itoa(i)
		}
	}
	for _, dir := range []string{"/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/"} {
		if number, ok := strings.CutPrefix(name, dir); ok && !strings.Contains(number, "/") {
			return number
		}
	}
	return ""
}

// adopt gives the thread of the Maker the owner and the mask of a thread, and reports whether
// it could read them.
func (m *Maker) adopt(proc, thread int) bool {
	now := time.Now()
	o, known := m.owners[thread]
	if !known || now.Sub(o.read) >= ownerTime {
		s := statusOf(proc, thread)
		if !s.whole {
			return false
		}
		if len(m.owners) == maxOwners {
			clear(m.owners)
		}
		s.owner.read = now
		o, m.owners[thread] = s.owner, s.owner
	}
	m.become(o)
	return true
}

// become gives the thread of the Maker an owner and a mask.
func (m *Maker) become(o owner) {
	m.last = o
	unix.Umask(o.umask)
	// What cannot be set is the same already: a command has no more rights.
	_, _, _ = unix.RawSyscall(unix.SYS_SETFSGID, uintptr(o.gid), 0, 0)
	_, _, _ = unix.RawSyscall(unix.SYS_SETFSUID, uintptr(o.uid), 0, 0)
}

// readMemory fills buf from the memory of a process.
func readMemory(pid int, at uintptr, buf []byte) bool {
	local := []unix.Iovec{{Base: &buf[0], Len: uint64(len(buf))}}
	n, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: at, Len: len(buf)}}, 0)
	return err == nil && n == len(buf)
}
