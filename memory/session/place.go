package session

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/afero"

	"ralph/memory/durable"
)

// ErrNotEmpty is matched when a session is to be kept in a directory that holds
// something.
var ErrNotEmpty = errors.New("is not empty")

// ErrLinks is matched when a session is to be kept elsewhere and the filesystem
// of the project has no links.
var ErrLinks = errors.New("has no symbolic links")

// homeFile stands in a session directory that is kept outside `.ralph` and names
// the `.ralph` that it belongs to: a link to a directory that does not say so is
// not followed.
const homeFile = ".ralph-home"

// make makes the directory of the session with the given number: the one that the
// options name, which must be new or empty, or one below `.ralph/sessions`.
func (s *Session) make(number int, name string) error {
	fsys, dir := s.o.FS, fmt.Sprintf("session-%03d-%s", number, slug(name))
	link := filepath.Join(s.o.root(), dir)
	if s.dir = link; s.o.Dir == "" {
		return durable.MkdirAll(fsys, s.dir, 0o700)
	}
	links, ok := fsys.(afero.Symlinker)
	if !ok {
		return fmt.Errorf("keep the session in %q: the filesystem %w", s.o.Dir, ErrLinks)
	}
	if err := fsys.MkdirAll(s.o.Dir, 0o700); err != nil {
		return fmt.Errorf("keep the session in %q: %w", s.o.Dir, err)
	}
	s.dir = filepath.Clean(s.o.Dir)
	switch held, err := list(fsys, s.dir); {
	case err != nil:
		return fmt.Errorf("keep the session in %q: %w", s.o.Dir, err)
	case len(held) > 0:
		return fmt.Errorf("keep the session in %q: it %w", s.o.Dir, ErrNotEmpty)
	}
	target, home := s.dir, s.o.StateDir
	if rel, err := filepath.Rel(filepath.Dir(s.o.StateDir), s.dir); err == nil && filepath.IsLocal(rel) {
		// Within the project both stay true when it is moved.
		target, _ = filepath.Rel(s.o.root(), s.dir)
		home, _ = filepath.Rel(s.dir, s.o.StateDir)
	}
	// What it holds is no work on the project.
	return errors.Join(
		durable.Replace(fsys, filepath.Join(s.dir, homeFile), []byte(home+"\n"), 0o600),
		durable.Replace(fsys, filepath.Join(s.dir, ".gitignore"), []byte("*\n"), 0o600),
		durable.SyncDir(fsys, s.dir),
		links.SymlinkIfPossible(target, link), durable.SyncDir(fsys, s.o.root()))
}

// Home is the directory that a session of the project is in: itself or, where
// that is a link to a session that was made elsewhere for this project, what it
// leads to. Another link is left as it is, for whoever writes there to refuse.
func Home(fsys afero.Fs, dir, stateDir string) string {
	links, ok := fsys.(afero.LinkReader)
	info, err := durable.Lstat(fsys, dir)
	if !ok || err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return dir
	}
	target, err := links.ReadlinkIfPossible(dir)
	if err != nil {
		return dir
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(dir), target)
	}
	if info, err := durable.Lstat(fsys, target); err != nil || !info.IsDir() {
		return dir
	}
	said, err := durable.ReadFile(fsys, filepath.Join(target, homeFile), 4096)
	if err != nil {
		return dir
	}
	home := strings.TrimSpace(string(said))
	if !filepath.IsAbs(home) {
		home = filepath.Join(target, home)
	}
	if home != filepath.Clean(stateDir) {
		return dir
	}
	return target
}
