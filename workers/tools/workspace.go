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

	"ralph/workers/exec/acts"
)

// What a Workspace refuses. Each is matched by an *Error.
var (
	ErrOutside   = errors.New("is outside the project")
	ErrProtected = errors.New("is protected and may not be written")
	ErrConcealed = errors.New("is Ralph's own and may not be read or written")
	ErrSpecial   = errors.New("is not a regular file")
	ErrLinked    = errors.New("has other hard links")
	ErrChanged   = errors.New("was changed by someone else meanwhile")
)

// Error is what failed on which path, with a way out where there is one.
type Error struct {
	Op   string // "read", "write", …
	Path string // as it was asked for
	Err  error
	Hint string
}

// Error returns one line: op, path, cause and hint.
func (e *Error) Error() string {
	cause := e.Err
	if inner, ok := errors.AsType[*fs.PathError](cause); ok {
		cause = inner.Err
	}
	text := fmt.Sprintf("%s %q: %v", e.Op, cutText(e.Path, 300), cause)
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Workspace is access to the files below one directory that no path, symlink
// or race can leave. Paths are relative to the root with slashes; absolute ones
// are accepted when they lie below the root, in any spelling of it. A symlink
// inside the root that leads to a place inside it is followed.
//
// What is written is never .git, .ralph, .vscode or .idea, nor below them, nor
// what OpenWorkspace was told to protect; what is read is never what Conceal was
// told of. Safe for concurrent use; whoever opened it closes it.
type Workspace struct {
	root    *os.Root
	given   string // the root as it was given, absolute
	real    string // the root with symlinks resolved
	protect map[string]bool
	conceal map[string]bool
	also    []outlook
	writing func(path string) (done func(ok bool))
}

// OnWrite has f called with the absolute path of each file before it is written, and
// what f returns after that, with whether it was. It is called before the workspace is
// used.
func (w *Workspace) OnWrite(f func(path string) (done func(ok bool))) { w.writing = f }

// OpenWorkspace opens root. protect names further files and directories that
// are not to be written: relative to the root, or absolute, when those outside
// the root are left out.
func OpenWorkspace(root string, protect ...string) (*Workspace, error) {
	given, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("open workspace %q: %w", root, err)
	}
	resolved, err := filepath.EvalSymlinks(given)
	if err != nil {
		return nil, fmt.Errorf("open workspace %q: %w", root, err)
	}
	r, err := os.OpenRoot(resolved)
	if err != nil {
		return nil, fmt.Errorf("open workspace %q: %w", root, err)
	}
	w := &Workspace{root: r, given: given, real: resolved, protect: map[string]bool{}, conceal: map[string]bool{}, writing: func(string) func(bool) { return func(bool) {} }}
	for _, p := range protect {
		if rel, err := w.Rel(p); err == nil && rel != "." {
			w.protect[acts.Fold(rel)] = true
		}
	}
	return w, nil
}

// Conceal makes a directory that is not to be read or written either, absolute. One
// outside of the root is out of reach already.
func (w *Workspace) Conceal(dir string) {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	if rel, err := w.Rel(dir); err == nil && rel != "." {
		w.conceal[acts.Fold(rel)] = true
	}
}

// Close gives the root back; what is open below it stays usable.
func (w *Workspace) Close() error {
	err := w.root.Close()
	for _, o := range w.also {
		err = errors.Join(err, o.parent.Close())
	}
	return err
}

// Rel returns name as a clean path relative to the root, "." for the root. It
// follows no symlink but those in the spelling of the root itself.
func (w *Workspace) Rel(name string) (string, error) {
	refuse := func(err error, hint string) (string, error) {
		return "", &Error{Op: "resolve", Path: name, Err: err, Hint: hint}
	}
	switch {
	case name == "":
		return refuse(errors.New("the path is empty"), "")
	case strings.ContainsRune(name, 0):
		return refuse(errors.New("the path holds a NUL byte"), "")
	case len(name) > maxPathBytes || strings.Count(name, "/") > maxPathParts:
		return refuse(syscall.ENAMETOOLONG, "")
	case name == "~" || strings.HasPrefix(name, "~/"):
		return refuse(ErrOutside, "~ is not expanded; give a path relative to the project")
	}
	if !strings.HasPrefix(name, "/") {
		rel := path.Clean(name)
		if rel == ".." || strings.HasPrefix(rel, "../") {
			return refuse(ErrOutside, "file tools reach only what is below the project's root")
		}
		return rel, nil
	}
	abs := path.Clean(name)
	for _, root := range []string{w.given, w.real} {
		if abs == root {
			return ".", nil
		}
		if rest, ok := strings.CutPrefix(abs, strings.TrimSuffix(root, "/")+"/"); ok {
			return rest, nil
		}
	}
	if rel, ok := w.otherSpelling(abs); ok {
		return rel, nil
	}
	return refuse(ErrOutside, "file tools reach only what is below the project's root")
}

// otherSpelling finds the root among the parents of abs by identity, for a root
// that is reached by yet another symlink.
func (w *Workspace) otherSpelling(abs string) (string, bool) {
	self, err := w.root.Stat(".")
	if err != nil {
		return "", false
	}
	for at := abs; at != "/"; at = path.Dir(at) {
		if info, err := os.Stat(at); err == nil && os.SameFile(info, self) {
			return strings.TrimPrefix(strings.TrimPrefix(abs, at), "/"), true
		}
	}
	return "", false
}

// Resolve returns what name really means, relative to the root, with symlinks
// followed: what a permission dialog should show. What does not exist yet is
// resolved as far as it exists.
func (w *Workspace) Resolve(name string) (string, error) {
	p, err := w.reach("resolve", name, looking)
	if err != nil {
		return "", err
	}
	defer p.close()
	return p.path(), nil
}

// Protected says whether writing to name is refused because of what it is.
func (w *Workspace) Protected(name string) bool {
	p, err := w.reach("write", name, writing)
	if err == nil {
		p.close()
	}
	return errors.Is(err, ErrProtected)
}

// purpose says what a path is walked for.
type purpose int

const (
	looking purpose = iota // nothing is changed
	writing                // protected names are refused
	making                 // and missing directories are made
)

// place is the end of a walked path: the opened directory that holds it, and
// its name there. Holding the directory open is what makes the check and the
// use of a path one and the same thing.
type place struct {
	in    *outlook   // what the path led into; nil: it is below the root
	dirs  []*os.Root // dirs[0] is the workspace's own, or that of in
	names []string   // of dirs[1:]
	name  string     // "." when the path ends in the directory itself
	info  fs.FileInfo
	rest  []string // components below name when name does not exist
}

func (p *place) dir() *os.Root { return p.dirs[len(p.dirs)-1] }

// path is where the walk ended, relative to the root; absolute in an outlook.
func (p *place) path() string {
	if p.in != nil {
		return path.Join(p.in.at, p.below())
	}
	return p.below()
}

// below is path as seen from where the walk began.
func (p *place) below() string {
	all := append(append([]string{}, p.names...), p.name)
	return path.Join(append(all, p.rest...)...)
}

func (p *place) pop() {
	_ = p.dir().Close() // a directory only read from: nothing can be lost
	p.dirs, p.names = p.dirs[:len(p.dirs)-1], p.names[:len(p.names)-1]
}

func (p *place) close() {
	for len(p.dirs) > 1 {
		p.pop()
	}
}

// Bounds of one path. Each part costs an open directory while it is walked; the
// limit on symlinks is that of kernels.
const (
	maxPathBytes = 4096
	maxPathParts = 128
	maxLinks     = 40
)

// reach walks name component by component, each relative to the opened
// directory before it, and follows symlinks itself, so that every directory
// that a path really goes through is seen by its own name.
func (w *Workspace) reach(op, name string, why purpose) (*place, error) {
	p := &place{dirs: []*os.Root{w.root}}
	rel, err := w.Rel(name)
	if errors.Is(err, ErrOutside) && why == looking {
		if o, rest := w.outlookOf(name); o != nil {
			p.begin(w, o)
			rel, err = rest, nil
		}
	}
	if err != nil {
		if e, ok := errors.AsType[*Error](err); ok {
			e.Op = op
		}
		return nil, err
	}
	if err = w.walkPath(p, rel, why); err == nil {
		err = p.stays()
	}
	if err != nil {
		p.close()
		if e, ok := errors.AsType[*Error](err); ok {
			e.Op, e.Path = op, name
			return nil, e
		}
		return nil, &Error{Op: op, Path: name, Err: err, Hint: hintFor(err)}
	}
	return p, nil
}

func (w *Workspace) walkPath(p *place, rel string, why purpose) error {
	todo := strings.Split(rel, "/")
	for links := 0; len(todo) > 0; {
		c := todo[0]
		todo = todo[1:]
		switch c {
		case "", ".":
			continue
		case "..":
			if len(p.names) == 0 {
				return &Error{Err: ErrOutside, Hint: "a symlink on the way leads out of the project"}
			}
			p.pop()
			continue
		}
		if len(w.conceal) > 0 && p.in == nil && w.conceal[acts.Fold(path.Join(path.Join(p.names...), c))] {
			return &Error{Err: ErrConcealed}
		}
		if why != looking {
			if err := w.guard(p, c); err != nil {
				return err
			}
		}
		info, err := p.dir().Lstat(c)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err := w.guardRest(p, c, todo, why); err != nil {
				return err
			}
			if len(todo) == 0 || why != making {
				p.name, p.rest = c, todo
				return nil
			}
			if err := p.dir().Mkdir(c, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
			todo = append([]string{c}, todo...)
		case err != nil:
			return err
		case info.Mode()&fs.ModeSymlink != 0:
			if links++; links > maxLinks {
				return syscall.ELOOP
			}
			next, err := w.follow(p, c, why)
			if err != nil {
				return err
			}
			todo = append(next, todo...)
		case len(todo) == 0 && !info.IsDir():
			p.name, p.info = c, info
			return nil
		default:
			if err := w.enter(p, c, info); err != nil {
				return err
			}
		}
	}
	var err error
	p.name = "."
	p.info, err = p.dir().Stat(".")
	return err
}

// enter opens the directory c and makes sure that it is the one that was looked
// at. The trailing "/." makes the open fail, instead of wait, on a FIFO.
func (w *Workspace) enter(p *place, c string, info fs.FileInfo) error {
	switch {
	case !info.IsDir():
		return syscall.ENOTDIR
	case len(p.dirs) > maxPathParts: // symlinks can be longer than any path
		return syscall.ENAMETOOLONG
	}
	sub, err := p.dir().OpenRoot(c + "/.")
	if err != nil {
		return err
	}
	if now, err := sub.Stat("."); err != nil || !os.SameFile(info, now) {
		_ = sub.Close()
		return ErrChanged
	}
	p.dirs, p.names = append(p.dirs, sub), append(p.names, c)
	return nil
}

// follow reads the symlink c and returns the components to walk instead.
func (w *Workspace) follow(p *place, c string, why purpose) ([]string, error) {
	target, err := p.dir().Readlink(c)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(target, "/") {
		return strings.Split(target, "/"), nil
	}
	var in *outlook
	rel, err := w.Rel(target)
	if err != nil && why == looking {
		in, rel = w.outlookOf(target)
	}
	if err != nil && in == nil {
		return nil, &Error{Err: ErrOutside, Hint: "a symlink on the way leads out of the project"}
	}
	p.begin(w, in)
	return strings.Split(rel, "/"), nil
}

const hintProtected = "tell the user what should change there instead"

// guard refuses protected names: by the name of each component, whatever its
// case, by what the workspace was told, and by identity, for filesystems on
// which other spellings name the same directory.
func (w *Workspace) guard(p *place, c string) error {
	at := path.Join(append(append([]string{}, p.names...), c)...)
	refuse := &Error{Err: ErrProtected, Hint: hintProtected}
	if protectedName(c) || w.protect[acts.Fold(at)] {
		return refuse
	}
	if len(p.names) > 0 {
		return nil
	}
	info, err := p.dir().Lstat(c)
	if err != nil {
		return nil
	}
	for _, name := range []string{".git", ".ralph", ".vscode", ".idea"} {
		if own, err := w.root.Lstat(name); err == nil && os.SameFile(own, info) {
			return refuse
		}
	}
	return nil
}

// guardRest refuses protected names below c, which does not exist yet, so that
// nothing is made on the way to them.
func (w *Workspace) guardRest(p *place, c string, rest []string, why purpose) error {
	at := path.Join(append(append([]string{}, p.names...), c)...)
	for _, name := range rest {
		at = path.Join(at, name)
		if why != looking && (protectedName(name) || w.protect[acts.Fold(at)]) {
			return &Error{Err: ErrProtected, Hint: hintProtected}
		}
		if w.conceal[acts.Fold(at)] {
			return &Error{Err: ErrConcealed}
		}
	}
	return nil
}

func protectedName(c string) bool {
	switch acts.Fold(c) {
	case ".git", ".ralph", ".vscode", ".idea", "git~1":
		return true
	}
	return false
}

func hintFor(err error) string {
	switch {
	case errors.Is(err, syscall.ENAMETOOLONG):
		return "shorten the name"
	case errors.Is(err, syscall.ELOOP):
		return "the symlinks run in a circle"
	case errors.Is(err, syscall.ENOTDIR):
		return "a part of the path is a file"
	case strings.Contains(err.Error(), "path escapes from parent"):
		return "a symlink on the way leads out of the project"
	}
	return ""
}
