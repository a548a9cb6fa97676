package tools

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// outlook is a directory outside of the root that may be looked into. It is
// found by its name below its opened parent at each use: a directory that was
// removed and made anew is the new one, and a symlink in its place leads nowhere
// but below the parent.
type outlook struct {
	parent *os.Root
	at     string // of the parent, absolute, without symlinks
	name   string
}

// Also lets the workspace look into dir, an absolute directory outside of its
// root, such as the dependencies that a symlink inside the root leads to: for
// reading only, and only what is really below dir, which may be made later: only
// its parent must be there. Paths in it are told absolute. It must be called
// before the workspace is used.
func (w *Workspace) Also(dir string) error {
	wrap := func(err error) error { return fmt.Errorf("look into %q: %w", dir, err) }
	if !filepath.IsAbs(dir) || filepath.Clean(dir) == "/" {
		return wrap(errors.New("not the absolute path of a directory"))
	}
	at, err := filepath.EvalSymlinks(filepath.Dir(filepath.Clean(dir)))
	if err != nil {
		return wrap(err)
	}
	o := outlook{at: at, name: filepath.Base(dir)}
	switch info, err := os.Lstat(filepath.Join(at, o.name)); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return wrap(err)
	case !info.IsDir():
		return wrap(syscall.ENOTDIR)
	}
	if o.parent, err = os.OpenRoot(at); err != nil {
		return wrap(err)
	}
	w.also = append(w.also, o)
	return nil
}

// outlookOf finds the outlook that an absolute path is in, and the path relative
// to its parent.
func (w *Workspace) outlookOf(abs string) (o *outlook, rel string) {
	abs = path.Clean(abs)
	for i := range w.also {
		o := &w.also[i]
		if rest, ok := strings.CutPrefix(abs, strings.TrimSuffix(o.at, "/")+"/"); ok && o.holds(rest) {
			return o, rest
		}
	}
	return nil, ""
}

// holds says whether a path relative to the parent is the directory or below it.
func (o *outlook) holds(rel string) bool {
	return rel == o.name || strings.HasPrefix(rel, o.name+"/")
}

// begin goes back to the beginning of a walk: the root, or the parent of an
// outlook.
func (p *place) begin(w *Workspace, o *outlook) {
	p.close()
	p.in, p.dirs = o, []*os.Root{w.root}
	if o != nil {
		p.dirs[0] = o.parent
	}
}

// stays refuses a walk that went into an outlook and out of it again.
func (p *place) stays() error {
	if p.in == nil || p.in.holds(p.below()) {
		return nil
	}
	return &Error{Err: ErrOutside, Hint: "a symlink on the way leads out of the project"}
}
