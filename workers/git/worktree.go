package git

import (
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"ralph/workers/exec"
)

// difference is what distinguishes a work tree from an index.
type difference struct {
	// update are files to be read again, or removed when they are gone.
	update []string
	// remove are entries that no file can stand for any more.
	remove []string
	// nested are untracked directories with a repository of their own.
	nested []string
}

// filter says which paths are taken from the work tree.
type filter struct {
	// skip leaves a path as the index has it.
	skip func(path string, untracked bool) bool
	// maxBytes of a file; 0 is any size. A larger one is as if absent.
	maxBytes int64
}

// differences compares the work tree with an index, with plumbing that never
// looks into submodules: git add would start a git in each of them. env names
// the index; paths are literal, nil is everything.
func (p *place) differences(ctx context.Context, env []string, paths []string, f filter) (difference, error) {
	args := []string{"ls-files", "-z", "-t", "-m", "-o", "-d", "--exclude-standard", "--"}
	out, err := p.run(ctx, call{args: append(args, paths...), env: env})
	if err != nil {
		return difference{}, err
	}
	var d difference
	links := map[string]bool{}
	seen := map[string]bool{}
	for _, e := range splitNul(out) {
		tag, name, ok := strings.Cut(e, " ")
		// A name with a slash at its end is a repository inside this one.
		untracked := tag == "?"
		if !ok || seen[name] {
			continue
		}
		seen[name] = true
		if f.skip != nil && f.skip(name, untracked) || untracked && p.abandoned(name, links) {
			continue
		}
		if strings.HasSuffix(name, "/") {
			d.nested = append(d.nested, name)
			continue
		}
		switch p.standing(name, f.maxBytes, links) {
		case present:
			d.update = append(d.update, name)
		case gone:
			if !untracked {
				d.update = append(d.update, name)
			}
		case unfit:
			if !untracked {
				d.remove = append(d.remove, name)
			}
		case repository:
			// A submodule, or a repository in place of a file: left as it is.
		}
	}
	return d, nil
}

// abandoned says that an untracked file is a half-written one of the file tools,
// which is never recorded, and removes it when the Ralph that wrote it is no
// more.
func (p *place) abandoned(name string, links map[string]bool) bool {
	base := path.Base(name)
	if !strings.HasPrefix(base, ".ralph-write-") {
		return false
	}
	if exec.Leftover(base, "write") && !p.linked(path.Dir(name), links) {
		_ = os.Remove(filepath.Join(p.workTree, filepath.FromSlash(name))) // it is tried again next time
	}
	return true
}

type standing int

const (
	present    standing = iota // a readable regular file or a symlink
	gone                       // nothing is there
	unfit                      // something that cannot be recorded
	repository                 // a directory with a repository of its own
)

// standing looks at what is in the work tree under a name.
func (p *place) standing(name string, maxBytes int64, links map[string]bool) standing {
	if p.linked(path.Dir(name), links) {
		return unfit
	}
	full := filepath.Join(p.workTree, filepath.FromSlash(name))
	info, err := os.Lstat(full)
	switch {
	case err != nil:
		return gone
	case info.IsDir():
		if _, err := os.Lstat(filepath.Join(full, ".git")); err == nil {
			return repository
		}
		return unfit
	case info.Mode().Type() == fs.ModeSymlink:
		return present
	case !info.Mode().IsRegular(), maxBytes > 0 && info.Size() > maxBytes:
		return unfit
	case unix.Access(full, unix.R_OK) == syscall.EACCES:
		return unfit
	}
	return present
}

// linked says that a directory of the work tree, or one above it, is a symlink:
// what is behind it is not in the work tree.
func (p *place) linked(dir string, known map[string]bool) bool {
	if dir == "." {
		return false
	}
	if is, ok := known[dir]; ok {
		return is
	}
	is := p.linked(path.Dir(dir), known)
	if !is {
		info, err := os.Lstat(filepath.Join(p.workTree, filepath.FromSlash(dir)))
		is = err == nil && info.Mode().Type() == fs.ModeSymlink
	}
	known[dir] = is
	return is
}

// apply brings an index in line with the work tree.
func (p *place) apply(ctx context.Context, env []string, d difference) error {
	if len(d.remove) > 0 {
		if _, err := p.run(ctx, call{args: []string{"update-index", "--force-remove", "-z", "--stdin"}, stdin: nulList(d.remove), env: env}); err != nil {
			return err
		}
	}
	if len(d.update) > 0 {
		args := []string{"update-index", "--add", "--remove", "--replace", "-z", "--stdin"}
		if _, err := p.run(ctx, call{args: args, stdin: nulList(d.update), env: env}); err != nil {
			return err
		}
	}
	return nil
}
