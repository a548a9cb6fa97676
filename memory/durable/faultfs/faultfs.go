// Package faultfs is a filesystem for tests that fails where it is told to: at
// its n-th operation, at operations of one kind, on one path; once or from then
// on; with any error, and in a write after any number of bytes.
//
// It refuses to be clever: operations are counted in the order in which they
// are made, on files and on the filesystem alike, and Close always closes.
//
//	f := faultfs.New(afero.NewMemMapFs())
//	f.FailAt(3, syscall.ENOSPC)
//	err := durable.Replace(f, "a", data, 0o600) // the third operation fails
//
// Sweep runs a scenario once for every operation and every fault.
package faultfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/afero"

	"ralph/memory/durable/rename"
)

// FS wraps a filesystem. It is safe for concurrent use.
type FS struct {
	base afero.Fs

	mu     sync.Mutex
	ops    []string
	fault  Fault
	hits   int // operations that matched the fault
	fired  int
	sites  map[string]int
	shrunk []string
}

// Fault says which operations fail, and how. The zero value fails nothing.
type Fault struct {
	// At is which of the matching operations fails, counted from 1; 0 is none.
	At int
	// Sticky makes all matching ones after it fail too.
	Sticky bool
	// Ops are the kinds that match, such as "write"; none is all of them: open,
	// mkdir, mkdirall, remove, removeall, rename, exchange, stat, lstat, chmod,
	// chown, chtimes, and on open files read, readdir, write, truncate, sync,
	// fstat, close.
	Ops []string
	// Path is a part of the paths that match; empty matches all.
	Path string
	// Err is what a failing operation returns, within a *os.PathError.
	Err error
	// Bytes is how much of its data a failing write writes; a negative number
	// counts from its end. Zero writes half of it, unless Nothing is set.
	Bytes int
	// Nothing makes a failing write write nothing at all.
	Nothing bool
}

// New returns an FS that does not fail until told to.
func New(base afero.Fs) *FS { return &FS{base: base, sites: map[string]int{}} }

// FailAt makes the n-th operation from now on, counted from 1, fail with err;
// later ones work again. A failing write writes half of its data first.
func (f *FS) FailAt(n int, err error) { f.Inject(Fault{At: n, Err: err}) }

// FailFrom makes the n-th operation from now on and all later ones fail.
func (f *FS) FailFrom(n int, err error) { f.Inject(Fault{At: n, Err: err, Sticky: true}) }

// Inject begins to count the operations anew and makes those fail that fault
// names, in the place of any fault before.
func (f *FS) Inject(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ops, f.hits, f.fired, f.fault = nil, 0, 0, fault
}

// Heal ends all faults; it goes on counting.
func (f *FS) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault.At = 0
}

// Fired returns how many operations have failed since the last Inject.
func (f *FS) Fired() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fired
}

// Ops returns what was done since New or the last Inject, such as "rename a b".
func (f *FS) Ops() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.ops)
}

// Sites returns the distinct operations since New, such as "rename
// /p/.f.*.tmp /p/f", sorted; the letters of temporary files are left out.
func (f *FS) Sites() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for site := range f.sites {
		all = append(all, site)
	}
	slices.Sort(all)
	return all
}

// Shrunk returns the files, since New, that were made shorter in place: by
// Truncate, or by an open that truncates.
func (f *FS) Shrunk() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.shrunk)
}

// step counts an operation, and tells whether it is to fail.
func (f *FS) step(op, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ops = append(f.ops, op+" "+name)
	f.sites[op+" "+site(name)]++
	if f.fault.At == 0 || len(f.fault.Ops) > 0 && !slices.Contains(f.fault.Ops, op) || !strings.Contains(name, f.fault.Path) {
		return nil
	}
	f.hits++
	if f.hits == f.fault.At || f.fault.Sticky && f.hits > f.fault.At {
		f.fired++
		return &os.PathError{Op: op, Path: name, Err: f.fault.Err}
	}
	return nil
}

// site leaves out of a name what differs from run to run: the letters before
// ".tmp".
func site(name string) string {
	paths := strings.Split(name, " ")
	for i, p := range paths {
		dir, base := filepath.Split(p)
		if parts := strings.Split(base, "."); len(parts) > 2 && parts[len(parts)-1] == "tmp" {
			parts[len(parts)-2] = "*"
			paths[i] = dir + strings.Join(parts, ".")
		}
	}
	return strings.Join(paths, " ")
}

// shrink notes that a file gets shorter in place.
func (f *FS) shrink(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shrunk = append(f.shrunk, name)
}

// part is how much of n bytes a failing write writes.
func (f *FS) part(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch b := f.fault.Bytes; {
	case f.fault.Nothing:
		return 0
	case b == 0:
		return n / 2
	case b < 0:
		return max(0, n+b)
	default:
		return min(b, n)
	}
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
	if flag&os.O_TRUNC != 0 {
		if info, err := f.base.Stat(name); err == nil && info.Size() > 0 {
			f.shrink(name)
		}
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

// exchanger is what the filesystem underneath may implement.
type exchanger interface {
	Exchange(a, b string) error
	RenameNoReplace(from, to string) error
}

// Exchange swaps what stands at two names, where the filesystem underneath can.
func (f *FS) Exchange(a, b string) error {
	return f.exchange("exchange", a, b, rename.Exchange, exchanger.Exchange)
}

// RenameNoReplace renames from to to when there is nothing there, where the
// filesystem underneath can.
func (f *FS) RenameNoReplace(from, to string) error {
	return f.exchange("rename", from, to, rename.NoReplace, exchanger.RenameNoReplace)
}

func (f *FS) exchange(op, a, b string, real func(a, b string) error, other func(x exchanger, a, b string) error) error {
	x, ok := f.base.(exchanger)
	_, disk := f.base.(*afero.OsFs)
	if !ok && !disk {
		return errors.ErrUnsupported
	}
	if err := f.step(op, a+" "+b); err != nil {
		return err
	}
	if disk {
		return real(a, b)
	}
	return other(x, a, b)
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
	return h.write(p, h.File.Write)
}

func (h *file) WriteAt(p []byte, off int64) (int, error) {
	return h.write(p, func(p []byte) (int, error) { return h.File.WriteAt(p, off) })
}

func (h *file) WriteString(s string) (int, error) { return h.Write([]byte(s)) }

// write writes what a failing write leaves, or all.
func (h *file) write(p []byte, to func([]byte) (int, error)) (int, error) {
	err := h.fs.step("write", h.Name())
	if err == nil {
		return to(p)
	}
	if n := h.fs.part(len(p)); n > 0 {
		done, werr := to(p[:n])
		return done, errors.Join(err, werr)
	}
	return 0, err
}

func (h *file) Readdir(n int) ([]os.FileInfo, error) {
	if err := h.fs.step("readdir", h.Name()); err != nil {
		return nil, err
	}
	return h.File.Readdir(n)
}

func (h *file) Readdirnames(n int) ([]string, error) {
	if err := h.fs.step("readdir", h.Name()); err != nil {
		return nil, err
	}
	return h.File.Readdirnames(n)
}

func (h *file) Truncate(size int64) error {
	if err := h.fs.step("truncate", h.Name()); err != nil {
		return err
	}
	if info, err := h.File.Stat(); err == nil && info.Size() > size {
		h.fs.shrink(h.Name())
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
