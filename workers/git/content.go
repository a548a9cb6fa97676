package git

import (
	"context"
	"fmt"
)

// Content is what a file holds in a commit, byte for byte as it is stored:
// without filters and without conversion of line ends. path is relative to the
// root of the work tree. A file that the commit does not have, and a repository
// without commits, give nil and no error.
func (r *Repo) Content(ctx context.Context, rev, path string) ([]byte, error) {
	if err := checkRevision(rev); err != nil {
		return nil, fmt.Errorf("git cat-file: %w", err)
	}
	paths, err := checkPaths([]string{path})
	if err != nil {
		return nil, fmt.Errorf("git cat-file: %w", err)
	}
	name := rev + ":" + paths[0]
	// cat-file says by its exit code alone whether there is such a thing.
	out, err := r.run(ctx, call{args: []string{"rev-parse", "--verify", "--quiet", "--end-of-options", name}, allow: []int{1}})
	if err != nil || len(out) == 0 {
		return nil, err
	}
	out, err = r.run(ctx, call{args: []string{"cat-file", "blob", name}})
	if err == nil && out == nil {
		out = []byte{}
	}
	return out, err
}
