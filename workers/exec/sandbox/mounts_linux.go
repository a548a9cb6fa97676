package sandbox

import (
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	quiet     = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	deviceOff = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	scratchAt = "/proc" // the new /proc covers in the end what is made here
)

func fault(verb, path string, err error) error { return &fs.PathError{Op: verb, Path: path, Err: err} }

// Enter sets up the mounts of the calling thread and the bound of process numbers.
// The thread must have the namespaces of l.Namespaces of its own, with all
// capabilities in them. Enter cannot be undone: the thread must end with its
// goroutine.
func (l Layout) Enter() error {
	m := &mounter{}
	defer m.close()
	return m.run(l)
}

// MountProc mounts a /proc for the calling thread's pid namespace. The thread must
// have a mount namespace of its own.
func MountProc() error {
	m := &mounter{}
	m.proc()
	return m.err
}

// mounter holds the descriptors of mounts that are not attached yet.
type mounter struct {
	fds   []int
	err   error // the first error; every later step is skipped
	trees []int // a descriptor for each place
}

func (m *mounter) close() {
	for _, fd := range m.fds {
		_ = unix.Close(fd)
	}
}

func (m *mounter) try(verb, path string, f func() error) {
	if m.err != nil {
		return
	}
	if err := f(); err != nil {
		m.err = fault(verb, path, err)
	}
}

func (m *mounter) open(verb, path string, f func() (int, error)) (fd int) {
	m.try(verb, path, func() (err error) {
		fd, err = f()
		if err == nil {
			m.fds = append(m.fds, fd)
		}
		return err
	})
	return fd
}

// run makes all mounts. It copies the mounts of every place before it changes any,
// so that what is covered or made read-only on the way can still be attached.
func (m *mounter) run(l Layout) error {
	if !l.Features.Mounts {
		m.proc()
		m.boundPIDs(l)
		return m.err
	}
	// Keep later mounts of the host and those of this namespace apart.
	m.try("separate", "/", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") })
	m.mount("tmpfs", scratchAt, quiet, "mode=755,size=1m")
	blanks := m.blanks(l.Places)
	m.trees = make([]int, len(l.Places))
	for i, p := range l.Places {
		switch {
		case kind(p.Kind) == made:
		case p.Layers != nil:
			m.trees[i] = m.overlay(i, *p.Layers)
		case kind(p.Kind) == hidden:
			m.trees[i] = m.clone(p.Path, blanks[i])
			m.set(p.Path, m.trees[i], unix.MOUNT_ATTR_RDONLY)
		default:
			m.trees[i] = m.clone(p.Path, m.find(p.Source))
			attrs := uint64(deviceOff)
			if kind(p.Kind) == shown {
				attrs |= unix.MOUNT_ATTR_RDONLY
			}
			m.set(p.Path, m.trees[i], attrs)
		}
	}
	m.proc()
	m.boundPIDs(l)
	// Writing a kernel setting takes root's user id, not a capability.
	settings := m.clone("/proc/sys", m.find("/proc/sys"))
	m.set("/proc/sys", settings, unix.MOUNT_ATTR_RDONLY)
	m.attach(settings, "/proc/sys")
	m.arrange(l)
	return m.err
}

// blanks makes what hidden places show: an empty file, and for each hidden directory
// one that is empty but for mount points of the places below it. It returns a
// descriptor for each hidden place, by its index.
func (m *mounter) blanks(places []Place) map[int]int {
	mkdir := func(path string) {
		m.try("make", path, func() error { return unix.Mkdir(path, 0o755) })
	}
	mkfile := func(path string) {
		m.try("make", path, func() error { return unix.Mknod(path, unix.S_IFREG|0o444, 0) })
	}
	file, dir := scratchAt+"/file", scratchAt+"/dir"
	mkfile(file)
	mkdir(dir)
	fileFD, dirFD := m.find(file), m.find(dir)
	out := map[int]int{}
	for i, p := range places {
		if kind(p.Kind) != hidden {
			continue
		}
		if out[i] = fileFD; !p.Dir {
			continue
		}
		out[i] = dirFD
		own, done := scratchAt+"/"+strconv.Itoa(i), map[string]bool{}
		for _, below := range places {
			if below.Above != i {
				continue
			}
			rel, err := filepath.Rel(p.Path, below.Path)
			if err != nil {
				continue // they are both absolute
			}
			path, parts := own, strings.Split(rel, "/")
			for j := 0; j <= len(parts); j++ {
				if j > 0 {
					path += "/" + parts[j-1]
				}
				switch {
				case done[path]:
				case j < len(parts) || below.Dir:
					mkdir(path)
				case below.Link != "":
					m.try("link", path, func() error { return unix.Symlink(below.Link, path) })
				case kind(below.Kind) == made:
					m.try("make", path, func() error { return os.WriteFile(path, []byte(below.Text), 0o444) })
				default:
					mkfile(path)
				}
				done[path] = true
			}
		}
		if len(done) > 0 {
			out[i] = m.find(own)
		}
	}
	return out
}

// overlay makes an overlay mount and returns a descriptor to attach.
func (m *mounter) overlay(i int, o Overlay) int {
	at := scratchAt + "/overlay" + strconv.Itoa(i)
	m.try("make", at, func() error { return unix.Mkdir(at, 0o755) })
	escape := strings.NewReplacer(`\`, `\\`, ":", `\:`, ",", `\,`)
	var lower []string
	for _, dir := range o.Lower {
		lower = append(lower, escape.Replace(dir))
	}
	escape = strings.NewReplacer(`\`, `\\`, ",", `\,`)
	options := "userxattr,lowerdir=" + strings.Join(lower, ":") + ",upperdir=" + escape.Replace(o.Upper) + ",workdir=" + escape.Replace(o.Work)
	m.try("mount an overlay on", o.Path, func() error {
		return unix.Mount("overlay", at, "overlay", unix.MS_NOSUID|unix.MS_NODEV, options)
	})
	return m.clone(o.Path, m.find(at))
}

// proc mounts the /proc of the current pid namespace. It leaves out the first process,
// which has other namespaces than a command; a kernel before 5.8 shows it.
func (m *mounter) proc() {
	m.try("separate", "/proc", func() error { return unix.Mount("", "/proc", "", unix.MS_REC|unix.MS_SLAVE, "") })
	if m.err == nil && unix.Mount("proc", "/proc", "proc", quiet, "hidepid=ptraceable") != nil {
		m.mount("proc", "/proc", quiet, "")
	}
}

// arrange makes everything read-only and attaches the copies, the outer first.
func (m *mounter) arrange(l Layout) {
	var nodes []int
	for i, path := range l.Devices {
		nodes = append(nodes, m.clone(path, m.find(path)))
		// A device can be written to there, but its mode, owner and times, which are the
		// system's, cannot be changed.
		m.set(path, nodes[i], unix.MOUNT_ATTR_RDONLY)
	}
	m.restrict("/", unix.MOUNT_ATTR_RDONLY|deviceOff, unix.AT_RECURSIVE)
	for i, p := range l.Places {
		if kind(p.Kind) != made {
			m.attach(m.trees[i], p.Path)
		}
	}
	for i, path := range l.Devices {
		m.attach(nodes[i], path)
	}
	if isDir("/dev/shm") {
		m.mount("tmpfs", "/dev/shm", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777,size="+strconv.Itoa(SharedMemory))
	}
	if isDir("/dev/pts") {
		m.mount("devpts", "/dev/pts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
		if info, err := os.Lstat("/dev/ptmx"); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			m.attach(m.clone("/dev/ptmx", m.find("/dev/pts/ptmx")), "/dev/ptmx")
		}
	}
}

// writable returns the devices and device directories that a command may write to
// after Enter.
func (l Layout) writable() []string {
	out := l.Devices
	if !l.Features.Mounts {
		return out
	}
	for _, path := range privateDevices() {
		if _, err := os.Lstat(path); err == nil {
			out = append(out[:len(out):len(out)], path)
		}
	}
	return out
}

// find opens a path for reference. A symbolic link anywhere in it is an error.
func (m *mounter) find(path string) int {
	return m.open("find", path, func() (int, error) { return reference(path) })
}

func reference(path string) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	return unix.Openat2(unix.AT_FDCWD, path, &how)
}

// clone copies the mount tree at a descriptor.
func (m *mounter) clone(path string, fd int) int {
	const flags = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_RECURSIVE | unix.AT_EMPTY_PATH
	return m.open("bind", path, func() (int, error) { return unix.OpenTree(fd, "", flags) })
}

// set sets attributes of the mount tree at a descriptor.
func (m *mounter) set(path string, fd int, attrs uint64) {
	m.try("restrict", path, func() error {
		return unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attrs})
	})
}

// restrict sets attributes of the mounts at a path.
func (m *mounter) restrict(path string, attrs uint64, flags uint) {
	m.try("restrict", path, func() error {
		return unix.MountSetattr(unix.AT_FDCWD, path, flags, &unix.MountAttr{Attr_set: attrs})
	})
}

// attach mounts a copy at a path.
func (m *mounter) attach(tree int, path string) {
	target := m.find(path)
	m.try("mount", path, func() error {
		return unix.MoveMount(tree, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	})
}

// mount mounts a new file system.
func (m *mounter) mount(kind, path string, flags uintptr, options string) {
	m.try("mount "+kind+" on", path, func() error { return unix.Mount(kind, path, kind, flags, options) })
}

// boundPIDs bounds the numbers of processes, and thereby their count. The kernel
// does not use the first 300 numbers again.
func (m *mounter) boundPIDs(l Layout) {
	const reserved, path = 300, "/proc/sys/kernel/pid_max"
	if !l.Features.PIDs || l.Limits.Processes <= 0 {
		return
	}
	m.try("write", path, func() error {
		return os.WriteFile(path, []byte(strconv.Itoa(l.Limits.Processes+reserved+1)), 0)
	})
}

// Loopback starts the loopback interface, with its addresses, of the calling
// thread's network namespace.
func Loopback() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fault("open", "loopback", err)
	}
	defer func() { _ = unix.Close(s) }()
	req, err := unix.NewIfreq("lo")
	if err == nil {
		req.SetUint16(unix.IFF_UP)
		err = unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, req)
	}
	if err != nil {
		return fault("start", "loopback", err)
	}
	return nil
}

// Listen returns a descriptor that listens at ServiceAddr in the calling thread's
// network namespace. Whoever accepts from it does not need that namespace.
func Listen() (fd int, err error) {
	at := netip.MustParseAddrPort(ServiceAddr)
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fault("open", ServiceAddr, err)
	}
	if err = unix.Bind(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}); err == nil {
		err = unix.Listen(fd, unix.SOMAXCONN)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, fault("listen at", ServiceAddr, err)
	}
	return fd, nil
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(&b[0])) }
