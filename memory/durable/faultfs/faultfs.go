// Package faultfs is a filesystem for tests that fails at its n-th operation.
//
// It refuses to be clever: operations are counted in the order in which they
// are made, on files and on the filesystem alike, and Close always closes.
//
//	f := faultfs.New(afero.NewMemMapFs())
//	f.FailAt(3, syscall.ENOSPC)
//	err := durable.Replace(f, "a", data, 0o600) // the third operation fails
package faultfs

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/spf13/afero"
)

// FS wraps a filesystem. It is safe for concurrent use.
type FS struct {
	base afero.Fs

	mu     sync.Mutex
	ops    []string
	at     int // 1-based; 0 = never
	err    error
	sticky bool
}

// New returns an FS that does not fail until told to.
func New(base afero.Fs) *FS { return &FS{base: base} }

// FailAt makes the n-th operation from now on, counted from 1, fail with err;
// later ones work again. A failing write writes half of its data first.
func (f *FS) FailAt(n int, err error) { f.set(n, err, false) }

// FailFrom makes the n-th operation from now on and all later ones fail.
func (f *FS) FailFrom(n int, err error) { f.set(n, err, true) }

func (f *FS) set(n int, err error, sticky bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ops, f.at, f.err, f.sticky = nil, n, err, sticky
}

// Ops returns what was done since New, FailAt or FailFrom, such as
// "rename a b".
func (f *FS) Ops() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.ops...)
}

func (f *FS) step(op, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ops = append(f.ops, op+" "+name)
	if n := len(f.ops); f.at > 0 && (n == f.at || f.sticky && n > f.at) {
		return &os.PathError{Op: op, Path: name, Err: f.err}
	}
	return nil
}

var (
	_ afero.Fs      = (*FS)(nil)
	_ afero.Lstater = (*FS)(nil)
)

// Name names the filesystem.
func (f *FS) Name() string { return fmt.Sprintf("faultfs(%s)", f.base.Name()) }

// Create implements afero.Fs.
func (f *FS) Create(name string) (afero.File, error) {
	return f.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// Open implements afero.Fs.
func (f *FS) Open(name string) (afero.File, error) { return f.OpenFile(name, os.O_RDONLY, 0) }

// OpenFile implements afero.Fs.
func (f *FS) OpenFile(name string, flag int, perm os.FileMode) (afero.File, error) {
	if err := f.step("open", name); err != nil {
		return nil, err
	}
	h, err := f.base.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &file{File: h, fs: f}, nil
}

// Mkdir implements afero.Fs.
func (f *FS) Mkdir(name string, perm os.FileMode) error {
	if err := f.step("mkdir", name); err != nil {
		return err
	}
	return f.base.Mkdir(name, perm)
}

// MkdirAll implements afero.Fs.
func (f *FS) MkdirAll(name string, perm os.FileMode) error {
	if err := f.step("mkdirall", name); err != nil {
		return err
	}
	return f.base.MkdirAll(name, perm)
}

// Remove implements afero.Fs.
func (f *FS) Remove(name string) error {
	if err := f.step("remove", name); err != nil {
		return err
	}
	return f.base.Remove(name)
}

// RemoveAll implements afero.Fs.
func (f *FS) RemoveAll(name string) error {
	if err := f.step("removeall", name); err != nil {
		return err
	}
	return f.base.RemoveAll(name)
}

// Rename implements afero.Fs.
func (f *FS) Rename(from, to string) error {
	if err := f.step("rename", from+" "+to); err != nil {
		return err
	}
	return f.base.Rename(from, to)
}

// Stat implements afero.Fs.
func (f *FS) Stat(name string) (os.FileInfo, error) {
	if err := f.step("stat", name); err != nil {
		return nil, err
	}
	return f.base.Stat(name)
}

// LstatIfPossible implements afero.Lstater.
func (f *FS) LstatIfPossible(name string) (os.FileInfo, bool, error) {
	if err := f.step("lstat", name); err != nil {
		return nil, true, err
	}
	if l, ok := f.base.(afero.Lstater); ok {
		return l.LstatIfPossible(name)
	}
	info, err := f.base.Stat(name)
	return info, false, err
}

// Chmod implements afero.Fs.
func (f *FS) Chmod(name string, mode os.FileMode) error {
	if err := f.step("chmod", name); err != nil {
		return err
	}
	return f.base.Chmod(name, mode)
}

// Chown implements afero.Fs.
func (f *FS) Chown(name string, uid, gid int) error {
	if err := f.step("chown", name); err != nil {
		return err
	}
	return f.base.Chown(name, uid, gid)
}

// Chtimes implements afero.Fs.
func (f *FS) Chtimes(name string, atime, mtime time.Time) error {
	if err := f.step("chtimes", name); err != nil {
		return err
	}
	return f.base.Chtimes(name, atime, mtime)
}

// file counts the operations on an open file.
type file struct {
	afero.File
	fs *FS
}

func (h *file) Read(p []byte) (int, error) {
	if err := h.fs.step("read", h.Name()); err != nil {
		return 0, err
	}
	return h.File.Read(p)
}

func (h *file) ReadAt(p []byte, off int64) (int, error) {
	if err := h.fs.step("read", h.Name()); err != nil {
		return 0, err
	}
	return h.File.ReadAt(p, off)
}

func (h *file) Write(p []byte) (int, error) {
	if err := h.fs.step("write", h.Name()); err != nil {
		n, werr := h.File.Write(p[:len(p)/2])
		if werr != nil {
			return n, werr
		}
		return n, err
	}
	return h.File.Write(p)
}

func (h *file) WriteString(s string) (int, error) { return h.Write([]byte(s)) }

func (h *file) WriteAt(p []byte, off int64) (int, error) {
	if err := h.fs.step("write", h.Name()); err != nil {
		return 0, err
	}
	return h.File.WriteAt(p, off)
}

func (h *file) Truncate(size int64) error {
	if err := h.fs.step("truncate", h.Name()); err != nil {
		return err
	}
	return h.File.Truncate(size)
}

func (h *file) Sync() error {
	if err := h.fs.step("sync", h.Name()); err != nil {
		return err
	}
	return h.File.Sync()
}

func (h *file) Stat() (os.FileInfo, error) {
	if err := h.fs.step("fstat", h.Name()); err != nil {
		return nil, err
	}
	return h.File.Stat()
}

func (h *file) Close() error {
	err := h.fs.step("close", h.Name())
	if cerr := h.File.Close(); cerr != nil {
		return cerr
	}
	return err
}
