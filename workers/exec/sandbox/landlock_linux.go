package sandbox

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ScopeABI is the first version of Landlock that restricts signals and abstract
// sockets to the command.
const ScopeABI = 6

// The first versions of Landlock's interface with certain rights.
const (
	abiRefer    = 2
	abiTruncate = 3
	abiIoctl    = 5
	abiScope    = ScopeABI
)

const (
	fileRights = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	makeRights = unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
	deviceRights = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
)

// known returns the rights without those that a version does not have.
func known(abi int, rights uint64) uint64 {
	if abi < abiRefer {
		rights &^= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi < abiTruncate {
		rights &^= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi < abiIoctl {
		rights &^= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return rights
}

// rulesetAttr encodes what the rules restrict: everything that changes files, and
// where the version has scopes, signals and abstract sockets, for which there are no
// exceptions.
func rulesetAttr(abi int, rights uint64) []byte {
	attr := binary.NativeEndian.AppendUint64(nil, known(abi, rights))
	if abi >= abiScope {
		attr = binary.NativeEndian.AppendUint64(attr, 0)
		attr = binary.NativeEndian.AppendUint64(attr, unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET|unix.LANDLOCK_SCOPE_SIGNAL)
	}
	return attr
}

func ruleAttr(rights uint64, fd int) []byte {
	return binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint64(nil, rights), uint32(fd))
}

// rule grants rights at a path and below.
type rule struct {
	path   string
	rights uint64
}

// guardedRights are those that a command does not have where a Maker makes names and opens
// files for it.
const guardedRights = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
	unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_REFER

// rules returns the exceptions for what l lets a command change; guarded without the names
// that only a Maker makes.
func (l Layout) rules(guarded bool) []rule {
	var out []rule
	var around []string
	if guarded {
		around = l.around()
	}
	for _, p := range l.Places {
		if kind(p.Kind) != written {
			continue
		}
		inTree := guarded && (p.Path == l.Guard.Root || slices.Contains(around, p.Path))
		if p.Above >= 0 && kind(l.Places[p.Above].Kind) == written && !(guarded && within(p.Path, l.Guard.Root) && !inTree) {
			continue
		}
		rights := uint64(fileRights)
		if p.Dir {
			rights |= makeRights
		}
		if inTree {
			rights &^= guardedRights
		}
		out = append(out, rule{p.Path, known(l.Features.Landlock, rights)})
	}
	for _, path := range l.writable() {
		rights := uint64(fileRights)
		if path == "/dev/shm" {
			rights |= makeRights
		}
		out = append(out, rule{path, known(l.Features.Landlock, rights)})
	}
	return out
}

// ruleset makes the Landlock rules for the current mounts. The caller closes it.
func (l Layout) ruleset(guarded bool) (int, error) {
	rights := uint64(fileRights | makeRights | deviceRights)
	if !l.Features.Mounts {
		rights |= unix.LANDLOCK_ACCESS_FS_READ_FILE
	}
	attr := rulesetAttr(l.Features.Landlock, rights)
	r, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, address(attr), uintptr(len(attr)), 0)
	if errno != 0 {
		return -1, fault("make", "Landlock rules", errno)
	}
	set := int(r)
	rules := l.rules(guarded)
	if !l.Features.Mounts {
		rules = append(rules, reading("/", l.Places, true)...)
	}
	for _, r := range rules {
		err := allow(set, r)
		if r.rights == unix.LANDLOCK_ACCESS_FS_READ_FILE && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES)) {
			continue // it is gone, or nothing below it can be read anyway
		}
		if err != nil {
			_ = unix.Close(set)
			return -1, err
		}
	}
	return set, nil
}

// reading returns the rules by which everything at path and below can be read but what is
// hidden. Where a directory holds a hidden place these are rules for what else is in it
// now. below are places, those below path among them; seen reports whether path is.
func reading(path string, below []Place, seen bool) []rule {
	whole := rule{path, unix.LANDLOCK_ACCESS_FS_READ_FILE}
	inside := slices.DeleteFunc(slices.Clone(below), func(p Place) bool { return p.Path == path || !within(p.Path, strings.TrimSuffix(path, "/")) })
	hides := slices.ContainsFunc(inside, func(p Place) bool { return kind(p.Kind) == hidden })
	for _, p := range below {
		if p.Path == path {
			seen = kind(p.Kind) != hidden && kind(p.Kind) != made
			hides = hides && kind(p.Kind) != written // new files there are the command's to read
		}
	}
	if seen && !hides {
		return []rule{whole}
	}
	var out []rule
	if !seen {
		for at := ""; len(inside) > 0; inside = inside[1:] {
			if at == "" || !within(inside[0].Path, at) { // sorted: the outermost comes first
				at = inside[0].Path
				out = append(out, reading(at, inside, false)...)
			}
		}
		return out
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil // what is in there stays unread
	}
	for _, e := range entries {
		if e.Type()&os.ModeSymlink == 0 {
			out = append(out, reading(filepath.Join(path, e.Name()), inside, true)...)
		}
	}
	return out
}

func allow(set int, r rule) error {
	fd, err := reference(r.path)
	if err != nil {
		return fault("find", r.path, err)
	}
	defer func() { _ = unix.Close(fd) }()
	attr := ruleAttr(r.rights, fd)
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(set), unix.LANDLOCK_RULE_PATH_BENEATH, address(attr), 0, 0, 0); errno != 0 {
		return fault("allow writing to", r.path, errno)
	}
	return nil
}
