package identity

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/afero"

	"ralph/memory/durable"
)

// ErrInside is matched when the user's state directory and the project share
// files: what works in the project could write the records that it is judged by.
var ErrInside = errors.New("it is inside the project")

// maxLinks bounds the links that are followed in one path, as the kernel does.
const maxLinks = 40

// Outside returns home when it can keep records about the project at root. The
// error matches ErrNoHome when there is none, and ErrInside when home is the
// project, above it or below it, or is reached by a name that is looked up in the
// project, which a link there could lead elsewhere.
func Outside(home, root string) (string, error) {
	if home == "" {
		return "", ErrNoHome
	}
	if root == "" || !overlap(home, root) {
		return home, nil
	}
	return "", fmt.Errorf("%s: %w", home, ErrInside)
}

// overlap follows home from the root directory, a name at a time.
func overlap(home, root string) bool {
	if real, err := filepath.EvalSymlinks(root); err == nil {
		root = real
	}
	project, err := os.Stat(root)
	if err != nil {
		project = nil
	}
	at, rest, links := string(filepath.Separator), split(home), 0
	for len(rest) > 0 {
		if lies(at, root, project) {
			return true
		}
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		target, err := os.Readlink(next)
		if err != nil { // no link, or nothing yet
			at = next
			continue
		}
		if links++; links > maxLinks {
			return false // nothing can be opened there either
		}
		if filepath.IsAbs(target) {
			at = string(filepath.Separator)
		}
		rest = append(split(target), rest...)
	}
	return lies(at, root, project) || below(at, root)
}

// lies reports whether a directory is the project or below it. The project is
// found by its identity too, as a mount shows it at other paths.
func lies(dir, root string, project fs.FileInfo) bool {
	if below(root, dir) {
		return true
	}
	info, err := os.Stat(dir)
	return err == nil && project != nil && os.SameFile(info, project)
}

// below reports whether path is dir or lies in it.
func below(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && (rel == "." || filepath.IsLocal(rel))
}

func split(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == filepath.Separator })
}

// Writable tries whether home can hold another record, by writing a file there and
// removing it.
func Writable(fsys afero.Fs, home string) error {
	if home == "" {
		return ErrNoHome
	}
	if err := durable.MkdirAll(fsys, home, 0o700); err != nil {
		return err
	}
	path := filepath.Join(home, ".writable")
	if err := durable.Rewrite(fsys, path, make([]byte, 4096), 0o600); err != nil {
		return err
	}
	if err := fsys.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
