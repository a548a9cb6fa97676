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

	"ralph/memory/durable/rename"
)

// ErrChanged is matched when a file is no longer as it was read.
var ErrChanged = errors.New("was changed meanwhile")

// Swap is Replace for a file that others may edit at any time: it puts data in
// the place of a file whose content is was (nil: there is no file), and fails
// with ErrChanged, changing nothing, when that is no longer so.
//
// On a filesystem that can exchange two names (linux; see Exchanger) what stood
// at path at the very moment of the rename is looked at, so that a file which
// an editor renamed there just before is not lost. Whoever had the old file
// open may have written to it meanwhile: it is read once more. In both cases
// late is what was found, for the caller to merge; it is nil otherwise. It may
// come with an error, when only the sync of the directory failed.
func Swap(fsys afero.Fs, path string, was, data []byte, perm fs.FileMode) (late []byte, err error) {
	s := swap{fs: fsys, path: path, was: was, data: data}
	defer s.close()
	if err := replace(fsys, path, data, perm, s.ready, s.rename); err != nil {
		return s.late, err
	}
	if s.old != nil {
		_ = s.look() // what was read before it counts
	}
	return s.late, nil
}

// Exchanger is what a filesystem may implement for Swap, other than the real
// one. Errors are like those of rename; errors.ErrUnsupported and EINVAL make
// Swap do without.
type Exchanger interface {
	// Exchange swaps what stands at two names, atomically. Both must exist.
	Exchange(a, b string) error
	// RenameNoReplace fails with an error that matches fs.ErrExist when there is
	// something at the new name.
	RenameNoReplace(from, to string) error
}

// realDisk exchanges names on the operating system's filesystem.
type realDisk struct{}

// Exchange implements Exchanger.
func (realDisk) Exchange(a, b string) error { return rename.Exchange(a, b) }

// RenameNoReplace implements Exchanger.
func (realDisk) RenameNoReplace(from, to string) error { return rename.NoReplace(from, to) }

func exchanger(fsys afero.Fs) Exchanger {
	if x, ok := fsys.(Exchanger); ok {
		return x
	}
	if OnDisk(fsys) {
		return realDisk{}
	}
	return nil
}

// swap is one call of Swap.
type swap struct {
	fs   afero.Fs
	path string
	was  []byte
	data []byte
	old  afero.File // what stood at path: when it was compared, then what was taken from there
	late []byte
}

func (s *swap) close() {
	if s.old != nil {
		_ = s.old.Close() // only read from
	}
}

// ready compares what stands at path with what should.
func (s *swap) ready() (err error) {
	s.old, err = s.fs.OpenFile(s.path, os.O_RDONLY|openFlags, 0)
	if err != nil {
		s.old = nil
		if !errors.Is(err, fs.ErrNotExist) {
			return linkError(err)
		}
		if s.was != nil {
			return ErrChanged
		}
		return nil
	}
	now, err := contents(s.old, len(s.was))
	if err == nil && (s.was == nil || !bytes.Equal(now, s.was)) {
		err = ErrChanged
	}
	return err
}

// rename puts the temporary file in place.
func (s *swap) rename(temp, path string) error {
	x := exchanger(s.fs)
	if x == nil {
		return s.fs.Rename(temp, path)
	}
	if s.old == nil {
		err := x.RenameNoReplace(temp, path)
		if rename.Unsupported(err) {
			err = s.fs.Rename(temp, path)
		}
		return changed(err, fs.ErrExist)
	}
	if err := x.Exchange(temp, path); rename.Unsupported(err) {
		return s.fs.Rename(temp, path)
	} else if err != nil {
		return changed(err, fs.ErrNotExist)
	}
	if err := s.caught(temp); err != nil {
		return s.back(x, temp, err)
	}
	if s.late != nil {
		// While what was caught is a file still, the exchange can be undone.
		if err := SyncDir(s.fs, filepath.Dir(s.path)); err != nil {
			s.late = nil
			return s.back(x, temp, err)
		}
	}
	// Left behind when that fails; Sweep finds it.
	_ = s.fs.Remove(temp)
	return nil
}

// back undoes an exchange whose catch can be neither read nor merged. When
// something was renamed to path since, that stays there. Where the way back
// fails too, the catch is left in the temporary file.
func (s *swap) back(x Exchanger, temp string, cause error) error {
	for range 2 {
		if err := x.Exchange(temp, s.path); err != nil {
			return errors.Join(errKept, cause, err)
		}
		if f, err := s.fs.OpenFile(temp, os.O_RDONLY|openFlags, 0); err == nil {
			got, err := contents(f, len(s.data))
			_ = f.Close() // only read from
			if err == nil && bytes.Equal(got, s.data) {
				return cause
			}
		}
	}
	return cause
}

// errKept says that the temporary file must not be removed.
var errKept = errors.New("what stood there is in the temporary file beside it")

// changed translates the error that means that somebody was quicker.
func changed(err, quicker error) error {
	if errors.Is(err, quicker) {
		return ErrChanged
	}
	return err
}

// caught looks at what the exchange took from path.
func (s *swap) caught(temp string) error {
	f, err := s.fs.OpenFile(temp, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return linkError(err)
	}
	s.close()
	s.old = f
	return s.look()
}

// look reads the file again that is no longer in place.
func (s *swap) look() error {
	now, err := contents(s.old, len(s.was))
	if err == nil && !bytes.Equal(now, s.was) {
		s.late = now
	}
	return err
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
