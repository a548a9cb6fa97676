package trees

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"ralph/workers/git"
)

// journal is what a landing has begun.
type journal struct {
	From, To, Branch string // To "" makes no commit
	Files, Index     []step
	After            queue
	Took             []waiter // whose work it is

	have map[string]entry // of the index; nil in a journal that was read
}

// step changes one path. Paths are bytes: not all of them are UTF-8.
type step struct {
	Path                               []byte
	OldMode, OldHash, NewMode, NewHash string

	stamp stamp // of the file that is replaced
}

// stamp tells a file from another one, and from itself after a change.
type stamp struct {
	is      bool
	ino     uint64
	size    int64
	modTime time.Time
	mode    fs.FileMode
}

func stampOf(root *os.Root, name string) (stamp, error) {
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || err == nil && info.IsDir() {
		return stamp{}, nil
	}
	if err != nil {
		return stamp{}, err
	}
	return stampInfo(info), nil
}

func stampInfo(info fs.FileInfo) stamp {
	s := stamp{is: true, size: info.Size(), modTime: info.ModTime(), mode: info.Mode()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.ino = st.Ino
	}
	return s
}

func (t *Trees) landing() string { return filepath.Join(t.private(), "landing") }

func (t *Trees) at(name string) {
	if t.step != nil {
		t.step(name)
	}
}

// errHalf means that files could not be put back; the journal knows which.
var errHalf = errors.New("the tree has half of the change; it is finished the next time")

// stagedTree is where git writes files before they are ready.
const stagedTree = "tree"

// ready and saved are where the new and the old content of a file are. Their names
// follow from that of the file, so that a later Ralph, which finishes a part of the
// files, finds those of the first.
func (t *Trees) ready(s step) string { return filepath.Join(t.landing(), s.temp()+".new") }
func (t *Trees) saved(s step) string { return filepath.Join(t.landing(), s.temp()+".old") }

func (s step) temp() string {
	sum := sha256.Sum256(s.Path)
	return hex.EncodeToString(sum[:8])
}

// stage writes the new content of files beside the state of Ralph, through git,
// so that line ends come out as the user's git makes them.
func (t *Trees) stage(ctx context.Context, files []step) error {
	if err := removeAll(t.landing()); err != nil {
		return err
	}
	if err := os.Mkdir(t.landing(), 0o700); err != nil {
		return err
	}
	p := t.user()
	index, remove, err := p.TempIndex(t.private(), "")
	if err != nil {
		return err
	}
	defer remove()
	var info, names []byte
	for _, s := range files {
		if s.NewMode != modeNone {
			info = fmt.Appendf(info, "%s %s 0\t%s\x00", s.NewMode, s.NewHash, s.Path)
			names = append(append(names, s.Path...), 0)
		}
	}
	if len(info) == 0 {
		return nil
	}
	if _, _, err := p.Run(ctx, git.Call{Args: []string{"update-index", "-z", "--index-info"}, Stdin: info, Index: index}); err != nil {
		return err
	}
	tree := filepath.Join(t.landing(), stagedTree)
	args := []string{"checkout-index", "--prefix=" + tree + "/", "-z", "--stdin"}
	if _, _, err := p.Run(ctx, git.Call{Args: args, Stdin: names, Index: index}); err != nil {
		return err
	}
	root, err := os.OpenRoot(t.loc.Root)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for _, s := range files {
		if s.NewMode == modeNone {
			continue
		}
		to := t.ready(s)
		if err := os.Rename(filepath.Join(tree, filepath.FromSlash(string(s.Path))), to); err != nil {
			return err
		}
		if err := adapt(root, s, to); err != nil {
			return err
		}
	}
	return syncDir(t.landing())
}

// adapt gives a staged file the permissions of the one that it replaces, and its
// line ends where these are not those that git would write.
func adapt(root *os.Root, s step, staged string) error {
	if s.NewMode == modeLink {
		return nil
	}
	name := string(s.Path)
	if info, err := root.Lstat(name); err == nil && info.Mode().IsRegular() {
		if s.OldMode != modeLink && s.OldMode != modeNone {
			if err := keepLineEnds(root, s, staged); err != nil {
				return err
			}
		}
		perm := info.Mode().Perm()
		if s.NewMode == modeExec {
			perm |= perm >> 2 & 0o111
		} else {
			perm &^= 0o111
		}
		if err := os.Chmod(staged, perm|0o200); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(staged, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// keepLineEnds writes CRLF into a staged file when the file in the tree has it
// throughout though git keeps it without.
func keepLineEnds(root *os.Root, s step, staged string) error {
	have, err := root.ReadFile(string(s.Path))
	if err != nil || !bytes.Contains(have, []byte("\r\n")) || bytes.Count(have, []byte("\n")) != bytes.Count(have, []byte("\r\n")) ||
		blobHash(have, len(s.OldHash)) == s.OldHash {
		return err
	}
	b, err := os.ReadFile(staged)
	if err != nil || bytes.Contains(b, []byte("\r")) {
		return err
	}
	return os.WriteFile(staged, bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n")), 0o600)
}

func blobHash(b []byte, size int) string {
	var sum hash.Hash = sha1.New()
	if size == 64 {
		sum = sha256.New()
	}
	fmt.Fprintf(sum, "blob %d\x00", len(b))
	sum.Write(b) // a hash never fails
	return hex.EncodeToString(sum.Sum(nil))
}

// replaceAll replaces files by the staged ones, each in one step. One that is not
// what it was when it was looked at ends it: then, as after an error, all are put
// back.
func (t *Trees) replaceAll(files []step) (edited []string, err error) {
	root, err := os.OpenRoot(t.loc.Root)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	var done []int
	for _, gone := range []bool{true, false} {
		for i, s := range files {
			if (s.NewMode == modeNone) != gone {
				continue
			}
			t.at("file " + strconv.Itoa(i))
			written := t.OnWrite(filepath.Join(t.loc.Root, filepath.FromSlash(string(s.Path))))
			same, err := t.replace(root, s)
			if written(err == nil && same); err == nil && same {
				done = append(done, i)
				continue
			}
			for _, i := range slices.Backward(done) {
				if berr := t.putBack(root, files[i]); berr != nil {
					return nil, errors.Join(errHalf, err, fmt.Errorf("put %q back: %w", files[i].Path, berr))
				}
			}
			if err != nil {
				return nil, fmt.Errorf("write %q: %w", s.Path, err)
			}
			return []string{string(s.Path)}, nil
		}
	}
	return nil, nil
}

// replace does one step. What was there is kept beside the staged files.
func (t *Trees) replace(root *os.Root, s step) (same bool, err error) {
	name := string(s.Path)
	fresh, old := t.ready(s), t.saved(s)
	full := filepath.Join(t.loc.Root, filepath.FromSlash(name))
	if s.NewMode != modeNone {
		if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
			return false, err
		}
	}
	dir, err := root.Open(path.Dir(name))
	if err != nil {
		return false, err
	}
	defer func() { _ = dir.Close() }()
	at := place{dir, path.Base(name), full}
	switch {
	case s.NewMode == modeNone:
		if err := moveOut(at, old); err != nil {
			return false, err
		}
		t.at("look at " + name)
		if !is(old, s.stamp) {
			return false, moveIn(old, at)
		}
		for d := path.Dir(name); d != "." && root.Remove(d) == nil; d = path.Dir(d) {
		}
		return true, nil
	case !s.stamp.is:
		if info, err := root.Lstat(name); err == nil && info.IsDir() {
			if err := removeEmpty(root, name); err != nil {
				return false, err
			}
		}
		err := moveIn(fresh, at)
		if errors.Is(err, fs.ErrExist) {
			return false, nil
		}
		return err == nil, err
	}
	if err := swap(fresh, old, at); err != nil {
		return false, err
	}
	t.at("look at " + name)
	if is(old, s.stamp) {
		return true, nil
	}
	return false, swap(old, fresh, at)
}

// place is a name in an open directory.
type place struct {
	dir  *os.File
	base string
	full string
}

func is(path string, s stamp) bool {
	info, err := os.Lstat(path)
	if err != nil {
		return false
	}
	now := stampInfo(info)
	return now.ino == s.ino && now.size == s.size && now.modTime.Equal(s.modTime) && now.mode == s.mode
}

// putBack takes one step back.
func (t *Trees) putBack(root *os.Root, s step) error {
	name := string(s.Path)
	fresh, old := t.ready(s), t.saved(s)
	if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return err
	}
	dir, err := root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	at := place{dir, path.Base(name), filepath.Join(t.loc.Root, filepath.FromSlash(name))}
	switch {
	case s.NewMode == modeNone:
		return moveIn(old, at)
	case !s.stamp.is:
		if err := moveOut(at, fresh); err != nil {
			return err
		}
		for d := path.Dir(name); d != "." && root.Remove(d) == nil; d = path.Dir(d) {
		}
		return nil
	}
	return swap(old, fresh, at)
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

// recover ends what a Ralph that was killed has begun. When each file is either
// as before or as it was to be, it goes forward; when the user has changed one
// since, it goes back, and the work waits as if nothing had been done.
func (t *Trees) recover(ctx context.Context) error {
	var j journal
	found, err := t.load(t.journalPath(), &j)
	if err = errors.Join(err, t.convertLinked(ctx)); err != nil || !found {
		return err
	}
	unlock, err := t.user().LockIndex(ctx, lockWait)
	if err != nil {
		return fmt.Errorf("finish the landing that was interrupted: %w", err)
	}
	defer unlock()
	ctx = context.WithoutCancel(ctx)
	if err := t.resume(ctx, j); err != nil {
		return fmt.Errorf("finish the landing that was interrupted: %w", err)
	}
	return removeAll(t.landing())
}

func (t *Trees) resume(ctx context.Context, j journal) error {
	if err := t.giveBack(ctx, j); err != nil {
		return err
	}
	old, recent, err := t.sides(ctx, j)
	if err != nil {
		return err
	}
	leftovers, err := t.rescue()
	if err != nil {
		return err
	}
	back := len(old)+len(recent) < len(j.Files)
	todo := old
	if back {
		todo = recent
	}
	root, err := os.OpenRoot(t.loc.Root)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for i := range todo {
		if todo[i].stamp, err = stampOf(root, string(todo[i].Path)); err != nil {
			return err
		}
		if back {
			s := &todo[i]
			s.OldMode, s.OldHash, s.NewMode, s.NewHash = s.NewMode, s.NewHash, s.OldMode, s.OldHash
		}
	}
	if err := t.stage(ctx, todo); err != nil {
		return err
	}
	edited, err := t.replaceAll(todo)
	if err == nil && len(edited) > 0 {
		err = fmt.Errorf("%q changed at this moment", edited)
	}
	if err != nil {
		return err
	}
	if err := t.keepUnknown(j, leftovers); err != nil {
		return err
	}
	if back {
		return removeFile(t.journalPath())
	}
	why, err := t.advance(ctx, j)
	if err != nil {
		return err
	}
	return t.complete(ctx, j, j.To != "" && why == "")
}

// sides sorts files by whether they are as before or as they are to be.
func (t *Trees) sides(ctx context.Context, j journal) (old, recent []step, err error) {
	files := j.Files
	if past, err := t.beyond(ctx, j); err != nil || past {
		return nil, files, err
	}
	p := t.user()
	index, remove, err := p.TempIndex(t.private(), "")
	if err != nil {
		return nil, nil, err
	}
	defer remove()
	var paths, there []string
	dirs := map[string]bool{}
	for _, s := range files {
		info, err := os.Lstat(filepath.Join(t.loc.Root, filepath.FromSlash(string(s.Path))))
		if err == nil && (info.Mode().IsRegular() || info.Mode()&fs.ModeSymlink != 0) {
			there = append(there, string(s.Path))
		} else if err == nil {
			dirs[string(s.Path)] = true
		}
		paths = append(paths, string(s.Path))
	}
	if err := p.Apply(ctx, index, there, nil); err != nil {
		return nil, nil, err
	}
	have := map[string]entry{}
	if len(there) > 0 {
		if have, err = entries(ctx, p, index, paths); err != nil {
			return nil, nil, err
		}
	}
	for _, s := range files {
		e, ok := have[string(s.Path)]
		if !ok {
			e.mode = modeNone
		}
		switch {
		case e.mode == s.NewMode && (!ok || e.hash == s.NewHash):
			recent = append(recent, s)
		case e.mode == s.OldMode && (!ok || e.hash == s.OldHash):
			old = append(old, s)
		}
	}
	return old, recent, nil
}

// rescue puts what a killed landing left out of the way.
func (t *Trees) rescue() (string, error) {
	if _, err := os.Lstat(t.landing()); err != nil {
		return "", nil
	}
	to := filepath.Join(t.private(), "rescued-"+rand.Text()[:12])
	return to, os.Rename(t.landing(), to)
}

// giveBack puts into the tree what the user saved at the very moment in which a
// file was replaced, and what a Ralph that was killed then could not look at. Where
// the user has saved since, that stays, and the earlier version is rescued.
func (t *Trees) giveBack(ctx context.Context, j journal) error {
	if past, err := t.beyond(ctx, j); err != nil || past {
		return err
	}
	root, err := os.OpenRoot(t.loc.Root)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	known := j.contents()
	for _, s := range j.Files {
		for _, from := range []string{t.ready(s), t.saved(s)} {
			if is, err := known.has(from); err != nil || is {
				continue // there is none, or git has it
			}
			name := string(s.Path)
			full := filepath.Join(t.loc.Root, filepath.FromSlash(name))
			is, err := known.has(full)
			gone := errors.Is(err, fs.ErrNotExist)
			if !is && !gone {
				continue
			}
			if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
				return err
			}
			dir, err := root.Open(path.Dir(name))
			if err != nil {
				return err
			}
			at := place{dir, path.Base(name), full}
			if gone {
				err = moveIn(from, at)
			} else {
				err = swap(from, from+".was", at)
			}
			if err = errors.Join(err, dir.Close()); err != nil {
				return fmt.Errorf("give %q back: %w", name, err)
			}
		}
	}
	return nil
}

// contents are the hashes of files that git has, before and after a change.
type contents map[string]bool

func (j journal) contents() contents {
	known := contents{}
	for _, s := range j.Files {
		known[s.OldHash], known[s.NewHash] = true, true
	}
	return known
}

// has reports whether git has what a file holds, with whatever line ends. The error
// is [fs.ErrNotExist] when there is no file.
func (c contents) has(name string) (bool, error) {
	info, err := os.Lstat(name)
	if err != nil {
		return false, err
	}
	var b []byte
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		text, lerr := os.Readlink(name)
		b, err = []byte(text), lerr
	case info.Mode().IsRegular():
		b, err = os.ReadFile(name)
	default:
		return false, nil
	}
	plain := bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
	for _, size := range []int{40, 64} {
		if c[blobHash(b, size)] || c[blobHash(plain, size)] {
			return true, err
		}
	}
	return false, err
}

// keepUnknown removes what was left but for files that git has not: a file that the
// user saved twice while it was replaced.
func (t *Trees) keepUnknown(j journal, dir string) error {
	if dir == "" {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	known := j.contents()
	for _, e := range entries {
		if is, err := known.has(filepath.Join(dir, e.Name())); e.Name() != stagedTree && (err != nil || !is) {
			return nil
		}
	}
	return removeAll(dir)
}
