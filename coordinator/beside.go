package coordinator

import (
	"context"
	"time"

	"ralph/workers/git"
)

// theirsMark ends the name of a checkpoint that is taken only to compare.
const theirsMark = ".theirs"

// theirsTime bounds a checkpoint that the user's command, or its result, waits for.
const theirsTime = 3 * time.Second

// beside calls do, with which the user changes files in the midst of a run, or
// outside of any. In a run it has the checkpoint before it hold what do changed, so
// that this is not the run's. quiet says whether nothing of the run could change a
// file now, and how many calls there were; where something could, or a checkpoint
// fails, the change is the run's as any is that somebody makes meanwhile.
func (c *changes) beside(ctx context.Context, quiet func() (calls int, ok bool), do func()) {
	from, mark, ok := c.markTheirs(ctx, quiet)
	do()
	if ok {
		c.giveTheirs(context.WithoutCancel(ctx), from, mark, quiet)
	}
}

// stand is how far a run is: while it is the same, no call of it began.
type stand struct{ run, calls, began int }

// markTheirs takes the checkpoint before the user's change.
func (c *changes) markTheirs(ctx context.Context, quiet func() (int, bool)) (from git.Checkpoint, at stand, ok bool) {
	if !c.mu.TryLock() { // a call begins, or the run ends: nobody waits for that
		return from, at, false
	}
	defer c.mu.Unlock()
	if !c.begun {
		return from, at, false
	}
	began, still := quiet()
	if !still {
		return from, at, false
	}
	from, err := c.takeTheirs(ctx)
	return from, stand{c.n, c.calls, began}, err == nil
}

// takeTheirs takes a checkpoint that no list shows; mu is held.
func (c *changes) takeTheirs(ctx context.Context) (git.Checkpoint, error) {
	ctx, cancel := context.WithTimeout(ctx, theirsTime)
	defer cancel()
	p, err := c.points.Take(ctx, c.id(theirsMark))
	if err != nil {
		return p, err
	}
	return p, c.points.Drop(ctx, p.ID) // its objects stay for long enough
}

// giveTheirs puts what changed since from into the checkpoint before the run.
func (c *changes) giveTheirs(ctx context.Context, from git.Checkpoint, at stand, quiet func() (int, bool)) {
	if !c.mu.TryLock() {
		return
	}
	defer c.mu.Unlock()
	began, still := quiet()
	if !still || !c.begun || at != (stand{c.n, c.calls, began}) {
		return
	}
	to, err := c.takeTheirs(ctx)
	if err != nil || to.Tree == from.Tree {
		return
	}
	if before, err := c.points.Graft(ctx, c.before, from, to); err == nil {
		c.before = before
	}
}

// atHand counts the calls of the work so far, and says whether nothing of it runs
// now that could change a file in the user's tree.
func (c *Coordinator) atHand() (calls int, quiet bool) {
	c.mu.Lock()
	guests := len(c.guests)
	c.mu.Unlock()
	calls, running := c.eyes.calls()
	return calls, running+guests+len(c.background()) == 0 && !c.crew.AtWork()
}

// calls counts the calls that began, and those that run.
func (y *eyes) calls() (began, running int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.began, len(y.running)
}
