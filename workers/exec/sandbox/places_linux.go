package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

var (
	errSymlink  = errors.New("a symbolic link is in the way")
	errRelative = errors.New("not an absolute, clean path")
	errRoot     = errors.New("the whole file system cannot be named")
)

// kind is how a command sees a place.
type kind int

const (
	shown   kind = iota // read-only
	pinned              // like what it lies in, but it cannot be renamed
	written             // writable
	scratch             // the private temp directory
	hidden              // empty
	made                // a link or a file that is made where it is hidden
)

// entry is a Place that is being resolved.
type entry struct {
	path    string
	source  string // the path that is shown; path but for scratch
	kind    kind
	dir     bool
	above   *entry   // the nearest entry that it lies in; nil for none
	overlay *Overlay // mounted instead of source; nil for none
	link    string   // target of a symbolic link that is made
	text    string   // contents of a file that is made
}

// survey returns the places of a policy, the outer before the inner, without those
// that change nothing.
func survey(pol Policy, dir string, mounts bool) ([]*entry, error) {
	found := map[string]*entry{}
	for _, e := range covered(pol, mounts) {
		found[e.path] = e
	}
	for path, text := range pol.Files {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path {
			return nil, &fs.PathError{Op: "confine", Path: path, Err: errRelative}
		}
		found[path] = &entry{path: path, kind: made, text: text}
	}
	add := func(k kind, must bool, paths ...string) error {
		for _, path := range paths {
			e, err := place(path, k)
			if errors.Is(err, fs.ErrNotExist) && !must {
				continue
			}
			if err != nil {
				return err
			}
			found[path] = e
		}
		return nil
	}
	// For the same path the last kind counts.
	if real, err := filepath.EvalSymlinks(dir); dir != "" && err == nil && found[real] == nil {
		if err := add(shown, true, real); err != nil {
			return nil, err
		}
	}
	write := pol.Write
	if pol.Temp != "" {
		write = append([]string{pol.Temp}, write...)
	}
	if err := add(written, true, write...); err != nil {
		return nil, err
	}
	for i, o := range pol.Overlays {
		if err := add(written, true, o.Path); err != nil {
			return nil, err
		}
		found[o.Path].overlay = &pol.Overlays[i]
	}
	if err := add(shown, false, pol.Protect...); err != nil {
		return nil, err
	}
	if err := add(hidden, false, pol.Hide...); err != nil {
		return nil, err
	}
	all := make([]*entry, 0, len(found))
	for _, e := range found {
		all = append(all, e)
	}
	for _, path := range sockets() {
		real, err := filepath.EvalSymlinks(path)
		if err == nil && found[real] == nil && answers(real, all) {
			all = append(all, &entry{path: real, source: real, kind: hidden})
		}
	}
	return pin(prune(all)), nil
}

// sockets returns the paths of the sockets of this network namespace on which a
// process listens.
func sockets() []string {
	const accepts = "00010000" // the flag of a socket that listens
	text, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		// Num RefCount Protocol Flags Type St Inode Path
		head, path, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " /")
		if f := strings.Fields(head); ok && len(f) == 7 && (f[3] == accepts || f[4] == datagram) {
			out = append(out, "/"+path)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

const datagram = "0002"

// answers reports whether the command could reach a socket that it did not make
// itself: one that is neither hidden nor in a writable place.
func answers(path string, all []*entry) bool {
	base, at := shown, ""
	for _, e := range all {
		if within(path, e.path) && len(e.path) > len(at) {
			base, at = e.kind, e.path
		}
		if e.kind == hidden && within(path, e.path) {
			return false // whatever is shown in there
		}
	}
	info, err := os.Lstat(path)
	return base == shown && err == nil && info.Mode()&fs.ModeSocket != 0
}

// place makes the entry of a path that a policy names.
func place(path string, k kind) (*entry, error) {
	fault := func(err error) error { return &fs.PathError{Op: "confine", Path: path, Err: err} }
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.IndexByte(path, 0) >= 0 {
		return nil, fault(errRelative)
	}
	if path == "/" && k != shown {
		return nil, fault(errRoot)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return nil, fault(err)
	}
	if real != path {
		return nil, fault(errSymlink)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return nil, fault(err.(*fs.PathError).Err)
	}
	return &entry{path: path, source: path, kind: k, dir: info.IsDir()}, nil
}

// covered returns the places that differ for every command; see rules_linux.go.
func covered(pol Policy, mounts bool) []*entry {
	var out []*entry
	cover := func(path string, e entry) {
		real, err := filepath.EvalSymlinks(path)
		if err != nil || real == "/" || slices.ContainsFunc(out, func(o *entry) bool { return o.path == real }) {
			return
		}
		if info, err := os.Lstat(real); err == nil {
			e.path, e.dir = real, info.IsDir()
			if e.source == "" {
				e.source = real
			}
			out = append(out, &e)
		}
	}
	for _, path := range tempDirs() {
		switch {
		case !mounts: // the temp directory has its own name
		case pol.Temp == "":
			cover(path, entry{kind: hidden})
		default:
			cover(path, entry{kind: scratch, source: pol.Temp})
		}
	}
	for _, path := range alwaysHidden() {
		cover(path, entry{kind: hidden})
	}
	for _, path := range append(keptLinks(), pol.Links...) {
		if target, err := os.Readlink(path); err == nil {
			out = append(out, &entry{path: path, kind: made, link: target})
		}
	}
	if pol.Network {
		paths := resolverDirs()
		if conf, err := filepath.EvalSymlinks(resolverConfig); err == nil {
			paths = append(paths, conf)
		}
		for _, path := range paths {
			if within(path, "/run") {
				cover(path, entry{kind: shown})
			}
		}
	}
	return out
}

// prune sorts the places and removes those that are like what they lie in.
func prune(all []*entry) []*entry {
	slices.SortFunc(all, func(a, b *entry) int { return strings.Compare(a.path+"/", b.path+"/") })
	kept := all[:0:0]
	for _, e := range all {
		for _, k := range kept { // sorted from the outermost: the last match is the nearest
			if within(e.path, k.path) {
				e.above = k
			}
		}
		base := shown
		if e.above != nil {
			base = e.above.kind
		}
		switch {
		case e.kind == made && base != hidden,
			e.kind == base && base != scratch && e.overlay == nil:
		default:
			kept = append(kept, e)
		}
	}
	// Of the temp directory it is hidden already what is not shown there.
	return slices.DeleteFunc(kept, func(e *entry) bool {
		return e.kind == hidden && e.above != nil && e.above.kind == scratch && !slices.ContainsFunc(kept, func(k *entry) bool { return k.above == e })
	})
}

// pin adds the directories between a protected or hidden place, or an overlay, and
// the writable one above it: only a mount point cannot be renamed and replaced.
func pin(all []*entry) []*entry {
	known := map[string]bool{}
	for _, e := range all {
		known[e.path] = true
	}
	out := slices.Clone(all)
	for _, e := range all {
		if e.kind != shown && e.kind != hidden && e.overlay == nil || e.above == nil || e.above.kind != written {
			continue
		}
		for dir := filepath.Dir(e.path); dir != e.above.path && !known[dir]; dir = filepath.Dir(dir) {
			known[dir] = true
			out = append(out, &entry{path: dir, source: dir, kind: pinned, dir: true, above: e.above})
		}
	}
	slices.SortFunc(out, func(a, b *entry) int { return strings.Compare(a.path+"/", b.path+"/") })
	return out
}

// prepareTemp makes the mount points in the temp directory, in place of what an
// earlier command may have put there.
func prepareTemp(pol Policy, all []*entry) error {
	var root *os.Root
	for _, e := range all {
		if e.above == nil || e.above.kind != scratch {
			continue
		}
		if root == nil {
			r, err := os.OpenRoot(pol.Temp)
			if err != nil {
				return err
			}
			defer func() { _ = r.Close() }()
			root = r
		}
		rel, err := filepath.Rel(e.above.path, e.path)
		if err == nil {
			err = prepare(root, rel, e.dir)
		}
		if err != nil {
			return &fs.PathError{Op: "prepare a place in the temp directory for", Path: e.path, Err: err}
		}
	}
	return nil
}

func prepare(root *os.Root, rel string, dir bool) error {
	parts := strings.Split(rel, "/")
	for i := range parts {
		path, last := strings.Join(parts[:i+1], "/"), i == len(parts)-1
		info, err := root.Lstat(path)
		if err == nil && (info.IsDir() != (dir || !last) || info.Mode()&fs.ModeSymlink != 0) {
			err = root.RemoveAll(path)
			if err == nil {
				err = fs.ErrNotExist
			}
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if dir || !last {
			err = root.Mkdir(path, 0o700)
		} else {
			var f *os.File
			f, err = root.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
			if err == nil {
				err = f.Close()
			}
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}
