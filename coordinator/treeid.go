package coordinator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"ralph/memory"
	"ralph/workers/git"
)

const (
	// treeTime bounds what it may take to say which tree a check looks at.
	treeTime = time.Second
	// maxTreeFiles and maxTreeBytes bound the files that are read for it.
	maxTreeFiles = 500
	maxTreeBytes = 16 << 20
)

// tree names what a check is about to look at, so that two checks of the same files
// can be told from two of different ones: the commit that is checked out, and a
// checksum of what differs from it, if anything does. It is "" where that is not
// known, or not cheap to know.
func (s *station) tree(ctx context.Context) string {
	if s.repo == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, treeTime)
	defer cancel()
	loc, err := git.Find(s.root)
	if err != nil {
		return ""
	}
	commit, err := s.repo.Head(ctx)
	if err != nil || commit == "" {
		return ""
	}
	list, err := s.repo.Status(ctx)
	if err != nil {
		return ""
	}
	list = slices.DeleteFunc(list, func(c git.Change) bool { return ownState(c.Path) })
	if len(list) == 0 {
		return commit
	}
	if len(list) > maxTreeFiles {
		return ""
	}
	sum, room := sha256.New(), int64(maxTreeBytes)
	for _, c := range list {
		read, ok := addFile(sum, loc.Root, c.Path, room)
		if room -= read; !ok {
			return ""
		}
	}
	return commit + "+" + hex.EncodeToString(sum.Sum(nil)[:8])
}

// ownState says that a path is a file of Ralph's state, which changes while the
// work does not.
func ownState(path string) bool {
	return slices.Contains([]string{memory.GoalsFile, memory.TasksFile, memory.TodoFile, memory.ProgressFile, memory.AgentFile}, path)
}

// addFile adds a file to a checksum, as far as there is room; ok says that it is
// all there.
func addFile(sum io.Writer, root, path string, room int64) (read int64, ok bool) {
	full := filepath.Join(root, filepath.FromSlash(path))
	info, err := os.Lstat(full)
	mode := os.FileMode(0)
	if err == nil {
		mode = info.Mode()
	}
	fmt.Fprintf(sum, "%q %v ", path, mode)
	switch {
	case os.IsNotExist(err):
		return 0, true
	case err != nil:
		return 0, false
	case mode&os.ModeSymlink != 0:
		target, err := os.Readlink(full)
		fmt.Fprintf(sum, "%q", target)
		return 0, err == nil
	case !mode.IsRegular() || info.Size() > room:
		return 0, false
	}
	fmt.Fprintf(sum, "%d ", info.Size())
	f, err := os.Open(full)
	if err != nil {
		return 0, false
	}
	defer func() { _ = f.Close() }() // it was only read
	read, err = io.Copy(sum, io.LimitReader(f, room))
	return read, err == nil
}
