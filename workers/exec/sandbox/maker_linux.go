package sandbox

import (
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ralph/workers/exec/acts"
)

// Maker makes files, directories and links, and opens files for writing, for a command that
// cannot do so itself below the root of a Guard, unless the Guard has their names, and
// connects the sockets of a command without a network. The kernel reads the path
// of a call from the memory of the command, which may change it after it was judged, so
// such a call is not let through: the Maker makes the call itself, with the path that was
// judged, on a thread with the command's mounts and capabilities. Landlock does not hold for
// that thread, which could not read the command's memory then; it makes names in
// directories alone that it holds open and has found to lie below the root.
type Maker struct {
	guard   Guard    // zero for none
	own     []string // places below the root in which the command makes names itself
	around  []string // places that the root lies in, where all names can be made
	refused func(path, class, key string)
	staged  []*staged
	undone  func(left []string)
	updates updates
	work    chan func()
	owners  map[int]owner // of the threads that called last
	last    owner         // whose files the thread makes
	shared  shared
	diag    int               // lists the sockets of the command's network; -1 for none
	foreign func(path string) // see NewMaker
}

// owner is for whom a file is made, and with which mask.
type owner struct {
	read            time.Time
	umask, uid, gid int
}

const (
	// ownerTime is how long the owner of a thread is taken to be the same. Calls that change
	// it are notified; a number is not given to another thread so soon.
	ownerTime = 3 * time.Millisecond
	maxOwners = 64 // of which are remembered
)

// NewMaker starts the thread of a Maker with the mounts of the calling thread, which has
// called Enter and not yet RestrictWatched. refused is called with each path that was not
// made, for its name of a class, or with a configuration of git that a key was left out of, or without either with one that
// was made because it lies in a directory of Guard.Free; undone after it, where git was to make it, and all that this command of git had
// changed was taken back, with the paths of which that failed. The caller gives the Maker
// to Watch, or closes it.
//
// foreign is called with the path of each socket that was not connected to because it is
// not the command's.
func (l Layout) NewMaker(refused func(path, class, key string), undone func(left []string), foreign func(path string)) (*Maker, error) {
	mounts, err := unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fault("open", "mount namespace", err)
	}
	defer func() { _ = unix.Close(mounts) }()
	m := &Maker{refused: refused, undone: undone, foreign: foreign, work: make(chan func()), owners: map[int]owner{}, diag: -1}
	if l.Guarded() {
		m.guard, m.around = *l.Guard, l.around()
		for _, p := range l.Places {
			if kind(p.Kind) == written && p.Path != l.Guard.Root && within(p.Path, l.Guard.Root) {
				m.own = append(m.own, p.Path)
			}
		}
	}
	if l.Supervised() {
		if m.diag, err = openDiag(); err != nil {
			return nil, fault("list", "unix sockets", err)
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
	if m == nil {
		return
	}
	m.do(m.updates.close)
	close(m.work)
	if m.diag >= 0 {
		_ = unix.Close(m.diag) // nothing was written
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

// serve makes what a notified call is to make, and answers it; false leaves the answer to
// the caller, which lets the call go on.
func (m *Maker) serve(n *notification, call watchedCall, listener, proc int) bool {
	if call.makes == connects {
		m.connection(n, listener, proc).answer(n, listener, 0)
		return true
	}
	if m.guard.Root == "" {
		return false
	}
	m.settle(false)
	if call.makes == binds {
		return m.bind(n, listener, proc)
	}
	c, ok := m.read(n, call, proc)
	defer c.close()
	// The pid names the caller only while its call waits.
	if !ok || !waits(listener, n.id) {
		return false
	}
	o := c.make()
	if o.goOn {
		return false
	}
	o.answer(n, listener, c.flags)
	return true
}

func (c *creation) close() {
	for _, p := range c.paths {
		if p.dir >= 0 {
			_ = unix.Close(p.dir)
		}
	}
	for _, fd := range c.locks {
		_ = unix.Close(fd)
	}
}

// make makes the call, on the thread of the Maker.
func (c *creation) make() outcome {
	c.update.settles(c.thread)
	if c.update != nil && c.update.refused && c.ofRefused() {
		return failed(unix.EACCES)
	}
	switch c.op {
	case makesOpen, makesOpen2, makesCreat:
		return c.open()
	case makesLink, makesRename:
		c.m.shared.stale = true
		return c.move()
	case changesLength, changesMode:
		return c.alter()
	}
	p, ok := c.locate(c.paths[0])
	defer p.close()
	if ok && c.refuse(p, c.op == makesSymlink) {
		return failed(unix.EACCES)
	}
	c.update.touches(p, false)
	if !ok || c.op == removes {
		return p.left()
	}
	var err error
	switch c.op {
	case makesDir:
		err = unix.Mkdirat(p.fd, p.base, c.mode)
	case makesNode:
		if kind := c.mode & unix.S_IFMT; kind != unix.S_IFIFO && kind != unix.S_IFREG && kind != unix.S_IFSOCK && kind != 0 {
			return outcome{goOn: true} // a device
		}
		err = unix.Mknodat(p.fd, p.base, c.mode, 0)
	case makesSymlink:
		err = unix.Symlinkat(c.target, p.fd, p.base)
	}
	c.update.madeAt(p, err)
	return failed(err)
}

// open opens a file for writing, which may have to be made. It follows links itself: where
// the last leads to no file yet, one is made there.
func (c *creation) open() outcome {
	if c.flags&unix.O_TMPFILE == unix.O_TMPFILE {
		return c.unnamed()
	}
	for range maxLinks {
		p, f, o, ok := c.find()
		if !ok {
			return o
		}
		switch {
		case f < 0 && c.flags&unix.O_CREAT == 0:
			o = failed(unix.ENOENT)
		case f < 0 && c.refuse(p, false):
			o = failed(unix.EACCES)
		case c.exclusive() && f >= 0:
			o = failed(unix.EEXIST)
		case c.writes() && p.configures():
			o = c.stage(p, f)
		case f < 0:
			fd, err := unix.Openat(p.fd, p.base, c.flags|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NOCTTY, c.mode)
			if err == unix.EEXIST && !c.exclusive() {
				p.close() // it was made meanwhile
				continue
			}
			if o = failed(err); err == nil {
				o.fd = fd
			}
			c.update.madeAt(p, err)
		default:
			o = c.change(p, f)
		}
		p.close()
		if f >= 0 {
			_ = unix.Close(f)
		}
		return o
	}
	return failed(unix.ELOOP)
}

// move renames or links.
func (c *creation) move() outcome {
	to, ok := c.locate(c.paths[1])
	from := resolved{fd: -1}
	defer func() { to.close(); from.close() }()
	if c.op == makesLink && c.paths[0].name == "" {
		if !ok {
			return to.left()
		}
		if c.refuse(to, false) {
			return failed(unix.EACCES)
		}
		c.update.touches(to, false)
		done, err := c.linkOfGit(to, c.paths[0].dir)
		if !done {
			err = unix.Linkat(unix.AT_FDCWD, link(c.paths[0].dir), to.fd, to.base, unix.AT_SYMLINK_FOLLOW)
		}
		c.update.madeAt(to, err)
		return failed(err)
	}
	from, inside := c.locate(c.paths[0])
	if to.err != 0 {
		return to.left()
	}
	if from.fd < 0 || to.fd < 0 {
		return from.left()
	}
	isFile := !notFile(from)
	if c.op == makesRename && isFile {
		c.update.touches(from, false)
	}
	c.update.touches(to, false)
	if !ok && !inside {
		return outcome{goOn: true}
	}
	exchange := c.op == makesRename && c.flags&unix.RENAME_EXCHANGE != 0
	if ok && c.refuse(to, false) || exchange && inside && c.refuse(from, false) {
		return failed(unix.EACCES)
	}
	if c.op == makesLink {
		how := unix.O_PATH | unix.O_CLOEXEC
		if c.flags&unix.AT_SYMLINK_FOLLOW == 0 {
			how |= unix.O_NOFOLLOW
		}
		f, err := unix.Openat(from.fd, from.base, how, 0)
		if err != nil {
			return failed(err)
		}
		defer func() { _ = unix.Close(f) }() // only read
		done, err := c.linkOfGit(to, f)
		if !done {
			err = unix.Linkat(from.fd, from.base, to.fd, to.base, c.flags)
		}
		c.update.madeAt(to, err)
		return failed(err)
	}
	if ok && c.brings(from, to) && !isFile || exchange && inside && c.brings(to, from) && notFile(to) {
		return failed(unix.EXDEV) // programs copy then, name by name
	}
	done, err := c.renameOfGit(from, to)
	if !done {
		err = unix.Renameat2(from.fd, from.base, to.fd, to.base, uint(c.flags))
	}
	c.update.madeAt(to, err)
	return failed(err)
}

// ofRefused reports whether a call changes the tree or a git directory, after the update that
// it is part of was taken back. The names that the Guard has are told, so that the user
// learns of all that the update needs.
func (c *creation) ofRefused() bool {
	for _, at := range c.paths {
		p, _ := c.locate(at)
		var st unix.Stat_t
		gone := c.op == removes && p.fd >= 0 && unix.Fstatat(p.fd, p.base, &st, unix.AT_SYMLINK_NOFOLLOW) == unix.ENOENT
		p.close()
		if n, found := c.m.guard.Match(p.rel); found && p.rel != "" {
			// A directory that was taken back has no such path any more.
			if fd, err := openBelow(path.Dir(path.Join(c.m.guard.Root, p.rel)), false); err == nil {
				_ = unix.Close(fd)
				c.m.refused(path.Join(c.m.guard.Root, p.rel), n.Class, "")
			}
		}
		if !gone && (p.rel != "" || strings.Contains(p.path, "/.git/")) {
			return true // not the removal of a lock that is gone already
		}
	}
	return false
}

// brings reports whether a directory or link brings names along that act where it is
// renamed to.
func (c *creation) brings(from, to resolved) bool {
	g := c.m.guard
	if to.rel == "" {
		return false
	}
	_, leads := g.Leads(to.rel)
	hooks := acts.Fold(to.base) == "hooks" && ofGit(to.fd)
	return from.rel == "" || leads || hooks || g.IsFree(from.rel) && !g.IsFree(to.rel)
}

// notFile reports whether there is something else than a file at a place.
func notFile(p resolved) bool { return p.kind() != 0 && p.kind() != unix.S_IFREG }

// resolved is the directory in which a call names something.
type resolved struct {
	fd        int
	base, rel string     // the name, and the path relative to the root of the Guard; "" outside
	path      string     // absolute, without links
	own       bool       // the command makes names there itself
	err       unix.Errno // of the call, where there is no such directory
}

// left is the answer to a call that makes nothing at p. Without the directory the call fails
// at once: the kernel would find it when another thread has made it since, and refuse the
// name to the command.
func (p resolved) left() outcome {
	return outcome{goOn: p.err == 0, errno: p.err, fd: -1}
}

func (p resolved) close() {
	if p.fd >= 0 {
		_ = unix.Close(p.fd)
	}
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
		if err != unix.ELOOP && !within(dir, "/proc") { // there the command may find another
			p.err, _ = err.(unix.Errno)
		}
		return p, false
	}
	p.fd, p.base = fd, base
	full, rel, inside := c.m.inside(fd)
	if full == "" {
		return p, false
	}
	p.path, p.own = path.Join(full, base), !inside
	if rel != "" {
		p.rel = path.Join(rel, base)
	}
	if inside && ofMaker(base) && c.op != removes {
		_ = unix.Close(fd)
		return resolved{fd: -1, err: unix.EACCES}, false
	}
	return p, inside
}

// inside returns the path of an open file, and that relative to the root, which begins with a
// slash, and reports whether only the Maker makes and opens files there. Outside the root rel is
// ""; full is too where there is no path.
func (m *Maker) inside(fd int) (full, rel string, inside bool) {
	buf := make([]byte, maxPath)
	n, err := unix.Readlink(link(fd), buf)
	if err != nil || n <= 0 || n == len(buf) {
		return "", "", false
	}
	full = string(buf[:n])
	in := func(dir string) bool { return within(full, dir) }
	if !in(m.guard.Root) {
		return full, "", slices.ContainsFunc(m.around, in)
	}
	return full, "/" + strings.TrimPrefix(strings.TrimPrefix(full, m.guard.Root), "/"), !slices.ContainsFunc(m.own, in)
}

// refuse reports whether the Guard has a name. A link, whose target can change, also
// stands for what the Guard has below a directory of its name.
func (c *creation) refuse(p resolved, link bool) bool {
	if p.rel == "" {
		return false
	}
	n, found := c.m.guard.Match(p.rel)
	if !found && link {
		n, found = c.m.guard.Leads(p.rel)
	}
	if !found {
		n, found = c.refusesOfGit(p, link)
	}
	if found {
		c.m.refused(path.Join(c.m.guard.Root, p.rel), n.Class, "")
		if c.update != nil {
			c.update.refused = true
			c.m.undone(c.update.takeBack())
		}
	} else if c.m.guard.Frees(p.rel) {
		c.m.refused(path.Join(c.m.guard.Root, p.rel), "", "")
	}
	return found
}
