package sandbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file connects sockets for a command without a network. A socket that has a path is
// reached through any network namespace, so the Maker makes the call: with the path that it
// has judged, and only to a socket that listens in the namespace of the command.

// connectCall is the system call that connects, by number.
func connectCall() map[int]watchedCall {
	return map[int]watchedCall{unix.SYS_CONNECT: {flags: -1, makes: connects}}
}

// maxAddress is the size of struct sockaddr_storage.
const maxAddress = 128

// connection is a call of connect(2).
type connection struct {
	sock   int // copy of the socket
	domain int
	addr   []byte
	at     named // the path of the address, "" for none; see named
	caller status
}

func (c *connection) close() {
	for _, fd := range [...]int{c.sock, c.at.dir} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// connection makes a call of connect(2).
func (m *Maker) connection(n *notification, listener, proc int) outcome {
	c, err := readConnection(n, proc)
	if err == nil && !waits(listener, n.id) { // the pid named the caller only while its call waits
		err = unix.EINTR
	}
	target := -1
	if err == nil && c.at.name != "" {
		m.become(c.caller.owner)
		if target, err = m.listening(c.at); err == nil {
			c.addr = append(binary.NativeEndian.AppendUint16(nil, unix.AF_UNIX), "/proc/self/fd/"+strconv.Itoa(target)+"\x00"...)
		}
	}
	if err != nil {
		c.close()
		return failed(err)
	}
	finish := func() outcome {
		defer c.close()
		if target >= 0 {
			defer func() { _ = unix.Close(target) }()
		}
		for {
			_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(c.sock), uintptr(unsafe.Pointer(unsafe.SliceData(c.addr))), uintptr(len(c.addr)))
			runtime.KeepAlive(c.addr)
			if errno != unix.EINTR {
				return outcome{errno: errno, fd: -1}
			}
		}
	}
	if c.domain != unix.AF_UNIX && c.domain != unix.AF_INET && c.domain != unix.AF_INET6 {
		return finish() // it does not wait, and depends on the rights of the thread
	}
	return outcome{fd: -1, later: func(func() bool) outcome { return finish() }}
}

// bind makes a call of bind(2) that makes a socket where only the Maker makes names, and
// answers it; false for other calls.
func (m *Maker) bind(n *notification, listener, proc int) bool {
	c, err := readConnection(n, proc)
	defer c.close()
	if err != nil || c.at.name == "" || !waits(listener, n.id) {
		return false
	}
	m.become(c.caller.owner)
	made := creation{m: m, op: makesNode, proc: proc, thread: n.pid}
	p, inside := made.locate(c.at)
	defer func() { p.close(); made.close() }()
	if !inside {
		return false
	}
	o := failed(unix.EACCES)
	if !made.refuse(p, false) {
		o = failed(bindAs(c.sock, c.at))
	}
	o.answer(n, listener, 0)
	return true
}

// bindAs binds a socket to a path by the name that its program gave, as getsockname(2) returns that.
// The name leads where it led: nothing but the Maker renames directories there.
func bindAs(sock int, at named) error {
	if at.dir >= 0 {
		if err := unix.Fchdir(at.dir); err != nil {
			return err
		}
		defer func() { _ = unix.Chdir("/") }() // which is always there
	}
	return unix.Bind(sock, &unix.SockaddrUnix{Name: at.name})
}

// readConnection reads the arguments of a call of connect(2) or bind(2). It does so on another thread
// than that of the Maker, which may not look into a process that keeps its memory to itself,
// see PR_SET_DUMPABLE of prctl(2). The caller closes the connection.
func readConnection(n *notification, proc int) (c *connection, err error) {
	c = &connection{sock: -1, at: named{dir: -1}}
	if n.args[2] > maxAddress {
		return c, unix.EINVAL
	}
	c.addr = make([]byte, n.args[2])
	done := make(chan struct{})
	go func() {
		defer close(done)
		if len(c.addr) > 0 && !readMemory(int(n.pid), uintptr(n.args[1]), c.addr) {
			err = unix.EFAULT
			return
		}
		c.caller = statusOf(proc, int(n.pid))
		pidfd, failure := unix.PidfdOpen(c.caller.process, 0)
		if failure != nil || !c.caller.whole {
			err = unix.EACCES
			return
		}
		defer func() { _ = unix.Close(pidfd) }()
		if c.sock, err = unix.PidfdGetfd(pidfd, int(int32(n.args[0])), 0); err != nil {
			return
		}
		if c.domain, err = unix.GetsockoptInt(c.sock, unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil {
			return
		}
		from, name := "/cwd", pathOf(c.domain, c.addr)
		if number, rest, found := strings.Cut(strings.TrimPrefix(name, "/proc/self/fd/"), "/"); found && strings.HasPrefix(name, "/proc/self/fd/") {
			from, name = "/fd/"+number, rest // as programs do whose path is too long
		}
		if c.at.name = name; name != "" && !strings.HasPrefix(name, "/") {
			c.at.dir, err = unix.Openat(proc, strconv.Itoa(int(n.pid))+from, unix.O_PATH|unix.O_CLOEXEC, 0)
		}
	}()
	<-done
	return c, err
}

// pathOf returns the path that an address names, "" for other addresses: a name that begins
// with a zero byte is one of the network namespace.
func pathOf(domain int, addr []byte) string {
	const offset = 2
	if domain != unix.AF_UNIX || len(addr) <= offset || binary.NativeEndian.Uint16(addr) != unix.AF_UNIX {
		return ""
	}
	name, _, _ := bytes.Cut(addr[offset:], []byte{0})
	return string(name)
}

// listening opens the socket at a path, if it listens in the network namespace of the
// command.
func (m *Maker) listening(at named) (fd int, err error) {
	dir := at.dir
	if dir < 0 {
		dir = unix.AT_FDCWD
	}
	fd, err = unix.Openat2(dir, at.name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return -1, err
	}
	own, err := m.owns(fd)
	switch {
	case err == nil && !own:
		path, _ := os.Readlink(link(fd)) // for people
		m.foreign(path)
		err = unix.ECONNREFUSED // as from one that is left over, which servers remove
	case err == nil:
		return fd, nil
	}
	_ = unix.Close(fd)
	return -1, err
}

// owns reports whether a file is a socket that listens in the network namespace of the
// command.
func (m *Maker) owns(fd int) (bool, error) {
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_TYPE|unix.STATX_INO|unix.STATX_MNT_ID, &st); err != nil {
		return false, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return false, unix.ECONNREFUSED
	}
	dev, err := deviceOfMount(st.Mnt_id)
	if err != nil {
		return false, err
	}
	list, err := listeningSockets(m.diag)
	if err != nil {
		return false, err
	}
	for _, s := range list {
		if s.ino == uint32(st.Ino) && s.dev == dev {
			return true, nil
		}
	}
	return false, nil
}

// deviceOfMount returns the device of the file system of a mount, as the kernel numbers it:
// that of its files can be another one (btrfs, overlayfs).
func deviceOfMount(id uint64) (uint32, error) {
	text, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return 0, unix.EACCES
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 3 || f[0] != strconv.FormatUint(id, 10) {
			continue
		}
		major, minor, _ := strings.Cut(f[2], ":")
		a, err := strconv.ParseUint(major, 10, 12)
		b, err2 := strconv.ParseUint(minor, 10, 20)
		if err = errors.Join(err, err2); err != nil {
			return 0, unix.EACCES
		}
		return uint32(a<<20 | b), nil
	}
	return 0, unix.EACCES
}

// boundSocket is where a socket has its path.
type boundSocket struct{ ino, dev uint32 }

// openDiag opens a socket by which the kernel lists the sockets of the network namespace of
// the calling thread, see sock_diag(7).
func openDiag() (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return -1, err
	}
	if _, err := listeningSockets(fd); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// CanList reports whether the kernel lists unix sockets with where they have their paths.
func CanList() error {
	fd, err := openDiag()
	if err != nil {
		return fault("list", "unix sockets", err)
	}
	return unix.Close(fd)
}

// listeningSockets returns the unix sockets with a path that listen in the network namespace
// of diag.
func listeningSockets(diag int) ([]boundSocket, error) {
	const (
		header    = 16
		byFamily  = 20      // SOCK_DIAG_BY_FAMILY
		listen    = 1 << 10 // TCP_LISTEN
		show      = 2       // UDIAG_SHOW_VFS
		body      = 16      // struct unix_diag_msg
		vfs       = 1       // UNIX_DIAG_VFS
		anyCookie = 1<<32 - 1
	)
	native := binary.NativeEndian
	req := native.AppendUint32(nil, header+24)
	req = native.AppendUint16(req, byFamily)
	req = native.AppendUint16(req, unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	req = append(req, make([]byte, 8)...) // number and port
	req = append(req, unix.AF_UNIX, 0, 0, 0)
	for _, v := range [...]uint32{listen, 0, show, anyCookie, anyCookie} {
		req = native.AppendUint32(req, v)
	}
	if err := unix.Sendto(diag, req, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	var out []boundSocket
	buf := make([]byte, 1<<16)
	for {
		n, _, err := unix.Recvfrom(diag, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		for rest := buf[:n]; len(rest) >= header; {
			size, kind := int(native.Uint32(rest)), native.Uint16(rest[4:])
			if size < header || size > len(rest) {
				return nil, unix.EBADMSG
			}
			switch kind {
			case unix.NLMSG_DONE:
				return out, nil
			case unix.NLMSG_ERROR:
				return nil, unix.EOPNOTSUPP
			}
			for attr := rest[min(header+body, size):size]; len(attr) >= 4; {
				length := int(native.Uint16(attr))
				if length < 4 || length > len(attr) {
					break
				}
				if native.Uint16(attr[2:]) == vfs && length >= 12 {
					out = append(out, boundSocket{native.Uint32(attr[4:]), native.Uint32(attr[8:])})
				}
				attr = attr[min(aligned(length), len(attr)):]
			}
			rest = rest[min(aligned(size), len(rest)):]
		}
	}
}

// aligned rounds up to the alignment of netlink(7).
func aligned(n int) int { return (n + 3) &^ 3 }
