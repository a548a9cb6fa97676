package accesspolicy

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Where no mounts hold the protected files, or one of them has another name, they
// are remembered before a command and put back after it.
const (
	maxKeptFiles = 500
	maxKeptBytes = 256 << 10 // of one file
)

// kept are protected files as they were.
type kept struct {
	roots []string
	files map[string]keptFile
	// lost says that there was more than is remembered.
	lost bool
}

type keptFile struct {
	mode fs.FileMode
	mark mark
	size int64
	time int64 // of the last change, by the clock that no program sets
	data []byte
}

// keep remembers files, and what is in directories; not Ralph's own, which
// Ralph itself writes, and not the objects of git.
func keep(paths []string, state string) *kept {
	k := &kept{files: map[string]keptFile{}}
	k.roots = keepWhere(paths, state, func(path string, info fs.FileInfo) {
		if len(k.files) >= maxKeptFiles {
			k.lost = true
			return
		}
		k.files[path] = remember(path, info)
	})
	return k
}

// keepWhere visits what is to be remembered, and gives the paths it began at.
func keepWhere(paths []string, state string, visit func(string, fs.FileInfo)) (roots []string) {
	for _, p := range paths {
		if below(state, p) || others(p) {
			continue
		}
		roots = append(roots, p)
		walk(p, visit)
	}
	return roots
}

// others says that a protected path is Ralph's or another agent's to change while
// a command runs: refs and their logs, packs, worktrees and submodules.
func others(path string) bool {
	switch filepath.Base(path) {
	case "pack", "worktrees", "modules", "refs", "logs":
		return true
	}
	return strings.Contains(path, "/refs/") || strings.Contains(path, "/logs/")
}

// keepShared remembers those that have another name, which no mount holds: what
// is written to that name changes them too. nil: there are none.
func keepShared(paths []string, state string) *kept {
	var k *kept
	keepWhere(paths, state, func(path string, info fs.FileInfo) {
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || st.Nlink < 2 || !info.Mode().IsRegular() {
			return
		}
		if k == nil {
			// What is not among them is no addition.
			k = &kept{files: map[string]keptFile{}, lost: true}
		}
		if len(k.files) < maxKeptFiles {
			k.roots = append(k.roots, path)
			k.files[path] = remember(path, info)
		}
	})
	return k
}

func walk(root string, visit func(string, fs.FileInfo)) {
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // what cannot be read could not be put back either
		}
		if info, err := d.Info(); err == nil {
			visit(path, info)
		}
		return nil
	})
}

func remember(path string, info fs.FileInfo) keptFile {
	f := keptFile{mode: info.Mode(), mark: markOf(path), size: info.Size(), time: ctime(info).UnixNano()}
	if info.Mode().IsRegular() && info.Size() <= maxKeptBytes {
		if data, err := readFile(path, maxKeptBytes); err == nil {
			f.data = append([]byte{}, data...) // not nil: without it there is nothing to put back
		}
	}
	return f
}

// restore puts back what was changed, and takes away what was added.
func (k *kept) restore(s *Sandbox, say func(string, ...any)) {
	for _, root := range k.roots {
		walk(root, func(path string, info fs.FileInfo) {
			was, known := k.files[path]
			switch {
			case !known && !k.lost && path != root:
				s.takeAway(path, "is protected", say)
			case !known, was.same(path, info):
			case was.data != nil || was.mode.Type() != info.Mode().Type():
				s.takeAway(path, "is protected and was changed", say)
			default:
				say("%s is protected and was changed; it is too large, or no file, to be put back", s.rel(path))
			}
		})
	}
	for path, was := range k.files {
		if _, err := os.Lstat(path); err == nil || was.mode.IsRegular() && was.data == nil {
			continue
		}
		if err := was.putBack(path); err != nil {
			say("%s is protected and could not be put back: %v", s.rel(path), err)
			continue
		}
		if was.mode.IsRegular() {
			say("%s is protected: it was put back as it had been", s.rel(path))
		}
	}
}

// same says that a file was not changed.
func (f keptFile) same(path string, info fs.FileInfo) bool {
	if info.Mode() == f.mode && info.Size() == f.size && ctime(info).UnixNano() == f.time && markOf(path) == f.mark {
		return true
	}
	if !f.mode.IsRegular() || !info.Mode().IsRegular() || info.Mode() != f.mode || f.data == nil {
		return info.Mode() == f.mode && info.IsDir()
	}
	now, err := readFile(path, maxKeptBytes)
	return err == nil && bytes.Equal(now, f.data)
}

// putBack makes a file anew where there is none. It follows no link.
func (f keptFile) putBack(path string) error {
	if f.mode.IsDir() {
		return os.MkdirAll(path, f.mode.Perm())
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	fd, err := openDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }() // only read
	if f.mark.link != "" {
		return unix.Symlinkat(f.mark.link, fd, filepath.Base(path))
	}
	to, err := unix.Openat(fd, filepath.Base(path), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, uint32(f.mode.Perm()))
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(to), path)
	_, err = file.Write(f.data)
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	return err
}

func isRegular(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}
