package accesspolicy

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// openDir opens a directory by a path without symbolic links, following none, so
// that no command can have the caller work elsewhere.
func openDir(path string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Open("/", flags, 0)
	for part := range strings.SplitSeq(strings.Trim(filepath.Clean(path), "/"), "/") {
		if err != nil {
			return -1, &fs.PathError{Op: "open", Path: path, Err: err}
		}
		if part == "" {
			break
		}
		next, e := unix.Openat(fd, part, flags, 0)
		_ = unix.Close(fd) // only read
		fd, err = next, e
	}
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// takeAway removes what is empty or a link, and puts everything else into the
// quarantine. It follows no link.
func (s *Sandbox) takeAway(path, why string, say func(string, ...any)) {
	name := s.rel(path)
	fd, err := openDir(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return // it is gone with its directory
	}
	if err != nil {
		say("%s %s and could not be taken away: %v", name, why, err)
		return
	}
	defer func() { _ = unix.Close(fd) }() // only read
	base := filepath.Base(path)
	var st unix.Stat_t
	switch err := unix.Fstatat(fd, base, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case errors.Is(err, unix.ENOENT):
		return
	case err != nil:
		say("%s %s and could not be taken away: %v", name, why, err)
		return
	}
	kind := st.Mode & unix.S_IFMT
	trivial := kind == unix.S_IFLNK || kind == unix.S_IFIFO || kind == unix.S_IFSOCK || kind == unix.S_IFREG && st.Size == 0
	if trivial && unix.Unlinkat(fd, base, 0) == nil || kind == unix.S_IFDIR && unix.Unlinkat(fd, base, unix.AT_REMOVEDIR) == nil {
		say("%s %s: the command made it, and it was removed", name, why)
		return
	}
	if kind == unix.S_IFDIR && st.Mode&0o700 != 0o700 {
		// A directory that its owner may not write to cannot be moved elsewhere.
		// Where the kernel cannot do that without following a link it stays beside.
		_ = unix.Fchmodat(fd, base, uint32(st.Mode)&0o777|0o700, unix.AT_SYMLINK_NOFOLLOW)
	}
	where, err := s.quarantine(fd, base)
	if err != nil {
		say("%s %s and could not be taken away: %v", name, why, err)
		return
	}
	say("%s %s: what the command made there was moved to %s", name, why, s.rel(where))
}

// quarantine moves an entry of a directory to where it does nothing.
func (s *Sandbox) quarantine(fd int, base string) (string, error) {
	place := filepath.Join(s.o.Project, ".ralph", "quarantine")
	if err := os.MkdirAll(place, 0o700); err == nil {
		name := "sandbox-" + stamp(time.Now()) + "-" + plainName(s.o.Agent) + "-" + plainName(base)
		to, err := openDir(place)
		if err == nil {
			err = unix.Renameat(fd, base, to, name)
			_ = unix.Close(to) // only read
		}
		if err == nil {
			return filepath.Join(place, name), nil
		}
	}
	// On another filesystem, or where .ralph cannot be used: it stays where it is
	// under a name that means nothing.
	name := "taken-away-" + stamp(time.Now()) + "-" + plainName(base)
	if err := unix.Renameat(fd, base, fd, name); err != nil {
		return "", err
	}
	return name, nil
}

// gitFile reads where a .git file leads, without symbolic links.
func gitFile(path string, info fs.FileInfo) (string, bool) {
	const most = 4096
	if !info.Mode().IsRegular() || info.Size() > most {
		return "", false
	}
	text, err := readFile(path, most)
	if err != nil {
		return "", false
	}
	target, ok := strings.CutPrefix(strings.TrimRight(string(text), "\r\n"), "gitdir: ")
	if !ok {
		return "", false
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(path), target)
	}
	real, err := filepath.EvalSymlinks(target)
	return real, err == nil
}

// tempAsSeen is the temp directory as a command sees it.
func (s *Sandbox) tempAsSeen(temp string) string {
	if s.layers().Active("mount namespace") {
		return "/tmp"
	}
	return temp
}

// stamp names what is put away at a time.
func stamp(now time.Time) string { return now.UTC().Format("20060102T150405.000000") }
