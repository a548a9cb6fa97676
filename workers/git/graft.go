package git

import (
	"bytes"
	"context"
	"fmt"
)

// Graft takes a checkpoint anew, under the given id and with its time, as if the files
// that pick chooses of those that differ in a later one had been so already then. pick
// gets a path, and whether it was there in at. It returns at itself when none are
// chosen.
func (c *Checkpoints) Graft(ctx context.Context, at, later Checkpoint, id string, pick func(path string, had bool) bool) (Checkpoint, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cp, err := c.graft(ctx, at, later, id, pick)
	if err != nil {
		return at, fmt.Errorf("take checkpoint %q anew: %w", at.ID, err)
	}
	return cp, nil
}

// graft is Graft; the caller holds mu.
func (c *Checkpoints) graft(ctx context.Context, at, later Checkpoint, id string, pick func(path string, had bool) bool) (Checkpoint, error) {
	if err := checkID(id); err != nil {
		return at, err
	}
	differ, err := c.compare(ctx, at, later, "--no-renames")
	if err != nil {
		return at, err
	}
	// What is gone comes first: a file may be where a directory was.
	var gone, there bytes.Buffer
	for _, e := range differ {
		switch {
		case !pick(e.path, e.oldMode != modeNone):
		case e.status == 'D':
			fmt.Fprintf(&gone, "0 %s\t%s\x00", e.oldHash, e.path)
		default:
			fmt.Fprintf(&there, "%s %s\t%s\x00", e.newMode, e.newHash, e.path)
		}
	}
	if gone.Len()+there.Len() == 0 {
		return at, nil
	}
	x, err := newIndex(c.gitDir, "")
	if err != nil {
		return at, err
	}
	defer x.remove()
	if _, err := c.run(ctx, call{args: []string{"read-tree", at.Tree}, env: x.env()}); err != nil {
		return at, err
	}
	if _, err := c.run(ctx, call{args: []string{"update-index", "-z", "--replace", "--index-info"}, env: x.env(), stdin: append(gone.Bytes(), there.Bytes()...)}); err != nil {
		return at, err
	}
	cp := at
	cp.ID = id
	if cp.Tree, err = c.place.tree(ctx, x); err != nil {
		return at, err
	}
	return c.keep(cp)
}
