package sandbox

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// This file opens and changes files for a Maker. A command has no right to open a file below
// the root for writing: one that has other names outside the root, which the user gave it, is
// replaced by a copy first.

const (
	// maxSurveyed bounds how many names a survey looks at; files beyond are taken to have
	// names outside.
	maxSurveyed = 1_000_000
	// surveyTime is how long surveys of one command take, besides a tenth of its own time.
	surveyTime = time.Second
	// pipeWait is how often an open of a named pipe looks for a reader.
	pipeWait = 5 * time.Millisecond
)

// find finds the file of a call through symbolic links: its directory, and the file by
// O_PATH, which is -1 where there is none. It leaves out the directory of a file that the
// caller has open. Without ok the answer is o.
func (c *creation) find() (p resolved, f int, o outcome, ok bool) {
	at := c.paths[0]
	for i := range maxLinks {
		if own := ownFile(at.name); own != "" && i > 0 {
			fd, err := unix.Openat(c.proc, c.task+"/fd/"+own, unix.O_PATH|unix.O_CLOEXEC, 0)
			if err != nil {
				return p, -1, failed(err), false
			}
			return c.opened(fd)
		}
		if at.name == "" {
			fd, err := unix.FcntlInt(uintptr(at.dir), unix.F_DUPFD_CLOEXEC, 0)
			if err != nil {
				return p, -1, failed(err), false
			}
			return c.opened(fd)
		}
		p, ok = c.locate(at)
		if c.op != changesMode {
			c.update.opens(p, c.thread)
		}
		if at.dir >= 0 && at.dir != c.paths[0].dir {
			_ = unix.Close(at.dir)
		}
		if !ok {
			p.close()
			return p, -1, p.left(), false
		}
		fd, err := unix.Openat(p.fd, p.base, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == unix.ENOENT {
			return p, -1, outcome{}, true
		}
		var st unix.Stat_t
		if err == nil {
			err = unix.Fstat(fd, &st)
		}
		if err != nil {
			p.close()
			return p, -1, failed(err), false
		}
		if st.Mode&unix.S_IFMT != unix.S_IFLNK || c.exclusive() {
			return p, fd, outcome{}, true
		}
		if c.flags&unix.O_NOFOLLOW != 0 || c.resolve&unix.RESOLVE_NO_SYMLINKS != 0 {
			_ = unix.Close(fd)
			p.close()
			return p, -1, failed(unix.ELOOP), false
		}
		buf := make([]byte, maxPath)
		n, err := unix.Readlinkat(fd, "", buf)
		_ = unix.Close(fd)
		if err != nil || n <= 0 || n == len(buf) {
			p.close()
			return p, -1, outcome{goOn: true, fd: -1}, false
		}
		at = named{dir: p.fd, name: string(buf[:n])}
		if s := c.m.standsFor(at.name); s != nil && c.writes() {
			p.close()
			fd, err := s.reopen(c.flags)
			if err != nil {
				return p, -1, failed(err), false
			}
			return p, -1, outcome{fd: fd}, false
		} else if c.writes() && p.configures() && strings.HasPrefix(at.name, Stages) {
			p.close()
			return p, -1, failed(unix.EBUSY), false // another command writes it
		}
		if at.name[0] == '/' {
			p.close()
			at.dir = -1
		}
	}
	return p, -1, failed(unix.ELOOP), false
}

// opened returns, as find does, a file that the caller has open; of one outside the tree the
// kernel knows what may be done with it.
func (c *creation) opened(f int) (p resolved, file int, o outcome, ok bool) {
	p = resolved{fd: -1}
	if p.path, p.rel, ok = c.m.inside(f); !ok {
		_ = unix.Close(f)
		return p, -1, outcome{goOn: true, fd: -1}, false
	}
	return p, f, o, true
}

// exclusive reports whether the call only makes a file.
func (c *creation) exclusive() bool {
	return c.opens() && c.flags&(unix.O_CREAT|unix.O_EXCL) == unix.O_CREAT|unix.O_EXCL
}

// alter changes the length or mode of a file.
func (c *creation) alter() outcome {
	p, f, o, ok := c.find()
	if !ok {
		return o
	}
	defer p.close()
	if f < 0 {
		return failed(unix.ENOENT)
	}
	defer func() { _ = unix.Close(f) }()
	if c.op == changesLength && p.configures() {
		return failed(unix.EACCES)
	}
	return c.change(p, f)
}

// change makes a call that changes a file that is there.
func (c *creation) change(p resolved, f int) outcome {
	var st unix.Stat_t
	if err := unix.Fstat(f, &st); err != nil {
		return failed(err)
	}
	kind := st.Mode & unix.S_IFMT
	switch {
	case kind == unix.S_IFIFO && c.opens():
		return c.openPipe(f)
	case kind != unix.S_IFREG:
		return outcome{goOn: true, fd: -1} // a directory, device or socket
	case st.Nlink > 1 && p.rel != "" && !c.m.within(&st):
		copied, err := c.separate(p, f, &st)
		if err != nil {
			return failed(err)
		}
		if copied >= 0 {
			defer func() { _ = unix.Close(copied) }()
			f = copied
			c.update.madeAt(p, nil)
		}
	}
	switch c.op {
	case changesMode:
		return outcome{goOn: true, fd: -1}
	case changesLength:
		return failed(unix.Truncate(link(f), c.length))
	}
	fd, err := unix.Open(link(f), c.flags&^(unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW)|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return failed(err)
	}
	return outcome{fd: fd}
}

// link is the path of a descriptor of the calling thread.
func link(fd int) string { return "/proc/thread-self/fd/" + strconv.Itoa(fd) }

// openPipe opens a named pipe. It waits for a reader beside the thread of the Maker.
func (c *creation) openPipe(f int) outcome {
	flags := c.flags&^(unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW) | unix.O_CLOEXEC | unix.O_NONBLOCK
	fd, err := unix.Open(link(f), flags, 0)
	waits := c.flags&unix.O_NONBLOCK == 0
	if err == nil && waits {
		err = unix.SetNonblock(fd, false)
	}
	if err == nil {
		return outcome{fd: fd}
	}
	held, derr := unix.FcntlInt(uintptr(f), unix.F_DUPFD_CLOEXEC, 0)
	if err != unix.ENXIO || !waits || derr != nil {
		return failed(err)
	}
	return outcome{fd: -1, later: func(wanted func() bool) outcome {
		defer func() { _ = unix.Close(held) }()
		for wanted() {
			fd, err := unix.Openat(c.proc, "self/fd/"+strconv.Itoa(held), flags, 0)
			if err == nil {
				err = unix.SetNonblock(fd, false)
			}
			if err == nil {
				return outcome{fd: fd}
			}
			if err != unix.ENXIO {
				return failed(err)
			}
			time.Sleep(pipeWait)
		}
		return failed(unix.EINTR)
	}}
}

// unnamed opens a file without a name in a directory.
func (c *creation) unnamed() outcome {
	at := c.paths[0]
	if at.name == "" {
		return outcome{goOn: true, fd: -1}
	}
	if at.dir < 0 {
		at.dir = unix.AT_FDCWD
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: c.resolve | unix.RESOLVE_NO_MAGICLINKS}
	dir, err := unix.Openat2(at.dir, at.name, &how)
	if err != nil {
		return outcome{goOn: true, fd: -1}
	}
	defer func() { _ = unix.Close(dir) }()
	if _, _, inside := c.m.inside(dir); !inside {
		return outcome{goOn: true, fd: -1}
	}
	fd, err := unix.Openat(dir, ".", c.flags|unix.O_CLOEXEC, c.mode)
	if err != nil {
		return failed(err)
	}
	return outcome{fd: fd}
}

// shared are the names, relative to the root, of files that have several, as a survey found
// them.
type shared struct {
	names map[fileID][]string
	stale bool // names were made since
	began time.Time
	spent time.Duration
}

// within reports whether all names of a file lie below the root. Each is looked at anew: no
// name is made or moved for the command meanwhile.
func (m *Maker) within(st *unix.Stat_t) bool {
	s := &m.shared
	of := identify(st)
	root, err := unix.Open(m.guard.Root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(root) }()
	here := func() bool {
		found := uint64(0)
		for _, name := range s.names[of] {
			how := unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV}
			fd, err := unix.Openat2(root, name, &how)
			if err != nil {
				continue
			}
			var now unix.Stat_t
			if unix.Fstat(fd, &now) == nil && identify(&now) == of {
				found++
			}
			_ = unix.Close(fd)
		}
		return found == uint64(st.Nlink)
	}
	if here() {
		return true
	}
	if s.names != nil && (!s.stale || s.spent > surveyTime+time.Since(s.began)/10) {
		return false
	}
	m.survey()
	return here()
}

// survey finds the names of files that have several.
func (m *Maker) survey() {
	began := time.Now()
	s := &m.shared
	if s.names == nil {
		s.began = began
	}
	s.names, s.stale = map[fileID][]string{}, false
	left := maxSurveyed
	_ = filepath.WalkDir(m.guard.Root, func(path string, d os.DirEntry, err error) error {
		if left--; left < 0 {
			return filepath.SkipAll
		}
		if err != nil {
			return nil // what cannot be read is taken to lie outside
		}
		rel := strings.TrimPrefix(strings.TrimPrefix(path, m.guard.Root), "/")
		if d.IsDir() && (rel == ".git" || rel == ".ralph") {
			return filepath.SkipDir // not the command's
		}
		var st unix.Stat_t
		if d.Type().IsRegular() && unix.Lstat(path, &st) == nil && st.Nlink > 1 {
			of := identify(&st)
			s.names[of] = append(s.names[of], rel)
		}
		return nil
	})
	s.spent += time.Since(began)
}

// separate replaces a file that has names outside the tree by a copy of its own, and returns
// that; -1 where it cannot be written anyway. The caller has the file's content in mind: it is
// left out when the call cuts it off.
func (c *creation) separate(p resolved, f int, st *unix.Stat_t) (copied int, err error) {
	var fs unix.Statfs_t
	if unix.Fstatfs(f, &fs) == nil && fs.Flags&unix.ST_RDONLY != 0 {
		return -1, nil
	}
	if c.op == changesMode {
		if uid := uint32(c.m.last.uid); uid != 0 && uid != st.Uid {
			return -1, nil
		}
	} else {
		w, err := unix.Open(link(f), unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, err
		}
		_ = unix.Close(w) // nothing was written
	}
	if p.fd < 0 {
		return -1, unix.EACCES // the caller has the file open, which no copy replaces
	}
	const longest = 200
	temp := p.base[:min(len(p.base), longest)] + temporary + rand.Text()
	to, err := unix.Openat(p.fd, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return -1, err
	}
	if err = c.fill(to, f, st); err == nil {
		var now unix.Stat_t
		if err = unix.Fstatat(p.fd, p.base, &now, unix.AT_SYMLINK_NOFOLLOW); err == nil && identify(&now) != identify(st) {
			err = unix.EBUSY // another command replaced it
		}
	}
	if err == nil {
		err = unix.Renameat(p.fd, temp, p.fd, p.base)
	}
	if err != nil {
		_ = unix.Close(to)
		_ = unix.Unlinkat(p.fd, temp, 0)
		return -1, err
	}
	return to, nil
}

// fill makes to what the file f is.
func (c *creation) fill(to, f int, st *unix.Stat_t) error {
	from, err := unix.Open(link(f), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(from) }()
	if !c.opens() || c.flags&unix.O_TRUNC == 0 {
		if err := copyData(to, from); err != nil {
			return err
		}
	}
	_ = unix.Fchown(to, int(st.Uid), int(st.Gid)) // where the command may not, it is the owner of the copy
	copyAttributes(to, from)
	if err := unix.Fchmod(to, st.Mode&0o7777); err != nil {
		return err
	}
	times := [2]unix.Timespec{st.Atim, st.Mtim}
	return unix.UtimesNanoAt(unix.AT_FDCWD, link(to), times[:], 0)
}

// copyData copies a file, without its blocks where the file system can.
func copyData(to, from int) error {
	if unix.IoctlFileClone(to, from) == nil {
		return nil
	}
	for {
		n, err := unix.CopyFileRange(from, nil, to, nil, 1<<30, 0)
		switch {
		case err == unix.EINTR:
		case err == unix.EXDEV, err == unix.EINVAL, err == unix.ENOSYS, err == unix.EOPNOTSUPP:
			return copyBytes(to, from)
		case err != nil || n == 0:
			return err
		}
	}
}

// copyBytes copies what copyData has not copied yet.
func copyBytes(to, from int) error {
	buf := make([]byte, 1<<20)
	for {
		n, err := unix.Read(from, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return err
		}
		for part := buf[:n]; len(part) > 0; {
			n, err := unix.Write(to, part)
			if err == unix.EINTR {
				continue
			}
			if err != nil {
				return err
			}
			part = part[n:]
		}
	}
}

// copyAttributes copies the extended attributes that the command may set.
func copyAttributes(to, from int) {
	list, value := make([]byte, 1<<16), make([]byte, 1<<16)
	n, err := unix.Flistxattr(from, list)
	if err != nil || n == 0 {
		return
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list[:n]), "\x00"), "\x00") {
		if n, err := unix.Fgetxattr(from, name, value); err == nil {
			_ = unix.Fsetxattr(to, name, value[:n], 0)
		}
	}
}
