package coordinator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"ralph/workers/git"
	"ralph/workers/git/trees"
)

// checkpointTime bounds one checkpoint; a tree too large for it is worked on
// without undo, and that is said.
const checkpointTime = 30 * time.Second

// ErrNothingToRedo reports that nothing was undone since files were changed last.
var ErrNothingToRedo = errors.New("there is nothing to redo")

// ErrNothingToUndo says that no turn is left whose changes could be undone.
var ErrNothingToUndo = errors.New("there is nothing to undo")

// changes knows what the work changes in the tree, whatever tool changed it: a
// checkpoint before the first call of a run that can change something, one
// after it, and of the difference what Ralph wrote.
type changes struct {
	points *git.Checkpoints
	repo   *git.Repo // nil without a repository
	root   string
	run    string
	trees  *trees.Trees // nil without a repository
	writes *writeLog
	warn   func(string)
	// homeless reports whether a warning about the missing state directory, and so
	// about undo, was given already; nil means no.
	homeless func() bool
	// began, if any, is called with HEAD before the first change of the first run.
	began func(head string)
	// left, if any, notes in changes of tasks what their plans have of them now.
	left func(ctx context.Context, list []taskChange)

	// mu guards what follows; begin holds it while it takes a checkpoint, so
	// that no call overtakes the checkpoint before it.
	mu     sync.Mutex
	n      int  // runs that began to take a checkpoint
	begun  bool // there is one from before this run
	failed bool // there is none, and that was said
	off    bool // there will never be one
	before git.Checkpoint
	head   string
	made   []git.BlobChange // by the run that ended last
	tasks  []taskChange     // by the run that is under way
	cutOff string           // the turn that was found cut off and got its checkpoint
	cancel context.CancelFunc

	compacting sync.Mutex // held while checkpoints are packed
}

// begin takes the checkpoint before the first change of a run; later calls in
// the same run do nothing. When ctx ends meanwhile there is none, and the call
// that asked for it is not run either.
func (c *changes) begin(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun || c.failed || c.off {
		return
	}
	if why := tooWide(c.root); why != "" {
		c.off = true
		c.warn(why)
		return
	}
	limited, cancel := context.WithTimeout(ctx, checkpointTime)
	defer cancel()
	c.n++
	c.writes.begin()
	before, err := c.points.Take(limited, c.id(git.BeforeTurn))
	if err == nil && c.repo != nil {
		c.head, err = c.repo.Head(limited)
	}
	switch {
	case err == nil:
		c.before, c.begun = before, true
		for i := range c.tasks {
			c.writes.task(&c.tasks[i])
		}
		if c.n == 1 && c.began != nil {
			c.began(c.head)
		}
	case ctx.Err() != nil:
		c.writes.end()
	default:
		c.writes.end()
		c.failed = true
		// What took too long once would hold up every run.
		c.off = limited.Err() != nil || errors.Is(err, git.ErrNoStore)
		if c.homeless != nil && c.homeless() {
			return
		}
		c.warn("no checkpoint was taken, so this work cannot be undone and its changes are not listed: " + err.Error())
	}
}

// start returns the checkpoint from before the first change of the run that is under
// way, and the commit that was checked out then; ok is false when nothing was changed.
func (c *changes) start() (cp git.Checkpoint, head string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.before, c.head, c.begun
}

// changed lists the paths that the run which is under way changed until now.
func (c *changes) changed(ctx context.Context) ([]string, error) {
	before, _, ok := c.start()
	if !ok {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkpointTime)
	defer cancel()
	files, err := c.points.Since(ctx, before)
	var paths []string
	for _, f := range files {
		paths = append(paths, f.Path)
	}
	return paths, err
}

// id names the checkpoint before or after the present run.
func (c *changes) id(mark string) string { return fmt.Sprintf("%s/%d%s", c.run, c.n, mark) }

// tooWide refuses to checkpoint a home directory or a whole disk.
func tooWide(root string) string {
	wide := root == "/"
	if home, err := os.UserHomeDir(); err == nil && !wide {
		h, herr := os.Stat(home)
		r, rerr := os.Stat(root)
		wide = herr == nil && rerr == nil && os.SameFile(h, r)
	}
	if wide {
		return fmt.Sprintf("%s is too wide for a checkpoint: work here cannot be undone and its changes are not listed", root)
	}
	return ""
}

// end takes the checkpoint after a run and says what changed in it. It is
// called once per run, with a context that a stop does not end.
func (c *changes) end(ctx context.Context) (files []git.FileChange, commits []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	begun, tasks := c.begun, c.tasks
	c.begun, c.failed, c.made, c.tasks = false, false, nil, nil
	if !begun {
		return nil, nil
	}
	defer c.writes.end()
	ctx, cancel := context.WithTimeout(ctx, checkpointTime)
	defer cancel()
	after, err := c.points.Take(ctx, c.id(git.AfterTurn))
	if err != nil {
		c.warn("the changes of this work are not listed (undo tries again, until other work begins): " + err.Error())
		return nil, nil
	}
	modes := c.writes.modes(c.before.Time)
	c.made, err = c.attribute(ctx, c.before, after, modes)
	if err != nil {
		c.warn("the changes of this work are not listed: " + err.Error())
	}
	for _, f := range c.made {
		files = append(files, f.FileChange)
	}
	drop := c.undone(ctx) // they do not fit what was done since
	if err == nil && len(files) > 0 {
		c.keepTasks(ctx, after, tasks)
	}
	if err == nil && len(files)+len(modes) == 0 {
		drop = []string{c.id(git.BeforeTurn), c.id(git.KeptOfTurn), after.ID}
	}
	if c.repo != nil {
		if commits, err = c.newCommits(ctx); err != nil {
			c.warn("the commits of this work are not listed: " + err.Error())
		}
	}
	if err := c.points.Drop(ctx, drop...); err != nil {
		c.warn("checkpoints that are of no use stay behind: " + err.Error())
	}
	return files, commits
}

// attribute lists what of the difference of two checkpoints is Ralph's, or may be, and
// has the earlier one, under its name, hold whatever is not surely Ralph's already, and the modes
// of files before.
func (c *changes) attribute(ctx context.Context, before, after git.Checkpoint, modes git.Modes) ([]git.BlobChange, error) {
	unsure := map[string]bool{}
	own, err := c.points.Graft(ctx, before, after, before.ID, func(path string, had bool) bool {
		w := c.writes.whose(path, before.Time, had)
		unsure[path] = w == mixed
		return w != ours
	})
	if err != nil {
		return nil, err
	}
	made, err := c.points.Blobs(ctx, own, after)
	if err != nil {
		return made, err
	}
	grafted := own != before
	if len(modes) > 0 {
		if _, err := c.points.Annotate(ctx, own, modes.Text()); err != nil {
			return made, err
		}
	}
	if !grafted {
		return made, nil
	}
	if err := c.points.Name(ctx, before, strings.TrimSuffix(before.ID, git.BeforeTurn)+git.KeptOfTurn); err != nil {
		return nil, err
	}
	all, err := c.points.Blobs(ctx, before, after)
	for _, b := range all {
		if unsure[b.Path] {
			made = append(made, b)
		}
	}
	slices.SortFunc(made, func(a, b git.BlobChange) int { return strings.Compare(a.Path, b.Path) })
	return made, err
}

func (c *changes) newCommits(ctx context.Context) ([]string, error) {
	head, err := c.repo.Head(ctx)
	if err != nil || head == c.head {
		return nil, err
	}
	return c.repo.CommitsSince(ctx, c.head)
}

// allOf returns the commits of this process, and those that earlier processes have
// merged for the same run and that the branch still has, oldest first.
func (c *changes) allOf(ctx context.Context, since string, merged, commits []string) []string {
	if c.repo == nil || !slices.ContainsFunc(merged, func(m string) bool { return !slices.Contains(commits, m) }) {
		return commits
	}
	list, err := c.repo.CommitsSince(ctx, since)
	if err != nil {
		c.warn("the commits of this run before it went on are not listed: " + err.Error())
		return commits
	}
	return slices.DeleteFunc(list, func(h string) bool { return !slices.Contains(merged, h) && !slices.Contains(commits, h) })
}

// diff is what the last turn changed, as a unified diff.
func (c *changes) diff(ctx context.Context) (string, error) {
	list, err := c.turns(ctx, false)
	if err != nil || len(list) == 0 {
		return "", err
	}
	return c.points.Diff(ctx, list[0].before, list[0].after)
}
