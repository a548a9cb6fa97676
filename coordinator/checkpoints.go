package coordinator

import (
	"context"
	"path/filepath"
	"time"

	"ralph/memory/identity"
	"ralph/memory/text"
	"ralph/workers/exec"
	"ralph/workers/git"
)

const (
	// checkpointAge and checkpointsKept bound how long a turn can be undone: for 30
	// days, and the newest hundred turns at any age.
	checkpointAge   = 30 * 24 * time.Hour
	checkpointsKept = 200
)

// openCheckpoints opens the checkpoints of a project.
func (o Options) openCheckpoints(p *exec.Runner, loc *git.Location) *git.Checkpoints {
	return git.OpenCheckpoints(p, o.Root, filepath.Join(o.Root, ".ralph"), identity.CheckpointDir(o.owned().Home(), o.Root), loc)
}

// adopt takes over the checkpoints of an older Ralph. The project's lock is held and
// nothing works yet.
func (c *changes) adopt(ctx context.Context) {
	if tooWide(c.root) != "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkpointTime)
	defer cancel()
	switch n, err := c.points.Adopt(ctx); {
	case err != nil:
		c.warn("earlier work cannot be undone: " + err.Error())
	case n > 0:
		c.warn(text.Count(n, "checkpoint") + " moved from the project to the user's state directory")
	}
}

// compact removes old checkpoints and packs the others, beside the work. One at a
// time does; stop ends it.
func (c *changes) compact(ctx context.Context, now time.Time) {
	if c.off || !c.compacting.TryLock() {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	c.mu.Lock()
	c.cancel = cancel
	c.mu.Unlock()
	go func() {
		defer c.compacting.Unlock()
		defer cancel()
		// What fails, or is cut off, is done after a later turn.
		_ = c.points.Compact(ctx, now.Add(-checkpointAge), checkpointsKept)
	}()
}

// stop ends what compact has begun and waits for it.
func (c *changes) stop() {
	c.mu.Lock()
	cancel := c.cancel
	c.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	c.compacting.Lock()
	defer c.compacting.Unlock()
}
