package coordinator

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// maxFiles bounds what Files lists.
const maxFiles = 200_000

// Files lists the files of the project, below its root, with slashes and sorted:
// those that git tracks, if they are there, and new ones that it does not ignore;
// without a repository what the .gitignore files leave. Ralph's own directory and
// git's are left out, and so are directories themselves. more says that there are
// others than the first 200,000. It reads the disk anew at each call.
func (c *Coordinator) Files(ctx context.Context) (paths []string, more bool, err error) {
	if c.repo != nil {
		if paths, err = c.trackedFiles(ctx); err == nil {
			more = len(paths) > maxFiles
			return paths[:min(len(paths), maxFiles):len(paths)], more, nil
		}
		if ctx.Err() != nil {
			return nil, false, fmt.Errorf("list files: %w", context.Cause(ctx))
		}
		// A repository that git refuses still has files.
	}
	paths, more, err = c.station.work.Files(ctx, maxFiles)
	if err != nil {
		return nil, false, fmt.Errorf("list files: %w", err)
	}
	slices.Sort(paths)
	return paths, more, nil
}

// trackedFiles are the files that git knows or would take.
func (c *Coordinator) trackedFiles(ctx context.Context) ([]string, error) {
	dir := ""
	if c.loc != nil {
		rel, err := filepath.Rel(c.loc.Root, c.opt.Root)
		if err != nil {
			return nil, err
		}
		if rel != "." {
			dir = filepath.ToSlash(rel)
		}
	}
	all, err := c.repo.Files(ctx, dir)
	if err != nil {
		return nil, err
	}
	if dir == "" {
		return all, nil
	}
	for i, p := range all {
		all[i] = strings.TrimPrefix(p, dir+"/")
	}
	return all, nil
}
