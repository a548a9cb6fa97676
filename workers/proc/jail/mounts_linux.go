package jail

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const quiet = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

func decimal(n int) string { return strconv.Itoa(n) }

// device is a file in /dev that stays usable.
type device struct {
	path string
	tree int
}

// harmless are the devices, as far as they are there, that programs need and
// that do no harm.
func harmless() []string {
	var out []string
	for _, path := range [...]string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"} {
		if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			out = append(out, path)
		}
	}
	return out
}

// layMounts copies all that is to be seen before anything is changed, so that
// what is covered or made read-only later can still be put in its place.
func (p *Plan) layMounts(all []*entry) {
	// Nothing that is mounted outside later appears here, nor the reverse.
	p.do("separate", "/", unix.SYS_MOUNT, num(0), at(p.text("/")), num(0), num(unix.MS_REC|unix.MS_PRIVATE), num(0))
	p.blanks(all)
	for _, e := range all {
		switch {
		case e.link != "":
		case e.kind == hidden:
			e.tree = p.clone(e.path, e.blank)
		default:
			e.tree = p.clone(e.path, p.find(e.source))
			attrs := deviceOff
			if e.kind == shown {
				attrs |= unix.MOUNT_ATTR_RDONLY
			}
			p.set(e.path, e.tree, attrs)
		}
	}
	p.mountProc()
}

// blanks makes what hides: an empty file and, for each hidden directory, one
// that is empty but for what lies below it and stays visible. It is a file
// system that the new /proc covers.
func (p *Plan) blanks(all []*entry) {
	const top = "/proc"
	p.mount("tmpfs", top, quiet, "mode=755,size=1m")
	mkdir := func(path string) {
		p.do("make", path, unix.SYS_MKDIRAT, num(atCWD), at(p.text(path)), num(0o755))
	}
	mkfile := func(path string) {
		p.do("make", path, unix.SYS_MKNODAT, num(atCWD), at(p.text(path)), num(unix.S_IFREG|0o444), num(0))
	}
	open := func(path string) int { return p.find(path) }
	file, dir := top+"/file", top+"/dir"
	mkfile(file)
	mkdir(dir)
	fileFD, dirFD := open(file), open(dir)
	for i, e := range all {
		if e.kind != hidden || e.link != "" {
			continue
		}
		if e.blank = fileFD; !e.dir {
			continue
		}
		e.blank = dirFD
		own, made := top+"/"+decimal(i), map[string]bool{}
		for _, below := range all {
			if below.above != e {
				continue
			}
			rel, err := filepath.Rel(e.path, below.path)
			if err != nil {
				continue // they are both absolute
			}
			path, parts := own, strings.Split(rel, "/")
			for j := 0; j <= len(parts); j++ {
				if j > 0 {
					path += "/" + parts[j-1]
				}
				switch {
				case made[path]:
				case j < len(parts) || below.dir && below.link == "":
					mkdir(path)
				case below.link != "":
					p.do("link", path, unix.SYS_SYMLINKAT, at(p.text(below.link)), num(atCWD), at(p.text(path)))
				default:
					mkfile(path)
				}
				made[path] = true
			}
		}
		if len(made) > 0 {
			e.blank = open(own)
		}
	}
	p.do("restrict", top, unix.SYS_MOUNT_SETATTR, num(atCWD), at(p.text(top)), num(0),
		at(p.words(unix.MOUNT_ATTR_RDONLY, 0, 0, 0)), num(4*word))
}

// mountProc shows the processes of the new pid namespace.
func (p *Plan) mountProc() {
	p.do("separate", "/proc", unix.SYS_MOUNT, num(0), at(p.text("/proc")), num(0), num(unix.MS_REC|unix.MS_SLAVE), num(0))
	p.mount("proc", "/proc", quiet, "")
}

// arrange makes everything read-only and puts the copies in their places, the
// outer ones first. It gives the devices that can be written to.
func (p *Plan) arrange(all []*entry) (devices []string) {
	var nodes []device
	for _, path := range harmless() {
		nodes = append(nodes, device{path, p.clone(path, p.find(path))})
	}
	p.do("restrict", "/", unix.SYS_MOUNT_SETATTR, num(atCWD), at(p.text("/")), num(unix.AT_RECURSIVE),
		at(p.words(unix.MOUNT_ATTR_RDONLY|deviceOff, 0, 0, 0)), num(4*word))
	for _, e := range all {
		if e.link == "" {
			p.attach(e.tree, e.path)
		}
	}
	for _, d := range nodes {
		p.attach(d.tree, d.path)
		devices = append(devices, d.path)
	}
	if isDir("/dev/shm") {
		p.mount("tmpfs", "/dev/shm", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777")
		devices = append(devices, "/dev/shm")
	}
	if isDir("/dev/pts") {
		p.mount("devpts", "/dev/pts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
		devices = append(devices, "/dev/pts")
		if info, err := os.Lstat("/dev/ptmx"); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.attach(p.clone("/dev/ptmx", p.find("/dev/pts/ptmx")), "/dev/ptmx")
			devices = append(devices, "/dev/ptmx")
		}
	}
	return devices
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}
