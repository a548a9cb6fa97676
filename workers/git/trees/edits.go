package trees

import (
	"context"
	"fmt"

	"ralph/workers/git"
)

// Edit is what an agent did to one file: its content before and after, nil where
// it is not there. Big says that one of them was too big to be read, and is nil.
type Edit struct {
	Path          string // relative to the repository, with slashes
	Before, After []byte
	Big           bool
}

// Edits are the files that an agent has changed since it began, committed or not,
// in the order of their paths. The content of a link is where it leads; submodules
// are left out.
func (t *Trees) Edits(ctx context.Context, agent string) ([]Edit, error) {
	var list []Edit
	err := t.compare(ctx, agent, func(p git.Plumbing, base, tree string) error {
		changes, err := t.changed(ctx, base, tree)
		if err != nil {
			return err
		}
		var blobs []string
		for _, c := range changes {
			if isFile(c.oldMode) {
				blobs = append(blobs, c.oldHash)
			}
			if isFile(c.newMode) {
				blobs = append(blobs, c.newHash)
			}
		}
		texts, err := p.Contents(ctx, blobs)
		if err != nil {
			return err
		}
		for _, c := range changes {
			if !isFile(c.oldMode) && !isFile(c.newMode) {
				continue
			}
			e := Edit{Path: c.path}
			for _, side := range []struct {
				mode, hash string
				to         *[]byte
			}{{c.oldMode, c.oldHash, &e.Before}, {c.newMode, c.newHash, &e.After}} {
				if isFile(side.mode) {
					text, ok := texts[side.hash]
					*side.to, e.Big = text, e.Big || !ok
				}
			}
			list = append(list, e)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("edits of %q: %w", agent, err)
	}
	return list, nil
}

func isFile(mode string) bool {
	return mode != modeNone && mode != modeGitlink
}
