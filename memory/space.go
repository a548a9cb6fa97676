package memory

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/afero"
	"golang.org/x/sys/unix"

	"ralph/memory/durable"
)

// Space is how much room the project's state has and takes.
type Space struct {
	// FreeBytes and FreeInodes are what is left to this user on the state's
	// filesystem; -1 when that cannot be told.
	FreeBytes, FreeInodes int64
	// Mount is where that filesystem is mounted; empty when not known.
	Mount string
	// StateBytes is the size of all of `.ralph/`, Parts by what stands directly
	// in it, such as "sessions".
	StateBytes int64
	Parts      map[string]int64
}

// Below these Ralph warns when a project is opened.
const (
	lowBytes  = 64 << 20
	lowInodes = 1000
)

// Measure tells of the project at root. It walks all of `.ralph/`, only reads,
// and takes no lock. fsys nil means the real disk; of another one the free room
// is not known.
func Measure(fsys afero.Fs, root string) (Space, error) {
	if fsys == nil {
		fsys = durable.Disk()
	}
	sp, state := free(fsys, root), filepath.Join(root, ".ralph")
	sp.Parts = map[string]int64{}
	err := afero.Walk(fsys, state, func(path string, info fs.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return nil // what cannot be read, or went away meanwhile, is not counted
		}
		rel, err := filepath.Rel(state, path)
		if err != nil {
			return err
		}
		part, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
		sp.Parts[part] += info.Size()
		sp.StateBytes += info.Size()
		return nil
	})
	if err != nil {
		return sp, fmt.Errorf("measure %q: %w", state, err)
	}
	return sp, nil
}

func free(fsys afero.Fs, root string) Space {
	sp := Space{FreeBytes: -1, FreeInodes: -1}
	var st unix.Statfs_t
	if !durable.OnDisk(fsys) || unix.Statfs(root, &st) != nil {
		return sp
	}
	sp.FreeBytes = int64(st.Bavail) * int64(st.Bsize)
	if st.Files > 0 { // some filesystems have no fixed number of them
		sp.FreeInodes = int64(st.Ffree)
	}
	sp.Mount = durable.MountPoint(fsys, filepath.Join(root, ".ralph"))
	return sp
}

// lowSpace warns before the room is used up.
func (s *Store) lowSpace(rec *Recovery) {
	if s.readOnly {
		return
	}
	sp := free(s.fs, s.root)
	switch {
	case sp.FreeBytes >= 0 && sp.FreeBytes < lowBytes:
		rec.Warnings = append(rec.Warnings, fmt.Sprintf("the filesystem mounted at %s has only %d MiB left: what cannot be saved will be held in memory", sp.Mount, sp.FreeBytes>>20))
	case sp.FreeInodes >= 0 && sp.FreeInodes < lowInodes:
		rec.Warnings = append(rec.Warnings, fmt.Sprintf("the filesystem mounted at %s has room for only %d more files: what cannot be saved will be held in memory", sp.Mount, sp.FreeInodes))
	}
}
