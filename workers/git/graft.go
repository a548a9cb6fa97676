package git

import (
	"bytes"
	"context"
	"fmt"
)

// Graft takes a checkpoint anew, under its id and with its time, as if what differs
// between two later ones had been so already then: what somebody else changed
// meanwhile is no difference to what follows any more. Files that had changed
// between at and from already stay as they are in at. It returns at itself when
// nothing is to be done.
func (c *Checkpoints) Graft(ctx context.Context, at, from, to Checkpoint) (Checkpoint, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cp, err := c.graft(ctx, at, from, to)
	if err != nil {
		return at, fmt.Errorf("take checkpoint %q anew: %w", at.ID, err)
	}
	return cp, nil
}

// graft is Graft; the caller holds mu.
func (c *Checkpoints) graft(ctx context.Context, at, from, to Checkpoint) (Checkpoint, error) {
	if err := checkID(at.ID); err != nil {
		return at, err
	}
	before, err := c.compare(ctx, at, from)
	if err != nil {
		return at, err
	}
	changed := map[string]bool{}
	for _, e := range before {
		changed[e.path] = true
	}
	theirs, err := c.compare(ctx, from, to)
	if err != nil {
		return at, err
	}
	// What is gone comes first: a file may stand where a directory was.
	var gone, there bytes.Buffer
	for _, e := range theirs {
		switch {
		case changed[e.path]:
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
	if cp.Tree, err = c.place.tree(ctx, x); err != nil {
		return at, err
	}
	return c.keep(cp)
}
