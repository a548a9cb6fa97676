// Package durable writes files so that a crash, a full disk or a power cut
// never costs what was already there: durable replacement of whole files, logs
// of one record a line, and JSON lists that are appended to in constant time.
//
// It works on any afero.Fs, so that the same code runs on the real disk, in
// memory, on the failing filesystem of durable/faultfs, and on that of
// durable/crashfs, which forgets what was not synced. It follows no link and
// truncates no file in place, but for the torn tail of a log or a list once that
// is safe elsewhere. What a sync failed on, a file or a directory, is not synced
// again but written anew.
//
//	err := durable.Replace(fs, "RALPH_TASKS.md", data, 0o644)
//	// err == nil: the new content is on disk; otherwise the old or the new
//	// content is, whole, and errors.As gives a *durable.Error with a hint.
package durable

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/afero"
)

// openFlags keep an open from following a link or waiting for the other end of
// a FIFO that was put there after the check.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// Replace makes data the content of path: a temporary file in the same
// directory is written, synced and renamed over it, and the directory is
// synced. An existing file keeps its mode and, where permitted, its owner; a
// new one gets perm, less the umask. Links, directories and special files are
// refused with ErrSymlink and ErrNotRegular.
//
// After an error the old or the new content is there, whole.
func Replace(fsys afero.Fs, path string, data []byte, perm fs.FileMode) error {
	return replace(fsys, path, data, perm, func() error { return nil }, fsys.Rename)
}

// replace asks ready, when the temporary file is on disk and only the rename is
// left, whether it is still to be done, and rename to do it.
func replace(fsys afero.Fs, path string, data []byte, perm fs.FileMode, ready func() error, rename func(temp, path string) error) error {
	const op = "replace"
	old, err := Lstat(fsys, path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(op, path, fsys, err)
	}
	if old != nil {
		if err := regular(old); err != nil {
			return fail(op, path, fsys, err)
		}
		perm = old.Mode().Perm()
	}
	dir, base := filepath.Split(path)
	temp := filepath.Join(dir, "."+base+"."+rand.Text()[:tempLetters]+".tmp")
	if err := writeTemp(fsys, temp, data, perm, old); err != nil {
		// The temporary file may not exist; what counts is the first error.
		_ = fsys.Remove(temp)
		return fail(op, path, fsys, err)
	}
	err = ready()
	if err == nil {
		err = rename(temp, path)
	}
	if err != nil {
		if !errors.Is(err, errKept) {
			_ = fsys.Remove(temp)
		}
		return fail(op, path, fsys, err)
	}
	return fail(op, path, fsys, SyncDir(fsys, filepath.Dir(path)))
}

// Rewrite makes data the content of path by a rename, without a sync: it is for
// what is derived from other files and made again after a power cut. Whatever has
// the name is replaced, a link itself and not what it leads to; a directory is an
// error.
func Rewrite(fsys afero.Fs, path string, data []byte, perm fs.FileMode) error {
	dir, base := filepath.Split(path)
	temp := filepath.Join(dir, "."+base+"."+rand.Text()[:tempLetters]+".tmp")
	f, err := fsys.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err == nil {
		_, err = f.Write(data)
		err = errors.Join(err, f.Close())
		if err == nil {
			err = fsys.Rename(temp, path)
		}
		if err != nil {
			_ = fsys.Remove(temp) // what counts is the first error
		}
	}
	return fail("write", path, fsys, err)
}

func writeTemp(fsys afero.Fs, temp string, data []byte, perm fs.FileMode, old fs.FileInfo) error {
	f, err := fsys.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && old != nil {
		err = keepOwner(fsys, f, temp, old)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// keepOwner gives the temporary file the owner and the mode of the file that
// it will replace. The mode must be kept; the owner is kept where permitted,
// which matters when root works in a user's project.
func keepOwner(fsys afero.Fs, f afero.File, temp string, old fs.FileInfo) error {
	if was, ok := old.Sys().(*syscall.Stat_t); ok {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if is, ok := info.Sys().(*syscall.Stat_t); ok && (is.Uid != was.Uid || is.Gid != was.Gid) {
			_ = fsys.Chown(temp, int(was.Uid), int(was.Gid))
		}
	}
	return fsys.Chmod(temp, old.Mode().Perm())
}

// AppendLine appends line and a line end to path in one write, and syncs. The
// line starts on its own line even when the file ends with a torn one; it must
// hold no line end itself. A file that does not exist is made with perm. After
// an error the line is not there, unless the disk failed the removal too: then
// it may be, whole or torn.
func AppendLine(fsys afero.Fs, path string, line []byte, perm fs.FileMode) error {
	l, _, err := OpenLog(fsys, path, LogOptions{Perm: perm, op: "append to"})
	if err != nil {
		return err
	}
	err = l.Append(line)
	_ = l.Close() // what was appended is synced: an error here takes nothing back
	return err
}

// AppendText appends a text of several lines in one write, and syncs. It begins
// on a line of its own and gets a final line end when it has none. It is meant
// for files that people read: a crash may leave a part of it.
func AppendText(fsys afero.Fs, path, text string, perm fs.FileMode) error {
	l, _, err := OpenLog(fsys, path, LogOptions{Perm: perm, op: "append to"})
	if err != nil {
		return err
	}
	err = l.append([]byte(strings.TrimSuffix(text, "\n")))
	_ = l.Close() // what was appended is synced: an error here takes nothing back
	return fail("append to", path, fsys, err)
}

// ReadTail returns the last lines of a regular file, as many whole ones as fit
// into maxBytes; whole says that these are all of the file.
func ReadTail(fsys afero.Fs, path string, maxBytes int64) (tail []byte, whole bool, err error) {
	const op = "read"
	info, err := Lstat(fsys, path)
	if err == nil {
		err = regular(info)
	}
	if err != nil {
		return nil, false, fail(op, path, fsys, err)
	}
	f, err := fsys.OpenFile(path, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, false, fail(op, path, fsys, linkError(err))
	}
	defer func() { _ = f.Close() }()
	from := max(0, info.Size()-maxBytes)
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return nil, false, fail(op, path, fsys, err)
	}
	tail, err = io.ReadAll(io.LimitReader(f, maxBytes))
	if err != nil {
		return nil, false, fail(op, path, fsys, err)
	}
	if from == 0 {
		return tail, true, nil
	}
	_, tail, _ = bytes.Cut(tail, []byte{'\n'})
	return tail, false, nil
}

// ReadFile returns the content of a regular file of at most maxBytes
// (ErrTooLarge otherwise). Links and special files are refused, so that what a
// repository brings along can neither lead elsewhere nor block. An error for a
// missing file matches fs.ErrNotExist.
func ReadFile(fsys afero.Fs, path string, maxBytes int64) ([]byte, error) {
	const op = "read"
	info, err := Lstat(fsys, path)
	if err != nil {
		return nil, fail(op, path, fsys, err)
	}
	if err := regular(info); err != nil {
		return nil, fail(op, path, fsys, err)
	}
	if info.Size() > maxBytes {
		return nil, fail(op, path, fsys, ErrTooLarge)
	}
	f, err := fsys.OpenFile(path, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, fail(op, path, fsys, linkError(err))
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, fail(op, path, fsys, err)
	}
	if int64(len(data)) > maxBytes {
		return nil, fail(op, path, fsys, ErrTooLarge)
	}
	return data, nil
}

// MkdirAll makes a directory and its missing parents, and syncs the directory
// above each one that it made, or finds empty: whoever made that one may have
// died before the sync. A link in the place of path is refused.
func MkdirAll(fsys afero.Fs, path string, perm fs.FileMode) error {
	const op = "make directory"
	info, err := Lstat(fsys, path)
	switch {
	case err == nil && info.IsDir():
		return fail(op, path, fsys, settled(fsys, path))
	case err == nil && info.Mode()&fs.ModeSymlink != 0:
		return fail(op, path, fsys, ErrSymlink)
	case err == nil:
		return fail(op, path, fsys, syscall.ENOTDIR)
	case !errors.Is(err, fs.ErrNotExist):
		return fail(op, path, fsys, err)
	}
	parent := filepath.Dir(path)
	if _, err := fsys.Stat(parent); errors.Is(err, fs.ErrNotExist) {
		if err := MkdirAll(fsys, parent, perm); err != nil {
			return err
		}
	}
	err = fsys.Mkdir(path, perm)
	made := err == nil
	if !made && !errors.Is(err, fs.ErrExist) {
		return fail(op, path, fsys, err)
	}
	err = SyncDir(fsys, parent)
	if err != nil && made {
		// The next try makes it anew, as a second sync could lie.
		_ = fsys.Remove(path)
	}
	return fail(op, path, fsys, err)
}

// settled sees to it that a directory that exists is on disk. One that holds
// something was, before that was put into it; one in a directory that may not be
// read was not made by MkdirAll.
func settled(fsys afero.Fs, path string) error {
	d, err := fsys.Open(path)
	if err == nil {
		var names []string
		names, err = d.Readdirnames(1)
		if errors.Is(err, io.EOF) {
			err = nil
		}
		err = errors.Join(err, d.Close())
		if err == nil && len(names) == 0 {
			err = SyncDir(fsys, filepath.Dir(path))
		}
	}
	if errors.Is(err, fs.ErrPermission) {
		err = nil
	}
	return err
}

// SyncDir makes the entries of a directory durable. Filesystems that cannot
// sync a directory are taken as durable by themselves.
func SyncDir(fsys afero.Fs, dir string) error {
	d, err := fsys.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, d.Close())
}

// Lstat looks at what stands at path, without following a link where the
// filesystem can tell one.
func Lstat(fsys afero.Fs, path string) (fs.FileInfo, error) {
	if l, ok := fsys.(afero.Lstater); ok {
		info, _, err := l.LstatIfPossible(path)
		return info, err
	}
	return fsys.Stat(path)
}

func regular(info fs.FileInfo) error {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return ErrSymlink
	case !info.Mode().IsRegular():
		return ErrNotRegular
	}
	return nil
}

// linkError translates what O_NOFOLLOW says.
func linkError(err error) error {
	if errors.Is(err, syscall.ELOOP) {
		return ErrSymlink
	}
	return err
}
