package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/afero"
)

// ErrChanged is matched when a file is no longer as it was read.
var ErrChanged = errors.New("was changed meanwhile")

// Swap is Replace for a file that others may edit at any time: it puts data in
// the place of a file whose content is was (nil: there is no file), and fails
// with ErrChanged, changing nothing, when that is no longer so.
//
// Whoever had the file open while it was replaced may have written to what is
// no longer in place. Swap looks once more: late is then what the old file says
// now, for the caller to merge; it is nil otherwise.
func Swap(fsys afero.Fs, path string, was, data []byte, perm fs.FileMode) (late []byte, err error) {
	var old afero.File
	defer func() {
		if old != nil {
			_ = old.Close() // only read from
		}
	}()
	err = replace(fsys, path, data, perm, func() error {
		if old, err = fsys.OpenFile(path, os.O_RDONLY|openFlags, 0); errors.Is(err, fs.ErrNotExist) {
			old, err = nil, nil
		}
		if err != nil {
			return linkError(err)
		}
		if old == nil {
			if was != nil {
				return ErrChanged
			}
			return nil
		}
		now, err := contents(old, len(was))
		if err == nil && (was == nil || !bytes.Equal(now, was)) {
			err = ErrChanged
		}
		return err
	})
	if err != nil || old == nil {
		return nil, err
	}
	if now, err := contents(old, len(was)); err == nil && !bytes.Equal(now, was) {
		return now, nil
	}
	return nil, nil
}

// contents reads a whole open file, whose size is about n.
func contents(f afero.File, n int) ([]byte, error) {
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, ErrNotRegular
	}
	var b bytes.Buffer
	b.Grow(n + bytes.MinRead)
	_, err := io.Copy(&b, io.NewSectionReader(f, 0, maxRecordBytes))
	return b.Bytes(), err
}

// Sweep removes the temporary files that a killed process left in dir, of the
// named files or, without names, of all. The caller's lock must exclude that
// somebody is writing there.
func Sweep(fsys afero.Fs, dir string, files ...string) error {
	d, err := fsys.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sweep %q: %w", dir, err)
	}
	names, err := d.Readdirnames(-1)
	err = errors.Join(err, d.Close())
	for _, n := range names {
		if temporary(n, files) {
			err = errors.Join(err, fsys.Remove(filepath.Join(dir, n)))
		}
	}
	if err != nil {
		return fmt.Errorf("sweep %q: %w", dir, err)
	}
	return nil
}

// tempLetters is how many letters tell the temporary files of one file apart.
const tempLetters = 10

// temporary says that a name is one that Replace gives to a temporary file.
func temporary(name string, files []string) bool {
	rest, ok := strings.CutSuffix(name, ".tmp")
	at := len(rest) - tempLetters - 1
	if !ok || at < 2 || rest[0] != '.' || rest[at] != '.' || strings.Trim(rest[at+1:], "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" {
		return false
	}
	for _, f := range files {
		if rest[1:at] == f {
			return true
		}
	}
	return len(files) == 0
}
