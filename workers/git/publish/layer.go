package publish

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// layer is a directory as a command sees it: upper over lower. Only upper is
// read; no command runs any more that could change it.
type layer struct{ upper, lower string }

// kind says what the upper layer makes of a name.
type kind int

const (
	same      kind = iota // not in the upper layer
	removed               // removed, or hidden by what replaced a parent
	file                  // a regular file
	directory             // a directory, merged with that of the lower layer unless opaque
	other                 // a link, a pipe, a device or a socket
)

// look returns what the command made of a name, slash-separated.
func (l layer) look(name string) kind {
	at, hidden := l.upper, false
	parts := strings.Split(name, "/")
	for i, part := range parts {
		at = filepath.Join(at, part)
		info, err := os.Lstat(at)
		switch {
		case err != nil && hidden:
			return removed
		case err != nil:
			return same
		case whiteout(info):
			return removed
		case i == len(parts)-1:
			return kindOf(info)
		case !info.IsDir():
			return removed
		}
		hidden = hidden || opaque(at)
	}
	return same
}

func kindOf(info fs.FileInfo) kind {
	switch {
	case whiteout(info):
		return removed
	case info.IsDir():
		return directory
	case info.Mode().IsRegular():
		return file
	}
	return other
}

// sub returns the layer of a directory below.
func (l layer) sub(name string) layer {
	return layer{filepath.Join(l.upper, filepath.FromSlash(name)), filepath.Join(l.lower, filepath.FromSlash(name))}
}

// read returns a regular file of the upper layer.
func (l layer) read(name string, most int64) ([]byte, error) {
	path := filepath.Join(l.upper, filepath.FromSlash(name))
	_ = os.Chmod(path, 0o600) // the command may have taken the right to read; what fails is said by the open
	return readFile(path, most)
}

// after returns the content of a file as the command left it; fs.ErrNotExist
// where there is none.
func (l layer) after(name string, most int64) ([]byte, error) {
	switch l.look(name) {
	case same:
		return readFile(filepath.Join(l.lower, filepath.FromSlash(name)), most)
	case file:
		return l.read(name, most)
	case removed:
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	}
	return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("not a regular file")}
}

// entry is a name in a directory of the upper layer.
type entry struct {
	name string
	kind kind
}

// entries lists a directory of the upper layer, sorted.
func (l layer) entries() []entry {
	_ = os.Chmod(l.upper, 0o700) // the command may have taken the right to list
	list, err := os.ReadDir(l.upper)
	if err != nil {
		return nil
	}
	var out []entry
	for _, e := range list {
		if info, err := e.Info(); err == nil {
			out = append(out, entry{e.Name(), kindOf(info)})
		}
	}
	return out
}

// whiteout reports whether an entry of an upper layer stands for a removed one.
func whiteout(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode()&fs.ModeCharDevice != 0 && st.Rdev == 0
}

// opaque reports whether a directory of an upper layer hides that of the lower
// one. One that redirects to another name is taken for opaque.
func opaque(path string) bool {
	var b [8]byte
	if n, err := unix.Lgetxattr(path, "user.overlay.opaque", b[:]); err == nil && n > 0 && b[0] != 'n' {
		return true
	}
	_, err := unix.Lgetxattr(path, "user.overlay.redirect", nil)
	return err == nil
}

// readFile reads a regular file of at most so many bytes. It follows no link at
// the end of the path and waits for no pipe.
func readFile(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("not a regular file of at most %d bytes", most)}
	}
	return io.ReadAll(io.LimitReader(f, most))
}

// fileID changes whenever a file is written or replaced. The zero value is that
// of a file that is not there.
type fileID struct {
	Dev, Ino     uint64
	Size         int64
	Mtime, Ctime int64
}

func idOf(path string) fileID {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return fileID{}
	}
	return fileID{uint64(st.Dev), st.Ino, st.Size, unix.TimespecToNsec(st.Mtim), unix.TimespecToNsec(st.Ctim)}
}

// clear makes a directory of the upper layer hold nothing but what git may read:
// regular files for which keep is true, in directories. Nothing else is left, so
// git meets no link, pipe or device.
func clear(dir string, keep func(rel string) bool) (left int, err error) {
	_ = os.Chmod(dir, 0o700) // see read
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path) // path is below dir
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.Chmod(path, 0o700)
		case d.Type().IsRegular() && keep(filepath.ToSlash(rel)):
			left++
			return os.Chmod(path, 0o400)
		}
		return os.Remove(path)
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return left, err
}

// replaceFile writes a file beside its place and renames it there.
func replaceFile(path string, data []byte, mode fs.FileMode) error {
	tmp := path + ".ralph-new"
	_ = os.Remove(tmp) // of a process that was killed
	if err := os.WriteFile(tmp, data, mode); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// below reports whether path is dir or lies below it; both are clean.
func below(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// unique sorts a list and drops repetitions and empty entries.
func unique(list []string) []string {
	list = slices.DeleteFunc(list, func(s string) bool { return s == "" })
	slices.Sort(list)
	return slices.Compact(list)
}
