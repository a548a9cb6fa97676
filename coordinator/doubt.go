package coordinator

import (
	"context"

	"ralph/coordinator/policy/tamper"
	"ralph/workers/git"
)

// doubt warns of what in the changes that a check has just proven makes that check
// prove less. In the user's own tree nothing waits to be merged: what the
// coordinator changed there itself, and without git its agents, is told and stays.
func (c *Coordinator) doubt(ctx context.Context) {
	files, err := c.changes.contents(ctx)
	if err != nil {
		c.warn("whether the changes weaken the checks is not known: " + err.Error())
		return
	}
	for _, f := range tamper.Inspect(files, c.agreedChecks()) {
		if f.Blocks && !f.Expectation {
			c.warn("a check passed, and what was changed makes it prove less: " + findingText(f))
		}
	}
}

// contents are the files that the run which ended last changed, as they were and
// as they are.
func (c *changes) contents(ctx context.Context) ([]tamper.File, error) {
	c.mu.Lock()
	made := c.made
	c.mu.Unlock()
	var blobs []string
	for _, b := range made {
		for _, id := range []string{b.Before, b.After} {
			if id != "" {
				blobs = append(blobs, id)
			}
		}
	}
	if len(blobs) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkpointTime)
	defer cancel()
	texts, err := c.points.Contents(ctx, blobs)
	if err != nil {
		return nil, err
	}
	var files []tamper.File
	for _, b := range made {
		f := tamper.File{Path: b.Path, Before: texts[b.Before], After: texts[b.After]}
		if b.After != "" && f.After == nil { // what checks the work is not hidden by its length
			f.After = []byte{0}
		}
		if b.Kind == git.Renamed {
			files = append(files, tamper.File{Path: b.OldPath, Before: f.Before})
			f.Before = nil
		}
		files = append(files, f)
	}
	return files, nil
}
