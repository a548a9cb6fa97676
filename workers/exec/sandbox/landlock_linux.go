package sandbox

import (
	"encoding/binary"
	"slices"

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
func rulesetAttr(abi int) []byte {
	attr := binary.NativeEndian.AppendUint64(nil, known(abi, fileRights|makeRights|deviceRights))
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

// guardedRights are those that a command does not have where a Maker makes names for it.
// A socket does nothing whatever its name is.
const guardedRights = unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
	unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER

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
	attr := rulesetAttr(l.Features.Landlock)
	r, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, address(attr), uintptr(len(attr)), 0)
	if errno != 0 {
		return -1, fault("make", "Landlock rules", errno)
	}
	set := int(r)
	for _, r := range l.rules(guarded) {
		if err := allow(set, r); err != nil {
			_ = unix.Close(set)
			return -1, err
		}
	}
	return set, nil
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
