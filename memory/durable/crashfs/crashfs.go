// Package crashfs is a filesystem in memory, for tests, that knows what was
// synced: from what was done on it, it makes the disks that a power cut could
// have left, as filesystems of their own.
//
// # The model
//
// Files. What was in a file at its last sync is there. Of what was done to it
// since, any part may be: nothing; all; the first operations, the last of them
// torn at any byte; or any blocks of 512 or 4096 bytes, in any order, while the
// size may be ahead of the data, and where the data is missing there are zeros.
// Sizes change in order.
//
// Directories. Creating, removing and renaming are kept when the directory was
// synced since; of those after its last sync any subset may be kept, in the
// same directory too. A rename, an exchange and a rename between directories
// are each one transaction, kept or lost as a whole, as on ext4, xfs, btrfs and
// f2fs; it is kept as soon as either directory was synced. POSIX promises no
// order between entries, so that a rename may be on disk before the file's data
// and before the creation of the file next to it. A file's sync does not make
// its entry durable. Of the disks a part is drawn as a filesystem with one
// ordered metadata journal makes them (ext4: all operations on directories up to
// some moment, and none after), since that is what most users have.
//
// Modes, owners and times are durable at once: nothing in Ralph rests on them.
//
// A sync can be made to fail: see FS.FailSync. It refuses to simulate a disk that
// lies about a sync, or that damages what was synced. There are no links and no permissions.
//
//	fsys := crashfs.New()
//	err := durable.Replace(fsys, "/f", data, 0o600)
//	disk := fsys.Image(fsys.Len(), 1) // a *crashfs.FS: read /f from it
//
// Sweep does that at every operation of a scenario.
package crashfs

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/afero"
)

// FS is a filesystem in memory. It is safe for concurrent use.
type FS struct {
	mu     sync.Mutex
	root   *node
	next   uint64 // the next inode number
	record bool
	from   *disk // what was there when recording began
	log    []op
	fails  int // which sync from now on fails; 0 is none
	fault  error
}

// node is a file or a directory. Its data may be shared with other
// filesystems, and is copied before it is written over.
type node struct {
	ino    uint64
	mode   fs.FileMode
	mtime  time.Time
	data   []byte
	shared int // up to here
	names  map[string]*node
}

// New returns an empty filesystem that records what is done on it.
func New() *FS {
	f := &FS{root: &node{ino: 1, mode: fs.ModeDir | 0o755, names: map[string]*node{}}, next: 2}
	f.Record()
	return f
}

// Record forgets what was done so far and takes all that is there as durable.
// An image does not record until it is told to: then it can be swept itself, for
// a second power cut during the recovery from the first.
func (f *FS) Record() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.record, f.log = true, nil
	f.from = snapshot(f.root)
}

// FailSync makes the n-th sync from now on, counted from 1, fail with err, as a
// disk does that cannot write: what was not on disk by then is there for who
// reads it now, but no later sync brings it to disk, nor says so. With n 0 none
// fails any more.
func (f *FS) FailSync(n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails, f.fault = n, err
}

// Len returns how many operations were recorded.
func (f *FS) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.log)
}

// Ack records that the caller of what was done so far has been told that it is
// durable: every later image must have it.
func (f *FS) Ack(what string) { f.add(op{kind: opAck, name: what}) }

func (f *FS) add(o op) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.addLocked(o)
}

func (f *FS) addLocked(o op) {
	if f.record {
		f.log = append(f.log, o)
	}
}

var (
	_ afero.Fs      = (*FS)(nil)
	_ afero.Lstater = (*FS)(nil)
)

// Name names the filesystem.
func (f *FS) Name() string { return "crashfs" }

// clean makes a path absolute.
func clean(name string) string { return path.Clean("/" + filepath.ToSlash(name)) }

// find returns the node at a path, with the directory that it stands in.
func (f *FS) find(name string) (dir, n *node, base string, err error) {
	name = clean(name)
	if name == "/" {
		return nil, f.root, "/", nil
	}
	dir = f.root
	parent, base := path.Split(name)
	for part := range strings.SplitSeq(strings.Trim(parent, "/"), "/") {
		if part == "" {
			continue
		}
		next := dir.names[part]
		if next == nil {
			return nil, nil, base, syscall.ENOENT
		}
		if next.names == nil {
			return nil, nil, base, syscall.ENOTDIR
		}
		dir = next
	}
	return dir, dir.names[base], base, nil
}

func pathError(op, name string, err error) error {
	return &os.PathError{Op: op, Path: name, Err: err}
}

// Create implements afero.Fs.
func (f *FS) Create(name string) (afero.File, error) {
	return f.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// Open implements afero.Fs.
func (f *FS) Open(name string) (afero.File, error) { return f.OpenFile(name, os.O_RDONLY, 0) }

// OpenFile implements afero.Fs.
func (f *FS) OpenFile(name string, flag int, perm os.FileMode) (afero.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, n, base, err := f.find(name)
	write := flag&(os.O_WRONLY|os.O_RDWR) != 0
	switch {
	case err != nil:
	case n == nil && flag&os.O_CREATE == 0:
		err = syscall.ENOENT
	case n == nil:
		n = f.make(perm.Perm())
		f.link(dir, base, n)
	case flag&os.O_CREATE != 0 && flag&os.O_EXCL != 0:
		err = syscall.EEXIST
	case n.names != nil && (write || flag&os.O_CREATE != 0):
		err = syscall.EISDIR
	case n.names == nil && flag&os.O_TRUNC != 0 && len(n.data) > 0:
		f.truncate(n, 0)
	}
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &file{fs: f, n: n, name: name, flag: flag}, nil
}

func (f *FS) make(mode fs.FileMode) *node {
	n := &node{ino: f.next, mode: mode, mtime: time.Now()}
	f.next++
	if mode.IsDir() {
		n.names = map[string]*node{}
	}
	return n
}

func (f *FS) link(dir *node, base string, n *node) {
	dir.names[base] = n
	dir.mtime = time.Now()
	f.addLocked(op{kind: opLink, dir: dir.ino, name: base, ino: n.ino, mode: n.mode})
}

// Mkdir implements afero.Fs.
func (f *FS) Mkdir(name string, perm os.FileMode) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, n, base, err := f.find(name)
	if err == nil && n != nil {
		err = syscall.EEXIST
	}
	if err != nil {
		return pathError("mkdir", name, err)
	}
	f.link(dir, base, f.make(fs.ModeDir|perm.Perm()))
	return nil
}

// MkdirAll implements afero.Fs.
func (f *FS) MkdirAll(name string, perm os.FileMode) error {
	name = clean(name)
	for i := 1; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			continue
		}
		info, err := f.Stat(name[:i])
		if err == nil && !info.IsDir() {
			return pathError("mkdir", name, syscall.ENOTDIR)
		}
		if err == nil {
			continue
		}
		if err := f.Mkdir(name[:i], perm); err != nil && !os.IsExist(err) {
			return err
		}
	}
	return nil
}

// Remove implements afero.Fs.
func (f *FS) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, n, base, err := f.find(name)
	switch {
	case err != nil:
	case n == nil:
		err = syscall.ENOENT
	case dir == nil:
		err = syscall.EBUSY
	case len(n.names) > 0:
		err = syscall.ENOTEMPTY
	}
	if err != nil {
		return pathError("remove", name, err)
	}
	f.unlink(dir, base)
	return nil
}

func (f *FS) unlink(dir *node, base string) {
	delete(dir.names, base)
	dir.mtime = time.Now()
	f.addLocked(op{kind: opUnlink, dir: dir.ino, name: base})
}

// RemoveAll implements afero.Fs.
func (f *FS) RemoveAll(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, n, base, err := f.find(name)
	if err != nil || n == nil {
		return nil
	}
	f.empty(n)
	if dir != nil {
		f.unlink(dir, base)
	}
	return nil
}

func (f *FS) empty(n *node) {
	for _, name := range sorted(n.names) {
		f.empty(n.names[name])
		f.unlink(n, name)
	}
}

func sorted(names map[string]*node) []string {
	all := make([]string, 0, len(names))
	for name := range names {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// Rename implements afero.Fs.
func (f *FS) Rename(from, to string) error { return f.rename(from, to, opRename, false) }

// Exchange swaps what stands at two names, atomically.
func (f *FS) Exchange(a, b string) error { return f.rename(a, b, opExchange, false) }

// RenameNoReplace is Rename to a name at which there is nothing.
func (f *FS) RenameNoReplace(from, to string) error { return f.rename(from, to, opRename, true) }

func (f *FS) rename(from, to string, kind opKind, keep bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	d1, n1, b1, err := f.find(from)
	d2, n2, b2, err2 := f.find(to)
	switch {
	case err != nil:
	case err2 != nil:
		err = err2
	case d1 == nil || d2 == nil:
		err = syscall.EBUSY
	case n1 == nil || n2 == nil && kind == opExchange:
		err = syscall.ENOENT
	case n2 != nil && keep:
		err = syscall.EEXIST
	case n2 == nil || kind == opExchange:
	case n2.names != nil:
		err = syscall.EEXIST // as os.Rename says
	case n1.names != nil:
		err = syscall.ENOTDIR
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	if n1 == n2 {
		return nil
	}
	o := op{kind: kind, dir: d1.ino, name: b1, ino: n1.ino, dir2: d2.ino, name2: b2}
	if kind == opExchange {
		d1.names[b1], o.ino2 = n2, n2.ino
	} else {
		delete(d1.names, b1)
	}
	d2.names[b2] = n1
	f.addLocked(o)
	return nil
}

// Stat implements afero.Fs.
func (f *FS) Stat(name string) (os.FileInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, n, base, err := f.find(name)
	if err == nil && n == nil {
		err = syscall.ENOENT
	}
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return n.info(base), nil
}

// LstatIfPossible implements afero.Lstater.
func (f *FS) LstatIfPossible(name string) (os.FileInfo, bool, error) {
	info, err := f.Stat(name)
	return info, true, err
}

// change changes what is known of a node, durably.
func (f *FS) change(op, name string, to func(n *node)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, n, _, err := f.find(name)
	if err == nil && n == nil {
		err = syscall.ENOENT
	}
	if err != nil {
		return pathError(op, name, err)
	}
	to(n)
	return nil
}

// Chmod implements afero.Fs.
func (f *FS) Chmod(name string, mode os.FileMode) error {
	return f.change("chmod", name, func(n *node) {
		n.mode = n.mode.Type() | mode.Perm()
		f.addLocked(op{kind: opMode, ino: n.ino, mode: n.mode})
	})
}

// Chown implements afero.Fs; all files are the user's.
func (f *FS) Chown(name string, _, _ int) error {
	return f.change("chown", name, func(*node) {})
}

// Chtimes implements afero.Fs.
func (f *FS) Chtimes(name string, _, mtime time.Time) error {
	return f.change("chtimes", name, func(n *node) { n.mtime = mtime })
}
