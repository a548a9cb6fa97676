package sandbox

import (
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Layout is a Policy resolved against the file system: what Enter and Restrict
// apply. It is plain data that encoding/gob carries to another process.
type Layout struct {
	// Places are the paths that are shown otherwise than what they lie in, the
	// outer before the inner.
	Places []Place
	// Devices are the device files that stay usable.
	Devices  []string
	Network  bool
	Limits   Limits
	Features Features
}

// Place is one path that a command sees otherwise than what it lies in.
type Place struct {
	Path   string
	Source string // what is shown at Path; Path itself but for the temp directory
	Kind   int
	Dir    bool
	Above  int      // index of the nearest place that it lies in; -1 for none
	Layers *Overlay // mounted at Path instead of Source; nil for none
	Link   string   // target of a symbolic link that stays visible
}

// Lay resolves a policy. A path of Write, Temp or Overlays that does not exist, or
// a path that a symbolic link is in, is an *fs.PathError; what Protect or Hide name
// and does not exist is passed over.
//
// Of two paths of which one lies below the other the longer counts: what is below
// Protect can be named in Write again, and what is below Hide in Write and Protect.
func Lay(pol Policy, f Features) (Layout, error) {
	all, err := survey(pol)
	if err != nil {
		return Layout{}, err
	}
	if f.Mounts {
		if err := prepareTemp(pol, all); err != nil {
			return Layout{}, err
		}
	}
	l := Layout{Devices: harmless(), Network: pol.Network, Limits: pol.Limits, Features: f}
	index := map[*entry]int{nil: -1}
	for i, e := range all {
		index[e] = i
		l.Places = append(l.Places, Place{e.path, e.source, int(e.kind), e.dir, index[e.above], e.overlay, e.link})
		if strings.IndexByte(e.path, 0) >= 0 {
			return Layout{}, fault("confine", e.path, syscall.EINVAL)
		}
	}
	return l, nil
}

// harmless returns the devices, as far as they exist, that programs need and that
// do no harm.
func harmless() []string {
	var out []string
	for _, path := range [...]string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"} {
		if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			out = append(out, path)
		}
	}
	return out
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// Namespaces returns the flags of unshare(2) for the namespaces that a thread
// needs before Enter.
func (l Layout) Namespaces() int {
	flags := unix.CLONE_NEWNS | unix.CLONE_NEWIPC
	if l.Features.Net && !l.Network {
		flags |= unix.CLONE_NEWNET
	}
	return flags
}
