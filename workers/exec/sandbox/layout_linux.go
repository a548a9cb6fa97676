package sandbox

import (
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Layout is a Policy resolved against the file system, as Enter and Restrict apply
// it. It is plain data that encoding/gob carries to another process.
type Layout struct {
	// Places lists the paths that differ from what they lie in, the outer before the
	// inner.
	Places []Place
	// Devices lists the device files that stay usable.
	Devices  []string
	Network  bool
	Limits   Limits
	Features Features
	Guard    *Guard // nil for none
}

// Guarded reports whether the command cannot make names of l.Guard.
func (l Layout) Guarded() bool { return l.Guard != nil && l.Features.Guard }

// Supervised reports whether the command connects only to unix sockets that listen in its
// own network namespace.
func (l Layout) Supervised() bool { return l.Features.Sockets && l.Features.Net && !l.Network }

// around returns the writable places that the root of the Guard lies in, by all their
// paths: what Landlock allows there it allows below the root, too.
func (l Layout) around() []string {
	var out []string
	for _, above := range l.Places {
		if above.Path == l.Guard.Root || !within(l.Guard.Root, above.Path) || kind(above.Kind) != written && kind(above.Kind) != scratch {
			continue
		}
		for _, p := range l.Places {
			if p.Source == above.Source {
				out = append(out, p.Path)
			}
		}
	}
	return out
}

// Place is one path that differs, for a command, from what it lies in.
type Place struct {
	Path   string
	Source string // the path that is shown at Path; Path itself but for the temp directory
	Kind   int
	Dir    bool
	Above  int      // index of the nearest place that it lies in; -1 for none
	Layers *Overlay // mounted at Path instead of Source; nil for none
	Link   string   // target of a symbolic link that is made; "" for others
	Text   string   // contents of a file that is made
}

// Lay resolves a policy for a command with the working directory dir, which stays
// visible; "" is none. It creates in Policy.Temp the mount points that it needs.
func Lay(pol Policy, dir string, f Features) (Layout, error) {
	all, err := survey(pol, dir, f.Mounts)
	if err != nil {
		return Layout{}, err
	}
	if f.Mounts {
		if err := prepareTemp(pol, all); err != nil {
			return Layout{}, err
		}
	}
	if pol.Limits.Processes <= 0 {
		pol.Limits.Processes = DefaultProcesses
	}
	l := Layout{Devices: harmless(), Network: pol.Network, Limits: pol.Limits, Features: f, Guard: pol.Guard}
	index := map[*entry]int{nil: -1}
	for i, e := range all {
		index[e] = i
		l.Places = append(l.Places, Place{e.path, e.source, int(e.kind), e.dir, index[e.above], e.overlay, e.link, e.text})
		if strings.IndexByte(e.path, 0) >= 0 {
			return Layout{}, fault("confine", e.path, syscall.EINVAL)
		}
	}
	return l, nil
}

// harmless returns those of devices that exist.
func harmless() []string {
	var out []string
	for _, path := range devices() {
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

// Namespaces returns the flags of unshare(2) for the namespaces that a thread must
// have of its own before Enter.
func (l Layout) Namespaces() int {
	flags := unix.CLONE_NEWNS | unix.CLONE_NEWIPC
	if l.Features.Net && !l.Network {
		flags |= unix.CLONE_NEWNET
	}
	return flags
}
