package git

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"ralph/workers/exec"
)

const (
	modeNone    = "000000"
	modeLink    = "120000"
	modeGitlink = "160000"
	modeExec    = "100755"
)

// Restored is what Restore did.
type Restored struct {
	Files []FileChange // from after to before
	Kept  []string     // files that stay, because they are no longer as in after
}

// Mode is the permissions of a file before and after a turn; 0 where there was none.
type Mode struct{ Was, Left fs.FileMode }

// Modes are those of files by their paths, relative to the root, with slashes: git holds of
// permissions only whether a file is executable.
type Modes map[string]Mode

// Text returns the modes as ReadModes reads them.
func (m Modes) Text() string {
	text, err := json.Marshal(map[string]Modes{"modes": m})
	if err != nil {
		return "" // numbers and strings are always written
	}
	return string(text)
}

// ReadModes reads what Text returned; none from any other text.
func ReadModes(text string) Modes {
	var all map[string]Modes
	if json.Unmarshal([]byte(text), &all) != nil {
		return nil
	}
	return all["modes"]
}

// Restore puts the files that differ between two checkpoints back as they were
// in before. Files that are no longer as in after stay. Everything is checked and fetched before the
// first file is touched; each file is then replaced in one step. Ralph's own state
// files, ignored files and submodules stay as they are. Of modes a file gets what Was says, unless
// it has no longer what Left says.
func (c *Checkpoints) Restore(ctx context.Context, before, after Checkpoint, modes Modes) (Restored, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, err := c.restore(ctx, before, after, modes)
	if err != nil {
		return Restored{}, fmt.Errorf("restore checkpoint %q: %w", before.ID, err)
	}
	return r, nil
}

func (c *Checkpoints) restore(ctx context.Context, before, after Checkpoint, modes Modes) (Restored, error) {
	undo, err := c.compare(ctx, after, before, "--no-renames")
	if err != nil {
		return Restored{}, err
	}
	undo = slices.DeleteFunc(undo, func(e entry) bool { return e.oldMode == modeGitlink || e.newMode == modeGitlink })
	if len(undo)+len(modes) == 0 {
		return Restored{}, nil
	}
	root, err := os.OpenRoot(c.root)
	if err != nil {
		return Restored{}, err
	}
	defer func() { _ = root.Close() }()
	if len(undo) == 0 {
		return Restored{Files: setModes(root, modes, nil)}, nil
	}
	// Each of the two can be an earlier version's.
	of, err := c.storeOf(ctx, after)
	if err != nil {
		return Restored{}, err
	}
	undo, kept, err := of.unedited(ctx, root, undo, after)
	if err != nil || len(undo) == 0 {
		return Restored{Kept: kept}, err
	}
	for i, e := range undo {
		undo[i].perm = modes[e.path].Was
	}
	if of, err = c.storeOf(ctx, before); err != nil {
		return Restored{}, err
	}
	x, err := newIndex(c.gitDir, "")
	if err != nil {
		return Restored{}, err
	}
	defer x.remove()
	staged := filepath.Join(x.dir, "files")
	if err := of.stage(ctx, x, staged, undo, before); err != nil {
		return Restored{}, err
	}
	if ctx.Err() != nil {
		return Restored{}, context.Cause(ctx)
	}
	// From the first file on it is seen through.
	if err := writeBack(root, filepath.Join(staged, filepath.FromSlash(c.prefix)), undo); err != nil {
		return Restored{}, err
	}
	done := fileChanges(undo)
	return Restored{Files: append(done, setModes(root, modes, append(pathsIn(done), kept...))...), Kept: kept}, nil
}

// setModes gives files the permissions that they had, but for some paths, and returns whose it
// changed.
func setModes(root *os.Root, modes Modes, but []string) (changed []FileChange) {
	for _, p := range slices.Sorted(maps.Keys(modes)) {
		m := modes[p]
		info, err := root.Lstat(p)
		if err != nil || !info.Mode().IsRegular() || info.Mode().Perm() != m.Left || m.Was == 0 || slices.Contains(but, p) {
			continue
		}
		if root.Chmod(p, m.Was) == nil { // a file that is not the user's any more stays
			changed = append(changed, FileChange{Path: p, Kind: Modified})
		}
	}
	return changed
}

func pathsIn(list []FileChange) (paths []string) {
	for _, f := range list {
		paths = append(paths, f.Path)
	}
	return paths
}

// unedited gives the entries of undo whose files are as in after, or put back already,
// and names the others.
func (c *Checkpoints) unedited(ctx context.Context, root *os.Root, undo []entry, after Checkpoint) (same []entry, edited []string, err error) {
	now, err := c.snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}
	drift, err := c.compare(ctx, after, Checkpoint{ID: "now", Tree: now}, "--no-renames")
	if err != nil {
		return nil, nil, err
	}
	differs := map[string]entry{}
	for _, e := range drift {
		differs[e.path] = e
	}
	// Where one file stays, another may not find its place any more.
	for same = undo; ; {
		goes := map[string]bool{}
		for _, e := range same {
			if e.newMode == modeNone {
				goes[e.path] = true
			}
		}
		n := len(edited)
		same = slices.DeleteFunc(slices.Clone(same), func(e entry) bool {
			now, differ := differs[e.path]
			if differ && now.newMode == e.newMode && now.newHash == e.newHash {
				return false // put back already: by the user, or before a crash
			}
			if differ || e.oldMode == modeNone && obstructed(root, e.path, goes, after.Time) {
				edited = append(edited, e.path)
				return true
			}
			return false
		})
		if len(edited) == n {
			slices.Sort(edited)
			return same, edited, nil
		}
	}
}

// unheld reports whether what is at a path has been there since a time, and is something that
// no checkpoint holds: it is a part of what is taken back.
func unheld(root *os.Root, name string, since time.Time) bool {
	info, err := root.Lstat(name)
	if err != nil || info.IsDir() || info.Mode().Type() == fs.ModeSymlink || info.Mode().IsRegular() && !closed(info) {
		return false
	}
	at, known := ctime(info)
	return known && !at.After(since)
}

// closed reports whether the owner of a file may not read it.
func closed(info fs.FileInfo) bool { return info.Mode().Perm()&0o400 == 0 }

// obstructed reports whether something which no checkpoint knows, such as an ignored
// file, is where a file has to go, and was not there at a time.
func obstructed(root *os.Root, name string, goes map[string]bool, since time.Time) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if info, err := root.Lstat(dir); err == nil && !info.IsDir() {
			return !goes[dir] && !unheld(root, dir, since)
		}
	}
	if unheld(root, name, since) {
		return false
	}
	info, err := root.Lstat(name)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR)
	}
	if !info.IsDir() {
		return true
	}
	found := errors.New("found")
	return fs.WalkDir(root.FS(), name, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !goes[p] {
			err = found
		}
		return err
	}) != nil
}

// stage writes the files as they were into a new directory.
func (c *Checkpoints) stage(ctx context.Context, x index, dir string, undo []entry, before Checkpoint) error {
	var names []string
	for _, e := range undo {
		if e.newMode != modeNone {
			names = append(names, c.prefix+e.path)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return c.checkOut(ctx, x, before, dir, names)
}

// checkOut reads a checkpoint into a new index and writes its files below dir: all, or
// those that are named.
func (c *Checkpoints) checkOut(ctx context.Context, x index, cp Checkpoint, dir string, names []string) error {
	read := []string{"read-tree"}
	if c.prefix != "" {
		read = append(read, "--prefix="+c.prefix)
	}
	if _, err := c.run(ctx, call{args: append(read, cp.Commit), env: x.env()}); err != nil {
		return err
	}
	write := call{args: []string{"checkout-index", "--prefix=" + dir + "/", "--ignore-skip-worktree-bits"}, env: x.env()}
	if names == nil {
		write.args = append(write.args, "--all")
	} else {
		write.args, write.stdin = append(write.args, "-z", "--stdin"), nulList(names)
	}
	_, err := c.run(ctx, write)
	return err
}

// writeBack removes and writes files. Removing comes first: a file can be where
// a directory has to be, and the other way round.
func writeBack(root *os.Root, staged string, undo []entry) error {
	defer unlock(root, undo)()
	for _, e := range undo {
		if e.newMode != modeNone {
			continue
		}
		if err := root.Remove(e.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %q: %w", e.path, err)
		}
		// Directories that are empty now go too, as with git; others refuse.
		for dir := path.Dir(e.path); dir != "." && root.Remove(dir) == nil; dir = path.Dir(dir) {
		}
	}
	for _, e := range undo {
		if e.newMode == modeNone {
			continue
		}
		if err := putBack(root, filepath.Join(staged, filepath.FromSlash(e.path)), e); err != nil {
			return fmt.Errorf("write %q: %w", e.path, err)
		}
	}
	return nil
}

// unlock lets the owner change the directories in which the files of undo are, until the returned
// function is called.
func unlock(root *os.Root, undo []entry) (lock func()) {
	was := map[string]fs.FileMode{}
	for _, e := range undo {
		for dir := path.Dir(e.path); dir != "."; dir = path.Dir(dir) {
			if _, known := was[dir]; known {
				break
			}
			if info, err := root.Lstat(dir); err == nil && info.IsDir() && info.Mode()&0o300 != 0o300 {
				if root.Chmod(dir, info.Mode().Perm()|0o700) == nil { // else the change will fail, and is said to
					was[dir] = info.Mode().Perm()
				}
			}
		}
	}
	return func() {
		for dir, perm := range was {
			_ = root.Chmod(dir, perm) // it may be gone by now
		}
	}
}

// putBack replaces one file by a staged one in one step.
func putBack(root *os.Root, staged string, e entry) error {
	dir := path.Dir(e.path)
	for at := dir; at != "."; at = path.Dir(at) {
		// See unheld; links are gone already, and stay where they are no part of this.
		if info, err := root.Lstat(at); err == nil && !info.IsDir() && info.Mode().Type() != fs.ModeSymlink {
			if err := root.Remove(at); err != nil {
				return err
			}
		}
	}
	if err := root.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	if info, err := root.Lstat(e.path); err == nil && info.IsDir() {
		if err := removeEmpty(root, e.path); err != nil {
			return err
		}
	}
	temp := path.Join(dir, exec.TempName("write"))
	var err error
	if e.newMode == modeLink {
		var target string
		if target, err = os.Readlink(staged); err == nil {
			err = root.Symlink(target, temp)
		}
	} else {
		err = copyInto(root, staged, temp, permission(root, staged, e))
	}
	if err == nil {
		err = root.Rename(temp, e.path)
	}
	if err != nil {
		_ = root.Remove(temp) // the first error is the one to report
	}
	return err
}

// removeEmpty removes a directory that holds nothing but empty directories.
func removeEmpty(root *os.Root, dir string) error {
	var dirs []string
	err := fs.WalkDir(root.FS(), dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil {
			dirs = append(dirs, p)
		}
		return err
	})
	for _, d := range slices.Backward(dirs) {
		if err == nil {
			err = root.Remove(d)
		}
	}
	return err
}

// permission returns what the file had, where that is known. Else it keeps what the file has now,
// but for being executable; a new one, and one that its owner may not read, gets what git gives it.
func permission(root *os.Root, staged string, e entry) fs.FileMode {
	if e.perm != 0 {
		return e.perm
	}
	perm := fs.FileMode(0o644)
	if info, err := os.Lstat(staged); err == nil {
		perm = info.Mode().Perm()
	}
	info, err := root.Lstat(e.path)
	if err != nil || !info.Mode().IsRegular() || closed(info) {
		return perm
	}
	perm = info.Mode().Perm()
	if e.newMode == modeExec {
		return perm | perm>>2&0o111
	}
	return perm &^ 0o111
}

func copyInto(root *os.Root, from, to string, perm fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Chmod(perm)
	}
	if err == nil {
		err = out.Sync()
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	return err
}
