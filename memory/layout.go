package memory

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/afero"

	"ralph/memory/durable"
)

// format is what the stamp of our `.ralph/` says.
const format = "ralph 1"

// errNewer is why a state directory of a later Ralph is left alone.
var errNewer = errors.New("its .ralph directory was made by a newer Ralph")

// makeHome makes `.ralph/`, and refuses one whose parts are links, or one of a
// newer Ralph. What it makes is empty, so that it needs no lock.
func (s *Store) makeHome() error {
	for _, dir := range []string{s.StateDir(), s.Quarantine()} {
		if err := realDir(s.fs, dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if _, err := s.stamped(); err != nil {
		return err
	}
	return durable.MkdirAll(s.fs, s.StateDir(), 0o700)
}

// stamped says that `.ralph/` has our stamp.
func (s *Store) stamped() (bool, error) {
	data, err := durable.ReadFile(s.fs, filepath.Join(s.StateDir(), "FORMAT"), 4096)
	switch line, _, _ := bytes.Cut(data, []byte("\n")); {
	case err == nil && string(bytes.TrimSpace(line)) == format:
		return true, nil
	case err == nil && bytes.HasPrefix(line, []byte("ralph ")):
		return false, errNewer
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	return false, nil
}

// prepare makes `.ralph/` ours, under the lock: its stamp, and a line in git's
// exclude file. A directory that another tool made keeps its files; ours go
// beside them. One that has a stamp is ready, unless anew says that it is not of
// this user's Ralph.
func (s *Store) prepare(rec *Recovery, anew bool) error {
	dir := s.StateDir()
	done, err := s.stamped()
	if err != nil || done && !anew {
		return err
	}
	if others := foreign(s.fs, dir); len(others) > 0 && !done {
		rec.Warnings = append(rec.Warnings, "the .ralph directory holds files of another tool ("+clip(strings.Join(others, ", "), 100)+"): Ralph leaves them alone and keeps its own beside them")
	}
	if s.repo.common != "" {
		if err := exclude(s.fs, s.repo.common); err != nil {
			rec.Warnings = append(rec.Warnings, "git may show .ralph as untracked: "+err.Error())
		}
	}
	return durable.Replace(s.fs, filepath.Join(dir, "FORMAT"), []byte(format+"\n"), 0o600)
}

// Unlinked refuses the state of the project at root when it, or a directory in it, is
// a link: it would be read from elsewhere, and written to.
func Unlinked(root string) error { return unlinked(durable.Disk(), filepath.Join(root, ".ralph")) }

// unlinked refuses a state directory whose parts are links: a repository could
// bring them along to have journals and outputs written elsewhere.
func unlinked(fsys afero.Fs, dir string) error {
	for _, name := range []string{"", "runs", "sessions", "sessions/.numbers", "sessions/archive", "sessions/summaries", "backups", "quarantine", "worktrees"} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		err := realDir(fsys, path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// foreign lists what in a `.ralph/` without a stamp is not ours.
func foreign(fsys afero.Fs, dir string) []string {
	d, err := fsys.Open(dir)
	if err != nil {
		return nil
	}
	defer func() { _ = d.Close() }()
	names, _ := d.Readdirnames(50) // a few are enough for a message
	var others []string
	for _, n := range names {
		switch n {
		case "config.yaml", "lock", "FORMAT", ".gitignore", "quarantine", "id", "commands", "skills", "agents":
		default:
			others = append(others, n)
		}
	}
	return others
}

// excludePatterns keep state out of git, and let it see what of `.ralph/` belongs
// to the project.
func excludePatterns() []string {
	return []string{"**/.ralph/*", "!**/.ralph/config.yaml", "!**/.ralph/commands/", "!**/.ralph/skills/", "!**/.ralph/agents/"}
}

// exclude puts the state in `.ralph/` into the exclude file of a repository, once.
func exclude(fsys afero.Fs, common string) error {
	path := filepath.Join(common, "info", "exclude")
	stands := func() (bool, error) {
		data, err := durable.ReadFile(fsys, path, 1<<20)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return excluded(data), err
	}
	if done, err := stands(); done || err != nil {
		return err
	}
	if err := durable.MkdirAll(fsys, filepath.Dir(path), 0o755); err != nil {
		return err
	}
	unlock, err := durable.LockDir(fsys, filepath.Dir(path))
	if err != nil {
		return err
	}
	defer unlock()
	if done, err := stands(); done || err != nil { // of another Ralph, meanwhile
		return err
	}
	return durable.AppendText(fsys, path, strings.Join(excludePatterns(), "\n"), 0o644)
}

// gitDirs is where git keeps what all worktrees share; empty without git.
type gitDirs struct{ common string }

// findGit looks for the repository by reading `.git` entries from root
// upwards; it starts no git.
func findGit(fsys afero.Fs, root string) gitDirs {
	for at := root; ; at = filepath.Dir(at) {
		if g, ok := gitAt(fsys, at); ok {
			return g
		}
		if at == filepath.Dir(at) {
			return gitDirs{}
		}
	}
}

// gitAt reads the `.git` entry of a directory. One that leads elsewhere counts
// only when the repository there says that it belongs here: what was cloned or
// unpacked does not choose where Ralph writes its lock and its line.
func gitAt(fsys afero.Fs, at string) (gitDirs, bool) {
	dot := filepath.Join(at, ".git")
	info, err := fsys.Stat(dot)
	if err != nil {
		return gitDirs{}, false
	}
	dir := dot
	if !info.IsDir() {
		text, _ := firstLine(fsys, dot) // a file that cannot be read names nothing
		var ok bool
		if dir, ok = strings.CutPrefix(text, "gitdir: "); !ok {
			return gitDirs{}, false
		}
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(at, dir)
		}
	}
	// What a `.git` file names must really be git's before we write there.
	if _, ok := firstLine(fsys, filepath.Join(dir, "HEAD")); !ok {
		return gitDirs{}, false
	}
	if (dir != dot || realDir(fsys, dot) != nil) && !belongs(fsys, at, dir) {
		return gitDirs{}, false
	}
	common := dir
	if text, ok := firstLine(fsys, filepath.Join(dir, "commondir")); ok {
		if common = text; !filepath.IsAbs(common) {
			common = filepath.Join(dir, common)
		}
		if filepath.Clean(common) != filepath.Dir(filepath.Dir(filepath.Clean(dir))) {
			return gitDirs{}, false // git makes it only below the common directory's worktrees/
		}
	}
	if info, err := fsys.Stat(filepath.Join(common, "objects")); err != nil || !info.IsDir() {
		return gitDirs{}, false
	}
	return gitDirs{common: filepath.Clean(common)}, true
}

// belongs says that a git directory elsewhere names at as its work tree: a
// linked worktree by the file gitdir, a submodule by core.worktree.
func belongs(fsys afero.Fs, at, dir string) bool {
	same := func(path string) bool {
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		a, err := fsys.Stat(at)
		b, err2 := fsys.Stat(path)
		return err == nil && err2 == nil && (os.SameFile(a, b) || filepath.Clean(path) == at)
	}
	if back, ok := firstLine(fsys, filepath.Join(dir, "gitdir")); ok {
		return filepath.Base(back) == ".git" && same(filepath.Dir(back))
	}
	config, err := durable.ReadFile(fsys, filepath.Join(dir, "config"), 64<<10)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(config)) {
		key, value, ok := strings.Cut(line, "=")
		if ok && strings.EqualFold(strings.TrimSpace(key), "worktree") && same(strings.Trim(strings.TrimSpace(value), `"`)) {
			return true
		}
	}
	return false
}

func firstLine(fsys afero.Fs, path string) (string, bool) {
	data, err := durable.ReadFile(fsys, path, 64<<10)
	if err != nil {
		return "", false
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimRight(line, "\r"), true
}
