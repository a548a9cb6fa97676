package trees

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"ralph/workers/tempdir"
)

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
	return tempdir.Clear(t.landing())
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
	return tempdir.Clear(dir)
}
