package coordinator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"ralph/coordinator/loop"
	"ralph/coordinator/plan"
	"ralph/memory/project"
	"ralph/workers/agent"
	"ralph/workers/tempdir"
)

// detection holds the state of the detected check: whether its command was shown, and its
// results on states before the work.
type detection struct {
	shown sync.Once // the user was shown which command was chosen
	// mu guards baselines and is held while tests run on a state before the work, so
	// that agents which begin with the same state share one run.
	mu        sync.Mutex
	baselines map[string]int // exit codes, by tree and command
}

// detected makes a check of each of the project's own tests, so that each kind of
// project has a baseline of its own.
func detected(tests []project.Command) []plan.Check {
	var list []plan.Check
	for _, t := range tests {
		list = append(list, plan.Check{Command: t.Line(), Detected: true})
	}
	return list
}

// projectTests returns the project's own tests as they are now: work can bring the
// first. There are none where --check none switches them off.
func (c *Coordinator) projectTests() []project.Command {
	if c.cfg.Check == loop.CheckNone {
		return nil
	}
	p, err := project.Detect(c.closing, c.opt.Root)
	if err != nil {
		return nil // the start said so
	}
	return p.Tests()
}

// detects reports whether there is a detected check.
func (c *Coordinator) detects() bool { return len(c.projectTests()) > 0 }

// showDetected shows once which commands were chosen, and why.
func (c *Coordinator) showDetected(tests []project.Command) {
	if len(tests) == 0 {
		return
	}
	c.detection.shown.Do(func() {
		line, source := project.Script(tests)
		c.events.emit(agent.Event{Type: agent.EventDecision, Status: "check", Text: "what names no check is checked with: " + line,
			Reason: fmt.Sprintf("the project's own tests, found by %s; --check CMD names another, --check none switches it off", source)})
	})
}

// detectedFor returns the detected checks of the work at st, and the state before that
// work.
func (c *Coordinator) detectedFor(ctx context.Context, st *station) ([]plan.Check, state, error) {
	changed, before, err := c.since(ctx, st)
	if err != nil {
		return nil, before, err
	}
	return c.ownTests(changed), before, nil
}

// ownTests returns the detected checks of work that changed some files: none where
// nothing but prose changed.
func (c *Coordinator) ownTests(changed []string) []plan.Check {
	if !slices.ContainsFunc(changed, func(p string) bool { return !prose(p) }) {
		return nil
	}
	tests := c.projectTests()
	c.showDetected(tests)
	return detected(tests)
}

// commandsOf returns the checks that the work of an order has to pass.
func (c *Coordinator) commandsOf(o loop.Order) []string {
	if len(o.Checks) == 0 {
		return plan.Commands(detected(c.projectTests()))
	}
	return plan.Commands(o.Checks)
}

// prose reports whether a file holds text for people: no test depends on it.
func prose(name string) bool {
	for _, dir := range strings.Split(path.Dir(strings.ToLower(name)), "/") {
		switch dir {
		case "testdata", "test", "tests", "spec", "specs", "fixtures", "__fixtures__", "__snapshots__", "golden", "goldens":
			return false
		}
	}
	base := strings.ToLower(path.Base(name))
	switch path.Ext(base) {
	case ".md", ".markdown", ".rst", ".adoc":
		return true
	case ".txt": // what build tools read is no prose
		return !strings.HasPrefix(base, "cmakelists") && !strings.HasPrefix(base, "requirements") && !strings.HasPrefix(base, "constraints")
	case "":
		return slices.Contains([]string{"readme", "license", "licence", "copying", "authors", "changelog", "changes", "contributing", "notice", "todo", "news"}, base)
	}
	return false
}

// state gives the files as they were before some work. tree names it; write puts the
// files of the repository, or of the project where there is none, into an empty
// directory.
type state struct {
	tree  string
	write func(ctx context.Context, dir string) error
}

// excuse notes in res how a detected check that did not pass ended on the state
// before the work, and why that does not fail the work, where it does not. A named
// check has no excuse.
func (c *Coordinator) excuse(ctx context.Context, st *station, check plan.Check, res *checked, before state) error {
	switch {
	case !check.Detected || res.passed():
		return nil
	case res.TimedOut:
		res.Excused = fmt.Sprintf("it did not end within %v (--check-timeout)", c.cfg.CheckTimeout)
	default:
		code, err := c.baseline(ctx, st, check, before)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			c.warn(fmt.Sprintf("whether the check %q failed before the work too is not known: %v", check.Command, err))
			return nil
		}
		if res.Baseline = &code; code == 0 {
			return nil
		}
		res.Excused = fmt.Sprintf("it failed before the work too, with exit code %d", code)
	}
	c.warn(fmt.Sprintf("the check %q proves nothing: %s", check.Command, res.Excused))
	return nil
}

// errNoStateBefore reports that the state before the work is not at hand.
var errNoStateBefore = errors.New("the state before the work was not kept")

// baseline returns how a check ends on the state before the work, in a directory of
// its own: it runs once for each state and command. A run that takes too long ends
// with timedOutCode.
func (c *Coordinator) baseline(ctx context.Context, st *station, check plan.Check, before state) (int, error) {
	if before.tree == "" {
		return 0, errNoStateBefore
	}
	d := &c.detection
	d.mu.Lock()
	defer d.mu.Unlock()
	key := before.tree + "\x00" + check.Command
	if code, ok := d.baselines[key]; ok {
		return code, nil
	}
	code, err := c.runBefore(ctx, st, check, before)
	if err != nil {
		return 0, err
	}
	if d.baselines == nil {
		d.baselines = map[string]int{}
	}
	d.baselines[key] = code
	return code, nil
}

func (c *Coordinator) runBefore(ctx context.Context, st *station, check plan.Check, before state) (code int, err error) {
	dir, remove, err := c.emptyDir(st)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if err := before.write(ctx, dir); err != nil {
		return 0, err
	}
	var linked []string
	if c.trees != nil {
		if linked, err = c.trees.LinkDependencies(ctx, dir); err != nil {
			return 0, err
		}
	}
	cage, root, err := c.openCheckout(st, dir, st.cage.Caches(), false)
	if err != nil {
		return 0, err
	}
	commands := []string{check.Command}
	if set := c.setUp(root); set != "" && len(linked) == 0 {
		commands = []string{set, check.Command}
	}
	res, err := c.runAndClose(ctx, cage, root, checkEnv(check), commands...)
	if res.TimedOut {
		return timedOutCode, err
	}
	return res.ExitCode, err
}

// emptyDir makes a directory that no agent sees, or where the sandbox is off one for
// temporary files. The caller calls remove.
func (c *Coordinator) emptyDir(st *station) (dir string, remove func() error, err error) {
	if caches := st.cage.Caches(); caches != nil {
		return caches.Checkout()
	}
	temp, err := tempdir.Make("", "before")
	if err != nil {
		return "", nil, fmt.Errorf("make a directory for the state before the work: %w", err)
	}
	return temp.Path, temp.Remove, nil
}

// checkEnv returns what a check finds in its environment besides what commands have.
func checkEnv(check plan.Check) []string {
	if check.Detected {
		return []string{"CI=1"}
	}
	return nil
}

// since returns what the work that is checked at st changed, and the state before it.
// Without git, where all work on one tree, that is the work of all since the turn
// began.
func (c *Coordinator) since(ctx context.Context, st *station) (changed []string, before state, err error) {
	if st.proves == nil {
		changed, err = c.changes.changed(ctx)
		return changed, c.beforeTurn(), err
	}
	work := *st.proves
	return work.Changed, state{tree: work.BaseTree, write: func(ctx context.Context, dir string) error {
		_, err := c.repo.Checkout(ctx, work.Base, dir)
		return err
	}}, nil
}

// beforeTurn returns the state of the user's tree before the turn that is under way.
func (c *Coordinator) beforeTurn() state {
	cp, head, ok := c.changes.start()
	if !ok {
		return state{}
	}
	return state{tree: cp.Tree, write: func(ctx context.Context, dir string) error {
		if c.repo != nil && head != "" { // tests may look at the repository
			if _, err := c.repo.Checkout(ctx, head, dir); err != nil {
				return err
			}
			rel, err := filepath.Rel(c.loc.Root, c.opt.Root)
			if err != nil {
				return fmt.Errorf("find the project in its repository: %w", err)
			}
			if err := removeFiles(filepath.Join(dir, rel)); err != nil {
				return err
			}
		}
		return c.changes.points.Export(ctx, cp, dir)
	}}
}

// removeFiles empties a work tree and leaves its repository.
func removeFiles(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("empty a checkout: %w", err)
	}
	for _, e := range entries {
		if e.Name() == ".git" {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("empty a checkout: %w", err)
		}
	}
	return nil
}
