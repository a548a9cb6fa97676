package sandbox

import (
	"bytes"
	"maps"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// opensToWrite are the flags of open(2) of which a call that can change a file has one.
const opensToWrite = unix.O_WRONLY | unix.O_RDWR | unix.O_CREAT | unix.O_TRUNC

// watchedCall tells which arguments of a system call name files that it changes.
type watchedCall struct {
	paths []watchedPath
	flags int // index of the flags of open(2); -1 for a call that always counts
	makes operation
	mode  int // index of the mode of what is made
}

// watchedPath has the indexes of a directory's descriptor and of a path; dir is -1 for
// the working directory.
type watchedPath struct{ dir, path int }

// operation is how a system call makes a name.
type operation int

const (
	makesNothing operation = iota
	makesOpen              // open(2) with O_CREAT
	makesOpen2             // openat2(2), whose flags and mode are in memory
	makesCreat
	makesDir
	makesNode
	makesSymlink // its target is the argument 0
	makesLink
	makesRename
	removes
	changesLength // truncate(2), whose length is the argument 1
	changesMode   // by the path of a file
	changesOwner  // of what the thread makes from then on
	connects      // connect(2)
	binds         // bind(2), which may make a socket
)

// watchedCalls lists, by number, the calls of Linux that take the path of a file and
// change it. A file that is changed by its descriptor was opened for writing.
func watchedCalls() map[int]watchedCall {
	at := func(dir, flags int, makes operation, mode int) watchedCall {
		return watchedCall{[]watchedPath{{dir, dir + 1}}, flags, makes, mode}
	}
	both := func(makes operation) watchedCall {
		return watchedCall{[]watchedPath{{0, 1}, {2, 3}}, -1, makes, 4}
	}
	calls := map[int]watchedCall{
		unix.SYS_OPENAT: at(0, 2, makesOpen, 3), unix.SYS_OPENAT2: at(0, -1, makesOpen2, 2),
		unix.SYS_RENAMEAT: both(makesRename), unix.SYS_RENAMEAT2: both(makesRename), unix.SYS_LINKAT: both(makesLink),
		unix.SYS_UNLINKAT: at(0, -1, removes, 0), unix.SYS_FCHMODAT: at(0, -1, changesMode, 0), sysFchmodat2: at(0, -1, changesMode, 0),
		unix.SYS_SYMLINKAT: at(1, -1, makesSymlink, 0), unix.SYS_MKNODAT: at(0, -1, makesNode, 2), unix.SYS_MKDIRAT: at(0, -1, makesDir, 2),
		unix.SYS_BIND: {flags: -1, makes: binds}, unix.SYS_TRUNCATE: at(-1, -1, changesLength, 0),
	}
	maps.Copy(calls, watchedHere())
	for _, nr := range [...]int{unix.SYS_UMASK, unix.SYS_SETUID, unix.SYS_SETGID, unix.SYS_SETREUID, unix.SYS_SETREGID, unix.SYS_SETRESUID, unix.SYS_SETRESGID, unix.SYS_SETFSUID, unix.SYS_SETFSGID} {
		calls[nr] = watchedCall{flags: -1, makes: changesOwner}
	}
	return calls
}

const sysFchmodat2 = 452 // on all machines

// notification is struct seccomp_notif, answer struct seccomp_notif_resp.
type notification struct {
	id         uint64
	pid, flags uint32
	nr         int32
	arch       uint32
	ip         uint64
	args       [6]uint64
}

type answer struct {
	id, val uint64
	err     int32
	flags   uint32
}

const (
	ioctlReceive = 0xc0502100 // SECCOMP_IOCTL_NOTIF_RECV
	ioctlSend    = 0xc0182101 // SECCOMP_IOCTL_NOTIF_SEND
	ioctlValid   = 0x40082102 // SECCOMP_IOCTL_NOTIF_ID_VALID
	ioctlFlags   = 0x40082104 // SECCOMP_IOCTL_NOTIF_SET_FLAGS, Linux 6.6
	goOn         = 1          // SECCOMP_USER_NOTIF_FLAG_CONTINUE
	syncWakeUp   = 1          // SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
	maxWrites    = 200_000    // different paths of one command
	repeatAfter  = 10 * time.Millisecond
	maxPath      = 4096
)

// Watch serves a descriptor of RestrictWatched or WatchAlone, and closes it, until nothing that the
// restricted thread started is left. It calls tell with each path below root that is
// about to be changed, and lets the call go on: a
// program that changes the path in its memory meanwhile is seen with the wrong one. Of
// a file that is opened again and again tell is called every repeatAfter. proc is a descriptor of the /proc of the thread's pid namespace, which must
// be the caller's too; the caller must see the files below root by the same names.
// It calls full once when it tells of no more paths, because there are too many.
//
// m makes what the command cannot make itself, and is closed; nil makes nothing.
func Watch(listener, proc int, root string, m *Maker, tell func(Write), full func()) {
	w := watcher{proc: proc, root: root, calls: notifiedCalls(true, true), told: map[string]time.Time{}, tell: tell}
	if m == nil {
		w.serve(listener, nil, full)
		return
	}
	m.do(func() {
		w.serve(listener, m, full)
		m.settle(true)
		for len(m.updates.list) > 0 {
			m.updates.end(m.updates.list[0])
		}
	})
	m.Close()
}

func (w *watcher) serve(listener int, m *Maker, full func()) {
	defer func() { _ = unix.Close(listener) }()
	// The caller and this goroutine take turns: waking each on the other's processor is
	// faster. Where the kernel has no such flag it is slower, and nothing else.
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(listener), ioctlFlags, syncWakeUp)
	for {
		fds := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
		wait := -1
		if m != nil && len(m.staged) > 0 {
			wait = int(stageWait.Milliseconds())
		}
		if n, err := unix.Poll(fds, wait); err == unix.EINTR {
			continue
		} else if err == nil && n == 0 {
			m.settle(false)
			continue
		} else if err != nil || fds[0].Revents&unix.POLLIN == 0 {
			return // POLLHUP: nobody is left
		}
		var n notification
		if ioctl(listener, ioctlReceive, unsafe.Pointer(&n)) != 0 {
			continue // the thread was killed meanwhile
		}
		if len(w.told) == maxWrites {
			full()
			w.told[""] = time.Time{} // more than maxWrites now
		}
		if len(w.told) < maxWrites && w.root != "" {
			w.see(&n, listener)
		}
		if m != nil && m.serve(&n, w.calls[int(n.nr)], listener, w.proc) {
			continue
		}
		a := answer{id: n.id, flags: goOn}
		ioctl(listener, ioctlSend, unsafe.Pointer(&a)) // it fails when the thread was killed
	}
}

// ioctl calls ioctl(2) again where a signal interrupted it, but for the receipt of a
// notification, which may be gone then.
func ioctl(fd int, request uintptr, arg unsafe.Pointer) unix.Errno {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
		if errno != unix.EINTR || request == ioctlReceive {
			return errno
		}
	}
}

type watcher struct {
	proc  int
	root  string
	calls map[int]watchedCall
	told  map[string]time.Time
	tell  func(Write)
}

func (w *watcher) see(n *notification, listener int) {
	call := w.calls[int(n.nr)]
	if call.makes == makesDir || call.makes == connects || call.makes == binds {
		return // a directory stands for all that is in it, which others may have made
	}
	for _, p := range call.paths {
		name := readString(int(n.pid), uintptr(n.args[p.path]))
		if name == "" {
			continue
		}
		if name[0] != '/' {
			link := "/cwd"
			if p.dir >= 0 && int32(n.args[p.dir]) != unix.AT_FDCWD {
				link = "/fd/" + strconv.Itoa(int(int32(n.args[p.dir])))
			}
			dir := w.link(strconv.Itoa(int(n.pid)) + link)
			if dir == "" {
				continue
			}
			name = dir + "/" + name
		}
		// The pid names the caller only while its call waits.
		if ioctl(listener, ioctlValid, unsafe.Pointer(&n.id)) != 0 {
			return
		}
		w.note(name, call.flags >= 0, call.makes < makesDir || call.makes > removes)
	}
}

// note tells of a path, which a call opens or changes otherwise. Of a symbolic link that the call
// follows it tells of what it leads to as well, where there need not be a file yet.
func (w *watcher) note(name string, opens, follows bool) {
	for range maxLinks {
		if name = w.noteOne(name, opens); name == "" || !follows {
			return
		}
	}
}

// noteOne tells of a path, and returns where the symbolic link there leads to; "" for none.
func (w *watcher) noteOne(name string, opens bool) (target string) {
	dir, base := filepath.Split(strings.TrimRight(name, "/"))
	// A directory can become a link, and another one, at any time: nothing is remembered.
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "" // the call will fail as well
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	real := w.link("self/fd/" + strconv.Itoa(fd))
	name = filepath.Join(real, base)
	var st unix.Stat_t
	err = unix.Fstatat(fd, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		buf := make([]byte, maxPath)
		if n, rerr := unix.Readlinkat(fd, base, buf); rerr == nil && n > 0 {
			if target = string(buf[:n]); target[0] != '/' {
				target = real + "/" + target
			}
		}
	}
	w.tellOf(name, opens, &st, err == nil)
	return target
}

func (w *watcher) tellOf(name string, opens bool, st *unix.Stat_t, there bool) {
	if !strings.HasPrefix(name, w.root+"/") {
		return
	}
	now := time.Now()
	if opens && there && now.Sub(w.told[name]) < repeatAfter {
		return
	}
	w.told[name] = now
	out := Write{Path: name, At: now}
	if there {
		out.Before = time.Unix(st.Ctim.Unix())
		if st.Mode&unix.S_IFMT == unix.S_IFREG {
			out.Mode = uint32(st.Mode) & 0o777
		}
	}
	w.tell(out)
}

func (w *watcher) link(name string) string {
	buf := make([]byte, maxPath)
	n, err := unix.Readlinkat(w.proc, name, buf)
	if err != nil || n == 0 || buf[0] != '/' {
		return ""
	}
	return string(buf[:n])
}

// readString reads a string of at most maxPath bytes from the memory of a process, page
// by page: what follows it may not be mapped.
func readString(pid int, at uintptr) string {
	const page = 4096
	var out []byte
	for len(out) < maxPath {
		buf := make([]byte, page-int(at%page))
		local := []unix.Iovec{{Base: &buf[0], Len: uint64(len(buf))}}
		n, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: at, Len: len(buf)}}, 0)
		if err != nil || n <= 0 {
			return ""
		}
		if i := bytes.IndexByte(buf[:n], 0); i >= 0 {
			return string(append(out, buf[:i]...))
		}
		out = append(out, buf[:n]...)
		at += uintptr(n)
	}
	return ""
}
