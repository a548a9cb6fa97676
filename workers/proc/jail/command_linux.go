package jail

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// kept are the capabilities that root keeps: package managers and archives use
// them to hand files to others, and they hold only where something can be
// written at all.
const kept = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID |
	1<<unix.CAP_KILL | 1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID

// keeps gives the capabilities that stay of those that this thread has.
func keeps(m Means) uint64 {
	if m.UserSpace {
		return 0
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&head, &data[0]) != nil {
		return 0
	}
	return (uint64(data[1].Permitted)<<32 | uint64(data[0].Permitted)) & kept
}

func capsets(keep uint64) (head, data []byte) {
	head = binary.NativeEndian.AppendUint32(nil, unix.LINUX_CAPABILITY_VERSION_3)
	head = binary.NativeEndian.AppendUint32(head, 0)
	for _, half := range [...]uint32{uint32(keep), uint32(keep >> 32)} {
		data = binary.NativeEndian.AppendUint32(data, half)
		data = binary.NativeEndian.AppendUint32(data, half)
		data = binary.NativeEndian.AppendUint32(data, 0)
	}
	return head, data
}

// limit is one resource limit, soft and hard.
type limit struct {
	resource int
	max      uint64
}

func limits(pol Policy) []limit {
	// Of a core dump of one byte there is not even one to the program in
	// core_pattern, which would run outside.
	out := []limit{{unix.RLIMIT_CORE, 1}}
	if pol.MaxProcesses > 0 {
		out = append(out, limit{unix.RLIMIT_NPROC, uint64(pol.MaxProcesses)})
	}
	if pol.MaxFileBytes > 0 {
		out = append(out, limit{unix.RLIMIT_FSIZE, uint64(pol.MaxFileBytes)})
	}
	if pol.MaxMemoryBytes > 0 {
		out = append(out, limit{unix.RLIMIT_DATA, uint64(pol.MaxMemoryBytes)})
	}
	for i, l := range out {
		var now unix.Rlimit
		if unix.Prlimit(0, l.resource, nil, &now) == nil {
			out[i].max = min(l.max, now.Max)
		}
	}
	return out
}

// command lays out what the process does that becomes the command.
func (p *Plan) command(pol Policy, m Means, first int) {
	// A keyring of its own. There may be no keyrings at all.
	p.try("leave the keyring", unix.SYS_KEYCTL, num(unix.KEYCTL_JOIN_SESSION_KEYRING), num(0))
	for _, l := range limits(pol) {
		p.do("set", "resource limits", unix.SYS_PRLIMIT64, num(0), num(l.resource), at(p.words(l.max, l.max)), num(0))
	}
	keep := keeps(m)
	// What is not in the bounding set cannot be had by executing anything. No
	// new privileges says the same, so that it may fail.
	for c := 0; c <= unix.CAP_LAST_CAP; c++ {
		if keep&(1<<c) == 0 {
			p.try("drop capabilities", unix.SYS_PRCTL, num(unix.PR_CAPBSET_DROP), num(c), num(0), num(0), num(0))
		}
	}
	p.try("drop capabilities", unix.SYS_PRCTL, num(unix.PR_CAP_AMBIENT), num(unix.PR_CAP_AMBIENT_CLEAR_ALL), num(0), num(0), num(0))
	head, data := capsets(keep)
	p.do("drop", "capabilities", unix.SYS_CAPSET, at(p.bytes(head)), at(p.bytes(data)))
	p.do("set", "no new privileges", unix.SYS_PRCTL, num(unix.PR_SET_NO_NEW_PRIVS), num(1), num(0), num(0), num(0))
	if m.Landlock > 0 {
		p.do("apply", "Landlock rules", unix.SYS_LANDLOCK_RESTRICT_SELF, num(first+RulesetAt), num(0))
	}
	if m.Filter {
		prog := filter(filtered{noInternet: !pol.Network && !m.Net})
		head := make([]byte, 2*word)
		binary.NativeEndian.PutUint16(head, uint16(len(prog)/filterSize))
		code := p.bytes(prog)
		binary.NativeEndian.PutUint64(head[word:], uint64(code))
		fprog := p.bytes(head)
		p.pointers = append(p.pointers, fprog+word)
		p.do("filter", "system calls", unix.SYS_SECCOMP, num(unix.SECCOMP_SET_MODE_FILTER), num(0), at(fprog))
	}
}
