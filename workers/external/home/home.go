// Package home makes a home directory of its own for one run of another agent's program.
// What the program keeps there (settings, hooks, plugins, logins, sessions) is a copy;
// the rest is shown by links to the user's. Nothing that the program writes comes back
// but credentials that it has refreshed.
//
//	h, told, err := home.New(home.Options{User: "/home/me", Environ: os.Environ(), Stores: stores})
//	defer h.Close()
//	// … the program runs; every now and then, and after it:
//	h.Sync()
//
// A credential comes back value by value: of the user's file only the values that name a
// token or its time are replaced, by such of the same kind, and only when the user's own
// program has not changed them meanwhile. So a copy that was replaced by a link, by
// settings or by anything else changes nothing.
package home

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"ralph/workers/exec"
	"ralph/workers/tempdir"
)

// Bounds of what is copied of one entry of Store.Keep, and of links in a directory.
const (
	maxBytes = 32 << 20
	maxFiles = 4000
	maxLinks = 5000
)

// Store is a file or directory in which a program keeps what is its own.
type Store struct {
	// Path begins with ~/.
	Path string
	// Env is the variable with which the user can put it elsewhere, "" for none: at
	// Below in the directory that it names.
	Env, Below string
	// Keep lists what the copy begins with, as patterns of path.Match for paths in the
	// directory; nil is all. The rest, such as sessions, is as in a new home.
	Keep []string
	// Credentials are patterns for the files, JSON, whose tokens come back; "." is the
	// store itself.
	Credentials []string
}

// Options of a Home.
type Options struct {
	// User is the user's home, absolute, which may be missing; Environ the user's
	// environment.
	User    string
	Environ []string
	Stores  []Store
	// Temp is where it is made; "" is the system's directory for such things.
	Temp string
}

// Home is such a directory. Its methods are not safe for concurrent use.
type Home struct {
	temp  *tempdir.Dir
	path  string
	root  *os.Root
	env   []string
	creds []*credential
}

// New makes a home. told are whole sentences about what is not in it. Where it cannot be
// made whole the error says so, and there is none.
func New(o Options) (h *Home, told []string, err error) {
	user, err := filepath.EvalSymlinks(o.User)
	if err != nil || !filepath.IsAbs(user) {
		user = os.DevNull // there is nothing in it
	}
	temp, err := tempdir.Make(o.Temp, "agent")
	if err != nil {
		return nil, nil, err
	}
	h = &Home{temp: temp, path: filepath.Join(temp.Path, "home")}
	m := &maker{user: user, home: h.path, environ: o.Environ, dirs: map[string]string{}, stores: map[string]bool{}}
	if err = os.Mkdir(h.path, 0o700); err == nil {
		h.root, err = os.OpenRoot(h.path)
	}
	if err == nil {
		err = m.make(h, o.Stores)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("make a home for the agent: %w", err), h.Close())
	}
	return h, m.told, nil
}

// Path is the directory.
func (h *Home) Path() string { return h.path }

// Environ are the variables that lead a program to it.
func (h *Home) Environ() []string { return h.env }

// Close removes it. What is to come back has been taken by Sync.
func (h *Home) Close() error {
	var err error
	if h.root != nil {
		err = h.root.Close()
	}
	return errors.Join(err, h.temp.Remove())
}

// maker fills a home.
type maker struct {
	user, home string
	environ    []string
	dirs       map[string]string // directories made, relative, with what they show of the user's
	stores     map[string]bool   // by their paths, relative
	told       []string
}

// bases are the directories of the XDG specification below a home, with their variables.
func bases() map[string]string {
	return map[string]string{".config": "XDG_CONFIG_HOME", ".local/share": "XDG_DATA_HOME", ".local/state": "XDG_STATE_HOME", ".cache": "XDG_CACHE_HOME"}
}

// place is where the user has a path of the home.
func (m *maker) place(rel string) string {
	for base, name := range bases() {
		if dir := exec.Getenv(m.environ, name); filepath.IsAbs(dir) && (rel == base || strings.HasPrefix(rel, base+"/")) {
			return filepath.Join(dir, strings.TrimPrefix(rel, base))
		}
	}
	return filepath.Join(m.user, rel)
}

func (m *maker) make(h *Home, stores []Store) error {
	h.env = []string{"HOME=" + m.home}
	m.dirs["."] = m.user
	for base, name := range bases() {
		if filepath.IsAbs(exec.Getenv(m.environ, name)) && base != ".cache" { // caches are shared
			h.env = append(h.env, name+"="+filepath.Join(m.home, base))
			m.ancestors(path.Join(base, "x"))
		}
	}
	if exec.Getenv(m.environ, "GOPATH") == "" && m.user != os.DevNull { // by its real path: what is compiled is found by it
		h.env = append(h.env, "GOPATH="+filepath.Join(m.user, "go"))
	}
	for _, s := range stores {
		rel, ok := strings.CutPrefix(s.Path, "~/")
		if rel = path.Clean(rel); !ok || !filepath.IsLocal(rel) || rel == "." {
			return fmt.Errorf("state %q does not begin with ~/", s.Path)
		}
		m.stores[rel] = true
		m.ancestors(rel)
	}
	for _, s := range stores {
		rel := path.Clean(strings.TrimPrefix(s.Path, "~/"))
		from := m.place(rel)
		if dir := exec.Getenv(m.environ, s.Env); s.Env != "" && filepath.IsAbs(dir) {
			from = filepath.Join(dir, s.Below)
			h.env = append(h.env, s.Env+"="+strings.TrimSuffix(filepath.Join(m.home, rel), "/"+s.Below))
		}
		if err := m.store(h, s, from, rel); err != nil {
			return err
		}
	}
	for dir, shows := range m.dirs {
		if err := m.links(dir, shows); err != nil {
			return err
		}
	}
	return nil
}

// ancestors notes the directories above a path.
func (m *maker) ancestors(rel string) {
	for dir := path.Dir(rel); dir != "."; dir = path.Dir(dir) {
		m.dirs[dir] = m.place(dir)
	}
}

// links shows a directory of the user's, but for what is made.
func (m *maker) links(dir, shows string) error {
	if err := os.MkdirAll(filepath.Join(m.home, dir), 0o700); err != nil {
		return err
	}
	f, err := os.Open(shows)
	if err != nil {
		return nil // there is nothing to show
	}
	defer func() { _ = f.Close() }()
	names, err := f.Readdirnames(maxLinks)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil // it cannot be read
	}
	for _, name := range names {
		rel := path.Join(dir, name)
		if _, made := m.dirs[rel]; made || m.stores[rel] {
			continue
		}
		if err := os.Symlink(filepath.Join(shows, name), filepath.Join(m.home, rel)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// store copies what a store begins with.
func (m *maker) store(h *Home, s Store, from, rel string) error {
	info, err := os.Stat(from)
	if err != nil {
		return nil // the program begins without
	}
	to := filepath.Join(m.home, rel)
	keep := []string{"."}
	if info.IsDir() {
		if err := os.MkdirAll(to, 0o700); err != nil {
			return err
		}
		keep = nil
		for _, pattern := range orAll(s.Keep) {
			found, _ := fs.Glob(os.DirFS(from), pattern) // the pattern is ours, or all
			keep = append(keep, found...)
		}
		slices.Sort(keep)
		keep = slices.Compact(keep)
	}
	for _, name := range keep {
		c := &copier{}
		err := c.copy(filepath.Join(from, name), filepath.Join(to, name), false)
		switch {
		case errors.Is(err, errLarge):
			m.told = append(m.told, fmt.Sprintf("%s is too large to be copied, and it worked without", path.Join(s.Path, name)))
			err = os.RemoveAll(filepath.Join(to, name))
		case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist):
			m.told = append(m.told, fmt.Sprintf("%s could not be copied: %v", path.Join(s.Path, name), err))
			err = nil
		}
		if err != nil {
			return err
		}
	}
	for _, pattern := range s.Credentials {
		found := []string{"."}
		if info.IsDir() {
			found, _ = fs.Glob(os.DirFS(from), pattern) // the pattern is the adapter's
		}
		for _, name := range found {
			h.track(filepath.Join(from, name), path.Join(rel, filepath.ToSlash(name)), path.Join(s.Path, name))
		}
	}
	return nil
}

// orAll are patterns, or one for all names.
func orAll(keep []string) []string {
	if keep == nil {
		return []string{"*"}
	}
	return slices.Clone(keep)
}

// errLarge ends a copy that is beyond the bounds.
var errLarge = errors.New("too large")

// copier copies one entry.
type copier struct {
	bytes int64
	files int
}

// copy copies a file or a directory. A link is followed, as people keep their settings
// elsewhere, but none below one: what it leads to may be a repository's.
func (c *copier) copy(from, to string, linked bool) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if c.files++; c.files > maxFiles {
		return errLarge
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0 && linked:
		return nil
	case info.Mode()&fs.ModeSymlink != 0:
		real, err := filepath.EvalSymlinks(from)
		if err != nil {
			return nil // it leads nowhere
		}
		return c.copy(real, to, true)
	case info.IsDir():
		if err := os.MkdirAll(to, 0o700); err != nil {
			return err
		}
		entries, err := os.ReadDir(from)
		for _, e := range entries {
			if err := c.copy(filepath.Join(from, e.Name()), filepath.Join(to, e.Name()), linked); err != nil {
				return err
			}
		}
		return err
	case !info.Mode().IsRegular():
		return nil
	}
	return c.file(from, to, info.Mode().Perm()&0o700|0o600)
}

func (c *copier) file(from, to string, mode fs.FileMode) error {
	in, err := os.OpenFile(from, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	n, err := io.Copy(out, io.LimitReader(in, maxBytes-c.bytes+1))
	if c.bytes += n; err == nil && c.bytes > maxBytes {
		err = errLarge
	}
	return errors.Join(err, out.Close())
}
