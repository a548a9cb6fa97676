package backup

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// unlock gives the owner back the right to a directory and to those above it, which
// Landlock does not keep a command from taking.
func unlock(dir string) error {
	for at := "/"; at != dir; {
		part, _, _ := strings.Cut(strings.TrimPrefix(dir[len(at):], "/"), "/")
		at = filepath.Join(at, part)
		info, err := os.Lstat(at)
		if err == nil && info.IsDir() && info.Mode()&0o100 == 0 {
			err = os.Chmod(at, info.Mode().Perm()|0o700)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unlockAll does the same for what is in a directory.
func unlockAll(dir string) error {
	return filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode()&0o600 != 0o600 && info.Mode()&fs.ModeSymlink == 0 {
			err = os.Chmod(at, 0o700)
		}
		return err
	})
}
