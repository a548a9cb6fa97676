package jail

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// ScopeABI is the version of Landlock from which on signals and abstract sockets
// end at the border.
const ScopeABI = 6

// The versions of Landlock's interface from which on something is known.
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

// known masks the rights that this version does not know.
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

// rulesetAttr says what the rules are about: all that changes files, and from
// the version on that knows it, signals and abstract sockets. Without rules for
// them nobody outside can be reached.
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

// rule is what may be done below a path.
type rule struct {
	path   string
	rights uint64
}

func rules(all []*entry, abi int, devices []string) []rule {
	var out []rule
	for _, e := range all {
		if e.kind != written || e.above != nil && e.above.kind == written {
			continue
		}
		rights := uint64(fileRights)
		if e.dir {
			rights |= makeRights
		}
		out = append(out, rule{e.path, known(abi, rights)})
	}
	for _, path := range devices {
		rights := uint64(fileRights)
		if path == "/dev/shm" {
			rights |= makeRights
		}
		out = append(out, rule{path, known(abi, rights)})
	}
	return out
}

// landlock makes the rules for what is seen now; their descriptor is moved to
// its place.
func (p *Plan) landlock(all []*entry, m Means, devices []string) {
	attr := rulesetAttr(m.Landlock)
	set := p.open("make", "Landlock rules", unix.SYS_LANDLOCK_CREATE_RULESET, at(p.bytes(attr)), num(len(attr)), num(0))
	for _, r := range rules(all, m.Landlock, devices) {
		fd := p.find(r.path)
		p.do("allow writing to", r.path, unix.SYS_LANDLOCK_ADD_RULE, num(set), num(unix.LANDLOCK_RULE_PATH_BENEATH),
			at(p.bytes(ruleAttr(r.rights, fd))), num(0))
	}
	if set == p.first+RulesetAt {
		return
	}
	p.do("keep", "Landlock rules", unix.SYS_DUP3, num(set), num(p.first+RulesetAt), num(unix.O_CLOEXEC))
}
