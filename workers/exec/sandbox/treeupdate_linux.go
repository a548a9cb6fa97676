package sandbox

import (
	"bytes"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// treeUpdate is what a command of git, with all processes that it starts, changes from the
// first change that a process by a name of git's makes. When it is
// to change a name that the Guard has, all that it changed is taken back, in the work tree
// and in the git directory, and every further change of it is refused: git itself would go on
// without the name, and leave the rest half done.
type treeUpdate struct {
	holder  int // descriptor of its first process
	pid     int // number of that
	refused bool
	left    *int       // of updates
	touched []*earlier // in their order
	paths   map[string]*earlier
	more    bool // further paths than maxTouched
	// writing are the files that threads have open for writing, until their next call: git
	// has written them then.
	writing map[uint32]*earlier
}

// maxTouched bounds how many paths an update notes, which take 200 bytes each.
const maxTouched = 500_000

// earlier is what was at a path before a treeUpdate changed it.
type earlier struct {
	path string
	own  bool // a place of the command's own, where nobody else makes names
	// of what was there; zero for nothing
	was    fileID
	mode   uint32
	times  [2]unix.Timespec
	open   int          // descriptor of it, or of a copy of what it had; -1 for none
	copied bool         // see open
	target string       // of a link
	made   fileID       // what the update made there last
	done   contentState // what the update left there
}

// contentState is a file as its last writer left it; zero for not known.
type contentState struct {
	changed, modified unix.Timespec
	size              int64
}

func stateOf(st *unix.Stat_t) contentState { return contentState{st.Ctim, st.Mtim, st.Size} }

// fileID identifies a file as long as it exists.
type fileID struct{ dev, ino uint64 }

func identify(st *unix.Stat_t) fileID { return fileID{uint64(st.Dev), st.Ino} }

// maxCopied bounds the size of files that are copied before they are written in place:
// git does that with logs and messages.
const maxCopied = 4 << 20

// updates are those of the processes of one command. Its methods are called on the thread
// of the Maker.
type updates struct {
	list []*treeUpdate
	of   map[uint32]*treeUpdate // by thread, nil for no part of one; as long as list is the same
	left int                    // descriptors that files may still have, set by the first begin
	comm map[uint32]int         // descriptors of the names that threads have, by thread
}

// descriptors returns how many descriptors files may have: half of what the process may open.
func descriptors() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int(min(limit.Cur, 1<<20)) / 2
}

// begin begins the update of a thread's outermost process of git, where it is one of git's.
func (u *updates) begin(proc int, thread uint32) *treeUpdate {
	if !u.isGit(proc, thread) {
		return nil
	}
	at := statusOf(proc, int(thread))
	for range maxGenerations {
		up := statusOf(proc, at.parent)
		if !strings.HasPrefix(up.name, "git") {
			break
		}
		at = up
	}
	fd, err := unix.PidfdOpen(at.process, 0)
	if err != nil {
		return nil // it is gone
	}
	if len(u.list) == 0 {
		u.left = descriptors()
	}
	t := &treeUpdate{holder: fd, pid: at.process, paths: map[string]*earlier{}, writing: map[uint32]*earlier{}, left: &u.left}
	u.list, u.of = append(u.list, t), nil
	return t
}

// isGit reports whether a thread runs a program by a name of git's.
func (u *updates) isGit(proc int, thread uint32) bool {
	var name [3]byte
	fd, known := u.comm[thread]
	if known {
		if n, err := unix.Pread(fd, name[:], 0); err == nil {
			return string(name[:n]) == "git"
		}
		_ = unix.Close(fd) // it is gone, and another has its number
		delete(u.comm, thread)
	}
	fd, err := unix.Openat(proc, strconv.Itoa(int(thread))+"/comm", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false // it is gone
	}
	if u.comm == nil || len(u.comm) == maxOwners {
		u.close()
	}
	u.comm[thread] = fd
	n, _ := unix.Pread(fd, name[:], 0) // as above
	return string(name[:max(n, 0)]) == "git"
}

// close closes the descriptors of isGit.
func (u *updates) close() {
	for _, fd := range u.comm {
		_ = unix.Close(fd) // only read
	}
	u.comm = map[uint32]int{}
}

// maxGenerations bounds how far a process is from the command of git that it belongs to.
const maxGenerations = 64

// at returns the update that a thread is part of; nil for none.
func (u *updates) at(proc int, thread uint32) *treeUpdate {
	if len(u.list) == 0 {
		return nil
	}
	if found, known := u.of[thread]; known && (found == nil || found.alive()) {
		return found
	}
	for _, t := range slices.Clone(u.list) {
		if !t.alive() {
			u.end(t)
		}
	}
	if u.of == nil {
		u.of = map[uint32]*treeUpdate{}
	}
	var found *treeUpdate
	at := statusOf(proc, int(thread))
	for range maxGenerations {
		if i := slices.IndexFunc(u.list, func(t *treeUpdate) bool { return t.pid == at.process }); i >= 0 {
			found = u.list[i]
			break
		}
		if at.parent <= 1 {
			break
		}
		at = statusOf(proc, at.parent)
	}
	u.of[thread] = found
	return found
}

// end forgets an update.
func (u *updates) end(t *treeUpdate) {
	_ = unix.Close(t.holder)
	for _, e := range t.touched {
		if e.open >= 0 {
			_ = unix.Close(e.open)
		}
	}
	u.list, u.of = slices.DeleteFunc(u.list, func(o *treeUpdate) bool { return o == t }), nil
}

// alive reports whether the first process of an update has not ended.
func (t *treeUpdate) alive() bool {
	fds := []unix.PollFd{{Fd: int32(t.holder), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return n == 0 || err != nil
}

// status is what /proc has of a thread; zero where it is gone.
type status struct {
	name            string // of the program, 15 bytes of it
	process, parent int
	owner           owner // without task and read
	whole           bool
}

// statusOf reads status from a descriptor of /proc.
func statusOf(proc, thread int) (s status) {
	fd, err := unix.Openat(proc, strconv.Itoa(thread)+"/status", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return s
	}
	defer func() { _ = unix.Close(fd) }() // only read
	buf := make([]byte, 4096)
	n, _ := unix.Read(fd, buf) // what is gone has no status
	for line := range bytes.Lines(buf[:max(n, 0)]) {
		key, value, _ := strings.Cut(strings.TrimSpace(string(line)), ":\t")
		ofFiles := value[strings.LastIndexByte(value, '\t')+1:] // after the real, effective and saved one
		switch key {
		case "Name":
			s.name = value
		case "Umask":
			umask, _ := strconv.ParseInt(value, 8, 32) // the kernel writes numbers
			s.owner.umask = int(umask)
		case "Tgid":
			s.process, _ = strconv.Atoi(value)
		case "PPid":
			s.parent, _ = strconv.Atoi(value)
		case "Uid":
			s.owner.uid, _ = strconv.Atoi(ofFiles)
		case "Gid":
			s.owner.gid, _ = strconv.Atoi(ofFiles)
			s.whole = true
			return s
		}
	}
	return s
}

// settles notes how a thread left the file that it opened last.
func (t *treeUpdate) settles(thread uint32) {
	if t == nil || t.writing[thread] == nil {
		return
	}
	e := t.writing[thread]
	delete(t.writing, thread)
	if fd, err := openBelow(path.Dir(e.path), false); err == nil {
		var st unix.Stat_t
		if unix.Fstatat(fd, path.Base(e.path), &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			e.done = stateOf(&st)
		}
		_ = unix.Close(fd) // only read
	}
}

// opens notes that a thread opens the file at a place for writing.
func (t *treeUpdate) opens(p resolved, thread uint32) {
	t.touches(p, true)
	if t != nil && t.paths[p.path] != nil && !p.own {
		t.writing[thread] = t.paths[p.path]
	}
}

// touches notes what is at a place that is about to be changed: in place, or by another
// file of its name. Of a path the first time counts.
func (t *treeUpdate) touches(p resolved, inPlace bool) {
	if t == nil || p.fd < 0 || t.paths[p.path] != nil || p.own && strings.Contains(p.path, "/objects/") {
		return
	}
	if t.more = t.more || len(t.touched) == maxTouched; t.more {
		return
	}
	e := &earlier{path: p.path, own: p.own, open: -1}
	var st unix.Stat_t
	if unix.Fstatat(p.fd, p.base, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		e.was, e.mode, e.times = identify(&st), st.Mode, [2]unix.Timespec{st.Atim, st.Mtim}
	}
	switch e.mode & unix.S_IFMT {
	case unix.S_IFREG:
		// Without descriptors left the file is among those that stay changed.
		if *t.left--; *t.left < 0 {
			break
		}
		if fd, err := unix.Openat(p.fd, p.base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err == nil {
			e.open, e.copied = fd, inPlace
		}
		if inPlace {
			e.copy(st.Size)
		}
	case unix.S_IFLNK:
		buf := make([]byte, maxPath)
		n, _ := unix.Readlinkat(p.fd, p.base, buf) // as above
		e.target = string(buf[:max(n, 0)])
	case 0:
	default:
		return
	}
	t.touched = append(t.touched, e)
	t.paths[p.path] = e
}

// copy replaces the descriptor of a file by that of a copy.
func (e *earlier) copy(size int64) {
	from := e.open
	e.open = -1
	if from < 0 {
		return
	}
	defer func() { _ = unix.Close(from) }() // only read
	if size > maxCopied {
		return
	}
	to, err := unix.MemfdCreate("earlier", unix.MFD_CLOEXEC)
	if err != nil {
		return
	}
	if copyData(to, from) != nil {
		_ = unix.Close(to)
		return
	}
	e.open = to
}

// madeAt notes what the Maker made at a place, unless that failed.
func (t *treeUpdate) madeAt(p resolved, err error) {
	var st unix.Stat_t
	if t != nil && err == nil && t.paths[p.path] != nil && unix.Fstatat(p.fd, p.base, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		t.paths[p.path].made, t.paths[p.path].done = identify(&st), contentState{}
	}
}

// takeBack puts back what was there, the last first, and returns the paths of which that
// failed. What others have made or changed meanwhile stays.
func (t *treeUpdate) takeBack() (left []string) {
	for _, e := range slices.Backward(t.touched) {
		if err := e.putBack(); err != nil {
			left = append(left, e.path)
		}
	}
	if t.more {
		left = append(left, "all beyond the first "+strconv.Itoa(maxTouched))
	}
	return left
}

func (e *earlier) putBack() error {
	dir, base := path.Split(e.path)
	fd, err := openBelow(path.Clean(dir), e.was != fileID{})
	if err != nil {
		if err == unix.ENOENT && e.was == (fileID{}) {
			return nil
		}
		return err
	}
	defer func() { _ = unix.Close(fd) }() // only read
	var st unix.Stat_t
	switch err := unix.Fstatat(fd, base, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case err == unix.ENOENT:
	case err != nil:
		return err
	case e.done != contentState{} && e.done != stateOf(&st):
		return unix.EEXIST // somebody wrote to it since
	case e.was == identify(&st) && e.was != e.made:
		if !e.copied {
			return nil // it was not removed
		}
		return e.fill(fd, base, unix.O_TRUNC)
	case !e.own && e.made != identify(&st):
		return nil // somebody else's
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		if err := unix.Unlinkat(fd, base, unix.AT_REMOVEDIR); err == unix.ENOTEMPTY {
			return nil // somebody else's files are in it
		} else if err != nil {
			return err
		}
	default:
		if err := unix.Unlinkat(fd, base, 0); err != nil {
			return err
		}
	}
	switch {
	case e.was == fileID{}:
		return nil
	case e.target != "":
		return unix.Symlinkat(e.target, fd, base)
	}
	return e.fill(fd, base, unix.O_CREAT|unix.O_EXCL)
}

// fill writes what the file had.
func (e *earlier) fill(dir int, base string, flags int) error {
	if e.open < 0 {
		return unix.EMFILE
	}
	mode := e.mode & 0o7777
	fd, err := unix.Openat(dir, base, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|flags, mode)
	if err != nil {
		return err
	}
	if _, err = unix.Seek(e.open, 0, io.SeekStart); err == nil {
		err = copyData(fd, e.open)
	}
	if err == nil {
		err = unix.Fchmod(fd, mode)
	}
	if cerr := unix.Close(fd); err == nil {
		err = cerr
	}
	if err == nil {
		err = unix.UtimesNanoAt(dir, base, e.times[:], unix.AT_SYMLINK_NOFOLLOW)
	}
	return err
}

// openBelow opens a directory by an absolute path that no link is part of; with its
// parents, where they are to be made.
func openBelow(dir string, parents bool) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(unix.AT_FDCWD, dir, &how)
	if err != unix.ENOENT || !parents || dir == "/" {
		return fd, err
	}
	above, err := openBelow(path.Dir(dir), true)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(above) }() // only read
	if err := unix.Mkdirat(above, path.Base(dir), 0o777); err != nil {
		return -1, err
	}
	return unix.Openat2(unix.AT_FDCWD, dir, &how)
}
