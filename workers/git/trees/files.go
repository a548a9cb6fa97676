package trees

import (
	"bytes"
	"context"
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
	"ralph/workers/tempdir"
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
	if err := tempdir.Clear(t.landing()); err != nil {
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
