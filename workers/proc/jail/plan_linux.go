package jail

import (
	"encoding/binary"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const word = 8

// callSize is the size in bytes of one call in memory: its number, six
// arguments, and whether an error is of no matter, each a word.
const callSize = 8 * word

// RulesetAt is how far above the first free descriptor the one of the Landlock
// rules is when the calls for the mounts have been made. All others are closed.
const RulesetAt = 1

// ref is the place of something in the data of a plan.
type ref int

// arg is an argument: a number, or a place whose address it is.
type arg struct {
	n     uintptr
	place bool
}

func num(n int) arg { return arg{n: uintptr(n)} }
func at(r ref) arg  { return arg{n: uintptr(r), place: true} }
func (a arg) address(base uintptr) uintptr {
	if a.place {
		return base + a.n
	}
	return a.n
}

// call is one system call of a plan.
type call struct {
	nr   uintptr
	args [6]arg
	may  bool // fail
	verb string
	path string
}

// Plan is what has to be done for one command, in two parts: Mounts, by the
// first process of the namespaces while it has all capabilities there, and
// Command, by the process that becomes the command, at last.
type Plan struct {
	// Mounts and Command are how many calls there are of each; those of Mounts
	// come first in memory.
	Mounts, Command int

	calls []call
	data  []byte
	// pointers are the places in data that hold a place, to become an address.
	pointers []ref
	first    int // descriptor that is free
	next     int // descriptor; each call that makes one takes the lowest free
}

// Size is how many bytes Put needs.
func (p *Plan) Size() int { return len(p.calls)*callSize + (len(p.data)+word-1)&^(word-1) }

// Put lays the calls and their data out in mem, which begins at base and is
// aligned to words.
func (p *Plan) Put(mem []byte, base uintptr) {
	data := len(p.calls) * callSize
	copy(mem[data:], p.data)
	base += uintptr(data)
	for _, r := range p.pointers {
		field := mem[data+int(r):]
		binary.NativeEndian.PutUint64(field, binary.NativeEndian.Uint64(field)+uint64(base))
	}
	for i, c := range p.calls {
		words := [8]uintptr{0: c.nr}
		for j, a := range c.args {
			words[1+j] = a.address(base)
		}
		if c.may {
			words[7] = 1
		}
		for j, w := range words {
			binary.NativeEndian.PutUint64(mem[i*callSize+j*word:], uint64(w))
		}
	}
}

// Fault says what the call of that number was for, as "verb" and path.
func (p *Plan) Fault(n int) (verb, path string) {
	if n < 0 || n >= len(p.calls) {
		return "confine", ""
	}
	return p.calls[n].verb, p.calls[n].path
}

func (p *Plan) bytes(b []byte) ref {
	for len(p.data)%word != 0 {
		p.data = append(p.data, 0)
	}
	r := ref(len(p.data))
	p.data = append(p.data, b...)
	return r
}

func (p *Plan) words(ws ...uint64) ref {
	b := make([]byte, 0, len(ws)*word)
	for _, w := range ws {
		b = binary.NativeEndian.AppendUint64(b, w)
	}
	return p.bytes(b)
}

func (p *Plan) text(s string) ref { return p.bytes(append([]byte(s), 0)) }

// do adds a call that must not fail.
func (p *Plan) do(verb, path string, nr uintptr, args ...arg) {
	c := call{nr: nr, verb: verb, path: path}
	copy(c.args[:], args)
	p.calls = append(p.calls, c)
}

// try adds a call that may fail.
func (p *Plan) try(verb string, nr uintptr, args ...arg) {
	p.do(verb, "", nr, args...)
	p.calls[len(p.calls)-1].may = true
}

// open adds a call that makes a descriptor, and foretells it.
func (p *Plan) open(verb, path string, nr uintptr, args ...arg) int {
	p.do(verb, path, nr, args...)
	p.next++
	return p.next - 1
}

const (
	atCWD     = unix.AT_FDCWD
	deviceOff = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
)

// find opens a path for reference; a symbolic link anywhere in it is an error.
func (p *Plan) find(path string) int {
	how := p.words(unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0, unix.RESOLVE_NO_SYMLINKS)
	return p.open("find", path, unix.SYS_OPENAT2, num(atCWD), at(p.text(path)), at(how), num(3*word))
}

// clone copies the mounts at a descriptor.
func (p *Plan) clone(path string, fd int) int {
	const flags = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_RECURSIVE | unix.AT_EMPTY_PATH
	return p.open("bind", path, unix.SYS_OPEN_TREE, num(fd), at(p.text("")), num(flags))
}

// set sets attributes of all mounts at a descriptor.
func (p *Plan) set(path string, fd, attrs int) {
	p.do("restrict", path, unix.SYS_MOUNT_SETATTR, num(fd), at(p.text("")), num(unix.AT_EMPTY_PATH|unix.AT_RECURSIVE),
		at(p.words(uint64(attrs), 0, 0, 0)), num(4*word))
}

// attach mounts a copy on what is at path now.
func (p *Plan) attach(tree int, path string) {
	target, none := p.find(path), at(p.text(""))
	p.do("mount", path, unix.SYS_MOVE_MOUNT, num(tree), none, num(target), none,
		num(unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH))
}

// mount makes a new file system.
func (p *Plan) mount(kind, path string, flags int, options string) {
	k := at(p.text(kind))
	p.do("mount "+kind+" on", path, unix.SYS_MOUNT, k, at(p.text(path)), k, num(flags), at(p.text(options)))
}

// Lay makes the plan. first is the lowest free descriptor of who will walk the
// calls for the mounts. A path to write to or to show that does not exist, or
// that a symbolic link is in, is an *fs.PathError; what is to be protected or
// hidden and does not exist is passed over.
//
// Of two paths of which one lies below the other the longer counts: what is
// below Protect can be named in Write again, and what is below Hide in Write and
// Protect.
func Lay(pol Policy, m Means, first int) (*Plan, error) {
	all, err := survey(pol)
	if err != nil {
		return nil, err
	}
	p := &Plan{first: first, next: first}
	if m.Mounts {
		if err := prepareTemp(pol, all); err != nil {
			return nil, err
		}
		p.layMounts(all)
	} else {
		p.mountProc()
	}
	if m.PIDs && pol.MaxProcesses > 0 {
		p.boundPIDs(pol.MaxProcesses)
	}
	if m.Net && !pol.Network {
		p.loopback()
	}
	var devices []string
	if m.Mounts {
		devices = p.arrange(all)
	} else {
		devices = harmless()
	}
	if m.Landlock > 0 {
		p.landlock(all, m, devices)
	}
	p.try("close files", unix.SYS_CLOSE, num(first))
	p.try("close files", unix.SYS_CLOSE_RANGE, num(first+RulesetAt+1), num(1<<31-1), num(0))
	p.Mounts = len(p.calls)
	p.command(pol, m, first)
	p.Command = len(p.calls) - p.Mounts
	for _, c := range p.calls {
		if strings.IndexByte(c.path, 0) >= 0 {
			return nil, syscall.EINVAL
		}
	}
	return p, nil
}

// boundPIDs bounds the numbers of processes, and so their count. The first 300
// are given out only once.
func (p *Plan) boundPIDs(n int) {
	const reserved = 300
	p.write("/proc/sys/kernel/pid_max", decimal(n+reserved+1))
}

func (p *Plan) write(path, text string) {
	fd := p.open("open", path, unix.SYS_OPENAT, num(atCWD), at(p.text(path)), num(unix.O_WRONLY|unix.O_CLOEXEC))
	p.do("write", path, unix.SYS_WRITE, num(fd), at(p.text(text)), num(len(text)))
	// What is open for writing cannot be made read-only.
	p.do("close", path, unix.SYS_CLOSE, num(fd))
	p.next--
}

// loopback brings up the interface that a new network namespace has. Its
// addresses come with it.
func (p *Plan) loopback() {
	var ifreq [40]byte
	copy(ifreq[:], "lo")
	binary.NativeEndian.PutUint16(ifreq[unix.IFNAMSIZ:], unix.IFF_UP)
	s := p.open("open", "loopback", unix.SYS_SOCKET, num(unix.AF_INET), num(unix.SOCK_DGRAM|unix.SOCK_CLOEXEC), num(0))
	p.do("start", "loopback", unix.SYS_IOCTL, num(s), num(unix.SIOCSIFFLAGS), at(p.bytes(ifreq[:])))
}
