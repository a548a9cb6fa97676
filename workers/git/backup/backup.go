package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"ralph/workers/exec"
	"ralph/workers/git"
	"ralph/workers/regular"
)

// maxBytes bounds the copy of a repository.
const maxBytes = 8 << 30

// maxManifestBytes bounds the list of the files of a copy.
const maxManifestBytes = 256 << 20

var (
	// ErrTooLarge reports a repository of more than 8 GiB, which is not copied.
	ErrTooLarge = errors.New("the git directory has more than 8 GiB")
	// ErrReftable reports a repository whose refs are no files, which is not copied.
	ErrReftable = errors.New("the git repository keeps its refs in the reftable format")
)

// Options of a Backup.
type Options struct {
	// Proc runs git.
	Proc *exec.Runner
	Git  git.Location
	// Dir holds the copy. No command may write to it.
	Dir string
}

// Backup is the copy of one repository. It is safe for concurrent use and needs no
// closing.
type Backup struct {
	o       Options
	mu      sync.Mutex
	running int                  // commands that Begin was called for
	files   map[string]stamp     // the copied files as they were in the repository, by path; nil before they were read
	dirs    map[string]directory // of the last look, those that it need not read again
}

// stamp tells whether a file is still the same one with the same content.
type stamp struct {
	Inode uint64      `json:"ino"`
	Size  int64       `json:"size"`
	Time  int64       `json:"ctime_ns"` // of the last change of the inode, which no program can set
	Mode  fs.FileMode `json:"mode"`
}

// Open returns the Backup of a repository. It reads and writes nothing.
func Open(o Options) *Backup { return &Backup{o: o} }

func (b *Backup) copies() string   { return filepath.Join(b.o.Dir, "git") }
func (b *Backup) manifest() string { return filepath.Join(b.o.Dir, "files.json") }
func (b *Backup) marker() string   { return filepath.Join(b.o.Dir, "running") }

// Begin brings the copy in line with the repository before a command. What is there
// while no command runs is the user's and taken as it is. It returns what it had to put
// back of the work of a command that still runs.
func (b *Backup) Begin(ctx context.Context) (told []string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, e := os.Lstat(b.marker()); e == nil { // also after an End that failed
		told, err = b.mend(ctx)
	} else if err = b.update(); err == nil {
		err = os.WriteFile(b.marker(), nil, 0o600)
	}
	if err != nil {
		return told, fmt.Errorf("copy the git repository %q: %w", b.o.Git.CommonDir, err)
	}
	b.running++
	return told, nil
}

// End puts back what a command destroyed and reports it, a line for each kind. It is
// called once for each successful Begin, after the command has ended.
func (b *Backup) End(ctx context.Context) ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	told, err := b.mend(ctx)
	b.running--
	if err == nil && b.running == 0 {
		err = os.Remove(b.marker())
	}
	if err != nil {
		return told, fmt.Errorf("put back the git repository %q: %w", b.o.Git.CommonDir, err)
	}
	return told, nil
}

// Recover does what End does, for the commands of a Ralph that was killed and whose copy
// is in dir, also where no repository is left. The caller holds the project's lock and
// runs no command.
func Recover(ctx context.Context, proc *exec.Runner, dir string) ([]string, error) {
	b := Open(Options{Proc: proc, Dir: dir})
	if _, err := os.Lstat(b.marker()); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var m manifest
	text, err := regular.Read(b.manifest(), maxManifestBytes)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return nil, fmt.Errorf("read the copy of a git repository: %w", err)
	}
	b.o.Git, b.files, b.running = m.Git, m.Files, 1
	return b.End(ctx)
}

// manifest says what is copied.
type manifest struct {
	Git   git.Location     `json:"git"`
	Files map[string]stamp `json:"files"`
}

// load reads which files are copied.
func (b *Backup) load() {
	if b.files != nil {
		return
	}
	var m manifest
	text, err := regular.Read(b.manifest(), maxManifestBytes)
	if err == nil && json.Unmarshal(text, &m) == nil {
		b.files = m.Files
	}
	if b.files == nil {
		b.files = map[string]stamp{} // everything is copied anew
	}
}

// update copies what changed and forgets what is gone.
func (b *Backup) update() error {
	b.load()
	if _, err := os.Lstat(filepath.Join(b.o.Git.CommonDir, "reftable")); err == nil {
		return ErrReftable
	}
	now, err := b.look(false)
	if err != nil {
		return err
	}
	var size int64
	for _, s := range now {
		size += s.Size
	}
	if size > maxBytes {
		return ErrTooLarge
	}
	changed := false
	for name, s := range now {
		if b.files[name] == s {
			continue
		}
		if changed = true; !s.Mode.IsRegular() {
			continue
		}
		if s, err = b.take(name); errors.Is(err, fs.ErrNotExist) {
			delete(now, name) // removed meanwhile, as git does with what it packs
			continue
		}
		if err != nil {
			return err
		}
		now[name] = s
	}
	for name := range b.files {
		if _, there := now[name]; !there {
			changed = true
			if err := os.Remove(filepath.Join(b.copies(), name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	if b.files = now; !changed {
		return nil
	}
	text, err := json.Marshal(manifest{Git: b.o.Git, Files: now})
	if err != nil {
		return err
	}
	return write(b.manifest(), strings.NewReader(string(text)))
}

// take copies one file, and returns its stamp from before that.
func (b *Backup) take(name string) (stamp, error) {
	f, info, err := openFile(filepath.Join(b.o.Git.CommonDir, name))
	if err != nil {
		return stamp{}, err
	}
	defer func() { _ = f.Close() }() // only read
	return stampOf(info), write(filepath.Join(b.copies(), name), f)
}

// openFile opens a regular file for reading. It follows no link at the end of the path and
// waits for no pipe: a command can have put one there. The error of what is no regular
// file is fs.ErrNotExist.
func openFile(at string) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(at, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: at, Err: fs.ErrNotExist}
	}
	if err != nil {
		_ = f.Close() // only read
		return nil, nil, err
	}
	return f, info, nil
}

// write puts a file in the place of another in one step.
func write(to string, from io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	temp := to + ".new" // one that stays is overwritten
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(temp, to)
}

// directory is a directory of the repository as it was listed.
type directory struct {
	stamp stamp
	names []string
}

// settledTime is how long ago a directory must have changed for its stamp to prove that
// nothing was added to it since: a file system notes times in steps, of up to 10 ms in the
// kernels since 5.0.
const settledTime = 100 * time.Millisecond

// look lists what is in the repository by its path, but for directories; not locks and
// other files that git is still writing, and what is stored there for other programs.
// Directories that have not changed since the last look are not read again, only the
// files in them. With unlock, directories that cannot be listed are made so.
func (b *Backup) look(unlock bool) (map[string]stamp, error) {
	found, dirs := map[string]stamp{}, map[string]directory{}
	settled := time.Now().Add(-settledTime).UnixNano()
	var visit func(name string) error
	visit = func(name string) error {
		at := filepath.Join(b.o.Git.CommonDir, name)
		info, err := os.Lstat(at)
		if err == nil && unlock && info.IsDir() && info.Mode()&0o700 != 0o700 {
			if err = os.Chmod(at, info.Mode().Perm()|0o700); err == nil {
				info, err = os.Lstat(at)
			}
		}
		base := path.Base(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // removed meanwhile
		case err != nil:
			return err
		case !info.IsDir() && (strings.HasSuffix(base, ".lock") || strings.HasPrefix(base, "tmp_") || strings.HasPrefix(base, ".ralph-") || strings.HasPrefix(base, ".tmp-")):
			return nil
		case !info.IsDir():
			found[name] = stampOf(info)
			return nil
		case name == "lfs" || name == "annex":
			return nil
		}
		list := directory{stamp: stampOf(info), names: b.dirs[name].names}
		if b.dirs[name].stamp != list.stamp {
			if list.names, err = namesIn(at); err != nil {
				return err
			}
		}
		if list.stamp.Time < settled {
			dirs[name] = list
		}
		for _, child := range list.names {
			if err := visit(path.Join(name, child)); err != nil {
				return err
			}
		}
		return nil
	}
	err := visit(".")
	b.dirs = dirs
	return found, err
}

// namesIn lists a directory; none where it is gone.
func namesIn(at string) ([]string, error) {
	f, err := os.Open(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	return names, errors.Join(err, f.Close())
}

func stampOf(info fs.FileInfo) stamp {
	s := stamp{Size: info.Size(), Mode: info.Mode()}
	s.Inode, s.Time = inode(info)
	return s
}

// isObject reports whether a file of a git directory holds objects or what git computes
// from them.
func isObject(name string) bool {
	return strings.Contains("/"+path.Dir(name)+"/", "/objects/")
}
