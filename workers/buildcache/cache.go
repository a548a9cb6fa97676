package buildcache

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/gofrs/flock"
)

// Cache is a writable state of the caches for commands that run one after the
// other. What they write is seen by nobody else, and is gone with it. It is not
// safe for concurrent use.
type Cache struct {
	// Path is where commands see it.
	Path string
	// Lower, Upper and Work are the directories of the overlay to be mounted at
	// Path, Lower with the topmost first; all empty where Path is the directory
	// itself.
	Lower       []string
	Upper, Work string

	store  *Store
	dir    string
	copied int64          // bytes of the layer that were copied
	locks  []*flock.Flock // of the private directory, and of the layer if any
}

// New makes a Cache that begins with the layer. overlay says that the caller can
// mount overlays; without them the layer is copied, as far as that is bounded.
func (s *Store) New(overlay bool) (*Cache, error) {
	layer, lock, err := s.layer()
	if err != nil {
		return nil, err
	}
	c, err := s.empty(overlay)
	if lock == nil || err != nil {
		if lock != nil {
			err = errors.Join(err, lock.Close())
		}
		return c, err
	}
	c.locks = append(c.locks, lock)
	if overlay {
		c.Lower = []string{layer}
		return c, nil
	}
	if n := s.state().Bytes; n <= maxCopy {
		c.copied = n
		if err := copyTree(layer, c.Path); err != nil {
			return nil, errors.Join(fmt.Errorf("copy build cache: %w", err), c.Close())
		}
	}
	return c, nil
}

// Fill makes a Cache that begins empty, for Keep.
func (s *Store) Fill(overlay bool) (*Cache, error) { return s.empty(overlay) }

func (s *Store) empty(overlay bool) (*Cache, error) {
	dir, lock, err := s.private()
	if err != nil {
		return nil, err
	}
	c := &Cache{store: s, dir: dir, locks: []*flock.Flock{lock}, Path: filepath.Join(dir, "upper")}
	made := []string{c.Path}
	if overlay {
		c.Upper, c.Work, c.Path = c.Path, filepath.Join(dir, "work"), s.View()
		c.Lower = []string{filepath.Join(s.dir, emptyDir)}
		made = append(made, c.Work)
	}
	for _, d := range made {
		if err := os.Mkdir(d, 0o700); err != nil {
			return nil, errors.Join(fmt.Errorf("make a build cache: %w", err), c.Close())
		}
	}
	return c, nil
}

// Fresh reports that it began without a layer: what commands build is built anew.
func (c *Cache) Fresh() bool { return len(c.locks) < 2 }

// own is the directory that holds what was written.
func (c *Cache) own() string { return filepath.Join(c.dir, "upper") }

// Has says that a directory of that name is in it.
func (c *Cache) Has(name string) bool {
	for _, dir := range append([]string{c.own()}, c.Lower...) {
		if info, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return info.IsDir()
		}
	}
	return false
}

// Link is a symbolic link in a directory.
type Link struct{ Name, To string }

// Make makes a directory in it, with links, unless it is there. It must not be mounted then.
func (c *Cache) Make(name string, links ...Link) error {
	if c.Has(name) {
		return nil
	}
	dir := filepath.Join(c.own(), name)
	err := os.Mkdir(dir, 0o700)
	for i := 0; i < len(links) && err == nil; i++ {
		err = os.Symlink(links[i].To, filepath.Join(dir, links[i].Name))
	}
	return err
}

// Written is how many bytes it holds besides the layer; what cannot be read is not
// counted.
func (c *Cache) Written() int64 { return max(0, size(c.own())-c.copied) }

func size(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error { // the errors are passed over there
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n
}

// Keep makes what was written the layer of every Cache that is made from now on,
// in place of the one before. Nothing may be running in it. The Cache is closed,
// also when that fails.
func (c *Cache) Keep() error {
	if err := c.keep(); err != nil {
		return errors.Join(fmt.Errorf("keep build cache: %w", err), c.Close())
	}
	err := c.Close()
	c.store.sweep()
	return err
}

func (c *Cache) keep() error {
	bytes := c.Written()
	if err := syncAll(c.own()); err != nil { // a layer that is there is whole, also after a power cut
		return err
	}
	next := 1
	for _, n := range c.store.layers() {
		next = max(next, n+1)
	}
	path := filepath.Join(c.store.dir, layersDir, strconv.Itoa(next))
	lock := flock.New(path + lockSuffix) // by which it is found when it is old
	if err := lock.RLock(); err != nil {
		return err
	}
	c.locks = append(c.locks, lock)
	if err := os.Rename(c.own(), path); err != nil {
		return err
	}
	return c.store.change(func(st *state) { st.Bytes = bytes })
}

// Close removes what was written. Nothing may be running in it.
func (c *Cache) Close() error {
	var errs []error
	for _, l := range c.locks[1:] {
		errs = append(errs, l.Close())
	}
	return errors.Join(append(errs, discard(c.dir, c.locks[0]))...)
}

// copyTree copies directories, regular files and links below from into the
// directory to; the file system shares their blocks where it can.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil || rel == "." {
			return err
		}
		target := filepath.Join(to, rel)
		info, err := d.Info()
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.Mkdir(target, info.Mode().Perm()|0o700)
		case d.Type()&fs.ModeSymlink != 0:
			link, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(link, target)
		case !d.Type().IsRegular():
			return nil
		}
		return copyFile(path, target, info)
	})
}

func copyFile(from, to string, info fs.FileInfo) (err error) {
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it was only read
	w, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm()|0o200)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	// Tools take the time for that of the entry's last use.
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}

// syncAll makes durable what is in the file system of a directory.
func syncAll(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // it was not written
	if err := syncFS(int(d.Fd())); err != nil && !errors.Is(err, syscall.ENOSYS) {
		return err
	}
	return nil
}
