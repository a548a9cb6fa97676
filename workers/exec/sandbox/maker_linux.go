package sandbox

import (
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ralph/workers/exec/acts"
)

// Maker makes files, directories and links for a command that cannot make them itself
// below the root of a Guard, unless the Guard has their names. The kernel reads the path
// of a call from the memory of the command, which may change it after it was judged, so
// such a call is not let through: the Maker makes the call itself, with the path that was
// judged, on a thread with the command's mounts and capabilities. Landlock does not hold for
// that thread, which could not read the command's memory then; it makes names in
// directories alone that it holds open and has found to lie below the root.
type Maker struct {
	guard   Guard
	own     []string // places below the root in which the command makes names itself
	around  []string // places that the root lies in, where all names can be made
	refused func(path string, n acts.Name)
	work    chan func()
	last    owner
}

// owner is for whom a file is made, and with which mask.
type owner struct {
	task            string // the number of the thread
	read            time.Time
	umask, uid, gid int
}

// ownerTime is how long the owner of a thread is taken to be the same. Calls that change it
// are notified; a number is not given to another thread so soon.
const ownerTime = 3 * time.Millisecond

// NewMaker starts the thread of a Maker with the mounts of the calling thread, which has
// called Enter and not yet RestrictWatched. refused is called with each path that was not
// made. The caller gives the Maker to Watch, or closes it.
func (l Layout) NewMaker(refused func(path string, n acts.Name)) (*Maker, error) {
	mounts, err := unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fault("open", "mount namespace", err)
	}
	defer func() { _ = unix.Close(mounts) }()
	m := &Maker{guard: *l.Guard, around: l.around(), refused: refused, work: make(chan func())}
	for _, p := range l.Places {
		if kind(p.Kind) == written && p.Path != l.Guard.Root && within(p.Path, l.Guard.Root) {
			m.own = append(m.own, p.Path)
		}
	}
	ready := make(chan error)
	go m.run(l, mounts, ready)
	return m, <-ready
}

// do runs f on the thread.
func (m *Maker) do(f func()) {
	done := make(chan struct{})
	m.work <- func() { defer close(done); f() }
	<-done
}

// Close ends the thread. A nil Maker has none.
func (m *Maker) Close() {
	if m != nil {
		close(m.work)
	}
}

func (m *Maker) run(l Layout, mounts int, ready chan<- error) {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	if unix.Gettid() == os.Getpid() {
		// The first thread cannot end. It waits while another thread does the work.
		done := make(chan struct{})
		go func() {
			defer close(done)
			m.run(l, mounts, ready)
		}()
		<-done
		runtime.UnlockOSThread()
		return
	}
	err := unix.Unshare(unix.CLONE_FS)
	if err == nil {
		err = unix.Setns(mounts, unix.CLONE_NEWNS)
	}
	if err != nil {
		err = fault("enter", "mount namespace", err)
	} else {
		err = l.drop(-1)
	}
	ready <- err
	for f := range m.work {
		f()
	}
}

const (
	ioctlAddFD = 0x40182103 // SECCOMP_IOCTL_NOTIF_ADDFD
	maxLinks   = 40         // of one path, as in the kernel
)

// addFD is struct seccomp_notif_addfd.
type addFD struct {
	id         uint64
	flags      uint32
	source     uint32
	number     uint32
	descriptor uint32 // its flags
}

// outcome is the answer to a call.
type outcome struct {
	goOn  bool // the kernel does the call, with the rights of the command
	errno unix.Errno
	fd    int // the result of open(2); -1 for other calls
}

func failed(err error) outcome {
	errno, _ := err.(unix.Errno) // of x/sys every error is one
	return outcome{errno: errno, fd: -1}
}

// serve makes what a notified call is to make, and answers it; false leaves the answer to
// the caller, which lets the call go on.
func (m *Maker) serve(n *notification, call watchedCall, listener, proc int) bool {
	c, ok := m.read(n, call, proc)
	defer c.close()
	// The pid names the caller only while its call waits.
	if !ok || ioctl(listener, ioctlValid, unsafe.Pointer(&n.id)) != 0 {
		return false
	}
	o := c.make()
	if o.goOn {
		return false
	}
	a := answer{id: n.id, err: -int32(o.errno)}
	if o.fd >= 0 {
		// Not with the flag that answers as well: where a signal interrupts that, the command
		// may get the descriptor 0 for an answer.
		add := addFD{id: n.id, source: uint32(o.fd), descriptor: uint32(c.flags & unix.O_CLOEXEC)}
		number, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), ioctlAddFD, uintptr(unsafe.Pointer(&add)))
		for errno == unix.EINTR {
			number, _, errno = unix.Syscall(unix.SYS_IOCTL, uintptr(listener), ioctlAddFD, uintptr(unsafe.Pointer(&add)))
		}
		_ = unix.Close(o.fd) // the command has its own
		a.val, a.err = uint64(number), -int32(errno)
		if errno != 0 {
			a.val = 0
		}
	}
	ioctl(listener, ioctlSend, unsafe.Pointer(&a)) // it fails when the thread was killed
	return true
}

func (c *creation) close() {
	for _, p := range c.paths {
		if p.dir >= 0 {
			_ = unix.Close(p.dir)
		}
	}
}

// make makes the call, on the thread of the Maker.
func (c *creation) make() outcome {
	switch c.op {
	case makesOpen, makesOpen2, makesCreat:
		return c.open()
	case makesLink, makesRename:
		return c.move()
	}
	p, ok := c.resolved(c.paths[0])
	if !ok {
		return outcome{goOn: true}
	}
	defer p.close()
	if c.refuse(p, c.op == makesSymlink) {
		return failed(unix.EACCES)
	}
	var err error
	switch c.op {
	case makesDir:
		err = unix.Mkdirat(p.fd, p.base, c.mode)
	case makesNode:
		if kind := c.mode & unix.S_IFMT; kind != unix.S_IFIFO && kind != unix.S_IFREG && kind != 0 {
			return outcome{goOn: true} // a socket, or a device
		}
		err = unix.Mknodat(p.fd, p.base, c.mode, 0)
	case makesSymlink:
		err = unix.Symlinkat(c.target, p.fd, p.base)
	}
	return failed(err)
}

// open opens a file that may have to be made. It follows links itself: where the last
// leads to no file yet, one is made there.
func (c *creation) open() outcome {
	at := c.paths[0]
	for range maxLinks {
		p, ok := c.resolved(at)
		if !ok {
			return outcome{goOn: true}
		}
		if at.dir >= 0 && at.dir != c.paths[0].dir {
			_ = unix.Close(at.dir)
		}
		at = named{dir: -1}
		var st unix.Stat_t
		err := unix.Fstatat(p.fd, p.base, &st, unix.AT_SYMLINK_NOFOLLOW)
		kind := st.Mode & unix.S_IFMT
		switch {
		case err == unix.ENOENT && c.refuse(p, false):
			p.close()
			return failed(unix.EACCES)
		case err != nil && err != unix.ENOENT, err == nil && kind != unix.S_IFREG && kind != unix.S_IFLNK:
			p.close()
			return outcome{goOn: true} // a directory, device, pipe or socket: nothing is made
		case err == nil && kind == unix.S_IFLNK && c.flags&(unix.O_EXCL|unix.O_NOFOLLOW) == 0 && c.resolve&unix.RESOLVE_NO_SYMLINKS == 0:
			buf := make([]byte, maxPath)
			n, err := unix.Readlinkat(p.fd, p.base, buf)
			if err != nil || n <= 0 || n == len(buf) {
				p.close()
				return outcome{goOn: true}
			}
			if at.name = string(buf[:n]); at.name[0] != '/' {
				at.dir = p.fd
				continue
			}
			p.close()
			continue
		}
		fd, err := unix.Openat(p.fd, p.base, c.flags|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NOCTTY, c.mode)
		p.close()
		if err == unix.ELOOP && kind != unix.S_IFLNK {
			at = c.paths[0] // a link came meanwhile
			continue
		}
		if err != nil {
			return failed(err)
		}
		return outcome{fd: fd}
	}
	return failed(unix.ELOOP)
}

// move renames or links.
func (c *creation) move() outcome {
	to, ok := c.resolved(c.paths[1])
	from := resolved{fd: -1}
	defer func() { to.close(); from.close() }()
	if c.op == makesLink && c.paths[0].name == "" {
		if !ok {
			return outcome{goOn: true}
		}
		if c.refuse(to, false) {
			return failed(unix.EACCES)
		}
		return failed(unix.Linkat(unix.AT_FDCWD, "/proc/thread-self/fd/"+strconv.Itoa(c.paths[0].dir), to.fd, to.base, unix.AT_SYMLINK_FOLLOW))
	}
	from, inside := c.locate(c.paths[0])
	if from.fd < 0 || !ok && !inside {
		return outcome{goOn: true}
	}
	if !ok {
		if to, _ = c.locate(c.paths[1]); to.fd < 0 {
			return outcome{goOn: true}
		}
	}
	exchange := c.op == makesRename && c.flags&unix.RENAME_EXCHANGE != 0
	if ok && c.refuse(to, false) || exchange && inside && c.refuse(from, false) {
		return failed(unix.EACCES)
	}
	if c.op == makesLink {
		return failed(unix.Linkat(from.fd, from.base, to.fd, to.base, c.flags))
	}
	if ok && c.brings(from, to) && notFile(from) || exchange && inside && c.brings(to, from) && notFile(to) {
		return failed(unix.EXDEV) // programs copy then, name by name
	}
	return failed(unix.Renameat2(from.fd, from.base, to.fd, to.base, uint(c.flags)))
}

// brings reports whether a directory or link brings names along that act where it is
// renamed to.
func (c *creation) brings(from, to resolved) bool {
	g := c.m.guard
	if to.rel == "" {
		return false
	}
	return from.rel == "" || g.Leads(to.rel) || g.IsFree(from.rel) && !g.IsFree(to.rel)
}

// notFile reports whether there is something else than a file at a place.
func notFile(p resolved) bool {
	var st unix.Stat_t
	return unix.Fstatat(p.fd, p.base, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT != unix.S_IFREG
}

// resolved is the directory in which a call names something.
type resolved struct {
	fd        int
	base, rel string // the name, and the path relative to the root of the Guard; "" outside
}

func (p resolved) close() {
	if p.fd >= 0 {
		_ = unix.Close(p.fd)
	}
}

// resolved finds the directory of a path; false where the command can make the name itself,
// or nobody can.
func (c *creation) resolved(at named) (resolved, bool) {
	p, inside := c.locate(at)
	if !inside {
		p.close()
		p.fd = -1
	}
	return p, inside
}

// locate finds the directory of a path, and reports whether only the Maker makes names
// there; the descriptor is -1 where there is none.
func (c *creation) locate(at named) (p resolved, inside bool) {
	p.fd = -1
	name := at.name
	if c.op != makesOpen && c.op != makesOpen2 && c.op != makesCreat {
		name = strings.TrimRight(name, "/")
	}
	dir, base := path.Split(name)
	if base == "" || base == "." || base == ".." {
		return p, false
	}
	from := at.dir
	if from < 0 {
		from = unix.AT_FDCWD
	}
	if dir == "" {
		dir = "."
	}
	// Links of /proc lead this thread elsewhere than the command, also out of its mounts.
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: c.resolve | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(from, dir, &how)
	if err != nil {
		return p, false
	}
	p.fd, p.base = fd, base
	buf := make([]byte, maxPath)
	n, err := unix.Readlink("/proc/thread-self/fd/"+strconv.Itoa(fd), buf)
	root := c.m.guard.Root
	if err != nil || n <= 0 || n == len(buf) {
		return p, false
	}
	in := func(dir string) bool { return within(string(buf[:n]), dir) }
	if !in(root) {
		return p, slices.ContainsFunc(c.m.around, in)
	}
	p.rel = path.Join(strings.TrimPrefix(string(buf[:n]), root), base)
	return p, !slices.ContainsFunc(c.m.own, in)
}

// refuse reports whether the Guard has a name. A link, whose target can change, also
// stands for what the Guard has below a directory of its name.
func (c *creation) refuse(p resolved, link bool) bool {
	if p.rel == "" {
		return false
	}
	n, found := c.m.guard.Match(p.rel)
	if !found && link {
		found = c.m.guard.Leads(p.rel)
	}
	if found {
		c.m.refused(path.Join(c.m.guard.Root, p.rel), n)
	}
	return found
}
