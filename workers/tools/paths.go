package tools

import (
	"context"
	"errors"
	"io/fs"
)

// errEnough ends a walk that has found what it may.
var errEnough = errors.New("enough was found")

// Files lists the regular files and links below the root, relative to it, at most
// so many, leaving out what walks leave out. more says that there are others, or
// that not everything could be looked at.
func (w *Workspace) Files(ctx context.Context, most int) (paths []string, more bool, err error) {
	dir, base, err := w.OpenDir(".")
	if err != nil {
		return nil, false, err
	}
	defer dir.Close()
	k, err := w.walk(ctx, dir, base, func(e entry) error {
		switch {
		case e.d.Type()&^fs.ModeSymlink != 0:
			return nil // a directory, a pipe, a device
		case len(paths) == most:
			return errEnough
		}
		paths = append(paths, e.path)
		return nil
	})
	if errors.Is(err, errEnough) {
		return paths, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	return paths, k.cut, nil
}
