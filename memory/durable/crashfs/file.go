package crashfs

import (
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"
	"time"
)

// info is a node as it was when it was asked for.
type info struct {
	name  string
	ino   uint64
	size  int64
	mode  fs.FileMode
	mtime time.Time
}

func (n *node) info(name string) info {
	return info{name: name, ino: n.ino, size: int64(len(n.data)), mode: n.mode, mtime: n.mtime}
}

// Name implements fs.FileInfo.
func (i info) Name() string { return i.name }

// Size implements fs.FileInfo.
func (i info) Size() int64 { return i.size }

// Mode implements fs.FileInfo.
func (i info) Mode() fs.FileMode { return i.mode }

// ModTime implements fs.FileInfo.
func (i info) ModTime() time.Time { return i.mtime }

// IsDir implements fs.FileInfo.
func (i info) IsDir() bool { return i.mode.IsDir() }

// Sys gives the inode number, as the real disk does.
func (i info) Sys() any {
	return &syscall.Stat_t{Ino: i.ino, Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid())}
}

// put writes data at an offset.
func (n *node) put(data []byte, off int) {
	n.mtime = time.Now()
	if end := off + len(data); end > len(n.data) {
		n.grow(end)
	}
	if off < n.shared {
		n.data, n.shared = slices.Clone(n.data), 0
	}
	copy(n.data[off:], data)
}

// grow makes the data longer, with zeros.
func (n *node) grow(size int) {
	old := len(n.data)
	if size > cap(n.data) {
		n.shared = 0 // it moves
	}
	n.data = slices.Grow(n.data, size-old)[:size]
	clear(n.data[old:])
}

// cut makes the data shorter. What is behind may be shared: it is not used
// again.
func (n *node) cut(size int) {
	n.mtime = time.Now()
	n.data = n.data[:size:size]
}

// share returns the data for another filesystem to hold.
func (n *node) share() []byte {
	n.shared = len(n.data)
	return n.data[:len(n.data):len(n.data)]
}

// write and truncate are recorded.
func (f *FS) write(n *node, data []byte, off int) {
	n.put(data, off)
	if f.record {
		f.addLocked(op{kind: opWrite, ino: n.ino, off: off, data: slices.Clone(data)})
	}
}

func (f *FS) truncate(n *node, size int) {
	if size < len(n.data) {
		n.cut(size)
	} else {
		n.grow(size)
	}
	f.addLocked(op{kind: opTruncate, ino: n.ino, off: size})
}

// file is an open file or directory.
type file struct {
	fs     *FS
	n      *node
	name   string
	flag   int
	off    int
	closed bool
	listed []string // what Readdir has yet to give; nil before the first
	begun  bool
}

// enter locks the filesystem for an operation on an open file.
func (h *file) enter(op string) (func(), error) {
	h.fs.mu.Lock()
	if h.closed {
		h.fs.mu.Unlock()
		return nil, pathError(op, h.name, fs.ErrClosed)
	}
	return h.fs.mu.Unlock, nil
}

// Name implements afero.File.
func (h *file) Name() string { return h.name }

// Close implements afero.File.
func (h *file) Close() error {
	leave, err := h.enter("close")
	if err != nil {
		return err
	}
	defer leave()
	h.closed = true
	return nil
}

// Read implements afero.File.
func (h *file) Read(p []byte) (int, error) {
	leave, err := h.enter("read")
	if err != nil {
		return 0, err
	}
	defer leave()
	n, err := h.read(p, h.off)
	h.off += n
	return n, err
}

// ReadAt implements afero.File.
func (h *file) ReadAt(p []byte, off int64) (int, error) {
	leave, err := h.enter("read")
	if err != nil {
		return 0, err
	}
	defer leave()
	n, err := h.read(p, int(off))
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

func (h *file) read(p []byte, off int) (int, error) {
	switch {
	case len(p) == 0:
		return 0, nil
	case h.n.names != nil:
		return 0, pathError("read", h.name, syscall.EISDIR)
	case h.flag&os.O_WRONLY != 0:
		return 0, pathError("read", h.name, syscall.EBADF)
	case off < 0:
		return 0, pathError("read", h.name, syscall.EINVAL)
	case off >= len(h.n.data):
		return 0, io.EOF
	}
	return copy(p, h.n.data[off:]), nil
}

// Seek implements afero.File.
func (h *file) Seek(offset int64, whence int) (int64, error) {
	leave, err := h.enter("seek")
	if err != nil {
		return 0, err
	}
	defer leave()
	at := int(offset)
	switch whence {
	case io.SeekCurrent:
		at += h.off
	case io.SeekEnd:
		at += len(h.n.data)
	}
	if at < 0 {
		return 0, pathError("seek", h.name, syscall.EINVAL)
	}
	h.off, h.begun = at, false
	return int64(at), nil
}

// Write implements afero.File.
func (h *file) Write(p []byte) (int, error) {
	leave, err := h.writing("write")
	if err != nil {
		return 0, err
	}
	defer leave()
	if h.flag&os.O_APPEND != 0 {
		h.off = len(h.n.data)
	}
	h.fs.write(h.n, p, h.off)
	h.off += len(p)
	return len(p), nil
}

// WriteAt implements afero.File.
func (h *file) WriteAt(p []byte, off int64) (int, error) {
	leave, err := h.writing("write")
	if err != nil {
		return 0, err
	}
	defer leave()
	if off < 0 || h.flag&os.O_APPEND != 0 {
		return 0, pathError("write", h.name, syscall.EINVAL)
	}
	h.fs.write(h.n, p, int(off))
	return len(p), nil
}

// WriteString implements afero.File.
func (h *file) WriteString(s string) (int, error) { return h.Write([]byte(s)) }

// Truncate implements afero.File.
func (h *file) Truncate(size int64) error {
	leave, err := h.writing("truncate")
	if err != nil {
		return err
	}
	defer leave()
	if size < 0 {
		return pathError("truncate", h.name, syscall.EINVAL)
	}
	h.fs.truncate(h.n, int(size))
	return nil
}

func (h *file) writing(op string) (func(), error) {
	leave, err := h.enter(op)
	if err == nil && h.flag&(os.O_WRONLY|os.O_RDWR) == 0 {
		leave()
		return nil, pathError(op, h.name, syscall.EBADF)
	}
	return leave, err
}

// Sync makes the file, or the entries of the directory, durable.
func (h *file) Sync() error {
	leave, err := h.enter("sync")
	if err != nil {
		return err
	}
	defer leave()
	if h.fs.fails--; h.fs.fails == 0 {
		h.fs.addLocked(op{kind: opLost, ino: h.n.ino})
		return pathError("sync", h.name, h.fs.fault)
	}
	h.fs.fails = max(h.fs.fails, 0)
	h.fs.addLocked(op{kind: opSync, ino: h.n.ino})
	return nil
}

// Stat implements afero.File.
func (h *file) Stat() (os.FileInfo, error) {
	leave, err := h.enter("stat")
	if err != nil {
		return nil, err
	}
	defer leave()
	return h.n.info(path.Base(clean(h.name))), nil
}

// Readdir implements afero.File, in the order of names.
func (h *file) Readdir(count int) ([]os.FileInfo, error) {
	leave, err := h.enter("readdir")
	if err != nil {
		return nil, err
	}
	defer leave()
	if h.n.names == nil {
		return nil, pathError("readdir", h.name, syscall.ENOTDIR)
	}
	if !h.begun {
		h.listed, h.begun = sorted(h.n.names), true
	}
	var all []os.FileInfo
	for len(h.listed) > 0 && (count <= 0 || len(all) < count) {
		if n := h.n.names[h.listed[0]]; n != nil {
			all = append(all, n.info(h.listed[0]))
		}
		h.listed = h.listed[1:]
	}
	if count > 0 && len(all) == 0 {
		return nil, io.EOF
	}
	return all, nil
}

// Readdirnames implements afero.File.
func (h *file) Readdirnames(count int) ([]string, error) {
	infos, err := h.Readdir(count)
	names := make([]string, len(infos))
	for i, info := range infos {
		names[i] = info.Name()
	}
	return names, err
}
